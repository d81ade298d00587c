//! What is written down beside the units, so that the power may go; and what is found when it comes back.
//!
//! | file | what |
//! |---|---|
//! | [`journal`] | what was deallocated, in the system area |
//! | [`checkpoint`], [`root`] | the map, written down; where it is |
//! | [`recover`] | what the medium holds, when the power has come back |
//! | [`audit`] | whether the map and the spare areas say the same, for who looks at a directory |
//! | [`medium`] | media in files: what must stay the same, and looking at them |

pub(in crate::ftl) mod audit;
pub(in crate::ftl) mod checkpoint;
pub(in crate::ftl) mod journal;
pub(in crate::ftl) mod medium;
pub(in crate::ftl) mod recover;
pub(in crate::ftl) mod root;
