//! The temperature of a drive: given, not modelled.

use byteway_clock::{Delay, Time};
use std::ops::Range;

/// The composite temperature over time. The default is constant.
#[derive(Clone, Debug, Default)]
pub struct Temperature {
    /// Instants, ascending, and the temperature in kelvins from each on.
    pub steps: Vec<(Time, u16)>,
    /// Temperatures in kelvins from which on the drive throttles, light and heavy.
    pub throttles: Option<[u16; 2]>,
}

impl Temperature {
    /// Before the first step, in kelvins: 40 degrees Celsius.
    pub const USUAL: u16 = 313;

    /// The temperature at an instant, in kelvins.
    pub fn at(&self, now: Time) -> u16 {
        let after = self.steps.partition_point(|(from, _)| *from <= now);
        after.checked_sub(1).map_or(Self::USUAL, |last| self.steps[last].1)
    }

    /// The first step after an instant.
    pub fn next(&self, now: Time) -> Option<Time> {
        let after = self.steps.partition_point(|(from, _)| *from <= now);
        self.steps.get(after).map(|(from, _)| *from)
    }

    /// Parts of the time up to `now`, with the temperature of each.
    fn parts(&self, now: Time) -> impl Iterator<Item = (Delay, u16)> {
        let begins = std::iter::once((Time::ZERO, Self::USUAL)).chain(self.steps.iter().copied());
        let ends = self.steps.iter().map(|(from, _)| *from).chain([now]);
        let passed = begins.zip(ends).take_while(move |((begin, _), _)| *begin <= now);
        passed.map(move |((begin, kelvins), end)| (end.min(now).since(begin), kelvins))
    }

    /// Time up to `now` at these temperatures.
    pub fn time_at(&self, now: Time, kelvins: Range<u16>) -> Delay {
        self.parts(now).filter(|(_, own)| kelvins.contains(own)).map(|(time, _)| time).sum()
    }

    /// How often the temperature rose to `kelvins` or above, up to `now`.
    pub fn rises(&self, now: Time, kelvins: u16) -> u32 {
        let mut is_above = false;
        let rose = self.parts(now).filter(|(_, own)| {
            let was_above = std::mem::replace(&mut is_above, *own >= kelvins);
            is_above && !was_above
        });
        rose.count() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A host adds up these figures of a log: a step counted twice, or before its time, would be heat that never was.
    #[test]
    fn times_and_rises_are_those_of_the_steps() {
        let s = |s: u64| Time::ZERO + Delay::from_s(s);
        let steps = vec![(s(2), 350), (s(3), 360), (s(5), 350), (s(6), 300), (s(9), 350)];
        let temperature = Temperature { steps, throttles: None };
        let all = |now: u64| {
            let time = |range| temperature.time_at(s(now), range).0 / Delay::from_s(1).0;
            let rises = |kelvins| temperature.rises(s(now), kelvins);
            (temperature.at(s(now)), time(350..360), time(360..u16::MAX), rises(350), rises(360))
        };
        assert_eq!(all(1), (313, 0, 0, 0, 0));
        assert_eq!(all(2), (350, 0, 0, 1, 0));
        assert_eq!(all(4), (360, 1, 1, 1, 1));
        assert_eq!(all(8), (300, 2, 2, 1, 1), "falling to light is no rise");
        assert_eq!(all(10), (350, 3, 2, 2, 1));
        assert_eq!(temperature.next(s(2)), Some(s(3)));
        assert_eq!(temperature.next(s(9)), None);
    }
}
