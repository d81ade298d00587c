use super::view::{Stream, StreamCounts, StreamView};

/// What the host writes, and what garbage collection moves: one stream each, as in most drives ("SepGC" of the SepBIT paper).
#[derive(Clone, Copy, Debug, Default)]
pub struct Separate;

impl Stream for Separate {
    fn counts(&self) -> StreamCounts {
        StreamCounts::SEPARATE
    }

    fn place(&mut self, _view: &mut StreamView<'_>) -> u32 {
        0
    }
}
