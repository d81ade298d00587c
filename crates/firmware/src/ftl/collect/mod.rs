//! Garbage collection: the collector of a die empties superblocks so that some are free.
//!
//! It works in rounds, each of which reads some stripes of the victim, programs what earlier rounds read, and
//! erases what is empty. All are operations of one die, so more overlap would gain nothing. Units that do not
//! fill a stripe are carried over to the next victim, and their superblock is erased once they are
//! programmed, so nothing is padded.
//!
//! It never stalls while there is work, and never runs in circles. The host leaves it one free superblock. A
//! victim has at least a wordline of stale units, so its valid units and the carry (less than a stripe) fill
//! no more stripes than one superblock has; programming the first of these frees the previous victim. If the
//! carry must be padded because there is no other victim, a stripe is gained nevertheless. If there is no
//! victim at all, the die is full: by the check in `Ftl::new` some other die is not.
//!
//! With several streams of garbage collection there is a carry for each, and the host leaves as many free
//! superblocks as there are streams, so that each opens its own. What is said above of one stream holds for
//! all together nevertheless, as on a die that a power cut has left with one free superblock: without a free
//! one, units of a stream without an open superblock go to a stream that has one, so all stripes that are left
//! can be used; and a victim that may find no second free one begins with one carry of less than a stripe. A
//! carry is padded in its own stream, whose open superblock has a stripe for it.
//!
//! Emptying for a reason other than space (`upkeep`) may free nothing, or only at its end:
//!
//! - It starts only when a superblock is free beyond the one that the host leaves, and its data fill at most
//!   one. If they go to another stream, the carry of the first stream is padded before, and may take one
//!   more. So in the worst case two superblocks are taken, and the end frees one, or the previous victim did:
//!   the one that the host leaves is available again. Only cache superblocks free nothing; their data were
//!   not in ordinary superblocks before. Cache superblocks, and bad ones, are not erased before a superblock
//!   is free: otherwise the last one would hold data that are nowhere else, and could not be left after a
//!   power cut (`duplicates`).
//! - It waits for that superblock, which is withheld from the host meanwhile, only while there is something
//!   to empty, and starts as soon as it is available, so neither waits for the other. After it the host's
//!   turn comes first.
//! - It ends: a queue gets shorter, wear leveling runs only when a worn superblock takes cold data
//!   (`upkeep`), and idle garbage collection, or a window, chooses only victims with stale units.
//!
//! A failed program costs the collector the rest of its superblock, and gives the die a spare, which has
//! more; data that had been safely programmed in it stay there until it is retired like any other. Without a
//! spare the drive becomes read-only (`health`): a die may then be stuck, with units in the buffer, and a
//! flush fails. After a power cut the marks of bad superblocks are in the medium, so the number of spares is
//! as before; superblocks are closed early and have stale units instead, and `duplicates` handles the rest.
//!
//! | file | contents |
//! |---|---|
//! | [`collecting`] | state of the collectors |
//! | [`upkeep`] | choice of the next superblock to empty: space, wear leveling, folding |
//! | [`background`], [`idleness`] | garbage collection while the host is idle |
//! | [`window`] | garbage collection in windows that a host opens |
//! | [`refresh`] | moving data that were read too often, or are old |
//! | [`purge`] | erasing deallocated data |
//! | [`duplicates`] | recovery of a die without a free superblock after a power cut |
//! | [`nameless`] | mapped units whose spare areas are damaged |

pub(in crate::ftl) mod background;
pub(in crate::ftl) mod collecting;
pub(in crate::ftl) mod duplicates;
pub(in crate::ftl) mod idleness;
pub(in crate::ftl) mod nameless;
pub(in crate::ftl) mod purge;
pub(in crate::ftl) mod refresh;
pub(in crate::ftl) mod upkeep;
pub(in crate::ftl) mod window;

use crate::ftl::blocks::Lane;
use crate::ftl::collect::collecting::Cause;
use crate::ftl::collect::nameless::{Nameless, units_in};
use crate::ftl::collect::upkeep::Standing;
use crate::ftl::config::{Defect, ROUND_UNITS};
use crate::ftl::core::Core;
use crate::ftl::map::commits::pay_for_commits;
use crate::ftl::map::table::Entry;
use crate::ftl::retire::fail;
use crate::ftl::space::UnitKind;
use crate::ftl::state::State;
use crate::ftl::write::dispatch::dispatch;
use crate::ftl::write::standstill::rest;
use crate::hardware::FlashCommands;
use crate::work::WorkKind;
use byteway_content::Content;
use byteway_flash::{BlockId, NO_LPA, Ppa, Priority, Spare, Ticket};
use std::rc::Rc;

