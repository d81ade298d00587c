//! What a drive does for its map and its flash, against what must come of it: a cached map against the share of the map that
//! it holds, wear with and without levelling, suspension against the tail that it is for, and the MLC drive of a published
//! simulator against its constants added up by hand.

mod cached_map;
mod cells;
mod mlc_by_hand;
mod wear;
