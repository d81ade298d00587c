//! Progress of long work. The work reports its progress here, and an implementation of [`Bars`] (a progress
//! bar on a terminal) shows it. No result depends on it.

use std::fmt::Debug;

use crate::units::Picos;

/// The unit in which progress is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// Commands.
    Commands,
    /// Simulated time in microseconds.
    Time,
    /// Bytes of a file; records are counted in addition.
    Bytes,
    /// Parts of a whole.
    Parts,
    /// The total is unknown; commands are counted.
    Unknown,
}

/// A display of the progress of one piece of work.
pub trait Bar {
    /// Shows a position in units of the goal, and a number of commands, records or parts.
    fn show(&self, position: u64, counted: u64);

    /// Ends the display.
    fn finish(&self);
}

/// Creates progress displays.
pub trait Bars: Debug {
    /// A display for work of this length (`None`: unknown), labelled `what`. Returns `None` to show nothing.
    fn bar(&self, what: &'static str, goal: Goal, length: Option<u64>) -> Option<Box<dyn Bar>>;
}

/// Receives an event for each of many points that is done, from any thread.
pub trait Points: Sync {
    /// Counts one finished point.
    fn one(&self);

    /// `done` points were done before.
    fn begin_at(&self, done: u64);
}

/// Shows nothing: for tests, benchmarks and pipes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hidden;

impl Bars for Hidden {
    fn bar(&self, _what: &'static str, _goal: Goal, _length: Option<u64>) -> Option<Box<dyn Bar>> {
        None
    }
}

impl Points for Hidden {
    fn one(&self) {}

    fn begin_at(&self, _done: u64) {}
}

/// Progress of a piece of work.
pub struct Progress {
    bar: Option<Box<dyn Bar>>,
    goal: Goal,
    calls: u32,
}

/// The display is checked once per this number of calls, because a check takes a good part of the time of a
/// simulated I/O.
const CALLS_PER_LOOK: u32 = 1024;

/// Picoseconds in a display's unit of time, a microsecond.
const PS_PER_TICK: u64 = 1_000_000;

impl Progress {
    /// Progress towards a number of commands or a runtime; commands take precedence. `what` labels the
    /// display.
    pub fn new(bars: &dyn Bars, what: &'static str, commands: Option<u64>, runtime: Option<Picos>) -> Self {
        let (goal, length) = match (commands, runtime) {
            (Some(count), _) => (Goal::Commands, Some(count)),
            (None, Some(runtime)) => (Goal::Time, Some(runtime.0 / PS_PER_TICK)),
            (None, None) => (Goal::Unknown, None),
        };
        Progress { bar: bars.bar(what, goal, length), goal, calls: 0 }
    }

    /// Progress through the bytes of a file; records are counted in addition.
    pub fn bytes(bars: &dyn Bars, what: &'static str, bytes: u64) -> Self {
        Progress { bar: bars.bar(what, Goal::Bytes, Some(bytes)), goal: Goal::Bytes, calls: 0 }
    }

    /// Progress through `count` parts of a whole.
    pub fn parts(bars: &dyn Bars, what: &'static str, count: u64) -> Self {
        Progress { bar: bars.bar(what, Goal::Parts, Some(count)), goal: Goal::Parts, calls: 0 }
    }

    /// Progress without a display.
    pub fn hidden() -> Self {
        Progress { bar: None, goal: Goal::Unknown, calls: 0 }
    }

    /// Reports the number of parts done.
    pub fn part(&mut self, done: u64) {
        self.look(done, 0);
    }

    /// Reports records and bytes read so far. To be called now and then.
    pub fn position(&mut self, records: u64, bytes: u64) {
        self.look(records, bytes);
    }

    /// Reports the number of completed commands at a simulated time. Call it for each command; nearly all
    /// calls return immediately.
    #[inline]
    pub fn update(&mut self, commands: u64, now_ps: u64) {
        if self.bar.is_some() {
            self.calls += 1;
            if self.calls >= CALLS_PER_LOOK {
                self.calls = 0;
                self.look(commands, now_ps);
            }
        }
    }

    fn look(&self, counted: u64, other: u64) {
        let Some(bar) = &self.bar else { return };
        let position = match self.goal {
            Goal::Time => other / PS_PER_TICK,
            Goal::Bytes => other,
            Goal::Commands | Goal::Parts | Goal::Unknown => counted,
        };
        bar.show(position, counted);
    }

    /// Removes the display.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::rc::Rc;

    #[derive(Debug, Default, Clone)]
    struct Seen(Rc<RefCell<Vec<(u64, u64)>>>);

    impl Bars for Seen {
        fn bar(&self, _what: &'static str, _goal: Goal, _length: Option<u64>) -> Option<Box<dyn Bar>> {
            Some(Box::new(self.clone()))
        }
    }

    impl Bar for Seen {
        fn show(&self, position: u64, counted: u64) {
            self.0.borrow_mut().push((position, counted));
        }

        fn finish(&self) {}
    }

    // A check for every I/O would take as long as the I/O; none at all would show no progress.
    #[test]
    fn a_bar_is_looked_at_now_and_then_in_its_own_measure() {
        let seen = Seen::default();
        let mut by_count = Progress::new(&seen, "", Some(5000), Some(Picos(1)));
        (0..5000).for_each(|index| by_count.update(index, index));
        assert_eq!(seen.0.take(), [(1023, 1023), (2047, 2047), (3071, 3071), (4095, 4095)]);
        let mut by_time = Progress::new(&seen, "", None, Some(Picos(1)));
        (0..1024).for_each(|index| by_time.update(index, 7 * PS_PER_TICK));
        assert_eq!(seen.0.take(), [(7, 1023)]);
        Progress::bytes(&seen, "", 10).position(3, 8);
        Progress::parts(&seen, "", 10).part(4);
        assert_eq!(seen.0.take(), [(8, 3), (4, 4)]);
        Progress::new(&Hidden, "", None, None).part(1);
    }
}
