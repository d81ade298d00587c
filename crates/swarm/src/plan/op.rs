//! Operations and faults of a plan.

use serde::{Deserialize, Serialize};

/// A range of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// First block.
    pub lba: u64,
    /// Number of blocks.
    pub blocks: u32,
}

/// Condition of a Store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreWhen {
    /// Always.
    Always,
    /// If there is such a key.
    Exists,
    /// If there is none.
    Absent,
}

/// Operation on a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableVerb {
    /// Appends this number of rows; creates the table if it does not exist.
    Append(u32),
    /// Drops the table.
    Drop,
    /// Queries it, with a task in this form.
    Query(u8),
    /// Queries the rows that the program in this slot selects, if the drive has programs.
    Filter(u16),
}

/// Operation on local memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryVerb {
    /// Writes bytes computed from this number.
    Write(u32),
    /// Reads and verifies.
    Read,
    /// Fills with zeroes.
    Fill,
}

/// Operation on a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramVerb {
    /// Replaces the slot's content by the program of this kind, and activates it.
    Load(u8),
    /// Unloads it.
    Unload,
    /// Executes it on a range of memory.
    Execute {
        /// Range, in words of 4 bytes.
        extent: Extent,
        /// Parameter.
        number: u32,
    },
}

/// Kind of a namespace, as required by an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldsKind {
    /// Logical blocks.
    Blocks,
    /// Key-value pairs.
    Pairs,
    /// Tables.
    Tables,
}

/// An operation. Namespaces are numbered from 1 in the order of their identifiers, among those of the kind that the operation requires, or
/// among all of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Op {
    /// Write, with or without Force Unit Access.
    Write {
        /// Namespace.
        namespace: u32,
        /// Blocks.
        extent: Extent,
        /// Whether Force Unit Access is set.
        fua: bool,
    },
    /// Read, verified by the oracle.
    Read {
        /// Namespace.
        namespace: u32,
        /// Blocks.
        extent: Extent,
    },
    /// Compare with the expected data.
    Compare {
        /// Namespace.
        namespace: u32,
        /// Blocks.
        extent: Extent,
    },
    /// Fused Compare and Write.
    Exchange {
        /// Namespace.
        namespace: u32,
        /// Blocks.
        extent: Extent,
        /// Whether the Compare has other data, so that nothing may be written.
        wrong: bool,
    },
    /// Write Zeroes.
    Zeroes {
        /// Namespace.
        namespace: u32,
        /// Blocks.
        extent: Extent,
        /// Whether DEAC is set, which permits deallocation.
        deallocate: bool,
    },
    /// Dataset Management: deallocate.
    Trim {
        /// Namespace.
        namespace: u32,
        /// Ranges, at least one.
        extents: Vec<Extent>,
    },
    /// Flush.
    Flush {
        /// Namespace.
        namespace: u32,
    },
    /// Verify: the drive reads the blocks without a transfer.
    Verify {
        /// Namespace.
        namespace: u32,
        /// Blocks.
        extent: Extent,
    },
    /// Write Uncorrectable.
    Mar {
        /// Namespace.
        namespace: u32,
        /// Blocks.
        extent: Extent,
    },
    /// Copy.
    Copy {
        /// Namespace.
        namespace: u32,
        /// First block of the destination.
        to: u64,
        /// Source ranges.
        extents: Vec<Extent>,
    },
    /// Format NVM.
    Format {
        /// Namespace.
        namespace: u32,
        /// Block size in bytes.
        block: u32,
    },
    /// Creates and attaches a namespace, if there is enough free capacity.
    Create {
        /// Size in units of 4 KiB.
        units: u64,
        /// Block size in bytes.
        block: u32,
        /// Whether it is a KV namespace.
        pairs: bool,
    },
    /// Deletes a namespace, except the last one.
    Delete {
        /// Namespace.
        namespace: u32,
    },
    /// Stores a value.
    Store {
        /// Namespace.
        namespace: u32,
        /// Key number.
        key: u32,
        /// Length of the value in bytes.
        bytes: u32,
        /// Condition.
        when: StoreWhen,
    },
    /// Retrieves a value and verifies it.
    Retrieve {
        /// Namespace.
        namespace: u32,
        /// Key number.
        key: u32,
    },
    /// Deletes a key-value pair.
    Remove {
        /// Namespace.
        namespace: u32,
        /// Key number.
        key: u32,
    },
    /// Checks whether a key exists.
    Exist {
        /// Namespace.
        namespace: u32,
        /// Key number.
        key: u32,
    },
    /// Lists keys.
    List {
        /// Namespace.
        namespace: u32,
        /// First key.
        key: u32,
    },
    /// Iterates over some key-value pairs.
    Scan {
        /// Namespace.
        namespace: u32,
        /// First key.
        key: u32,
    },
    /// Operation on a table.
    Table {
        /// Namespace.
        namespace: u32,
        /// Table number.
        table: u32,
        /// Operation.
        verb: TableVerb,
    },
    /// Operation on local memory, if the drive has any.
    Memory {
        /// Range, in words of 4 bytes.
        extent: Extent,
        /// Operation.
        verb: MemoryVerb,
    },
    /// Operation on a program, if the drive has programs.
    Program {
        /// Slot.
        slot: u16,
        /// Operation.
        verb: ProgramVerb,
    },
    /// Sanitize by block erase; waits for completion.
    Sanitize,
    /// Pause, in microseconds.
    Pause(u64),
}

