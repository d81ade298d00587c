//! The ring of commit records in the device's memory, and where the drive is in it ([`byteway_wire::nvme::vendor::commit`]).

use crate::config::MemoryConfig;
use byteway_clock::{Clock, Delay, Notify, Time};
use byteway_link::DeviceEnd;
use byteway_transfer::mmio::BarBuffer;
use byteway_wire::IntoBytes;
use byteway_wire::nvme::vendor::commit::{
    ANSWER_BYTES, CommitAnswer, CommitRecord, CommitRing, RECORD_BYTES,
};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

/// The ring, and where the drive is in it.
pub struct Commits {
    clock: Clock,
    ring: CommitRing,
    poll: Delay,
    bytes: RefCell<BarBuffer>,
    /// Whether it is on; how often it has been.
    is_on: Cell<bool>,
    generation: Cell<u32>,
    /// From here on looks are counted.
    begun: Cell<Time>,
    /// The number of the next record.
    next: Cell<u32>,
    /// The next look that is not made yet: the how-manieth it is by the clock.
    next_look: Cell<u64>,
    /// Looks that were made or left out, in all lives.
    looks: Cell<u64>,
    /// When stores to records that are under way can be seen, ascending: of those that come before the same look, the last.
    announced: RefCell<VecDeque<Time>>,
    /// When the last store to each record could be seen.
    arrived: RefCell<Vec<Time>>,
    changed: Notify,
}

impl Commits {
    /// A ring that is off; of no records, if the drive has none.
    pub fn new(clock: &Clock, config: Option<&MemoryConfig>) -> Self {
        let ring = config.map_or(CommitRing::default(), MemoryConfig::ring);
        Commits {
            clock: clock.clone(),
            ring,
            poll: config.map_or(Delay::ZERO, |config| config.poll),
            bytes: RefCell::new(BarBuffer::new(ring.bytes())),
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

    /// The life of the ring that this is; 0: it is off.
    pub fn generation(&self) -> u32 {
        if self.is_on.get() { self.generation.get() } else { 0 }
    }

    /// Switches it on, empty, unless it is.
    pub fn switch_on(&self) {
        if self.ring.records == 0 || self.is_on.replace(true) {
            return;
        }
        // 0 says that it is off.
        self.generation.set(self.generation.get().wrapping_add(1).max(1));
        self.begun.set(self.clock.now());
        self.next.set(1);
        self.next_look.set(1);
        self.arrived.replace(vec![Time::ZERO; self.ring.records as usize]);
    }

    /// Switches it off, and forgets what was in it. A record that is being taken is not answered.
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

    /// Where in the ring a record stands.
    pub fn index_of(&self, record: &CommitRecord) -> u32 {
        self.ring.index(record.number)
    }

    /// How often the drive has looked at the ring since power-on. What it has been busy with instead of looking is left out.
    pub fn looks(&self) -> u64 {
        self.looks.get() + if self.is_on.get() { self.passed() } else { 0 }
    }

    /// The looks that have come by now and were not made.
    fn passed(&self) -> u64 {
        (self.index(self.clock.now()) + 1).saturating_sub(self.next_look.get())
    }

    /// The last look by the clock that is not after `at`.
    fn index(&self, at: Time) -> u64 {
        at.since(self.begun.get()).ps() / self.poll.ps().max(1)
    }

    /// The first look by the clock that is not before `at`.
    fn index_from(&self, at: Time) -> u64 {
        at.since(self.begun.get()).ps().div_ceil(self.poll.ps().max(1))
    }

    /// Where in the ring a device address is, if it is there.
    pub fn position(&self, address: u64) -> Option<u64> {
        let at = address.checked_sub(self.ring.offset.into())?;
        (at < u64::from(self.ring.bytes())).then_some(at)
    }

    /// The record that the bytes at `at` of the ring are of.
    fn record_at(&self, at: u64) -> Option<usize> {
        let index = at / u64::from(RECORD_BYTES);
        (self.is_on.get() && index < u64::from(self.ring.records)).then_some(index as usize)
    }

    /// The host has stored bytes of a line. Answers are the drive's.
    pub fn store(&self, at: u64, bytes: &[u8]) {
        if self.record_at(at).is_some() {
            self.bytes.borrow_mut().store(at, bytes);
        }
    }

    /// The host loads bytes.
    pub fn load(&self, at: u64, into: &mut [u8]) {
        self.bytes.borrow().load(at, into);
    }

    /// A store is under way that can be seen at `time`.
    pub fn announce(&self, at: u64, time: Time) {
        let Some(index) = self.record_at(at) else { return };
        if let Some(arrived) = self.arrived.borrow_mut().get_mut(index) {
            *arrived = time;
        }
        let mut announced = self.announced.borrow_mut();
        // One for each look that is to come: a host that stores for ever takes no more room.
        match announced.back_mut().filter(|last| self.index_from(**last) == self.index_from(time)) {
            Some(last) => *last = time,
            None => announced.push_back(time),
        }
        drop(announced);
        if self.changed.waiting() > 0 {
            self.changed.notify_one();
        }
    }

    /// Waits for the next look at which a store can be seen that could not before.
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

    /// Looks at the next record as it is now: whether it is there, and when that could be seen first.
    pub(crate) fn look(&self, port: &DeviceEnd) -> Option<(CommitRecord, Time)> {
        port.settle_memory();
        let now = self.clock.now();
        // One behind a record that was taken counts beside those that are due by the clock.
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
        // A host may store over it again; that is under way then.
        let arrived = self.arrived.borrow().get(index as usize).map_or(now, |arrived| now.min(*arrived));
        record.is(number, self.generation.get()).then_some((record, arrived))
    }

    /// The looks by the clock that passed while the drive was busy until now were not made.
    pub(crate) fn was_busy(&self) {
        self.next_look.set(self.next_look.get().max(self.index_from(self.clock.now())));
    }

    /// The record whose turn it is has been answered.
    pub(crate) fn answer(&self, answer: &CommitAnswer) {
        let at = self.ring.records * RECORD_BYTES + self.ring.index(answer.number) * ANSWER_BYTES;
        self.bytes.borrow_mut().store(at.into(), answer.as_bytes());
        self.next.set(answer.number.wrapping_add(1));
    }
}
