//! The common part of parameter files.

use std::path::Path;

use byteway_text::error::InputError;

/// The error for a file that cannot be used as a parameter file.
pub(super) fn refused(path: &Path, what: &str) -> InputError {
    let what = format!("`{}`: {what}", path.display());
    InputError::new(what, "name a file of the kind that `workload` needs")
}
