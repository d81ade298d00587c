//! The flash translation layer: a page map of 4 KiB units over superblocks, with a write buffer and a collector for
//! each die.
//!
//! A read is: work on the cores that translate, one access to their DRAM, then flash, or the write buffer. A write is:
//! work, the DRAM of the buffer, room in the buffer; it is then acknowledged, or waits until it is programmed. Programs
//! go to dies in turn, channels first. Everything else happens behind: see `write` and `collect`.
//!
//! What a read gives is decided when its map entries are looked up. Flash keeps an erase from overtaking the read, and
//! a superblock is only erased when the map has left it, so a read never has to look twice.

pub mod base;
mod blocks;
mod buffer;
mod collect;
pub mod config;
mod lock;
mod map;
mod write;

pub use base::greedy_write_amplification;
pub use config::{Base, FtlConfig, FtlError, MediaError, Region, Victim};

use crate::placement::Placement;
use crate::work::Work;
use base::{BaseState, Written};
use blocks::{Blocks, Stream};
use buffer::Buffer;
use byteway_clock::{Clock, Delay, Notify, Semaphore, SpanId, Spans, Stage, TaskId};
use byteway_flash::{BlockId, Flash, Geometry, Ppa, Priority, Timing};
use byteway_wire::content::{Content, UNIT_BYTES};
use lock::Locks;
use map::{Entry, Place, Table};
use std::cell::RefCell;
use std::rc::Rc;
use write::{DieSet, Job, Writer};

/// What a translation layer has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FtlCounters {
    /// Units that the host wrote.
    pub user_units_written: u64,
    /// Of those, how many replaced one that was waiting in the buffer.
    pub units_overwritten_in_buffer: u64,
    /// Units that the host read.
    pub units_read: u64,
    /// Of those, how many were in the buffer.
    pub units_read_from_buffer: u64,
    /// Of those, how many were nowhere: zeroes, without a read of flash.
    pub units_read_unmapped: u64,
    /// Units that the host deallocated.
    pub units_deallocated: u64,
    /// Units programmed because the host wrote them.
    pub units_programmed_host: u64,
    /// Units programmed because the collector moved them.
    pub units_programmed_collector: u64,
    /// Units programmed to fill a stripe that could not wait.
    pub units_programmed_padding: u64,
    /// Superblocks that were collected and erased.
    pub blocks_collected: u64,
    /// Superblocks that are free now.
    pub blocks_free: u64,
}

impl FtlCounters {
    /// Units programmed for each that the host wrote, since `then`. Zero if the host wrote none.
    pub fn write_amplification_since(&self, then: &FtlCounters) -> f64 {
        let programmed = self.units_programmed() - then.units_programmed();
        let written = self.user_units_written - then.user_units_written;
        if written == 0 { 0.0 } else { programmed as f64 / written as f64 }
    }

    /// Units programmed for each that the host wrote. Zero if the host wrote none.
    pub fn write_amplification(&self) -> f64 {
        self.write_amplification_since(&FtlCounters::default())
    }

    /// Units programmed, whatever for.
    pub fn units_programmed(&self) -> u64 {
        self.units_programmed_host + self.units_programmed_collector + self.units_programmed_padding
    }
}

struct State {
    map: Table,
    buffer: Buffer,
    blocks: Blocks,
    counters: FtlCounters,
    /// What was buffered before this sequence number must not wait for a full stripe.
    flush_to: u64,
    /// The die whose turn it is.
    next_die: u32,
    /// Dies that can take a stripe of the host's.
    ready: DieSet,
    /// Programs of the host's that are under way, of each die.
    under_way: Vec<u32>,
    jobs: Vec<Job>,
    idle_jobs: Vec<u32>,
    /// Every collector has been called at least once.
    roused: bool,
    /// For a moment, in a trace: the I/Os whose units a stripe holds.
    ios: Vec<u32>,
}

struct Inner {
    clock: Clock,
    placement: Placement,
    flash: Flash,
    geometry: Geometry,
    base: Rc<BaseState>,
    config: FtlConfig,
    /// Slots of the buffer that are free and promised to nobody.
    credits: Semaphore,
    slots: u32,
    locks: Locks,
    /// Slots have become free: programmed, or dropped while they waited.
    settled: Notify,
    /// For each die: there may be something to collect.
    collectors: Vec<Notify>,
    writers: Vec<Writer>,
    state: RefCell<State>,
    scratch: RefCell<Vec<Scratch>>,
    tasks: RefCell<Vec<TaskId>>,
}

/// A drive's translation layer. Cheap to clone.
#[derive(Clone)]
pub struct Ftl(Rc<Inner>);

/// Where a unit can be had.
enum Found {
    Nowhere,
    Buffered(Content),
    Flash(Ppa),
}

