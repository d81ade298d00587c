//! States of the members: persistence, and changes when a member fails.
//!
//! When a member fails, writes in flight end without it and new ones wait. The writes are flushed, units that
//! can no longer be reconstructed are marked as lost, and then the superblocks of the others record the
//! failure. Only then are writes acknowledged that the failed member missed: if it comes back, it is known to
//! be stale.
//!
//! When too many members fail, nothing more is written to any: a power cycle that brings them back restores
//! the array.

use crate::area::RECORD_UNITS;
use crate::config::{Defect, Level};
use crate::counters::Cause;
use crate::group::Verb;
use crate::inner::Inner;
use crate::layout::UnitLocation;
use crate::superblock::{SlotState, Superblock};
use byteway_clock::SpanId;
use byteway_content::{Content, Keep, UNIT_BYTES};
use std::rc::Rc;

/// Bytes of a record's head: number, length, checksum.
const RECORD_HEAD_BYTES: usize = 24;

impl Inner {
    /// The superblock of a member for these states.
    pub(crate) fn superblock(&self, slot: usize, states: &[SlotState]) -> Superblock {
        Superblock {
            uuid: self.config.uuid,
            level: self.config.level,
            chunk_units: self.config.chunk_units,
            member_units: self.member_units,
            data_units: self.area.data_units,
            slot: slot as u32,
            events: self.events.get(),
            journal_from: self.journal.from.get(),
            has_lost: !self.lost.borrow().is_empty(),
            slots: states.to_vec(),
            joined: self.joined.borrow().clone(),
        }
    }

    /// Writes the states to all present members; they are durable when this ends. Unrecorded failures are not
    /// included, and nothing is written of an array that has lost data.
    pub(crate) async fn write_superblocks(&self) {
        self.write_superblocks_with(&[]).await;
    }

    /// Like `write_superblocks`, including the failures in `taken`.
    async fn write_superblocks_with(&self, taken: &[(usize, SlotState)]) {
        let _turn = self.superblock_turn.acquire(1).await;
        let states = {
            let slots = self.slots.borrow();
            if slots.is_broken {
                return;
            }
            let mut states = slots.states.clone();
            // Rebuilding continues meanwhile: a power cut may undo what it has written since its last flush.
            for (state, flushed) in states.iter_mut().zip(&slots.flushed) {
                if let SlotState::Rebuilding { mark } = state {
                    *mark = *flushed;
                }
            }
            for (slot, before) in slots.failed.iter().filter(|failed| !taken.contains(failed)) {
                states[*slot] = *before;
            }
            states
        };
        self.events.set(self.events.get() + 1);
        let at = self.area.superblocks[(self.events.get() % 2) as usize];
        let group = self.group(SpanId::NONE, false);
        for slot in self.present() {
            let content = self.superblock(slot, &states).encode();
            group.add_write(slot, at, true, std::iter::once(content));
        }
        self.exchange(&group, Cause::Log).await;
        let mut slots = self.slots.borrow_mut();
        if !slots.is_broken {
            slots.durable = states;
        }
    }

    /// Flushes all present members.
    pub(crate) async fn flush_members(&self, span: SpanId) {
        let group = self.group(span, false);
        for slot in self.present() {
            group.add(slot, Verb::Flush, 0, 0, |_| ());
        }
        self.exchange(&group, Cause::Log).await;
    }

    /// Flushes the members. Rewritten lost units are known from then on, also after a power cut.
    pub(crate) async fn flush_all(&self, span: SpanId) {
        let written = self.lost.borrow().written();
        self.flush_members(span).await;
        if let Some(written) = written {
            self.lost.borrow_mut().settle(&written);
            self.write_lost().await;
        }
    }

    /// Writes the changed bitmaps of lost units, durably.
    pub(crate) async fn write_lost(&self) {
        let _turn = self.lost_turn.acquire(1).await;
        let changed = self.lost.borrow_mut().take_changed();
        self.write_lost_pages(&changed, &self.present()).await;
    }

    pub(crate) async fn write_lost_pages(&self, pages: &[(u64, Content)], slots: &[usize]) {
        if pages.is_empty() {
            return;
        }
        let group = self.group(SpanId::NONE, false);
        for slot in slots {
            for (page, content) in pages {
                group.add_write(*slot, self.area.lost + page, true, std::iter::once(content.clone()));
            }
        }
        self.exchange(&group, Cause::Log).await;
    }

