//! `byteway bench`: benchmarks a served drive.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::rc::Rc;

use super::flags::{OutputFormat, Tables, address, method, size};
use super::log::log_to_stderr;
use super::show::{Shown, show};
use crate::interrupt::raised_by_signal;
use crate::terminal::Terminal;
use byteway_auth::HostSecrets;
use byteway_clock::Delay;
use byteway_results::output::{Output, print};
use byteway_scenario::secrets::load_secret;
use byteway_scenario::{JobSection, ResultTransfer, Warmup};
use byteway_serve::tls::{ConfiguredPsk, PskError};
use byteway_serving::bench::{Assume, Bench, DriveAddress, Transfer, discovered};
use byteway_serving::nvme_tcp::TcpOptions;
use byteway_text::error::InputError;
use byteway_text::file::read_secret_file;
use byteway_text::units::excerpt;
use byteway_text::units::{Bytes, Picos, Rate};
use byteway_transfer::Method;
use byteway_wire::fabrics::Nqn;
use byteway_workload::{Distribution, Iops, PerDirection, Rw, SizeRange, SizeSplit};

pub(super) const EXAMPLES: &str = "\
Examples, after `byteway serve drive.toml --vfio-user /tmp/drive`:
  byteway bench --vfio-user /tmp/drive                   4 KiB random reads at depth 1, for 5 s
  byteway bench --vfio-user /tmp/drive --iodepth 32 --runtime 10s
  byteway bench --vfio-user /tmp/drive --rw randrw --rwmixread 70 --bs 8k --numjobs 2
  byteway bench --vfio-user /tmp/drive --rw write --bs 128k --iodepth 8 --count 100000 --format json
  byteway bench --vfio-user /tmp/drive --sink --rw randwrite --bs 64 --method inline --iodepth 64

Over NVMe/TCP, after `byteway serve drive.toml --tcp 127.0.0.1:4420`, with the NQN that it prints:
  byteway bench --tcp 127.0.0.1:4420 --subsystem nqn.2026-11.org.byteway:SERIAL --iodepth 32
With TLS, after `byteway serve drive.toml --tcp 127.0.0.1:4420 --tls-keys FILE`:
  byteway bench --tcp 127.0.0.1:4420 --subsystem nqn.2026-11.org.byteway:SERIAL --tls-key own.key

If the target requires authentication (`byteway serve --secrets`), add --secret-file FILE; for TLS with a key from the
authentication, also --concatenate.

Several addresses are paths to one drive. Commands use the paths that its ports report as best (ANA), and
another one if a path fails; the end of the output has the figures of each path:
  byteway bench --tcp 127.0.0.1:4420 --tcp 127.0.0.1:5420 --subsystem NQN --iodepth 32
List the drives that a Discovery Service knows, and use all paths that it lists for one of them, or for the only one:
  byteway bench --tcp 127.0.0.1:4420 --discover
  byteway bench --tcp 127.0.0.1:4420 --iodepth 32
  byteway bench --tcp 127.0.0.1:4420 --nqn NQN --iodepth 32

Every block read is verified. The drive's content is unknown, so the range is written first, without being
measured; without --size it is at most 1 GiB. On a drive that was not written since it was served, --assume
empty (or filled) skips this; --no-verify disables verification. With --sink every payload is verified by
checksum, and stored payloads that are read again byte by byte; nothing is written first.

