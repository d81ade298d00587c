//! State of host stripes being filled and programmed: the turn of the dies, programs in flight, and their
//! tasks.

use crate::ftl::blocks::{Blocks, Lane};
use crate::ftl::buffer::Buffer;
use crate::ftl::config::{Defect, FtlConfig, Housekeeping, Striping};
use crate::ftl::write::die_set::DieSet;
use crate::ftl::write::wordline::Wordlines;
use byteway_clock::{Clock, Notify};
use byteway_flash::{BlockId, DataEnd, Geometry, Ticket};

/// Maximum host programs in flight for a die: one in progress, and the next one ready behind it.
pub(in crate::ftl) const PROGRAMS_PER_DIE: u32 = 2;

/// State of host stripes being filled and programmed.
pub(in crate::ftl) struct Filling {
    /// Number of the next stripe.
    pub(super) next_number: u64,
    /// Units buffered before this sequence number must not wait for a full stripe.
    pub(super) flush_to: u64,
    /// Deallocations before this sequence number have dropped units from the buffer.
    pub(super) dropped_to: u64,
    /// Host programs in flight, by die.
    pub(super) in_flight: Vec<u32>,
    /// The streams of the host.
    pub(super) lanes: Vec<HostLane>,
    /// Maximum number of wordlines in progress: the slots of all their units are occupied until they end.
    wordlines_most: u32,
    pub(super) jobs: Vec<Job>,
    pub(super) idle_jobs: Vec<u32>,
    striping: Striping,
    pub(super) housekeeping: Chores,
    /// Scratch for traces: the I/Os whose units a stripe holds.
    pub(super) ios: Vec<u32>,
}

/// A stream of the host.
pub(in crate::ftl) struct HostLane {
    /// The die whose turn it is.
    pub(super) next_die: u32,
    /// Dies that can take a stripe of it.
    pub(super) ready: DieSet,
    /// Dies that have space for a stripe of it, busy or not.
    space: DieSet,
    pub(super) wordlines: Wordlines,
}

impl Filling {
    /// State for `streams` streams of the host, wordlines of `wordline` stripes, a buffer of `slots`, and at
    /// most `jobs` programs in flight.
    pub(in crate::ftl) fn new(
        geometry: &Geometry,
        config: &FtlConfig,
        streams: u32,
        (wordline, slots): (u32, u32),
        jobs: usize,
    ) -> Self {
        let takes_along = config.defect.has(Defect::TakeAlong);
        let lane = |_| HostLane {
            next_die: 0,
            ready: DieSet::new(geometry.dies()),
            space: DieSet::new(geometry.dies()),
            wordlines: Wordlines::new(geometry, wordline, takes_along),
        };
        // A part of a stripe may wait in each stream beside them.
        let units = geometry.units_per_stripe();
        let wordlines_most = slots.saturating_sub(streams * units) / (wordline * units);
        Filling {
            next_number: 1,
            flush_to: 0,
            dropped_to: 0,
            in_flight: vec![0; geometry.dies() as usize],
            lanes: (0..streams).map(lane).collect(),
            wordlines_most: wordlines_most.max(streams),
            jobs: (0..jobs).map(|_| Job::new(geometry)).collect(),
            idle_jobs: (0..jobs as u32).rev().collect(),
            striping: config.striping,
            housekeeping: Chores::default(),
            ios: Vec::new(),
        }
    }

    /// Number of the host's streams.
    pub(in crate::ftl) fn streams(&self) -> u8 {
        self.lanes.len() as u8
    }

    /// Whether any stripe was programmed: a drive that is only read stays as it was.
    pub(in crate::ftl) fn has_begun(&self) -> bool {
        self.next_number > 1
    }

    /// Number of the next stripe.
    pub(in crate::ftl) fn next_number(&self) -> u64 {
        self.next_number
    }

