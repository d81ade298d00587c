//! The write-intent log: regions of the members that may hold inconsistent stripes.
//!
//! A region's bit is durable on every member before the first write to it is sent. It is cleared in the
//! background, when nothing has been written there for a while and a flush has made the writes durable. After
//! a power cut the bits determine what must be repaired. All bits fit one unit, so a region is a 32768th of a
//! member, or 4 MiB if that is more.
//!
//! Bits rather than a journal of all writes: a journal would close the write hole with every member present, too, but at
//! the price of each write twice; bits cost a write only when a region wakes, and a repair reads what they name. Where
//! repair can't do it, in degraded stripes, there is a journal.

use crate::area::UNIT_BITS;
use byteway_clock::{Clock, Notify, Permit, Semaphore};
use byteway_content::{Content, Keep, UNIT_BYTES};
use std::cell::{Cell, RefCell};
use std::ops::Range;

/// Minimum units of a member in a region.
const REGION_UNITS_MIN: u64 = 1024;

pub(crate) struct Intents {
    /// Stripes of a region.
    region_stripes: u64,
    state: RefCell<State>,
    /// Notified when a region waits for its bit.
    wanted: Notify,
    /// Notified when bits have become durable, or nothing is left to make durable.
    written: Notify,
    /// Turn to write the log: one task at a time.
    turn: Semaphore,
    /// Stripes from here on need no repair, whatever their region's mark: they were degraded at the power cut.
    unsynced_below: Cell<u64>,
    /// Number of scans for idle regions.
    tick: Cell<u32>,
    /// Value of `tick` at the last timed scan.
    timed: Cell<u32>,
}

struct State {
    /// Bits, one for each region, that are durable on the members or about to be.
    bits: Vec<u64>,
    /// Bits among these that are not durable yet.
    wanted: Vec<u64>,
    wanted_count: u32,
    /// Bits whose clearing is not durable yet.
    cleared: Vec<u64>,
    /// Writes in flight, by region.
    writers: Vec<u32>,
    /// Tick of the last write, by region.
    used: Vec<u32>,
    /// Regions whose copies or parity may be inconsistent.
    unsynced: Vec<u64>,
    unsynced_count: u32,
}

fn has(bits: &[u64], region: usize) -> bool {
    bits[region / 64] & 1 << (region % 64) != 0
}

fn set(bits: &mut [u64], region: usize, on: bool) -> bool {
    let word = &mut bits[region / 64];
    let was = *word & 1 << (region % 64) != 0;
    *word = *word & !(1 << (region % 64)) | u64::from(on) << (region % 64);
    was
}

impl Intents {
    pub(crate) fn new(clock: &Clock, stripes: u64, chunk: u64) -> Self {
        let region_units = (stripes * chunk).div_ceil(UNIT_BITS).max(REGION_UNITS_MIN).next_power_of_two();
        let region_stripes = (region_units / chunk).max(1);
        let regions = stripes.div_ceil(region_stripes) as usize;
        let words = regions.div_ceil(64);
        Intents {
            region_stripes,
            state: RefCell::new(State {
                bits: vec![0; words],
                wanted: vec![0; words],
                wanted_count: 0,
                cleared: vec![0; words],
                writers: vec![0; regions],
                used: vec![0; regions],
                unsynced: vec![0; words],
                unsynced_count: 0,
            }),
            wanted: Notify::new(clock),
            written: Notify::new(clock),
            turn: Semaphore::new(clock, 1),
            unsynced_below: Cell::new(u64::MAX),
            tick: Cell::new(1),
            timed: Cell::new(1),
        }
    }

    /// Waits until a region waits for its bit. For one task, the one that writes the log.
    pub(crate) async fn wanted(&self) {
        self.wanted.notified().await;
    }

    /// Waits until bits have become durable, or it must be looked whether they still will.
    pub(crate) async fn written(&self) {
        self.written.notified().await;
    }

    /// Wakes the tasks that wait for bits: too few members may be left.
    pub(crate) fn wake(&self) {
        self.written.notify_all();
    }

    /// Waits for the turn to write the log: one task at a time.
    pub(crate) async fn turn(&self) -> Permit {
        self.turn.acquire(1).await
    }

    /// Leaves stripes from `below` on out of the repair.
    pub(crate) fn limit_repair(&self, below: u64) {
        self.unsynced_below.set(below);
    }

    fn regions(&self, stripes: &Range<u64>) -> Range<usize> {
        (stripes.start / self.region_stripes) as usize..stripes.end.div_ceil(self.region_stripes) as usize
    }

    fn count(&self) -> usize {
        self.state.borrow().writers.len()
    }

    /// The stripes of a region; the last region may extend beyond the array.
    pub(crate) fn stripes(&self, region: usize) -> Range<u64> {
        region as u64 * self.region_stripes..(region as u64 + 1) * self.region_stripes
    }

    /// Begins writes to stripes. Returns whether their bits are durable; otherwise wait for
    /// [`are_marked`](Self::are_marked).
    pub(crate) fn begin(&self, stripes: &Range<u64>) -> bool {
        let state = &mut *self.state.borrow_mut();
        let mut durable = true;
        for region in self.regions(stripes) {
            state.writers[region] += 1;
            state.used[region] = self.tick.get();
            if !set(&mut state.bits, region, true) {
                set(&mut state.wanted, region, true);
                state.wanted_count += 1;
            }
            durable &= !has(&state.wanted, region);
        }
        if !durable {
            self.wanted.notify_one();
        }
        durable
    }

    pub(crate) fn are_marked(&self, stripes: &Range<u64>) -> bool {
        let state = self.state.borrow();
        !self.regions(stripes).any(|region| has(&state.wanted, region))
    }

