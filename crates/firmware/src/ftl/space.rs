//! The logical units of a drive: the host's, and behind them the translation layer's own.
//!
//! A translation page holds what the map says of 1024 units, or of 512 where places take more than 32 bits. It is a
//! unit like the host's: it goes through the same buffer, lies in the same stripes, and is moved by the same collectors.
//! The journal of deallocations is none of these: its pages lie in the system area (`journal`).

use crate::ftl::map::table::REGION_UNITS;
use std::ops::Range;

/// Where each kind of unit begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// The host's units.
    pub user: u64,
    /// The first translation page, and how many there are.
    pub map: (u64, u64),
    /// How many pages the journal of deallocations has at most.
    pub journal_pages: u64,
    /// Entries of the map take 8 bytes, else 4.
    pub is_wide: bool,
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
    /// For so many units of the host's. How many may come from a file.
    pub fn new(user: u64, is_wide: bool) -> Space {
        let first = user.checked_next_multiple_of(REGION_UNITS).unwrap_or(u64::MAX);
        let map = (first, user.div_ceil(page_units(is_wide)));
        Space { user, map, journal_pages: (user / 4096).clamp(4, 1024), is_wide }
    }

    /// Units whose map entries are in one translation page.
    pub fn page_units(&self) -> u64 {
        page_units(self.is_wide)
    }

    /// The translation page that holds a unit's entry.
    #[inline]
    pub fn page_of(&self, lpa: u64) -> u32 {
        (lpa / self.page_units()) as u32
    }

    /// The units of which a translation page says where they are.
    pub fn units_of(&self, page: u32) -> Range<u64> {
        let first = u64::from(page) * self.page_units();
        first..(first + self.page_units()).min(self.user)
    }

    /// All of them, gaps included.
    pub fn units(&self) -> u64 {
        self.map.0.saturating_add(self.map.1)
    }

    /// Whether the map has an entry for `lpa`. What a spare area says may come from damaged files.
    #[inline]
    pub fn holds(&self, lpa: u64) -> bool {
        lpa < self.units()
    }

    /// Whether the unit `lpa` is a translation page.
    #[inline]
    pub fn is_map(&self, lpa: u64) -> bool {
        lpa >= self.user && matches!(self.kind(lpa), UnitKind::Map(_))
    }

    /// What the unit `lpa` is.
    pub fn kind(&self, lpa: u64) -> UnitKind {
        match lpa.checked_sub(self.map.0).filter(|page| *page < self.map.1) {
            _ if lpa < self.user => UnitKind::User,
            Some(page) => UnitKind::Map(page),
            None => UnitKind::Nothing,
        }
    }
}

/// 4 KiB of so many bytes each.
const fn page_units(is_wide: bool) -> u64 {
    if is_wide { 512 } else { 1024 }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A translation page taken for a unit of the host's would be read as data, and the other way round.
    #[test]
    fn kinds_do_not_overlap() {
        for (user, is_wide) in
            [1, 1023, 1024, 4096, 5000, 1 << 20, 1 << 34].into_iter().zip([false, true].repeat(4))
        {
            let space = Space::new(user, is_wide);
            assert_eq!(space.kind(user - 1), UnitKind::User);
            assert_eq!(space.kind(space.map.0), UnitKind::Map(0));
            let last = (user - 1) / space.page_units();
            assert_eq!(u64::from(space.page_of(user - 1)), last);
            assert_eq!(space.units_of(last as u32), last * space.page_units()..user);
            assert_eq!(space.kind(space.map.0 + last), UnitKind::Map(last));
            assert_eq!(space.kind(space.map.0 + last + 1), UnitKind::Nothing);
            assert_eq!(space.kind(space.units()), UnitKind::Nothing);
        }
    }
}
