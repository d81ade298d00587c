//! Contents of the array: a base state in closed form, and what was programmed since, in memory (`ram`) or in
//! files ([`mod@file`]).
//!
//! The base state is computed rather than stored: an array of any size is ready at once, and what no run changes takes no
//! memory. The price is that in memory a superblock is copied from it as a whole at its first program.
//!
//! A superblock costs 32 bytes, wherever its contents are. Whether a test pattern is kept as a stamp or as
//! its 4096 bytes is decided where contents enter (`Content::of`, by its `Keep`).
//!
//! Effects of a power cut: the stripe being programmed and the earlier ones of its wordline are torn, that
//! is, unreadable until the superblock is erased, and the rest of the wordline cannot be programmed. A
//! superblock being erased is empty, and rejects programs until the next erase.

mod block;
mod content;
pub mod file;
mod ram;

pub use content::{BaseContent, Batch, Blank, Dump, NO_LPA, Outdated, Spare};

use crate::failure::Cells;
use crate::geometry::{BlockId, Geometry, Ppa};
use crate::timing::{Mode, Sensing};
use block::{BASE, Block, OngoingChange};
use byteway_clock::Inbox;
use byteway_content::Content;
use file::{FileContents, Files, Format, OpenError, OpenReport, Tuning};
use ram::Ram;
use std::collections::BTreeSet;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

/// Location of the contents.
enum Contents {
    Ram(Ram),
    Files(Box<FileContents>),
}

pub(crate) struct Store {
    geometry: Geometry,
    base: Rc<dyn BaseContent>,
    blocks: Vec<Block>,
    contents: Contents,
    /// Stripes torn by a power cut or a failed program, by superblock.
    torn: BTreeSet<(u32, u32)>,
    /// Stripes of a wordline; 1 for single-level cells.
    wordline: u32,
    /// Program/erase cycles of each superblock before the medium was made; empty if none.
    worn: Box<[u32]>,
}

