//! What a bridge is made of, and how units enter its memory.

use super::config::{BridgeCounters, NvramConfig};
use super::draining::Draining;
use super::nvram::Nvram;
use super::stream::Streams;
use crate::array::Array;
use byteway_clock::{Awaited, Clock, Notify, RangeLocks, Stage, TaskId};
use byteway_content::{Content, MARRED_BYTES, UNIT_BYTES};
use byteway_firmware::{MediaError, WorkContext, WorkKind};
use std::cell::{Cell, RefCell};
use std::ops::Range;

/// A bridge, shared by its tasks.
pub(super) struct Core {
    pub(super) array: Array,
    pub(super) clock: Clock,
    pub(super) config: NvramConfig,
    pub(super) nvram: RefCell<Nvram>,
    pub(super) streams: RefCell<Streams>,
    pub(super) locks: RangeLocks,
    pub(super) draining: Draining,
    /// Notified when memory has become free, or never will.
    pub(super) drained: Notify,
    pub(super) counters: Cell<BridgeCounters>,
    pub(super) tasks: RefCell<Vec<TaskId>>,
}

impl Core {
    /// The range that a write of these units locks: whole rows if it passes through.
    pub(super) fn locked(&self, units: Range<u64>, is_small: bool) -> Range<u64> {
        let row = self.config.row_units;
        match is_small || row <= 1 {
            true => units,
            false => units.start / row * row..units.end.div_ceil(row) * row,
        }
    }

    pub(super) fn count(&self, count: impl FnOnce(&mut BridgeCounters)) {
        let mut counters = self.counters.get();
        count(&mut counters);
        self.counters.set(counters);
    }

    /// Whether a write of `bytes`, or a piece of a command of `command_bytes`, goes to the memory.
    pub(super) fn is_small(&self, at: u64, bytes: u64, command_bytes: u64) -> bool {
        let goes_on = self.streams.borrow_mut().goes_on(at, bytes);
        let is_short = command_bytes <= self.config.small_bytes;
        if goes_on && is_short {
            self.count(|counters| counters.writes_of_streams += 1);
        }
        is_short && !goes_on
    }

    /// Whether the memory is more than half full.
    pub(super) fn is_filling(&self) -> bool {
        self.nvram.borrow().bytes() > self.config.bytes / 2
    }

    /// Takes whole units into the memory, waiting for free space.
    pub(super) async fn take(
        &self,
        context: WorkContext,
        first: u64,
        contents: &[Content],
    ) -> Result<(), MediaError> {
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

    pub(super) async fn take_part(
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
    pub(super) async fn admit(&self, context: WorkContext, unit: u64, parts: u8) -> Result<(), MediaError> {
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
    pub(super) async fn pass_memory(&self, context: WorkContext, what: &'static str, bytes: u64) {
        let passage = self.array.placement().site(WorkKind::Buffer).dram(what, bytes);
        self.clock.sleep_until(passage.arrival).await;
        self.clock.spans().charge_split(context.span, self.clock.now(), passage.queued, Stage::Dram);
    }
}
