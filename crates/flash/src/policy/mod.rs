//! Policies of a die: decisions that users replace. Each is a trait with a small view of what it decides about, never of the array itself, so
//! that a policy can't lose data: whatever it says, operations of a priority keep their order, a read of a superblock goes before its erase,
//! and a program waits for its superblock's turn. Time and randomness come from the view.
//!
//! | module | decides |
//! |---|---|
//! | [`schedule`] | which of a die's waiting operations is next |
//! | [`suspend`] | whether a program or an erase is suspended for a read |

mod argument;
pub mod schedule;
pub mod suspend;

pub use schedule::{
    MadeSchedule, OperationKind, Schedule, SchedulePolicy, ScheduleProgram, ScheduleView, Waiting,
};
pub use suspend::{MadeSuspend, Suspend, SuspendPolicy, SuspendProgram, SuspendView};
