//! The parts of the controller's state that are neither queues nor namespaces nor memory. Each owns its fields and sees
//! no other part.
//!
//! | file | what |
//! |---|---|
//! | [`registers`] | the property registers |
//! | [`lifecycle`] | disabled, ready, shut down |
//! | [`interrupt`] | interrupt messages and their coalescing |
//! | [`slot`] | command slots, and the number of commands in flight |
//! | [`event`] | asynchronous events |
//! | [`feature`], [`timestamp`], [`keep_alive`] | values that the host has set |
//! | [`merging`] | writes that are merged one at a time |
//! | [`counters`] | command counters, and the error log |
//! | [`loan`] | queues that execute commands for another drive |
//! | [`background`] | work that outlives commands: [`operations`], [`sanitizer`], [`self_test`], [`persistence`] |

pub mod background;
pub mod counters;
pub mod event;
pub mod feature;
pub mod interrupt;
pub mod keep_alive;
pub mod lifecycle;
pub mod loan;
pub mod merging;
pub mod operations;
pub mod persistence;
pub mod registers;
pub mod sanitizer;
pub mod self_test;
pub mod slot;
pub mod timestamp;
