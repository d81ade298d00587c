//! vfio-user: messages, the channel, and sessions of a served drive with all kinds of clients.
#![allow(clippy::disallowed_methods, reason = "a served drive and its clients live in real time, in threads")]
#![allow(clippy::unwrap_used, reason = "a test's helpers fail as the test does")]

mod channel;
mod fixture;
mod memory;
mod messages;
mod payload;
mod server;
mod session;
mod third_party;
