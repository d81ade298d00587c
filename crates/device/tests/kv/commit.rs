//! Pairs that are stored without a command, by records in the drive's memory: what the drive takes for a record, and what it
//! answers.
//!
//! Verified: what is stored so is found by commands, as often as the ring goes round; each status, with nothing changed; that
//! what is no whole record of this round and life is none; a value that comes late; any record. Elsewhere: resets and power
//! cuts ([`super::commit_life`]), time and bytes ([`super::commit_cost`]), the host's client ([`super::commit_client`]).

use super::cxl::placed;
use super::pairs::{KV, VALUE_BYTES_MAX, offering, store};
use crate::fixture::payload::RECORDS;
use crate::fixture::{Bench, NS_4K, Pair, TestHost, pattern};
use byteway_clock::Delay;
use byteway_clock::random::Rng;
use byteway_link::StoreOrdering;
use byteway_wire::nvme::kv::Store;
use byteway_wire::nvme::vendor::Methods;
use byteway_wire::nvme::vendor::commit::{ANSWER_BYTES, CommitAnswer, CommitRecord, CommitRing};
use byteway_wire::nvme::vendor::cxl::{DeviceMemoryLog, PagePointer};
use byteway_wire::nvme::{Sqe, Status, lid};
use byteway_wire::{FromBytes, IntoBytes};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

pub(super) const COMMIT: Methods = Methods::new().with_cxl_mem(true).with_cxl_commit(true);

/// Where the page buffer begins: after the area and the ring.
pub(super) const BUFFER: u64 = 8192 + 4096;

/// A host's end of the ring that stores exactly the given records.
#[derive(Clone)]
pub(super) struct Ring {
    pub(super) host: TestHost,
    pub(super) ring: CommitRing,
    pub(super) generation: u32,
    pub(super) next: Rc<Cell<u32>>,
}

async fn memory_log(host: &TestHost) -> DeviceMemoryLog {
    let bytes = host.log(lid::DEVICE_MEMORY, 0, 64).await;
    DeviceMemoryLog::read_from_bytes(&bytes).expect("a log page")
}

impl Ring {
    pub(super) async fn open(host: &TestHost) -> Ring {
        let log = memory_log(host).await;
        let ring = log.ring().expect("a ring that is on");
        assert_eq!((ring.offset, ring.records, u64::from(log.buffer_offset)), (8192, RECORDS, BUFFER));
        Ring { host: host.clone(), ring, generation: log.generation, next: Rc::new(Cell::new(1)) }
    }

    /// A value goes to its place.
    pub(super) async fn put(&self, at: u64, value: &[u8]) {
        self.host.end().store_lines(BUFFER + at, value, StoreOrdering::Flushed).await;
    }

    /// A record takes the next number, and goes to the ring.
    pub(super) async fn post(&self, record: CommitRecord) -> u32 {
        let number = self.next.replace(self.next.get() + 1);
        self.post_as_is(record.sealed(number, self.generation), 64).await;
        number
    }

    /// Stores a value and its record non-temporally, without waiting for them.
    pub(super) fn stream(&self, at: u64, value: &[u8], record: CommitRecord) -> u32 {
        let number = self.next.replace(self.next.get() + 1);
        let record = record.sealed(number, self.generation);
        self.host.end().store_lines_unordered(BUFFER + at, value);
        self.host.end().store_lines_unordered(self.ring.record(self.ring.index(number)), record.as_bytes());
        number
    }

    /// The first `bytes` of a record go to the ring.
    pub(super) async fn post_as_is(&self, record: CommitRecord, bytes: usize) {
        let at = self.ring.record(self.ring.index(record.number));
        self.host.end().store_lines(at, &record.as_bytes()[..bytes], StoreOrdering::Flushed).await;
    }

    /// Contents of the location for the answer to a record.
    pub(super) async fn look(&self, number: u32) -> CommitAnswer {
        let mut bytes = [0; ANSWER_BYTES as usize];
        self.host.end().load_lines(self.ring.answer(self.ring.index(number)), &mut bytes).await;
        CommitAnswer::read_from_bytes(&bytes).expect("an answer")
    }

