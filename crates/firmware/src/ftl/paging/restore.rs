//! Recovery of map pages after the loss of the peer that held them: the copy in flash, with the log of the
//! segment replayed over it. Also the records that a page needs when it enters a segment after changing while
//! away.
//!
//! The simulator knows the map anyway. Here it is rebuilt from bytes alone and then set to the result, so
//! that a missing record, or one too many, becomes visible as a wrong version of a unit.

use crate::ftl::config::Defect;
use crate::ftl::core::Core;
use crate::ftl::map::frames::Origin;
use crate::ftl::map::page;
use crate::ftl::map::redo::{self, Record};
use crate::ftl::map::segments::{BorrowFigures, Segment};
use crate::ftl::map::table::{Entry, EntryKind};
use crate::ftl::state::{State, UnitLocation};
use crate::placement::Route;
use byteway_content::UNIT_BYTES;
use byteway_flash::Flash;

/// Commits everything that changed in a page while it was away, when it is loaded into a peer's DRAM.
pub(super) fn enter_segment(core: &Core, state: &mut State, frame: u32, route: Route) {
    let (Some(page), Some(number)) = (state.map.frames.page(frame), state.map.frames.segment(frame)) else {
        return;
    };
    let Some(mut segments) = state.map.segments.take() else { return };
    if let (Some(segment), Some(flash)) = (segments.get(number), core.flash.own()) {
        let Origin { is_void, .. } = state.map.frames.origin(frame);
        state.map.frames.set_origin(frame, Origin { since: segment.log.next(), is_void });
        if state.map.pages.is_dirty(page) {
            let flash_has = in_flash(core, state, flash, page, is_void);
            for record in differences(core, state, page, &flash_has) {
                segments.commit(number, record, route);
            }
        }
    }
    state.map.segments = Some(segments);
}

/// Entries of a page according to flash, or to the write buffer on its way there.
pub(super) fn in_flash(core: &Core, state: &State, flash: &Flash, page: u32, is_void: bool) -> Vec<Entry> {
    let (units, unit) = (state.map.pages.units(page), state.map.pages.unit(page));
    let count = (units.end - units.start) as usize;
    let content = match state.find_beneath(&core.base, unit) {
        _ if is_void => return vec![Entry::UNMAPPED; count],
        // The directory covers the page as a whole: nothing has changed, or all units are unmapped.
        UnitLocation::Nowhere => return vec![state.map.get(unit); count],
        UnitLocation::Buffered(content) => content,
        UnitLocation::Flash(ppa) | UnitLocation::Under(ppa, _) => flash.content(ppa),
    };
    let mut bytes = [0; UNIT_BYTES];
    content.write_to(&mut bytes);
    page::decode(&bytes, core.space, page).map(|(_, entry)| entry).collect()
}

/// Whether two entries of a unit are equivalent.
fn is_same(core: &Core, lpa: u64, one: Entry, other: Entry) -> bool {
    let is_nowhere = |entry: Entry| match entry.kind() {
        EntryKind::Base => core.base.find(lpa).is_none(),
        place => place == EntryKind::Unmapped,
    };
    one == other || is_nowhere(one) && is_nowhere(other)
}

/// Changes of a page relative to flash; deallocated units are combined.
fn differences(core: &Core, state: &State, page: u32, flash_has: &[Entry]) -> Vec<Record> {
    let mut records: Vec<Record> = Vec::new();
    for (unit, before) in state.map.pages.units(page).zip(flash_has) {
        let now = state.buffer.in_flash(state.map.get(unit));
        if is_same(core, unit, now, *before) {
            continue;
        }
        let Some(entry) = now.kept() else { continue }; // a buffered unit has no location in flash yet
        match records.last_mut() {
            Some(Record::Deallocated { first, count })
                if now == Entry::UNMAPPED && *first + *count == unit =>
            {
                *count += 1;
            }
            _ if now == Entry::UNMAPPED => records.push(Record::Deallocated { first: unit, count: 1 }),
            _ => records.push(Record::Moved { unit, entry }),
        }
    }
    records
}

/// Removes a segment that is lost with its lender, and recovers its pages.
pub(super) fn lose_segment(
    core: &Core,
    state: &mut State,
    flash: &Flash,
    segment: &Segment,
    figures: &mut BorrowFigures,
) {
    for frame in &segment.frames {
        let Some(page) = state.map.frames.page(*frame) else { continue };
        if state.map.frames.load(*frame).is_none() && state.map.pages.is_dirty(page) {
            figures.pages_recovered += 1;
            figures.records_replayed += recover_page(core, state, flash, page, *frame, segment);
        }
        state.map.pages.hold(page, false);
    }
    state.map.frames.drop_segment(&segment.frames);
}

/// Rebuilds the map of a page from flash's copy and the log. Returns the number of records replayed.
fn recover_page(
    core: &Core,
    state: &mut State,
    flash: &Flash,
    page: u32,
    frame: u32,
    segment: &Segment,
) -> u64 {
    let Origin { since, is_void } = state.map.frames.origin(frame);
    let since = if core.config.defect.has(Defect::ReplayOld) { 0 } else { since };
    let units = state.map.pages.units(page);
    let mut entries = in_flash(core, state, flash, page, is_void);
    let waiting = segment.waiting.range(units.clone());
    let waiting = waiting.map(|(unit, entry)| Record::Moved { unit: *unit, entry: *entry });
    let logged = redo::replay(segment.log.bytes());
    let logged = logged.filter(|(sequence, _)| *sequence >= since).map(|(_, record)| record);
    let mut replayed = 0;
    for record in logged.chain(waiting) {
        let (first, count) = record.units();
        let entry = match record {
            Record::Moved { entry, .. } => Entry::of_kept(entry),
            Record::Deallocated { .. } => Entry::UNMAPPED,
        };
        let covered = first.max(units.start)..first.saturating_add(count).min(units.end);
        replayed += u64::from(!covered.is_empty());
        for unit in covered {
            entries[(unit - units.start) as usize] = entry;
        }
    }
    set_entries(core, state, page, &entries);
    replayed
}

/// Sets the locations in flash of the units of a page.
pub(super) fn set_entries(core: &Core, state: &mut State, page: u32, entries: &[Entry]) {
    for (unit, entry) in state.map.pages.units(page).zip(entries) {
        let current = state.map.get(unit);
        if is_same(core, unit, state.buffer.in_flash(current), *entry) {
            continue;
        }
        match current.as_slot() {
            Some(slot) => state.buffer.set_in_flash(slot, *entry),
            None => state.map.rebuilt(unit, *entry),
        }
    }
}
