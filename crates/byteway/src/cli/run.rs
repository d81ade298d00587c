//! `byteway run`: runs a scenario.

use std::path::PathBuf;
use std::process::ExitCode;
use std::rc::Rc;

use anyhow::Context;

use super::flags::{Tables, repeat, threads};
use super::show::{Shown, show};
use crate::interrupt::raised_by_signal;
use crate::terminal::{PointsBar, Terminal};
use byteway_explore::replicate::{Repeat, replicate};
use byteway_report::run_report;
use byteway_results::IoRecorder;
use byteway_results::output::{Output, Unfinished};
use byteway_results::timeline::{IOS_DEFAULT, Timeline};
use byteway_run::run::{Records, Session, run_recorded};
use byteway_scenario::{Options, Scenario};
use byteway_text::error::InputError;
use byteway_text::progress::Progress;

pub(super) const EXAMPLES: &str = "\
A scenario is a TOML file. A minimal one:
  [drive]
  profile = \"samsung-970-pro\"      # or mqsim-mlc, cosmos-plus, or the path of your own profile
  [[job]]
  rw = \"randread\"                  # read write randread randwrite rw randrw trim randtrim
  count = 100000                   # or runtime = \"1 s\"

--set replaces or adds a key by its dotted path; jobs are addressed by number from 0, or by name:
  --set job.0.iodepth=16  --set job.0.bs=\"8 KiB\"  --set drive.capacity=\"64 GiB\"
  --set drive.override.link.lanes=2  --set host.profile=linux-interrupt
  --set host.verify=bytes          compare every read byte by byte instead of by page contents; slower

Several drives have a [[drive]] section and a name each; jobs refer to the names:
  [[drive]]
  name = \"a\"                       # with profile, capacity, ...; copies = 4 makes a0 to a3
  [[job]]
  drive = \"a\"                      # or a list, or \"all\": the job runs on each of them
  --set drive.a.capacity=\"64 GiB\"  or for all drives: --set drive.capacity=\"64 GiB\"

--repeat 5 runs it with five seeds, and adds the mean of each figure with its 95 % interval by Student's t, from which a difference to another
run can be told from chance. All other figures and files are of the first, which has the scenario's own seed. The seeds are in summary.json
(replicates): --set seed=N runs one of them alone. Without it the intervals of throughput and mean latency are from 20 batches within the run,
if these are long enough not to depend on each other.

--format fio prints what `fio --output-format=json` prints of such jobs.

To replay a block trace (see `byteway trace --help`), give a job a [job.trace] instead of `rw`:
  [[job]]
  iodepth = 32
  [job.trace]
  file = \"web.trace\"
  wrap = true                      # addresses beyond the drive's end wrap around";

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Scenario file (TOML).
    scenario: PathBuf,
    /// Replace or add a key of the scenario. Repeatable; the last value counts.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    /// Value of ${NAME} in a fio job file. Repeatable.
    #[arg(long = "define", value_name = "NAME=VALUE")]
    defines: Vec<String>,
    /// Run the scenario with N seeds, the first of which is its own, and add the means of its figures with 95 % intervals.
    #[arg(long, value_name = "N", default_value = "1", hide_default_value = true, value_parser = repeat)]
    repeat: Repeat,
    /// Number of replicates run in parallel. Default: one per processor. The results do not depend on it.
    #[arg(long, value_name = "N", requires = "repeat", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// Write summary.json, results.parquet (time series), latency.parquet (distributions) and report.html to DIR, which is created if necessary.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Also write ios.parquet: every measured I/O with the phases of its latency.
    #[arg(long, requires = "out")]
    ios: bool,
    /// Also write spans.json: every I/O, and every use of every resource, on a timeline. Open it at https://ui.perfetto.dev.
    #[arg(long)]
    spans: bool,
    /// Write spans.json for the first N I/Os instead of 10,000; each takes about 5 kB.
    #[arg(long, value_name = "N")]
    spans_ios: Option<u32>,
    /// Output format.
    #[arg(long, value_enum, default_value_t = RunFormat::Table)]
    format: RunFormat,
    #[command(flatten)]
    tables: Tables,
    /// Skip and count the lines of a trace that are not records.
    #[arg(long)]
    skip_bad_lines: bool,
    /// Do not show a progress bar.
    #[arg(long)]
    quiet: bool,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum RunFormat {
    /// Human-readable tables.
    Table,
    /// JSON for scripts: the content of summary.json.
    Json,
    /// The jobs in the form of fio's JSON output, for tools that read it, and for `byteway fit`.
    Fio,
}

