//! Persisting the state of the translation layer, and its recovery after a power cut.
//!
//! | file | contents |
//! |---|---|
//! | [`checkpoint`] | persisting the map |
//! | [`recover`] | recovery of the state at power-on |
//! | [`audit`] | comparison of the map with the spare areas, for inspecting a directory |
//! | [`medium`] | media in files: their fixed parameters, and inspecting them |

pub(in crate::ftl) mod audit;
pub(in crate::ftl) mod checkpoint;
pub(in crate::ftl) mod medium;
pub(in crate::ftl) mod recover;
