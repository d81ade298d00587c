//! The output folder: found writable before a run begins, written in one go after it.

use std::io::Write;
use std::path::{Path, PathBuf};

use crate::error::InputError;

/// A folder that results can be written to.
#[derive(Clone, Debug)]
pub struct Output {
    folder: PathBuf,
}

impl Output {
    /// Checks that `folder`, or the folder in which it would be made, takes a file. Leaves nothing behind.
    pub fn check(folder: &Path) -> Result<Output, InputError> {
        let shown = folder.display();
        let cure = "choose another folder with --out, or change its permissions";
        let refuse = |why: String| {
            InputError::new(format!("cannot write to the output folder `{shown}`: {why}"), cure)
        };
        // The nearest part of the path that exists; a relative path begins where the user is.
        let mut at = folder;
        while !at.as_os_str().is_empty() && std::fs::symlink_metadata(at).is_err() {
            at = at.parent().unwrap_or(Path::new(""));
        }
        let at = if at.as_os_str().is_empty() { Path::new(".") } else { at };
        let metadata = std::fs::metadata(at).map_err(|error| refuse(error.to_string()))?;
        if !metadata.is_dir() {
            return Err(refuse(format!("`{}` is not a folder", at.display())));
        }
        tempfile::Builder::new()
            .prefix(".byteway-")
            .tempfile_in(at)
            .and_then(tempfile::NamedTempFile::close)
            .map_err(|error| refuse(error.to_string()))?;
        Ok(Output { folder: folder.to_owned() })
    }

    /// Writes a file. It appears under its name only when all of it is on the disk, so that no reader meets half a
    /// result.
    pub fn write(&self, name: &str, content: &[u8]) -> std::io::Result<()> {
        std::fs::create_dir_all(&self.folder)?;
        let mut file = new_file(&self.folder)?;
        file.write_all(content)?;
        file.as_file().sync_all()?;
        file.persist(self.folder.join(name)).map_err(|error| error.error)?;
        Ok(())
    }
}

/// A temporary file with the permissions of an ordinary one: the user's umask is applied to them.
fn new_file(folder: &Path) -> std::io::Result<tempfile::NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".byteway-");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    builder.tempfile_in(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    // Found unwritable only after an hour of simulation, the result would be lost.
    #[test]
    fn a_folder_is_probed_without_a_trace() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        for bad in
            [file.clone(), file.join("below"), PathBuf::from("/proc/byteway/out"), PathBuf::from("/dev/null")]
        {
            let error = Output::check(&bad).unwrap_err();
            assert!(error.what.contains("cannot write") && error.cure.contains("--out"), "{error}");
        }
        let new = folder.path().join("a/b");
        let output = Output::check(&new).unwrap();
        assert_eq!(names(folder.path()), ["file"]);
        output.write("summary.json", b"1").unwrap();
        output.write("summary.json", b"2").unwrap();
        assert_eq!(names(&new), ["summary.json"]);
        assert_eq!(std::fs::read(new.join("summary.json")).unwrap(), b"2");
    }
}
