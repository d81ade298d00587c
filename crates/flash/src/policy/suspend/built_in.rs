//! The policies of suspension that every program has.

use super::always::Always;
use super::erases::Erases;
use super::remaining::Remaining;
use super::view::Suspend;
use crate::policy::argument;
use byteway_policy::{BuiltIn, plain};

/// The built-in policies.
pub(in crate::policy) static BUILT_IN: [BuiltIn<dyn Suspend>; 3] = [
    BuiltIn {
        name: "always",
        about: "Whenever a read waits that a host waits for.",
        make: |argument| plain(argument, Box::new(Always)),
    },
    BuiltIn { name: "erases", about: "Erases only.", make: |argument| plain(argument, Box::new(Erases)) },
    BuiltIn {
        name: "remaining",
        about: "What would go on for a time, in microseconds, after the die could sense: `remaining:200`.",
        make: |argument| Ok(Box::new(Remaining::new(argument::time(argument, "remaining:200")?))),
    },
];
