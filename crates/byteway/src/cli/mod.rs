//! The command line: arguments, dispatch, exit codes.

mod bench;
mod compare;
mod control;
mod csd;
mod exit;
mod fio;
mod fit;
mod flags;
mod fuzz;
mod generate;
mod help;
mod kv;
mod log;
mod media;
mod profile;
mod reproduce;
mod run;
mod serve;
mod show;
mod sweep;
mod threshold;
mod trace;
mod validate;
mod watcher;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand, ValueEnum};

use self::exit::EXIT_INPUT;
use crate::interrupt::{EXIT_INTERRUPTED, hold_hangups, take_signals};
use byteway_explore::compare::StoreError;
use byteway_explore::fit::FitError;
use byteway_explore::threshold::ThresholdError;
use byteway_media::MediaError;
use byteway_results::output::{StdoutError, print};
use byteway_results::summary::summary_schema;
use byteway_run::error::RunError;
use byteway_scenario::profile::profile_schema;
use byteway_scenario::{device_schema, host_schema, network_schema, reference, scenario_schema_with};
use byteway_serving::error::AttachedError;
use byteway_serving::serve::ServiceError;
use byteway_text::error::InputError;

/// Version, commit, profile and target of this program, and the features that it lacks. A `+` behind the commit: files differed from it.
pub const VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    " (",
    env!("BYTEWAY_COMMIT"),
    ", ",
    env!("BYTEWAY_PROFILE"),
    ", ",
    env!("BYTEWAY_TARGET"),
    env!("BYTEWAY_WITHOUT"),
    ")"
);

/// An NVMe solid-state drive in software.
///
/// Byteway simulates a drive of real protocol and real bytes in virtual time, and reports what happened and where the time went:
/// throughput, latency, every byte on the link, the utilization of every die, channel and core. The same drive can be served in real time
/// to an unmodified host over vfio-user or NVMe/TCP.
#[derive(Parser)]
#[command(name = "byteway", version = VERSION, max_term_width = 110, after_help = EXAMPLES, disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  byteway run scenarios/first.toml                      run a scenario, print tables
  byteway run scenarios/first.toml --out results        ... and results/summary.json, report.html, results.parquet
  byteway run s.toml --set drive.profile=mqsim-mlc      run it on another drive
  byteway run s.toml --format json | jq .iops           print JSON for scripts
  byteway compare s.toml --vary iodepth=1..256x2        compare nine runs side by side
  byteway fit results.json --out fitted                 fit a profile to fio measurements of a real drive
  byteway validate wd-zn540                             hold a profile against measurements of the real drive
  byteway reproduce byteexpress                         measure again what a paper claims
  byteway serve drive.toml --vfio-user /tmp/drive       serve a drive to a real host: QEMU, SPDK, byteway bench
  byteway bench --vfio-user /tmp/drive --iodepth 32     measure it in real time
  byteway kv bench --workload w-m --count 100000        measure a key-value drive with small values
  byteway fuzz --for 10min                              test random drives and workloads with power cuts and faults
  byteway schema > scenario.schema.json                 print the schema for an editor with completion
  byteway help topics                                   list the pages of the documentation

Exit codes: 0 success; 1 a run failed, data did not verify, or results could not be written; 2 invalid input,
nothing written; 130 interrupted (Ctrl-C, SIGTERM), result marked as partial; 141 the reader closed the pipe.";

