//! Victim policies under their names.

use super::cost_benefit::CostBenefit;
use super::greedy::Greedy;
use super::view::Victim;
use crate::policy::argument::WrongArgument;
use std::fmt;
use std::sync::Arc;

/// A policy that was made, or what is wrong with its argument.
pub type MadeVictim = Result<Box<dyn Victim>, WrongArgument>;

/// A policy under its name, from which each drive makes its own.
#[derive(Clone)]
pub struct VictimPolicy {
    name: String,
    hash: Option<String>,
    /// The program that has it, of one that is not built in.
    build: String,
    make: Arc<dyn Fn() -> Box<dyn Victim> + Send + Sync>,
}

impl VictimPolicy {
    /// A policy; `hash` tells the code of one that is not built in from other versions of it.
    pub fn new(
        name: impl Into<String>,
        hash: Option<String>,
        make: impl Fn() -> Box<dyn Victim> + Send + Sync + 'static,
    ) -> Self {
        VictimPolicy { name: name.into(), hash, build: String::new(), make: Arc::new(make) }
    }

    /// The same, of this program.
    #[must_use]
    pub(in crate::policy) fn of_build(self, build: String) -> Self {
        VictimPolicy { build, ..self }
    }

    /// [`Greedy`].
    pub fn greedy() -> Self {
        Self::new("greedy", None, || Box::new(Greedy))
    }

    /// [`CostBenefit`].
    pub fn cost_benefit() -> Self {
        Self::new("cost-benefit", None, || Box::new(CostBenefit))
    }

    /// Its name, with its argument.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The version of its code, if it is not built in.
    pub fn hash(&self) -> Option<&str> {
        self.hash.as_deref()
    }

    /// One for a drive.
    pub fn make(&self) -> Box<dyn Victim> {
        (self.make)()
    }
}

impl Default for VictimPolicy {
    fn default() -> Self {
        Self::greedy()
    }
}

impl PartialEq for VictimPolicy {
    fn eq(&self, other: &Self) -> bool {
        (&self.name, &self.hash, &self.build) == (&other.name, &other.hash, &other.build)
    }
}

impl fmt::Debug for VictimPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VictimPolicy")
            .field("name", &self.name)
            .field("hash", &self.hash)
            .field("build", &self.build)
            .finish_non_exhaustive()
    }
}
