//! Flash as seen by its users: the array in time, and contents in files.

mod array;
#[allow(clippy::unwrap_used, reason = "what fails here fails the test")]
mod files;
