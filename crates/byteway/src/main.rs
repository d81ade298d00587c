//! The `byteway` binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    byteway::cli::main_with(std::env::args_os())
}
