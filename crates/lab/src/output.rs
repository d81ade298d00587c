//! The output folder: found writable before a run begins, written in one go after it, or while it goes on, and
//! then named at its end.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;

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
    ///
    /// # Errors
    /// Which file it is, and what is wrong.
    pub fn write(&self, name: &str, content: &[u8]) -> anyhow::Result<()> {
        let mut file = self.create(name)?;
        file.write_all(content).with_context(|| self.refusal(name))?;
        file.finish()
    }

    /// Begins a file that is written while a run goes on. Until it is finished nothing is there under its name, and if it
    /// never is, nothing remains.
    ///
    /// # Errors
    /// Which file it is, and what is wrong.
    pub fn create(&self, name: &str) -> anyhow::Result<Unfinished> {
        let created = std::fs::create_dir_all(&self.folder).and_then(|()| new_file(&self.folder));
        let file = created.with_context(|| self.refusal(name))?;
        Ok(Unfinished { file, path: self.folder.join(name), refusal: self.refusal(name) })
    }

    /// What to say if a file cannot be written.
    pub fn refusal(&self, name: &str) -> String {
        format!("cannot write {name} to the output folder `{}`", self.folder.display())
    }
}

/// A file that does not bear its name yet.
pub struct Unfinished {
    file: tempfile::NamedTempFile,
    path: PathBuf,
    refusal: String,
}

impl Unfinished {
    /// All of it is there: it gets its name.
    ///
    /// # Errors
    /// Which file it is, and what is wrong.
    pub fn finish(self) -> anyhow::Result<()> {
        let Unfinished { file, path, refusal } = self;
        file.as_file().sync_all().with_context(|| refusal.clone())?;
        file.persist(path).map_err(|error| error.error).context(refusal)?;
        Ok(())
    }

    /// Another writer to it, for whoever keeps one while it goes on.
    ///
    /// # Errors
    /// Which file it is, and what is wrong.
    pub fn writer(&self) -> anyhow::Result<std::fs::File> {
        self.file.reopen().with_context(|| self.refusal.clone())
    }
}

impl Write for Unfinished {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }
}

/// A temporary file with the permissions of an ordinary one: the user's umask is applied to them.
pub(crate) fn new_file(folder: &Path) -> std::io::Result<tempfile::NamedTempFile> {
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

    // Half a file under the name of a whole one is taken for a result.
    #[test]
    fn what_is_not_finished_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let output = Output::check(folder.path()).unwrap();
        let mut file = output.create("ios.parquet").unwrap();
        file.write_all(b"half").unwrap();
        assert!(!names(folder.path()).contains(&"ios.parquet".to_owned()));
        drop(file);
        assert!(names(folder.path()).is_empty());
        let mut file = output.create("ios.parquet").unwrap();
        file.write_all(b"whole").unwrap();
        file.finish().unwrap();
        assert_eq!(names(folder.path()), ["ios.parquet"]);
        std::fs::create_dir(folder.path().join("taken")).unwrap();
        let error = output.write("taken", b"").unwrap_err();
        assert!(error.to_string().contains("cannot write taken to the output folder"), "{error:#}");
    }
}
