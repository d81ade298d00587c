use super::view::{Suspend, SuspendView};

/// Whenever a read waits. A die does this itself, without asking.
#[derive(Clone, Copy, Debug, Default)]
pub struct Always;

impl Suspend for Always {
    fn suspends(&mut self, _view: &mut SuspendView<'_>) -> bool {
        true
    }
}
