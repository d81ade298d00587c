//! `byteway threshold`: measures up to which payload size fine-grained methods beat PRPs.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::interrupt::{EXIT_INTERRUPTED, raised_by_signal};
use byteway_explore::threshold::{measure, to_toml};
use byteway_results::output::print;
use byteway_scenario::{Options, Scenario};

pub(super) const EXAMPLES: &str = "\
Examples:
  byteway threshold scenarios/small-payloads.toml
  byteway threshold scenarios/small-payloads.toml --set drive.profile=modern-gen5

Measures, to the byte, the payload size from which each fine-grained method of the drive is no longer faster than PRPs:
tau of `transfer.method = \"adaptive\"`, which uses the method for payloads below it. Put the output into the drive's
profile. It is valid for the scenario's drive, link, host and queue depth; the scenario's payload size is varied.";

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Scenario file (TOML) with payloads of one size to a payload sink.
    scenario: PathBuf,
    /// Replace or add a key of the scenario. Repeatable.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
}

/// Measures and prints the thresholds.
pub(super) fn execute(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let options = Options { sets: arguments.sets.clone(), ..Options::default() };
    let scenario = Scenario::load(&arguments.scenario, &options)?;
    let thresholds = measure(&scenario, &raised_by_signal())?;
    print(to_toml(&scenario, &thresholds))?;
    Ok(match thresholds.missing.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(EXIT_INTERRUPTED),
    })
}
