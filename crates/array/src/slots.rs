//! The slots of an array: their members and the members' states, as they are now and as they are durable.
//!
//! Two sets of states rather than one: what a member misses is decided by the states now, so that no task waits for a
//! lost member; what must be journaled, and where the journal lies, by the durable ones, since these are what a power
//! cut leaves. A failure is in the first set at once and in the second when the other members have recorded it.

use crate::config::Level;
use crate::layout::Layout;
use crate::port::Port;
use crate::superblock::SlotState;
use byteway_member::{MemberError, MemberLost};
use std::rc::Rc;

/// A slot that has failed, with its previous state.
pub(crate) type Failure = (usize, SlotState);

/// The members and their states.
pub(crate) struct Slots {
    ports: Vec<Option<Rc<Port>>>,
    states: Vec<SlotState>,
    /// States that are durable on the members.
    durable: Vec<SlotState>,
    /// For each slot being rebuilt: the stripe below which the new member is durably complete.
    flushed: Vec<u64>,
    /// Event number with which each slot's member joined.
    joined: Vec<u32>,
    /// Slots that have failed since.
    failed: Vec<Failure>,
    /// Too many members have failed.
    is_broken: bool,
}

impl Slots {
    /// Slots in these states, which are durable.
    pub(crate) fn new(ports: Vec<Option<Rc<Port>>>, states: Vec<SlotState>, joined: Vec<u32>) -> Slots {
        debug_assert!(ports.len() == states.len() && joined.len() == states.len(), "a slot has one of each");
        let mark = |state: &SlotState| if let SlotState::Rebuilding { mark } = state { *mark } else { 0 };
        let (flushed, durable) = (states.iter().map(mark).collect(), states.clone());
        Slots { ports, states, durable, flushed, joined, failed: Vec::new(), is_broken: false }
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.is_broken
    }

    pub(crate) fn states(&self) -> &[SlotState] {
        &self.states
    }

    /// Whether the states are durable on the members.
    pub(crate) fn is_settled(&self) -> bool {
        self.states == self.durable
    }

    /// Event number with which each slot's member joined.
    pub(crate) fn joined(&self) -> &[u32] {
        &self.joined
    }

    /// The member of a slot, failed or not.
    pub(crate) fn port(&self, slot: usize) -> Option<&Rc<Port>> {
        self.ports[slot].as_ref()
    }

    /// The member of a slot that has not failed.
    pub(crate) fn present_port(&self, slot: usize) -> Option<&Rc<Port>> {
        self.port(slot).filter(|_| self.states[slot] != SlotState::Failed)
    }

    /// All members, failed or not.
    pub(crate) fn ports(&self) -> impl Iterator<Item = &Rc<Port>> {
        self.ports.iter().flatten()
    }

    /// Slots with a member, rebuilt or not.
    pub(crate) fn present(&self) -> Vec<usize> {
        (0..self.states.len()).filter(|slot| self.present_port(*slot).is_some()).collect()
    }

    /// Whether a slot's member holds its data of a stripe.
    pub(crate) fn has(&self, slot: usize, stripe: u64) -> bool {
        self.states[slot].has(stripe)
    }

    /// Whether a member is missing in a stripe according to the durable states.
    pub(crate) fn is_degraded(&self, stripe: u64) -> bool {
        !self.durable.iter().all(|state| state.has(stripe))
    }

    /// Whether all members hold their data of a stripe, durably recorded.
    pub(crate) fn is_full(&self, stripe: u64) -> bool {
        self.states.iter().all(|state| state.has(stripe)) && !self.is_degraded(stripe)
    }

    /// Whether a member is missing or not rebuilt, or not recorded as present by all others.
    pub(crate) fn is_any_missing(&self) -> bool {
        !self.states.iter().chain(&self.durable).all(|state| *state == SlotState::Active)
    }

    /// The member that holds the journal: the first active one according to the superblocks. A member whose
    /// rebuild has just ended is not among these yet, and a power cut would leave its journal unnoticed.
    pub(crate) fn journal_slot(&self) -> Option<usize> {
        let mut both = self.states.iter().zip(&self.durable);
        both.position(|(state, durable)| (*state, *durable) == (SlotState::Active, SlotState::Active))
    }

    /// The first slot whose member failed, of an array that has not.
    pub(crate) fn failed_slot(&self) -> Option<usize> {
        let is_failed = |state: &SlotState| *state == SlotState::Failed;
        self.states.iter().position(is_failed).filter(|_| !self.is_broken)
    }

