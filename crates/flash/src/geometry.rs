//! Geometry of the array, and the flat addresses that follow from it.

use byteway_content::UNIT_BYTES;

/// Address of a 4 KiB unit in the array. The units of a stripe, the stripes of a superblock and the superblocks
/// of a die are consecutive:
///
/// ```text
/// ((die * blocks + block) * pages + page) * units_per_stripe + plane * units_per_page + index
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ppa(pub u64);

/// Index of a superblock in the whole array: `die * blocks + block`. A superblock is the same block number in
/// every plane of one die, and is erased as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId(pub u32);

/// Dimensions of an array.
///
/// Dies are numbered over channels first: `die = way * channels + channel`. Every method except
/// [`validate`](Geometry::validate) requires a valid geometry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Channels (buses).
    pub channels: u32,
    /// Dies of a channel.
    pub ways: u32,
    /// Planes of a die, which sense, program and erase together.
    pub planes: u32,
    /// Blocks of a plane.
    pub blocks: u32,
    /// Pages of a block.
    pub pages: u32,
    /// Bytes of a page, without its spare area: a multiple of 4096.
    pub page_bytes: u32,
}

/// Error of validating a [`Geometry`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GeometryError {
    /// A dimension is zero.
    #[error("{0} is 0, it must be at least 1")]
    Zero(&'static str),
    /// The page size is not a multiple of the unit.
    #[error("page_bytes is {0}, it must be a multiple of 4096")]
    PageBytes(u32),
    /// The units of a stripe exceed a 64-bit mask.
    #[error("planes * page_bytes is {0} units of 4 KiB, at most {max} are possible", max = Geometry::STRIPE_UNITS_MAX)]
    Stripe(u64),
    /// Too many dies.
    #[error("channels * ways is {0} dies, at most {max} are possible", max = Geometry::DIES_MAX)]
    Dies(u64),
    /// Too many superblocks.
    #[error("channels * ways * blocks is {0} superblocks, at most {max} are possible", max = Geometry::BLOCKS_MAX)]
    Blocks(u128),
    /// Too many units in a superblock.
    #[error(
        "planes * pages * page_bytes is {0} units of 4 KiB, at most {max} are possible",
        max = Geometry::BLOCK_UNITS_MAX
    )]
    Block(u128),
    /// Too many units in the array.
    #[error("the array has {0} units of 4 KiB, at most {max} are possible", max = Geometry::UNITS_MAX)]
    Units(u128),
}

impl Geometry {
    /// Maximum units of a stripe: a read selects them by a 64-bit mask.
    pub const STRIPE_UNITS_MAX: u64 = 64;
    /// Maximum dies: each is a task.
    pub const DIES_MAX: u64 = 1 << 16;
    /// Maximum superblocks: each costs 32 bytes of memory, even if empty.
    pub const BLOCKS_MAX: u128 = 1 << 25;
    /// Maximum units of a superblock.
    pub const BLOCK_UNITS_MAX: u128 = 1 << 31;
    /// Maximum units of the array: 64 TiB for the host, and the same amount in reserve.
    pub const UNITS_MAX: u128 = 1 << 35;
    /// Units of the largest array whose addresses fit 32 bits, with values above them left for a translation
    /// layer's markers.
    pub const NARROW_UNITS_MAX: u64 = 0xf000_0000;

    /// Checks every dimension. The numbers may come from a file.
    ///
    /// # Errors
    /// [`GeometryError`] for the first limit that is exceeded.
    pub fn validate(&self) -> Result<(), GeometryError> {
        let counts = [
            ("channels", self.channels),
            ("ways", self.ways),
            ("planes", self.planes),
            ("blocks", self.blocks),
            ("pages", self.pages),
            ("page_bytes", self.page_bytes),
        ];
        if let Some((name, _)) = counts.iter().find(|(_, count)| *count == 0) {
            return Err(GeometryError::Zero(name));
        }
        if !(self.page_bytes as usize).is_multiple_of(UNIT_BYTES) {
            return Err(GeometryError::PageBytes(self.page_bytes));
        }
        let stripe_units = u64::from(self.planes) * u64::from(self.units_per_page());
        if stripe_units > Self::STRIPE_UNITS_MAX {
            return Err(GeometryError::Stripe(stripe_units));
        }
        let dies = u64::from(self.channels) * u64::from(self.ways);
        if dies > Self::DIES_MAX {
            return Err(GeometryError::Dies(dies));
        }
        let blocks = u128::from(dies) * u128::from(self.blocks);
        if blocks > Self::BLOCKS_MAX {
            return Err(GeometryError::Blocks(blocks));
        }
        let block_units = u128::from(self.pages) * u128::from(stripe_units);
        if block_units > Self::BLOCK_UNITS_MAX {
            return Err(GeometryError::Block(block_units));
        }
        let units = blocks * block_units;
        if units > Self::UNITS_MAX {
            return Err(GeometryError::Units(units));
        }
        Ok(())
    }

