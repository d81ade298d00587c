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
//!
//! The parts stand one on the other, and each knows only those below it:
//!
//! | part | contents |
//! |---|---|
//! | `space`, `base`, `blocks`, `buffer` | logical units, the initial layout, superblocks, the write buffer |
//! | `map` | the map, and which of its pages are where |
//! | `read_cache`, `reading_ahead` | what is kept in DRAM of what was read, and what is read ahead into it |
//! | `state`, `core` | what each part owns, and where a unit is |
//! | `signals`, `collectors`, `power` | signals between tasks, calls of collectors, what a power cut leaves |
//! | `journal` | deallocations, in the system area; state of checkpoints |
//! | `health`, `retire` | the end of life, room in the buffer, superblocks that fail |
//! | `write` | units into the buffer, and out of it in stripes |
//! | `paging` | the cached map: pages that are loaded, written, copied and lent |
//! | `collect` | emptying superblocks |
//! | `durable`, `steady` | checkpoints and recovery; the steady state that a drive begins in |
//! | `host` | operations of the host |
//! | `operations`, `figures` | [`Ftl`], what a controller calls |

pub mod base;
mod blocks;
mod buffer;
mod collect;
mod collectors;
pub mod config;
mod core;
mod counters;
mod durable;
mod figures;
mod finding;
mod footprint;
pub mod health;
mod host;
mod journal;
mod map;
mod operations;
mod paging;
mod power;
mod read_cache;
mod reading_ahead;
mod recency;
mod retire;
mod scratch;
mod signals;
pub mod space;
mod state;
mod steady;
mod streams;
mod validate;
mod write;

pub use base::greedy_write_amplification;
pub use collect::window::CollectionState;
pub use config::{
    Background, Base, Defect, DynamicCache, ExtentConfig, FtlConfig, FtlError, Housekeeping, Maintenance,
    MediaError, Refresh, Region, SteadyLoad, SteadyTiming, Striping,
};
pub use counters::FtlCounters;
pub use durable::audit::Audit;
pub use durable::medium::{MediumError, space_of};
pub use finding::{Disagreement, UnitContent};
pub use footprint::Footprint;
pub use health::Health;
pub use host::exchange::Exchange;
pub use host::plain::{Progress, UnitRead, UnitWrite};
pub use map::MapMonitor;
pub use map::copies::LentMemory;
pub use map::redo;
pub use map::segments::{BorrowFigures, Lender, LenderId};
pub use space::Space;
pub use steady::PacedState;

use self::core::Core;
use crate::placement::Placement;
use crate::policy::stream::counts_of;
use crate::site::Site;
use crate::work::Cycles;
use base::BaseState;
use blocks::{Blocks, Marks};
use buffer::Buffer;
use byteway_clock::{Clock, Delay, Rate, SpanId, Spans, Stage, TaskId};
use byteway_content::{Content, Keep};
use byteway_flash::file::{Files, OpenReport, Tuning};
use byteway_flash::{BlockId, DataEnd, Dump, Far, Flash, FlashConfig, Geometry, Medium, Mode, Timing};
use collect::background::attend;
use collect::collecting::Collecting;
use collect::idleness::Idleness;
use collectors::Collectors;
use durable::checkpoint::shut_down;
use durable::{audit, medium};
use host::part::MERGERS_MAX;
use host::reader::READERS;
use journal::Journal;
use journal::checkpoints::Checkpoints;
use map::copies::Lending;
use map::{Cache, Mapping};
use power::Power;
use read_cache::ReadCache;
use reading_ahead::ReadingAhead;
use signals::{AheadSignals, Signals};
use state::{EndOfLife, State};
use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use streams::Streams;
use validate::{check_capacity, validate};
use write::filling::{Filling, PROGRAMS_PER_DIE, Writer};
use write::lock::Locks;
use write::parts::Parts;
use write::room::Room;
use write::superseded::{Discarded, Superseded};

