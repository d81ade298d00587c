//! Recovery of the translation layer's state at power-on.
//!
//! 1. The root: the locations of the translation pages at the last checkpoint, and the stripe from which on
//!    to scan.
//! 2. A look at the first and the last stripe of each superblock: numbers ascend within one, so this shows
//!    which superblocks hold stripes from there on. Those are read: the spare area of each unit names the
//!    unit and its version.
//! 3. The latest version of each translation page. It reflects everything before a sequence number, so older
//!    versions of units found in step 2 count only if the location in the page no longer holds the unit.
//! 4. Deallocations from the journal: each ends the versions of its units with lower numbers.
//! 5. The save of the capacitors returns to the buffer.
//!
//! All of this depends on the medium alone, and nothing is written before it is complete except erases of
//! empty superblocks, so another power cut changes nothing. What was found will be found again: a readable
//! stripe stays as it is until its superblock is erased, since superblocks that end within a wordline take no
//! more programs.
//!
//! A scan of spare areas, rather than a log of writes: spare areas are programmed with the data anyway, so a write costs
//! nothing more, and the price is paid at power-on. Checkpoints bound it.
//!
//! What it does not do: a read that fails here, by an error model or a fault plan, takes its time and is
//! treated as successful.
//!
//! Damage happens only in files. A translation page that is not where the root says, or not intact, loses its
//! units, apart from later versions; so does a location in a page that no longer holds the unit. Lost units
//! read as errors, or the start is refused, as configured. If what was written since the root cannot be told
//! from its spare areas, the start is refused: any unit could have been there, and read as an older version.
//!
//! Why an old version never returns: it would have to exist without a newer one. A newer version is erased
//! only after it was moved, or was followed by a still newer one that is safe in flash, or was deallocated by
//! a record in the journal; and a record leaves the journal only when a root is written whose pages reflect
//! it.

use crate::ftl::blocks::{Blocks, Marks, RecoveredBlock};
use crate::ftl::buffer::UNTRACED;
use crate::ftl::config::{Base, Defect};
use crate::ftl::core::Core;
use crate::ftl::finding::{Disagreement, Losses, UnitContent};
use crate::ftl::journal::root::Root;
use crate::ftl::journal::writer::want_checkpoint;
use crate::ftl::journal::{self, Journal, Trim};
use crate::ftl::map::extents::Log;
use crate::ftl::map::page;
use crate::ftl::map::pages::Pages;
use crate::ftl::map::table::{Entry, EntryKind, Table};
use crate::ftl::space::UnitKind;
use crate::ftl::write::buffering::buffer_unit;
use crate::ftl::write::dispatch::dispatch;
use crate::placement::Route;
use byteway_content::UNIT_BYTES;
use byteway_flash::{BlockId, Dump, Mode, Ppa, Priority, Ticket};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::rc::Rc;

/// Reads in flight for each die.
const READS_PER_DIE: u32 = 64;

/// A version of a unit found in a stripe.
#[derive(Clone, Copy)]
struct Copy {
    sequence: u64,
    /// Number of the stripe.
    number: u64,
    at: Ppa,
}

/// A unit, and the outcome for it.
struct Winner {
    lpa: u64,
    sequence: u64,
    entry: Entry,
    /// Map entry according to the translation page.
    written: Entry,
}

struct Recovery<'a> {
    core: &'a Core,
    root: Root,
    ticket: Ticket,
    reads: u32,
    /// Recovered state by superblock.
    found: Vec<RecoveredBlock>,
    /// Superblocks with erases or programs since the root: locations in them according to a page may be
    /// outdated.
    changed: Vec<bool>,
    /// The best copy of each unit. Iterated only to be sorted.
    copies: FxHashMap<u64, Copy>,
    /// For translation pages found: everything before this sequence number is reflected.
    reflects: FxHashMap<u32, u64>,
    map: Table,
    pages: Pages,
    /// Dies whose collectors have left a superblock since the root (see `duplicates`).
    left: Vec<bool>,
    /// Units whose location according to a page is outdated, and of which no copy was found.
    gone: Vec<(u64, Ppa)>,
    /// Lost translation pages, with their address according to the root, and whether they are there.
    lost_pages: Vec<(u32, Ppa, bool)>,
    /// Lost units of other pages, with their address according to the page.
    lost_units: Vec<(u64, Ppa)>,
    next_sequence: u64,
    next_number: u64,
    stripes_scanned: u64,
}

