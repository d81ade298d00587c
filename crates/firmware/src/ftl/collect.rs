//! The collector of a die: it empties superblocks so that there are free ones.
//!
//! It works in rounds, each of which reads some stripes of the victim, programs what earlier rounds read, and erases
//! what is empty; all of them operations of one die, so it would gain nothing by overlapping more. What doesn't fill a
//! stripe is carried over to the next victim, and its superblock is erased when that is programmed, so nothing is
//! padded.
//!
//! It never stands still with work to do, nor turns without end. The host leaves it one free superblock. A victim has
//! at least a stripe's worth of stale units, so its valid units and the carry (less than a stripe) fill no more stripes
//! than one superblock has; programming the first of these frees the victim before. If the carry must be padded because
//! there is no other victim, a stripe is gained all the same. When there is none at all, the die is full: by the check
//! in `Ftl::new` another one is not.

use super::Inner;
use super::blocks::Stream;
use super::map::Entry;
use crate::work::Work;
use byteway_flash::{BlockId, Ppa, Priority, Ticket};
use byteway_wire::content::Content;
use std::rc::Rc;

/// Units that a round reads, about: enough that rounds cost little, and few enough that the cores are not taken for
/// long at a time.
const ROUND_UNITS: u32 = 64;

/// A unit that is being moved.
#[derive(Clone, Copy)]
struct Moved {
    lpa: u32,
    /// Where it is, as the map says it.
    from: Entry,
    ppa: Ppa,
}

/// A superblock that is being emptied.
struct Emptied {
    block: BlockId,
    /// Units that were found valid and are not programmed elsewhere yet.
    outstanding: u32,
    /// All its stripes have been looked at.
    scanned: bool,
}

impl Emptied {
    /// Nothing of it is left.
    fn is_empty(&self) -> bool {
        self.scanned && self.outstanding == 0
    }
}

/// A program of a round: which stripe, and how many units.
struct Program {
    block: BlockId,
    stripe: u32,
    units: u32,
}

struct Collector {
    inner: Rc<Inner>,
    die: u32,
    ticket: Ticket,
    /// The stripe of the last victim to be looked at next; none when there is no victim.
    next_stripe: Option<u32>,
    /// Oldest first; all but the last one wait for a carry to be programmed.
    victims: Vec<Emptied>,
    /// Read, and not programmed: what they are, and what they hold.
    carry: Vec<Moved>,
    contents: Vec<Content>,
    /// For a look at the map: what lies in the stripes, which units that are, and what the map says of them.
    candidates: Vec<Moved>,
    lpas: Vec<u32>,
    entries: Vec<Entry>,
    /// Of this round: units being read, units being programmed, and how these are divided into stripes.
    reading: Vec<Moved>,
    flying: Vec<Moved>,
    programs: Vec<Program>,
    erasing: Vec<BlockId>,
}

/// The task of a die's collector.
pub(super) async fn run(inner: Rc<Inner>, die: u32) {
    let ticket = inner.flash.ticket();
    let units = (ROUND_UNITS + 2 * inner.geometry.units_per_stripe()) as usize;
    let mut collector = Collector {
        die,
        ticket,
        next_stripe: None,
        victims: Vec::with_capacity(4),
        carry: Vec::with_capacity(units),
        contents: Vec::with_capacity(units),
        candidates: Vec::with_capacity(units),
        lpas: Vec::with_capacity(units),
        entries: Vec::with_capacity(units),
        reading: Vec::with_capacity(units),
        flying: Vec::with_capacity(units),
        programs: Vec::with_capacity(units),
        erasing: Vec::with_capacity(4),
        inner,
    };
    // A drive that is only read from stays as it was found.
    collector.inner.collectors[die as usize].notified().await;
    loop {
        if !collector.plan() {
            collector.inner.collectors[die as usize].notified().await;
            continue;
        }
        let units = collector.reading.len() as u64;
        let service = collector.inner.placement.reserve(Work::Collect, units);
        let outcome = collector.ticket.wait().await;
        // Stripes are given out in order and only what is programmed is read, so flash has nothing to refuse.
        assert!(!outcome.failed, "flash refused an operation of the collector's");
        collector.inner.clock.sleep_until(service.end).await;
        collector.conclude();
    }
}

