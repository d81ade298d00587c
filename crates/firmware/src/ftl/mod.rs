//! The flash translation layer: a page map of 4 KiB units over superblocks, with a write buffer, and a
//! garbage collector for each die.
//!
//! A read takes work on the translating cores, one access to their DRAM, and then flash or the write buffer.
//! A write takes work, the DRAM of the buffer, and a free slot in it; it is then acknowledged, or waits until
//! it is programmed. Programs go to the dies in turn, channels first. Everything else runs in the background:
//! see `write` and `collect`.
//!
//! The look-up of its map entries decides what a read returns. Flash keeps an erase from overtaking the read,
//! and a superblock is erased only after the map has left it, so a read never needs a second look-up.

pub mod base;
mod blocks;
mod buffer;
mod collect;
pub mod config;
mod counters;
mod durable;
mod footprint;
pub mod health;
mod inner;
mod map;
mod plain;
mod read_cache;
mod recency;
mod scratch;
pub mod space;
mod steady;
mod streams;
mod write;

pub use base::greedy_write_amplification;
pub use collect::window::CollectionState;
pub use config::{
    Background, Base, ExtentConfig, FtlConfig, FtlError, InjectedDefect, Maintenance, MediaError, Refresh,
    Region, SteadyLoad, SteadyTiming, WearConfig,
};
pub use counters::FtlCounters;
pub use durable::audit::{Audit, Disagreement, UnitContent};
pub use durable::medium::{MediumError, space_of};
pub use footprint::Footprint;
pub use health::Health;
pub use inner::Ftl;
pub use map::MapMonitor;
pub use map::copies::LentMemory;
pub use map::redo;
pub use map::segments::{BorrowFigures, Lender, LenderId};
pub use space::Space;
pub use steady::PacedState;
pub use write::exchange::Exchange;

use crate::hardware::FlashCommands;
use crate::placement::{Placement, WorkContext};
use crate::policy::stream::StreamCounts;
use crate::work::WorkKind;
use base::BaseState;
use blocks::{Blocks, Marks};
use buffer::Buffer;
use byteway_clock::{Clock, Semaphore, SpanId, Spans, Stage, TaskId};
use byteway_content::{Content, Keep, UNIT_BYTES};
use byteway_flash::{
    BlockId, DataEnd, Dump, Far, Flash, FlashConfig, Geometry, Medium, Mode, Ppa, Priority, Ticket,
};
use collect::collecting::Collecting;
use collect::idleness::Idleness;
use durable::journal::Journal;
use durable::{Checkpoints, Power};
use inner::{EndOfLife, Inner, Signals, State, UnitLocation};
use map::cache::Access;
use map::copies::Lending;
use map::extents::Log;
use map::{Cache, Mapping};
use read_cache::{Origin, ReadCache};
use scratch::{Group, Lent, Scratch, Wanted};
use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use streams::Streams;
use write::filling::{Filling, PROGRAMS_PER_DIE, Writer};
use write::lock::Locks;
use write::merge::MERGERS_MAX;
use write::parts::Parts;
use write::superseded::Superseded;

/// Number of recent stripe groups among which a read searches for the stripe of its next unit.
const GROUPS_BACK: usize = 16;

impl Ftl {
    /// A translation layer over a new array.
    ///
    /// # Errors
    /// [`FtlError`] if geometry, timing and parameters are invalid or inconsistent; they may come from a
    /// file.
    pub fn new(
        clock: &Clock,
        placement: Placement,
        geometry: Geometry,
        flash: impl Into<FlashConfig>,
        config: FtlConfig,
    ) -> Result<Ftl, FtlError> {
        let medium = Self::medium(geometry, &config)?;
        Self::power_on(clock, placement, geometry, flash, config, medium)
    }

    /// A translation layer over the medium of an earlier one with the same geometry and `config`.
    ///
    /// # Errors
    /// Same as [`Ftl::new`].
    pub fn power_on(
        clock: &Clock,
        placement: Placement,
        geometry: Geometry,
        flash: impl Into<FlashConfig>,
        config: FtlConfig,
        mut medium: Medium,
    ) -> Result<Ftl, FtlError> {
        geometry.validate()?;
        let flash = flash.into();
        flash.validate()?;
        validate(&geometry, &config)?;
        let is_new = medium.is_new();
        let saved = medium.take_saved();
        let flash = Flash::new(clock, geometry, flash, medium);
        Self::start(clock, placement, flash.into(), config, is_new, saved)
    }

