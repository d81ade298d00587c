//! What the plans of jobs and drives stand on: the host, what the command line adds, and bounds.

use byteway_console::units::{Bytes, Picos, excerpt};
use byteway_workload::Verify;

use super::file::{Arbitration, Weights};
use crate::profile::{Fault, HostProfile, fault};

/// A host that can be built.
#[derive(Clone, Debug)]
pub struct HostPlan {
    /// Name of its profile, without folder.
    pub profile_name: String,
    /// Its constants, overrides laid on.
    pub profile: HostProfile,
    /// Whether every block read is checked, and how.
    pub verify: Verify,
    /// How the drive chooses between queues.
    pub arbitration: Arbitration,
    /// The weights under weighted arbitration.
    pub weights: Weights,
    /// Memory that it lends to each drive that asks for some, at most.
    pub lends: Bytes,
}

/// What the command line adds to a scenario.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// `key=value` overrides, in their order.
    pub sets: Vec<String>,
    /// Of a fio job file, `NAME=VALUE`: what `${NAME}` stands for.
    pub defines: Vec<String>,
    /// Skip and count the lines of a trace that are no records.
    pub skip_bad_lines: bool,
    /// Of a device file: its drive is kept in files, if it doesn't say otherwise.
    pub in_files: bool,
}

/// Over all workers; each takes memory of its own.
pub const OUTSTANDING_MAX: u64 = 1 << 20;

pub(crate) const COUNT_MAX: u64 = 1 << 48;

/// Virtual time that a run may take: some days less than the clock reaches, for what is under way at its end.
pub const RUNTIME_MAX: Picos = Picos(200 * 86_400 * 1_000_000_000_000);

pub(crate) fn check_name(path: &str, name: &str) -> Result<(), Fault> {
    if !name.is_empty() && name.chars().count() <= 100 && !name.chars().any(char::is_control) {
        return Ok(());
    }
    Err(fault(path, format!("`{}` is not a name", excerpt(name)), "write 1 to 100 printable characters"))
}
