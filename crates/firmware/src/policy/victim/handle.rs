//! Victim policies under their names.

use super::built_in::BUILT_IN;
use super::view::{Victim, VictimView};
use byteway_policy::{BuiltIn, Kind, Made, Named, WrongArgument};

/// A victim policy that was made, or what is wrong with its argument.
pub type MadeVictim = Made<dyn Victim>;

/// A victim policy under its name.
pub type VictimPolicy = Named<dyn Victim>;

impl Kind for dyn Victim {
    fn built_in() -> &'static [BuiltIn<Self>] {
        &BUILT_IN
    }

    fn unmade(why: WrongArgument) -> Box<Self> {
        Box::new(Unmade(why))
    }
}

/// A policy that could not be made again: it chooses nothing, and says why.
struct Unmade(WrongArgument);

impl Victim for Unmade {
    fn choose(&mut self, _view: &mut VictimView<'_>) -> u32 {
        u32::MAX
    }

    fn fault(&self) -> Option<String> {
        Some(format!("it {}", self.0.what))
    }
}
