//! What the medium holds, when the power has come back.
//!
//! 1. The root: where the translation pages were at the last checkpoint, and from which stripe on must be read.
//! 2. One look at the first and the last stripe of each superblock: numbers rise within one, so this tells which hold
//!    stripes from there on. Those are read: each unit's spare area says which state of which unit it is.
//! 3. The latest version of each translation page. It reflects everything before a number, so of the units found above
//!    those that are older count only if what the page says is there no more.
//! 4. Deallocations from the journal: each ends the states of its units with lower numbers.
//! 5. What capacitors have saved comes back into the buffer.
//!
//! All this is decided by the medium alone, and nothing is written before it is known but erases of superblocks that
//! hold nothing, so another cut changes nothing. What was found is found again: a stripe that can be read now stays as it
//! is until its superblock is erased, for superblocks that end within a wordline take no more programs.
//!
//! What it does not do: a read that fails here for once, by an error model or a plan of faults, takes its time and gives what
//! is there all the same. Of a spare area that is damaged in files nothing is known but by a translation page.
//!
//! Why an old state never comes back: it would have to be without a newer one. A newer state is erased only when it was
//! moved, or followed by a still newer one that is safe in flash, or deallocated by a record that is in the journal; and a
//! record leaves the journal only when a root is written whose pages reflect it.

use crate::ftl::Base;
use crate::ftl::blocks::{Blocks, Found, Marks};
use crate::ftl::buffer::NOBODY;
use crate::ftl::config::Canary;
use crate::ftl::durable::journal::{self, Journal, Trim};
use crate::ftl::durable::root::Root;
use crate::ftl::inner::{Inner, State};
use crate::ftl::map::page;
use crate::ftl::map::pages::Pages;
use crate::ftl::map::table::{Entry, Place, Table};
use crate::ftl::space::UnitKind;
use crate::placement::Route;
use byteway_flash::{BlockId, Mode, Ppa, Priority, Ticket};
use byteway_wire::content::UNIT_BYTES;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;

/// Reads that are under way at once, for each die.
const READS_PER_DIE: u32 = 64;

/// A state of a unit that was found in a stripe.
#[derive(Clone, Copy)]
struct Copy {
    sequence: u64,
    /// Of the stripe.
    number: u64,
    at: Ppa,
}

/// A unit, and what is known of it in the end.
struct Winner {
    lpa: u64,
    sequence: u64,
    entry: Entry,
    /// What its translation page says.
    written: Entry,
}

struct Recovery<'a> {
    inner: &'a Inner,
    root: Root,
    ticket: Ticket,
    reads: u32,
    /// Of each superblock.
    found: Vec<Found>,
    /// Superblocks of which something was erased or programmed since the root: what a page says of them may be gone.
    changed: Vec<bool>,
    /// The best copy of each unit. Never iterated but to be sorted.
    copies: FxHashMap<u64, Copy>,
    /// Of translation pages that were found: everything before this is reflected.
    reflects: FxHashMap<u32, u64>,
    map: Table,
    pages: Pages,
    /// Dies whose collectors have left a superblock since the root (see `duplicates`).
    left: Vec<bool>,
    /// Units of which a page says a place that is no more, and of which no copy was found.
    gone: Vec<(u64, Ppa)>,
    next_sequence: u64,
    next_number: u64,
    stripes_scanned: u64,
}

