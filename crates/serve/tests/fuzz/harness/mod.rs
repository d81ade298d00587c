//! The bodies of the fuzzer's targets: a hostile host of a served drive, as a function of some bytes.
//!
//! Two users: the fuzzer (the directory `fuzz` of the workspace, a separate package), which searches for
//! failing inputs, and the test next to this directory, which replays stored inputs.
//!
//! | file | what |
//! |---|---|
//! | [`input`] | the bytes, decoded into choices |
//! | [`bench`] | a small drive and its function, in their own executor |
//! | [`arena`] | the host's memory, with canaries |
//! | [`model`] | possible contents of the drive's blocks |
//! | [`queues`] | target: registers, queues, memory that is mapped and unmapped |
//! | [`messages`] | target: a client's messages and descriptors |
//! | [`capsules`] | target: connections of an NVMe/TCP target, their PDUs and capsules |
//! | [`prover`] | authentication of these hosts |
//! | [`leaks`] | resources that must be unchanged after an input |
//!
//! Each target's module doc states what it verifies. Hangs are detected from outside: by the fuzzer's time
//! limit for an input, or by that of the test runner.

pub mod arena;
pub mod bench;
pub mod capsules;
pub mod input;
pub mod leaks;
pub mod messages;
pub mod model;
pub mod prover;
pub mod queues;

/// A target, by the name of its directory in the corpus.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: [Target; 3] =
    [("messages", messages::run), ("queues", queues::run), ("capsules", capsules::run)];