    /// Ends writes to stripes.
    pub(crate) fn end(&self, stripes: &Range<u64>) {
        let state = &mut *self.state.borrow_mut();
        for region in self.regions(stripes) {
            debug_assert!(state.writers[region] > 0, "a write ends that has not begun");
            debug_assert!(has(&state.bits, region), "a region is cleaned while it is written");
            state.writers[region] -= 1;
            state.used[region] = self.tick.get();
        }
    }

    /// The log to write, and the bits that will then be durable; None if there is nothing to write.
    pub(crate) fn to_write(&self) -> Option<(Content, Vec<u64>)> {
        let state = self.state.borrow();
        (state.wanted_count > 0).then(|| (encode(&state.bits), state.wanted.clone()))
    }

    /// Encodes the present bits.
    pub(crate) fn encoded(&self) -> Content {
        encode(&self.state.borrow().bits)
    }

    /// Records that these bits are durable.
    pub(crate) fn are_written(&self, written: &[u64]) {
        let state = &mut *self.state.borrow_mut();
        for (wanted, written) in state.wanted.iter_mut().zip(written) {
            *wanted &= !written;
        }
        state.wanted_count = state.wanted.iter().map(|word| word.count_ones()).sum();
        self.written.notify_all();
    }

    /// Regions with bits, without writes in flight, and without a recent write: none between two calls with
    /// `is_timed`; for other calls, all idle regions. Also returns the argument for [`clean`](Self::clean).
    pub(crate) fn idle(&self, is_timed: bool) -> (Vec<usize>, u32) {
        let state = self.state.borrow();
        let now = self.tick.get();
        self.tick.set(now + 1);
        let before = if is_timed { self.timed.replace(now + 1) } else { now + 1 };
        let is_idle = |region: &usize| state.may_be_cleaned(*region) && state.used[*region] < before;
        ((0..self.count()).filter(is_idle).collect(), before)
    }

    /// Clears the bits of `regions` not written since [`idle`](Self::idle). Returns whether there were any.
    pub(crate) fn clean(&self, (regions, before): &(Vec<usize>, u32)) -> bool {
        let state = &mut *self.state.borrow_mut();
        let mut any = false;
        for region in regions {
            if state.may_be_cleaned(*region) && state.used[*region] < *before {
                let was = set(&mut state.bits, *region, false);
                set(&mut state.cleared, *region, was);
                any |= was;
            }
        }
        any
    }

    /// Records that the clearing is durable on the members.
    pub(crate) fn are_cleared(&self) {
        self.state.borrow_mut().cleared.fill(0);
    }

    /// Merges the bits of a member. Regions with bits are inconsistent.
    pub(crate) fn merge(&self, content: &Content) {
        let mut bytes = [0; UNIT_BYTES];
        content.write_to(&mut bytes);
        let state = &mut *self.state.borrow_mut();
        for (word, bytes) in bytes.as_chunks::<8>().0.iter().enumerate().take(state.bits.len()) {
            state.bits[word] |= u64::from_le_bytes(*bytes);
        }
        let regions = state.writers.len();
        (regions..state.bits.len() * 64).for_each(|beyond| {
            set(&mut state.bits, beyond, false);
        });
    }

    /// Marks all regions with bits for repair.
    pub(crate) fn distrust(&self) {
        let state = &mut *self.state.borrow_mut();
        state.unsynced.clone_from(&state.bits);
        state.unsynced_count = state.unsynced.iter().map(|word| word.count_ones()).sum();
    }

    /// Sets the bits of all regions, and marks them for repair.
    pub(crate) fn distrust_all(&self) {
        let regions = self.count();
        {
            let state = &mut *self.state.borrow_mut();
            (0..regions).for_each(|region| {
                set(&mut state.bits, region, true);
            });
        }
        self.distrust();
    }

    /// Whether the copies or the parity of a stripe may be wrong since a power cut.
    pub(crate) fn is_unsynced(&self, stripe: u64) -> bool {
        let state = self.state.borrow();
        state.unsynced_count > 0
            && has(&state.unsynced, (stripe / self.region_stripes) as usize)
            && stripe < self.unsynced_below.get()
    }

    /// The regions to repair.
    pub(crate) fn unsynced(&self) -> Vec<usize> {
        let state = self.state.borrow();
        (0..self.count()).filter(|region| has(&state.unsynced, *region)).collect()
    }

    pub(crate) fn unsynced_count(&self) -> u32 {
        self.state.borrow().unsynced_count
    }

    /// Records that a region is consistent.
    pub(crate) fn synced(&self, region: usize) {
        let state = &mut *self.state.borrow_mut();
        if set(&mut state.unsynced, region, false) {
            state.unsynced_count -= 1;
        }
    }

    /// Number of regions with bits, here or durably on a member.
    pub(crate) fn marked(&self) -> u32 {
        let state = self.state.borrow();
        state.bits.iter().zip(&state.cleared).map(|(bits, cleared)| (bits | cleared).count_ones()).sum()
    }

    /// Memory in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        let state = self.state.borrow();
        (state.bits.capacity() * 4 * 8 + state.writers.capacity() * 8) as u64
    }
}

impl State {
    fn may_be_cleaned(&self, region: usize) -> bool {
        self.writers[region] == 0
            && has(&self.bits, region)
            && !has(&self.wanted, region)
            && !has(&self.unsynced, region)
    }
}

fn encode(bits: &[u64]) -> Content {
    let mut bytes = [0; UNIT_BYTES];
    for (into, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(bits) {
        *into = word.to_le_bytes();
    }
    Content::of(&bytes, Keep::Bytes)
}
