//! `byteway bench`.

use std::path::PathBuf;
use std::process::ExitCode;

use super::{OutputFormat, show, size};
use crate::bench::{Assume, Bench};
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::scenario::{JobSection, Warmup};
use crate::units::{Bytes, Picos};
use crate::workload::{Distribution, Rw};

pub(super) const EXAMPLES: &str = "\
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
pub(super) struct Arguments {
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

/// Runs the benchmark.
pub(super) fn execute(arguments: &Arguments) -> anyhow::Result<ExitCode> {
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
