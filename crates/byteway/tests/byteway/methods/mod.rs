//! Every method, driver and drive together over the simulated link.
//!
//! | file | what |
//! |---|---|
//! | `fixture.rs` | driver, link and a drive that offers everything |
//! | `arrives.rs` | the bytes that arrive are the bytes sent: sizes, depths, wraps, interleavings, both ways |
//! | `payloads.rs` | the same with oracles, costs and shared queues; resets in the middle of payloads; block writes |
//!
//! What is checked here: bytes, counted fallbacks, that nothing is kept. What isn't: how long anything takes, and a host
//! that breaks the rules (the device's own tests have one).

mod arrives;
mod fixture;
mod payloads;
