//! The loss window of a client that gathers pairs: what it has told its caller as put and the drive doesn't have yet. All of
//! it is lost if the host crashes.
//!
//! It counts from the moment when the caller is told until the command that brings the pair has completed. What a drive
//! without power-loss protection holds only in its DRAM is not in it: that survives the host.

use byteway_clock::{Delay, Time};

/// What is told as put and not on the drive, now and over time.
#[derive(Clone, Debug, Default)]
pub struct LossWindow {
    pairs: u64,
    bytes: u64,
    /// The figures are right up to then.
    at: Time,
    begun: Time,
    figures: LossFigures,
}

/// A loss window over a stretch of time. A pair counts the bytes of its key and its value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LossFigures {
    /// The stretch.
    pub elapsed: Delay,
    /// Pairs in the window, times picoseconds: divided by `elapsed`, the mean.
    pub pair_time: u128,
    /// The same of bytes.
    pub byte_time: u128,
    /// Pairs in the window at once, at most.
    pub pairs_max: u64,
    /// Bytes in the window at once, at most.
    pub bytes_max: u64,
    /// Pairs that came to the drive after they had been told.
    pub landed: u64,
    /// How long all of them were in the window, picoseconds.
    pub landed_time: u128,
    /// How long one of them was, at most.
    pub time_max: Delay,
    /// Pairs that were told, and of which the drive may have nothing: their command failed, or the client went away.
    pub lost: u64,
    /// Commands that brought pairs.
    pub batches: u64,
    /// Pairs that they brought.
    pub batch_pairs: u64,
}

impl LossWindow {
    /// Pairs that a crash of the host would lose now, and their bytes.
    pub fn now(&self) -> (u64, u64) {
        (self.pairs, self.bytes)
    }

    /// The figures from the beginning, or [`LossWindow::restart`], to `now`.
    pub fn figures(&self, now: Time) -> LossFigures {
        let mut then = self.clone();
        then.pass(now);
        LossFigures { elapsed: now.since(self.begun), ..then.figures }
    }

    /// The figures begin `now`; what is in the window stays there.
    pub fn restart(&mut self, now: Time) {
        self.figures = LossFigures::default();
        (self.at, self.begun) = (now, now);
        self.note_most();
    }

    fn pass(&mut self, now: Time) {
        let passed = u128::from(now.since(self.at).0);
        self.figures.pair_time += u128::from(self.pairs) * passed;
        self.figures.byte_time += u128::from(self.bytes) * passed;
        self.at = now;
    }

    fn note_most(&mut self) {
        self.figures.pairs_max = self.figures.pairs_max.max(self.pairs);
        self.figures.bytes_max = self.figures.bytes_max.max(self.bytes);
    }

    /// A pair of `bytes` has been told as put.
    pub(super) fn told(&mut self, now: Time, bytes: u64) {
        self.pass(now);
        self.pairs += 1;
        self.bytes += bytes;
        self.note_most();
    }

    /// One that was told at `told` has come to the drive.
    pub(super) fn landed(&mut self, now: Time, told: Time, bytes: u64) {
        self.leave(now, bytes);
        let time = now.since(told);
        self.figures.landed += 1;
        self.figures.landed_time += u128::from(time.0);
        self.figures.time_max = self.figures.time_max.max(time);
    }

    /// One that was told is lost, or may be.
    pub(super) fn lost(&mut self, now: Time, bytes: u64) {
        self.leave(now, bytes);
        self.figures.lost += 1;
    }

    fn leave(&mut self, now: Time, bytes: u64) {
        self.pass(now);
        self.pairs -= 1;
        self.bytes -= bytes;
    }

    /// A command with so many pairs has ended.
    pub(super) fn sent(&mut self, pairs: u64) {
        self.figures.batches += 1;
        self.figures.batch_pairs += pairs;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A window that forgets who was in it when measuring began, or whose mean is not over time, tells people that they lose
    // less than they do. By hand: one pair of 10 B for 4 s, another of 30 B for the last 2 s of them.
    #[test]
    fn the_window_by_hand() {
        let at = |seconds: u64| Time(seconds * 1_000_000_000_000);
        let mut window = LossWindow::default();
        window.told(at(1), 10);
        window.restart(at(2));
        window.told(at(4), 30);
        assert_eq!(window.now(), (2, 40));
        window.landed(at(6), at(1), 10);
        window.lost(at(6), 30);
        window.sent(2);
        let figures = window.figures(at(12));
        assert_eq!(figures.elapsed, Delay::from_s(10));
        assert_eq!(figures.pair_time, 6_000_000_000_000, "0.6 pairs in the mean");
        assert_eq!(figures.byte_time, 100_000_000_000_000, "10 B in the mean");
        assert_eq!((figures.pairs_max, figures.bytes_max), (2, 40));
        assert_eq!((figures.landed, figures.lost, figures.time_max), (1, 1, Delay::from_s(5)));
        assert_eq!((figures.batches, figures.batch_pairs), (1, 2));
        assert_eq!(window.now(), (0, 0));
    }
}