    /// A translation layer over flash across a link: its work is done at this end, at the sites of
    /// `placement`. If the flash was used before, it was with the same `config`.
    ///
    /// # Errors
    /// [`FtlError`] if the flash and `config` are inconsistent. The initial contents are those of the flash,
    /// so `config.base` must be [`Base::Empty`]; and nothing could save the buffer, so there is no power-loss
    /// protection.
    pub fn over(clock: &Clock, placement: Placement, far: Far, config: FtlConfig) -> Result<Ftl, FtlError> {
        validate(far.geometry(), &config)?;
        if config.base != Base::Empty {
            return Err(FtlError::Far("base must be empty: the initial contents are those of the flash"));
        }
        if config.plp {
            return Err(FtlError::Far("plp must be off: no capacitors can save the write buffer"));
        }
        let is_new = far.shape().is_new;
        Self::start(clock, placement, far.into(), config, is_new, None)
    }

    fn start(
        clock: &Clock,
        placement: Placement,
        flash: DataEnd,
        config: FtlConfig,
        is_new: bool,
        saved: Option<Dump>,
    ) -> Result<Ftl, FtlError> {
        let geometry = *flash.geometry();
        if config.upkeep.slc_blocks > 0 && !flash.has_one_bit_mode() {
            return Err(FtlError::Upkeep(
                "a one-bit cache (slc_blocks) needs the times of one-bit mode (flash.slc)",
            ));
        }
        // The base state has laid out a filled cache by the rhythm's wordlines.
        let has_cache = config.base == Base::Steady && config.upkeep.slc_blocks > 0;
        if has_cache && config.rhythm.wordline != flash.stripes_per_wordline() {
            return Err(FtlError::Upkeep("the rhythm's wordline must equal that of the flash"));
        }
        let space = Space::new(config.user_units, config.wide_map);
        let base = BaseState::shared(&flash, &config);
        // With protection, started programs complete, so no stripe destroys another, unless a program fails.
        let wordline = if config.plp && !flash.can_fail() || config.canary == Some(InjectedDefect::TrustTorn)
        {
            1
        } else {
            flash.stripes_per_wordline()
        };
        let counts = config.streams.make().counts();
        if !config.is_bare {
            check_capacity(&geometry, &config, counts, wordline)?;
        }
        let dies = geometry.dies();
        // All saved units are restored, even if flash cannot take any of them, so each needs a slot.
        let has_parts = saved.as_ref().is_some_and(|dump| !dump.parts.is_empty());
        let restored = saved.as_ref().map_or(0, |dump| dump.units.len()) as u32;
        let slots_least = 2 * wordline * geometry.units_per_stripe() * counts.host;
        let slots = config.write_buffer_units.max(slots_least).max(restored);
        let writers: Vec<Writer> = (0..dies * PROGRAMS_PER_DIE).map(|_| Writer::new(clock, &flash)).collect();
        for block in
            (0..geometry.total_blocks()).map(BlockId).filter(|block| config.is_cache(&geometry, *block))
        {
            flash.set_mode(block, Mode::OneBit);
        }
        let cache_pages = geometry.pages.div_ceil(flash.stripes_per_wordline());
        let marks = Marks::of(&flash);
        let blocks = Blocks::new(geometry, &base, &config, counts, (wordline, cache_pages), marks);
        let takes_along = config.canary == Some(InjectedDefect::TakeAlong);
        let state = State {
            map: Mapping::new(space, &config),
            buffer: Buffer::new(slots, counts.host),
            blocks,
            streams: Streams::new(&config, counts, geometry.total_blocks()),
            filling: Filling::new(&geometry, counts.host, (wordline, slots), takes_along, writers.len()),
            collecting: Collecting::new(dies),
            journal: Journal::new(space),
            checkpoints: Checkpoints::default(),
            parts: Parts::new(config.absorbs_parts.unwrap_or(0), config.keep),
            read_cache: (config.read_cache_units > 0).then(|| ReadCache::new(config.read_cache_units)),
            counters: FtlCounters::default(),
            end: EndOfLife::Healthy,
        };
        let cached = config.map_cache_pages;
        let is_steady = config.base == Base::Steady;
        let is_bare = config.is_bare;
        let superseded =
            Superseded::new(config.keep == Keep::Bytes && flash.own().is_some_and(Flash::can_forget));
        let inner = Rc::new(Inner {
            clock: clock.clone(),
            placement,
            flash,
            geometry,
            base,
            config,
            streams: counts,
            space,
            credits: Semaphore::new(clock, slots as usize),
            slots,
            locks: Locks::new(clock),
            cache: cached.map(|_| Cache::new(clock, geometry.units_per_stripe())),
            lending: Lending::new(clock),
            idleness: Idleness::new(clock),
            superseded,
            power: Power::new(clock, is_new && is_steady, is_new || is_bare, saved),
            signals: Signals::new(clock, dies),
            writers,
            state: RefCell::new(state),
            scratch: RefCell::default(),
            tasks: RefCell::default(),
        });
        for die in 0..dies {
            inner.state.borrow_mut().refresh(die);
        }
        if is_bare {
            return Ok(Ftl(inner));
        }
        let writers =
            (0..inner.writers.len()).map(|index| clock.spawn("writer", write::run(inner.clone(), index)));
        let mut tasks: Vec<TaskId> = writers.collect();
        tasks.extend((0..dies).map(|die| clock.spawn("collector", collect::run(inner.clone(), die))));
        if inner.config.upkeep.background.is_some() {
            tasks.push(clock.spawn("idleness", collect::background::run(inner.clone())));
        }
        if inner.config.upkeep.refresh.is_some() {
            tasks.push(clock.spawn("refresh", collect::refresh::run(inner.clone())));
        }
        if inner.cache.is_some() {
            tasks.push(clock.spawn("map evictor", map::cache::evict(inner.clone())));
            tasks.push(clock.spawn("map updater", map::cache::update(inner.clone())));
        }
        // Also if the drive absorbed parts before the power cut and no longer does.
        if inner.config.absorbs_parts.is_some() || has_parts {
            let mergers = 0..dies.min(MERGERS_MAX);
            tasks.extend(mergers.map(|_| clock.spawn("merger", write::merge::run(inner.clone()))));
        }
        tasks.push(clock.spawn("journal", durable::journal_writer::run(inner.clone())));
        tasks.push(clock.spawn("checkpoint", durable::checkpoint::run(inner.clone())));
        if !is_new {
            tasks.push(clock.spawn("recovery", durable::recover::run(inner.clone())));
        }
        inner.tasks.replace(tasks);
        // For a used drive, recovery makes this check once it has restored the save.
        if is_new && inner.state.borrow().blocks.is_exhausted() {
            inner.end_life(&mut inner.state.borrow_mut());
        }
        Ok(Ftl(inner))
    }

