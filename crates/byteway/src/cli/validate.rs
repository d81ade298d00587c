//! `byteway validate`: holds a profile against what others measured of the real drive.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::ValueEnum;

use super::flags::{Tables, threads};
use crate::interrupt::{EXIT_INTERRUPTED, raised_by_signal};
use crate::terminal::PointsBar;
use byteway_explore::validate::{
    DATASETS, Errors, Measure, Request, WORST_MAX, csv, profiles, report, validate,
};
use byteway_results::output::{Output, print};
use byteway_text::error::InputError;
use byteway_text::table::{Column, Printout, TextTable};

pub(super) const EXAMPLES: &str = "\
Examples:
  byteway validate                                      list the drives that were measured
  byteway validate wd-zn540                             simulate every point, print the errors
  byteway validate wd-zn540 --out results               ... and write validation.json and report.html
  byteway validate wd-zn540 --points --wide             print every point
  byteway validate wd-zn540 --set drive.override.flash.channels=16
  byteway validate all                                  one line a drive: takes minutes

The measurements are public and built in (measured/*.csv): each row says what it is for. One in three, by a hash of the row, judges:
nothing was fitted to it. Rows at which the host that measured was the limit are told apart.

Exit codes: 0 success, whatever the errors are; 1 a run failed; 2 invalid input; 130 interrupted, what was simulated is printed and
marked as partial.";

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// A profile with measurements, or all: each of these in a line. Left out: the profiles that have some.
    profile: Option<String>,
    /// Replace or add a key of the scenarios, such as drive.override.flash.channels=16. Repeatable.
    #[arg(long = "set", value_name = "KEY=VALUE", requires = "profile")]
    sets: Vec<String>,
    /// Simulate one in N points: a short look.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "profile", value_parser = clap::value_parser!(u16).range(1..=1000))]
    every: u16,
    /// Print every point, not only the worst.
    #[arg(long, requires = "profile")]
    points: bool,
    /// Write validation.json and report.html to DIR, which is created if necessary.
    #[arg(long, value_name = "DIR", requires = "profile")]
    out: Option<PathBuf>,
    /// Number of points simulated in parallel. Default: one per processor. The results do not depend on it.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Output format.
    #[arg(long, value_enum, default_value_t = Format::Table, requires = "profile")]
    format: Format,
    #[command(flatten)]
    tables: Tables,
    /// Do not show a progress bar.
    #[arg(long)]
    quiet: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    /// Errors by kind of load, and the worst points.
    Table,
    /// Content of validation.json.
    Json,
    /// A line for each profile: means of the absolute errors in percent over the points that judge.
    Csv,
}

/// In place of a profile: all that were measured.
const ALL: &str = "all";

/// Lists what was measured, or validates a profile.
pub(super) fn execute(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let Some(profile) = &arguments.profile else {
        print(listed(arguments.tables)?)?;
        return Ok(ExitCode::SUCCESS);
    };
    let output = arguments.out.as_deref().map(Output::check).transpose()?;
    let output = output.map(Output::claim).transpose()?;
    let every = usize::from(arguments.every);
    let chosen: Vec<&str> = if profile == ALL { profiles() } else { vec![profile] };
    if profile == ALL {
        let only = |flag: &str| {
            InputError::new(format!("{flag} is for a single profile"), "name one in place of `all`")
        };
        if output.is_some() {
            return Err(only("--out").into());
        }
        if matches!(arguments.format, Format::Json) || arguments.points || !arguments.sets.is_empty() {
            return Err(only("one of --format json, --points and --set").into());
        }
    }
    let mut count = 0;
    for dataset in DATASETS.iter().filter(|dataset| chosen.contains(&dataset.profile)) {
        count += dataset.measurements()?.points.len().div_ceil(every);
    }
    let interrupt = raised_by_signal();
    let bar = PointsBar::new(count, arguments.quiet);
    let of = |profile| {
        validate(&Request {
            profile,
            sets: &arguments.sets,
            every,
            threads: threads(arguments.threads),
            interrupt: &interrupt,
            bar: &bar,
        })
    };
    let found: Result<Vec<_>, _> = chosen.iter().map(|profile| of(profile)).collect();
    bar.finish();
    let mut found = found?;
    if profile == ALL || matches!(arguments.format, Format::Csv) {
        let is_partial = found.iter().any(|found| found.partial);
        let whole: Vec<Errors> = found.iter().filter(|found| !found.partial).map(Errors::of).collect();
        if is_partial {
            let said =
                format!("interrupted: {} of {} profiles are whole, and printed\n", whole.len(), found.len());
            eprint!("{said}");
        }
        print(match arguments.format {
            Format::Csv => csv(&whole),
            _ => arguments.tables.wrapped(&all_of(&whole, arguments.tables)),
        })?;
        return Ok(if is_partial { ExitCode::from(EXIT_INTERRUPTED) } else { ExitCode::SUCCESS });
    }
    let Some(found) = found.pop() else { return Ok(ExitCode::SUCCESS) };
    let written = output.map_or(Ok(()), |output| {
        let files = [("validation.json", found.to_json()), ("report.html", report(&found).render())];
        output.replace(files.map(|(name, text)| output.made(name, text.as_bytes())))
    });
    print(match arguments.format {
        Format::Table => arguments.tables.wrapped(&found.printed(arguments.tables.width(), arguments.points)),
        Format::Json | Format::Csv => found.to_json(),
    })?;
    written?;
    Ok(if found.partial { ExitCode::from(EXIT_INTERRUPTED) } else { ExitCode::SUCCESS })
}

/// A line for each profile.
fn all_of(all: &[Errors], tables: Tables) -> String {
    let mut columns = vec![Column::text("profile"), Column::count("points that judge")];
    columns.extend(Measure::ALL.map(|measure| Column::count(measure.name())));
    let far = format!("off by over {:.0} %", WORST_MAX * 100.0);
    columns.push(Column::count(&far).rank(1));
    let mut table = TextTable::new(columns);
    for errors in all {
        let mut cells = vec![errors.profile.clone(), errors.judging.to_string()];
        let percent =
            |percent: Option<f64>| percent.map_or("-".to_owned(), |percent| format!("{percent:.1} %"));
        cells.extend(errors.percent.map(percent));
        cells.push(errors.far_off.to_string());
        table.row(cells.into_iter().map(Into::into));
    }
    let mut out = Printout::new(tables.width());
    out.table(&table);
    let aims = Measure::ALL.map(|measure| format!("{:.0} %", measure.aim() * 100.0)).join(", ");
    let _ =
        writeln!(out, "\nMean absolute errors over points that nothing was fitted to. The aims are {aims}.");
    out.finish()
}

/// The measurements that are built in.
fn listed(tables: Tables) -> anyhow::Result<String> {
    let mut table = TextTable::new([
        Column::text("profile"),
        Column::text("measurements"),
        Column::count("points"),
        Column::text("what").rank(1),
        Column::text("source").rank(2),
    ]);
    for dataset in DATASETS {
        let count = dataset.measurements()?.points.len().to_string();
        let cells = [dataset.profile, dataset.name, &count, dataset.about, dataset.source];
        table.row(cells.map(|cell| cell.to_owned().into()));
    }
    let mut out = Printout::new(tables.width());
    out.table(&table);
    let _ = writeln!(
        out,
        "\nbyteway validate {} simulates its points, and prints how far off the model is.",
        DATASETS[0].profile
    );
    Ok(tables.wrapped(&out.finish()))
}
