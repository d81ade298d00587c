//! Data directories on the file system of the machine.

use super::disk::FORMAT;
use super::files::{File, Files};
use rustix::fs::{
    FallocateFlags, FileType, FlockOperation, Mode, OFlags, SeekFrom, fallocate, flock, openat, seek,
};
use rustix::io::Errno;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The file whose lock marks the directory as in use.
pub(super) const LOCK: &str = "lock";

/// Error of opening a directory.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// Another process uses the directory.
    #[error(
        "{path} is in use by another process: a drive is served from it, or `byteway media` looks at it; end that first"
    )]
    InUse {
        /// Path of the directory.
        path: PathBuf,
    },
    /// The path does not exist.
    #[error("there is no drive in {path}")]
    Missing {
        /// Path of the directory.
        path: PathBuf,
    },
    /// A system error, or a file that is not a regular one.
    #[error("{path} cannot be used as a data directory")]
    System {
        /// Path of the directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

/// A directory of the system, locked against other processes.
pub struct Directory {
    path: PathBuf,
    fd: OwnedFd,
    /// None if the directory is only inspected and has no lock file.
    _lock: Option<OwnedFd>,
    /// Flags with which its files are opened.
    access: OFlags,
}

impl Directory {
    /// Locks the directory at `path` exclusively. Creates it if necessary.
    ///
    /// # Errors
    /// [`DirectoryError::InUse`] if another process has it, or [`DirectoryError::System`].
    pub fn take(path: &Path) -> Result<Directory, DirectoryError> {
        fs::create_dir_all(path)
            .map_err(|source| DirectoryError::System { path: path.to_path_buf(), source })?;
        Self::lock(path, OFlags::RDWR | OFlags::CREATE, FlockOperation::NonBlockingLockExclusive)
    }

    /// Opens the directory at `path` for inspection, shared with other inspectors, without writing to it. A
    /// copy may lack the lock file; no writer exists then, because a writer creates it.
    ///
    /// # Errors
    /// [`DirectoryError`] if a process writes to the directory, if it does not exist, or on a system error.
    pub fn look(path: &Path) -> Result<Directory, DirectoryError> {
        if path.join(LOCK).exists() {
            return Self::lock(path, OFlags::RDONLY, FlockOperation::NonBlockingLockShared);
        }
        if !path.join(FORMAT).exists() {
            return Err(DirectoryError::Missing { path: path.to_path_buf() });
        }
        let fd = rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
        let fd =
            fd.map_err(|errno| DirectoryError::System { path: path.to_path_buf(), source: errno.into() })?;
        Ok(Directory { path: path.to_path_buf(), fd, _lock: None, access: OFlags::RDONLY })
    }

    fn lock(path: &Path, flags: OFlags, operation: FlockOperation) -> Result<Directory, DirectoryError> {
        let system = |errno: Errno| DirectoryError::System { path: path.to_path_buf(), source: errno.into() };
        let open = |path: &Path, flags| rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::from(0o644));
        let fd = open(path, OFlags::RDONLY | OFlags::DIRECTORY).map_err(system)?;
        let io = |source| DirectoryError::System { path: path.to_path_buf(), source };
        let lock =
            open(&path.join(LOCK), flags | OFlags::NONBLOCK).map_err(|errno| io(open_error(LOCK, errno)))?;
        check_regular(&lock, LOCK).map_err(io)?;
        match flock(&lock, operation) {
            Ok(()) => {
                let access = flags & OFlags::ACCMODE;
                Ok(Directory { path: path.to_path_buf(), fd, _lock: Some(lock), access })
            }
            Err(Errno::WOULDBLOCK) => Err(DirectoryError::InUse { path: path.to_path_buf() }),
            Err(errno) => Err(system(errno)),
        }
    }

    /// Path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Free bytes of its file system.
    ///
    /// # Errors
    /// The system's error.
    pub fn bytes_free(&self) -> io::Result<u64> {
        let system = rustix::fs::fstatvfs(&self.fd)?;
        Ok(system.f_bavail.saturating_mul(system.f_frsize))
    }

    /// Opens a regular file; None if there is no file of this name.
    fn named(&self, name: &str, flags: OFlags) -> io::Result<Option<RealFile>> {
        // The open of a FIFO would wait for its other end.
        let flags = flags | OFlags::CLOEXEC | OFlags::NONBLOCK;
        match openat(&self.fd, name, flags, Mode::from(0o644)) {
            Ok(fd) => {
                check_regular(&fd, name)?;
                Ok(Some(RealFile(fs::File::from(fd))))
            }
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(open_error(name, errno)),
        }
    }
}