/// The recovery task. All requests to the translation layer wait for it.
pub(in crate::ftl) async fn run(core: Rc<Core>) {
    let began = core.clock.now();
    let roots = [core.flash.read_root(0).await, core.flash.read_root(1).await];
    let roots: Vec<Option<Root>> = roots.iter().flatten().map(|bytes| Root::decode(bytes)).collect();
    let pages = core.flash.read_journal().await;
    if roots.contains(&None) || pages.iter().any(|page| journal::decode(page).next().is_none()) {
        return core.flash.refuse("a root of the map, or a record of deallocations, is damaged".to_owned());
    }
    let root = roots.into_iter().flatten().max_by_key(|root| root.generation).unwrap_or_default();
    let saved = core.power.saved();
    let mut trims: Vec<Trim> = pages.iter().flat_map(|page| journal::decode(page)).collect();
    trims.extend(journal::decode(&saved.records));
    let last_of = |page: &Rc<[u8]>| journal::decode(page).last().map_or(0, |trim| trim.sequence);
    let last_records: VecDeque<u64> = pages.iter().map(last_of).collect();

    let mut recovery = Recovery::new(&core, root);
    recovery.note_left(&trims);
    recovery.look_at_blocks().await;
    if let Err(why) = recovery.replay().await {
        return core.flash.refuse(why);
    }
    recovery.load_pages().await;
    recovery.look_again().await;
    let before = trims.len();
    // Pages reflect everything before `settled`, deallocations included.
    trims.retain(|trim| trim.sequence >= recovery.root.settled);
    let is_clean = recovery.root.is_clean && recovery.copies.is_empty() && before == 0;
    if core.config.defect.has(Defect::IgnoreTrims) {
        trims.clear();
    }
    let recovered = recovery.decide(&trims) + recovery.find_gone().await;
    let losses = recovery.losses();
    if let Some(first) = losses.findings.first()
        && !core.config.accepts_losses
    {
        // Only the operator of the drive can be informed.
        let more = match losses.findings.len() - 1 {
            0 => String::new(),
            more => format!(" (and {more} more like it)"),
        };
        return core.flash.refuse(format!("{first}{more}"));
    }
    recovery.erase_unstable().await;
    recovery.read_numbers().await;
    let pending = journal::decode(&saved.records).collect();
    let journal = Journal::recovered(core.space, last_records, pending);
    for trim in &trims {
        recovery.next_sequence = recovery.next_sequence.max(trim.sequence + 1);
    }
    recovery.install(journal, is_clean, recovered);
    core.state.borrow_mut().counters.units_lost += losses.units;
    core.power.note_losses(losses);
    core.pay_for_changes().await;
    restore_saved(&core, saved).await;
    core.power.take_saved();
    if core.state.borrow().blocks.is_exhausted() {
        core.end_life(&mut core.state.borrow_mut());
    }
    core.state.borrow_mut().counters.recovery_time = core.clock.now().since(began);
    if core.state.borrow().parts.is_urgent() {
        core.signals.mergers.notify_one();
    }
    // Last: a request may start in the same instant.
    core.power.set_ready();
    rouse_cornered(&core);
    if core.state.borrow().journal.is_half_full() {
        want_checkpoint(&core);
    }
}

impl<'a> Recovery<'a> {
    fn new(core: &'a Core, root: Root) -> Self {
        let blocks = core.geometry.total_blocks() as usize;
        Recovery {
            core,
            ticket: core.flash.ticket(),
            reads: 0,
            found: vec![RecoveredBlock::default(); blocks],
            changed: vec![false; blocks],
            copies: FxHashMap::default(),
            reflects: FxHashMap::default(),
            map: Table::new(core.space),
            pages: Pages::new(core.space, core.config.map_cache_pages.is_some()),
            left: vec![false; core.geometry.dies() as usize],
            gone: Vec::new(),
            lost_pages: Vec::new(),
            lost_units: Vec::new(),
            next_sequence: root.next_sequence.max(root.settled).max(1),
            next_number: root.next_number.max(root.first_stripe).max(1),
            stripes_scanned: 0,
            root,
        }
    }

    /// Notes which dies' collectors have left a superblock since the root.
    fn note_left(&mut self, trims: &[Trim]) {
        for trim in trims.iter().filter(|trim| trim.sequence >= self.root.settled) {
            let dies = trim.dies_left(self.core.space.user);
            let left = self.left.iter_mut().skip(dies.start as usize);
            left.take((dies.end - dies.start) as usize).for_each(|left| *left = true);
        }
    }

