//! Drives served over NVMe/TCP, as hosts see them: sockets, threads and wall-clock time.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]
#![allow(clippy::disallowed_methods, reason = "servers and hosts are threads, held against the wall clock")]

mod authentication;
#[allow(dead_code, reason = "a host says more than any one test needs")]
mod client;
mod concatenation;
mod discovery;
mod drain;
mod limits;
mod service;
mod tls;
mod together;
mod watched;
