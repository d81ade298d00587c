//! Unplugged members of an array, and the guarantees that must hold nevertheless.
//!
//! Guarantees (`byteway_array`, `assemble`): the loss of a member while all are present, and while all metadata that says so is durable,
//! has no effect. An array with parity may lose units, and must report them, if the member is lost while parity is not yet repaired after a
//! power cut, or together with the power while regions are marked as being written. In all other cases the array behaves as if all members
//! were present.
//!
//! Not guaranteed by any array, and therefore not tested: the loss of a second member; and, of mirrors that a power cut has left different,
//! that the others hold the data read from the first.

use super::kept::KeptArray;
use super::plan::{Fault, LevelSpec};
use super::seat::Run;
use byteway_array::{Array, SlotState};
use byteway_device::Backing;
use byteway_flash::Medium;
use byteway_world::PoweredDrive;
use std::cell::RefCell;

/// The slots of an array during a life.
pub(super) struct Bays {
    /// The numbers of the powered members, in the array's order.
    numbers: Vec<usize>,
    /// Whether the power was never off before, so that mirrors cannot differ.
    is_first_life: bool,
    pulled: RefCell<Vec<Pulled>>,
    /// Members that are lost at the next power-off, and whether they return.
    leaving: RefCell<Vec<(usize, bool)>>,
}

/// A member unplugged in this life.
struct Pulled {
    /// Index among the powered members.
    index: usize,
    returns: bool,
    media: Vec<Medium>,
}

impl Bays {
    pub(super) fn new(numbers: Vec<usize>, is_first_life: bool) -> Bays {
        Bays { numbers, is_first_life, pulled: RefCell::default(), leaving: RefCell::default() }
    }

    /// Whether no member was unplugged in this life.
    pub(super) fn are_full(&self) -> bool {
        self.pulled.borrow().is_empty()
    }

    /// The member that may be lost in place of member `number`: itself, or its mirror; `None` if none may.
    fn victim(&self, array: &Array, level: LevelSpec, number: usize) -> Option<usize> {
        let state = array.state();
        let is_whole = !state.is_degraded() && state.is_settled && !state.is_broken;
        if !level.is_redundant() || !is_whole || !self.are_full() {
            return None;
        }
        let slot_of = |index: usize| {
            let name = format!("member {index}");
            state.slots.iter().position(|(_, identity)| identity.as_deref() == Some(name.as_str()))
        };
        let index = self.numbers.iter().position(|own| *own == number)?;
        let slot = slot_of(index)?;
        let copies = level.copies(state.slots.len());
        let is_first_copy = copies > 1 && slot.is_multiple_of(copies);
        match is_first_copy && !self.is_first_life {
            true => (0..self.numbers.len()).find(|index| slot_of(*index) == Some(slot + 1)),
            false => Some(index),
        }
    }

    /// Unplugs a member, now or with the power.
    pub(super) fn inject_faults(&self, run: &Run, whole: &PoweredDrive, fault: &Fault) {
        let Fault::Unplug { member, returns, with_power, .. } = *fault else { return };
        let (Some(spec), Some(array)) = (&run.plan.drive.array, whole.drive.controller.backing().array())
        else {
            return;
        };
        let number = member as usize % spec.drives();
        if with_power {
            self.leaving.borrow_mut().push((number, returns));
            return;
        }
        let Some(index) = self.victim(array, spec.level, number) else { return };
        if spec.level == LevelSpec::Raid5 && array.state().regions_unsynced > 0 {
            run.let_reads_fail();
        }
        run.count(|tally| tally.members_unplugged += 1);
        let media = whole.behind[index].pull_out();
        self.pulled.borrow_mut().push(Pulled { index, returns, media });
    }

    /// Power-off, by a cut or after a shutdown: updates the persistent state.
    pub(super) fn power_off(
        &self,
        run: &Run,
        whole: &PoweredDrive,
        kept: KeptArray,
        is_cut: bool,
    ) -> KeptArray {
        let (Some(spec), backing) = (&run.plan.drive.array, whole.drive.controller.backing()) else {
            return kept;
        };
        let Some(array) = backing.array() else { return kept };
        let asked = self.leaving.take().into_iter().filter(|_| is_cut);
        let mut goes =
            asked.filter_map(|(number, returns)| Some((self.victim(array, spec.level, number)?, returns)));
        let goes = goes.next();
        let mut pulled = self.pulled.take().into_iter().next();
        let state = array.state();
        let is_known = state.is_settled && state.slots.iter().any(|(state, _)| *state == SlotState::Failed);
        // The next life finds a missing member about which the remaining ones have no record.
        let is_missed = goes.is_some() || pulled.as_ref().is_some_and(|pulled| !pulled.returns && !is_known);
        if is_cut && is_missed && spec.level == LevelSpec::Raid5 && state.regions_marked > 0 {
            run.let_reads_fail();
        }
        run.count(|tally| tally.members_unplugged += u64::from(goes.is_some()));
        let mut left = KeptArray { is_made: true, ..kept };
        left.nvram = match backing {
            Backing::Bridge(bridge) => bridge.power_off(),
            _ => Default::default(),
        };
        left.end_life(run.plan.defect);
        for (index, number) in self.numbers.iter().enumerate() {
            let pulled = pulled.take_if(|pulled| pulled.index == index);
            let media = match &pulled {
                Some(pulled) if !pulled.returns => continue,
                Some(_) => pulled.map_or(Vec::new(), |pulled| pulled.media),
                None => whole.behind[index].power_off_all(),
            };
            let Some(medium) = media.into_iter().next() else { continue };
            match goes.filter(|(going, _)| *going == index) {
                Some((_, true)) => drop(left.out.insert(*number, medium)),
                Some((_, false)) => {}
                None => drop(left.media.insert(*number, medium)),
            }
        }
        left
    }
}
