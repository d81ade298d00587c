//! [`Array`]: the operations that a controller calls.

use crate::config::ArrayConfig;
use crate::config::Level;
use crate::core::Core;
use crate::counters::ArrayCounters;
use crate::durable::{flush_all, write_record};
use crate::read::read;
use crate::rebuild::Rebuild;
use crate::superblock::SlotState;
use crate::upkeep::clean_log;
use crate::write::{Part, trim_locked, write_locked, write_part_locked};
use byteway_clock::{RangeLock, SpanId, Stage};
use byteway_content::{Content, UNIT_BYTES};
use byteway_firmware::{Health, MediaError, Placement, WorkContext};
use std::rc::Rc;

/// An array of drives. Cheap to clone; clones are the same array.
///
/// Its futures must run to completion, as in a controller's command slots, or be dropped together with the
/// array, as at a power cut: dropping a single write would unlock units that its commands to members may
/// still change.
#[derive(Clone)]
pub struct Array(pub(crate) Rc<Core>);

/// Health of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrayHealth {
    /// State of each slot, with the identity of its member; None for an empty slot.
    pub slots: Vec<(SlotState, Option<Rc<str>>)>,
    /// Too many members have failed: reads of lost units and all writes fail.
    pub is_broken: bool,
    /// The slot states are durable on the members, and survive a power cut.
    pub is_settled: bool,
    /// Units whose content is lost until they are written.
    pub lost_units: u64,
    /// Regions whose copies or parity still have to be checked after a power cut.
    pub regions_unsynced: u32,
    /// Regions marked in the write-intent log, some of which may stay marked after a power cut.
    pub regions_marked: u32,
    /// The last rebuild since assembly; None if there was none.
    pub rebuild: Option<Rebuild>,
}

impl ArrayHealth {
    /// Whether a member is missing or not completely rebuilt.
    pub fn is_degraded(&self) -> bool {
        self.slots.iter().any(|(state, _)| *state != SlotState::Active)
    }
}

/// Memory of an array, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArrayMemory {
    /// The write-intent log.
    pub intents: u64,
    /// Bitmaps of lost units.
    pub lost: u64,
    /// Stripe buffers and commands to members.
    pub buffers: u64,
    /// Range locks.
    pub locks: u64,
}

impl ArrayMemory {
    /// Total bytes.
    pub fn total(&self) -> u64 {
        self.intents + self.lost + self.buffers + self.locks
    }
}

impl Array {
    /// User capacity in units.
    pub fn user_units(&self) -> u64 {
        self.0.layout.units()
    }

    /// Parameters of the array.
    pub fn config(&self) -> &ArrayConfig {
        &self.0.config
    }

    /// Placement of its work.
    pub fn placement(&self) -> &Placement {
        &self.0.placement
    }

    /// Counters up to now.
    pub fn counters(&self) -> ArrayCounters {
        self.0.counting.get()
    }

    /// Memory in use now.
    pub fn memory(&self) -> ArrayMemory {
        let core = &*self.0;
        ArrayMemory {
            intents: core.intents.bytes(),
            lost: core.lost.borrow().bytes(),
            buffers: core.groups.bytes() + core.scratch.bytes(),
            locks: core.locks.bytes(),
        }
    }

    /// Current health of the array and its members.
    pub fn state(&self) -> ArrayHealth {
        let core = &*self.0;
        let slots = core.slots.borrow();
        let identity = |slot: usize| slots.port(slot).map(|port| port.shape.identity.clone());
        ArrayHealth {
            slots: slots.states().iter().enumerate().map(|(slot, state)| (*state, identity(slot))).collect(),
            is_broken: slots.is_broken(),
            is_settled: slots.is_settled(),
            lost_units: core.lost.borrow().count(),
            regions_unsynced: core.intents.unsynced_count(),
            regions_marked: core.intents.marked(),
            rebuild: core.rebuild.get().map(|rebuild| match slots.states()[rebuild.slot] {
                SlotState::Rebuilding { mark } => Rebuild { done: mark, ..rebuild },
                SlotState::Active | SlotState::Failed => rebuild,
            }),
        }
    }

