//! What the array holds: a base state in closed form, and what was programmed over it, in memory (`ram`) or in files
//! ([`mod@file`]).
//!
//! A superblock costs 32 bytes, wherever its contents are. Whether a test pattern is kept as a stamp or as its 4096 bytes
//! is decided where contents come in (`Content::of`, by its `Keep`).
//!
//! What a power cut does to it: the stripe that is being programmed and the earlier ones of its wordline are torn, that
//! is unreadable until the superblock is erased, and the rest of the wordline is lost to programs; a superblock that is
//! being erased holds nothing, and takes no program before another erase.

mod block;
mod content;
pub mod file;
mod ram;

pub use content::{BaseContent, Batch, Blank, Dump, NO_LPA, Outdated, Spare};

use crate::geometry::{BlockId, Geometry, Ppa};
use crate::timing::Mode;
use crate::trouble::Cells;
use block::{BASE, Block, Work};
use byteway_clock::Inbox;
use byteway_wire::content::Content;
use file::{FileContents, Files, Format, OpenError, Opened, Tuning};
use ram::Ram;
use std::collections::BTreeSet;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

/// Where contents are.
enum Contents {
    Ram(Ram),
    Files(Box<FileContents>),
}

pub(crate) struct Store {
    geometry: Geometry,
    base: Rc<dyn BaseContent>,
    blocks: Vec<Block>,
    contents: Contents,
    /// Stripes that a power cut or a failed program has torn, by superblock.
    torn: BTreeSet<(u32, u32)>,
    /// How many stripes a wordline has, where cells hold more than one bit.
    wordline: u32,
    /// Erases of each superblock before the medium was made; empty if there were none.
    worn: Box<[u32]>,
}

/// A program that is out of order, or of a block that isn't erased.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refused;

impl Store {
    pub(crate) fn new(geometry: Geometry, base: Rc<dyn BaseContent>) -> Self {
        let stripes = |id| base.stripes(BlockId(id)).min(geometry.pages);
        let blocks = (0..geometry.total_blocks())
            .map(|id| Block {
                live: BASE,
                programmed: stripes(id),
                erases: 0,
                reads: 0,
                programmed_at_ns: 0,
                work: Work::None,
                mode: base.mode(BlockId(id)),
                is_bad: false,
            })
            .collect();
        let contents = Contents::Ram(Ram::default());
        Store { geometry, base, blocks, contents, torn: BTreeSet::new(), wordline: 1, worn: Box::default() }
    }

    /// One whose contents are in files; with what was saved when the power went.
    pub(crate) fn open(
        files: Arc<dyn Files>,
        format: &Format,
        base: Rc<dyn BaseContent>,
        tuning: Tuning,
    ) -> Result<(Self, Option<Dump>, Opened), OpenError> {
        let geometry = format.geometry;
        let stripes = |block| base.stripes(block).min(geometry.pages);
        let found = file::open(files, format, tuning, stripes)?;
        let is_one_bit = |id, found: &file::FoundBlock| {
            let is_base = found.generation == 0 && found.programmed > 0;
            found.is_one_bit || is_base && base.mode(BlockId(id)) == Mode::OneBit
        };
        let block = |(id, found): (u32, &file::FoundBlock)| Block {
            live: if found.generation == 0 { BASE } else { found.generation },
            programmed: found.programmed,
            erases: found.erases,
            reads: found.reads,
            programmed_at_ns: found.programmed_at_ns,
            mode: if is_one_bit(id, found) { Mode::OneBit } else { Mode::Full },
            is_bad: found.is_bad,
            work: if found.is_erasing { Work::Erase } else { Work::None },
        };
        let blocks = (0..).zip(&found.blocks).map(block).collect();
        let contents = Contents::Files(Box::new(found.contents));
        let store =
            Store { geometry, base, blocks, contents, torn: found.torn, wordline: 1, worn: Box::default() };
        Ok((store, found.dump, found.opened))
    }

