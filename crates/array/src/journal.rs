//! The journal of degraded stripes (level 5), which closes the write hole that repair cannot.
//!
//! A stripe with a missing member cannot be repaired after a power cut during a write: its missing chunk is
//! defined by the other chunks and the parity, and if only some of these are new, it is garbage. So a write
//! to such a stripe is first made durable here, and written again as a whole after a power cut. Entries lie
//! one after the other on the first active member; if that one fails as well, the array has lost data anyway.
//! When the next entry does not fit, a flush, and a superblock with the number of the first valid entry, make
//! the old entries obsolete.

use crate::config::{Defect, Level};
use crate::counters::Cause;
use crate::group::{Group, Verb};
use crate::inner::{Inner, Stopped};
use crate::superblock::SlotState;
use byteway_clock::{Clock, Notify, Semaphore, SpanId};
use byteway_content::{Content, Keep, UNIT_BYTES};
use std::cell::Cell;

const MAGIC: [u8; 8] = *b"BytwyJrn";
const HEAD_BYTES: usize = 64;
const RUN_BYTES: usize = 16;
/// Maximum runs of an entry: each member has at most two in a stripe.
const RUNS_MAX: usize = (UNIT_BYTES - HEAD_BYTES) / RUN_BYTES;

/// Position of the next entry, and the entries in progress.
pub(crate) struct Journal {
    turn: Semaphore,
    /// Units of the journal in use.
    taken: Cell<u64>,
    /// Number of the next entry.
    pub(crate) next: Cell<u64>,
    /// Number of the first valid entry, according to the superblocks.
    pub(crate) from: Cell<u64>,
    in_flight: Cell<u32>,
    done: Notify,
}

impl Journal {
    pub(crate) fn new(clock: &Clock) -> Self {
        Journal {
            turn: Semaphore::new(clock, 1),
            taken: Cell::new(0),
            next: Cell::new(1),
            from: Cell::new(1),
            in_flight: Cell::new(0),
            done: Notify::new(clock),
        }
    }

    /// Numbers further entries from `number` on, and empties the journal: no stripe needs an entry with a
    /// lower number. `number` is the one in the superblocks plus the units of a journal, of which each entry
    /// takes several, because entries may have been written after the superblocks released all of them.
    /// Nothing else identifies those, on whichever member they are, and they must not be replayed when a
    /// stripe is degraded again.
    pub(crate) fn leave_behind(&self, number: u64) {
        self.next.set(self.next.get().max(number));
        self.forget();
    }

    /// Empties the journal: no stripe needs the entries any more.
    pub(crate) fn forget(&self) {
        self.from.set(self.next.get());
    }
}

/// An entry whose writes are in flight, until dropped.
pub(crate) struct Entry<'a>(&'a Journal);

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        self.0.in_flight.set(self.0.in_flight.get() - 1);
        self.0.done.notify_all();
    }
}

impl Inner {
    /// The member that holds the journal: the first active one according to the superblocks. A member whose
    /// rebuild has just ended is not among these yet, and a power cut would leave its journal unnoticed.
    fn journal_slot(&self) -> Option<usize> {
        let slots = self.slots.borrow();
        let mut both = slots.states.iter().zip(&slots.durable);
        both.position(|(state, durable)| (*state, *durable) == (SlotState::Active, SlotState::Active))
    }

    /// Makes the writes of `group`, all of one stripe, durable in the journal. They must then be carried out
    /// before the result is dropped.
    pub(crate) async fn journal_entry(
        &self,
        span: SpanId,
        stripe: u64,
        group: &Group,
    ) -> Result<Option<Entry<'_>>, Stopped> {
        if self.config.defect.has(Defect::NoJournal) || self.layout.level != Level::Raid5 {
            return Ok(None);
        }
        let journal = &self.journal;
        let units = 1 + group.pieces.borrow()[..group.len()].iter().map(|piece| piece.count).sum::<u64>();
        let turn = journal.turn.acquire(1).await;
        if journal.taken.get() + units > self.area.journal_units {
            self.empty_journal().await?;
        }
        let at = self.area.journal + journal.taken.get();
        journal.taken.set(journal.taken.get() + units);
        let number = journal.next.get();
        journal.next.set(number + 1);
        journal.in_flight.set(journal.in_flight.get() + 1);
        let entry = Entry(journal);
        drop(turn);
        let slot = self.journal_slot().ok_or(Stopped::Broken)?;
        debug_assert!(
            group.pieces.borrow()[..group.len()]
                .iter()
                .all(|piece| piece.first / self.layout.chunk == stripe),
            "an entry is of one stripe"
        );
        let log = self.group(span, false);
        log.add(slot, Verb::Write(true), at, units, |contents| encode(self, number, stripe, group, contents));
        self.exchange(&log, Cause::Log).await;
        self.counting.count(|counters| counters.journal_entries += 1);
        if self.is_broken() { Err(Stopped::Broken) } else { Ok(Some(entry)) }
    }

    /// Makes all entries obsolete. The caller has the turn.
    async fn empty_journal(&self) -> Result<(), Stopped> {
        let journal = &self.journal;
        while journal.in_flight.get() > 0 {
            journal.done.notified().await;
        }
        self.flush_members(SpanId::NONE).await;
        journal.forget();
        self.write_superblocks().await;
        journal.taken.set(0);
        if self.is_broken() { Err(Stopped::Broken) } else { Ok(()) }
    }

    /// Replays the journaled writes of stripes that `states` cannot repair, and empties the journal.
    pub(crate) async fn replay(&self) {
        let Some(slot) = self.journal_slot() else { return };
        let group = self.group(SpanId::NONE, false);
        let (index, _) = group.add_read(slot, self.area.journal, self.area.journal_units);
        if !self.exchange(&group, Cause::Log).await {
            return; // only if the array is broken
        }
        let mut contents = Vec::new();
        group.take(index, 0, self.area.journal_units as usize, |_, content| contents.push(content));
        drop(group);
        let mut entries = Vec::new();
        let mut at = 0;
        while at < contents.len() {
            let entry = decode(self, &contents[at..]).filter(|entry| entry.number >= self.journal.from.get());
            at += entry.as_ref().map_or(1, |entry| entry.units);
            if let Some(entry) = entry {
                entries.push((entry, at));
            }
        }
        entries.sort_by_key(|(entry, _)| entry.number);
        for (entry, end) in &entries {
            self.journal.next.set(entry.number + 1);
            if !self.is_degraded(entry.stripe) {
                continue; // rebuilt since: its region's mark decides about repair
            }
            let group = self.group(SpanId::NONE, false);
            let mut from = end - entry.units + 1;
            for (slot, first, count) in &entry.runs {
                let run = &contents[from..from + *count as usize];
                if self.has(*slot, entry.stripe) {
                    group.add_write(*slot, *first, false, run.iter().cloned());
                }
                from += *count as usize;
            }
            self.exchange(&group, Cause::Repair).await;
            self.counting.count(|counters| counters.journal_replayed += 1);
        }
        self.flush_members(SpanId::NONE).await;
        self.journal.forget();
    }
}

