//! Writes that are no whole units of what a drive maps and protects by a code: they are merged with the rest, one after the other.

use crate::config::MergeConfig;
use byteway_clock::{Delay, Service, Time};
use byteway_wire::nvme::{ReadWrite, Sqe};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

/// The part of the firmware or of the encoder that merges, one write at a time, in the order in which they were parsed.
#[derive(Default)]
pub(crate) struct Merging {
    /// When each of those that were waiting when the last one came is merged; at most as many as are searched, and one.
    ends: RefCell<VecDeque<Time>>,
    /// Time for all of those that ever came.
    work: Cell<Delay>,
}

impl Merging {
    /// The end of the parse of a write of blocks of `block` bytes, and of its merging after that, if it needs any.
    pub(crate) fn pass(&self, config: &MergeConfig, block: u64, sqe: &Sqe, parse: Service) -> Service {
        let rw = ReadWrite::parse(sqe);
        // A range that is none is refused later.
        let (begin, bytes) = (rw.slba.wrapping_mul(block), u64::from(rw.blocks()) * block);
        let unit = u64::from(config.unit_bytes);
        if begin.is_multiple_of(unit) && bytes.is_multiple_of(unit) {
            return parse;
        }
        let mut ends = self.ends.borrow_mut();
        while ends.front().is_some_and(|end| *end <= parse.end) {
            ends.pop_front();
        }
        let waiting = ends.len().min(config.searched_max);
        let start = ends.back().map_or(parse.end, |last| parse.end.max(*last));
        let work = config.command + config.search * waiting as u64 + config.rate.time_for(bytes);
        let end = start + work;
        self.work.set(self.work.get() + work);
        if ends.len() > config.searched_max {
            ends.pop_front();
        }
        ends.push_back(end);
        Service { queued: parse.queued + start.since(parse.end), end }
    }

    /// Time for which it has merged up to now.
    pub(crate) fn busy(&self, now: Time) -> Delay {
        // From now to the last end it merges without a pause, but for a write that was parsed ahead of its time.
        let ahead = self.ends.borrow().back().map_or(Delay::ZERO, |last| last.max(&now).since(now));
        self.work.get().saturating_sub(ahead)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use byteway_clock::{Delay, Rate};

    // Merged side by side, parts of units would be as fast as whole ones, and no drive would have a limit of small writes.
    #[test]
    fn parts_of_units_wait_for_each_other_and_whole_ones_for_none() {
        let us = |us: u64| Time(Delay::from_us(us).ps());
        let config = MergeConfig {
            unit_bytes: 8192,
            command: Delay::from_us(8),
            rate: Rate::per_second(4_096_000_000),
            search: Delay::ZERO,
            searched_max: 16,
        };
        let merging = Merging::default();
        let pass = |slba: u64, blocks: u32, at: u64| {
            let sqe =
                Sqe { cdw10: slba as u32, cdw11: (slba >> 32) as u32, cdw12: blocks - 1, ..Sqe::default() };
            let parse = Service { queued: Delay::from_us(1), end: us(at) };
            let found = merging.pass(&config, 4096, &sqe, parse);
            (found.end, found.queued)
        };
        // 4 KiB cross in a microsecond.
        assert_eq!(pass(0, 1, 10), (us(19), Delay::from_us(1)));
        assert_eq!(pass(1, 1, 12), (us(28), Delay::from_us(8)), "it waits for the one before");
        assert_eq!(pass(2, 2, 13), (us(13), Delay::from_us(1)), "a whole unit");
        assert_eq!(pass(1, 2, 40), (us(50), Delay::from_us(1)), "whole, but of two halves");
        assert_eq!((merging.busy(us(45)), merging.busy(us(60))), (Delay::from_us(23), Delay::from_us(28)));
    }

    // Firmware that searches what waits is slower with more of it, up to what it searches: the more, the longer, up to a limit.
    #[test]
    fn a_longer_queue_takes_longer_to_search() {
        let us = |us: u64| Time(Delay::from_us(us).ps());
        let config = MergeConfig {
            unit_bytes: 8192,
            command: Delay::from_us(4),
            rate: Rate::per_second(4_096_000_000_000_000),
            search: Delay::from_us(1),
            searched_max: 2,
        };
        let merging = Merging::default();
        let parse = Service { queued: Delay::ZERO, end: us(10) };
        let ends: Vec<Time> =
            (0..5).map(|_| merging.pass(&config, 4096, &Sqe::default(), parse).end).collect();
        let each: Vec<u64> = ends.windows(2).map(|pair| pair[1].since(pair[0]).ps() / 1_000_000).collect();
        assert_eq!((ends[0].0 / 1_000_000, &each[..]), (14, &[5, 6, 6, 6][..]));
        let later = Service { queued: Delay::ZERO, end: us(100) };
        assert_eq!(
            merging.pass(&config, 4096, &Sqe::default(), later).end.0 / 1_000_000,
            104,
            "nothing waits"
        );
    }
}
