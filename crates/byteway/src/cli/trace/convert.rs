//! `byteway trace convert`: writes a trace in another format.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::anyhow;

use super::flags::ReadFlags;
use crate::terminal::Terminal;
use byteway_results::output::{StdoutError, Unfinished};
use byteway_text::error::InputError;
use byteway_text::interrupt::Interrupt;
use byteway_text::progress::Progress;
use byteway_trace::archive::Packing;
use byteway_trace::convert::{Conversion, convert};
use byteway_trace::writer::WriteError;
use byteway_trace::{Format, Reader, Writer, file_name};

pub(super) const EXAMPLES: &str = "\
Examples:
  byteway trace convert tpcc.trace tpcc.disksim              take the format from the file name
  byteway trace convert tpcc.trace tpcc.trace.xz --to msr    name the format; .gz, .xz and .zst compress
  byteway trace convert cbs.gz web.alibaba.csv --device 1063 --head 1000000 --time-scale 0.5

Information that a format cannot represent (trims, directions, devices, fractions of sectors) is an error, unless --lossy
drops it. Times are rounded down to the format's resolution. Assumptions, losses and rounding are reported on the standard error.";

#[derive(clap::Args)]
pub(in crate::cli) struct Arguments {
    /// Input trace: plain, or compressed by gzip, xz or zstd; - for the standard input.
    input: PathBuf,
    /// Output file, compressed if its name ends in .gz, .xz or .zst; - for the standard output.
    output: PathBuf,
    #[command(flatten)]
    read: ReadFlags,
    /// Output format. Default: as named by a part of the output's name, such as web.msr.csv.
    #[arg(long, value_enum, default_value_t = Format::Auto)]
    to: Format,
    /// Convert only the first N records.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    head: Option<u64>,
    /// Multiply times: 0.5 makes the trace twice as fast.
    #[arg(long, value_name = "X", default_value_t = 1.0)]
    time_scale: f64,
    /// Drop information that the format cannot represent.
    #[arg(long)]
    lossy: bool,
    /// Do not show a progress bar or notes.
    #[arg(long)]
    quiet: bool,
}

/// Converts the trace. An interrupted conversion leaves no output, so the default action of signals applies, which also ends a wait for a
/// pipe.
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
    let mut reader = Reader::open_once(&arguments.input, &arguments.read.options(), &Interrupt::default())?;
    let conversion = Conversion {
        head: arguments.head,
        time_scale_q32: libm::round(arguments.time_scale * 4_294_967_296.0) as u64,
    };
    let file = if to_stdout { None } else { Some(Unfinished::at(&arguments.output)?) };
    let bars = Terminal { quiet: arguments.quiet };
    let mut progress = match reader.progress_bytes().1 {
        0 => Progress::new(&bars, "", None, None),
        bytes => Progress::bytes(&bars, "", bytes),
    };
    let out: Box<dyn Write> = match &file {
        Some(file) => Box::new(file.writer()?),
        None => Box::new(std::io::stdout()),
    };
    let failed = |error: anyhow::Error| match error.downcast::<std::io::Error>() {
        Ok(error) if to_stdout => StdoutError::from(error).into(),
        Ok(error) => anyhow!("cannot write to `{}`: {error}", arguments.output.display()),
        Err(other) => other,
    };
    let packing = Packing::named(&arguments.output);
    let mut writer = Writer::new(out, to, packing, arguments.lossy).map_err(|error| failed(error.into()))?;
    let converted = convert(&mut reader, &mut writer, &conversion, |records, bytes| {
        progress.position(records, bytes);
    });
    progress.finish();
    converted.map_err(|error| match error {
        WriteError::Unfit(unfit) => unfit.into(),
        WriteError::Output(error) => failed(error.into()),
    })?;
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
    let finished = writer.finish().and_then(|(mut out, losses)| out.flush().map(|()| losses));
    let losses = finished.map_err(|error| failed(error.into()))?;
    file.map(Unfinished::finish).transpose()?;
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

/// Assumptions, and irregularities of the input.
fn notes(reader: &Reader, path: &Path) -> Vec<String> {
    let tally = reader.tally();
    let mut notes = vec![format!(
        "{} taken as {}; {} records",
        file_name(path),
        reader.options().assumption(),
        tally.records
    )];
    notes.extend(tally.doubts(reader.options()));
    if tally.bad_lines > 0 {
        let first = tally.first_bad.as_deref().unwrap_or_default();
        notes.push(format!("{} lines are not records and were skipped; first {first}", tally.bad_lines));
    }
    if tally.other_devices > 0 {
        notes.push(format!("{} records of other devices were skipped", tally.other_devices));
    }
    if tally.times_raised > 0 {
        notes.push(format!(
            "{} times went backwards and were raised to the latest before",
            tally.times_raised
        ));
    }
    notes
}

/// The format named by a part of the file name.
fn format_named(path: &Path) -> Result<Format, InputError> {
    let name = file_name(path);
    let mut parts = name.split('.').skip(1);
    parts.find_map(Format::named).ok_or_else(|| {
        let names: Vec<&str> = Format::ALL.iter().map(|format| format.name()).collect();
        InputError::new(
            format!("the name `{name}` does not name an output format"),
            format!("name it with --to, or in the file name, as in web.msr.csv: {}", names.join(", ")),
        )
    })
}
