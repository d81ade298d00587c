//! `byteway fuzz`: runs random simulations with faults until one fails.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;

use anyhow::{Context, anyhow};
use indicatif::{HumanCount, ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use super::flags::OutputFormat;
use crate::interrupt::{EXIT_INTERRUPTED, raised_by_signal};
use byteway_results::output::print;
use byteway_swarm::every::Every;
use byteway_swarm::failure::Failure;
use byteway_swarm::plan::Plan;
use byteway_swarm::shrink::shrink;
use byteway_swarm::swarm::{SHRINK_RUNS_MAX, Swarm, run_caught};
use byteway_swarm::tally::Tally;
use byteway_text::error::InputError;
use byteway_text::interrupt::Interrupt;
use byteway_text::units::Picos;

pub(super) const EXAMPLES: &str = "\
Runs determined by a seed: a small drive, a workload, and faults (power cuts, also during recovery, resets, aborts),
each verified to the byte by an oracle that knows which states a power cut may leave.
  byteway fuzz                                  run for a minute
  byteway fuzz --seed 7 --for 10min             run longer, with other runs
  byteway fuzz --runs 1000                      run 1000 runs, the same ones on every machine
  byteway fuzz --seed 7 --first 123 --runs 1    run only run 123 of seed 7
  byteway fuzz --plan failure.toml              run a plan that a failure printed
  byteway fuzz --every-poll                     cut the power at every poll of a workload of 2000 operations,
                                                in scattered order; stops after five minutes
  byteway fuzz --every-poll --for 3h            ... with enough time for all polls

A failing run is shrunk; its plan is printed, and can be run again with --plan.

Exit codes: 0 no failure found; 1 a run failed; 2 invalid input; 130 interrupted, no failure found so far.";

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Seed of all runs.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Duration in wall-clock time, which only limits the number of runs. Default: 60 s, or 5 min with --every-poll.
    #[arg(long = "for", value_name = "TIME")]
    time: Option<Picos>,
    /// Number of runs, regardless of their duration.
    #[arg(long, value_name = "N", conflicts_with = "time")]
    runs: Option<u64>,
    /// Number of the first run.
    #[arg(long, value_name = "N", default_value_t = 0)]
    first: u64,
    /// Run this plan once.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["time", "runs", "first", "every_poll"])]
    plan: Option<PathBuf>,
    /// Shrink the plan if it fails.
    #[arg(long, requires = "plan")]
    shrink: bool,
    /// Limit of the runs spent on shrinking a failure; 0 prints the plan as drawn.
    #[arg(long, value_name = "N", default_value_t = SHRINK_RUNS_MAX)]
    shrink_runs: u64,
    /// Cut the power at every poll of one workload, instead of random runs.
    #[arg(long, conflicts_with_all = ["runs", "first"])]
    every_poll: bool,
    /// Cut only at every Nth poll.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "every_poll", value_parser = clap::value_parser!(u64).range(1..))]
    step: u64,
    /// Number of operations of that workload.
    #[arg(long, value_name = "N", default_value_t = 2000, requires = "every_poll")]
    ops: usize,
    /// Number of runs in parallel. Default: one per processor.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// Output format.
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    format: OutputFormat,
    /// Do not show a progress bar.
    #[arg(long)]
    quiet: bool,
}

