//! `byteway threshold`: measures up to which payload size fine-grained methods beat PRPs.

use std::path::PathBuf;
use std::process::ExitCode;

use super::flags::{constants, threads};
use crate::interrupt::{EXIT_INTERRUPTED, raised_by_signal};
use crate::terminal::PointsBar;
use byteway_explore::assumption::{Constants, trials};
use byteway_explore::threshold::{measure, sensitivity, to_toml};
use byteway_results::output::print;
use byteway_scenario::{Options, ScenarioInput};

pub(super) const EXAMPLES: &str = "\
Examples:
  byteway threshold scenarios/small-payloads.toml
  byteway threshold scenarios/small-payloads.toml --set drive.profile=modern-gen5
  byteway threshold scenarios/small-payloads.toml --set drive.profile=modern-gen5 --sensitivity

Measures, to the byte, the payload size from which each fine-grained method of the drive is no longer faster than PRPs:
tau of `transfer.method = \"adaptive\"`, which uses the method for payloads below it. Put the output into the drive's
profile. It is valid for the scenario's drive, link, host and queue depth; the scenario's payload size is varied.

With --sensitivity each constant that a profile assumes is tried at half and twice its value (what counts entries in flight, from a quarter to
four times), one at a time; comments name the values that move a threshold by more than a tenth.";

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Scenario file (TOML) with payloads of one size to a payload sink.
    scenario: PathBuf,
    /// Replace or add a key of the scenario. Repeatable.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    /// Measure again with other values of constants, one at a time: of all that the profiles assume, or of KEYS.
    #[arg(long, value_name = "KEYS", num_args = 0..=1, require_equals = true, default_missing_value = "", value_parser = constants())]
    sensitivity: Option<Constants>,
    /// Number of trials run in parallel. Default: one per processor. The results do not depend on it.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// Do not show a progress bar.
    #[arg(long)]
    quiet: bool,
}

/// Measures and prints the thresholds.
pub(super) fn execute(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let options = Options { sets: arguments.sets.clone(), ..crate::extensions::options() };
    let input = ScenarioInput::from(arguments.scenario.clone());
    let scenario = input.load(&options)?;
    // A misspelt constant is refused before anything is measured.
    let planned = match &arguments.sensitivity {
        None => Vec::new(),
        Some(which) => trials(which, &scenario.constants)?,
    };
    let interrupt = raised_by_signal();
    let thresholds = measure(&scenario, &interrupt)?;
    let (threads, bar) =
        (threads(arguments.jobs), PointsBar::new(planned.len(), arguments.quiet || planned.is_empty()));
    let tried = sensitivity((&input, &options), &scenario.constants, planned, threads, &interrupt, &bar);
    bar.finish();
    print(to_toml(&scenario, &thresholds, &tried))?;
    let is_whole = thresholds.missing.is_empty() && tried.iter().all(|one| one.found.is_some());
    Ok(match is_whole {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(EXIT_INTERRUPTED),
    })
}