/// The task that finds out what the medium holds. Whoever asks something of the translation layer waits for it.
pub(in crate::ftl) async fn run(inner: Rc<Inner>) {
    let began = inner.clock.now();
    let roots = [inner.flash.read_root(0).await, inner.flash.read_root(1).await];
    let roots = roots.iter().flatten().filter_map(|bytes| Root::decode(bytes));
    let root = roots.max_by_key(|root| root.generation).unwrap_or_default();
    let pages = inner.flash.read_journal().await;
    let saved = inner.power.saved.borrow().as_ref().map(|dump| dump.records.clone()).unwrap_or_default();
    let mut trims: Vec<Trim> = pages.iter().flat_map(|page| journal::decode(page)).collect();
    trims.extend(journal::decode(&saved));
    let last_of = |page: &Rc<[u8]>| journal::decode(page).last().map_or(0, |trim| trim.sequence);
    let last_records: VecDeque<u64> = pages.iter().map(last_of).collect();

    let mut recovery = Recovery::new(&inner, root);
    recovery.note_left(&trims);
    recovery.look_at_blocks().await;
    recovery.replay().await;
    if let Err(why) = recovery.load_pages().await {
        // Without it the host would read zeroes where it has written. There is nobody to tell but whoever runs the drive.
        return inner.flash.refuse(why);
    }
    recovery.look_again().await;
    let before = trims.len();
    trims.retain(|trim| trim.sequence >= recovery.root.settled);
    let is_clean = recovery.root.is_clean && recovery.copies.is_empty() && before == 0;
    if inner.config.canary == Some(Canary::IgnoreTrims) {
        trims.clear();
    }
    let recovered = recovery.decide(&trims) + recovery.find_gone().await;
    recovery.erase_unstable().await;
    recovery.read_numbers().await;
    let pending = journal::decode(&saved).collect();
    let journal = Journal::recovered(inner.space, last_records, pending);
    for trim in &trims {
        recovery.next_sequence = recovery.next_sequence.max(trim.sequence + 1);
    }
    recovery.install(journal, is_clean, recovered);
    inner.pay_for_changes().await;
    inner.restore_saved().await;
    inner.power.saved.take();
    if inner.state.borrow().blocks.is_exhausted() {
        inner.end_life(&mut inner.state.borrow_mut());
    }
    inner.state.borrow_mut().counters.recovery_time = inner.clock.now().since(began);
    if inner.state.borrow().parts.is_urgent() {
        inner.signals.mergers.notify_one();
    }
    inner.power.is_ready.set(true);
    inner.power.readied.notify_all();
    inner.rouse_cornered();
    if inner.state.borrow().journal.is_half_full() {
        inner.want_checkpoint();
    }
}

impl<'a> Recovery<'a> {
    fn new(inner: &'a Inner, root: Root) -> Self {
        let blocks = inner.geometry.total_blocks() as usize;
        Recovery {
            inner,
            ticket: inner.flash.ticket(),
            reads: 0,
            found: vec![Found::default(); blocks],
            changed: vec![false; blocks],
            copies: FxHashMap::default(),
            reflects: FxHashMap::default(),
            map: Table::new(inner.space),
            pages: Pages::new(inner.space, inner.config.map_cache_pages.is_some()),
            left: vec![false; inner.geometry.dies() as usize],
            gone: Vec::new(),
            next_sequence: root.next_sequence.max(root.settled).max(1),
            next_number: root.next_number.max(root.first_stripe).max(1),
            stripes_scanned: 0,
            root,
        }
    }

    /// Notes which dies' collectors have left a superblock since the root.
    fn note_left(&mut self, trims: &[Trim]) {
        for trim in trims.iter().filter(|trim| trim.sequence >= self.root.settled) {
            let dies = trim.dies_left(self.inner.space.user);
            let left = self.left.iter_mut().skip(dies.start as usize);
            left.take((dies.end - dies.start) as usize).for_each(|left| *left = true);
        }
    }

    /// Whether a place that is no more may have been in a superblock that was left.
    fn may_be_left(&self, ppa: Ppa) -> bool {
        self.left.get(self.inner.geometry.die_of(ppa) as usize).is_some_and(|left| *left)
    }

    /// Reads a stripe's spare area, or a unit of it: both take a read of the stripe.
    async fn read(&mut self, ppa: Ppa) {
        let mask = 1 << self.inner.geometry.unit_of_stripe(ppa);
        self.inner.flash.submit_read(ppa, mask, Priority::HostRead, &self.ticket);
        self.reads += 1;
        if self.reads >= READS_PER_DIE * self.inner.geometry.dies() {
            self.await_reads().await;
        }
    }

    async fn await_reads(&mut self) {
        self.ticket.wait().await;
        self.ticket.clear();
        self.reads = 0;
    }