#[derive(Subcommand)]
enum Command {
    /// Run a scenario.
    #[command(after_help = run::EXAMPLES)]
    Run(run::Arguments),
    /// Run a scenario for every combination of varied keys, and compare the results.
    #[command(after_help = compare::EXAMPLES)]
    Compare(compare::Arguments),
    /// Run many points of a scenario, chosen by a search: a grid, drawn points, a knee, a crossover, a Pareto front.
    #[command(after_help = sweep::EXAMPLES)]
    Sweep(sweep::Arguments),
    /// Measure the payload size up to which each fine-grained method beats PRPs.
    #[command(after_help = threshold::EXAMPLES)]
    Threshold(threshold::Arguments),
    /// Measure the claims of a paper again.
    #[command(after_help = reproduce::EXAMPLES)]
    Reproduce(reproduce::Arguments),
    /// Inspect a block trace, or convert it.
    #[command(after_help = trace::EXAMPLES)]
    Trace(trace::Arguments),
    /// List the built-in profiles of drives, hosts and networks, or show one.
    #[command(after_help = profile::EXAMPLES)]
    Profile(profile::Arguments),
    /// Print the scenario that a fio job file translates to.
    #[command(after_help = fio::EXAMPLES)]
    Fio(fio::Arguments),
    /// Find constants of a profile from fio measurements of a real drive, or from published figures.
    #[command(after_help = fit::EXAMPLES)]
    Fit(Box<fit::Arguments>),
    /// Hold a profile against public measurements of the real drive: errors point by point, and on average.
    #[command(after_help = validate::EXAMPLES)]
    Validate(validate::Arguments),
    /// Serve drives in real time to hosts in other processes until Ctrl-C or SIGTERM.
    #[command(after_help = serve::EXAMPLES)]
    Serve(serve::Arguments),
    /// Inspect or verify the data directory of a served drive.
    #[command(after_help = media::EXAMPLES)]
    Media(media::Arguments),
    /// Benchmark a served drive.
    #[command(after_help = bench::EXAMPLES)]
    Bench(Box<bench::Arguments>),
    /// Store, retrieve and list key-value pairs on a drive, or benchmark them.
    #[command(after_help = kv::EXAMPLES)]
    Kv(kv::Arguments),
    /// Load tables into a computational drive, and query them.
    #[command(after_help = csd::EXAMPLES)]
    Csd(csd::Arguments),
    /// Run random simulations with power cuts and other faults until one fails.
    #[command(after_help = fuzz::EXAMPLES)]
    Fuzz(fuzz::Arguments),
    /// Print the keys of the scenario file, device file or a profile, as a JSON schema or in human-readable form.
    Schema {
        /// The file or profile.
        #[arg(value_enum, default_value_t = SchemaOf::Scenario)]
        of: SchemaOf,
        /// Format: JSON for an editor that completes and validates, Markdown for a reader.
        #[arg(long, value_enum, default_value_t = SchemaFormat::Json)]
        format: SchemaFormat,
    },
    /// Print a completion script for a shell.
    Completions(generate::Completions),
    /// Print the manual page, or write those of all commands.
    Man(generate::Man),
    /// Show the help of a command, or a page of the documentation; `byteway help topics` lists the pages.
    Help(help::Arguments),
}

#[derive(Clone, Copy, ValueEnum)]
enum SchemaOf {
    /// Scenario file.
    Scenario,
    /// Device file.
    Device,
    /// Drive profile.
    Profile,
    /// Host profile.
    Host,
    /// Network profile.
    Network,
    /// Results of a run: summary.json.
    Summary,
}

#[derive(Clone, Copy, ValueEnum)]
enum SchemaFormat {
    /// JSON Schema, draft 2020-12.
    Json,
    /// Markdown: tables of keys with values, defaults and descriptions.
    Markdown,
}

impl SchemaOf {
    /// Title in the reference, and schema.
    fn schema(self) -> (&'static str, serde_json::Value) {
        match self {
            SchemaOf::Scenario => ("Scenario file", scenario_schema_with(&crate::extensions::options())),
            SchemaOf::Device => ("Device file", device_schema()),
            SchemaOf::Profile => ("Profile of a drive", profile_schema(&crate::extensions::policies())),
            SchemaOf::Host => ("Profile of a host", host_schema()),
            SchemaOf::Network => ("Profile of a network", network_schema()),
            SchemaOf::Summary => ("Summary of a run", summary_schema()),
        }
    }
}

/// The command line as a clap command, with all subcommands.
pub fn command() -> clap::Command {
    Arguments::command()
}

/// As [`main_with`], for a process that is not this program, such as a Python interpreter: the exit code as a number.
pub fn exit_code(arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>) -> u8 {
    let code = main_with(arguments);
    // A program's exit code is opaque, but for equality.
    (0..=u8::MAX).find(|number| ExitCode::from(*number) == code).unwrap_or(1)
}

/// Runs the program with `arguments`, the first of which is the program's name, and returns the exit code.
pub fn main_with(arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>) -> ExitCode {
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and version go to the standard output, everything else to the standard error.
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
        Command::Sweep(arguments) => sweep::execute(&arguments),
        Command::Threshold(arguments) => threshold::execute(&arguments),
        Command::Reproduce(arguments) => reproduce::execute(&arguments),
        Command::Trace(arguments) => trace::execute(&arguments),
        Command::Profile(arguments) => profile::execute(&arguments),
        Command::Fio(arguments) => fio::execute(&arguments),
        Command::Fit(arguments) => fit::execute(&arguments),
        Command::Validate(arguments) => validate::execute(&arguments),
        Command::Serve(arguments) => serve::execute(&arguments),
        Command::Media(arguments) => media::execute(&arguments),
        Command::Bench(arguments) => bench::execute(&arguments),
        Command::Kv(arguments) => kv::execute(&arguments),
        Command::Csd(arguments) => csd::execute(&arguments),
        Command::Fuzz(arguments) => fuzz::execute(&arguments),
        Command::Schema { of, format } => {
            let (title, schema) = of.schema();
            let text = match format {
                SchemaFormat::Json => format!("{schema:#}\n"),
                SchemaFormat::Markdown => reference(title, &schema),
            };
            print(text).map(|()| ExitCode::SUCCESS).map_err(Into::into)
        }
        Command::Completions(arguments) => generate::completions(&arguments, command()),
        Command::Man(arguments) => generate::man(&arguments, command()),
        Command::Help(arguments) => help::execute(&arguments, command()),
    };
    done.unwrap_or_else(|error| report(&error))
}