    /// Dies of the array.
    pub const fn dies(&self) -> u32 {
        self.channels * self.ways
    }

    /// Superblocks of a die.
    pub const fn blocks_per_die(&self) -> u32 {
        self.blocks
    }

    /// Superblocks of the array.
    pub const fn total_blocks(&self) -> u32 {
        self.dies() * self.blocks
    }

    /// Units of a page of one plane.
    pub const fn units_per_page(&self) -> u32 {
        self.page_bytes / UNIT_BYTES as u32
    }

    /// Units of a stripe: the same page of every plane of a die, programmed as a whole.
    pub const fn units_per_stripe(&self) -> u32 {
        self.planes * self.units_per_page()
    }

    /// Units of a superblock.
    pub const fn units_per_block(&self) -> u32 {
        self.pages * self.units_per_stripe()
    }

    /// Units of a die.
    pub const fn units_per_die(&self) -> u64 {
        self.blocks as u64 * self.units_per_block() as u64
    }

    /// Units of the array.
    pub const fn total_units(&self) -> u64 {
        self.total_blocks() as u64 * self.units_per_block() as u64
    }

    /// Whether an address takes more than 32 bits.
    pub const fn is_wide(&self) -> bool {
        self.total_units() > Self::NARROW_UNITS_MAX
    }

    /// The die of a unit.
    pub const fn die_of(&self, ppa: Ppa) -> u32 {
        (ppa.0 / self.units_per_die()) as u32
    }

    /// The die of a superblock.
    pub const fn die_of_block(&self, block: BlockId) -> u32 {
        block.0 / self.blocks
    }

    /// The channel of a die.
    pub const fn channel_of_die(&self, die: u32) -> u32 {
        die % self.channels
    }

    /// Superblock number `block` of `die`.
    pub const fn block(&self, die: u32, block: u32) -> BlockId {
        BlockId(die * self.blocks + block)
    }

    /// The superblock of a unit.
    pub const fn block_of(&self, ppa: Ppa) -> BlockId {
        BlockId((ppa.0 / self.units_per_block() as u64) as u32)
    }

    /// The stripe of a unit within its superblock.
    pub const fn stripe_of(&self, ppa: Ppa) -> u32 {
        self.unit_of_block(ppa) / self.units_per_stripe()
    }

    /// The page of a unit within its block, which equals the number of its stripe.
    pub const fn page_of(&self, ppa: Ppa) -> u32 {
        self.stripe_of(ppa)
    }

    /// The plane of a unit.
    pub const fn plane_of(&self, ppa: Ppa) -> u32 {
        self.unit_of_stripe(ppa) / self.units_per_page()
    }

    /// Index of a unit within its superblock.
    pub const fn unit_of_block(&self, ppa: Ppa) -> u32 {
        (ppa.0 % self.units_per_block() as u64) as u32
    }

    /// Index of a unit within its stripe: its bit in the mask of a read.
    pub const fn unit_of_stripe(&self, ppa: Ppa) -> u32 {
        (ppa.0 % self.units_per_stripe() as u64) as u32
    }

    /// First unit of the stripe that contains `ppa`.
    pub const fn stripe_start(&self, ppa: Ppa) -> Ppa {
        Ppa(ppa.0 - self.unit_of_stripe(ppa) as u64)
    }

    /// Unit `unit` of stripe `stripe` of a superblock.
    pub const fn ppa(&self, block: BlockId, stripe: u32, unit: u32) -> Ppa {
        Ppa(block.0 as u64 * self.units_per_block() as u64 + (stripe * self.units_per_stripe() + unit) as u64)
    }

    /// Mask of all units of a stripe.
    pub const fn full_mask(&self) -> u64 {
        u64::MAX >> (64 - self.units_per_stripe())
    }
}

