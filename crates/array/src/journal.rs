//! The journal of degraded stripes (level 5): what closes the write hole that no repair can.
//!
//! A stripe with a missing member can't be repaired after a power cut in the middle of a write: the missing chunk is what the
//! others and the parity say, and if only some of them are new that is garbage. So what is about to be written to such a
//! stripe is first made durable here, and after a power cut it is written again, whole. Entries lie one behind another on the
//! first active member; if that one fails as well, the array has lost data anyway. When there is no room for the next entry,
//! the entries are made superfluous by a flush, and a superblock that says from which number on they count.

use crate::config::{Canary, Level};
use crate::counters::Cause;
use crate::group::{Group, Verb};
use crate::inner::{Inner, Stopped};
use crate::superblock::SlotState;
use byteway_clock::{Clock, Notify, Semaphore, SpanId};
use byteway_wire::content::{Content, Keep, UNIT_BYTES};
use std::cell::Cell;

const MAGIC: [u8; 8] = *b"BytwyJrn";
const HEAD_BYTES: usize = 64;
const RUN_BYTES: usize = 16;
/// Runs of an entry, at most: of a stripe each member has two at most.
const RUNS_MAX: usize = (UNIT_BYTES - HEAD_BYTES) / RUN_BYTES;

/// Where the next entry goes, and which are being carried out.
pub(crate) struct Journal {
    turn: Semaphore,
    /// Units of the journal that are taken.
    taken: Cell<u64>,
    /// The next entry's number.
    pub(crate) next: Cell<u64>,
    /// The first that counts, as superblocks say.
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

    /// No stripe needs entries with numbers below this, to which those that are there may come: they are below what the superblocks
    /// said and the units of a journal, of which each takes several. Of entries that were written after the superblocks had given all
    /// up nothing else tells, on whichever member they are, and they must not be found when a stripe is degraded again.
    pub(crate) fn leave_behind(&self, number: u64) {
        self.next.set(self.next.get().max(number));
        self.forget();
    }

    /// No stripe needs the entries any more.
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
    /// The member that has the journal: the first active one, as the superblocks say. One whose rebuilding has just ended is not yet
    /// among them, and nothing would look for the journal there after a power cut.
    fn journal_slot(&self) -> Option<usize> {
        let slots = self.slots.borrow();
        let mut both = slots.states.iter().zip(&slots.durable);
        both.position(|(state, durable)| (*state, *durable) == (SlotState::Active, SlotState::Active))
    }

    /// Makes the writes of `group`, all of one stripe, durable in the journal. They are carried out then, before what this gives
    /// is dropped.
    pub(crate) async fn journal_entry(
        &self,
        span: SpanId,
        stripe: u64,
        group: &Group,
    ) -> Result<Option<Entry<'_>>, Stopped> {
        if self.config.canary == Some(Canary::NoJournal) || self.layout.level != Level::Raid5 {
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

    /// Makes all entries superfluous. The caller has the turn.
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

    /// Carries out again what the journal says of stripes that `states` can't repair, and gives its entries up.
    pub(crate) async fn replay(&self) {
        let Some(slot) = self.journal_slot() else { return };
        let group = self.group(SpanId::NONE, false);
        let (index, _) = group.add_read(slot, self.area.journal, self.area.journal_units);
        if !self.exchange(&group, Cause::Log).await {
            return; // the array is broken then
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
                continue; // it has been rebuilt since: its region's mark says whether it is to be repaired
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

/// An entry that was found: where what is written.
struct FoundEntry {
    number: u64,
    stripe: u64,
    /// Units that it takes, its head among them.
    units: usize,
    /// Slot, first unit, units.
    runs: Vec<(usize, u64, u64)>,
}

fn encode(inner: &Inner, number: u64, stripe: u64, group: &Group, contents: &mut Vec<Content>) {
    let mut head = [0; UNIT_BYTES];
    let pieces = group.pieces.borrow();
    let pieces = &pieces[..group.len()];
    assert!(pieces.len() <= RUNS_MAX, "of a stripe each member has two runs at most");
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

/// Over the array's name, the head and the data: what looks like an entry and is none has another.
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

/// The entry that `contents` begin with; none: there is none, or not all of it.
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
