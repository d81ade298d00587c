//! The wear policies that every program has.

use super::dynamic::Dynamic;
use super::fifo::Fifo;
use super::random::AtRandom;
use super::spread::Spread;
use super::view::Wear;
use byteway_policy::{BuiltIn, WrongArgument, plain};

/// The built-in policies.
pub(in crate::policy) static BUILT_IN: [BuiltIn<dyn Wear>; 4] = [
    BuiltIn {
        name: "fifo",
        about: "Opens the block that has been free for longest.",
        make: |argument| plain(argument, Box::new(Fifo)),
    },
    BuiltIn {
        name: "dynamic",
        about: "Opens the least worn free block.",
        make: |argument| plain(argument, Box::new(Dynamic)),
    },
    BuiltIn {
        name: "static",
        about: "The same, and moves cold data where erase counts of a die differ by more than SPREAD: `static:SPREAD`.",
        make: |argument| Ok(Box::new(Spread::new(erases(argument, "static:50")?))),
    },
    BuiltIn {
        name: "random",
        about: "The same as `dynamic`, and moves the data of a block at random, after one of N other erases of a die: `random:N`.",
        make: |argument| Ok(Box::new(AtRandom::new(erases(argument, "random:100")?))),
    },
];

/// Most erases: more than any superblock endures.
const ERASES_MAX: u32 = 1_000_000;

fn erases(argument: Option<&str>, example: &str) -> Result<u32, WrongArgument> {
    let number =
        argument.and_then(|text| text.parse().ok()).filter(|number| (1..=ERASES_MAX).contains(number));
    number.ok_or_else(|| WrongArgument {
        what: format!("needs a number of erases from 1 to {ERASES_MAX}"),
        help: format!("write it behind a colon, such as `{example}`"),
    })
}
