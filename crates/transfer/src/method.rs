//! The transfer methods by name: what each needs, and how much of it a drive offers and a queue carries. All that a further method adds
//! besides its two ends is in this file, so that its limits have one place.

use crate::host::PointerKind;
use byteway_clock::Delay;
use byteway_link::CxlConfig;
use byteway_wire::nvme::vendor::commit::{CommitRing, RECORDS_MAX};
use byteway_wire::nvme::vendor::piggyback::{HEAD_BYTES, PIPELINED_PIECE_BYTES};
use byteway_wire::nvme::vendor::{Capabilities, Chunk, Extension, InlineSlots, Methods, ResultSlot};
use std::fmt;

/// A transfer method.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Method {
    /// Whole pages, by PRP1, PRP2 and PRP lists.
    #[default]
    Prp,
    /// Exactly the bytes, by scatter gather lists.
    Sgl,
    /// In the fields of commands, one after the other (BandSlim).
    Piggyback,
    /// Payload in the fields of commands, all in flight at once.
    PiggybackPipelined,
    /// In the submission queue slots behind the command (ByteExpress).
    Inline,
    /// In chunks, in any order and by any queue (ByteExpress 3.3.2).
    InlineReassembly,
    /// Stores to a buffer in the BAR.
    Mmio,
    /// Fine-grained below a threshold, by data pointer above it.
    Adaptive,
    /// Whole pages by PRP, and the rest inline behind the same command.
    Hybrid,
    /// Stores to device memory over CXL.mem (BandSlim).
    CxlMem,
    /// Command fields for payloads that fit in one command, CXL.mem for longer ones.
    PiggybackCxl,
    /// Stores to device memory; key-value pairs need no command, but a commit record that the device polls
    /// for.
    CxlCommit,
    /// One that is not built in.
    Own(&'static OwnEntry),
}

/// Payloads that a method can carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PayloadKind {
    /// The data of any command.
    Data,
    /// Payloads of commands with space for them in their fields: of a sink, or of key-value pairs.
    Payloads,
    /// Key-value pairs.
    Pairs,
}

/// Properties of a method: its name, and what it requires of a drive. Its behaviour is in [`choose`](crate::choice::choose) and in
/// the two ends in its file.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Name in scenarios and reports.
    pub name: &'static str,
    /// One-line description for help texts.
    pub about: &'static str,
    /// Extensions that a drive must offer, and that a queue must be enabled for.
    pub needs: &'static [Extension],
    /// Payloads that it can carry.
    pub of: PayloadKind,
    /// Whether it may carry the payloads below the threshold of [`Method::Adaptive`].
    pub is_fine: bool,
}

/// A method that every drive has, or that stands for others.
const PLAIN: Entry = Entry { name: "", about: "", needs: &[], of: PayloadKind::Data, is_fine: false };

/// A method that carries short payloads.
const FINE: Entry = Entry { is_fine: true, ..PLAIN };

impl Method {
    /// All methods that are built in, in report order.
    pub const ALL: [Method; 12] = [
        Method::Prp,
        Method::Sgl,
        Method::Piggyback,
        Method::PiggybackPipelined,
        Method::Inline,
        Method::InlineReassembly,
        Method::Mmio,
        Method::Adaptive,
        Method::Hybrid,
        Method::CxlMem,
        Method::PiggybackCxl,
        Method::CxlCommit,
    ];

