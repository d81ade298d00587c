//! How the store reaches files: everything that it asks of a file system, so that a simulated one can stand in its
//! place and lose what was not synced.

use std::io;
use std::sync::Arc;

/// A directory of files, by plain names. Nothing that is done to names is durable before [`Files::sync`].
pub trait Files: Send + Sync {
    /// The file of this name, if there is one.
    fn open(&self, name: &str) -> io::Result<Option<Arc<dyn File>>>;
    /// A new, empty file of this name, in the place of one that was there.
    fn create(&self, name: &str) -> io::Result<Arc<dyn File>>;
    /// Gives a file another name, in the place of one that was there, at once.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file, if it is there.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// All names, in order.
    fn names(&self) -> io::Result<Vec<String>>;
    /// Makes durable what was done to names.
    fn sync(&self) -> io::Result<()>;
}

/// A file. It holds zeroes wherever nothing was written, beyond its end, too. Nothing is durable before [`File::sync`].
pub trait File: Send + Sync {
    /// Fills `bytes` from `offset` on.
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()>;
    /// Writes `bytes` from `offset` on.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Makes a range zeroes, and gives its space back if the system can.
    fn clear(&self, offset: u64, bytes: u64) -> io::Result<()>;
    /// Makes durable what was written and cleared before the call.
    fn sync(&self) -> io::Result<()>;
    /// Bytes up to its end.
    fn bytes(&self) -> io::Result<u64>;
    /// Bytes that it takes up on the disk.
    fn bytes_used(&self) -> io::Result<u64>;
    /// The first place from `offset` on that may hold something other than zeroes.
    fn next_data(&self, offset: u64) -> io::Result<Option<u64>>;
}

/// Writes a file so that it is there as a whole or as it was before, whatever happens meanwhile.
pub(super) fn write_aside(files: &dyn Files, name: &str, bytes: &[u8]) -> io::Result<()> {
    let aside = format!("{name}{ASIDE}");
    let file = files.create(&aside)?;
    file.write_at(bytes, 0)?;
    file.sync()?;
    files.rename(&aside, name)
}

/// What ends the name of a file that is being written.
pub(super) const ASIDE: &str = ".new";

/// All of a file that can't be longer than `most`.
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