/// A unit that is being moved.
#[derive(Clone, Copy)]
struct Moved {
    lpa: u64,
    /// Version of the unit, which a move does not change.
    sequence: u64,
    /// Location of the unit according to the map.
    from: Entry,
    ppa: Ppa,
    victim: BlockId,
    cause: Cause,
    /// The stream that it goes to.
    stream: u8,
    /// A read of it has failed before.
    is_doubtful: bool,
}

impl Moved {
    /// Whether it is in the base state, so that its content follows from its address.
    fn is_known(&self) -> bool {
        self.from == Entry::BASE
    }
}

/// A superblock that is being emptied.
struct Emptied {
    block: BlockId,
    cause: Cause,
    /// Valid units found in it that are not programmed elsewhere yet.
    outstanding: u32,
    /// All its stripes have been scanned.
    scanned: bool,
}

impl Emptied {
    /// Whether all of its valid units are elsewhere.
    fn is_empty(&self) -> bool {
        self.scanned && self.outstanding == 0
    }
}

/// A program of a round: its stripe, and its number of units.
struct Program {
    block: BlockId,
    stripe: u32,
    units: u32,
    number: u64,
}

/// What goes to one stream.
struct Bundle {
    /// Units read and not yet programmed, and their contents.
    carry: Vec<Moved>,
    contents: Vec<Content>,
    /// Units being programmed, and their division into stripes in this round.
    flying: Vec<Moved>,
    programs: Vec<Program>,
    /// Programmed in earlier rounds, and waiting for the rest of the wordline. Their units come first in
    /// `flying`.
    held: Vec<Program>,
}

impl Bundle {
    fn new(units: usize) -> Self {
        Bundle {
            carry: Vec::with_capacity(units),
            contents: Vec::with_capacity(units),
            flying: Vec::with_capacity(units),
            programs: Vec::with_capacity(units),
            held: Vec::with_capacity(8),
        }
    }

    /// Whether units of a superblock are in it.
    fn has_units_of(&self, block: BlockId) -> bool {
        self.carry.iter().chain(&self.flying).any(|moved| moved.victim == block)
    }
}

struct Collector {
    core: Rc<Core>,
    die: u32,
    ticket: Ticket,
    /// Next stripe of the last victim to scan; None without a victim.
    next_stripe: Option<u32>,
    /// Oldest first; all but the last wait for a carry to be programmed.
    victims: Vec<Emptied>,
    /// By stream; those of data that may stay for long are in the first.
    bundles: Vec<Bundle>,
    /// The bundles' units go to the lane of data that may stay for long.
    is_cold: bool,
    /// Units to read again, after a failed program or read.
    again: Vec<Moved>,
    /// Scratch for scanning: the spare areas of the next stripes, and the map entries of their units.
    spares: Vec<Spare>,
    entries: Vec<Entry>,
    /// Scratch for dividing what was read among several streams.
    divided: Vec<(Moved, Content)>,
    /// State of this round: units being read, and superblocks being erased.
    reading: Vec<Moved>,
    erasing: Vec<Emptied>,
    /// Dies may have become able to take host stripes.
    has_freed_space: bool,
    /// Victims are erased once deallocations before this sequence number are durable.
    erase_after: Option<u64>,
}

/// The task of a die's collector.
pub(in crate::ftl) async fn run(core: Rc<Core>, die: u32) {
    let ticket = core.flash.ticket();
    let units = (ROUND_UNITS + 2 * core.geometry.units_per_stripe()) as usize;
    let mut collector = Collector {
        die,
        ticket,
        next_stripe: None,
        victims: Vec::with_capacity(4),
        bundles: (0..core.streams.collector).map(|_| Bundle::new(units)).collect(),
        is_cold: false,
        again: Vec::new(),
        spares: Vec::with_capacity(units),
        entries: Vec::with_capacity(units),
        divided: Vec::new(),
        reading: Vec::with_capacity(units),
        erasing: Vec::with_capacity(4),
        has_freed_space: false,
        erase_after: None,
        core,
    };
    let mut rests = true;
    loop {
        // A drive that is only read stays as it was.
        collector.core.collectors.called(die).await;
        if rests {
            collector.core.collectors.rest(false);
        }
        loop {
            while collector.works().await {}
            if !(collector.is_cornered() && duplicates::leave(&collector.core, die).await) {
                break;
            }
        }
        // A collector that waits for the journal will have work again.
        rests = collector.erase_after.is_none();
        if rests {
            rest(&collector.core, die);
        }
    }
}

