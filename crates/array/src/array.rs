//! [`Array`]: the verbs that a controller calls.

use crate::config::ArrayConfig;
use crate::config::Level;
use crate::counters::ArrayCounters;
use crate::inner::Inner;
use crate::lock::RangeLock;
use crate::rebuild::Rebuild;
use crate::superblock::SlotState;
use crate::write::Part;
use byteway_clock::{SpanId, Stage};
use byteway_firmware::{Errand, Health, MediaError, Placement};
use byteway_wire::content::{Content, UNIT_BYTES};
use std::rc::Rc;

/// An array of drives. Cheap to clone; clones are the same array.
///
/// Its futures are to be run to their end, as a controller's command slots do, or to be dropped with all of it, as a power cut
/// does: a write that is dropped alone unlocks what its commands to members may still change.
#[derive(Clone)]
pub struct Array(pub(crate) Rc<Inner>);

/// How an array is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrayHealth {
    /// Slots, with the identity of the member in each; none: there is none.
    pub slots: Vec<(SlotState, Option<Rc<str>>)>,
    /// Too many members have failed: reads of what is lost fail, and all writes.
    pub is_broken: bool,
    /// What the slots are is durable on the members: after a power cut they are the same.
    pub is_settled: bool,
    /// Units that can't be known until they are written.
    pub lost_units: u64,
    /// Regions whose copies or parity are to be checked since a power cut.
    pub regions_unsynced: u32,
    /// Regions marked in the write-intent log, of which a power cut may leave some marked.
    pub regions_marked: u32,
    /// The last rebuild since the array was put together; none: there was none.
    pub rebuild: Option<Rebuild>,
}

impl ArrayHealth {
    /// Whether a member is missing or not yet rebuilt.
    pub fn is_degraded(&self) -> bool {
        self.slots.iter().any(|(state, _)| *state != SlotState::Active)
    }
}

/// Memory that an array holds, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArrayMemory {
    /// The write-intent log.
    pub intents: u64,
    /// Marks of lost units.
    pub lost: u64,
    /// Stripe buffers and commands to members.
    pub buffers: u64,
    /// Locks.
    pub locks: u64,
}

impl ArrayMemory {
    /// All of it.
    pub fn total(&self) -> u64 {
        self.intents + self.lost + self.buffers + self.locks
    }
}

impl Array {
    /// Units that it offers.
    pub fn user_units(&self) -> u64 {
        self.0.layout.units()
    }

    /// Its parameters.
    pub fn config(&self) -> &ArrayConfig {
        &self.0.config
    }

    /// Where its work is done.
    pub fn placement(&self) -> &Placement {
        &self.0.placement
    }

    /// What it has done.
    pub fn counters(&self) -> ArrayCounters {
        self.0.counting.get()
    }

    /// The memory that it holds now.
    pub fn memory(&self) -> ArrayMemory {
        let inner = &*self.0;
        let vectors = inner.scratch.borrow();
        let contents: usize = vectors.iter().map(Vec::capacity).sum();
        ArrayMemory {
            intents: inner.intents.bytes(),
            lost: inner.lost.borrow().bytes(),
            buffers: inner.groups.bytes() + (contents * size_of::<Content>()) as u64,
            locks: inner.locks.bytes(),
        }
    }

    /// How it is.
    pub fn state(&self) -> ArrayHealth {
        let inner = &*self.0;
        let slots = inner.slots.borrow();
        let identity = |slot: usize| slots.ports[slot].as_ref().map(|port| port.shape.identity.clone());
        ArrayHealth {
            slots: slots.states.iter().enumerate().map(|(slot, state)| (*state, identity(slot))).collect(),
            is_broken: slots.is_broken,
            is_settled: slots.states == slots.durable,
            lost_units: inner.lost.borrow().count(),
            regions_unsynced: inner.intents.unsynced_count(),
            regions_marked: inner.intents.marked(),
            rebuild: inner.rebuild.get().map(|rebuild| match slots.states[rebuild.slot] {
                SlotState::Rebuilding { mark } => Rebuild { done: mark, ..rebuild },
                SlotState::Active | SlotState::Failed => rebuild,
            }),
        }
    }

