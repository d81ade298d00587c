//! `byteway media`: inspects and verifies data directories.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;

use super::flags::{OutputFormat, Tables};
use crate::interrupt::{EXIT_INTERRUPTED, raised_by_signal};
use crate::terminal::Terminal;
use byteway_media::{Info, Verdict};
use byteway_results::output::print;

pub(super) const EXAMPLES: &str = "\
Examples:
  byteway media info drive.data                         show content, wear, and how its drive ended
  byteway media check drive.data                        read everything, and compare the map with it;
                                                        exit code 1 on errors

Neither changes the directory. It must not be in use by a served drive.";

#[derive(clap::Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Show the content of a data directory.
    Info(Looked),
    /// Verify every checksum in a data directory, and that the map and the spare areas agree.
    Check {
        #[command(flatten)]
        looked: Looked,
        /// Do not show a progress bar.
        #[arg(long)]
        quiet: bool,
    },
}

#[derive(clap::Args)]
struct Looked {
    /// Directory of `byteway serve --data`, or the subdirectory of one of several drives.
    directory: PathBuf,
    /// Output format.
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    format: OutputFormat,
    #[command(flatten)]
    tables: Tables,
}

/// Executes the action.
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
