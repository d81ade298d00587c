//! Background maintenance of the flash: wear, bad superblocks, end of life, refresh, the cache, idle time.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail as the test does")]

mod fixture;

mod cache;
mod faults;
mod idle;
mod levelling;
mod purge;
mod refresh;
mod window;
