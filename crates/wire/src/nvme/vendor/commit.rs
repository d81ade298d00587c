//! Commit records: pairs that are stored without a command (what BandSlim's authors wish for; the formats are Byteway's own).
//!
//! The host stores a value to its place in the page buffer ([`cxl`](super::cxl)), and then a [`CommitRecord`] to a ring in
//! the device's memory. There is no entry, no doorbell, no completion and no interrupt: the device looks at the ring every
//! [`DeviceMemoryLog::poll_ns`], takes records in the order of their numbers up to the first that is not there, and writes to
//! each its [`CommitAnswer`], which the host loads.
//!
//! | part of the ring | bytes | who writes it |
//! |---|---|---|
//! | record n at index (n - 1) mod records | 64 each | the host |
//! | the answer to record n at the same index, behind all records | 16 each | the device: stores there go nowhere |
//!
//! - The ring is on from the moment at which the first queue was enabled for [`Methods::cxl_commit`](super::Methods::cxl_commit)
//!   until the controller is reset. It belongs to no queue. When it goes on it is empty, and the first number is 1; until then
//!   the device looks at nothing, and stores to the ring go nowhere.
//! - Each life of the ring has its [`DeviceMemoryLog::generation`], which records carry: a line that leaves the host's cache
//!   late is no record of the next life.
//! - Lines of CXL.mem are in no order. A record is whole when its own checksum is right, a value when the checksum in its
//!   record is: the device waits for the value while stores are under way. So neither has to be flushed before the other, but
//!   whoever stores past no cache must flush both.
//! - The host keeps at most as many records unanswered as the ring has. A record that is stored over one that was not
//!   taken is found only when that number is due: never, and the ring stands still until a reset.
//! - One that was not answered before a reset or a power cut may have been stored or not, as a command without a completion.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::cxl::DeviceMemoryLog;
use crate::nvme::kv::{KeyField, Store};
use crate::nvme::{Status, assert_offsets};

/// Bytes of a record: a line.
pub const RECORD_BYTES: u32 = size_of::<CommitRecord>() as u32;
/// Bytes of an answer.
pub const ANSWER_BYTES: u32 = size_of::<CommitAnswer>() as u32;
/// Records of the largest ring.
pub const RECORDS_MAX: u32 = 1 << 16;
/// What the ring's length is a multiple of.
const PAGE: u32 = 4096;

/// A pair whose value lies in the page buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct CommitRecord {
    /// Counts records of a life of the ring, from 1; 0 follows 2^32 - 1.
    pub number: u32,
    /// The ring's life.
    pub generation: u32,
    /// The value's device address.
    pub address: u64,
    /// The key.
    pub key: [u8; 16],
    /// Bytes of the value: at least one.
    pub bytes: u32,
    /// Its CRC-32C.
    pub checksum: u32,
    /// The namespace.
    pub nsid: u32,
    /// Bytes of the key.
    pub key_bytes: u8,
    /// As in a Store command: bit 0: it must exist; bit 1: it must not; bit 2: not to be compressed.
    pub options: u8,
    #[doc(hidden)]
    pub reserved: [u8; 14],
    /// CRC-32C of all that stands before it.
    pub record_checksum: u32,
}

assert_offsets!(CommitRecord: 64; number = 0, generation = 4, address = 8, key = 16, bytes = 32, checksum = 36,
    nsid = 40, key_bytes = 44, options = 45, record_checksum = 60);

/// Bytes that a record's checksum covers.
const SEALED: usize = 60;
/// Options that there are.
const OPTIONS: u8 = 0b111;

impl CommitRecord {
    /// Of a Store of a value at device address `address`, neither numbered nor sealed.
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

    /// One that stores nothing: it takes a number, and is refused, as it has no key.
    pub fn void() -> CommitRecord {
        CommitRecord::default()
    }

    /// As record `number` of life `generation`, with its checksum.
    pub fn sealed(mut self, number: u32, generation: u32) -> CommitRecord {
        (self.number, self.generation) = (number, generation);
        self.record_checksum = self.sum();
        self
    }

    /// Whether it is whole, and record `number` of life `generation`.
    pub fn is(&self, number: u32, generation: u32) -> bool {
        (self.number, self.generation) == (number, generation) && self.record_checksum == self.sum()
    }

    fn sum(&self) -> u32 {
        crc32c::crc32c(&self.as_bytes()[..SEALED])
    }

    /// The Store that it stands for; none, if its options are none that there are.
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

/// What became of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct CommitAnswer {
    /// The record's number.
    pub number: u32,
    /// Its status, as of a command.
    pub status: u16,
    #[doc(hidden)]
    pub reserved: u16,
    /// The page buffer's pointer, if it was stored.
    pub pointer: u32,
    /// And its limit.
    pub limit: u32,
}

assert_offsets!(CommitAnswer: 16; number = 0, status = 4, pointer = 8, limit = 12);

impl CommitAnswer {
    /// Its status.
    pub const fn status(&self) -> Status {
        Status::from_bits(self.status)
    }
}

/// Where a ring lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommitRing {
    /// The device address of its first record.
    pub offset: u32,
    /// Records: a power of two.
    pub records: u32,
}

impl CommitRing {
    /// Its length: whole pages; 0, if it has no records.
    pub const fn bytes(&self) -> u32 {
        (self.records * (RECORD_BYTES + ANSWER_BYTES)).next_multiple_of(PAGE)
    }

    /// The index of record `number`, and of its answer.
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
    /// The ring of commit records, if it is on; None, too, if what is said of it cannot be.
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

    /// Without this a torn record, one of the round before or one of the life before would store a pair.
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

    /// Without this a record would stand for another Store than the host meant.
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

    /// Without this a device that says nonsense would have the host load and store anywhere, or divide by zero.
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
