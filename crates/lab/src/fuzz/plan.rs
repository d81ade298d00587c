//! A run of the swarm as data: the drive, the host, what is asked of it and what goes wrong, so that a failure can be
//! run again, made smaller and kept as a file.
//!
//! A plan is TOML. Operations and faults are a line each:
//!
//! ```toml
//! seed = 7
//! ops = ["write 1 120+8", "write 1 3+1 fua", "flush 1", "read 1 0+32", "trim 1 0+8 64+2", "zeroes 1 8+8 deallocate"]
//! faults = ["cut 3+250 then 40 7", "flash program die 0 nth 12 life 0"]
//! ```
//!
//! `write 1 120+8` writes 8 blocks from 120 on of the first namespace; addresses and lengths are cut to the namespace.
//! `store 2 17 400` stores a value of 400 bytes under key 17 in the second of the namespaces that hold pairs; addresses of
//! namespaces go round.
//! `cut 3+250 then 40 7` cuts the power 250 polls after operation 3 (counting from 0) was begun, again 40 polls after
//! power-on, and again 7 polls after that power-on; `blind`: what survived
//! is not read before the work goes on; `ends`: the work doesn't go on. Faults that are not cuts happen a time after an operation was begun.

use crate::profile::KvPacking;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Seed of what is random in the drive.
    pub seed: u64,
    /// What is asked of it, in the order in which workers take it.
    pub ops: Vec<Op>,
    /// What goes wrong.
    #[serde(default)]
    pub faults: Vec<Fault>,
    /// The host.
    pub host: HostSpec,
    /// The drive.
    pub drive: DriveSpec,
}

/// How the host works.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostSpec {
    /// Operations under way at once.
    pub depth: u32,
    /// Queue pairs that they are spread over.
    pub queues: u16,
    /// Entries of each.
    pub entries: u32,
    /// Completions interrupt; else they are polled.
    #[serde(default)]
    pub interrupts: bool,
}

/// A drive, small enough that everything happens at once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriveSpec {
    /// Channels.
    pub channels: u32,
    /// Dies of each.
    pub ways: u32,
    /// Planes of a die.
    pub planes: u32,
    /// Superblocks of a die.
    pub blocks: u32,
    /// Stripes of a superblock.
    pub pages: u32,
    /// Bytes of a page.
    pub page_bytes: u32,
    /// Page types, which share a wordline: bits of a cell.
    pub bits: u32,
    /// What the drive holds at first.
    #[serde(default)]
    pub base: BaseSpec,
    /// Units of 4 KiB in the write buffer.
    pub buffer_units: u32,
    /// Power-loss protection.
    #[serde(default)]
    pub protected: bool,
    /// The collector goes by cost and benefit; else it is greedy.
    #[serde(default)]
    pub cost_benefit: bool,
    /// Free superblocks of a die at which collection starts.
    pub collect_start: u32,
    /// Free superblocks of a die that only the collector may take.
    pub collect_reserve: u32,
    /// Translation pages that its DRAM holds; none: all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub map_cache_pages: Option<u32>,
    /// Programs and erases are suspended for the host's reads.
    #[serde(default)]
    pub suspends: bool,
    /// Dies sense while data moves out.
    #[serde(default)]
    pub cache_read: bool,
    /// Units programmed between two checkpoints; 0: as few checkpoints as can be.
    #[serde(default)]
    pub checkpoint_units: u64,
    /// In which way its recovery is broken on purpose: what a swarm must find.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary: Option<CanarySpec>,
    /// Its medium is in files, of which a cut drops, tears and reorders what was not synced.
    #[serde(default, skip_serializing_if = "is_default")]
    pub files: bool,
    /// What it does for its flash.
    #[serde(default, skip_serializing_if = "is_default")]
    pub upkeep: UpkeepSpec,
    /// The stores of its namespaces of pairs.
    #[serde(default, skip_serializing_if = "is_default")]
    pub kv: KvSpec,
    /// Namespaces.
    pub namespaces: Vec<NamespaceSpec>,
}

