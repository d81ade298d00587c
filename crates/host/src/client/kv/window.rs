//! The loss window of a client that batches key-value pairs: pairs acknowledged to its caller that the drive
//! does not have yet, all of which a crash of the host loses.
//!
//! A pair is in it from its acknowledgment until the command with the pair has completed. What a drive
//! without power-loss protection holds in its DRAM is not in it: that survives the host.

use byteway_clock::{Delay, Time};

/// Acknowledged key-value pairs that are not on the drive, now and over time.
#[derive(Clone, Debug, Default)]
pub struct LossWindow {
    pairs: u64,
    bytes: u64,
    /// The time up to which the figures are accumulated.
    at: Time,
    begun: Time,
    figures: LossFigures,
}

/// Figures of a loss window over a period. A key-value pair counts the bytes of its key and its value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LossFigures {
    /// Length of the period.
    pub elapsed: Delay,
    /// Key-value pairs in the window, integrated over picoseconds: divided by `elapsed`, the mean.
    pub pair_time: u128,
    /// Bytes in the window, integrated over picoseconds.
    pub byte_time: u128,
    /// Maximum number of key-value pairs in the window.
    pub pairs_max: u64,
    /// Maximum number of bytes in the window.
    pub bytes_max: u64,
    /// Key-value pairs that reached the drive after their acknowledgment.
    pub landed: u64,
    /// Total time of these key-value pairs in the window, in picoseconds.
    pub landed_time: u128,
    /// Maximum time of a key-value pair in the window.
    pub time_max: Delay,
    /// Acknowledged key-value pairs that the drive may not have: their command failed, or the client was
    /// dropped.
    pub lost: u64,
    /// Commands with batched key-value pairs.
    pub batches: u64,
    /// Key-value pairs in these commands.
    pub batch_pairs: u64,
}

impl LossWindow {
    /// Key-value pairs that a crash of the host would lose now, and their bytes.
    pub fn now(&self) -> (u64, u64) {
        (self.pairs, self.bytes)
    }

    /// The figures from the beginning, or the last [`LossWindow::restart`], to `now`.
    pub fn figures(&self, now: Time) -> LossFigures {
        let mut then = self.clone();
        then.pass(now);
        LossFigures { elapsed: now.since(self.begun), ..then.figures }
    }

    /// Restarts the figures at `now`; the contents of the window stay.
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

    /// Notes that a key-value pair of `bytes` was acknowledged.
    pub(super) fn told(&mut self, now: Time, bytes: u64) {
        self.pass(now);
        self.pairs += 1;
        self.bytes += bytes;
        self.note_most();
    }

    /// Notes that a key-value pair acknowledged at `told` has reached the drive.
    pub(super) fn landed(&mut self, now: Time, told: Time, bytes: u64) {
        self.leave(now, bytes);
        let time = now.since(told);
        self.figures.landed += 1;
        self.figures.landed_time += u128::from(time.0);
        self.figures.time_max = self.figures.time_max.max(time);
    }

    /// Notes that an acknowledged key-value pair is lost, or may be.
    pub(super) fn lost(&mut self, now: Time, bytes: u64) {
        self.leave(now, bytes);
        self.figures.lost += 1;
    }

    fn leave(&mut self, now: Time, bytes: u64) {
        self.pass(now);
        self.pairs -= 1;
        self.bytes -= bytes;
    }

    /// Notes that a command with `pairs` key-value pairs has ended.
    pub(super) fn sent(&mut self, pairs: u64) {
        self.figures.batches += 1;
        self.figures.batch_pairs += pairs;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A window that forgets its contents when measuring begins, or whose mean is not over time, understates the loss.
    // By hand: one pair of 10 B for 4 s, another of 30 B for the last 2 s.
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
