//! Policies of reading ahead under their names.

use super::built_in::BUILT_IN;
use super::view::{Ahead, Prefetch, PrefetchView};
use byteway_policy::{BuiltIn, Kind, Made, Named, WrongArgument};

/// A policy of reading ahead that was made, or what is wrong with its argument.
pub type MadePrefetch = Made<dyn Prefetch>;

/// A policy of reading ahead under its name.
pub type PrefetchPolicy = Named<dyn Prefetch>;

impl Kind for dyn Prefetch {
    fn built_in() -> &'static [BuiltIn<Self>] {
        &BUILT_IN
    }

    fn unmade(why: WrongArgument) -> Box<Self> {
        Box::new(Unmade(why))
    }
}

/// A policy that could not be made again: its fault counts.
struct Unmade(WrongArgument);

impl Prefetch for Unmade {
    fn ahead(&mut self, _view: &mut PrefetchView<'_>) -> Option<Ahead> {
        None
    }

    fn fault(&self) -> Option<String> {
        Some(format!("it {}", self.0.what))
    }
}
