//! Usage and limits of one host in a subsystem, over all its controllers, and of all unauthenticated hosts together,
//! so that no host takes all resources.

use byteway_clock::semaphore::Permit;
use byteway_clock::{Clock, Semaphore};
use std::rc::Rc;

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

/// Limits of all hosts together that have not authenticated, neither by a secret nor by a key of TLS. Their names are
/// free: the limits of one host do not bound them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnauthenticatedLimits {
    /// Controllers at once, where some hosts have secrets: the other places are kept for these.
    pub controllers_max: usize,
    /// I/O queues at once.
    pub io_queues_max: usize,
    /// Bytes of data at once, as for one host.
    pub bytes_max: u32,
}

impl Default for UnauthenticatedLimits {
    fn default() -> Self {
        UnauthenticatedLimits { controllers_max: 48, io_queues_max: 512, bytes_max: 256 << 20 }
    }
}

/// A host's credit for a command's data, returned when dropped. Reads and writes both take it before the
/// credit for a command: the holder of a command's credit then waits for nothing that another command of the
/// host holds.
pub struct Credit(
    #[expect(dead_code, reason = "held, and given back when dropped")] Permit,
    #[expect(dead_code, reason = "held, and given back when dropped")] Option<Permit>,
);

/// Granularity of credit, which keeps the semaphore's count small.
const UNIT_BYTES: u32 = 4096;

/// Bytes of data, up to a limit.
pub(crate) struct DataBytes {
    free: Semaphore,
    units_max: usize,
}

impl DataBytes {
    pub fn new(clock: &Clock, bytes_max: u32) -> Self {
        let units_max = (bytes_max / UNIT_BYTES).max(1) as usize;
        DataBytes { free: Semaphore::new(clock, units_max), units_max }
    }

    /// Units for so many bytes. A command longer than the limit takes the whole limit.
    fn units(&self, bytes: u32) -> usize {
        // Without the minimum, a command longer than the limit would wait for credit that can never exist.
        (bytes.div_ceil(UNIT_BYTES) as usize).min(self.units_max)
    }

    fn try_take(&self, bytes: u32) -> Option<Permit> {
        self.free.try_acquire(self.units(bytes))
    }

    async fn take(&self, bytes: u32) -> Permit {
        self.free.acquire(self.units(bytes)).await
    }
}

/// Current usage of a host.
pub(crate) struct HostUsage {
    commands: Semaphore,
    bytes: DataBytes,
    /// Of all unauthenticated hosts, if it is one.
    shared: Option<Rc<DataBytes>>,
}

impl HostUsage {
    /// `shared`: the bytes of all unauthenticated hosts, for one of them.
    pub fn new(clock: &Clock, limits: &HostLimits, shared: Option<Rc<DataBytes>>) -> Self {
        HostUsage {
            commands: Semaphore::new(clock, limits.commands_max.max(1)),
            bytes: DataBytes::new(clock, limits.bytes_max),
            shared,
        }
    }

    /// Whether it is that of an unauthenticated host.
    pub fn is_unauthenticated(&self) -> bool {
        self.shared.is_some()
    }

    /// Credit for `bytes`, if available now.
    pub fn try_bytes(&self, bytes: u32) -> Option<Credit> {
        let own = self.bytes.try_take(bytes)?;
        let shared = match &self.shared {
            Some(shared) => Some(shared.try_take(bytes)?),
            None => None,
        };
        Some(Credit(own, shared))
    }

    /// Waits for credit for `bytes`: first for its own, so that it takes no turn of others while it waits for itself.
    pub async fn bytes(&self, bytes: u32) -> Credit {
        let own = self.bytes.take(bytes).await;
        let shared = match &self.shared {
            Some(shared) => Some(shared.take(bytes).await),
            None => None,
        };
        Credit(own, shared)
    }

    /// Waits until one more command may be executed.
    pub async fn command(&self) -> Permit {
        self.commands.acquire(1).await
    }

    /// Remaining commands and bytes.
    pub fn free(&self) -> (usize, u64) {
        (self.commands.available(), self.bytes.free.available() as u64 * u64::from(UNIT_BYTES))
    }
}
