//! Errors of drivers and clients.

use byteway_clock::Delay;
use byteway_link::memory::Fault;
use byteway_transfer::host::PlanError;
use byteway_wire::nvme::Status;
use std::convert::Infallible;

/// Why a command has no completion. Whether it took effect is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Lost {
    /// The controller was reset while the command was outstanding.
    #[error("the controller was reset while the command was outstanding")]
    Reset,
    /// The command's queue was deleted.
    #[error("the command's queue was deleted")]
    Deleted,
    /// The controller was shut down.
    #[error("the controller was shut down")]
    ShutDown,
    /// The controller did not recover from a reset.
    #[error("the controller has failed: it did not recover from a reset")]
    Failed,
    /// The connection to the controller was lost, and none came back in time.
    #[error("the connection to the controller was lost")]
    Disconnected,
    /// The controller did not complete a command of its initialization in time.
    #[error("the controller did not complete a command in time")]
    TimedOut,
    /// The command was not submitted: its payload exceeds every limit, or the queue is no longer enabled for
    /// it.
    #[error("the command was not submitted: the queue cannot carry its payload")]
    NotPlaced,
}

/// Failure of a driver operation. Values from the controller in it were not used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DriverError {
    /// Register reads return all ones.
    #[error("there is no controller: its registers read as all ones")]
    NoController,
    /// 4 KiB is not among the page sizes.
    #[error("the controller requires memory pages of at least 2^{0} bytes; this host has 4 KiB pages")]
    PageSize(u32),
    /// CAP.CSS reports no I/O command set.
    #[error("the controller has no I/O command set")]
    CommandSet,
    /// CSTS.RDY did not change within the time of CAP.TO.
    #[error("the controller was not {what} after {waited}")]
    NotReady {
        /// The awaited state.
        what: &'static str,
        /// The time waited.
        waited: Delay,
    },
    /// CSTS.CFS is set.
    #[error("the controller reports a fatal error (CSTS.CFS)")]
    Fatal,
    /// A command of the driver failed.
    #[error("{what} failed: {status}")]
    Status {
        /// Name of the command.
        what: &'static str,
        /// Status of its completion.
        status: Status,
    },
    /// A command of the driver has no completion.
    #[error("{what} was lost: {lost}")]
    Lost {
        /// Name of the command.
        what: &'static str,
        /// The reason.
        #[source]
        lost: Lost,
    },
    /// No host memory is available.
    #[error("no host memory is available for {0}")]
    Memory(&'static str),
    /// The number of entries is out of range.
    #[error("a queue of {entries} entries is out of range: 2 to {entries_max}")]
    QueueEntries {
        /// The requested number.
        entries: u32,
        /// The maximum of the controller.
        entries_max: u32,
    },
    /// Every granted queue is in use.
    #[error("all {granted} I/O queues that the controller granted are in use")]
    NoQueueLeft {
        /// Number of granted queues.
        granted: u16,
    },
    /// The queue pair belongs to another driver, or was deleted.
    #[error("submission queue {0} does not belong to this driver")]
    NoSuchQueue(u16),
    /// The value changes whenever it is read, takes too long, or has an unknown format.
    #[error("{0} cannot be read: it changes too often, takes too long, or has an unknown format")]
    Unreadable(&'static str),
    /// The data of an admin command cannot be described by PRPs.
    #[error("the data of an admin command cannot be described: {0}")]
    Data(#[from] PlanError),
    /// The controller was shut down, or has failed permanently.
    #[error(transparent)]
    Gone(Lost),
}

/// Why an I/O failed. `E` are the errors of a specific kind of client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IoError<E = Infallible> {
    /// The command completed with an error status.
    #[error("the command failed: {0}")]
    Status(Status),
    /// The command has no completion.
    #[error(transparent)]
    Lost(#[from] Lost),
    /// The payload cannot be described, or exceeds its buffer.
    #[error("the payload cannot be described: {0}")]
    Plan(#[from] PlanError),
    /// The buffer is no longer host memory.
    #[error("the buffer is not usable: {0}")]
    Memory(Fault),
    /// No host memory is available for a buffer.
    #[error("no host memory is available for a buffer of {bytes} bytes")]
    NoRoom {
        /// Size of the buffer.
        bytes: u32,
    },
    /// A result after a completion is incomplete, or not the requested one.
    #[error("the result after the completion is incomplete")]
    BrokenResult,
    /// A transfer method that is not built in did what it must not. The text lives as long as the process, so that no error of an I/O has
    /// anything to free.
    #[error("{0}")]
    Method(&'static str),
    /// An error of the client's kind.
    #[error("{0}")]
    Client(E),
}

impl IoError {
    /// The same error, for a kind of client.
    pub fn of_client<E>(self) -> IoError<E> {
        self.map_client(|never| match never {})
    }
}

impl<E> IoError<E> {
    fn map_client<F>(self, map: impl FnOnce(E) -> F) -> IoError<F> {
        match self {
            IoError::Status(status) => IoError::Status(status),
            IoError::Lost(lost) => IoError::Lost(lost),
            IoError::Plan(error) => IoError::Plan(error),
            IoError::Memory(fault) => IoError::Memory(fault),
            IoError::NoRoom { bytes } => IoError::NoRoom { bytes },
            IoError::BrokenResult => IoError::BrokenResult,
            IoError::Method(fault) => IoError::Method(fault),
            IoError::Client(error) => IoError::Client(map(error)),
        }
    }
}

/// Kind of a client's specific error, for code that does not know the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientErrorKind {
    /// Data read or transferred is wrong.
    WrongData,
    /// The expected data is uncertain, so nothing is known to be wrong.
    Uncertain,
    /// The client or the drive refused the request.
    Refused,
}

/// The specific error of a kind of client.
pub trait ClientError: std::fmt::Display {
    /// Kind of the error.
    fn kind(&self) -> ClientErrorKind;
}

impl ClientError for Infallible {
    fn kind(&self) -> ClientErrorKind {
        match *self {}
    }
}

/// An error of a client of any kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct AnyClientError {
    /// Kind of the error.
    pub kind: ClientErrorKind,
    /// Text of the error.
    pub text: String,
}

/// Why an I/O of a client of any kind failed.
pub type AnyIoError = IoError<AnyClientError>;

impl<E: ClientError> From<IoError<E>> for AnyIoError {
    fn from(error: IoError<E>) -> Self {
        error.map_client(|error| AnyClientError { kind: error.kind(), text: error.to_string() })
    }
}
