//! What is asked of a drive, and what goes wrong.

use serde::{Deserialize, Serialize};

/// Blocks in a row, from the first one on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The first.
    pub lba: u64,
    /// How many.
    pub blocks: u32,
}

/// When a value is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreWhen {
    /// Always.
    Always,
    /// If there is such a key.
    Exists,
    /// If there is none.
    Absent,
}

/// What a worker does. Namespaces are counted from 1 in the order of their identifiers: those that hold blocks if the
/// operation is about blocks, those that hold pairs if it is about pairs, or else all of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Op {
    /// Write, with Force Unit Access or without.
    Write {
        /// Where.
        namespace: u32,
        /// What.
        extent: Extent,
        /// With Force Unit Access.
        fua: bool,
    },
    /// Read and verify.
    Read {
        /// Where.
        namespace: u32,
        /// What.
        extent: Extent,
    },
    /// Compare with what must be there.
    Compare {
        /// Where.
        namespace: u32,
        /// What.
        extent: Extent,
    },
    /// Compare and Write, fused.
    Exchange {
        /// Where.
        namespace: u32,
        /// What.
        extent: Extent,
        /// What is compared differs, so that nothing may be written.
        wrong: bool,
    },
    /// Write Zeroes.
    Zeroes {
        /// Where.
        namespace: u32,
        /// What.
        extent: Extent,
        /// With leave to deallocate.
        deallocate: bool,
    },
    /// Deallocate.
    Trim {
        /// Where.
        namespace: u32,
        /// Ranges, at least one.
        extents: Vec<Extent>,
    },
    /// Flush.
    Flush {
        /// Of what.
        namespace: u32,
    },
    /// Verify: the drive reads it, and gives none of it.
    Verify {
        /// Where.
        namespace: u32,
        /// What.
        extent: Extent,
    },
    /// Write Uncorrectable.
    Mar {
        /// Where.
        namespace: u32,
        /// What.
        extent: Extent,
    },
    /// Copy.
    Copy {
        /// Where.
        namespace: u32,
        /// The first block of the destination.
        to: u64,
        /// What is copied.
        extents: Vec<Extent>,
    },
    /// Format a namespace.
    Format {
        /// Which.
        namespace: u32,
        /// With blocks of so many bytes.
        block: u32,
    },
    /// Create a namespace and attach it, if there is room.
    Create {
        /// Of so many units of 4 KiB.
        units: u64,
        /// With blocks of so many bytes.
        block: u32,
        /// For pairs.
        pairs: bool,
    },
    /// Delete a namespace, unless it is the last one.
    Delete {
        /// Which.
        namespace: u32,
    },
    /// Store a value.
    Store {
        /// Where.
        namespace: u32,
        /// The key's number.
        key: u32,
        /// Of so many bytes.
        bytes: u32,
        /// When.
        when: StoreWhen,
    },
    /// Retrieve a value and verify it.
    Retrieve {
        /// Where.
        namespace: u32,
        /// The key's number.
        key: u32,
    },
    /// Delete a pair.
    Remove {
        /// Where.
        namespace: u32,
        /// The key's number.
        key: u32,
    },
    /// Ask whether there is a pair.
    Exist {
        /// Where.
        namespace: u32,
        /// The key's number.
        key: u32,
    },
    /// List keys.
    List {
        /// Where.
        namespace: u32,
        /// From this key's place on.
        key: u32,
    },
    /// Go over some pairs with an iterator.
    Scan {
        /// Where.
        namespace: u32,
        /// From this key's place on.
        key: u32,
    },
    /// Sanitize by block erase, and wait until it is done.
    Sanitize,
    /// Nothing, for so many microseconds.
    Pause(u64),
}

/// Where in a run something happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Anchor {
    /// When this operation is begun; None: at power-on.
    pub op: Option<usize>,
    /// So much later: polls for a cut, microseconds for everything else.
    pub later: u64,
}

/// What goes wrong.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Fault {
    /// The power is cut, and after each of the numbers of polls from the next power-on again.
    Cut {
        /// The first time.
        at: Anchor,
        /// Then.
        again: Vec<u64>,
        /// Nothing is read after the last of them before the work goes on.
        blind: bool,
        /// The work doesn't go on.
        ends: bool,
    },
    /// An orderly shutdown, power off and on.
    Cycle {
        /// When.
        at: Anchor,
    },
    /// A controller reset.
    Reset {
        /// When.
        at: Anchor,
    },
    /// An Abort of whatever command has this identifier.
    Abort {
        /// When.
        at: Anchor,
        /// The queue, from 1.
        queue: u16,
        /// The command.
        command: u16,
    },
    /// An interrupt message that gets lost: the next one.
    Interrupt {
        /// When.
        at: Anchor,
    },
    /// The link repeats itself in both directions.
    Replay {
        /// When.
        at: Anchor,
        /// So many bytes.
        bytes: u64,
    },
    /// A member of an array is unplugged, unless one is missing already.
    Unplug {
        /// When; with the power: when the power is cut the next time after this.
        at: Anchor,
        /// Which, spares too.
        member: u32,
        /// It is back after the rest of this life, or if it went with the power, after the next one.
        returns: bool,
        /// It goes with the power.
        with_power: bool,
    },
    /// A drive of a box loses its power, and has it again later.
    Leave {
        /// When.
        at: Anchor,
        /// Its slot says so.
        is_seen: bool,
        /// Microseconds.
        during: u64,
    },
    /// A drive of a box loses its link to the fabric.
    Link {
        /// When.
        at: Anchor,
        /// Microseconds.
        during: u64,
    },
    /// The host of a box restarts.
    Host {
        /// When.
        at: Anchor,
    },
    /// An operation of flash fails.
    Flash {
        /// Which kind.
        verb: FlashVerb,
        /// Of which die.
        die: u32,
        /// Which of them since power-on, from 1.
        nth: u64,
        /// Since which power-on, from 0.
        life: usize,
    },
}

