//! Policies: the decisions of a translation layer that users replace. Each is a trait with a small view of what it decides about, never
//! of the state itself, so that a policy can't break the map. Time and randomness come from the view; a policy that takes others makes a run
//! that does not follow from its scenario, which only an eBPF program is kept from.
//!
//! | module | decides |
//! |---|---|
//! | [`victim`] | which superblock garbage collection empties next |
//! | [`stream`] | which of a die's open superblocks a write goes to |
//! | [`admission`] | which units the read cache keeps |
//! | [`prefetch`] | what is read ahead of the host |
//! | [`wear`] | which free superblock is opened, and whose data are moved so that it wears, too |
//!
//! Those of a die are in `flash` ([`byteway_flash::policy`]). A policy has a name in scenarios. [`Policies`] adds names to the built-in ones, of all
//! kinds.

pub mod admission;
mod file;
mod hash;
mod policies;
pub mod prefetch;
pub mod stream;
pub mod victim;
pub mod wear;

pub use admission::{Admission, AdmissionPolicy, AdmissionView, MadeAdmission};
pub use byteway_flash::policy::{
    MadeSchedule, MadeSuspend, OperationKind, Schedule, SchedulePolicy, ScheduleProgram, ScheduleView,
    Suspend, SuspendPolicy, SuspendProgram, SuspendView, Waiting,
};
pub use byteway_policy::{Kind, Made, Named, UnknownPolicy, WrongArgument, is_file};
pub use file::NoProgram;
pub use policies::{DriveKind, Policies};
pub use prefetch::{Ahead, MadePrefetch, Prefetch, PrefetchPolicy, PrefetchView};
pub use stream::{Filler, MadeStream, Source, Stream, StreamCounts, StreamPolicy, StreamView};
pub use victim::{Candidate, MadeVictim, Victim, VictimPolicy, VictimView};
pub use wear::{ClosedBlock, MadeWear, Opening, Wear, WearPolicy, WearView, WornBlock};
