//! Counters of an array.

use std::cell::Cell;

/// Purpose of a read or write of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Cause {
    /// Host reads and writes, including the writes of all mirrors.
    Data,
    /// Reads for computing parity or from parity (old data, old parity, the rest of a stripe), and writes of
    /// parity.
    Parity,
    /// Making copies and parity consistent after a power cut, and writing back recovered units.
    Repair,
    /// Rebuilding a member.
    Rebuild,
    /// Superblocks, write-intent log, journal, record, bitmaps of lost units.
    Log,
}

impl Cause {
    /// All purposes, in report order.
    pub const ALL: [Cause; 5] = [Cause::Data, Cause::Parity, Cause::Repair, Cause::Rebuild, Cause::Log];

    /// Name of the purpose in reports.
    pub fn name(self) -> &'static str {
        match self {
            Cause::Data => "data",
            Cause::Parity => "parity",
            Cause::Repair => "repair",
            Cause::Rebuild => "rebuild",
            Cause::Log => "log",
        }
    }
}

/// Commands sent to members for one purpose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Reads.
    pub reads: u64,
    /// Units of these reads.
    pub units_read: u64,
    /// Writes.
    pub writes: u64,
    /// Units of these writes; part of a unit counts as one.
    pub units_written: u64,
    /// Bytes of these writes.
    pub bytes_written: u64,
}

/// Counters of an array.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArrayCounters {
    /// Traffic by [`Cause`].
    pub traffic: [Traffic; Cause::ALL.len()],
    /// Units read by hosts.
    pub user_units_read: u64,
    /// Units written by hosts.
    pub user_units_written: u64,
    /// Units XORed into others.
    pub units_xored: u64,
    /// Flushes sent to members.
    pub flushes: u64,
    /// Read-modify-writes: parity updates that read the old data and the old parity.
    pub read_modify_writes: u64,
    /// Reconstruct-writes: parity updates that read the rest of the stripe.
    pub reconstruct_writes: u64,
    /// Stripes written as a whole.
    pub full_stripes: u64,
    /// Units computed because their member is missing or cannot read them.
    pub units_reconstructed: u64,
    /// Units that a member could not read and that were written back.
    pub units_written_back: u64,
    /// Units that neither a member nor the rest of the stripe could provide.
    pub units_unreadable: u64,
    /// Stripes with wrong copies or parity in the check after a power cut.
    pub stripes_repaired: u64,
    /// Journal entries written.
    pub journal_entries: u64,
    /// Journal entries replayed at assembly.
    pub journal_replayed: u64,
    /// Failed members.
    pub members_failed: u64,
}

impl ArrayCounters {
    /// Traffic for one purpose.
    pub fn of(&self, cause: Cause) -> Traffic {
        self.traffic[cause as usize]
    }

    /// Bytes written to members for all purposes.
    pub fn bytes_written(&self) -> u64 {
        self.traffic.iter().map(|traffic| traffic.bytes_written).sum()
    }
}

/// Counters in a cell.
#[derive(Default)]
pub(crate) struct Counting(Cell<ArrayCounters>);

impl Counting {
    pub(crate) fn get(&self) -> ArrayCounters {
        self.0.get()
    }

    #[inline]
    pub(crate) fn count(&self, count: impl FnOnce(&mut ArrayCounters)) {
        let mut counters = self.0.get();
        count(&mut counters);
        self.0.set(counters);
    }
}