/// Runs the scenario.
pub(super) fn execute(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let options = Options {
        sets: arguments.sets.clone(),
        defines: arguments.defines.clone(),
        skip_bad_lines: arguments.skip_bad_lines,
        ..crate::extensions::options()
    };
    let scenario = Scenario::load(&arguments.scenario, &options)?;
    if arguments.repeat.is_several() && matches!(arguments.format, RunFormat::Fio) {
        let what = "fio's JSON has no place for replicates";
        return Err(InputError::new(what, "leave out --repeat, or choose --format json").into());
    }
    let output = arguments.out.as_deref().map(Output::check).transpose()?;
    let spans_ios = spans_ios(arguments)?;
    let output = output.map(Output::claim).transpose()?;
    let interrupt = raised_by_signal();
    let mut progress =
        Progress::new(&Terminal { quiet: arguments.quiet }, "", scenario.command_count(), scenario.runtime());
    let ios = output.as_ref().filter(|_| arguments.ios).map(|output| IoRecorder::new(output, &scenario));
    let spans = match (&output, spans_ios) {
        (Some(output), Some(ios_max)) => Some(Spans::begin(output, ios_max)?),
        _ => None,
    };
    let records = Records { ios, timeline: spans.as_ref().map(|spans| spans.timeline.clone()) };
    let session = Session { progress: &mut progress, interrupt: &interrupt };
    let found = run_recorded(&scenario, session, records);
    progress.finish();
    let (mut results, ios) = found?;
    let bar = PointsBar::new(arguments.repeat.count(), arguments.quiet || !arguments.repeat.is_several());
    replicate(&mut results, &scenario, arguments.repeat, threads(arguments.jobs), &interrupt, &bar);
    bar.finish();
    let page = output.is_some().then(|| run_report(&scenario, &results));
    let ios = ios.into_iter().map(|ios| ios.map_err(anyhow::Error::from));
    let records = ios.chain(spans.map(Spans::finish)).collect();
    let shown = match arguments.format {
        RunFormat::Table => Shown::Tables(arguments.tables),
        RunFormat::Json => Shown::Json,
        RunFormat::Fio => Shown::Fio(&scenario),
    };
    show(&results, page.as_ref(), output, records, shown)
}

/// Number of I/Os that spans.json covers, if it is requested.
fn spans_ios(arguments: &Arguments) -> Result<Option<u32>, InputError> {
    if !arguments.spans && arguments.spans_ios.is_none() {
        return Ok(None);
    }
    if arguments.out.is_none() {
        let what = "spans.json has no folder";
        return Err(InputError::new(what, "name one with --out DIR, or leave --spans out"));
    }
    match arguments.spans_ios.unwrap_or(IOS_DEFAULT) {
        0 => Err(InputError::new("--spans-ios must not be 0", "give it 1 or more, or leave it out")),
        ios_max => Ok(Some(ios_max)),
    }
}

/// spans.json while it is being written.
struct Spans {
    file: Unfinished,
    timeline: Rc<Timeline>,
}

const SPANS: &str = "spans.json";

impl Spans {
    fn begin(output: &Output, ios_max: u32) -> anyhow::Result<Spans> {
        let file = output.create(SPANS)?;
        let timeline = Timeline::new(Box::new(file.writer()?), ios_max);
        Ok(Spans { file, timeline })
    }

    fn finish(self) -> anyhow::Result<Unfinished> {
        self.timeline.outcome().with_context(|| format!("cannot write {SPANS}"))?;
        Ok(self.file)
    }
}
