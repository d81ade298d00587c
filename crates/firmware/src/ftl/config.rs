//! The parameters of a translation layer, and what can be wrong with them.

use byteway_flash::{Geometry, GeometryError, TimingError};
use byteway_wire::content::{BlockSize, Keep};

/// Which superblock the collector takes next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Victim {
    /// The one with the fewest valid units; among equals the one that was closed first.
    #[default]
    Greedy,
    /// The one with the most `age * (1 - u) / 2u`, where u is its share of valid units and its age is how many
    /// superblocks of the die were closed since it was (Rosenblum and Ousterhout, "The Design and Implementation of a
    /// Log-Structured File System", 3.6; 2u stands for the read and the write of what is valid).
    CostBenefit,
}

/// What the drive holds before the first I/O, in closed form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Base {
    /// Nothing: every unit reads as zeroes.
    #[default]
    Empty,
    /// Every unit, written once in order.
    Filled,
    /// Every unit, as uniform random overwrites under greedy collection leave them in the long run.
    Steady,
}

/// Units whose first content is the pattern of one namespace. Its stamps count logical blocks from its first unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// Where it begins. It ends where the next one begins.
    pub first_unit: u64,
    /// The tag of its stamps.
    pub tag: u16,
    /// The size of its logical blocks.
    pub block: BlockSize,
}

/// Parameters of a translation layer.
#[derive(Clone, Debug, PartialEq)]
pub struct FtlConfig {
    /// Units of 4 KiB that the host can address. See [`FtlConfig::user_units_at`].
    pub user_units: u64,
    /// Units that the write buffer holds; taken as two stripes at least.
    pub write_buffer_units: u32,
    /// How the collector chooses.
    pub gc: Victim,
    /// The collector of a die works while no more superblocks than this are free.
    pub gc_start_free_blocks: u32,
    /// Superblocks of a die that only the collector may open, at least one; it needs one to be able to end.
    pub gc_reserve_blocks: u32,
    /// With power-loss protection what is buffered is durable: Flush and FUA wait for no program.
    pub plp: bool,
    /// Chooses the placement of [`Base::Steady`].
    pub seed: u64,
    /// What it holds at first.
    pub base: Base,
    /// Whose patterns those are, by rising first unit. What lies before the first region holds zeroes.
    pub regions: Vec<Region>,
    /// How units are kept that [`Ftl::modify`](super::Ftl::modify) has changed.
    pub keep: Keep,
}

impl FtlConfig {
    /// The most slots that a write buffer can have.
    pub const BUFFER_UNITS_MAX: u32 = super::map::Entry::SLOTS;

    /// How many user units leave an over-provisioning of `op` (spare over user: 0.07 is 7 %), net of the superblocks
    /// that hold no data while the host writes all the time: those left to the collector, and, half a superblock on
    /// average, what is free or open beyond.
    pub fn user_units_at(geometry: &Geometry, gc_reserve_blocks: u32, op: f64) -> u64 {
        let blocks = f64::from(geometry.blocks) - (f64::from(gc_reserve_blocks) + 0.5);
        let units = blocks.max(0.0) * f64::from(geometry.units_per_block()) * f64::from(geometry.dies());
        (units / (1.0 + op.max(0.0))) as u64
    }
}

impl Default for FtlConfig {
    fn default() -> Self {
        FtlConfig {
            user_units: 0,
            write_buffer_units: 1024,
            gc: Victim::Greedy,
            gc_start_free_blocks: 2,
            gc_reserve_blocks: 1,
            plp: false,
            seed: 0,
            base: Base::Empty,
            regions: Vec::new(),
            keep: Keep::Stamps,
        }
    }
}

/// Why a translation layer can't be made, or can't do what it is asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FtlError {
    /// No such array.
    #[error("flash geometry: {0}")]
    Geometry(#[from] GeometryError),
    /// No such times.
    #[error("flash timing: {0}")]
    Timing(#[from] TimingError),
    /// More units than the array can hold and still collect.
    #[error(
        "{user_units} units of 4 KiB leave too little spare area: {blocks} superblocks a die take at most {most}; \
         lower the capacity or add blocks"
    )]
    TooLarge {
        /// What was asked for.
        user_units: u64,
        /// Superblocks of a die.
        blocks: u32,
        /// The most that would do.
        most: u64,
    },
    /// Nothing to address.
    #[error("a drive has at least one unit of 4 KiB")]
    NoUnits,
    /// A collector that would begin when it is too late.
    #[error(
        "gc_start_free_blocks is {start}, it must be at least gc_reserve_blocks, {reserve}, and that at least 1"
    )]
    Thresholds {
        /// Where it begins.
        start: u32,
        /// What is kept for it.
        reserve: u32,
    },
    /// A buffer beyond what the map can name.
    #[error("a write buffer of {0} units of 4 KiB, at most {max} are possible", max = FtlConfig::BUFFER_UNITS_MAX)]
    Buffer(u32),
    /// Regions that are not in order.
    #[error("regions must be given by rising first unit")]
    Regions,
}

/// Why units could not be read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MediaError {
    /// They are not all units of the drive.
    #[error("units beyond the drive")]
    OutOfRange,
    /// Flash could not give them.
    #[error("unrecovered read error")]
    Unreadable,
}