    /// Takes the number of a stripe that is about to be programmed.
    pub(in crate::ftl) fn take_number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number - 1
    }

    /// Continues with this number, after a recovery.
    pub(in crate::ftl) fn continue_from(&mut self, number: u64) {
        debug_assert!(number >= self.next_number, "a stripe's number is given once");
        self.next_number = number;
    }

    /// Updates whether a die can take a host stripe.
    pub(in crate::ftl) fn refresh(&mut self, blocks: &Blocks, die: u32) {
        let idle = self.in_flight[die as usize] < PROGRAMS_PER_DIE;
        for (stream, lane) in (0..).zip(&mut self.lanes) {
            let has_space = blocks.has_space(die, Lane::Cache) || blocks.has_space(die, Lane::Host(stream));
            lane.ready.set(die, idle && has_space);
            lane.space.set(die, has_space);
        }
    }

    /// Whether no host program is in flight, and none will begin by itself.
    pub(super) fn is_idle(&self) -> bool {
        !self.housekeeping.is_due && self.in_flight.iter().all(|count| *count == 0)
    }

    /// The die for the next stripe of a stream, of which a whole one waits if `full`, and units that must not wait if `urgent`.
    pub(super) fn next_die(&self, stream: u8, full: bool, urgent: bool) -> Option<u32> {
        let lane = &self.lanes[usize::from(stream)];
        let may_begin = self.may_begin(stream.into());
        // What is flushed goes wherever it can: it need not wait for a die.
        if self.striping == Striping::InTurn && full && (may_begin || lane.wordlines.stripes() == 1) {
            return lane.space.next(lane.next_die).filter(|die| lane.ready.contains(*die));
        }
        lane.wordlines.choose(&lane.ready, lane.next_die, full, urgent, self.flush_to, may_begin)
    }

    /// Whether a unit waits, and a die can take a stripe of its stream.
    pub(super) fn can_send(&self, buffer: &Buffer) -> bool {
        let mut lanes = (0..).zip(&self.lanes);
        lanes.any(|(stream, lane)| buffer.waiting_in(stream) > 0 && !lane.ready.is_empty())
    }

    /// Lowest number of a host stripe that is unfinished, or that failed and whose units are not programmed
    /// yet; with several streams, that could have held a unit that still waits. Everything numbered later is
    /// in stripes from there on, though these may be finished.
    pub(in crate::ftl) fn first_unfinished(&self, buffer: &Buffer) -> u64 {
        let in_flight = self.jobs.iter().filter_map(|job| job.number);
        let held = self.lanes.iter().filter_map(|lane| lane.wordlines.lowest());
        let late = buffer.iter().filter_map(|slot| slot.first_stripe);
        in_flight.chain(held).chain(late).min().unwrap_or(self.next_number)
    }

    /// Stripes of a wordline.
    pub(in crate::ftl) fn wordline(&self) -> u32 {
        self.lanes[0].wordlines.stripes()
    }

    /// Whether a stripe is the last one of its wordline.
    pub(in crate::ftl) fn ends_with(&self, stripe: u32) -> bool {
        self.lanes[0].wordlines.ends_with(stripe)
    }

    /// Whether a stream may begin another wordline. One is kept for each stream, or a stream without one
    /// would wait for others, which may have nothing to end theirs with.
    pub(super) fn may_begin(&self, stream: usize) -> bool {
        let begun = |lane: &HostLane| lane.wordlines.count();
        let kept = self.lanes.iter().filter(|lane| begun(lane) == 0).count() as u32;
        begun(&self.lanes[stream]) == 0
            || self.lanes.iter().map(begun).sum::<u32>() + kept < self.wordlines_most
    }
}

/// When housekeeping is due.
#[derive(Default)]
pub(super) struct Chores {
    /// Units that were sent since the last time.
    units: u64,
    /// It is due or under way: no program begins.
    pub(super) is_due: bool,
}

impl Chores {
    /// Counts units that are sent. Returns whether housekeeping is due now.
    pub(super) fn count(&mut self, config: Option<&Housekeeping>, units: u64) -> bool {
        let Some(config) = config else { return false };
        self.units += units;
        if self.units < config.units {
            return false;
        }
        // A stripe may be several times as much: that is done at once.
        self.units %= config.units;
        self.is_due = true;
        true
    }
}

/// A host program in flight.
pub(in crate::ftl) struct Job {
    /// The stream of the host.
    pub(super) stream: u8,
    pub(super) block: BlockId,
    pub(super) stripe: u32,
    /// Number of the stripe, in order of allocation; None while the job is idle.
    pub(super) number: Option<u64>,
    /// The slots of its units, in the order of the stripe.
    pub(super) slots: Vec<u32>,
}

impl Job {
    pub(in crate::ftl) fn new(geometry: &Geometry) -> Self {
        let slots = Vec::with_capacity(geometry.units_per_stripe() as usize);
        Job { stream: 0, block: BlockId(0), stripe: 0, number: None, slots }
    }
}

/// Wait for the end of a job.
pub(in crate::ftl) struct Writer {
    pub(super) start: Notify,
    pub(super) ticket: Ticket,
}

impl Writer {
    pub(in crate::ftl) fn new(clock: &Clock, flash: &DataEnd) -> Self {
        Writer { start: Notify::new(clock), ticket: flash.ticket() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use byteway_clock::Delay;

    // Striping in turn that fell back to an idle die would show none of the waits of a real drive; one that waited for a die without space, or
    // with a flush, would wait for ever.
    #[test]
    fn in_turn_a_stripe_waits_for_a_busy_die_and_for_no_full_one() {
        let geometry = Geometry { channels: 4, ways: 1, planes: 1, blocks: 8, pages: 8, page_bytes: 8192 };
        for (striping, busy) in [(Striping::Ready, Some(1)), (Striping::InTurn, None)] {
            let config = FtlConfig { striping, ..FtlConfig::default() };
            let mut filling = Filling::new(&geometry, &config, 1, (1, 64), 8);
            let next = |filling: &Filling, full: bool| filling.next_die(0, full, true);
            assert_eq!(next(&filling, true), None, "no die has space");
            for die in 0..4 {
                filling.lanes[0].space.set(die, true);
                filling.lanes[0].ready.set(die, die > 0);
            }
            assert_eq!(next(&filling, true), busy, "die 0 is busy");
            assert_eq!(next(&filling, false), Some(1), "a flush waits for no die");
            filling.lanes[0].space.set(0, false);
            assert_eq!(next(&filling, true), Some(1), "die 0 is full");
        }
    }

    // Housekeeping that came once for a stripe of many times its units would still be due after it was done.
    #[test]
    fn housekeeping_is_due_once_for_what_was_sent() {
        let config = Housekeeping { units: 10, time: Delay::from_us(1) };
        let mut chores = Chores::default();
        let due: Vec<bool> = [4, 4, 4, 4, 35, 4].map(|units| chores.count(Some(&config), units)).into();
        assert_eq!(due, [false, false, true, false, true, false]);
        assert!(chores.is_due);
        assert!(!Chores::default().count(None, 1 << 40), "none is configured");
    }
}
