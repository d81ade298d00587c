//! The near end's copy of superblock states and spare areas.
//!
//! A superblock takes 88 bytes, and while it is programmed 16 bytes a unit and 8 a stripe in addition: half a
//! per cent of the programmed data, or 4.2 GiB for 1 TiB in stripes of 64 KiB.

use crate::far::link::{BlockReport, FarShape, FarStripe, Gone};
use crate::geometry::{BlockId, Geometry, Ppa};
use crate::store::{Batch, NO_LPA, Spare};
use crate::timing::Mode;

/// Number of an unreadable stripe. Firmware never assigns it.
const NO_NUMBER: u64 = u64::MAX;

pub(super) struct Known {
    pub(super) programmed: u32,
    pub(super) erases: u32,
    pub(super) erases_since_made: u32,
    pub(super) reads: u32,
    pub(super) programmed_at_ns: u64,
    pub(super) mode: Mode,
    pub(super) is_bad: bool,
    pub(super) is_unstable: bool,
    /// Number of each programmed stripe.
    numbers: Vec<u64>,
    /// Spare area of each of their units.
    spares: Vec<Spare>,
}

pub(super) struct Mirror {
    geometry: Geometry,
    wordline: u32,
    blocks: Vec<Known>,
}

impl Mirror {
    pub(super) fn new(shape: &FarShape, reports: &[BlockReport]) -> Result<Self, Gone> {
        let FarShape { geometry, wordline, .. } = *shape;
        if reports.len() != geometry.total_blocks() as usize {
            return Err(Gone::because("not every superblock was reported"));
        }
        let blank = || Known {
            programmed: 0,
            erases: 0,
            erases_since_made: 0,
            reads: 0,
            programmed_at_ns: 0,
            mode: Mode::Full,
            is_bad: false,
            is_unstable: false,
            numbers: Vec::new(),
            spares: Vec::new(),
        };
        let blocks = reports.iter().map(|_| blank()).collect();
        let mut mirror = Mirror { geometry, wordline, blocks };
        for (block, report) in (0..).map(BlockId).zip(reports) {
            mirror.report(block, report)?;
        }
        Ok(mirror)
    }

    pub(super) fn block(&self, block: BlockId) -> &Known {
        &self.blocks[block.0 as usize]
    }

    pub(super) fn each_erases(&self) -> impl Iterator<Item = u32> {
        self.blocks.iter().map(|known| known.erases_since_made)
    }

    pub(super) fn block_mut(&mut self, block: BlockId) -> &mut Known {
        &mut self.blocks[block.0 as usize]
    }

    /// Adopts the reported state of a superblock. Stripes newly known to be programmed have unknown spare
    /// areas.
    ///
    /// # Errors
    /// [`Gone`] if the report is not within the shape.
    pub(super) fn report(&mut self, block: BlockId, report: &BlockReport) -> Result<(), Gone> {
        if report.programmed > self.geometry.pages {
            return Err(Gone::because("a superblock has more programmed stripes than stripes"));
        }
        let units = self.geometry.units_per_stripe();
        let known = self.block_mut(block);
        known.programmed = report.programmed;
        known.erases = report.erases;
        known.erases_since_made = report.erases_since_made;
        known.reads = report.reads;
        known.programmed_at_ns = report.programmed_at_ns;
        known.mode = report.mode;
        known.is_bad |= report.is_bad; // a mark may still be in flight
        known.is_unstable = report.is_unstable;
        known.resize(units);
        Ok(())
    }

    /// First stripe that a failed program of `stripe` may have damaged.
    pub(super) fn spoilt_from(&self, block: BlockId, stripe: u32) -> u32 {
        match self.block(block).mode {
            Mode::Full => stripe / self.wordline * self.wordline,
            Mode::OneBit => stripe,
        }
    }

    /// Adopts the result of a read of `mask`.
    pub(super) fn learn(&mut self, block: BlockId, stripe: u32, mask: u64, read: &FarStripe) {
        let units = self.geometry.units_per_stripe() as usize;
        let known = self.block_mut(block);
        if stripe >= known.programmed {
            return;
        }
        known.numbers[stripe as usize] = read.number.unwrap_or(NO_NUMBER);
        let spares = &mut known.spares[stripe as usize * units..][..units];
        let wanted = spares.iter_mut().enumerate().filter(|(unit, _)| mask >> unit & 1 == 1);
        for ((_, known), spare) in wanted.zip(&read.spares) {
            *known = *spare;
        }
    }

    /// Records that a stripe was programmed.
    pub(super) fn programmed(&mut self, block: BlockId, stripe: u32, batch: &Batch, now_ns: u64) {
        let units = self.geometry.units_per_stripe();
        let known = self.block_mut(block);
        if known.programmed == 0 {
            known.programmed_at_ns = now_ns;
        }
        known.programmed = known.programmed.max(stripe + 1);
        known.resize(units);
        known.numbers[stripe as usize] = batch.number;
        let first = stripe as usize * units as usize;
        for (known, (spare, _)) in known.spares[first..].iter_mut().zip(&batch.units) {
            *known = *spare;
        }
    }

    /// Records that an erase was sent, which may start at any moment.
    pub(super) fn begin_erase(&mut self, block: BlockId) {
        let known = self.block_mut(block);
        (known.programmed, known.reads, known.is_unstable) = (0, 0, true);
        known.numbers.clear();
        known.spares.clear();
    }

    pub(super) fn end_erase(&mut self, block: BlockId) {
        let known = self.block_mut(block);
        known.is_unstable = false;
        known.erases = known.erases.saturating_add(1);
        known.erases_since_made = known.erases_since_made.saturating_add(1);
    }

    pub(super) fn number(&self, block: BlockId, stripe: u32) -> Option<u64> {
        let number = self.block(block).numbers.get(stripe as usize).copied();
        number.filter(|number| *number != NO_NUMBER)
    }

    pub(super) fn spare(&self, ppa: Ppa) -> Option<Spare> {
        if ppa.0 >= self.geometry.total_units() {
            return None;
        }
        let mut spare = [Spare::PADDING];
        self.spares(ppa, &mut spare);
        (spare[0].lpa != NO_LPA).then_some(spare[0])
    }

    /// The spare areas of consecutive units of a stripe from `first` on; [`Spare::PADDING`] for an unreadable
    /// stripe.
    pub(super) fn spares(&self, first: Ppa, spares: &mut [Spare]) {
        let (block, stripe) = (self.geometry.block_of(first), self.geometry.stripe_of(first));
        match self.number(block, stripe) {
            None => spares.fill(Spare::PADDING),
            Some(_) => {
                let first = self.geometry.unit_of_block(first) as usize;
                spares.copy_from_slice(&self.block(block).spares[first..][..spares.len()]);
            }
        }
    }
}

impl Known {
    /// Allocates space for the programmed stripes.
    fn resize(&mut self, units_per_stripe: u32) {
        self.numbers.resize(self.programmed as usize, NO_NUMBER);
        self.spares.resize((self.programmed * units_per_stripe) as usize, Spare::PADDING);
    }
}