/// Units of one stripe, read at once.
struct Group {
    first: Ppa,
    mask: u64,
    /// Where its units begin in what the ticket delivers.
    at: u32,
}

/// A unit that is to be read from flash.
struct Wanted {
    /// Its place in what the reader gets.
    place: u32,
    group: u32,
    unit: u32,
}

/// Memory of a read of many units, used again and again.
#[derive(Default)]
struct Scratch {
    groups: Vec<Group>,
    wanted: Vec<Wanted>,
    contents: Vec<Content>,
}

/// Lent, and given back also if the reader is dropped.
struct Lent<'a> {
    pool: &'a RefCell<Vec<Scratch>>,
    scratch: Scratch,
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.groups.clear();
        scratch.wanted.clear();
        scratch.contents.clear();
        self.pool.borrow_mut().push(scratch);
    }
}

/// How many stripes back a read looks for the one that a unit lies in.
const GROUPS_BACK: usize = 16;

impl Ftl {
    /// A translation layer over an array of this shape, which it makes.
    ///
    /// # Errors
    /// If shape, times and parameters don't go together; they may come from a file.
    pub fn new(
        clock: &Clock,
        placement: Placement,
        geometry: Geometry,
        timing: Timing,
        config: FtlConfig,
    ) -> Result<Ftl, FtlError> {
        geometry.validate()?;
        timing.validate()?;
        validate(&geometry, &config)?;
        let base = Rc::new(BaseState::new(geometry, &config));
        let flash = Flash::new(clock, geometry, timing, Box::new(Written(base.clone())));
        let dies = geometry.dies();
        let slots = config.write_buffer_units.max(2 * geometry.units_per_stripe());
        let writers: Vec<Writer> =
            (0..dies * write::PROGRAMS_PER_DIE).map(|_| Writer::new(clock, &flash)).collect();
        let state = State {
            map: Table::new(config.user_units),
            buffer: Buffer::new(slots),
            blocks: Blocks::new(geometry, &base, config.gc_reserve_blocks),
            counters: FtlCounters::default(),
            flush_to: 0,
            next_die: 0,
            ready: DieSet::new(dies),
            under_way: vec![0; dies as usize],
            jobs: writers.iter().map(|_| Job::new(&geometry)).collect(),
            idle_jobs: (0..writers.len() as u32).rev().collect(),
            roused: false,
            ios: Vec::new(),
        };
        let inner = Rc::new(Inner {
            clock: clock.clone(),
            placement,
            flash,
            geometry,
            base,
            config,
            credits: Semaphore::new(clock, slots as usize),
            slots,
            locks: Locks::new(clock),
            settled: Notify::new(clock),
            collectors: (0..dies).map(|_| Notify::new(clock)).collect(),
            writers,
            state: RefCell::new(state),
            scratch: RefCell::default(),
            tasks: RefCell::default(),
        });
        for die in 0..dies {
            inner.state.borrow_mut().refresh(die);
        }
        let writers =
            (0..inner.writers.len()).map(|index| clock.spawn("writer", write::run(inner.clone(), index)));
        let mut tasks: Vec<TaskId> = writers.collect();
        tasks.extend((0..dies).map(|die| clock.spawn("collector", collect::run(inner.clone(), die))));
        inner.tasks.replace(tasks);
        Ok(Ftl(inner))
    }

    /// Reads `count` units from `first`; `out` is cleared and gets their contents in order.
    ///
    /// Charges [`Work::Translate`] for each unit and one access to the DRAM at the site that translates. Units of one
    /// stripe are one operation of flash. Units in the write buffer cost their passage out of its DRAM.
    ///
    /// # Errors
    /// If not all are units of the drive, or flash can't give one of them; `out` is then of no use.
    pub async fn read(
        &self,
        span: SpanId,
        spans: &Spans,
        first: u64,
        count: u32,
        out: &mut Vec<Content>,
    ) -> Result<(), MediaError> {
        out.clear();
        let first = self.check(first, u64::from(count))?;
        self.translate(span, spans, u64::from(count)).await;
        self.0.state.borrow_mut().counters.units_read += u64::from(count);
        if count == 1 {
            let content = self.read_unit(span, spans, first).await?;
            out.push(content);
            return Ok(());
        }
        self.read_units(span, spans, first, count, out).await
    }

    /// Reads a unit whose translation is paid for.
    async fn read_unit(&self, span: SpanId, spans: &Spans, lpa: u32) -> Result<Content, MediaError> {
        let inner = &*self.0;
        let found = inner.state.borrow_mut().find_counted(&inner.base, lpa);
        match found {
            Found::Nowhere => Ok(Content::Zero),
            Found::Buffered(content) => {
                self.leave_buffer(span, spans, 1).await;
                Ok(content)
            }
            Found::Flash(ppa) => {
                let ticket = inner.flash.ticket();
                let mask = 1 << inner.geometry.unit_of_stripe(ppa);
                inner.flash.submit_read(ppa, mask, Priority::HostRead, &ticket);
                let outcome = ticket.wait().await;
                spans.charge_split(span, inner.clock.now(), outcome.queued, Stage::Flash);
                if outcome.failed { Err(MediaError::Unreadable) } else { Ok(ticket.content(0)) }
            }
        }
    }