impl Collector {
    /// Runs a round; false if there is nothing to do.
    async fn works(&mut self) -> bool {
        let works = self.plan();
        if std::mem::take(&mut self.has_freed_space) {
            dispatch(&self.core);
        }
        if !works {
            return false;
        }
        let units = self.reading.len() as u64;
        let (clock, placement) = (&self.core.clock, &self.core.placement);
        let service = (!placement.asks_to_collect()).then(|| placement.reserve(WorkKind::Collect, units));
        let outcome = self.ticket.wait().await;
        if placement.has_hardware() {
            let programs = self.bundles.iter().flat_map(|bundle| &bundle.programs);
            let programs = programs.map(|program| u64::from(program.units)).sum();
            let commands = FlashCommands { reads: units, programs, erases: self.erasing.len() as u64 };
            placement.command_hardware(clock, byteway_clock::SpanId::NONE, clock.spans(), commands).await;
        }
        match service {
            Some(service) => clock.sleep_until(service.end).await,
            None => placement.ask_to_collect(clock, units).await,
        }
        self.conclude(outcome.failed);
        self.core.placement.programmed(units);
        self.core.pay_for_changes().await;
        pay_for_commits(&self.core).await;
        true
    }

    /// Whether nothing is free and nothing in progress will free anything, as a power cut may leave it.
    fn is_cornered(&self) -> bool {
        let state = self.core.state.borrow();
        self.victims.is_empty() && state.blocks.free(self.die) == 0 && !state.is_read_only()
    }

    /// Submits the operations of a round; false if there are none.
    fn plan(&mut self) -> bool {
        debug_assert!(self.reading.is_empty() && !self.programs_any() && self.erasing.is_empty());
        debug_assert!(
            self.bundles.iter().all(|bundle| bundle.carry.len() == bundle.contents.len()),
            "each carried unit has a content"
        );
        if self.bundles.iter().any(|bundle| !bundle.held.is_empty()) {
            self.switch(false); // their superblock may have been closed meanwhile
        }
        loop {
            // Erases come first, because they free superblocks for the programs below.
            self.erase_emptied();
            if self.next_stripe.is_none() && self.choose() {
                continue;
            }
            let is_switching = self.is_switching();
            self.merge();
            self.program(is_switching);
            let reads_again = !self.again.is_empty();
            self.read_again();
            let erases = self.erase_after.is_none() && self.erases_any();
            let looks =
                self.next_stripe.is_some() && !is_switching && !self.is_paused() && !self.has_stripe();
            if looks {
                self.scan();
            }
            if !(self.reading.is_empty() && !self.programs_any() && self.erasing.is_empty()) {
                return true;
            }
            // Stripes without a valid unit only call for further scanning, and an erase at the end. Once
            // nothing is left to read again, the carry may be padded.
            if !looks && !erases && !reads_again {
                return false;
            }
        }
    }

    /// Whether a program of this round was submitted.
    fn programs_any(&self) -> bool {
        self.bundles.iter().any(|bundle| !bundle.programs.is_empty())
    }

    /// Whether what was read fills a stripe.
    fn has_stripe(&self) -> bool {
        let units = self.core.geometry.units_per_stripe() as usize;
        self.bundles.iter().any(|bundle| bundle.carry.len() >= units)
    }

    /// The lane of a bundle.
    fn lane(&self, bundle: usize) -> Lane {
        if self.is_cold { Lane::Cold } else { Lane::Collector(bundle as u8) }
    }

    /// Whether the carry must be programmed first, because the next victim's data go to another lane.
    fn is_switching(&mut self) -> bool {
        let Some(victim) = self.victims.last().filter(|_| self.next_stripe.is_some()) else { return false };
        let is_cold = victim.cause.is_cold();
        let has_none = |bundle: &Bundle| bundle.carry.is_empty() && bundle.held.is_empty();
        if self.again.is_empty() && self.bundles.iter().all(has_none) {
            self.is_cold = is_cold;
        }
        self.is_cold != is_cold
    }