    /// Marks a member as failed. Returns whether it had not before.
    pub(crate) fn fail(&mut self, slot: usize, error: MemberError, layout: &Layout) -> bool {
        let before = std::mem::replace(&mut self.states[slot], SlotState::Failed);
        if before == SlotState::Failed {
            return false;
        }
        if let Some(port) = &self.ports[slot] {
            port.give_up(MemberLost::because(error));
        }
        self.failed.push((slot, before));
        self.is_broken = !is_complete(layout, &self.states);
        true
    }

    /// Failures that are not recorded yet; none of an array that has lost data, which records nothing more.
    pub(crate) fn unrecorded(&mut self) -> Vec<Failure> {
        if self.is_broken {
            self.failed.clear();
        }
        self.failed.clone()
    }

    /// These failures are recorded.
    pub(crate) fn end_recording(&mut self, recorded: &[Failure]) {
        self.failed.retain(|one| !recorded.contains(one));
    }

    /// The states to record, with the failures in `taken` and no other unrecorded one; `None` for an array that has
    /// lost data.
    pub(crate) fn to_record(&self, taken: &[Failure]) -> Option<Vec<SlotState>> {
        if self.is_broken {
            return None;
        }
        let mut states = self.states.clone();
        // Rebuilding continues meanwhile: a power cut may undo what it has written since its last flush.
        for (state, flushed) in states.iter_mut().zip(&self.flushed) {
            if let SlotState::Rebuilding { mark } = state {
                debug_assert!(*flushed <= *mark, "a stripe is flushed before it is rebuilt");
                *mark = *flushed;
            }
        }
        for (slot, before) in self.failed.iter().filter(|failed| !taken.contains(failed)) {
            states[*slot] = *before;
        }
        Some(states)
    }

    /// These states are durable on the members.
    pub(crate) fn are_durable(&mut self, states: Vec<SlotState>) {
        debug_assert_eq!(states.len(), self.states.len(), "an array never changes its number of slots");
        if !self.is_broken {
            self.durable = states;
        }
    }

    /// Puts a member into a failed slot, to be rebuilt. Returns whether that was possible.
    pub(crate) fn install(&mut self, slot: usize, port: &Rc<Port>, joined: u32) -> bool {
        if self.states[slot] != SlotState::Failed || self.is_broken {
            return false;
        }
        if let Some(old) = self.ports[slot].replace(port.clone()) {
            old.stop();
        }
        self.states[slot] = SlotState::Rebuilding { mark: 0 };
        self.flushed[slot] = 0;
        self.joined[slot] = joined;
        true
    }

    /// A slot to rebuild, and the first stripe that it lacks.
    pub(crate) fn rebuilding(&self) -> Option<(usize, u64)> {
        self.states.iter().enumerate().find_map(|(slot, state)| match state {
            SlotState::Rebuilding { mark } => Some((slot, *mark)),
            _ => None,
        })
    }

    /// A stripe of a slot is rebuilt. Returns whether that was the next one to rebuild: else the slot has failed, or got
    /// another member, which begins anew.
    pub(crate) fn advance(&mut self, slot: usize, stripe: u64) -> bool {
        match &mut self.states[slot] {
            SlotState::Rebuilding { mark } if *mark == stripe => *mark += 1,
            _ => return false,
        }
        true
    }

    /// The stripes of a slot below `end` are durable, of those that its present member has.
    pub(crate) fn flush_to(&mut self, slot: usize, end: u64) {
        if let SlotState::Rebuilding { mark } = self.states[slot] {
            self.flushed[slot] = end.min(mark);
        }
    }

    /// All `stripes` of a slot are durable, if its present member has them. Returns whether it is active now.
    pub(crate) fn complete(&mut self, slot: usize, stripes: u64) -> bool {
        let is_whole = |state| matches!(state, SlotState::Rebuilding { mark } if mark >= stripes);
        let is_rebuilt = is_whole(self.states[slot]) && !self.is_broken;
        if is_rebuilt {
            self.states[slot] = SlotState::Active;
        }
        is_rebuilt
    }
}

/// Whether all data are readable with these members.
pub(crate) fn is_complete(layout: &Layout, states: &[SlotState]) -> bool {
    let is_active = |state: &SlotState| *state == SlotState::Active;
    match layout.level {
        Level::Raid5 => states.iter().filter(|state| !is_active(state)).count() <= 1,
        _ => states.chunks(layout.copies).all(|copies| copies.iter().any(is_active)),
    }
}
