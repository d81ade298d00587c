//! Map cache and background work, compared with their expected effects: a cached map by the share of the map that it holds, wear with and
//! without leveling, suspension by its effect on the tail, and the MLC drive of a published simulator by its constants added up by hand.

mod cached_map;
mod cells;
mod mlc_by_hand;
mod wear;
