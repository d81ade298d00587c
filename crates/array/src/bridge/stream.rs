//! Sequential streams among writes: those that go on where others ended, more or less.

/// Streams that are followed.
const STREAMS: usize = 32;

/// Where the last writes of streams ended, bytes.
pub(super) struct Streams {
    ends: [u64; STREAMS],
    next: usize,
    window: u64,
}

impl Streams {
    /// Writes that are in flight at once come in any order: one is of a stream if it begins at most `window` bytes from its end.
    pub(super) fn new(window: u64) -> Self {
        Streams { ends: [u64::MAX; STREAMS], next: 0, window }
    }

    /// Notes a write. Whether it is of a stream that was there.
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

    // Sequential writes that are taken for random ones fill the memory that is for the latter, and the other way round nothing uses it.
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
