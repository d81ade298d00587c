use super::view::{Ahead, Prefetch, PrefetchView};

/// Reads nothing ahead. A drive does this itself, without asking.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nothing;

impl Prefetch for Nothing {
    fn ahead(&mut self, _view: &mut PrefetchView<'_>) -> Option<Ahead> {
        None
    }
}
