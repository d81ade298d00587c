//! Spans: which resource each picosecond of an I/O is charged to.
//!
//! Whoever holds an I/O calls [`Spans::charge`] after each wait; the time since the last charge goes to one stage,
//! so the stages of an I/O sum to its latency by construction.

use crate::time::{Delay, Time};
use std::cell::RefCell;

/// What time is charged to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Stage {
    /// The host's software: building, submitting, reaping.
    Host,
    /// From the doorbell's store to the beginning of the fetch, with all waiting for the turn, a slot and room.
    Doorbell,
    /// Fetching the submission queue entry.
    Fetch,
    /// Data, lists and completions on the link.
    Link,
    /// The drive's processor cores.
    Firmware,
    /// The drive's DRAM.
    Dram,
    /// Sensing, programming, erasing, and the transfer on the channel.
    Flash,
    /// A network between host and drive.
    Fabric,
    /// Waiting for any of these while others use it.
    Queueing,
}

impl Stage {
    /// All, in the order in which they are reported.
    pub const ALL: [Stage; 9] = [
        Stage::Host,
        Stage::Doorbell,
        Stage::Fetch,
        Stage::Link,
        Stage::Firmware,
        Stage::Dram,
        Stage::Flash,
        Stage::Fabric,
        Stage::Queueing,
    ];

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Host => "host",
            Stage::Doorbell => "doorbell",
            Stage::Fetch => "fetch",
            Stage::Link => "link",
            Stage::Firmware => "firmware",
            Stage::Dram => "dram",
            Stage::Flash => "flash",
            Stage::Fabric => "fabric",
            Stage::Queueing => "queueing",
        }
    }
}

/// An I/O that is being followed; [`SpanId::NONE`] is not, nor is one that was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SpanId {
    index: u32,
    generation: u32,
}

impl SpanId {
    /// Nobody follows: charges to it are ignored.
    pub const NONE: SpanId = SpanId { index: u32::MAX, generation: 0 };
}

/// Where an I/O's time went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpanRecord {
    /// When it began.
    pub begin: Time,
    /// When it was last charged.
    pub last: Time,
    /// Time by [`Stage`].
    pub stages: [Delay; Stage::ALL.len()],
}

impl SpanRecord {
    /// Time charged to `stage`.
    pub fn stage(&self, stage: Stage) -> Delay {
        self.stages[stage as usize]
    }
}

struct Entry {
    record: SpanRecord,
    /// Counts the I/Os that had this entry: whoever still holds the id of an aborted one mustn't charge the next.
    generation: u32,
}

#[derive(Default)]
struct Table {
    entries: Vec<Entry>,
    free: Vec<u32>,
}

impl Table {
    fn entry(&mut self, id: SpanId) -> Option<&mut Entry> {
        self.entries.get_mut(id.index as usize).filter(|entry| entry.generation == id.generation)
    }
}

/// The I/Os that are being followed. Entries are reused.
#[derive(Default)]
pub struct Spans(RefCell<Table>);

impl Spans {
    /// Begins to follow an I/O at `now`.
    pub fn open(&self, now: Time) -> SpanId {
        let mut table = self.0.borrow_mut();
        let record = SpanRecord { begin: now, last: now, ..Default::default() };
        match table.free.pop() {
            Some(index) => {
                let entry = &mut table.entries[index as usize];
                entry.record = record;
                SpanId { index, generation: entry.generation }
            }
            None => {
                table.entries.push(Entry { record, generation: 0 });
                SpanId { index: (table.entries.len() - 1) as u32, generation: 0 }
            }
        }
    }

    /// Charges the time since the last charge to `stage`.
    pub fn charge(&self, id: SpanId, now: Time, stage: Stage) {
        self.charge_split(id, now, Delay::ZERO, stage);
    }

    /// The same, of which up to `queued` was waiting behind others.
    pub fn charge_split(&self, id: SpanId, now: Time, queued: Delay, stage: Stage) {
        let mut table = self.0.borrow_mut();
        let Some(Entry { record, .. }) = table.entry(id) else { return };
        let passed = now.since(record.last);
        let queued = queued.min(passed);
        record.stages[Stage::Queueing as usize] += queued;
        record.stages[stage as usize] += passed - queued;
        record.last = now.max(record.last);
    }

    /// Ends it and gives its record; an empty one if nobody follows it.
    pub fn close(&self, id: SpanId) -> SpanRecord {
        let mut table = self.0.borrow_mut();
        let Some(entry) = table.entry(id) else { return SpanRecord::default() };
        entry.generation = entry.generation.wrapping_add(1);
        let record = entry.record;
        table.free.push(id.index);
        record
    }
}
