//! Transfer methods that a profile offers, and the built-in drives that offer them.

use byteway_text::units::Bytes;
use byteway_transfer::Method;
use byteway_wire::nvme::vendor::Extension;

use super::{DRIVES, Profile};

impl Profile {
    /// The longest payload of a fine-grained method that is not a combination of two.
    pub fn longest(&self, fine: Method) -> Option<Bytes> {
        let transfer = &self.transfer;
        match fine {
            Method::Piggyback | Method::PiggybackPipelined => Some(transfer.piggyback_max),
            Method::Inline => Some(transfer.inline_max),
            Method::InlineReassembly => Some(transfer.reassembly_max),
            Method::Mmio => Some(transfer.bar),
            Method::CxlMem => self.cxl.as_ref().map(|cxl| cxl.area),
            Method::Prp | Method::Sgl | Method::Adaptive | Method::Hybrid => None,
            Method::PiggybackCxl | Method::CxlCommit => None,
        }
    }

    /// Whether a host may enable it.
    pub fn offers(&self, extension: Extension) -> bool {
        self.transfer.offers(extension)
            || match (extension, &self.cxl) {
                (Extension::CxlMem, Some(_)) => true,
                (Extension::CxlCommit, Some(cxl)) => cxl.records > 0,
                _ => false,
            }
    }
}

/// Names of the built-in drives for which `offers` holds, for an error's remedy.
pub(crate) fn drives_with(offers: impl Fn(&Profile) -> bool) -> Vec<&'static str> {
    let fits = |name: &&str| Profile::built_in(name).is_some_and(|profile| offers(&profile));
    DRIVES.iter().map(|(name, _)| *name).filter(fits).collect()
}
