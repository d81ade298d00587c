//! Host memory lent to the drive, for copies of translation pages (Host Memory Buffer, NVMe Base 2.1, 8.2.3).

use crate::config::HostBufferConfig;
use byteway_content::UNIT_BYTES;
use byteway_firmware::LentMemory;
use byteway_link::{DeviceEnd, Purpose};
use byteway_wire::nvme::Status;
use byteway_wire::nvme::feature::{HostBufferEntry, HostMemoryBuffer};
use std::pin::Pin;

/// Maximum number of entries in a descriptor list.
pub const HOST_BUFFER_ENTRIES_MAX: u16 = 256;

/// A run of consecutive page slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    /// Index of its first slot.
    first: u32,
    address: u64,
}

/// Lent memory, divided into slots of one translation page each.
pub struct HostBuffer {
    port: DeviceEnd,
    runs: Vec<Run>,
    places: u32,
}

impl HostBuffer {
    /// The memory of these entries, of which at most `units_max` units are used. `page_bytes` is the host's memory page
    /// size.
    /// # Errors
    /// [`Status`] if an entry is not page-aligned, or exceeds the 64-bit address space.
    pub fn new(
        port: &DeviceEnd,
        entries: impl IntoIterator<Item = HostBufferEntry>,
        page_bytes: u32,
        units_max: u32,
    ) -> Result<Self, Status> {
        let mut buffer = HostBuffer { port: port.clone(), runs: Vec::new(), places: 0 };
        for HostBufferEntry { address, pages } in entries {
            let bytes = u64::from(pages) * u64::from(page_bytes);
            if !address.is_multiple_of(page_bytes.into()) || address.checked_add(bytes).is_none() {
                return Err(Status::INVALID_FIELD.with_dnr());
            }
            let places = (bytes / UNIT_BYTES as u64).min(u64::from(units_max - buffer.places)) as u32;
            if places > 0 {
                buffer.runs.push(Run { first: buffer.places, address });
                buffer.places += places;
            }
        }
        Ok(buffer)
    }

    /// Number of slots.
    pub fn places(&self) -> u32 {
        self.places
    }

    fn address(&self, place: u32) -> u64 {
        let after = self.runs.partition_point(|run| run.first <= place);
        let Run { first, address } = self.runs[after - 1];
        address + u64::from(place - first) * UNIT_BYTES as u64
    }
}

impl LentMemory for HostBuffer {
    fn store(&self, place: u32, page: &[u8; UNIT_BYTES]) -> bool {
        let (address, epoch) = (self.address(place), self.port.epoch());
        self.port.write_bytes(address, page[..].into(), epoch, Purpose::HostBuffer).is_ok()
    }

    fn load<'a>(
        &'a self,
        place: u32,
        into: &'a mut [u8; UNIT_BYTES],
    ) -> Pin<Box<dyn Future<Output = bool> + 'a>> {
        Box::pin(async move { self.port.read(self.address(place), into, Purpose::HostBuffer).await.is_ok() })
    }
}

/// Units of the offered memory that are used.
///
/// # Errors
/// [`Status`] if the descriptor list is too long, or the memory is too small.
pub fn units(asked: &HostMemoryBuffer, page_bytes: u32, config: HostBufferConfig) -> Result<u32, Status> {
    let units = u64::from(asked.pages) * u64::from(page_bytes) / UNIT_BYTES as u64;
    let units = units.min(config.preferred_units.into()) as u32;
    let is_possible =
        (1..=u32::from(HOST_BUFFER_ENTRIES_MAX)).contains(&asked.entries) && units >= config.least_units;
    is_possible.then_some(units).ok_or(Status::INVALID_FIELD.with_dnr())
}
