//! Everything that the program writes: files, and its standard output.
//!
//! Every file goes through [`Unfinished`]: it is written next to its final name and renamed when it is
//! completely on disk, so that no reader sees half a result. A path that is not a regular file (a device, a
//! FIFO) is never replaced: as the only output of a command it is written through; in an output directory it
//! is refused. Symbolic links are followed.
//!
//! An output directory holds the results of one run: [`Output::claim`] locks out other processes while the
//! run lasts; [`Output::replace`] renames all its files and removes those of an earlier run, or does neither.

use std::fmt;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use parquet::errors::ParquetError;
use tempfile::{NamedTempFile, TempPath};

use byteway_text::error::InputError;

/// The files that commands write to an output directory.
pub const RESULTS: [&str; 14] = [
    "summary.json",
    "results.parquet",
    "latency.parquet",
    "report.html",
    "ios.parquet",
    "spans.json",
    "compare.json",
    "compare.csv",
    "reproduce.json",
    "sweep.parquet",
    "sweep.json",
    "fit.json",
    "my-drive.toml",
    "validation.json",
];

/// Directory for the points of a comparison, each in a numbered subdirectory.
pub const POINTS: &str = "points";

/// The files of a point.
pub const POINT_RESULTS: [&str; 2] = ["point.json", "summary.json"];

/// Interval of looks at a lock that another process holds.
const LOCK_LOOK: std::time::Duration = std::time::Duration::from_millis(5);

