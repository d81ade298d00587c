//! Served drives as people and Prometheus watch them, over HTTP: metrics, a live page, health.
//!
//! | file | what |
//! |---|---|
//! | [`server`] | the thread: sockets, limits, connections |
//! | `answer.rs` | what a request is answered with |
//! | `events.rs` | the stream of updates of an open page |
//! | `stream.rs` | a connection whose peer must take what it is sent |
//! | [`drives`] | the drives: their figures, and when to ask for them |
//! | [`metrics`] | the figures as OpenMetrics text |
//! | `state.rs` | the figures as JSON for the page |
//! | [`page`] | the page |
//!
//! The server has a thread of its own. It asks a drive for figures when it is asked itself, at most once a second, and
//! never waits for one that holds a drive up. Clients are not trusted: connections, their memory and their time are
//! limited, no request changes anything, and a page of another site cannot read an answer.
//!
//! What it does not do: no authentication and no TLS, so it listens at the loopback address unless it is told
//! otherwise; no control of a drive; no history beyond what an open page keeps.
#![allow(clippy::disallowed_methods, reason = "watchers are in real time, in a thread of their own")]

mod answer;
pub mod drives;
mod events;
mod limit;
pub mod metrics;
pub mod page;
pub mod server;
mod state;
mod stream;

pub use server::{Watcher, Watching};