A single thread does all work by polling, and times are wall-clock times. Sizes: 4k, \"4 KiB\" and 4096 are equal;
\"4 kB\" is 4000.";

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Folder of the drive's socket, as passed to `byteway serve`. The job's range of the drive is overwritten, unless the job only reads
    /// and --assume or --no-verify is given.
    #[arg(long, value_name = "DIR", required_unless_present = "tcp", conflicts_with = "tcp")]
    vfio_user: Option<PathBuf>,
    /// Address and port of an NVMe/TCP target, Byteway's or any other, instead of --vfio-user. Repeatable, for several paths to one drive.
    /// Without --subsystem, --nqn and --discover, the only drive that the Discovery Service there knows is used.
    #[arg(long, value_name = "ADDR:PORT", value_parser = address)]
    tcp: Vec<SocketAddr>,
    /// With --tcp: NQN of the drive's subsystem, as `byteway serve` or `nvme discover` prints it.
    #[arg(long, value_name = "NQN", requires = "tcp", group = "which")]
    subsystem: Option<String>,
    /// With a Discovery Service at --tcp: NQN of the drive, which is used over all paths that the service lists.
    #[arg(long, value_name = "NQN", requires = "tcp", group = "which")]
    nqn: Option<String>,
    /// List the drives known to the Discovery Service at --tcp and its referrals, and exit.
    #[arg(long, requires = "tcp", group = "which")]
    discover: bool,
    /// With --tcp: request header and data digests.
    #[arg(long, requires = "tcp")]
    digests: bool,
    /// With --tcp: file with the secret (DHHC-1:...) of this host, nqn.2026-11.org.byteway:bench, for a target that requires
    /// authentication. Only its owner may have access.
    #[arg(long, value_name = "FILE", requires = "tcp")]
    secret_file: Option<PathBuf>,
    /// With --secret-file: file with the target's secret, to authenticate the target as well.
    #[arg(long, value_name = "FILE", requires = "secret_file")]
    controller_secret_file: Option<PathBuf>,
    /// With --secret-file: use TLS 1.3 with a key that the authentication generates (secure channel concatenation).
    #[arg(long, requires = "secret_file", conflicts_with = "tls_key")]
    concatenate: bool,
    /// With --tcp: use TLS 1.3 with the key in this file (`NVMeTLSkey-1:...`), which the target has for this host,
    /// nqn.2026-11.org.byteway:bench. Only its owner may have access.
    #[arg(long, value_name = "FILE", requires = "tcp")]
    tls_key: Option<PathBuf>,
    /// Direction and order of I/Os.
    #[arg(long, value_enum, default_value_t = Rw::RandRead)]
    rw: Rw,
    /// Size of an I/O.
    #[arg(long, value_parser = size, default_value = "4 KiB")]
    bs: Bytes,
    /// Outstanding I/Os per worker.
    #[arg(long, value_name = "N", default_value_t = 1)]
    iodepth: u32,
    /// Number of workers, each with its own queue pair; all in one thread.
    #[arg(long, value_name = "N", default_value_t = 1)]
    numjobs: u32,
    /// Share of reads in a mix, in percent. Default: 50.
    #[arg(long, value_name = "PERCENT")]
    rwmixread: Option<u8>,
    /// Share of writes in a mix, in percent: the complement of rwmixread.
    #[arg(long, value_name = "PERCENT")]
    rwmixwrite: Option<u8>,
    /// Sizes with their shares in percent, such as 4k/60:64k/40, instead of bs.
    #[arg(long, value_name = "SIZE/PERCENT:...", conflicts_with_all = ["bs", "bsrange"])]
    bssplit: Option<PerDirection<SizeSplit>>,
    /// Range of sizes, such as 4k-64k, instead of bs.
    #[arg(long, value_name = "MIN-MAX", conflicts_with = "bs")]
    bsrange: Option<PerDirection<SizeRange>>,
    /// Distribution of random addresses: random, zipf:1.2, pareto:0.2, normal:10, zoned:60/10:40/90. Default: random.
    #[arg(long, value_name = "DISTRIBUTION")]
    random_distribution: Option<Distribution>,
    /// Limit of I/Os per second.
    #[arg(long, value_name = "N[,N[,N]]")]
    rate_iops: Option<PerDirection<Iops>>,
    /// Limit of bytes per second, such as "100 MB/s".
    #[arg(long, value_name = "RATE[,RATE[,RATE]]", conflicts_with = "rate_iops")]
    rate: Option<PerDirection<Rate>>,
    /// Pause of a worker after thinktime-blocks I/Os.
    #[arg(long, value_name = "TIME")]
    thinktime: Option<Picos>,
    /// I/Os between two pauses. Default: 1.
    #[arg(long, value_name = "N", requires = "thinktime")]
    thinktime_blocks: Option<u32>,
    /// Time at the start that is not measured, in addition to the runtime.
    #[arg(long, value_name = "TIME")]
    ramp_time: Option<Picos>,
    /// Bytes to transfer by all workers.
    #[arg(long, value_parser = size)]
    io_size: Option<Bytes>,
    /// Duration. Default: 5 s, unless count or io-size is given.
    #[arg(long, value_name = "TIME")]
    runtime: Option<Picos>,
    /// Number of I/Os of all workers. The job ends when count, io-size or runtime is reached.
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// Warm-up that is not measured: a number of I/Os, or a time.
    #[arg(long, value_name = "N|TIME")]
    warmup: Option<Warmup>,
    /// Namespace.
    #[arg(long, value_name = "NSID", default_value_t = 1)]
    namespace: u32,
    /// Start of the job's range in the namespace.
    #[arg(long, value_parser = size, default_value = "0 B")]
    offset: Bytes,
    /// Length of the range. Default: to the end of the namespace, but at most 1 GiB if it is filled first.
    #[arg(long, value_parser = size)]
    size: Option<Bytes>,
    /// Transfer payloads of any length, from 1 B, to the drive's sink instead of blocks.
    #[arg(long)]
    sink: bool,
    /// Transfer method of payloads.
    #[arg(long, value_parser = method(), default_value = "prp")]
    method: Method,
    /// With --method adaptive: payloads below this size are transferred inline.
    #[arg(long, value_parser = size, required_if_eq("method", "adaptive"))]
    threshold: Option<Bytes>,
    /// Return path of the results of a sink's reads.
    #[arg(long, value_enum, default_value_t = ResultTransfer::Pointer, requires = "sink")]
    result: ResultTransfer,
    /// Current content of the drive.
    #[arg(long, value_enum, default_value_t = Assume::Unknown)]
    assume: Assume,
    /// Do not verify reads, and do not write patterns.
    #[arg(long)]
    no_verify: bool,
    /// Time limit of a command. Then it is aborted; after the same time again the controller is reset, over NVMe/TCP by a
    /// new connection. A connection that is lost and does not come back within this time ends the benchmark.
    #[arg(long, value_name = "TIME", default_value = "30 s")]
    timeout: Picos,
    /// Seed of the addresses.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Write summary.json, results.parquet and latency.parquet to DIR, which is created if necessary.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Output format.
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    format: OutputFormat,
    #[command(flatten)]
    tables: Tables,
    /// Do not show a progress bar.
    #[arg(long)]
    quiet: bool,
}