    /// The answer to a record, within so long.
    pub(super) async fn answer_within(&self, number: u32, within: Delay) -> Option<CommitAnswer> {
        let deadline = self.host.clock().now() + within;
        while self.host.clock().now() < deadline {
            let answer = self.look(number).await;
            if answer.number == number {
                return Some(answer);
            }
        }
        None
    }

    pub(super) async fn answer(&self, number: u32) -> CommitAnswer {
        self.answer_within(number, Delay::from_ms(5)).await.expect("an answer")
    }

    /// Stores a pair; gives its answer.
    pub(super) async fn commit(&self, name: &[u8], at: u64, value: &[u8]) -> CommitAnswer {
        self.put(at, value).await;
        let number = self.post(record(name, at, value)).await;
        self.answer(number).await
    }
}

/// The record of a value at `at` of the page buffer.
pub(super) fn record(name: &[u8], at: u64, value: &[u8]) -> CommitRecord {
    let sum = crc32c::crc32c(value);
    CommitRecord::new(&store(name, value.len()), KV, BUFFER.wrapping_add(at), sum)
}

pub(super) async fn pointer(host: &TestHost, pair: &Pair) -> u64 {
    let told = host.io(pair, PagePointer { gives_up: true }.sqe(0, KV)).await;
    assert_eq!(told.status(), Status::SUCCESS);
    told.dw0.into()
}

pub(super) fn with_ring<T: 'static>(test: impl AsyncFnOnce(TestHost, Pair, Ring) -> T + 'static) -> T {
    offering(COMMIT).with_methods(64, async |host, pair| {
        let ring = Ring::open(&host).await;
        test(host, pair, ring).await
    })
}

// A record that is taken for another's, twice or not at all, is a pair that no host stored, or a lost one; the last of the
// ring and the first of the next round are neighbours.
#[test]
fn what_is_stored_by_records_is_found() {
    with_ring(async |host, pair, ring| {
        let mut at = pointer(&host, &pair).await;
        let counters = host.drive().controller.counters();
        let (fetched, posted) = (counters.fetched.get(), counters.posted.get());
        for index in 0..3 * RECORDS + 3 {
            let value = pattern(index.into(), 1 + index as usize * 37);
            let answer = ring.commit(&index.to_be_bytes(), at, &value).await;
            at += value.len() as u64;
            assert_eq!((answer.status(), u64::from(answer.pointer)), (Status::SUCCESS, at), "{index}");
            assert!(u64::from(answer.limit) > at, "{index}");
        }
        assert_eq!(counters.records.get(), u64::from(3 * RECORDS + 3));
        assert_eq!((counters.fetched.get(), counters.posted.get()), (fetched, posted), "no command");
        for index in 0..3 * RECORDS + 3 {
            let value = pattern(index.into(), 1 + index as usize * 37);
            assert_eq!(host.value(&pair, &index.to_be_bytes()).await, Ok(value), "{index}");
        }
        // Commands and records go to one page buffer.
        ring.put(at, b"by a command").await;
        let sqe = Sqe { mptr: 0, ..placed(b"other", at + 4096, 12, None) };
        let stored = host.io(&pair, sqe).await;
        assert_eq!((stored.status(), u64::from(stored.dw0)), (Status::SUCCESS, at + 12));
        assert_eq!(ring.commit(b"last", at + 12, b"by a record").await.status(), Status::SUCCESS);
        assert_eq!(host.value(&pair, b"other").await, Ok(b"by a command".to_vec()));
        assert_eq!(host.value(&pair, b"last").await, Ok(b"by a record".to_vec()));
    });
}

