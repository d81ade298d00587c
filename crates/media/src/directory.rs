//! Opens a data directory, and tells how its drive ended.

use crate::error::MediaError;
use byteway_flash::file::{Directory, DirectoryError, OpenError, OpenReport};
use byteway_text::error::InputError;
use std::path::Path;

/// Opens the directory, with a lock against its use by a server.
pub(crate) fn directory(path: &Path) -> Result<Directory, InputError> {
    Directory::look(path).map_err(|error| {
        let help = match &error {
            DirectoryError::InUse { .. } => "end `byteway serve` first (Ctrl-C or SIGTERM)",
            DirectoryError::Missing { .. } => {
                "name the directory passed to `byteway serve --data`, or the subdirectory of one of several drives"
            }
            DirectoryError::System { .. } => "check its permissions",
        };
        let what = match std::error::Error::source(&error) {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        };
        InputError::new(what, help)
    })
}

/// The error of a directory whose content cannot be read.
pub(crate) fn unreadable(path: &Path) -> impl FnOnce(OpenError) -> MediaError + use<'_> {
    move |source| MediaError::Unreadable { path: path.to_owned(), source }
}

/// How the drive ended, in a word.
pub(crate) fn end(opened: &OpenReport) -> &'static str {
    if opened.clean { "clean" } else { "not clean" }
}
