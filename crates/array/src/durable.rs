//! The array's own state, made durable on the members: superblocks, bitmaps of lost units, the controller's record.
//!
//! It lies on every member, whole, rather than spread like data: assembly then needs no layout to find it, and one
//! member is enough. The price is a write to each member for each change, and changes are rare.

use crate::core::Core;
use crate::counters::Cause;
use crate::group::Verb;
use crate::slots::Failure;
use crate::superblock::{SlotState, Superblock};
use byteway_clock::SpanId;
use byteway_content::Content;
use std::rc::Rc;

/// The superblock of a member for these states.
fn superblock(core: &Core, slot: usize, states: &[SlotState]) -> Superblock {
    Superblock {
        uuid: core.config.uuid,
        level: core.config.level,
        chunk_units: core.config.chunk_units,
        member_units: core.member_units,
        data_units: core.area.data_units,
        slot: slot as u32,
        events: core.superblocks.events(),
        journal_from: core.journal.from(),
        has_lost: !core.lost.borrow().is_empty(),
        slots: states.to_vec(),
        joined: core.slots.borrow().joined().to_vec(),
    }
}

/// Writes the states to all present members; they are durable when this ends. Unrecorded failures are not
/// included, and nothing is written of an array that has lost data.
pub(crate) async fn write_superblocks(core: &Core) {
    write_superblocks_with(core, &[]).await;
}

/// Like `write_superblocks`, including the failures in `taken`.
pub(crate) async fn write_superblocks_with(core: &Core, taken: &[Failure]) {
    let _turn = core.superblocks.turn().await;
    let Some(states) = core.slots.borrow().to_record(taken) else { return };
    let at = core.area.superblocks[(core.superblocks.advance() % 2) as usize];
    let group = core.group(SpanId::NONE, false);
    for slot in core.present() {
        let content = superblock(core, slot, &states).encode();
        group.add_write(slot, at, true, std::iter::once(content));
    }
    core.exchange(&group, Cause::Log).await;
    core.slots.borrow_mut().are_durable(states);
}

/// Flushes all present members.
pub(crate) async fn flush_members(core: &Core, span: SpanId) {
    let group = core.group(span, false);
    for slot in core.present() {
        group.add(slot, Verb::Flush, 0, 0, |_| ());
    }
    core.exchange(&group, Cause::Log).await;
}

/// Flushes the members. Rewritten lost units are known from then on, also after a power cut.
pub(crate) async fn flush_all(core: &Core, span: SpanId) {
    let written = core.lost.borrow().written();
    flush_members(core, span).await;
    if let Some(written) = written {
        core.lost.borrow_mut().settle(&written);
        write_lost(core).await;
    }
}

/// Writes the changed bitmaps of lost units, durably.
pub(crate) async fn write_lost(core: &Core) {
    let _turn = core.lost_turn.acquire(1).await;
    let changed = core.lost.borrow_mut().take_changed();
    write_lost_pages(core, &changed, &core.present()).await;
}

pub(crate) async fn write_lost_pages(core: &Core, pages: &[(u64, Content)], slots: &[usize]) {
    if pages.is_empty() {
        return;
    }
    let group = core.group(SpanId::NONE, false);
    for slot in slots {
        for (page, content) in pages {
            group.add_write(*slot, core.area.lost + page, true, std::iter::once(content.clone()));
        }
    }
    core.exchange(&group, Cause::Log).await;
}

/// Replaces the record on all members. Durable when this ends; until then the old record is.
pub(crate) async fn write_record(core: &Core, bytes: Rc<[u8]>, slots: &[usize]) {
    let (number, units) = core.record.borrow_mut().replace(bytes);
    let at = core.area.records[(number % 2) as usize];
    let group = core.group(SpanId::NONE, false);
    for slot in slots {
        group.add_write(*slot, at, true, units.iter().cloned());
    }
    core.exchange(&group, Cause::Log).await;
}
