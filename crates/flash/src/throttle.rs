//! Rests of all dies, by which a drive that is hot does less.
//!
//! In a rest no operation begins, whichever it is: reads and programs, of hosts and of collection, and erases all heat a drive. What has begun goes
//! on. When a drive rests is a function of time alone: it takes no task, and a die sets a timer only if something waits.

use byteway_clock::{Delay, Time};

/// When dies rest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Throttle {
    /// Length of a period. Periods begin at its multiples, each with its rest.
    pub period: Delay,
    /// From these instants on, ascending, periods have rests of these lengths. None before the first.
    pub steps: Vec<(Time, Delay)>,
}

impl Throttle {
    /// Whether the period is positive and longer than each rest, and the steps ascend.
    pub(crate) fn is_valid(&self) -> bool {
        let ascends = self.steps.windows(2).all(|pair| pair[0].0 < pair[1].0);
        ascends && self.steps.iter().all(|(_, rest)| *rest < self.period)
    }

    /// If dies rest at `now`: until when.
    pub(crate) fn rests_until(&self, now: Time) -> Option<Time> {
        let after = self.steps.partition_point(|(from, _)| *from <= now);
        let (_, rest) = *self.steps.get(after.checked_sub(1)?)?;
        let end = Time(now.0 - now.0 % self.period.0) + rest;
        let next = self.steps.get(after).map_or(end, |(from, _)| end.min(*from));
        (now < end).then_some(next)
    }

    /// Time of rests between two instants.
    pub fn rested(&self, from: Time, to: Time) -> Delay {
        let parts = self.parts(from, to).map(|(begin, end, rest)| {
            let before = |at: Time| at.0 / self.period.0 * rest.0 + (at.0 % self.period.0).min(rest.0);
            Delay(before(end) - before(begin))
        });
        parts.sum()
    }

    /// Time between two instants in which periods have rests.
    pub fn throttled(&self, from: Time, to: Time) -> Delay {
        let parts = self.parts(from, to).filter(|(_, _, rest)| *rest > Delay::ZERO);
        parts.map(|(begin, end, _)| end.since(begin)).sum()
    }

    /// Parts of the time between two instants from the first step on, and the rests of each.
    fn parts(&self, from: Time, to: Time) -> impl Iterator<Item = (Time, Time, Delay)> {
        let ends = self.steps.iter().skip(1).map(|(from, _)| *from).chain([to]);
        let parts = self.steps.iter().zip(ends);
        let parts = parts.map(move |((begin, rest), end)| (from.max(*begin), to.min(end), *rest));
        parts.filter(|(begin, end, _)| begin < end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A rest that is summed otherwise than it is kept would charge an I/O with time in which dies worked.
    #[test]
    fn what_is_summed_is_what_was_kept() {
        let steps = vec![(Time(7), Delay(3)), (Time(32), Delay(9)), (Time(55), Delay(0))];
        let throttle = Throttle { period: Delay(10), steps };
        assert!(throttle.is_valid());
        let rests = |at: u64| throttle.rests_until(Time(at)).is_some();
        let found: Vec<u64> = (0..70).filter(|at| rests(*at)).collect();
        let expected = (10..13).chain(20..23).chain(30..39).chain(40..49).chain(50..55);
        assert_eq!(found, expected.collect::<Vec<_>>());
        for from in 0..70 {
            for to in from..70 {
                let kept = (from..to).filter(|at| rests(*at)).count() as u64;
                assert_eq!(throttle.rested(Time(from), Time(to)), Delay(kept), "from {from} to {to}");
            }
        }
        assert_eq!(throttle.rests_until(Time(51)), Some(Time(55)), "the next step ends it");
    }
}
