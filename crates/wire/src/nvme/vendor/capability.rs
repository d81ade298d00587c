//! What a drive offers of the extensions, and what a host has enabled of them.

use bitfield_struct::bitfield;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::nvme::assert_offsets;

/// A set of extensions: offered ([`Capabilities::methods`]), or enabled for a queue (feature C0h: CDW11 of Set Features,
/// dword 0 of Get Features' completion; the submission queue stands in CDW12 of the former, and in CDW11 of the
/// latter).
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct Methods {
    /// Payload in the entries behind its command, in order (ByteExpress 3.3).
    pub inline: bool,
    /// CDW3 of commands with data to the controller is the length of an inline tail.
    pub inline_tail: bool,
    /// Payload in chunks that are put together by their identifiers (ByteExpress 3.3.2).
    pub reassembly: bool,
    /// Payload in the fields of commands, one stream at a time in a queue (BandSlim).
    pub piggyback: bool,
    /// The same, with several streams, none of whose commands waits for another.
    pub piggyback_pipelined: bool,
    /// Payload stored to a buffer behind the registers of BAR0.
    pub mmio: bool,
    /// Payload stored to memory of the device over CXL.mem ([`cxl`](super::cxl)).
    pub cxl_mem: bool,
    /// Short results in the entries behind a completion.
    pub inline_result: bool,
    /// Not a method: the host's buffers for results are rounded up to whole DMA units, and may be written so.
    pub rounded_results: bool,
    /// Pairs are stored without a command, by records in memory of the device ([`commit`](super::commit)). Enabled for a queue,
    /// it switches the device's one ring on.
    pub cxl_commit: bool,
    #[bits(22)]
    __: u32,
}

/// One of what [`Methods`] may have in it; its value is the number of its bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Extension {
    /// [`Methods::inline`].
    Inline = 0,
    /// [`Methods::inline_tail`].
    InlineTail = 1,
    /// [`Methods::reassembly`].
    InlineReassembly = 2,
    /// [`Methods::piggyback`].
    Piggyback = 3,
    /// [`Methods::piggyback_pipelined`].
    PiggybackPipelined = 4,
    /// [`Methods::mmio`].
    Mmio = 5,
    /// [`Methods::cxl_mem`].
    CxlMem = 6,
    /// [`Methods::cxl_commit`].
    CxlCommit = 9,
    /// [`Methods::inline_result`].
    InlineResult = 7,
    /// [`Methods::rounded_results`].
    RoundedResults = 8,
}

impl Extension {
    /// All of them, each with its name in profiles and what a drive that offers it does.
    pub const TABLE: [(Extension, &'static str, &'static str); 10] = [
        (Extension::Inline, "inline", "Payload in the queue entries behind its command."),
        (
            Extension::InlineTail,
            "inline-tail",
            "The same announced in CDW3, behind whole pages by PRP or alone: hybrids, and ByteExpress's own encoding.",
        ),
        (
            Extension::InlineReassembly,
            "inline-reassembly",
            "Payload in chunks, in any order and by any queue.",
        ),
        (Extension::Piggyback, "piggyback", "Payload in the fields of commands, one after the other."),
        (Extension::PiggybackPipelined, "piggyback-pipelined", "The same, all under way at once."),
        (Extension::Mmio, "mmio", "Payload stored to a buffer of the drive."),
        (
            Extension::CxlMem,
            "cxl-mem",
            "Payload stored to the drive's memory over CXL.mem. A profile with `[cxl]` offers it without naming it.",
        ),
        (
            Extension::CxlCommit,
            "cxl-commit",
            "Pairs stored over CXL.mem without a command. A profile with `cxl.records` offers it without naming it.",
        ),
        (Extension::InlineResult, "inline-result", "Results behind their completion."),
        (
            Extension::RoundedResults,
            "rounded-results",
            "Results in whole DMA units, where the host has room for them.",
        ),
    ];

    /// Its name in profiles.
    pub fn name(self) -> &'static str {
        let entry = Extension::TABLE.iter().find(|(extension, ..)| *extension == self);
        entry.expect("the table has all of them").1
    }
}

impl Methods {
    /// Those, and nothing else.
    pub const fn of(extensions: &[Extension]) -> Methods {
        let (mut bits, mut at) = (0, 0);
        while at < extensions.len() {
            bits |= 1 << extensions[at] as u32;
            at += 1;
        }
        Methods::from_bits(bits)
    }

    /// Whether it has nothing that `offered` has not.
    pub const fn is_within(self, offered: Methods) -> bool {
        self.into_bits() & !offered.into_bits() == 0
    }

    /// Whether nothing is in it.
    pub const fn is_empty(self) -> bool {
        self.into_bits() == 0
    }

    /// Whether entries of a queue may carry payload, so that what an entry is depends on those before it.
    pub const fn is_in_order(self) -> bool {
        self.inline() || self.inline_tail() || self.reassembly()
    }

    /// What is in both.
    pub const fn and(self, other: Methods) -> Methods {
        Methods::from_bits(self.into_bits() & other.into_bits())
    }

