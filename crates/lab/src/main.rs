//! The `byteway` binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    byteway_lab::cli::main_with(std::env::args_os())
}
