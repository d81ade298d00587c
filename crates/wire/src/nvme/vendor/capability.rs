//! Vendor extensions that a drive offers, and those that a host has enabled.

use bitfield_struct::bitfield;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::nvme::assert_offsets;

/// A set of extensions: offered ([`Capabilities::methods`]), or enabled for a queue by feature C0h (CDW11 of Set
/// Features, with the submission queue in CDW12; dword 0 of Get Features' completion, with the queue in CDW11).
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct Methods {
    /// Payload in the entries after its command, in order (ByteExpress 3.3).
    pub inline: bool,
    /// CDW3 of commands with data to the controller is the length of the inline tail.
    pub inline_tail: bool,
    /// Payload in chunks that are assembled by identifier (ByteExpress 3.3.2).
    pub reassembly: bool,
    /// Payload in command fields, one stream at a time per queue (BandSlim).
    pub piggyback: bool,
    /// Payload in command fields, with several streams whose commands do not wait for each other.
    pub piggyback_pipelined: bool,
    /// Payload stored to a buffer after the registers in BAR0.
    pub mmio: bool,
    /// Payload stored to device memory over CXL.mem ([`cxl`](super::cxl)).
    pub cxl_mem: bool,
    /// Short results in the entries after a completion.
    pub inline_result: bool,
    /// Not a method: the host's result buffers are rounded up to whole DMA units, and may be written as such.
    pub rounded_results: bool,
    /// Key-value pairs are stored without a command, by records in device memory ([`commit`](super::commit)). Enabling
    /// it for a queue switches on the device's only ring.
    pub cxl_commit: bool,
    #[bits(22)]
    __: u32,
}

/// An element of [`Methods`]; its value is the bit number.
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
    /// All extensions, with their names in profiles and what a drive does with them.
    pub const TABLE: [(Extension, &'static str, &'static str); 10] = [
        (Extension::Inline, "inline", "Payload in the queue entries after its command."),
        (
            Extension::InlineTail,
            "inline-tail",
            "Payload after its command, announced in CDW3, after whole pages by PRP or alone: hybrids, and ByteExpress's own encoding.",
        ),
        (
            Extension::InlineReassembly,
            "inline-reassembly",
            "Payload in chunks, in any order and in any queue.",
        ),
        (Extension::Piggyback, "piggyback", "Payload in command fields, one stream at a time in a queue."),
        (
            Extension::PiggybackPipelined,
            "piggyback-pipelined",
            "Payload in command fields, with several streams in flight.",
        ),
        (Extension::Mmio, "mmio", "Payload stored to a buffer of the drive."),
        (
            Extension::CxlMem,
            "cxl-mem",
            "Payload stored to the drive's memory over CXL.mem. A profile with `[cxl]` offers it without naming it.",
        ),
        (
            Extension::CxlCommit,
            "cxl-commit",
            "Key-value pairs stored over CXL.mem without a command. A profile with `cxl.records` offers it without naming it.",
        ),
        (Extension::InlineResult, "inline-result", "Results after their completion."),
        (
            Extension::RoundedResults,
            "rounded-results",
            "Results in whole DMA units, where the host's buffer is large enough.",
        ),
    ];

    /// Name in profiles.
    pub fn name(self) -> &'static str {
        let entry = Extension::TABLE.iter().find(|(extension, ..)| *extension == self);
        entry.expect("the table has all of them").1
    }
}

impl Methods {
    /// The set of these extensions.
    pub const fn of(extensions: &[Extension]) -> Methods {
        let (mut bits, mut at) = (0, 0);
        while at < extensions.len() {
            bits |= 1 << extensions[at] as u32;
            at += 1;
        }
        Methods::from_bits(bits)
    }

    /// Whether `offered` contains all of these methods.
    pub const fn is_within(self, offered: Methods) -> bool {
        self.into_bits() & !offered.into_bits() == 0
    }

    /// Whether it is empty.
    pub const fn is_empty(self) -> bool {
        self.into_bits() == 0
    }

    /// Whether entries of a queue may carry payload, so that the meaning of an entry depends on those before it.
    pub const fn is_in_order(self) -> bool {
        self.inline() || self.inline_tail() || self.reassembly()
    }

    /// The intersection.
    pub const fn and(self, other: Methods) -> Methods {
        Methods::from_bits(self.into_bits() & other.into_bits())
    }

    /// The union.
    pub const fn or(self, other: Methods) -> Methods {
        Methods::from_bits(self.into_bits() | other.into_bits())
    }
}

/// Extensions that a drive offers: the first of the vendor bytes of Identify Controller (bytes 3072 to 3135).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Capabilities {
    /// [`Capabilities::SIGNATURE`]; with anything else the drive has no extensions.
    pub signature: [u8; 8],
    /// [`Capabilities::VERSION`].
    pub version: u32,
    /// [`Methods`] that can be enabled.
    pub methods: u32,
    /// The longest inline payload, in bytes.
    pub inline_bytes_max: u32,
    /// The longest payload in chunks, in bytes.
    pub reassembly_bytes_max: u32,
    /// The longest piggybacked payload, in bytes.
    pub piggyback_bytes_max: u32,
    /// The longest result after a completion, in bytes.
    pub inline_result_bytes_max: u32,
    /// Maximum number of incomplete payloads, chunks and streams together: further ones are refused.
    pub partial_payloads_max: u32,
    /// Time after which an incomplete payload is dropped, in microseconds.
    pub partial_timeout_us: u32,
    /// Offset of the payload buffer in BAR0.
    pub bar_offset: u64,
    /// Size of the payload buffer, in bytes; 0 if there is none.
    pub bar_bytes: u32,
    /// DMA unit, in bytes: reads of host memory are rounded to it, and results where the host permits.
    pub dma_unit: u32,
    /// Size of the payload sink, in bytes; 0 if there is none.
    pub sink_bytes: u64,
}

assert_offsets!(Capabilities: 64; signature = 0, version = 8, methods = 12, inline_bytes_max = 16,
    reassembly_bytes_max = 20, piggyback_bytes_max = 24, inline_result_bytes_max = 28, partial_payloads_max = 32,
    partial_timeout_us = 36, bar_offset = 40, bar_bytes = 48, dma_unit = 52, sink_bytes = 56);

impl Capabilities {
    /// "BYTEWAY" and a zero.
    pub const SIGNATURE: [u8; 8] = *b"BYTEWAY\0";
    /// The version of this layout.
    pub const VERSION: u32 = 1;

    /// Decodes the vendor bytes of Identify Controller; empty if they are another vendor's.
    pub fn parse(vendor: &[u8; 1024]) -> Capabilities {
        let Ok((found, _)) = Capabilities::read_from_prefix(vendor) else { return Capabilities::default() };
        let known = found.signature == Capabilities::SIGNATURE && found.version == Capabilities::VERSION;
        if known { found } else { Capabilities::default() }
    }

    /// Encodes it to the vendor bytes.
    pub fn write(&self, vendor: &mut [u8; 1024]) {
        vendor[..size_of::<Capabilities>()].copy_from_slice(self.as_bytes());
    }

    /// The methods that can be enabled.
    pub const fn offered(&self) -> Methods {
        Methods::from_bits(self.methods)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table that gives a bit the name of another would enable what no host asked for.
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

    /// Without this another vendor's drive would be taken for one with these extensions.
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
