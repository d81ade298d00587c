//! What files of parameters have in common.

use std::path::Path;

use byteway_console::error::InputError;

/// A file that cannot be used as what it was named for.
pub(super) fn refused(path: &Path, what: &str) -> InputError {
    let what = format!("`{}`: {what}", path.display());
    InputError::new(what, "name a file of the kind that `workload` needs")
}
