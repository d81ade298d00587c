//! Results by fingerprint, on disk: a point with the same scenario, seed, traces and program is never run twice. Any number of processes
//! use a cache at once, on any file system that renames atomically; on those with locks no two of them run the same point at the same time.

use crate::compare::{Fingerprint, Kept, read_kept};
use byteway_results::RunResult;
use byteway_results::output::{OutputError, Unfinished, lock_file};
use byteway_text::error::InputError;
use byteway_text::interrupt::Interrupt;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// A folder of results.
#[derive(Clone, Debug)]
pub struct PointCache {
    folder: PathBuf,
}

impl PointCache {
    /// Opens the cache in `folder`, which is created if necessary.
    ///
    /// # Errors
    /// It cannot be created.
    pub fn open(folder: &Path) -> Result<PointCache, InputError> {
        std::fs::create_dir_all(folder).map_err(|error| {
            let what = format!("cannot use `{}` as a cache of results: {error}", folder.display());
            InputError::new(what, "choose another folder, or do without a cache")
        })?;
        Ok(PointCache { folder: folder.to_owned() })
    }

    /// The cache of this user: `$XDG_CACHE_HOME/byteway/points`, or `~/.cache/byteway/points`.
    ///
    /// # Errors
    /// Neither variable is set, or the folder cannot be created.
    pub fn of_user() -> Result<PointCache, InputError> {
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let folder = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")));
        let Some(folder) = folder else {
            let what = "there is no folder for a cache: neither XDG_CACHE_HOME nor HOME is set";
            return Err(InputError::new(what, "name a folder with --cache, or do without with --no-cache"));
        };
        PointCache::open(&folder.join("byteway/points"))
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Two levels, so that no folder has a hundred thousand files.
    fn path(&self, fingerprint: &Fingerprint) -> PathBuf {
        let name = fingerprint.to_string();
        self.folder.join(&name[..2]).join(format!("{name}.json"))
    }

    /// The stored result. A file that is incomplete, or of another point, counts as missing.
    pub fn get(&self, fingerprint: &Fingerprint) -> Option<RunResult> {
        let kept = read_kept(&self.path(fingerprint))?;
        (kept.fingerprint == *fingerprint).then_some(kept.found)
    }

    /// Stores a result. It appears as a whole or not at all.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn put(&self, fingerprint: &Fingerprint, found: &RunResult) -> Result<(), OutputError> {
        let path = self.path(fingerprint);
        let failed = |source: std::io::Error| OutputError::Finish { path: path.clone(), source };
        path.parent().map_or(Ok(()), std::fs::create_dir_all).map_err(failed)?;
        let kept = Kept { fingerprint: fingerprint.clone(), found: found.clone() };
        let json = kept.to_json().map_err(|error| failed(error.into()))?;
        let mut file = Unfinished::next_to(&path).map_err(failed)?;
        file.write_all(json.as_bytes()).map_err(failed)?;
        // Not synced: after a crash of the machine an incomplete file counts as missing.
        file.rename()
    }

    /// Waits until no other process runs this point, or there is an interrupt. Released when dropped, also by the end of the process.
    /// Without support for locks there is none, and at worst a point is run twice, with the same result.
    pub fn lock(&self, fingerprint: &Fingerprint, interrupt: &Interrupt) -> Option<File> {
        let path = self.path(fingerprint).with_extension("lock");
        std::fs::create_dir_all(path.parent()?).ok()?;
        lock_file(&path, || !interrupt.is_raised())
    }

    /// Removes the file of a lock that is no longer needed. Another process that waits for it has it open, and finds the result.
    pub fn unlock(&self, fingerprint: &Fingerprint, lock: Option<File>) {
        if lock.is_some() {
            let _ = std::fs::remove_file(self.path(fingerprint).with_extension("lock"));
        }
    }
}
