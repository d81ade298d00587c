//! Existing drives: serves them to hosts in other processes, and accesses them, in a data directory, over a socket or over NVMe/TCP.
//!
//! | file | what |
//! |---|---|
//! | [`serve`] | serves drives to hosts in other processes |
//! | [`mod@bench`] | jobs on a served drive, in real time |
//! | [`nvme_tcp`] | connections to NVMe/TCP targets, and discovery |
//! | [`pairs`] | a single request to a key-value drive, or jobs on it ([`pairs::bench`]) |
//! | [`tables`] | sessions with a drive with tables |
//! | [`location`] | location of a drive that a command accesses |
//! | `attach.rs` | real-time sessions with a served drive or with targets |
//! | [`error`] | errors |
//!
//! To serve a drive, data flows from [`Device`](byteway_scenario::Device) to [`Service`](serve::Service), and the rest is in the crate
//! `serve`. To access one, [`location`] or `attach.rs` makes a [`Port`](byteway_host::Port), on which the work of a request, a session or a
//! benchmark runs.
//!
//! What it does not do: it runs no scenario, and executes neither jobs nor queries itself: the crates `run` and `pushdown` do. It
//! implements no protocol, and has no sockets of its own.

mod attach;
pub mod bench;
pub mod error;
pub mod location;
pub mod nvme_tcp;
pub mod pairs;
pub mod serve;
pub mod tables;
