//! The key-value store over a translation layer and flash.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail as the test does")]

mod crash;
mod damage;
mod files;
mod fixture;
mod oracle;
mod placed;
mod readers;
mod space;
mod speed;
