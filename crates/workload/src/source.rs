//! What jobs ask: the list of its kinds.

use super::kv::KvPlan;
use super::recording::TracePlan;
use super::source_kind::SourceKind;
use super::synthetic::Synthetic;

/// The enum of the kinds, a line each: a further one is a module, and such a line.
macro_rules! sources {
    ($($(#[doc = $doc:literal])* $(#[cfg($cfg:meta)])? $name:ident($kind:ty),)*) => {
        /// What a job asks.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Source {
            $($(#[doc = $doc])* $(#[cfg($cfg)])? $name($kind),)*
        }

        impl Source {
            /// What its kind says of itself.
            pub(crate) fn kind(&self) -> &dyn SourceKind {
                match self {
                    $($(#[cfg($cfg)])? Source::$name(kind) => kind,)*
                }
            }
        }
    };
}

sources! {
    /// I/Os, drawn at random.
    Synthetic(Synthetic),
    /// I/Os, as they were recorded.
    Trace(TracePlan),
    /// Operations on the pairs of a key-value drive, or of a tree on the host.
    Pairs(Box<KvPlan>),
    /// Echoes.
    #[cfg(feature = "echo")]
    Echo(super::echo::EchoPlan),
}
