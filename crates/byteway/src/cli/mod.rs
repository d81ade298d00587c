//! The command line: what the user types, and what he is told.

mod bench;
mod compare;
mod control;
mod fio;
mod flags;
mod fuzz;
mod kv;
mod media;
mod profile;
mod reproduce;
mod run;
mod serve;
mod show;
mod threshold;
mod trace;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand, ValueEnum};

use crate::interrupt::{EXIT_INTERRUPTED, hold_hangups, take_signals};
use byteway_console::error::InputError;
use byteway_lab::error::{AttachedError, RunError};
use byteway_lab::media::MediaError;
use byteway_lab::serve::ServiceError;
use byteway_measure::output::{StdoutError, print};
use byteway_scenario::profile::profile_schema;
use byteway_scenario::{device_schema, host_schema, network_schema, scenario_schema};
use byteway_study::compare::StoreError;
use byteway_study::threshold::ThresholdError;

/// An NVMe solid-state drive in software.
///
/// Byteway simulates a drive made of real protocol and real bytes in virtual time, and says what happened and where
/// the time went: throughput, latency, every byte on the link, the use of every die, channel and core. The same drive
/// can be served in real time to an unmodified host over vfio-user.
#[derive(Parser)]
#[command(name = "byteway", version, max_term_width = 110, after_help = EXAMPLES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  byteway run scenarios/first.toml                      run it, tables on the terminal
  byteway run scenarios/first.toml --out results        ... and results/summary.json, report.html, results.parquet
  byteway run s.toml --set drive.profile=mqsim-mlc      the same on another drive
  byteway run s.toml --format json | jq .iops           for scripts
  byteway compare s.toml --vary iodepth=1..256x2        nine runs, side by side
  byteway reproduce byteexpress                         what a paper says, measured again
  byteway serve drive.toml --vfio-user /tmp/drive       a drive for a real host: QEMU, SPDK, byteway bench
  byteway bench --vfio-user /tmp/drive --iodepth 32     and what it does in real time
  byteway kv bench --workload w-m --count 100000        a key-value drive, and what it does with small values
  byteway fuzz --for 10min                              random drives, workloads, power cuts and faults
  byteway schema > scenario.schema.json                 for an editor that completes and checks

Exit codes: 0 done; 1 failed, or data did not verify, or results could not be written; 2 wrong input,
nothing written; 130 interrupted (Ctrl-C, SIGTERM), result marked; 141 the reader closed the pipe.";

#[derive(Subcommand)]
enum Command {
    /// Run a scenario.
    #[command(after_help = run::EXAMPLES)]
    Run(run::Arguments),
    /// Run a scenario with some of its keys varied, every combination, and compare.
    #[command(after_help = compare::EXAMPLES)]
    Compare(compare::Arguments),
    /// Measure up to which payload size each fine-grained method beats PRPs.
    #[command(after_help = threshold::EXAMPLES)]
    Threshold(threshold::Arguments),
    /// Measure again what a paper says, claim by claim.
    #[command(after_help = reproduce::EXAMPLES)]
    Reproduce(reproduce::Arguments),
    /// Look into a block trace, or convert it.
    #[command(after_help = trace::EXAMPLES)]
    Trace(trace::Arguments),
    /// List the built-in profiles of drives, hosts and networks, or show one.
    #[command(after_help = profile::EXAMPLES)]
    Profile(profile::Arguments),
    /// Print the scenario that a fio job file comes to.
    #[command(after_help = fio::EXAMPLES)]
    Fio(fio::Arguments),
    /// Serve drives in real time to hosts in other processes, until Ctrl-C or SIGTERM.
    #[command(after_help = serve::EXAMPLES)]
    Serve(serve::Arguments),
    /// Look into the data directory of a served drive, or verify it.
    #[command(after_help = media::EXAMPLES)]
    Media(media::Arguments),
    /// Drive a served drive as fast as it goes, and measure it.
    #[command(after_help = bench::EXAMPLES)]
    Bench(Box<bench::Arguments>),
    /// Store, retrieve and list pairs of a key-value drive, or measure a workload of them.
    #[command(after_help = kv::EXAMPLES)]
    Kv(kv::Arguments),
    /// Let a swarm of random runs loose on the drive, with power cuts and other faults, until one fails.
    #[command(after_help = fuzz::EXAMPLES)]
    Fuzz(fuzz::Arguments),
    /// Print the JSON schema of the scenario file, of the device file, or of a profile.
    Schema {
        /// Of what.
        #[arg(value_enum, default_value_t = SchemaOf::Scenario)]
        of: SchemaOf,
    },
}

#[derive(Clone, Copy, ValueEnum)]
enum SchemaOf {
    /// The scenario file.
    Scenario,
    /// The device file.
    Device,
    /// The profile of a drive.
    Profile,
    /// The profile of a host.
    Host,
    /// The profile of a network.
    Network,
}

/// Wrong input.
const EXIT_INPUT: u8 = 2;

/// The command line as a tree of commands with their arguments.
pub fn command() -> clap::Command {
    Arguments::command()
}

