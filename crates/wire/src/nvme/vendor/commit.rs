//! Commit records: key-value pairs stored without a command (an idea from BandSlim's outlook; the formats are Byteway's
//! own).
//!
//! The host stores a value at its position in the page buffer ([`cxl`](super::cxl)), and then a [`CommitRecord`] to a
//! ring in device memory. There is no entry, doorbell, completion or interrupt: the device polls the ring every
//! [`DeviceMemoryLog::poll_ns`], takes records in the order of their numbers up to the first missing one, and writes a
//! [`CommitAnswer`] for each, which the host loads.
//!
//! | part of the ring | bytes | written by |
//! |---|---|---|
//! | record n at index (n - 1) mod records | 64 each | the host |
//! | the answer to record n at the same index, after all records | 16 each | the device; other stores are ignored |
//!
//! - The ring is switched on when the first queue is enabled for [`Methods::cxl_commit`](super::Methods::cxl_commit),
//!   until the controller is reset. It belongs to no queue. It starts empty, and the first number is 1. While it is off
//!   the device does not poll, and stores to the ring are ignored.
//! - Each activation of the ring has a [`DeviceMemoryLog::generation`], which records carry: a line that leaves the
//!   host's cache late is not a record of the next activation.
//! - CXL.mem does not order lines. A record is complete when its own checksum matches; a value when it matches the
//!   checksum in its record: the device waits for the value while stores are in flight. So neither must be flushed
//!   before the other, but a host that stores through its cache must flush both.
//! - The host keeps at most as many records unanswered as the ring has. A record stored over one that was not taken is
//!   looked for only when its number is due; the overwritten number never arrives, and the ring stalls until a reset.
//! - A record without an answer before a reset or power cut may have been stored or not, like a command without a
//!   completion.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::cxl::DeviceMemoryLog;
use crate::nvme::kv::{KeyField, Store};
use crate::nvme::{Status, assert_offsets};

/// Size of a record in bytes: one cache line.
pub const RECORD_BYTES: u32 = size_of::<CommitRecord>() as u32;
/// Size of an answer in bytes.
pub const ANSWER_BYTES: u32 = size_of::<CommitAnswer>() as u32;
/// Maximum number of records in a ring.
pub const RECORDS_MAX: u32 = 1 << 16;
/// Granularity of the ring's length, in bytes.
const PAGE: u32 = 4096;

/// A key-value pair whose value lies in the page buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct CommitRecord {
    /// Number of the record in this activation of the ring, from 1; 0 follows 2^32 - 1.
    pub number: u32,
    /// Generation of the ring.
    pub generation: u32,
    /// Device address of the value.
    pub address: u64,
    /// The key.
    pub key: [u8; 16],
    /// Length of the value in bytes: at least one.
    pub bytes: u32,
    /// CRC-32C of the value.
    pub checksum: u32,
    /// The namespace.
    pub nsid: u32,
    /// Length of the key in bytes.
    pub key_bytes: u8,
    /// As in a Store command: bit 0: the key must exist; bit 1: it must not exist; bit 2: do not compress.
    pub options: u8,
    #[doc(hidden)]
    pub reserved: [u8; 14],
    /// CRC-32C of all preceding fields.
    pub record_checksum: u32,
}

assert_offsets!(CommitRecord: 64; number = 0, generation = 4, address = 8, key = 16, bytes = 32, checksum = 36,
    nsid = 40, key_bytes = 44, options = 45, record_checksum = 60);

/// Bytes that the record's checksum covers.
const SEALED: usize = 60;
/// Mask of the defined options.
const OPTIONS: u8 = 0b111;

impl CommitRecord {
    /// The record of a Store of a value at device address `address`, not yet numbered and sealed.
    pub fn new(store: &Store, nsid: u32, address: u64, checksum: u32) -> CommitRecord {
        let options = [store.must_exist, store.must_not_exist, store.no_compression];
        CommitRecord {
            address,
            key: store.key.bytes,
            bytes: store.bytes,
            checksum,
            nsid,
            key_bytes: store.key.length,
            options: (0..).zip(options).map(|(bit, is_set)| u8::from(is_set) << bit).sum(),
            ..CommitRecord::default()
        }
    }

    /// A record that uses up a number without storing: it has no key, so it is refused.
    pub fn void() -> CommitRecord {
        CommitRecord::default()
    }

    /// The record with number and generation, and its checksum.
    pub fn sealed(mut self, number: u32, generation: u32) -> CommitRecord {
        (self.number, self.generation) = (number, generation);
        self.record_checksum = self.sum();
        self
    }

    /// Whether it is complete, and is record `number` of `generation`.
    pub fn is(&self, number: u32, generation: u32) -> bool {
        (self.number, self.generation) == (number, generation) && self.record_checksum == self.sum()
    }

    fn sum(&self) -> u32 {
        crc32c::crc32c(&self.as_bytes()[..SEALED])
    }

    /// The Store that it represents; `None` if undefined options are set.
    pub fn store(&self) -> Option<Store> {
        let option = |bit: u8| self.options >> bit & 1 == 1;
        let store = Store {
            key: KeyField { length: self.key_bytes, bytes: self.key },
            bytes: self.bytes,
            must_exist: option(0),
            must_not_exist: option(1),
            no_compression: option(2),
        };
        (self.options & !OPTIONS == 0).then_some(store)
    }
}

