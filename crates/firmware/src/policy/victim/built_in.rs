//! The victim policies that every program has.

use super::cost_benefit::CostBenefit;
use super::d_choices::DChoices;
use super::fifo::Fifo;
use super::greedy::Greedy;
use super::handle::MadeVictim;
use super::view::Victim;
use super::windowed_greedy::WindowedGreedy;
use crate::policy::argument::WrongArgument;

/// A policy that every program has.
pub(in crate::policy) struct BuiltIn {
    pub(in crate::policy) name: &'static str,
    pub(in crate::policy) about: &'static str,
    pub(in crate::policy) make: fn(Option<&str>) -> MadeVictim,
}

/// The built-in policies.
pub(in crate::policy) const BUILT_IN: [BuiltIn; 5] = [
    BuiltIn {
        name: "greedy",
        about: "The superblock with the fewest valid units.",
        make: |argument| plain(argument, Greedy),
    },
    BuiltIn {
        name: "cost-benefit",
        about: "The best ratio of reclaimed space, weighted by age, to data to move.",
        make: |argument| plain(argument, CostBenefit),
    },
    BuiltIn {
        name: "fifo",
        about: "The superblock that was closed first.",
        make: |argument| plain(argument, Fifo),
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

fn plain(argument: Option<&str>, policy: impl Victim + 'static) -> MadeVictim {
    argument.map_or(Ok(Box::new(policy)), |_| Err(WrongArgument::none_is_taken()))
}

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