    /// How far each superblock is programmed, and which numbers it holds. Those that are as the base state has them were
    /// never touched, and cost nothing.
    async fn look_at_blocks(&mut self) {
        let (flash, geometry) = (&self.inner.flash, self.inner.geometry);
        let wordline = self.inner.state.borrow().filling.wordlines.stripes();
        // Die by die in turn, so that all of them read at once.
        let turns = (0..geometry.blocks).flat_map(|block| (0..geometry.dies()).map(move |die| (die, block)));
        for block in turns.map(|(die, block)| geometry.block(die, block)) {
            let programmed = flash.programmed_stripes(block);
            let pages = flash.stripes_of(block);
            let wordline = if flash.mode(block) == Mode::OneBit { 1 } else { wordline };
            let base_stripes = self.inner.base.stripes(block);
            let is_touched =
                flash.erases_since_made(block) > 0 || flash.is_unstable(block) || programmed != base_stripes;
            if is_touched {
                self.read(geometry.ppa(block, 0, 0)).await;
                // The last one, if all are programmed; else a search for the first that is not.
                let looks = if programmed == pages { 1 } else { pages.ilog2() + 1 };
                for look in 0..looks {
                    let stripe = (pages - 1) >> look;
                    self.read(geometry.ppa(block, stripe, 0)).await;
                }
            }
            let last = (0..programmed).rev().find_map(|stripe| flash.stripe_number(block, stripe));
            self.found[block.0 as usize] = Found {
                programmed,
                last: last.unwrap_or(0),
                is_base: base_stripes > 0 && flash.stripe_number(block, 0) == Some(0),
                can_go_on: programmed < pages && programmed.is_multiple_of(wordline),
            };
            self.changed[block.0 as usize] = is_touched
                && (programmed == 0
                    || flash.stripe_number(block, 0).is_none_or(|number| number >= self.root.first_stripe));
        }
        self.await_reads().await;
    }

    /// Reads the stripes that came after the root, and what they say of their units.
    async fn replay(&mut self) {
        let first = self.root.first_stripe.max(1);
        let geometry = self.inner.geometry;
        let mut stripes: Vec<(BlockId, u32)> =
            self.root.moving.iter().map(|(block, stripe)| (BlockId(*block), *stripe)).collect();
        stripes.retain(|(block, stripe)| block.0 < geometry.total_blocks() && *stripe < geometry.pages);
        for block in (0..geometry.total_blocks()).map(BlockId) {
            let Found { programmed, last, .. } = self.found[block.0 as usize];
            let number = |stripe| self.inner.flash.stripe_number(block, stripe);
            if last >= first {
                // A stripe that can't be read may have come after it, or before.
                let later =
                    (0..programmed).rev().take_while(|stripe| number(*stripe).is_none_or(|n| n >= first));
                stripes.extend(later.map(|stripe| (block, stripe)));
            }
        }
        stripes.sort_unstable();
        stripes.dedup();
        for (block, stripe) in stripes {
            self.read(geometry.ppa(block, stripe, 0)).await;
            self.stripes_scanned += 1;
            let Some(number) = self.inner.flash.stripe_number(block, stripe) else { continue };
            self.next_number = self.next_number.max(number + 1);
            let start = geometry.ppa(block, stripe, 0).0;
            for at in (start..start + u64::from(geometry.units_per_stripe())).map(Ppa) {
                let Some(spare) = self.inner.flash.spare(at) else { continue };
                self.next_sequence = self.next_sequence.max(spare.sequence + 1);
                let copy = Copy { sequence: spare.sequence, number, at };
                self.note(spare.lpa, copy);
            }
        }
        self.await_reads().await;
    }

    /// Of two copies the later state counts; if they are of the same, the one that was moved last.
    fn note(&mut self, lpa: u64, copy: Copy) {
        let rank = |copy: &Copy| (copy.sequence, copy.number);
        let best = self.copies.entry(lpa).or_insert(copy);
        let is_better = match self.inner.config.canary {
            Some(Canary::OlderCopy) => rank(&copy) < rank(best),
            _ => rank(&copy) > rank(best),
        };
        if is_better {
            *best = copy;
        }
    }

