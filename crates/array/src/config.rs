//! Parameters of an array, and the errors of creating or assembling one.

use byteway_clock::Delay;
use byteway_content::Keep;
use byteway_defect::Planted;
use byteway_member::MemberLost;

/// Maximum members of an array.
pub const MEMBERS_MAX: usize = 64;

/// RAID level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Level {
    /// Striping, without redundancy.
    Raid0 = 0,
    /// The same data on every member.
    Raid1 = 1,
    /// Striping with one rotating parity chunk a stripe (left-symmetric).
    Raid5 = 5,
    /// Striping over mirrored pairs of members.
    Raid10 = 10,
}

impl Level {
    /// From the level's number: 0, 1, 5 or 10.
    pub fn from_number(number: u8) -> Option<Level> {
        [Level::Raid0, Level::Raid1, Level::Raid5, Level::Raid10]
            .into_iter()
            .find(|level| *level as u8 == number)
    }

    /// Minimum number of members.
    pub fn members_min(self) -> usize {
        match self {
            Level::Raid0 => 1,
            Level::Raid1 => 2,
            Level::Raid5 => 3,
            Level::Raid10 => 4,
        }
    }

    /// Whether a member can fail without data loss.
    pub fn is_redundant(self) -> bool {
        self != Level::Raid0
    }
}

/// Assumption about the contents of new members when an array is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Initial {
    /// The members' contents are zero, or are not read before they are written: copies and parity are consistent.
    Zeroed,
    /// Unknown: copies and parity are made consistent in the background.
    Unknown,
}

/// Rate limits of a rebuild.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RebuildConfig {
    /// Units a second of the new member while no host request is in progress; 0 for no limit.
    pub idle_rate: u64,
    /// The same while host requests are in progress; 0 for no limit.
    pub busy_rate: u64,
}

impl Default for RebuildConfig {
    /// 200 MiB/s when idle and 10 MiB/s under load: a tenth more than Linux md's lower limit, and its upper
    /// one.
    fn default() -> Self {
        RebuildConfig { idle_rate: 51_200, busy_rate: 2_560 }
    }
}

byteway_defect::defects! {
    /// Steps that an array leaves out on purpose.
    pub enum Defect {
        /// Regions are not marked before they are written, so nothing is repaired after a power cut.
        NoIntentLog = "no-intent-log",
        /// Writes of degraded stripes are not journaled.
        NoJournal = "no-journal",
        /// Units that depend on stale parity are not marked as lost.
        NoLostMarks = "no-lost-marks",
    }
}

/// Parameters of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrayConfig {
    /// RAID level.
    pub level: Level,
    /// Units of a chunk: a power of two from 1 to 1024. For level 1 it only determines the rebuild step.
    pub chunk_units: u32,
    /// Identity of the array.
    pub uuid: [u8; 16],
    /// Time without writes after which a region is marked as clean.
    pub clean_after: Delay,
    /// Rate limits of rebuilds.
    pub rebuild: RebuildConfig,
    /// How contents computed by the array are stored.
    pub keep: Keep,
    /// The defect on purpose, if any.
    pub defect: Planted<Defect>,
}

impl ArrayConfig {
    /// With the default times of Linux md.
    pub fn new(level: Level, chunk_units: u32, uuid: [u8; 16], keep: Keep) -> ArrayConfig {
        let (clean_after, rebuild) = (Delay::from_s(5), RebuildConfig::default());
        ArrayConfig { level, chunk_units, uuid, clean_after, rebuild, keep, defect: Planted::none() }
    }
}

/// Error of creating or assembling an array.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArrayError {
    /// The chunk size is invalid.
    #[error("chunk_units is {0}, it must be a power of two from 1 to 1024")]
    Chunk(u32),
    /// Too few or too many members.
    #[error("{members} members for level {level:?}, which takes {least} to 64")]
    Members {
        /// The level.
        level: Level,
        /// The number of members.
        members: usize,
        /// The minimum for the level.
        least: usize,
    },
    /// The number of members is odd; mirroring needs pairs.
    #[error("{0} members for level 10, which takes an even number")]
    Odd(usize),
    /// The members differ in capacity.
    #[error("member {member} has {units} units, member 0 has {first}; all must have the same capacity")]
    Capacity {
        /// The member that differs.
        member: usize,
        /// Capacity of the member in units.
        units: u64,
        /// Capacity of member 0 in units.
        first: u64,
    },
    /// The members are too small for the array's own state and data.
    #[error(
        "members have {units} units; {reserved} for the array's own state and at least one chunk for data are \
         needed"
    )]
    TooSmall {
        /// Capacity of a member in units.
        units: u64,
        /// Units of the array's own state.
        reserved: u64,
    },
    /// A member cannot be used.
    #[error("member {member}: {why}")]
    Gone {
        /// Number of the member.
        member: usize,
        /// The reason.
        why: MemberLost,
    },
    /// No drive has a valid superblock of the array.
    #[error("none of the drives is a member of the array")]
    NoMembers,
    /// The superblocks disagree with the configuration.
    #[error("{what} is {found} on the members and {expected} in the configuration")]
    Differs {
        /// Name of the parameter.
        what: &'static str,
        /// Value found on the members.
        found: u64,
        /// Value in the configuration.
        expected: u64,
    },
    /// No failed slot is left for a spare.
    #[error("no failed slot is left for a spare")]
    NoSlot,
    /// Too many members are missing or stale.
    #[error("{missing} of {members} members are missing or stale: the array has lost data")]
    Incomplete {
        /// Missing or stale members.
        missing: usize,
        /// Members of the array.
        members: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A refused configuration must name the parameter, its value and what is valid.
    #[test]
    fn errors_name_the_value_and_the_bound() {
        let text = |error: ArrayError| error.to_string();
        assert_eq!(text(ArrayError::Chunk(3)), "chunk_units is 3, it must be a power of two from 1 to 1024");
        assert_eq!(text(ArrayError::Odd(3)), "3 members for level 10, which takes an even number");
        assert_eq!(
            text(ArrayError::Capacity { member: 2, units: 8, first: 9 }),
            "member 2 has 8 units, member 0 has 9; all must have the same capacity"
        );
        assert_eq!(
            text(ArrayError::TooSmall { units: 8, reserved: 9 }),
            "members have 8 units; 9 for the array's own state and at least one chunk for data are needed"
        );
        assert_eq!(
            text(ArrayError::Differs { what: "chunk_units", found: 16, expected: 32 }),
            "chunk_units is 16 on the members and 32 in the configuration"
        );
        assert_eq!(
            text(ArrayError::Incomplete { missing: 2, members: 4 }),
            "2 of 4 members are missing or stale: the array has lost data"
        );
    }
}
