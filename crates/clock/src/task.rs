//! Identity of a task.

/// A task: its slot in the slab, and the generation of that slot, so that an id outlives its task harmlessly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TaskId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl TaskId {
    pub(crate) const NONE: TaskId = TaskId { index: u32::MAX, generation: 0 };
}