/// What a die does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlashVerb {
    /// Reads.
    Read,
    /// Programs.
    Program,
    /// Erases.
    Erase,
}

impl Op {
    /// Of an operation on pairs: the key's number.
    pub fn key(&self) -> Option<u32> {
        match self {
            Op::Store { key, .. }
            | Op::Retrieve { key, .. }
            | Op::Remove { key, .. }
            | Op::Exist { key, .. }
            | Op::List { key, .. }
            | Op::Scan { key, .. } => Some(*key),
            _ => None,
        }
    }

    /// Whether it is about pairs, or about blocks; none: it is about either.
    pub fn is_of_pairs(&self) -> Option<bool> {
        match self {
            Op::Flush { .. } | Op::Format { .. } | Op::Delete { .. } => None,
            op => Some(op.key().is_some()),
        }
    }

    /// The namespace that it is about.
    pub fn namespace(&self) -> Option<u32> {
        match self {
            Op::Write { namespace, .. }
            | Op::Read { namespace, .. }
            | Op::Compare { namespace, .. }
            | Op::Exchange { namespace, .. }
            | Op::Zeroes { namespace, .. }
            | Op::Trim { namespace, .. }
            | Op::Verify { namespace, .. }
            | Op::Mar { namespace, .. }
            | Op::Copy { namespace, .. }
            | Op::Format { namespace, .. }
            | Op::Delete { namespace }
            | Op::Store { namespace, .. }
            | Op::Retrieve { namespace, .. }
            | Op::Remove { namespace, .. }
            | Op::Exist { namespace, .. }
            | Op::List { namespace, .. }
            | Op::Scan { namespace, .. }
            | Op::Flush { namespace } => Some(*namespace),
            Op::Create { .. } | Op::Sanitize | Op::Pause(_) => None,
        }
    }

    /// Whether it asks for something that only a drive with flash of its own can do.
    pub fn needs_own_flash(&self) -> bool {
        matches!(self, Op::Mar { .. } | Op::Sanitize)
    }

    /// Whether a drive that can't be written any more may refuse it for that.
    pub fn may_write(&self) -> bool {
        !matches!(
            self,
            Op::Read { .. }
                | Op::Compare { .. }
                | Op::Verify { .. }
                | Op::Retrieve { .. }
                | Op::Exist { .. }
                | Op::List { .. }
                | Op::Scan { .. }
        )
    }

    /// Whether nothing else may be under way: it changes namespaces, or reads what must not change.
    pub fn is_alone(&self) -> bool {
        match self {
            Op::Copy { .. } | Op::Format { .. } | Op::Create { .. } | Op::Delete { .. } | Op::Sanitize => {
                true
            }
            Op::Write { .. }
            | Op::Read { .. }
            | Op::Compare { .. }
            | Op::Exchange { .. }
            | Op::Zeroes { .. }
            | Op::Trim { .. }
            | Op::Verify { .. }
            | Op::Mar { .. }
            | Op::Store { .. }
            | Op::Retrieve { .. }
            | Op::Remove { .. }
            | Op::Exist { .. }
            | Op::List { .. }
            | Op::Scan { .. }
            | Op::Flush { .. }
            | Op::Pause(_) => false,
        }
    }
}

impl Fault {
    /// Where it happens, if it happens at one place.
    pub fn anchor(&self) -> Option<Anchor> {
        self.clone().anchor_mut().copied()
    }

    /// Whether it happens in a box alone.
    pub fn is_of_a_box(&self) -> bool {
        matches!(self, Fault::Leave { .. } | Fault::Link { .. } | Fault::Host { .. })
    }

    /// Whether it does not happen in a box.
    pub fn is_not_of_a_box(&self) -> bool {
        matches!(
            self,
            Fault::Cycle { .. } | Fault::Interrupt { .. } | Fault::Unplug { .. } | Fault::Flash { .. }
        )
    }

    /// The same, to be changed.
    pub fn anchor_mut(&mut self) -> Option<&mut Anchor> {
        match self {
            Fault::Cut { at, .. }
            | Fault::Cycle { at }
            | Fault::Reset { at }
            | Fault::Abort { at, .. }
            | Fault::Interrupt { at }
            | Fault::Unplug { at, .. }
            | Fault::Leave { at, .. }
            | Fault::Link { at, .. }
            | Fault::Host { at }
            | Fault::Replay { at, .. } => Some(at),
            Fault::Flash { .. } => None,
        }
    }
}