    /// Stripes of a block that can be read.
    pub(crate) fn programmed(&self, block: BlockId) -> u32 {
        self.blocks[block.0 as usize].programmed
    }

    /// Brings a block's state into the cache for an operation that will end later: the table is larger than the cache,
    /// and nothing waits for this load.
    pub(crate) fn warm(&self, block: BlockId) {
        std::hint::black_box(self.blocks[block.0 as usize].programmed);
    }

    pub(crate) fn erases(&self, block: BlockId) -> u32 {
        let before = self.worn.get(block.0 as usize).copied().unwrap_or(0);
        self.blocks[block.0 as usize].erases.saturating_add(before)
    }

    /// Those since the medium was made.
    pub(crate) fn erases_since_made(&self, block: BlockId) -> u32 {
        self.blocks[block.0 as usize].erases
    }

    pub(crate) fn each_erases(&self) -> impl Iterator<Item = u32> {
        (0..self.geometry.total_blocks()).map(|id| self.erases(BlockId(id)))
    }

    /// Sensings of a superblock since its erase.
    pub(crate) fn reads(&self, block: BlockId) -> u32 {
        self.blocks[block.0 as usize].reads
    }

    /// It was sensed so often.
    pub(crate) fn sensed(&mut self, block: BlockId, times: u32) {
        let reads = &mut self.blocks[block.0 as usize].reads;
        *reads = reads.saturating_add(times);
    }

    /// When its first stripe was programmed; none if there is none.
    pub(crate) fn programmed_at_ns(&self, block: BlockId) -> Option<u64> {
        let state = &self.blocks[block.0 as usize];
        (state.programmed > 0).then_some(state.programmed_at_ns)
    }

    /// What its cells have been through.
    pub(crate) fn cells(&self, block: BlockId, now_ns: u64) -> Cells {
        let state = &self.blocks[block.0 as usize];
        let age_ns = now_ns.saturating_sub(state.programmed_at_ns);
        Cells {
            mode: state.mode,
            erases: self.erases(block),
            reads: state.reads,
            age_s: age_ns as f64 * 1e-9,
        }
    }

    /// How many stripes a wordline has, where cells hold more than one bit.
    pub(crate) fn set_wordline(&mut self, stripes: u32) {
        self.wordline = stripes;
    }

    /// How many stripes share the cells of a wordline of this superblock.
    pub(crate) fn wordline(&self, block: BlockId) -> u32 {
        match self.mode(block) {
            Mode::Full => self.wordline,
            Mode::OneBit => 1,
        }
    }

    /// Stripes that a superblock takes.
    pub(crate) fn stripes(&self, block: BlockId) -> u32 {
        match self.mode(block) {
            Mode::Full => self.geometry.pages,
            // A last wordline that the pages don't fill has its one bit all the same.
            Mode::OneBit => self.geometry.pages.div_ceil(self.wordline),
        }
    }

    pub(crate) fn mode(&self, block: BlockId) -> Mode {
        self.blocks[block.0 as usize].mode
    }

    /// Sets the mode of a superblock that is erased; else changes nothing, and gives false.
    pub(crate) fn set_mode(&mut self, block: BlockId, mode: Mode) -> bool {
        let state = &mut self.blocks[block.0 as usize];
        let is_erased = state.programmed == 0 && state.work == Work::None;
        if is_erased && state.mode != mode {
            state.mode = mode;
            self.note(block);
        }
        is_erased
    }

    /// Sets the erases that were before the medium was made.
    pub(crate) fn wear_in(&mut self, erases: impl FnMut(BlockId) -> u32) {
        self.worn = (0..self.geometry.total_blocks()).map(BlockId).map(erases).collect();
    }

    /// Units that are held in memory rather than in closed form.
    pub(crate) fn live_units(&self) -> u64 {
        match &self.contents {
            Contents::Ram(ram) => ram.live_units(),
            Contents::Files(_) => 0,
        }
    }

