//! Errors of a section that names a file.

use byteway_text::error::InputError;

use crate::profile::KeyError;

/// An error of a section.
pub(super) enum SectionError {
    /// An invalid value, whose location is not yet known.
    Key(KeyError),
    /// The key that names a file, and the error of the file with its location.
    File(String, InputError),
}

impl From<KeyError> for SectionError {
    fn from(fault: KeyError) -> Self {
        SectionError::Key(fault)
    }
}

impl SectionError {
    /// The error of a key; or the error of a file with the key that named it, whose location is not yet known.
    pub(super) fn unplaced(self) -> Result<KeyError, (String, InputError)> {
        match self {
            SectionError::Key(fault) => Ok(fault),
            SectionError::File(key, error) => Err((key, error)),
        }
    }
}
