//! The cached map: DRAM holds a limited number of translation pages, flash holds the others.
//!
//! The simulator always knows the location of every unit. The model covers which pages DRAM holds, which of
//! those differ from flash, and what that costs (the idea is from Gupta, Kim, Urgaonkar, "DFTL", ASPLOS
//! 2009). The flash address of each page is in a directory that DRAM holds as a whole: 4 bytes for 4 MiB of
//! units.
//!
//! - A command looks up each page of its units once. On a miss the page is read, and other commands that need
//!   it meanwhile wait for the same read. A page in which nothing was ever mapped needs no read.
//! - A page is loaded into the least recently used frame. If the page in it is dirty, it is buffered first,
//!   like a host unit; the *evictor* does so, a little ahead of need. If memory is lent, a copy of a clean
//!   page goes there, and is loaded from there later ([`lent`]).
//! - Frames may lie in DRAM that peers lend ([`borrow`]). Recency alone decides which page is
//!   in which frame.
//! - A map entry changes when a program ends or garbage collection has moved a unit. Its page may have left
//!   the cache by then, or may never have been there: it is *away*. Its changes are remembered next to the
//!   cache, and applied when it is next read. When more pages are away than the cache holds, the *updater*
//!   reads and writes them back, at most one for each host unit programmed: a page that is written takes free
//!   space, so units are moved, which makes further pages away, without end where free space is scarce.
//!
//! There is no cycle of waits. A command waits for the cache before it holds buffer credits or a lock. It
//! waits for a flash read, or for the evictor; the evictor and the updater hold nothing while they wait for
//! credits; credits return when programs end; programs wait for free superblocks, which come from the
//! collectors, and those never wait for the cache. A flush waits for buffered units, and so for programs
//! only.
//!
//! What it does not do: a page that flash cannot deliver counts as read, and dirty (real firmware rebuilds it
//! from the spare areas of its units, or from parity). The DRAM for changes of pages that are away is
//! unlimited. The directory never leaves DRAM. Pages are loaded and written as a whole, and an entry covers
//! one unit.
//!
//! | file | contents |
//! |---|---|
//! | [`page`] | looking a page up, and loading it |
//! | [`clean`] | the evictor and the updater; frames given up |
//! | [`lent`] | copies of pages in memory that a host lends: when they are made, used and dropped |
//! | [`borrow`], [`reach`] | segments of peers' DRAM: their arrival, flush and loss; what crosses the fabric |
//! | [`restore`] | recovery of a page after the loss of its segment |

pub(in crate::ftl) mod borrow;
pub(in crate::ftl) mod clean;
pub(in crate::ftl) mod lent;
pub(in crate::ftl) mod page;
pub(in crate::ftl) mod reach;
pub(in crate::ftl) mod restore;
