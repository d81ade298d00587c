//! Which units that the host reads the read cache keeps.
//!
//! | file | contents |
//! |---|---|
//! | `view.rs` | [`Admission`], and what it sees |
//! | `handle.rs` | [`AdmissionPolicy`]: a policy under its name |
//! | `built_in.rs` | the list of those that every program has |
//! | `always.rs` | `always`: all of them, in the place of what was used least recently |
//! | `second_access.rs` | `second-access`: those that missed before, and not long ago |
//! | `tiny_lfu.rs` | `tiny-lfu`: those that are asked for more often than what would make place |
//!
//! A drive with a read cache asks its policy about each unit of a host's read that the cache did not have, when flash has delivered it. What is
//! kept takes the place of what was used least recently. What is [read ahead](super::prefetch) is always kept.

mod always;
pub(super) mod built_in;
mod handle;
mod second_access;
mod sketch;
mod tiny_lfu;
mod view;

pub use always::Always;
pub use handle::{AdmissionPolicy, MadeAdmission};
pub use second_access::SecondAccess;
pub use tiny_lfu::TinyLfu;
pub use view::{Admission, AdmissionView};