    async fn read_units(
        &self,
        span: SpanId,
        spans: &Spans,
        first: u32,
        count: u32,
        out: &mut Vec<Content>,
    ) -> Result<(), MediaError> {
        let inner = &*self.0;
        let scratch = inner.scratch.borrow_mut().pop().unwrap_or_default();
        let mut lent = Lent { pool: &inner.scratch, scratch };
        let Scratch { groups, wanted, contents } = &mut lent.scratch;
        let mut buffered = 0;
        out.resize(count as usize, Content::Zero);
        {
            let mut state = inner.state.borrow_mut();
            for (place, lpa) in (first..first + count).enumerate() {
                match state.find_counted(&inner.base, lpa) {
                    Found::Nowhere => {}
                    Found::Buffered(content) => {
                        out[place] = content;
                        buffered += 1;
                    }
                    Found::Flash(ppa) => {
                        let group = inner.group(groups, ppa);
                        let unit = inner.geometry.unit_of_stripe(ppa);
                        wanted.push(Wanted { place: place as u32, group, unit });
                    }
                }
            }
        }
        if !groups.is_empty() {
            let ticket = inner.flash.ticket();
            for group in groups.iter_mut() {
                group.at =
                    inner.flash.submit_read(group.first, group.mask, Priority::HostRead, &ticket) as u32;
            }
            let outcome = ticket.wait().await;
            spans.charge_split(span, inner.clock.now(), outcome.queued, Stage::Flash);
            if outcome.failed {
                return Err(MediaError::Unreadable);
            }
            ticket.take_contents(contents);
            for Wanted { place, group, unit } in wanted.iter() {
                let group = &groups[*group as usize];
                let before = (group.mask & ((1 << unit) - 1)).count_ones();
                out[*place as usize] = std::mem::take(&mut contents[(group.at + before) as usize]);
            }
        }
        if buffered > 0 {
            self.leave_buffer(span, spans, buffered).await;
        }
        Ok(())
    }

    /// What a unit holds at this instant, at no cost: for tests. Zeroes beyond the drive.
    pub fn peek(&self, lpa: u64) -> Content {
        let Ok(lpa) = self.check(lpa, 1) else { return Content::Zero };
        let found = self.0.state.borrow().find(&self.0.base, lpa);
        match found {
            Found::Nowhere => Content::Zero,
            Found::Buffered(content) => content,
            Found::Flash(ppa) => self.0.flash.content(ppa),
        }
    }

    /// Units that the host can address.
    pub fn user_units(&self) -> u64 {
        self.0.config.user_units
    }

    /// What it has done so far.
    pub fn counters(&self) -> FtlCounters {
        let state = self.0.state.borrow();
        let blocks_free = (0..self.0.geometry.dies()).map(|die| u64::from(state.blocks.free(die))).sum();
        FtlCounters { blocks_free, ..state.counters }
    }

    /// The array under it.
    pub fn flash(&self) -> &Flash {
        &self.0.flash
    }

    /// Where its work runs.
    pub fn placement(&self) -> &Placement {
        &self.0.placement
    }

    /// Units in the write buffer.
    pub fn units_buffered(&self) -> u32 {
        self.0.state.borrow().buffer.used()
    }

    /// Slots of the write buffer that are free and promised to nobody.
    pub fn slots_free(&self) -> u32 {
        self.0.credits.available() as u32
    }

    /// Slots of the write buffer in all.
    pub fn slots(&self) -> u32 {
        self.0.slots
    }

    /// Units that are locked by [`Ftl::modify`].
    pub fn units_locked(&self) -> usize {
        self.0.locks.len()
    }

    /// Valid units of a superblock, and whether it is closed: full, and not being collected.
    pub fn valid_units(&self, block: BlockId) -> (u32, bool) {
        let state = self.0.state.borrow();
        (state.blocks.valid(block), state.blocks.is_closed(block))
    }

    /// Ends its tasks: the drive is gone. Whoever waits for it waits for ever, and is to be ended as well.
    pub fn stop(&self) {
        for task in self.0.tasks.take() {
            self.0.clock.kill(task);
        }
    }

    /// The first unit, if all `count` are units of the drive.
    fn check(&self, first: u64, count: u64) -> Result<u32, MediaError> {
        match first.checked_add(count) {
            Some(end) if end <= self.0.config.user_units => Ok(first as u32),
            _ => Err(MediaError::OutOfRange),
        }
    }

