//! The laboratory: from a plan to a drive that is built, driven and measured, in simulation or in real time.
//!
//! | file | what |
//! |---|---|
//! | [`build`] | the world of a scenario, and its parts, from a plan |
//! | `boxed.rs` | a box of drives over the measured part of a run |
//! | [`error`] | why there are no results |
//! | [`run`] | a run in simulation, from its plan to its summary |
//! | [`jobs`] | jobs at play: workers, their I/Os and how they end, whatever the drive is |
//! | [`lsm`] | a store of keys and values on the host, for jobs with `engine = "leveldb"` |
//! | [`remote`] | a run whose drives are a target's: the target, the network, the host's associations |
//! | [`serve`] | drives for hosts in other processes: sockets, and what was served |
//! | [`mod@bench`] | jobs on a drive that another process serves, in real time |
//! | [`nvme_tcp`] | this host's ways to targets over NVMe/TCP, and what Discovery Services say |
//! | [`pairs`] | one request to a key-value drive, in a directory or served |
//! | [`media`] | what a directory holds of a drive |
//!
//! Data flows one way: a [`Scenario`](byteway_scenario::Scenario) -> [`run`] -> [`Results`](byteway_measure::results::Results); a
//! benchmark joins at the jobs. A served drive's goes [`Device`](byteway_scenario::Device) -> `Service`, and the rest is the crate
//! `serve`'s.
//!
//! What it does not do: it knows no protocol and charges no time; that is the business of the crates below it. It reads no file
//! that a user writes, and draws nothing.

pub mod bench;
mod boxed;
pub mod build;
pub mod error;
pub mod jobs;
pub mod lsm;
pub mod media;
pub mod nvme_tcp;
pub mod pairs;
pub mod remote;
pub mod run;
pub mod serve;