    /// Loads the translation pages: of each the version that reflects most, and of equals the one that the root names.
    /// One that is damaged is an error: only files can be, and what they say can't be had elsewhere.
    async fn load_pages(&mut self) -> Result<(), String> {
        let space = self.inner.space;
        let runs = std::mem::take(&mut self.root.pages);
        let mut places: Vec<(u32, Ppa)> = Vec::new();
        for run in &runs {
            match run.place.place() {
                Place::Flash(ppa) if run.first < self.pages.count() => places.push((run.first, ppa)),
                Place::Flash(_) => {} // of another drive's files: there is no such page
                _ => self.mark_pages(run.first, run.count),
            }
        }
        let mut latest: FxHashMap<u32, (u64, Ppa)> = FxHashMap::default();
        let mut gone = Vec::new();
        for (page, ppa) in places {
            let unit = self.pages.unit(page);
            match self.inner.flash.spare(ppa).filter(|spare| spare.lpa == unit) {
                Some(spare) => _ = latest.insert(page, (spare.sequence, ppa)),
                None if !self.copies.contains_key(&unit) || self.may_be_left(ppa) => gone.push((unit, ppa)),
                None => {}
            }
        }
        for (unit, copy) in self.search(gone).await {
            // The base state's pages say nothing.
            if let (UnitKind::Map(page), 1..) = (space.kind(unit), copy.number) {
                latest.insert(page as u32, (copy.sequence, copy.at));
            }
        }
        #[expect(
            clippy::iter_over_hash_type,
            reason = "each page has its own place: the order shows nowhere"
        )]
        for (lpa, copy) in &self.copies {
            let UnitKind::Map(page) = space.kind(*lpa) else { continue };
            // A mark says all that had settled. A collector may have been moving what it has taken the place of.
            let is_marked = self.map.get(*lpa) == Entry::UNMAPPED;
            if is_marked && copy.sequence < self.root.settled {
                continue;
            }
            let found = latest.entry(page as u32).or_insert((copy.sequence, copy.at));
            if copy.sequence > found.0 {
                *found = (copy.sequence, copy.at);
            }
        }
        let mut latest: Vec<(u32, (u64, Ppa))> = latest.into_iter().collect();
        latest.sort_unstable();
        for (page, (reflects, ppa)) in latest {
            self.read(ppa).await;
            self.load_page(page, reflects, ppa).await?;
        }
        self.await_reads().await;
        self.copies.retain(|lpa, _| *lpa < space.user);
        Ok(())
    }

    async fn load_page(&mut self, page: u32, reflects: u64, ppa: Ppa) -> Result<(), String> {
        let mut bytes = [0; UNIT_BYTES];
        let Some(content) = self.inner.flash.intact(ppa).await else {
            let Range { start, end } = self.pages.units(page);
            return Err(format!(
                "translation page {page} (unit {} of the array), which says where logical units {start} to {} are, is \
                 damaged",
                ppa.0,
                end - 1
            ));
        };
        content.write_to(&mut bytes);
        self.map.set(self.pages.unit(page), Entry::flash(ppa));
        self.reflects.insert(page, reflects);
        for (lpa, entry) in page::decode(&bytes, self.inner.space, page) {
            // It may have been marked as nowhere before.
            if entry != self.map.get(lpa) {
                self.map.set(lpa, entry);
            }
        }
        Ok(())
    }

    /// Pages that say of all units that they are nowhere.
    fn mark_pages(&mut self, first: u32, count: u32) {
        let end = first.saturating_add(count).min(self.pages.count());
        if first < end {
            self.map.unmap(self.pages.unit(first)..self.pages.unit(end));
        }
        let units = self.pages.units(first).start..self.inner.space.user.min(self.pages.units(end).start);
        self.map.unmap(units);
    }

    /// Finds the latest state of every unit of which a copy was found, and lets deallocations end states. Gives how many
    /// units are where a copy was found and not where a page says.
    fn decide(&mut self, trims: &[Trim]) -> u64 {
        let mut copies: Vec<(u64, Copy)> = self.copies.iter().map(|(lpa, copy)| (*lpa, *copy)).collect();
        copies.sort_unstable_by_key(|(lpa, _)| *lpa);
        let mut winners: Vec<Winner> = copies.into_iter().map(|(lpa, copy)| self.winner(lpa, copy)).collect();
        let mut trims = trims.to_vec();
        trims.sort_unstable_by_key(|trim| trim.sequence);
        for Trim { first, count, sequence } in trims {
            let end = first.saturating_add(count).min(self.inner.space.user);
            if first >= end {
                continue;
            }
            let from = winners.partition_point(|winner| winner.lpa < first);
            let ended = winners[from..].iter_mut().take_while(|winner| winner.lpa < end);
            for winner in ended.filter(|winner| winner.sequence < sequence) {
                winner.entry = Entry::UNMAPPED;
            }
            // Of units without a copy there is nothing that is newer than the root.
            self.map.unmap(first..end);
            self.pages.deallocated(first, end);
        }
        let mut recovered = 0;
        for Winner { lpa, entry, written, .. } in &winners {
            recovered += u64::from(entry != written);
            if *entry != self.map.get(*lpa) {
                self.map.set(*lpa, *entry);
            }
            if entry != written {
                self.pages.changed(*lpa);
            }
        }
        self.forget_what_is_gone();
        recovered
    }

    fn winner(&self, lpa: u64, copy: Copy) -> Winner {
        let inner = self.inner;
        let written = self.map.get(lpa);
        let reflects =
            self.reflects.get(&inner.space.page_of(lpa)).copied().unwrap_or(0).max(self.root.settled);
        let place = match written.place() {
            Place::Base => inner.base.find(lpa),
            Place::Flash(ppa) => Some(ppa),
            Place::Unmapped | Place::Slot(_) => None,
        };
        // What the page says, if that is there.
        let said = match place {
            None => Some(0),
            Some(_) if written == Entry::BASE => self.is_in_base(lpa).then_some(0),
            Some(ppa) => inner.flash.spare(ppa).filter(|spare| spare.lpa == lpa).map(|spare| spare.sequence),
        };
        let is_newer = |sequence| match inner.config.canary {
            Some(Canary::OlderCopy) => copy.sequence < sequence,
            _ => copy.sequence >= reflects && copy.sequence > sequence,
        };
        match said {
            Some(sequence) if !is_newer(sequence) => Winner { lpa, sequence, entry: written, written },
            _ => Winner { lpa, sequence: copy.sequence, entry: Entry::flash(copy.at), written },
        }
    }

    /// Looks for units whose places are gone in all stripes of those dies: what a collector had moved went back to where
    /// it was when its superblock was left (see `duplicates`), and that may be older than the root. In the order of
    /// the units, of each the latest state. Nothing newer can be there: it would have been found.
    async fn search(&mut self, mut gone: Vec<(u64, Ppa)>) -> Vec<(u64, Copy)> {
        let geometry = self.inner.geometry;
        gone.sort_unstable();
        let mut dies: Vec<u32> = gone.iter().map(|(_, ppa)| geometry.die_of(*ppa)).collect();
        dies.sort_unstable();
        dies.dedup();
        let blocks = dies.into_iter().filter(|die| *die < geometry.dies());
        let mut found: Vec<(u64, Copy)> = Vec::new();
        for block in blocks.flat_map(|die| (0..geometry.blocks).map(move |block| geometry.block(die, block)))
        {
            for stripe in 0..self.found[block.0 as usize].programmed {
                let start = geometry.ppa(block, stripe, 0);
                self.read(start).await;
                self.stripes_scanned += 1;
                let Some(number) = self.inner.flash.stripe_number(block, stripe) else { continue };
                for at in (start.0..start.0 + u64::from(geometry.units_per_stripe())).map(Ppa) {
                    let Some(spare) = self.inner.flash.spare(at) else { continue };
                    if gone.binary_search_by_key(&spare.lpa, |(lpa, _)| *lpa).is_ok() {
                        found.push((spare.lpa, Copy { sequence: spare.sequence, number, at }));
                    }
                }
            }
        }
        self.await_reads().await;
        found.sort_unstable_by_key(|(lpa, copy)| (*lpa, std::cmp::Reverse((copy.sequence, copy.number))));
        found.dedup_by_key(|(lpa, _)| *lpa);
        found
    }

    /// Units of which older states were found than the page reflects, and what the page says is no more: if it was left,
    /// the state that the page reflects is elsewhere in its die.
    async fn look_again(&mut self) {
        if !self.left.contains(&true) {
            return;
        }
        let gone = self.copies.iter().filter_map(|(lpa, copy)| {
            let Place::Flash(ppa) = self.map.get(*lpa).place() else { return None };
            let reflects = self
                .reflects
                .get(&self.inner.space.page_of(*lpa))
                .copied()
                .unwrap_or(0)
                .max(self.root.settled);
            let is_gone = self.inner.flash.spare(ppa).is_none_or(|spare| spare.lpa != *lpa);
            (is_gone && copy.sequence < reflects && self.may_be_left(ppa)).then_some((*lpa, ppa))
        });
        let gone = gone.collect();
        for (lpa, copy) in self.search(gone).await {
            self.note(lpa, copy);
        }
    }

    /// Finds the units again that have gone back to where they were. Gives how many.
    async fn find_gone(&mut self) -> u64 {
        let gone = std::mem::take(&mut self.gone);
        let found = self.search(gone).await;
        for (lpa, copy) in &found {
            let entry = if copy.number == 0 { Entry::BASE } else { Entry::flash(copy.at) };
            self.map.set(*lpa, entry);
        }
        found.len() as u64
    }

    /// Whether a unit still lies where the base state has it.
    fn is_in_base(&self, lpa: u64) -> bool {
        let place = self.inner.base.find(lpa);
        place.is_some_and(|ppa| self.found[self.inner.geometry.block_of(ppa).0 as usize].is_base)
    }

    /// What a page says of a superblock that was erased since is no more: whatever it was has been followed by something
    /// else, which was found, or deallocated. To be sure, no entry may lead to what is another's.
    fn forget_what_is_gone(&mut self) {
        let inner = self.inner;
        let mut gone: Vec<(u64, Entry)> = Vec::new();
        self.map.each_kept(0..inner.space.units(), |lpa, entry| {
            let is_gone = match entry.place() {
                Place::Flash(ppa) => {
                    ppa.0 >= inner.geometry.total_units()
                        || self.changed[inner.geometry.block_of(ppa).0 as usize]
                            && inner.flash.spare(ppa).is_none_or(|spare| spare.lpa != lpa)
                }
                Place::Slot(_) => true,
                Place::Base | Place::Unmapped => false,
            };
            if is_gone {
                gone.push((lpa, entry));
            }
        });
        for (lpa, entry) in gone {
            if let (Place::Flash(ppa), UnitKind::User) = (entry.place(), inner.space.kind(lpa)) {
                self.gone.push((lpa, ppa));
            }
            self.map.set(lpa, Entry::UNMAPPED);
            self.pages.changed(lpa);
        }
        for page in self.pages_gone() {
            if self.map.get(page) == Entry::BASE {
                self.map.set(page, Entry::UNMAPPED);
            }
        }
    }

    /// The base state's translation pages that are not there any more; they said nothing. They are found by what was in
    /// superblocks that have changed, or one by one, whichever is less.
    fn pages_gone(&self) -> Vec<u64> {
        let (base, geometry) = (&self.inner.base, &self.inner.geometry);
        if !base.holds_pages() {
            return Vec::new();
        }
        let own = self.pages.unit(0)..self.pages.unit(self.pages.count());
        let stripes = |block: &BlockId| base.stripes(*block).min(geometry.pages);
        let changed = (0..geometry.total_blocks()).map(BlockId);
        let changed = changed.filter(|block| stripes(block) > 0 && !self.found[block.0 as usize].is_base);
        let units = |block: BlockId| {
            let first = geometry.ppa(block, 0, 0).0;
            (first..first + u64::from(stripes(&block) * geometry.units_per_stripe())).map(Ppa)
        };
        let looks = changed.clone().map(|block| units(block).count() as u64).sum::<u64>();
        match looks < own.end - own.start {
            true => changed
                .flat_map(units)
                .filter_map(|ppa| base.lpa(ppa))
                .filter(|unit| own.contains(unit))
                .collect(),
            false => own.filter(|unit| base.find(*unit).is_some() && !self.is_in_base(*unit)).collect(),
        }
    }

    /// Superblocks whose erase was cut off are erased again. They hold nothing.
    async fn erase_unstable(&mut self) {
        let flash = &self.inner.flash;
        let is_unstable = |block| flash.is_unstable(block) && !flash.is_bad(block);
        for block in (0..self.inner.geometry.total_blocks()).map(BlockId) {
            if is_unstable(block) {
                flash.submit_erase(block, Priority::Collector, &self.ticket);
            }
        }
        self.await_reads().await;
        // What failed is bad.
        let flash = &self.inner.flash;
        let failed = (0..self.inner.geometry.total_blocks()).map(BlockId);
        failed.filter(|block| flash.is_unstable(*block)).for_each(|block| flash.mark_bad(block));
    }

    /// A tree of extents is made of the numbers of stripes: those that hold something and were not read above are read.
    async fn read_numbers(&mut self) {
        if self.inner.config.extents.is_none() {
            return;
        }
        // All that is programmed across a link was read when that was taken up.
        let is_far = self.inner.flash.own().is_none();
        let geometry = &self.inner.geometry;
        let units = u64::from(geometry.units_per_stripe());
        let mut holds = vec![false; (geometry.total_units() / units) as usize];
        self.map.each_kept(0..self.inner.space.user, |_, entry| {
            if let Place::Flash(ppa) = entry.place() {
                holds[(ppa.0 / units) as usize] = true;
            }
        });
        for (index, _) in (0..).zip(&holds).filter(|(_, holds)| **holds) {
            let first = Ppa(index * units);
            let number = self.inner.flash.stripe_number(geometry.block_of(first), geometry.stripe_of(first));
            let is_read = |number| is_far || number >= self.root.first_stripe;
            if !number.is_some_and(is_read) {
                self.read(first).await;
                self.stripes_scanned += 1;
            }
        }
        self.await_reads().await;
    }

    /// How many units are valid in each superblock.
    fn count(&self) -> Vec<u32> {
        let (inner, geometry) = (self.inner, &self.inner.geometry);
        let own = self.pages.unit(0)..self.pages.unit(self.pages.count());
        let mut counts = vec![0; geometry.total_blocks() as usize];
        let mut gain = |_, entry: Entry| {
            if let Place::Flash(ppa) = entry.place() {
                counts[geometry.block_of(ppa).0 as usize] += 1;
            }
        };
        self.map.each_kept(0..inner.space.units(), &mut gain);
        if inner.config.base == Base::Empty {
            return counts;
        }
        let is_all_deallocated = self.map.is_all_deallocated();
        for block in (0..geometry.total_blocks()).map(BlockId) {
            if self.found[block.0 as usize].is_base && !is_all_deallocated {
                counts[block.0 as usize] += inner.base.valid(block);
            }
        }
        let mut lose = |lpa, _| {
            if self.is_in_base(lpa)
                && let Some(ppa) = inner.base.find(lpa)
            {
                counts[geometry.block_of(ppa).0 as usize] -= 1;
            }
        };
        if !is_all_deallocated {
            self.map.each_changed(0..inner.space.units(), &mut lose);
        } else if inner.base.holds_pages() {
            // Of a drive of which nothing is where it was, only translation pages are left to be counted.
            for lpa in own.filter(|lpa| self.map.get(*lpa) == Entry::BASE && self.is_in_base(*lpa)) {
                inner
                    .base
                    .find(lpa)
                    .into_iter()
                    .for_each(|ppa| counts[geometry.block_of(ppa).0 as usize] += 1);
            }
        }
        counts
    }

    /// All that was found becomes the state of the translation layer.
    fn install(self, journal: Journal, is_clean: bool, recovered: u64) {
        let counts = self.count();
        let Recovery { inner, root, found, map, pages, next_sequence, next_number, stripes_scanned, .. } =
            self;
        let mut guard = inner.state.borrow_mut();
        let state = &mut *guard;
        let (geometry, config) = (inner.geometry, &inner.config);
        let (marks, found) = (Marks::of(&inner.flash), |block: BlockId| found[block.0 as usize]);
        let cache_pages = state.blocks.cache_pages();
        state.blocks = Blocks::recovered(geometry, &inner.base, config, cache_pages, marks, counts, found);
        (state.map.table, state.map.pages, state.journal) = (map, pages, journal);
        state.make_extents(inner);
        *state.buffer.counter() = next_sequence;
        state.filling.next_number = next_number;
        state.checkpoints.recovered(&root, is_clean);
        state.counters.stripes_scanned = stripes_scanned;
        state.counters.units_recovered = recovered;
        (0..inner.geometry.dies()).for_each(|die| state.refresh(die));
    }
}

