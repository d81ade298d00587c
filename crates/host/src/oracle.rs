//! The host's own memory of what each logical block must hold.
//!
//! Every write gives its blocks a new version, so a block's bytes say which write they are of ([`Stamp`]). The oracle
//! keeps the version of each block and shares nothing with the drive's translation.
//!
//! What a read may return is what a register with concurrent operations may (each block on its own):
//! - what the block held when the read was submitted, or any version whose write was under way at some time between
//!   the read's submission and its completion;
//! - after writes that were under way at the same time, any of them; after a write that failed, the old or the new;
//! - but once a read, begun after all of them had ended, has returned one of these, that one.
//!
//! What it verifies: every byte of every block read, and that no write is lost, undone or misplaced by more than this
//! allows. What it does not: what a block holds after a power cut, the order among different blocks, metadata.
//!
//! A block at rest is one 32-bit cell. Only blocks with several writes under way, or a failed one, have more.

use byteway_wire::content::{BlockSize, Stamp};
use byteway_wire::words::Words;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::fmt;

/// What the namespace held before the first I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BaseState {
    /// Zeroes: an empty drive.
    Zeroes,
    /// Version 0 of each block with this tag: a preconditioned drive.
    Stamped {
        /// The stamps' tag.
        tag: u16,
    },
}

/// What a block holds, in 31 bits: 0 is the base state, then versions, then zeroes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Value(u32);

impl Value {
    const BASE: Value = Value(0);
    const VERSION_MAX: u32 = 0x7fff_fffd;
    const ZEROES: Value = Value(0x7fff_fffe);
}

/// A cell: a value, and in the top bit whether a write is under way. [`CONTESTED`]: see the side table.
const WRITING: u32 = 1 << 31;
const CONTESTED: u32 = 0x7fff_ffff;

/// Up to this many blocks (256 MiB of cells, of which only what is touched becomes memory) cells lie in an array.
const DENSE_BLOCKS_MAX: u64 = 64 << 20;
/// Above: an array anyway once more than one block in this many differs from the base.
const SPARSE_SHARE: u64 = 6;

enum Cells {
    Dense(Words),
    Sparse { cells: FxHashMap<u64, u32>, blocks: u64 },
}

impl Cells {
    fn new(blocks: u64) -> Self {
        match usize::try_from(blocks) {
            Ok(count) if blocks <= DENSE_BLOCKS_MAX => Cells::Dense(Words::zeroes(count)),
            _ => Cells::Sparse { cells: FxHashMap::default(), blocks },
        }
    }

    fn get(&self, lba: u64) -> u32 {
        match self {
            Cells::Dense(cells) => cells.get(lba as usize).copied().unwrap_or(0),
            Cells::Sparse { cells, .. } => cells.get(&lba).copied().unwrap_or(0),
        }
    }

    fn set(&mut self, lba: u64, cell: u32) {
        match self {
            Cells::Dense(cells) => cells[lba as usize] = cell,
            Cells::Sparse { cells, .. } if cell == 0 => drop(cells.remove(&lba)),
            Cells::Sparse { cells, blocks } => {
                cells.insert(lba, cell);
                if cells.len() as u64 > *blocks / SPARSE_SHARE {
                    let mut dense = Words::zeroes(*blocks as usize);
                    cells.iter().for_each(|(lba, cell)| dense[*lba as usize] = *cell);
                    *self = Cells::Dense(dense);
                }
            }
        }
    }
}

/// A write, trim or Write Zeroes under way.
#[derive(Clone, Copy)]
struct Write {
    lba: u64,
    blocks: u64,
    value: Value,
    begin: u64,
}

impl Write {
    fn covers(&self, lba: u64) -> bool {
        lba >= self.lba && lba - self.lba < self.blocks
    }
}

/// A block that may hold one of several things.
#[derive(Default)]
struct Contested {
    /// What it may hold when nothing is under way, each with the moment at which its write ended.
    possible: Vec<(Value, u64)>,
    /// Writes under way, each with the moment at which it began.
    writing: Vec<(Value, u64)>,
}

/// What a block could hold until `at`.
struct Replaced {
    lba: u64,
    value: Value,
    at: u64,
}

