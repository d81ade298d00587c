//! Why a run, or work on a drive that is there already, has no results. What can be told apart is a variant; the text is what
//! the program prints. A read that gave wrong data is no error: the results count it.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use byteway_assembly::jbof::JbofError;
use byteway_assembly::{ArrayDriveError, HostedError};
use byteway_auth::LoginError;
use byteway_clock::Stalled;
use byteway_console::error::InputError;
use byteway_console::interrupt::Interrupted;
use byteway_console::units::Bytes;
use byteway_device::ConfigError;
use byteway_flash::file::DirectoryError;
use byteway_host::fabric::ConnectError;
use byteway_host::{AnyIoError, DriverError, IoError, MultipathError};
use byteway_serve::attach::AttachError;
use byteway_serve::tls::TlsError;
use byteway_wire::fabrics::auth::Explanation;
use byteway_wire::nvme::Status;
use byteway_workload::JobPlan;

use crate::lsm::LsmError;
use byteway_world::UnbalancedBooks;

/// Why jobs on a drive have no results.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The input is wrong, which shows only now: a trace that changes while it is replayed, a job that ends beyond what a
    /// run reaches, a drive too small for a tree.
    #[error(transparent)]
    Input(#[from] InputError),
    /// There can be no such drive.
    #[error("the drive can't be built")]
    NotBuilt(#[source] ConfigError),
    /// A drive whose firmware runs on the host does not come to be.
    #[error("the drive's firmware can't be started on the host")]
    NotHosted(#[source] HostedError),
    /// It was interrupted before the drives were there: there is nothing to show.
    #[error("{Interrupted}")]
    Interrupted,
    /// Drives do not come to be a box.
    #[error("the box of drives can't be built")]
    NotBoxed(#[source] JbofError),
    /// Drives do not come to be one.
    #[error("the drives can't be put together")]
    NotAssembled(#[source] ArrayDriveError),
    /// The drive does not answer as a controller must, or refuses a command of the driver's own.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// The drive has refused an admin command that the run needs.
    #[error("{what}: {status}")]
    Refused {
        /// What could not be done.
        what: String,
        /// How it answered.
        status: Status,
    },
    /// The drive has fewer queue pairs than its jobs have workers.
    #[error(
        "the jobs want {wanted} queue pairs and the drive has {granted}: lower numjobs, or raise \
         controller.max_io_queues"
    )]
    QueuePairs {
        /// Workers of all jobs on the drive.
        wanted: u32,
        /// What the drive has granted.
        granted: u16,
    },
    /// The drive has no namespace for a job, or one of another kind.
    #[error("the drive has no {}{nsid}{} for job `{job}`", .kind.before(), .kind.behind())]
    NoNamespace {
        /// What the job asks for.
        kind: NamespaceKind,
        /// Which namespace it names.
        nsid: u32,
        /// The job.
        job: String,
    },
    /// The drive takes less with one command than a tree on the host transfers.
    #[error(
        "the tree of job `{job}` reads and writes {bytes} bytes at once, which is more than the drive takes with a \
         command: raise controller.mdts"
    )]
    TransferTooShort {
        /// The job.
        job: String,
        /// What the tree transfers at once.
        bytes: u32,
    },
    /// An I/O could not be carried out at all: it has no completion, or the host has no memory for it. One that the drive
    /// completes with an error is counted in the results.
    #[error(transparent)]
    Io(AnyIoError),
    /// The same of an operation on a key-value pair.
    #[error("job `{job}`")]
    PairIo {
        /// The operation's job.
        job: String,
        /// Why.
        source: AnyIoError,
    },
    /// The LSM tree on the host could not be made.
    #[error(transparent)]
    Tree(#[from] LsmError),
    /// Two parts of the simulation have counted different bytes: a defect.
    #[error(transparent)]
    Unbalanced(#[from] UnbalancedBooks),
    /// The simulation waits indefinitely: a defect.
    #[error("{0}; this is a defect of Byteway: please report the scenario")]
    Stalled(Stalled),
}

/// What a job needs of its namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamespaceKind {
    /// That it is there.
    Any,
    /// Blocks, for a tree on the host.
    Blocks,
    /// Key-value pairs.
    KeyValue,
}

impl NamespaceKind {
    fn before(self) -> &'static str {
        match self {
            NamespaceKind::Any | NamespaceKind::Blocks => "namespace ",
            NamespaceKind::KeyValue => "key-value namespace ",
        }
    }

    fn behind(self) -> &'static str {
        if self == NamespaceKind::Blocks { " of blocks" } else { "" }
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

    /// What is wrong with the input, if that is why.
    pub fn wrong_input(&self) -> Option<&InputError> {
        if let RunError::Input(error) = self { Some(error) } else { None }
    }
}