impl State {
    /// Makes the tree of extents, if the map is one, of what the map says, in the order of the units.
    fn make_extents(&mut self, inner: &Inner) {
        let Some(extents) = &mut self.map.extents else { return };
        extents.clear();
        self.map.table.each_kept(0..inner.space.user, |lpa, _| extents.note(lpa));
        inner.settle_extents(self);
    }
}

impl Inner {
    /// Puts what capacitors have saved into the buffer again, as if it were written now. There is a slot for each unit.
    async fn restore_saved(&self) {
        if self.config.canary == Some(Canary::ForgetDump) {
            return;
        }
        let units = self.power.saved.borrow().as_ref().map(|dump| dump.units.clone()).unwrap_or_default();
        for (spare, content) in units {
            if spare.lpa >= self.space.user {
                continue;
            }
            let permit = self.credits.acquire(1).await;
            let slot = self.state.borrow_mut().buffer_unit(spare.lpa, content, NOBODY, Route::OWN);
            permit.forget();
            if slot.is_none() {
                self.credits.release(1);
            }
            self.dispatch();
        }
        // They lie over what was buffered. There may be more of them than have room now; they are merged soon.
        let parts = self.power.saved.borrow().as_ref().map(|dump| dump.parts.clone()).unwrap_or_default();
        let state = &mut *self.state.borrow_mut();
        for (spare, content) in parts.iter().filter(|(spare, _)| spare.lpa < self.space.user) {
            state.parts.restore(spare.lpa, content);
        }
    }

