//! The list of workload kinds: what a job issues.

use super::kv::KvPlan;
use super::own::OwnPlan;
use super::query::QueryPlan;
use super::recording::TracePlan;
use super::source_kind::SourceKind;
use super::synthetic::Synthetic;

/// Defines the enum of kinds, one line for each: a further kind takes a module and a line here.
macro_rules! sources {
    ($($(#[doc = $doc:literal])* $(#[cfg($cfg:meta)])? $name:ident($kind:ty),)*) => {
        /// Kind of a job's workload.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Source {
            $($(#[doc = $doc])* $(#[cfg($cfg)])? $name($kind),)*
        }

        impl Source {
            /// The kind's implementation.
            pub(crate) fn kind(&self) -> &dyn SourceKind {
                match self {
                    $($(#[cfg($cfg)])? Source::$name(kind) => kind,)*
                }
            }
        }
    };
}

sources! {
    /// Randomly drawn I/Os.
    Synthetic(Synthetic),
    /// I/Os of a source that is not built in.
    Own(OwnPlan),
    /// I/Os replayed from a trace.
    Trace(TracePlan),
    /// Key-value operations on a key-value drive, or on an LSM tree on the host.
    Pairs(Box<KvPlan>),
    /// Queries over the tables of a computational drive.
    Queries(Box<QueryPlan>),
    /// Operations on an echo namespace.
    #[cfg(feature = "echo")]
    Echo(super::echo::EchoPlan),
}
