//! Served drives as they are watched: metrics, the page in a browser, Prometheus, and clients that mean harm.
#![allow(clippy::disallowed_methods, reason = "processes are held against the wall clock")]

mod hostile;
mod http;
mod metrics;
mod page;
mod prometheus;

use crate::serve::{DRIVE, Service};

/// A drive that is served and watched, at any port. `more`: further arguments.
fn watched(more: &[&str]) -> Service {
    Service::start(&[("d.toml", DRIVE)], &[&["d.toml", "--http", "127.0.0.1:0"], more].concat(), 1)
}

/// Address of the page of watched drives, without `http://` and the last `/`.
fn address(service: &Service) -> String {
    let url = service.ready[0]["http"].as_str().unwrap();
    url.trim_start_matches("http://").trim_end_matches('/').to_owned()
}