impl Collector {
    /// Submits the operations of a round; false if there are none.
    fn plan(&mut self) -> bool {
        loop {
            self.erase_emptied();
            if self.next_stripe.is_none() {
                self.choose();
            }
            self.program();
            let looks = self.next_stripe.is_some()
                && (self.carry.len() as u32) < self.inner.geometry.units_per_stripe();
            if looks {
                self.scan();
            }
            if !(self.reading.is_empty() && self.programs.is_empty() && self.erasing.is_empty()) {
                return true;
            }
            // Stripes without a valid unit give nothing to do but to look further, and at the end to erase.
            if !looks && !self.victims.iter().any(Emptied::is_empty) {
                return false;
            }
        }
    }

    /// Erases victims of which nothing is left.
    fn erase_emptied(&mut self) {
        let Self { inner, ticket, victims, erasing, .. } = self;
        victims.retain(|victim| {
            if victim.is_empty() {
                inner.flash.submit_erase(victim.block, ticket);
                erasing.push(victim.block);
            }
            !victim.is_empty()
        });
    }

    /// Takes up another victim, if free superblocks are few and there is room for what it holds.
    fn choose(&mut self) {
        let (inner, die) = (&*self.inner, self.die);
        let stripe_units = inner.geometry.units_per_stripe();
        let mut guard = inner.state.borrow_mut();
        let blocks = &mut guard.blocks;
        let free = blocks.free(die) + self.erasing.len() as u32;
        let urgent = free <= inner.config.gc_reserve_blocks;
        // Emptied, but for a carry that cannot be programmed without more.
        let held_up = !self.victims.is_empty() && (self.carry.len() as u32) < stripe_units;
        let wanted = free + self.victims.len() as u32 <= inner.config.gc_start_free_blocks;
        if !(wanted || urgent && (self.victims.is_empty() || held_up)) {
            return;
        }
        let fits = free > 0 || !self.victims.is_empty() && blocks.stripes_left(die, Stream::Collector) > 0;
        if !fits || self.carry.len() as u32 >= stripe_units {
            return;
        }
        let valid_most = inner.geometry.units_per_block() - stripe_units;
        match blocks.take_victim(die, inner.config.gc, valid_most) {
            Some(block) => {
                self.next_stripe = Some(0);
                self.victims.push(Emptied { block, outstanding: 0, scanned: false });
            }
            None => blocks.starve(die),
        }
    }

    /// Reads the valid units of the victim's next stripes.
    fn scan(&mut self) {
        let Some(first) = self.next_stripe else { return };
        let Self { inner, victims, candidates, lpas, entries, reading, .. } = self;
        let geometry = &inner.geometry;
        let victim = victims.last_mut().expect("what is being scanned is a victim");
        let stripes = ROUND_UNITS.div_ceil(geometry.units_per_stripe()).min(geometry.pages - first);
        let state = inner.state.borrow();
        for stripe in first..first + stripes {
            let is_base = state.blocks.is_base(victim.block, stripe);
            let start = geometry.ppa(victim.block, stripe, 0).0;
            for ppa in (start..start + geometry.units_per_stripe()).map(Ppa) {
                if let Some(lpa) = inner.flash.oob(ppa) {
                    let from = if is_base { Entry::BASE } else { Entry::flash(ppa) };
                    candidates.push(Moved { lpa, from, ppa });
                    lpas.push(lpa);
                }
            }
        }
        state.map.get_all(lpas, entries);
        let submit = |(start, mask)| {
            inner.flash.submit_read(start, mask, Priority::Collector, &self.ticket);
        };
        let mut read: Option<(Ppa, u64)> = None;
        for (moved, entry) in candidates.drain(..).zip(entries) {
            if !state.holds(*entry, moved.from) {
                continue;
            }
            let (start, mask) = match read {
                Some((start, mask)) if moved.ppa.0 - start.0 < geometry.units_per_stripe() => (start, mask),
                _ => {
                    read.map(submit);
                    (geometry.stripe_start(moved.ppa), 0)
                }
            };
            read = Some((start, mask | 1 << (moved.ppa.0 - start.0)));
            reading.push(moved);
        }
        read.map(submit);
        lpas.clear();
        victim.outstanding += reading.len() as u32;
        victim.scanned = first + stripes == geometry.pages;
        self.next_stripe = (!victim.scanned).then_some(first + stripes);
    }

