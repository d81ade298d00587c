//! The block oracle: the host's own record of the expected contents of each logical block.
//!
//! Every write gives its blocks a new version, so the bytes of a block identify their write ([`Stamp`]). The oracle
//! keeps the version of each block, and shares nothing with the drive's translation layer.
//!
//! A read may return what a register with concurrent operations may return, for each block separately:
//! - the contents at its submission, or any version whose write was in flight at some time between its submission and
//!   its completion;
//! - after concurrent writes, the version of any of them; after a failed write, the old or the new version;
//! - but once a read that began after all of them had ended has returned one of these, only that one.
//!
//! An oracle created for it ([`Oracle::with_power_cuts`]) also knows what a power cut may leave. A write is *durable*
//! when it has completed and either the drive has power-loss protection, or the write had Force Unit Access, or a Flush
//! submitted after its completion has completed (NVM Command Set 1.1, 3.3.3 and 7.1). After a cut each block holds,
//! whole, its last durable value, or any value of a write that ended after that one began or was in flight: one of
//! them, and always the same one after it was read, through every further cut. Deallocations and Write Zeroes are
//! writes of zeroes. Write Uncorrectable is a write of unreadable contents.
//!
//! It verifies every byte of every block read, and that no write is lost, undone or misplaced beyond what this allows.
//! It does not verify the order among different blocks, metadata, or whether a block that was not read between two cuts
//! is the same after both.
//!
//! A client need not read every byte: where memory stores only the name of a page's pattern, the name is compared
//! ([`Oracle::verify_patterns`]). Whatever is not exactly the settled contents is then read, and
//! [`Oracle::verify_read`] decides. One read in [`SAMPLED_ONE_IN`] is compared in bytes anyway, so that this path stays
//! tested; optionally all reads are.
//!
//! A settled block is one 32-bit cell. Only blocks with several writes in flight, or a failed one, take more; and, if
//! cuts are followed, blocks of which a cut may leave one of several things.

mod cells;
mod found;
mod survivors;
#[cfg(test)]
mod tests;
mod value;

pub use found::{BlockContents, Mismatch};

use byteway_content::{BlockSize, Pattern, Stamp};
use cells::Cells;
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, VecDeque};
use survivors::{Certainty, Survivors};
use value::Value;

/// Contents of the namespace before the first I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BaseState {
    /// Zeroes: an empty drive.
    Zeroes,
    /// Version 0 of each block, with this tag: a preconditioned drive.
    Stamped {
        /// The stamps' tag.
        tag: u16,
    },
}

/// A cell: a value, with a flag in the top bit for a write in flight. [`CONTESTED`]: see the side table.
const WRITING: u32 = 1 << 31;
const CONTESTED: u32 = 0x7fff_ffff;

/// A write, deallocation or Write Zeroes in flight.
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

/// A block that may hold one of several values.
#[derive(Default)]
struct Contested {
    /// Possible values without writes in flight, each with the moment at which its write ended.
    possible: Vec<(Value, u64)>,
    /// Values of writes in flight, each with the moment at which the write began.
    writing: Vec<(Value, u64)>,
}

/// A value that a block could hold until `at`.
struct Replaced {
    lba: u64,
    value: Value,
    at: u64,
}

/// One read in this many is compared in bytes, even if block names would suffice; one write in this many is
/// generated in bytes.
pub const SAMPLED_ONE_IN: u64 = 64;

/// A read in flight; ends by [`Oracle::end_read`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadToken {
    index: u64,
    begin: u64,
}

impl ReadToken {
    /// Whether its bytes must be compared: true for one read in [`SAMPLED_ONE_IN`].
    pub fn is_sampled(self) -> bool {
        (self.index + 1).is_multiple_of(SAMPLED_ONE_IN)
    }
}

/// A write in flight; ends by [`Oracle::end_write`].
#[must_use = "a write that doesn't end leaves its blocks undecided"]
#[derive(Debug, PartialEq, Eq)]
pub struct WriteToken(u32);