/// A read under way; ends by [`Oracle::end_read`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadToken {
    index: u64,
    begin: u64,
}

/// A write under way; ends by [`Oracle::end_write`].
#[must_use = "a write that doesn't end leaves its blocks undecided"]
#[derive(Debug, PartialEq, Eq)]
pub struct WriteToken(u32);

/// How a write ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It succeeded.
    Done,
    /// It failed, was aborted or lost: it may have taken effect or not.
    Uncertain,
}

/// What a block should hold, or does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// Zeroes throughout.
    Zeroes,
    /// A stamp's pattern throughout.
    Stamp(Stamp),
    /// It begins as a stamp's pattern, but the rest isn't.
    Damaged(Stamp),
    /// Anything else.
    Other,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = |f: &mut fmt::Formatter<'_>, stamp: &Stamp| {
            write!(f, "version {} of logical block {} (tag {})", stamp.version, stamp.lba, stamp.tag)
        };
        match self {
            Found::Zeroes => write!(f, "zeroes"),
            Found::Stamp(stamp) => named(f, stamp),
            Found::Damaged(stamp) => named(f, stamp).and_then(|()| write!(f, ", damaged")),
            Found::Other => write!(f, "bytes that nobody wrote"),
        }
    }
}

/// A block that holds what it must not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The block.
    pub lba: u64,
    /// What it could hold without any other I/O under way; the likeliest last.
    pub expected: Vec<Found>,
    /// What it holds.
    pub found: Found,
    /// The first byte of the block that differs from the likeliest.
    pub offset: usize,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "logical block {} holds {} where", self.lba, self.found)?;
        for (index, expected) in self.expected.iter().enumerate() {
            write!(f, "{} {expected}", if index == 0 { "" } else { " or" })?;
        }
        write!(f, " was expected; the first difference is at byte {}", self.offset)
    }
}

impl std::error::Error for Mismatch {}

/// What each logical block of a namespace must hold.
pub struct Oracle {
    block: BlockSize,
    blocks: u64,
    base: BaseState,
    tag: u16,
    cells: Cells,
    contested: FxHashMap<u64, Contested>,
    spare: Vec<Contested>,
    writes: Vec<Option<Write>>,
    writes_free: Vec<u32>,
    /// Reads that may be under way, by age: when each began, and whether it still is.
    reads: VecDeque<(u64, bool)>,
    /// Index of the first of them, counting from the run's beginning.
    reads_first: u64,
    /// What was replaced while a read was under way that may still return it, by time.
    replaced: VecDeque<Replaced>,
    version: u32,
    moment: u64,
    verified: u64,
}

impl Oracle {
    /// For a namespace of `blocks` blocks that holds `base`. Writes are stamped with `tag`.
    pub fn new(blocks: u64, block: BlockSize, tag: u16, base: BaseState) -> Self {
        Oracle {
            block,
            blocks,
            base,
            tag,
            cells: Cells::new(blocks),
            contested: FxHashMap::default(),
            spare: Vec::new(),
            writes: Vec::new(),
            writes_free: Vec::new(),
            reads: VecDeque::new(),
            reads_first: 0,
            replaced: VecDeque::new(),
            version: 0,
            moment: 0,
            verified: 0,
        }
    }

    /// Blocks that were read and found right.
    pub fn verified_blocks(&self) -> u64 {
        self.verified
    }

    /// Blocks that may hold one of several things at this moment.
    pub fn contested_blocks(&self) -> usize {
        self.contested.len()
    }

    fn next_moment(&mut self) -> u64 {
        self.moment += 1;
        self.moment
    }

    /// A read is about to be submitted.
    pub fn begin_read(&mut self) -> ReadToken {
        let begin = self.next_moment();
        self.reads.push_back((begin, true));
        ReadToken { index: self.reads_first + self.reads.len() as u64 - 1, begin }
    }

