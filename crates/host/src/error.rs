//! What can go wrong between a driver and a controller.

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
    /// Its queue was deleted.
    #[error("the command's queue was deleted")]
    Deleted,
    /// The controller was shut down.
    #[error("the controller was shut down")]
    ShutDown,
    /// The controller didn't come back from a reset.
    #[error("the controller has failed: it didn't come back from a reset")]
    Failed,
    /// It was not placed: its payload can never fit, or the queue is not enabled for it any more.
    #[error("the command was not placed: the queue cannot take its payload")]
    NotPlaced,
}

/// Why the driver cannot do what was asked. Values in it came from the controller and were not believed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DriverError {
    /// Register reads give all ones.
    #[error("there is no controller: its registers read as all ones")]
    NoController,
    /// 4 KiB is not among the page sizes.
    #[error("the controller wants memory pages of at least 2^{0} bytes; this host has 4 KiB pages")]
    PageSize(u32),
    /// CAP.CSS says that there are no I/O commands.
    #[error("the controller has no I/O command set")]
    CommandSet,
    /// CSTS.RDY didn't change in the time that CAP.TO gives.
    #[error("the controller was not {what} after {waited}")]
    NotReady {
        /// What it was waited for.
        what: &'static str,
        /// How long.
        waited: Delay,
    },
    /// CSTS.CFS is set.
    #[error("the controller reports a fatal error (CSTS.CFS)")]
    Fatal,
    /// A command of the driver's own failed.
    #[error("{what} failed: {status}")]
    Status {
        /// Which command.
        what: &'static str,
        /// How it failed.
        status: Status,
    },
    /// A command of the driver's own has no completion.
    #[error("{what} was lost: {lost}")]
    Lost {
        /// Which command.
        what: &'static str,
        /// Why.
        #[source]
        lost: Lost,
    },
    /// No room in host memory.
    #[error("no room in host memory for {0}")]
    Memory(&'static str),
    /// A queue of that many entries is not possible.
    #[error("a queue of {entries} entries is not possible: 2 to {entries_max}")]
    QueueEntries {
        /// What was asked for.
        entries: u32,
        /// What the controller allows.
        entries_max: u32,
    },
    /// Every queue that the controller granted is in use.
    #[error("all {granted} I/O queues that the controller granted are in use")]
    NoQueueLeft {
        /// How many it granted.
        granted: u16,
    },
    /// The queue pair is not one of this driver's, or was deleted.
    #[error("submission queue {0} is not one of this driver's")]
    NoSuchQueue(u16),
    /// It changes each time that it is read, takes too long, or has a format that this driver does not know.
    #[error("{0} cannot be read: it changes too often, takes too long, or its format is not known")]
    Unreadable(&'static str),
    /// The data of an admin command cannot be described.
    #[error("the data of an admin command cannot be described: {0}")]
    Data(#[from] PlanError),
    /// The controller is gone for this driver: shut down, or failed for good.
    #[error(transparent)]
    Gone(Lost),
}

/// Why an I/O failed. `E` is what only a client of its kind can say.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IoError<E = Infallible> {
    /// The controller completed it with an error.
    #[error("the command failed: {0}")]
    Status(Status),
    /// It has no completion.
    #[error(transparent)]
    Lost(#[from] Lost),
    /// Its payload cannot be described, or doesn't fit its buffer.
    #[error("the payload cannot be described: {0}")]
    Plan(#[from] PlanError),
    /// The buffer isn't host memory any more.
    #[error("the buffer: {0}")]
    Memory(Fault),
    /// No room in host memory for a buffer.
    #[error("no room in host memory for a buffer of {bytes} bytes")]
    NoRoom {
        /// Its size.
        bytes: u32,
    },
    /// A result that should lie behind its completion is not whole, or not the one that was asked for.
    #[error("the result behind the completion is not whole")]
    BrokenResult,
    /// What the client says.
    #[error("{0}")]
    Client(E),
}

impl IoError {
    /// The same, said by a client of some kind.
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
            IoError::Client(error) => IoError::Client(map(error)),
        }
    }
}

/// What an error that only one kind of client has means to who knows no kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// What was read, or what crossed, isn't what it must be.
    WrongData,
    /// What must be there isn't certain, so nothing is known to be wrong.
    Uncertain,
    /// The client could not do what was asked.
    Refused,
}

/// An error that only one kind of client has.
pub trait ClientError: std::fmt::Display {
    /// What it means.
    fn meaning(&self) -> Meaning;
}

impl ClientError for Infallible {
    fn meaning(&self) -> Meaning {
        match *self {}
    }
}

/// An error of a client of any kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct AnyClientError {
    /// What it means.
    pub meaning: Meaning,
    /// What it says.
    pub text: String,
}

/// Why an I/O of a client of any kind failed.
pub type AnyIoError = IoError<AnyClientError>;

impl<E: ClientError> From<IoError<E>> for AnyIoError {
    fn from(error: IoError<E>) -> Self {
        error.map_client(|error| AnyClientError { meaning: error.meaning(), text: error.to_string() })
    }
}