    /// What is in either.
    pub const fn or(self, other: Methods) -> Methods {
        Methods::from_bits(self.into_bits() | other.into_bits())
    }
}

/// What a drive offers: at the beginning of the vendor bytes of Identify Controller (bytes 3072 to 3135).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Capabilities {
    /// [`Capabilities::SIGNATURE`]; anything else: a drive without extensions.
    pub signature: [u8; 8],
    /// [`Capabilities::VERSION`].
    pub version: u32,
    /// [`Methods`] that can be enabled.
    pub methods: u32,
    /// The longest payload inline, bytes.
    pub inline_bytes_max: u32,
    /// The longest payload that is put together from chunks, bytes.
    pub reassembly_bytes_max: u32,
    /// The longest payload piggybacked, bytes.
    pub piggyback_bytes_max: u32,
    /// The longest result behind a completion, bytes.
    pub inline_result_bytes_max: u32,
    /// Payloads that may be incomplete at once, of both kinds together: chunks and streams beyond them are refused.
    pub partial_payloads_max: u32,
    /// After how long an incomplete payload is given up, microseconds.
    pub partial_timeout_us: u32,
    /// Where the buffer for payload lies in BAR0.
    pub bar_offset: u64,
    /// How large it is, bytes; 0: there is none.
    pub bar_bytes: u32,
    /// DMA unit, bytes: reads of host memory are rounded to it, and results where the host allows.
    pub dma_unit: u32,
    /// Bytes of the payload sink; 0: there is none.
    pub sink_bytes: u64,
}

assert_offsets!(Capabilities: 64; signature = 0, version = 8, methods = 12, inline_bytes_max = 16,
    reassembly_bytes_max = 20, piggyback_bytes_max = 24, inline_result_bytes_max = 28, partial_payloads_max = 32,
    partial_timeout_us = 36, bar_offset = 40, bar_bytes = 48, dma_unit = 52, sink_bytes = 56);

impl Capabilities {
    /// "BYTEWAY" and a zero.
    pub const SIGNATURE: [u8; 8] = *b"BYTEWAY\0";
    /// The layout that this is.
    pub const VERSION: u32 = 1;

    /// What the vendor bytes of Identify Controller say; nothing at all if they are another's.
    pub fn parse(vendor: &[u8; 1024]) -> Capabilities {
        let Ok((found, _)) = Capabilities::read_from_prefix(vendor) else { return Capabilities::default() };
        let known = found.signature == Capabilities::SIGNATURE && found.version == Capabilities::VERSION;
        if known { found } else { Capabilities::default() }
    }

    /// Writes it to the vendor bytes.
    pub fn write(&self, vendor: &mut [u8; 1024]) {
        vendor[..size_of::<Capabilities>()].copy_from_slice(self.as_bytes());
    }

    /// What can be enabled.
    pub const fn offered(&self) -> Methods {
        Methods::from_bits(self.methods)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table that names a bit by another's name would enable what nobody asked for.
    #[test]
    fn every_extension_is_its_own_bit() {
        let all: Vec<Extension> = Extension::TABLE.iter().map(|(extension, ..)| *extension).collect();
        assert_eq!(Methods::of(&all).into_bits(), 0x3FF);
        let methods = Methods::of(&[Extension::CxlCommit, Extension::InlineReassembly]);
        assert_eq!(methods, Methods::new().with_cxl_commit(true).with_reassembly(true));
        let others =
            [Extension::Inline, Extension::InlineTail, Extension::Piggyback, Extension::PiggybackPipelined];
        let others_set = Methods::new().with_inline(true).with_inline_tail(true).with_piggyback(true);
        assert_eq!(Methods::of(&others), others_set.with_piggyback_pipelined(true));
        let results = Methods::new().with_inline_result(true).with_rounded_results(true);
        assert_eq!(Methods::of(&[Extension::InlineResult, Extension::RoundedResults]), results);
        let stored = Methods::new().with_mmio(true).with_cxl_mem(true);
        assert_eq!(Methods::of(&[Extension::Mmio, Extension::CxlMem]), stored);
    }

    /// Without this a drive of another make would be taken for one with these extensions.
    #[test]
    fn only_its_own_signature_and_version_count() {
        let methods = Methods::new().with_inline(true).with_mmio(true);
        let ours = Capabilities {
            signature: Capabilities::SIGNATURE,
            version: 1,
            methods: methods.into_bits(),
            inline_bytes_max: 4096,
            ..Capabilities::default()
        };
        let mut vendor = [0; 1024];
        assert_eq!(Capabilities::parse(&vendor), Capabilities::default());
        ours.write(&mut vendor);
        assert_eq!(Capabilities::parse(&vendor), ours);
        assert_eq!(Capabilities::parse(&vendor).offered(), methods);
        assert_eq!((vendor[12], vendor[17]), (0b100001, 16));
        vendor[8] = 2;
        assert_eq!(Capabilities::parse(&vendor), Capabilities::default());
    }
}
