//! Usage and limits of one host in a subsystem, over all its controllers, so that no host takes all
//! resources.

use byteway_clock::semaphore::Permit;
use byteway_clock::{Clock, Semaphore};

/// Limits of a host in a subsystem. A host is identified by NQN and Host Identifier: two machines with the
/// same NQN are two hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostLimits {
    /// Controllers at once. Controllers that have yet to authenticate do not count.
    pub controllers_max: usize,
    /// I/O queues at once, over all its controllers.
    pub io_queues_max: usize,
    /// I/O commands in execution at once; further commands wait.
    pub commands_max: usize,
    /// Bytes of data requested from the host, or read for it and not yet sent, at once; further commands
    /// wait.
    pub bytes_max: u32,
}

impl Default for HostLimits {
    fn default() -> Self {
        HostLimits { controllers_max: 16, io_queues_max: 128, commands_max: 256, bytes_max: 32 << 20 }
    }
}

/// A host's credit for a command's data, returned when dropped. Reads and writes both take it before the
/// credit for a command: the holder of a command's credit then waits for nothing that another command of the
/// host holds.
pub struct Credit(#[expect(dead_code, reason = "held, and given back when dropped")] Permit);

/// Granularity of credit, which keeps the semaphore's count small.
const UNIT_BYTES: u32 = 4096;

/// Current usage of a host.
pub(crate) struct HostUsage {
    commands: Semaphore,
    bytes: Semaphore,
    units_max: usize,
}

impl HostUsage {
    pub fn new(clock: &Clock, limits: &HostLimits) -> Self {
        let units_max = (limits.bytes_max / UNIT_BYTES).max(1) as usize;
        HostUsage {
            commands: Semaphore::new(clock, limits.commands_max.max(1)),
            bytes: Semaphore::new(clock, units_max),
            units_max,
        }
    }

    /// Units for so many bytes. A command longer than the host's limit takes the whole limit.
    fn units(&self, bytes: u32) -> usize {
        // Without the minimum, a command longer than the limit would wait for credit that can never exist.
        (bytes.div_ceil(UNIT_BYTES) as usize).min(self.units_max)
    }

    /// Credit for `bytes`, if available now.
    pub fn try_bytes(&self, bytes: u32) -> Option<Credit> {
        self.bytes.try_acquire(self.units(bytes)).map(Credit)
    }

    /// Waits for credit for `bytes`.
    pub async fn bytes(&self, bytes: u32) -> Credit {
        Credit(self.bytes.acquire(self.units(bytes)).await)
    }

    /// Waits until one more command may be executed.
    pub async fn command(&self) -> Permit {
        self.commands.acquire(1).await
    }

    /// Remaining commands and bytes.
    pub fn free(&self) -> (usize, u64) {
        (self.commands.available(), self.bytes.available() as u64 * u64::from(UNIT_BYTES))
    }
}