    /// The read has ended, verified or not.
    pub fn end_read(&mut self, read: ReadToken) {
        let index = read.index.wrapping_sub(self.reads_first);
        if let Some((_, under_way)) = self.reads.get_mut(index as usize) {
            *under_way = false;
        }
        let mut ended = false;
        while self.reads.front().is_some_and(|(_, under_way)| !under_way) {
            self.reads.pop_front();
            self.reads_first += 1;
            ended = true;
        }
        if ended && !self.replaced.is_empty() {
            match self.reads.front() {
                None => self.replaced.clear(),
                Some((oldest, _)) => {
                    while self.replaced.front().is_some_and(|replaced| replaced.at < *oldest) {
                        self.replaced.pop_front();
                    }
                }
            }
        }
    }

    /// A write of `blocks` blocks from `lba` on is about to be submitted: the stamp that it must write.
    ///
    /// # Panics
    /// After 2^31 - 3 writes.
    pub fn begin_write(&mut self, lba: u64, blocks: u64) -> (WriteToken, Stamp) {
        assert!(self.version < Value::VERSION_MAX, "a run has fewer than 2^31 - 3 writes");
        self.version += 1;
        let stamp = Stamp { lba, version: self.version, tag: self.tag, block: self.block };
        (self.begin(lba, blocks, Value(self.version)), stamp)
    }

    /// A trim or Write Zeroes of `blocks` blocks from `lba` on is about to be submitted.
    pub fn begin_zeroes(&mut self, lba: u64, blocks: u64) -> WriteToken {
        let value = if self.base == BaseState::Zeroes { Value::BASE } else { Value::ZEROES };
        self.begin(lba, blocks, value)
    }

    fn begin(&mut self, lba: u64, blocks: u64, value: Value) -> WriteToken {
        // What lies beyond the namespace the drive must refuse; here it is nothing.
        let blocks = blocks.min(self.blocks.saturating_sub(lba));
        let begin = self.next_moment();
        for lba in lba..lba + blocks {
            let cell = self.cells.get(lba);
            if cell == CONTESTED {
                self.contested.entry(lba).or_default().writing.push((value, begin));
            } else if cell & WRITING == 0 {
                self.cells.set(lba, cell | WRITING);
            } else {
                let other = self.writes.iter().flatten().find(|write| write.covers(lba)).copied();
                let other = other.expect("a block marked as being written has a write under way");
                let mut contested = self.spare.pop().unwrap_or_default();
                contested.possible.push((Value(cell & !WRITING), 0));
                contested.writing.extend([(other.value, other.begin), (value, begin)]);
                self.contested.insert(lba, contested);
                self.cells.set(lba, CONTESTED);
            }
        }
        let write = Some(Write { lba, blocks, value, begin });
        match self.writes_free.pop() {
            Some(index) => {
                self.writes[index as usize] = write;
                WriteToken(index)
            }
            None => {
                self.writes.push(write);
                WriteToken(self.writes.len() as u32 - 1)
            }
        }
    }

    /// A write, trim or Write Zeroes has ended.
    pub fn end_write(&mut self, write: WriteToken, outcome: Outcome) {
        let Some(ended) = self.writes.get_mut(write.0 as usize).and_then(Option::take) else { return };
        self.writes_free.push(write.0);
        let at = self.next_moment();
        for lba in ended.lba..ended.lba + ended.blocks {
            let cell = self.cells.get(lba);
            if cell == CONTESTED {
                self.end_contested(lba, ended, outcome, at);
                continue;
            }
            let old = Value(cell & !WRITING);
            if outcome == Outcome::Done || old == ended.value {
                if old != ended.value {
                    self.note_replaced(lba, old, at);
                }
                self.cells.set(lba, ended.value.0);
            } else {
                let mut contested = self.spare.pop().unwrap_or_default();
                contested.possible.extend([(old, 0), (ended.value, at)]);
                self.contested.insert(lba, contested);
                self.cells.set(lba, CONTESTED);
            }
        }
    }

    fn end_contested(&mut self, lba: u64, ended: Write, outcome: Outcome, at: u64) {
        let Some(mut contested) = self.contested.remove(&lba) else { return };
        let own = contested.writing.iter().position(|writing| *writing == (ended.value, ended.begin));
        if let Some(own) = own {
            contested.writing.swap_remove(own);
        }
        if outcome == Outcome::Done {
            // What had ended before this one began has been replaced by it; what was under way with it may stand.
            contested.possible.retain(|(value, end)| {
                let stands = *end > ended.begin;
                if !stands {
                    self.replaced.push_back(Replaced { lba, value: *value, at });
                }
                stands
            });
        }
        contested.possible.push((ended.value, at));
        self.forget_unneeded();
        self.settle(lba, contested);
    }

