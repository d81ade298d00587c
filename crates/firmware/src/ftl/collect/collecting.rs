//! What the collectors of all dies are at, and what one is found at.

use byteway_flash::BlockId;

/// What the collectors are at.
pub(in crate::ftl) struct Collecting {
    /// Of each die, the stripes that its collector has filled and that are not safe yet.
    pub(in crate::ftl) moving: Vec<Vec<(BlockId, u32)>>,
    /// Of each die, what there is to do beside making room.
    pub(in crate::ftl) upkeep: Vec<DieUpkeep>,
    /// Every collector has been called at least once.
    pub(in crate::ftl) roused: bool,
    /// Collectors that have nothing to do.
    pub(in crate::ftl) resting: u32,
    /// Nothing has come from the host for a while.
    pub(in crate::ftl) is_idle: bool,
}

impl Collecting {
    pub(in crate::ftl) fn new(dies: u32) -> Self {
        Collecting {
            moving: vec![Vec::new(); dies as usize],
            upkeep: (0..dies).map(|_| DieUpkeep::default()).collect(),
            roused: false,
            resting: dies,
            is_idle: false,
        }
    }
}

/// Why a superblock is emptied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ftl) enum Cause {
    /// Free superblocks are few.
    Space,
    /// The host is idle, and there could be more free ones.
    Idle,
    /// The host has opened a window, in which there are to be more free ones.
    Window,
    /// A program of it failed.
    Retire,
    /// It was read too often, or what it holds is old.
    Refresh,
    /// It was erased less often than others.
    Level,
    /// It is of the cache.
    Fold,
}

/// What there is to do in a die beside making room.
#[derive(Default)]
pub(in crate::ftl) struct DieUpkeep {
    /// In a collection window: free superblocks at which the die leaves it. 0: it is in none.
    pub(super) window: u32,
    /// Superblocks collected since another cause had its turn.
    pub(super) since: u32,
    /// Wear is being levelled.
    pub(super) is_levelling: bool,
    /// Since the last erase somebody has looked whether it should be, and found this to be moved.
    pub(super) looked: bool,
    pub(super) coldest: Option<BlockId>,
    /// What is emptied next, whatever else there is to do: it has been begun.
    pub(super) begun: Option<(BlockId, Cause)>,
}

/// How many superblocks are collected for the host before another cause has its turn.
pub(in crate::ftl) const TURN: u32 = 2;

/// What the collector of a die with a cache of one bit a cell is found at.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::ftl) struct UpkeepFound {
    pub(in crate::ftl) begun: Option<Begun>,
    /// Victims since the last fold.
    pub(in crate::ftl) collections: u32,
}

/// What it is in the midst of emptying.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ftl) enum Begun {
    /// The cache's oldest superblock.
    Fold,
    /// The first one of the die.
    Collect,
}