    /// Programs what is carried, as far as it fills stripes and there is room.
    fn program(&mut self) {
        let inner = &*self.inner;
        let stripe_units = inner.geometry.units_per_stripe() as usize;
        let mut guard = inner.state.borrow_mut();
        let state = &mut *guard;
        let mut sent = 0;
        loop {
            let left = self.carry.len() - sent;
            // Nothing else will come along to fill the stripe, and the host waits for the superblock.
            let must_pad = left > 0
                && sent == 0
                && self.next_stripe.is_none()
                && self.erasing.is_empty()
                && state.blocks.free(self.die) <= inner.config.gc_reserve_blocks;
            if left < stripe_units && !must_pad {
                break;
            }
            let had = state.blocks.free(self.die);
            let Some((block, stripe)) = state.blocks.take_stripe(self.die, Stream::Collector) else { break };
            if state.blocks.free(self.die) != had {
                state.refresh(self.die);
            }
            let units = left.min(stripe_units);
            let mut batch = inner.flash.take_batch();
            let lpas = self.carry[sent..sent + units].iter().map(|moved| moved.lpa);
            let contents = self.contents[sent..sent + units].iter_mut().map(std::mem::take);
            batch.extend(lpas.zip(contents));
            inner.flash.submit_program(block, stripe, batch, Priority::Collector, &self.ticket);
            self.programs.push(Program { block, stripe, units: units as u32 });
            state.counters.units_programmed_collector += units as u64;
            state.counters.units_programmed_padding += (stripe_units - units) as u64;
            sent += units;
        }
        self.flying.extend(self.carry.drain(..sent));
        self.contents.drain(..sent);
    }

    /// The operations of the round are done.
    fn conclude(&mut self) {
        self.switch();
        self.ticket.take_contents(&mut self.contents);
        self.carry.append(&mut self.reading);
        self.ticket.clear();
        if self.erasing.is_empty() {
            return;
        }
        {
            let mut guard = self.inner.state.borrow_mut();
            guard.counters.blocks_collected += self.erasing.len() as u64;
            for block in self.erasing.drain(..) {
                guard.blocks.erased(block);
            }
            guard.refresh(self.die);
        }
        self.inner.dispatch();
    }

    /// Switches the map over to what has been programmed, unless a unit has been written meanwhile.
    fn switch(&mut self) {
        let inner = &*self.inner;
        let mut guard = inner.state.borrow_mut();
        let state = &mut *guard;
        let mut flying = self.flying.iter();
        let mut victim = 0;
        for program in &self.programs {
            let first = inner.geometry.ppa(program.block, program.stripe, 0).0;
            let mut valid = 0;
            for (ppa, moved) in (first..first + program.units).map(Ppa).zip(flying.by_ref()) {
                if state.relocate(moved.lpa, moved.from, Entry::flash(ppa)) {
                    state.blocks.lost(moved.ppa);
                    valid += 1;
                }
                while self.victims[victim].outstanding == 0 {
                    victim += 1; // they are programmed in the order of the victims
                }
                self.victims[victim].outstanding -= 1;
            }
            state.blocks.programmed(program.block, valid); // nobody needs to call the one who asks
        }
        self.flying.clear();
        self.programs.clear();
    }
}

impl super::State {
    /// Whether flash has the latest programmed state of a unit at `from`: its map entry says so, or the slot that holds
    /// a newer one.
    #[inline]
    fn holds(&self, entry: Entry, from: Entry) -> bool {
        entry == from || entry.as_slot().is_some_and(|slot| self.buffer.slot(slot).old == from)
    }

    /// Flash now has it at `to`, if it still had it at `from`.
    #[inline]
    fn relocate(&mut self, lpa: u32, from: Entry, to: Entry) -> bool {
        let entry = self.map.get(lpa);
        if entry == from {
            self.map.set(lpa, to);
            return true;
        }
        match entry.as_slot() {
            Some(slot) if self.buffer.slot(slot).old == from => {
                self.buffer.slot_mut(slot).old = to;
                true
            }
            _ => false,
        }
    }
}
