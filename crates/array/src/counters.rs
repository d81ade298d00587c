//! What an array counts.

use std::cell::Cell;

/// Why a member is read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Cause {
    /// What hosts read and write: with mirrors every copy that is written.
    Data,
    /// To compute parity, or from parity: old data, old parity, the rest of a stripe; and the parity that is written.
    Parity,
    /// Copies and parity that are made to agree after a power cut, and units that are written back.
    Repair,
    /// The new member.
    Rebuild,
    /// Superblocks, the write-intent log, the journal, the record, marks of lost units.
    Log,
}

impl Cause {
    /// All, in the order in which they are reported.
    pub const ALL: [Cause; 5] = [Cause::Data, Cause::Parity, Cause::Repair, Cause::Rebuild, Cause::Log];

    /// Its name in reports.
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

/// What was sent to members for one cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Reads.
    pub reads: u64,
    /// Units that they are of.
    pub units_read: u64,
    /// Writes.
    pub writes: u64,
    /// Units that they are of; a part of a unit counts as one.
    pub units_written: u64,
    /// Bytes that they are of.
    pub bytes_written: u64,
}

/// What an array has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArrayCounters {
    /// By [`Cause`].
    pub traffic: [Traffic; Cause::ALL.len()],
    /// Units that hosts read and wrote.
    pub user_units_read: u64,
    /// See there.
    pub user_units_written: u64,
    /// Units that were XORed into others.
    pub units_xored: u64,
    /// Flushes that were sent to members.
    pub flushes: u64,
    /// Writes of parity that read the old data and the old parity.
    pub read_modify_writes: u64,
    /// Those that read the rest of the stripe.
    pub reconstruct_writes: u64,
    /// Stripes that were written whole.
    pub full_stripes: u64,
    /// Units that were computed because their member is gone or can't give them.
    pub units_reconstructed: u64,
    /// Units that a member could not give and that were written back.
    pub units_written_back: u64,
    /// Units that neither a member nor the rest of the stripe could give.
    pub units_unreadable: u64,
    /// Stripes whose copies or parity were wrong when they were checked after a power cut.
    pub stripes_repaired: u64,
    /// Entries of the journal that were written.
    pub journal_entries: u64,
    /// Of those, how many were carried out again at assembly.
    pub journal_replayed: u64,
    /// Members that have failed.
    pub members_failed: u64,
}

impl ArrayCounters {
    /// Of one cause.
    pub fn of(&self, cause: Cause) -> Traffic {
        self.traffic[cause as usize]
    }

    /// Bytes written to members, whatever for.
    pub fn bytes_written(&self) -> u64 {
        self.traffic.iter().map(|traffic| traffic.bytes_written).sum()
    }
}

/// Counters that are being counted.
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