/// Number of units in a mask. Usually there is one, and baseline processors count bits in a dozen steps.
#[inline]
pub(crate) fn units_in(mask: u64) -> u32 {
    if mask & mask.wrapping_sub(1) == 0 { u32::from(mask != 0) } else { mask.count_ones() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Geometry =
        Geometry { channels: 2, ways: 3, planes: 2, blocks: 5, pages: 7, page_bytes: 16384 };

    // If two units shared an address, or an address did not convert back, data would be lost without a trace.
    #[test]
    fn every_unit_has_an_address_of_its_own_that_leads_back() {
        let g = SMALL;
        let mut next = 0;
        for die in 0..g.dies() {
            assert_eq!(g.channel_of_die(die), die % 2);
            for block in 0..g.blocks {
                for page in 0..g.pages {
                    for unit in 0..g.units_per_stripe() {
                        let id = g.block(die, block);
                        let ppa = g.ppa(id, page, unit);
                        assert_eq!(ppa, Ppa(next));
                        next += 1;
                        assert_eq!(
                            (
                                g.die_of(ppa),
                                g.die_of_block(id),
                                g.block_of(ppa),
                                g.page_of(ppa),
                                g.plane_of(ppa)
                            ),
                            (die, die, id, page, unit / 4)
                        );
                        assert_eq!(
                            (g.stripe_start(ppa).0 + u64::from(unit), g.unit_of_stripe(ppa)),
                            (ppa.0, unit)
                        );
                    }
                }
            }
        }
        assert_eq!(next, g.total_units());
        assert_eq!(g.full_mask(), 0xff);
    }

    // A number from a file must give a message, not an overflow in the middle of a run.
    #[test]
    fn impossible_geometries_are_named() {
        assert_eq!(SMALL.validate(), Ok(()));
        let max = u32::MAX;
        for (wrong, message) in [
            (Geometry { ways: 0, ..SMALL }, "ways is 0, it must be at least 1"),
            (Geometry { page_bytes: 6000, ..SMALL }, "page_bytes is 6000, it must be a multiple of 4096"),
            (
                Geometry { planes: 17, ..SMALL },
                "planes * page_bytes is 68 units of 4 KiB, at most 64 are possible",
            ),
            (
                Geometry { channels: 300, ways: 300, ..SMALL },
                "channels * ways is 90000 dies, at most 65536 are possible",
            ),
            (
                Geometry { blocks: 1 << 28, ..SMALL },
                "channels * ways * blocks is 1610612736 superblocks, at most 33554432 are possible",
            ),
            (
                Geometry { pages: 1 << 29, ..SMALL },
                "planes * pages * page_bytes is 4294967296 units of 4 KiB, at most 2147483648 are possible",
            ),
            (
                Geometry { pages: 1 << 28, ..SMALL },
                "the array has 64424509440 units of 4 KiB, at most 34359738368 are possible",
            ),
        ] {
            assert_eq!(wrong.validate().unwrap_err().to_string(), message);
        }
        let extreme =
            Geometry { channels: max, ways: max, planes: max, blocks: max, pages: max, page_bytes: max };
        assert!(extreme.validate().is_err());
        assert!(
            Geometry { page_bytes: 4096, planes: 64, channels: max, ways: max, ..extreme }
                .validate()
                .is_err()
        );
    }

    // 64 TiB for the host and 28 % spare must be addressable, as the translation layer is promised, from the
    // first unit to the last.
    #[test]
    fn sixty_four_tebibytes_with_spare_fit() {
        let g = Geometry { channels: 16, ways: 16, planes: 4, blocks: 5248, pages: 1024, page_bytes: 16384 };
        assert_eq!(g.validate(), Ok(()));
        assert!(g.total_units() > (64 << 28) * 128 / 100 && g.is_wide());
        let (die, block, stripe, unit) = (255, g.block(255, 5247), 1023, 15);
        let last = g.ppa(block, stripe, unit);
        assert_eq!(last.0, g.total_units() - 1);
        assert_eq!((g.die_of(last), g.block_of(last), g.stripe_of(last)), (die, block, stripe));
        assert_eq!((g.unit_of_stripe(last), g.plane_of(last)), (unit, 3));
        assert_eq!(g.unit_of_block(last), g.units_per_block() - 1);
    }
}
