use super::view::{Ahead, Prefetch, PrefetchView};

/// What follows in sequential streams, as in the framework of Linux (Wu, Xi and Xu, "On the Design of a New Linux Readahead Framework",
/// 2008): a window begins small, doubles up to a limit, and the next one is read when the host has used half of what is ahead.
///
/// A stream begins with a read that continues none, and is known from its third read on, so that two random reads side by side cost nothing.
/// The stream that was read least recently makes place for another. Linux keeps such state for each open file; a drive sees none, and this
/// one tells 16 streams apart by their addresses.
#[derive(Clone, Debug)]
pub struct Sequential {
    units_max: u32,
    /// The one that was read last is the last.
    streams: Vec<Known>,
}

/// A stream of reads.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// The unit after the last one that was read.
    next: u64,
    /// The unit up to which it was read ahead; `next` or before if that is used up.
    end: u64,
    /// Reads, until it is known.
    reads: u32,
    window: u32,
}

/// Streams that are told apart.
const STREAMS: usize = 16;

/// Reads that make a stream.
const READS: u32 = 3;

/// Units of the first window, at least.
const WINDOW_FIRST: u32 = 4;

/// Units by which a read may overtake others of its stream, or be overtaken.
const DISORDER: u64 = 64;

impl Sequential {
    /// With this longest window.
    pub fn new(units_max: u32) -> Self {
        Sequential { units_max, streams: Vec::with_capacity(STREAMS) }
    }
}

impl Known {
    /// Whether it goes on with a read at `first`.
    fn has(&self, first: u64) -> bool {
        let is_near = || first < self.end.max(self.next) && first + DISORDER >= self.next;
        first == self.next || self.reads >= READS && is_near()
    }
}

impl Prefetch for Sequential {
    fn ahead(&mut self, view: &mut PrefetchView<'_>) -> Option<Ahead> {
        let (first, after) = (view.first(), view.first() + u64::from(view.count()));
        let found = self.streams.iter().rposition(|stream| stream.has(first));
        let mut stream = match found {
            Some(at) => self.streams.remove(at),
            None => {
                if self.streams.len() == STREAMS {
                    self.streams.remove(0);
                }
                Known { next: first, end: first, reads: 0, window: 0 }
            }
        };
        stream.reads = (stream.reads + 1).min(READS);
        stream.next = stream.next.max(after);
        let begin = stream.end.max(stream.next);
        let left = (begin - stream.next).min(u32::MAX.into()) as u32;
        let mut ahead = None;
        // At most a part of the cache, which other streams share. A read that is as long has its parallelism of its own: what is ahead of it would
        // only cut it in two.
        let limit = self.units_max.min(view.room() / 4).max(1);
        if stream.reads == READS && view.count() < limit && left <= stream.window / 2 {
            let doubled = stream.window.saturating_mul(2);
            stream.window = doubled.max(WINDOW_FIRST).max(view.count()).min(limit);
            let count =
                u64::from(stream.window - left.min(stream.window)).min(view.units().saturating_sub(begin));
            stream.end = begin + count;
            ahead = (count > 0).then_some(Ahead { first: begin, count: count as u32 });
        }
        self.streams.push(stream);
        ahead
    }
}
