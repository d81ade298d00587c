//! Statistics of a drive that is served, or was.

use byteway_clock::Lateness;
use byteway_link::Ledger;

/// Statistics of a drive that is served, or was.
pub struct Report {
    /// Name of the drive.
    pub name: String,
    /// Clients that were attached, one after the other, and controllers that hosts created over NVMe/TCP.
    /// This and the following counters sum over all ports.
    pub clients: u64,
    /// Commands fetched, including admin commands.
    pub commands: u64,
    /// Number of reads and compares, and their bytes.
    pub reads: (u64, u64),
    /// Number of writes, and their bytes.
    pub writes: (u64, u64),
    /// Controller resets.
    pub resets: u64,
    /// Bytes and packets that crossed the link.
    pub ledger: Ledger,
    /// Posted writes to memory that the host had unmapped.
    pub faults: u64,
    /// Interrupt messages that could not be delivered.
    pub interrupts_lost: u64,
    /// Lateness of the runner relative to modelled time; `None` with `Timing::None`.
    pub pace: Option<Lateness>,
}
