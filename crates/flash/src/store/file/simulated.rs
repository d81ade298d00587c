//! Simulated files that lose at a power cut what real ones may lose; for tests.
//!
//! Of every write and clearing since the last sync of its file, each part (the whole, 4 KiB or 512 B) is kept
//! or lost, and where several wrote to one place, any of them may be the last. Each change of names since the
//! last sync of the directory is kept or lost. What was synced stays.

use super::files::{File, Files};
use byteway_clock::random::{Rng, Stream};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

const SECTOR: u64 = 512;

type Sectors = BTreeMap<u64, Box<[u8; SECTOR as usize]>>;

/// Content of a file in sectors; missing ones hold zeroes.
#[derive(Clone, Default)]
struct Content {
    sectors: Sectors,
    bytes: u64,
}

impl Content {
    fn write(&mut self, bytes: &[u8], offset: u64) {
        let mut at = 0;
        while at < bytes.len() {
            let place = offset + at as u64;
            let within = (place % SECTOR) as usize;
            let count = (SECTOR as usize - within).min(bytes.len() - at);
            let sector = self.sectors.entry(place / SECTOR).or_insert_with(|| Box::new([0; SECTOR as usize]));
            sector[within..within + count].copy_from_slice(&bytes[at..at + count]);
            at += count;
        }
        self.bytes = self.bytes.max(offset + bytes.len() as u64);
    }

    fn clear(&mut self, offset: u64, bytes: u64) {
        let end = (offset + bytes).min(self.bytes);
        let whole = offset.div_ceil(SECTOR)..end / SECTOR;
        let inside: Vec<u64> = match whole.is_empty() {
            true => Vec::new(),
            false => self.sectors.range(whole.clone()).map(|(sector, _)| *sector).collect(),
        };
        for sector in inside {
            self.sectors.remove(&sector);
        }
        let edges = [offset..end.min(whole.start * SECTOR), offset.max(whole.end * SECTOR)..end];
        for edge in edges.into_iter().filter(|edge| edge.start < edge.end) {
            self.write(&vec![0; (edge.end - edge.start) as usize], edge.start);
        }
    }

    fn read(&self, bytes: &mut [u8], offset: u64) {
        for (at, byte_chunk) in chunks(offset, bytes) {
            match self.sectors.get(&(at / SECTOR)) {
                None => byte_chunk.fill(0),
                Some(sector) => {
                    let within = (at % SECTOR) as usize;
                    byte_chunk.copy_from_slice(&sector[within..within + byte_chunk.len()]);
                }
            }
        }
    }
}

/// `bytes` in sectors, with their offsets.
fn chunks(offset: u64, mut bytes: &mut [u8]) -> Vec<(u64, &mut [u8])> {
    let (mut parts, mut at) = (Vec::new(), offset);
    while !bytes.is_empty() {
        let count = ((SECTOR - at % SECTOR) as usize).min(bytes.len());
        let (part, rest) = bytes.split_at_mut(count);
        parts.push((at, part));
        (bytes, at) = (rest, at + count as u64);
    }
    parts
}

enum Deed {
    Write { offset: u64, bytes: Vec<u8> },
    Clear { offset: u64, bytes: u64 },
}

#[derive(Default)]
struct Inode {
    /// Current content.
    now: Content,
    /// Content as of the last sync.
    synced: Content,
    since: Vec<Deed>,
}

enum NameDeed {
    Create { name: String, inode: usize },
    Rename { from: String, to: String, inode: usize },
    Remove { name: String },
}

#[derive(Default)]
struct State {
    inodes: Vec<Inode>,
    names: BTreeMap<String, usize>,
    synced_names: BTreeMap<String, usize>,
    names_since: Vec<NameDeed>,
    /// Number of writes, clearings, syncs and changes of names.
    steps: u64,
    /// The step at which the power is cut: from it on every operation fails.
    ends_at: Option<u64>,
}

/// Simulated files. Cheap to clone.
#[derive(Clone, Default)]
pub struct SimulatedFiles(Arc<Mutex<State>>);

impl SimulatedFiles {
    /// An empty directory.
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of writes, clearings, syncs and changes of names so far.
    pub fn steps(&self) -> u64 {
        self.state().steps
    }

    /// Cuts the power after `steps` steps in all: later ones fail.
    pub fn end_at(&self, steps: u64) {
        self.state().ends_at = Some(steps);
    }

    /// The files after a power cut. `seed` determines all random choices.
    pub fn cut(&self, seed: u64) -> SimulatedFiles {
        let mut stream = Rng::new(seed).stream("power-cut");
        let state = self.state();
        let kept = [0.0, 0.1, 0.5, 0.9, 1.0][stream.below(5) as usize];
        let part = [u64::MAX, 4096, SECTOR][stream.below(3) as usize];
        let reorders = stream.chance(0.5);
        let inodes = state.inodes.iter().map(|inode| {
            let content = survivor(inode, kept, part, reorders, &mut stream);
            Inode { now: content.clone(), synced: content, since: Vec::new() }
        });
        let inodes = inodes.collect();
        let mut names = state.synced_names.clone();
        for deed in state.names_since.iter().filter(|_| stream.chance(kept)) {
            match deed {
                NameDeed::Create { name, inode } => _ = names.insert(name.clone(), *inode),
                NameDeed::Rename { from, to, inode } => {
                    names.remove(from);
                    names.insert(to.clone(), *inode);
                }
                NameDeed::Remove { name } => _ = names.remove(name),
            }
        }
        let names_since = Vec::new();
        let after =
            State { inodes, synced_names: names.clone(), names, names_since, steps: 0, ends_at: None };
        SimulatedFiles(Arc::new(Mutex::new(after)))
    }