/// The report.
#[derive(Serialize)]
struct Report {
    seed: u64,
    /// Build of the program.
    build: String,
    runs: u64,
    operations: u64,
    operations_failed: u64,
    power_cuts: u64,
    power_cuts_before_attach: u64,
    power_cycles: u64,
    resets: u64,
    aborts: u64,
    interrupts_lost: u64,
    link_replays: u64,
    flash_failures: u64,
    flash_units_uncorrectable: u64,
    superblocks_retired: u64,
    superblocks_levelled: u64,
    superblocks_refreshed: u64,
    superblocks_folded: u64,
    superblocks_collected_idle: u64,
    map_misses: u64,
    ends_of_life: u64,
    runs_in_files: u64,
    runs_untimed: u64,
    runs_hosted: u64,
    runs_partly_hosted: u64,
    runs_with_extents: u64,
    parts_merged: u64,
    runs_of_arrays: u64,
    runs_of_bridges: u64,
    members_unplugged: u64,
    runs_of_jbofs: u64,
    jbof_faults: u64,
    drives_left: u64,
    sessions_cut: u64,
    processors_lent: u64,
    commands_redirected: u64,
    stripes_repaired: u64,
    units_reconstructed: u64,
    units_rebuilt: u64,
    units_lost: u64,
    neighbour_drives: u64,
    namespaces_created: u64,
    namespaces_deleted: u64,
    formats: u64,
    sanitized: u64,
    blocks_verified: u64,
    runs_with_pairs: u64,
    pairs_stored: u64,
    pairs_refused: u64,
    pairs_verified: u64,
    pairs_merges: u64,
    pairs_collections: u64,
    pairs_replayed: u64,
    runs_with_tables: u64,
    tables_verified: u64,
    runs_with_programs: u64,
    programs_verified: u64,
    superblocks_collected: u64,
    polls: u64,
    /// With --every-poll: power cuts planned, and done.
    cuts_wanted: Option<u64>,
    cuts_tried: Option<u64>,
    /// Whether it was interrupted.
    partial: bool,
    failure: Option<ReportedFailure>,
}

#[derive(Serialize)]
struct ReportedFailure {
    /// Number of the failed run; null for a plan, or for a cut at a given poll.
    run: Option<u64>,
    kind: &'static str,
    text: String,
    /// Message of the failure as drawn, if it differs.
    drawn_text: Option<String>,
    shrink_runs: u64,
    /// The shrunk plan, as TOML.
    plan: String,
}

/// Runs the swarm, a plan, or a cut at every poll.
pub(super) fn execute(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let interrupt = raised_by_signal();
    let threads = match arguments.jobs {
        Some(jobs) => usize::from(jobs),
        None => std::thread::available_parallelism().map_or(1, usize::from),
    };
    let mut report = match &arguments.plan {
        Some(file) => {
            let (plan, tally, failure) = run_plan(arguments, file, &interrupt)?;
            Report::new(plan.seed, &tally, failure)
        }
        None if arguments.every_poll => cut_everywhere(arguments, threads, &interrupt)?,
        None => {
            let (tally, failure) = fly(arguments, threads, &interrupt)?;
            Report::new(arguments.seed, &tally, failure)
        }
    };
    report.partial = interrupt.is_raised();
    let failed = report.failure.is_some();
    print(match arguments.format {
        OutputFormat::Table => report.to_text(),
        OutputFormat::Json => format!("{}\n", serde_json::to_string_pretty(&report)?),
    })?;
    Ok(match () {
        () if failed => ExitCode::FAILURE,
        () if interrupt.is_raised() => ExitCode::from(EXIT_INTERRUPTED),
        () => ExitCode::SUCCESS,
    })
}

fn run_plan(
    arguments: &Arguments,
    file: &PathBuf,
    interrupt: &Interrupt,
) -> anyhow::Result<(Plan, Tally, Option<ReportedFailure>)> {
    let help = "pass a plan that `byteway fuzz` has printed for a failed run";
    let wrong = |what: String| anyhow!(InputError::new(format!("{}: {what}", file.display()), help));
    let text = std::fs::read_to_string(file).map_err(|error| wrong(error.to_string()))?;
    let plan = Plan::from_toml(&text).map_err(wrong)?;
    let ended = run_caught(&plan);
    let failure = ended.failure.map(|failure| {
        let runs_max = if arguments.shrink { arguments.shrink_runs } else { 0 };
        let again = |plan: &Plan| if interrupt.is_raised() { None } else { run_caught(plan).failure };
        let shrunken = shrink(&plan, &failure, runs_max, again);
        ReportedFailure::new(None, &failure, &shrunken.plan, &shrunken.failure, shrunken.runs)
    });
    Ok((plan, ended.tally, failure))
}

/// Default durations of random runs, and of cuts at every poll.
const RANDOM_SECONDS: f64 = 60.0;
const EVERY_POLL_SECONDS: f64 = 300.0;

