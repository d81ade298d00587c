//! Small text files that users write.

use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::error::{InputError, SourceLocation};

/// Scenarios and profiles are a few kilobytes. A larger file is a mistake (a trace, for example) and is
/// refused before it is read.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// Reads a text file of at most 4 MiB; `what` names the expected kind of file in errors.
///
/// # Errors
/// The file cannot be read, is a directory, is too large, or is not UTF-8.
pub fn read_small_file(path: &Path, what: &str) -> Result<String, InputError> {
    read_file(path, what, |_| Ok(()))
}

/// Like [`read_small_file`], for a file that is not text.
///
/// # Errors
/// The file cannot be read, is a directory, or is too large.
pub fn read_small_bytes(path: &Path, what: &str) -> Result<Vec<u8>, InputError> {
    read_bytes(path, what, |_| Ok(()))
}

/// Reads a small text file with secrets, which only its owner may read or write.
///
/// # Errors
/// Other users have access; or as for [`read_small_file`].
pub fn read_secret_file(path: &Path, what: &str) -> Result<String, InputError> {
    read_file(path, what, |metadata| {
        let (shown, mode) = (path.display(), metadata.mode() & 0o777);
        match mode & 0o077 {
            0 => Ok(()),
            _ => Err(InputError::new(
                format!("others than its owner may use the {what} `{shown}` (mode {mode:03o})"),
                format!("chmod 600 '{shown}'"),
            )),
        }
    })
}

fn read_bytes(
    path: &Path,
    what: &str,
    check: impl FnOnce(&std::fs::Metadata) -> Result<(), InputError>,
) -> Result<Vec<u8>, InputError> {
    let shown = path.display();
    let failed = |error: std::io::Error| {
        InputError::new(
            format!("cannot read the {what} `{shown}`: {error}"),
            "check the path and its permissions",
        )
    };
    let too_large = || {
        InputError::new(
            format!("`{shown}` is too large to be a {what} (above {} MiB)", FILE_BYTES_MAX >> 20),
            format!("name a {what}"),
        )
    };
    let file = std::fs::File::open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if metadata.is_dir() {
        let what = format!("`{shown}` is a folder, not a {what}");
        return Err(InputError::new(what, "name the file in it"));
    }
    check(&metadata)?;
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(too_large());
    }
    Ok(bytes)
}

fn read_file(
    path: &Path,
    what: &str,
    check: impl FnOnce(&std::fs::Metadata) -> Result<(), InputError>,
) -> Result<String, InputError> {
    let shown = path.display();
    String::from_utf8(read_bytes(path, what, check)?).map_err(|error| {
        let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = good.iter().filter(|b| **b == b'\n').count() + 1;
        InputError::new("not UTF-8 text", format!("name a {what} saved as UTF-8")).at(SourceLocation {
            source: shown.to_string(),
            position: Some((line, 1)),
            excerpt: None,
        })
    })
}
