//! Contents of units and spare areas: in the base state, in a program, and in the save at a power cut.

use crate::geometry::{BlockId, Ppa};
use crate::timing::Mode;
use byteway_content::Content;
use std::any::Any;

/// The logical unit of padding.
pub const NO_LPA: u64 = u64::MAX;

/// Contents of the array at the start of the run, in closed form, so that an array of any size is ready at
/// once.
/// All methods are pure: the same argument always gives the same result. They are called only for addresses
/// of the geometry, and must not call the array. `lpas` is called only for units of stripes that `stripes`
/// counts, and `content` only for logical units that `lpas` has returned.
pub trait BaseContent: Any {
    /// Programmed stripes of a superblock, from its first. More than its stripes counts as all.
    fn stripes(&self, block: BlockId) -> u32 {
        let _ = block;
        u32::MAX
    }
    /// Bits a cell in a superblock.
    fn mode(&self, block: BlockId) -> Mode {
        let _ = block;
        Mode::Full
    }
    /// Writes into `lpas` the logical unit of each consecutive unit of a superblock from `first` on;
    /// [`NO_LPA`] for a unit that belongs to none and holds zeroes.
    fn lpas(&self, first: Ppa, lpas: &mut [u64]);
    /// Content of a logical unit.
    fn content(&self, lpa: u64) -> Content;
}

/// The base state of a factory-new drive: every block is erased.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Blank;

impl BaseContent for Blank {
    fn stripes(&self, _: BlockId) -> u32 {
        0
    }
    fn lpas(&self, _: Ppa, lpas: &mut [u64]) {
        lpas.fill(NO_LPA);
    }
    fn content(&self, _: u64) -> Content {
        Content::Zero
    }
}

/// Contents of the spare area of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spare {
    /// The logical unit; [`NO_LPA`] for padding.
    pub lpa: u64,
    /// Version of the logical unit: a later version has a greater number. 0 in the base state.
    pub sequence: u64,
}

impl Spare {
    /// The spare area of padding.
    pub const PADDING: Spare = Spare { lpa: NO_LPA, sequence: 0 };
}

/// A unit with an outdated version of its logical unit, which no read will ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outdated {
    /// Address of the unit.
    pub ppa: Ppa,
    /// Logical unit.
    pub lpa: u64,
    /// A later version than the one that the unit holds: see [`Spare::sequence`].
    pub sequence: u64,
}

/// Data of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// Number in the spare area of the stripe: the order in which firmware assigned stripes. 0 in the base
    /// state.
    pub number: u64,
    /// The units, from the first of the stripe on. Missing units are padding.
    pub units: Vec<(Spare, Content)>,
}

/// Volatile state that a drive with power-loss protection saves on its capacitors' charge.
#[derive(Clone, Debug, Default)]
pub struct Dump {
    /// Units of the write buffer, oldest first.
    pub units: Vec<(Spare, Content)>,
    /// Parts of units that overlay older units of this stripe, in blocks of 512 bytes. Blocks marked
    /// unreadable ([`Content::marred`]) are excluded.
    pub parts: Vec<(Spare, Content)>,
    /// Further state of the firmware, encoded by it.
    pub records: Vec<u8>,
}
