//! A file system on units of a drive. Names, lengths and allocation are in memory; file contents are only on the drive.

use super::{PART_UNITS, UNIT_BYTES};
use rusty_leveldb::env::{Env, FileLock, Logger, RandomAccess};
use rusty_leveldb::{Result, Status, StatusCode};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Block device in units.
pub(super) trait Units {
    /// Reads units from `first` on.
    fn read(&self, first: u32, into: &mut [u8]) -> io::Result<()>;
    /// Writes whole units from `first` on.
    fn write(&self, first: u32, bytes: &[u8]) -> io::Result<()>;
    /// Waits until all writes are durable.
    fn flush(&self) -> io::Result<()>;
    /// Deallocates units.
    fn discard(&self, first: u32, count: u32) -> io::Result<()>;
}

/// First units of free parts of [`PART_UNITS`] units. The lowest is allocated next.
type Free = Rc<RefCell<BTreeSet<u32>>>;

/// A file: its parts and length. Dropping the last reference, by name or open handle, frees the parts.
struct File {
    units: Rc<dyn Units>,
    free: Free,
    parts: RefCell<Vec<u32>>,
    bytes: Cell<u64>,
}

impl Drop for File {
    fn drop(&mut self) {
        for first in self.parts.take() {
            // If deallocation fails, the space is still reusable: it is rewritten.
            let _ = self.units.discard(first, PART_UNITS);
            self.free.borrow_mut().insert(first);
        }
    }
}

/// A file system with a single directory.
pub(super) struct Files {
    units: Rc<dyn Units>,
    free: Free,
    files: RefCell<BTreeMap<PathBuf, Rc<File>>>,
    locks: RefCell<BTreeSet<String>>,
}

impl Files {
    /// An empty file system on `count` units from the first on.
    pub(super) fn new(units: Rc<dyn Units>, count: u32) -> Files {
        let free = (0..count / PART_UNITS).map(|part| part * PART_UNITS).collect();
        Files {
            units,
            free: Rc::new(RefCell::new(free)),
            files: RefCell::default(),
            locks: RefCell::default(),
        }
    }

    fn find(&self, path: &Path) -> Result<Rc<File>> {
        let found = self.files.borrow().get(path).cloned();
        found.ok_or_else(|| Status::new(StatusCode::NotFound, &path.to_string_lossy()))
    }
}

/// Sequential or random reader of a file.
struct Reader {
    file: Rc<File>,
    next: u64,
}

impl Reader {
    fn read_from(&self, at: u64, into: &mut [u8]) -> io::Result<usize> {
        let count = self.file.bytes.get().saturating_sub(at).min(into.len() as u64) as usize;
        let mut done = 0;
        while done < count {
            let (first, within, most) = self.place(at + done as u64);
            let now = (count - done).min(most);
            let mut whole = vec![0; (within + now).next_multiple_of(UNIT_BYTES)];
            self.file.units.read(first, &mut whole)?;
            into[done..done + now].copy_from_slice(&whole[within..within + now]);
            done += now;
        }
        Ok(count)
    }

    /// The unit of a byte, the offset in that unit, and the number of bytes that follow in the same part.
    fn place(&self, at: u64) -> (u32, usize, usize) {
        let part_bytes = u64::from(PART_UNITS) * UNIT_BYTES as u64;
        let within = at % part_bytes;
        let part = self.file.parts.borrow()[(at / part_bytes) as usize];
        let unit = (within / UNIT_BYTES as u64) as u32;
        (part + unit, (within % UNIT_BYTES as u64) as usize, (part_bytes - within) as usize)
    }
}

impl Read for Reader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.read_from(self.next, into)?;
        self.next += count as u64;
        Ok(count)
    }
}

impl RandomAccess for Reader {
    fn read_at(&self, at: usize, into: &mut [u8]) -> Result<usize> {
        Ok(self.read_from(at as u64, into)?)
    }
}

/// Appends to a file: writes complete parts, and the incomplete last one on flush.
struct Writer {
    file: Rc<File>,
    /// Bytes after the last complete part, whether on the drive or not.
    tail: Vec<u8>,
}

impl Writer {
    /// Writes units of the incomplete part, from byte `from` on.
    fn put(&self, from: usize) -> io::Result<()> {
        let file = &*self.file;
        let index = file.bytes.get() / (u64::from(PART_UNITS) * UNIT_BYTES as u64);
        if file.parts.borrow().len() as u64 == index {
            let free = file.free.borrow_mut().pop_first();
            let part = free.ok_or_else(|| io::Error::from(io::ErrorKind::StorageFull))?;
            file.parts.borrow_mut().push(part);
        }
        let part = file.parts.borrow()[index as usize];
        let first = from / UNIT_BYTES;
        let mut bytes = self.tail[first * UNIT_BYTES..].to_vec();
        bytes.resize(bytes.len().next_multiple_of(UNIT_BYTES), 0);
        file.units.write(part + first as u32, &bytes)
    }

    /// Writes the new bytes of the incomplete part.
    fn put_tail(&mut self) -> io::Result<()> {
        let part_bytes = PART_UNITS as usize * UNIT_BYTES;
        let there = (self.file.bytes.get() % part_bytes as u64) as usize;
        if there < self.tail.len() {
            self.put(there)?;
            self.file.bytes.set(self.file.bytes.get() + (self.tail.len() - there) as u64);
        }
        if self.tail.len() == part_bytes {
            self.tail.clear();
        }
        Ok(())
    }
}

impl Write for Writer {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        let room = PART_UNITS as usize * UNIT_BYTES - self.tail.len();
        let now = from.len().min(room);
        self.tail.extend_from_slice(&from[..now]);
        if now == room {
            self.put_tail()?;
        }
        Ok(now)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.put_tail()?;
        self.file.units.flush()
    }
}

