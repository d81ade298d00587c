//! Common parts of plans: the host, options of the command line, and limits.

use byteway_firmware::policy::Policies;
use byteway_text::units::{Bytes, Picos, excerpt};
use byteway_trace::TraceFormats;
use byteway_transfer::own::TransferMethods;
use byteway_workload::Verify;
use byteway_workload::own::WorkloadSources;

use super::file::{Arbitration, Weights};
use crate::profile::{HostProfile, KeyError, fault};

/// A host that can be built.
#[derive(Clone, Debug)]
pub struct HostPlan {
    /// Name of its profile, without the directory.
    pub profile_name: String,
    /// Profile of the host, including overrides.
    pub profile: HostProfile,
    /// Verification of the blocks read.
    pub verify: Verify,
    /// Arbitration between queues.
    pub arbitration: Arbitration,
    /// The weights under weighted arbitration.
    pub weights: Weights,
    /// I/O queue pairs at each drive, at most; `None`: as many as the drive has.
    pub queues: Option<u32>,
    /// Host memory that each drive may use, at most.
    pub lends: Bytes,
}

/// Options that the command line adds to a scenario.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// `key=value` overrides, in order.
    pub sets: Vec<String>,
    /// For a fio job file, `NAME=VALUE`: replacements for `${NAME}`.
    pub defines: Vec<String>,
    /// Skip and count trace lines that are not records.
    pub skip_bad_lines: bool,
    /// For a device file: store the drive in files, unless it states otherwise.
    pub in_files: bool,
    /// Policies that are not built in, under their names.
    pub policies: Policies,
    /// Sources of I/Os that are not built in, under their names.
    pub sources: WorkloadSources,
    /// Trace formats that are not built in, under their names.
    pub formats: TraceFormats,
    /// Transfer methods that are not built in, under their names.
    pub methods: TransferMethods,
}

/// Outstanding I/Os of a job over all workers, at most; each takes memory.
pub const OUTSTANDING_MAX: u64 = 1 << 20;

pub(crate) const COUNT_MAX: u64 = 1 << 48;

/// Virtual time of a run, at most: some days less than the clock's range, for operations in flight at the
/// end.
pub const RUNTIME_MAX: Picos = Picos(200 * 86_400 * 1_000_000_000_000);

pub(crate) fn check_name(path: &str, name: &str) -> Result<(), KeyError> {
    if !name.is_empty() && name.chars().count() <= 100 && !name.chars().any(char::is_control) {
        return Ok(());
    }
    Err(fault(path, format!("`{}` is not a name", excerpt(name)), "write 1 to 100 printable characters"))
}
