//! The link, byte by byte: one binary, for each more takes as long to link.

mod cxl;
mod ledger;
mod mapped;
mod patterns;
mod signal;
mod store;
mod watch;
