//! The file system interface of the store, so that a simulated one can replace it and lose what was not
//! synced.

use std::io;
use std::sync::Arc;

/// A directory of files, by plain names. Changes of names are durable only after [`Files::sync`].
pub trait Files: Send + Sync {
    /// Opens the file of this name; None if there is none.
    fn open(&self, name: &str) -> io::Result<Option<Arc<dyn File>>>;
    /// Creates an empty file of this name, replacing an existing one.
    fn create(&self, name: &str) -> io::Result<Arc<dyn File>>;
    /// Renames a file atomically, replacing an existing one.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file, if it exists.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// All names, sorted.
    fn names(&self) -> io::Result<Vec<String>>;
    /// Makes changes of names durable.
    fn sync(&self) -> io::Result<()>;
}

/// A file. It reads as zeroes where nothing was written, also beyond its end. Changes are durable only after
/// [`File::sync`].
pub trait File: Send + Sync {
    /// Fills `bytes` from `offset` on.
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()>;
    /// Writes `bytes` at `offset`.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Zeroes a range, and frees its space if the system can.
    fn clear(&self, offset: u64, bytes: u64) -> io::Result<()>;
    /// Makes durable what was written and cleared before the call.
    fn sync(&self) -> io::Result<()>;
    /// Length in bytes.
    fn bytes(&self) -> io::Result<u64>;
    /// Bytes used on the disk.
    fn bytes_used(&self) -> io::Result<u64>;
    /// First offset from `offset` on that may hold anything but zeroes.
    fn next_data(&self, offset: u64) -> io::Result<Option<u64>>;
}

/// Replaces a file atomically, by writing a new one and renaming it.
pub(super) fn write_aside(files: &dyn Files, name: &str, bytes: &[u8]) -> io::Result<()> {
    let aside = format!("{name}{ASIDE}");
    let file = files.create(&aside)?;
    file.write_at(bytes, 0)?;
    file.sync()?;
    files.rename(&aside, name)
}

/// Suffix of a file that is being written.
pub(super) const ASIDE: &str = ".new";

/// Reads a whole file of at most `most` bytes.
pub(super) fn read_all(file: &dyn File, most: u64) -> io::Result<Vec<u8>> {
    let bytes = file.bytes()?;
    if bytes > most {
        let what = format!("it has {bytes} bytes, and at most {most} are possible");
        return Err(io::Error::new(io::ErrorKind::InvalidData, what));
    }
    let mut all = vec![0; bytes as usize];
    file.read_at(&mut all, 0)?;
    Ok(all)
}
