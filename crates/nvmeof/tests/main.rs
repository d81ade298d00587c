//! The target as hosts see it: bytes of NVMe/TCP in and out, with a drive behind it, in virtual time.
#![allow(clippy::unwrap_used, reason = "what a test can't do fails it")]

mod association;
mod authentication;
mod block;
mod commands;
mod concatenation;
mod digests;
mod discovery;
mod events;
mod host;
mod hostile;
mod hostile_target;
mod inline;
mod kv;
mod limits;
mod loss;
mod multipath;
mod random;
mod referrals;
mod shared;
mod simulated;
