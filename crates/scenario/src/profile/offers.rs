//! Transfer methods that a profile offers, and the built-in drives that offer them.

use byteway_text::units::Bytes;
use byteway_transfer::Method;
use byteway_wire::nvme::vendor::{Extension, Methods};

use super::{DRIVES, Profile};

impl Profile {
    /// The longest payload of a fine-grained method that the drive offers, and that is not a combination of two.
    pub fn longest(&self, fine: Method) -> Option<Bytes> {
        fine.longest(&self.transfer.config(self.cxl.as_ref())).map(|bytes| Bytes(bytes.into()))
    }

    /// Whether a host may enable it.
    pub fn offers(&self, extension: Extension) -> bool {
        self.transfer.offers(extension)
            || self.cxl.as_ref().is_some_and(|cxl| Methods::of(&[extension]).is_within(cxl.methods()))
    }
}

/// Names of the built-in drives for which `offers` holds, for an error's remedy.
pub(crate) fn drives_with(offers: impl Fn(&Profile) -> bool) -> Vec<&'static str> {
    let fits = |name: &&str| Profile::built_in(name).is_some_and(|profile| offers(&profile));
    DRIVES.iter().map(|(name, _)| *name).filter(fits).collect()
}
