//! Whether a program or an erase is suspended for a read.
//!
//! | file | contents |
//! |---|---|
//! | `view.rs` | [`Suspend`], and what it sees |
//! | `handle.rs` | [`SuspendPolicy`]: a policy under its name |
//! | `built_in.rs` | the list of those that every program has |
//! | `always.rs` | `always`: whenever a read waits |
//! | `erases.rs` | `erases`: only erases |
//! | `remaining.rs` | `remaining:TIME`: what would hold the read up for at least so long |
//! | `program.rs` | an eBPF program's decision |
//!
//! A die asks its policy where a read that a host waits for could go before the program or erase that the cells work on: of another superblock,
//! or of another wordline of the one that is programmed; not more often than `Timing::suspend.most` allows; and only if the die can sense before
//! the operation would end.

mod always;
pub(super) mod built_in;
mod erases;
mod handle;
mod program;
mod remaining;
mod view;

pub use always::Always;
pub use erases::Erases;
pub use handle::{MadeSuspend, SuspendPolicy};
pub use program::SuspendProgram;
pub use remaining::Remaining;
pub use view::{Suspend, SuspendView};
