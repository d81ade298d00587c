//! Expected content of each block of the drive, in a file that survives the client that writes it.
//!
//! A block has two words: its certain version, and a possible alternative while a write is outstanding. Both are stored in the page cache,
//! where `kill -9` cannot undo them. The first client that reads such a block settles its version for all later ones.

use byteway_content::{BlockSize, Stamp};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Initial content of the drive.
const BASE: u32 = 0;
/// Deallocated.
const ZEROES: u32 = u32::MAX;
/// No alternative version.
const NONE: u32 = u32::MAX - 1;
const CELL_BYTES: usize = 8;

/// The ledger file.
pub struct Ledger {
    file: File,
    block: BlockSize,
    tag: u16,
    is_empty: bool,
}

impl Ledger {
    /// The ledger of a namespace in a folder. `is_empty`: the drive was initially empty.
    pub fn open(folder: &Path, nsid: u32, block: BlockSize, is_empty: bool) -> Ledger {
        let file =
            File::options().create(true).truncate(false).read(true).write(true).open(folder.join("ledger"));
        Ledger { file: file.unwrap(), block, tag: nsid as u16, is_empty }
    }

    /// Beyond the end of the file, or in a hole, content is initial.
    fn cells(&self, lba: u64, blocks: u64) -> Vec<(u32, u32)> {
        let mut bytes = vec![0; blocks as usize * CELL_BYTES];
        let mut done = 0;
        while done < bytes.len() {
            let read = self.file.read_at(&mut bytes[done..], lba * CELL_BYTES as u64 + done as u64).unwrap();
            if read == 0 {
                break;
            }
            done += read;
        }
        let word = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().unwrap());
        let cells = bytes.chunks_exact(CELL_BYTES).map(|cell| (word(&cell[..4]), word(&cell[4..])));
        cells.map(|(certain, maybe)| (certain, if maybe == 0 { NONE } else { maybe })).collect()
    }

    fn set(&self, lba: u64, cells: &[(u32, u32)]) {
        let bytes: Vec<u8> = cells
            .iter()
            .flat_map(|(certain, maybe)| [certain.to_le_bytes(), maybe.to_le_bytes()])
            .flatten()
            .collect();
        self.file.write_all_at(&bytes, lba * CELL_BYTES as u64).unwrap();
    }

    /// A write of a version, or of zeroes, is about to start. None of the blocks is uncertain: they were read before.
    pub fn begin(&self, lba: u64, blocks: u64, version: Option<u32>) {
        let mut cells = self.cells(lba, blocks);
        assert!(cells.iter().all(|(_, maybe)| *maybe == NONE), "what is uncertain is read first");
        cells.iter_mut().for_each(|(_, maybe)| *maybe = version.unwrap_or(ZEROES));
        self.set(lba, &cells);
    }

    /// The write has completed.
    pub fn end(&self, lba: u64, blocks: u64, version: Option<u32>) {
        self.set(lba, &vec![(version.unwrap_or(ZEROES), NONE); blocks as usize]);
    }

    /// The stamp of a version.
    pub fn stamp(&self, lba: u64, version: u32) -> Stamp {
        Stamp { lba, version, tag: self.tag, block: self.block }
    }

    /// Whether any of the blocks has two possible versions.
    pub fn is_uncertain(&self, lba: u64, blocks: u64) -> bool {
        self.cells(lba, blocks).iter().any(|(_, maybe)| *maybe != NONE)
    }

    /// Verifies blocks that were read.
    ///
    /// # Errors
    /// The content of the first wrong block.
    pub fn verify(&self, lba: u64, bytes: &[u8]) -> Result<(), String> {
        let block = self.block.bytes();
        let mut cells = self.cells(lba, (bytes.len() / block) as u64);
        let mut has_settled = false;
        for ((lba, bytes), cell) in (lba..).zip(bytes.chunks_exact(block)).zip(&mut cells) {
            let holds = |version| match version {
                NONE => false,
                ZEROES => bytes.iter().all(|byte| *byte == 0),
                BASE if self.is_empty => bytes.iter().all(|byte| *byte == 0),
                version => self.stamp(lba, version).matches(bytes),
            };
            let (certain, maybe) = *cell;
            let Some(found) = [maybe, certain].into_iter().find(|version| holds(*version)) else {
                let found = Stamp::read_header(bytes);
                return Err(format!("block {lba} holds {found:?} instead of version {certain} or {maybe}"));
            };
            has_settled |= maybe != NONE;
            *cell = (found, NONE);
        }
        if has_settled {
            self.set(lba, &cells);
        }
        Ok(())
    }

    /// Number of blocks that the file covers.
    pub fn blocks(&self) -> u64 {
        self.file.metadata().unwrap().len() / CELL_BYTES as u64
    }

    /// Whether any client has accessed these blocks.
    pub fn is_touched(&self, lba: u64, blocks: u64) -> bool {
        self.cells(lba, blocks).iter().any(|cell| *cell != (BASE, NONE))
    }
}
