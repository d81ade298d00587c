//! The schedules that every program has.

use super::by_priority::ByPriority;
use super::deadline::Deadline;
use super::fifo::Fifo;
use super::view::Schedule;
use crate::policy::argument;
use byteway_policy::{BuiltIn, plain};

/// The built-in policies.
pub(in crate::policy) static BUILT_IN: [BuiltIn<dyn Schedule>; 3] = [
    BuiltIn {
        name: "priority",
        about: "The most urgent operation: reads for hosts, reads of the map, programs for hosts, collection, deferrable work; what N more \
                urgent ones have passed has its turn: `priority:N`, by default 8.",
        make: |argument| {
            let turn = argument.map(|text| argument::number(text, "priority:8")).transpose()?;
            Ok(Box::new(turn.map_or_else(ByPriority::default, ByPriority::new)))
        },
    },
    BuiltIn {
        name: "fifo",
        about: "The operation that was submitted first.",
        make: |argument| plain(argument, Box::new(Fifo)),
    },
    BuiltIn {
        name: "deadline",
        about: "The most urgent operation, unless one has waited for a time, in microseconds: `deadline:5000`.",
        make: |argument| Ok(Box::new(Deadline::new(argument::time(argument, "deadline:5000")?))),
    },
];
