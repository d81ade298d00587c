use super::view::{Filler, Source, Stream, StreamCounts, StreamView};

/// Separation by estimated times of invalidation (Wang et al., "Separating Data via Block Invalidation Time Inference for Write
/// Amplification Reduction in Log-Structured Storage", FAST 2022, Algorithm 1: "SepBIT").
///
/// A unit that replaces one which lived shortly is expected to live shortly, too: it goes to class 1, others to class 2. What is moved out
/// of class 1 goes to class 3, and what is moved out of the others to classes 4 to 6, by its age. Shortly is less than `l`, the average
/// life of the last 16 superblocks of class 1 that were emptied, from opening to emptying. All times are in units written by the host.
///
/// Streams 0 and 1 of the host are classes 1 and 2; streams 0 to 3 of the collector are classes 3 to 6.
#[derive(Clone, Copy, Debug)]
pub struct SepBit {
    /// `l`; endless before 16 superblocks of class 1 were emptied.
    life: u64,
    /// Lives of those emptied since it was computed, and their number.
    lives: u64,
    emptied: u64,
}

/// Superblocks of class 1 over which `l` is an average.
const WINDOW: u64 = 16;

const CLASS_1: Filler = Filler::Host(0);

impl Default for SepBit {
    fn default() -> Self {
        SepBit { life: u64::MAX, lives: 0, emptied: 0 }
    }
}

impl Stream for SepBit {
    fn counts(&self) -> StreamCounts {
        StreamCounts { host: 2, collector: 4 }
    }

    fn needs_last_write(&self) -> bool {
        true
    }

    fn place(&mut self, view: &mut StreamView<'_>) -> u32 {
        // One that was never written has no end in sight.
        let age = view.last_write().map_or(u64::MAX, |last| view.now() - last);
        match view.source() {
            None => u32::from(age >= self.life),
            Some(Source { filled_by: Some(CLASS_1), .. }) => 0,
            Some(_) if age < self.life.saturating_mul(4) => 1,
            Some(_) if age < self.life.saturating_mul(16) => 2,
            Some(_) => 3,
        }
    }

    fn collects(&mut self, source: Source, now: u64) {
        if source.filled_by != Some(CLASS_1) {
            return;
        }
        self.lives += now - source.opened_at;
        self.emptied += 1;
        if self.emptied == WINDOW {
            self.life = self.lives / WINDOW;
            (self.lives, self.emptied) = (0, 0);
        }
    }
}
