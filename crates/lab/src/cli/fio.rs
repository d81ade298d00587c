//! `byteway fio`.

use std::process::ExitCode;

pub(super) const EXAMPLES: &str = "";

#[derive(clap::Args)]
pub(super) struct Arguments {}

/// Prints the scenario.
pub(super) fn execute(_: &Arguments) -> anyhow::Result<ExitCode> {
    anyhow::bail!("not there yet")
}
