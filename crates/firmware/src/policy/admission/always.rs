use super::view::{Admission, AdmissionView};

/// Keeps all: the cache is one of the least recently used. A drive does this itself, without asking.
#[derive(Clone, Copy, Debug, Default)]
pub struct Always;

impl Admission for Always {
    fn admits(&mut self, _view: &mut AdmissionView<'_>) -> bool {
        true
    }
}
