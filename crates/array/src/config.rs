//! What an array is made of, and why there can be no such array.

use crate::area::Area;
use crate::layout::Layout;
use byteway_clock::Delay;
use byteway_member::Gone;
use byteway_wire::content::Keep;

/// Members of an array, at most.
pub const MEMBERS_MAX: usize = 64;

/// How an array spreads data over its members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Level {
    /// Striping, without redundancy.
    Raid0 = 0,
    /// The same data on every member.
    Raid1 = 1,
    /// Striping with one rotating parity chunk a stripe (left-symmetric).
    Raid5 = 5,
    /// Striping over pairs of members that hold the same data.
    Raid10 = 10,
}

impl Level {
    /// By its number.
    pub fn from_number(number: u8) -> Option<Level> {
        [Level::Raid0, Level::Raid1, Level::Raid5, Level::Raid10]
            .into_iter()
            .find(|level| *level as u8 == number)
    }

    /// Members at least.
    pub fn members_min(self) -> usize {
        match self {
            Level::Raid0 => 1,
            Level::Raid1 => 2,
            Level::Raid5 => 3,
            Level::Raid10 => 4,
        }
    }

    /// Whether a member can fail without loss.
    pub fn is_redundant(self) -> bool {
        self != Level::Raid0
    }
}

/// What new members hold when an array is created over them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Initial {
    /// Zeroes throughout, or nothing that will be read before it is written: copies and parity agree already.
    Zeroed,
    /// Anything: copies and parity are made to agree behind the first I/Os.
    Unknown,
}

/// How fast a member is rebuilt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RebuildConfig {
    /// Units a second of the new member while nothing else is asked of the array; 0: no limit.
    pub idle_rate: u64,
    /// The same while something is; 0: no limit.
    pub busy_rate: u64,
}

impl Default for RebuildConfig {
    /// 200 MiB/s at leisure and 10 MiB/s under load: a tenth more than Linux md's lower limit, and its upper one.
    fn default() -> Self {
        RebuildConfig { idle_rate: 51_200, busy_rate: 2_560 }
    }
}

/// A part of the array that is left out, for tests that must notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Canary {
    /// Regions are not marked before they are written: nothing is repaired after a power cut.
    NoIntentLog,
    /// Writes of degraded stripes are not in the journal.
    NoJournal,
    /// What stale parity would have given is not marked as lost.
    NoLostMarks,
}

/// An array's parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrayConfig {
    /// Level.
    pub level: Level,
    /// Units that go to one member before the next one's turn: a power of two up to 1024. Of level 1 it says only how much is
    /// rebuilt at once.
    pub chunk_units: u32,
    /// The array's name.
    pub uuid: [u8; 16],
    /// A region without writes for so long is marked as clean.
    pub clean_after: Delay,
    /// How fast members are rebuilt.
    pub rebuild: RebuildConfig,
    /// How contents are kept that the array computes.
    pub keep: Keep,
    /// What is left out.
    pub canary: Option<Canary>,
}

impl ArrayConfig {
    /// With Linux md's default times.
    pub fn new(level: Level, chunk_units: u32, uuid: [u8; 16], keep: Keep) -> ArrayConfig {
        let (clean_after, rebuild) = (Delay::from_s(5), RebuildConfig::default());
        ArrayConfig { level, chunk_units, uuid, clean_after, rebuild, keep, canary: None }
    }

    /// How such an array lies on so many members with so many units for data on each.
    ///
    /// # Errors
    /// There can be no such array.
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

    /// Units that such an array offers over so many members of `member_units` units each.
    ///
    /// # Errors
    /// There can be no such array.
    pub fn user_units(&self, members: usize, member_units: u64) -> Result<u64, ArrayError> {
        self.layout(members, 0)?;
        let too_small = |reserved| ArrayError::TooSmall { units: member_units, reserved };
        let area = Area::new(self, members, member_units).map_err(too_small)?;
        Ok(self.layout(members, area.data_units)?.units())
    }
}

/// Why there is no such array.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArrayError {
    /// A chunk of another size.
    #[error("a chunk of {0} units; it must be a power of two from 1 to 1024")]
    Chunk(u32),
    /// Too few or too many members.
    #[error("{members} members; level {level:?} takes {least} to 64")]
    Members {
        /// Level.
        level: Level,
        /// How many there are.
        members: usize,
        /// At least.
        least: usize,
    },
    /// Pairs need an even number.
    #[error("{0} members; level 10 takes an even number")]
    Odd(usize),
    /// Members of different sizes.
    #[error("member {member} has {units} units, member 0 has {first}; all must have the same capacity")]
    Capacity {
        /// Which one differs.
        member: usize,
        /// Its capacity, units.
        units: u64,
        /// That of the first, units.
        first: u64,
    },
    /// Members too small for data next to what the array keeps there.
    #[error(
        "members of {units} units; the array itself keeps {reserved} of them, and at least a chunk is for data"
    )]
    TooSmall {
        /// Capacity of a member, units.
        units: u64,
        /// What the array keeps, units.
        reserved: u64,
    },
    /// A member cannot be used.
    #[error("member {member}: {why}")]
    Gone {
        /// Which one.
        member: usize,
        /// Why.
        why: Gone,
    },
    /// A drive without a superblock, or with a damaged one.
    #[error("no drive here is a member of the array")]
    NoMembers,
    /// The superblocks are of an array with other parameters.
    #[error("the members say {what} {found}, the configuration says {expected}")]
    Differs {
        /// Which parameter.
        what: &'static str,
        /// What the members say.
        found: u64,
        /// What was expected.
        expected: u64,
    },
    /// A spare that is not needed, or for which there is no slot.
    #[error("no failed slot waits for a spare")]
    NoSlot,
    /// Too many members are missing or stale.
    #[error("{missing} of {members} members are missing or stale: the array has lost data")]
    Incomplete {
        /// How many.
        missing: usize,
        /// Of so many.
        members: usize,
    },
}
