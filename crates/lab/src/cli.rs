//! The command line: what the user types, and what he is told.

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use byteway_serve::drive::Stop;
use clap::{Parser, Subcommand, ValueEnum};
use tracing_subscriber::EnvFilter;

use crate::bench::{Assume, Bench};
use crate::error::InputError;
use crate::interrupt::{EXIT_INTERRUPTED, Interrupt, on_signal};
use crate::output::Output;
use crate::progress::Progress;
use crate::run::{Session, run};
use crate::scenario::{
    JobSection, Options, Scenario, Warmup, device_schema, host_schema, profile_schema, scenario_schema,
};
use crate::serve::{Service, served_json, served_tables};
use crate::summary::Summary;
use crate::units::{Bytes, Picos, UnitError};
use crate::workload::{Distribution, Rw};

/// An NVMe solid-state drive in software.
///
/// Byteway simulates a drive made of real protocol and real bytes in virtual time, and says what happened and where
/// the time went: throughput, latency, every byte on the link, the use of every die, channel and core. The same drive
/// can be served in real time to an unmodified host over vfio-user.
#[derive(Parser)]
#[command(name = "byteway", version, max_term_width = 110, after_help = EXAMPLES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  byteway run scenarios/first.toml                      run it, tables on the terminal
  byteway run scenarios/first.toml --out results        ... and results/summary.json
  byteway run s.toml --set drive.profile=mqsim-mlc      the same on another drive
  byteway run s.toml --format json | jq .iops           for scripts
  byteway serve drive.toml --vfio-user /tmp/drive       a drive for a real host: QEMU, SPDK, byteway bench
  byteway bench --vfio-user /tmp/drive --iodepth 32     and what it does in real time
  byteway schema > scenario.schema.json                 for an editor that completes and checks

Exit codes: 0 done; 1 failed, or data did not verify; 2 wrong input, nothing written; 130 interrupted, result marked.";

#[derive(Subcommand)]
enum Command {
    /// Run a scenario.
    #[command(after_help = RUN_EXAMPLES)]
    Run(RunArguments),
    /// Serve drives in real time to hosts in other processes, until Ctrl-C or SIGTERM.
    #[command(after_help = SERVE_EXAMPLES)]
    Serve(ServeArguments),
    /// Drive a served drive as fast as it goes, and measure it.
    #[command(after_help = BENCH_EXAMPLES)]
    Bench(BenchArguments),
    /// Print the JSON schema of the scenario file, of the device file, or of a profile.
    Schema {
        /// Of what.
        #[arg(value_enum, default_value_t = SchemaOf::Scenario)]
        of: SchemaOf,
    },
}

const RUN_EXAMPLES: &str = "\
A scenario is a TOML file. The least of them:
  [drive]
  profile = \"samsung-970-pro\"      # or mqsim-mlc, cosmos-plus, or the path of a profile of your own
  [[job]]
  rw = \"randread\"                  # read write randread randwrite rw randrw trim randtrim
  count = 100000                   # or runtime = \"1 s\"

--set replaces or adds a key, by its dotted path; jobs by number from 0, or by name:
  --set job.0.iodepth=16  --set job.0.bs=\"8 KiB\"  --set drive.capacity=\"64 GiB\"
  --set drive.override.link.lanes=2  --set host.profile=linux-interrupt

To replay a block trace (MQSim, SSDSim or MSR Cambridge) give a job a [job.trace] instead of `rw`:
  [[job]]
  iodepth = 32
  [job.trace]
  file = \"web.trace\"
  wrap = true                      # addresses beyond the drive begin again at its start";

#[derive(clap::Args)]
struct RunArguments {
    /// The scenario, a TOML file.
    scenario: PathBuf,
    /// Replace or add a key of the scenario; may be repeated, the last one counts.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    /// Write summary.json to this folder, which is made if need be.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// What is printed.
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    format: OutputFormat,
    /// Skip the lines of a trace that are no records, and count them.
    #[arg(long)]
    skip_bad_lines: bool,
    /// No progress bar.
    #[arg(long)]
    quiet: bool,
}

const SERVE_EXAMPLES: &str = "\
A device file is a TOML file. The least of them:
  [drive]
  profile = \"samsung-970-pro\"      # and any other key of a scenario's [drive]

