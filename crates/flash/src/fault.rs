//! Fault injection: operations that fail on request.

use byteway_clock::random::{Rng, Stream};
use std::collections::BTreeSet;

/// Kind of operation that fails, and the consequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FaultKind {
    /// None of its units can be corrected, whatever the retries. The next read may succeed.
    Read,
    /// The stripe and the earlier ones of its wordline are unreadable from then on, as after a power cut.
    Program,
    /// The superblock is empty, and rejects programs until an erase of it succeeds.
    Erase,
}

impl FaultKind {
    const COUNT: usize = 3;
}

/// A single injected failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fault {
    /// Index of the die.
    pub die: u32,
    /// Kind of operation.
    pub kind: FaultKind,
    /// Sequence number among that die's operations of this kind since the plan was set, from 1.
    pub nth: u64,
}

/// Which operations fail. They take their usual time. The default injects none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FaultPlan {
    /// Probability that a read fails.
    pub read: f64,
    /// Probability that a program fails.
    pub program: f64,
    /// Probability that an erase fails.
    pub erase: f64,
    /// Individual operations that fail.
    pub exact: BTreeSet<Fault>,
}

/// Error of validating a [`FaultPlan`].
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum FaultError {
    /// A probability is not in 0 to 1.
    #[error("the probability of a failing {0} is {1}, it must be from 0 to 1")]
    Chance(&'static str, f64),
    /// An exact fault has sequence number 0.
    #[error("a fault has nth 0, operations are counted from 1")]
    Zero,
}

impl FaultPlan {
    /// A plan of individual failures only.
    pub fn exactly(faults: impl IntoIterator<Item = Fault>) -> Self {
        FaultPlan { exact: faults.into_iter().collect(), ..FaultPlan::default() }
    }

    /// Whether nothing fails.
    pub fn is_empty(&self) -> bool {
        *self == FaultPlan::default()
    }

    /// Checks all parts. Their numbers may come from a file.
    ///
    /// # Errors
    /// [`FaultError`] for the first number that is out of range.
    pub fn validate(&self) -> Result<(), FaultError> {
        for (name, chance) in [("read", self.read), ("program", self.program), ("erase", self.erase)] {
            if !(0.0..=1.0).contains(&chance) {
                return Err(FaultError::Chance(name, chance));
            }
        }
        if self.exact.iter().any(|fault| fault.nth == 0) {
            return Err(FaultError::Zero);
        }
        Ok(())
    }

    fn chance(&self, kind: FaultKind) -> f64 {
        match kind {
            FaultKind::Read => self.read,
            FaultKind::Program => self.program,
            FaultKind::Erase => self.erase,
        }
    }
}

/// An active plan: each die draws from its own stream and counts its own operations.
pub(crate) struct Faults {
    plan: FaultPlan,
    dies: Vec<(Stream, [u64; FaultKind::COUNT])>,
}

impl Faults {
    /// None if the plan is empty.
    pub(crate) fn new(plan: FaultPlan, rng: &Rng, dies: u32) -> Option<Box<Faults>> {
        if plan.is_empty() {
            return None;
        }
        let die = |die| (rng.stream(&format!("die-{die}/faults")), [0; FaultKind::COUNT]);
        Some(Box::new(Faults { plan, dies: (0..dies).map(die).collect() }))
    }

    /// Whether the operation that `die` starts now fails.
    pub(crate) fn next_fails(&mut self, die: u32, kind: FaultKind) -> bool {
        let (stream, counts) = &mut self.dies[die as usize];
        let nth = &mut counts[kind as usize];
        *nth += 1;
        let chance = self.plan.chance(kind);
        let by_chance = chance > 0.0 && stream.chance(chance);
        by_chance || self.plan.exact.contains(&Fault { die, kind, nth: *nth })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A random test draws its plans: a probability beyond 1 or a NaN must be an error of the plan, and must not
    // look like a drive that fails.
    #[test]
    fn impossible_plans_are_named() {
        let none = FaultPlan::default();
        assert_eq!((none.validate(), none.is_empty()), (Ok(()), true));
        let message = |plan: FaultPlan| plan.validate().unwrap_err().to_string();
        assert_eq!(
            message(FaultPlan { program: 1.5, ..none.clone() }),
            "the probability of a failing program is 1.5, it must be from 0 to 1"
        );
        assert!(FaultPlan { erase: f64::NAN, ..none.clone() }.validate().is_err());
        let first = Fault { die: 0, kind: FaultKind::Read, nth: 0 };
        assert_eq!(message(FaultPlan::exactly([first])), "a fault has nth 0, operations are counted from 1");
        assert!(Faults::new(none, &Rng::new(1), 2).is_none());
    }

    // If dies shared a stream, any change of scheduling would change all faults.
    #[test]
    fn each_die_draws_and_counts_for_itself() {
        let exact = FaultPlan::exactly([(0, 2), (1, 1), (1, 3)].map(|(die, nth)| Fault {
            die,
            kind: FaultKind::Erase,
            nth,
        }));
        let mut faults = Faults::new(exact, &Rng::new(1), 2).unwrap();
        let mut next_fails =
            |die| (0..4).map(|_| faults.next_fails(die, FaultKind::Erase)).collect::<Vec<_>>();
        assert_eq!(next_fails(1), [true, false, true, false]);
        assert_eq!(next_fails(0), [false, true, false, false]);

        let chance = FaultPlan { read: 0.25, ..FaultPlan::default() };
        let of = |die: u32, other: bool| {
            let mut faults = Faults::new(chance.clone(), &Rng::new(1), 2).unwrap();
            let strike = |_| {
                if other {
                    faults.next_fails(1 - die, FaultKind::Read);
                }
                faults.next_fails(die, FaultKind::Read)
            };
            (0..4000).map(strike).collect::<Vec<_>>()
        };
        assert_eq!(of(0, false), of(0, true));
        assert_ne!(of(0, false), of(1, false));
        let hits = of(0, false).iter().filter(|hit| **hit).count();
        assert!((900..1100).contains(&hits), "{hits}");
    }
}
