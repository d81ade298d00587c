//! Output of a run's results: files and standard output.

use std::io::Write as _;
use std::process::ExitCode;

use byteway_report::Page;
use byteway_results::output::{Output, Unfinished, print};
use byteway_results::results::Results;
use byteway_results::summary::{ClockKind, Summary};
use byteway_scenario::Scenario;
use byteway_text::table::grouped;

use super::flags::{OutputFormat, Tables};
use crate::interrupt::EXIT_INTERRUPTED;

/// What is printed of results.
#[derive(Clone, Copy)]
pub(super) enum Shown<'a> {
    /// Tables.
    Tables(Tables),
    /// The content of summary.json.
    Json,
    /// fio's JSON, of the jobs of this scenario.
    Fio(&'a Scenario),
}

impl Shown<'_> {
    /// For commands without fio's form.
    pub(super) fn of(format: OutputFormat, tables: Tables) -> Shown<'static> {
        match format {
            OutputFormat::Table => Shown::Tables(tables),
            OutputFormat::Json => Shown::Json,
        }
    }
}

/// Writes and prints results. `page` becomes report.html; `records` are files written during the run. Results are printed even if they
/// cannot be written.
pub(super) fn show(
    results: &Results,
    page: Option<&Page>,
    output: Option<Output>,
    records: Vec<anyhow::Result<Unfinished>>,
    shown: Shown<'_>,
) -> anyhow::Result<ExitCode> {
    let summary = &results.summary;
    let written = output.map_or(Ok(()), |output| {
        let mut files = vec![
            output.made("summary.json", summary.to_json().as_bytes()),
            results.to_parquet().and_then(|bytes| output.made("results.parquet", &bytes)),
            results.to_latency_parquet().and_then(|bytes| output.made("latency.parquet", &bytes)),
        ];
        files.extend(page.map(|page| output.made("report.html", page.render().as_bytes())));
        let files = files.into_iter().map(|file| file.map_err(anyhow::Error::from)).chain(records);
        output.replace(files)
    });
    let printed = print(match shown {
        Shown::Tables(tables) => tables.wrapped(&summary.tables(tables.width())),
        Shown::Json => summary.to_json(),
        Shown::Fio(scenario) => results.to_fio_json(scenario),
    });
    written?;
    printed?;
    Ok(exit_code(summary))
}

/// A simulation may inject failures on purpose; a served drive that fails commands has measured something else than was asked.
fn exit_code(summary: &Summary) -> ExitCode {
    let failed: u64 = summary.errors.iter().map(|row| row.count).sum();
    let has_failed = failed > 0 && summary.clock == ClockKind::Wall;
    if has_failed {
        let rows = summary.errors.iter().map(|row| format!("{} ({})", row.status, grouped(row.count)));
        let rows = rows.collect::<Vec<_>>().join(", ");
        let _ = writeln!(
            std::io::stderr(),
            "error: failed commands: {} beside {} that did not fail: {rows}",
            grouped(failed),
            grouped(summary.ios)
        );
    }
    let has_no_means = summary.replicates.as_ref().is_some_and(|replicates| replicates.figures.is_empty());
    match () {
        () if summary.verification.mismatches > 0 => ExitCode::FAILURE,
        () if summary.partial => ExitCode::from(EXIT_INTERRUPTED),
        () if has_failed || has_no_means => ExitCode::FAILURE,
        () => ExitCode::SUCCESS,
    }
}
