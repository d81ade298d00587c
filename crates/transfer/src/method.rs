//! The transfer methods by name, and the choice for a payload.

use crate::host::PointerKind;
use byteway_wire::nvme::vendor::piggyback::HEAD_BYTES;
use byteway_wire::nvme::vendor::{Chunk, Extension, InlineSlots, Methods};

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

/// Properties of a method: its name, and what it requires of a drive. Its behaviour is in [`choose`] and in
/// the two ends in its file.
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
    /// All methods, in report order.
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
}

/// How a host ensures that a payload stored to device memory is visible before its command, since CXL.mem and
/// CXL.io are not ordered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ordering {
    /// Each line is flushed; the flush completes when the device has the line.
    #[default]
    Flushed,
    /// Lines are stored past the cache, and the last one is read back.
    ReadBack,
    /// Lines are stored past the cache, and the command carries the payload's checksum, for which the device
    /// waits. A commit record always carries it; with the former two it is stored once the payload is
    /// visible.
    Checksum,
}

/// A host's choice of methods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// The method.
    pub method: Method,
    /// Data pointer for payloads that the method cannot carry, and, under [`Method::Adaptive`], for those at
    /// or above the threshold.
    pub fallback: PointerKind,
    /// Under [`Method::Adaptive`]: the method for payloads below the threshold.
    pub fine: Method,
    /// Under [`Method::Adaptive`]: the threshold in bytes, alpha x tau (BandSlim, Adaptive Value Transfer
    /// Method).
    pub threshold_bytes: u32,
    /// Under [`Method::Sgl`]: payloads shorter than this, in bytes, go by PRP, as with some drivers.
    pub sgl_bytes_min: u32,
    /// Inline payload is announced as in the paper: data pointer unchanged, length in CDW3.
    pub paper_encoding: bool,
    /// For [`Method::CxlMem`], [`Method::PiggybackCxl`] and [`Method::CxlCommit`]: how a store precedes its
    /// command.
    pub ordering: Ordering,
}

impl Rules {
    /// One method for every payload that it can carry, and PRPs for the rest.
    pub const fn only(method: Method) -> Rules {
        Rules {
            method,
            fallback: PointerKind::Prp,
            fine: Method::Inline,
            threshold_bytes: 0,
            sgl_bytes_min: 0,
            paper_encoding: false,
            ordering: Ordering::Flushed,
        }
    }

    /// The extensions that a queue must be enabled for.
    pub const fn methods(&self) -> Methods {
        let method = match self.method {
            Method::Adaptive => self.fine,
            method => method,
        };
        Methods::of(method.needs(self.paper_encoding))
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
}

/// The transfer chosen for a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransferChoice {
    /// The transfer.
    pub kind: TransferKind,
    /// The method could not carry it, which is counted.
    pub is_fallback: bool,
}

impl TransferChoice {
    /// A data pointer, as the method prescribes.
    pub const fn pointer(kind: PointerKind) -> TransferChoice {
        TransferChoice { kind: TransferKind::Pointer(kind), is_fallback: false }
    }
}

/// Page size; a hybrid sends whole pages by PRP.
const PAGE: u32 = 4096;

