//! What a page of the map is when the peer is gone in whose DRAM it lay: what flash has of it, with what the log of its segment says over
//! that. And what is to be committed when a page comes there that has changed while it was away.
//!
//! The simulator knows the map all the same. It is made anew here of bytes alone, and set to that, so that a record too few, or one too
//! many, shows as another state of a unit.

use crate::ftl::config::Canary;
use crate::ftl::inner::{Found, Inner, State};
use crate::ftl::map::frames::Origin;
use crate::ftl::map::page;
use crate::ftl::map::redo::{self, Record};
use crate::ftl::map::segments::{BorrowFigures, Segment};
use crate::ftl::map::table::{Entry, Place};
use crate::placement::Route;
use byteway_flash::Flash;
use byteway_wire::content::UNIT_BYTES;

impl Inner {
    /// A frame in a peer's DRAM has its page now, with everything that has changed in it while it was away: that is committed.
    pub(super) fn enter_segment(&self, state: &mut State, frame: u32, route: Route) {
        let (Some(page), Some(number)) = (state.map.frames.page(frame), state.map.frames.segment(frame))
        else {
            return;
        };
        let Some(mut segments) = state.map.segments.take() else { return };
        if let (Some(segment), Some(flash)) = (segments.get(number), self.flash.own()) {
            let Origin { is_void, .. } = state.map.frames.origin(frame);
            state.map.frames.set_origin(frame, Origin { since: segment.log.next(), is_void });
            if state.map.pages.is_dirty(page) {
                let flash_has = self.in_flash(state, flash, page, is_void);
                for record in self.differences(state, page, &flash_has) {
                    segments.commit(number, record, route);
                }
            }
        }
        state.map.segments = Some(segments);
    }

    /// What flash, or the write buffer on its way there, says of the units of a page.
    pub(super) fn in_flash(&self, state: &State, flash: &Flash, page: u32, is_void: bool) -> Vec<Entry> {
        let (units, unit) = (state.map.pages.units(page), state.map.pages.unit(page));
        let count = (units.end - units.start) as usize;
        let content = match state.find_beneath(&self.base, unit) {
            _ if is_void => return vec![Entry::UNMAPPED; count],
            // The directory says of all of them what it says of the page: nothing has changed, or they are nowhere.
            Found::Nowhere => return vec![state.map.table.get(unit); count],
            Found::Buffered(content) => content,
            Found::Flash(ppa) | Found::Under(ppa, _) => flash.content(ppa),
        };
        let mut bytes = [0; UNIT_BYTES];
        content.write_to(&mut bytes);
        page::decode(&bytes, self.space, page).map(|(_, entry)| entry).collect()
    }

    /// Whether two entries of a unit lead to the same.
    fn is_same(&self, lpa: u64, one: Entry, other: Entry) -> bool {
        let is_nowhere = |entry: Entry| match entry.place() {
            Place::Base => self.base.find(lpa).is_none(),
            place => place == Place::Unmapped,
        };
        one == other || is_nowhere(one) && is_nowhere(other)
    }

    /// What has changed in a page against what flash has of it: deallocated units together.
    fn differences(&self, state: &State, page: u32, flash_has: &[Entry]) -> Vec<Record> {
        let mut records: Vec<Record> = Vec::new();
        for (unit, before) in state.map.pages.units(page).zip(flash_has) {
            let now = state.buffer.in_flash(state.map.table.get(unit));
            if self.is_same(unit, now, *before) {
                continue;
            }
            let Some(entry) = now.kept() else { continue }; // flash has no unit in a slot
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

    /// A segment is gone with its lender.
    pub(super) fn lose_segment(
        &self,
        state: &mut State,
        flash: &Flash,
        segment: &Segment,
        figures: &mut BorrowFigures,
    ) {
        for frame in &segment.frames {
            let Some(page) = state.map.frames.page(*frame) else { continue };
            if state.map.frames.load(*frame).is_none() && state.map.pages.is_dirty(page) {
                figures.pages_recovered += 1;
                figures.records_replayed += self.recover_page(state, flash, page, *frame, segment);
            }
            state.map.pages.hold(page, false);
        }
        state.map.frames.drop_segment(&segment.frames);
    }

    /// Makes the map of a page anew, of what flash has and what the log says. Gives how many records that takes.
    fn recover_page(
        &self,
        state: &mut State,
        flash: &Flash,
        page: u32,
        frame: u32,
        segment: &Segment,
    ) -> u64 {
        let Origin { since, is_void } = state.map.frames.origin(frame);
        let since = if self.config.canary == Some(Canary::ReplayOld) { 0 } else { since };
        let units = state.map.pages.units(page);
        let mut entries = self.in_flash(state, flash, page, is_void);
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
        self.set_entries(state, page, &entries);
        replayed
    }

    /// The map says from now on that flash has the units of a page where these entries say.
    pub(super) fn set_entries(&self, state: &mut State, page: u32, entries: &[Entry]) {
        for (unit, entry) in state.map.pages.units(page).zip(entries) {
            let current = state.map.table.get(unit);
            if self.is_same(unit, state.buffer.in_flash(current), *entry) {
                continue;
            }
            match current.as_slot() {
                Some(slot) => state.buffer.slot_mut(slot).old = *entry,
                None => state.map.table.set(unit, *entry),
            }
        }
    }
}