    /// Properties of the method.
    pub const fn entry(self) -> &'static Entry {
        match self {
            Method::Prp => &Entry { name: "prp", about: "Whole pages, by Physical Region Pages.", ..PLAIN },
            Method::Sgl => {
                &Entry { name: "sgl", about: "Exactly the bytes, by Scatter Gather Lists.", ..PLAIN }
            }
            Method::Piggyback => &Entry {
                name: "piggyback",
                about: "In the fields of commands, one after the other.",
                needs: &[Extension::Piggyback],
                of: PayloadKind::Payloads,
                ..FINE
            },
            Method::PiggybackPipelined => &Entry {
                name: "piggyback-pipelined",
                about: "In the fields of commands, all in flight at once.",
                needs: &[Extension::PiggybackPipelined],
                of: PayloadKind::Payloads,
                ..FINE
            },
            Method::Inline => &Entry {
                name: "inline",
                about: "In the submission queue slots behind the command.",
                needs: &[Extension::Inline],
                ..FINE
            },
            Method::InlineReassembly => &Entry {
                name: "inline-reassembly",
                about: "In chunks in submission queue slots, joined by the drive.",
                needs: &[Extension::InlineReassembly],
                ..FINE
            },
            Method::Mmio => &Entry {
                name: "mmio",
                about: "By stores to a buffer in the drive's BAR.",
                needs: &[Extension::Mmio],
                ..FINE
            },
            Method::Adaptive => &Entry {
                name: "adaptive",
                about: "By a fine-grained method below a threshold, by data pointer above it.",
                ..PLAIN
            },
            Method::Hybrid => &Entry {
                name: "hybrid",
                about: "Whole pages by PRP, and the rest inline.",
                needs: &[Extension::InlineTail],
                ..PLAIN
            },
            Method::CxlMem => &Entry {
                name: "cxl-mem",
                about: "By stores to memory of the drive over CXL.mem.",
                needs: &[Extension::CxlMem],
                ..FINE
            },
            Method::PiggybackCxl => &Entry {
                name: "piggyback-cxl",
                about: "In the fields of a command up to 35 B, by CXL.mem above.",
                needs: &[Extension::CxlMem, Extension::Piggyback],
                of: PayloadKind::Payloads,
                ..FINE
            },
            Method::CxlCommit => &Entry {
                name: "cxl-commit",
                about: "By stores to memory of the drive over CXL.mem, with a commit record instead of a command, \
                        for which the drive polls. Only for key-value drives.",
                needs: &[Extension::CxlCommit, Extension::CxlMem],
                of: PayloadKind::Pairs,
                ..FINE
            },
            Method::Own(own) => &own.entry,
        }
    }

    /// Name in scenarios and reports.
    pub const fn name(self) -> &'static str {
        self.entry().name
    }

    /// Extensions that a drive must offer, and that a queue must be enabled for, with inline payload
    /// announced by ByteExpress's own encoding (`paper_encoding`) or not.
    pub const fn needs(self, paper_encoding: bool) -> &'static [Extension] {
        match self {
            Method::Inline if paper_encoding => &[Extension::InlineTail],
            method => method.entry().needs,
        }
    }

    /// Whether a data pointer describes the whole payload, which requires nothing of a drive.
    pub const fn is_pointer(self) -> bool {
        matches!(self, Method::Prp | Method::Sgl)
    }

    /// How it transfers a payload, if that is the same for all.
    pub(crate) const fn kind(self) -> TransferKind {
        match self {
            Method::InlineReassembly => TransferKind::Reassembly,
            Method::Piggyback => TransferKind::Piggyback,
            Method::PiggybackPipelined => TransferKind::PiggybackPipelined,
            Method::Mmio => TransferKind::Mmio,
            Method::CxlMem | Method::PiggybackCxl => TransferKind::CxlMem,
            Method::CxlCommit => TransferKind::CxlCommit,
            Method::Prp
            | Method::Sgl
            | Method::Inline
            | Method::Hybrid
            | Method::Adaptive
            | Method::Own(_) => TransferKind::Refused,
        }
    }

    /// The longest payload of a fine-grained method that is not a combination of two, on a drive that offers it.
    pub fn longest(self, drive: &TransferConfig) -> Option<u32> {
        match self {
            Method::Piggyback | Method::PiggybackPipelined => Some(drive.piggyback_bytes_max),
            Method::Inline => Some(drive.inline_bytes_max),
            Method::InlineReassembly => Some(drive.reassembly_bytes_max),
            Method::Mmio => Some(drive.bar_bytes),
            Method::CxlMem => drive.memory.as_ref().map(|memory| memory.area_bytes),
            Method::Prp | Method::Sgl | Method::Adaptive | Method::Hybrid => None,
            Method::PiggybackCxl | Method::CxlCommit | Method::Own(_) => None,
        }
    }
}

/// A method that is not built in, under its name, for as long as the process lives: a [`Method`] is `Copy`.
pub struct OwnEntry {
    entry: Entry,
    hash: String,
    /// The program that has it.
    build: String,
    /// The longest payload, in bytes, that it places in queue entries.
    entries_bytes_max: u32,
    /// Its number among those of this process ([`own`](crate::own)).
    number: usize,
}

