//! Exit codes of commands.

/// Exit code for invalid input.
pub(super) const EXIT_INPUT: u8 = 2;
