//! State of the collectors of all dies.

use byteway_flash::BlockId;

/// State of the collectors.
pub(in crate::ftl) struct Collecting {
    /// Stripes that the collector has filled and that are not durable yet, by die.
    pub(super) moving: Vec<Vec<(BlockId, u32)>>,
    /// Work of collectors other than gaining space, by die.
    pub(super) upkeep: Vec<DieUpkeep>,
    /// The host is idle.
    pub(super) is_idle: bool,
}

impl Collecting {
    pub(in crate::ftl) fn new(dies: u32) -> Self {
        Collecting {
            moving: vec![Vec::new(); dies as usize],
            upkeep: (0..dies).map(|_| DieUpkeep::default()).collect(),
            is_idle: false,
        }
    }

    /// Stripes of all dies whose units may be nowhere else.
    pub(in crate::ftl) fn moving(&self) -> impl Iterator<Item = (BlockId, u32)> {
        self.moving.iter().flatten().copied()
    }
}

/// Reason for emptying a superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ftl) enum Cause {
    /// Few superblocks are free.
    Space,
    /// The host is idle, and more superblocks could be free.
    Idle,
    /// The host has opened a collection window.
    Window,
    /// A program of it failed.
    Retire,
    /// The superblock was read too often, or its data is old.
    Refresh,
    /// The superblock has fewer program/erase cycles than others.
    Level,
    /// The superblock belongs to the one-bit cache.
    Fold,
}

/// Work of a die other than garbage collection for space.
#[derive(Default)]
pub(in crate::ftl) struct DieUpkeep {
    /// Target of the collection window: the free superblocks at which the die leaves it. 0 outside a window.
    pub(super) window: u32,
    /// Superblocks collected since another cause had its turn.
    pub(super) since: u32,
    /// The wear was evaluated since the last erase; `coldest` is the superblock to move, if any.
    pub(super) looked: bool,
    pub(super) coldest: Option<BlockId>,
    /// Superblocks that were moved since one was erased for another reason.
    pub(super) moved: u32,
    /// A victim whose collection has begun. It precedes everything else.
    pub(super) begun: Option<(BlockId, Cause)>,
}

impl DieUpkeep {
    /// Whether the die is in a window and stays there, with `free` superblocks free or about to be.
    pub(in crate::ftl) fn stays_in_window(&mut self, free: u32) -> bool {
        if free >= self.window {
            self.window = 0;
        }
        self.window > 0
    }
}

/// Superblocks collected for the host before another cause has its turn.
pub(in crate::ftl) const TURN: u32 = 2;

/// Initial state of the collector of a die in the steady state.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::ftl) struct InitialUpkeep {
    pub(in crate::ftl) begun: Option<Begun>,
    /// Victims since the last fold.
    pub(in crate::ftl) collections: u32,
}

/// The victim that the collector is in the middle of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ftl) enum Begun {
    /// The cache's oldest superblock.
    Fold,
    /// The die's first superblock.
    Collect,
}