impl OwnEntry {
    /// The method `number`, which requires `needs` of a drive. `hash` is the version of its code, and `build` the program that has it.
    pub(crate) fn new(
        (name, about): (&'static str, &'static str),
        (hash, build): (String, String),
        needs: &'static [Extension],
        entries_bytes_max: u32,
        number: usize,
    ) -> OwnEntry {
        let streams = [Extension::Piggyback, Extension::PiggybackPipelined];
        let of = if needs.contains(&Extension::CxlCommit) {
            PayloadKind::Pairs
        } else if needs.iter().any(|extension| streams.contains(extension)) {
            PayloadKind::Payloads
        } else {
            PayloadKind::Data
        };
        let entry = Entry { name, about, needs, of, ..PLAIN };
        OwnEntry { entry, hash, build, entries_bytes_max, number }
    }

    /// The version of its code.
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// The longest payload, in bytes, that it places in queue entries.
    pub const fn entries_bytes_max(&self) -> u32 {
        self.entries_bytes_max
    }

    pub(crate) const fn number(&self) -> usize {
        self.number
    }

    /// Its name with its argument, and the versions of its code: that itself can't be compared.
    fn version(&self) -> (&str, &str, &str) {
        (self.entry.name, &self.hash, &self.build)
    }
}

impl PartialEq for OwnEntry {
    fn eq(&self, other: &Self) -> bool {
        self.version() == other.version()
    }
}

impl Eq for OwnEntry {}

impl PartialOrd for OwnEntry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for OwnEntry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.version().cmp(&other.version())
    }
}

impl fmt::Debug for OwnEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("OwnEntry");
        shown.field("name", &self.entry.name).field("hash", &self.hash).field("build", &self.build);
        shown.finish_non_exhaustive()
    }
}

/// The transfer of one payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferKind {
    /// A data pointer describes the whole payload.
    Pointer(PointerKind),
    /// In the slots behind the command; with `paper`, announced in CDW3.
    Inline {
        /// The paper's encoding.
        paper: bool,
    },
    /// PRPs describe the first `before` bytes; the rest is in slots behind the command.
    Hybrid {
        /// Bytes in whole pages.
        before: u32,
    },
    /// In chunks.
    Reassembly,
    /// In the fields of commands, serialized.
    Piggyback,
    /// In the fields of commands, pipelined.
    PiggybackPipelined,
    /// In the BAR buffer.
    Mmio,
    /// In device memory.
    CxlMem,
    /// In device memory, with a commit record instead of a command.
    CxlCommit,
    /// Not at all: a method that is not built in chose what is not possible.
    Refused,
}

impl TransferKind {
    /// Names of all but [`TransferKind::Refused`], in report order: those of the methods that have nothing else.
    pub const NAMES: [&str; 10] = [
        Method::Prp.name(),
        Method::Sgl.name(),
        Method::Inline.name(),
        Method::Hybrid.name(),
        Method::InlineReassembly.name(),
        Method::Piggyback.name(),
        Method::PiggybackPipelined.name(),
        Method::Mmio.name(),
        Method::CxlMem.name(),
        Method::CxlCommit.name(),
    ];

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        TransferKind::NAMES.get(self.index()).copied().unwrap_or("none")
    }

    /// Extensions that a queue must be enabled for.
    pub const fn needs(self) -> &'static [Extension] {
        match self {
            TransferKind::Pointer(_) | TransferKind::Refused => &[],
            TransferKind::Inline { paper: false } => &[Extension::Inline],
            TransferKind::Inline { paper: true } | TransferKind::Hybrid { .. } => &[Extension::InlineTail],
            TransferKind::Reassembly => &[Extension::InlineReassembly],
            TransferKind::Piggyback => &[Extension::Piggyback],
            TransferKind::PiggybackPipelined => &[Extension::PiggybackPipelined],
            TransferKind::Mmio => &[Extension::Mmio],
            TransferKind::CxlMem => &[Extension::CxlMem],
            TransferKind::CxlCommit => &[Extension::CxlCommit, Extension::CxlMem],
        }
    }

    /// Its place in [`TransferKind::NAMES`], or their number.
    #[inline]
    pub const fn index(self) -> usize {
        match self {
            TransferKind::Pointer(PointerKind::Prp) => 0,
            TransferKind::Pointer(PointerKind::Sgl) => 1,
            TransferKind::Inline { .. } => 2,
            TransferKind::Hybrid { .. } => 3,
            TransferKind::Reassembly => 4,
            TransferKind::Piggyback => 5,
            TransferKind::PiggybackPipelined => 6,
            TransferKind::Mmio => 7,
            TransferKind::CxlMem => 8,
            TransferKind::CxlCommit => 9,
            TransferKind::Refused => TransferKind::NAMES.len(),
        }
    }
}