    /// Reads `count` units from `first` into `out`, which is cleared first.
    ///
    /// Charges [`Translate`](crate::work::WorkKind::Translate) for each unit, or for each node of a tree of
    /// extents that the look-up visits, and one DRAM access at the translating site (the upper nodes are in
    /// its cores' caches). Units of one stripe are one flash operation. Units in the write buffer or the read
    /// cache pay for their transfer out of DRAM.
    ///
    /// # Errors
    /// [`MediaError`] if a unit is out of range or unreadable; `out` is then unspecified.
    pub async fn read(
        &self,
        context: impl Into<WorkContext>,
        spans: &Spans,
        first: u64,
        count: u32,
        out: &mut Vec<Content>,
    ) -> Result<(), MediaError> {
        let context = context.into();
        out.clear();
        let first = self.check(first, u64::from(count))?;
        self.ready().await;
        let _attending = self.0.attend();
        self.translate(context, spans, self.0.look_ups(first, count.into())).await;
        // Before the look-up, because a read must be submitted in the same instant as its look-up: otherwise
        // the superblock could be erased in between.
        let operations = count.div_ceil(self.0.geometry.units_per_stripe()).into();
        self.0.placement.command_data_end(&self.0.clock, context, spans, operations).await;
        self.0.state.borrow_mut().counters.units_read += u64::from(count);
        if count == 1 {
            if self.0.cache.is_some() {
                self.page(context, spans, self.0.space.page_of(first), Access::Read).await;
            }
            let content = self.read_unit(context, spans, first, true).await?;
            out.push(content);
            return Ok(());
        }
        self.read_units(context, spans, first, count, false, out).await
    }