What it may say besides, with what holds when it is left out:
  name = \"...\"                     # the name of the file
  seed = 1
  [drive]
  store = \"ram\"                    # every byte is kept, in memory
  precondition = \"empty\"
  [serve]
  timing = \"model\"                 # latencies as modelled; \"none\": as fast as this machine can
  doorbells = \"mapped\"             # in shared memory; \"trapped\": messages, no CPU time when idle
  shadow_doorbells = true          # offer Doorbell Buffer Config
  rest = \"200 us\"                  # between looks at mapped doorbells while idle: latency against CPU time

One drive listens at DIR/cntrl, several at DIR/NAME/cntrl, each for one client at a time. A drive
keeps its data from one client to the next, until the program ends.

To a Linux guest it is an NVMe drive. QEMU 10.1 or newer, with memory that it shares:
  byteway serve drive.toml --vfio-user /tmp/drive --set drive.capacity=\"8 GiB\"
  qemu-system-x86_64 -M q35,memory-backend=mem -m 1G \\
    -object memory-backend-memfd,id=mem,size=1G,share=on -device \\
    '{\"driver\":\"vfio-user-pci\",\"socket\":{\"type\":\"unix\",\"path\":\"/tmp/drive/cntrl\"}}' ...
Without a guest:
  byteway bench --vfio-user /tmp/drive

What happens is said on the error stream; BYTEWAY_LOG=debug says more, BYTEWAY_LOG=warn less.";

#[derive(clap::Args)]
struct ServeArguments {
    /// The device files; one that is named twice is two drives.
    #[arg(required = true)]
    devices: Vec<PathBuf>,
    /// The folder for the sockets, which is made if need be.
    #[arg(long, value_name = "DIR")]
    vfio_user: PathBuf,
    /// Replace or add a key of every device file; may be repeated, the last one counts.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    /// What is printed: when the drives are ready, and at the end what was served.
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    format: OutputFormat,
}

const BENCH_EXAMPLES: &str = "\
Examples, after `byteway serve drive.toml --vfio-user /tmp/drive`:
  byteway bench --vfio-user /tmp/drive                   4 KiB random reads at depth 1, for 5 s
  byteway bench --vfio-user /tmp/drive --iodepth 32 --runtime 10s
  byteway bench --vfio-user /tmp/drive --rw randrw --rwmixread 70 --bs 8k --numjobs 2
  byteway bench --vfio-user /tmp/drive --rw write --bs 128k --iodepth 8 --count 100000 --format json

Every block read is verified. What a drive holds beforehand nobody here knows, so the range is
written first, which is not measured; without --size that is at most 1 GiB. On a drive that nobody
has written to since it was served, --assume empty (or filled) spares the writing; --no-verify
spares all of it.

One thread does everything, polling, and times are wall time. Sizes: 4k, \"4 KiB\" and 4096 are the
same; \"4 kB\" is 4000.";

#[derive(clap::Args)]
struct BenchArguments {
    /// The folder of the drive's socket, as `byteway serve` names it. The job's range of the drive is overwritten, unless
    /// it is only read and --assume or --no-verify says so.
    #[arg(long, value_name = "DIR")]
    vfio_user: PathBuf,
    /// Direction and order.
    #[arg(long, value_enum, default_value_t = Rw::RandRead)]
    rw: Rw,
    /// Bytes of an I/O.
    #[arg(long, value_parser = size, default_value = "4 KiB")]
    bs: Bytes,
    /// I/Os of a worker that are outstanding.
    #[arg(long, value_name = "N", default_value_t = 1)]
    iodepth: u32,
    /// Workers, each with a queue pair of its own; all in one thread.
    #[arg(long, value_name = "N", default_value_t = 1)]
    numjobs: u32,
    /// Share of reads in a mix, in percent; left out, 50.
    #[arg(long, value_name = "PERCENT")]
    rwmixread: Option<u8>,
    /// How random addresses are spread: uniform, or zipf:1.2; left out, uniform.
    #[arg(long)]
    distribution: Option<Distribution>,
    /// For how long; left out, 5 s, unless there is a count.
    #[arg(long, value_name = "TIME")]
    runtime: Option<Picos>,
    /// How many I/Os, over all workers. Of count and runtime what is reached first ends the job.
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// What is left out of the figures at the beginning: a number of I/Os, or a time.
    #[arg(long, value_name = "N|TIME")]
    warmup: Option<Warmup>,
    /// The namespace.
    #[arg(long, value_name = "NSID", default_value_t = 1)]
    namespace: u32,
    /// Where the job's range begins, within the namespace.
    #[arg(long, value_parser = size, default_value = "0 B")]
    offset: Bytes,
    /// Length of the range; left out, to the end of the namespace, but at most 1 GiB if it is filled first.
    #[arg(long, value_parser = size)]
    size: Option<Bytes>,
    /// What the drive holds now.
    #[arg(long, value_enum, default_value_t = Assume::Unknown)]
    assume: Assume,
    /// Check nothing that is read, and write no patterns.
    #[arg(long)]
    no_verify: bool,
    /// Addresses follow from it.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Write summary.json to this folder, which is made if need be.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// What is printed.
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    format: OutputFormat,
    /// No progress bar.
    #[arg(long)]
    quiet: bool,
}