    /// Whether an outdated location may have been in a superblock that was left.
    fn may_be_left(&self, ppa: Ppa) -> bool {
        self.left.get(self.core.geometry.die_of(ppa) as usize).is_some_and(|left| *left)
    }

    /// Reads a stripe's spare area, or a unit of it: both take a read of the stripe.
    async fn read(&mut self, ppa: Ppa) {
        let mask = 1 << self.core.geometry.unit_of_stripe(ppa);
        self.core.flash.submit_read(ppa, mask, Priority::HostRead, &self.ticket);
        self.reads += 1;
        if self.reads >= READS_PER_DIE * self.core.geometry.dies() {
            self.await_reads().await;
        }
    }

    async fn await_reads(&mut self) {
        self.ticket.wait().await;
        self.ticket.clear();
        self.reads = 0;
    }

    /// Finds out how far each superblock is programmed, and its stripe numbers. Superblocks still in the base
    /// state cost nothing.
    async fn look_at_blocks(&mut self) {
        let (flash, geometry) = (&self.core.flash, self.core.geometry);
        let wordline = self.core.state.borrow().filling.wordline();
        // Round-robin over the dies, so that all of them read in parallel.
        let turns = (0..geometry.blocks).flat_map(|block| (0..geometry.dies()).map(move |die| (die, block)));
        for block in turns.map(|(die, block)| geometry.block(die, block)) {
            let programmed = flash.programmed_stripes(block);
            let pages = flash.stripes_of(block);
            let wordline = if flash.mode(block) == Mode::OneBit { 1 } else { wordline };
            let base_stripes = self.core.base.stripes(block);
            let is_touched =
                flash.erases_since_made(block) > 0 || flash.is_unstable(block) || programmed != base_stripes;
            if is_touched {
                self.read(geometry.ppa(block, 0, 0)).await;
                // The last stripe if all are programmed, otherwise a binary search for the first that is not.
                let looks = if programmed == pages { 1 } else { pages.ilog2() + 1 };
                for look in 0..looks {
                    let stripe = (pages - 1) >> look;
                    self.read(geometry.ppa(block, stripe, 0)).await;
                }
            }
            // From the end backwards, since the last stripes may be torn.
            debug_assert!(
                // One that is in one-bit mode now may have held more in the base state.
                programmed <= pages && (base_stripes <= pages || flash.erases_since_made(block) > 0),
                "a superblock has more than it holds"
            );
            let last = (0..programmed).rev().find_map(|stripe| flash.stripe_number(block, stripe));
            self.found[block.0 as usize] = RecoveredBlock {
                programmed,
                last: last.unwrap_or(0),
                is_base: base_stripes > 0 && flash.stripe_number(block, 0) == Some(0),
                can_go_on: programmed < pages && programmed.is_multiple_of(wordline),
                is_one_bit: flash.mode(block) == Mode::OneBit,
            };
            self.changed[block.0 as usize] = is_touched
                && (programmed == 0
                    || self.first_number(block).is_none_or(|number| number >= self.root.first_stripe));
        }
        self.await_reads().await;
    }

    /// Reads the stripes written after the root, and their units' spare areas.
    ///
    /// # Errors
    /// Names a unit that may have been written after the root, and whose spare area is damaged.
    async fn replay(&mut self) -> Result<(), String> {
        let first = self.root.first_stripe.max(1);
        let geometry = self.core.geometry;
        let mut stripes: Vec<(BlockId, u32)> =
            self.root.moving.iter().map(|(block, stripe)| (BlockId(*block), *stripe)).collect();
        stripes.retain(|(block, stripe)| block.0 < geometry.total_blocks() && *stripe < geometry.pages);
        for block in (0..geometry.total_blocks()).map(BlockId) {
            let RecoveredBlock { programmed, last, .. } = self.found[block.0 as usize];
            let number = |stripe| self.core.flash.stripe_number(block, stripe);
            // An unreadable stripe may have come after the root, or before. At the end of a superblock it is
            // torn, or damaged.
            let later = (0..programmed).rev().take_while(|stripe| match number(*stripe) {
                Some(number) => number >= first,
                None => last >= first || self.is_nameless(geometry.ppa(block, *stripe, 0)),
            });
            stripes.extend(later.map(|stripe| (block, stripe)));
        }
        stripes.sort_unstable();
        stripes.dedup();
        for (block, stripe) in stripes {
            self.read(geometry.ppa(block, stripe, 0)).await;
            self.stripes_scanned += 1;
            let start = geometry.ppa(block, stripe, 0).0;
            let units = (start..start + u64::from(geometry.units_per_stripe())).map(Ppa);
            if let Some(unit) = units.clone().find(|unit| self.is_unknown(*unit)) {
                return Err(format!(
                    "the spare area of unit {} of the array (superblock {}, stripe {stripe}) is damaged: it may \
                     hold the latest version of any logical unit",
                    unit.0, block.0
                ));
            }
            let Some(number) = self.core.flash.stripe_number(block, stripe) else { continue };
            self.next_number = self.next_number.max(number + 1);
            for at in units {
                let Some(spare) = self.core.flash.spare(at) else { continue };
                self.next_sequence = self.next_sequence.max(spare.sequence + 1);
                let copy = Copy { sequence: spare.sequence, number, at };
                self.note(spare.lpa, copy);
            }
        }
        self.await_reads().await;
        Ok(())
    }