/// A store of pairs: [`byteway_firmware::KvConfig`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct KvSpec {
    /// Units of a segment.
    pub segment_units: u32,
    /// Where in a page of the value log values go.
    pub packing: KvPacking,
    /// Entries of the table of values that came by DMA.
    pub log_table: u32,
    /// Pages of the value log in DRAM.
    pub buffer_pages: u32,
    /// Index bytes in DRAM after which they are written down.
    pub memtable_bytes: u64,
    /// Bits of a filter for each key.
    pub filter_bits: u32,
    /// DRAM for filters.
    pub filter_bytes: u64,
    /// Index units that DRAM caches.
    pub cache_units: u32,
    /// Runs that wait to be merged.
    pub l0_runs: u32,
    /// By what each level is larger than the one above.
    pub level_ratio: u32,
    /// The longest value.
    pub value_bytes_max: u32,
    /// In which way it is broken on purpose.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canary: Option<KvCanarySpec>,
}

impl Default for KvSpec {
    fn default() -> Self {
        KvSpec {
            segment_units: 8,
            packing: KvPacking::All,
            log_table: 4,
            buffer_pages: 4,
            memtable_bytes: 1024,
            filter_bits: 10,
            filter_bytes: 1 << 20,
            cache_units: 8,
            l0_runs: 2,
            level_ratio: 4,
            value_bytes_max: 24_000,
            canary: None,
        }
    }
}

/// How a store is broken: [`byteway_firmware::kv::KvCanary`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KvCanarySpec {
    /// A value that does not match its checksum counts.
    TrustTorn,
    /// What capacitors should have saved is lost.
    ForgetSave,
    /// The older of two records of a key counts.
    OlderRecord,
    /// A segment is used again before the manifest that gave it up is durable.
    ReuseEarly,
    /// A moved value is not looked at again before it is given its new place.
    MoveBlindly,
}

/// What a drive does for its flash, beside what the host asks for: [`byteway_firmware::Upkeep`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct UpkeepSpec {
    /// Spare superblocks of a die. When one fails and none is left the drive is read-only.
    #[serde(skip_serializing_if = "is_default")]
    pub spare_blocks: u32,
    /// Of those, how many are bad from the factory at most.
    #[serde(skip_serializing_if = "is_default")]
    pub factory_bad_blocks: u32,
    /// Superblocks of a die with one bit a cell.
    #[serde(skip_serializing_if = "is_default")]
    pub slc_blocks: u32,
    /// The spread of erases that is levelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub static_spread: Option<u32>,
    /// What is read too often or lies too long is moved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refresh: Option<RefreshSpec>,
    /// Collection while the host is idle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle: Option<IdleSpec>,
}

/// When a superblock is moved for the sake of what it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RefreshSpec {
    /// After so many reads.
    pub reads: u32,
    /// After so many microseconds.
    pub age_us: u64,
}

/// Collection while the host is idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IdleSpec {
    /// When nothing has come for so many microseconds.
    pub after_us: u64,
    /// Until so many superblocks of a die are free.
    pub free_blocks: u32,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// How a recovery is broken: [`byteway_firmware::ftl::config::Canary`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CanarySpec {
    /// Deallocations in the journal are ignored.
    IgnoreTrims,
    /// Of two copies of a unit the older one is taken.
    OlderCopy,
    /// Stripes are not held until their wordline is whole.
    TrustTorn,
    /// What capacitors saved is forgotten.
    ForgetDump,
    /// Superblocks are erased before what makes them stale is durable.
    EraseEarly,
}

/// A namespace.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamespaceSpec {
    /// Units of 4 KiB.
    pub units: u64,
    /// Bytes of a logical block: 512 or 4096; of one that holds pairs, 4096.
    pub block: u32,
    /// It holds pairs of keys and values.
    #[serde(default, skip_serializing_if = "is_default")]
    pub pairs: bool,
}

/// What a drive holds at first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BaseSpec {
    /// Nothing.
    #[default]
    Empty,
    /// Every unit, in order.
    Filled,
    /// Every unit, as random overwrites leave them.
    Steady,
}

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

