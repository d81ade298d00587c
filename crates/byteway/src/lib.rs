//! The program: command line, progress bars, signals. The `byteway` binary is a single call of [`cli::main_with`].
//!
//! | file | what |
//! |---|---|
//! | [`cli`] | the command line and its exit codes |
//! | [`terminal`] | progress bars |
//! | [`interrupt`] | Ctrl-C and SIGTERM |
//!
//! What it does not do: the work of its commands, which the crates below it do.

pub mod cli;
pub mod interrupt;
pub mod terminal;
