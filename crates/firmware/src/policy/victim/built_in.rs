//! The victim policies that every program has.

use super::cost_benefit::CostBenefit;
use super::d_choices::DChoices;
use super::fifo::Fifo;
use super::greedy::Greedy;
use super::view::Victim;
use super::windowed_greedy::WindowedGreedy;
use byteway_policy::{BuiltIn, WrongArgument, plain};

/// The built-in policies.
pub(in crate::policy) static BUILT_IN: [BuiltIn<dyn Victim>; 5] = [
    BuiltIn {
        name: "greedy",
        about: "The superblock with the fewest valid units.",
        make: |argument| plain(argument, Box::new(Greedy)),
    },
    BuiltIn {
        name: "cost-benefit",
        about: "The best ratio of reclaimed space, weighted by age, to data to move.",
        make: |argument| plain(argument, Box::new(CostBenefit)),
    },
    BuiltIn {
        name: "fifo",
        about: "The superblock that was closed first.",
        make: |argument| plain(argument, Box::new(Fifo)),
    },
    BuiltIn {
        name: "windowed-greedy",
        about: "Of the N superblocks that were closed first, the one with the fewest valid units: `windowed-greedy:N`.",
        make: |argument| Ok(Box::new(WindowedGreedy::new(number(argument, "windowed-greedy:64")?))),
    },
    BuiltIn {
        name: "d-choices",
        about: "Of D superblocks drawn at random, the one with the fewest valid units: `d-choices:D`.",
        make: |argument| Ok(Box::new(DChoices::new(number(argument, "d-choices:10")?))),
    },
];

/// Most choices or places in a window: what is beyond is hardly another policy than greedy.
const NUMBER_MAX: u32 = 65_536;

fn number(argument: Option<&str>, example: &str) -> Result<u32, WrongArgument> {
    let number =
        argument.and_then(|text| text.parse().ok()).filter(|number| (1..=NUMBER_MAX).contains(number));
    number.ok_or_else(|| WrongArgument {
        what: format!("needs a number of superblocks from 1 to {NUMBER_MAX}"),
        help: format!("write it behind a colon, such as `{example}`"),
    })
}