/// A decoded entry, without its data.
struct FoundEntry {
    number: u64,
    stripe: u64,
    /// Units of the entry, including its head.
    units: usize,
    /// Slot, first unit, units.
    runs: Vec<(usize, u64, u64)>,
}

fn encode(inner: &Inner, number: u64, stripe: u64, group: &Group, contents: &mut Vec<Content>) {
    let mut head = [0; UNIT_BYTES];
    let pieces = group.pieces.borrow();
    let pieces = &pieces[..group.len()];
    assert!(pieces.len() <= RUNS_MAX, "each member has at most two runs in a stripe");
    head[..8].copy_from_slice(&MAGIC);
    head[16..24].copy_from_slice(&number.to_le_bytes());
    head[24..32].copy_from_slice(&stripe.to_le_bytes());
    head[32..36].copy_from_slice(&(pieces.len() as u32).to_le_bytes());
    contents.push(Content::Zero);
    for (index, piece) in pieces.iter().enumerate() {
        let run = &mut head[HEAD_BYTES + index * RUN_BYTES..][..RUN_BYTES];
        run[..8].copy_from_slice(&piece.first.to_le_bytes());
        run[8..12].copy_from_slice(&(piece.count as u32).to_le_bytes());
        run[12..].copy_from_slice(&(piece.slot as u32).to_le_bytes());
        contents.extend_from_slice(&piece.contents);
    }
    let sum = checksum(inner, &head, &contents[1..]);
    head[8..12].copy_from_slice(&sum.to_le_bytes());
    contents[0] = Content::of(&head, Keep::Bytes);
}

/// Checksum over the array's identity, the head and the data. It rejects anything that only looks like an
/// entry.
fn checksum(inner: &Inner, head: &[u8; UNIT_BYTES], contents: &[Content]) -> u32 {
    let mut sum = crc32c::crc32c(&inner.config.uuid);
    sum = crc32c::crc32c_append(sum, &head[16..]);
    let mut unit = [0; UNIT_BYTES];
    for content in contents {
        content.write_to(&mut unit);
        sum = crc32c::crc32c_append(sum, &unit);
    }
    sum
}

/// Decodes the entry at the start of `contents`; `None` if there is none or it is incomplete.
fn decode(inner: &Inner, contents: &[Content]) -> Option<FoundEntry> {
    let first = contents.first()?;
    let mut head = [0; UNIT_BYTES];
    first.write_to(&mut head);
    if head[..8] != MAGIC {
        return None;
    }
    let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
    let count = word(32) as usize;
    if count > RUNS_MAX {
        return None;
    }
    let run = |index: usize| {
        let at = HEAD_BYTES + index * RUN_BYTES;
        (word(at + 12) as usize, long(at), u64::from(word(at + 8)))
    };
    let runs: Vec<(usize, u64, u64)> = (0..count).map(run).collect();
    let is_within = |(slot, first, count): &(usize, u64, u64)| {
        let end = first.checked_add(*count);
        *slot < inner.layout.members && end.is_some_and(|end| end <= inner.area.data_units)
    };
    let units = 1 + runs.iter().map(|run| run.2).sum::<u64>() as usize;
    let data = contents.get(1..units)?;
    let is_whole = runs.iter().all(is_within) && word(8) == checksum(inner, &head, data);
    is_whole.then(|| FoundEntry { number: long(16), stripe: long(24), units, runs })
}