    /// Without a free superblock, gives what goes to a stream without an open one to a stream that has one.
    fn merge(&mut self) {
        let die = self.die;
        self.pour(0, |state, lane| !state.blocks.has_space(die, lane));
    }

    /// Before a victim that may find no second free superblock, gives the carries of all streams to one.
    fn gather(&mut self) {
        self.pour(1, |_, _| true);
    }

    /// With no more than this many free superblocks, gives the carries of the lanes that are `poured` to one
    /// stream that has space, if any has: one that waits for the rest of a wordline first, then one with an
    /// open superblock.
    fn pour(&mut self, free_most: u32, poured: impl Fn(&State, Lane) -> bool) {
        if self.bundles.len() == 1 || self.is_cold {
            return;
        }
        let state = self.core.state.borrow();
        if state.blocks.free(self.die) > free_most {
            return;
        }
        let lanes = (0..self.bundles.len()).map(|bundle| (bundle, Lane::Collector(bundle as u8)));
        let with_space = lanes.clone().filter(|(_, lane)| state.blocks.has_space(self.die, *lane));
        let rank = |(bundle, lane): &(usize, Lane)| {
            (self.bundles[*bundle].held.is_empty(), state.blocks.opened(self.die, *lane).is_none())
        };
        let Some((to, _)) = with_space.min_by_key(rank) else { return };
        for (from, _) in lanes.filter(|(_, lane)| poured(&state, *lane)) {
            let Ok([from, to]) = self.bundles.get_disjoint_mut([from, to]) else { continue };
            to.carry.append(&mut from.carry);
            to.contents.append(&mut from.contents);
        }
    }

    /// Whether the victim can wait: it was chosen while the host was idle, and a request has come. In a purge
    /// nothing waits, because the purge may wait for this victim.
    fn is_paused(&self) -> bool {
        let is_idle = |victim: &Emptied| victim.cause == Cause::Idle;
        if !self.victims.last().is_some_and(is_idle) {
            return false;
        }
        let state = self.core.state.borrow();
        !state.collecting.is_idle
            && state.blocks.doomed_of(self.die) == 0
            && state.blocks.free(self.die) > self.core.start()
    }

    /// Whether an emptied victim can be erased.
    fn erases_any(&self) -> bool {
        let state = self.core.state.borrow();
        self.victims.iter().any(|victim| victim.is_empty() && may_erase(&state, victim.block, self.die))
    }

    /// Erases emptied victims, once no older version can return as a consequence. Bad ones are erased as
    /// well, to remove their data; success does not matter.
    fn erase_emptied(&mut self) {
        self.carry_nameless();
        if !self.erases_any() {
            return;
        }
        let Self { core, ticket, victims, erasing, erase_after, die, .. } = self;
        // A deallocation made units of the victim stale, and an older copy may lie elsewhere. Its record must
        // be durable before the erase, or recovery would bring the older copy back.
        if !core.config.plp && !core.config.defect.has(Defect::EraseEarly) {
            let mut guard = core.state.borrow_mut();
            let state = &mut *guard;
            let target = *erase_after.get_or_insert(state.buffer.next_sequence());
            if state.journal.durable_to() < target {
                state.journal.hold_back(*die);
                if state.journal.want(target) {
                    core.signals.journal.notify_one();
                }
                return;
            }
        }
        *erase_after = None;
        let state = core.state.borrow();
        let is_erased = |victim: &mut Emptied| victim.is_empty() && may_erase(&state, victim.block, *die);
        for victim in victims.extract_if(.., is_erased) {
            debug_assert!(
                !core.config.defect.is_none() || state.blocks.valid(victim.block) == 0,
                "what is erased is nowhere else"
            );
            let priority = state.priority(*die, victim.cause);
            core.flash.submit_erase(victim.block, priority, ticket);
            erasing.push(victim);
        }
    }