/// Limits of a queue's payloads: the drive's offer, the extensions enabled for the queue, and the queue's
/// size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Enabled extensions.
    pub enabled: Methods,
    /// Entries of the submission queue.
    pub entries: u32,
    /// Maximum inline payload in bytes.
    pub inline_bytes_max: u32,
    /// Maximum payload in chunks, in bytes.
    pub reassembly_bytes_max: u32,
    /// Maximum piggybacked payload in bytes.
    pub piggyback_bytes_max: u32,
    /// Maximum payload in the BAR buffer, in bytes.
    pub bar_bytes: u32,
    /// Maximum payload in device memory, in bytes.
    pub memory_bytes: u32,
}

impl Limits {
    /// Those of a queue of `entries` entries with these extensions `enabled`, of a drive that `offered` this, with `memory_bytes` of memory.
    #[inline]
    pub fn of(offered: &Capabilities, enabled: Methods, entries: u32, memory_bytes: u32) -> Limits {
        let kept = |bytes_max| if offered.partial_payloads_max > 0 { bytes_max } else { 0 };
        Limits {
            enabled,
            entries,
            inline_bytes_max: offered.inline_bytes_max,
            reassembly_bytes_max: kept(offered.reassembly_bytes_max),
            piggyback_bytes_max: kept(offered.piggyback_bytes_max),
            bar_bytes: offered.bar_bytes,
            memory_bytes,
        }
    }

    /// Whether a payload of `bytes`, at least one, is ever possible like this.
    #[inline]
    pub fn carry(&self, kind: TransferKind, bytes: u32) -> bool {
        let enabled = self.enabled;
        match kind {
            TransferKind::Pointer(_) => true,
            TransferKind::Inline { paper: false } => enabled.inline() && self.carry_train(bytes),
            TransferKind::Inline { paper: true } => enabled.inline_tail() && self.carry_train(bytes),
            TransferKind::Hybrid { before } => {
                enabled.inline_tail() && before < bytes && self.carry_train(bytes - before)
            }
            TransferKind::Reassembly => {
                let fits = bytes <= self.reassembly_bytes_max && fits(self.entries, Chunk::count(bytes));
                enabled.reassembly() && fits
            }
            TransferKind::Piggyback => enabled.piggyback() && bytes <= self.piggyback_bytes_max,
            TransferKind::PiggybackPipelined => {
                enabled.piggyback_pipelined() && bytes <= self.piggyback_bytes_max
            }
            TransferKind::Mmio => enabled.mmio() && bytes <= self.bar_bytes,
            TransferKind::CxlMem => enabled.cxl_mem() && bytes <= self.memory_bytes,
            TransferKind::CxlCommit => {
                enabled.cxl_mem() && enabled.cxl_commit() && bytes <= self.memory_bytes
            }
            TransferKind::Refused => false,
        }
    }

    /// Whether a train of `bytes` is possible.
    #[inline]
    fn carry_train(&self, bytes: u32) -> bool {
        bytes <= self.inline_bytes_max && fits(self.entries, InlineSlots { bytes }.count())
    }
}

/// Whether a command and `slots` slots of payload ever fit in a queue, of which one slot is always empty.
pub const fn fits(entries: u32, slots: u32) -> bool {
    entries > 0 && slots < entries - 1
}

/// Bytes that a 16-bit number of chunks can carry.
const REASSEMBLY_BYTES_MAX: u32 = u16::MAX as u32 * Chunk::PAYLOAD_BYTES as u32;
/// Bytes that a 16-bit number of pieces can carry, including their head.
const PIPELINED_BYTES_MAX: u32 = (HEAD_BYTES + u16::MAX as usize * PIPELINED_PIECE_BYTES) as u32;
/// Bytes that a 15-bit number of result slots can carry.
const RESULT_BYTES_MAX: u32 = (u16::MAX as u32 >> 1) * ResultSlot::PAYLOAD_BYTES as u32;

