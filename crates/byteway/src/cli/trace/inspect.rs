//! `byteway trace inspect`: statistics of traces.

use std::path::PathBuf;
use std::process::ExitCode;

use super::flags::ReadFlags;
use crate::cli::flags::{OutputFormat, Tables, size};
use crate::interrupt::{EXIT_INTERRUPTED, raised_by_signal};
use crate::terminal::Terminal;
use byteway_results::output::print;
use byteway_text::error::InputError;
use byteway_text::progress::Progress;
use byteway_text::units::Bytes;
use byteway_trace::inspect::{Options, SAMPLES, inspect};
use byteway_trace::{Reader, file_name, is_stdin};

pub(super) const EXAMPLES: &str = "\
Examples:
  byteway trace inspect web.trace
  byteway trace inspect --device 3 --footprint-unit 16k vm.csv  inspect one device, in units of 16 KiB
  byteway trace inspect --from mqsim --skip-bad-lines odd.txt   force the format, and count bad lines
  byteway trace inspect --format json *.trace | jq '[.trace, .footprint.units]'

The trace is read in one pass, in bounded memory. The miss-ratio curve is that of an LRU cache for reads and writes. It is
estimated from a sample of the units (SHARDS): with the default of 16384 the error is mostly below 0.02, and --seed
selects another sample. --exact uses all units, in memory proportional to their number.
With --format json each trace is one JSON object.";

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Traces, inspected in turn; - for the standard input.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    read: ReadFlags,
    /// Unit of the footprint and the miss-ratio curve.
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "4 KiB")]
    footprint_unit: Bytes,
    /// Units in the sample of the miss-ratio curve.
    #[arg(long, value_name = "N", default_value_t = SAMPLES)]
    samples: usize,
    /// Seed of the sample.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Use all units for the miss-ratio curve.
    #[arg(long)]
    exact: bool,
    /// Output format.
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    format: OutputFormat,
    #[command(flatten)]
    tables: Tables,
    /// Do not show a progress bar.
    #[arg(long)]
    quiet: bool,
}

/// Inspects the traces.
pub(super) fn execute(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let options = Options {
        unit_bytes: arguments.footprint_unit.0,
        samples: arguments.samples,
        seed: arguments.seed,
        exact: arguments.exact,
        device: arguments.read.device,
        ..Options::default()
    };
    options.check()?;
    // An invalid name must show immediately, not after the traces before it; the standard input can only be opened once.
    let read = arguments.read.options();
    let (piped, named): (Vec<&PathBuf>, Vec<&PathBuf>) =
        arguments.files.iter().partition(|file| is_stdin(file));
    if piped.len() > 1 {
        let what = "the standard input (-) is named more than once";
        return Err(InputError::new(what, "name it once: a pipe can only be read once").into());
    }
    named.into_iter().try_for_each(|file| Reader::open(file, &read).map(drop))?;
    let interrupt = raised_by_signal();
    for (index, file) in arguments.files.iter().enumerate() {
        let mut progress = Progress::new(&Terminal { quiet: arguments.quiet }, "", None, None);
        let reader = match Reader::open_once(file, &read, &interrupt) {
            Err(_) if interrupt.is_raised() => return Ok(ExitCode::from(EXIT_INTERRUPTED)),
            opened => opened?,
        };
        let found = inspect(
            reader,
            &file_name(file),
            &options,
            |records, ps| progress.update(records, ps),
            &interrupt,
        );
        progress.finish();
        let found = found?;
        match arguments.format {
            OutputFormat::Table => {
                let tables = arguments.tables.wrapped(&found.tables(arguments.tables.width()));
                print(format!("{}{tables}", if index > 0 { "\n\n" } else { "" }))?;
            }
            OutputFormat::Json => print(found.to_json())?,
        }
        if found.partial {
            return Ok(ExitCode::from(EXIT_INTERRUPTED));
        }
    }
    Ok(ExitCode::SUCCESS)
}
