//! The map: from a unit to where it is, and the translation pages that it is written down in.
//!
//! | file | what |
//! |---|---|
//! | [`table`] | an overlay over the base |
//! | [`pages`] | translation pages: which are dirty, and what one says |
//! | [`cache`] | the cached map: misses, the evictor, pages that change while they are away, places lent and taken |
//! | [`frames`] | its places, by last use |

pub(in crate::ftl) mod cache;
pub(in crate::ftl) mod frames;
pub(in crate::ftl) mod pages;
pub(in crate::ftl) mod table;

use crate::ftl::space::Space;
use frames::Frames;
use pages::Pages;
use table::Table;

/// Where everything is.
pub(in crate::ftl) struct Mapping {
    pub(in crate::ftl) table: Table,
    pub(in crate::ftl) pages: Pages,
    /// Those of them that are in DRAM, if not all are.
    pub(in crate::ftl) frames: Frames,
    /// How many pages that are away may be written.
    pub(in crate::ftl) updates: u64,
}

impl Mapping {
    /// `cached`: how many pages the DRAM holds, if not all.
    pub(in crate::ftl) fn new(space: Space, cached: Option<u32>) -> Self {
        Mapping {
            table: Table::new(space),
            pages: Pages::new(space, cached.is_some()),
            frames: Frames::new(cached.unwrap_or(0)),
            updates: 0,
        }
    }
}
