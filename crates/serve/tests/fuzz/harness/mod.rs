//! What a hostile host does to a served drive, as a function of some bytes: the bodies of the fuzzer's targets.
//!
//! Two users: the fuzzer (the workspace's folder `fuzz`, a package of its own), which looks for bytes that break
//! something, and the test next to this folder, which replays the bytes that are kept.
//!
//! | file | what |
//! |---|---|
//! | [`input`] | the bytes, taken apart into choices |
//! | [`bench`] | a small drive and its function, in an executor of their own |
//! | [`arena`] | the host's memory, with canaries |
//! | [`model`] | what the drive's blocks may hold |
//! | [`queues`] | the target: registers, queues, memory that comes and goes |
//! | [`messages`] | the target: a client's messages and descriptors |
//! | [`capsules`] | the target: connections of an NVMe/TCP target, their PDUs and capsules |
//! | [`prover`] | how a host of these authenticates |
//! | [`leaks`] | what must be as before after an input |
//!
//! What is verified stands at the head of each target. A hang is found from outside: by the fuzzer's limit for an
//! input, by the limit of who runs the test.

pub mod arena;
pub mod bench;
pub mod capsules;
pub mod input;
pub mod leaks;
pub mod messages;
pub mod model;
pub mod prover;
pub mod queues;

/// A target, by the name of its folder in the corpus.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: [Target; 3] =
    [("messages", messages::run), ("queues", queues::run), ("capsules", capsules::run)];
