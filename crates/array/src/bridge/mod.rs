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
//! | `drain` | draining of the memory to the members |
//!
//! **Order.** Writes of a unit enter the memory, or pass through, one at a time. A write that passes through
//! leaves out the units of which the memory holds data: those are changed there, otherwise a later drain
//! would undo the write. Drained data stay in the memory until a flush has made them durable on the members,
//! so everything acknowledged from the memory survives a power cut.
//!
//! What it does not do: it caches no reads.

mod drain;
pub mod nvram;
mod stream;

use crate::array::Array;
use byteway_clock::{Awaited, Clock, Notify, RangeLock, RangeLocks, RangeUse, SpanId, Stage, TaskId};
use byteway_content::{Content, MARRED_BYTES, UNIT_BYTES};
use byteway_firmware::{MediaError, WorkContext, WorkKind};
use drain::Draining;
use nvram::{Nvram, merged, parts_of};
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;
use stream::Streams;

/// Parameters of a bridge's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NvramConfig {
    /// Capacity in bytes, at least 64 KiB.
    pub bytes: u64,
    /// Maximum length of a write that enters the memory, in bytes.
    pub small_bytes: u64,
    /// Maximum distance in bytes from the end of another write at which a write belongs to its stream.
    pub stream_window: u64,
    /// Maximum drain writes in flight to the array.
    pub drain_depth: u32,
    /// Writes that pass through are acknowledged only once they survive a power cut on the members.
    pub is_through: bool,
    /// Units of a row, at least 1, in which only one write that passes through is in flight at a time, for
    /// members that map whole rows.
    pub row_units: u64,
}

/// Counters of a bridge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BridgeCounters {
    /// Writes taken into the memory.
    pub writes_taken: u64,
    /// Writes that passed through, as a whole or except for units in the memory.
    pub writes_passed: u64,
    /// Small writes that passed through because they belonged to a sequential stream.
    pub writes_of_streams: u64,
    /// Times that a write waited for free memory.
    pub waits: u64,
    /// Drain writes to the array.
    pub drains: u64,
    /// Units of these writes.
    pub units_drained: u64,
    /// Units read from the memory.
    pub units_read: u64,
}

pub(super) struct Inner {
    array: Array,
    clock: Clock,
    config: NvramConfig,
    nvram: RefCell<Nvram>,
    streams: RefCell<Streams>,
    locks: RangeLocks,
    draining: Draining,
    /// Notified when memory has become free, or never will.
    drained: Notify,
    counters: Cell<BridgeCounters>,
    tasks: RefCell<Vec<TaskId>>,
}

/// A cache in front of an array. Cheap to clone. The conditions on [`Array`]'s futures apply to its futures,
/// too.
#[derive(Clone)]
pub struct Bridge(Rc<Inner>);