/// A size as people who come from fio write it, too: 4k, 1g, or bytes without a unit.
fn size(text: &str) -> Result<Bytes, UnitError> {
    let text = text.trim();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" => "B",
        "k" => "KiB",
        "m" => "MiB",
        "g" => "GiB",
        "t" => "TiB",
        _ => return text.parse(),
    };
    match digits.ends_with(|c: char| c.is_ascii_digit()) {
        true => format!("{digits} {unit}").parse(),
        false => text.parse(),
    }
}

#[derive(Clone, Copy, ValueEnum)]
enum OutputFormat {
    /// Tables for the eye.
    Table,
    /// For scripts: what summary.json holds; of served drives, one line each.
    Json,
}

#[derive(Clone, Copy, ValueEnum)]
enum SchemaOf {
    /// The scenario file.
    Scenario,
    /// The device file.
    Device,
    /// The profile of a drive.
    Profile,
    /// The profile of a host.
    Host,
}

/// Wrong input.
const EXIT_INPUT: u8 = 2;

/// The whole program: parses `arguments` (the first is the program's name), does what they say, returns the exit
/// code.
pub fn main_with(arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>) -> ExitCode {
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => {
            // Prints help and version to the output stream, everything else to the error stream.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(EXIT_INPUT));
        }
    };
    let done = match arguments.command {
        Command::Run(arguments) => run_command(&arguments),
        Command::Serve(arguments) => serve_command(&arguments),
        Command::Bench(arguments) => bench_command(&arguments),
        Command::Schema { of } => {
            let schema = match of {
                SchemaOf::Scenario => scenario_schema(),
                SchemaOf::Device => device_schema(),
                SchemaOf::Profile => profile_schema(),
                SchemaOf::Host => host_schema(),
            };
            print(&format!("{schema:#}\n"));
            Ok(ExitCode::SUCCESS)
        }
    };
    done.unwrap_or_else(|error| report(&error))
}

fn run_command(arguments: &RunArguments) -> anyhow::Result<ExitCode> {
    let options = Options { sets: arguments.sets.clone(), skip_bad_lines: arguments.skip_bad_lines };
    let scenario = Scenario::load(&arguments.scenario, &options)?;
    let output = arguments.out.as_deref().map(Output::check).transpose()?;
    let interrupt = Interrupt::on_signal();
    let mut progress = Progress::new("", scenario.command_count(), scenario.runtime(), arguments.quiet);
    let found = run(&scenario, Session { progress: &mut progress, interrupt: &interrupt });
    progress.finish();
    show(&found?, output, arguments.format)
}

fn bench_command(arguments: &BenchArguments) -> anyhow::Result<ExitCode> {
    let runtime = match (arguments.runtime, arguments.count) {
        (None, None) => Some(BENCH_RUNTIME),
        (runtime, _) => runtime,
    };
    let job = JobSection {
        rw: Some(arguments.rw),
        rwmixread: arguments.rwmixread,
        bs: Some(arguments.bs),
        iodepth: Some(arguments.iodepth),
        numjobs: arguments.numjobs,
        distribution: arguments.distribution,
        namespace: arguments.namespace,
        offset: arguments.offset,
        size: arguments.size,
        count: arguments.count,
        runtime,
        ..JobSection::default()
    };
    let bench = Bench {
        folder: arguments.vfio_user.clone(),
        job,
        verify: !arguments.no_verify,
        assume: arguments.assume,
        seed: arguments.seed,
        warmup: arguments.warmup,
        quiet: arguments.quiet,
    };
    let output = arguments.out.as_deref().map(Output::check).transpose()?;
    let summary = bench.run(&Interrupt::on_signal())?;
    show(&summary, output, arguments.format)
}