impl Plan {
    /// From TOML.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn from_toml(text: &str) -> Result<Plan, String> {
        let plan: Plan = toml::from_str(text).map_err(|error| error.to_string())?;
        plan.check().map(|()| plan).map_err(str::to_owned)
    }

    /// Whether it is a small drive and a possible host; what the drive itself refuses comes out when it is built.
    fn check(&self) -> Result<(), &'static str> {
        let HostSpec { depth, queues, entries, .. } = self.host;
        let DriveSpec { channels, ways, planes, blocks, pages, page_bytes, bits, .. } = self.drive;
        let shape = [channels, ways, planes, blocks, pages, page_bytes / 4096];
        let units = shape.iter().map(|count| u64::from(*count)).fold(1, u64::saturating_mul);
        let is_block = |namespace: &NamespaceSpec| matches!(namespace.block, 512 | 4096);
        let checks = [
            ((1..=256).contains(&depth), "host.depth must be from 1 to 256"),
            ((1..=8).contains(&queues), "host.queues must be from 1 to 8"),
            ((2..=1024).contains(&entries), "host.entries must be from 2 to 1024"),
            (units <= 1 << 20, "the drive must have at most 2^20 units of 4 KiB"),
            ((1..=4).contains(&bits), "drive.bits must be from 1 to 4"),
            (self.drive.buffer_units <= 1 << 16, "drive.buffer_units must be at most 65536"),
            (
                !(self.drive.files && self.drive.protected),
                "a drive in files (drive.files) has no power-loss protection (drive.protected)",
            ),
            (self.drive.namespaces.iter().all(is_block), "a namespace's block has 512 or 4096 bytes"),
            (self.drive.kv.value_bytes_max <= 48 << 10, "drive.kv.value_bytes_max must be at most 49152"),
            (
                !self.drive.has_pairs() || self.drive.base == BaseSpec::Empty,
                "a drive with a namespace of pairs is empty at first",
            ),
            (self.keys() <= 1 << 20, "keys are numbers below 2^20"),
            (!self.drive.namespaces.is_empty(), "a drive has a namespace"),
            (self.ops.len() <= 1_000_000, "there can be at most 1,000,000 operations"),
            (self.faults.len() <= 10_000, "there can be at most 10,000 faults"),
        ];
        checks.into_iter().find(|(holds, _)| !holds).map_or(Ok(()), |(_, wrong)| Err(wrong))
    }

    /// All keys that it names have numbers below this.
    pub fn keys(&self) -> u32 {
        self.ops.iter().filter_map(Op::key).max().map_or(0, |key| key.saturating_add(1))
    }

    /// As TOML.
    pub fn to_toml(&self) -> String {
        toml::to_string_pretty(self).expect("a plan has no maps with keys that TOML hasn't")
    }

    /// Without the operations in `range`; faults keep their place among the others.
    pub fn without_ops(&self, range: std::ops::Range<usize>) -> Plan {
        let mut plan = self.clone();
        plan.ops.drain(range.clone());
        for fault in &mut plan.faults {
            if let Some(op) = fault.anchor_mut().and_then(|anchor| anchor.op.as_mut())
                && *op >= range.start
            {
                *op = if *op < range.end { range.start } else { *op - range.len() };
                *op = (*op).min(plan.ops.len().saturating_sub(1));
            }
        }
        plan
    }
}

impl DriveSpec {
    /// Whether there is a namespace of pairs at first.
    pub fn has_pairs(&self) -> bool {
        self.namespaces.iter().any(|namespace| namespace.pairs)
    }
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

    /// The same, to be changed.
    pub fn anchor_mut(&mut self) -> Option<&mut Anchor> {
        match self {
            Fault::Cut { at, .. }
            | Fault::Cycle { at }
            | Fault::Reset { at }
            | Fault::Abort { at, .. }
            | Fault::Interrupt { at }
            | Fault::Replay { at, .. } => Some(at),
            Fault::Flash { .. } => None,
        }
    }
}

/// A line that is no operation or fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineError {
    line: String,
    what: &'static str,
}