/// Prints an error and maps it to an exit code.
fn report(error: &anyhow::Error) -> ExitCode {
    if let Some(quiet) = error.downcast_ref::<StdoutError>().and_then(StdoutError::quiet_exit) {
        return quiet;
    }
    if is_interrupted(error) {
        let _ = writeln!(std::io::stderr(), "{error:#}");
        return ExitCode::from(EXIT_INTERRUPTED);
    }
    let _ = writeln!(std::io::stderr(), "error: {error:#}");
    ExitCode::from(if wrong_input(error).is_some() { EXIT_INPUT } else { 1 })
}

/// Whether the cause is an interrupt, in an error of any crate.
pub fn is_interrupted(error: &anyhow::Error) -> bool {
    error.downcast_ref::<AttachedError>().is_some_and(AttachedError::is_interrupted)
        || matches!(error.downcast_ref(), Some(RunError::Interrupted))
}

/// The invalid input, if that is the cause, in an error of any crate.
pub fn wrong_input(error: &anyhow::Error) -> Option<&InputError> {
    fn of<E: std::error::Error + Send + Sync + 'static>(
        error: &anyhow::Error,
        wrong_input: fn(&E) -> Option<&InputError>,
    ) -> Option<&InputError> {
        error.downcast_ref().and_then(wrong_input)
    }
    error
        .downcast_ref()
        .or_else(|| of(error, RunError::wrong_input))
        .or_else(|| of(error, AttachedError::wrong_input))
        .or_else(|| of(error, MediaError::wrong_input))
        .or_else(|| of(error, ServiceError::wrong_input))
        .or_else(|| of(error, StoreError::wrong_input))
        .or_else(|| of(error, ThresholdError::wrong_input))
        .or_else(|| of(error, FitError::wrong_input))
}

#[cfg(test)]
mod tests {
    use super::*;
    use byteway_pushdown::error::SessionError;

    // Clap checks argument definitions only on use; a contradiction would panic at the user's.
    #[test]
    fn the_arguments_are_consistent() {
        command().debug_assert();
    }

    // Exit codes depend on the kind of an error, also if another crate's error wraps it.
    #[test]
    fn wrong_input_and_interruptions_are_found_in_errors_of_every_crate() {
        let input = || InputError::new("wrong", "right");
        let run = || RunError::from(input());
        let boxed = || Box::new(AttachedError::from(run()));
        let all = [
            anyhow::Error::from(input()),
            run().into(),
            AttachedError::from(input()).into(),
            AttachedError::from(SessionError::from(input())).into(),
            AttachedError::InDirectory { path: "data".into(), source: boxed() }.into(),
            MediaError::from(input()).into(),
            ServiceError::from(input()).into(),
            StoreError::Point(Box::new(input().into())).into(),
            ThresholdError::from(input()).into(),
            FitError::from(input()).into(),
        ];
        for error in all {
            assert!(wrong_input(&error).is_some() && !is_interrupted(&error), "{error:?}");
        }
        assert!(wrong_input(&AttachedError::Gone.into()).is_none());
        let gone = Some(Box::new(AttachedError::Gone));
        let interrupted = anyhow::Error::from(AttachedError::Interrupted { source: gone });
        assert!(is_interrupted(&interrupted) && wrong_input(&interrupted).is_none());
        assert!(is_interrupted(&RunError::Interrupted.into()));
        let partly = || SessionError::PartlyLoaded {
            table: "t".to_owned(),
            rows: 1,
            rows_in_all: 1,
            source: Box::new(SessionError::Interrupted),
        };
        let boxed = || Box::new(AttachedError::from(partly()));
        assert!(is_interrupted(&AttachedError::InDirectory { path: "data".into(), source: boxed() }.into()));
        assert!(is_interrupted(&AttachedError::from(RunError::Interrupted).into()));
        let text = format!("{interrupted:#}");
        assert!(
            text.starts_with("interrupted: there is no whole result: the drive's process has gone"),
            "{text}"
        );
    }
}