/// A drive's translation layer. Cheap to clone.
#[derive(Clone)]
pub struct Ftl(Rc<Core>);

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
        if config.upkeep.has_cache() && !flash.has_one_bit_mode() {
            return Err(FtlError::Upkeep(
                "a one-bit cache (slc_blocks, slc_dynamic) needs the times of one-bit mode (flash.slc)",
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
        let wordline = if config.plp && !flash.can_fail() || config.defect.has(Defect::TrustTorn) {
            1
        } else {
            flash.stripes_per_wordline()
        };
        let counts = counts_of(&config.streams);
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
        let state = State {
            map: Mapping::new(space, &config),
            buffer: Buffer::new(slots, counts.host),
            blocks,
            streams: Streams::new(&config, counts, geometry.total_blocks()),
            filling: Filling::new(&geometry, &config, counts.host, (wordline, slots), writers.len()),
            collecting: Collecting::new(dies),
            journal: Journal::new(space),
            checkpoints: Checkpoints::default(),
            parts: Parts::new(config.absorbs_parts.unwrap_or(0), config.keep),
            read_cache: (config.read_cache_units > 0).then(|| ReadCache::new(&config)),
            ahead: ReadingAhead::new(&config, dies),
            counters: FtlCounters::default(),
            end: EndOfLife::Healthy,
        };
        let cached = config.map_cache_pages;
        let reads_ahead = state.ahead.is_some();
        let is_steady = config.base == Base::Steady;
        let is_bare = config.is_bare;
        let superseded = Superseded::new(match config.keep {
            _ if !flash.own().is_some_and(Flash::can_forget) => Discarded::Nothing,
            Keep::Bytes => Discarded::All,
            Keep::Stamps => Discarded::Pages,
        });
        let core = Rc::new(Core {
            clock: clock.clone(),
            placement,
            flash,
            geometry,
            base,
            config,
            streams: counts,
            space,
            room: Room::new(clock, slots),
            locks: Locks::new(clock),
            is_plain: cached.is_none() && !reads_ahead,
            ahead: reads_ahead.then(|| AheadSignals::new(clock)),
            cache: cached.map(|_| Cache::new(clock, geometry.units_per_stripe())),
            lending: Lending::new(clock),
            idleness: Idleness::new(clock),
            superseded,
            power: Power::new(clock, is_new && is_steady, is_new || is_bare, saved),
            signals: Signals::new(clock),
            collectors: Collectors::new(clock, dies),
            writers,
            state: RefCell::new(state),
            scratch: RefCell::default(),
            tasks: RefCell::default(),
        });
        for die in 0..dies {
            core.state.borrow_mut().refresh(die);
        }
        if is_bare {
            return Ok(Ftl(core));
        }
        let writers = (0..core.writers.len())
            .map(|index| clock.spawn("writer", write::writer::run(core.clone(), index)));
        let mut tasks: Vec<TaskId> = writers.collect();
        tasks.extend((0..dies).map(|die| clock.spawn("collector", collect::run(core.clone(), die))));
        if core.config.upkeep.background.is_some() {
            tasks.push(clock.spawn("idleness", collect::background::run(core.clone())));
        }
        if core.config.upkeep.refresh.is_some() {
            tasks.push(clock.spawn("refresh", collect::refresh::run(core.clone())));
        }
        if core.cache.is_some() {
            tasks.push(clock.spawn("map evictor", paging::clean::evict(core.clone())));
            tasks.push(clock.spawn("map updater", paging::clean::update(core.clone())));
        }
        // Also if the drive absorbed parts before the power cut and no longer does.
        if core.config.absorbs_parts.is_some() || has_parts {
            let mergers = 0..dies.min(MERGERS_MAX);
            tasks.extend(mergers.map(|_| clock.spawn("merger", host::part::run(core.clone()))));
        }
        if core.ahead.is_some() {
            tasks.extend((0..READERS).map(|_| clock.spawn("reader", host::reader::run(core.clone()))));
        }
        if let Some(housekeeping) = core.config.housekeeping {
            tasks
                .push(clock.spawn("housekeeping", write::housekeeping::run(core.clone(), housekeeping.time)));
        }
        tasks.push(clock.spawn("journal", journal::writer::run(core.clone())));
        tasks.push(clock.spawn("checkpoint", durable::checkpoint::run(core.clone())));
        if !is_new {
            tasks.push(clock.spawn("recovery", durable::recover::run(core.clone())));
        }
        core.tasks.replace(tasks);
        // For a used drive, recovery makes this check once it has restored the save.
        if is_new && core.state.borrow().blocks.is_exhausted() {
            core.end_life(&mut core.state.borrow_mut());
        }
        Ok(Ftl(core))
    }

    /// A new medium in the base state of `config`.
    ///
    /// # Errors
    /// Same as [`Ftl::new`].
    pub fn medium(geometry: Geometry, config: &FtlConfig) -> Result<Medium, FtlError> {
        medium::new(geometry, config)
    }

    /// The medium in these files, or a new one if there are none. The files must be of a drive with this
    /// geometry and capacity, as many page types as `timing` has, and the base state of `config`.
    ///
    /// # Errors
    /// [`MediumError`] for invalid parameters, if the files belong to another drive or are damaged, or on a
    /// system error.
    pub fn open_medium(
        geometry: Geometry,
        timing: &Timing,
        config: &FtlConfig,
        files: Arc<dyn Files>,
        tuning: Tuning,
    ) -> Result<(Medium, OpenReport), MediumError> {
        medium::open(geometry, timing, config, files, tuning)
    }

    /// A translation layer for inspecting these files. It behaves as if powered on, takes no modelled time,
    /// and keeps all changes in memory. Its parameters come from the files, as far as their contents depend
    /// on them.
    ///
    /// # Errors
    /// [`MediumError`] if the files hold no drive, are damaged, or lack a parameter.
    pub fn look(clock: &Clock, files: Arc<dyn Files>) -> Result<Ftl, MediumError> {
        let (geometry, timing, config, medium) = medium::overlay(files)?;
        let site = Site::new(clock, 1, 1_000_000_000, Delay::ZERO, Rate::per_second(1_000_000_000));
        let placement = Placement::all_at(&site, Cycles::FREE);
        Ok(Self::power_on(clock, placement, geometry, timing, config, medium)?)
    }

    /// Waits until recovery is complete. Until then all requests wait.
    pub fn ready(&self) -> impl Future<Output = ()> {
        self.0.power.ready()
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
        let _attending = attend(&self.0);
        if self.0.config.is_bare {
            return Ok(());
        }
        let written = shut_down(&self.0).await;
        spans.charge(span, self.0.clock.now(), Stage::Flash);
        written
    }

    /// Cuts the power, and returns the persistent medium. Tasks that wait for this layer must be killed.
    ///
    /// # Panics
    /// If the flash is across a link: it has its own power; use [`Ftl::stop`] instead.
    pub fn power_off(&self) -> Medium {
        self.stop();
        let core = &*self.0;
        let plp = core.config.plp;
        let mut medium = core.flash.power_off(plp).expect("the array is the drive's own");
        if let Some(dump) = core.power.take_saved() {
            medium.save(dump); // its restoration was not complete
        } else if plp {
            let late = core.power.take_late();
            medium.save(core.state.borrow().dump(core.config.user_units, late));
        }
        medium
    }

    /// Adds a unit held by a caller to the save of a power cut, as if it were written now. Call it before
    /// [`Ftl::power_off`], and nothing else in between. Without power-loss protection the unit is lost.
    pub fn save_unit(&self, lpa: u64, content: Content) {
        if let Ok(lpa) = self.0.check(lpa, 1)
            && self.0.config.plp
        {
            self.0.power.save(lpa, content);
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

    /// Compares the recovered map with the spare areas. Call it when the layer is [ready](Ftl::ready), before
    /// anything else; the layer does nothing more afterwards. Takes modelled time only for the system area.
    pub async fn audit(&self) -> Audit {
        self.end_tasks();
        audit::audit(&self.0)
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
}
