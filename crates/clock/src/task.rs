//! What a task is called.

/// A task: its place in the slab, and which of the tasks that have lived there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TaskId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl TaskId {
    pub(crate) const NONE: TaskId = TaskId { index: u32::MAX, generation: 0 };
}