impl fmt::Display for LineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: {}", self.line, self.what)
    }
}

impl std::error::Error for LineError {}

/// The words of a line, one after the other.
struct Line<'a> {
    line: &'a str,
    words: std::iter::Peekable<std::str::SplitAsciiWhitespace<'a>>,
}

impl<'a> Line<'a> {
    fn new(line: &'a str) -> Self {
        Line { line, words: line.split_ascii_whitespace().peekable() }
    }

    fn error(&self, what: &'static str) -> LineError {
        LineError { line: self.line.to_owned(), what }
    }

    fn next<T: FromStr>(&mut self, what: &'static str) -> Result<T, LineError> {
        let word = self.words.next();
        word.and_then(|word| word.parse().ok()).ok_or_else(|| self.error(what))
    }

    /// Takes the word if it is the next one.
    fn takes(&mut self, word: &str) -> bool {
        self.words.next_if_eq(&word).is_some()
    }

    fn expect(&mut self, word: &str, what: &'static str) -> Result<(), LineError> {
        self.takes(word).then_some(()).ok_or_else(|| self.error(what))
    }

    /// All that is left, of one kind.
    fn rest<T: FromStr>(&mut self, what: &'static str) -> Result<Vec<T>, LineError> {
        let mut rest = Vec::new();
        while self.words.peek().is_some() {
            rest.push(self.next(what)?);
        }
        Ok(rest)
    }

    fn end<T>(mut self, parsed: T) -> Result<T, LineError> {
        if self.words.next().is_some() { Err(self.error("there is a word too many")) } else { Ok(parsed) }
    }
}

const NAMESPACE: &str = "a namespace is a number from 1 on";
const EXTENT: &str = "blocks are `first+count`, with a count of at least 1";
const ANCHOR: &str = "a place is `operation+later`, or `+later` from power-on";
const KEY: &str = "a key is a number";
const NUMBER: &str = "a number is missing";

impl FromStr for Extent {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (lba, blocks) = text.split_once('+').ok_or(EXTENT)?;
        let extent =
            Extent { lba: lba.parse().map_err(|_| EXTENT)?, blocks: blocks.parse().map_err(|_| EXTENT)? };
        (1..=1 << 16).contains(&extent.blocks).then_some(extent).ok_or(EXTENT)
    }
}

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{}", self.lba, self.blocks)
    }
}

impl FromStr for Anchor {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (op, later) = text.split_once('+').ok_or(ANCHOR)?;
        let op = if op.is_empty() { None } else { Some(op.parse().map_err(|_| ANCHOR)?) };
        Ok(Anchor { op, later: later.parse().map_err(|_| ANCHOR)? })
    }
}

impl fmt::Display for Anchor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.op {
            Some(op) => write!(f, "{op}+{}", self.later),
            None => write!(f, "+{}", self.later),
        }
    }
}

impl FromStr for Op {
    type Err = LineError;