/// Position of a fault in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Anchor {
    /// The operation at whose start the event is anchored; `None` for power-on.
    pub op: Option<usize>,
    /// Offset after the anchor: in polls for a cut, in microseconds for other faults.
    pub later: u64,
}

/// A fault.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Fault {
    /// A power cut, and further ones, each a number of polls after the previous power-on.
    Cut {
        /// Position of the first cut.
        at: Anchor,
        /// Polls from power-on to each further cut.
        again: Vec<u64>,
        /// Whether the work continues without a verification after the last cut.
        blind: bool,
        /// Whether the work ends with the last cut.
        ends: bool,
    },
    /// An orderly shutdown, followed by a power cycle.
    Cycle {
        /// Position.
        at: Anchor,
    },
    /// A controller reset.
    Reset {
        /// Position.
        at: Anchor,
    },
    /// An Abort of the command with this identifier, if any.
    Abort {
        /// Position.
        at: Anchor,
        /// Queue, from 1.
        queue: u16,
        /// Command identifier.
        command: u16,
    },
    /// Loss of the next interrupt message.
    Interrupt {
        /// Position.
        at: Anchor,
    },
    /// Link replay in both directions.
    Replay {
        /// Position.
        at: Anchor,
        /// Bytes repeated.
        bytes: u64,
    },
    /// Unplugging of an array's member, unless one is already missing.
    Unplug {
        /// Position; with `with_power`, the next power cut after it counts.
        at: Anchor,
        /// Number of the member, including spares.
        member: u32,
        /// Whether the drive returns after the rest of this life; with `with_power`, after the next life.
        returns: bool,
        /// Whether it is lost at a power cut.
        with_power: bool,
    },
    /// Temporary loss of power of a drive in a JBOF.
    Leave {
        /// Position.
        at: Anchor,
        /// Whether its slot reports the removal.
        is_seen: bool,
        /// Duration in microseconds.
        during: u64,
    },
    /// Temporary loss of a drive's link to the JBOF's fabric.
    Link {
        /// Position.
        at: Anchor,
        /// Duration in microseconds.
        during: u64,
    },
    /// Restart of the JBOF's host.
    Host {
        /// Position.
        at: Anchor,
    },
    /// Failure of a flash operation.
    Flash {
        /// Kind of operation.
        verb: FlashVerb,
        /// Die.
        die: u32,
        /// Number of the operation since power-on, from 1.
        nth: u64,
        /// Power-on, from 0.
        life: usize,
    },
}

/// Kind of flash operation.
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
    /// Key number of a KV operation.
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

    /// Kind of namespace that it requires; `None`: any.
    pub fn is_about(&self) -> Option<HoldsKind> {
        match self {
            Op::Flush { .. } | Op::Format { .. } | Op::Delete { .. } => None,
            Op::Table { .. } => Some(HoldsKind::Tables),
            op if op.key().is_some() => Some(HoldsKind::Pairs),
            _ => Some(HoldsKind::Blocks),
        }
    }

    /// Namespace number, if any.
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
            | Op::Table { namespace, .. }
            | Op::Flush { namespace } => Some(*namespace),
            Op::Create { .. } | Op::Memory { .. } | Op::Program { .. } | Op::Sanitize | Op::Pause(_) => None,
        }
    }

    /// Whether it requires a drive with its own flash.
    pub fn needs_own_flash(&self) -> bool {
        matches!(self, Op::Mar { .. } | Op::Sanitize)
    }

    /// Whether a read-only drive may refuse it.
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
                | Op::Table { verb: TableVerb::Query(_) | TableVerb::Filter(_), .. }
                | Op::Memory { verb: MemoryVerb::Read, .. }
        )
    }

    /// Whether it is exclusive: it changes namespaces, or reads what must not change meanwhile.
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
            | Op::Table { .. }
            | Op::Memory { .. }
            | Op::Program { .. }
            | Op::Flush { .. }
            | Op::Pause(_) => false,
        }
    }
}

impl Fault {
    /// Position, if it has a single one.
    pub fn anchor(&self) -> Option<Anchor> {
        self.clone().anchor_mut().copied()
    }

    /// Whether it requires a JBOF.
    pub fn is_of_a_jbof(&self) -> bool {
        matches!(self, Fault::Leave { .. } | Fault::Link { .. } | Fault::Host { .. })
    }

    /// Whether it is not supported in a JBOF.
    pub fn is_not_of_a_jbof(&self) -> bool {
        matches!(
            self,
            Fault::Cycle { .. } | Fault::Interrupt { .. } | Fault::Unplug { .. } | Fault::Flash { .. }
        )
    }

    /// Mutable position, if it has a single one.
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