/// Fails if a file is not a regular one: a read of it may wait indefinitely.
fn check_regular(fd: &OwnedFd, name: &str) -> io::Result<()> {
    let kind = FileType::from_raw_mode(rustix::fs::fstat(fd)?.st_mode);
    if kind == FileType::RegularFile { Ok(()) } else { Err(not_regular(name)) }
}

/// The error of a file that could not be opened.
fn open_error(name: &str, errno: Errno) -> io::Error {
    match errno {
        // As the system reports a directory, and a socket or a device without a driver.
        Errno::ISDIR | Errno::NXIO | Errno::NODEV => not_regular(name),
        errno => errno.into(),
    }
}

fn not_regular(name: &str) -> io::Error {
    let what = format!(
        "`{name}` is not a regular file, as all files of a data directory are: put it back from a copy"
    );
    io::Error::new(io::ErrorKind::InvalidInput, what)
}

impl Files for Directory {
    fn open(&self, name: &str) -> io::Result<Option<Arc<dyn File>>> {
        Ok(self.named(name, self.access)?.map(|file| Arc::new(file) as Arc<dyn File>))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let file = self.named(name, OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC)?;
        Ok(Arc::new(file.ok_or(io::ErrorKind::NotFound)?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.fd, from, &self.fd, to)?)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        match rustix::fs::unlinkat(&self.fd, name, rustix::fs::AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let entries = fs::read_dir(&self.path)?;
        let names: io::Result<Vec<String>> =
            entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect();
        let mut names = names?;
        names.retain(|name| name != LOCK);
        names.sort_unstable();
        Ok(names)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::fsync(&self.fd)?)
    }
}

struct RealFile(fs::File);

/// Buffer for clearing where hole punching is not supported.
static ZEROES: [u8; 1 << 16] = [0; 1 << 16];

impl File for RealFile {
    fn read_at(&self, mut bytes: &mut [u8], mut offset: u64) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.0.read_at(bytes, offset) {
                Ok(0) => {
                    bytes.fill(0); // beyond the end of the file
                    return Ok(());
                }
                Ok(read) => {
                    bytes = &mut bytes[read..];
                    offset += read as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn clear(&self, offset: u64, bytes: u64) -> io::Result<()> {
        let end = (offset + bytes).min(self.bytes()?);
        if offset >= end {
            return Ok(());
        }
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match fallocate(&self.0, flags, offset, end - offset) {
            Ok(()) => Ok(()),
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => (offset..end).step_by(ZEROES.len()).try_for_each(|at| {
                self.write_at(&ZEROES[..(end - at).min(ZEROES.len() as u64) as usize], at)
            }),
            Err(errno) => Err(errno.into()),
        }
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn bytes(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn bytes_used(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.blocks() * 512)
    }

    fn next_data(&self, offset: u64) -> io::Result<Option<u64>> {
        match seek(&self.0, SeekFrom::Data(offset)) {
            Ok(at) => Ok(Some(at)),
            Err(Errno::NXIO) => Ok(None),
            // The file system has no SEEK_DATA.
            Err(Errno::INVAL | Errno::OPNOTSUPP) => Ok((offset < self.bytes()?).then_some(offset)),
            Err(errno) => Err(errno.into()),
        }
    }
}