/// Outcome of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Success.
    Done,
    /// Success, and durable: with Force Unit Access.
    Durable,
    /// Failed, aborted or lost; may have taken effect.
    Uncertain,
    /// Failed without any effect: the Write of a Compare and Write whose Compare failed.
    Undone,
}

/// A flush in flight; ends by [`Oracle::end_flush`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlushToken(u64);

/// The contents written by a Copy: those of its sources, under the copy's own version.
struct Copied {
    lba: u64,
    found: Vec<BlockContents>,
}

/// The expected contents of each logical block of a namespace.
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
    /// Reads that may be in flight, by age: when each began, and whether it is in flight.
    reads: VecDeque<(u64, bool)>,
    /// Index of the first of them, counted from the start of the run.
    reads_first: u64,
    /// Values replaced during a read in flight that may still return them, by time.
    replaced: VecDeque<Replaced>,
    /// Contents written by copies, by version.
    copies: BTreeMap<u32, Copied>,
    /// Set if power cuts are followed.
    survivors: Option<Survivors>,
    /// Every read may fail.
    reads_fail: bool,
    version: u32,
    moment: u64,
    verified: u64,
}

impl Oracle {
    /// An oracle for a namespace of `blocks` blocks that holds `base`. Writes are stamped with `tag`.
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

    /// Follows what power cuts may leave, from now on. `protected`: acknowledged writes are durable. Call it before the
    /// first I/O.
    pub fn with_power_cuts(self, protected: bool) -> Self {
        Oracle { survivors: Some(Survivors::new(protected)), ..self }
    }

    /// Lets every read fail from now on, as on worn media or with injected faults. Successful reads are still verified.
    pub fn let_reads_fail(&mut self) {
        self.reads_fail = true;
    }

    /// Number of logical blocks.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Size of a logical block.
    pub fn block(&self) -> BlockSize {
        self.block
    }

    /// Number of blocks verified by reads.
    pub fn verified_blocks(&self) -> u64 {
        self.verified
    }

    /// Number of blocks that may hold one of several values now.
    pub fn contested_blocks(&self) -> usize {
        self.contested.len()
    }

    /// Number of blocks of which a power cut may leave one of several values.
    pub fn volatile_blocks(&self) -> usize {
        self.survivors.as_ref().map_or(0, Survivors::len)
    }

    fn next_moment(&mut self) -> u64 {
        self.moment += 1;
        self.moment
    }

    /// Notes that a read is about to be submitted.
    pub fn begin_read(&mut self) -> ReadToken {
        let begin = self.next_moment();
        self.reads.push_back((begin, true));
        ReadToken { index: self.reads_first + self.reads.len() as u64 - 1, begin }
    }

    /// Ends a read, verified or not.
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

    /// Notes that a write of `blocks` blocks from `lba` on is about to be submitted; returns the stamp to write.
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

    /// Notes that a deallocation or Write Zeroes of `blocks` blocks from `lba` on is about to be submitted.
    pub fn begin_zeroes(&mut self, lba: u64, blocks: u64) -> WriteToken {
        let value = if self.base == BaseState::Zeroes { Value::BASE } else { Value::ZEROES };
        self.begin(lba, blocks, value)
    }

    /// Notes that a Write Uncorrectable of `blocks` blocks from `lba` on is about to be submitted.
    pub fn begin_marred(&mut self, lba: u64, blocks: u64) -> WriteToken {
        self.begin(lba, blocks, Value::MARRED)
    }

    /// Notes that a Copy of `sources` (first blocks and counts) to the blocks from `lba` on is about to be submitted.
    /// The sources must not be written until it has ended.
    ///
    /// # Errors
    /// The first source block whose contents are uncertain now.
    ///
    /// # Panics
    /// After 2^31 - 4 writes.
    pub fn begin_copy(&mut self, lba: u64, sources: &[(u64, u64)]) -> Result<WriteToken, u64> {
        let mut found = Vec::new();
        for source in sources.iter().flat_map(|(first, blocks)| *first..first.saturating_add(*blocks)) {
            match self.certain(source) {
                Some(held) if held != BlockContents::Unreadable => found.push(held),
                _ => return Err(source),
            }
        }
        let version = self.next_version();
        let blocks = found.len() as u64;
        self.copies.insert(version, Copied { lba, found });
        Ok(self.begin(lba, blocks, Value(version)))
    }

