//! Injected failures: operations that fail because a test says so.

use byteway_clock::random::{Rng, Stream};
use std::collections::BTreeSet;

/// What a die does, when a failure is to be of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FaultVerb {
    /// None of its units can be corrected, whatever is retried. The next read may succeed.
    Read,
    /// The stripe and the earlier ones of its wordline can't be read from then on, as after a power cut.
    Program,
    /// The superblock holds nothing, and takes no program before an erase of it succeeds.
    Erase,
}

impl FaultVerb {
    const COUNT: usize = 3;
}

/// One failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fault {
    /// At which die.
    pub die: u32,
    /// Of what.
    pub verb: FaultVerb,
    /// Of which of these operations of that die since the plan was given; the first has number 1.
    pub nth: u64,
}

/// Which operations fail. They take their time all the same. The default is none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FaultPlan {
    /// The chance of each read.
    pub read: f64,
    /// The chance of each program.
    pub program: f64,
    /// The chance of each erase.
    pub erase: f64,
    /// Those that fail for sure.
    pub exact: BTreeSet<Fault>,
}

/// What is wrong with a [`FaultPlan`].
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum FaultError {
    /// A chance that is none.
    #[error("the chance of a failing {0} is {1}, it must be from 0 to 1")]
    Chance(&'static str, f64),
    /// An operation before the first.
    #[error("operations are counted from 1, a fault is of number 0")]
    Zero,
}

impl FaultPlan {
    /// A plan of failures that are named one by one.
    pub fn exactly(faults: impl IntoIterator<Item = Fault>) -> Self {
        FaultPlan { exact: faults.into_iter().collect(), ..FaultPlan::default() }
    }

    /// Whether nothing fails.
    pub fn is_empty(&self) -> bool {
        *self == FaultPlan::default()
    }

    /// Whether there can be such failures, and if not, what is wrong.
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

    fn chance(&self, verb: FaultVerb) -> f64 {
        match verb {
            FaultVerb::Read => self.read,
            FaultVerb::Program => self.program,
            FaultVerb::Erase => self.erase,
        }
    }
}

/// A plan at work: each die has a stream of its own, and counts its operations.
pub(crate) struct Faults {
    plan: FaultPlan,
    dies: Vec<(Stream, [u64; FaultVerb::COUNT])>,
}

impl Faults {
    /// None if nothing fails.
    pub(crate) fn new(plan: FaultPlan, rng: &Rng, dies: u32) -> Option<Box<Faults>> {
        if plan.is_empty() {
            return None;
        }
        let die = |die| (rng.stream(&format!("die-{die}/faults")), [0; FaultVerb::COUNT]);
        Some(Box::new(Faults { plan, dies: (0..dies).map(die).collect() }))
    }

    /// Whether the operation that a die begins now fails.
    pub(crate) fn strikes(&mut self, die: u32, verb: FaultVerb) -> bool {
        let (stream, counts) = &mut self.dies[die as usize];
        let nth = &mut counts[verb as usize];
        *nth += 1;
        let chance = self.plan.chance(verb);
        let by_chance = chance > 0.0 && stream.chance(chance);
        by_chance || self.plan.exact.contains(&Fault { die, verb, nth: *nth })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A swarm draws its plans at random: a chance beyond 1 or a NaN must be told from a drive that fails.
    #[test]
    fn impossible_plans_are_named() {
        let none = FaultPlan::default();
        assert_eq!((none.validate(), none.is_empty()), (Ok(()), true));
        let message = |plan: FaultPlan| plan.validate().unwrap_err().to_string();
        assert_eq!(
            message(FaultPlan { program: 1.5, ..none.clone() }),
            "the chance of a failing program is 1.5, it must be from 0 to 1"
        );
        assert!(FaultPlan { erase: f64::NAN, ..none.clone() }.validate().is_err());
        let first = Fault { die: 0, verb: FaultVerb::Read, nth: 0 };
        assert_eq!(
            message(FaultPlan::exactly([first])),
            "operations are counted from 1, a fault is of number 0"
        );
        assert!(Faults::new(none, &Rng::new(1), 2).is_none());
    }

    // Chance that one die shares with another would change all faults with any scheduling.
    #[test]
    fn each_die_draws_and_counts_for_itself() {
        let exact = FaultPlan::exactly([(0, 2), (1, 1), (1, 3)].map(|(die, nth)| Fault {
            die,
            verb: FaultVerb::Erase,
            nth,
        }));
        let mut faults = Faults::new(exact, &Rng::new(1), 2).unwrap();
        let mut strikes = |die| (0..4).map(|_| faults.strikes(die, FaultVerb::Erase)).collect::<Vec<_>>();
        assert_eq!(strikes(1), [true, false, true, false]);
        assert_eq!(strikes(0), [false, true, false, false]);

        let chance = FaultPlan { read: 0.25, ..FaultPlan::default() };
        let of = |die: u32, other: bool| {
            let mut faults = Faults::new(chance.clone(), &Rng::new(1), 2).unwrap();
            let strike = |_| {
                if other {
                    faults.strikes(1 - die, FaultVerb::Read);
                }
                faults.strikes(die, FaultVerb::Read)
            };
            (0..4000).map(strike).collect::<Vec<_>>()
        };
        assert_eq!(of(0, false), of(0, true));
        assert_ne!(of(0, false), of(1, false));
        let hits = of(0, false).iter().filter(|hit| **hit).count();
        assert!((900..1100).contains(&hits), "{hits}");
    }
}
