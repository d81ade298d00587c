//! What can go wrong between a driver and a controller.

use crate::kv::oracle::KvMismatch;
use crate::oracle::Mismatch;
use crate::sink_oracle::WrongByte;
use byteway_clock::Delay;
use byteway_link::memory::Fault;
use byteway_transfer::host::PlanError;
use byteway_wire::nvme::Status;

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
    /// The data of an admin command cannot be described.
    #[error("the data of an admin command cannot be described: {0}")]
    Data(#[from] PlanError),
    /// The controller is gone for this driver: shut down, or failed for good.
    #[error(transparent)]
    Gone(Lost),
}

/// Why an I/O failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IoError {
    /// The controller completed it with an error.
    #[error("the command failed: {0}")]
    Status(Status),
    /// It has no completion.
    #[error(transparent)]
    Lost(#[from] Lost),
    /// A block that was read holds what it must not.
    #[error(transparent)]
    Mismatch(Box<Mismatch>),
    /// Its payload cannot be described, or doesn't fit its buffer.
    #[error("the payload cannot be described: {0}")]
    Plan(#[from] PlanError),
    /// A command has 1 to 65536 blocks, or 1 to 256 ranges, all below 2^64.
    #[error("{count} blocks or ranges from {lba} on cannot be one command")]
    Extent {
        /// The first block.
        lba: u64,
        /// How many.
        count: u64,
    },
    /// What the block holds isn't certain, so it cannot be compared.
    #[error("what logical block {lba} holds is not certain while writes to it are under way")]
    Unsettled {
        /// The block.
        lba: u64,
    },
    /// A Compare and Write has written although what was compared differs.
    #[error("a Compare and Write of logical block {lba} has written although a byte differs")]
    WroteUnequal {
        /// The first of its blocks.
        lba: u64,
    },
    /// The buffer isn't host memory any more.
    #[error("the buffer: {0}")]
    Memory(Fault),
    /// No room in host memory for a buffer.
    #[error("no room in host memory for a buffer of {bytes} bytes")]
    NoRoom {
        /// Its size.
        bytes: u32,
    },
    /// A format that this client doesn't speak.
    #[error("blocks of {block_bytes} bytes with {metadata_bytes} bytes of metadata are not supported")]
    Format {
        /// Data bytes of a block.
        block_bytes: u32,
        /// Metadata bytes of a block.
        metadata_bytes: u16,
    },
    /// A result that should lie behind its completion is not whole, or not the one that was asked for.
    #[error("the result behind the completion is not whole")]
    BrokenResult,
    /// The drive has no payload sink.
    #[error("the drive has no payload sink")]
    NoSink,
    /// What crossed is not what was sent: the checksums differ.
    #[error(
        "the payload at {offset} was corrupted: its CRC-32C is {found:#010x} and must be {expected:#010x}"
    )]
    Corrupt {
        /// Where in the sink.
        offset: u64,
        /// The sender's checksum.
        expected: u32,
        /// The receiver's.
        found: u32,
    },
    /// A byte of the sink that was read holds what it must not.
    #[error(transparent)]
    WrongByte(#[from] WrongByte),
    /// A key holds what it must not.
    #[error(transparent)]
    KvMismatch(Box<KvMismatch>),
    /// The buffer is too small for a pair.
    #[error("the next pair takes {bytes} bytes")]
    TooSmall {
        /// What it takes.
        bytes: u32,
    },
}
