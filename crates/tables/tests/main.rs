//! Tests of the store on a translation layer and flash.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail as the test does")]

mod crash;
mod damage;
mod files;
mod fixture;
mod verbs;
