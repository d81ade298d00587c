//! Policies of suspension under their names.

use super::built_in::BUILT_IN;
use super::view::{Suspend, SuspendView};
use byteway_policy::{BuiltIn, Kind, Made, Named, WrongArgument};

/// A policy that was made, or what is wrong with its argument.
pub type MadeSuspend = Made<dyn Suspend>;

/// A policy of suspension under its name.
pub type SuspendPolicy = Named<dyn Suspend>;

impl Kind for dyn Suspend {
    fn built_in() -> &'static [BuiltIn<Self>] {
        &BUILT_IN
    }

    fn unmade(why: WrongArgument) -> Box<Self> {
        Box::new(Unmade(why))
    }
}

/// A policy that could not be made again: its fault counts, whatever it decides.
struct Unmade(WrongArgument);

impl Suspend for Unmade {
    fn suspends(&mut self, _view: &mut SuspendView<'_>) -> bool {
        false
    }

    fn fault(&self) -> Option<String> {
        Some(format!("it {}", self.0.what))
    }
}