    /// Does the work of translating `count` units, with the one access to the DRAM that it waits for.
    async fn translate(&self, span: SpanId, spans: &Spans, count: u64) {
        let inner = &*self.0;
        let service = inner.placement.reserve(Work::Translate, count);
        let latency = inner.placement.site(Work::Translate).dram_latency();
        inner.clock.sleep_until(service.end + latency).await;
        let now = inner.clock.now();
        spans.charge_split(span, service.end.min(now), service.queued, Stage::Firmware);
        if latency > Delay::ZERO {
            spans.charge(span, now, Stage::Dram);
        }
    }

    /// Waits for units to come out of the buffer's DRAM.
    async fn leave_buffer(&self, span: SpanId, spans: &Spans, units: u64) {
        let inner = &*self.0;
        let passage = inner.placement.site(Work::Buffer).dram("out of the buffer", units * UNIT_BYTES as u64);
        inner.clock.sleep_until(passage.arrival).await;
        spans.charge_split(span, inner.clock.now(), passage.queued, Stage::Dram);
    }
}

impl Inner {
    /// The group of the stripe that `ppa` is in: one of the last few, or a new one.
    fn group(&self, groups: &mut Vec<Group>, ppa: Ppa) -> u32 {
        let first = self.geometry.stripe_start(ppa);
        let bit = 1 << self.geometry.unit_of_stripe(ppa);
        let from = groups.len().saturating_sub(GROUPS_BACK);
        match groups[from..].iter_mut().rposition(|group| group.first == first) {
            Some(index) => {
                groups[from + index].mask |= bit;
                (from + index) as u32
            }
            None => {
                groups.push(Group { first, mask: bit, at: 0 });
                (groups.len() - 1) as u32
            }
        }
    }
}

impl State {
    /// Where a unit can be had now.
    #[inline]
    fn find(&self, base: &BaseState, lpa: u32) -> Found {
        match self.map.get(lpa).place() {
            Place::Base => base.find(lpa).map_or(Found::Nowhere, Found::Flash),
            Place::Unmapped => Found::Nowhere,
            Place::Flash(ppa) => Found::Flash(ppa),
            Place::Slot(slot) => Found::Buffered(self.buffer.slot(slot).content.clone()),
        }
    }

    /// The same, for a read of the host's.
    #[inline]
    fn find_counted(&mut self, base: &BaseState, lpa: u32) -> Found {
        let found = self.find(base, lpa);
        match found {
            Found::Nowhere => self.counters.units_read_unmapped += 1,
            Found::Buffered(_) => self.counters.units_read_from_buffer += 1,
            Found::Flash(_) => {}
        }
        found
    }

    /// The state that flash has of a unit is history. Gives the die if its collector wants to know.
    #[inline]
    fn lose(&mut self, base: &BaseState, lpa: u32, entry: Entry) -> Option<u32> {
        let ppa = match entry.place() {
            Place::Base => base.find(lpa)?,
            Place::Flash(ppa) => ppa,
            Place::Unmapped | Place::Slot(_) => return None,
        };
        self.blocks.lost(ppa)
    }

    /// Notes whether a die can take a stripe of the host's.
    fn refresh(&mut self, die: u32) {
        let idle = self.under_way[die as usize] < write::PROGRAMS_PER_DIE;
        self.ready.set(die, idle && self.blocks.has_room(die, Stream::Host));
    }
}

fn validate(geometry: &Geometry, config: &FtlConfig) -> Result<(), FtlError> {
    let (start, reserve) = (config.gc_start_free_blocks, config.gc_reserve_blocks);
    if reserve == 0 || start < reserve {
        return Err(FtlError::Thresholds { start, reserve });
    }
    if config.write_buffer_units > FtlConfig::BUFFER_UNITS_MAX {
        return Err(FtlError::Buffer(config.write_buffer_units));
    }
    if !config.regions.is_sorted_by(|a, b| a.first_unit < b.first_unit) {
        return Err(FtlError::Regions);
    }
    if config.user_units == 0 {
        return Err(FtlError::NoUnits);
    }
    // A die is stuck when none of its superblocks has a stripe's worth of stale units: then all but the reserve and the
    // collector's open one are full of valid units but for less than a stripe. With no more user units than this, one
    // die at least is not stuck. The constructed state has its two open superblocks and the free ones beside.
    let blocks = u64::from(geometry.blocks).saturating_sub(u64::from(reserve) + 2);
    let of_die = blocks * u64::from(geometry.units_per_block() - geometry.units_per_stripe() + 1);
    let most = of_die * u64::from(geometry.dies());
    if config.user_units > most {
        return Err(FtlError::TooLarge { user_units: config.user_units, blocks: geometry.blocks, most });
    }
    Ok(())
}