/// The answer to a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct CommitAnswer {
    /// The record's number.
    pub number: u32,
    /// Status code, as in a completion.
    pub status: u16,
    #[doc(hidden)]
    pub reserved: u16,
    /// The write pointer of the page buffer, if the key-value pair was stored.
    pub pointer: u32,
    /// The limit of the page buffer, if the key-value pair was stored.
    pub limit: u32,
}

assert_offsets!(CommitAnswer: 16; number = 0, status = 4, pointer = 8, limit = 12);

impl CommitAnswer {
    /// Decoded status.
    pub const fn status(&self) -> Status {
        Status::from_bits(self.status)
    }
}

/// Location of a ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommitRing {
    /// Device address of its first record.
    pub offset: u32,
    /// Number of records: a power of two.
    pub records: u32,
}

impl CommitRing {
    /// Length in bytes, a multiple of 4096; 0 without records.
    pub const fn bytes(&self) -> u32 {
        (self.records * (RECORD_BYTES + ANSWER_BYTES)).next_multiple_of(PAGE)
    }

    /// Index of record `number`, and of its answer.
    pub const fn index(&self, number: u32) -> u32 {
        number.wrapping_sub(1) & (self.records - 1)
    }

    /// The device address of a record.
    pub fn record(&self, index: u32) -> u64 {
        u64::from(self.offset) + u64::from(index) * u64::from(RECORD_BYTES)
    }

    /// The device address of an answer.
    pub fn answer(&self, index: u32) -> u64 {
        self.record(self.records) + u64::from(index) * u64::from(ANSWER_BYTES)
    }
}

impl DeviceMemoryLog {
    /// The ring of commit records, if it is on; `None` also if the log page is inconsistent.
    pub fn ring(&self) -> Option<CommitRing> {
        let ring = CommitRing { offset: self.records_offset, records: self.records };
        let is_sound = self.records.is_power_of_two()
            && self.records <= RECORDS_MAX
            && self.records_offset.is_multiple_of(RECORD_BYTES)
            && u64::from(self.records_offset) + u64::from(ring.bytes()) <= self.bytes;
        (is_sound && self.generation > 0).then_some(ring)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> CommitRecord {
        let store = Store {
            key: KeyField::new(b"a key").unwrap(),
            bytes: 77,
            must_not_exist: true,
            ..Store::default()
        };
        CommitRecord::new(&store, 3, 0x1_2345, 0xABCD)
    }

    /// Without this a torn record, or one of the previous round or generation, would store a pair.
    #[test]
    fn only_a_whole_record_of_this_life_counts() {
        let record = record().sealed(7, 2);
        assert!(record.is(7, 2));
        assert!(!record.is(8, 2) && !record.is(7, 3));
        for at in 0..64 {
            let mut bytes: [u8; 64] = zerocopy::transmute!(record);
            bytes[at] ^= 1;
            let torn: CommitRecord = zerocopy::transmute!(bytes);
            assert!(!torn.is(7, 2), "byte {at}");
        }
        assert!(!CommitRecord::default().is(0, 0), "zeroes are no record");
    }

    /// Without this a record would represent another Store than the host meant.
    #[test]
    fn a_store_comes_back() {
        let made = record();
        let store = made.store().unwrap();
        assert_eq!((store.key.key(), store.bytes), (Some(&b"a key"[..]), 77));
        assert_eq!((store.must_exist, store.must_not_exist, store.no_compression), (false, true, false));
        assert_eq!((made.nsid, made.address, made.checksum, made.options), (3, 0x1_2345, 0xABCD, 0b10));
        for options in [8, 16, 128, 255] {
            assert_eq!(CommitRecord { options, ..made }.store(), None, "{options}");
        }
        assert_eq!(CommitRecord::void().store().unwrap().key.valid(), None);
    }

    /// Without this a device with a malformed log page would make the host access arbitrary addresses, or divide by
    /// zero.
    #[test]
    fn a_ring_is_checked() {
        let log = DeviceMemoryLog {
            bytes: 8192,
            records_offset: 4096,
            records: 32,
            generation: 1,
            ..DeviceMemoryLog::default()
        };
        let ring = log.ring().unwrap();
        assert_eq!(
            (ring.bytes(), ring.record(31), ring.answer(0), ring.answer(31)),
            (4096, 6080, 6144, 6640)
        );
        assert_eq!([1, 32, 33, 0].map(|number| ring.index(number)), [0, 31, 0, 31]);
        assert_eq!(CommitRing { offset: 0, records: 64 }.bytes(), 8192);
        for wrong in [
            DeviceMemoryLog::default(),
            DeviceMemoryLog { records: 33, ..log },
            DeviceMemoryLog { records: 64, ..log },
            DeviceMemoryLog { records: 1 << 31, bytes: u64::MAX, ..log },
            DeviceMemoryLog { records_offset: 4100, bytes: 16384, ..log },
            DeviceMemoryLog { records_offset: u32::MAX - 63, ..log },
            DeviceMemoryLog { generation: 0, ..log },
        ] {
            assert_eq!(wrong.ring(), None);
        }
    }
}