    fn from_str(text: &str) -> Result<Self, LineError> {
        let mut line = Line::new(text);
        let verb: String = line.next("it is empty")?;
        if verb == "pause" {
            let op = Op::Pause(line.next(NUMBER)?);
            return line.end(op);
        }
        if verb == "sanitize" {
            return line.end(Op::Sanitize);
        }
        if verb == "create" {
            let units = line.next(NUMBER)?;
            let pairs = line.takes("pairs");
            let block = if pairs { 4096 } else { line.next(NUMBER)? };
            return line.end(Op::Create { units, block, pairs });
        }
        let namespace = line.next(NAMESPACE)?;
        let op = match verb.as_str() {
            "write" => Op::Write { namespace, extent: line.next(EXTENT)?, fua: line.takes("fua") },
            "read" => Op::Read { namespace, extent: line.next(EXTENT)? },
            "compare" => Op::Compare { namespace, extent: line.next(EXTENT)? },
            "zeroes" => {
                let extent = line.next(EXTENT)?;
                Op::Zeroes { namespace, extent, deallocate: line.takes("deallocate") }
            }
            "trim" => {
                let extents: Vec<Extent> = line.rest(EXTENT)?;
                if extents.is_empty() || extents.len() > 256 {
                    return Err(line.error("a trim has 1 to 256 ranges"));
                }
                Op::Trim { namespace, extents }
            }
            "flush" => Op::Flush { namespace },
            "verify" => Op::Verify { namespace, extent: line.next(EXTENT)? },
            "mar" => Op::Mar { namespace, extent: line.next(EXTENT)? },
            "copy" => {
                let to = line.next(NUMBER)?;
                line.expect("from", "a copy is `copy NAMESPACE LBA from EXTENTS`")?;
                let extents: Vec<Extent> = line.rest(EXTENT)?;
                if extents.is_empty() || extents.len() > 128 {
                    return Err(line.error("a copy has 1 to 128 ranges"));
                }
                Op::Copy { namespace, to, extents }
            }
            "format" => Op::Format { namespace, block: line.next(NUMBER)? },
            "delete" => Op::Delete { namespace },
            "store" => {
                let (key, bytes) = (line.next(KEY)?, line.next(NUMBER)?);
                let when = match (line.takes("exists"), line.takes("absent")) {
                    (true, _) => StoreWhen::Exists,
                    (_, true) => StoreWhen::Absent,
                    _ => StoreWhen::Always,
                };
                Op::Store { namespace, key, bytes, when }
            }
            "retrieve" => Op::Retrieve { namespace, key: line.next(KEY)? },
            "remove" => Op::Remove { namespace, key: line.next(KEY)? },
            "exist" => Op::Exist { namespace, key: line.next(KEY)? },
            "list" => Op::List { namespace, key: line.next(KEY)? },
            "scan" => Op::Scan { namespace, key: line.next(KEY)? },
            _ => return Err(line.error("there is no such operation")),
        };
        line.end(op)
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flag = |set: bool, word: &'static str| if set { word } else { "" };
        match self {
            Op::Write { namespace, extent, fua } => {
                write!(f, "write {namespace} {extent}{}", flag(*fua, " fua"))
            }
            Op::Read { namespace, extent } => write!(f, "read {namespace} {extent}"),
            Op::Compare { namespace, extent } => write!(f, "compare {namespace} {extent}"),
            Op::Zeroes { namespace, extent, deallocate } => {
                write!(f, "zeroes {namespace} {extent}{}", flag(*deallocate, " deallocate"))
            }
            Op::Trim { namespace, extents } => {
                write!(f, "trim {namespace}")?;
                extents.iter().try_for_each(|extent| write!(f, " {extent}"))
            }
            Op::Flush { namespace } => write!(f, "flush {namespace}"),
            Op::Verify { namespace, extent } => write!(f, "verify {namespace} {extent}"),
            Op::Mar { namespace, extent } => write!(f, "mar {namespace} {extent}"),
            Op::Copy { namespace, to, extents } => {
                write!(f, "copy {namespace} {to} from")?;
                extents.iter().try_for_each(|extent| write!(f, " {extent}"))
            }
            Op::Format { namespace, block } => write!(f, "format {namespace} {block}"),
            Op::Create { units, pairs: true, .. } => write!(f, "create {units} pairs"),
            Op::Create { units, block, .. } => write!(f, "create {units} {block}"),
            Op::Delete { namespace } => write!(f, "delete {namespace}"),
            Op::Store { namespace, key, bytes, when } => {
                let when = match when {
                    StoreWhen::Always => "",
                    StoreWhen::Exists => " exists",
                    StoreWhen::Absent => " absent",
                };
                write!(f, "store {namespace} {key} {bytes}{when}")
            }
            Op::Retrieve { namespace, key } => write!(f, "retrieve {namespace} {key}"),
            Op::Remove { namespace, key } => write!(f, "remove {namespace} {key}"),
            Op::Exist { namespace, key } => write!(f, "exist {namespace} {key}"),
            Op::List { namespace, key } => write!(f, "list {namespace} {key}"),
            Op::Scan { namespace, key } => write!(f, "scan {namespace} {key}"),
            Op::Sanitize => write!(f, "sanitize"),
            Op::Pause(micros) => write!(f, "pause {micros}"),
        }
    }
}

