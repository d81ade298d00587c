//! Errors of runs, and of work on existing drives. Distinguishable causes are variants; the program prints
//! their texts. Wrong data read is not an error: the results count it.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use byteway_assembly::jbof::JbofError;
use byteway_assembly::{ArrayDriveError, HostedError};
use byteway_auth::LoginError;
use byteway_clock::Stalled;
use byteway_device::ConfigError;
use byteway_flash::file::DirectoryError;
use byteway_host::fabric::ConnectError;
use byteway_host::{AnyIoError, DriverError, IoError, MultipathError};
use byteway_serve::attach::AttachError;
use byteway_serve::tls::TlsError;
use byteway_text::error::InputError;
use byteway_text::interrupt::Interrupted;
use byteway_text::units::Bytes;
use byteway_wire::fabrics::auth::Explanation;
use byteway_wire::nvme::Status;
use byteway_workload::JobPlan;

use crate::lsm::LsmError;
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
    /// Interrupted before the drives were ready: there are no results.
    #[error("{Interrupted}")]
    Interrupted,
    /// The JBOF enclosure cannot be built.
    #[error("the JBOF enclosure cannot be built")]
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
    /// Fewer queue pairs than workers.
    #[error(
        "the jobs want {wanted} queue pairs and the drive has {granted}: lower numjobs, or raise \
         controller.max_io_queues"
    )]
    QueuePairs {
        /// Workers of all jobs on the drive.
        wanted: u32,
        /// Queue pairs that the drive granted.
        granted: u16,
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
        source: Box<AttachedError>,
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
        RunError::Io(error.into())
    }
}

impl RunError {
    pub(crate) fn no_namespace(kind: NamespaceKind, job: &JobPlan) -> RunError {
        RunError::NoNamespace { kind, nsid: job.nsid, job: job.name.clone() }
    }

    /// The invalid input, if that is the cause.
    pub fn wrong_input(&self) -> Option<&InputError> {
        if let RunError::Input(error) = self { Some(error) } else { None }
    }
}