/// Reads a TLS key file.
fn tls_key(path: &Path) -> Result<ConfiguredPsk, InputError> {
    const WHAT: &str = "file of a TLS key";
    read_secret_file(path, WHAT)?.trim().parse().map_err(|error: PskError| {
        let what = format!("the {WHAT} `{}`: {error}", path.display());
        InputError::new(what, "write what `nvme gen-tls-key` prints to it, and nothing else")
    })
}

/// Options for connections to targets.
fn options(arguments: &Arguments) -> Result<TcpOptions, InputError> {
    let secret = |file: &Option<PathBuf>| file.as_deref().map(load_secret).transpose();
    let (host, controller) = (secret(&arguments.secret_file)?, secret(&arguments.controller_secret_file)?);
    Ok(TcpOptions {
        digests: arguments.digests,
        secrets: host.map(|host| HostSecrets { host, controller }),
        concatenates: arguments.concatenate,
        tls_key: arguments.tls_key.as_deref().map(tls_key).transpose()?,
    })
}

/// The single Discovery Service in `--tcp`.
fn service(arguments: &Arguments, flag: &str) -> Result<SocketAddr, InputError> {
    match arguments.tcp[..] {
        [service] => Ok(service),
        _ => {
            let what = format!(
                "`{flag}` queries one Discovery Service, but {} `--tcp` are given",
                arguments.tcp.len()
            );
            Err(InputError::new(what, "give one, or the drive's own addresses with --subsystem"))
        }
    }
}

/// The time limit of a command.
fn timeout(asked: Picos) -> Result<Delay, InputError> {
    let limit = Delay::from_ps(asked.0);
    match (TIMEOUT_MIN..=TIMEOUT_MAX).contains(&limit) {
        true => Ok(limit),
        false => {
            let what = format!("`--timeout {asked}` is out of range");
            Err(InputError::new(what, "choose 10 ms to 1 h"))
        }
    }
}