    pub(crate) fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Whether a stripe can't be read: it is half programmed or half erased.
    pub(crate) fn is_torn(&self, block: BlockId, stripe: u32) -> bool {
        let state = &self.blocks[block.0 as usize];
        (state.work != Work::None && stripe >= state.programmed)
            || (!self.torn.is_empty() && self.torn.contains(&(block.0, stripe)))
    }

    /// Whether a stripe is programmed.
    pub(crate) fn is_programmed(&self, block: BlockId, stripe: u32) -> bool {
        stripe < self.blocks[block.0 as usize].programmed
    }

    /// Whether nothing was ever programmed or erased.
    pub(crate) fn is_untouched(&self) -> bool {
        let is_as_made = |(id, block): (u32, &Block)| {
            let stripes = self.base.stripes(BlockId(id)).min(self.geometry.pages);
            block.live == BASE && block.erases == 0 && block.work == Work::None && block.programmed == stripes
        };
        (0..).zip(&self.blocks).all(is_as_made)
    }

    /// Whether a superblock must be erased before it can be used.
    pub(crate) fn is_unstable(&self, block: BlockId) -> bool {
        self.blocks[block.0 as usize].work == Work::Erase
    }

    /// Marks a superblock as bad, for ever. That changes nothing here: whoever looks for the mark knows what it means.
    pub(crate) fn mark_bad(&mut self, block: BlockId) {
        self.blocks[block.0 as usize].is_bad = true;
        self.note(block);
    }

    /// Whether it is marked.
    pub(crate) fn is_bad(&self, block: BlockId) -> bool {
        self.blocks[block.0 as usize].is_bad
    }

    /// The power is gone.
    pub(crate) fn cut(&mut self, now_ns: u64) {
        let under_way = (0..).zip(&self.blocks).filter(|(_, block)| block.work == Work::Program);
        let under_way: Vec<u32> = under_way.map(|(id, _)| id).collect();
        under_way.into_iter().for_each(|id| self.tear(BlockId(id), now_ns));
    }

    /// The program of a stripe has failed.
    pub(crate) fn fail_program(&mut self, block: BlockId, now_ns: u64) {
        self.tear(block, now_ns);
    }

    /// The stripe that was begun is torn, and what shares its cells.
    fn tear(&mut self, block: BlockId, now_ns: u64) {
        let (wordline, stripes) = (self.wordline(block), self.stripes(block));
        let state = &mut self.blocks[block.0 as usize];
        let first = state.programmed / wordline * wordline;
        let end = (first + wordline).min(stripes);
        if let Contents::Ram(ram) = &mut self.contents {
            ram.make_live(&self.geometry, &*self.base, block.0, state);
            ram.add_live(u64::from((end - state.programmed) * self.geometry.units_per_stripe()));
        }
        if state.programmed == 0 {
            state.programmed_at_ns = now_ns; // what comes behind it is no older
        }
        (state.programmed, state.work) = (end, Work::None);
        // The rest of the wordline holds nothing either, and nobody can tell.
        self.torn.extend((first..end).map(|stripe| (block.0, stripe)));
        self.note(block);
        if let Contents::Files(files) = &mut self.contents {
            files.note_torn(block.0, first, end);
        }
    }

    /// What has become of a superblock, other than by a program, outlives the process.
    fn note(&mut self, block: BlockId) {
        if let Contents::Files(files) = &mut self.contents {
            files.note(block.0, &self.blocks[block.0 as usize]);
        }
    }