/// Drive memory that the host stores to over CXL.mem ([`byteway_wire::nvme::vendor::cxl`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryConfig {
    /// The CXL link.
    pub link: CxlConfig,
    /// Size of the area for payloads of any command, in bytes: a multiple of 4 KiB.
    pub area_bytes: u32,
    /// Commit records that the host may have unanswered: a power of two; 0 if there is no ring.
    pub records: u32,
    /// Interval at which the drive polls the ring.
    pub poll: Delay,
}

impl MemoryConfig {
    /// The ring of commit records, which follows the area.
    pub const fn ring(&self) -> CommitRing {
        CommitRing { offset: self.area_bytes, records: self.records }
    }

    /// Offset of the page buffer, which follows the ring.
    pub const fn buffer_offset(&self) -> u32 {
        self.area_bytes + self.ring().bytes()
    }

    fn has_possible_ring(&self) -> bool {
        let is_possible = self.records.is_power_of_two() && self.records <= RECORDS_MAX;
        self.records == 0 || is_possible && (Delay::from_ns(1)..=Delay::from_s(1)).contains(&self.poll)
    }
}

/// Transfer methods for small payloads that the drive offers beyond plain NVMe ([`byteway_wire::nvme::vendor`]). The
/// default offers none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TransferConfig {
    /// Methods that a host may enable.
    pub methods: Methods,
    /// The longest inline payload, in bytes.
    pub inline_bytes_max: u32,
    /// The longest payload in chunks, in bytes.
    pub reassembly_bytes_max: u32,
    /// The longest piggybacked payload, in bytes.
    pub piggyback_bytes_max: u32,
    /// The longest result that may follow a completion, in bytes.
    pub inline_result_bytes_max: u32,
    /// Maximum number of incomplete payloads.
    pub partial_payloads_max: u32,
    /// Time after which an incomplete payload is dropped.
    pub partial_timeout: Delay,
    /// Size of the payload buffer in BAR0, in bytes: 0 for none, or a multiple of 4 KiB.
    pub bar_bytes: u32,
    /// Memory for host stores; required if `methods` offers a method that uses it.
    pub memory: Option<MemoryConfig>,
    /// Size of the payload sink, in bytes: 0 for none.
    pub sink_bytes: u64,
    /// Time to move the payload of one queue entry into DRAM; the command waits for it.
    pub chunk_store: Delay,
}

impl TransferConfig {
    /// Whether payloads may arrive in parts.
    #[inline]
    pub fn has_partials(&self) -> bool {
        self.methods.reassembly() || self.has_streams()
    }

    /// Whether payloads may come in the fields of commands.
    #[inline]
    pub fn has_streams(&self) -> bool {
        self.methods.piggyback() || self.methods.piggyback_pipelined()
    }

