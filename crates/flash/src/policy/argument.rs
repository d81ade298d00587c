//! Arguments of the built-in policies.

use byteway_clock::Delay;
use byteway_policy::WrongArgument;

/// Most operations of a turn, and longest time in microseconds.
const NUMBER_MAX: u32 = 1_000_000;

/// A number of operations.
///
/// # Errors
/// It is none, or out of range.
pub(in crate::policy) fn number(text: &str, example: &str) -> Result<u32, WrongArgument> {
    let number = text.parse().ok().filter(|number| (1..=NUMBER_MAX).contains(number));
    number.ok_or_else(|| wrong("a number of operations", example))
}

/// A time, in microseconds.
///
/// # Errors
/// There is none, or it is out of range.
pub(in crate::policy) fn time(argument: Option<&str>, example: &str) -> Result<Delay, WrongArgument> {
    let number =
        argument.and_then(|text| text.parse().ok()).filter(|number| (1..=NUMBER_MAX).contains(number));
    number
        .map(|number| Delay::from_us(number.into()))
        .ok_or_else(|| wrong("a time in microseconds,", example))
}

fn wrong(what: &str, example: &str) -> WrongArgument {
    WrongArgument {
        what: format!("needs {what} from 1 to {NUMBER_MAX}"),
        help: format!("write it behind a colon, such as `{example}`"),
    }
}