    /// The same as a drive says it: a spare member counts as spare capacity that is left.
    pub fn health(&self) -> Health {
        let counters = self.counters();
        let state = self.state();
        let degraded = state.is_degraded();
        Health {
            available_spare_percent: if degraded { 0 } else { 100 },
            spare_threshold_percent: Health::SPARE_THRESHOLD_PERCENT,
            is_read_only: state.is_broken,
            unreadable: counters.units_unreadable,
            blocks_retired: counters.members_failed,
        }
    }

    /// Ends when a member may have failed since the last call. For one task: who has spares.
    pub async fn failed(&self) {
        self.0.fails.notified().await;
    }

    /// Ends when [`health`](Array::health) may be worse than at the last call. For one task.
    pub async fn worsened(&self) {
        self.0.ails.notified().await;
    }

    fn check(&self, first: u64, count: u64) -> Result<(), MediaError> {
        match first.checked_add(count) {
            Some(end) if end <= self.user_units() => Ok(()),
            _ => Err(MediaError::OutOfRange),
        }
    }

    /// Reads `count` units from `first`; `out` is cleared and gets their contents in order. Units that are lost are given as
    /// [unreadable](Content::unreadable).
    ///
    /// # Errors
    /// If not all are units of the array.
    pub async fn read(
        &self,
        errand: impl Into<Errand>,
        first: u64,
        count: u32,
        out: &mut Vec<Content>,
    ) -> Result<(), MediaError> {
        self.check(first, count.into())?;
        let _attending = self.0.attend();
        out.clear();
        out.resize(count as usize, Content::Zero);
        self.0.counting.count(|counters| counters.user_units_read += u64::from(count));
        self.0.read(errand.into(), first, out, false).await;
        Ok(())
    }

    /// Writes `contents`, which it empties, as the units from `first` on. Returns when the members have acknowledged it; with
    /// `durable` it survives a power cut then.
    ///
    /// # Errors
    /// If not all are units of the array, or too many members have failed.
    pub async fn write(
        &self,
        errand: impl Into<Errand>,
        first: u64,
        contents: &mut Vec<Content>,
        durable: bool,
    ) -> Result<(), MediaError> {
        self.check(first, contents.len() as u64)?;
        if contents.is_empty() {
            return Ok(());
        }
        let errand = errand.into();
        let _attending = self.0.attend();
        let _lock = self.lock(errand.span, first, contents.len() as u64).await;
        let written = self.0.write_locked(errand, first, contents, durable).await;
        contents.clear();
        written
    }

    async fn lock(&self, span: SpanId, first: u64, count: u64) -> RangeLock {
        let inner = &*self.0;
        let lock = inner.lock(first, count).await;
        inner.clock.spans().charge(span, inner.clock.now(), Stage::Queueing);
        lock
    }

    /// Changes a unit: reads it, lets `edit` have its bytes and which parts can't be read, and writes what comes out. Nothing that
    /// others write to the unit meanwhile is undone: they wait.
    ///
    /// # Errors
    /// As [`Array::write`]; or the unit can't be read, or not all of it could be read afterwards: then nothing is written.
    pub async fn edit(
        &self,
        errand: impl Into<Errand>,
        unit: u64,
        edit: impl FnOnce(&mut [u8; UNIT_BYTES], &mut u8),
        durable: bool,
    ) -> Result<(), MediaError> {
        self.check(unit, 1)?;
        let errand = errand.into();
        let inner = &*self.0;
        let _attending = inner.attend();
        let _lock = self.lock(errand.span, unit, 1).await;
        let mut content = [Content::Zero];
        inner.read(errand, unit, &mut content, true).await;
        let [old] = content;
        let new = [old.edited(inner.config.keep, edit)];
        if new[0].marred() != 0 {
            return Err(MediaError::Unreadable);
        }
        inner.write_locked(errand, unit, &new, durable).await
    }

    /// Whether parts of units of `bytes` from `offset` on can be written without reading the rest.
    pub fn takes_parts(&self, offset: u32, bytes: u32) -> bool {
        let block = self.0.block_bytes();
        self.0.layout.level != Level::Raid5 && offset.is_multiple_of(block) && bytes.is_multiple_of(block)
    }