    /// Carries units that the map has in emptied victims, as unreadable.
    fn carry_nameless(&mut self) {
        let Self { core, victims, bundles, .. } = self;
        let Bundle { carry, contents, .. } = &mut bundles[0];
        for victim in victims.iter_mut().filter(|victim| victim.is_empty()) {
            if core.state.borrow().blocks.valid(victim.block) == 0 {
                continue;
            }
            let found = units_in(&mut core.state.borrow_mut(), &core.geometry, &core.space, victim.block);
            victim.outstanding += found.len() as u32;
            for Nameless { lpa, sequence, from, ppa } in found {
                let (victim, cause) = (victim.block, victim.cause);
                carry.push(Moved { lpa, sequence, from, ppa, victim, cause, stream: 0, is_doubtful: false });
                contents.push(substitute(core, lpa));
            }
        }
    }

    /// Chooses another victim, if there is a reason and space for its data. Returns whether it is empty: it
    /// is then not scanned. After a deallocation of the whole drive, all victims are empty.
    fn choose(&mut self) -> bool {
        self.gather();
        let (core, die) = (&*self.core, self.die);
        if self.has_stripe() || !self.again.is_empty() {
            return false;
        }
        let mut is_empty = false;
        let mut state = core.state.borrow_mut();
        let had_space = state.streams_with_space(die);
        let gives_back = |victim: &&Emptied| state.blocks.gives_back(victim.block);
        // Emptied victims are as good as erased: at most they wait for the journal.
        let emptied = self.victims.iter().filter(|victim| victim.is_empty()).filter(gives_back).count();
        let freed = self.erasing.iter().filter(gives_back).count() + emptied;
        let standing = Standing { erasing: freed as u32, victims: (self.victims.len() - emptied) as u32 };
        if let Some((block, cause)) = state.next_victim(core, die, &standing) {
            debug_assert!(
                self.victims.iter().all(|victim| victim.scanned),
                "one victim is scanned at a time"
            );
            debug_assert!(self.victims.iter().all(|victim| victim.block != block), "it is a victim already");
            is_empty = state.blocks.valid(block) == 0;
            if let Some(streams) = &mut state.streams
                && !cause.is_cold()
            {
                streams.collects(block);
            }
            self.next_stripe = (!is_empty).then_some(0);
            self.victims.push(Emptied { block, cause, outstanding: 0, scanned: is_empty });
        }
        self.has_freed_space |= state.streams_with_space(die) > had_space;
        is_empty
    }

    /// Reads units again whose read or program failed, as far as they are still valid.
    fn read_again(&mut self) {
        let Self { core, victims, again, reading, ticket, .. } = self;
        if again.is_empty() {
            return;
        }
        let state = core.state.borrow();
        for moved in again.drain(..) {
            if !state.buffer.holds(state.map.get(moved.lpa), moved.from) {
                done(victims, moved.victim, 1);
                continue;
            }
            let mask = 1 << core.geometry.unit_of_stripe(moved.ppa);
            let priority = state.priority(self.die, moved.cause);
            submit_read(core, moved.ppa, mask, moved.is_known(), priority, ticket);
            reading.push(moved);
        }
    }

    /// Reads the valid units of the victim's next stripes.
    fn scan(&mut self) {
        let Some(first) = self.next_stripe else { return };
        let Self { core, victims, spares, entries, reading, .. } = self;
        let geometry = &core.geometry;
        let victim = victims.last_mut().expect("a victim is being scanned");
        let mut guard = core.state.borrow_mut();
        let state = &mut *guard;
        let pages = state.blocks.pages(victim.block);
        debug_assert!(first < pages && !victim.scanned, "all of it has been scanned");
        let stripe_units = geometry.units_per_stripe();
        let stripes = ROUND_UNITS.div_ceil(stripe_units).min(pages - first);
        let cause = victim.cause;
        let priority = state.priority(self.die, cause);
        let before = reading.len();
        spares.resize((stripes * stripe_units) as usize, Spare::PADDING);
        for (stripe, spares) in (first..).zip(spares.chunks_exact_mut(stripe_units as usize)) {
            core.flash.spares(geometry.ppa(victim.block, stripe, 0), spares);
        }
        state.map.table().get_all(spares.iter().map(|spare| spare.lpa), entries);
        let each =
            spares.chunks_exact(stripe_units as usize).zip(entries.chunks_exact(stripe_units as usize));
        for (stripe, (spares, entries)) in (first..).zip(each) {
            let is_base = state.blocks.is_base(victim.block, stripe);
            let start = geometry.ppa(victim.block, stripe, 0);
            let mut mask = 0;
            for (unit, (spare, entry)) in spares.iter().zip(entries).enumerate() {
                let ppa = Ppa(start.0 + unit as u64);
                let from = if is_base { Entry::BASE } else { Entry::flash(ppa) };
                // A unit is valid if the map has it here; a spare area alone may be outdated.
                if spare.lpa != NO_LPA && state.buffer.holds(*entry, from) {
                    mask |= 1 << unit;
                    let Spare { lpa, sequence } = *spare;
                    let victim = victim.block;
                    let stream = match &mut state.streams {
                        Some(streams) if !cause.is_cold() => streams.place_moved(lpa, victim),
                        _ => 0,
                    };
                    let is_doubtful = false;
                    reading.push(Moved { lpa, sequence, from, ppa, victim, cause, stream, is_doubtful });
                }
            }
            if mask != 0 {
                submit_read(core, start, mask, is_base, priority, &self.ticket);
            }
        }
        victim.outstanding += (reading.len() - before) as u32;
        victim.scanned = first + stripes == pages;
        self.next_stripe = (!victim.scanned).then_some(first + stripes);
    }

