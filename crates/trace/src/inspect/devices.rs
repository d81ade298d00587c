//! Statistics by device: addresses and sequential access.

use rustc_hash::FxHashMap;

use super::figures::saturated;
use super::inspection::{Addresses, DeviceRow};
use crate::Kind;
use crate::Record;
use byteway_text::number::ratio;

/// Devices counted separately, at most: the largest public traces have some thousands of volumes.
const DEVICES_MAX: usize = 1 << 16;

const ROWS: usize = 20;

const ALIGNMENT: u64 = 4096;

#[derive(Default)]
pub(super) struct Devices {
    index_of: FxHashMap<u32, usize>,
    devices: Vec<Device>,
    /// I/Os of devices beyond the limit.
    others: u64,
    begin_aligned: u64,
    aligned: u64,
    records: u64,
    lowest: Option<u64>,
    end: u64,
}

struct Device {
    number: u32,
    records: u64,
    reads: u64,
    bytes: u128,
    sequential: u64,
    lowest: u64,
    end: u64,
    /// End of its last I/O; `None` before the first.
    next: Option<u64>,
}

impl Devices {
    pub(super) fn record(&mut self, record: &Record) {
        let (begin, end) = (record.offset_bytes, record.offset_bytes + record.bytes);
        self.records += 1;
        self.lowest = Some(self.lowest.map_or(begin, |lowest| lowest.min(begin)));
        self.end = self.end.max(end);
        let begin_aligned = begin.is_multiple_of(ALIGNMENT);
        self.begin_aligned += u64::from(begin_aligned);
        self.aligned += u64::from(begin_aligned && end.is_multiple_of(ALIGNMENT));
        let index = match self.index_of.get(&record.device) {
            Some(index) => *index,
            None if self.devices.len() == DEVICES_MAX => {
                self.others += 1;
                return;
            }
            None => {
                self.index_of.insert(record.device, self.devices.len());
                self.devices.push(Device {
                    number: record.device,
                    records: 0,
                    reads: 0,
                    bytes: 0,
                    sequential: 0,
                    lowest: begin,
                    end,
                    next: None,
                });
                self.devices.len() - 1
            }
        };
        let device = &mut self.devices[index];
        device.records += 1;
        device.reads += u64::from(record.kind == Kind::Read);
        device.bytes += u128::from(record.bytes);
        device.sequential += u64::from(device.next == Some(begin));
        device.lowest = device.lowest.min(begin);
        device.end = device.end.max(end);
        device.next = Some(end);
    }

    pub(super) fn addresses(&self) -> Addresses {
        let share = |part: u64| ratio(part.into(), self.records.into());
        Addresses {
            lowest_bytes: self.lowest.unwrap_or(0),
            end_bytes: self.end,
            sequential_share: share(self.devices.iter().map(|device| device.sequential).sum()),
            begin_aligned_share: share(self.begin_aligned),
            aligned_share: share(self.aligned),
        }
    }

    pub(super) fn count(&self) -> u64 {
        self.devices.len() as u64
    }

    pub(super) fn rows(&self) -> Vec<DeviceRow> {
        let mut devices: Vec<_> = self.devices.iter().collect();
        devices.sort_by_key(|device| (std::cmp::Reverse(device.records), device.number));
        let row = |device: &&Device| DeviceRow {
            device: device.number,
            records: device.records,
            share: ratio(device.records.into(), self.records.into()),
            bytes: saturated(device.bytes),
            read_share: ratio(device.reads.into(), device.records.into()),
            sequential_share: ratio(device.sequential.into(), device.records.into()),
            lowest_bytes: device.lowest,
            end_bytes: device.end,
        };
        devices.iter().take(ROWS).map(row).collect()
    }

    pub(super) fn note(&self) -> Option<String> {
        (self.others > 0).then(|| {
            format!(
                "more than {DEVICES_MAX} devices: {} I/Os of further ones are in no device's row, and count as not sequential",
                self.others
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(device: u32, offset_bytes: u64, bytes: u64) -> Record {
        Record { time_ps: 0, device, offset_bytes, bytes, kind: Kind::Write }
    }

    // Streams of several devices are interleaved in a trace: without state for each device, none would look
    // sequential.
    #[test]
    fn interleaved_streams_are_sequential() {
        let mut devices = Devices::default();
        for index in 0..10 {
            devices.record(&record(7, index * 4096, 4096));
            devices.record(&record(8, (1 << 40) + index * 512, 512));
            devices.record(&record(9, index * 8192, 4096));
        }
        let addresses = devices.addresses();
        assert_eq!(addresses.sequential_share, 0.6);
        assert_eq!((addresses.lowest_bytes, addresses.end_bytes), (0, (1 << 40) + 5120));
        assert_eq!((addresses.begin_aligned_share, addresses.aligned_share), (0.733333, 0.666667));
        let rows = devices.rows();
        assert_eq!(rows.iter().map(|row| row.device).collect::<Vec<_>>(), [7, 8, 9]);
        assert_eq!((rows[0].sequential_share, rows[2].sequential_share), (0.9, 0.0));
    }

    // A trace with a different device on every line would fill memory.
    #[test]
    fn any_number_of_devices_takes_bounded_memory() {
        let mut devices = Devices::default();
        (0..100_000).for_each(|device| devices.record(&record(device, u64::from(device), 1)));
        assert_eq!((devices.count(), devices.rows().len()), (DEVICES_MAX as u64, ROWS));
        assert!(devices.note().unwrap().contains(&(100_000 - DEVICES_MAX).to_string()));
    }
}
