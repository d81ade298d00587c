//! The methods by name, and which way a payload goes by the one that a host has chosen.

use crate::host::PointerKind;
use byteway_wire::nvme::vendor::piggyback::HEAD_BYTES;
use byteway_wire::nvme::vendor::{Chunk, Extension, InlineSlots, Methods};

/// How payloads are to cross.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Method {
    /// Whole pages, by PRP1, PRP2 and PRP lists.
    #[default]
    Prp,
    /// Exactly the bytes, by scatter gather lists.
    Sgl,
    /// In the fields of commands, one after the other (BandSlim).
    Piggyback,
    /// In the fields of commands, all under way at once.
    PiggybackPipelined,
    /// In the entries behind the command (ByteExpress).
    Inline,
    /// In chunks, in any order and by any queue (ByteExpress 3.3.2).
    InlineReassembly,
    /// By stores to a buffer of the device.
    Mmio,
    /// Fine-grained below a threshold, by data pointer from it on.
    Adaptive,
    /// Whole pages by PRP, and what is beyond them inline behind the same command.
    Hybrid,
    /// By stores to memory of the device over CXL.mem (BandSlim).
    CxlMem,
    /// In the fields of one command as far as they reach, by CXL.mem above that.
    PiggybackCxl,
    /// By stores to memory of the device, and pairs without a command: by a record that the device looks for.
    CxlCommit,
}

/// What a method's payloads have to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// Whatever a command has as its data.
    Data,
    /// Payloads in whose commands there is room for them: of a sink, or of pairs.
    Payloads,
    /// Pairs of keys and values.
    Pairs,
}

/// A method's line in the table of methods: what it is called, and what it asks of a drive. What it does is in
/// [`choose`] and in the two ends that its file has.
pub struct Entry {
    /// Its name in scenarios and reports.
    pub name: &'static str,
    /// What it does, for who chooses one.
    pub about: &'static str,
    /// What a drive has to offer for it, and a queue to be enabled for.
    pub needs: &'static [Extension],
    /// What its payloads have to be.
    pub of: Of,
    /// It may carry what is below the threshold of [`Method::Adaptive`].
    pub is_fine: bool,
}

/// A method that every drive has, or that stands for others.
const PLAIN: Entry = Entry { name: "", about: "", needs: &[], of: Of::Data, is_fine: false };

/// A method that carries short payloads.
const FINE: Entry = Entry { is_fine: true, ..PLAIN };

impl Method {
    /// All, in the order in which they are reported.
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

    /// Its line.
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
                of: Of::Payloads,
                ..FINE
            },
            Method::PiggybackPipelined => &Entry {
                name: "piggyback-pipelined",
                about: "In the fields of commands, all under way at once.",
                needs: &[Extension::PiggybackPipelined],
                of: Of::Payloads,
                ..FINE
            },
            Method::Inline => &Entry {
                name: "inline",
                about: "In the queue entries behind the command.",
                needs: &[Extension::Inline],
                ..FINE
            },
            Method::InlineReassembly => &Entry {
                name: "inline-reassembly",
                about: "In chunks of queue entries, put together by the drive.",
                needs: &[Extension::InlineReassembly],
                ..FINE
            },
            Method::Mmio => &Entry {
                name: "mmio",
                about: "By stores to a buffer of the drive.",
                needs: &[Extension::Mmio],
                ..FINE
            },
            Method::Adaptive => &Entry {
                name: "adaptive",
                about: "By a fine-grained method below a threshold, by data pointer from it on.",
                ..PLAIN
            },
            Method::Hybrid => &Entry {
                name: "hybrid",
                about: "Whole pages by PRP, and what is beyond them inline.",
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
                of: Of::Payloads,
                ..FINE
            },
            Method::CxlCommit => &Entry {
                name: "cxl-commit",
                about: "By stores to memory of the drive over CXL.mem, and without a command: by a record that the drive \
                        looks for. Of key-value drives only.",
                needs: &[Extension::CxlCommit, Extension::CxlMem],
                of: Of::Pairs,
                ..FINE
            },
        }
    }

    /// Its name in scenarios and reports.
    pub const fn name(self) -> &'static str {
        self.entry().name
    }

    /// What a drive has to offer for it, and a queue to be enabled for, when payloads in the entries behind a command are
    /// announced as ByteExpress does it (`paper_encoding`) or not.
    pub const fn needs(self, paper_encoding: bool) -> &'static [Extension] {
        match self {
            Method::Inline if paper_encoding => &[Extension::InlineTail],
            method => method.entry().needs,
        }
    }

    /// Whether all of it is described by a data pointer, which asks nothing of a drive.
    pub const fn is_pointer(self) -> bool {
        matches!(self, Method::Prp | Method::Sgl)
    }
}