    /// Whether the spare area of a programmed unit is damaged, and it may hold a version that the pages of the
    /// root don't reflect. A clean root reflects everything before it.
    fn is_unknown(&self, ppa: Ppa) -> bool {
        let geometry = self.core.geometry;
        if !self.is_nameless(ppa) {
            return false;
        }
        let is_named = || self.root.pages.iter().any(|run| run.place == Entry::flash(ppa));
        let number = self.core.flash.stripe_number(geometry.block_of(ppa), geometry.stripe_of(ppa));
        let is_before = number.is_some_and(|number| number < self.root.next_number);
        !(is_before && (self.root.is_clean || is_named()))
    }

    /// Whether the spare area of a programmed unit is damaged.
    fn is_nameless(&self, ppa: Ppa) -> bool {
        self.core.flash.own().is_some_and(|flash| flash.is_nameless(ppa))
    }

    /// Notes a copy of a unit. The later version wins; of equal versions the one moved last.
    fn note(&mut self, lpa: u64, copy: Copy) {
        let rank = |copy: &Copy| (copy.sequence, copy.number);
        let best = self.copies.entry(lpa).or_insert(copy);
        let is_better = match self.core.config.defect.has(Defect::OlderCopy) {
            true => rank(&copy) < rank(best),
            false => rank(&copy) > rank(best),
        };
        if is_better {
            *best = copy;
        }
    }

