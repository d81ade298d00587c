//! How well a claim was reproduced.

use serde::{Deserialize, Serialize};

/// How well a claim was reproduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Within the tolerance; for an order, every check holds.
    Reproduced,
    /// Shown without judgement.
    Reported,
    /// The order holds, or the direction of the change is right, but the figure is outside the tolerance;
    /// where only an order is required, off by more than a factor of 1.5.
    DirectionOnly,
    /// Neither.
    NotReproduced,
}

impl Verdict {
    /// Name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Verdict::Reproduced => "reproduced",
            Verdict::Reported => "reported",
            Verdict::DirectionOnly => "direction only",
            Verdict::NotReproduced => "not reproduced",
        }
    }

    /// Whether the claim holds.
    pub const fn holds(self) -> bool {
        matches!(self, Verdict::Reproduced | Verdict::Reported)
    }

    const fn rank(self) -> u8 {
        match self {
            Verdict::Reproduced | Verdict::Reported => 2,
            Verdict::DirectionOnly => 1,
            Verdict::NotReproduced => 0,
        }
    }

    /// Whether it is worse than another.
    pub const fn is_worse_than(self, other: Verdict) -> bool {
        self.rank() < other.rank()
    }
}
