//! What one host has of a subsystem, over all its controllers: so that none takes everything.

use byteway_clock::semaphore::Permit;
use byteway_clock::{Clock, Semaphore};

/// What a host may have of a subsystem. Hosts are told apart by their NQNs and Host Identifiers: two machines that were given one
/// name are two hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostLimits {
    /// Controllers at once. Those that have yet to authenticate don't count.
    pub controllers_max: usize,
    /// I/O queues at once, of all its controllers together.
    pub io_queues_max: usize,
    /// I/O commands that are executed at once; further ones wait.
    pub commands_max: usize,
    /// Bytes of data that it may have been asked for, or that were read for it and not sent, at once; further commands wait.
    pub bytes_max: u32,
}

impl Default for HostLimits {
    fn default() -> Self {
        HostLimits { controllers_max: 16, io_queues_max: 128, commands_max: 256, bytes_max: 32 << 20 }
    }
}

/// A host's credit for a command's data, given back when dropped. It is taken before the credit for a command, by reads as by
/// writes: what has a command's credit waits for nothing that another command of the host's has.
pub struct Credit(#[expect(dead_code, reason = "held, and given back when dropped")] Permit);

/// A credit counts for so many bytes, so that one is small and a semaphore's count is, too.
const UNIT_BYTES: u32 = 4096;

/// What a host uses at the moment.
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

    /// Of a command that is longer than all that its host may have, it takes all.
    fn units(&self, bytes: u32) -> usize {
        (bytes.div_ceil(UNIT_BYTES) as usize).min(self.units_max)
    }

    /// Credit for so many bytes, if it is there.
    pub fn try_bytes(&self, bytes: u32) -> Option<Credit> {
        self.bytes.try_acquire(self.units(bytes)).map(Credit)
    }

    /// Waits for credit for so many bytes.
    pub async fn bytes(&self, bytes: u32) -> Credit {
        Credit(self.bytes.acquire(self.units(bytes)).await)
    }

    /// Waits until one more command may be executed.
    pub async fn command(&self) -> Permit {
        self.commands.acquire(1).await
    }

    /// Commands and bytes that may still be had at once.
    pub fn free(&self) -> (usize, u64) {
        (self.commands.available(), self.bytes.available() as u64 * u64::from(UNIT_BYTES))
    }
}
