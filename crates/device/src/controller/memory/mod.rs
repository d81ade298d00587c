//! Drive memory that the host stores to (the payload buffer in BAR0, and memory over CXL.mem), and host memory lent to
//! the drive.
//!
//! | file | what |
//! |---|---|
//! | [`payload_buffer`] | the payload buffer after the registers |
//! | [`area`] | the area for payloads of any command, over CXL.mem |
//! | [`commit_ring`] | the ring of commit records after the area |
//! | [`host_buffer`] | host memory lent for the map |

use crate::config::{DriveConfig, MemoryConfig};
use crate::controller::memory::area::Area;
use crate::controller::memory::commit_ring::Commits;
use crate::controller::memory::payload_buffer::PayloadBuffer;
use byteway_clock::Clock;
use byteway_wire::nvme::vendor::cxl::DeviceMemoryLog;

pub mod area;
pub mod commit_ring;
pub mod host_buffer;
pub mod payload_buffer;

/// All memory that the host stores to.
pub struct Memory {
    /// The payload buffer in BAR0.
    pub buffer: PayloadBuffer,
    /// The area for payloads over CXL.mem.
    pub area: Area,
    /// The ring of commit records.
    pub commits: Commits,
}

impl Memory {
    /// Zeroes.
    pub fn new(clock: &Clock, config: &DriveConfig) -> Self {
        let memory = config.transfer.memory.as_ref();
        Memory {
            buffer: PayloadBuffer::new(config.bar_offset(), config.transfer.bar_bytes),
            area: Area::new(memory),
            commits: Commits::new(clock, memory),
        }
    }

    /// Zeroes the memory: a tenant must not see what the previous one stored. The ring is cleared when it is switched
    /// off.
    pub fn clear(&self) {
        self.buffer.clear();
        self.area.clear();
    }

    /// How the memory over CXL.mem is divided, without the parts of command sets.
    pub fn log(&self, config: Option<&MemoryConfig>) -> DeviceMemoryLog {
        let Some(config) = config else { return DeviceMemoryLog::default() };
        let ring = config.ring();
        DeviceMemoryLog {
            bytes: u64::from(config.buffer_offset()),
            area_bytes: config.area_bytes,
            records_offset: ring.offset,
            records: ring.records,
            poll_ns: if ring.records > 0 { (config.poll.ps() / 1000) as u32 } else { 0 },
            generation: self.commits.generation(),
            ..Default::default()
        }
    }
}
