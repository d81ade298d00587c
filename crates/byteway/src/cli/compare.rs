//! `byteway compare`: runs a scenario for every combination of varied keys.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::ValueEnum;

use super::flags::{Tables, constants, repeat, threads};
use crate::interrupt::{EXIT_INTERRUPTED, raised_by_signal};
use crate::terminal::PointsBar;
use byteway_explore::assumption::Constants;
use byteway_explore::compare::{
    CompareOptions, Comparison, Plan, PointOutcomes, Request, Store, plan_trials, run_all, sensitivity,
};
use byteway_explore::replicate::Repeat;
use byteway_results::figures::Metric;
use byteway_results::output::print;
use byteway_run::probe::probe;
use byteway_scenario::Options;
use byteway_text::error::suggest;

pub(super) const EXAMPLES: &str = "\
Runs every combination of the values, the first --vary slowest, and compares it with the first point, or with
--baseline:
  byteway compare scenarios/queue-depth.toml --vary iodepth=1..256x2
  byteway compare s.toml --vary drive.profile=samsung-970-pro,mqsim-mlc --vary seed=1..5
  byteway compare four.toml --vary 'drive.a.capacity=4 GiB,8 GiB'       # one of several drives
  byteway compare s.toml --vary method=prp,sgl --vary 'bs=512 B..16 KiB x2' --baseline method=prp
  byteway compare s.toml --vary 'drive.override.flash.read=[\"50 us\"],[\"60 us\"]' --out results

KEY is as for --set, or shorter if only one section has it: iodepth is job.*.iodepth of every job; job.0.iodepth or
job.greedy.iodepth is that of one job. Values are as for --set, separated by commas; a quoted comma belongs to the
value. Ranges: 1..256x2 doubles, 0..100+25 has a step, 1..4 counts by one; with units 4 KiB..1 MiB x2. The end of a
range is never exceeded.

--baseline KEY=VALUE[,KEY=VALUE] selects the points to compare with; keys that it does not name have the value of the
compared point: --baseline method=prp compares every sgl with the prp of the same size.

With --out, points/NNN/summary.json has each run's result as soon as it is complete, compare.json and compare.csv all
figures, report.html the charts. The same command with the same --out resumes an interrupted comparison: a point with
unchanged scenario, traces and program is not run again, unless --fresh is given.

With --repeat 5 every point runs with five seeds, and each figure is a mean with its 95 % interval by Student's t: 51,200 ± 310. A finding is
stated, and a difference shown, only where the intervals of two points part; elsewhere it is within chance. With --out, points/NNN are then the
runs, those of the first point first; compare.json lists their seeds, and --set seed=N runs one of them alone:
  byteway compare s.toml --vary drive.profile=samsung-970-pro,p4500 --repeat 5

With --sensitivity the comparison runs again for other values of each constant that a profile assumes (`byteway profile show` has every
source), one at a time: half and twice the value, and a quarter to four times for what counts entries in flight or of a burst. It says which
findings change, and what is found instead. KEYS name constants, whatever their source:
  byteway compare scenarios/small-payloads.toml --set drive.profile=modern-gen5 --vary method=prp,inline \
    --vary 'bs=64 B..1 KiB x2' --sensitivity=controller.fetch_burst,link.propagation

In the findings, the knee is the point with the highest ratio of throughput to latency. By Little's law it is where
the maximum throughput times the latency of an idle drive is outstanding: below it the drive is partly idle; above
it I/Os queue.