/// A benchmark that is not told how long it is to last.
const BENCH_RUNTIME: Picos = Picos(5_000_000_000_000);

/// Writes and prints what was found.
fn show(summary: &Summary, output: Option<Output>, format: OutputFormat) -> anyhow::Result<ExitCode> {
    if let Some(output) = output {
        output.write("summary.json", summary.to_json().as_bytes())?;
    }
    print(&match format {
        OutputFormat::Table => summary.to_tables(),
        OutputFormat::Json => summary.to_json(),
    });
    Ok(exit_code(summary))
}

fn serve_command(arguments: &ServeArguments) -> anyhow::Result<ExitCode> {
    let options = Options { sets: arguments.sets.clone(), ..Options::default() };
    log_to_stderr()?;
    let service = Service::load(&arguments.devices, &arguments.vfio_user, &options)?;
    let stop = Stop::new()?;
    let said = stop.clone();
    on_signal(move || said.stop());
    let reports = service.run(&stop, || {
        let lines = service.drives().iter().map(|drive| match arguments.format {
            OutputFormat::Table => drive.ready_text(),
            OutputFormat::Json => drive.ready_json(),
        });
        print(&lines.collect::<String>());
    })?;
    print(&match arguments.format {
        OutputFormat::Table => served_tables(&reports),
        OutputFormat::Json => served_json(&reports),
    });
    Ok(ExitCode::SUCCESS)
}

/// What is logged, and how: see `tracing_subscriber`'s directives.
const LOG: &str = "BYTEWAY_LOG";

fn log_to_stderr() -> Result<(), InputError> {
    let text = std::env::var(LOG).unwrap_or_default();
    let text = if text.trim().is_empty() { "info" } else { text.trim() };
    let filter = EnvFilter::builder().parse(text).map_err(|error| {
        let what = format!("`{LOG}` = {}: {error}", crate::units::excerpt(text));
        InputError::new(what, "write error, warn, info, debug or trace")
    })?;
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // Only a second logger in one process can fail here, and the first one stays.
    let _ = log.without_time().with_target(false).with_ansi(false).try_init();
    Ok(())
}

fn exit_code(summary: &Summary) -> ExitCode {
    if summary.verification.mismatches > 0 {
        return ExitCode::FAILURE;
    }
    if summary.partial { ExitCode::from(EXIT_INTERRUPTED) } else { ExitCode::SUCCESS }
}

/// Says what went wrong, and turns it into an exit code.
fn report(error: &anyhow::Error) -> ExitCode {
    let wrong_input = error.downcast_ref::<InputError>().is_some();
    let _ = writeln!(std::io::stderr(), "error: {error:#}");
    ExitCode::from(if wrong_input { EXIT_INPUT } else { 1 })
}

/// A reader that has seen enough and closed the pipe is no error.
fn print(text: &str) {
    let mut out = std::io::stdout();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    // Clap checks an argument definition only when it is used; a contradiction in it would panic at the user's.
    #[test]
    fn the_arguments_are_consistent() {
        use clap::CommandFactory;
        Arguments::command().debug_assert();
    }

    // Whoever comes from fio writes 4k; taken for 4000 bytes it would be another benchmark.
    #[test]
    fn sizes_are_understood_as_fio_understands_them() {
        for text in ["4k", "4K", "4096", "4 KiB", "4KiB", " 4096 B"] {
            assert_eq!(size(text).unwrap(), Bytes(4096), "{text}");
        }
        assert_eq!(size("1g").unwrap(), Bytes(1 << 30));
        assert_eq!(size("1.5m").unwrap(), Bytes(3 << 19));
        assert_eq!(size("4 kB").unwrap(), Bytes(4000));
        for text in ["", "k", "-4k", "4 x", "4kk", "4.k", "99999999999t"] {
            assert!(size(text).is_err(), "{text}");
        }
    }
}