    /// The contents of a block, if they are certain now.
    fn certain(&self, lba: u64) -> Option<BlockContents> {
        let cell = self.cells.get(lba);
        (lba < self.blocks && cell != CONTESTED && cell & WRITING == 0).then(|| self.look(lba, Value(cell)))
    }

    fn begin(&mut self, lba: u64, blocks: u64, value: Value) -> WriteToken {
        // The drive must refuse blocks past the namespace; ignore them here.
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
                let other = other.expect("a block marked as being written has a write in flight");
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

    /// Ends a write, deallocation or Write Zeroes.
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

    /// Ends a write without effect: its blocks are as if it had never begun.
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
            // It has replaced writes that had ended before it began; concurrent ones may have come after it.
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

    /// Keeps a block in the side table only while it may hold several values.
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

    /// Notes that every command in flight is lost (a power cut): writes may have taken effect.
    pub fn abandon(&mut self) {
        for index in 0..self.writes.len() as u32 {
            self.end_write(WriteToken(index), Outcome::Uncertain);
        }
        self.reads_first += self.reads.len() as u64;
        self.reads.clear();
        self.replaced.clear();
    }

    /// Notes that a Flush is about to be submitted, or an orderly shutdown.
    pub fn begin_flush(&mut self) -> FlushToken {
        FlushToken(self.next_moment())
    }

    /// Ends a Flush. If it succeeded, everything that had completed before its submission is durable.
    pub fn end_flush(&mut self, flush: FlushToken, outcome: Outcome) {
        if let Some(survivors) = &mut self.survivors
            && outcome != Outcome::Uncertain
        {
            survivors.flushed(flush.0);
        }
    }

    /// Notes a power cut: every command in flight is lost, and each block holds one of the values that may survive.
    ///
    /// # Panics
    /// If power cuts are not followed ([`Oracle::with_power_cuts`]).
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

    /// Contents that a value denotes.
    fn look(&self, lba: u64, value: Value) -> BlockContents {
        let stamp = |version, tag| BlockContents::Stamp(Stamp { lba, version, tag, block: self.block });
        match (value, self.base) {
            (Value::MARRED, _) => BlockContents::Unreadable,
            (Value::ZEROES, _) | (Value::BASE, BaseState::Zeroes) => BlockContents::Zeroes,
            (Value::BASE, BaseState::Stamped { tag }) => stamp(0, tag),
            (Value(version), _) => match self.copies.get(&version) {
                Some(copied) => copied.found[(lba - copied.lba) as usize],
                None => stamp(version, self.tag),
            },
        }
    }

    /// Whether a read has returned exactly the settled contents, which are correct whatever happened since it began.
    /// `units` are the pattern names of the units that it returned, from `lba` on; a unit without a name is undecided.
    /// On `false` nothing was verified, and [`Oracle::verify_read`] decides.
    pub fn verify_patterns(&mut self, lba: u64, units: impl Iterator<Item = Option<Pattern>>) -> bool {
        let mut next = lba;
        for unit in units {
            let Some(pattern) = unit else { return false };
            for index in 0..self.block.per_unit() as u64 {
                let found = match pattern {
                    Pattern::Zero => BlockContents::Zeroes,
                    Pattern::Stamp(stamp) => {
                        BlockContents::Stamp(Stamp { lba: stamp.lba.wrapping_add(index), ..stamp })
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

    /// Verifies the data of a read: `bytes` are whole blocks from `lba` on. Call it before the read ends.
    ///
    /// # Errors
    /// [`Mismatch`] of the first wrong block.
    pub fn verify_read(&mut self, read: ReadToken, lba: u64, bytes: &[u8]) -> Result<(), Box<Mismatch>> {
        for (index, block) in bytes.chunks_exact(self.block.bytes()).enumerate() {
            let lba = lba.wrapping_add(index as u64); // a drive may claim to have read past 2^64
            let cell = self.cells.get(lba);
            // The settled value is correct whatever happened since the read began, as is a value that a write in flight
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
        let found = BlockContents::of(block);
        if !self.may_be(read, lba, cell, found) {
            return Err(self.mismatch(lba, cell, found, block));
        }
        self.pin(read, lba, found);
        Ok(())
    }

    /// Verifies that a read of `blocks` blocks from `lba` on was allowed to fail because one of them may be unreadable.
    /// Call it before the read ends. If power cuts are not followed, every read may fail.
    ///
    /// # Errors
    /// [`Mismatch`] of the first block, if all of them are readable.
    pub fn verify_unreadable(&mut self, read: ReadToken, lba: u64, blocks: u64) -> Result<(), Box<Mismatch>> {
        if self.survivors.is_none() || self.reads_fail {
            return Ok(());
        }
        let may_be = |lba: &u64| self.may_be(read, *lba, self.cells.get(*lba), BlockContents::Unreadable);
        let mut marred = (lba..lba.saturating_add(blocks)).filter(may_be);
        match (marred.next(), marred.next()) {
            (None, _) => Err(self.mismatch(lba, self.cells.get(lba), BlockContents::Unreadable, &[])),
            (Some(only), None) => {
                self.pin(read, only, BlockContents::Unreadable);
                Ok(())
            }
            (Some(_), Some(_)) => Ok(()),
        }
    }

    /// Whether a read may have found this in a block.
    fn may_be(&self, read: ReadToken, lba: u64, cell: u32, found: BlockContents) -> bool {
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

    /// Notes that a read has found this. If no write was in flight meanwhile, it is the block's contents.
    fn pin(&mut self, read: ReadToken, lba: u64, found: BlockContents) {
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
            // An earlier read may have seen it.
            self.replaced.push_back(Replaced { lba, value: other, at });
        }
        contested.possible.push((held, 0));
        self.settle(lba, contested);
        if let Some(mut survivors) = self.survivors.take() {
            survivors.seen(lba, at, |value| self.look(lba, value) == found);
            self.survivors = Some(survivors);
        }
    }

    fn mismatch(&self, lba: u64, cell: u32, found: BlockContents, block: &[u8]) -> Box<Mismatch> {
        let expected: Vec<BlockContents> = match self.contested.get(&lba) {
            Some(contested) if cell == CONTESTED => contested
                .possible
                .iter()
                .chain(&contested.writing)
                .map(|(value, _)| self.look(lba, *value))
                .collect(),
            _ => vec![self.look(lba, Value(cell & !WRITING))],
        };
        let mut wanted = vec![0; block.len()];
        if let Some(BlockContents::Stamp(stamp)) = expected.last() {
            stamp.fill(&mut wanted);
        }
        let offset = wanted.iter().zip(block).position(|(wanted, byte)| wanted != byte).unwrap_or(0);
        Box::new(Mismatch { lba, expected, found, offset })
    }

    /// The first of `blocks` blocks from `lba` on that was written since the read was submitted, or is being written: a
    /// Compare may have found other contents there than those before and after. Call it before the read ends.
    pub fn first_touched(&self, read: ReadToken, lba: u64, blocks: u64) -> Option<u64> {
        let replaced = || self.replaced.iter().rev().take_while(|replaced| replaced.at > read.begin);
        let is_touched = |lba: &u64| {
            let cell = self.cells.get(*lba);
            cell == CONTESTED || cell & WRITING != 0 || replaced().any(|replaced| replaced.lba == *lba)
        };
        (lba..lba.saturating_add(blocks)).find(is_touched)
    }

    /// Fills `bytes` (whole blocks from `lba` on) with the expected contents, for a Compare.
    ///
    /// # Errors
    /// The first block whose contents are uncertain now.
    pub fn expected(&self, lba: u64, bytes: &mut [u8]) -> Result<(), u64> {
        for (index, block) in bytes.chunks_exact_mut(self.block.bytes()).enumerate() {
            let lba = lba.wrapping_add(index as u64);
            match self.certain(lba) {
                Some(BlockContents::Stamp(stamp)) => stamp.fill(block),
                Some(BlockContents::Zeroes) => block.fill(0),
                _ => return Err(lba),
            }
        }
        Ok(())
    }
}
