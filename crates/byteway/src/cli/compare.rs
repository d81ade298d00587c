//! `byteway compare`.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::ValueEnum;

use super::flags::Tables;
use crate::interrupt::{EXIT_INTERRUPTED, raised_by_signal};
use crate::terminal::PointsBar;
use byteway_console::error::suggest;
use byteway_measure::output::print;
use byteway_scenario::Options;
use byteway_study::compare::{Comparison, Manner, Metric, Plan, Ran, Request, Store, probe, run_all};

pub(super) const EXAMPLES: &str = "\
Every combination of the values is run, the first --vary slowest, and compared with the first
point or with --baseline:
  byteway compare scenarios/queue-depth.toml --vary iodepth=1..256x2
  byteway compare s.toml --vary drive.profile=samsung-970-pro,mqsim-mlc --vary seed=1..5
  byteway compare four.toml --vary 'drive.a.capacity=4 GiB,8 GiB'       # of one of several drives
  byteway compare s.toml --vary method=prp,sgl --vary 'bs=512 B..16 KiB x2' --baseline method=prp
  byteway compare s.toml --vary 'drive.override.flash.read=[\"50 us\"],[\"60 us\"]' --out results

KEY is that of --set, or shorter where only one section has it: iodepth is job.*.iodepth, every
job's; job.0.iodepth or job.greedy.iodepth is one's. Values are as in --set, separated by commas;
in quotes a comma belongs to the value. Ranges: 1..256x2 doubles, 0..100+25 goes in steps, 1..4 by
ones; with units 4 KiB..1 MiB x2. No end is overstepped.

--baseline KEY=VALUE[,KEY=VALUE] names what the points are compared with; of keys that it doesn't
name each point's own value holds: --baseline method=prp compares every sgl with the prp of the
same size.

With --out, points/NNN/summary.json holds each run's result as soon as it is there, compare.json
and compare.csv all figures, report.html the charts. The same command with the same --out goes on
where it was stopped: a point whose scenario, traces and program are the same is not run again,
unless with --fresh.

In the findings, the knee is the point with the most throughput for its latency. Little's law puts
it where the most throughput times the latency of an idle drive is outstanding: with fewer, the
drive idles; with more, I/Os wait.

Exit codes: 0 done; 1 a point failed; 2 wrong input, nothing run; 130 interrupted, what was done
is shown.";

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// The scenario, a TOML file.
    scenario: PathBuf,
    /// Vary a key of the scenario; may be repeated, for all combinations.
    #[arg(long = "vary", value_name = "KEY=VALUES", required = true)]
    varies: Vec<String>,
    /// Replace or add a key of the scenario in every point; may be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    /// What ${NAME} in a fio job file stands for; may be repeated.
    #[arg(long = "define", value_name = "NAME=VALUE")]
    defines: Vec<String>,
    /// What points are compared with, instead of the first.
    #[arg(long, value_name = "KEY=VALUE,...")]
    baseline: Option<String>,
    /// The figure that is compared first, in the report and in the table, by its name in compare.json, such as p99_ns; left
    /// out, throughput, or mean latency where transfer methods are compared.
    #[arg(long, value_name = "FIGURE", value_parser = metric)]
    metric: Option<Metric>,
    /// Write the results to this folder, which is made if need be, and go on from what is there.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Run all points, even those that the folder has.
    #[arg(long, requires = "out")]
    fresh: bool,
    /// Points that run at once; left out, one a processor. The results are the same.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// What is printed.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    #[command(flatten)]
    tables: Tables,
    /// Skip the lines of a trace that are no records, and count them.
    #[arg(long)]
    skip_bad_lines: bool,
    /// No progress bar.
    #[arg(long)]
    quiet: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    /// A table and the findings.
    Table,
    /// What compare.json holds.
    Json,
    /// What compare.csv holds.
    Csv,
}

/// A figure by its key.
fn metric(text: &str) -> Result<Metric, String> {
    let keys = Metric::ALL.map(Metric::key);
    Metric::named(text).ok_or_else(|| format!("there is no such figure; {}", suggest(text, &keys)))
}

/// Runs every combination.
pub(super) fn execute(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let request = Request {
        scenario: arguments.scenario.clone(),
        varies: arguments.varies.clone(),
        baseline: arguments.baseline.clone(),
        metric: arguments.metric,
        options: Options {
            sets: arguments.sets.clone(),
            defines: arguments.defines.clone(),
            skip_bad_lines: arguments.skip_bad_lines,
            ..Options::default()
        },
    };
    let plan = Plan::load(&request)?;
    let count = plan.points.len();
    let store = arguments.out.as_deref().map(|folder| Store::open(folder, count)).transpose()?;
    let interrupt = raised_by_signal();
    let bar = PointsBar::new(count, arguments.quiet);
    let threads = match arguments.jobs {
        Some(jobs) => usize::from(jobs),
        None => std::thread::available_parallelism().map_or(1, usize::from),
    };
    let manner =
        Manner { threads, store: store.as_ref(), fresh: arguments.fresh, interrupt: &interrupt, bar: &bar };
    let ran = run_all(&plan, &manner);
    bar.finish();
    let Ran { outcomes, resumed, mut kept } = ran?;
    let mut comparison = Comparison::new(plan, outcomes, &|scenario| probe(scenario, &interrupt));
    comparison.interrupted = interrupt.is_raised();
    // Without all of its points the folder is not a whole comparison's.
    if let (Some(store), Ok(())) = (&store, &kept) {
        kept = store.write_all(&comparison);
    }
    // On the error stream: the results are the same whether they were there or not.
    if resumed > 0 {
        let _ =
            writeln!(std::io::stderr(), "{resumed} of {count} points were there already; --fresh runs all");
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
