//! `byteway sweep`: points of a space, chosen by a search.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::ValueEnum;

use super::flags::{Tables, repeat, threads};
use crate::interrupt::{EXIT_INTERRUPTED, raised_by_signal};
use crate::terminal::PointsBar;
use byteway_explore::replicate::Repeat;
use byteway_explore::sweep::{LocalOptions, PointCache, Sweep, load_space, run_local};
use byteway_results::output::{Output, print};
use byteway_scenario::Options;

pub(super) const EXAMPLES: &str = "\
A space is a TOML file: a scenario, the keys to vary, and a search that chooses the points:
  scenario = \"first.toml\"
  [[vary]]
  key = \"iodepth\"                        # as for `byteway compare --vary`
  values = \"1..256x2\"
  [[vary]]
  key = \"drive.override.firmware.latency.read\"   # a range, for searches that draw points
  from = \"5 us\"
  to = \"40 us\"
  spacing = \"log\"
  [search]
  method = \"latin-hypercube\"             # grid random latin-hypercube knee crossover pareto
  points = 200
  metric = \"p99_ns\"

  byteway sweep scenarios/knee.space.toml                    find the knee of a drive
  byteway sweep space.toml --out results                     ... and write results/sweep.parquet and sweep.json
  byteway sweep space.toml --set job.0.count=100000          with longer runs
  byteway sweep space.toml --repeat 5                        with five seeds for each point, means and 95 % intervals

Results are kept in a cache by the hash of everything that determines them: the same point is never run twice, whatever sweep it is in, also
after an interruption. The rows depend on the space alone, not on the number of threads or on the cache. From Python (`byteway.sweep`) the
same sweep runs on several processes or machines, and has the same rows.

Exit codes: 0 success; 1 a point failed; 2 invalid input, nothing run; 130 interrupted, completed points are shown.";

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// File of the space (TOML).
    space: PathBuf,
    /// Replace or add a key of the scenario in every point. Repeatable.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    /// Run every point with N seeds, the first of which is the scenario's own: figures are then means with 95 % intervals.
    #[arg(long, value_name = "N", default_value = "1", hide_default_value = true, value_parser = repeat)]
    repeat: Repeat,
    /// Write sweep.parquet and sweep.json to DIR, which is created if necessary.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Keep results in DIR. Default: byteway/points in $XDG_CACHE_HOME or ~/.cache.
    #[arg(long, value_name = "DIR", conflicts_with = "no_cache")]
    cache: Option<PathBuf>,
    /// Run every point, and keep no results.
    #[arg(long)]
    no_cache: bool,
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
    /// The best points, and what was found.
    Table,
    /// Content of sweep.json.
    Json,
}

/// Runs the sweep.
pub(super) fn execute(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let options = Options {
        sets: arguments.sets.clone(),
        skip_bad_lines: arguments.skip_bad_lines,
        ..crate::extensions::options()
    };
    let mut sweep = Sweep::new(load_space(&arguments.space, options)?, arguments.repeat)?;
    let output = arguments.out.as_deref().map(Output::check).transpose()?;
    let output = output.map(Output::claim).transpose()?;
    let cache = match &arguments.cache {
        _ if arguments.no_cache => None,
        Some(folder) => Some(PointCache::open(folder)?),
        None => Some(PointCache::of_user()?),
    };
    let interrupt = raised_by_signal();
    let bar = PointsBar::growing(arguments.quiet);
    let threads = threads(arguments.jobs);
    let options = LocalOptions { threads, cache: cache.as_ref(), interrupt: &interrupt, bar: &bar };
    let ran = run_local(&mut sweep, &options);
    bar.finish();
    ran?;
    let written = output.map_or(Ok(()), |output| sweep.write(&output));
    let printed = print(match arguments.format {
        Format::Table => arguments.tables.wrapped(&sweep.printed(arguments.tables.width())),
        Format::Json => sweep.to_json(),
    });
    written?;
    printed?;
    Ok(match () {
        () if sweep.is_partial() => ExitCode::from(EXIT_INTERRUPTED),
        () if sweep.failed() > 0 => ExitCode::FAILURE,
        () => ExitCode::SUCCESS,
    })
}
