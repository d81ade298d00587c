//! The policies of reading ahead that every program has.

use super::none::Nothing;
use super::sequential::Sequential;
use super::view::Prefetch;
use byteway_policy::{BuiltIn, WrongArgument, plain};

/// The built-in policies.
pub(in crate::policy) static BUILT_IN: [BuiltIn<dyn Prefetch>; 2] = [
    BuiltIn { name: "none", about: "Nothing.", make: |argument| plain(argument, Box::new(Nothing)) },
    BuiltIn {
        name: "sequential",
        about: "What follows in each of 16 sequential streams, from the third read on, in a window that doubles up to UNITS of 4 KiB: \
                `sequential:UNITS`.",
        make: |argument| Ok(Box::new(Sequential::new(units(argument)?))),
    },
];

/// Longest window: 256 MiB.
const UNITS_MAX: u32 = 65_536;

fn units(argument: Option<&str>) -> Result<u32, WrongArgument> {
    let number =
        argument.and_then(|text| text.parse().ok()).filter(|number| (1..=UNITS_MAX).contains(number));
    number.ok_or_else(|| WrongArgument {
        what: format!("needs a number of units of 4 KiB from 1 to {UNITS_MAX}"),
        help: "write it behind a colon, such as `sequential:64`".into(),
    })
}