Exit codes: 0 success; 1 a point failed; 2 invalid input, nothing run; 130 interrupted, completed points are shown.";

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Scenario file (TOML).
    scenario: PathBuf,
    /// Vary a key of the scenario. Repeatable, for all combinations.
    #[arg(long = "vary", value_name = "KEY=VALUES", required = true)]
    varies: Vec<String>,
    /// Replace or add a key of the scenario in every point. Repeatable.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    /// Value of ${NAME} in a fio job file. Repeatable.
    #[arg(long = "define", value_name = "NAME=VALUE")]
    defines: Vec<String>,
    /// Points to compare with, instead of the first one.
    #[arg(long, value_name = "KEY=VALUE,...")]
    baseline: Option<String>,
    /// Figure to compare first, in the report and in the table, by its name in compare.json, such as p99_ns. Default: throughput, or mean
    /// latency if transfer methods or open loops are compared.
    #[arg(long, value_name = "FIGURE", value_parser = metric)]
    metric: Option<Metric>,
    /// Run every point with N seeds, the first of which is the scenario's own: figures are then means with 95 % intervals.
    #[arg(long, value_name = "N", default_value = "1", hide_default_value = true, value_parser = repeat)]
    repeat: Repeat,
    /// Say which findings rest on assumed constants: run the comparison again with other values of constants, one at a time: of all that
    /// the profiles assume, or of KEYS.
    #[arg(long, value_name = "KEYS", num_args = 0..=1, require_equals = true, default_missing_value = "", value_parser = constants())]
    sensitivity: Option<Constants>,
    /// Write the results to DIR, which is created if necessary, and resume from the results in it.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Run all points, including those with results in the folder.
    #[arg(long, requires = "out")]
    fresh: bool,
    /// Number of points run in parallel. Default: one per processor. The results do not depend on it.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// Output format.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    #[command(flatten)]
    tables: Tables,
    /// Skip and count the lines of a trace that are not records.
    #[arg(long)]
    skip_bad_lines: bool,
    /// Do not show a progress bar.
    #[arg(long)]
    quiet: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    /// Table and findings.
    Table,
    /// Content of compare.json.
    Json,
    /// Content of compare.csv.
    Csv,
}

/// Parses the key of a figure.
fn metric(text: &str) -> Result<Metric, String> {
    let keys = Metric::ALL.map(Metric::key);
    Metric::named(text).ok_or_else(|| format!("no such figure; {}", suggest(text, &keys)))
}

/// Runs every combination.
pub(super) fn execute(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let request = Request {
        scenario: arguments.scenario.clone().into(),
        varies: arguments.varies.clone(),
        baseline: arguments.baseline.clone(),
        metric: arguments.metric,
        repeat: arguments.repeat,
        sensitivity: arguments.sensitivity.clone(),
        options: Options {
            sets: arguments.sets.clone(),
            defines: arguments.defines.clone(),
            skip_bad_lines: arguments.skip_bad_lines,
            ..crate::extensions::options()
        },
    };
    let plan = Plan::load(&request)?;
    let trials = plan_trials(&request, &plan)?;
    let count = plan.runs();
    let store = arguments.out.as_deref().map(|folder| Store::open(folder, count)).transpose()?;
    let interrupt = raised_by_signal();
    let bar = PointsBar::new(count, arguments.quiet);
    let threads = threads(arguments.jobs);
    let options = CompareOptions {
        threads,
        store: store.as_ref(),
        fresh: arguments.fresh,
        interrupt: &interrupt,
        bar: &bar,
    };
    let ran = run_all(&plan, &options);
    bar.finish();
    let PointOutcomes { outcomes, resumed, mut kept } = ran?;
    let mut comparison = Comparison::new(plan, outcomes, &|scenario| probe(scenario, &interrupt));
    if arguments.sensitivity.is_some() {
        let bar = PointsBar::new(trials.len(), arguments.quiet);
        comparison.sensitivity = Some(sensitivity(&request, &comparison, trials, threads, &interrupt, &bar));
        bar.finish();
    }
    comparison.interrupted = interrupt.is_raised();
    // Without all of its points the folder is not a complete comparison.
    if let (Some(store), Ok(())) = (&store, &kept) {
        kept = store.write_all(&comparison);
    }
    // To the standard error, because the results do not depend on it.
    if resumed > 0 {
        let _ = writeln!(
            std::io::stderr(),
            "{resumed} of {count} {} already had results; use --fresh to run all",
            if arguments.repeat.is_several() { "runs" } else { "points" }
        );
    }
    let printed = print(match arguments.format {
        Format::Table => arguments.tables.wrapped(&comparison.printed(arguments.tables.width())),
        Format::Json => comparison.to_json(),
        Format::Csv => comparison.to_csv(),
    });
    kept?;
    printed?;
    Ok(match () {
        () if comparison.is_partial() => ExitCode::from(EXIT_INTERRUPTED),
        () if comparison.failed() > 0 => ExitCode::FAILURE,
        () => ExitCode::SUCCESS,
    })
}
