//! The ring of commit records in device memory, and the drive's position in it
//! ([`byteway_wire::nvme::vendor::commit`]).

use crate::config::MemoryConfig;
use byteway_clock::{Clock, Delay, Notify, Time};
use byteway_link::DeviceEnd;
use byteway_transfer::area::StoredBytes;
use byteway_wire::IntoBytes;
use byteway_wire::nvme::vendor::commit::{
    ANSWER_BYTES, CommitAnswer, CommitRecord, CommitRing, RECORD_BYTES,
};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

/// The ring of commit records, and the drive's position in it.
pub struct Commits {
    clock: Clock,
    ring: CommitRing,
    poll: Delay,
    bytes: RefCell<StoredBytes>,
    /// Whether the ring is on; `generation` counts how often it was switched on.
    is_on: Cell<bool>,
    generation: Cell<u32>,
    /// Start of the poll schedule.
    begun: Cell<Time>,
    /// The number of the next record.
    next: Cell<u32>,
    /// Index in the poll schedule of the next poll that has not been made.
    next_look: Cell<u64>,
    /// Polls made or skipped, since power-on.
    looks: Cell<u64>,
    /// Instants at which stores in flight become visible, ascending; only the last of those before the same poll.
    announced: RefCell<VecDeque<Time>>,
    /// For each record, the instant at which its last store became visible.
    arrived: RefCell<Vec<Time>>,
    changed: Notify,
}

impl Commits {
    /// A ring that is off, and empty if the drive has none.
    pub fn new(clock: &Clock, config: Option<&MemoryConfig>) -> Self {
        let ring = config.map_or(CommitRing::default(), MemoryConfig::ring);
        Commits {
            clock: clock.clone(),
            ring,
            poll: config.map_or(Delay::ZERO, |config| config.poll),
            bytes: RefCell::new(StoredBytes::new(ring.bytes())),
            is_on: Cell::default(),
            generation: Cell::default(),
            begun: Cell::new(Time::ZERO),
            next: Cell::new(1),
            next_look: Cell::default(),
            looks: Cell::default(),
            announced: RefCell::default(),
            arrived: RefCell::default(),
            changed: Notify::new(clock),
        }
    }

    /// Identifies this activation of the ring; 0: it is off.
    pub fn generation(&self) -> u32 {
        if self.is_on.get() { self.generation.get() } else { 0 }
    }

    /// Switches the ring on, empty, unless it is on.
    pub fn switch_on(&self) {
        if self.ring.records == 0 || self.is_on.replace(true) {
            return;
        }
        // 0 means off.
        self.generation.set(self.generation.get().wrapping_add(1).max(1));
        self.begun.set(self.clock.now());
        self.next.set(1);
        self.next_look.set(1);
        self.arrived.replace(vec![Time::ZERO; self.ring.records as usize]);
    }

    /// Switches the ring off and clears it. A record that is being taken is not answered.
    pub fn switch_off(&self) {
        if self.is_on.replace(false) {
            let looks = self.looks.get() + self.passed();
            self.looks.set(looks);
        }
        self.announced.borrow_mut().clear();
        self.bytes.borrow_mut().clear();
    }

    /// Whether it is on.
    pub fn is_on(&self) -> bool {
        self.is_on.get()
    }

    /// Index of a record in the ring.
    pub fn index_of(&self, record: &CommitRecord) -> u32 {
        self.ring.index(record.number)
    }

    /// Number of polls since power-on, not counting those that passed while the drive was busy with a record.
    pub fn looks(&self) -> u64 {
        self.looks.get() + if self.is_on.get() { self.passed() } else { 0 }
    }

    /// Scheduled polls up to now that were not made.
    fn passed(&self) -> u64 {
        (self.index(self.clock.now()) + 1).saturating_sub(self.next_look.get())
    }

    /// Index of the last scheduled poll not after `at`.
    fn index(&self, at: Time) -> u64 {
        at.since(self.begun.get()).ps() / self.poll.ps().max(1)
    }