    /// Writes a part of a unit, if [it can](Array::takes_parts): `bytes` of `content` from `offset` on.
    ///
    /// # Errors
    /// As [`Array::write`].
    pub async fn write_part(
        &self,
        errand: impl Into<Errand>,
        unit: u64,
        offset: u32,
        bytes: u32,
        content: &Content,
        durable: bool,
    ) -> Result<(), MediaError> {
        self.check(unit, 1)?;
        let errand = errand.into();
        let _attending = self.0.attend();
        let _lock = self.lock(errand.span, unit, 1).await;
        self.0.write_part_locked(errand, Part { unit, offset, bytes, content }, durable).await
    }

    /// Deallocates `count` units from `first`: they read as zeroes.
    ///
    /// # Errors
    /// As [`Array::write`].
    pub async fn trim(&self, errand: impl Into<Errand>, first: u64, count: u64) -> Result<(), MediaError> {
        self.check(first, count)?;
        if count == 0 {
            return Ok(());
        }
        let errand = errand.into();
        let _attending = self.0.attend();
        let _lock = self.lock(errand.span, first, count).await;
        self.0.trim_locked(errand, first, count).await
    }

    /// Waits until everything that was written before survives a power cut.
    ///
    /// # Errors
    /// Too many members have failed.
    pub async fn flush(&self, span: SpanId) -> Result<(), MediaError> {
        let inner = &*self.0;
        let _attending = inner.attend();
        inner.flush_all(span).await;
        inner.gate.open().await;
        if inner.is_broken() { Err(MediaError::Failed) } else { Ok(()) }
    }

    /// Flushes, and marks everything as clean, so that nothing need be checked when the power comes back.
    ///
    /// # Errors
    /// As [`Array::flush`].
    pub async fn shutdown(&self, span: SpanId) -> Result<(), MediaError> {
        let at_rest = self.0.intents.idle(false);
        self.flush(span).await?;
        self.0.clean_log(&at_rest).await;
        Ok(())
    }

    /// Locks a unit, to read it and then write it or leave it, with nothing of anybody else's in between.
    ///
    /// # Errors
    /// If it is no unit of the array.
    pub async fn exchange(&self, span: SpanId, unit: u64) -> Result<Exchange, MediaError> {
        self.check(unit, 1)?;
        let lock = self.lock(span, unit, 1).await;
        Ok(Exchange { array: self.clone(), unit, _lock: lock })
    }

    /// Keeps a small record beside the units, at most 128 KiB: it is durable when this ends, and the former one was until then.
    pub async fn store_record(&self, bytes: Rc<[u8]>) {
        let inner = &*self.0;
        inner.write_record(bytes, &inner.present()).await;
    }

    /// The record.
    pub fn record(&self) -> Option<Rc<[u8]>> {
        self.0.record.borrow().clone()
    }

    /// Whether anything that was asked of it has not ended.
    pub fn is_attending(&self) -> bool {
        self.0.attending.get() > 0
    }

    /// Ranges that are locked or waited for.
    pub fn ranges_locked(&self) -> usize {
        self.0.locks.len()
    }

    /// Ends its tasks, as a power cut does: whatever was asked never ends.
    pub fn stop(&self) {
        let inner = &*self.0;
        inner.tasks.take().into_iter().for_each(|task| inner.clock.kill(task));
        inner.slots.borrow().ports.iter().flatten().for_each(|port| port.stop());
    }
}

/// A unit that no other operation changes until this is dropped or has written it. Readers are not held up.
pub struct Exchange {
    array: Array,
    unit: u64,
    _lock: RangeLock,
}

impl Exchange {
    /// Reads the unit. May be called again.
    pub async fn read(&self, span: SpanId, contents: &mut Vec<Content>) {
        contents.clear();
        contents.push(Content::Zero);
        self.array.0.read(span.into(), self.unit, contents, true).await;
    }

    /// Writes the unit, of which `contents` has the only one, and lets others have it.
    ///
    /// # Errors
    /// As [`Array::write`].
    pub async fn write(
        self,
        span: SpanId,
        contents: &mut Vec<Content>,
        durable: bool,
    ) -> Result<(), MediaError> {
        assert_eq!(contents.len(), 1, "an exchange is of one unit");
        let written = self.array.0.write_locked(span.into(), self.unit, contents, durable).await;
        contents.clear();
        written
    }
}
