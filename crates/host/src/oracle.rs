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
//! An oracle that is made for it ([`Oracle::with_power_cuts`]) knows what a power cut may leave, too. A write is
//! *durable* when it has completed and the drive is protected from power loss, or it had Force Unit Access, or a Flush
//! that was submitted after its completion has completed (NVM Command Set 1.1, 3.3.3 and 7.1). After a cut each block
//! holds, whole, its last durable value or any value of a write that ended after that one began, or was under way: one
//! of them, and always the same once it was read, through every further cut. Trims and Write Zeroes are writes of
//! zeroes. Write Uncorrectable is a write of something that can't be read.
//!
//! What it verifies: every byte of every block read, and that no write is lost, undone or misplaced by more than this
//! allows. What it does not: the order among different blocks, metadata, whether a block that was not read between two
//! cuts is the same after both.
//!
//! A client need not look at every byte: where memory keeps only the name of a page's pattern, that is compared
//! ([`Oracle::verify_patterns`]). Whatever isn't exactly what is at rest is then read, and [`Oracle::verify_read`] decides.
//! So that reading the bytes stays tested, it is done for one read in [`SAMPLED_ONE_IN`] anyway, and for all if the client
//! is told so.
//!
//! A block at rest is one 32-bit cell. Only blocks with several writes under way, or a failed one, have more; and those
//! of which a cut may leave one of several things, if cuts are followed.

mod cells;
mod found;
mod survivors;
#[cfg(test)]
mod tests;

pub use found::{Found, Mismatch};

use byteway_wire::content::{BlockSize, Pattern, Stamp};
use cells::Cells;
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, VecDeque};
use survivors::{Certainty, Survivors};

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

/// What a block holds, in 31 bits: 0 is the base state, then versions, then what can't be read, and zeroes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Value(u32);

impl Value {
    const BASE: Value = Value(0);
    const VERSION_MAX: u32 = 0x7fff_fffc;
    const MARRED: Value = Value(0x7fff_fffd);
    const ZEROES: Value = Value(0x7fff_fffe);
}

/// A cell: a value, and in the top bit whether a write is under way. [`CONTESTED`]: see the side table.
const WRITING: u32 = 1 << 31;
const CONTESTED: u32 = 0x7fff_ffff;

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

/// One read in so many is compared in bytes, whatever else could be compared; one write in so many is filled in bytes.
pub const SAMPLED_ONE_IN: u64 = 64;

/// A read under way; ends by [`Oracle::end_read`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadToken {
    index: u64,
    begin: u64,
}

impl ReadToken {
    /// Whether it is one of those whose bytes are to be compared: every [`SAMPLED_ONE_IN`]th.
    pub fn is_sampled(self) -> bool {
        (self.index + 1).is_multiple_of(SAMPLED_ONE_IN)
    }
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
    /// It succeeded, and is on the medium: with Force Unit Access.
    Durable,
    /// It failed, was aborted or lost: it may have taken effect or not.
    Uncertain,
    /// It failed, and has had no effect: the Write of a Compare and Write whose Compare failed.
    Undone,
}

/// A flush under way; ends by [`Oracle::end_flush`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlushToken(u64);

