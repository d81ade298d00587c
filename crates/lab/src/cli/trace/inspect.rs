//! `byteway trace inspect`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::device;
use crate::cli::{OutputFormat, print, size};
use crate::error::InputError;
use crate::interrupt::{EXIT_INTERRUPTED, Interrupt};
use crate::progress::Progress;
use crate::trace::inspect::{Options, SAMPLES, inspect};
use crate::trace::{Action, Format, ReadOptions, Reader, file_name};
use crate::units::Bytes;

pub(super) const EXAMPLES: &str = "\
Examples:
  byteway trace inspect web.trace
  byteway trace inspect --device 3 --unit 16k vm.csv            one device, in units of 16 KiB
  byteway trace inspect --from mqsim --skip-bad-lines odd.txt   format forced, broken lines counted
  byteway trace inspect --format json *.trace | jq '[.trace, .footprint.units]'

The trace is read in one pass, in bounded memory. The miss-ratio curve is of a cache that replaces
the least recently used unit, reads and writes alike. It is estimated from a sample of the units
(SHARDS): with the usual 16384 the error is mostly below 0.02, and another --seed takes another
sample. --exact looks at all units, in memory that grows with them.
With --format json each trace is one JSON object.";

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// The traces, each in turn.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The format of the traces; left out, as their first lines look.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = Format::Auto)]
    from: Format,
    /// Look at one device only; of blkparse and FIU also as 8,0.
    #[arg(long, value_name = "N", value_parser = device)]
    device: Option<u32>,
    /// In mqsim, disksim and tencent: the number that means read, if not the format's own.
    #[arg(long, value_name = "0|1", value_parser = clap::value_parser!(u8).range(0..=1))]
    reads_are: Option<u8>,
    /// Of blkparse's text: which step of an I/O counts. Q queued, D issued, C completed.
    #[arg(long, value_enum, default_value_t = Action::Q)]
    action: Action,
    /// What the footprint and the miss-ratio curve count in.
    #[arg(long, value_parser = size, default_value = "4 KiB")]
    unit: Bytes,
    /// Units in the sample of the miss-ratio curve.
    #[arg(long, value_name = "N", default_value_t = SAMPLES)]
    samples: usize,
    /// Which units are sampled follows from it.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Look at all units for the miss-ratio curve.
    #[arg(long)]
    exact: bool,
    /// Skip the lines that are no records, and count them.
    #[arg(long)]
    skip_bad_lines: bool,
    /// What is printed.
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    format: OutputFormat,
    /// No progress bar.
    #[arg(long)]
    quiet: bool,
}

/// Inspects the traces.
pub(super) fn execute(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let options = Options {
        unit_bytes: arguments.unit.0,
        samples: arguments.samples,
        seed: arguments.seed,
        exact: arguments.exact,
        device: arguments.device,
        ..Options::default()
    };
    options.check()?;
    // A name that is wrong shows at once, not after the traces before it.
    arguments.files.iter().try_for_each(|file| arguments.open(file).map(drop))?;
    let interrupt = Interrupt::on_signal();
    for (index, file) in arguments.files.iter().enumerate() {
        let mut progress = Progress::new("", None, None, arguments.quiet);
        let found = inspect(arguments.open(file)?, &file_name(file), &options, &mut progress, &interrupt);
        progress.finish();
        let found = found?;
        match arguments.format {
            OutputFormat::Table if index > 0 => print(&format!("\n\n{}", found.to_tables())),
            OutputFormat::Table => print(&found.to_tables()),
            OutputFormat::Json => print(&found.to_json()),
        }
        if found.partial {
            return Ok(ExitCode::from(EXIT_INTERRUPTED));
        }
    }
    Ok(ExitCode::SUCCESS)
}

impl Arguments {
    fn open(&self, file: &Path) -> Result<Reader, InputError> {
        let options = ReadOptions {
            format: self.from,
            device: self.device,
            skip_bad_lines: self.skip_bad_lines,
            reads_are: self.reads_are,
            action: self.action,
        };
        Reader::open(file, &options)
    }
}