    /// Health in the terms of a drive: a spare member counts as spare capacity.
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

    /// Waits until a member may have failed since the last call. For one task, the one that provides spares.
    pub async fn failed(&self) {
        self.0.fails.notified().await;
    }

    /// Waits until [`health`](Array::health) may have become worse since the last call. For one task.
    pub async fn worsened(&self) {
        self.0.health_changed.notified().await;
    }

    fn check(&self, first: u64, count: u64) -> Result<(), MediaError> {
        match first.checked_add(count) {
            Some(end) if end <= self.user_units() => Ok(()),
            _ => Err(MediaError::OutOfRange),
        }
    }

    /// Reads `count` units from `first` into `out`, which is cleared first. Lost units are returned as
    /// [unreadable](Content::unreadable).
    ///
    /// # Errors
    /// [`MediaError::OutOfRange`] if a unit is out of range.
    pub async fn read(
        &self,
        context: impl Into<WorkContext>,
        first: u64,
        count: u32,
        out: &mut Vec<Content>,
    ) -> Result<(), MediaError> {
        self.check(first, count.into())?;
        let _attending = self.0.attend();
        out.clear();
        out.resize(count as usize, Content::Zero);
        self.0.counting.count(|counters| counters.user_units_read += u64::from(count));
        read(&self.0, context.into(), first, out, false).await;
        Ok(())
    }

    /// Writes `contents` to the units from `first` on, and drains it. Returns when the members have
    /// acknowledged the write; with `durable`, it then survives a power cut.
    ///
    /// # Errors
    /// [`MediaError`] if a unit is out of range, or too many members have failed.
    pub async fn write(
        &self,
        context: impl Into<WorkContext>,
        first: u64,
        contents: &mut Vec<Content>,
        durable: bool,
    ) -> Result<(), MediaError> {
        self.check(first, contents.len() as u64)?;
        if contents.is_empty() {
            return Ok(());
        }
        let context = context.into();
        let _attending = self.0.attend();
        let _lock = self.lock(context.span, first, contents.len() as u64).await;
        let written = write_locked(&self.0, context, first, contents, durable).await;
        contents.clear();
        written
    }

    async fn lock(&self, span: SpanId, first: u64, count: u64) -> RangeLock {
        let core = &*self.0;
        let lock = core.lock(first, count).await;
        core.clock.spans().charge(span, core.clock.now(), Stage::Queueing);
        lock
    }

    /// Changes a unit: reads it, applies `edit` to its bytes and to the set of its unreadable parts, and
    /// writes the result. Concurrent writes to the unit wait, so none is undone.
    ///
    /// # Errors
    /// Same as [`Array::write`]. If the unit is unreadable, or part of it still would be afterwards, fails with
    /// nothing written.
    pub async fn edit(
        &self,
        context: impl Into<WorkContext>,
        unit: u64,
        edit: impl FnOnce(&mut [u8; UNIT_BYTES], &mut u8),
        durable: bool,
    ) -> Result<(), MediaError> {
        self.check(unit, 1)?;
        let context = context.into();
        let core = &*self.0;
        let _attending = core.attend();
        let _lock = self.lock(context.span, unit, 1).await;
        let mut content = [Content::Zero];
        read(core, context, unit, &mut content, true).await;
        let [old] = content;
        let new = [old.edited(core.config.keep, edit)];
        if new[0].marred() != 0 {
            return Err(MediaError::Unreadable);
        }
        write_locked(core, context, unit, &new, durable).await
    }

    /// Whether `bytes` at `offset` of a unit can be written without reading the rest.
    pub fn takes_parts(&self, offset: u32, bytes: u32) -> bool {
        let block = self.0.block_bytes();
        self.0.layout.level != Level::Raid5 && offset.is_multiple_of(block) && bytes.is_multiple_of(block)
    }

