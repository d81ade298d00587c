//! Errors of requests to a drive with tables. Wrong data read is not an error.

use byteway_host::{AnyIoError, DriverError, IoError};
use byteway_text::error::InputError;

/// Why a request in a session failed.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// Invalid input, or input that does not match the drive.
    #[error(transparent)]
    Input(#[from] InputError),
    /// The drive stopped responding, or refuses one of the driver's commands.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// A command failed, or has no completion.
    #[error(transparent)]
    Io(AnyIoError),
    /// Interrupted.
    #[error("interrupted")]
    Interrupted,
    /// A load was interrupted, and the tables are as before.
    #[error("interrupted: nothing of this load is kept")]
    NothingLoaded,
    /// Rows could not be loaded to the end.
    #[error(
        "the table {table} keeps the first {rows} rows of this load, and has {rows_in_all} in all: \
         drop it with `byteway csd drop {table}`, or load what is missing"
    )]
    PartlyLoaded {
        /// Name of the table.
        table: String,
        /// Rows of the load that it has.
        rows: u64,
        /// All its rows.
        rows_in_all: u64,
        /// Cause.
        source: Box<SessionError>,
    },
}

impl<E> From<IoError<E>> for SessionError
where
    AnyIoError: From<IoError<E>>,
{
    fn from(error: IoError<E>) -> Self {
        SessionError::Io(error.into())
    }
}

impl SessionError {
    /// Whether the cause is an interrupt.
    pub fn is_interrupted(&self) -> bool {
        match self {
            SessionError::Interrupted | SessionError::NothingLoaded => true,
            SessionError::PartlyLoaded { source, .. } => source.is_interrupted(),
            _ => false,
        }
    }

    /// The invalid input, if that is the cause.
    pub fn wrong_input(&self) -> Option<&InputError> {
        if let SessionError::Input(error) = self { Some(error) } else { None }
    }
}
