//! The logical units of a drive: the host's, followed by the translation layer's own.
//!
//! A translation page holds the map entries of 1024 units, or of 512 where addresses exceed 32 bits. It is a
//! unit like the host's: it goes through the same buffer, lies in the same stripes, and is moved by the same
//! collectors. The pages of the deallocation journal are not units: they lie in the system area (`journal`).

use std::ops::Range;

/// Units of a region, the granularity of deallocation by bit.
pub(in crate::ftl) const REGION_UNITS: u64 = 4096;

/// The ranges of each kind of unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Number of host units, from 0.
    pub user: u64,
    /// The first translation page, and their number.
    pub map: (u64, u64),
    /// Maximum pages of the deallocation journal.
    pub journal_pages: u64,
    /// Map entries take 8 bytes instead of 4.
    pub is_wide: bool,
}

/// Kind of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitKind {
    /// A host unit.
    User,
    /// A translation page, with its number.
    Map(u64),
    /// Not a unit.
    Nothing,
}

impl Space {
    /// The space of `user` host units. The number may come from a file.
    pub fn new(user: u64, is_wide: bool) -> Space {
        let first = user.checked_next_multiple_of(REGION_UNITS).unwrap_or(u64::MAX);
        let map = (first, user.div_ceil(page_units(is_wide)));
        Space { user, map, journal_pages: (user / 4096).clamp(4, 1024), is_wide }
    }

    /// Map entries in a translation page.
    pub fn page_units(&self) -> u64 {
        page_units(self.is_wide)
    }

    /// The translation page that holds a unit's map entry.
    #[inline]
    pub fn page_of(&self, lpa: u64) -> u32 {
        (lpa / self.page_units()) as u32
    }

    /// The units whose map entries a translation page holds.
    pub fn units_of(&self, page: u32) -> Range<u64> {
        let first = u64::from(page) * self.page_units();
        first..(first + self.page_units()).min(self.user)
    }

    /// End of the unit numbers, gaps included.
    pub fn units(&self) -> u64 {
        self.map.0.saturating_add(self.map.1)
    }

    /// Whether the map has an entry for `lpa`, which may come from the spare area of a damaged file.
    #[inline]
    pub fn holds(&self, lpa: u64) -> bool {
        lpa < self.units()
    }

    /// Whether the unit `lpa` is a translation page.
    #[inline]
    pub fn is_map(&self, lpa: u64) -> bool {
        lpa >= self.user && matches!(self.kind(lpa), UnitKind::Map(_))
    }

    /// Kind of the unit `lpa`.
    pub fn kind(&self, lpa: u64) -> UnitKind {
        match lpa.checked_sub(self.map.0).filter(|page| *page < self.map.1) {
            _ if lpa < self.user => UnitKind::User,
            Some(page) => UnitKind::Map(page),
            None => UnitKind::Nothing,
        }
    }
}

/// Map entries in 4 KiB.
const fn page_units(is_wide: bool) -> u64 {
    if is_wide { 512 } else { 1024 }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A translation page taken for a host unit would be read as data, and vice versa.
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