fn cut_everywhere(arguments: &Arguments, threads: usize, interrupt: &Interrupt) -> anyhow::Result<Report> {
    let limit = arguments.seconds(EVERY_POLL_SECONDS);
    let shown = Shown::new(arguments.quiet, 100)?;
    let every = Every { seed: arguments.seed, ops: arguments.ops, step: arguments.step, threads };
    let cuts = every.cut(|done, wanted| {
        shown.show(done * 100 / wanted.max(1), || {
            format!("{} of {} power cuts", HumanCount(done), HumanCount(wanted))
        });
        interrupt.is_raised() || shown.seconds() >= limit
    });
    shown.finish();
    let failure =
        cuts.failure.map(|(plan, failure)| ReportedFailure::new(None, &failure, &plan, &failure, 0));
    let report = Report::new(arguments.seed, &cuts.tally, failure);
    Ok(Report { cuts_wanted: Some(cuts.wanted), cuts_tried: Some(cuts.done), ..report })
}

fn fly(
    arguments: &Arguments,
    threads: usize,
    interrupt: &Interrupt,
) -> anyhow::Result<(Tally, Option<ReportedFailure>)> {
    let limit = arguments.seconds(RANDOM_SECONDS);
    let shown = Shown::new(arguments.quiet, arguments.runs.unwrap_or(limit as u64))?;
    let swarm = Swarm {
        seed: arguments.seed,
        first: arguments.first,
        runs: arguments.runs.unwrap_or(u64::MAX),
        threads,
        shrink_runs_max: arguments.shrink_runs,
    };
    let is_over = |tally: &Tally| {
        let elapsed = shown.seconds();
        let position = if arguments.runs.is_some() { tally.runs } else { elapsed as u64 };
        shown.show(position, || {
            format!("{} runs, {} power cuts", HumanCount(tally.runs), HumanCount(tally.cuts))
        });
        interrupt.is_raised() || arguments.runs.is_none() && elapsed >= limit
    };
    let found = swarm.fly_until(|_| (), is_over, || interrupt.is_raised());
    shown.finish();
    let failure = found.finding.map(|finding| {
        let shrunken = &finding.shrunken;
        ReportedFailure::new(
            Some(finding.index),
            &finding.failure,
            &shrunken.plan,
            &shrunken.failure,
            shrunken.runs,
        )
    });
    Ok((found.tally, failure))
}

impl Arguments {
    fn seconds(&self, default: f64) -> f64 {
        self.time.map_or(default, |time| time.0 as f64 / 1e12)
    }
}

/// Progress: a bar on a terminal, otherwise a line at intervals.
struct Shown {
    bar: ProgressBar,
    /// Time of the next line in seconds; `None`: no lines are printed.
    line_due: Option<Mutex<f64>>,
}

/// Without a terminal: time of the first line, and interval of the next ones.
const FIRST_LINE_SECONDS: f64 = 2.0;
const LINE_SECONDS: f64 = 10.0;

impl Shown {
    fn new(quiet: bool, length: u64) -> anyhow::Result<Shown> {
        if quiet || !std::io::stderr().is_terminal() {
            let line_due = (!quiet).then(|| Mutex::new(FIRST_LINE_SECONDS));
            return Ok(Shown { bar: ProgressBar::hidden(), line_due });
        }
        let bar = ProgressBar::with_draw_target(Some(length), ProgressDrawTarget::stderr_with_hz(10));
        let template = "{bar:40} {percent:>3} %  {msg}, {eta} left";
        bar.set_style(ProgressStyle::with_template(template).context("the progress bar")?);
        Ok(Shown { bar, line_due: None })
    }

    fn seconds(&self) -> f64 {
        self.bar.elapsed().as_secs_f64()
    }

    /// `text` is called only if it is shown.
    fn show(&self, position: u64, text: impl FnOnce() -> String) {
        match &self.line_due {
            // If the lock is taken, another thread is writing a line.
            Some(due) => {
                let Ok(mut due) = due.try_lock() else { return };
                let seconds = self.seconds();
                if seconds >= *due {
                    *due = seconds + LINE_SECONDS;
                    let _ = writeln!(std::io::stderr(), "{seconds:.0} s: {}", text());
                }
            }
            None if !self.bar.is_hidden() => {
                self.bar.set_message(text());
                self.bar.set_position(position);
            }
            None => {}
        }
    }

    fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// Build of the program: its commit, if known, and a hash of its sources otherwise.
fn build() -> String {
    let version = env!("CARGO_PKG_VERSION");
    match option_env!("BYTEWAY_COMMIT") {
        Some(commit) => format!("{version}, commit {commit}"),
        None => format!(
            "{version}, sources {} (built without BYTEWAY_COMMIT, which would name the commit)",
            byteway_explore::compare::SOURCES
        ),
    }
}

impl ReportedFailure {
    fn new(run: Option<u64>, drawn: &Failure, plan: &Plan, failure: &Failure, shrink_runs: u64) -> Self {
        ReportedFailure {
            run,
            kind: failure.kind.name(),
            text: failure.text.clone(),
            drawn_text: (drawn.text != failure.text).then(|| drawn.text.clone()),
            shrink_runs,
            plan: plan.to_toml(),
        }
    }
}

impl Report {
    fn new(seed: u64, tally: &Tally, failure: Option<ReportedFailure>) -> Self {
        Report {
            seed,
            build: build(),
            runs: tally.runs,
            operations: tally.ops,
            operations_failed: tally.ops_failed,
            power_cuts: tally.cuts,
            power_cuts_before_attach: tally.cuts_mounting,
            power_cycles: tally.cycles,
            resets: tally.resets,
            aborts: tally.aborts,
            interrupts_lost: tally.interrupts_lost,
            link_replays: tally.replays,
            flash_failures: tally.flash_failures,
            flash_units_uncorrectable: tally.units_uncorrectable,
            superblocks_retired: tally.blocks_retired,
            superblocks_levelled: tally.blocks_levelled,
            superblocks_refreshed: tally.blocks_refreshed,
            superblocks_folded: tally.blocks_folded,
            superblocks_collected_idle: tally.blocks_collected_idle,
            map_misses: tally.map_misses,
            ends_of_life: tally.ends_of_life,
            runs_in_files: tally.in_files,
            runs_untimed: tally.untimed,
            runs_hosted: tally.hosted,
            runs_partly_hosted: tally.partial,
            runs_with_extents: tally.with_extents,
            parts_merged: tally.parts_merged,
            runs_of_arrays: tally.arrays,
            runs_of_bridges: tally.bridges,
            members_unplugged: tally.members_unplugged,
            runs_of_jbofs: tally.jbofs,
            jbof_faults: tally.jbof_faults,
            drives_left: tally.drives_left,
            sessions_cut: tally.sessions_cut,
            processors_lent: tally.loans,
            commands_redirected: tally.redirected,
            stripes_repaired: tally.stripes_repaired,
            units_reconstructed: tally.units_reconstructed,
            units_rebuilt: tally.units_rebuilt,
            units_lost: tally.units_lost,
            neighbour_drives: tally.neighbours,
            namespaces_created: tally.namespaces_created,
            namespaces_deleted: tally.namespaces_deleted,
            formats: tally.formats,
            sanitized: tally.sanitized,
            blocks_verified: tally.blocks_verified,
            runs_with_pairs: tally.with_pairs,
            pairs_stored: tally.pairs_stored,
            pairs_refused: tally.pairs_refused,
            pairs_verified: tally.pairs_verified,
            pairs_merges: tally.pairs_merged,
            pairs_collections: tally.pairs_collected,
            pairs_replayed: tally.pairs_replayed,
            runs_with_tables: tally.with_tables,
            tables_verified: tally.tables_verified,
            runs_with_programs: tally.with_programs,
            programs_verified: tally.programs_verified,
            superblocks_collected: tally.blocks_collected,
            polls: tally.polls,
            cuts_wanted: None,
            cuts_tried: None,
            partial: false,
            failure,
        }
    }

