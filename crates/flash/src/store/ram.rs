//! Contents in memory: 32 bytes for each unit of a superblock that was ever programmed, plus the bytes of
//! units kept as bytes.

use super::block::{BASE, Block};
use super::content::{BaseContent, Batch, NO_LPA, Spare};
use crate::geometry::{BlockId, Geometry};
use byteway_content::Content;

/// Content slots of superblocks, allocated several at a time, so that a fully written drive makes few
/// allocations.
struct Places {
    units: Box<[Content]>,
    lpas: Box<[u64]>,
    sequences: Box<[u64]>,
    /// Number of each stripe.
    numbers: Box<[u64]>,
}

/// Superblocks whose slots are allocated together.
const PLACES: u32 = 16;

/// Contents of an array in memory.
#[derive(Default)]
pub(super) struct Ram {
    places: Vec<Places>,
    /// Slots that belong to no superblock.
    free: Vec<u32>,
    live_units: u64,
    /// The content of a unit whose bytes were discarded.
    forgotten: Option<Content>,
}

/// Location of slot `live`: index in `places`, and first unit there.
fn place(geometry: &Geometry, live: u32) -> (usize, usize) {
    let units = geometry.units_per_block() as usize;
    ((live / PLACES) as usize, (live % PLACES) as usize * units)
}

impl Ram {
    /// Units held.
    pub(super) fn live_units(&self) -> u64 {
        self.live_units
    }

    /// Counts `units` more as held.
    pub(super) fn add_live(&mut self, units: u64) {
        self.live_units += units;
    }

    pub(super) fn content(&self, geometry: &Geometry, live: u32, unit: u32) -> Content {
        let (places, first) = place(geometry, live);
        self.places[places].units[first + unit as usize].clone()
    }

    /// The spare areas of consecutive units from `unit` on.
    pub(super) fn spares(&self, geometry: &Geometry, live: u32, unit: u32, spares: &mut [Spare]) {
        let (places, first) = place(geometry, live);
        let (places, first) = (&self.places[places], first + unit as usize);
        let lpas = &places.lpas[first..first + spares.len()];
        let sequences = &places.sequences[first..first + spares.len()];
        for ((spare, lpa), sequence) in spares.iter_mut().zip(lpas).zip(sequences) {
            *spare = Spare { lpa: *lpa, sequence: *sequence };
        }
    }

    /// Discards a unit's bytes, if they are of an older version of `lpa` than `sequence`.
    pub(super) fn forget(&mut self, geometry: &Geometry, live: u32, unit: u32, lpa: u64, sequence: u64) {
        let (places, first) = place(geometry, live);
        let (places, at) = (&mut self.places[places], first + unit as usize);
        if places.lpas[at] == lpa && places.sequences[at] < sequence && places.units[at].pattern().is_none() {
            places.units[at] = self.forgotten.get_or_insert_with(Content::unreadable).clone();
        }
    }

    pub(super) fn number(&self, geometry: &Geometry, live: u32, stripe: u32) -> u64 {
        let (places, first) = place(geometry, live);
        self.places[places].numbers[first / geometry.units_per_stripe() as usize + stripe as usize]
    }

    /// Writes a stripe, padded if `batch` is short.
    pub(super) fn program(&mut self, geometry: &Geometry, live: u32, stripe: u32, batch: &mut Batch) {
        let units = geometry.units_per_stripe() as usize;
        let (places, first) = place(geometry, live);
        let start = first + stripe as usize * units;
        let places = &mut self.places[places];
        places.numbers[start / units] = batch.number;
        let lpas = places.lpas[start..start + units].iter_mut();
        let sequences = places.sequences[start..start + units].iter_mut();
        let contents = places.units[start..start + units].iter_mut();
        let padding = std::iter::repeat_with(|| (Spare::PADDING, Content::Zero));
        let batch = batch.units.drain(..).chain(padding);
        for (((lpa, sequence), content), (spare, programmed)) in lpas.zip(sequences).zip(contents).zip(batch)
        {
            (*lpa, *sequence, *content) = (spare.lpa, spare.sequence, programmed);
        }
        self.live_units += units as u64;
    }

    /// Empties a superblock of which `programmed` stripes were programmed.
    pub(super) fn erase(&mut self, geometry: &Geometry, live: u32, programmed: u32) {
        let held = (programmed * geometry.units_per_stripe()) as usize;
        let (places, first) = place(geometry, live);
        self.places[places].units[first..first + held].fill(Content::Zero);
        self.live_units -= held as u64;
        self.free.push(live);
    }

    /// Gives a superblock a slot, if it has none, with the contents of its base state.
    pub(super) fn make_live(
        &mut self,
        geometry: &Geometry,
        base: &dyn BaseContent,
        block: u32,
        state: &mut Block,
    ) {
        if state.live != BASE {
            return;
        }
        let live = self.free.pop().unwrap_or_else(|| {
            let units = geometry.units_per_block() as usize * PLACES as usize;
            let first = self.places.len() as u32 * PLACES;
            self.places.push(Places {
                units: vec![Content::Zero; units].into_boxed_slice(),
                lpas: vec![0; units].into_boxed_slice(),
                sequences: vec![0; units].into_boxed_slice(),
                numbers: vec![0; units / geometry.units_per_stripe() as usize].into_boxed_slice(),
            });
            self.free.extend((first + 1..first + PLACES).rev());
            first
        });
        state.live = live;
        let held = (state.programmed * geometry.units_per_stripe()) as usize;
        let (places, first) = place(geometry, live);
        let places = &mut self.places[places];
        let lpas = &mut places.lpas[first..first + held];
        base.lpas(geometry.ppa(BlockId(block), 0, 0), lpas);
        for (content, lpa) in places.units[first..].iter_mut().zip(lpas) {
            *content = if *lpa == NO_LPA { Content::Zero } else { base.content(*lpa) };
        }
        places.sequences[first..first + held].fill(0);
        let stripe_units = geometry.units_per_stripe() as usize;
        places.numbers[first / stripe_units..][..held / stripe_units].fill(0);
        self.live_units += held as u64;
    }
}
