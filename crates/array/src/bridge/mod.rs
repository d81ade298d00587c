//! A bridge's cache in front of an array: small writes go into non-volatile memory, large ones pass through.
//!
//! Source: "Challenges in getting flash closer to CPU" (HotStorage 2013), section 4.3: a bridge-based drive
//! puts small requests into its DRAM and non-volatile SRAM, and forwards large ones to the members. A write
//! is small if it is at most [`NvramConfig::small_bytes`] long and not part of a sequential stream.
//!
//! | file | contents |
//! |---|---|
//! | [`nvram`] | the memory, which keeps its contents without power |
//! | `stream` | detection of sequential streams among writes |
//! | `core` | what a bridge is made of; how units enter the memory |
//! | `draining`, `drain` | what is to be drained; draining to the members |
//!
//! **Order.** Writes of a unit enter the memory, or pass through, one at a time. A write that passes through
//! leaves out the units of which the memory holds data: those are changed there, otherwise a later drain
//! would undo the write. Drained data stay in the memory until a flush has made them durable on the members,
//! so everything acknowledged from the memory survives a power cut.
//!
//! What it does not do: it caches no reads.

mod config;
mod core;
mod drain;
mod draining;
pub mod nvram;
mod stream;

pub use config::{BridgeCounters, NvramConfig};

use self::core::Core;
use crate::array::Array;
use byteway_clock::{Clock, Notify, RangeLock, RangeLocks, RangeUse, SpanId, Stage};
use byteway_content::{Content, UNIT_BYTES};
use byteway_firmware::{MediaError, WorkContext};
use draining::Draining;
use nvram::{Nvram, merged, parts_of};
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;
use stream::Streams;

/// A cache in front of an array. Cheap to clone. The conditions on [`Array`]'s futures apply to its futures,
/// too.
#[derive(Clone)]
pub struct Bridge(Rc<Core>);

impl Bridge {
    /// A bridge in front of `array`, with the memory that an earlier one has left, or a new one. Its work is
    /// done at the array's site: [`WorkKind::Buffer`](byteway_firmware::WorkKind::Buffer) for each unit, and the DRAM there is the memory.
    pub fn new(clock: &Clock, array: Array, config: NvramConfig, nvram: Nvram) -> Bridge {
        let config = NvramConfig { bytes: config.bytes.max(64 << 10), ..config };
        let bridge = Bridge(Rc::new(Core {
            array,
            clock: clock.clone(),
            config,
            nvram: RefCell::new(nvram),
            streams: RefCell::new(Streams::new(config.stream_window)),
            locks: RangeLocks::new(clock),
            draining: Draining::new(clock),
            drained: Notify::new(clock),
            counters: Cell::default(),
            tasks: RefCell::default(),
        }));
        let core = &bridge.0;
        let mut tasks = vec![clock.spawn("bridge's memory", drain::run(core.clone()))];
        let workers = 0..config.drain_depth.max(1);
        tasks.extend(workers.map(|_| clock.spawn("bridge's drain", drain::work(core.clone()))));
        core.tasks.replace(tasks);
        bridge
    }

    /// The array behind the bridge.
    pub fn array(&self) -> &Array {
        &self.0.array
    }

    /// Counters up to now.
    pub fn counters(&self) -> BridgeCounters {
        self.0.counters.get()
    }

    /// Bytes held in the memory.
    pub fn bytes_held(&self) -> u64 {
        self.0.nvram.borrow().bytes()
    }

    fn check(&self, first: u64, count: u64) -> Result<(), MediaError> {
        match first.checked_add(count) {
            Some(end) if end <= self.0.array.user_units() => Ok(()),
            _ => Err(MediaError::OutOfRange),
        }
    }

    async fn lock(&self, span: SpanId, units: Range<u64>) -> RangeLock {
        let lock = self.0.locks.lock(units, RangeUse::Change).await;
        self.0.clock.spans().charge(span, self.0.clock.now(), Stage::Queueing);
        lock
    }