    fn to_text(&self) -> String {
        let mut text = format!(
            "{} runs of seed {}: {} operations, {} of which ended with an error explained by a fault;\n\
             {} power cuts, {} of them before the driver had attached; {} power cycles, {} resets, {} aborts;\n\
             {} interrupts lost, {} link replays;\n\
             {} programs and erases of flash failed, and reads of {} units; {} superblocks retired, {} ends of life;\n\
             {} namespaces created, {} deleted, {} formatted, {} sanitize operations;\n\
             {} superblocks collected, {} more while idle, {} levelled, {} refreshed, {} folded; {} map misses;\n\
             {} runs in files, {} without modeled time, {} with firmware on the host, {} with part of it there, {} neighbor drives;\n\
             {} with an extent tree as map; {} units merged from buffered parts;\n\
             {} of arrays, {} of bridges: {} members unplugged, {} stripes repaired, {} units reconstructed, {} rebuilt, {} lost;\n\
             {} of JBOFs: {} faults of JBOFs, {} returns of drives, {} sessions cut, {} processors lent,\n\
             {} commands redirected;\n\
             {} blocks verified;\n\
             {} runs with KV namespaces: {} pairs stored, {} refused for lack of space, {} verified, {} compactions, {} segments collected, {} pairs replayed;\n\
             {} runs with tables: {} answers verified;\n\
             {} runs with programs: {} answers verified\n",
            HumanCount(self.runs),
            self.seed,
            HumanCount(self.operations),
            HumanCount(self.operations_failed),
            HumanCount(self.power_cuts),
            HumanCount(self.power_cuts_before_attach),
            HumanCount(self.power_cycles),
            HumanCount(self.resets),
            HumanCount(self.aborts),
            HumanCount(self.interrupts_lost),
            HumanCount(self.link_replays),
            HumanCount(self.flash_failures),
            HumanCount(self.flash_units_uncorrectable),
            HumanCount(self.superblocks_retired),
            HumanCount(self.ends_of_life),
            HumanCount(self.namespaces_created),
            HumanCount(self.namespaces_deleted),
            HumanCount(self.formats),
            HumanCount(self.sanitized),
            HumanCount(self.superblocks_collected),
            HumanCount(self.superblocks_collected_idle),
            HumanCount(self.superblocks_levelled),
            HumanCount(self.superblocks_refreshed),
            HumanCount(self.superblocks_folded),
            HumanCount(self.map_misses),
            HumanCount(self.runs_in_files),
            HumanCount(self.runs_untimed),
            HumanCount(self.runs_hosted),
            HumanCount(self.runs_partly_hosted),
            HumanCount(self.neighbour_drives),
            HumanCount(self.runs_with_extents),
            HumanCount(self.parts_merged),
            HumanCount(self.runs_of_arrays),
            HumanCount(self.runs_of_bridges),
            HumanCount(self.members_unplugged),
            HumanCount(self.stripes_repaired),
            HumanCount(self.units_reconstructed),
            HumanCount(self.units_rebuilt),
            HumanCount(self.units_lost),
            HumanCount(self.runs_of_jbofs),
            HumanCount(self.jbof_faults),
            HumanCount(self.drives_left),
            HumanCount(self.sessions_cut),
            HumanCount(self.processors_lent),
            HumanCount(self.commands_redirected),
            HumanCount(self.blocks_verified),
            HumanCount(self.runs_with_pairs),
            HumanCount(self.pairs_stored),
            HumanCount(self.pairs_refused),
            HumanCount(self.pairs_verified),
            HumanCount(self.pairs_merges),
            HumanCount(self.pairs_collections),
            HumanCount(self.pairs_replayed),
            HumanCount(self.runs_with_tables),
            HumanCount(self.tables_verified),
            HumanCount(self.runs_with_programs),
            HumanCount(self.programs_verified),
        );
        if let (Some(wanted), Some(tried)) = (self.cuts_wanted, self.cuts_tried) {
            let share = 100.0 * tried as f64 / wanted.max(1) as f64;
            let (tried, wanted) = (HumanCount(tried), HumanCount(wanted));
            text.push_str(&format!(
                "the power was cut at {tried} of {wanted} polls ({share:.1} %), in scattered order\n"
            ));
        }
        if self.partial {
            text.push_str("PARTIAL: interrupted\n");
        }
        match &self.failure {
            None if self.partial => text.push_str("no failure found so far\n"),
            None => text.push_str("no failure found\n"),
            Some(failure) => {
                if let Some(run) = failure.run {
                    text.push_str(&format!("\nrun {run} of seed {} failed", self.seed));
                } else {
                    text.push_str("\nthe run failed");
                }
                text.push_str(&format!(": {}: {}\n", failure.kind, failure.text));
                if let Some(drawn) = &failure.drawn_text {
                    text.push_str(&format!("before shrinking: {drawn}\n"));
                }
                text.push_str(&format!("build: {}\n", self.build));
                text.push_str("to run it again, save the following as a file and pass it with --plan:\n\n");
                text.push_str(&failure.plan);
            }
        }
        text
    }
}
