//! Flash, by what an owner of it sees: the array in time, and contents in files.

mod array;
#[allow(clippy::unwrap_used, reason = "what fails here fails the test")]
mod files;