    /// Programs the carries, as far as they fill stripes and superblocks are available.
    fn program(&mut self, is_switching: bool) {
        // A carry is padded for the sake of the superblock that waits for longest; one after the other, since
        // the first may do.
        let oldest = self.victims.iter().find(|victim| victim.outstanding > 0).map(|victim| victim.block);
        for index in 0..self.bundles.len() {
            let is_awaited = self.bundles.len() == 1
                || oldest.is_some_and(|block| self.bundles[index].has_units_of(block));
            let may_pad = is_awaited && !self.programs_any() && self.may_pad(is_switching);
            self.program_bundle(index, may_pad);
        }
    }

    /// Whether nothing else will come to fill a wordline, and the superblock is awaited.
    fn may_pad(&self, is_switching: bool) -> bool {
        let state = self.core.state.borrow();
        (self.next_stripe.is_none() || is_switching)
            && !self.has_stripe()
            && self.again.is_empty()
            && self.erasing.is_empty()
            && self.erase_after.is_none()
            && (state.blocks.free(self.die) <= self.core.reserve()
                || state.blocks.doomed_of(self.die) > 0
                || is_switching
                || self.victims.iter().any(|victim| victim.cause.is_to_end()))
    }

    /// Programs the carry of a bundle; with `may_pad` also if it fills no stripe, and no other program is
    /// submitted.
    fn program_bundle(&mut self, index: usize, may_pad: bool) {
        let lane = self.lane(index);
        let Self { core, bundles, die, ticket, .. } = self;
        let Bundle { carry, contents, flying, programs, held } = &mut bundles[index];
        let stripe_units = core.geometry.units_per_stripe() as usize;
        let mut guard = core.state.borrow_mut();
        let state = &mut *guard;
        let mut sent = 0;
        let mut pads = false;
        // One priority for all: a more urgent stripe would overtake the one before it in its superblock, and
        // be refused.
        let is_urgent = |moved: &Moved| state.priority(*die, moved.cause) == Priority::Collector;
        let priority = match carry.is_empty() || carry.iter().any(is_urgent) {
            true => Priority::Collector,
            false => Priority::Background,
        };
        loop {
            let left = carry.len() - sent;
            if left < stripe_units && !pads {
                pads = (left > 0 || !held.is_empty()) && programs.is_empty() && may_pad;
                if !pads {
                    break;
                }
            }
            if pads && programs.last().is_some_and(|last| state.filling.ends_with(last.stripe)) {
                break;
            }
            let had = state.blocks.free(*die);
            let Some((block, stripe)) = state.blocks.take_stripe(*die, lane) else { break };
            if state.blocks.free(*die) != had {
                state.refresh(*die);
            }
            if stripe == 0 {
                core.set_mode(&state.blocks, block);
                if let Some(streams) = &mut state.streams {
                    streams.opened(block, lane);
                }
            }
            let units = left.min(stripe_units);
            debug_assert!(units == stripe_units || pads, "only the last stripe before a wait is padded");
            let mut batch = core.flash.take_batch();
            let number = state.filling.take_number();
            batch.number = number;
            let moved = carry[sent..sent + units].iter();
            let spares = moved.clone().map(|moved| Spare { lpa: moved.lpa, sequence: moved.sequence });
            let contents = contents[sent..sent + units].iter_mut().map(std::mem::take);
            batch.units.extend(spares.zip(contents));
            core.flash.submit_program(block, stripe, batch, priority, ticket);
            programs.push(Program { block, stripe, units: units as u32, number });
            state.collecting.moving[*die as usize].push((block, stripe));
            for moved in carry[sent..sent + units].chunk_by(|a, b| a.cause == b.cause) {
                *state.counters.units_moved(moved[0].cause) += moved.len() as u64;
                let pages = moved.iter().filter(|moved| core.space.is_map(moved.lpa)).count();
                state.counters.map_units_collected += pages as u64;
            }
            state.counters.units_programmed_padding += (stripe_units - units) as u64;
            sent += units;
        }
        flying.extend(carry.drain(..sent));
        contents.drain(..sent);
    }

