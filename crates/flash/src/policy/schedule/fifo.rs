use super::view::{Schedule, ScheduleView};
use crate::priority::Priority;

/// The operation that was submitted first, whatever its priority; of those submitted at one instant, the most urgent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fifo;

impl Schedule for Fifo {
    fn choose(&mut self, view: &mut ScheduleView<'_>) -> Priority {
        // The last of several with the most is taken, so the list is turned round.
        let oldest = view.waiting().iter().rev().max_by_key(|waiting| waiting.waited);
        oldest.map_or(Priority::HostRead, |waiting| waiting.priority)
    }
}