    /// Hands the units of `mask` to `take`, in order; what isn't programmed is zero. Gives those of them that aren't
    /// what was written.
    pub(crate) fn read(&self, block: BlockId, stripe: u32, mask: u64, mut take: impl FnMut(Content)) -> u64 {
        let first = stripe * self.geometry.units_per_stripe();
        let state = &self.blocks[block.0 as usize];
        let programmed = stripe < state.programmed && !self.is_torn(block, stripe);
        let start = self.geometry.ppa(block, 0, 0).0;
        let is_base = self.is_base(block, stripe);
        let mut wrong = 0;
        let mut left = mask;
        while left != 0 {
            let unit = first + left.trailing_zeros();
            left &= left - 1;
            take(match &self.contents {
                _ if !programmed => Content::Zero,
                _ if is_base => self.base_content(Ppa(start + u64::from(unit))),
                Contents::Ram(ram) => ram.content(&self.geometry, state.live, unit),
                Contents::Files(files) => {
                    let content = files.content(Ppa(start + u64::from(unit)), state.live);
                    wrong |= u64::from(content.is_none()) << (unit - first);
                    content.unwrap_or_default()
                }
            });
        }
        wrong
    }

    /// What a unit holds of which the closed form has the stripe.
    fn base_content(&self, ppa: Ppa) -> Content {
        let mut lpa = [NO_LPA];
        self.base.lpas(ppa, &mut lpa);
        if lpa == [NO_LPA] { Content::Zero } else { self.base.content(lpa[0]) }
    }

    /// Whether the closed form has a stripe. A superblock in memory takes over what it has of it at its first program.
    fn is_base(&self, block: BlockId, stripe: u32) -> bool {
        self.blocks[block.0 as usize].live == BASE
            && match self.contents {
                Contents::Ram(_) => true,
                Contents::Files(_) => stripe < self.base.stripes(block),
            }
    }

    pub(crate) fn can_forget(&self) -> bool {
        matches!(self.contents, Contents::Ram(_))
    }

    /// Lets go of the bytes of a unit, if it holds an older state of that logical unit.
    pub(crate) fn forget(&mut self, outdated: Outdated) {
        let Outdated { ppa, lpa, sequence } = outdated;
        let geometry = &self.geometry;
        let (block, stripe) = (geometry.block_of(ppa), geometry.stripe_of(ppa));
        let state = &self.blocks[block.0 as usize];
        if let Contents::Ram(ram) = &mut self.contents
            && state.live != BASE
            && stripe < state.programmed
        {
            let unit = stripe * geometry.units_per_stripe() + geometry.unit_of_stripe(ppa);
            ram.forget(geometry, state.live, unit, lpa, sequence);
        }
    }

    pub(crate) fn content(&self, ppa: Ppa) -> Content {
        self.intact(ppa).unwrap_or_default()
    }

    /// None if it isn't what was written.
    pub(crate) fn intact(&self, ppa: Ppa) -> Option<Content> {
        let mut content = Content::Zero;
        let geometry = &self.geometry;
        let mask = 1 << geometry.unit_of_stripe(ppa);
        let wrong = self.read(geometry.block_of(ppa), geometry.stripe_of(ppa), mask, |unit| content = unit);
        (wrong == 0).then_some(content)
    }

    /// The logical unit that a unit was programmed for.
    pub(crate) fn lpa(&self, ppa: Ppa) -> Option<u64> {
        self.spare(ppa).map(|spare| spare.lpa)
    }

    /// The spare area of a unit; none of padding, and of what is not programmed or torn.
    pub(crate) fn spare(&self, ppa: Ppa) -> Option<Spare> {
        let mut spare = [Spare::PADDING];
        self.spares(ppa, &mut spare);
        (spare[0].lpa != NO_LPA).then_some(spare[0])
    }