/// Why a drive that is there already, served by another process or kept in a directory, has not done what was asked.
#[derive(Debug, thiserror::Error)]
pub enum AttachedError {
    /// The input is wrong, or does not fit the drive.
    #[error(transparent)]
    Input(#[from] InputError),
    /// There is no such served drive, or it does not take this process.
    #[error(transparent)]
    Connect(#[from] AttachError),
    /// The drive cannot be brought up by a driver.
    #[error("the drive cannot be driven")]
    NotDriven(#[source] DriverError),
    /// The drive has stopped answering, or refuses a command of the driver's own.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// A command failed, or has no completion.
    #[error(transparent)]
    Io(AnyIoError),
    /// What was asked is done, and the drive could not make it durable.
    #[error("what was asked is done, and may not be durable")]
    NotDurable(#[source] AnyIoError),
    /// What was asked is done, and the drive did not end in order.
    #[error("the drive did not shut down")]
    NotShutDown(#[source] DriverError),
    /// Blocks that are to be read could not be written first.
    #[error("the drive cannot be filled: {writes} writes failed with {status}")]
    NotFilled {
        /// So many.
        writes: u64,
        /// How.
        status: String,
    },
    /// The jobs have failed.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The target has refused the host, or either has not authenticated.
    #[error("{}", refusal(*.0))]
    Refused(ConnectError),
    /// There is no secure channel to the target.
    #[error(
        "no TLS with the target at {address}. Does it serve with TLS there, and has it the same key for this host, \
         nqn.2026-11.org.byteway:bench, and that subsystem?"
    )]
    Tls {
        /// Where it is.
        address: SocketAddr,
        /// Why.
        source: TlsError,
    },
    /// Addresses are not paths to one drive.
    #[error(transparent)]
    Paths(#[from] MultipathError),
    /// The process that serves the drive has gone.
    #[error("the drive's process has gone, or has dropped this one: its log says more")]
    Gone,
    /// It was interrupted before there was anything whole.
    #[error("{Interrupted}")]
    Interrupted {
        /// What failed then, which may be because its server was interrupted, too.
        source: Option<Box<AttachedError>>,
    },
    /// Nothing can go on: a defect.
    #[error("{0}; this is a defect of Byteway")]
    Stalled(Stalled),
    /// Something has failed with a drive that is kept in a directory.
    #[error("{path}")]
    InDirectory {
        /// The directory.
        path: PathBuf,
        /// What.
        source: Box<AttachedError>,
    },
    /// The directory itself is what has failed.
    #[error(transparent)]
    Data(#[from] DataError),
}

/// Why a directory gives no drive, or keeps none.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// It can't be had: another process has it, or it is not there.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// How much space there is cannot be found out.
    #[error(transparent)]
    Disk(#[from] io::Error),
    /// There is not enough space to store what was asked.
    #[error(
        "no space left on its disk: {free} are free, and {needed} are needed; nothing was stored, and what was stored before \
         is there. Free some on that disk: deleting pairs does not give space back"
    )]
    NoSpace {
        /// What is free.
        free: Bytes,
        /// What is needed.
        needed: Bytes,
    },
    /// It holds another drive, a damaged one, or one that there can't be.
    #[error(transparent)]
    Drive(#[from] ConfigError),
    /// It has failed while it was in use.
    #[error(
        "the data directory has failed: {what}; what was asked is not done, and what was stored before is there"
    )]
    Failed {
        /// What the system said.
        what: String,
    },
    /// It could not be closed.
    #[error("{what}")]
    NotClosed {
        /// What the system said.
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

    /// What is wrong with the input, if that is why.
    pub fn wrong_input(&self) -> Option<&InputError> {
        match self {
            AttachedError::Input(error) => Some(error),
            AttachedError::Run(error) => error.wrong_input(),
            AttachedError::InDirectory { source, .. } => source.wrong_input(),
            _ => None,
        }
    }

    /// Whether it was interrupted, whatever failed then.
    pub fn is_interrupted(&self) -> bool {
        matches!(self, AttachedError::Interrupted { .. } | AttachedError::Run(RunError::Interrupted))
    }
}

/// Why a target has not connected this host, and what to do about it.
fn refusal(error: ConnectError) -> String {
    use byteway_wire::fabrics::status::{
        AUTHENTICATION_REQUIRED, CONNECT_INVALID_HOST, CONNECT_INVALID_PARAMETERS, CONTROLLER_BUSY, name,
    };
    let status = match error {
        ConnectError::Refused(status) => status.without_flags(),
        ConnectError::NoSecret => {
            return "the subsystem asks for authentication: give --secret-file".to_owned();
        }
        ConnectError::SecureChannel => {
            return "the subsystem requires TLS with a key of authentication: give --concatenate".to_owned();
        }
        ConnectError::Login(LoginError::Refused(Explanation::SECURE_CHANNEL_MISMATCH)) => {
            return "the target generates no keys for TLS: leave --concatenate out, or have it do so"
                .to_owned();
        }
        ConnectError::Login(LoginError::Refused(Explanation::FAILED)) => {
            return "the target refuses this host: its secret is another one than --secret-file holds, or it has no secret to \
                    prove itself with as --controller-secret-file asks"
                .to_owned();
        }
        ConnectError::Login(LoginError::NotAuthentic) => {
            return "the target does not know the secret of --controller-secret-file: it is another one, or the secret is wrong"
                .to_owned();
        }
        other => return other.to_string(),
    };
    let hint = match status {
        Status::INTERNAL_PATH_ERROR => {
            return "nobody answers there: is a drive served at that address? One that is served with TLS needs --tls-key".to_owned();
        }
        CONNECT_INVALID_PARAMETERS => {
            "it has no subsystem of that name, or other queues: `nvme discover` lists them"
        }
        CONNECT_INVALID_HOST => "it does not let this host, nqn.2026-11.org.byteway:bench, in",
        CONTROLLER_BUSY => "it has as many hosts as it may have",
        AUTHENTICATION_REQUIRED => "a queue has not authenticated",
        _ => "it gives no other reason",
    };
    format!("the target has refused the connection ({}): {hint}", name(status))
}