    /// Marks units of a failed slot as lost that could be reconstructed only from untrusted parity.
    fn lose_what_is_unsynced(&self, slot: usize, before: SlotState) {
        if self.layout.level != Level::Raid5 || self.config.defect.has(Defect::NoLostMarks) {
            return;
        }
        let layout = &self.layout;
        for region in self.intents.unsynced() {
            let stripes = self.intents.stripes(region);
            for stripe in stripes.start..stripes.end.min(layout.stripes) {
                let column =
                    layout.column_of(stripe, slot).filter(|_| before.has(stripe) && self.is_unsynced(stripe));
                let Some(column) = column else { continue };
                for offset in 0..layout.chunk {
                    let unit = layout.unit(UnitLocation { stripe, column, offset });
                    self.lost.borrow_mut().lose(unit);
                }
            }
            // Without the member nothing is left to repair: its chunks are lost, and the others are as they
            // are.
            self.intents.synced(region);
        }
    }

    /// Whether copies or parity of a stripe may be wrong since a power cut.
    pub(crate) fn is_unsynced(&self, stripe: u64) -> bool {
        self.intents.is_unsynced(stripe) && stripe < self.unsynced_below.get()
    }

    /// Records failures: see the module documentation.
    async fn settle_failures(&self) {
        loop {
            while self.gate.in_flight.get() > 0 {
                self.gate.drained.notified().await;
            }
            let failed = {
                let mut slots = self.slots.borrow_mut();
                if slots.is_broken {
                    slots.failed.clear();
                }
                slots.failed.clone()
            };
            if failed.is_empty() {
                break;
            }
            failed.iter().for_each(|(slot, before)| self.lose_what_is_unsynced(*slot, *before));
            self.flush_members(SpanId::NONE).await;
            self.write_lost().await;
            self.write_superblocks_with(&failed).await;
            self.slots.borrow_mut().failed.retain(|one| !failed.contains(one));
        }
        self.gate.is_closed.set(false);
        self.gate.opened.notify_all();
        self.upkeep.notify_one();
    }

    /// Decodes the record; None if there is none.
    pub(crate) fn decode_record(contents: &[Content]) -> Option<(u64, Rc<[u8]>)> {
        let mut bytes = vec![0; contents.len() * UNIT_BYTES];
        for (content, into) in contents.iter().zip(bytes.chunks_exact_mut(UNIT_BYTES)) {
            content.write_to(into);
        }
        let (head, data) = bytes.split_at_checked(RECORD_HEAD_BYTES)?;
        let long = |at: usize| head[at..at + 8].try_into().map(u64::from_le_bytes).ok();
        let (number, length, sum) = (long(0)?, long(8)?, long(16)?);
        let data = data.get(..usize::try_from(length).ok()?)?;
        let is_whole = number > 0 && sum == u64::from(record_sum(number, data));
        is_whole.then(|| (number, data.into()))
    }

    /// Replaces the record on all members. Durable when this ends; until then the old record is.
    pub(crate) async fn write_record(&self, bytes: Rc<[u8]>, slots: &[usize]) {
        let number = self.record_number.get() + 1;
        self.record_number.set(number);
        let mut all = Vec::with_capacity(RECORD_HEAD_BYTES + bytes.len());
        all.extend_from_slice(&number.to_le_bytes());
        all.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
        all.extend_from_slice(&u64::from(record_sum(number, &bytes)).to_le_bytes());
        all.extend_from_slice(&bytes);
        all.resize(all.len().next_multiple_of(UNIT_BYTES), 0);
        assert!(all.len() <= RECORD_UNITS as usize * UNIT_BYTES, "a record is at most 128 KiB");
        self.record.replace(Some(bytes));
        let at = self.area.records[(number % 2) as usize];
        let units: Vec<Content> =
            all.chunks_exact(UNIT_BYTES).map(|unit| Content::of(unit, Keep::Bytes)).collect();
        let group = self.group(SpanId::NONE, false);
        for slot in slots {
            group.add_write(*slot, at, true, units.iter().cloned());
        }
        self.exchange(&group, Cause::Log).await;
    }
}

fn record_sum(number: u64, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&number.to_le_bytes()), bytes)
}

/// The task that records failures, one after another.
pub(crate) async fn run(inner: Rc<Inner>) {
    loop {
        inner.gate.failed.notified().await;
        if inner.gate.is_closed.get() {
            inner.settle_failures().await;
        }
    }
}
