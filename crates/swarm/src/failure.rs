//! Failures of runs.

use std::fmt;

/// Kind of a failure. A smaller plan must fail with the same kind to count as the same failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A block has wrong content.
    Data,
    /// A command failed unexpectedly, or the driver could not do what it must.
    Error,
    /// No progress, or activity without end.
    Hang,
    /// A panic.
    Panic,
    /// A resource was leaked, or counters contradict each other.
    Leak,
    /// The drive cannot be built: the plan is invalid.
    Plan,
}

impl Kind {
    /// Description of the kind.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Data => "wrong data",
            Kind::Error => "an error",
            Kind::Hang => "a hang",
            Kind::Panic => "a panic",
            Kind::Leak => "a leak",
            Kind::Plan => "an impossible plan",
        }
    }
}

/// A failed run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Kind.
    pub kind: Kind,
    /// Details.
    pub text: String,
}

impl Failure {
    /// Whether two failures differ only in numbers and backquoted text. For wrong data the kind is enough.
    pub fn is_like(&self, other: &Failure) -> bool {
        let outline = |text: &str| -> String {
            let outside = text.split('`').step_by(2);
            outside.flat_map(str::chars).filter(|c| !c.is_ascii_digit()).collect()
        };
        self.kind == other.kind && (self.kind == Kind::Data || outline(&self.text) == outline(&other.text))
    }

    pub(super) fn new(kind: Kind, text: impl Into<String>) -> Self {
        Failure { kind, text: text.into() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind.name(), self.text)
    }
}