    /// Dies without a free superblock have something to do.
    fn rouse_cornered(&self) {
        for die in 0..self.geometry.dies() {
            if self.state.borrow().blocks.free(die) == 0 {
                self.signals.collectors[die as usize].notify_one();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ftl::Ftl;
    use crate::ftl::Placement;
    use crate::ftl::config::FtlConfig;
    use crate::ftl::durable::root::PageRun;
    use crate::site::Site;
    use crate::work::Cycles;
    use byteway_clock::{Delay, Executor, Rate, SpanId, Spans};
    use byteway_flash::{Flash, Geometry, Medium, Spare, Timing};
    use byteway_wire::content::Content;

    const GEOMETRY: Geometry =
        Geometry { channels: 1, ways: 1, planes: 1, blocks: 8, pages: 6, page_bytes: 8192 };

    fn power_on(executor: &Executor, medium: Medium) -> Ftl {
        let clock = executor.clock();
        let site = Site::new(clock, 1, 1_000_000_000, Delay::ZERO, Rate::per_second(10_000_000_000));
        let placement = Placement::all_at(&site, Cycles::FREE);
        Ftl::power_on(clock, placement, GEOMETRY, timing(), config(), medium).unwrap()
    }

    fn timing() -> Timing {
        let us = Delay::from_us;
        Timing { read: vec![us(40)], program: vec![us(300)], erase: us(3000), ..Timing::default() }
    }

    fn config() -> FtlConfig {
        FtlConfig { user_units: 40, ..FtlConfig::default() }
    }

    // A root comes from files: one that is whole, and names pages and places that the drive has not, must not end the process.
    #[test]
    fn a_root_of_pages_that_are_not_there_is_survived() {
        let executor = Executor::new();
        let ftl = power_on(&executor, Ftl::medium(GEOMETRY, &config()).unwrap());
        let inner = ftl.clone();
        let main = async move {
            let spans = Spans::default();
            let mut contents = vec![Content::Zero; 40];
            inner.write(SpanId::NONE, &spans, 0, &mut contents, true).await.unwrap();
            inner.shutdown(SpanId::NONE, &spans).await.unwrap();
            for slot in [0, 1] {
                let Some(bytes) = inner.flash().read_root(slot).await else { continue };
                let mut root = Root::decode(&bytes).unwrap();
                let runs = root.pages.clone();
                assert!(!runs.is_empty());
                let wrong = |first, place| PageRun { first, count: u32::MAX, place };
                root.pages.extend(runs.iter().map(|run| wrong(run.first + 7, run.place)));
                root.pages.push(wrong(u32::MAX, Entry::UNMAPPED));
                root.pages.push(wrong(0, Entry::flash(Ppa(1 << 30))));
                root.moving.push((u32::MAX, u32::MAX));
                inner.flash().write_root(slot, root.encode()).await;
            }
            inner.power_off()
        };
        let medium = executor.run(main).unwrap();
        let executor = Executor::new();
        let ftl = power_on(&executor, medium);
        executor.run(async move { ftl.ready().await }).unwrap();
    }

    // So do spare areas: a collector looked up units that the drive has not.
    #[test]
    fn units_that_are_not_there_are_survived() {
        let executor = Executor::new();
        let flash =
            Flash::new(executor.clock(), GEOMETRY, timing(), Ftl::medium(GEOMETRY, &config()).unwrap());
        let main = async move {
            for block in 0..6 {
                for stripe in 0..GEOMETRY.pages {
                    let mut batch = flash.take_batch();
                    batch.number = u64::from(block * GEOMETRY.pages + stripe + 1);
                    let spares = [45, 1 << 30].map(|lpa| Spare { lpa, sequence: batch.number });
                    batch.units.extend(spares.map(|spare| (spare, Content::Zero)));
                    assert!(
                        !flash.program(BlockId(block), stripe, batch, Priority::HostProgram).await.failed
                    );
                }
            }
            flash.power_off(false)
        };
        let medium = executor.run(main).unwrap();
        let executor = Executor::new();
        let ftl = power_on(&executor, medium);
        let main = async move {
            let spans = Spans::default();
            for _ in 0..10 {
                ftl.write(SpanId::NONE, &spans, 0, &mut vec![Content::Zero; 40], true).await.unwrap();
            }
            ftl.counters().blocks_collected
        };
        assert!(executor.run(main).unwrap() > 6);
    }
}
