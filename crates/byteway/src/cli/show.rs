//! Output of a run's results: files and standard output.

use std::process::ExitCode;

use byteway_measure::output::{Output, Unfinished, print};
use byteway_measure::results::Results;
use byteway_measure::summary::Summary;
use byteway_study::report::Page;

use super::flags::{OutputFormat, Tables};
use crate::interrupt::EXIT_INTERRUPTED;

/// Writes and prints results. `page` becomes report.html; `records` are files written during the run. Results are printed even if they
/// cannot be written.
pub(super) fn show(
    results: &Results,
    page: Option<&Page>,
    output: Option<Output>,
    records: Vec<anyhow::Result<Unfinished>>,
    format: OutputFormat,
    tables: Tables,
) -> anyhow::Result<ExitCode> {
    let summary = &results.summary;
    let written = output.map_or(Ok(()), |output| {
        let mut files = vec![
            output.made("summary.json", summary.to_json().as_bytes()),
            results.to_parquet().and_then(|bytes| output.made("results.parquet", &bytes)),
        ];
        files.extend(page.map(|page| output.made("report.html", page.render().as_bytes())));
        let files = files.into_iter().map(|file| file.map_err(anyhow::Error::from)).chain(records);
        output.replace(files)
    });
    let printed = print(match format {
        OutputFormat::Table => tables.wrapped(&summary.tables(tables.width())),
        OutputFormat::Json => summary.to_json(),
    });
    written?;
    printed?;
    Ok(exit_code(summary))
}

fn exit_code(summary: &Summary) -> ExitCode {
    if summary.verification.mismatches > 0 {
        return ExitCode::FAILURE;
    }
    if summary.partial { ExitCode::from(EXIT_INTERRUPTED) } else { ExitCode::SUCCESS }
}
