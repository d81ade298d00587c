//! `byteway threshold`.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::interrupt::{EXIT_INTERRUPTED, raised_by_signal};
use byteway_measure::output::print;
use byteway_scenario::{Options, Scenario};
use byteway_study::threshold::{measure, to_toml};

pub(super) const EXAMPLES: &str = "\
Examples:
  byteway threshold scenarios/small-payloads.toml
  byteway threshold scenarios/small-payloads.toml --set drive.profile=modern-gen5

The payload size from which on each fine-grained method of the drive is no longer faster than PRPs, to the
byte: tau of `transfer.method = \"adaptive\"`, below which payloads go by the method. What is printed belongs
into the drive's profile. It holds for the scenario's drive, link, host and depth; other payload sizes than
the scenario's are tried.";

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// A scenario with payloads of one size to a payload sink, a TOML file.
    scenario: PathBuf,
    /// Replace or add a key of the scenario; may be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
}

/// Measures and prints.
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