/// The whole program: parses `arguments` (the first is the program's name), does what they say, returns the exit
/// code.
pub fn main_with(arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>) -> ExitCode {
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and version go to the output stream, everything else to the error stream.
            let is_wrong = error.use_stderr();
            let printed = error.print().and_then(|()| std::io::stdout().flush());
            return match printed {
                Err(error) if !is_wrong => report(&StdoutError::from(error).into()),
                _ => ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(EXIT_INPUT)),
            };
        }
    };
    if let Command::Serve(arguments) = &arguments.command
        && arguments.reads_again()
        && let Err(error) = hold_hangups()
    {
        return report(&error.into());
    }
    take_signals();
    let done = match arguments.command {
        Command::Run(arguments) => run::execute(&arguments),
        Command::Compare(arguments) => compare::execute(&arguments),
        Command::Threshold(arguments) => threshold::execute(&arguments),
        Command::Reproduce(arguments) => reproduce::execute(&arguments),
        Command::Trace(arguments) => trace::execute(&arguments),
        Command::Profile(arguments) => profile::execute(&arguments),
        Command::Fio(arguments) => fio::execute(&arguments),
        Command::Serve(arguments) => serve::execute(&arguments),
        Command::Media(arguments) => media::execute(&arguments),
        Command::Bench(arguments) => bench::execute(&arguments),
        Command::Kv(arguments) => kv::execute(&arguments),
        Command::Fuzz(arguments) => fuzz::execute(&arguments),
        Command::Schema { of } => {
            let schema = match of {
                SchemaOf::Scenario => scenario_schema(),
                SchemaOf::Device => device_schema(),
                SchemaOf::Profile => profile_schema(),
                SchemaOf::Host => host_schema(),
                SchemaOf::Network => network_schema(),
            };
            print(format!("{schema:#}\n")).map(|()| ExitCode::SUCCESS).map_err(Into::into)
        }
    };
    done.unwrap_or_else(|error| report(&error))
}

/// Says what went wrong, and turns it into an exit code.
fn report(error: &anyhow::Error) -> ExitCode {
    if let Some(quiet) = error.downcast_ref::<StdoutError>().and_then(StdoutError::quiet_exit) {
        return quiet;
    }
    if is_interrupted(error) {
        let _ = writeln!(std::io::stderr(), "{error:#}");
        return ExitCode::from(EXIT_INTERRUPTED);
    }
    let _ = writeln!(std::io::stderr(), "error: {error:#}");
    ExitCode::from(if is_wrong_input(error) { EXIT_INPUT } else { 1 })
}

fn is_interrupted(error: &anyhow::Error) -> bool {
    error.downcast_ref::<AttachedError>().is_some_and(AttachedError::is_interrupted)
        || matches!(error.downcast_ref(), Some(RunError::Interrupted))
}

/// Whether the input is what is wrong, whichever crate has found that.
fn is_wrong_input(error: &anyhow::Error) -> bool {
    fn of<E: std::error::Error + Send + Sync + 'static>(
        error: &anyhow::Error,
        wrong_input: fn(&E) -> Option<&InputError>,
    ) -> bool {
        error.downcast_ref().and_then(wrong_input).is_some()
    }
    error.is::<InputError>()
        || of(error, RunError::wrong_input)
        || of(error, AttachedError::wrong_input)
        || of(error, MediaError::wrong_input)
        || of(error, ServiceError::wrong_input)
        || of(error, StoreError::wrong_input)
        || of(error, ThresholdError::wrong_input)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Clap checks an argument definition only when it is used; a contradiction in it would panic at the user's.
    #[test]
    fn the_arguments_are_consistent() {
        command().debug_assert();
    }

    // Exit codes follow from the kind of an error: one that a crate has inside an error of its own is still of that kind.
    #[test]
    fn wrong_input_and_interruptions_are_found_in_errors_of_every_crate() {
        let input = || InputError::new("wrong", "right");
        let run = || RunError::from(input());
        let boxed = || Box::new(AttachedError::from(run()));
        let all = [
            anyhow::Error::from(input()),
            run().into(),
            AttachedError::from(input()).into(),
            AttachedError::InDirectory { path: "data".into(), source: boxed() }.into(),
            MediaError::from(input()).into(),
            ServiceError::from(input()).into(),
            StoreError::Point(Box::new(input().into())).into(),
            ThresholdError::from(input()).into(),
        ];
        for error in all {
            assert!(is_wrong_input(&error) && !is_interrupted(&error), "{error:?}");
        }
        assert!(!is_wrong_input(&AttachedError::Gone.into()));
        let gone = Some(Box::new(AttachedError::Gone));
        let interrupted = anyhow::Error::from(AttachedError::Interrupted { source: gone });
        assert!(is_interrupted(&interrupted) && !is_wrong_input(&interrupted));
        assert!(is_interrupted(&RunError::Interrupted.into()));
        assert!(is_interrupted(&AttachedError::from(RunError::Interrupted).into()));
        let text = format!("{interrupted:#}");
        assert!(
            text.starts_with("interrupted: there is no whole result: the drive's process has gone"),
            "{text}"
        );
    }
}
