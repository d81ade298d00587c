//! State of host stripes being filled and programmed: the turn of the dies, programs in flight, and their
//! tasks.

use crate::ftl::write::die_set::DieSet;
use crate::ftl::write::wordline::Wordlines;
use byteway_clock::{Clock, Notify};
use byteway_flash::{BlockId, DataEnd, Geometry, Ticket};

/// Maximum host programs in flight for a die: one in progress, and the next one ready behind it.
pub(in crate::ftl) const PROGRAMS_PER_DIE: u32 = 2;

/// State of host stripes being filled and programmed.
pub(in crate::ftl) struct Filling {
    /// Number of the next stripe.
    pub(in crate::ftl) next_number: u64,
    /// Units buffered before this sequence number must not wait for a full stripe.
    pub(in crate::ftl) flush_to: u64,
    /// Deallocations before this sequence number have dropped units from the buffer.
    pub(in crate::ftl) dropped_to: u64,
    /// The die whose turn it is.
    pub(in crate::ftl) next_die: u32,
    /// Dies that can take a host stripe.
    pub(in crate::ftl) ready: DieSet,
    /// Host programs in flight, by die.
    pub(in crate::ftl) in_flight: Vec<u32>,
    pub(in crate::ftl) wordlines: Wordlines,
    pub(in crate::ftl) jobs: Vec<Job>,
    pub(in crate::ftl) idle_jobs: Vec<u32>,
    /// Scratch for traces: the I/Os whose units a stripe holds.
    pub(in crate::ftl) ios: Vec<u32>,
}

impl Filling {
    /// State for wordlines of `wordline` stripes, a buffer of `slots`, and at most `jobs` programs in flight;
    /// for `takes_along` see [`Wordlines::new`].
    pub(in crate::ftl) fn new(
        geometry: &Geometry,
        wordline: u32,
        slots: u32,
        takes_along: bool,
        jobs: usize,
    ) -> Self {
        Filling {
            next_number: 1,
            flush_to: 0,
            dropped_to: 0,
            next_die: 0,
            ready: DieSet::new(geometry.dies()),
            in_flight: vec![0; geometry.dies() as usize],
            wordlines: Wordlines::new(geometry, wordline, slots, takes_along),
            jobs: (0..jobs).map(|_| Job::new(geometry)).collect(),
            idle_jobs: (0..jobs as u32).rev().collect(),
            ios: Vec::new(),
        }
    }
}

/// A host program in flight.
pub(in crate::ftl) struct Job {
    pub(super) block: BlockId,
    pub(super) stripe: u32,
    /// Number of the stripe, in order of allocation; None while the job is idle.
    pub(in crate::ftl) number: Option<u64>,
    /// The slots of its units, in the order of the stripe.
    pub(super) slots: Vec<u32>,
}

impl Job {
    pub(in crate::ftl) fn new(geometry: &Geometry) -> Self {
        let slots = Vec::with_capacity(geometry.units_per_stripe() as usize);
        Job { block: BlockId(0), stripe: 0, number: None, slots }
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