    /// Corrupts a byte of a file, like a failing disk; false if there is no such byte.
    pub fn rot(&self, name: &str, offset: u64) -> bool {
        let mut state = self.state();
        let Some(inode) = state.names.get(name).copied() else { return false };
        let inode = &mut state.inodes[inode];
        let mut byte = [0];
        inode.now.read(&mut byte, offset);
        byte[0] ^= 0x10;
        inode.now.write(&byte, offset);
        inode.synced.write(&byte, offset);
        true
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Counts a step; an error if the power is off.
    fn step(&self) -> io::Result<MutexGuard<'_, State>> {
        let mut state = self.state();
        if state.ends_at.is_some_and(|end| state.steps >= end) {
            return Err(io::Error::other("the power is off"));
        }
        state.steps += 1;
        Ok(state)
    }

    fn file(&self, inode: usize) -> Arc<dyn File> {
        Arc::new(SimulatedFile { files: self.clone(), inode })
    }
}

/// The content of a file that survives a cut.
fn survivor(inode: &Inode, kept: f64, part: u64, reorders: bool, stream: &mut Stream) -> Content {
    let mut content = inode.synced.clone();
    let mut order: Vec<&Deed> = inode.since.iter().collect();
    if reorders {
        stream.shuffle(&mut order);
    }
    for deed in order {
        let (offset, bytes) = match deed {
            Deed::Write { offset, bytes } => (*offset, bytes.len() as u64),
            Deed::Clear { offset, bytes } => (*offset, *bytes),
        };
        let end = offset + bytes;
        let mut at = offset;
        while at < end {
            let stop = match part {
                u64::MAX => end,
                part => ((at / part + 1) * part).min(end),
            };
            if stream.chance(kept) {
                match deed {
                    Deed::Write { bytes, .. } => {
                        content.write(&bytes[(at - offset) as usize..(stop - offset) as usize], at);
                    }
                    Deed::Clear { .. } => content.clear(at, stop - at),
                }
            }
            at = stop;
        }
    }
    content
}

impl Files for SimulatedFiles {
    fn open(&self, name: &str) -> io::Result<Option<Arc<dyn File>>> {
        let found = self.state().names.get(name).copied();
        Ok(found.map(|inode| self.file(inode)))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let mut state = self.step()?;
        let inode = state.inodes.len();
        state.inodes.push(Inode::default());
        state.names.insert(name.to_owned(), inode);
        state.names_since.push(NameDeed::Create { name: name.to_owned(), inode });
        drop(state);
        Ok(self.file(inode))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.step()?;
        let inode = state.names.remove(from).ok_or(io::ErrorKind::NotFound)?;
        state.names.insert(to.to_owned(), inode);
        state.names_since.push(NameDeed::Rename { from: from.to_owned(), to: to.to_owned(), inode });
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.step()?;
        if state.names.remove(name).is_some() {
            state.names_since.push(NameDeed::Remove { name: name.to_owned() });
        }
        Ok(())
    }

    fn names(&self) -> io::Result<Vec<String>> {
        Ok(self.state().names.keys().cloned().collect())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.step()?;
        state.synced_names = state.names.clone();
        state.names_since.clear();
        Ok(())
    }
}

struct SimulatedFile {
    files: SimulatedFiles,
    inode: usize,
}

impl File for SimulatedFile {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.files.state().inodes[self.inode].now.read(bytes, offset);
        Ok(())
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut state = self.files.step()?;
        let inode = &mut state.inodes[self.inode];
        inode.now.write(bytes, offset);
        inode.since.push(Deed::Write { offset, bytes: bytes.to_vec() });
        Ok(())
    }

    fn clear(&self, offset: u64, bytes: u64) -> io::Result<()> {
        let mut state = self.files.step()?;
        let inode = &mut state.inodes[self.inode];
        inode.now.clear(offset, bytes);
        inode.since.push(Deed::Clear { offset, bytes });
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.files.step()?;
        let inode = &mut state.inodes[self.inode];
        for deed in std::mem::take(&mut inode.since) {
            match deed {
                Deed::Write { offset, bytes } => inode.synced.write(&bytes, offset),
                Deed::Clear { offset, bytes } => inode.synced.clear(offset, bytes),
            }
        }
        Ok(())
    }

    fn bytes(&self) -> io::Result<u64> {
        Ok(self.files.state().inodes[self.inode].now.bytes)
    }

    fn bytes_used(&self) -> io::Result<u64> {
        Ok(self.files.state().inodes[self.inode].now.sectors.len() as u64 * SECTOR)
    }

    fn next_data(&self, offset: u64) -> io::Result<Option<u64>> {
        let state = self.files.state();
        let next = state.inodes[self.inode].now.sectors.range(offset / SECTOR..).next();
        Ok(next.map(|(sector, _)| offset.max(sector * SECTOR)))
    }
}
