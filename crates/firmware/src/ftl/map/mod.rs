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