/// Chooses the transfer of a payload of `bytes` to the device. The choice does not depend on the fill of the
/// queue: a payload that fits waits for free slots, one that never fits takes the fallback.
pub fn choose(rules: &Rules, limits: &Limits, bytes: u32) -> TransferChoice {
    let method = match rules.method {
        Method::Adaptive if bytes < rules.threshold_bytes => rules.fine,
        Method::Adaptive => {
            return TransferChoice { kind: TransferKind::Pointer(rules.fallback), is_fallback: false };
        }
        method => method,
    };
    let kind = match method {
        Method::Prp => Some(TransferKind::Pointer(PointerKind::Prp)),
        Method::Sgl if bytes < rules.sgl_bytes_min => Some(TransferKind::Pointer(PointerKind::Prp)),
        Method::Sgl => Some(TransferKind::Pointer(PointerKind::Sgl)),
        // An empty payload is a plain command, by any method.
        _ if bytes == 0 => Some(TransferKind::Pointer(rules.fallback)),
        Method::Inline => inline(limits, bytes, 0, rules.paper_encoding),
        Method::Hybrid if bytes.is_multiple_of(PAGE) => Some(TransferKind::Pointer(PointerKind::Prp)),
        Method::Hybrid => inline(limits, bytes, bytes - bytes % PAGE, true),
        Method::InlineReassembly => {
            let fits = bytes <= limits.reassembly_bytes_max && fits(limits.entries, Chunk::count(bytes));
            (limits.enabled.reassembly() && fits).then_some(TransferKind::Reassembly)
        }
        Method::Piggyback => {
            let fits = bytes <= limits.piggyback_bytes_max;
            (limits.enabled.piggyback() && fits).then_some(TransferKind::Piggyback)
        }
        Method::PiggybackPipelined => {
            let fits = bytes <= limits.piggyback_bytes_max;
            (limits.enabled.piggyback_pipelined() && fits).then_some(TransferKind::PiggybackPipelined)
        }
        Method::Mmio => (limits.enabled.mmio() && bytes <= limits.bar_bytes).then_some(TransferKind::Mmio),
        Method::PiggybackCxl if bytes <= HEAD_BYTES as u32 && limits.enabled.piggyback() => {
            Some(TransferKind::Piggyback)
        }
        Method::CxlMem | Method::PiggybackCxl => {
            (limits.enabled.cxl_mem() && bytes <= limits.memory_bytes).then_some(TransferKind::CxlMem)
        }
        Method::CxlCommit => {
            let is_enabled = limits.enabled.cxl_mem() && limits.enabled.cxl_commit();
            (is_enabled && bytes <= limits.memory_bytes).then_some(TransferKind::CxlCommit)
        }
        Method::Adaptive => None, // `fine` is a method that carries payloads itself
    };
    match kind {
        Some(kind) => TransferChoice { kind, is_fallback: false },
        None => TransferChoice { kind: TransferKind::Pointer(rules.fallback), is_fallback: true },
    }
}

/// A train for the bytes behind `before`, if possible.
fn inline(limits: &Limits, bytes: u32, before: u32, in_cdw3: bool) -> Option<TransferKind> {
    let enabled = if in_cdw3 { limits.enabled.inline_tail() } else { limits.enabled.inline() };
    let tail = bytes - before;
    let fits = tail <= limits.inline_bytes_max && fits(limits.entries, InlineSlots { bytes: tail }.count());
    let kind =
        if before > 0 { TransferKind::Hybrid { before } } else { TransferKind::Inline { paper: in_cdw3 } };
    (enabled && fits).then_some(kind)
}

