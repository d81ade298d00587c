//! `byteway run`.

use std::path::PathBuf;
use std::process::ExitCode;

use super::{OutputFormat, show};
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::progress::Progress;
use crate::run::{Session, run};
use crate::scenario::{Options, Scenario};

pub(super) const EXAMPLES: &str = "\
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
pub(super) struct Arguments {
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

/// Runs the scenario.
pub(super) fn execute(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let options = Options { sets: arguments.sets.clone(), skip_bad_lines: arguments.skip_bad_lines };
    let scenario = Scenario::load(&arguments.scenario, &options)?;
    let output = arguments.out.as_deref().map(Output::check).transpose()?;
    let interrupt = Interrupt::on_signal();
    let mut progress = Progress::new("", scenario.command_count(), scenario.runtime(), arguments.quiet);
    let found = run(&scenario, Session { progress: &mut progress, interrupt: &interrupt });
    progress.finish();
    show(&found?.summary, output, arguments.format)
}
