//! The program: command line, progress bars, signals. The `byteway` binary is a single call of [`cli::main_with`].
//!
//! | file | what |
//! |---|---|
//! | [`cli`] | the command line and its exit codes |
//! | [`extensions`] | programs of one's own, with further policies, workloads, trace formats and transfer methods |
//! | [`terminal`] | progress bars |
//! | [`interrupt`] | Ctrl-C and SIGTERM |
//!
//! What it does not do: the work of its commands, which the crates below it do.

pub mod cli;
pub mod extensions;
pub mod interrupt;
pub mod terminal;

pub use byteway_clock::{Delay, Time};
pub use byteway_firmware::policy::{
    Admission, AdmissionView, Ahead, Candidate, ClosedBlock, Filler, MadeAdmission, MadePrefetch,
    MadeSchedule, MadeStream, MadeSuspend, MadeVictim, MadeWear, Opening, OperationKind, Prefetch,
    PrefetchView, Schedule, ScheduleView, Source, Stream, StreamCounts, StreamView, Suspend, SuspendView,
    Victim, VictimView, Waiting, Wear, WearView, WornBlock, WrongArgument,
};
pub use byteway_flash::Priority;
pub use byteway_trace::{FieldError, Kind, TraceFormat, TraceLine};
pub use byteway_transfer::host::PointerKind;
pub use byteway_transfer::own::{MadeTransferMethod, PayloadView, TransferMethod};
pub use byteway_transfer::{Limits, Method, Rules, TransferKind};
pub use byteway_wire::nvme::vendor::Extension as DriveExtension;
pub use byteway_workload::own::{MadeSource, Operation, WorkloadSource, WorkloadView};
pub use extensions::Extensions;

use std::process::ExitCode;

/// Runs the program with the arguments of this process and `extensions`, and returns its exit code. Called once, from `main`.
pub fn main_with(extensions: Extensions) -> ExitCode {
    extensions.install();
    cli::main_with(std::env::args_os())
}