// Many records present at once: each has its own answer, even if several fail.
#[test]
fn a_full_ring_is_answered_record_by_record() {
    with_ring(async |host, pair, ring| {
        let at = pointer(&host, &pair).await;
        let values: Vec<_> = (0..RECORDS).map(|index| pattern(index.into(), 100)).collect();
        for (index, value) in (0..).zip(&values) {
            let name = if index % 3 == 1 { &b""[..] } else { &[b'k', index as u8] };
            ring.stream(at + index * 100, value, record(name, at + index * 100, value));
        }
        ring.answer(RECORDS).await;
        for index in 0..RECORDS {
            let answer = ring.look(index + 1).await;
            let expected = if index % 3 == 1 { Status::INVALID_KEY_SIZE.with_dnr() } else { Status::SUCCESS };
            assert_eq!((answer.number, answer.status()), (index + 1, expected));
        }
        for (index, value) in (0..).zip(values) {
            let found = host.value(&pair, &[b'k', index]).await;
            assert_eq!(found.ok(), (index % 3 != 1).then_some(value), "{index}");
        }
    });
}

// A record is whatever a host stores: one that is refused must say why, and change nothing, and the next must be taken.
#[test]
fn hostile_records_are_refused_and_change_nothing() {
    with_ring(async |host, pair, ring| {
        let at = pointer(&host, &pair).await;
        let value = pattern(5, 100);
        assert_eq!(ring.commit(b"first", at, &value).await.status(), Status::SUCCESS);
        let behind = at + 100;
        ring.put(behind, &value).await;
        let good = record(b"second", behind, &value);
        let at_address = |address: u64| CommitRecord { address, ..good };
        let misplaced = Status::SGL_OFFSET_INVALID.with_dnr();
        let (key_size, value_size) =
            (Status::INVALID_KEY_SIZE.with_dnr(), Status::INVALID_VALUE_SIZE.with_dnr());
        let invalid = Status::INVALID_FIELD.with_dnr();
        let end = host.end().hdm().expect("memory").bytes;
        let conditional = |name, must_exist| {
            let store = Store { must_exist, must_not_exist: !must_exist, ..store(name, 100) };
            CommitRecord::new(&store, KV, BUFFER + behind, good.checksum)
        };
        let refused = [
            ("no key", CommitRecord { key_bytes: 0, ..good }, key_size),
            ("a long key", CommitRecord { key_bytes: 17, ..good }, key_size),
            ("a longer key", CommitRecord { key_bytes: 255, ..good }, key_size),
            ("no value", CommitRecord { bytes: 0, ..good }, value_size),
            ("a long value", CommitRecord { bytes: VALUE_BYTES_MAX + 1, ..good }, value_size),
            ("the longest number", CommitRecord { bytes: u32::MAX, ..good }, value_size),
            (
                "longer than a page",
                CommitRecord { bytes: 16385, checksum: 0, ..good },
                Status::DATA_TRANSFER_ERROR,
            ),
            ("both conditions", CommitRecord { options: 3, ..good }, invalid),
            ("an unknown option", CommitRecord { options: 8, ..good }, invalid),
            ("all options", CommitRecord { options: 255, ..good }, invalid),
            ("an invalid namespace", CommitRecord { nsid: 0, ..good }, Status::INVALID_NAMESPACE.with_dnr()),
            ("a far one", CommitRecord { nsid: u32::MAX, ..good }, Status::INVALID_NAMESPACE.with_dnr()),
            ("one of blocks", CommitRecord { nsid: NS_4K, ..good }, Status::INVALID_NAMESPACE.with_dnr()),
            ("in the area", at_address(0), misplaced),
            ("in the ring", at_address(8192), misplaced),
            ("behind the memory", at_address(end - 50), misplaced),
            ("nowhere", at_address(u64::MAX), misplaced),
            (
                "over a value",
                CommitRecord { bytes: 1, checksum: sum_of(&value[..1]), ..at_address(BUFFER + at) },
                misplaced,
            ),
            ("another value", CommitRecord { checksum: !good.checksum, ..good }, Status::DATA_TRANSFER_ERROR),
            ("there is none", conditional(b"second", true), Status::KEY_DOES_NOT_EXIST.with_dnr()),
            ("there is one", conditional(b"first", false), Status::KEY_EXISTS.with_dnr()),
        ];
        for (what, record, status) in refused {
            let number = ring.post(record).await;
            let answer = ring.answer(number).await;
            assert_eq!((answer.status(), answer.pointer, answer.limit), (status, 0, 0), "{what}");
        }
        assert_eq!(host.keys(&pair, b"", 4096).await, Ok(vec![b"first".to_vec()]));
        assert_eq!(host.value(&pair, b"first").await, Ok(value.clone()));
        let number = ring.post(good).await;
        let answer = ring.answer(number).await;
        assert_eq!((answer.status(), u64::from(answer.pointer)), (Status::SUCCESS, behind + 100));
        assert_eq!(host.value(&pair, b"second").await, Ok(value));
    });
}