    /// Keeps a block in the side table only if it may still hold different things.
    fn settle(&mut self, lba: u64, mut contested: Contested) {
        let value = contested.possible.first().map(|(value, _)| *value);
        match value {
            Some(value)
                if contested.writing.is_empty()
                    && contested.possible.iter().all(|(other, _)| *other == value) =>
            {
                self.cells.set(lba, value.0);
                contested.possible.clear();
                self.spare.push(contested);
            }
            _ => drop(self.contested.insert(lba, contested)),
        }
    }

    fn note_replaced(&mut self, lba: u64, value: Value, at: u64) {
        if !self.reads.is_empty() {
            self.replaced.push_back(Replaced { lba, value, at });
        }
    }

    fn forget_unneeded(&mut self) {
        if self.reads.is_empty() {
            self.replaced.clear();
        }
    }

    /// The host has lost every command under way (a power cut): writes may have taken effect or not.
    pub fn abandon(&mut self) {
        for index in 0..self.writes.len() as u32 {
            self.end_write(WriteToken(index), Outcome::Uncertain);
        }
        self.reads_first += self.reads.len() as u64;
        self.reads.clear();
        self.replaced.clear();
    }

    /// What a value looks like.
    fn look(&self, lba: u64, value: Value) -> Found {
        let stamp = |version, tag| Found::Stamp(Stamp { lba, version, tag, block: self.block });
        match (value, self.base) {
            (Value::ZEROES, _) | (Value::BASE, BaseState::Zeroes) => Found::Zeroes,
            (Value::BASE, BaseState::Stamped { tag }) => stamp(0, tag),
            (Value(version), _) => stamp(version, self.tag),
        }
    }

    /// Verifies what the read returned: `bytes` are whole blocks from `lba` on. To be called before the read ends.
    ///
    /// # Errors
    /// The first block that holds what it must not.
    pub fn verify_read(&mut self, read: ReadToken, lba: u64, bytes: &[u8]) -> Result<(), Box<Mismatch>> {
        for (index, block) in bytes.chunks_exact(self.block.bytes()).enumerate() {
            let lba = lba.wrapping_add(index as u64); // a drive may claim to have read beyond 2^64
            let cell = self.cells.get(lba);
            // What is at rest now is right whatever happened since the read began; so is what a write under way
            // has not replaced yet.
            if cell != CONTESTED && holds(self.look(lba, Value(cell & !WRITING)), block) {
                self.verified += 1;
                continue;
            }
            self.verify_slowly(read, lba, cell, block)?;
            self.verified += 1;
        }
        Ok(())
    }

    #[cold]
    fn verify_slowly(
        &mut self,
        read: ReadToken,
        lba: u64,
        cell: u32,
        block: &[u8],
    ) -> Result<(), Box<Mismatch>> {
        let found = find(block);
        let Some(value) = self.value_of(lba, found) else {
            return Err(self.mismatch(lba, cell, found, block));
        };
        let is_value = |(other, _): &(Value, u64)| *other == value;
        let (possible, writing) = match self.contested.get(&lba) {
            Some(contested) if cell == CONTESTED => {
                (contested.possible.iter().any(is_value), contested.writing.iter().any(is_value))
            }
            _ => {
                let mut writes = self.writes.iter().flatten();
                (false, cell & WRITING != 0 && writes.any(|write| write.value == value && write.covers(lba)))
            }
        };
        if possible {
            self.pin(read, lba, value);
            return Ok(());
        }
        let mut replaced = self.replaced.iter().rev().take_while(|replaced| replaced.at > read.begin);
        if writing || replaced.any(|replaced| replaced.lba == lba && replaced.value == value) {
            return Ok(());
        }
        Err(self.mismatch(lba, cell, found, block))
    }