    /// Reads a unit within the call, if modelled waits take no time and there is nothing to wait for:
    /// recovery is complete, the whole map is in DRAM, and flash is idle. Otherwise returns None, with
    /// nothing changed, and the caller uses [`Ftl::read`].
    pub fn read_at_once(&self, unit: u64) -> Option<Content> {
        let inner = &*self.0;
        let lpa = self.check(unit, 1).ok()?;
        if !inner.is_at_once() {
            return None;
        }
        let found = inner.state.borrow().find(&inner.base, lpa);
        let content = match found {
            UnitLocation::Flash(ppa) => {
                let content = inner.flash.own()?.read_at_once(ppa, Priority::HostRead)?;
                inner.note_read(ppa);
                inner.state.borrow_mut().counters.units_read += 1;
                content
            }
            UnitLocation::Nowhere | UnitLocation::Buffered(_) => {
                let mut state = inner.state.borrow_mut();
                state.counters.units_read += 1;
                match state.find_counted(&inner.base, lpa) {
                    UnitLocation::Buffered(content) => content,
                    UnitLocation::Nowhere | UnitLocation::Flash(_) | UnitLocation::Under(..) => Content::Zero,
                }
            }
            UnitLocation::Under(..) => return None,
        };
        drop(inner.attend()); // marks the host as not idle
        Some(content)
    }

    /// Reads a unit whose translation has been charged. With `salvages`, a unit that flash cannot deliver is
    /// returned as its absorbed parts, if there are any, and unreadable blocks.
    async fn read_unit(
        &self,
        context: WorkContext,
        spans: &Spans,
        lpa: u64,
        salvages: bool,
    ) -> Result<Content, MediaError> {
        let inner = &*self.0;
        let found = inner.state.borrow_mut().find_counted(&inner.base, lpa);
        match found {
            UnitLocation::Nowhere => Ok(Content::Zero),
            UnitLocation::Buffered(content) => {
                self.leave_buffer(context, spans, 1).await;
                Ok(content)
            }
            UnitLocation::Flash(ppa) => {
                let (ticket, origin) = (inner.flash.ticket(), inner.origin(ppa));
                let mask = 1 << inner.geometry.unit_of_stripe(ppa);
                inner.flash.submit_read(ppa, mask, Priority::HostRead, &ticket);
                let outcome = ticket.wait().await;
                spans.charge_waits(context.span, inner.clock.now(), outcome.waits(), Stage::Flash);
                inner.note_read(ppa);
                inner.command_reads(context.span, spans, 1).await;
                if outcome.failed {
                    return Err(self.unreadable(outcome.unreadable));
                }
                let content = ticket.content(0);
                inner.keep_read(lpa, origin, &content);
                Ok(content)
            }
            UnitLocation::Under(ppa, patch) => {
                let (ticket, origin) = (inner.flash.ticket(), inner.origin(ppa));
                let mask = 1 << inner.geometry.unit_of_stripe(ppa);
                inner.flash.submit_read(ppa, mask, Priority::HostRead, &ticket);
                let outcome = ticket.wait().await;
                spans.charge_waits(context.span, inner.clock.now(), outcome.waits(), Stage::Flash);
                inner.note_read(ppa);
                inner.command_reads(context.span, spans, 1).await;
                self.leave_buffer(context, spans, 1).await;
                match (outcome.failed, salvages) {
                    (false, _) => {
                        inner.keep_read(lpa, origin, &ticket.content(0));
                        Ok(patch.over(&ticket.content(0), inner.config.keep))
                    }
                    (true, true) => {
                        self.unreadable(outcome.unreadable);
                        Ok(patch.over(&Content::unreadable(), inner.config.keep))
                    }
                    (true, false) => Err(self.unreadable(outcome.unreadable)),
                }
            }
        }
    }

