//! `byteway media`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;

use super::flags::{OutputFormat, Tables};
use crate::interrupt::{EXIT_INTERRUPTED, raised_by_signal};
use crate::terminal::Terminal;
use byteway_lab::media::{Info, Verdict};
use byteway_measure::output::print;

pub(super) const EXAMPLES: &str = "\
Examples:
  byteway media info drive.data                         what it holds, how worn it is, how its drive ended
  byteway media check drive.data                        read all of it, and compare the map with it;
                                                        exit code 1 if something is wrong

Neither changes anything, and no drive may be served from the directory meanwhile.";

#[derive(clap::Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Show what a data directory holds.
    Info(Looked),
    /// Verify every checksum in a data directory, and that the map and the spare areas say the same.
    Check {
        #[command(flatten)]
        looked: Looked,
        /// No progress bar.
        #[arg(long)]
        quiet: bool,
    },
}

#[derive(clap::Args)]
struct Looked {
    /// The directory that `byteway serve --data` was given, or of several drives one below it.
    directory: PathBuf,
    /// What is printed.
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    format: OutputFormat,
    #[command(flatten)]
    tables: Tables,
}

/// Does what is asked of the directory.
pub(super) fn execute(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    match &arguments.action {
        Action::Info(Looked { directory, format, tables }) => {
            let info = Info::of(directory)?;
            print(match format {
                OutputFormat::Table => tables.wrapped(&info.to_text()),
                OutputFormat::Json => info.to_json(),
            })?;
            Ok(ExitCode::SUCCESS)
        }
        Action::Check { looked: Looked { directory, format, tables }, quiet } => {
            let verdict = Verdict::of(directory, &Terminal { quiet: *quiet }, &raised_by_signal())?;
            print(match format {
                OutputFormat::Table => tables.wrapped(&verdict.to_text()),
                OutputFormat::Json => verdict.to_json(),
            })?;
            Ok(match verdict.is_good() {
                Some(true) => ExitCode::SUCCESS,
                Some(false) => ExitCode::FAILURE,
                None => ExitCode::from(EXIT_INTERRUPTED),
            })
        }
    }
}
