//! The logical units of a drive: the host's, and behind them the translation layer's own.
//!
//! A translation page holds what the map says of 1024 units. It is a unit like the host's: it goes through the same
//! buffer, lies in the same stripes, and is moved by the same collectors. The journal of deallocations is none of these:
//! its pages lie in the system area (`journal`).

use super::map::REGION_UNITS;

/// Units whose map entries are in one translation page: 4 KiB of 4 bytes each.
pub const UNITS_PER_MAP_PAGE: u64 = 1024;

/// Where each kind of unit begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// The host's units.
    pub user: u64,
    /// The first translation page, and how many there are.
    pub map: (u64, u64),
    /// How many pages the journal of deallocations has at most.
    pub journal_pages: u64,
}

/// What a unit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitKind {
    /// The host's.
    User,
    /// A translation page, by its number.
    Map(u64),
    /// None.
    Nothing,
}

impl Space {
    /// For so many units of the host's.
    pub fn new(user: u64) -> Space {
        let map = (user.next_multiple_of(REGION_UNITS), user.div_ceil(UNITS_PER_MAP_PAGE));
        Space { user, map, journal_pages: (user / 4096).clamp(4, 1024) }
    }

    /// All of them, gaps included.
    pub fn units(&self) -> u64 {
        self.map.0 + self.map.1
    }

    /// Whether the map has an entry for `lpa`. What a spare area says may come from damaged files.
    #[inline]
    pub fn holds(&self, lpa: u32) -> bool {
        u64::from(lpa) < self.units()
    }

    /// Whether the unit `lpa` is a translation page.
    #[inline]
    pub fn is_map(&self, lpa: u32) -> bool {
        u64::from(lpa) >= self.user && matches!(self.kind(lpa), UnitKind::Map(_))
    }

    /// What the unit `lpa` is.
    pub fn kind(&self, lpa: u32) -> UnitKind {
        let lpa = u64::from(lpa);
        match lpa.checked_sub(self.map.0).filter(|page| *page < self.map.1) {
            _ if lpa < self.user => UnitKind::User,
            Some(page) => UnitKind::Map(page),
            None => UnitKind::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A translation page taken for a unit of the host's would be read as data, and the other way round.
    #[test]
    fn kinds_do_not_overlap() {
        for user in [1, 1023, 1024, 4096, 5000, 1 << 20] {
            let space = Space::new(user);
            assert_eq!(space.kind(user as u32 - 1), UnitKind::User);
            assert_eq!(space.kind(space.map.0 as u32), UnitKind::Map(0));
            let last = (user - 1) / UNITS_PER_MAP_PAGE;
            assert_eq!(space.kind((space.map.0 + last) as u32), UnitKind::Map(last));
            assert_eq!(space.kind((space.map.0 + last + 1) as u32), UnitKind::Nothing);
            assert_eq!(space.kind(space.units() as u32), UnitKind::Nothing);
        }
    }
}
