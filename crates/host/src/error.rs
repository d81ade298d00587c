//! What can go wrong between a driver and a controller.

use crate::queue::Lost;
use byteway_clock::Delay;
use byteway_transfer::host::PlanError;
use byteway_wire::nvme::Status;

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