    /// Index of the first scheduled poll not before `at`.
    fn index_from(&self, at: Time) -> u64 {
        at.since(self.begun.get()).ps().div_ceil(self.poll.ps().max(1))
    }

    /// Offset in the ring of a device address; `None` if it lies outside.
    pub fn position(&self, address: u64) -> Option<u64> {
        let at = address.checked_sub(self.ring.offset.into())?;
        (at < u64::from(self.ring.bytes())).then_some(at)
    }

    /// Index of the record that holds the byte at offset `at`.
    fn record_at(&self, at: u64) -> Option<usize> {
        let index = at / u64::from(RECORD_BYTES);
        (self.is_on.get() && index < u64::from(self.ring.records)).then_some(index as usize)
    }

    /// The host stores bytes into a line. Answers belong to the drive, so stores to them are ignored.
    pub fn store(&self, at: u64, bytes: &[u8]) {
        if self.record_at(at).is_some() {
            self.bytes.borrow_mut().store(at, bytes);
        }
    }

    /// The host loads bytes.
    pub fn load(&self, at: u64, into: &mut [u8]) {
        self.bytes.borrow().load(at, into);
    }

    /// Announces a store in flight that becomes visible at `time`.
    pub fn announce(&self, at: u64, time: Time) {
        let Some(index) = self.record_at(at) else { return };
        if let Some(arrived) = self.arrived.borrow_mut().get_mut(index) {
            *arrived = time;
        }
        let mut announced = self.announced.borrow_mut();
        // One entry per future poll is enough; a host that keeps storing takes no more memory.
        match announced.back_mut().filter(|last| self.index_from(**last) == self.index_from(time)) {
            Some(last) => *last = time,
            None => announced.push_back(time),
        }
        drop(announced);
        if self.changed.waiting() > 0 {
            self.changed.notify_one();
        }
    }

    /// Waits for the next poll that can see a new store.
    pub(crate) async fn due(&self) {
        loop {
            let front = self.announced.borrow().front().copied().filter(|_| self.is_on.get());
            let Some(visible) = front else {
                self.changed.notified().await;
                continue;
            };
            let (index, generation) = (self.next_look.get().max(self.index_from(visible)), self.generation());
            self.clock.sleep_until(self.begun.get() + self.poll * index).await;
            if self.generation() == generation {
                return;
            }
        }
    }

    /// Polls the next record: returns it if it is complete, and the instant at which it became visible.
    pub(crate) fn look(&self, port: &DeviceEnd) -> Option<(CommitRecord, Time)> {
        port.settle_memory();
        let now = self.clock.now();
        // A poll after a taken record counts in addition to those of the schedule.
        self.looks.set(self.looks.get() + self.passed().max(1));
        self.next_look.set(self.next_look.get().max(self.index(now) + 1));
        let mut announced = self.announced.borrow_mut();
        while announced.front().is_some_and(|visible| *visible <= now) {
            announced.pop_front();
        }
        let (number, index) = (self.next.get(), self.ring.index(self.next.get()));
        let mut record = CommitRecord::default();
        let at = u64::from(index) * u64::from(RECORD_BYTES);
        self.bytes.borrow().load(at, record.as_mut_bytes());
        // The host may store to the record again; that store is then in flight, hence the minimum.
        let arrived = self.arrived.borrow().get(index as usize).map_or(now, |arrived| now.min(*arrived));
        record.is(number, self.generation.get()).then_some((record, arrived))
    }

    /// Marks the scheduled polls that passed while the drive was busy as not made.
    pub(crate) fn was_busy(&self) {
        self.next_look.set(self.next_look.get().max(self.index_from(self.clock.now())));
    }

    /// Answers the current record.
    pub(crate) fn answer(&self, answer: &CommitAnswer) {
        debug_assert_eq!(answer.number, self.next.get(), "records are answered in order");
        let at = self.ring.records * RECORD_BYTES + self.ring.index(answer.number) * ANSWER_BYTES;
        self.bytes.borrow_mut().store(at.into(), answer.as_bytes());
        self.next.set(answer.number.wrapping_add(1));
    }
}
