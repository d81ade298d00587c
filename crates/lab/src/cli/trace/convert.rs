//! `byteway trace convert`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::device;
use crate::error::InputError;
use crate::interrupt::{EXIT_INTERRUPTED, Interrupt};
use crate::output::new_file;
use crate::progress::Progress;
use crate::trace::archive::Packing;
use crate::trace::convert::{Conversion, convert};
use crate::trace::{Action, Format, ReadOptions, Reader, Writer, file_name};

pub(super) const EXAMPLES: &str = "\
Examples:
  byteway trace convert tpcc.trace tpcc.disksim              the format is in the name
  byteway trace convert tpcc.trace tpcc.trace.xz --to msr    or said; .gz, .xz and .zst pack
  byteway trace convert cbs.gz web.alibaba.csv --device 1063 --head 1000000 --time-scale 0.5

What a format cannot hold (trims, directions, devices, parts of sectors) is an error, unless --lossy gives it up. Times
are rounded down to the format's resolution. What was assumed, given up and rounded is said on the error stream.";

#[derive(clap::Args)]
pub(in crate::cli) struct Arguments {
    /// The trace: plain, or packed by gzip, xz or zstd.
    input: PathBuf,
    /// Where to: a file, of which .gz, .xz or .zst says how it is packed, or - for the output.
    output: PathBuf,
    /// How the trace is written.
    #[arg(long, value_enum, default_value_t = Format::Auto)]
    from: Format,
    /// How to write it; left out, as a part of the output's name says, such as web.msr.csv.
    #[arg(long, value_enum, default_value_t = Format::Auto)]
    to: Format,
    /// Only this device's records; of blkparse and FIU also as 8,0.
    #[arg(long, value_name = "N", value_parser = device)]
    device: Option<u32>,
    /// Skip the lines that are no records, and count them.
    #[arg(long)]
    skip_bad_lines: bool,
    /// In mqsim, disksim and tencent: the number that means read, if not the format's own.
    #[arg(long, value_name = "0|1", value_parser = clap::value_parser!(u8).range(0..=1))]
    reads_are: Option<u8>,
    /// Of blkparse's text: which step of an I/O counts. Q queued, D issued, C completed.
    #[arg(long, value_enum, default_value_t = Action::Q)]
    action: Action,
    /// Only so many records.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    head: Option<u64>,
    /// Multiply times: 0.5 makes the trace twice as fast.
    #[arg(long, value_name = "X", default_value_t = 1.0)]
    time_scale: f64,
    /// Give up what the format cannot hold.
    #[arg(long)]
    lossy: bool,
    /// No progress bar and no notes.
    #[arg(long)]
    quiet: bool,
}

/// Converts the trace.
pub(super) fn execute(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    if !(1e-6..=1e6).contains(&arguments.time_scale) {
        let what = format!("`--time-scale` = {} is out of range", arguments.time_scale);
        return Err(InputError::new(what, "choose a value from 0.000001 to 1000000").into());
    }
    let to_stdout = arguments.output.as_os_str() == "-";
    let to = match arguments.to {
        Format::Auto => format_named(&arguments.output)?,
        chosen => chosen,
    };
    let read = ReadOptions {
        format: arguments.from,
        device: arguments.device,
        skip_bad_lines: arguments.skip_bad_lines,
        reads_are: arguments.reads_are,
        action: arguments.action,
    };
    let mut reader = Reader::open(&arguments.input, &read)?;
    let conversion = Conversion {
        head: arguments.head,
        time_scale_q32: libm::round(arguments.time_scale * 4_294_967_296.0) as u64,
    };
    let interrupt = Interrupt::on_signal();
    let mut progress = Progress::bytes("", reader.progress_bytes().1, arguments.quiet);
    // The file appears under its name only when all of it is on the disk.
    let mut file = None;
    let out: Box<dyn Write> = if to_stdout {
        Box::new(std::io::stdout())
    } else {
        let new = beside(&arguments.output)?;
        let out = new.as_file().try_clone()?;
        file = Some(new);
        Box::new(out)
    };
    let mut writer = Writer::new(out, to, Packing::named(&arguments.output), arguments.lossy)?;
    let whole = convert(&mut reader, &mut writer, &conversion, &mut progress, &interrupt);
    progress.finish();
    let whole = match whole {
        Err(error) if to_stdout && is_closed_pipe(&error) => return Ok(ExitCode::SUCCESS),
        other => other?,
    };
    if !whole {
        anyhow::ensure!(!to_stdout, "interrupted; what was written is not whole");
        return Ok(ExitCode::from(EXIT_INTERRUPTED));
    }
    if reader.tally().records == 0 {
        let tally = reader.tally();
        let what = format!(
            "the trace `{}` has no record to convert ({} of other devices, {} bad lines)",
            file_name(&arguments.input),
            tally.other_devices,
            tally.bad_lines
        );
        return Err(InputError::new(what, "choose another --device, --from or file").into());
    }
    let records = writer.records();
    let losses = match writer.finish() {
        Ok((_, losses)) => losses,
        Err(error) if to_stdout && error.kind() == std::io::ErrorKind::BrokenPipe => {
            return Ok(ExitCode::SUCCESS);
        }
        Err(error) => return Err(error.into()),
    };
    if let Some(file) = file {
        file.as_file().sync_all()?;
        file.persist(&arguments.output).map_err(|error| error.error)?;
    }
    if !arguments.quiet {
        let mut notes = notes(&reader, &arguments.input);
        notes.push(format!("{records} records written as {}", to.assumption()));
        notes.extend(losses.notes(to));
        let mut stderr = std::io::stderr();
        for note in notes {
            let _ = writeln!(stderr, "{note}");
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// What was assumed and met while reading.
fn notes(reader: &Reader, path: &Path) -> Vec<String> {
    let tally = reader.tally();
    let mut notes = vec![format!(
        "{} taken as {}; {} records",
        file_name(path),
        reader.options().assumption(),
        tally.records
    )];
    if tally.bad_lines > 0 {
        let first = tally.first_bad.as_deref().unwrap_or_default();
        notes.push(format!("{} lines are no records and were skipped; first {first}", tally.bad_lines));
    }
    if tally.other_devices > 0 {
        notes.push(format!("{} records of other devices were left out", tally.other_devices));
    }
    if tally.times_raised > 0 {
        notes.push(format!(
            "{} times went backwards and were raised to the latest before",
            tally.times_raised
        ));
    }
    notes
}

/// The format that a part of the file's name says.
fn format_named(path: &Path) -> Result<Format, InputError> {
    let name = file_name(path);
    let mut parts = name.split('.').skip(1);
    parts.find_map(Format::named).ok_or_else(|| {
        let names: Vec<&str> = Format::ALL.iter().map(|format| format.name()).collect();
        InputError::new(
            format!("the name `{name}` does not say which format to write"),
            format!("say it with --to, or in the name, as in web.msr.csv: {}", names.join(", ")),
        )
    })
}

/// A file that will stand under this name.
fn beside(path: &Path) -> Result<tempfile::NamedTempFile, InputError> {
    let shown = path.display();
    let cure = "choose another file, or change the permissions of its folder";
    if path.is_dir() {
        return Err(InputError::new(format!("cannot write to `{shown}`: it is a folder"), cure));
    }
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    new_file(folder).map_err(|error| InputError::new(format!("cannot write to `{shown}`: {error}"), cure))
}

/// A reader that has seen enough and closed the pipe is no error.
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let kind = error.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
    kind == Some(std::io::ErrorKind::BrokenPipe)
}