    /// Reads units whose translation has been charged; with `has_pages` their map pages have been looked up,
    /// too.
    async fn read_units(
        &self,
        context: WorkContext,
        spans: &Spans,
        first: u64,
        count: u32,
        has_pages: bool,
        out: &mut Vec<Content>,
    ) -> Result<(), MediaError> {
        let (inner, span) = (&*self.0, context.span);
        let scratch = inner.scratch.borrow_mut().pop().unwrap_or_default();
        let mut lent = Lent { pool: &inner.scratch, scratch };
        let Scratch { groups, wanted, contents, patches } = &mut lent.scratch;
        let mut buffered = 0;
        out.resize(count as usize, Content::Zero);
        let end = first + u64::from(count);
        let mut next = first;
        let mut ticket = None;
        while next < end {
            // One translation page at a time: a unit must be submitted in the instant of its look-up, not
            // after the wait for another page.
            let mut stop = end;
            if inner.cache.is_some() && !has_pages {
                let page = inner.space.page_of(next);
                stop = end.min(inner.space.units_of(page).end);
                self.page(context, spans, page, Access::Read).await;
            }
            let submitted = groups.len();
            let mut state = inner.state.borrow_mut();
            for lpa in next..stop {
                let place = (lpa - first) as u32;
                let ppa = match state.find_counted(&inner.base, lpa) {
                    UnitLocation::Nowhere => continue,
                    UnitLocation::Buffered(content) => {
                        out[place as usize] = content;
                        buffered += 1;
                        continue;
                    }
                    UnitLocation::Flash(ppa) => ppa,
                    UnitLocation::Under(ppa, patch) => {
                        patches.push((place, patch));
                        buffered += 1;
                        ppa
                    }
                };
                let group = inner.group(groups, submitted, ppa);
                let unit = inner.geometry.unit_of_stripe(ppa);
                let origin = state.read_cache.is_some().then(|| Origin::of(ppa, &state.blocks));
                wanted.push(Wanted { place, group, unit, origin });
            }
            drop(state);
            for group in &mut groups[submitted..] {
                let ticket = ticket.get_or_insert_with(|| inner.flash.ticket());
                let (first, mask) = (group.first, group.mask);
                group.at = inner.flash.submit_read(first, mask, Priority::HostRead, ticket) as u32;
            }
            next = stop;
        }
        if let Some(ticket) = ticket {
            let outcome = ticket.wait().await;
            spans.charge_waits(span, inner.clock.now(), outcome.waits(), Stage::Flash);
            // Also if units turn out to be unreadable: the sensing has disturbed the cells.
            groups.iter().for_each(|group| inner.note_read(group.first));
            inner.command_reads(span, spans, wanted.len() as u64).await;
            if outcome.failed {
                return Err(self.unreadable(outcome.unreadable));
            }
            ticket.take_contents(contents);
            for Wanted { place, group, unit, origin } in wanted.iter() {
                let group = &groups[*group as usize];
                let before = (group.mask & ((1 << unit) - 1)).count_ones();
                let content = std::mem::take(&mut contents[(group.at + before) as usize]);
                inner.keep_read(first + u64::from(*place), *origin, &content);
                out[*place as usize] = content;
            }
            for (place, patch) in patches.iter() {
                let unit = &mut out[*place as usize];
                *unit = patch.over(unit, inner.config.keep);
            }
        }
        if buffered > 0 {
            self.leave_buffer(context, spans, buffered).await;
        }
        Ok(())
    }

    /// Content of a unit at this instant, without cost, for tests over the drive's own flash. Zeroes if out
    /// of range.
    pub fn peek(&self, lpa: u64) -> Content {
        let Ok(lpa) = self.check(lpa, 1) else { return Content::Zero };
        let found = self.0.state.borrow().find(&self.0.base, lpa);
        match found {
            UnitLocation::Nowhere => Content::Zero,
            UnitLocation::Buffered(content) => content,
            UnitLocation::Flash(ppa) => self.flash().content(ppa),
            UnitLocation::Under(ppa, patch) => patch.over(&self.flash().content(ppa), self.0.config.keep),
        }
    }

    /// User capacity in units.
    pub fn user_units(&self) -> u64 {
        self.0.config.user_units
    }

    /// What a policy did wrong, if one did: from then on the drive decided itself, victims by
    /// [`Greedy`](crate::policy::victim::Greedy), and no figure is one of that policy.
    pub fn policy_fault(&self) -> Option<String> {
        let state = self.0.state.borrow();
        let of_streams = || state.streams.as_ref().and_then(|streams| streams.fault());
        state.blocks.policy_fault().or_else(of_streams).map(str::to_owned)
    }

    /// Counters up to now.
    pub fn counters(&self) -> FtlCounters {
        let state = self.0.state.borrow();
        let dies = 0..self.0.geometry.dies();
        let blocks_free = dies.clone().map(|die| u64::from(state.blocks.free(die))).sum();
        let blocks_spare = dies.map(|die| u64::from(state.blocks.spares(die))).sum();
        let Checkpoints { power_cycles, unsafe_shutdowns, .. } = state.checkpoints;
        FtlCounters { blocks_free, blocks_spare, power_cycles, unsafe_shutdowns, ..state.counters }
    }

    /// What is expected of garbage collection, if the drive began in the steady state of a load that does not saturate it.
    pub fn paced_state(&self) -> Option<PacedState> {
        self.0.base.paced()
    }

    /// The drive's own array.
    ///
    /// # Panics
    /// If the flash is across a link; its counters belong to the drive that has it.
    pub fn flash(&self) -> &Flash {
        self.0.flash.own().expect("the array is the drive's own")
    }