    /// The spare areas of consecutive units of a stripe, from `first` on; of what is not programmed or torn, as of padding.
    pub(crate) fn spares(&self, first: Ppa, spares: &mut [Spare]) {
        let (id, stripe) = (self.geometry.block_of(first), self.geometry.stripe_of(first));
        let block = &self.blocks[id.0 as usize];
        if stripe >= block.programmed || (!self.torn.is_empty() && self.torn.contains(&(id.0, stripe))) {
            return spares.fill(Spare::PADDING);
        }
        match &self.contents {
            _ if self.is_base(id, stripe) => {
                let lpas = &mut [NO_LPA; 64][..spares.len()];
                self.base.lpas(first, lpas);
                spares
                    .iter_mut()
                    .zip(lpas)
                    .for_each(|(spare, lpa)| *spare = Spare { lpa: *lpa, sequence: 0 });
            }
            Contents::Ram(ram) => {
                ram.spares(&self.geometry, block.live, self.geometry.unit_of_block(first), spares);
            }
            Contents::Files(files) => {
                for (ppa, spare) in (first.0..).map(Ppa).zip(spares) {
                    *spare = files.spare(ppa, block.live).unwrap_or(Spare::PADDING);
                }
            }
        }
    }

    /// The number of a stripe that can be read: [`Batch::number`].
    pub(crate) fn number(&self, block: BlockId, stripe: u32) -> Option<u64> {
        let state = &self.blocks[block.0 as usize];
        if stripe >= state.programmed || self.is_torn(block, stripe) {
            return None;
        }
        match &self.contents {
            _ if self.is_base(block, stripe) => Some(0),
            Contents::Ram(ram) => Some(ram.number(&self.geometry, state.live, stripe)),
            Contents::Files(files) => files.number(self.geometry.ppa(block, stripe, 0), state.live),
        }
    }

    /// Begins to program a stripe of `units` units; it is torn until [`Store::end_program`].
    pub(crate) fn begin_program(&mut self, block: BlockId, stripe: u32, units: usize) -> Result<(), Refused> {
        let stripes = self.stripes(block);
        let state = &mut self.blocks[block.0 as usize];
        let fits = units <= self.geometry.units_per_stripe() as usize;
        if state.work != Work::None || stripe != state.programmed || stripe >= stripes || !fits {
            return Err(Refused);
        }
        state.work = Work::Program;
        Ok(())
    }

    /// The stripe that was begun is there, padded if `batch` is short.
    pub(crate) fn end_program(&mut self, block: BlockId, batch: &mut Batch, now_ns: u64) {
        let state = &mut self.blocks[block.0 as usize];
        if state.programmed == 0 {
            state.programmed_at_ns = now_ns;
        }
        match &mut self.contents {
            Contents::Ram(ram) => {
                ram.make_live(&self.geometry, &*self.base, block.0, state);
                ram.program(&self.geometry, state.live, state.programmed, batch);
            }
            Contents::Files(files) => {
                let first = self.geometry.ppa(block, state.programmed, 0);
                files.program(first, state, batch, now_ns);
            }
        }
        state.programmed += 1;
        state.work = Work::None;
        self.go_on();
    }

    /// Begins to erase: from now on the block holds nothing.
    pub(crate) fn begin_erase(&mut self, block: BlockId) {
        let state = &mut self.blocks[block.0 as usize];
        let programmed = std::mem::take(&mut state.programmed);
        state.work = Work::Erase;
        state.reads = 0;
        if !self.torn.is_empty() {
            self.torn.retain(|(torn, _)| *torn != block.0);
        }
        match &mut self.contents {
            Contents::Ram(ram) => {
                let live = std::mem::replace(&mut state.live, BASE);
                if live != BASE {
                    ram.erase(&self.geometry, live, programmed);
                }
            }
            Contents::Files(files) => {
                state.live = file::next_life(state.live);
                files.erase(block.0, state);
            }
        }
        self.go_on();
    }

    pub(crate) fn end_erase(&mut self, block: BlockId) {
        let state = &mut self.blocks[block.0 as usize];
        state.work = Work::None;
        state.erases += 1;
        if let Contents::Files(files) = &mut self.contents {
            files.end_erase(block.0, state);
        }
    }

    /// The erase that was begun has failed: its cells have been stressed, and are not to be relied on.
    pub(crate) fn fail_erase(&mut self, block: BlockId) {
        self.blocks[block.0 as usize].erases += 1;
        self.note(block);
    }

