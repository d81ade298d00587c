//! What a run found to be wrong.

use std::fmt;

/// What is wrong, roughly: a smaller plan must fail in the same way to be the same failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A block holds what it must not.
    Data,
    /// A command failed that must not, or the driver could not do what it must.
    Error,
    /// Nothing moves any more, or without end.
    Hang,
    /// A panic.
    Panic,
    /// Something was kept that must be free, or counts don't agree.
    Leak,
    /// The drive can't be built: the plan is wrong.
    Plan,
}

impl Kind {
    /// Its name.
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

/// A run that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// In which way.
    pub kind: Kind,
    /// What exactly.
    pub text: String,
}

impl Failure {
    /// Whether both are the same but for numbers, and for what is in backquotes; of wrong data it is enough that it is
    /// wrong.
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