/// How a payload that is stored to the device's memory is made sure to be there before its command (CXL.mem and CXL.io are
/// not ordered).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ordering {
    /// Each line is flushed, which ends when the device has it.
    #[default]
    Flushed,
    /// Lines are stored past the cache, and the last one is read back.
    ReadBack,
    /// Lines are stored past the cache, and the command has the payload's checksum: the device waits for it. A commit record
    /// has it always; under the former two it is stored when the payload is there.
    Checksum,
}

/// What a host wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// The method.
    pub method: Method,
    /// What takes payloads that the method cannot carry, and, under [`Method::Adaptive`], those that are not below the
    /// threshold.
    pub fallback: PointerKind,
    /// Under [`Method::Adaptive`]: how payloads below the threshold go.
    pub fine: Method,
    /// Under [`Method::Adaptive`]: payloads shorter than this, bytes, go that way: alpha x tau (BandSlim, Adaptive Value
    /// Transfer Method).
    pub threshold_bytes: u32,
    /// Under [`Method::Sgl`]: shorter payloads go by PRP, as a driver may have it.
    pub sgl_bytes_min: u32,
    /// Inline payload is announced as the paper does it: data pointer left as it is, length in CDW3.
    pub paper_encoding: bool,
    /// Under [`Method::CxlMem`], [`Method::PiggybackCxl`] and [`Method::CxlCommit`].
    pub ordering: Ordering,
}

impl Rules {
    /// One method for everything that it can carry, and PRPs for the rest.
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

    /// What a queue has to be enabled for.
    pub const fn methods(&self) -> Methods {
        let method = match self.method {
            Method::Adaptive => self.fine,
            method => method,
        };
        Methods::of(method.needs(self.paper_encoding))
    }
}

/// What bounds a queue's payloads: what the drive offers, what is enabled for the queue, and the queue's size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// What is enabled.
    pub enabled: Methods,
    /// Entries of the submission queue.
    pub entries: u32,
    /// The longest payload inline, bytes.
    pub inline_bytes_max: u32,
    /// The longest payload in chunks, bytes.
    pub reassembly_bytes_max: u32,
    /// The longest payload piggybacked, bytes.
    pub piggyback_bytes_max: u32,
    /// Of the device's buffer for stores, what one payload may take, bytes.
    pub bar_bytes: u32,
    /// The same of its memory.
    pub memory_bytes: u32,
}

/// A way for one payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// A data pointer describes all of it.
    Pointer(PointerKind),
    /// It lies in the entries behind the command; with `paper`, announced in CDW3.
    Inline {
        /// The paper's encoding.
        paper: bool,
    },
    /// PRPs describe the first `before` bytes, the rest lies behind the command.
    Hybrid {
        /// Whole pages, bytes.
        before: u32,
    },
    /// In chunks.
    Reassembly,
    /// In the fields of commands, serialized.
    Piggyback,
    /// In the fields of commands, pipelined.
    PiggybackPipelined,
    /// In the device's buffer.
    Mmio,
    /// In its memory.
    CxlMem,
    /// There, too, and in the place of a command there is a record.
    CxlCommit,
}

/// What was chosen for a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The way.
    pub way: Way,
    /// The method could not carry it: to be counted.
    pub is_fallback: bool,
}

