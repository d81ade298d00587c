//! The interrupt flag: a request to stop long work.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A flag that long work polls.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<Flag>);

#[derive(Debug, Default)]
struct Flag {
    is_raised: AtomicBool,
    /// Whether the work has polled it since.
    is_noticed: AtomicBool,
    /// Remaining polls until the flag raises itself; `None`: it does not.
    looks: Option<AtomicU64>,
}

impl Interrupt {
    /// A flag that raises itself after `looks` polls: for tests that interrupt work at each of its polls in
    /// turn.
    pub fn after_looks(looks: u64) -> Interrupt {
        Interrupt(Arc::new(Flag {
            is_raised: AtomicBool::new(looks == 0),
            is_noticed: AtomicBool::default(),
            looks: Some(AtomicU64::new(looks)),
        }))
    }

    /// Requests the end of the work.
    pub fn raise(&self) {
        self.0.is_raised.store(true, Ordering::Relaxed);
    }

    /// Polls the flag: whether the work has to end.
    pub fn is_raised(&self) -> bool {
        let is_raised = self.0.is_raised.load(Ordering::Relaxed);
        if is_raised {
            self.0.is_noticed.store(true, Ordering::Relaxed);
        }
        if let Some(looks) = &self.0.looks
            && !is_raised
            && looks.fetch_sub(1, Ordering::Relaxed) == 1
        {
            self.raise();
        }
        is_raised
    }

    /// Whether the work knows that it has to end. If not, it is somewhere where it does not poll.
    pub fn is_noticed(&self) -> bool {
        self.0.is_noticed.load(Ordering::Relaxed)
    }
}

/// The work was interrupted before it had any usable result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupted;

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("interrupted: there is no whole result")
    }
}

impl std::error::Error for Interrupted {}

#[cfg(test)]
mod tests {
    use super::*;

    // If the count were off by one, every interruption test would interrupt at another poll.
    #[test]
    fn it_is_raised_at_the_look_that_was_named() {
        for looks in 0..4 {
            let interrupt = Interrupt::after_looks(looks);
            for _ in 0..looks {
                assert!(!interrupt.is_raised());
            }
            assert!(interrupt.is_raised() && interrupt.is_raised());
        }
        let interrupt = Interrupt::default();
        assert!(!interrupt.is_raised());
        interrupt.clone().raise();
        assert!(!interrupt.is_noticed(), "nobody has polled it");
        assert!(interrupt.is_raised() && interrupt.is_noticed());
    }
}
