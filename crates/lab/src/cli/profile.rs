//! `byteway profile`.

use std::process::ExitCode;

pub(super) const EXAMPLES: &str = "";

#[derive(clap::Args)]
pub(super) struct Arguments {}

/// Lists or shows profiles.
pub(super) fn execute(_: &Arguments) -> anyhow::Result<ExitCode> {
    anyhow::bail!("not there yet")
}