    /// The flash that it drives.
    pub fn data_end(&self) -> &DataEnd {
        &self.0.flash
    }

    /// The placement of its work.
    pub fn placement(&self) -> &Placement {
        &self.0.placement
    }

    /// Units in the write buffer.
    pub fn units_buffered(&self) -> u32 {
        self.0.state.borrow().buffer.used()
    }

    /// Units with absorbed parts that wait to be merged: see [`Ftl::write_part`].
    pub fn parts_waiting(&self) -> usize {
        self.0.state.borrow().parts.len()
    }

    /// Free slots of the write buffer that no task has reserved.
    pub fn slots_free(&self) -> u32 {
        self.0.credits.available() as u32
    }

    /// Total slots of the write buffer.
    pub fn slots(&self) -> u32 {
        self.0.slots
    }

    /// Whether a request is in progress. A request in progress never waits for the host.
    pub fn is_attending(&self) -> bool {
        self.0.superseded.is_any_in_flight()
    }

    /// Units locked by [`Ftl::modify`], or for merging their parts.
    pub fn units_locked(&self) -> usize {
        self.0.locks.len()
    }

    /// Valid units of a superblock, and whether it is closed: full, and not a victim.
    pub fn valid_units(&self, block: BlockId) -> (u32, bool) {
        let state = self.0.state.borrow();
        (state.blocks.valid(block), state.blocks.is_closed(block))
    }

    /// Waits until recovery is complete. Until then all requests wait.
    pub async fn ready(&self) {
        while !self.0.power.is_ready.get() {
            self.0.power.readied.notified().await;
        }
    }

    /// Waits until the drive is ready.
    ///
    /// # Errors
    /// Why it never will be: a file failed, or what was found does not fit together.
    pub async fn started(&self) -> Result<(), Rc<str>> {
        let (mut failed, mut ready) = (pin!(self.0.flash.failed()), pin!(self.ready()));
        let started = poll_fn(|context| match failed.as_mut().poll(context) {
            Poll::Ready(why) => Poll::Ready(Err(why)),
            Poll::Pending => ready.as_mut().poll(context).map(Ok),
        });
        started.await
    }

    /// Writes everything to flash, with a checkpoint, so that the next power-on is immediate. If dropped, it
    /// still runs to completion, and another shutdown waits for it first.
    ///
    /// # Errors
    /// [`MediaError::WriteProtected`] at the end of life, if flash has no space for the buffer or the map.
    /// There is no checkpoint then, and recovery starts from the previous one.
    pub async fn shutdown(&self, span: SpanId, spans: &Spans) -> Result<(), MediaError> {
        self.ready().await;
        let _attending = self.0.attend();
        if self.0.config.is_bare {
            return Ok(());
        }
        let written = self.0.shut_down().await;
        spans.charge(span, self.0.clock.now(), Stage::Flash);
        written
    }

    /// Cuts the power, and returns the persistent medium. Tasks that wait for this layer must be killed.
    ///
    /// # Panics
    /// If the flash is across a link: it has its own power; use [`Ftl::stop`] instead.
    pub fn power_off(&self) -> Medium {
        self.stop();
        let inner = &*self.0;
        let plp = inner.config.plp;
        let mut medium = inner.flash.power_off(plp).expect("the array is the drive's own");
        if let Some(dump) = inner.power.saved.take() {
            medium.save(dump); // its restoration was not complete
        } else if plp {
            let late = inner.power.late.take();
            medium.save(inner.state.borrow().dump(inner.config.user_units, late));
        }
        medium
    }

    /// Adds a unit held by a caller to the save of a power cut, as if it were written now. Call it before
    /// [`Ftl::power_off`], and nothing else in between. Without power-loss protection the unit is lost.
    pub fn save_unit(&self, lpa: u64, content: Content) {
        if let Ok(lpa) = self.check(lpa, 1)
            && self.0.config.plp
        {
            self.0.power.late.borrow_mut().push((lpa, content));
        }
    }

    /// Replaces the small record of the firmware's client. Durable when this ends; until then the old record
    /// is. A bare layer keeps none.
    pub async fn store_record(&self, bytes: Rc<[u8]>) {
        if !self.0.config.is_bare {
            self.0.flash.write_record(bytes).await;
        }
    }

    /// The record, if one was stored.
    pub fn record(&self) -> Option<Rc<[u8]>> {
        self.0.flash.record().filter(|_| !self.0.config.is_bare)
    }

    /// The logical units.
    pub fn space(&self) -> Space {
        self.0.space
    }

