//! Errors of runs. Distinguishable causes are variants; the program prints their texts. Wrong data read is not an error: the results count
//! it.

use crate::lsm::LsmError;
use byteway_assembly::{ArrayDriveError, HostedError};
use byteway_clock::Stalled;
use byteway_device::ConfigError;
use byteway_host::{AnyIoError, DriverError, IoError};
use byteway_jbof::JbofError;
use byteway_pushdown::error::SessionError;
use byteway_text::error::InputError;
use byteway_text::interrupt::Interrupted;
use byteway_wire::nvme::Status;
use byteway_workload::JobPlan;
use byteway_world::UnbalancedBooks;

/// Why jobs on a drive have no results.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Invalid input that only shows during the run: a trace that changes during its replay, a job that exceeds the maximum virtual time, a
    /// drive too small for an LSM tree.
    #[error(transparent)]
    Input(#[from] InputError),
    /// The drive's configuration is not supported.
    #[error("the drive cannot be built")]
    NotBuilt(#[source] ConfigError),
    /// A drive whose firmware runs on the host does not start.
    #[error("the drive's firmware cannot be started on the host")]
    NotHosted(#[source] HostedError),
    /// A policy that is not built in did what it must not: the figures are not of it.
    #[error(
        "{0}\n  help: correct the policy: docs/tasks/write-a-policy.md says what it is asked and told, and what it may answer"
    )]
    Policy(String),
    /// A transfer method that is not built in did what it must not.
    #[error(
        "{0}\n  help: correct the method: docs/tasks/write-a-transfer-method.md says what it is asked and told, and what it may answer"
    )]
    TransferMethod(String),
    /// Interrupted before the drives were ready: there are no results.
    #[error("{Interrupted}")]
    Interrupted,
    /// The JBOF cannot be built.
    #[error("the JBOF cannot be built")]
    NotBoxed(#[source] JbofError),
    /// A composite drive cannot be assembled.
    #[error("the composite drive cannot be assembled")]
    NotAssembled(#[source] ArrayDriveError),
    /// The drive violates the protocol, or refuses one of the driver's commands.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// The drive refused an admin command that the run needs.
    #[error("{what}: {status}")]
    Refused {
        /// The attempted operation.
        what: String,
        /// The drive's status.
        status: Status,
    },
    /// A job's namespace does not exist, or is of another kind.
    #[error("the drive has no {}{nsid}{} for job `{job}`", .kind.before(), .kind.behind())]
    NoNamespace {
        /// Kind of namespace that the job needs.
        kind: NamespaceKind,
        /// Namespace that it names.
        nsid: u32,
        /// Name of the job.
        job: String,
    },
    /// The maximum transfer size is too small for an LSM tree on the host.
    #[error(
        "the LSM tree of job `{job}` transfers {bytes} bytes at once, which is more than the drive supports per \
         command: raise controller.mdts"
    )]
    TransferTooShort {
        /// Name of the job.
        job: String,
        /// Transfer size of the tree in bytes.
        bytes: u32,
    },
    /// An I/O could not be executed: it has no completion, or the host no memory for it. I/Os that the drive completes with an error are
    /// counted in the results.
    #[error(transparent)]
    Io(AnyIoError),
    /// The same for a key-value operation.
    #[error("job `{job}`")]
    PairIo {
        /// Name of the job.
        job: String,
        /// Cause.
        source: AnyIoError,
    },
    /// The same for a query, or for loading its tables.
    #[error("job `{job}`")]
    Query {
        /// Name of the job.
        job: String,
        /// Cause.
        source: Box<SessionError>,
    },
    /// The LSM tree on the host could not be created.
    #[error(transparent)]
    Tree(#[from] LsmError),
    /// Two byte counts of the simulation disagree: a defect.
    #[error(transparent)]
    Unbalanced(#[from] UnbalancedBooks),
    /// The simulation is deadlocked: a defect.
    #[error("{0}; this is a defect of Byteway: please report the scenario")]
    Stalled(Stalled),
}

/// Kind of namespace that a job needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamespaceKind {
    /// Any kind.
    Any,
    /// Blocks, for an LSM tree on the host.
    Blocks,
    /// Key-value pairs.
    KeyValue,
    /// Tables.
    Tables,
}

impl NamespaceKind {
    fn before(self) -> &'static str {
        match self {
            NamespaceKind::Any | NamespaceKind::Blocks | NamespaceKind::Tables => "namespace ",
            NamespaceKind::KeyValue => "key-value namespace ",
        }
    }

    fn behind(self) -> &'static str {
        match self {
            NamespaceKind::Blocks => " with blocks",
            NamespaceKind::Tables => " with tables",
            NamespaceKind::Any | NamespaceKind::KeyValue => "",
        }
    }
}

impl<E> From<IoError<E>> for RunError
where
    AnyIoError: From<IoError<E>>,
{
    fn from(error: IoError<E>) -> Self {
        match error {
            IoError::Method(fault) => RunError::TransferMethod(fault.to_owned()),
            error => RunError::Io(error.into()),
        }
    }
}

impl RunError {
    pub(crate) fn no_namespace(kind: NamespaceKind, job: &JobPlan) -> RunError {
        RunError::NoNamespace { kind, nsid: job.nsid, job: job.name.clone() }
    }

    /// Of a key-value operation of a job.
    pub(crate) fn of_pairs(job: &JobPlan, source: AnyIoError) -> RunError {
        match source {
            IoError::Method(fault) => RunError::TransferMethod(fault.to_owned()),
            source => RunError::PairIo { job: job.name.clone(), source },
        }
    }

    /// The invalid input, if that is the cause.
    pub fn wrong_input(&self) -> Option<&InputError> {
        if let RunError::Input(error) = self { Some(error) } else { None }
    }
}