impl Choice {
    /// A data pointer, as the method says.
    pub const fn pointer(kind: PointerKind) -> Choice {
        Choice { way: Way::Pointer(kind), is_fallback: false }
    }
}

/// A page, of which a hybrid sends whole ones by PRP.
const PAGE: u32 = 4096;

/// The way for a payload of `bytes` to the device. Nothing of it depends on how full the queue is: a payload that fits
/// waits for room, one that never can takes the fallback.
pub fn choose(rules: &Rules, limits: &Limits, bytes: u32) -> Choice {
    let method = match rules.method {
        Method::Adaptive if bytes < rules.threshold_bytes => rules.fine,
        Method::Adaptive => return Choice { way: Way::Pointer(rules.fallback), is_fallback: false },
        method => method,
    };
    let way = match method {
        Method::Prp => Some(Way::Pointer(PointerKind::Prp)),
        Method::Sgl if bytes < rules.sgl_bytes_min => Some(Way::Pointer(PointerKind::Prp)),
        Method::Sgl => Some(Way::Pointer(PointerKind::Sgl)),
        // No bytes are a plain command, by whatever method.
        _ if bytes == 0 => Some(Way::Pointer(rules.fallback)),
        Method::Inline => inline(limits, bytes, 0, rules.paper_encoding),
        Method::Hybrid if bytes.is_multiple_of(PAGE) => Some(Way::Pointer(PointerKind::Prp)),
        Method::Hybrid => inline(limits, bytes, bytes - bytes % PAGE, true),
        Method::InlineReassembly => {
            let fits = bytes <= limits.reassembly_bytes_max && fits(limits.entries, Chunk::count(bytes));
            (limits.enabled.reassembly() && fits).then_some(Way::Reassembly)
        }
        Method::Piggyback => {
            let fits = bytes <= limits.piggyback_bytes_max;
            (limits.enabled.piggyback() && fits).then_some(Way::Piggyback)
        }
        Method::PiggybackPipelined => {
            let fits = bytes <= limits.piggyback_bytes_max;
            (limits.enabled.piggyback_pipelined() && fits).then_some(Way::PiggybackPipelined)
        }
        Method::Mmio => (limits.enabled.mmio() && bytes <= limits.bar_bytes).then_some(Way::Mmio),
        Method::PiggybackCxl if bytes <= HEAD_BYTES as u32 && limits.enabled.piggyback() => {
            Some(Way::Piggyback)
        }
        Method::CxlMem | Method::PiggybackCxl => {
            (limits.enabled.cxl_mem() && bytes <= limits.memory_bytes).then_some(Way::CxlMem)
        }
        Method::CxlCommit => {
            let is_enabled = limits.enabled.cxl_mem() && limits.enabled.cxl_commit();
            (is_enabled && bytes <= limits.memory_bytes).then_some(Way::CxlCommit)
        }
        Method::Adaptive => None, // `fine` is a method that carries payloads itself
    };
    match way {
        Some(way) => Choice { way, is_fallback: false },
        None => Choice { way: Way::Pointer(rules.fallback), is_fallback: true },
    }
}

/// The bytes behind `before` as a train, if they can be one.
fn inline(limits: &Limits, bytes: u32, before: u32, in_cdw3: bool) -> Option<Way> {
    let enabled = if in_cdw3 { limits.enabled.inline_tail() } else { limits.enabled.inline() };
    let tail = bytes - before;
    let fits = tail <= limits.inline_bytes_max && fits(limits.entries, InlineSlots { bytes: tail }.count());
    let way = if before > 0 { Way::Hybrid { before } } else { Way::Inline { paper: in_cdw3 } };
    (enabled && fits).then_some(way)
}