/// A program out of order, or of a superblock that is not erased.
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
                ongoing: OngoingChange::None,
                mode: base.mode(BlockId(id)),
                is_bad: false,
            })
            .collect();
        let contents = Contents::Ram(Ram::default());
        Store { geometry, base, blocks, contents, torn: BTreeSet::new(), wordline: 1, worn: Box::default() }
    }

    /// A store whose contents are in files, with the state saved at the last power cut.
    pub(crate) fn open(
        files: Arc<dyn Files>,
        format: &Format,
        base: Rc<dyn BaseContent>,
        tuning: Tuning,
    ) -> Result<(Self, Option<Dump>, OpenReport), OpenError> {
        let geometry = format.geometry;
        let stripes = |block| base.stripes(block).min(geometry.pages);
        let found = file::open(files, format, tuning, stripes)?;
        let is_one_bit = |id, found: &file::RecoveredBlock| {
            let is_base = found.generation == 0 && found.programmed > 0;
            found.is_one_bit || is_base && base.mode(BlockId(id)) == Mode::OneBit
        };
        let block = |(id, found): (u32, &file::RecoveredBlock)| Block {
            live: if found.generation == 0 { BASE } else { found.generation },
            programmed: found.programmed,
            erases: found.erases,
            reads: found.reads,
            programmed_at_ns: found.programmed_at_ns,
            mode: if is_one_bit(id, found) { Mode::OneBit } else { Mode::Full },
            is_bad: found.is_bad,
            ongoing: if found.is_erasing { OngoingChange::Erase } else { OngoingChange::None },
        };
        let blocks = (0..).zip(&found.blocks).map(block).collect();
        let contents = Contents::Files(Box::new(found.contents));
        let store =
            Store { geometry, base, blocks, contents, torn: found.torn, wordline: 1, worn: Box::default() };
        Ok((store, found.dump, found.opened))
    }

    /// Contents at the start of the run.
    pub(crate) fn base(&self) -> Rc<dyn BaseContent> {
        self.base.clone()
    }

    /// Readable stripes of a superblock.
    pub(crate) fn programmed(&self, block: BlockId) -> u32 {
        self.blocks[block.0 as usize].programmed
    }

    /// Prefetches a superblock's state for an operation that will end later: the table exceeds the cache, and
    /// no wait depends on this load.
    pub(crate) fn warm(&self, block: BlockId) {
        std::hint::black_box(self.blocks[block.0 as usize].programmed);
    }

    pub(crate) fn erases(&self, block: BlockId) -> u32 {
        let before = self.worn.get(block.0 as usize).copied().unwrap_or(0);
        self.blocks[block.0 as usize].erases.saturating_add(before)
    }

    /// Program/erase cycles since the medium was made.
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

    /// The next sensing of a stripe, or the one after `retries` more: these count when the read ends.
    pub(crate) fn sensing(&self, seed: u64, block: BlockId, stripe: u32, retries: u8) -> Sensing {
        let reads = self.reads(block).wrapping_add(u32::from(retries));
        Sensing { seed, block, stripe, erases: self.erases(block), reads }
    }

    /// Adds `times` sensings.
    pub(crate) fn sensed(&mut self, block: BlockId, times: u32) {
        let reads = &mut self.blocks[block.0 as usize].reads;
        *reads = reads.saturating_add(times);
    }

    /// Time of the first stripe's program; `None` if none is programmed.
    pub(crate) fn programmed_at_ns(&self, block: BlockId) -> Option<u64> {
        let state = &self.blocks[block.0 as usize];
        (state.programmed > 0).then_some(state.programmed_at_ns)
    }

    /// Wear, retention and reads of its cells.
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

    /// Sets the stripes of a wordline.
    pub(crate) fn set_wordline(&mut self, stripes: u32) {
        self.wordline = stripes;
    }

    /// Stripes that share the cells of a wordline in this superblock's mode.
    pub(crate) fn wordline(&self, block: BlockId) -> u32 {
        match self.mode(block) {
            Mode::Full => self.wordline,
            Mode::OneBit => 1,
        }
    }

    /// Stripes of a superblock in its mode.
    pub(crate) fn stripes(&self, block: BlockId) -> u32 {
        match self.mode(block) {
            Mode::Full => self.geometry.pages,
            // Rounded up: a last wordline that the pages do not fill still holds its one bit.
            Mode::OneBit => self.geometry.pages.div_ceil(self.wordline),
        }
    }

    pub(crate) fn mode(&self, block: BlockId) -> Mode {
        self.blocks[block.0 as usize].mode
    }

    /// Sets the mode of an erased superblock; otherwise returns false, with nothing changed.
    pub(crate) fn set_mode(&mut self, block: BlockId, mode: Mode) -> bool {
        let state = &mut self.blocks[block.0 as usize];
        let is_erased = state.programmed == 0 && state.ongoing == OngoingChange::None;
        if is_erased && state.mode != mode {
            state.mode = mode;
            self.note(block);
        }
        is_erased
    }

    /// Sets the program/erase cycles before the medium was made.
    pub(crate) fn wear_in(&mut self, erases: impl FnMut(BlockId) -> u32) {
        self.worn = (0..self.geometry.total_blocks()).map(BlockId).map(erases).collect();
    }

    /// Units held in memory rather than in closed form.
    pub(crate) fn live_units(&self) -> u64 {
        match &self.contents {
            Contents::Ram(ram) => ram.live_units(),
            Contents::Files(_) => 0,
        }
    }

    pub(crate) fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Whether a stripe is unreadable because it is partly programmed or erased.
    pub(crate) fn is_torn(&self, block: BlockId, stripe: u32) -> bool {
        let state = &self.blocks[block.0 as usize];
        (state.ongoing != OngoingChange::None && stripe >= state.programmed)
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
            block.live == BASE
                && block.erases == 0
                && block.ongoing == OngoingChange::None
                && block.programmed == stripes
        };
        (0..).zip(&self.blocks).all(is_as_made)
    }

    /// Whether a superblock must be erased before it can be used.
    pub(crate) fn is_unstable(&self, block: BlockId) -> bool {
        self.blocks[block.0 as usize].ongoing == OngoingChange::Erase
    }

    /// Marks a superblock as bad, permanently. The store works with it as before; the mark is for firmware.
    pub(crate) fn mark_bad(&mut self, block: BlockId) {
        self.blocks[block.0 as usize].is_bad = true;
        self.note(block);
    }

    /// Whether a superblock is marked as bad.
    pub(crate) fn is_bad(&self, block: BlockId) -> bool {
        self.blocks[block.0 as usize].is_bad
    }

    /// Applies a power cut.
    pub(crate) fn cut(&mut self, now_ns: u64) {
        let under_way = (0..).zip(&self.blocks).filter(|(_, block)| block.ongoing == OngoingChange::Program);
        let under_way: Vec<u32> = under_way.map(|(id, _)| id).collect();
        under_way.into_iter().for_each(|id| self.tear(BlockId(id), now_ns));
    }

    /// Applies a failed program of a stripe.
    pub(crate) fn fail_program(&mut self, block: BlockId, now_ns: u64) {
        self.tear(block, now_ns);
    }

    /// Tears the stripe in progress, and those that share its cells.
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
            state.programmed_at_ns = now_ns; // later stripes are no older
        }
        (state.programmed, state.ongoing) = (end, OngoingChange::None);
        debug_assert!(first <= end && end <= stripes, "a wordline is within its superblock");
        // The rest of the wordline is unusable too, and reads as torn.
        self.torn.extend((first..end).map(|stripe| (block.0, stripe)));
        self.note(block);
        if let Contents::Files(files) = &mut self.contents {
            files.note_torn(block.0, first, end);
        }
    }

    /// Records a change of a superblock other than by a program, so that it outlives the process.
    fn note(&mut self, block: BlockId) {
        if let Contents::Files(files) = &mut self.contents {
            files.note(block.0, &self.blocks[block.0 as usize]);
        }
    }

    /// Calls `take` with the content of each unit in `mask`, in order; an unprogrammed unit is zero. Returns
    /// the units whose contents differ from what was written.
    pub(crate) fn read(&self, block: BlockId, stripe: u32, mask: u64, mut take: impl FnMut(Content)) -> u64 {
        let first = stripe * self.geometry.units_per_stripe();
        let state = &self.blocks[block.0 as usize];
        let programmed = stripe < state.programmed && !self.is_torn(block, stripe);
        let start = self.geometry.ppa(block, 0, 0).0;
        let is_base = self.is_base(block, stripe);
        let mut wrong = 0;
        let mut left = mask;
        if programmed && is_base && mask & mask.wrapping_sub(1) != 0 {
            // Several units of a stripe are looked up at once.
            let (low, high) = (mask.trailing_zeros(), u64::BITS - mask.leading_zeros());
            let lpas = &mut [NO_LPA; u64::BITS as usize][..(high - low) as usize];
            self.base.lpas(Ppa(start + u64::from(first + low)), lpas);
            for lpa in lpas.iter().zip(low..).filter(|(_, unit)| mask >> unit & 1 == 1).map(|(lpa, _)| *lpa) {
                take(if lpa == NO_LPA { Content::Zero } else { self.base.content(lpa) });
            }
            return 0;
        }
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

    /// Content of a unit in a stripe of the closed form.
    fn base_content(&self, ppa: Ppa) -> Content {
        let mut lpa = [NO_LPA];
        self.base.lpas(ppa, &mut lpa);
        if lpa == [NO_LPA] { Content::Zero } else { self.base.content(lpa[0]) }
    }

    /// Whether a stripe is in closed form. In memory, a superblock's stripes are copied from the closed form
    /// at its first program.
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

    /// Discards the bytes of a unit, if it holds an older version of that logical unit.
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

    /// Content of a unit; `None` if it differs from what was written.
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

    /// The spare area of a unit; None for padding, and if unprogrammed or torn.
    pub(crate) fn spare(&self, ppa: Ppa) -> Option<Spare> {
        let mut spare = [Spare::PADDING];
        self.spares(ppa, &mut spare);
        (spare[0].lpa != NO_LPA).then_some(spare[0])
    }

    /// The spare areas of consecutive units of a stripe from `first` on; as padding if unprogrammed or torn.
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

    /// Whether a programmed unit, of a stripe that is not torn, has no intact spare area.
    pub(crate) fn is_nameless(&self, ppa: Ppa) -> bool {
        let (block, stripe) = (self.geometry.block_of(ppa), self.geometry.stripe_of(ppa));
        let state = &self.blocks[block.0 as usize];
        let Contents::Files(files) = &self.contents else { return false };
        stripe < state.programmed
            && !self.is_torn(block, stripe)
            && !self.is_base(block, stripe)
            && files.spare(ppa, state.live).is_none()
    }

    /// The number of a readable stripe: [`Batch::number`].
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

    /// Starts the program of a stripe with `units` units; it is torn until [`Store::end_program`].
    ///
    /// # Errors
    /// [`Refused`] if the stripe is not the next one, or the superblock is not erased.
    pub(crate) fn begin_program(&mut self, block: BlockId, stripe: u32, units: usize) -> Result<(), Refused> {
        let stripes = self.stripes(block);
        let state = &mut self.blocks[block.0 as usize];
        let fits = units <= self.geometry.units_per_stripe() as usize;
        if state.ongoing != OngoingChange::None || stripe != state.programmed || stripe >= stripes || !fits {
            return Err(Refused);
        }
        state.ongoing = OngoingChange::Program;
        Ok(())
    }

    /// Completes the program: the stripe is readable, padded if `batch` is short.
    pub(crate) fn end_program(&mut self, block: BlockId, batch: &mut Batch, now_ns: u64) {
        let stripes = self.stripes(block);
        let state = &mut self.blocks[block.0 as usize];
        debug_assert_eq!(state.ongoing, OngoingChange::Program, "a program ends that has not begun");
        debug_assert!(state.programmed < stripes, "a superblock takes no more stripes than it has");
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
        state.ongoing = OngoingChange::None;
        self.collect_jobs();
    }

    /// Starts an erase: from now on the superblock is empty.
    pub(crate) fn begin_erase(&mut self, block: BlockId) {
        let state = &mut self.blocks[block.0 as usize];
        let programmed = std::mem::take(&mut state.programmed);
        state.ongoing = OngoingChange::Erase;
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
                state.live = file::next_generation(state.live);
                files.erase(block.0, state);
            }
        }
        self.collect_jobs();
    }

    pub(crate) fn end_erase(&mut self, block: BlockId) {
        let state = &mut self.blocks[block.0 as usize];
        debug_assert_eq!(state.ongoing, OngoingChange::Erase, "an erase ends that has not begun");
        debug_assert_eq!(state.programmed, 0, "an erased superblock has no stripe");
        state.ongoing = OngoingChange::None;
        state.erases += 1;
        if let Contents::Files(files) = &mut self.contents {
            files.end_erase(block.0, state);
        }
    }

    /// Fails the erase in progress: the cells were stressed and cannot be relied on.
    pub(crate) fn fail_erase(&mut self, block: BlockId) {
        self.blocks[block.0 as usize].erases += 1;
        self.note(block);
    }

    /// Whether the end of the operation on a superblock must wait although its time is over: an erase ends
    /// only once everything before it is durable.
    pub(crate) fn delays_end(&self, block: BlockId) -> bool {
        match &self.contents {
            Contents::Ram(_) => false,
            Contents::Files(files) => {
                files.delays_end(block.0, self.blocks[block.0 as usize].ongoing == OngoingChange::Erase)
            }
        }
    }

    /// Requests a sync of everything done so far. Returns the argument for [`Store::is_synced`].
    pub(crate) fn request_sync(&mut self) -> u64 {
        let Contents::Files(files) = &mut self.contents else { return 0 };
        let job = files.request_sync();
        self.collect_jobs();
        job
    }

    /// Marks the completed file jobs as reported to their waiters.
    pub(crate) fn mark_reported(&mut self) {
        if let Contents::Files(files) = &mut self.contents {
            files.mark_reported();
        }
    }

    pub(crate) fn is_synced(&self, job: u64) -> bool {
        match &self.contents {
            Contents::Ram(_) => true,
            Contents::Files(files) => files.is_done(job),
        }
    }

    /// Collects completed file jobs, and starts the next one if requested.
    pub(crate) fn collect_jobs(&mut self) {
        if let Contents::Files(files) = &mut self.contents {
            let (blocks, torn, base) = (&self.blocks, &self.torn, &self.base);
            files.collect_jobs(|| file::Table::of(blocks, torn, |block| base.stripes(block)));
        }
    }

    /// Records the content of a root slot.
    pub(crate) fn note_root(&mut self, slot: usize, root: Option<&[u8]>) {
        if let Contents::Files(files) = &mut self.contents {
            files.note_root(slot, root);
        }
    }

    /// Records the content of the record.
    pub(crate) fn note_record(&mut self, record: &[u8]) {
        if let Contents::Files(files) = &mut self.contents {
            files.note_record(record);
        }
    }

    /// Records a page appended to the system area's journal.
    pub(crate) fn note_page(&mut self, page: &[u8]) {
        if let Contents::Files(files) = &mut self.contents {
            files.note_page(page);
        }
    }

    /// Records pages dropped from it.
    pub(crate) fn note_cut(&mut self, pages: usize) {
        if let Contents::Files(files) = &mut self.contents {
            files.note_cut(pages);
        }
    }

    /// The files; None if contents are in memory.
    pub(crate) fn files(&self) -> Option<&FileContents> {
        match &self.contents {
            Contents::Ram(_) => None,
            Contents::Files(files) => Some(files),
        }
    }

    /// Whether a file has failed, so that recent changes may be missing in it.
    pub(crate) fn has_failed(&self) -> bool {
        self.files().is_some_and(FileContents::has_failed)
    }

    /// Starts the thread that does the file jobs, and reports through `inbox`.
    pub(crate) fn begin_thread(&mut self, inbox: &Inbox) -> io::Result<()> {
        match &mut self.contents {
            Contents::Ram(_) => Ok(()),
            Contents::Files(files) => files.begin_thread(inbox),
        }
    }

    /// Ends the thread after its last job.
    pub(crate) fn end_thread(&mut self) {
        if let Contents::Files(files) = &mut self.contents {
            files.end_thread();
        }
    }

    /// Writes a checkpoint with the state of all superblocks.
    pub(crate) fn write_table(&mut self) {
        if let Contents::Files(files) = &mut self.contents {
            files.write_table(file::Table::of(&self.blocks, &self.torn, |block| self.base.stripes(block)));
        }
    }

    /// Makes everything durable, and marks the directory as cleanly closed.
    pub(crate) fn close(&mut self, dump: Option<&Dump>, now_ns: u64) -> Result<(), Rc<str>> {
        let Contents::Files(files) = &mut self.contents else { return Ok(()) };
        let table = file::Table::of(&self.blocks, &self.torn, |block| self.base.stripes(block));
        files.close(table, dump, now_ns)
    }
}
