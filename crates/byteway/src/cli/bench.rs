//! `byteway bench`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::rc::Rc;

use super::flags::{OutputFormat, Tables, address, method, size};
use super::show::show;
use crate::interrupt::raised_by_signal;
use crate::terminal::Terminal;
use byteway_auth::HostSecrets;
use byteway_console::error::InputError;
use byteway_console::file::read_secret_file;
use byteway_console::units::excerpt;
use byteway_console::units::{Bytes, Picos, Rate};
use byteway_lab::bench::{Assume, Bench, Place, Transfer, discovered};
use byteway_lab::nvme_tcp::TcpOptions;
use byteway_measure::output::{Output, print};
use byteway_scenario::secrets::load_secret;
use byteway_scenario::{JobSection, ResultWay, Warmup};
use byteway_serve::tls::{ConfiguredPsk, PskError};
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

Over NVMe/TCP, after `byteway serve drive.toml --tcp 127.0.0.1:4420`, with the NQN that it names:
  byteway bench --tcp 127.0.0.1:4420 --subsystem nqn.2026-11.org.byteway:SERIAL --iodepth 32
With TLS, after `byteway serve drive.toml --tcp 127.0.0.1:4420 --tls-keys FILE`:
  byteway bench --tcp 127.0.0.1:4420 --subsystem nqn.2026-11.org.byteway:SERIAL --tls-key own.key

Where the target asks for authentication (`byteway serve --secrets`): --secret-file FILE.

Several addresses are paths to one drive. Commands go by those that its ports say are best (ANA), and
by another one when a path fails; what went by each is told at the end:
  byteway bench --tcp 127.0.0.1:4420 --tcp 127.0.0.1:5420 --subsystem NQN --iodepth 32
What drives a Discovery Service knows of, and all paths to one of them that it names:
  byteway bench --tcp 127.0.0.1:4420 --discover
  byteway bench --tcp 127.0.0.1:4420 --nqn NQN --iodepth 32

Every block read is verified. What a drive holds beforehand nobody here knows, so the range is
written first, which is not measured; without --size that is at most 1 GiB. On a drive that nobody
has written to since it was served, --assume empty (or filled) spares the writing; --no-verify
spares all of it. With --sink every payload is compared by checksum, and what was written and is
read again byte by byte; nothing is written first.

One thread does everything, polling, and times are wall time. Sizes: 4k, \"4 KiB\" and 4096 are the
same; \"4 kB\" is 4000.";

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// The folder of the drive's socket, as `byteway serve` names it. The job's range of the drive is overwritten, unless
    /// it is only read and --assume or --no-verify says so.
    #[arg(long, value_name = "DIR", required_unless_present = "tcp", conflicts_with = "tcp")]
    vfio_user: Option<PathBuf>,
    /// Instead: the address and port at which a target serves the drive over NVMe/TCP, Byteway's or any other; may be repeated, for
    /// several paths to one drive.
    #[arg(long, value_name = "ADDR:PORT", requires = "which", value_parser = address)]
    tcp: Vec<SocketAddr>,
    /// With --tcp: the NQN of the drive's subsystem, as `byteway serve` or `nvme discover` names it.
    #[arg(long, value_name = "NQN", requires = "tcp", group = "which")]
    subsystem: Option<String>,
    /// The same, if a Discovery Service listens at --tcp: the drive is used by all paths that it names.
    #[arg(long, value_name = "NQN", requires = "tcp", group = "which")]
    nqn: Option<String>,
    /// List what the Discovery Service at --tcp, and those that it refers to, say of where drives are, and do nothing else.
    #[arg(long, requires = "tcp", group = "which")]
    discover: bool,
    /// With --tcp: ask for digests of headers and data.
    #[arg(long, requires = "tcp")]
    digests: bool,
    /// With --tcp: a file with the secret (DHHC-1:...) of this host, nqn.2026-11.org.byteway:bench, for a target that asks for
    /// authentication. Only its owner may read it.
    #[arg(long, value_name = "FILE", requires = "tcp")]
    secret_file: Option<PathBuf>,
    /// With --secret-file: a file with the target's secret, by which it has to authenticate, too.
    #[arg(long, value_name = "FILE", requires = "secret_file")]
    controller_secret_file: Option<PathBuf>,
    /// With --tcp: use TLS 1.3, with the key in this file (`NVMeTLSkey-1:...`), which the target has for this host,
    /// nqn.2026-11.org.byteway:bench. Only its owner may read the file.
    #[arg(long, value_name = "FILE", requires = "tcp")]
    tls_key: Option<PathBuf>,
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
    /// Share of writes in a mix, in percent: what rwmixread leaves.
    #[arg(long, value_name = "PERCENT")]
    rwmixwrite: Option<u8>,
    /// Instead of bs: sizes with their shares in percent, such as 4k/60:64k/40.
    #[arg(long, value_name = "SIZE/PERCENT:...", conflicts_with_all = ["bs", "bsrange"])]
    bssplit: Option<PerDirection<SizeSplit>>,
    /// Instead of bs: the least and the most, such as 4k-64k.
    #[arg(long, value_name = "MIN-MAX", conflicts_with = "bs")]
    bsrange: Option<PerDirection<SizeRange>>,
    /// How random addresses are spread: random, zipf:1.2, pareto:0.2, normal:10, zoned:60/10:40/90; left out, random.
    #[arg(long, value_name = "DISTRIBUTION")]
    random_distribution: Option<Distribution>,
    /// I/Os a second that are not exceeded.
    #[arg(long, value_name = "N[,N[,N]]")]
    rate_iops: Option<PerDirection<Iops>>,
    /// Bytes a second that are not exceeded, such as "100 MB/s".
    #[arg(long, value_name = "RATE[,RATE[,RATE]]", conflicts_with = "rate_iops")]
    rate: Option<PerDirection<Rate>>,
    /// How long a worker pauses after thinktime-blocks I/Os.
    #[arg(long, value_name = "TIME")]
    thinktime: Option<Picos>,
    /// I/Os between two pauses; left out, 1.
    #[arg(long, value_name = "N", requires = "thinktime")]
    thinktime_blocks: Option<u32>,
    /// Time at the beginning that is left out of the figures, beside the runtime.
    #[arg(long, value_name = "TIME")]
    ramp_time: Option<Picos>,
    /// Bytes to transfer, over all workers.
    #[arg(long, value_parser = size)]
    io_size: Option<Bytes>,
    /// For how long; left out, 5 s, unless there is a count or an io-size.
    #[arg(long, value_name = "TIME")]
    runtime: Option<Picos>,
    /// How many I/Os, over all workers. Of count, io-size and runtime what is reached first ends the job.
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
    /// Ask for payloads of the drive's sink instead of blocks: of any length, from 1 B on.
    #[arg(long)]
    sink: bool,
    /// How payloads cross.
    #[arg(long, value_parser = method(), default_value = "prp")]
    method: Method,
    /// With --method adaptive: payloads shorter than this cross inline.
    #[arg(long, value_parser = size, required_if_eq("method", "adaptive"))]
    threshold: Option<Bytes>,
    /// How results of a sink's reads come back.
    #[arg(long, value_enum, default_value_t = ResultWay::Pointer, requires = "sink")]
    result: ResultWay,
    /// What the drive holds now.
    #[arg(long, value_enum, default_value_t = Assume::Unknown)]
    assume: Assume,
    /// Check nothing that is read, and write no patterns.
    #[arg(long)]
    no_verify: bool,
    /// Addresses follow from it.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Write summary.json and results.parquet to this folder, which is made if need be.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// What is printed.
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    format: OutputFormat,
    #[command(flatten)]
    tables: Tables,
    /// No progress bar.
    #[arg(long)]
    quiet: bool,
}

