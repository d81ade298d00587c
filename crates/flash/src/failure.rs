//! Failures of operations, by the error model and by the fault plan.

use crate::fault::{FaultKind, FaultPlan, Faults};
use crate::reliability::Reliability;
use crate::timing::Mode;
use byteway_clock::random::{Rng, Stream};

/// Retry count of a unit that no retry corrects.
pub(crate) const UNCORRECTABLE: u8 = u8::MAX;

/// Present only where something can fail, so that others pay nothing.
pub(crate) struct FailureModel {
    reliability: Option<Reliability>,
    /// Random streams of the error model, by die.
    streams: Vec<Stream>,
    faults: Option<Box<Faults>>,
}

/// State of a superblock's cells.
#[derive(Clone, Copy)]
pub(crate) struct Cells {
    pub(crate) mode: Mode,
    pub(crate) erases: u32,
    pub(crate) reads: u32,
    /// Seconds since its first stripe was programmed.
    pub(crate) age_s: f64,
}

impl FailureModel {
    pub(crate) fn new(
        reliability: Option<Reliability>,
        plan: FaultPlan,
        rng: &Rng,
        dies: u32,
    ) -> Option<Self> {
        let faults = Faults::new(plan, rng, dies);
        if reliability.is_none() && faults.is_none() {
            return None;
        }
        let drawing = if reliability.is_some() { dies } else { 0 };
        let streams = (0..drawing).map(|die| rng.stream(&format!("die-{die}/errors"))).collect();
        Some(FailureModel { reliability, streams, faults })
    }

    /// Replaces the fault plan. None if nothing can fail any more.
    pub(crate) fn inject(this: Option<Self>, plan: FaultPlan, rng: &Rng, dies: u32) -> Option<Self> {
        let Some(this) = this else { return FailureModel::new(None, plan, rng, dies) };
        let faults = Faults::new(plan, rng, dies);
        (faults.is_some() || this.reliability.is_some()).then_some(FailureModel { faults, ..this })
    }

    /// Maximum retries of a read.
    pub(crate) fn retries(&self) -> u8 {
        self.reliability.as_ref().map_or(0, |reliability| reliability.retry_steps as u8)
    }

    /// Whether a read that starts on a die fails in any case.
    pub(crate) fn begin_read(&mut self, die: u32) -> bool {
        self.next_fails(die, FaultKind::Read)
    }

    /// Whether a program that starts on a die fails.
    pub(crate) fn begin_program(&mut self, die: u32, cells: Cells) -> bool {
        let planned = self.next_fails(die, FaultKind::Program);
        let chance = self.reliability.as_ref().map(|part| part.program_failure(cells.mode, cells.erases));
        self.happens(die, chance) | planned
    }

    /// Whether an erase that starts on a die fails.
    pub(crate) fn begin_erase(&mut self, die: u32, cells: Cells) -> bool {
        let planned = self.next_fails(die, FaultKind::Erase);
        let chance = self.reliability.as_ref().map(|part| part.erase_failure(cells.mode, cells.erases));
        self.happens(die, chance) | planned
    }

    fn next_fails(&mut self, die: u32, kind: FaultKind) -> bool {
        self.faults.as_mut().is_some_and(|faults| faults.next_fails(die, kind))
    }

    fn happens(&mut self, die: u32, chance: Option<f64>) -> bool {
        chance.is_some_and(|chance| chance > 0.0 && self.streams[die as usize].chance(chance))
    }

    /// Draws for each unit in the mask how many retries it needs; the others need none.
    pub(crate) fn draw(&mut self, die: u32, page: u32, mask: u64, cells: Cells, steps: &mut [u8]) {
        steps.fill(0);
        let Some(part) = &self.reliability else { return };
        let stream = &mut self.streams[die as usize];
        let rate = part.error_rate(cells.mode, page, cells.erases, cells.reads);
        let shift = part.shift_after(cells.mode, cells.erases, cells.age_s);
        for (_, steps) in steps.iter_mut().enumerate().filter(|(unit, _)| mask >> unit & 1 == 1) {
            *steps = part.draw(rate, shift, stream).map_or(UNCORRECTABLE, |retries| retries as u8);
        }
    }
}
