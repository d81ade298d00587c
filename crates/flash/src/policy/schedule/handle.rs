//! Schedules under their names.

use super::built_in::BUILT_IN;
use super::view::{Schedule, ScheduleView};
use crate::priority::Priority;
use byteway_policy::{BuiltIn, Kind, Made, Named, WrongArgument};

/// A schedule that was made, or what is wrong with its argument.
pub type MadeSchedule = Made<dyn Schedule>;

/// A schedule under its name.
pub type SchedulePolicy = Named<dyn Schedule>;

impl Kind for dyn Schedule {
    fn built_in() -> &'static [BuiltIn<Self>] {
        &BUILT_IN
    }

    fn unmade(why: WrongArgument) -> Box<Self> {
        Box::new(Unmade(why))
    }
}

/// A policy that could not be made again: its fault counts, whatever it chooses.
struct Unmade(WrongArgument);

impl Schedule for Unmade {
    fn choose(&mut self, _view: &mut ScheduleView<'_>) -> Priority {
        Priority::Background
    }

    fn fault(&self) -> Option<String> {
        Some(format!("it {}", self.0.what))
    }
}