    /// Writes `bytes` of `content` at `offset` of a unit, if [supported](Array::takes_parts).
    ///
    /// # Errors
    /// Same as [`Array::write`].
    pub async fn write_part(
        &self,
        context: impl Into<WorkContext>,
        unit: u64,
        offset: u32,
        bytes: u32,
        content: &Content,
        durable: bool,
    ) -> Result<(), MediaError> {
        self.check(unit, 1)?;
        let context = context.into();
        let _attending = self.0.attend();
        let _lock = self.lock(context.span, unit, 1).await;
        write_part_locked(&self.0, context, Part { unit, offset, bytes, content }, durable).await
    }

    /// Deallocates `count` units from `first`, which then read as zeroes.
    ///
    /// # Errors
    /// Same as [`Array::write`].
    pub async fn trim(
        &self,
        context: impl Into<WorkContext>,
        first: u64,
        count: u64,
    ) -> Result<(), MediaError> {
        self.check(first, count)?;
        if count == 0 {
            return Ok(());
        }
        let context = context.into();
        let _attending = self.0.attend();
        let _lock = self.lock(context.span, first, count).await;
        trim_locked(&self.0, context, first, count).await
    }

    /// Waits until everything written before survives a power cut.
    ///
    /// # Errors
    /// [`MediaError::Failed`] if too many members have failed.
    pub async fn flush(&self, span: SpanId) -> Result<(), MediaError> {
        let core = &*self.0;
        let _attending = core.attend();
        flush_all(core, span).await;
        core.gate.open().await;
        if core.is_broken() { Err(MediaError::Failed) } else { Ok(()) }
    }

    /// Flushes, and marks everything as clean, so that nothing has to be checked at the next power-on.
    ///
    /// # Errors
    /// Same as [`Array::flush`].
    pub async fn shutdown(&self, span: SpanId) -> Result<(), MediaError> {
        let at_rest = self.0.intents.idle(false);
        self.flush(span).await?;
        clean_log(&self.0, &at_rest).await;
        Ok(())
    }

    /// Locks a unit for an atomic read and write.
    ///
    /// # Errors
    /// [`MediaError::OutOfRange`] if the unit is out of range.
    pub async fn exchange(&self, span: SpanId, unit: u64) -> Result<UnitExchange, MediaError> {
        self.check(unit, 1)?;
        let lock = self.lock(span, unit, 1).await;
        Ok(UnitExchange { array: self.clone(), unit, _lock: lock })
    }

    /// Replaces the controller's record, at most 128 KiB. Durable when this ends; until then the old record
    /// is.
    pub async fn store_record(&self, bytes: Rc<[u8]>) {
        let core = &*self.0;
        write_record(core, bytes, &core.present()).await;
    }

    /// The record, if one was stored.
    pub fn record(&self) -> Option<Rc<[u8]>> {
        self.0.record.borrow().bytes()
    }

    /// Whether a request is in progress.
    pub fn is_attending(&self) -> bool {
        self.0.attending.get() > 0
    }

    /// Ranges that are locked or waited for.
    pub fn ranges_locked(&self) -> usize {
        self.0.locks.len()
    }

    /// Ends its tasks, as a power cut does: requests in progress never complete.
    pub fn stop(&self) {
        let core = &*self.0;
        core.tasks.take().into_iter().for_each(|task| core.clock.kill(task));
        core.slots.borrow().ports().for_each(|port| port.stop());
    }
}

/// Exclusive access to a unit, until it is written or this is dropped. Readers do not wait.
pub struct UnitExchange {
    array: Array,
    unit: u64,
    _lock: RangeLock,
}

impl UnitExchange {
    /// Reads the unit. May be called repeatedly.
    pub async fn read(&self, span: SpanId, contents: &mut Vec<Content>) {
        contents.clear();
        contents.push(Content::Zero);
        read(&self.array.0, span.into(), self.unit, contents, true).await;
    }

    /// Writes the unit, the only element of `contents`, and releases it.
    ///
    /// # Errors
    /// Same as [`Array::write`].
    pub async fn write(
        self,
        span: SpanId,
        contents: &mut Vec<Content>,
        durable: bool,
    ) -> Result<(), MediaError> {
        assert_eq!(contents.len(), 1, "an exchange has one unit");
        let written = write_locked(&self.array.0, span.into(), self.unit, contents, durable).await;
        contents.clear();
        written
    }
}
