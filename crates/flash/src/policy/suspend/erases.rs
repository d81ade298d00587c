use super::view::{Suspend, SuspendView};

/// Only erases, which are several times as long as programs, and which some parts can suspend when they can't suspend programs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Erases;

impl Suspend for Erases {
    fn suspends(&mut self, view: &mut SuspendView<'_>) -> bool {
        view.is_erase()
    }
}