/// Why a result file was not written. Never wrong input: the user's path was checked to be writable before.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// The content of a file could not be written.
    #[error("cannot write {name} to the output folder `{folder}`")]
    Write {
        /// Name of the file.
        name: String,
        /// The output directory.
        folder: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The content of a Parquet file could not be written.
    #[error("cannot write {name} to the output folder `{folder}`")]
    WriteParquet {
        /// Name of the file.
        name: String,
        /// The output directory.
        folder: PathBuf,
        /// Error of the Parquet writer, usually caused by the system.
        source: ParquetError,
    },
    /// Rows do not match their schema: a defect.
    #[error(transparent)]
    Rows(#[from] ParquetError),
    /// A written file could not be synced or renamed.
    #[error("cannot write `{path}`")]
    Finish {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The path names something other than a regular file.
    #[error("cannot write `{path}`: {what}")]
    Occupied {
        /// Path of the file.
        path: PathBuf,
        /// The kind of file that exists there.
        what: &'static str,
    },
    /// A result of an earlier run could not be removed.
    #[error("cannot remove {name} of an earlier run from `{folder}`")]
    Remove {
        /// Name of the file.
        name: String,
        /// The output directory.
        folder: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
}

/// A directory for results.
#[derive(Clone, Debug)]
pub struct Output {
    folder: PathBuf,
    claim: Option<Arc<Claim>>,
}

/// A locked output directory.
#[derive(Debug)]
struct Claim {
    /// The locked directory. The system releases the lock when the process ends.
    _lock: Option<File>,
    /// Directories created for this output, innermost first.
    made: Vec<PathBuf>,
}

impl Drop for Claim {
    /// Removes created directories that are still empty.
    fn drop(&mut self) {
        let _ = self.made.iter().try_for_each(std::fs::remove_dir);
    }
}

impl Output {
    /// Checks that `folder`, or the directory in which it would be created, accepts a file, and that no
    /// existing result in it is a device, a FIFO or a symbolic link. Leaves nothing behind.
    pub fn check(folder: &Path) -> Result<Output, InputError> {
        let shown = folder.display();
        let help = "choose another folder with --out, or change its permissions";
        let refuse = |why: String| {
            InputError::new(format!("cannot write to the output folder `{shown}`: {why}"), help)
        };
        // Start at the nearest existing part of the path; a relative path starts at the current directory.
        let mut at = folder;
        while !at.as_os_str().is_empty() && std::fs::symlink_metadata(at).is_err() {
            at = at.parent().unwrap_or(Path::new(""));
        }
        let at = if at.as_os_str().is_empty() { Path::new(".") } else { at };
        let metadata = std::fs::metadata(at).map_err(|error| refuse(error.to_string()))?;
        if !metadata.is_dir() {
            return Err(refuse(format!("`{}` is not a folder", at.display())));
        }
        for name in RESULTS {
            replaceable(&folder.join(name)).map_err(|why| {
                let what = format!("cannot write {name} to the output folder `{shown}`: {why}");
                InputError::new(what, "remove it, or choose another folder with --out")
            })?;
        }
        new_file(at).and_then(NamedTempFile::close).map_err(|error| refuse(error.to_string()))?;
        Ok(Output { folder: folder.to_owned(), claim: None })
    }

    /// Creates the directory, and locks it while this output or a clone of it lives, because two runs would
    /// mix their files. Without support for locks in the file system, or without read permission, there is no
    /// lock. A directory created here is removed again if it is still empty.
    ///
    /// # Errors
    /// Another process holds the lock, or the directory cannot be created.
    pub fn claim(mut self) -> Result<Output, InputError> {
        let shown = self.folder.display();
        let refuse = |why: &str, help| {
            InputError::new(format!("cannot write to the output folder `{shown}`: {why}"), help)
        };
        let help = "choose another folder with --out, or change its permissions";
        let is_missing = |folder: &&Path| !folder.as_os_str().is_empty() && !folder.exists();
        let made = self.folder.ancestors().take_while(is_missing).map(Path::to_owned).collect();
        std::fs::create_dir_all(&self.folder).map_err(|error| refuse(&error.to_string(), help))?;
        let lock = match File::open(&self.folder).map(|folder| (folder.try_lock(), folder)) {
            Ok((Ok(()), folder)) => Some(folder),
            Ok((Err(TryLockError::WouldBlock), _)) => {
                let help = "wait until it has ended, or choose another folder with --out";
                return Err(refuse("another run is writing to it", help));
            }
            Ok((Err(TryLockError::Error(_)), _)) | Err(_) => None,
        };
        self.claim = Some(Arc::new(Claim { _lock: lock, made }));
        Ok(self)
    }

    /// Removes the results of an earlier run.
    fn clear(&self) -> Result<(), OutputError> {
        self.remove(&RESULTS)?;
        let points = self.folder.join(POINTS);
        for folder in folders(&points) {
            Output { folder: folder.clone(), claim: None }.remove(&POINT_RESULTS)?;
            // This fails if the user keeps other files in it, and then the directory stays.
            let _ = std::fs::remove_dir(folder);
        }
        let _ = std::fs::remove_dir(points);
        Ok(())
    }

    /// Removes these files, if they exist.
    ///
    /// # Errors
    /// The file that could not be removed.
    pub fn remove(&self, names: &[&str]) -> Result<(), OutputError> {
        for name in names {
            match std::fs::remove_file(self.folder.join(name)) {
                Err(source) if source.kind() != io::ErrorKind::NotFound => {
                    let (name, folder) = ((*name).to_owned(), self.folder.clone());
                    return Err(OutputError::Remove { name, folder, source });
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Starts a file that is written during a run. It has no name until it is published; if it never is, it
    /// disappears.
    ///
    /// # Errors
    /// [`OutputError`] if the file could not be created.
    pub fn create(&self, name: &str) -> Result<Unfinished, OutputError> {
        debug_assert!(RESULTS.contains(&name) || POINT_RESULTS.contains(&name), "{name} would remain");
        let path = self.folder.join(name);
        let created = std::fs::create_dir_all(&self.folder).and_then(|()| Unfinished::aside(path));
        created.map_err(|source| self.refused(name, source))
    }

    /// Writes `content` to a file that has no name yet.
    ///
    /// # Errors
    /// The file could not be written.
    pub fn made(&self, name: &str, content: &[u8]) -> Result<Unfinished, OutputError> {
        let mut file = self.create(name)?;
        file.write_all(content).map_err(|source| self.refused(name, source))?;
        Ok(file)
    }

    /// Writes a file, which appears under its name when it is completely on disk.
    ///
    /// # Errors
    /// The file could not be written.
    pub fn write(&self, name: &str, content: &[u8]) -> Result<(), OutputError> {
        self.publish([self.made(name, content)])
    }

    /// Renames all of these files to their names. If one could not be written, none appears.
    ///
    /// # Errors
    /// The first file that could not be written.
    pub fn publish(
        &self,
        files: impl IntoIterator<Item = Result<Unfinished, OutputError>>,
    ) -> Result<(), OutputError> {
        synced(files)?.into_iter().try_for_each(Synced::rename)
    }

    /// Like [`Output::publish`]. Also removes the other results of an earlier run, so that all results belong
    /// to one run. If `make` fails, the earlier results stay; its errors are passed on.
    ///
    /// # Errors
    /// The first file that could not be written or removed.
    pub fn replace<E: From<OutputError>>(
        &self,
        files: impl IntoIterator<Item = Result<Unfinished, E>>,
    ) -> Result<(), E> {
        let synced = synced(files)?;
        self.clear()?;
        Ok(synced.into_iter().try_for_each(Synced::rename)?)
    }

    fn refused(&self, name: &str, source: io::Error) -> OutputError {
        OutputError::Write { name: name.to_owned(), folder: self.folder.clone(), source }
    }

    /// The error for a failed Parquet writer in this directory.
    pub(crate) fn parquet_refused(&self, name: &str, source: ParquetError) -> OutputError {
        OutputError::WriteParquet { name: name.to_owned(), folder: self.folder.clone(), source }
    }
}

/// Creates a file for locking, if necessary, and waits for its lock, which ends with the returned file, as long as `waits` says.
/// `None` without the lock: `waits` ended it, the file system has no locks, or the file cannot be created.
#[allow(clippy::disallowed_methods, reason = "another process is waited for by the wall clock")]
pub fn lock_file(path: &Path, waits: impl Fn() -> bool) -> Option<File> {
    let file = OpenOptions::new().create(true).append(true).open(path).ok()?;
    loop {
        match file.try_lock() {
            Ok(()) => return Some(file),
            Err(TryLockError::WouldBlock) if waits() => std::thread::sleep(LOCK_LOOK),
            Err(_) => return None,
        }
    }
}

/// The subdirectories; none if `folder` does not exist.
pub fn folders(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let is_folder = |entry: &std::fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    let mut folders: Vec<PathBuf> =
        entries.filter_map(Result::ok).filter(is_folder).map(|entry| entry.path()).collect();
    folders.sort();
    folders
}

/// Whether a file may be renamed to this path: it is free, or a regular file. The error is the kind of file
/// that exists.
fn replaceable(path: &Path) -> Result<(), &'static str> {
    match std::fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_file() => Ok(()),
        Ok(metadata) => Err(match metadata.file_type() {
            kind if kind.is_dir() => "it is a folder",
            kind if kind.is_symlink() => "it is a symbolic link; only a regular file is replaced",
            _ => "it is a device, a FIFO or a socket; only a regular file is replaced",
        }),
        // Other errors show up when the file is written.
        Err(_) => Ok(()),
    }
}

/// A file without its final name; or a file that is written through because it is not a regular one.
pub struct Unfinished {
    file: File,
    path: PathBuf,
    /// The temporary file; `None` if it is written through.
    aside: Option<Aside>,
}

/// A temporary file, removed even if the process ends without unwinding.
struct Aside(Option<TempPath>);

/// Existing temporary files.
static ASIDE: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

impl Aside {
    fn create(folder: &Path) -> io::Result<(File, Aside)> {
        // Lock first, so that no file exists that the list does not contain.
        let mut all = ASIDE.lock().unwrap_or_else(PoisonError::into_inner);
        let (file, path) = new_file(folder)?.into_parts();
        all.push(path.to_path_buf());
        Ok((file, Aside(Some(path))))
    }

    fn persist(mut self, to: &Path) -> io::Result<()> {
        let mut all = ASIDE.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(path) = self.0.take() else { return Ok(()) };
        all.retain(|other| *other != *path);
        path.persist(to).map_err(|error| error.error)
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        if let Some(path) = self.0.take() {
            let mut all = ASIDE.lock().unwrap_or_else(PoisonError::into_inner);
            all.retain(|other| *other != *path);
            // Remove the file under the lock.
            drop(path);
        }
    }
}

/// Removes all temporary files, before the process exits without unwinding. From then on none is created or
/// renamed.
pub fn remove_unfinished() {
    let mut all = ASIDE.lock().unwrap_or_else(PoisonError::into_inner);
    for path in all.drain(..) {
        let _ = std::fs::remove_file(path);
    }
    std::mem::forget(all);
}

impl Unfinished {
    /// The only output file of a command. If `path` names a device, a FIFO or a socket, it is written
    /// through; if it is a symbolic link, its target is written.
    ///
    /// # Errors
    /// The path is a directory, a dangling link, or not writable.
    pub fn at(path: &Path) -> Result<Unfinished, InputError> {
        let shown = path.display();
        let refuse =
            |why: String, help: &str| InputError::new(format!("cannot write to `{shown}`: {why}"), help);
        let help = "choose another file, or change the permissions of its folder";
        let is_link = path.is_symlink();
        let opened = match std::fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => return Err(refuse("it is a folder".to_owned(), help)),
            Ok(metadata) if metadata.is_file() && is_link => path.canonicalize().and_then(Self::aside),
            Err(error) if is_link => {
                let why = format!("it is a dangling symbolic link: {error}");
                return Err(refuse(why, "remove it, or choose another file"));
            }
            // Opened by this name: /dev/stdout and /dev/fd may lead to a pipe, which has no other name.
            Ok(metadata) if !metadata.is_file() => OpenOptions::new()
                .write(true)
                .open(path)
                .map(|file| Unfinished { file, path: path.to_owned(), aside: None }),
            _ => Self::aside(path.to_owned()),
        };
        opened.map_err(|error| refuse(error.to_string(), help))
    }

    /// A temporary file next to `path`.
    fn aside(path: PathBuf) -> io::Result<Unfinished> {
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let (file, aside) = Aside::create(folder)?;
        Ok(Unfinished { file, path, aside: Some(aside) })
    }

    /// A file that will have this path, for other files than a command's output.
    ///
    /// # Errors
    /// The folder does not exist or is not writable.
    pub fn next_to(path: &Path) -> io::Result<Unfinished> {
        Unfinished::aside(path.to_owned())
    }

    /// Renames the complete file to its name without syncing it: after a crash of the machine it may be incomplete.
    ///
    /// # Errors
    /// It cannot be renamed.
    pub fn rename(self) -> Result<(), OutputError> {
        Synced { path: self.path, aside: self.aside }.rename()
    }

    /// Syncs the complete file and renames it to its name.
    ///
    /// # Errors
    /// The file could not be written.
    pub fn finish(self) -> Result<(), OutputError> {
        self.sync()?.rename()
    }

    fn sync(self) -> Result<Synced, OutputError> {
        // Pipes and terminals cannot be synced.
        if self.aside.is_some() {
            self.file.sync_all().map_err(|source| unfinished(&self.path, source))?;
        }
        Ok(Synced { path: self.path, aside: self.aside })
    }

    /// Opens another writer to the same file, for a task that keeps one during the run.
    ///
    /// # Errors
    /// The file could not be duplicated.
    pub fn writer(&self) -> Result<File, OutputError> {
        self.file.try_clone().map_err(|source| unfinished(&self.path, source))
    }
}

/// Syncs all of these files.
fn synced<E: From<OutputError>>(
    files: impl IntoIterator<Item = Result<Unfinished, E>>,
) -> Result<Vec<Synced>, E> {
    let files: Vec<Unfinished> = files.into_iter().collect::<Result<_, E>>()?;
    files.into_iter().map(|file| Ok(file.sync()?)).collect()
}

/// A synced file without its final name.
struct Synced {
    path: PathBuf,
    aside: Option<Aside>,
}

impl Synced {
    fn rename(self) -> Result<(), OutputError> {
        let Synced { path, aside } = self;
        let Some(aside) = aside else { return Ok(()) };
        // A special file may have been created since the check.
        if let Err(what) = replaceable(&path) {
            return Err(OutputError::Occupied { path, what });
        }
        aside.persist(&path).map_err(|source| unfinished(&path, source))
    }
}

fn unfinished(path: &Path, source: io::Error) -> OutputError {
    OutputError::Finish { path: path.to_owned(), source }
}

impl Write for Unfinished {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// A temporary file with the permissions of an ordinary file, subject to the user's umask.
fn new_file(folder: &Path) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".byteway-");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    builder.tempfile_in(folder)
}

/// Error of writing to the standard output.
#[derive(Debug)]
pub struct StdoutError(io::Error);

/// Exit code that a shell reports for a program killed by SIGPIPE: 128 + SIGPIPE.
pub const EXIT_CLOSED_PIPE: u8 = 141;

impl StdoutError {
    /// The exit code if the error needs no message: the reader closed the pipe, because it has read enough.
    pub fn quiet_exit(&self) -> Option<ExitCode> {
        (self.0.kind() == io::ErrorKind::BrokenPipe).then(|| ExitCode::from(EXIT_CLOSED_PIPE))
    }
}

impl From<io::Error> for StdoutError {
    fn from(error: io::Error) -> Self {
        StdoutError(error)
    }
}

impl fmt::Display for StdoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot write to the standard output: {}", self.0)
    }
}

impl std::error::Error for StdoutError {}

/// Writes to the standard output.
///
/// # Errors
/// The disk is full, or the pipe is closed.
pub fn print(bytes: impl AsRef<[u8]>) -> Result<(), StdoutError> {
    let mut out = io::stdout();
    out.write_all(bytes.as_ref()).and_then(|()| out.flush()).map_err(StdoutError)
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

    // If an unwritable directory were found only after an hour of simulation, the result would be lost.
    #[test]
    fn a_folder_is_probed_without_a_trace() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        for bad in
            [file.clone(), file.join("below"), PathBuf::from("/proc/byteway/out"), PathBuf::from("/dev/null")]
        {
            let error = Output::check(&bad).unwrap_err();
            assert!(error.what.contains("cannot write") && error.help.contains("--out"), "{error}");
        }
        let new = folder.path().join("a/b");
        let output = Output::check(&new).unwrap();
        assert_eq!(names(folder.path()), ["file"]);
        output.write("summary.json", b"1").unwrap();
        output.write("summary.json", b"2").unwrap();
        assert_eq!(names(&new), ["summary.json"]);
        assert_eq!(std::fs::read(new.join("summary.json")).unwrap(), b"2");
    }

    // Half a file under the name of a complete one would be taken for a result.
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
        std::fs::create_dir(folder.path().join("spans.json")).unwrap();
        let error = output.write("spans.json", b"").unwrap_err().to_string();
        assert!(error.contains("cannot write") && error.contains("it is a folder"), "{error}");
    }
}