impl Bridge {
    /// A bridge in front of `array`, with the memory that an earlier one has left, or a new one. Its work is
    /// done at the array's site: [`WorkKind::Buffer`] for each unit, and the DRAM there is the memory.
    pub fn new(clock: &Clock, array: Array, config: NvramConfig, nvram: Nvram) -> Bridge {
        let config = NvramConfig { bytes: config.bytes.max(64 << 10), ..config };
        let bridge = Bridge(Rc::new(Inner {
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
        let inner = &bridge.0;
        let mut tasks = vec![clock.spawn("bridge's memory", drain::run(inner.clone()))];
        let workers = 0..config.drain_depth.max(1);
        tasks.extend(workers.map(|_| clock.spawn("bridge's drain", drain::work(inner.clone()))));
        inner.tasks.replace(tasks);
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
        let inner = &*self.0;
        // Captured now: these are the oldest contents that may be returned, and a drain may release them
        // meanwhile.
        let held: Vec<(u64, Content, u8)> = {
            let nvram = inner.nvram.borrow();
            let units = first..first + u64::from(count);
            units.filter_map(|unit| nvram.get(unit).map(|(content, parts)| (unit, content, parts))).collect()
        };
        if held.is_empty() {
            return inner.array.read(context, first, count, out).await;
        }
        out.clear();
        out.resize(count as usize, Content::Zero);
        let whole = held.iter().filter(|(.., parts)| *parts == u8::MAX).map(|(unit, ..)| *unit);
        let (mut at, mut run) = (first, Vec::new());
        for stop in whole.chain([first + u64::from(count)]) {
            if at < stop {
                inner.array.read(context, at, (stop - at) as u32, &mut run).await?;
                let into = out[(at - first) as usize..].iter_mut();
                into.zip(run.drain(..)).for_each(|(into, content)| *into = content);
            }
            at = stop + 1;
        }
        let keep = inner.array.config().keep;
        let units = held.len() as u64;
        for (unit, content, parts) in held {
            let into = &mut out[(unit - first) as usize];
            *into = merged(into, &content, parts, keep);
        }
        inner.count(|counters| counters.units_read += units);
        inner.pass_memory(context, "out of the bridge's memory", units * UNIT_BYTES as u64).await;
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
        let inner = &*self.0;
        if is_small {
            inner.count(|counters| counters.writes_taken += 1);
            let taken = inner.take(context, first, contents).await;
            contents.clear();
            return taken;
        }
        inner.count(|counters| counters.writes_passed += 1);
        let durable = durable || inner.config.is_through;
        let units = first..first + contents.len() as u64;
        let has_any = {
            let nvram = inner.nvram.borrow();
            units.clone().any(|unit| nvram.has(unit))
        };
        if !has_any {
            return inner.array.write(context, first, contents, durable).await;
        }
        let mut rest: Vec<Content> = std::mem::take(contents);
        let mut at = first;
        while !rest.is_empty() {
            let (is_held, count) = {
                let nvram = inner.nvram.borrow();
                let is_held = nvram.has(at);
                let run = (at..).take(rest.len()).take_while(|unit| nvram.has(*unit) == is_held);
                (is_held, run.count())
            };
            let later = rest.split_off(count);
            match is_held {
                true => inner.take(context, at, &rest).await?,
                false => inner.array.write(context, at, &mut rest, durable).await?,
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
        let inner = &*self.0;
        let Some(parts) = parts_of(offset, bytes) else { return Err(MediaError::OutOfRange) };
        let at = unit * UNIT_BYTES as u64 + u64::from(offset);
        let is_small = inner.is_small(at, bytes.into(), command_bytes);
        let _lock = self.lock(context.span, inner.locked(unit..unit + 1, is_small)).await;
        if is_small || inner.nvram.borrow().has(unit) {
            inner.count(|counters| match is_small {
                true => counters.writes_taken += 1,
                false => counters.writes_passed += 1,
            });
            return inner.take_part(context, unit, content, parts).await;
        }
        inner.count(|counters| counters.writes_passed += 1);
        let durable = durable || inner.config.is_through;
        if inner.array.takes_parts(offset, bytes) {
            return inner.array.write_part(context, unit, offset, bytes, content, durable).await;
        }
        let mut whole = [0; UNIT_BYTES];
        content.write_to(&mut whole);
        let range = offset as usize..(offset + bytes) as usize;
        let edit = |unit: &mut [u8; UNIT_BYTES], marred: &mut u8| {
            unit[range.clone()].copy_from_slice(&whole[range]);
            *marred &= !parts;
        };
        inner.array.edit(context, unit, edit, durable).await
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
        let inner = &*self.0;
        inner.draining.empty(true);
        while inner.nvram.borrow().drainable() > 0 && !inner.draining.is_stuck() {
            inner.drained.notified().await;
        }
        inner.draining.empty(false);
        if inner.draining.is_stuck() {
            return Err(MediaError::Failed);
        }
        inner.array.shutdown(span).await
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
        let inner = &*self.0;
        inner.tasks.take().into_iter().for_each(|task| inner.clock.kill(task));
        inner.array.stop();
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

impl Inner {
    /// The range that a write of these units locks: whole rows if it passes through.
    fn locked(&self, units: Range<u64>, is_small: bool) -> Range<u64> {
        let row = self.config.row_units;
        match is_small || row <= 1 {
            true => units,
            false => units.start / row * row..units.end.div_ceil(row) * row,
        }
    }

    fn count(&self, count: impl FnOnce(&mut BridgeCounters)) {
        let mut counters = self.counters.get();
        count(&mut counters);
        self.counters.set(counters);
    }

    /// Whether a write of `bytes`, or a piece of a command of `command_bytes`, goes to the memory.
    fn is_small(&self, at: u64, bytes: u64, command_bytes: u64) -> bool {
        let goes_on = self.streams.borrow_mut().goes_on(at, bytes);
        let is_short = command_bytes <= self.config.small_bytes;
        if goes_on && is_short {
            self.count(|counters| counters.writes_of_streams += 1);
        }
        is_short && !goes_on
    }

    /// Whether the memory is more than half full.
    fn is_filling(&self) -> bool {
        self.nvram.borrow().bytes() > self.config.bytes / 2
    }

    /// Takes whole units into the memory, waiting for free space.
    async fn take(&self, context: WorkContext, first: u64, contents: &[Content]) -> Result<(), MediaError> {
        let count = contents.len() as u64;
        self.array.0.work(context, WorkKind::Buffer, count).await;
        self.pass_memory(context, "into the bridge's memory", count * UNIT_BYTES as u64).await;
        for (unit, content) in (first..).zip(contents) {
            self.admit(context, unit, u8::MAX).await?;
            self.nvram.borrow_mut().put(unit, content.clone(), u8::MAX, self.array.config().keep);
        }
        self.draining.look(self.is_filling());
        Ok(())
    }

    async fn take_part(
        &self,
        context: WorkContext,
        unit: u64,
        content: &Content,
        parts: u8,
    ) -> Result<(), MediaError> {
        self.array.0.work(context, WorkKind::Buffer, 1).await;
        let bytes = u64::from(parts.count_ones()) * MARRED_BYTES as u64;
        self.pass_memory(context, "into the bridge's memory", bytes).await;
        self.admit(context, unit, parts).await?;
        self.nvram.borrow_mut().put(unit, content.clone(), parts, self.array.config().keep);
        self.draining.look(self.is_filling());
        Ok(())
    }

    /// Waits for space for blocks of a unit.
    async fn admit(&self, context: WorkContext, unit: u64, parts: u8) -> Result<(), MediaError> {
        let mut has_waited = false;
        loop {
            let is_full = {
                let nvram = self.nvram.borrow();
                nvram.bytes() + nvram.growth(unit, parts) > self.config.bytes
            };
            if !is_full {
                break;
            }
            if self.draining.is_stuck() || self.nvram.borrow().drainable() == 0 {
                return Err(MediaError::Failed);
            }
            if !has_waited {
                self.count(|counters| counters.waits += 1);
                has_waited = true;
            }
            self.draining.look(true);
            self.drained.notified().await;
        }
        if has_waited {
            self.clock.spans().wait(context.span, self.clock.now(), Awaited::Buffer);
        }
        Ok(())
    }

    /// Waits for bytes to pass the memory's port.
    async fn pass_memory(&self, context: WorkContext, what: &'static str, bytes: u64) {
        let passage = self.array.placement().site(WorkKind::Buffer).dram(what, bytes);
        self.clock.sleep_until(passage.arrival).await;
        self.clock.spans().charge_split(context.span, self.clock.now(), passage.queued, Stage::Dram);
    }
}
