//! The wish to stop.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A flag that long work looks at now and then.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<Flag>);

#[derive(Debug, Default)]
struct Flag {
    is_raised: AtomicBool,
    /// Looks until it raises itself; none: it does not.
    looks: Option<AtomicU64>,
}

impl Interrupt {
    /// One that is raised at the look after so many: for tests that interrupt work at each of its looks in turn.
    pub fn after_looks(looks: u64) -> Interrupt {
        Interrupt(Arc::new(Flag {
            is_raised: AtomicBool::new(looks == 0),
            looks: Some(AtomicU64::new(looks)),
        }))
    }

    /// Asks for an end.
    pub fn raise(&self) {
        self.0.is_raised.store(true, Ordering::Relaxed);
    }

    /// Whether there is to be an end.
    pub fn is_raised(&self) -> bool {
        let is_raised = self.0.is_raised.load(Ordering::Relaxed);
        if let Some(looks) = &self.0.looks
            && !is_raised
            && looks.fetch_sub(1, Ordering::Relaxed) == 1
        {
            self.raise();
        }
        is_raised
    }
}

/// It was interrupted before there was anything to show, or anything whole.
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

    // A test that interrupts at a look would interrupt at another.
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
        assert!(interrupt.is_raised());
    }
}