/// Why a request to an existing drive, served by another process or kept in a directory, failed.
#[derive(Debug, thiserror::Error)]
pub enum AttachedError {
    /// Invalid input, or input that does not match the drive.
    #[error(transparent)]
    Input(#[from] InputError),
    /// No drive is served there, or it refuses this process.
    #[error(transparent)]
    Connect(#[from] AttachError),
    /// A driver cannot initialize the drive.
    #[error("the driver cannot initialize the drive")]
    NotDriven(#[source] DriverError),
    /// The drive stopped responding, or refuses one of the driver's commands.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// A command failed, or has no completion.
    #[error(transparent)]
    Io(AnyIoError),
    /// The request succeeded, but could not be made durable.
    #[error("the request succeeded but may not be durable")]
    NotDurable(#[source] AnyIoError),
    /// The request succeeded, but the drive did not shut down.
    #[error("the drive did not shut down")]
    NotShutDown(#[source] DriverError),
    /// Blocks to be read could not be written first.
    #[error("the drive cannot be filled: {writes} writes failed with {status}")]
    NotFilled {
        /// Number of failed writes.
        writes: u64,
        /// Status of the failed operations.
        status: String,
    },
    /// Rows could not be loaded to the end.
    #[error(
        "the table {table} keeps the first {rows} rows of this load, and has {rows_in_all} in all: \
         drop it with `byteway csd drop {table}`, or load what is missing"
    )]
    PartlyLoaded {
        /// Name of the table.
        table: String,
        /// Rows of the load that it has.
        rows: u64,
        /// All its rows.
        rows_in_all: u64,
        /// Cause.
        source: Box<AttachedError>,
    },
    /// The jobs failed.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The target refused the host, or one side failed to authenticate.
    #[error("{}", refusal(*.0))]
    Refused(ConnectError),
    /// No secure channel to the target.
    #[error(
        "no TLS connection to the target at {address}: does it serve TLS there, with the same key for this host, \
         nqn.2026-11.org.byteway:bench, and that subsystem?"
    )]
    Tls {
        /// Address of the target.
        address: SocketAddr,
        /// Cause.
        source: TlsError,
    },
    /// The addresses are not paths to one drive.
    #[error(transparent)]
    Paths(#[from] MultipathError),
    /// The process that serves the drive no longer exists.
    #[error("the drive's process has gone, or has disconnected this one: see its log")]
    Gone,
    /// Interrupted before there were complete results.
    #[error("{Interrupted}")]
    Interrupted {
        /// The failure at that time, possibly because the server was interrupted as well.
        source: Option<Box<AttachedError>>,
    },
    /// Deadlock: a defect.
    #[error("{0}; this is a defect of Byteway")]
    Stalled(Stalled),
    /// A failure of a drive kept in a directory.
    #[error("{path}")]
    InDirectory {
        /// Path of the directory.
        path: PathBuf,
        /// Cause.
        source: Box<AttachedError>,
    },
    /// A failure of the directory itself.
    #[error(transparent)]
    Data(#[from] DataError),
}

/// Why a data directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// The directory is in use by another process, or does not exist.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// The amount of free space cannot be determined.
    #[error(transparent)]
    Disk(#[from] io::Error),
    /// Not enough free space for the request.
    #[error(
        "not enough space on its disk: {free} are free, {needed} are required; nothing was stored, and earlier data is \
         intact. Free space on that disk: deleting pairs does not release any"
    )]
    NoSpace {
        /// Free space.
        free: Bytes,
        /// Required space.
        needed: Bytes,
    },
    /// The directory holds another drive, a damaged one, or an unsupported configuration.
    #[error(transparent)]
    Drive(#[from] ConfigError),
    /// The directory failed during use.
    #[error("the data directory failed: {what}; the request was not executed, and earlier data is intact")]
    Failed {
        /// Message of the system.
        what: String,
    },
    /// The directory could not be closed.
    #[error("{what}")]
    NotClosed {
        /// Message of the system.
        what: String,
    },
}

impl<E> From<IoError<E>> for AttachedError
where
    AnyIoError: From<IoError<E>>,
{
    fn from(error: IoError<E>) -> Self {
        AttachedError::Io(error.into())
    }
}

impl AttachedError {
    pub(crate) fn in_directory(self, path: &Path) -> AttachedError {
        AttachedError::InDirectory { path: path.to_owned(), source: Box::new(self) }
    }

    /// The invalid input, if that is the cause.
    pub fn wrong_input(&self) -> Option<&InputError> {
        match self {
            AttachedError::Input(error) => Some(error),
            AttachedError::Run(error) => error.wrong_input(),
            AttachedError::InDirectory { source, .. } => source.wrong_input(),
            _ => None,
        }
    }

    /// Whether an interrupt ended the work, whatever failed then.
    pub fn is_interrupted(&self) -> bool {
        matches!(self, AttachedError::Interrupted { .. } | AttachedError::Run(RunError::Interrupted))
    }
}

/// Explains why a target refused this host, and what to do.
fn refusal(error: ConnectError) -> String {
    use byteway_wire::fabrics::status::{
        AUTHENTICATION_REQUIRED, CONNECT_INVALID_HOST, CONNECT_INVALID_PARAMETERS, CONTROLLER_BUSY, name,
    };
    let status = match error {
        ConnectError::Refused(status) => status.without_flags(),
        ConnectError::NoSecret => {
            return "the subsystem requires authentication: give --secret-file".to_owned();
        }
        ConnectError::SecureChannel => {
            return "the subsystem requires TLS with a key from authentication: give --concatenate"
                .to_owned();
        }
        ConnectError::Login(LoginError::Refused(Explanation::SECURE_CHANNEL_MISMATCH)) => {
            return "the target generates no TLS keys: leave --concatenate out, or configure it to do so"
                .to_owned();
        }
        ConnectError::Login(LoginError::Refused(Explanation::FAILED)) => {
            return "the target refuses this host: its secret differs from --secret-file, or it has no secret to authenticate \
                    itself, as --controller-secret-file requires"
                .to_owned();
        }
        ConnectError::Login(LoginError::NotAuthentic) => {
            return "the target does not know the secret in --controller-secret-file: wrong target, or wrong secret"
                .to_owned();
        }
        other => return other.to_string(),
    };
    let hint = match status {
        Status::INTERNAL_PATH_ERROR => {
            return "no reply: is a drive served at that address? With TLS it needs --tls-key".to_owned();
        }
        CONNECT_INVALID_PARAMETERS => {
            "it has no subsystem of that name, or other queues: `nvme discover` lists subsystems"
        }
        CONNECT_INVALID_HOST => "it does not allow this host, nqn.2026-11.org.byteway:bench",
        CONTROLLER_BUSY => "its maximum number of hosts is connected",
        AUTHENTICATION_REQUIRED => "a queue is not authenticated",
        _ => "no further reason is given",
    };
    format!("the target refused the connection ({}): {hint}", name(status))
}