    /// Whether what is being done to a superblock must not end yet, though it has taken its time: an erase ends when what
    /// it follows is durable.
    pub(crate) fn holds_up(&self, block: BlockId) -> bool {
        match &self.contents {
            Contents::Ram(_) => false,
            Contents::Files(files) => {
                files.holds_up(block.0, self.blocks[block.0 as usize].work == Work::Erase)
            }
        }
    }

    /// Wants everything durable that was done until now. Gives what to ask [`Store::is_synced`] about.
    pub(crate) fn want_sync(&mut self) -> u64 {
        let Contents::Files(files) = &mut self.contents else { return 0 };
        let job = files.want_sync();
        self.go_on();
        job
    }

    /// Everything that waits for files is told what has been done to them.
    pub(crate) fn tell(&mut self) {
        if let Contents::Files(files) = &mut self.contents {
            files.tell();
        }
    }

    pub(crate) fn is_synced(&self, job: u64) -> bool {
        match &self.contents {
            Contents::Ram(_) => true,
            Contents::Files(files) => files.is_done(job),
        }
    }

    /// Learns what has been done to files, and has done what is wanted next.
    pub(crate) fn go_on(&mut self) {
        if let Contents::Files(files) = &mut self.contents {
            let (blocks, torn, base) = (&self.blocks, &self.torn, &self.base);
            files.go_on(|| file::Table::of(blocks, torn, |block| base.stripes(block)));
        }
    }

    /// What a slot for roots holds from now on.
    pub(crate) fn note_root(&mut self, slot: usize, root: Option<&[u8]>) {
        if let Contents::Files(files) = &mut self.contents {
            files.note_root(slot, root);
        }
    }

    /// What the record is from now on.
    pub(crate) fn note_record(&mut self, record: &[u8]) {
        if let Contents::Files(files) = &mut self.contents {
            files.note_record(record);
        }
    }

    /// A page is added to the journal of the system area.
    pub(crate) fn note_page(&mut self, page: &[u8]) {
        if let Contents::Files(files) = &mut self.contents {
            files.note_page(page);
        }
    }

    /// So many pages are taken off it.
    pub(crate) fn note_cut(&mut self, pages: usize) {
        if let Contents::Files(files) = &mut self.contents {
            files.note_cut(pages);
        }
    }

    /// The files, if there are any.
    pub(crate) fn files(&self) -> Option<&FileContents> {
        match &self.contents {
            Contents::Ram(_) => None,
            Contents::Files(files) => Some(files),
        }
    }

    /// Whether a file has failed: what has happened since may not be there.
    pub(crate) fn has_failed(&self) -> bool {
        self.files().is_some_and(FileContents::has_failed)
    }

    /// From now on a thread does what takes the wall's time, and reports through `inbox`.
    pub(crate) fn begin_thread(&mut self, inbox: &Inbox) -> io::Result<()> {
        match &mut self.contents {
            Contents::Ram(_) => Ok(()),
            Contents::Files(files) => files.begin_thread(inbox),
        }
    }

    /// Ends that, when all of it is done.
    pub(crate) fn end_thread(&mut self) {
        if let Contents::Files(files) = &mut self.contents {
            files.end_thread();
        }
    }

    /// Makes durable what is known of all superblocks.
    pub(crate) fn write_table(&mut self) {
        if let Contents::Files(files) = &mut self.contents {
            files.write_table(file::Table::of(&self.blocks, &self.torn, |block| self.base.stripes(block)));
        }
    }

    /// Makes everything durable, and says that the drive was ended in order.
    pub(crate) fn close(&mut self, dump: Option<&Dump>, now_ns: u64) -> Result<(), Rc<str>> {
        let Contents::Files(files) = &mut self.contents else { return Ok(()) };
        let table = file::Table::of(&self.blocks, &self.torn, |block| self.base.stripes(block));
        files.close(table, dump, now_ns)
    }
}
