//! `byteway trace`.

use std::process::ExitCode;

pub(super) const EXAMPLES: &str = "";

#[derive(clap::Args)]
pub(super) struct Arguments {}

/// Does what is asked of the trace.
pub(super) fn execute(_: &Arguments) -> anyhow::Result<ExitCode> {
    anyhow::bail!("not there yet")
}
