//! The program: what a user types, and what answers. The `byteway` binary is one call of [`cli::main_with`].
//!
//! | file | what |
//! |---|---|
//! | [`cli`] | the command line and its exit codes |
//! | [`terminal`] | progress bars |
//! | [`interrupt`] | Ctrl-C and SIGTERM |
//!
//! What it does not do: anything that a command does; that is the business of the crates below it.

pub mod cli;
pub mod interrupt;
pub mod terminal;
