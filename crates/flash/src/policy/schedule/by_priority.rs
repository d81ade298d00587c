use super::view::{Schedule, ScheduleView};
use crate::line::PASSED_MAX;
use crate::priority::Priority;

/// The most urgent operation; but operations that so many more urgent ones have passed have their turn, the least urgent ones first.
/// Without a turn, a stream of host reads would keep a die from ever erasing.
///
/// With the default number a die does this itself, without asking.
#[derive(Clone, Copy, Debug)]
pub struct ByPriority {
    turn: u32,
}

impl ByPriority {
    /// With a turn after so many.
    pub fn new(turn: u32) -> Self {
        ByPriority { turn }
    }
}

impl Default for ByPriority {
    fn default() -> Self {
        ByPriority::new(PASSED_MAX)
    }
}

impl Schedule for ByPriority {
    fn choose(&mut self, view: &mut ScheduleView<'_>) -> Priority {
        let starving = view.waiting().iter().skip(1).rev().find(|waiting| waiting.passed >= self.turn);
        starving.or(view.waiting().first()).map_or(Priority::HostRead, |waiting| waiting.priority)
    }
}
