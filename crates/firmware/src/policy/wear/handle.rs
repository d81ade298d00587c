//! Wear policies under their names.

use super::built_in::BUILT_IN;
use super::view::{Opening, Wear, WearView};
use byteway_policy::{BuiltIn, Kind, Made, Named, WrongArgument};

/// A wear policy that was made, or what is wrong with its argument.
pub type MadeWear = Made<dyn Wear>;

/// A wear policy under its name.
pub type WearPolicy = Named<dyn Wear>;

impl Kind for dyn Wear {
    fn built_in() -> &'static [BuiltIn<Self>] {
        &BUILT_IN
    }

    fn unmade(why: WrongArgument) -> Box<Self> {
        Box::new(Unmade(why))
    }

    fn wrong(&self) -> Option<WrongArgument> {
        // It is asked before there is a drive, where nobody catches a panic.
        self.moves();
        None
    }
}

/// A policy that could not be made again: it chooses nothing, and says why.
struct Unmade(WrongArgument);

impl Wear for Unmade {
    fn open(&mut self, _view: &mut WearView<'_>, _opening: Opening) -> u32 {
        u32::MAX
    }

    fn fault(&self) -> Option<String> {
        Some(format!("it {}", self.0.what))
    }
}