    /// A read has returned `value`. If nothing was under way while it was, the block holds that and nothing else.
    fn pin(&mut self, read: ReadToken, lba: u64, value: Value) {
        let Some(contested) = self.contested.get(&lba) else { return };
        if !contested.writing.is_empty() || contested.possible.iter().any(|(_, end)| *end > read.begin) {
            return;
        }
        let Some(mut contested) = self.contested.remove(&lba) else { return };
        let at = self.next_moment();
        for (other, _) in contested.possible.drain(..).filter(|(other, _)| *other != value) {
            // A read that began earlier may have seen it.
            self.replaced.push_back(Replaced { lba, value: other, at });
        }
        contested.possible.push((value, 0));
        self.settle(lba, contested);
    }

    /// The value that a block's bytes stand for, if this run can have written them to `lba`.
    fn value_of(&self, lba: u64, found: Found) -> Option<Value> {
        let value = match found {
            Found::Zeroes if self.base == BaseState::Zeroes => Value::BASE,
            Found::Zeroes => Value::ZEROES,
            Found::Stamp(stamp) if stamp.version == 0 => Value::BASE,
            Found::Stamp(stamp) if stamp.version <= self.version => Value(stamp.version),
            _ => return None,
        };
        (self.look(lba, value) == found).then_some(value)
    }

    fn mismatch(&self, lba: u64, cell: u32, found: Found, block: &[u8]) -> Box<Mismatch> {
        let expected: Vec<Found> = match self.contested.get(&lba) {
            Some(contested) if cell == CONTESTED => contested
                .possible
                .iter()
                .chain(&contested.writing)
                .map(|(value, _)| self.look(lba, *value))
                .collect(),
            _ => vec![self.look(lba, Value(cell & !WRITING))],
        };
        let mut wanted = vec![0; block.len()];
        if let Some(Found::Stamp(stamp)) = expected.last() {
            stamp.fill(&mut wanted);
        }
        let offset = wanted.iter().zip(block).position(|(wanted, byte)| wanted != byte).unwrap_or(0);
        Box::new(Mismatch { lba, expected, found, offset })
    }

    /// Fills `bytes` (whole blocks from `lba` on) with what they must hold: for Compare.
    ///
    /// # Errors
    /// The first block of which that isn't certain at this moment.
    pub fn expected(&self, lba: u64, bytes: &mut [u8]) -> Result<(), u64> {
        for (index, block) in bytes.chunks_exact_mut(self.block.bytes()).enumerate() {
            let lba = lba.wrapping_add(index as u64);
            let cell = self.cells.get(lba);
            if cell == CONTESTED || cell & WRITING != 0 {
                return Err(lba);
            }
            match self.look(lba, Value(cell)) {
                Found::Stamp(stamp) => stamp.fill(block),
                _ => block.fill(0),
            }
        }
        Ok(())
    }
}

/// Whether `block` is exactly that.
fn holds(expected: Found, block: &[u8]) -> bool {
    match expected {
        Found::Zeroes => block.iter().all(|byte| *byte == 0),
        Found::Stamp(stamp) => stamp.matches(block),
        Found::Damaged(_) | Found::Other => false,
    }
}