    /// Checks what involves several fields; `bytes_max` is the longest transfer of a command.
    ///
    /// # Errors
    /// The wrong value, and what would be right.
    pub fn check(&self, bytes_max: u32) -> Result<(), &'static str> {
        let t = self;
        let is_inline = t.methods.inline() || t.methods.inline_tail();
        let checks = [
            (
                t.memory.is_some() == t.methods.cxl_mem(),
                "transfer.memory must be given if, and only if, cxl_mem is offered",
            ),
            (
                t.memory.as_ref().is_none_or(|memory| {
                    memory.area_bytes.is_multiple_of(4096) && memory.area_bytes <= 1 << 28
                }),
                "transfer.memory.area_bytes must be a multiple of 4 KiB, at most 256 MiB",
            ),
            (
                t.memory.as_ref().is_none_or(MemoryConfig::has_possible_ring),
                "transfer.memory.records must be a power of two up to 65536, or 0; transfer.memory.poll from 1 ns to 1 s",
            ),
            (
                t.memory.as_ref().is_some_and(|memory| memory.records > 0) == t.methods.cxl_commit(),
                "transfer.memory.records must be above 0 if, and only if, cxl_commit is offered",
            ),
            (
                !is_inline || (1..=bytes_max).contains(&t.inline_bytes_max),
                "transfer.inline_bytes_max must be from 1 B to the longest transfer of a command",
            ),
            (
                !t.methods.reassembly()
                    || (1..=REASSEMBLY_BYTES_MAX.min(bytes_max)).contains(&t.reassembly_bytes_max),
                "transfer.reassembly_bytes_max must be from 1 B to the longest transfer of a command, and at most 65535 chunks",
            ),
            (
                !t.has_streams() || (1..=bytes_max).contains(&t.piggyback_bytes_max),
                "transfer.piggyback_bytes_max must be from 1 B to the longest transfer of a command",
            ),
            (
                !t.methods.piggyback_pipelined() || t.piggyback_bytes_max <= PIPELINED_BYTES_MAX,
                "transfer.piggyback_bytes_max must be at most 65535 pieces",
            ),
            (
                !t.has_partials() || t.partial_timeout > Delay::ZERO,
                "transfer.partial_timeout must be longer than 0",
            ),
            (
                !t.has_partials() || (1..=4096).contains(&t.partial_payloads_max),
                "transfer.partial_payloads_max must be from 1 to 4096",
            ),
            (
                // Buffers pass between incomplete payloads and commands, so each may have grown to the size of a
                // transfer.
                !t.has_partials() || u64::from(t.partial_payloads_max) * u64::from(bytes_max) <= 1 << 32,
                "transfer.partial_payloads_max times controller.transfer_bytes_max must be at most 4 GiB",
            ),
            (
                !t.methods.inline_result()
                    || (1..=bytes_max.min(RESULT_BYTES_MAX)).contains(&t.inline_result_bytes_max),
                "transfer.inline_result_bytes_max must be from 1 B to the longest transfer of a command, and at most 32767 slots",
            ),
            (
                t.bar_bytes.is_multiple_of(4096)
                    && t.bar_bytes <= 1 << 30
                    && (t.bar_bytes > 0) == t.methods.mmio(),
                "transfer.bar_bytes must be a multiple of 4 KiB, at most 1 GiB, and above 0 if, and only if, mmio is offered",
            ),
            (t.sink_bytes <= 1 << 40, "transfer.sink_bytes must be at most 1 TiB"),
        ];
        checks.iter().find(|(holds, _)| !holds).map_or(Ok(()), |(_, message)| Err(message))
    }

    /// What the drive says of this; `None` if it has no more than plain NVMe. `bar_offset` is where in BAR0 the payload buffer is, and
    /// `dma_unit` the DMA unit, in bytes.
    pub fn capabilities(&self, bar_offset: u64, dma_unit: u32) -> Option<Capabilities> {
        let is_plain = self.methods.is_empty() && self.sink_bytes == 0;
        (!is_plain).then(|| Capabilities {
            signature: Capabilities::SIGNATURE,
            version: Capabilities::VERSION,
            methods: self.methods.into_bits(),
            inline_bytes_max: self.inline_bytes_max,
            reassembly_bytes_max: self.reassembly_bytes_max,
            piggyback_bytes_max: self.piggyback_bytes_max,
            inline_result_bytes_max: self.inline_result_bytes_max,
            partial_payloads_max: self.partial_payloads_max,
            partial_timeout_us: self.partial_timeout.ps().div_ceil(1_000_000).min(u64::from(u32::MAX)) as u32,
            bar_offset: if self.bar_bytes > 0 { bar_offset } else { 0 },
            bar_bytes: self.bar_bytes,
            dma_unit,
            sink_bytes: self.sink_bytes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A count under another method's name says of a run what was not so.
    #[test]
    fn each_transfer_has_the_name_of_its_method() {
        let of_methods =
            Method::ALL.map(Method::kind).into_iter().filter(|kind| *kind != TransferKind::Refused);
        let others = [
            TransferKind::Pointer(PointerKind::Prp),
            TransferKind::Pointer(PointerKind::Sgl),
            TransferKind::Inline { paper: true },
            TransferKind::Hybrid { before: 4096 },
        ];
        let mut named: Vec<usize> = of_methods.chain(others).map(TransferKind::index).collect();
        for method in Method::ALL.into_iter().filter(|method| *method != Method::PiggybackCxl) {
            let kind = method.kind();
            assert!(kind == TransferKind::Refused || kind.name() == method.name(), "{}", method.name());
        }
        named.sort_unstable();
        named.dedup();
        assert_eq!(named, (0..TransferKind::NAMES.len()).collect::<Vec<_>>());
    }
}
