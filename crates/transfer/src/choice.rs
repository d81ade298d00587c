//! The choice of a transfer for each payload: a host's rules, applied to the limits of a queue.

use crate::host::PointerKind;
use crate::method::{Limits, Method, TransferKind};
use byteway_wire::nvme::vendor::Methods;
use byteway_wire::nvme::vendor::piggyback::HEAD_BYTES;

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
    /// Seed of the random numbers of a method that is not built in.
    pub seed: u64,
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
            seed: 0,
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
    /// The longest payload, in bytes, that may take queue entries, so that rings can be made for it.
    pub const fn entries_bytes_max(&self) -> u32 {
        match self.method {
            Method::Adaptive => self.threshold_bytes.saturating_sub(1),
            Method::Own(own) => own.entries_bytes_max(),
            _ => u32::MAX,
        }
    }
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
/// queue: a payload that fits waits for free slots, one that never fits takes the fallback. A method that is not built in is
/// [asked](crate::own::OwnMethod) instead.
pub fn choose(rules: &Rules, limits: &Limits, bytes: u32) -> TransferChoice {
    let fallback = TransferKind::Pointer(rules.fallback);
    let method = match rules.method {
        Method::Adaptive if bytes < rules.threshold_bytes => rules.fine,
        Method::Adaptive => return TransferChoice::pointer(rules.fallback),
        method => method,
    };
    let kind = match method {
        Method::Prp => TransferKind::Pointer(PointerKind::Prp),
        Method::Sgl if bytes < rules.sgl_bytes_min => TransferKind::Pointer(PointerKind::Prp),
        Method::Sgl => TransferKind::Pointer(PointerKind::Sgl),
        // An empty payload is a plain command, by any method.
        _ if bytes == 0 => fallback,
        Method::Hybrid if bytes.is_multiple_of(PAGE) => TransferKind::Pointer(PointerKind::Prp),
        Method::Hybrid if bytes > PAGE => TransferKind::Hybrid { before: bytes - bytes % PAGE },
        Method::Hybrid => TransferKind::Inline { paper: true },
        Method::Inline => TransferKind::Inline { paper: rules.paper_encoding },
        // One command is no incomplete payload, to which alone the drive's limit applies.
        Method::PiggybackCxl if bytes <= HEAD_BYTES as u32 && limits.enabled.piggyback() => {
            return TransferChoice { kind: TransferKind::Piggyback, is_fallback: false };
        }
        // `fine` is a method that carries payloads itself.
        Method::Adaptive | Method::Own(_) => TransferKind::Refused,
        method => method.kind(),
    };
    match limits.carry(kind, bytes) {
        true => TransferChoice { kind, is_fallback: false },
        false => TransferChoice { kind: fallback, is_fallback: true },
    }
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
