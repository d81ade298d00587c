//! Every transfer method, with driver and drive over the simulated link.
//!
//! | file | what |
//! |---|---|
//! | `fixture.rs` | driver, link and a drive that offers everything |
//! | `arrives.rs` | the bytes that arrive are the bytes sent: sizes, depths, wraps, interleavings, both directions |
//! | `payloads.rs` | the same with oracles, costs and shared queues; resets during payloads; block writes |
//!
//! Checked: bytes, counted fallbacks, and that nothing is leaked. Not checked: timing, and a host that violates the rules (the device's own
//! tests have one).

mod arrives;
mod fixture;
mod payloads;