/// The key of a file.
fn tls_key(path: &Path) -> Result<ConfiguredPsk, InputError> {
    const WHAT: &str = "file of a TLS key";
    read_secret_file(path, WHAT)?.trim().parse().map_err(|error: PskError| {
        let what = format!("the {WHAT} `{}`: {error}", path.display());
        InputError::new(what, "write what `nvme gen-tls-key` prints to it, and nothing else")
    })
}

/// How this host connects to targets.
fn options(arguments: &Arguments) -> Result<TcpOptions, InputError> {
    let secret = |file: &Option<PathBuf>| file.as_deref().map(load_secret).transpose();
    let (host, controller) = (secret(&arguments.secret_file)?, secret(&arguments.controller_secret_file)?);
    Ok(TcpOptions {
        digests: arguments.digests,
        secrets: host.map(|host| HostSecrets { host, controller }),
        tls_key: arguments.tls_key.as_deref().map(tls_key).transpose()?,
    })
}

/// The one Discovery Service.
fn service(arguments: &Arguments, flag: &str) -> Result<SocketAddr, InputError> {
    match arguments.tcp[..] {
        [service] => Ok(service),
        _ => {
            let what =
                format!("`{flag}` asks one Discovery Service, and there are {} `--tcp`", arguments.tcp.len());
            Err(InputError::new(what, "give one, or the drive's own addresses with --subsystem"))
        }
    }
}

/// Where the drive is served.
fn place(arguments: &Arguments) -> Result<Place, InputError> {
    let (flag, name) = match (&arguments.subsystem, &arguments.nqn, &arguments.vfio_user) {
        (Some(name), ..) => ("--subsystem", name),
        (None, Some(name), _) => ("--nqn", name),
        (None, None, folder) => return Ok(Place::VfioUser(folder.clone().unwrap_or_default())),
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
        let what = format!("`--tcp {}` is there twice", addresses[index]);
        return Err(InputError::new(what, "give each path once"));
    }
    let options = Box::new(options(arguments)?);
    Ok(Place::Tcp { addresses, is_discovery, subsystem: Box::new(subsystem), options })
}

/// Lists what Discovery Services say.
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
        seed: arguments.seed,
        warmup: arguments.warmup,
        bars: Rc::new(Terminal { quiet: arguments.quiet }),
    };
    let output = arguments.out.as_deref().map(Output::check).transpose()?;
    let output = output.map(Output::claim).transpose()?;
    let results = bench.run(&raised_by_signal())?;
    show(&results, None, output, Vec::new(), arguments.format, arguments.tables)
}

/// A benchmark that is not told how long it is to last.
const BENCH_RUNTIME: Picos = Picos(5_000_000_000_000);
