//! How far long work is, for whoever wants to see it. Who works says so here; what shows it (a bar on a terminal) implements
//! [`Bars`]. Nothing of it reaches a result.

use std::fmt::Debug;

use crate::units::Picos;

/// What work is measured by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// So many commands.
    Commands,
    /// So many microseconds.
    Time,
    /// So many bytes of a file, whose records are counted beside them.
    Bytes,
    /// So many parts of one thing.
    Parts,
    /// Nobody knows; commands are counted.
    Unknown,
}

/// Shows how far one piece of work is.
pub trait Bar {
    /// So far of its length, and so many commands, records or parts.
    fn show(&self, position: u64, counted: u64);

    /// It has ended.
    fn finish(&self);
}

/// Who shows how far work is.
pub trait Bars: Debug {
    /// For work of this length (`None`: nobody knows), with `what` before it. `None` shows nothing.
    fn bar(&self, what: &'static str, goal: Goal, length: Option<u64>) -> Option<Box<dyn Bar>>;
}

/// Is told of each point of many that is done, from any thread.
pub trait Points: Sync {
    /// One more.
    fn one(&self);

    /// So many were done before.
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

/// How far a piece of work is.
pub struct Progress {
    bar: Option<Box<dyn Bar>>,
    goal: Goal,
    calls: u32,
}

/// The bar is looked at once in so many calls: a look costs as much as a good part of a simulated I/O.
const CALLS_PER_LOOK: u32 = 1024;

/// A bar counts time in microseconds.
const PS_PER_TICK: u64 = 1_000_000;

impl Progress {
    /// For so many commands or so much time, of which the former goes first. `what` stands before the bar.
    pub fn new(bars: &dyn Bars, what: &'static str, commands: Option<u64>, runtime: Option<Picos>) -> Self {
        let (goal, length) = match (commands, runtime) {
            (Some(count), _) => (Goal::Commands, Some(count)),
            (None, Some(runtime)) => (Goal::Time, Some(runtime.0 / PS_PER_TICK)),
            (None, None) => (Goal::Unknown, None),
        };
        Progress { bar: bars.bar(what, goal, length), goal, calls: 0 }
    }

    /// For the bytes of a file, whose records are counted beside them.
    pub fn bytes(bars: &dyn Bars, what: &'static str, bytes: u64) -> Self {
        Progress { bar: bars.bar(what, Goal::Bytes, Some(bytes)), goal: Goal::Bytes, calls: 0 }
    }

    /// For so many parts of one thing.
    pub fn parts(bars: &dyn Bars, what: &'static str, count: u64) -> Self {
        Progress { bar: bars.bar(what, Goal::Parts, Some(count)), goal: Goal::Parts, calls: 0 }
    }

    /// Shows nothing.
    pub fn hidden() -> Self {
        Progress { bar: None, goal: Goal::Unknown, calls: 0 }
    }

    /// So many parts are done.
    pub fn part(&mut self, done: u64) {
        self.look(done, 0);
    }

    /// So many records have been read, and so many bytes of their file. To be called now and then.
    pub fn position(&mut self, records: u64, bytes: u64) {
        self.look(records, bytes);
    }

    /// So many commands have completed by this time. To be called once for each; almost always it does nothing.
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

    /// Takes the bar off the terminal.
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

    // A look for each I/O would take as long as the I/O; none at all would be no progress.
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