    /// Completes the operations of a round; `failed` if any of them failed.
    fn conclude(&mut self, failed: bool) {
        self.switch(failed);
        self.receive(failed);
        self.ticket.clear();
        if self.erasing.is_empty() {
            return;
        }
        {
            let core = &*self.core;
            let mut guard = core.state.borrow_mut();
            let is_levelled = self.erasing.iter().all(|emptied| emptied.cause == Cause::Level);
            for Emptied { block, cause, .. } in self.erasing.drain(..) {
                *guard.counters.blocks_emptied(cause) += 1;
                if failed && core.flash.is_unstable(block) {
                    guard.counters.erase_failures += 1;
                    fail(core, &mut guard, block);
                }
                guard.blocks.erased(block);
            }
            guard.note_erase(self.die, is_levelled);
            guard.refresh(self.die);
        }
        self.core.signals.purged.notify_all();
        dispatch(&self.core);
    }

    /// Receives the units read. An unreadable one is read once more; if that fails too, it is lost, and moved
    /// as unreadable.
    fn receive(&mut self, failed: bool) {
        let Self { core, ticket, bundles, reading, again, .. } = self;
        let Bundle { carry, contents, .. } = &mut bundles[0];
        let start = contents.len();
        if failed {
            for (index, moved) in reading.iter_mut().enumerate() {
                moved.is_doubtful = ticket.is_unreadable(index) && !std::mem::take(&mut moved.is_doubtful);
            }
        }
        ticket.take_contents(contents);
        debug_assert_eq!(contents.len() - start, reading.len(), "each unit read has a content");
        for (moved, content) in reading.iter().zip(&mut contents[start..]) {
            if moved.is_known() {
                *content = core.base.content(moved.lpa);
            }
        }
        if !failed {
            carry.append(reading);
            return self.divide(start);
        }
        let mut kept = start;
        for (index, moved) in reading.drain(..).enumerate() {
            if moved.is_doubtful {
                again.push(moved);
                continue;
            }
            let content = match ticket.is_unreadable(index) {
                true => substitute(core, moved.lpa),
                false => std::mem::take(&mut contents[start + index]),
            };
            contents[kept] = content;
            carry.push(moved);
            kept += 1;
        }
        contents.truncate(kept);
        self.divide(start);
    }

    /// Divides what the first bundle has received, from `start` on, among the streams.
    fn divide(&mut self, start: usize) {
        if self.bundles.len() == 1 {
            return;
        }
        let Bundle { carry, contents, .. } = &mut self.bundles[0];
        self.divided.extend(carry.drain(start..).zip(contents.drain(start..)));
        for (moved, content) in self.divided.drain(..) {
            let bundle = &mut self.bundles[usize::from(moved.stream)];
            bundle.carry.push(moved);
            bundle.contents.push(content);
        }
    }

    /// Moves the map to stripes that are safe, except for units rewritten meanwhile. Programmed stripes that
    /// are not safe wait for the rest of their wordline.
    fn switch(&mut self, failed: bool) {
        for index in 0..self.bundles.len() {
            let bundle = &mut self.bundles[index];
            bundle.held.append(&mut bundle.programs);
            if failed {
                self.sort_out(index);
            }
            self.switch_bundle(index);
        }
        let core = &*self.core;
        let mut guard = core.state.borrow_mut();
        let state = &mut *guard;
        core.settle_extents(state);
        let moving = &mut state.collecting.moving[self.die as usize];
        moving.clear();
        let held = self.bundles.iter().flat_map(|bundle| &bundle.held);
        moving.extend(held.map(|program| (program.block, program.stripe)));
    }

