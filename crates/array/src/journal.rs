//! The journal of degraded stripes (level 5), which closes the write hole that repair cannot.
//!
//! A stripe with a missing member cannot be repaired after a power cut during a write: its missing chunk is
//! defined by the other chunks and the parity, and if only some of these are new, it is garbage. So a write
//! to such a stripe is first made durable here, and written again as a whole after a power cut. Entries lie
//! one after the other on the first active member; if that one fails as well, the array has lost data anyway.
//! When the next entry does not fit, a flush, and a superblock with the number of the first valid entry, make
//! the old entries obsolete.
//!
//! One member, not all: an entry is needed only while all others are there, so a copy would never be read. And whole
//! contents, not the change of the parity: that could be applied only if it were known which of the writes have
//! happened, which is what a power cut hides.

use crate::group::Group;
use byteway_clock::{Clock, Notify, Permit, Semaphore};
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
    next: Cell<u64>,
    /// Number of the first valid entry, according to the superblocks.
    from: Cell<u64>,
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
        debug_assert!(self.from.get() <= self.next.get(), "entries are obsolete that were never numbered");
        self.from.set(self.next.get());
    }

    /// Number of the first valid entry, according to the superblocks.
    pub(crate) fn from(&self) -> u64 {
        self.from.get()
    }

    /// Takes over the number of the first valid entry from the superblocks.
    pub(crate) fn restore(&self, from: u64) {
        debug_assert_eq!(self.taken.get(), 0, "an entry was written before the journal was known");
        self.from.set(from);
        self.next.set(from);
    }

    /// An entry was found on the member: the next one has a greater number.
    pub(crate) fn pass(&self, number: u64) {
        self.next.set(number + 1);
    }

    /// Waits for the turn to begin an entry.
    pub(crate) async fn turn(&self) -> Permit {
        self.turn.acquire(1).await
    }

    /// Whether `units` more fit into a journal of `units_max`.
    pub(crate) fn fits(&self, units: u64, units_max: u64) -> bool {
        self.taken.get() + units <= units_max
    }

    /// Begins an entry of `units`, which fit. Returns it, its number, and its offset in the journal. The caller has the
    /// turn.
    pub(crate) fn begin(&self, units: u64) -> (Entry<'_>, u64, u64) {
        let (number, at) = (self.next.get(), self.taken.get());
        debug_assert!(number >= self.from.get(), "an entry would be obsolete when it is written");
        self.taken.set(at + units);
        self.next.set(number + 1);
        self.in_flight.set(self.in_flight.get() + 1);
        (Entry(self), number, at)
    }

    /// Waits until the writes of all entries have ended. The caller has the turn.
    pub(crate) async fn drain(&self) {
        while self.in_flight.get() > 0 {
            self.done.notified().await;
        }
    }

    /// Begins again at the start: the superblocks say that all entries are obsolete.
    pub(crate) fn rewind(&self) {
        debug_assert_eq!(self.in_flight.get(), 0, "an entry is overwritten while its writes are in flight");
        debug_assert_eq!(self.from.get(), self.next.get(), "an entry is overwritten that is still valid");
        self.taken.set(0);
    }
}

/// An entry whose writes are in flight, until dropped.
pub(crate) struct Entry<'a>(&'a Journal);

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        debug_assert!(self.0.in_flight.get() > 0, "an entry ends that has not begun");
        self.0.in_flight.set(self.0.in_flight.get() - 1);
        self.0.done.notify_all();
    }
}

/// A decoded entry, without its data.
pub(crate) struct FoundEntry {
    pub(crate) number: u64,
    pub(crate) stripe: u64,
    /// Units of the entry, including its head.
    pub(crate) units: usize,
    /// Slot, first unit, units.
    pub(crate) runs: Vec<(usize, u64, u64)>,
}

/// What entries of an array are held against when they are decoded.
pub(crate) struct Form<'a> {
    pub(crate) uuid: &'a [u8; 16],
    pub(crate) members: usize,
    pub(crate) data_units: u64,
}

/// Encodes an entry: a head, then the contents of the group's writes.
pub(crate) fn encode(uuid: &[u8; 16], number: u64, stripe: u64, group: &Group, contents: &mut Vec<Content>) {
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
    let sum = checksum(uuid, &head, &contents[1..]);
    head[8..12].copy_from_slice(&sum.to_le_bytes());
    contents[0] = Content::of(&head, Keep::Bytes);
}

/// Checksum over the array's identity, the head and the data. It rejects anything that only looks like an
/// entry.
fn checksum(uuid: &[u8; 16], head: &[u8; UNIT_BYTES], contents: &[Content]) -> u32 {
    let mut sum = crc32c::crc32c(uuid);
    sum = crc32c::crc32c_append(sum, &head[16..]);
    let mut unit = [0; UNIT_BYTES];
    for content in contents {
        content.write_to(&mut unit);
        sum = crc32c::crc32c_append(sum, &unit);
    }
    sum
}

/// Decodes the entry at the start of `contents`; `None` if there is none or it is incomplete.
pub(crate) fn decode(form: &Form<'_>, contents: &[Content]) -> Option<FoundEntry> {
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
        *slot < form.members && end.is_some_and(|end| end <= form.data_units)
    };
    let units = 1 + runs.iter().map(|run| run.2).sum::<u64>() as usize;
    let data = contents.get(1..units)?;
    let is_whole = runs.iter().all(is_within) && word(8) == checksum(form.uuid, &head, data);
    is_whole.then(|| FoundEntry { number: long(16), stripe: long(24), units, runs })
}