impl Drop for Writer {
    // Closing a file writes the remaining bytes, without a flush of the medium.
    fn drop(&mut self) {
        let _ = self.put_tail();
    }
}

impl Env for Files {
    fn open_sequential_file(&self, path: &Path) -> Result<Box<dyn Read>> {
        Ok(Box::new(Reader { file: self.find(path)?, next: 0 }))
    }

    fn open_random_access_file(&self, path: &Path) -> Result<Box<dyn RandomAccess>> {
        Ok(Box::new(Reader { file: self.find(path)?, next: 0 }))
    }

    fn open_writable_file(&self, path: &Path) -> Result<Box<dyn Write>> {
        let (units, free) = (self.units.clone(), self.free.clone());
        let file = Rc::new(File { units, free, parts: RefCell::default(), bytes: Cell::default() });
        let before = self.files.borrow_mut().insert(path.to_owned(), file.clone());
        drop(before);
        Ok(Box::new(Writer { file, tail: Vec::new() }))
    }

    fn open_appendable_file(&self, path: &Path) -> Result<Box<dyn Write>> {
        let Ok(file) = self.find(path) else { return self.open_writable_file(path) };
        let part_bytes = u64::from(PART_UNITS) * UNIT_BYTES as u64;
        let bytes = file.bytes.get();
        let mut tail = vec![0; (bytes % part_bytes) as usize];
        Reader { file: file.clone(), next: 0 }.read_from(bytes / part_bytes * part_bytes, &mut tail)?;
        Ok(Box::new(Writer { file, tail }))
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        Ok(self.files.borrow().contains_key(path))
    }

    fn children(&self, path: &Path) -> Result<Vec<PathBuf>> {
        let files = self.files.borrow();
        let within = files.keys().filter_map(|file| file.strip_prefix(path).ok());
        Ok(within.map(Path::to_owned).collect())
    }

    fn size_of(&self, path: &Path) -> Result<usize> {
        Ok(self.find(path)?.bytes.get() as usize)
    }

    fn delete(&self, path: &Path) -> Result<()> {
        let file = self.find(path)?;
        self.files.borrow_mut().remove(path);
        drop(file);
        Ok(())
    }

    fn mkdir(&self, _: &Path) -> Result<()> {
        Ok(())
    }

    fn rmdir(&self, _: &Path) -> Result<()> {
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let file = self.find(from)?;
        self.files.borrow_mut().remove(from);
        let before = self.files.borrow_mut().insert(to.to_owned(), file);
        drop(before);
        Ok(())
    }

    fn lock(&self, path: &Path) -> Result<FileLock> {
        let id = path.to_string_lossy().into_owned();
        match self.locks.borrow_mut().insert(id.clone()) {
            true => Ok(FileLock { id }),
            false => Err(Status::new(StatusCode::LockError, &id)),
        }
    }

    fn unlock(&self, lock: FileLock) -> Result<()> {
        self.locks.borrow_mut().remove(&lock.id);
        Ok(())
    }

    /// Log messages are discarded.
    fn new_logger(&self, _: &Path) -> Result<Logger> {
        Ok(Logger::new(Box::new(io::sink())))
    }

    /// Only used for durations in log messages.
    fn micros(&self) -> u64 {
        0
    }

    fn sleep_for(&self, _: u32) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A drive in memory.
    struct Memory(RefCell<Vec<u8>>);

    impl Units for Memory {
        fn read(&self, first: u32, into: &mut [u8]) -> io::Result<()> {
            let at = first as usize * UNIT_BYTES;
            into.copy_from_slice(&self.0.borrow()[at..at + into.len()]);
            Ok(())
        }
        fn write(&self, first: u32, bytes: &[u8]) -> io::Result<()> {
            let at = first as usize * UNIT_BYTES;
            self.0.borrow_mut()[at..at + bytes.len()].copy_from_slice(bytes);
            Ok(())
        }
        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
        fn discard(&self, first: u32, count: u32) -> io::Result<()> {
            self.write(first, &vec![0; count as usize * UNIT_BYTES])
        }
    }

    // A byte lost or duplicated at the end of a part, or between two flushes, would make the tree unreadable.
    #[test]
    fn a_file_is_what_was_written_to_it_in_whatever_pieces() {
        let parts = 40;
        let memory = Memory(RefCell::new(vec![0; (parts * PART_UNITS) as usize * UNIT_BYTES]));
        let files = Files::new(Rc::new(memory), parts * PART_UNITS);
        let path = Path::new("a");
        let mut expected: Vec<u8> = Vec::new();
        let mut seed = 1u32;
        for _ in 0..3 {
            let mut writer = files.open_appendable_file(path).unwrap();
            for _ in 0..60 {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let piece: Vec<u8> = (0..seed >> 18).map(|at| (at ^ seed) as u8).collect();
                writer.write_all(&piece).unwrap();
                expected.extend(&piece);
                if seed & 0x300 == 0 {
                    writer.flush().unwrap();
                    assert_eq!(files.size_of(path).unwrap(), expected.len());
                }
            }
        }
        let mut read = Vec::new();
        files.open_sequential_file(path).unwrap().read_to_end(&mut read).unwrap();
        assert_eq!(read, expected);
        let mut some = vec![0; 200_000];
        assert_eq!(
            files.open_random_access_file(path).unwrap().read_at(99_999, &mut some).unwrap(),
            some.len()
        );
        assert_eq!(some, expected[99_999..299_999]);
        files.rename(path, Path::new("b")).unwrap();
        files.delete(Path::new("b")).unwrap();
        assert_eq!(files.free.borrow().len(), parts as usize);
        let full = files.open_writable_file(path).unwrap().write_all(&vec![1; 41 << 17]);
        assert_eq!(full.unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