    fn switch_bundle(&mut self, index: usize) {
        let lane = self.lane(index);
        let Self { core, bundles, victims, die, .. } = self;
        let Bundle { held, flying, .. } = &mut bundles[index];
        let mut guard = core.state.borrow_mut();
        let State { map, buffer, blocks, filling, .. } = &mut *guard;
        debug_assert_eq!(held.iter().map(|program| program.units as usize).sum::<usize>(), flying.len());
        // No later program can destroy the last stripe of a wordline, nor one in a closed or failed
        // superblock.
        let opened = blocks.opened(*die, lane);
        let is_safe = |program: &Program| filling.ends_with(program.stripe) || opened != Some(program.block);
        let safe = held.iter().rposition(is_safe).map_or(0, |last| last + 1);
        let mut moved = 0;
        for program in held.drain(..safe) {
            let first = core.geometry.ppa(program.block, program.stripe, 0).0;
            let mut valid = 0;
            let units = &flying[moved..moved + program.units as usize];
            let mut next = (first..).map(Ppa);
            // Losses are counted for each victim together: one look at its state instead of one for each
            // unit.
            for units in units.chunk_by(|a, b| a.victim == b.victim) {
                let is_moved = |(moved, ppa): &(&Moved, Ppa)| {
                    map.relocate(buffer, moved.lpa, moved.from, Entry::flash(*ppa))
                };
                let count = units.iter().zip(&mut next).filter(is_moved).count() as u32;
                if count > 0 {
                    blocks.lost(units[0].victim, count);
                }
                done(victims, units[0].victim, units.len() as u32);
                valid += count;
            }
            moved += program.units as usize;
            blocks.programmed(program.block, valid); // no notification: the collector itself runs this
        }
        flying.drain(..moved);
    }

    /// After failed programs, reads again the units of these stripes, and of earlier stripes of their
    /// wordlines.
    #[cold]
    fn sort_out(&mut self, index: usize) {
        let Self { core, bundles, again, .. } = self;
        let Bundle { held, flying, .. } = &mut bundles[index];
        let mut guard = core.state.borrow_mut();
        let state = &mut *guard;
        let mut left = std::mem::take(flying).into_iter();
        // A failed program may have destroyed earlier stripes of its wordline, so each stripe is checked for
        // its number.
        let mut failed = Vec::new();
        held.retain(|program| {
            let units = left.by_ref().take(program.units as usize);
            let is_there = core.flash.stripe_number(program.block, program.stripe) == Some(program.number);
            if is_there {
                flying.extend(units);
            } else {
                again.extend(units);
                failed.push(program.block);
            }
            is_there
        });
        debug_assert!(left.next().is_none(), "each unit belongs to a stripe that was programmed");
        for block in failed {
            fail(core, state, block);
            state.blocks.programmed(block, 0);
        }
    }
}

/// The content to move in place of an unreadable unit: unreadable, or, for a translation page, the
/// present map entries. An empty page would make recovery find every unit in its base state.
#[cold]
fn substitute(core: &Core, lpa: u64) -> Content {
    let mut state = core.state.borrow_mut();
    match core.space.kind(lpa) {
        UnitKind::Map(page) => {
            state.counters.map_reads_failed += 1;
            Content::of(&state.map.page_bytes(&state.buffer, page as u32), core.config.keep)
        }
        _ => {
            state.counters.units_lost += 1;
            Content::unreadable()
        }
    }
}

/// Submits a read for garbage collection. The contents are known in advance where they are those of the
/// base state.
fn submit_read(
    core: &Core,
    first: Ppa,
    mask: u64,
    is_known: bool,
    priority: Priority,
    ticket: &Ticket,
) -> usize {
    match is_known {
        true => core.flash.submit_known_read(first, mask, priority, ticket),
        false => core.flash.submit_read(first, mask, priority, ticket),
    }
}

/// Whether an emptied superblock may be erased. One that does not become free waits for one that is, so
/// that the last free superblock never holds anything but duplicates.
fn may_erase(state: &State, block: BlockId, die: u32) -> bool {
    state.blocks.gives_back(block) || state.blocks.free(die) > 0
}

/// Counts units of a victim as moved, or as no longer needing it.
fn done(victims: &mut [Emptied], block: BlockId, units: u32) {
    let victim = victims.iter_mut().find(|victim| victim.block == block);
    victim.expect("a victim stays in the list until all of it has been moved").outstanding -= units;
}
