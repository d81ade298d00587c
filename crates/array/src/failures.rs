//! Failures of members, and how they are recorded.
//!
//! When a member fails, writes in flight end without it and new ones wait. The writes are flushed, units that
//! can no longer be reconstructed are marked as lost, and then the superblocks of the others record the
//! failure. Only then are writes acknowledged that the failed member missed: if it comes back, it is known to
//! be stale.
//!
//! When too many members fail, nothing more is written to any: a power cycle that brings them back restores
//! the array.

use crate::config::{Defect, Level};
use crate::core::Core;
use crate::durable::{flush_members, write_lost, write_superblocks_with};
use crate::layout::UnitLocation;
use crate::superblock::SlotState;
use byteway_clock::SpanId;
use std::rc::Rc;

/// Marks units of a failed slot as lost that could be reconstructed only from untrusted parity.
fn lose_what_is_unsynced(core: &Core, slot: usize, before: SlotState) {
    if core.layout.level != Level::Raid5 || core.config.defect.has(Defect::NoLostMarks) {
        return;
    }
    let layout = &core.layout;
    for region in core.intents.unsynced() {
        let stripes = core.intents.stripes(region);
        for stripe in stripes.start..stripes.end.min(layout.stripes) {
            let column = layout
                .column_of(stripe, slot)
                .filter(|_| before.has(stripe) && core.intents.is_unsynced(stripe));
            let Some(column) = column else { continue };
            for offset in 0..layout.chunk {
                let unit = layout.unit(UnitLocation { stripe, column, offset });
                core.lost.borrow_mut().lose(unit);
            }
        }
        // Without the member nothing is left to repair: its chunks are lost, and the others are as they
        // are.
        core.intents.synced(region);
    }
}

/// Records failures: see the module documentation.
async fn settle_failures(core: &Core) {
    loop {
        core.gate.drain().await;
        let failed = core.slots.borrow_mut().unrecorded();
        if failed.is_empty() {
            break;
        }
        failed.iter().for_each(|(slot, before)| lose_what_is_unsynced(core, *slot, *before));
        flush_members(core, SpanId::NONE).await;
        write_lost(core).await;
        write_superblocks_with(core, &failed).await;
        core.slots.borrow_mut().end_recording(&failed);
    }
    core.gate.reopen();
    core.upkeep.notify_one();
}

/// The task that records failures, one after another.
pub(crate) async fn run(core: Rc<Core>) {
    loop {
        core.gate.closing().await;
        settle_failures(&core).await;
    }
}