    /// Ends the layer's tasks, because the drive was removed. Requests in progress never complete, and their
    /// tasks must be killed.
    pub fn stop(&self) {
        if let DataEnd::Far(far) = &self.0.flash {
            far.stop();
        }
        self.end_tasks();
    }

    /// Ends its tasks; the array continues.
    fn end_tasks(&self) {
        for task in self.0.tasks.take() {
            self.0.clock.kill(task);
        }
    }

    /// Checks that `count` units from `first` are within the capacity. Returns `first`.
    fn check(&self, first: u64, count: u64) -> Result<u64, MediaError> {
        match first.checked_add(count) {
            Some(end) if end <= self.0.config.user_units => Ok(first),
            _ => Err(MediaError::OutOfRange),
        }
    }

    /// Does the work of `count` look-ups, with the map access that they wait for.
    async fn translate(&self, context: WorkContext, spans: &Spans, count: u64) {
        self.0.placement.translate(&self.0.clock, context, spans, count).await;
    }

    /// Waits for units to be transferred out of the buffer's DRAM.
    async fn leave_buffer(&self, context: WorkContext, spans: &Spans, units: u64) {
        let bytes = units * UNIT_BYTES as u64;
        self.0.placement.take_from_buffer(&self.0.clock, context, spans, bytes).await;
    }
}

impl Inner {
    /// Number of [`WorkKind::Translate`] charged for a look-up of `count` units: one for each unit, or for
    /// each node of a tree of extents that it visits.
    #[inline]
    fn look_ups(&self, first: u64, count: u64) -> u64 {
        match self.config.extents {
            None => count,
            Some(_) => self.state.borrow().look_ups(first, count),
        }
    }

    /// Applies map changes to the tree of extents, if the map is one.
    #[inline]
    fn settle_extents(&self, state: &mut State) {
        if state.map.extents.is_some() {
            state.settle_extents(Log { flash: &self.flash, geometry: &self.geometry });
        }
    }

    /// Charges changes of the tree of extents up to now, after the work that made them.
    async fn pay_for_changes(&self) {
        if self.config.extents.is_none() {
            return;
        }
        let visits = self.state.borrow_mut().map.extents.as_mut().map_or(0, |extents| extents.take_visits());
        let service = self.placement.reserve(WorkKind::Translate, visits);
        self.clock.sleep_until(service.end).await;
    }

    /// Whether commands may complete within the call that brings them.
    #[inline]
    fn is_at_once(&self) -> bool {
        self.clock.is_immediate() && self.power.is_ready.get() && self.cache.is_none()
    }

    /// Charges reads of units from flash across a link.
    async fn command_reads(&self, span: SpanId, spans: &Spans, units: u64) {
        self.placement.command_hardware(&self.clock, span, spans, FlashCommands::reads(units)).await;
    }

    /// Origin of a unit that is about to be read, if reads are cached.
    #[inline]
    fn origin(&self, ppa: Ppa) -> Option<Origin> {
        let state = self.state.borrow();
        state.read_cache.is_some().then(|| Origin::of(ppa, &state.blocks))
    }

    /// Adds a unit to the read cache.
    #[inline]
    fn keep_read(&self, lpa: u64, origin: Option<Origin>, content: &Content) {
        if let Some(origin) = origin
            && let Some(cache) = &mut self.state.borrow_mut().read_cache
        {
            cache.put(lpa, origin, content);
        }
    }

    /// Submits a read for garbage collection. The contents are known in advance where they are those of the
    /// base state.
    fn submit_read(
        &self,
        first: Ppa,
        mask: u64,
        is_known: bool,
        priority: Priority,
        ticket: &Ticket,
    ) -> usize {
        match is_known {
            true => self.flash.submit_known_read(first, mask, priority, ticket),
            false => self.flash.submit_read(first, mask, priority, ticket),
        }
    }