    /// Like [`Array::read`], overlaid with the contents of the memory.
    ///
    /// # Errors
    /// Same as [`Array::read`].
    pub async fn read(
        &self,
        context: impl Into<WorkContext>,
        first: u64,
        count: u32,
        out: &mut Vec<Content>,
    ) -> Result<(), MediaError> {
        self.check(first, count.into())?;
        let context = context.into();
        let core = &*self.0;
        // Captured now: these are the oldest contents that may be returned, and a drain may release them
        // meanwhile.
        let held: Vec<(u64, Content, u8)> = {
            let nvram = core.nvram.borrow();
            let units = first..first + u64::from(count);
            units.filter_map(|unit| nvram.get(unit).map(|(content, parts)| (unit, content, parts))).collect()
        };
        if held.is_empty() {
            return core.array.read(context, first, count, out).await;
        }
        out.clear();
        out.resize(count as usize, Content::Zero);
        let whole = held.iter().filter(|(.., parts)| *parts == u8::MAX).map(|(unit, ..)| *unit);
        let (mut at, mut run) = (first, Vec::new());
        for stop in whole.chain([first + u64::from(count)]) {
            if at < stop {
                core.array.read(context, at, (stop - at) as u32, &mut run).await?;
                let into = out[(at - first) as usize..].iter_mut();
                into.zip(run.drain(..)).for_each(|(into, content)| *into = content);
            }
            at = stop + 1;
        }
        let keep = core.array.config().keep;
        let units = held.len() as u64;
        for (unit, content, parts) in held {
            let into = &mut out[(unit - first) as usize];
            *into = merged(into, &content, parts, keep);
        }
        core.count(|counters| counters.units_read += units);
        core.pass_memory(context, "out of the bridge's memory", units * UNIT_BYTES as u64).await;
        Ok(())
    }

    /// Like [`Array::write`]. Small writes are acknowledged once the memory holds them.
    ///
    /// # Errors
    /// Same as [`Array::write`].
    pub async fn write(
        &self,
        context: impl Into<WorkContext>,
        first: u64,
        contents: &mut Vec<Content>,
        durable: bool,
    ) -> Result<(), MediaError> {
        let count = contents.len() as u64;
        self.check(first, count)?;
        let context = context.into();
        let bytes = count * UNIT_BYTES as u64;
        let is_small = self.0.is_small(first * UNIT_BYTES as u64, bytes, bytes);
        let _lock = self.lock(context.span, self.0.locked(first..first + count, is_small)).await;
        self.write_locked(context, first, contents, durable, is_small).await
    }

    async fn write_locked(
        &self,
        context: WorkContext,
        first: u64,
        contents: &mut Vec<Content>,
        durable: bool,
        is_small: bool,
    ) -> Result<(), MediaError> {
        let core = &*self.0;
        if is_small {
            core.count(|counters| counters.writes_taken += 1);
            let taken = core.take(context, first, contents).await;
            contents.clear();
            return taken;
        }
        core.count(|counters| counters.writes_passed += 1);
        let durable = durable || core.config.is_through;
        let units = first..first + contents.len() as u64;
        let has_any = {
            let nvram = core.nvram.borrow();
            units.clone().any(|unit| nvram.has(unit))
        };
        if !has_any {
            return core.array.write(context, first, contents, durable).await;
        }
        let mut rest: Vec<Content> = std::mem::take(contents);
        let mut at = first;
        while !rest.is_empty() {
            let (is_held, count) = {
                let nvram = core.nvram.borrow();
                let is_held = nvram.has(at);
                let run = (at..).take(rest.len()).take_while(|unit| nvram.has(*unit) == is_held);
                (is_held, run.count())
            };
            let later = rest.split_off(count);
            match is_held {
                true => core.take(context, at, &rest).await?,
                false => core.array.write(context, at, &mut rest, durable).await?,
            }
            rest = later;
            at += count as u64;
        }
        Ok(())
    }

    /// Whether part of a unit can be written without reading the rest.
    pub fn takes_parts(&self, offset: u32, bytes: u32) -> bool {
        parts_of(offset, bytes).is_some()
    }

    /// Writes part of a unit, if [supported](Bridge::takes_parts), as a piece of a write of `command_bytes`.
    ///
    /// # Errors
    /// Same as [`Array::write`].
    #[allow(clippy::too_many_arguments, reason = "the place of a part has three coordinates")]
    pub async fn write_part(
        &self,
        context: impl Into<WorkContext>,
        unit: u64,
        offset: u32,
        bytes: u32,
        content: &Content,
        durable: bool,
        command_bytes: u64,
    ) -> Result<(), MediaError> {
        self.check(unit, 1)?;
        let context = context.into();
        let core = &*self.0;
        let Some(parts) = parts_of(offset, bytes) else { return Err(MediaError::OutOfRange) };
        let at = unit * UNIT_BYTES as u64 + u64::from(offset);
        let is_small = core.is_small(at, bytes.into(), command_bytes);
        let _lock = self.lock(context.span, core.locked(unit..unit + 1, is_small)).await;
        if is_small || core.nvram.borrow().has(unit) {
            core.count(|counters| match is_small {
                true => counters.writes_taken += 1,
                false => counters.writes_passed += 1,
            });
            return core.take_part(context, unit, content, parts).await;
        }
        core.count(|counters| counters.writes_passed += 1);
        let durable = durable || core.config.is_through;
        if core.array.takes_parts(offset, bytes) {
            return core.array.write_part(context, unit, offset, bytes, content, durable).await;
        }
        let mut whole = [0; UNIT_BYTES];
        content.write_to(&mut whole);
        let range = offset as usize..(offset + bytes) as usize;
        let edit = |unit: &mut [u8; UNIT_BYTES], marred: &mut u8| {
            unit[range.clone()].copy_from_slice(&whole[range]);
            *marred &= !parts;
        };
        core.array.edit(context, unit, edit, durable).await
    }