/// What a Copy has written: what its sources held, under the copy's own version.
struct Copied {
    lba: u64,
    found: Vec<Found>,
}

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
    /// What copies wrote, by version.
    copies: BTreeMap<u32, Copied>,
    /// If power cuts are followed.
    survivors: Option<Survivors>,
    /// Every read may fail.
    reads_fail: bool,
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
            copies: BTreeMap::new(),
            survivors: None,
            reads_fail: false,
            version: 0,
            moment: 0,
            verified: 0,
        }
    }

    /// Follows from now on what a power cut may leave. `protected`: whatever the drive has acknowledged is durable.
    /// To be called before the first I/O.
    pub fn with_power_cuts(self, protected: bool) -> Self {
        Oracle { survivors: Some(Survivors::new(protected)), ..self }
    }

    /// From now on every read may fail, as on a medium that is worn or told to fail. What is read all the same must be
    /// right.
    pub fn let_reads_fail(&mut self) {
        self.reads_fail = true;
    }

    /// Logical blocks.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Their size.
    pub fn block(&self) -> BlockSize {
        self.block
    }

    /// Blocks that were read and found right.
    pub fn verified_blocks(&self) -> u64 {
        self.verified
    }

    /// Blocks that may hold one of several things at this moment.
    pub fn contested_blocks(&self) -> usize {
        self.contested.len()
    }

    /// Blocks of which a power cut may leave one of several things.
    pub fn volatile_blocks(&self) -> usize {
        self.survivors.as_ref().map_or(0, Survivors::len)
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
    /// After 2^31 - 4 writes.
    pub fn begin_write(&mut self, lba: u64, blocks: u64) -> (WriteToken, Stamp) {
        let version = self.next_version();
        let stamp = Stamp { lba, version, tag: self.tag, block: self.block };
        (self.begin(lba, blocks, Value(version)), stamp)
    }

    fn next_version(&mut self) -> u32 {
        assert!(self.version < Value::VERSION_MAX, "a run has fewer than 2^31 - 4 writes");
        self.version += 1;
        self.version
    }

    /// A trim or Write Zeroes of `blocks` blocks from `lba` on is about to be submitted.
    pub fn begin_zeroes(&mut self, lba: u64, blocks: u64) -> WriteToken {
        let value = if self.base == BaseState::Zeroes { Value::BASE } else { Value::ZEROES };
        self.begin(lba, blocks, value)
    }

    /// A Write Uncorrectable of `blocks` blocks from `lba` on is about to be submitted.
    pub fn begin_marred(&mut self, lba: u64, blocks: u64) -> WriteToken {
        self.begin(lba, blocks, Value::MARRED)
    }

    /// A Copy of `sources` (first blocks and counts) to the blocks from `lba` on is about to be submitted. Nothing may
    /// be written to its sources until it has ended.
    ///
    /// # Errors
    /// The first block of the sources of which it isn't certain at this moment what it holds.
    ///
    /// # Panics
    /// After 2^31 - 4 writes.
    pub fn begin_copy(&mut self, lba: u64, sources: &[(u64, u64)]) -> Result<WriteToken, u64> {
        let mut found = Vec::new();
        for source in sources.iter().flat_map(|(first, blocks)| *first..first.saturating_add(*blocks)) {
            match self.certain(source) {
                Some(held) if held != Found::Unreadable => found.push(held),
                _ => return Err(source),
            }
        }
        let version = self.next_version();
        let blocks = found.len() as u64;
        self.copies.insert(version, Copied { lba, found });
        Ok(self.begin(lba, blocks, Value(version)))
    }

    /// What a block holds, if that is certain at this moment.
    fn certain(&self, lba: u64) -> Option<Found> {
        let cell = self.cells.get(lba);
        (lba < self.blocks && cell != CONTESTED && cell & WRITING == 0).then(|| self.look(lba, Value(cell)))
    }

    fn begin(&mut self, lba: u64, blocks: u64, value: Value) -> WriteToken {
        // What lies beyond the namespace the drive must refuse; here it is nothing.
        let blocks = blocks.min(self.blocks.saturating_sub(lba));
        let begin = self.next_moment();
        for lba in lba..lba + blocks {
            let cell = self.cells.get(lba);
            if let Some(survivors) = &mut self.survivors {
                survivors.begin(lba, Value(cell & !WRITING), value, begin);
            }
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
        let certainty = match outcome {
            Outcome::Durable => Certainty::Durable,
            Outcome::Done => Certainty::Acknowledged,
            Outcome::Uncertain => Certainty::None,
            Outcome::Undone => return self.undo_write(ended),
        };
        for lba in ended.lba..ended.lba + ended.blocks {
            let cell = self.cells.get(lba);
            if let Some(survivors) = &mut self.survivors {
                survivors.end(lba, ended.value, ended.begin, at, certainty);
            }
            if cell == CONTESTED {
                self.end_contested(lba, ended, outcome, at);
                continue;
            }
            let old = Value(cell & !WRITING);
            if outcome != Outcome::Uncertain || old == ended.value {
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

    /// A write has had no effect: its blocks are as if it had never begun.
    fn undo_write(&mut self, undone: Write) {
        for lba in undone.lba..undone.lba + undone.blocks {
            if let Some(survivors) = &mut self.survivors {
                survivors.undo(lba, undone.value, undone.begin);
            }
            let cell = self.cells.get(lba);
            if cell != CONTESTED {
                self.cells.set(lba, cell & !WRITING);
            } else if let Some(mut contested) = self.contested.remove(&lba) {
                contested.writing.retain(|writing| *writing != (undone.value, undone.begin));
                self.settle(lba, contested);
            }
        }
    }

    fn end_contested(&mut self, lba: u64, ended: Write, outcome: Outcome, at: u64) {
        let Some(mut contested) = self.contested.remove(&lba) else { return };
        let own = contested.writing.iter().position(|writing| *writing == (ended.value, ended.begin));
        if let Some(own) = own {
            contested.writing.swap_remove(own);
        }
        if outcome != Outcome::Uncertain {
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

    /// A Flush is about to be submitted, or an orderly shutdown.
    pub fn begin_flush(&mut self) -> FlushToken {
        FlushToken(self.next_moment())
    }

    /// A Flush has ended. If it succeeded, everything is durable that had completed before it was submitted.
    pub fn end_flush(&mut self, flush: FlushToken, outcome: Outcome) {
        if let Some(survivors) = &mut self.survivors
            && outcome != Outcome::Uncertain
        {
            survivors.flushed(flush.0);
        }
    }

    /// The power is cut: every command under way is lost, and each block holds one of the things that may survive.
    ///
    /// # Panics
    /// If cuts are not followed ([`Oracle::with_power_cuts`]).
    pub fn cut_power(&mut self) {
        self.abandon();
        let now = self.next_moment();
        let survivors = self.survivors.as_mut().expect("an oracle that follows power cuts");
        let (cells, contested, spare) = (&mut self.cells, &mut self.contested, &mut self.spare);
        survivors.cut(now, |lba, values| {
            if let Some(mut old) = contested.remove(&lba) {
                old.possible.clear();
                spare.push(old);
            }
            match values {
                [only] => cells.set(lba, only.0),
                _ => {
                    let mut several = spare.pop().unwrap_or_default();
                    several.possible.extend(values.iter().map(|value| (*value, 0)));
                    contested.insert(lba, several);
                    cells.set(lba, CONTESTED);
                }
            }
        });
    }

    /// What a value looks like.
    fn look(&self, lba: u64, value: Value) -> Found {
        let stamp = |version, tag| Found::Stamp(Stamp { lba, version, tag, block: self.block });
        match (value, self.base) {
            (Value::MARRED, _) => Found::Unreadable,
            (Value::ZEROES, _) | (Value::BASE, BaseState::Zeroes) => Found::Zeroes,
            (Value::BASE, BaseState::Stamped { tag }) => stamp(0, tag),
            (Value(version), _) => match self.copies.get(&version) {
                Some(copied) => copied.found[(lba - copied.lba) as usize],
                None => stamp(version, self.tag),
            },
        }
    }

    /// Whether a read has returned exactly what is at rest now, which is right whatever happened since it began. `units`
    /// are the patterns of the units that it returned, from `lba` on, as memory names them; with one that it doesn't name
    /// nothing can be said. If this is false nothing was verified, and [`Oracle::verify_read`] tells.
    pub fn verify_patterns(&mut self, lba: u64, units: impl Iterator<Item = Option<Pattern>>) -> bool {
        let mut next = lba;
        for unit in units {
            let Some(pattern) = unit else { return false };
            for index in 0..self.block.per_unit() as u64 {
                let found = match pattern {
                    Pattern::Zero => Found::Zeroes,
                    Pattern::Stamp(stamp) => {
                        Found::Stamp(Stamp { lba: stamp.lba.wrapping_add(index), ..stamp })
                    }
                };
                let cell = self.cells.get(next);
                if cell == CONTESTED || self.look(next, Value(cell & !WRITING)) != found {
                    return false;
                }
                next = next.wrapping_add(1);
            }
        }
        self.verified += next.wrapping_sub(lba);
        true
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
            if cell != CONTESTED && self.look(lba, Value(cell & !WRITING)).holds(block) {
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
        let found = Found::of(block);
        if !self.may_be(read, lba, cell, found) {
            return Err(self.mismatch(lba, cell, found, block));
        }
        self.pin(read, lba, found);
        Ok(())
    }

    /// Verifies that a read of `blocks` blocks from `lba` on could fail because one of them can't be read. To be called
    /// before the read ends. Without power cuts to follow, every read may fail.
    ///
    /// # Errors
    /// The first block, if all of them can be read.
    pub fn verify_unreadable(&mut self, read: ReadToken, lba: u64, blocks: u64) -> Result<(), Box<Mismatch>> {
        if self.survivors.is_none() || self.reads_fail {
            return Ok(());
        }
        let may_be = |lba: &u64| self.may_be(read, *lba, self.cells.get(*lba), Found::Unreadable);
        let mut marred = (lba..lba.saturating_add(blocks)).filter(may_be);
        match (marred.next(), marred.next()) {
            (None, _) => Err(self.mismatch(lba, self.cells.get(lba), Found::Unreadable, &[])),
            (Some(only), None) => {
                self.pin(read, only, Found::Unreadable);
                Ok(())
            }
            (Some(_), Some(_)) => Ok(()),
        }
    }

    /// Whether a read may have found this in a block.
    fn may_be(&self, read: ReadToken, lba: u64, cell: u32, found: Found) -> bool {
        let is_found = |value: &Value| self.look(lba, *value) == found;
        let now = match self.contested.get(&lba) {
            Some(contested) if cell == CONTESTED => {
                contested.possible.iter().chain(&contested.writing).any(|(value, _)| is_found(value))
            }
            _ => {
                let mut writes = self.writes.iter().flatten();
                is_found(&Value(cell & !WRITING))
                    || cell & WRITING != 0 && writes.any(|write| write.covers(lba) && is_found(&write.value))
            }
        };
        let mut replaced = self.replaced.iter().rev().take_while(|replaced| replaced.at > read.begin);
        now || replaced.any(|replaced| replaced.lba == lba && is_found(&replaced.value))
    }

    /// A read has found this. If nothing was under way while it did, the block holds that and nothing else.
    fn pin(&mut self, read: ReadToken, lba: u64, found: Found) {
        let Some(contested) = self.contested.get(&lba) else { return };
        let is_found = |value: &Value| self.look(lba, *value) == found;
        let held = contested.possible.iter().find(|(value, _)| is_found(value)).map(|(value, _)| *value);
        let Some(held) = held else { return };
        if !contested.writing.is_empty() || contested.possible.iter().any(|(_, end)| *end > read.begin) {
            return;
        }
        let Some(mut contested) = self.contested.remove(&lba) else { return };
        let at = self.next_moment();
        for (other, _) in contested.possible.drain(..).filter(|(other, _)| *other != held) {
            // A read that began earlier may have seen it.
            self.replaced.push_back(Replaced { lba, value: other, at });
        }
        contested.possible.push((held, 0));
        self.settle(lba, contested);
        if let Some(mut survivors) = self.survivors.take() {
            survivors.seen(lba, at, |value| self.look(lba, value) == found);
            self.survivors = Some(survivors);
        }
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

    /// The first of `blocks` blocks from `lba` on that something was written to since the read was submitted, or is
    /// being written to: what a Compare finds there may be neither what the block held before nor what it holds now. To
    /// be called before the read ends.
    pub fn first_touched(&self, read: ReadToken, lba: u64, blocks: u64) -> Option<u64> {
        let replaced = || self.replaced.iter().rev().take_while(|replaced| replaced.at > read.begin);
        let is_touched = |lba: &u64| {
            let cell = self.cells.get(*lba);
            cell == CONTESTED || cell & WRITING != 0 || replaced().any(|replaced| replaced.lba == *lba)
        };
        (lba..lba.saturating_add(blocks)).find(is_touched)
    }

    /// Fills `bytes` (whole blocks from `lba` on) with what they must hold: for Compare.
    ///
    /// # Errors
    /// The first block of which that isn't certain at this moment.
    pub fn expected(&self, lba: u64, bytes: &mut [u8]) -> Result<(), u64> {
        for (index, block) in bytes.chunks_exact_mut(self.block.bytes()).enumerate() {
            let lba = lba.wrapping_add(index as u64);
            match self.certain(lba) {
                Some(Found::Stamp(stamp)) => stamp.fill(block),
                Some(Found::Zeroes) => block.fill(0),
                _ => return Err(lba),
            }
        }
        Ok(())
    }
}
