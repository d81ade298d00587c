use super::view::{Schedule, ScheduleView};
use crate::priority::Priority;
use byteway_clock::Delay;

/// The most urgent operation, unless one has waited for a time: then the one that has waited longest.
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    most: Delay,
}

impl Deadline {
    /// With this time.
    pub fn new(most: Delay) -> Self {
        Deadline { most }
    }
}

impl Schedule for Deadline {
    fn choose(&mut self, view: &mut ScheduleView<'_>) -> Priority {
        let late = view.waiting().iter().rev().filter(|waiting| waiting.waited >= self.most);
        let late = late.max_by_key(|waiting| waiting.waited);
        late.or(view.waiting().first()).map_or(Priority::HostRead, |waiting| waiting.priority)
    }
}