impl FromStr for Fault {
    type Err = LineError;

    fn from_str(text: &str) -> Result<Self, LineError> {
        let mut line = Line::new(text);
        let verb: String = line.next("it is empty")?;
        let fault = match verb.as_str() {
            "cut" => {
                let at = line.next(ANCHOR)?;
                let (blind, ends) = (line.takes("blind"), line.takes("ends"));
                let again = if line.takes("then") { line.rest(NUMBER)? } else { Vec::new() };
                Fault::Cut { at, again, blind, ends }
            }
            "cycle" => Fault::Cycle { at: line.next(ANCHOR)? },
            "reset" => Fault::Reset { at: line.next(ANCHOR)? },
            "abort" => {
                let at = line.next(ANCHOR)?;
                line.expect("queue", "an abort is of `queue N command N`")?;
                let queue = line.next(NUMBER)?;
                line.expect("command", "an abort is of `queue N command N`")?;
                Fault::Abort { at, queue, command: line.next(NUMBER)? }
            }
            "interrupt" => Fault::Interrupt { at: line.next(ANCHOR)? },
            "replay" => Fault::Replay { at: line.next(ANCHOR)?, bytes: line.next(NUMBER)? },
            "flash" => {
                const FLASH: &str = "a flash fault is of `read|program|erase die N nth N life N`";
                let verb = match line.next::<String>(FLASH)?.as_str() {
                    "read" => FlashVerb::Read,
                    "program" => FlashVerb::Program,
                    "erase" => FlashVerb::Erase,
                    _ => return Err(line.error(FLASH)),
                };
                let mut number = |name| {
                    line.expect(name, FLASH)?;
                    line.next(FLASH)
                };
                let (die, nth, life) = (number("die")?, number("nth")?, number("life")?);
                if nth == 0 {
                    return Err(line.error("operations of flash are counted from 1"));
                }
                let die = u32::try_from(die).map_err(|_| line.error(FLASH))?;
                Fault::Flash { verb, die, nth, life: life as usize }
            }
            _ => return Err(line.error("there is no such fault")),
        };
        line.end(fault)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Cut { at, again, blind, ends } => {
                let flag = |set: bool, word: &'static str| if set { word } else { "" };
                write!(f, "cut {at}{}{}", flag(*blind, " blind"), flag(*ends, " ends"))?;
                if !again.is_empty() {
                    write!(f, " then")?;
                }
                again.iter().try_for_each(|polls| write!(f, " {polls}"))
            }
            Fault::Cycle { at } => write!(f, "cycle {at}"),
            Fault::Reset { at } => write!(f, "reset {at}"),
            Fault::Abort { at, queue, command } => write!(f, "abort {at} queue {queue} command {command}"),
            Fault::Interrupt { at } => write!(f, "interrupt {at}"),
            Fault::Replay { at, bytes } => write!(f, "replay {at} {bytes}"),
            Fault::Flash { verb, die, nth, life } => {
                let verb = match verb {
                    FlashVerb::Read => "read",
                    FlashVerb::Program => "program",
                    FlashVerb::Erase => "erase",
                };
                write!(f, "flash {verb} die {die} nth {nth} life {life}")
            }
        }
    }
}

macro_rules! as_line {
    ($($kind:ty),+) => {$(
        impl From<$kind> for String {
            fn from(kind: $kind) -> String {
                kind.to_string()
            }
        }

        impl TryFrom<String> for $kind {
            type Error = LineError;

            fn try_from(line: String) -> Result<Self, LineError> {
                line.parse()
            }
        }
    )+};
}
as_line!(Op, Fault);

#[cfg(test)]
mod tests {
    use super::*;

