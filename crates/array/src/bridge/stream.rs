//! Detection of sequential streams among writes: those that continue near the end of an earlier one.

/// Streams tracked at a time.
const STREAMS: usize = 32;

/// End of the last write of each stream, in bytes.
pub(super) struct Streams {
    ends: [u64; STREAMS],
    next: usize,
    window: u64,
}

impl Streams {
    /// Concurrent writes arrive in any order, so a write belongs to a stream if it begins at most `window`
    /// bytes from its end.
    pub(super) fn new(window: u64) -> Self {
        Streams { ends: [u64::MAX; STREAMS], next: 0, window }
    }

    /// Records a write. Returns whether it continues a known stream.
    pub(super) fn goes_on(&mut self, at: u64, bytes: u64) -> bool {
        let (end, window) = (at + bytes, self.window);
        match self.ends.iter_mut().find(|known| **known != u64::MAX && known.abs_diff(at) <= window) {
            Some(known) => {
                *known = end.max(*known);
                true
            }
            None => {
                self.ends[self.next] = end;
                self.next = (self.next + 1) % STREAMS;
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Sequential writes taken for random ones would fill the memory meant for the latter; the reverse would
    // leave it unused.
    #[test]
    fn streams_are_told_from_chance() {
        let mut streams = Streams::new(4096);
        let goes_on: Vec<bool> = [0, 512, 1536, 1024, 2048].map(|at| streams.goes_on(at, 512)).to_vec();
        assert_eq!(goes_on, [false, true, true, true, true], "in any order");
        assert!(!streams.goes_on(1 << 30, 512));
        assert!(streams.goes_on(2560, 512), "one among others");
        for chance in 2..40 {
            assert!(!streams.goes_on(chance << 30, 512));
        }
        assert!(!streams.goes_on(3072, 512), "it was followed by too many others");
    }
}
