//! The area at the end of every member where the array keeps its own state, identical on all members.
//!
//! | part | units | contents |
//! |---|---|---|
//! | lost | one for 32768 units of the array | a bit for each unit whose content is lost |
//! | journal | see [`Area::journal_units`] | writes of degraded stripes (level 5) |
//! | record | 2 times 32 | the controller's persistent state, in turn |
//! | intents | 1 | a bit for each region with possible writes in progress |
//! | superblock | 2 | in turn; the last units of the member |

use crate::config::{ArrayConfig, Level};

/// Maximum units of one of the two records: 128 KiB.
pub(crate) const RECORD_UNITS: u64 = 32;
/// Bits in a unit.
pub(crate) const UNIT_BITS: u64 = 8 * 4096;

/// Layout of the area on a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Area {
    /// Units for data, from the member's first on.
    pub(crate) data_units: u64,
    pub(crate) lost: u64,
    pub(crate) journal: u64,
    pub(crate) journal_units: u64,
    /// First units of the two records.
    pub(crate) records: [u64; 2],
    pub(crate) intents: u64,
    pub(crate) superblocks: [u64; 2],
}

impl Area {
    /// The layout on members of `member_units` units. If they are too small, returns the units of the area.
    pub(crate) fn new(config: &ArrayConfig, members: usize, member_units: u64) -> Result<Area, u64> {
        let members = members as u64;
        let chunk = u64::from(config.chunk_units);
        // Two entries of a whole stripe fit, so that one can be written while the other is carried out.
        let journal_units =
            if config.level == Level::Raid5 { (2 * (members * chunk + 1)).max(64) } else { 0 };
        // No level offers more units than the sum of its members.
        let lost_units =
            if config.level.is_redundant() { (members * member_units).div_ceil(UNIT_BITS) } else { 0 };
        let reserved = lost_units + journal_units + 2 * RECORD_UNITS + 1 + 2;
        let data_units = member_units.saturating_sub(reserved) / chunk * chunk;
        if data_units == 0 {
            return Err(reserved);
        }
        let superblocks = [member_units - 2, member_units - 1];
        let intents = member_units - 3;
        let records = [intents - 2 * RECORD_UNITS, intents - RECORD_UNITS];
        let journal = records[0] - journal_units;
        let lost = journal - lost_units;
        Ok(Area { data_units, lost, journal, journal_units, records, intents, superblocks })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use byteway_content::Keep;

    // Overlapping parts would overwrite each other or data.
    #[test]
    fn the_parts_lie_one_behind_the_other() {
        let config = |level| ArrayConfig::new(level, 16, [0; 16], Keep::Bytes);
        for (level, members, units) in
            [(Level::Raid0, 2, 200), (Level::Raid5, 5, 1 << 28), (Level::Raid10, 4, 4097)]
        {
            let area = Area::new(&config(level), members, units).unwrap();
            let parts = [0, area.data_units, area.lost, area.journal, area.records[0], area.records[1]];
            assert!(parts.is_sorted(), "{area:?}");
            assert_eq!(area.journal + area.journal_units, area.records[0]);
            assert_eq!(area.records[1] + RECORD_UNITS, area.intents);
            assert_eq!(area.superblocks, [units - 2, units - 1]);
        }
        assert!(Area::new(&config(Level::Raid5), 5, 200).is_err());
    }
}
