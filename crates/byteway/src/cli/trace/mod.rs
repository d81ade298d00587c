//! `byteway trace`.

mod convert;
mod flags;
mod inspect;

use std::process::ExitCode;

use clap::Subcommand;

pub(super) const EXAMPLES: &str = "\
Examples:
  byteway trace inspect web.trace                       what it holds: sizes, arrivals, reuse, miss ratios
  byteway trace convert web.trace web.msr.csv.zst       to MSR Cambridge's format, packed by zstd
  byteway trace convert q.txt.gz - --to iolog3          to fio's log, on the output
  blkparse -i sda | byteway trace inspect -             from the standard input

Formats, told by the content or named with --from: mqsim disksim msr alibaba tencent systor fiu blkparse
iolog2 iolog3 oraclegeneral vscsi1 vscsi2 spc cloudphysics; plain, or packed by gzip, xz or zstd. Of any other text
the columns can be named: --columns time_us,op,offset,bytes. The names and their units:
  time_s time_ms time_us time_100ns time_ns       decimals are kept to the nanosecond
  op                                              read, write, trim or their first letters; 0 and 1 with --reads-are
  offset offset_kib lba (= lba512, sector) lba4k  first byte, KiB, block of 512 B, block of 4 KiB
  bytes (= size) kib sectors (= blocks) blocks4k  length in the same units
  device                                          its number
  -                                               a column to be ignored; those after the last named one are, too
Commas, semicolons, tabs, bars or white space separate; a first line of names is passed over.";

#[derive(clap::Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Look into traces: shares, sizes, addresses, arrivals, footprint, reuse, miss ratio by cache size.
    #[command(after_help = inspect::EXAMPLES)]
    Inspect(inspect::Arguments),
    /// Write a trace in another format.
    #[command(after_help = convert::EXAMPLES)]
    Convert(convert::Arguments),
}

/// Does what is asked of the trace.
pub(super) fn execute(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    match &arguments.action {
        Action::Inspect(arguments) => inspect::execute(arguments),
        Action::Convert(arguments) => convert::execute(arguments),
    }
}
