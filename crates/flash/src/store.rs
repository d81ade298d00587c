//! What the array holds: a base state in closed form, and what the run has programmed over it.
//!
//! A superblock costs 16 bytes until it is first programmed; from then on 20 bytes for each of its units, and
//! the bytes of those units that are kept as bytes. Whether a test pattern is kept as a stamp or as its 4096 bytes
//! is decided where contents come in (`Content::of`, by its `Keep`), so this one store serves both.

use crate::geometry::{BlockId, Geometry, Ppa};
use byteway_wire::content::Content;

/// The logical unit of one that belongs to none: padding.
pub const NO_LPA: u32 = u32::MAX;

/// What the array held when the run began, in closed form, so that any size is ready at once.
///
/// All methods must give the same answer for the same argument at any time; they are asked about addresses of the
/// geometry only, and must not call the array. `content` and `lpa` are only asked about units of stripes that `stripes` counts.
pub trait BaseContent {
    /// How many stripes of a superblock, from its first, were programmed. More than there are counts as all.
    fn stripes(&self, block: BlockId) -> u32 {
        let _ = block;
        u32::MAX
    }
    /// What a unit held.
    fn content(&self, ppa: Ppa) -> Content;
    /// Which logical unit it was programmed for, if any.
    fn lpa(&self, ppa: Ppa) -> Option<u32>;
}

/// The base state of a drive out of the factory: every block is erased.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Blank;

impl BaseContent for Blank {
    fn stripes(&self, _: BlockId) -> u32 {
        0
    }
    fn content(&self, _: Ppa) -> Content {
        Content::Zero
    }
    fn lpa(&self, _: Ppa) -> Option<u32> {
        None
    }
}

/// What a program writes: for each unit of the stripe its logical unit ([`NO_LPA`] for padding) and its content.
pub type Batch = Vec<(u32, Content)>;

/// A superblock. Its first `programmed` stripes can be read.
struct Block {
    /// Where its contents are, or [`BASE`] if the closed form has them.
    live: u32,
    programmed: u32,
    erases: u32,
    /// A program or an erase of it has begun and not ended: its next stripe is torn.
    unsettled: bool,
}

const _: () = assert!(size_of::<Block>() == 16);

const BASE: u32 = u32::MAX;

/// Places for the contents of superblocks: made several at a time, so that a drive that is written all over makes few.
struct Places {
    units: Box<[Content]>,
    lpas: Box<[u32]>,
}

/// Superblocks whose places are made at once.
const PLACES: u32 = 16;

pub(crate) struct Store {
    geometry: Geometry,
    base: Box<dyn BaseContent>,
    blocks: Vec<Block>,
    places: Vec<Places>,
    /// Places that belong to no block; they hold nothing.
    free: Vec<u32>,
    live_units: u64,
}

/// A program that is out of order, or of a block that isn't erased.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refused;

impl Store {
    pub(crate) fn new(geometry: Geometry, base: Box<dyn BaseContent>) -> Self {
        let stripes = |id| base.stripes(BlockId(id)).min(geometry.pages);
        let blocks = (0..geometry.total_blocks())
            .map(|id| Block { live: BASE, programmed: stripes(id), erases: 0, unsettled: false })
            .collect();
        Store { geometry, base, blocks, places: Vec::new(), free: Vec::new(), live_units: 0 }
    }

    /// Stripes of a block that can be read.
    pub(crate) fn programmed(&self, block: BlockId) -> u32 {
        self.blocks[block.0 as usize].programmed
    }

    /// Brings a block's state into the cache for an operation that will end later: the table is larger than the cache,
    /// and nothing waits for this load.
    pub(crate) fn warm(&self, block: BlockId) {
        std::hint::black_box(self.blocks[block.0 as usize].programmed);
    }

    pub(crate) fn erases(&self, block: BlockId) -> u32 {
        self.blocks[block.0 as usize].erases
    }

    pub(crate) fn each_erases(&self) -> impl Iterator<Item = u32> {
        self.blocks.iter().map(|block| block.erases)
    }

    /// Units that are held in memory rather than in closed form.
    pub(crate) fn live_units(&self) -> u64 {
        self.live_units
    }

    /// Whether a stripe was left half programmed.
    pub(crate) fn is_torn(&self, block: BlockId, stripe: u32) -> bool {
        let block = &self.blocks[block.0 as usize];
        block.unsettled && stripe >= block.programmed
    }

    /// Hands the units of `mask` to `take`, in order; what isn't programmed is zero.
    pub(crate) fn read(&self, block: BlockId, stripe: u32, mask: u64, mut take: impl FnMut(Content)) {
        let first = stripe * self.geometry.units_per_stripe();
        let state = &self.blocks[block.0 as usize];
        let programmed = stripe < state.programmed;
        let start = block.0 * self.geometry.units_per_block();
        let mut left = mask;
        while left != 0 {
            let unit = first + left.trailing_zeros();
            left &= left - 1;
            take(match state.live {
                _ if !programmed => Content::Zero,
                BASE => self.base.content(Ppa(start + unit)),
                live => {
                    let (places, first) = self.place(live);
                    self.places[places].units[first + unit as usize].clone()
                }
            });
        }
    }

