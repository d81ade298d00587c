//! The daily commands of this workspace: `cargo xtask --help`.
//!
//! | file | what |
//! |---|---|
//! | `page.rs` | a Markdown page: its code blocks, links and headings |
//! | `links.rs` | checks that links between pages and to files lead somewhere |
//! | `map.rs` | draws the map of the crates |
//! | `commands.rs` | runs the command blocks of pages as a reader would |
//! | `reference.rs` | generates the reference of keys |
//! | `python.rs` | generates the types of the Python package |
//! | `test.rs` | runs the tests, and counts those that were skipped |

mod commands;
mod links;
mod map;
mod page;
mod python;
mod reference;
mod test;

use clap::{Parser, Subcommand};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Run the daily commands of this workspace.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run all tests, those last that need traces, DuckDB, a browser or a guest, and count those that were skipped without.
    Test {
        /// Arguments of `cargo test`, such as `-p byteway-kv`; those after `--` go to the tests, such as a part of their names.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Check that every link between Markdown pages, and to files of the repository, leads somewhere.
    Links,
    /// Draw the map of the crates in ARCHITECTURE.md anew, from their manifests.
    Map {
        /// Write nothing; fail if it is out of date.
        #[arg(long)]
        check: bool,
    },
    /// Run the command blocks of pages, in order, each page in a directory of its own.
    Commands {
        /// The pages; left out, README.md, CONTRIBUTING.md and all of docs.
        pages: Vec<PathBuf>,
        /// The directory of the `byteway` program that they run.
        #[arg(long, value_name = "DIR", default_value = "target/release")]
        program: PathBuf,
    },
    /// Write the generated types of the Python package anew.
    Python {
        /// The directory of the `byteway` program.
        #[arg(long, value_name = "DIR", default_value = "target/release")]
        program: PathBuf,
        /// Write nothing; fail if they are out of date.
        #[arg(long)]
        check: bool,
    },
    /// Write docs/reference anew, from what the program's schemas say.
    Reference {
        /// The directory of the `byteway` program.
        #[arg(long, value_name = "DIR", default_value = "target/release")]
        program: PathBuf,
    },
}

/// The repository.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Test { arguments } => test::run(root(), &arguments),
        Command::Links => links::check(root()),
        Command::Map { check: true } => map::check(root()),
        Command::Map { check: false } => map::write(root()),
        Command::Commands { pages, program } => commands::run(root(), &pages, &root().join(program)),
        Command::Python { program, check: true } => python::check(root(), &root().join(program)),
        Command::Python { program, check: false } => python::write(root(), &root().join(program)),
        Command::Reference { program } => reference::write(root(), &root().join(program)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