/// What `block` is.
fn find(block: &[u8]) -> Found {
    match Stamp::read_header(block) {
        Some(stamp) if stamp.block.bytes() == block.len() && stamp.matches(block) => Found::Stamp(stamp),
        Some(stamp) => Found::Damaged(stamp),
        None if block.iter().all(|byte| *byte == 0) => Found::Zeroes,
        None => Found::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: BlockSize = BlockSize::B512;

    fn oracle() -> Oracle {
        Oracle::new(100, BLOCK, 7, BaseState::Stamped { tag: 3 })
    }

    fn bytes_of(lba: u64, version: u32) -> Vec<u8> {
        let mut bytes = vec![0; BLOCK.bytes()];
        let tag = if version == 0 { 3 } else { 7 };
        Stamp { lba, version, tag, block: BLOCK }.fill(&mut bytes);
        bytes
    }

    fn read(oracle: &mut Oracle, lba: u64, bytes: &[u8]) -> Result<(), Box<Mismatch>> {
        let token = oracle.begin_read();
        let result = oracle.verify_read(token, lba, bytes);
        oracle.end_read(token);
        result
    }

    fn write(oracle: &mut Oracle, lba: u64) -> u32 {
        let (token, stamp) = oracle.begin_write(lba, 1);
        oracle.end_write(token, Outcome::Done);
        stamp.version
    }

    // A lost or undone write, or another block's data, must not pass as the block's content.
    #[test]
    fn a_block_holds_its_last_version() {
        let mut oracle = oracle();
        read(&mut oracle, 5, &bytes_of(5, 0)).unwrap();
        read(&mut oracle, 5, &bytes_of(6, 0)).unwrap_err();
        let version = write(&mut oracle, 5);
        read(&mut oracle, 5, &bytes_of(5, version)).unwrap();
        let mismatch = read(&mut oracle, 5, &bytes_of(5, 0)).unwrap_err();
        assert_eq!(mismatch.offset, 8, "the version is in the header's second word");
        assert_eq!(
            mismatch.to_string(),
            "logical block 5 holds version 0 of logical block 5 (tag 3) where version 1 of logical block 5 (tag 7) \
             was expected; the first difference is at byte 8"
        );
        let token = oracle.begin_zeroes(5, 1);
        oracle.end_write(token, Outcome::Done);
        read(&mut oracle, 5, &[0; 512]).unwrap();
        read(&mut oracle, 5, &bytes_of(5, version)).unwrap_err();
        assert_eq!(oracle.verified_blocks(), 3);
    }

    // A single wrong byte at the end of a block must be seen and named.
    #[test]
    fn every_byte_counts() {
        let mut oracle = oracle();
        let mut bytes = bytes_of(9, 0);
        bytes[511] ^= 1;
        let mismatch = read(&mut oracle, 9, &bytes).unwrap_err();
        assert_eq!(mismatch.offset, 511);
        assert!(matches!(mismatch.found, Found::Damaged(_)));
        let token = oracle.begin_zeroes(9, 1);
        oracle.end_write(token, Outcome::Done);
        let mut zeroes = [0; 512];
        zeroes[300] = 1;
        assert_eq!(read(&mut oracle, 9, &zeroes).unwrap_err().offset, 300);
    }

    // A read that overlaps a write may see either; a later one may not see the old any more.
    #[test]
    fn a_read_during_a_write_sees_old_or_new() {
        let mut oracle = oracle();
        let before = oracle.begin_read();
        let (token, stamp) = oracle.begin_write(4, 2);
        let during = oracle.begin_read();
        for read in [before, during] {
            oracle.verify_read(read, 4, &bytes_of(4, 0)).unwrap();
            oracle.verify_read(read, 5, &bytes_of(5, stamp.version)).unwrap();
        }
        oracle.end_write(token, Outcome::Done);
        let after = oracle.begin_read();
        oracle.verify_read(before, 4, &bytes_of(4, 0)).unwrap();
        oracle.verify_read(during, 4, &bytes_of(4, 0)).unwrap();
        oracle.verify_read(after, 4, &bytes_of(4, 0)).unwrap_err();
        oracle.verify_read(after, 4, &bytes_of(4, stamp.version)).unwrap();
        for read in [during, after, before] {
            oracle.end_read(read);
        }
        assert!(oracle.replaced.is_empty() && oracle.reads.is_empty());
    }

    // After two writes at the same time either may stand, until somebody has looked.
    #[test]
    fn a_read_decides_between_concurrent_writes() {
        let mut oracle = oracle();
        let (first, one) = oracle.begin_write(4, 1);
        let (second, two) = oracle.begin_write(4, 1);
        oracle.end_write(second, Outcome::Done);
        oracle.end_write(first, Outcome::Done);
        assert_eq!(oracle.contested_blocks(), 1);
        read(&mut oracle, 4, &bytes_of(4, 0)).unwrap_err();
        read(&mut oracle, 4, &bytes_of(4, one.version)).unwrap();
        assert_eq!(oracle.contested_blocks(), 0);
        read(&mut oracle, 4, &bytes_of(4, two.version)).unwrap_err();
    }

    // w1 ends before w3 begins, w2 overlaps both: w1 can't be the last, w2 and w3 can.
    #[test]
    fn a_write_replaces_what_had_ended_before_it_began() {
        let mut oracle = oracle();
        let (w1, one) = oracle.begin_write(4, 1);
        let (w2, two) = oracle.begin_write(4, 1);
        oracle.end_write(w1, Outcome::Done);
        let (w3, _) = oracle.begin_write(4, 1);
        oracle.end_write(w2, Outcome::Done);
        oracle.end_write(w3, Outcome::Done);
        read(&mut oracle, 4, &bytes_of(4, one.version)).unwrap_err();
        read(&mut oracle, 4, &bytes_of(4, two.version)).unwrap();
    }

    // A failed write may have landed or not; a later write decides.
    #[test]
    fn a_failed_write_leaves_old_or_new() {
        let mut oracle = oracle();
        for seen in [0u32, 1] {
            let lba = 10 + u64::from(seen);
            let (token, stamp) = oracle.begin_write(lba, 1);
            oracle.end_write(token, Outcome::Uncertain);
            let version = if seen == 0 { 0 } else { stamp.version };
            read(&mut oracle, lba, &bytes_of(lba, version)).unwrap();
            let other = if seen == 0 { stamp.version } else { 0 };
            read(&mut oracle, lba, &bytes_of(lba, other)).unwrap_err();
        }
        let (token, failed) = oracle.begin_write(20, 1);
        oracle.end_write(token, Outcome::Uncertain);
        assert_eq!(oracle.expected(20, &mut [0; 512]), Err(20));
        let version = write(&mut oracle, 20);
        read(&mut oracle, 20, &bytes_of(20, failed.version)).unwrap_err();
        read(&mut oracle, 20, &bytes_of(20, version)).unwrap();
        let mut bytes = vec![0; 512];
        oracle.expected(20, &mut bytes).unwrap();
        assert_eq!(bytes, bytes_of(20, version));
    }

    // After a power cut nothing may be left under way, or its blocks would be undecided for ever.
    #[test]
    fn abandoned_writes_are_uncertain() {
        let mut oracle = oracle();
        let (_, stamp) = oracle.begin_write(1, 3);
        let _ = oracle.begin_read();
        oracle.abandon();
        read(&mut oracle, 1, &bytes_of(1, 0)).unwrap();
        read(&mut oracle, 2, &bytes_of(2, stamp.version)).unwrap();
        read(&mut oracle, 1, &bytes_of(1, stamp.version)).unwrap_err();
        assert!(oracle.reads.is_empty() && oracle.writes.iter().all(Option::is_none));
    }

    // A drive of terabytes must not cost memory for blocks that nobody touches, nor one that is filled cost a map.
    #[test]
    fn cells_are_sparse_until_that_costs_more() {
        let mut cells = Cells::new(DENSE_BLOCKS_MAX + 1);
        assert!(matches!(cells, Cells::Sparse { .. }));
        cells.set(DENSE_BLOCKS_MAX, 9);
        cells.set(3, 4);
        cells.set(3, 0);
        assert_eq!((cells.get(DENSE_BLOCKS_MAX), cells.get(3)), (9, 0));
        let mut small = Cells::Sparse { cells: FxHashMap::default(), blocks: 60 };
        (0..11).for_each(|lba| small.set(lba, lba as u32 + 1));
        assert!(matches!(small, Cells::Dense(_)));
        assert_eq!((small.get(10), small.get(11)), (11, 0));
        assert!(matches!(Cells::new(u64::MAX), Cells::Sparse { .. }));
    }

    // Blocks beyond the namespace come from a hostile workload: they must not panic.
    #[test]
    fn blocks_beyond_the_end_are_nothing() {
        let mut oracle = oracle();
        let (token, _) = oracle.begin_write(99, 5);
        oracle.end_write(token, Outcome::Uncertain);
        let (token, _) = oracle.begin_write(u64::MAX, 5);
        oracle.end_write(token, Outcome::Done);
        read(&mut oracle, u64::MAX, &[bytes_of(1, 0), bytes_of(2, 0)].concat()).unwrap_err();
    }
}