    /// Same as [`Array::edit`].
    ///
    /// # Errors
    /// Same as [`Array::edit`].
    pub async fn edit(
        &self,
        context: impl Into<WorkContext>,
        unit: u64,
        edit: impl FnOnce(&mut [u8; UNIT_BYTES], &mut u8),
        durable: bool,
    ) -> Result<(), MediaError> {
        self.check(unit, 1)?;
        let context = context.into();
        let _lock = self.lock(context.span, unit..unit + 1).await;
        if !self.0.nvram.borrow().has(unit) {
            return self.0.array.edit(context, unit, edit, durable).await;
        }
        let mut read = Vec::new();
        self.read(context, unit, 1, &mut read).await?;
        let new = read[0].edited(self.0.array.config().keep, edit);
        if new.marred() != 0 {
            return Err(MediaError::Unreadable);
        }
        self.0.take(context, unit, &[new]).await
    }

    /// Same as [`Array::trim`].
    ///
    /// # Errors
    /// Same as [`Array::trim`].
    pub async fn trim(
        &self,
        context: impl Into<WorkContext>,
        first: u64,
        count: u64,
    ) -> Result<(), MediaError> {
        self.check(first, count)?;
        let context = context.into();
        let _lock = self.lock(context.span, first..first + count).await;
        let held: Vec<u64> = self.0.nvram.borrow().held_in(first..first + count);
        for unit in held {
            // Zeroes replace the held data, so that nothing older is drained, or found after a power cut.
            self.0.take(context, unit, &[Content::Zero]).await?;
        }
        self.0.array.trim(context, first, count).await
    }

    /// Like [`Array::flush`]. The contents of the memory are durable already.
    ///
    /// # Errors
    /// Same as [`Array::flush`].
    pub async fn flush(&self, span: SpanId) -> Result<(), MediaError> {
        self.0.array.flush(span).await
    }

    /// Drains the memory, then works as [`Array::shutdown`].
    ///
    /// # Errors
    /// Same as [`Array::shutdown`]; data that could not be drained stay in the memory.
    pub async fn shutdown(&self, span: SpanId) -> Result<(), MediaError> {
        let core = &*self.0;
        core.draining.empty(true);
        while core.nvram.borrow().drainable() > 0 && !core.draining.is_stuck() {
            core.drained.notified().await;
        }
        core.draining.empty(false);
        if core.draining.is_stuck() {
            return Err(MediaError::Failed);
        }
        core.array.shutdown(span).await
    }

    /// Same as [`Array::exchange`].
    ///
    /// # Errors
    /// Same as [`Array::exchange`].
    pub async fn exchange(&self, span: SpanId, unit: u64) -> Result<BridgeExchange, MediaError> {
        self.check(unit, 1)?;
        let lock = self.lock(span, unit..unit + 1).await;
        Ok(BridgeExchange { bridge: self.clone(), unit, _lock: lock })
    }

    /// Ranges locked or waited for, here or in the array.
    pub fn ranges_locked(&self) -> usize {
        self.0.locks.len() + self.0.array.ranges_locked()
    }

    /// Ends its tasks and the array's, as a power cut does.
    pub fn stop(&self) {
        let core = &*self.0;
        core.tasks.take().into_iter().for_each(|task| core.clock.kill(task));
        core.array.stop();
    }

    /// Cuts the power: ends all tasks, and returns the non-volatile memory. Call once.
    pub fn power_off(&self) -> Nvram {
        self.stop();
        self.0.nvram.take()
    }
}

/// Like [`UnitExchange`](crate::UnitExchange), over a bridge.
pub struct BridgeExchange {
    bridge: Bridge,
    unit: u64,
    _lock: RangeLock,
}

impl BridgeExchange {
    /// Reads the unit. May be called repeatedly.
    ///
    /// # Errors
    /// Same as [`Bridge::read`].
    pub async fn read(&self, span: SpanId, contents: &mut Vec<Content>) -> Result<(), MediaError> {
        self.bridge.read(span, self.unit, 1, contents).await
    }

    /// Writes the unit, the only element of `contents`, and releases it.
    ///
    /// # Errors
    /// Same as [`Bridge::write`].
    pub async fn write(
        self,
        span: SpanId,
        contents: &mut Vec<Content>,
        durable: bool,
    ) -> Result<(), MediaError> {
        assert_eq!(contents.len(), 1, "an exchange has one unit");
        let bytes = UNIT_BYTES as u64;
        let is_small = self.bridge.0.is_small(self.unit * bytes, bytes, bytes);
        self.bridge.write_locked(span.into(), self.unit, contents, durable, is_small).await
    }
}
