//! Background work, in tasks of its own that outlive resets.
//!
//! | file | what |
//! |---|---|
//! | [`operation`] | namespace changes |
//! | [`sanitize`], [`self_test`] | sanitize operations, self-tests |
//! | [`restore`] | power-on: the record, and work that a power cut interrupted |
//! | [`incomplete`] | the timeout of incomplete payloads |
//! | [`health`] | health warnings |
//! | [`collection`] | notifications of garbage collection |

pub mod collection;
pub mod health;
pub mod incomplete;
pub mod operation;
pub mod restore;
pub mod sanitize;
pub mod self_test;
