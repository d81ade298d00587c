//! Identity of what an event wakes: a task, or a call.

/// What an event wakes. A task: its slot in the slab, and the generation of that slot, so that an id outlives its task
/// harmlessly. Or a call: a [`Handler`], and the index that it is called with.
///
/// One type for both, so that whatever wakes its waiter (a timer, a mailbox, a flash ticket) wakes either, in one order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TaskId {
    /// With [`CALL`], that of a handler.
    pub(crate) index: u32,
    /// Of a call, the index that it is called with.
    pub(crate) generation: u32,
}

/// Marks the ids of calls.
const CALL: u32 = 1 << 31;

impl TaskId {
    pub(crate) const NONE: TaskId = TaskId { index: u32::MAX >> 1, generation: 0 };

    /// The handler of a call; `None`: a task.
    #[inline]
    pub(crate) fn handler(self) -> Option<Handler> {
        (self.index & CALL != 0).then_some(Handler(self.index))
    }
}

/// A function that events call ([`Clock::handle`](crate::Clock::handle)): its slot, and the generation of that, so that it outlives its
/// function harmlessly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handler(u32);

impl Handler {
    const SLOT_BITS: u32 = 20;
    /// Number of handlers at a time.
    pub(crate) const SLOTS_MAX: usize = 1 << Self::SLOT_BITS;
    /// Generations of a slot, which is then retired: no stale id ever names a later function.
    pub(crate) const GENERATIONS: u32 = CALL >> Self::SLOT_BITS;

    pub(crate) fn new(slot: usize, generation: u32) -> Handler {
        debug_assert!(slot < Self::SLOTS_MAX && generation < Self::GENERATIONS);
        Handler(CALL | generation << Self::SLOT_BITS | slot as u32)
    }

    #[inline]
    pub(crate) fn slot(self) -> usize {
        self.0 as usize & (Self::SLOTS_MAX - 1)
    }

    #[inline]
    pub(crate) fn generation(self) -> u32 {
        (self.0 & !CALL) >> Self::SLOT_BITS
    }

    /// The call with `index`.
    #[inline]
    pub fn with(self, index: u32) -> TaskId {
        TaskId { index: self.0, generation: index }
    }
}