/// Whether a command and `slots` slots of payload ever fit in a queue, of which one slot is always empty.
pub const fn fits(entries: u32, slots: u32) -> bool {
    entries > 0 && slots < entries - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Limits = Limits {
        enabled: Methods::from_bits(0x3FF),
        entries: 256,
        inline_bytes_max: 8192,
        reassembly_bytes_max: 8192,
        piggyback_bytes_max: 8192,
        bar_bytes: 8192,
        memory_bytes: 8192,
    };
    const PRP: TransferChoice =
        TransferChoice { kind: TransferKind::Pointer(PointerKind::Prp), is_fallback: false };
    const FALLBACK: TransferChoice =
        TransferChoice { kind: TransferKind::Pointer(PointerKind::Prp), is_fallback: true };

    fn chosen(kind: TransferKind) -> TransferChoice {
        TransferChoice { kind, is_fallback: false }
    }

    // A train that never fits would wait indefinitely; one that just fits must not fall back.
    #[test]
    fn a_train_needs_room_for_its_command_too() {
        let rules = Rules::only(Method::Inline);
        for (entries, bytes, expected) in [
            (2, 1, FALLBACK),
            (3, 64, chosen(TransferKind::Inline { paper: false })),
            (3, 65, FALLBACK),
            (256, 254 * 64, FALLBACK), // above the drive's limit
            (256, 8192, chosen(TransferKind::Inline { paper: false })),
            (129, 8192, FALLBACK),
            (130, 8192, chosen(TransferKind::Inline { paper: false })),
            (2, 0, PRP),
        ] {
            assert_eq!(choose(&rules, &Limits { entries, ..ALL }, bytes), expected, "{bytes} in {entries}");
        }
    }

    // A drive on which the method is not enabled must be addressed as a plain one.
    #[test]
    fn what_is_not_enabled_falls_back() {
        let plain = Limits { enabled: Methods::new(), ..ALL };
        for method in Method::ALL {
            let rules = Rules { threshold_bytes: 4096, ..Rules::only(method) };
            let choice = choose(&rules, &plain, 100);
            let standard = matches!(method, Method::Prp | Method::Sgl);
            assert_eq!(choice.is_fallback, !standard, "{}", method.name());
            assert!(matches!(choice.kind, TransferKind::Pointer(_)));
            assert!(!choose(&rules, &Limits { enabled: rules.methods(), ..plain }, 100).is_fallback);
        }
    }

    // The combination of BandSlim's two methods: one byte more than a command's fields hold would need a
    // second command.
    #[test]
    fn what_a_command_holds_is_piggybacked_and_more_stored() {
        let rules = Rules::only(Method::PiggybackCxl);
        assert_eq!(choose(&rules, &ALL, 35), chosen(TransferKind::Piggyback));
        assert_eq!(choose(&rules, &ALL, 36), chosen(TransferKind::CxlMem));
        assert_eq!(choose(&rules, &ALL, 8193), FALLBACK);
        let cxl = Limits { enabled: Methods::new().with_cxl_mem(true), ..ALL };
        assert_eq!(choose(&rules, &cxl, 35), chosen(TransferKind::CxlMem));
        let fine = Rules { fine: Method::PiggybackCxl, threshold_bytes: 64, ..Rules::only(Method::Adaptive) };
        assert_eq!(choose(&fine, &ALL, 63), chosen(TransferKind::CxlMem));
        assert_eq!(choose(&fine, &ALL, 64), PRP);
        let rules = Rules::only(Method::CxlCommit);
        assert_eq!(choose(&rules, &ALL, 1), chosen(TransferKind::CxlCommit));
        assert_eq!(choose(&rules, &ALL, 8193), FALLBACK);
        assert_eq!(choose(&rules, &cxl, 1), FALLBACK, "there is no ring");
    }

    // BandSlim's equation: fine-grained below the threshold, by PRP from it on. One byte off is another
    // method.
    #[test]
    fn thresholds_are_to_the_byte() {
        let rules = Rules { threshold_bytes: 128, ..Rules::only(Method::Adaptive) };
        assert_eq!(choose(&rules, &ALL, 127), chosen(TransferKind::Inline { paper: false }));
        assert_eq!(choose(&rules, &ALL, 128), PRP);
        let rules = Rules { sgl_bytes_min: 32768, ..Rules::only(Method::Sgl) };
        assert_eq!(choose(&rules, &ALL, 32767), PRP);
        assert_eq!(choose(&rules, &ALL, 32768), chosen(TransferKind::Pointer(PointerKind::Sgl)));
        let rules = Rules::only(Method::Hybrid);
        assert_eq!(choose(&rules, &ALL, 4096), PRP);
        assert_eq!(choose(&rules, &ALL, 4160), chosen(TransferKind::Hybrid { before: 4096 }));
        assert_eq!(choose(&rules, &ALL, 64), chosen(TransferKind::Inline { paper: true }));
    }
}
