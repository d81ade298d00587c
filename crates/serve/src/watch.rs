//! A served drive as another thread sees it: figures that the drive publishes when it is asked for them, at most once a
//! second.
//!
//! The drive's own thread takes them, between two commands, so nothing on the path of a command is locked or atomic. A
//! drive that is not asked publishes nothing.

#![allow(
    clippy::disallowed_methods,
    reason = "watchers are in real time: how old figures are is theirs to know"
)]

use crate::report::Report;
use byteway_clock::{Clock, Delay};
use byteway_firmware::FtlCounters;
use byteway_link::{IoFigures, Ledger};
use byteway_wire::nvme::SmartLog;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;
use rustix::io::fcntl_dupfd_cloexec;
use std::io;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time between two publications, at least; by the wall clock, as modeled time may fall far behind it.
const PERIOD_MIN: Duration = Duration::from_secs(1);
/// Interval of looks whether that has passed, in modeled time.
const LOOK: Delay = Delay::from_ms(10);

/// Figures of a drive at one moment.
pub struct DriveFigures {
    /// Time since the drive can be attached to.
    pub at: Duration,
    /// What the drive reports at its end, so far.
    pub report: Report,
    /// Traffic of the link of each port.
    pub ports: Vec<(Protocol, Ledger)>,
    /// I/Os by host and namespace, and their latency by stage.
    pub ios: IoFigures,
    /// I/O commands that were submitted and have not completed.
    pub outstanding: u64,
    /// Counters of the translation layer.
    pub ftl: FtlCounters,
    /// Program/erase cycles of the blocks.
    pub wear: BlockWear,
    /// The drive's health, as hosts read it.
    pub smart: SmartLog,
    /// Capacity of the drive in bytes.
    pub capacity_bytes: u64,
}

/// How hosts reach a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// A single host, by vfio-user.
    VfioUser,
    /// Any number of hosts, over NVMe/TCP.
    NvmeTcp,
}

impl Protocol {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::VfioUser => "vfio-user",
            Protocol::NvmeTcp => "nvme-tcp",
        }
    }
}

/// Program/erase cycles over all blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockWear {
    /// Number of blocks.
    pub blocks: u64,
    /// Cycles of all blocks.
    pub sum: u64,
    /// Cycles of the block with the fewest.
    pub min: u64,
    /// Cycles of the block with the most.
    pub max: u64,
}

impl BlockWear {
    pub(crate) fn note(&mut self, cycles: u64) {
        self.min = if self.blocks == 0 { cycles } else { self.min.min(cycles) };
        self.max = self.max.max(cycles);
        self.blocks += 1;
        self.sum += cycles;
    }

    /// Mean number of cycles.
    pub fn mean(&self) -> f64 {
        if self.blocks == 0 { 0.0 } else { self.sum as f64 / self.blocks as f64 }
    }
}

/// Figures, and when they were published.
pub struct Published {
    /// The figures.
    pub figures: Box<DriveFigures>,
    /// When, by the wall clock.
    pub at: Instant,
}

struct Shared {
    bell: OwnedFd,
    /// What was published and not taken.
    figures: Mutex<Option<Published>>,
    has_begun: AtomicBool,
    has_ended: AtomicBool,
    told: Box<dyn Fn() + Send + Sync>,
}

/// A handle on a drive that may be watched. Cheap to clone; usable from any thread.
#[derive(Clone)]
pub struct DriveWatch(Arc<Shared>);

impl DriveWatch {
    /// A handle for one drive. The drive calls `told` when it has published figures, or has ended: it must not wait.
    ///
    /// # Errors
    /// The system has no file descriptor left.
    pub fn new(told: impl Fn() + Send + Sync + 'static) -> io::Result<DriveWatch> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let (figures, has_begun, has_ended) = Default::default();
        Ok(DriveWatch(Arc::new(Shared { bell, figures, has_begun, has_ended, told: Box::new(told) })))
    }

    /// Asks the drive to publish its figures: at once, or as soon as a second has passed since it last did.
    pub fn ask(&self) {
        // The write fails only if the counter is at its maximum, and then the drive has been asked.
        let _ = rustix::io::write(&self.0.bell, &1u64.to_ne_bytes());
    }

    /// Takes what was published last, unless it was taken before.
    pub fn take(&self) -> Option<Published> {
        self.0.figures.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Whether the drive can be attached to: it answers when it is asked.
    pub fn has_begun(&self) -> bool {
        self.0.has_begun.load(Ordering::Acquire)
    }

    /// Says that the drive can be attached to.
    pub(crate) fn begin(&self) {
        self.0.has_begun.store(true, Ordering::Release);
    }

    /// Whether the drive has ended: it publishes nothing further.
    pub fn has_ended(&self) -> bool {
        self.0.has_ended.load(Ordering::Acquire)
    }

    fn publish(&self, figures: DriveFigures) {
        let figures = Some(Published { figures: Box::new(figures), at: Instant::now() });
        let former =
            std::mem::replace(&mut *self.0.figures.lock().unwrap_or_else(PoisonError::into_inner), figures);
        // Freed here, not under the lock.
        drop(former);
        (self.0.told)();
    }
}

/// The drive's end of a [`DriveWatch`]. Says on drop that the drive has ended, however it has.
pub(crate) struct Publisher(pub(crate) DriveWatch);

impl Publisher {
    /// Publishes figures whenever it is asked, and at most once in [`PERIOD_MIN`]. For a task of the drive.
    pub(crate) async fn run(
        watch: DriveWatch,
        clock: Clock,
        figures: impl Fn() -> DriveFigures,
    ) -> io::Result<()> {
        let bell = Rc::new(fcntl_dupfd_cloexec(&watch.0.bell, 0)?);
        loop {
            clock.readable(&bell).await;
            let _ = rustix::io::read(&*bell, &mut [0; 8]);
            watch.publish(figures());
            let published = Instant::now();
            while published.elapsed() < PERIOD_MIN {
                clock.timer(LOOK).await;
            }
        }
    }

    /// Publishes the last figures of the drive.
    pub(crate) fn end(self, figures: DriveFigures) {
        self.0.publish(figures);
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        self.0.0.has_ended.store(true, Ordering::Release);
        (self.0.0.told)();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // The lowest wear of a drive whose first block is worn must not be 0.
    #[test]
    fn wear_is_that_of_the_blocks() {
        let mut wear = BlockWear::default();
        assert_eq!(wear.mean(), 0.0);
        [5, 3, 4].into_iter().for_each(|cycles| wear.note(cycles));
        assert_eq!(wear, BlockWear { blocks: 3, sum: 12, min: 3, max: 5 });
        assert_eq!(wear.mean(), 4.0);
    }
}
