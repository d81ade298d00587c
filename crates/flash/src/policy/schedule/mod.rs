//! Which of a die's waiting operations is next.
//!
//! | file | contents |
//! |---|---|
//! | `view.rs` | [`Schedule`], and what it sees |
//! | `handle.rs` | [`SchedulePolicy`]: a policy under its name |
//! | `built_in.rs` | the list of those that every program has |
//! | `by_priority.rs` | `priority`: the most urgent one, with a turn for those that were passed |
//! | `fifo.rs` | `fifo`: the one that was submitted first |
//! | `deadline.rs` | `deadline:TIME`: the most urgent one, unless one has waited for so long |
//! | `program.rs` | an eBPF program's choice |
//!
//! A die asks its policy when its cells are free and operations of more than one priority wait; of one priority, the first is next. It may
//! ask again about the same operations: a program can't begin while the data of a read move out, an operation can fail before it begins.

pub(super) mod built_in;
mod by_priority;
mod deadline;
mod fifo;
mod handle;
mod program;
mod view;

pub use by_priority::ByPriority;
pub use deadline::Deadline;
pub use fifo::Fifo;
pub use handle::{MadeSchedule, SchedulePolicy};
pub use program::ScheduleProgram;
pub use view::{OperationKind, Schedule, ScheduleView, Waiting};