    /// The group of the stripe that contains `ppa`: one of the last few that are not yet submitted, or a new
    /// one.
    fn group(&self, groups: &mut Vec<Group>, submitted: usize, ppa: Ppa) -> u32 {
        let first = self.geometry.stripe_start(ppa);
        let bit = 1 << self.geometry.unit_of_stripe(ppa);
        let from = groups.len().saturating_sub(GROUPS_BACK).max(submitted);
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

fn validate(geometry: &Geometry, config: &FtlConfig) -> Result<(), FtlError> {
    if config.is_bare {
        return Ok(());
    }
    let (start, reserve) = (config.gc_start_free_blocks, config.gc_reserve_blocks);
    if reserve == 0 || start < reserve {
        return Err(FtlError::Thresholds { start, reserve });
    }
    if config.upkeep.factory_bad_blocks > config.upkeep.spare_blocks {
        return Err(FtlError::Upkeep("factory_bad_blocks must be at most spare_blocks, which include them"));
    }
    if config.absorbs_parts.is_some_and(|units| !(1..=FtlConfig::BUFFER_UNITS_MAX).contains(&units)) {
        return Err(FtlError::Parts);
    }
    if config.write_buffer_units > FtlConfig::BUFFER_UNITS_MAX {
        return Err(FtlError::Buffer(config.write_buffer_units));
    }
    if config.read_cache_units > FtlConfig::BUFFER_UNITS_MAX {
        return Err(FtlError::ReadCache(config.read_cache_units));
    }
    if !config.regions.is_sorted_by(|a, b| a.first_unit < b.first_unit) {
        return Err(FtlError::Regions);
    }
    if geometry.is_wide() && !config.wide_map {
        return Err(FtlError::Narrow(geometry.total_units()));
    }
    if config.user_units == 0 {
        return Err(FtlError::NoUnits);
    }
    if config.map_cache_pages == Some(0) {
        return Err(FtlError::NoMapCache);
    }
    if let Some(extents) = &config.extents {
        validate_extents(extents, config)?;
    }
    // A die is stuck when no superblock has a whole wordline of stale units: then all superblocks but the
    // reserve and the collector's open one are full of valid units, less than a wordline missing in each.
    // With no more user units than this limit, at least one die is not stuck. The steady state has its two
    // open superblocks, and the free ones, in addition.
    check_capacity(geometry, config, validate_streams(config)?, 1)
}

/// Checks the numbers of streams.
fn validate_streams(config: &FtlConfig) -> Result<StreamCounts, FtlError> {
    let counts = config.streams.make().counts();
    let StreamCounts { host, collector } = counts;
    if !counts.is_valid() {
        return Err(FtlError::StreamCounts { host, collector });
    }
    // The cache takes all writes of the host in order.
    if !config.streams.is_default() && config.upkeep.slc_blocks > 0 {
        return Err(FtlError::Upkeep(
            "a one-bit cache (slc_blocks) mixes the data of all streams: leave it out, or leave streams at `separate`",
        ));
    }
    Ok(counts)
}

/// Checks the parameters of a tree of extents against the rest of the configuration.
fn validate_extents(extents: &ExtentConfig, config: &FtlConfig) -> Result<(), FtlError> {
    let fault = match extents.fault() {
        Some(fault) => Some(fault),
        // Units of the base state were never programmed, so they have no log address.
        None if config.base != Base::Empty => Some("base must be empty"),
        None if config.map_cache_pages.is_some() => {
            Some("map_cache_pages must be unset: the whole tree is in DRAM")
        }
        None if config.user_units > 1 << 32 => Some("user_units must be at most 2^32"),
        None => None,
    };
    fault.map_or(Ok(()), |fault| Err(FtlError::Extents(fault)))
}

/// Checks that the array has space for the units, with wordlines of `wordline` stripes.
///
/// Beyond the reserve a superblock of each die may be open for each stream.
fn check_capacity(
    geometry: &Geometry,
    config: &FtlConfig,
    streams: StreamCounts,
    wordline: u32,
) -> Result<(), FtlError> {
    let open = u64::from(streams.host) + u64::from(streams.collector);
    let without = u64::from(config.reserve(streams)) + u64::from(config.upkeep.set_aside()) + open;
    let blocks = u64::from(geometry.blocks).saturating_sub(without);
    let stale = wordline * geometry.units_per_stripe();
    let of_block = u64::from(geometry.units_per_block().saturating_sub(stale) + 1);
    let dies = u64::from(geometry.dies());
    let most = blocks * of_block * dies;
    let held = config.units_held();
    if held <= most {
        return Ok(());
    }
    let (user_units, blocks) = (config.user_units, geometry.blocks);
    let most = most.saturating_sub(held - user_units);
    if streams == StreamCounts::SEPARATE {
        return Err(FtlError::TooLarge { user_units, blocks, most });
    }
    let needed = held.div_ceil(of_block * dies) + without;
    let (policy, streams) = (config.streams.name().to_owned(), streams.host + streams.collector);
    Err(FtlError::ManyStreams { user_units, policy, streams, needed, blocks, most })
}