    // A plan that is not read as it was printed would run another run, and the failure would be gone.
    #[test]
    fn lines_are_read_as_they_are_printed() {
        for line in [
            "write 1 120+8",
            "write 2 3+1 fua",
            "read 1 0+32",
            "compare 1 5+1",
            "zeroes 1 8+8",
            "zeroes 1 8+8 deallocate",
            "trim 1 0+8 64+2",
            "flush 3",
            "pause 250",
            "verify 1 0+8",
            "mar 1 3+1",
            "copy 1 40 from 0+8 16+2",
            "format 1 512",
            "create 20 4096",
            "create 500 pairs",
            "store 1 17 400",
            "store 2 17 0 exists",
            "store 1 3 9000 absent",
            "retrieve 1 17",
            "remove 1 17",
            "exist 1 17",
            "list 1 17",
            "scan 2 0",
            "delete 2",
            "sanitize",
        ] {
            assert_eq!(line.parse::<Op>().unwrap().to_string(), line);
        }
        for line in [
            "cut +12",
            "cut 3+250 then 40 7",
            "cut 3+250 blind then 40",
            "cut +250 blind ends then 40",
            "cut +250 ends",
            "cycle 4+0",
            "reset 2+30",
            "abort 9+1 queue 2 command 5",
            "interrupt 3+0",
            "replay 3+5 300",
            "flash program die 1 nth 12 life 0",
        ] {
            assert_eq!(line.parse::<Fault>().unwrap().to_string(), line);
        }
    }

    // A plan is a file that somebody edits: a mistake must be named.
    #[test]
    fn mistakes_are_named() {
        let op = |line: &str| line.parse::<Op>().unwrap_err().to_string();
        assert_eq!(op("write 1 120"), "`write 1 120`: blocks are `first+count`, with a count of at least 1");
        assert_eq!(op("write 1 1+0"), "`write 1 1+0`: blocks are `first+count`, with a count of at least 1");
        assert_eq!(op("erase 1"), "`erase 1`: there is no such operation");
        assert_eq!(op("flush 1 2"), "`flush 1 2`: there is a word too many");
        assert_eq!(op("trim 1"), "`trim 1`: a trim has 1 to 256 ranges");
        let mut plan = Plan { seed: 1, ops: Vec::new(), faults: Vec::new(), host: host(), drive: drive() };
        plan.host.depth = 0;
        assert_eq!(Plan::from_toml(&plan.to_toml()).unwrap_err(), "host.depth must be from 1 to 256");
        assert_eq!("cut 3".parse::<Fault>().unwrap_err().to_string(), format!("`cut 3`: {ANCHOR}"));
    }

    // Dropping operations must leave a cut where it was among the others, or nothing can be made smaller.
    #[test]
    fn faults_keep_their_place_when_operations_go() {
        let ops = (0..10).map(Op::Pause).collect();
        let fault =
            |op| Fault::Cut { at: Anchor { op, later: 1 }, again: Vec::new(), blind: false, ends: false };
        let faults = [None, Some(2), Some(5), Some(9)].map(fault).to_vec();
        let plan = Plan { seed: 1, ops, faults, host: host(), drive: drive() };
        let fewer = plan.without_ops(4..7);
        assert_eq!(fewer.ops.len(), 7);
        assert_eq!(fewer.faults, [None, Some(2), Some(4), Some(6)].map(fault).to_vec());
        assert_eq!(Plan::from_toml(&fewer.to_toml()).unwrap(), fewer);
    }

    fn host() -> HostSpec {
        HostSpec { depth: 1, queues: 1, entries: 2, interrupts: false }
    }

    fn drive() -> DriveSpec {
        DriveSpec {
            channels: 1,
            ways: 1,
            planes: 1,
            blocks: 8,
            pages: 8,
            page_bytes: 8192,
            bits: 1,
            base: BaseSpec::Empty,
            buffer_units: 8,
            protected: false,
            cost_benefit: false,
            collect_start: 2,
            collect_reserve: 1,
            map_cache_pages: None,
            suspends: false,
            cache_read: false,
            checkpoint_units: 0,
            canary: None,
            files: false,
            upkeep: UpkeepSpec::default(),
            kv: KvSpec::default(),
            namespaces: vec![NamespaceSpec { units: 32, block: 4096, pairs: false }],
        }
    }
}