/// Whether a command and `slots` entries with its payload ever fit in a queue, of which one entry is always empty.
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
    const PRP: Choice = Choice { way: Way::Pointer(PointerKind::Prp), is_fallback: false };
    const FALLBACK: Choice = Choice { way: Way::Pointer(PointerKind::Prp), is_fallback: true };

    fn way(way: Way) -> Choice {
        Choice { way, is_fallback: false }
    }

    // A train that never fits would wait for ever; one that just fits must not fall back.
    #[test]
    fn a_train_needs_room_for_its_command_too() {
        let rules = Rules::only(Method::Inline);
        for (entries, bytes, expected) in [
            (2, 1, FALLBACK),
            (3, 64, way(Way::Inline { paper: false })),
            (3, 65, FALLBACK),
            (256, 254 * 64, FALLBACK), // above the drive's limit
            (256, 8192, way(Way::Inline { paper: false })),
            (129, 8192, FALLBACK),
            (130, 8192, way(Way::Inline { paper: false })),
            (2, 0, PRP),
        ] {
            assert_eq!(choose(&rules, &Limits { entries, ..ALL }, bytes), expected, "{bytes} in {entries}");
        }
    }

    // A drive that was not told must be spoken to as a plain one.
    #[test]
    fn what_is_not_enabled_falls_back() {
        let plain = Limits { enabled: Methods::new(), ..ALL };
        for method in Method::ALL {
            let rules = Rules { threshold_bytes: 4096, ..Rules::only(method) };
            let choice = choose(&rules, &plain, 100);
            let standard = matches!(method, Method::Prp | Method::Sgl);
            assert_eq!(choice.is_fallback, !standard, "{}", method.name());
            assert!(matches!(choice.way, Way::Pointer(_)));
            assert!(!choose(&rules, &Limits { enabled: rules.methods(), ..plain }, 100).is_fallback);
        }
    }

    // The hybrid of BandSlim's two ways: one byte more than a command's fields hold would take a second command.
    #[test]
    fn what_a_command_holds_is_piggybacked_and_more_stored() {
        let rules = Rules::only(Method::PiggybackCxl);
        assert_eq!(choose(&rules, &ALL, 35), way(Way::Piggyback));
        assert_eq!(choose(&rules, &ALL, 36), way(Way::CxlMem));
        assert_eq!(choose(&rules, &ALL, 8193), FALLBACK);
        let cxl = Limits { enabled: Methods::new().with_cxl_mem(true), ..ALL };
        assert_eq!(choose(&rules, &cxl, 35), way(Way::CxlMem));
        let fine = Rules { fine: Method::PiggybackCxl, threshold_bytes: 64, ..Rules::only(Method::Adaptive) };
        assert_eq!(choose(&fine, &ALL, 63), way(Way::CxlMem));
        assert_eq!(choose(&fine, &ALL, 64), PRP);
        let rules = Rules::only(Method::CxlCommit);
        assert_eq!(choose(&rules, &ALL, 1), way(Way::CxlCommit));
        assert_eq!(choose(&rules, &ALL, 8193), FALLBACK);
        assert_eq!(choose(&rules, &cxl, 1), FALLBACK, "there is no ring");
    }

    // BandSlim's equation: fine-grained if the size is below the threshold, by PRP from it on. A byte off is another method.
    #[test]
    fn thresholds_are_to_the_byte() {
        let rules = Rules { threshold_bytes: 128, ..Rules::only(Method::Adaptive) };
        assert_eq!(choose(&rules, &ALL, 127), way(Way::Inline { paper: false }));
        assert_eq!(choose(&rules, &ALL, 128), PRP);
        let rules = Rules { sgl_bytes_min: 32768, ..Rules::only(Method::Sgl) };
        assert_eq!(choose(&rules, &ALL, 32767), PRP);
        assert_eq!(choose(&rules, &ALL, 32768), way(Way::Pointer(PointerKind::Sgl)));
        let rules = Rules::only(Method::Hybrid);
        assert_eq!(choose(&rules, &ALL, 4096), PRP);
        assert_eq!(choose(&rules, &ALL, 4160), way(Way::Hybrid { before: 4096 }));
        assert_eq!(choose(&rules, &ALL, 64), way(Way::Inline { paper: true }));
    }
}
