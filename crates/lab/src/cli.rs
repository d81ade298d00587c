//! The command line: what the user types, and what he is told.

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueEnum};

use crate::error::InputError;
use crate::interrupt::{EXIT_INTERRUPTED, Interrupt};
use crate::output::Output;
use crate::progress::Progress;
use crate::run::{Session, run};
use crate::scenario::{Options, Scenario, host_schema, profile_schema, scenario_schema};
use crate::summary::Summary;

/// An NVMe solid-state drive in software.
///
/// Byteway simulates a drive made of real protocol and real bytes in virtual time, and says what happened and where
/// the time went: throughput, latency, every byte on the link, the use of every die, channel and core.
#[derive(Parser)]
#[command(name = "byteway", version, max_term_width = 110, after_help = EXAMPLES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  byteway run scenarios/first.toml                      run it, tables on the terminal
  byteway run scenarios/first.toml --out results        ... and results/summary.json
  byteway run s.toml --set drive.profile=mqsim-mlc      the same on another drive
  byteway run s.toml --format json | jq .iops           for scripts
  byteway schema > scenario.schema.json                 for an editor that completes and checks

Exit codes: 0 done; 1 failed, or data did not verify; 2 wrong input, nothing written; 130 interrupted, result marked.";

#[derive(Subcommand)]
enum Command {
    /// Run a scenario.
    #[command(after_help = RUN_EXAMPLES)]
    Run(RunArguments),
    /// Print the JSON schema of the scenario file, or of a profile.
    Schema {
        /// Of what.
        #[arg(value_enum, default_value_t = SchemaOf::Scenario)]
        of: SchemaOf,
    },
}

const RUN_EXAMPLES: &str = "\
A scenario is a TOML file. The least of them:
  [drive]
  profile = \"samsung-970-pro\"      # or mqsim-mlc, cosmos-plus, or the path of a profile of your own
  [[job]]
  rw = \"randread\"                  # read write randread randwrite rw randrw trim randtrim
  count = 100000                   # or runtime = \"1 s\"

--set replaces or adds a key, by its dotted path; jobs by number from 0, or by name:
  --set job.0.iodepth=16  --set job.0.bs=\"8 KiB\"  --set drive.capacity=\"64 GiB\"
  --set drive.override.link.lanes=2  --set host.profile=linux-interrupt

To replay a block trace (MQSim, SSDSim or MSR Cambridge) give a job a [job.trace] instead of `rw`:
  [[job]]
  iodepth = 32
  [job.trace]
  file = \"web.trace\"
  wrap = true                      # addresses beyond the drive begin again at its start";

#[derive(clap::Args)]
struct RunArguments {
    /// The scenario, a TOML file.
    scenario: PathBuf,
    /// Replace or add a key of the scenario; may be repeated, the last one counts.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    /// Write summary.json to this folder, which is made if need be.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// What is printed.
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    format: OutputFormat,
    /// Skip the lines of a trace that are no records, and count them.
    #[arg(long)]
    skip_bad_lines: bool,
    /// No progress bar.
    #[arg(long)]
    quiet: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum OutputFormat {
    /// Tables for the eye.
    Table,
    /// What summary.json holds.
    Json,
}

#[derive(Clone, Copy, ValueEnum)]
enum SchemaOf {
    /// The scenario file.
    Scenario,
    /// The profile of a drive.
    Profile,
    /// The profile of a host.
    Host,
}

/// Wrong input.
const EXIT_INPUT: u8 = 2;

/// The whole program: parses `arguments` (the first is the program's name), does what they say, returns the exit
/// code.
pub fn main_with(arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>) -> ExitCode {
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => {
            // Prints help and version to the output stream, everything else to the error stream.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(EXIT_INPUT));
        }
    };
    match arguments.command {
        Command::Run(arguments) => match run_command(&arguments) {
            Ok(code) => code,
            Err(error) => report(&error),
        },
        Command::Schema { of } => {
            let schema = match of {
                SchemaOf::Scenario => scenario_schema(),
                SchemaOf::Profile => profile_schema(),
                SchemaOf::Host => host_schema(),
            };
            print(&format!("{schema:#}\n"));
            ExitCode::SUCCESS
        }
    }
}

fn run_command(arguments: &RunArguments) -> anyhow::Result<ExitCode> {
    let options = Options { sets: arguments.sets.clone(), skip_bad_lines: arguments.skip_bad_lines };
    let scenario = Scenario::load(&arguments.scenario, &options)?;
    let output = arguments.out.as_deref().map(Output::check).transpose()?;
    let interrupt = Interrupt::on_ctrl_c();
    let mut progress = Progress::new(&scenario, arguments.quiet);
    let found = run(&scenario, Session { progress: &mut progress, interrupt: &interrupt });
    progress.finish();
    let summary = found?;
    if let Some(output) = output {
        output.write("summary.json", summary.to_json().as_bytes())?;
    }
    print(&match arguments.format {
        OutputFormat::Table => summary.to_tables(),
        OutputFormat::Json => summary.to_json(),
    });
    Ok(exit_code(&summary))
}

fn exit_code(summary: &Summary) -> ExitCode {
    if summary.verification.mismatches > 0 {
        return ExitCode::FAILURE;
    }
    if summary.partial { ExitCode::from(EXIT_INTERRUPTED) } else { ExitCode::SUCCESS }
}

/// Says what went wrong, and turns it into an exit code.
fn report(error: &anyhow::Error) -> ExitCode {
    let wrong_input = error.downcast_ref::<InputError>().is_some();
    let _ = writeln!(std::io::stderr(), "error: {error:#}");
    ExitCode::from(if wrong_input { EXIT_INPUT } else { 1 })
}

/// A reader that has seen enough and closed the pipe is no error.
fn print(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    // Clap checks an argument definition only when it is used; a contradiction in it would panic at the user's.
    #[test]
    fn the_arguments_are_consistent() {
        use clap::CommandFactory;
        Arguments::command().debug_assert();
    }
}