    /// Loads the translation pages: of each the version that reflects most, and among equals the one that the
    /// root names. A page that is not there, or is damaged, loses its units.
    async fn load_pages(&mut self) {
        let space = self.core.space;
        let runs = std::mem::take(&mut self.root.pages);
        let mut places: Vec<(u32, Ppa)> = Vec::new();
        for run in &runs {
            match run.place.kind() {
                EntryKind::Flash(ppa) if run.first < self.pages.count() => places.push((run.first, ppa)),
                EntryKind::Flash(_) => {} // from another drive's files: no such page exists
                _ => self.mark_pages(run.first, run.count),
            }
        }
        let mut latest: FxHashMap<u32, (u64, Ppa)> = FxHashMap::default();
        let (mut gone, mut missing) = (Vec::new(), Vec::new());
        for (page, ppa) in places {
            let unit = self.pages.unit(page);
            match self.core.flash.spare(ppa).filter(|spare| spare.lpa == unit) {
                Some(spare) => _ = latest.insert(page, (spare.sequence, ppa)),
                None => {
                    missing.push((page, ppa));
                    // The location may be outdated because a superblock was left; then the page is elsewhere
                    // in the die.
                    if !self.copies.contains_key(&unit) || self.may_be_left(ppa) {
                        gone.push((unit, ppa));
                    }
                }
            }
        }
        for (unit, copy) in self.search(gone).await {
            // Pages of the base state are empty.
            if let (UnitKind::Map(page), 1..) = (space.kind(unit), copy.number) {
                latest.insert(page as u32, (copy.sequence, copy.at));
            }
        }
        #[expect(
            clippy::iter_over_hash_type,
            reason = "each page has its own entry: the order has no effect"
        )]
        for (lpa, copy) in &self.copies {
            let UnitKind::Map(page) = space.kind(*lpa) else { continue };
            // A mark covers everything settled. A collector may have been moving the page that it replaced.
            let is_marked = self.map.get(*lpa) == Entry::UNMAPPED;
            if is_marked && copy.sequence < self.root.settled {
                continue;
            }
            let found = latest.entry(page as u32).or_insert((copy.sequence, copy.at));
            if copy.sequence > found.0 {
                *found = (copy.sequence, copy.at);
            }
        }
        for (page, ppa) in missing {
            // Nothing was moved where nothing was erased since: a version elsewhere is older then.
            let is_moved = || !self.is_opened_before(ppa, self.root.next_number);
            let is_same = |reflects| reflects >= self.root.settled || is_moved();
            if !latest.get(&page).is_some_and(|(reflects, _)| is_same(*reflects)) {
                latest.remove(&page);
                self.lose_page(page, ppa, false);
            }
        }
        let mut latest: Vec<(u32, (u64, Ppa))> = latest.into_iter().collect();
        latest.sort_unstable();
        for (page, (reflects, ppa)) in latest {
            self.read(ppa).await;
            self.load_page(page, reflects, ppa).await;
        }
        self.await_reads().await;
        self.copies.retain(|lpa, _| *lpa < space.user);
    }

    /// Whether a superblock was opened before a stripe was numbered, and not erased since.
    fn is_opened_before(&self, ppa: Ppa, number: u64) -> bool {
        if ppa.0 >= self.core.geometry.total_units() {
            return false;
        }
        self.first_number(self.core.geometry.block_of(ppa)).is_some_and(|first| first < number)
    }

    /// Number of the first stripe of a superblock; if that is damaged, of the next, which is larger.
    fn first_number(&self, block: BlockId) -> Option<u64> {
        let number = |stripe| self.core.flash.stripe_number(block, stripe);
        if !self.is_nameless(self.core.geometry.ppa(block, 0, 0)) {
            return number(0);
        }
        (0..self.core.flash.programmed_stripes(block)).find_map(number)
    }

    /// Loses the units of a page. Later versions and deallocations apply nevertheless.
    fn lose_page(&mut self, page: u32, ppa: Ppa, is_there: bool) {
        self.lost_pages.push((page, ppa, is_there));
        self.map.set(self.pages.unit(page), Entry::UNMAPPED);
        for lpa in self.pages.units(page) {
            self.map.set(lpa, Entry::LOST);
        }
        self.pages.changed(self.pages.units(page).start);
    }

    /// What is lost now, after everything else was found.
    fn losses(&mut self) -> Losses {
        let mut losses = Losses::default();
        self.lost_pages.sort_unstable();
        for (page, ppa, is_there) in &self.lost_pages {
            let units = self.pages.units(*page);
            let (first, last) = (units.start, units.end - 1);
            let lost = units.filter(|lpa| self.map.get(*lpa) == Entry::LOST).count() as u64;
            // A page whose units were all deallocated may be gone before the next root records it.
            if lost > 0 {
                losses.units += lost;
                let (page, unit, is_damaged) = (*page, ppa.0, *is_there);
                losses.findings.push(Disagreement::Page { page, unit, is_damaged, first, last, lost });
            }
        }
        losses.units += self.lost_units.len() as u64;
        losses.findings.extend(self.lost_units.iter().map(|(lpa, ppa)| {
            let is_there = ppa.0 < self.core.geometry.total_units();
            let spare = is_there.then(|| self.core.flash.spare(*ppa)).flatten();
            let holds = spare.map_or(UnitContent::Nothing, |spare| UnitContent::Unit(spare.lpa));
            Disagreement::Lost { lpa: *lpa, unit: ppa.0, holds }
        }));
        losses
    }

    async fn load_page(&mut self, page: u32, reflects: u64, ppa: Ppa) {
        let mut bytes = [0; UNIT_BYTES];
        let Some(content) = self.core.flash.intact(ppa).await else {
            return self.lose_page(page, ppa, true);
        };
        content.write_to(&mut bytes);
        self.map.set(self.pages.unit(page), Entry::flash(ppa));
        self.reflects.insert(page, reflects);
        for (lpa, entry) in page::decode(&bytes, self.core.space, page) {
            // A mark may have unmapped it before.
            if entry != self.map.get(lpa) {
                self.map.set(lpa, entry);
            }
        }
    }

    /// Unmaps the units of marked pages.
    fn mark_pages(&mut self, first: u32, count: u32) {
        let end = first.saturating_add(count).min(self.pages.count());
        if first < end {
            self.map.unmap(self.pages.unit(first)..self.pages.unit(end));
        }
        let units = self.pages.units(first).start..self.core.space.user.min(self.pages.units(end).start);
        self.map.unmap(units);
    }

    /// Determines the latest version of every unit with a copy, and applies deallocations. Returns the number
    /// of units found elsewhere than their page says.
    fn decide(&mut self, trims: &[Trim]) -> u64 {
        let mut copies: Vec<(u64, Copy)> = self.copies.iter().map(|(lpa, copy)| (*lpa, *copy)).collect();
        copies.sort_unstable_by_key(|(lpa, _)| *lpa);
        let mut winners: Vec<Winner> = copies.into_iter().map(|(lpa, copy)| self.winner(lpa, copy)).collect();
        let mut trims = trims.to_vec();
        // In order of sequence, so that a later deallocation prevails.
        trims.sort_unstable_by_key(|trim| trim.sequence);
        for Trim { first, count, sequence } in trims {
            let end = first.saturating_add(count).min(self.core.space.user);
            if first >= end {
                continue;
            }
            let from = winners.partition_point(|winner| winner.lpa < first);
            let ended = winners[from..].iter_mut().take_while(|winner| winner.lpa < end);
            for winner in ended.filter(|winner| winner.sequence < sequence) {
                winner.entry = Entry::UNMAPPED;
            }
            // Units without a copy have nothing newer than the root.
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
        let core = self.core;
        let written = self.map.get(lpa);
        let reflects =
            self.reflects.get(&core.space.page_of(lpa)).copied().unwrap_or(0).max(self.root.settled);
        let place = match written.kind() {
            EntryKind::Base => core.base.find(lpa),
            EntryKind::Flash(ppa) => Some(ppa),
            EntryKind::Unmapped | EntryKind::Slot(_) | EntryKind::Lost => None,
        };
        // Version at the location in the page, if it is still there.
        let said = match place {
            None => Some(0),
            Some(_) if written == Entry::BASE => self.is_in_base(lpa).then_some(0),
            Some(ppa) => core.flash.spare(ppa).filter(|spare| spare.lpa == lpa).map(|spare| spare.sequence),
        };
        let is_newer = |sequence| match core.config.defect.has(Defect::OlderCopy) {
            true => copy.sequence < sequence,
            false => copy.sequence >= reflects && copy.sequence > sequence,
        };
        match said {
            // Damaged, and not moved: it stays an error.
            None if place.is_some_and(|ppa| self.is_opened_before(ppa, self.root.first_stripe))
                && !is_newer(0) =>
            {
                Winner { lpa, sequence: 0, entry: written, written }
            }
            Some(sequence) if !is_newer(sequence) => Winner { lpa, sequence, entry: written, written },
            _ => Winner { lpa, sequence: copy.sequence, entry: Entry::flash(copy.at), written },
        }
    }

    /// Searches all stripes of the affected dies for units with outdated locations: units that a collector
    /// had moved returned to their old addresses when its superblock was left (see `duplicates`), which may
    /// be older than the root. Returns them in order of units, the latest version of each. Nothing newer can
    /// exist there: it would have been found.
    async fn search(&mut self, mut gone: Vec<(u64, Ppa)>) -> Vec<(u64, Copy)> {
        let geometry = self.core.geometry;
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
                let Some(number) = self.core.flash.stripe_number(block, stripe) else { continue };
                for at in (start.0..start.0 + u64::from(geometry.units_per_stripe())).map(Ppa) {
                    let Some(spare) = self.core.flash.spare(at) else { continue };
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

    /// Searches for units of which only versions older than their page reflects were found, and whose
    /// location in the page is outdated. If a superblock was left, the reflected version is elsewhere in its
    /// die.
    async fn look_again(&mut self) {
        if !self.left.contains(&true) {
            return;
        }
        let gone = self.copies.iter().filter_map(|(lpa, copy)| {
            let EntryKind::Flash(ppa) = self.map.get(*lpa).kind() else { return None };
            let reflects = self
                .reflects
                .get(&self.core.space.page_of(*lpa))
                .copied()
                .unwrap_or(0)
                .max(self.root.settled);
            let is_gone = self.core.flash.spare(ppa).is_none_or(|spare| spare.lpa != *lpa);
            (is_gone && copy.sequence < reflects && self.may_be_left(ppa)).then_some((*lpa, ppa))
        });
        let gone = gone.collect();
        for (lpa, copy) in self.search(gone).await {
            self.note(lpa, copy);
        }
    }

    /// Finds units that returned to their old addresses; the others are lost. Returns the number of those found.
    async fn find_gone(&mut self) -> u64 {
        let gone = std::mem::take(&mut self.gone);
        let found = self.search(gone.clone()).await;
        for (lpa, ppa) in gone {
            if found.binary_search_by_key(&lpa, |(lpa, _)| *lpa).is_err() {
                self.map.set(lpa, Entry::LOST);
                self.lost_units.push((lpa, ppa));
            }
        }
        for (lpa, copy) in &found {
            let entry = if copy.number == 0 { Entry::BASE } else { Entry::flash(copy.at) };
            self.map.set(*lpa, entry);
        }
        found.len() as u64
    }

    /// Whether a unit is still in the base state's location.
    fn is_in_base(&self, lpa: u64) -> bool {
        let place = self.core.base.find(lpa);
        place.is_some_and(|ppa| self.found[self.core.geometry.block_of(ppa).0 as usize].is_base)
    }

    /// Unmaps locations in superblocks that were erased since: such a unit returned to its old address, or
    /// damage has lost its later version. In any case no entry may lead to another unit's data.
    fn forget_what_is_gone(&mut self) {
        let core = self.core;
        let mut gone: Vec<(u64, Entry)> = Vec::new();
        self.map.each_kept(0..core.space.units(), |lpa, entry| {
            let is_gone = match entry.kind() {
                EntryKind::Flash(ppa) => {
                    ppa.0 >= core.geometry.total_units()
                        || self.changed[core.geometry.block_of(ppa).0 as usize]
                            && core.flash.spare(ppa).is_none_or(|spare| spare.lpa != lpa)
                }
                EntryKind::Slot(_) => true,
                EntryKind::Base | EntryKind::Unmapped | EntryKind::Lost => false,
            };
            if is_gone {
                gone.push((lpa, entry));
            }
        });
        for (lpa, entry) in gone {
            if let (EntryKind::Flash(ppa), UnitKind::User) = (entry.kind(), core.space.kind(lpa)) {
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

    /// Translation pages of the base state that no longer exist; they were empty. Found through the changed
    /// superblocks, or one by one, whichever takes fewer look-ups.
    fn pages_gone(&self) -> Vec<u64> {
        let (base, geometry) = (&self.core.base, &self.core.geometry);
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

    /// Erases superblocks whose erase was cut off. They are empty.
    async fn erase_unstable(&mut self) {
        let flash = &self.core.flash;
        let is_unstable = |block| flash.is_unstable(block) && !flash.is_bad(block);
        for block in (0..self.core.geometry.total_blocks()).map(BlockId) {
            if is_unstable(block) {
                flash.submit_erase(block, Priority::Collector, &self.ticket);
            }
        }
        self.await_reads().await;
        // An erase that failed again makes the superblock bad.
        let flash = &self.core.flash;
        let failed = (0..self.core.geometry.total_blocks()).map(BlockId);
        failed.filter(|block| flash.is_unstable(*block)).for_each(|block| flash.mark_bad(block));
    }

    /// Reads the stripe numbers that a tree of extents is built from, of programmed stripes not read above.
    async fn read_numbers(&mut self) {
        if self.core.config.extents.is_none() {
            return;
        }
        // Across a link, all programmed stripes were read at attach.
        let is_far = self.core.flash.own().is_none();
        let geometry = &self.core.geometry;
        let units = u64::from(geometry.units_per_stripe());
        let mut holds = vec![false; (geometry.total_units() / units) as usize];
        self.map.each_kept(0..self.core.space.user, |_, entry| {
            if let EntryKind::Flash(ppa) = entry.kind() {
                holds[(ppa.0 / units) as usize] = true;
            }
        });
        for (index, _) in (0..).zip(&holds).filter(|(_, holds)| **holds) {
            let first = Ppa(index * units);
            let number = self.core.flash.stripe_number(geometry.block_of(first), geometry.stripe_of(first));
            let is_read = |number| is_far || number >= self.root.first_stripe;
            if !number.is_some_and(is_read) {
                self.read(first).await;
                self.stripes_scanned += 1;
            }
        }
        self.await_reads().await;
    }

    /// Valid units of each superblock.
    fn count(&self) -> Vec<u32> {
        let (core, geometry) = (self.core, &self.core.geometry);
        let own = self.pages.unit(0)..self.pages.unit(self.pages.count());
        let mut counts = vec![0; geometry.total_blocks() as usize];
        let mut gain = |_, entry: Entry| {
            if let EntryKind::Flash(ppa) = entry.kind() {
                counts[geometry.block_of(ppa).0 as usize] += 1;
            }
        };
        self.map.each_kept(0..core.space.units(), &mut gain);
        if core.config.base == Base::Empty {
            return counts;
        }
        let is_all_deallocated = self.map.is_all_deallocated();
        for block in (0..geometry.total_blocks()).map(BlockId) {
            if self.found[block.0 as usize].is_base && !is_all_deallocated {
                counts[block.0 as usize] += core.base.valid(block);
            }
        }
        let mut lose = |lpa, _| {
            if self.is_in_base(lpa)
                && let Some(ppa) = core.base.find(lpa)
            {
                counts[geometry.block_of(ppa).0 as usize] -= 1;
            }
        };
        if !is_all_deallocated {
            self.map.each_changed(0..core.space.units(), &mut lose);
        } else if core.base.holds_pages() {
            // With all host units deallocated, only translation pages are left to count.
            for lpa in own.filter(|lpa| self.map.get(*lpa) == Entry::BASE && self.is_in_base(*lpa)) {
                core.base
                    .find(lpa)
                    .into_iter()
                    .for_each(|ppa| counts[geometry.block_of(ppa).0 as usize] += 1);
            }
        }
        counts
    }

    /// Installs the recovered state in the translation layer.
    fn install(self, journal: Journal, is_clean: bool, recovered: u64) {
        let counts = self.count();
        let Recovery { core, root, found, map, pages, next_sequence, next_number, stripes_scanned, .. } =
            self;
        let mut guard = core.state.borrow_mut();
        let state = &mut *guard;
        let (geometry, config) = (core.geometry, &core.config);
        let (marks, found) = (Marks::of(&core.flash), |block: BlockId| found[block.0 as usize]);
        debug_assert_eq!(state.buffer.used(), 0, "no request runs before recovery is complete");
        let cache_pages = state.blocks.cache_pages();
        let streams = (config, core.streams);
        state.blocks = Blocks::recovered(geometry, &core.base, streams, cache_pages, marks, counts, found);
        state.map.install(map, pages);
        state.journal = journal;
        state.map.make_extents(&state.buffer, Log { flash: &core.flash, geometry: &core.geometry });
        debug_assert!(next_sequence >= root.next_sequence, "versions are numbered on from the root");
        *state.buffer.counter() = next_sequence;
        state.filling.continue_from(next_number);
        state.checkpoints.recovered(&root, is_clean);
        state.counters.stripes_scanned = stripes_scanned;
        state.counters.units_recovered = recovered;
        (0..core.geometry.dies()).for_each(|die| state.refresh(die));
    }
}

/// Returns the save of the capacitors to the buffer, as if it were written now. There is a slot for each
/// unit.
async fn restore_saved(core: &Core, saved: Dump) {
    if core.config.defect.has(Defect::ForgetDump) {
        return;
    }
    for (spare, content) in saved.units {
        if spare.lpa >= core.space.user {
            continue;
        }
        let permit = core.room.acquire(1).await;
        let slot = buffer_unit(&mut core.state.borrow_mut(), spare.lpa, content, UNTRACED, Route::OWN);
        permit.forget();
        core.room.give_back(u32::from(slot.is_none()));
        dispatch(core);
    }
    // They overlay the buffered units. There may be more than fit now; they are merged soon.
    let state = &mut *core.state.borrow_mut();
    for (spare, content) in saved.parts.iter().filter(|(spare, _)| spare.lpa < core.space.user) {
        state.parts.restore(spare.lpa, content);
    }
}

/// Wakes the collectors of dies without a free superblock.
fn rouse_cornered(core: &Core) {
    for die in 0..core.geometry.dies() {
        if core.state.borrow().blocks.free(die) == 0 {
            core.collectors.call(die);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ftl::Ftl;
    use crate::ftl::Placement;
    use crate::ftl::config::FtlConfig;
    use crate::ftl::journal::root::PageRun;
    use crate::site::Site;
    use crate::work::Cycles;
    use byteway_clock::{Delay, Executor, Rate, SpanId, Spans};
    use byteway_content::Content;
    use byteway_flash::{Flash, Geometry, Medium, Spare, Timing};

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

    // A root comes from files: an intact one that names pages and addresses out of range must not end the
    // process.
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

    // The same for spare areas: a collector once looked up units out of range.
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
