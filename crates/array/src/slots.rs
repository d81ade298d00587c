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
                debug_assert!(*flushed <= *mark, "a stripe is rebuilt before it is flushed");
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

    /// The progress of the member that `joined` the slot, if it is still being rebuilt: it may have failed, and another one have taken its place,
    /// whenever a task has waited.
    fn rebuilding_mark(&mut self, slot: usize, joined: u32) -> Option<&mut u64> {
        match &mut self.states[slot] {
            SlotState::Rebuilding { mark } if self.joined[slot] == joined => Some(mark),
            _ => None,
        }
    }

    /// A stripe of the member that `joined` a slot is rebuilt. Returns whether that was the next one to rebuild: else it has failed.
    pub(crate) fn advance(&mut self, (slot, joined): (usize, u32), stripe: u64) -> bool {
        let mark = self.rebuilding_mark(slot, joined).filter(|mark| **mark == stripe);
        mark.map(|mark| *mark += 1).is_some()
    }

    /// The stripes below `end` of the member that `joined` a slot are durable.
    pub(crate) fn flush_to(&mut self, (slot, joined): (usize, u32), end: u64) {
        if let Some(mark) = self.rebuilding_mark(slot, joined) {
            debug_assert!(end <= *mark, "a stripe is rebuilt before it is flushed");
            self.flushed[slot] = end;
        }
    }

    /// All `stripes` of the member that `joined` a slot are durable. Returns whether it is active now.
    pub(crate) fn complete(&mut self, (slot, joined): (usize, u32), stripes: u64) -> bool {
        let is_whole = self.rebuilding_mark(slot, joined).is_some_and(|mark| *mark >= stripes);
        let is_rebuilt = is_whole && !self.is_broken;
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

#[cfg(test)]
mod tests {
    use super::*;
    use byteway_clock::{Clock, Executor, SpanId};
    use byteway_content::Content;
    use byteway_member::{Member, MemberShape};

    /// A drive that is asked for its properties only.
    struct Idle;

    impl Member for Idle {
        fn lanes(&self) -> usize {
            1
        }

        async fn describe(&self) -> Result<MemberShape, MemberLost> {
            Ok(MemberShape { units: 8, command_units: 1, block_bytes: 512, identity: "idle".into() })
        }

        async fn read(
            &self,
            _: usize,
            _: SpanId,
            _: u64,
            _: u32,
            _: &mut Vec<Content>,
        ) -> Result<(), MemberError> {
            Err(MemberError::Unreadable)
        }

        async fn write(
            &self,
            _: usize,
            _: SpanId,
            _: u64,
            _: &[Content],
            _: bool,
        ) -> Result<(), MemberError> {
            Ok(())
        }

        async fn write_part(
            &self,
            _: usize,
            _: SpanId,
            _: u64,
            _: u32,
            _: u32,
            _: &Content,
            _: bool,
        ) -> Result<(), MemberError> {
            Ok(())
        }

        async fn deallocate(&self, _: usize, _: SpanId, _: u64, _: u64) -> Result<(), MemberError> {
            Ok(())
        }

        async fn flush(&self, _: usize, _: SpanId) -> Result<(), MemberError> {
            Ok(())
        }
    }

    /// A mirror of four stripes, whose slot 1 is being rebuilt on the member that joined as number 2.
    async fn rebuilding(clock: &Clock) -> (Slots, Layout, Rc<Port>) {
        let layout = Layout::new(Level::Raid1, 2, 1, 4);
        let port = Port::attach(clock, Idle).await.expect("it is there");
        let states = vec![SlotState::Active, SlotState::Rebuilding { mark: 0 }];
        let slots = Slots::new(vec![Some(port.clone()), Some(port.clone())], states, vec![1, 2]);
        (slots, layout, port)
    }

    // What a task did for a member before it waited was counted for the member that had taken its place: that became active without its data.
    #[test]
    fn nothing_of_a_replaced_member_counts_for_its_successor() {
        let executor = Executor::new();
        let clock = executor.clock().clone();
        let test = async move {
            for done in 0..=4 {
                let (mut slots, layout, port) = rebuilding(&clock).await;
                let (old, new) = ((1, 2), (1, 5));
                assert!((0..done).all(|stripe| slots.advance(old, stripe)));
                assert!(!slots.advance(old, done + 1), "a stripe is left out");
                slots.flush_to(old, done);
                assert!(slots.fail(1, MemberError::Unreadable, &layout));
                assert!(!slots.advance(old, done) && !slots.complete(old, 4), "it has failed");
                assert!(slots.install(1, &port, 5));
                let begun = [SlotState::Active, SlotState::Rebuilding { mark: 0 }];
                // Each of what a rebuild does when it goes on.
                assert!(!slots.advance(old, 0) && !slots.advance(old, done) && !slots.complete(old, 4));
                slots.flush_to(old, done);
                assert_eq!(slots.states(), begun);
                let failed = slots.unrecorded();
                assert_eq!(slots.to_record(&failed).as_deref(), Some(&begun[..]), "nothing of it is durable");
                assert!((0..4).all(|stripe| !slots.complete(new, 4) && slots.advance(new, stripe)));
                slots.flush_to(new, 4);
                assert!(slots.complete(new, 4) && !slots.complete(new, 4));
                assert_eq!(slots.states(), [SlotState::Active; 2]);
            }
        };
        executor.run(test).unwrap_or_else(|stalled| panic!("{stalled}"));
    }
}
