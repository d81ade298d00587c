//! Work behind commands: it goes on in tasks of its own, through resets.
//!
//! | file | what |
//! |---|---|
//! | [`operation`] | changes of namespaces |
//! | [`sanitize`], [`self_test`] | sanitize operations, self-tests |
//! | [`restore`] | what a power cut has interrupted is carried on |
//! | [`incomplete`] | payloads that are incomplete for too long |
//! | [`health`] | warnings |
//! | [`collection`] | what hosts of several drives are told of collection |

pub mod collection;
pub mod health;
pub mod incomplete;
pub mod operation;
pub mod restore;
pub mod sanitize;
pub mod self_test;
