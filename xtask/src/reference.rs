//! Generates the reference of keys.

use crate::page::{Error, at};
use std::path::Path;
use std::process::Command;

/// The files that have a reference, as `byteway schema` calls them.
const FILES: [&str; 5] = ["scenario", "device", "profile", "host", "network"];

/// Writes docs/reference anew, by the program in the directory `program`.
///
/// # Errors
/// The program is not there or fails, or a file cannot be written.
pub fn write(root: &Path, program: &Path) -> Result<(), Error> {
    let program = program.join("byteway");
    for file in FILES {
        let output = Command::new(&program).args(["schema", file, "--format", "markdown"]).output();
        let output = output.map_err(at(&program))?;
        if !output.status.success() {
            return Err(Error::Found(String::from_utf8_lossy(&output.stderr).into_owned()));
        }
        let path = root.join("docs/reference").join(file).with_extension("md");
        std::fs::write(&path, output.stdout).map_err(at(&path))?;
    }
    Ok(())
}
