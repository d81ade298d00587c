//! Commit records ([`byteway_wire::nvme::vendor::commit`]): pairs that the host stores without a command. A task looks at the
//! ring in the device's memory, takes what is there in order, one record after the other, and answers.
//!
//! The drive looks every [`MemoryConfig::poll`](crate::MemoryConfig), counted from the moment at which the ring went on, and
//! again at once behind each record that it has taken. Looks at which nothing can be there, because no store to the ring is
//! under way, are only counted ([`Commits::looks`]): they take no event, and whatever is there is found at the instant at which
//! a drive that looks always would have found it. What they cost its cores is in no one's way: a core that polls has nothing
//! else to do, or is another one.
//!
//! A look that is made costs [`Work::Poll`] and a line's way out of DRAM; a record [`Work::Parse`] and what the pipeline takes for a
//! write, as of a command, then the store, and its answer's way into DRAM. Fetching and completing there are not.

use crate::config::MemoryConfig;
use crate::controller::log::add;
use crate::controller::{Core, kv};
use byteway_clock::{Clock, Delay, Notify, SpanId, Stage, Time};
use byteway_firmware::{Stored, Work};
use byteway_transfer::cxl_mem::{self, Place};
use byteway_transfer::mmio::BarBuffer;
use byteway_wire::IntoBytes;
use byteway_wire::nvme::Status;
use byteway_wire::nvme::vendor::commit::{
    ANSWER_BYTES, CommitAnswer, CommitRecord, CommitRing, RECORD_BYTES,
};
use byteway_wire::nvme::vendor::cxl::InDeviceMemory;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

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
    async fn due(&self) {
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
    fn look(&self, core: &Core) -> Option<(CommitRecord, Time)> {
        core.port.settle_memory();
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
    fn was_busy(&self) {
        self.next_look.set(self.next_look.get().max(self.index_from(self.clock.now())));
    }

    /// The record whose turn it is has been answered.
    fn answer(&self, answer: &CommitAnswer) {
        let at = self.ring.records * RECORD_BYTES + self.ring.index(answer.number) * ANSWER_BYTES;
        self.bytes.borrow_mut().store(at.into(), answer.as_bytes());
        self.next.set(answer.number.wrapping_add(1));
    }
}

/// Takes records for as long as there is a drive.
pub async fn run(core: Rc<Core>) {
    let commits = &core.commits;
    let mut value = Vec::new();
    loop {
        commits.due().await;
        while commits.is_on.get() {
            let Some((record, arrived)) = commits.look(&core) else {
                core.pay_for_look(SpanId::NONE).await;
                commits.was_busy();
                break;
            };
            core.begin(); // a reset waits for it
            let span = core.port.followed_stored(commits.ring.index(record.number));
            core.port.spans().charge(span, arrived, Stage::Link);
            core.port.spans().charge(span, core.clock.now(), Stage::Fetch);
            core.clock.works_for([span]);
            core.take_record(&record, &mut value, span).await;
            core.end();
            commits.was_busy();
        }
    }
}

impl Core {
    /// Looking at a line of the ring.
    async fn pay_for_look(&self, span: SpanId) {
        let spans = self.port.spans();
        let looked = self.placement.run(Work::Poll, 1).await;
        spans.charge_split(span, self.clock.now(), looked.queued, Stage::Firmware);
        self.move_dram("commit record", RECORD_BYTES, span).await;
    }

    async fn move_dram(&self, what: &'static str, bytes: u32, span: SpanId) {
        let passage = self.placement.site(Work::Poll).dram(what, bytes.into());
        self.clock.sleep_until(passage.arrival).await;
        self.port.spans().charge_split(span, self.clock.now(), passage.queued, Stage::Dram);
    }

    /// Stores what a record says, and answers, unless a reset has come between.
    async fn take_record(&self, record: &CommitRecord, value: &mut Vec<u8>, span: SpanId) {
        let life = self.commits.generation();
        let is_live = || self.commits.generation() == life;
        self.pay_for_look(span).await;
        let parse = self.placement.run(Work::Parse, 1).await;
        self.clock.sleep(self.config.controller.write_pipeline).await;
        self.port.spans().charge_split(span, self.clock.now(), parse.queued, Stage::Firmware);
        let stored = match is_live() {
            true => self.store_record(record, value, span, is_live).await,
            false => return,
        };
        self.operations.command_ended();
        self.persistence.counted();
        self.move_dram("commit answer", ANSWER_BYTES, span).await;
        if !is_live() {
            return;
        }
        add(&self.counters.records, 1);
        let number = record.number;
        self.commits.answer(&match stored {
            Ok(Stored { pointer, limit, .. }) => {
                CommitAnswer { number, pointer, limit, ..Default::default() }
            }
            Err(status) => CommitAnswer { number, status: status.bits(), ..Default::default() },
        });
    }

    async fn store_record(
        &self,
        record: &CommitRecord,
        value: &mut Vec<u8>,
        span: SpanId,
        is_live: impl Fn() -> bool,
    ) -> Result<Stored, Status> {
        let is_of_blocks = self.inventory.allocated(record.nsid).is_some_and(|namespace| !namespace.is_kv());
        if is_of_blocks {
            return Err(Status::INVALID_NAMESPACE.with_dnr());
        }
        let (_namespace, pairs) = self.writable_pairs(record.nsid)?;
        let store = record.store().ok_or(Status::INVALID_FIELD.with_dnr())?;
        let key = kv::key(&store.key)?;
        if store.bytes == 0 {
            return Err(Status::INVALID_VALUE_SIZE.with_dnr()); // it lies nowhere: it goes by a command
        }
        kv::check_value(self, store.bytes)?;
        let mode = kv::mode(&store)?;
        let named =
            InDeviceMemory { address: record.address, bytes: store.bytes, checksum: Some(record.checksum) };
        let log = self.memory_log();
        let at = match cxl_mem::find(&log, named, store.bytes.into())? {
            Place::Buffer(at) if log.nsid == record.nsid => at,
            Place::Buffer(_) | Place::Area(_) => return Err(Status::SGL_OFFSET_INVALID.with_dnr()),
        };
        let goes_on = || if is_live() { Ok(()) } else { Err(Status::ABORTED_SQ_DELETED) };
        self.store_at((span, &goes_on), value, &pairs, key, (at, named), mode).await
    }
}