// Whatever a record says, it has an answer, the next one its turn, and what is stored its value.
#[test]
fn any_record_is_answered() {
    for seed in 0..4u64 {
        with_ring(async move |host, pair, ring| {
            let mut random = Rng::new(seed).stream("records");
            let mut at = pointer(&host, &pair).await;
            let mut kept = BTreeMap::new();
            for turn in 0..250u64 {
                let value = pattern(turn, 1 + random.below(400) as usize);
                let name = [b'a' + random.below(9) as u8; 3];
                ring.put(at, &value).await;
                let mut bytes: [u8; 64] = line_of(&record(&name, at, &value));
                for _ in 0..random.below(3) {
                    bytes[8 + random.below(52) as usize] =
                        [0, 1, 255, random.next_u64() as u8][random.below(4) as usize];
                }
                let posted = CommitRecord::read_from_bytes(&bytes).expect("a record");
                let number = ring.post(posted).await;
                let answer = ring.answer(number).await;
                if answer.status().is_success() {
                    let length = usize::from(posted.key_bytes);
                    let stored = &value[..posted.bytes as usize];
                    kept.insert(posted.key[..length].to_vec(), stored.to_vec());
                    at = answer.pointer.into();
                } else if turn % 10 == 9 {
                    at = pointer(&host, &pair).await;
                }
                if u64::from(answer.limit.max(1)) < at + 1000 {
                    at = pointer(&host, &pair).await;
                }
            }
            assert!(kept.len() > 5, "seed {seed}: {}", kept.len());
            for (name, value) in kept {
                assert_eq!(host.value(&pair, &name).await, Ok(value), "seed {seed}: {name:?}");
            }
            let pairs = host.drive().controller.pairs(KV).expect("pairs");
            pairs.check().await.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        });
    }
}

fn line_of(record: &CommitRecord) -> [u8; 64] {
    record.as_bytes().try_into().expect("a line")
}

fn sum_of(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
}

