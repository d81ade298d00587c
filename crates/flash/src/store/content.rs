//! What units and their spare areas hold: in the base state, in a program, and in what is saved when the power goes.

use crate::geometry::{BlockId, Ppa};
use crate::timing::Mode;
use byteway_wire::content::Content;

/// The logical unit of one that belongs to none: padding.
pub const NO_LPA: u64 = u64::MAX;

/// What the array held when the run began, in closed form, so that any size is ready at once.
///
/// All methods must give the same answer for the same argument at any time; they are asked about addresses of the
/// geometry only, and must not call the array. `lpas` is only asked about units of stripes that `stripes` counts, and `content`
/// about logical units that it has given.
pub trait BaseContent {
    /// How many stripes of a superblock, from its first, were programmed. More than there are counts as all.
    fn stripes(&self, block: BlockId) -> u32 {
        let _ = block;
        u32::MAX
    }
    /// How many bits the cells of a superblock held.
    fn mode(&self, block: BlockId) -> Mode {
        let _ = block;
        Mode::Full
    }
    /// Writes into `lpas` which logical units consecutive units of a superblock, from `first` on, were programmed for;
    /// [`NO_LPA`] for none: such a one holds zeroes.
    fn lpas(&self, first: Ppa, lpas: &mut [u64]);
    /// What a logical unit held.
    fn content(&self, lpa: u64) -> Content;
}

/// The base state of a drive out of the factory: every block is erased.
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

/// What firmware writes into the spare area beside a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spare {
    /// The logical unit that it is of; [`NO_LPA`] for padding.
    pub lpa: u64,
    /// Which of that unit's states it is: the later one has the greater number. 0 in the base state.
    pub sequence: u64,
}

impl Spare {
    /// Of padding.
    pub const PADDING: Spare = Spare { lpa: NO_LPA, sequence: 0 };
}

/// A unit that holds an older state of a logical unit than anybody will ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outdated {
    /// The unit.
    pub ppa: Ppa,
    /// The logical unit that it is of.
    pub lpa: u64,
    /// A later state than what it holds: see [`Spare::sequence`].
    pub sequence: u64,
}

/// What a program writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// Stands in the spare area of the stripe: which one it is, in the order in which firmware gave them out. 0 in the
    /// base state.
    pub number: u64,
    /// The units, from the first of the stripe on; what is missing is padding.
    pub units: Vec<(Spare, Content)>,
}

/// What a drive with power-loss protection saves on its capacitors' charge.
#[derive(Clone, Debug, Default)]
pub struct Dump {
    /// The units of its write buffer, oldest first.
    pub units: Vec<(Spare, Content)>,
    /// Parts of units that lie over what is older of these, by blocks of 512 bytes: those that "can't be read"
    /// ([`Content::marred`]) are not there.
    pub parts: Vec<(Spare, Content)>,
    /// Whatever else firmware must not lose.
    pub records: Vec<u8>,
}
