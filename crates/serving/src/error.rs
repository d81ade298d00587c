//! Errors of work on existing drives. Distinguishable causes are variants; the program prints their texts.

use byteway_auth::LoginError;
use byteway_clock::Stalled;
use byteway_device::ConfigError;
use byteway_flash::file::DirectoryError;
use byteway_host::fabric::ConnectError;
use byteway_host::{AnyIoError, DriverError, IoError, MultipathError};
use byteway_pushdown::error::SessionError;
use byteway_run::error::RunError;
use byteway_serve::attach::AttachError;
use byteway_serve::tls::TlsError;
use byteway_text::error::InputError;
use byteway_text::interrupt::Interrupted;
use byteway_text::units::Bytes;
use byteway_wire::fabrics::auth::Explanation;
use byteway_wire::nvme::Status;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

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
    /// A request to a drive with tables failed.
    #[error(transparent)]
    Session(#[from] SessionError),
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
            AttachedError::Session(error) => error.wrong_input(),
            AttachedError::Run(error) => error.wrong_input(),
            AttachedError::InDirectory { source, .. } => source.wrong_input(),
            _ => None,
        }
    }

    /// Whether an interrupt ended the work, whatever failed then.
    pub fn is_interrupted(&self) -> bool {
        match self {
            AttachedError::Interrupted { .. } | AttachedError::Run(RunError::Interrupted) => true,
            AttachedError::Session(error) => error.is_interrupted(),
            AttachedError::InDirectory { source, .. } => source.is_interrupted(),
            _ => false,
        }
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