/// The address of the drive.
fn place(arguments: &Arguments) -> Result<DriveAddress, InputError> {
    let (flag, name) = match (&arguments.subsystem, &arguments.nqn, &arguments.vfio_user) {
        (Some(name), ..) => ("--subsystem", name),
        (None, Some(name), _) => ("--nqn", name),
        (None, None, None) if !arguments.tcp.is_empty() => {
            return Ok(DriveAddress::Tcp {
                addresses: vec![service(arguments, "--tcp")?],
                is_discovery: true,
                subsystem: None,
                options: Box::new(options(arguments)?),
            });
        }
        (None, None, folder) => return Ok(DriveAddress::VfioUser(folder.clone().unwrap_or_default())),
    };
    let subsystem = Nqn::new(name).map_err(|error| {
        let what = format!("`{flag} {}`: {error}", excerpt(name));
        InputError::new(what, "name the subsystem as `byteway serve` or `nvme discover` does")
    })?;
    let mut addresses = arguments.tcp.clone();
    let is_discovery = arguments.nqn.is_some();
    if is_discovery {
        addresses = vec![service(arguments, flag)?];
    }
    let twice = (1..addresses.len()).find(|index| addresses[..*index].contains(&addresses[*index]));
    if let Some(index) = twice {
        let what = format!("`--tcp {}` is given twice", addresses[index]);
        return Err(InputError::new(what, "give each path once"));
    }
    let options = Box::new(options(arguments)?);
    Ok(DriveAddress::Tcp { addresses, is_discovery, subsystem: Some(Box::new(subsystem)), options })
}

/// Lists the drives that Discovery Services report.
fn list(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let service = service(arguments, "--discover")?;
    let found = discovered(service, &options(arguments)?, &raised_by_signal())?;
    let Arguments { format, tables, .. } = arguments;
    print(match format {
        OutputFormat::Table => tables.wrapped(&found.tables(tables.width())),
        OutputFormat::Json => found.to_json(),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Runs the benchmark.
pub(super) fn execute(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    if arguments.discover {
        return list(arguments);
    }
    let runtime = match (arguments.runtime, arguments.count, arguments.io_size) {
        (None, None, None) => Some(BENCH_RUNTIME),
        (runtime, ..) => runtime,
    };
    let sized = arguments.bsrange.is_none() && arguments.bssplit.is_none();
    let job = JobSection {
        rw: Some(arguments.rw),
        rwmixread: arguments.rwmixread,
        rwmixwrite: arguments.rwmixwrite,
        bs: sized.then(|| PerDirection::all(arguments.bs)),
        bsrange: arguments.bsrange,
        bssplit: arguments.bssplit.clone(),
        iodepth: Some(arguments.iodepth),
        numjobs: arguments.numjobs,
        random_distribution: arguments.random_distribution.clone(),
        rate_iops: arguments.rate_iops,
        rate: arguments.rate,
        thinktime: arguments.thinktime,
        thinktime_blocks: arguments.thinktime_blocks,
        ramp_time: arguments.ramp_time,
        io_size: arguments.io_size,
        namespace: arguments.namespace,
        offset: arguments.offset.into(),
        size: arguments.size.map(Into::into),
        count: arguments.count,
        runtime,
        ..JobSection::default()
    };
    let bench = Bench {
        place: place(arguments)?,
        job,
        transfer: Transfer {
            sink: arguments.sink,
            method: arguments.method,
            threshold: arguments.threshold.unwrap_or_default(),
            result: arguments.result.into(),
        },
        verify: !arguments.no_verify,
        assume: arguments.assume,
        timeout: timeout(arguments.timeout)?,
        seed: arguments.seed,
        warmup: arguments.warmup,
        bars: Rc::new(Terminal { quiet: arguments.quiet }),
    };
    log_to_stderr()?;
    let output = arguments.out.as_deref().map(Output::check).transpose()?;
    let output = output.map(Output::claim).transpose()?;
    let results = bench.run(&raised_by_signal())?;
    show(&results, None, output, Vec::new(), Shown::of(arguments.format, arguments.tables))
}

/// Shortest and longest time limit of a command.
const TIMEOUT_MIN: Delay = Delay::from_ms(10);
const TIMEOUT_MAX: Delay = Delay::from_s(3600);
/// Default duration.
const BENCH_RUNTIME: Picos = Picos(5_000_000_000_000);
