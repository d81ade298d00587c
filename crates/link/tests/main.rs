//! The link, byte by byte: one test binary, since each further one takes as long to link.

mod cxl;
mod ledger;
mod mapped;
mod patterns;
mod signal;
mod store;
mod watch;
