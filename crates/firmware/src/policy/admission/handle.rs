//! Policies of admission under their names.

use super::built_in::BUILT_IN;
use super::view::{Admission, AdmissionView};
use byteway_policy::{BuiltIn, Kind, Made, Named, WrongArgument};

/// A policy of admission that was made, or what is wrong with its argument.
pub type MadeAdmission = Made<dyn Admission>;

/// A policy of admission under its name.
pub type AdmissionPolicy = Named<dyn Admission>;

impl Kind for dyn Admission {
    fn built_in() -> &'static [BuiltIn<Self>] {
        &BUILT_IN
    }

    fn unmade(why: WrongArgument) -> Box<Self> {
        Box::new(Unmade(why))
    }
}

/// A policy that could not be made again: its fault counts.
struct Unmade(WrongArgument);

impl Admission for Unmade {
    fn admits(&mut self, _view: &mut AdmissionView<'_>) -> bool {
        true
    }

    fn fault(&self) -> Option<String> {
        Some(format!("it {}", self.0.what))
    }
}