    pub(crate) fn content(&self, ppa: Ppa) -> Content {
        let mut content = Content::Zero;
        let geometry = &self.geometry;
        let mask = 1 << geometry.unit_of_stripe(ppa);
        self.read(geometry.block_of(ppa), geometry.stripe_of(ppa), mask, |unit| content = unit);
        content
    }

    pub(crate) fn lpa(&self, ppa: Ppa) -> Option<u32> {
        let block = &self.blocks[self.geometry.block_of(ppa).0 as usize];
        if self.geometry.stripe_of(ppa) >= block.programmed {
            return None;
        }
        match block.live {
            BASE => self.base.lpa(ppa),
            live => {
                let (places, first) = self.place(live);
                let lpa = self.places[places].lpas[first + self.geometry.unit_of_block(ppa) as usize];
                (lpa != NO_LPA).then_some(lpa)
            }
        }
    }

    /// Begins to program a stripe of `units` units; it is torn until [`Store::end_program`].
    pub(crate) fn begin_program(&mut self, block: BlockId, stripe: u32, units: usize) -> Result<(), Refused> {
        let state = &mut self.blocks[block.0 as usize];
        let fits = units <= self.geometry.units_per_stripe() as usize;
        if state.unsettled || stripe != state.programmed || stripe >= self.geometry.pages || !fits {
            return Err(Refused);
        }
        state.unsettled = true;
        Ok(())
    }

    /// The stripe that was begun is there, padded if `batch` is short.
    pub(crate) fn end_program(&mut self, block: BlockId, batch: &mut Batch) {
        if self.blocks[block.0 as usize].live == BASE {
            self.make_live(block);
        }
        let units = self.geometry.units_per_stripe() as usize;
        let state = &mut self.blocks[block.0 as usize];
        let stripe = state.programmed as usize;
        state.programmed += 1;
        state.unsettled = false;
        let (places, first) = self.place(self.blocks[block.0 as usize].live);
        let stripe = first + stripe * units..first + (stripe + 1) * units;
        let places = &mut self.places[places];
        let into = places.units[stripe.clone()].iter_mut().zip(&mut places.lpas[stripe]);
        let mut batch = batch.drain(..);
        for (unit, lpa) in into {
            (*lpa, *unit) = batch.next().unwrap_or((NO_LPA, Content::Zero));
        }
        self.live_units += units as u64;
    }

    /// Where the contents of place `live` begin: in which of `places`, and at which unit.
    fn place(&self, live: u32) -> (usize, usize) {
        let units = self.geometry.units_per_block() as usize;
        ((live / PLACES) as usize, (live % PLACES) as usize * units)
    }

    /// Begins to erase: from now on the block holds nothing.
    pub(crate) fn begin_erase(&mut self, block: BlockId) {
        let state = &mut self.blocks[block.0 as usize];
        let programmed = std::mem::take(&mut state.programmed);
        state.unsettled = true;
        let live = std::mem::replace(&mut state.live, BASE);
        if live != BASE {
            let held = (programmed * self.geometry.units_per_stripe()) as usize;
            let (places, first) = self.place(live);
            self.places[places].units[first..first + held].fill(Content::Zero);
            self.live_units -= held as u64;
            self.free.push(live);
        }
    }

    pub(crate) fn end_erase(&mut self, block: BlockId) {
        let state = &mut self.blocks[block.0 as usize];
        state.unsettled = false;
        state.erases += 1;
    }

    /// Gives a block contents of its own: none, or what the base state says that it holds already.
    fn make_live(&mut self, block: BlockId) {
        let live = self.free.pop().unwrap_or_else(|| {
            let units = (self.geometry.units_per_block() * PLACES) as usize;
            let first = self.places.len() as u32 * PLACES;
            self.places.push(Places {
                units: vec![Content::Zero; units].into_boxed_slice(),
                lpas: vec![NO_LPA; units].into_boxed_slice(),
            });
            self.free.extend((first + 1..first + PLACES).rev());
            first
        });
        let state = &mut self.blocks[block.0 as usize];
        state.live = live;
        let held = state.programmed * self.geometry.units_per_stripe();
        let (places, first) = self.place(live);
        let places = &mut self.places[places];
        let start = block.0 * self.geometry.units_per_block();
        for unit in 0..held {
            places.units[first + unit as usize] = self.base.content(Ppa(start + unit));
            places.lpas[first + unit as usize] = self.base.lpa(Ppa(start + unit)).unwrap_or(NO_LPA);
        }
        self.live_units += u64::from(held);
    }
}
