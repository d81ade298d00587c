//! The policies of admission that every program has.

use super::always::Always;
use super::second_access::SecondAccess;
use super::tiny_lfu::TinyLfu;
use super::view::Admission;
use byteway_policy::{BuiltIn, plain};

/// The built-in policies.
pub(in crate::policy) static BUILT_IN: [BuiltIn<dyn Admission>; 3] = [
    BuiltIn { name: "always", about: "All.", make: |argument| plain(argument, Box::new(Always)) },
    BuiltIn {
        name: "second-access",
        about: "What missed before, among the last misses: two to four times as many as the cache has units.",
        make: |argument| plain(argument, Box::new(SecondAccess::default())),
    },
    BuiltIn {
        name: "tiny-lfu",
        about: "What was read more often of late than the unit that would make place for it (TinyLFU).",
        make: |argument| plain(argument, Box::new(TinyLfu::default())),
    },
];
