//! The stream policies that every program has.

use super::hot_cold::HotCold;
use super::sep_bit::SepBit;
use super::separate::Separate;
use super::view::Stream;
use byteway_policy::{BuiltIn, WrongArgument, plain};

/// The built-in policies.
pub(in crate::policy) static BUILT_IN: [BuiltIn<dyn Stream>; 3] = [
    BuiltIn {
        name: "separate",
        about: "What the host writes, and what garbage collection moves.",
        make: |argument| plain(argument, Box::new(Separate)),
    },
    BuiltIn {
        name: "hot-cold",
        about: "What the host writes often and recently, and the rest; what garbage collection moves. `hot-cold:N` forgets a quarter every N \
                writes of 4 KiB; by default, as many as the drive has.",
        make: |argument| Ok(Box::new(HotCold::new(argument.map(interval).transpose()?))),
    },
    BuiltIn {
        name: "sepbit",
        about: "Data of similar remaining life, estimated from the life of what they replace, or from their age (SepBIT): two streams of the \
                host, and four of garbage collection.",
        make: |argument| plain(argument, Box::new(SepBit::default())),
    },
];

/// Longest interval of `hot-cold`: four petabytes written.
const INTERVAL_MAX: u64 = 1 << 40;

fn interval(text: &str) -> Result<u64, WrongArgument> {
    let number = text.parse().ok().filter(|number| (1..=INTERVAL_MAX).contains(number));
    number.ok_or_else(|| WrongArgument {
        what: format!("needs a number of writes from 1 to {INTERVAL_MAX}"),
        help: "write it behind a colon, such as `hot-cold:4096`, or leave out the colon".into(),
    })
}
