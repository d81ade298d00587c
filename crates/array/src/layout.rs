//! Layout: the arithmetic of the RAID levels, from a unit of the array to members.
//!
//! A *stripe* is one chunk of each member, at the same position. Its data chunks are *columns*. A *slot* is a
//! member's number.
//!
//! | level | columns | slots of column c |
//! |---|---|---|
//! | 0 | members | c |
//! | 1 | 1 | all |
//! | 10 | members / 2 | 2c, 2c + 1 |
//! | 5 | members - 1 | after the parity's: left-symmetric, the default of Linux md |

use crate::area::Area;
use crate::config::{ArrayConfig, ArrayError, Level, MEMBERS_MAX};
use std::ops::Range;

/// Layout of an array over its members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) level: Level,
    pub(crate) members: usize,
    /// Units of a chunk.
    pub(crate) chunk: u64,
    /// Data chunks of a stripe.
    pub(crate) columns: u64,
    /// Members with the same data: 1 without mirrors.
    pub(crate) copies: usize,
    pub(crate) stripes: u64,
}

/// Location of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnitLocation {
    pub(crate) stripe: u64,
    pub(crate) column: u64,
    /// Offset in the chunk.
    pub(crate) offset: u64,
}

impl Layout {
    /// A layout over `data_units` of each member; a partial last chunk stays unused.
    pub(crate) fn new(level: Level, members: usize, chunk: u64, data_units: u64) -> Layout {
        let (columns, copies) = match level {
            Level::Raid0 => (members as u64, 1),
            Level::Raid1 => (1, members),
            Level::Raid5 => (members as u64 - 1, 1),
            Level::Raid10 => (members as u64 / 2, 2),
        };
        Layout { level, members, chunk, columns, copies, stripes: data_units / chunk }
    }

    /// Data units of a stripe.
    pub(crate) fn stripe_units(&self) -> u64 {
        self.columns * self.chunk
    }

    /// User capacity in units.
    pub(crate) fn units(&self) -> u64 {
        self.stripes * self.stripe_units()
    }

    /// The stripe of a unit.
    pub(crate) fn stripe_of(&self, unit: u64) -> u64 {
        unit / self.stripe_units()
    }

    /// The stripes of a non-empty run of units.
    pub(crate) fn stripes_of(&self, first: u64, count: u64) -> Range<u64> {
        self.stripe_of(first)..self.stripe_of(first + count - 1) + 1
    }

    pub(crate) fn place(&self, unit: u64) -> UnitLocation {
        let in_stripe = unit % self.stripe_units();
        UnitLocation {
            stripe: self.stripe_of(unit),
            column: in_stripe / self.chunk,
            offset: in_stripe % self.chunk,
        }
    }

    /// The unit of the array at a location.
    pub(crate) fn unit(&self, place: UnitLocation) -> u64 {
        place.stripe * self.stripe_units() + place.column * self.chunk + place.offset
    }

    /// The unit of a member at this stripe and offset.
    pub(crate) fn member_unit(&self, stripe: u64, offset: u64) -> u64 {
        stripe * self.chunk + offset
    }

    /// The slot of a stripe's parity, for level 5.
    pub(crate) fn parity_slot(&self, stripe: u64) -> usize {
        self.members - 1 - (stripe % self.members as u64) as usize
    }

    /// The slot of a column; with mirrors the first of them.
    pub(crate) fn slot(&self, stripe: u64, column: u64) -> usize {
        match self.level {
            Level::Raid5 => (self.parity_slot(stripe) + 1 + column as usize) % self.members,
            _ => column as usize * self.copies,
        }
    }

    /// The column of a slot in a stripe; None for the parity.
    pub(crate) fn column_of(&self, stripe: u64, slot: usize) -> Option<u64> {
        match self.level {
            Level::Raid5 => {
                let behind = (slot + self.members - self.parity_slot(stripe)) % self.members;
                (behind > 0).then(|| behind as u64 - 1)
            }
            _ => Some((slot / self.copies) as u64),
        }
    }
}

impl ArrayConfig {
    /// The layout over `members` members with `data_units` units for data each.
    ///
    /// # Errors
    /// [`ArrayError`] if the configuration is impossible.
    pub(crate) fn layout(&self, members: usize, data_units: u64) -> Result<Layout, ArrayError> {
        let chunk = self.chunk_units;
        if !chunk.is_power_of_two() || chunk > 1024 {
            return Err(ArrayError::Chunk(chunk));
        }
        let least = self.level.members_min();
        if members < least || members > MEMBERS_MAX {
            return Err(ArrayError::Members { level: self.level, members, least });
        }
        if self.level == Level::Raid10 && !members.is_multiple_of(2) {
            return Err(ArrayError::Odd(members));
        }
        Ok(Layout::new(self.level, members, chunk.into(), data_units))
    }

    /// User capacity in units over `members` members of `member_units` units each.
    ///
    /// # Errors
    /// [`ArrayError`] if the configuration is impossible.
    pub fn user_units(&self, members: usize, member_units: u64) -> Result<u64, ArrayError> {
        self.layout(members, 0)?;
        let too_small = |reserved| ArrayError::TooSmall { units: member_units, reserved };
        let area = Area::new(self, members, member_units).map_err(too_small)?;
        Ok(self.layout(members, area.data_units)?.units())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A unit written to one location and read from another is lost; two units at one location overwrite each
    // other.
    #[test]
    fn every_unit_has_a_place_of_its_own() {
        for (level, members) in [(Level::Raid0, 3), (Level::Raid1, 2), (Level::Raid5, 5), (Level::Raid10, 6)]
        {
            let layout = Layout::new(level, members, 4, 43);
            assert_eq!(layout.stripes, 10);
            let mut taken = std::collections::BTreeSet::new();
            for unit in 0..layout.units() {
                let place = layout.place(unit);
                assert_eq!(layout.unit(place), unit);
                let slot = layout.slot(place.stripe, place.column);
                assert_eq!(layout.column_of(place.stripe, slot), Some(place.column));
                assert!(level != Level::Raid5 || slot != layout.parity_slot(place.stripe));
                assert!(taken.insert((slot, layout.member_unit(place.stripe, place.offset))));
            }
        }
    }

    // The documented layout of md's default: performance depends on which member has the parity.
    #[test]
    fn parity_rotates_to_the_left() {
        let layout = Layout::new(Level::Raid5, 4, 1, 8);
        let row = |stripe: u64| -> Vec<Option<u64>> {
            (0..4).map(|slot| layout.column_of(stripe, slot).map(|column| stripe * 3 + column)).collect()
        };
        assert_eq!(row(0), [Some(0), Some(1), Some(2), None]);
        assert_eq!(row(1), [Some(4), Some(5), None, Some(3)]);
        assert_eq!(row(2), [Some(8), None, Some(6), Some(7)]);
        assert_eq!(row(3), [None, Some(9), Some(10), Some(11)]);
    }
}