// Lines may be torn, and the ring holds what it held a round ago: a drive that takes that for a record stores what no host meant.
#[test]
fn what_is_no_whole_record_of_this_round_is_none() {
    const LONG: Delay = Delay::from_us(20);
    with_ring(async |host, pair, ring| {
        let mut at = pointer(&host, &pair).await;
        let value = pattern(3, 50);
        let records = |host: &TestHost| host.drive().controller.counters().records.get();
        // Half of a line, and then the rest.
        ring.put(at, &value).await;
        let whole = record(b"torn", at, &value).sealed(1, ring.generation);
        ring.post_as_is(whole, 40).await;
        assert_eq!(ring.answer_within(1, LONG).await, None);
        assert_eq!(host.value(&pair, b"torn").await.ok(), None);
        let wrong = CommitRecord { bytes: 49, ..whole };
        for no_record in [
            wrong,
            CommitRecord { record_checksum: !whole.record_checksum, ..whole },
            record(b"torn", at, &value).sealed(2, ring.generation),
            record(b"torn", at, &value).sealed(1, ring.generation + 1),
            record(b"torn", at, &value).sealed(1, ring.generation - 1),
            record(b"torn", at, &value).sealed(0, ring.generation),
            CommitRecord::default(),
        ] {
            let place = ring.ring.record(0);
            host.end().store_lines(place, no_record.as_bytes(), StoreOrdering::Flushed).await;
            assert_eq!(ring.answer_within(1, LONG).await, None, "{no_record:?}");
        }
        // The next but one first: it waits.
        let next = record(b"next", at + 50, &value).sealed(2, ring.generation);
        ring.put(at + 50, &value).await;
        ring.post_as_is(next, 64).await;
        assert_eq!(ring.answer_within(2, LONG).await, None);
        ring.post_as_is(whole, 64).await;
        assert_eq!(ring.answer(2).await.status(), Status::SUCCESS);
        assert_eq!(ring.look(1).await.status(), Status::SUCCESS);
        at += 100;
        ring.next.set(3);
        // A round later the same bytes are present, and are not new records.
        for index in 2..RECORDS {
            assert_eq!(ring.commit(&[b'r', index as u8], at, &value).await.status(), Status::SUCCESS);
            at += 50;
        }
        assert_eq!(records(&host), u64::from(RECORDS));
        ring.post_as_is(whole, 64).await; // stored once more: the cache has evicted it late
        host.sleep(LONG).await;
        assert_eq!(records(&host), u64::from(RECORDS));
        // Stores to answers go nowhere.
        let answers = ring.ring.answer(0);
        let before = ring.look(2).await;
        host.end().store_lines(answers, &[0xff; 64], StoreOrdering::Flushed).await;
        assert_eq!(ring.look(2).await, before);
        assert_eq!(ring.commit(b"on", at, &value).await.status(), Status::SUCCESS);
    });
}

// Lines of CXL.mem arrive in no order: a record that arrives before its value must wait for it, and not
// indefinitely.
#[test]
fn a_record_waits_for_its_value() {
    with_ring(async |host, pair, ring| {
        let at = pointer(&host, &pair).await;
        let value = pattern(9, 16_000);
        let sealed = record(b"late", at, &value).sealed(1, ring.generation);
        host.end().store_lines_unordered(ring.ring.record(0), sealed.as_bytes());
        host.end().store_lines_unordered(BUFFER + at, &value);
        ring.next.set(2);
        assert_eq!(ring.answer(1).await.status(), Status::SUCCESS);
        assert_eq!(host.value(&pair, b"late").await, Ok(value.clone()));
        // One that never comes.
        let number = ring.post(record(b"never", at + 16_000, &value[..300])).await;
        assert_eq!(ring.answer(number).await.status(), Status::DATA_TRANSFER_ERROR);
        assert_eq!(ring.commit(b"never", at + 16_000, &value[..300]).await.status(), Status::SUCCESS);
    });
}

// A ring that cannot be would divide by zero, or be looked at indefinitely.
#[test]
fn impossible_rings_are_refused() {
    type Change = fn(&mut byteway_device::MemoryConfig);
    let changes: [(Change, Option<&str>); 8] = [
        (|_| (), None),
        (|memory| memory.records = 65536, None),
        (|memory| memory.records = 12, Some("power of two")),
        (|memory| memory.records = 1 << 17, Some("power of two")),
        (|memory| memory.records = 0, Some("cxl_commit")),
        (|memory| memory.poll = Delay::ZERO, Some("poll")),
        (|memory| memory.poll = Delay::from_ps(999), Some("poll")),
        (|memory| memory.poll = Delay::from_s(1) + Delay::from_ps(1), Some("poll")),
    ];
    for (change, expected) in changes {
        let mut drive = Bench::offering(COMMIT).drive;
        change(drive.transfer.memory.as_mut().expect("memory"));
        let message = drive.validate().err().map(|error| error.message);
        match expected {
            None => assert_eq!(message, None),
            Some(part) => {
                assert!(message.as_ref().is_some_and(|message| message.contains(part)), "{message:?}")
            }
        }
    }
}
