//! `byteway trace`: inspects and converts block traces.

mod convert;
mod flags;
mod inspect;

use std::process::ExitCode;

use clap::Subcommand;

pub(super) const EXAMPLES: &str = "\
Examples:
  byteway trace inspect web.trace                       show sizes, arrivals, reuse, miss ratios
  byteway trace convert web.trace web.msr.csv.zst       convert to MSR Cambridge's format, compressed by zstd
  byteway trace convert q.txt.gz - --to iolog3          convert to fio's log, on the standard output
  blkparse -i sda | byteway trace inspect -             read from the standard input

Formats, detected from the content or named with --from: mqsim disksim msr alibaba tencent systor
fiu blkparse iolog2 iolog3 oraclegeneral vscsi1 vscsi2 spc cloudphysics biosnoop; plain, or
compressed by gzip, xz or zstd. For any other text name the columns: --columns
time_us,op,offset,bytes. The names and their units:
  time_s time_ms time_us time_100ns time_ns       decimals are kept to the nanosecond
  op                                              read, write, trim or their first letters; 0 and 1 with --reads-are
  offset offset_kib lba (= lba512, sector) lba4k  first byte, KiB, block of 512 B, block of 4 KiB
  bytes (= size) kib sectors (= blocks) blocks4k  length in the same units
  device                                          its number
  -                                               a column to ignore, as are those after the last named one
Separators are commas, semicolons, tabs, bars or white space; a first line of names is skipped.";

#[derive(clap::Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Inspect traces: shares, sizes, addresses, arrivals, footprint, reuse, miss ratio by cache size.
    #[command(after_help = inspect::EXAMPLES)]
    Inspect(inspect::Arguments),
    /// Write a trace in another format.
    #[command(after_help = convert::EXAMPLES)]
    Convert(convert::Arguments),
}

/// Executes the action.
pub(super) fn execute(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    match &arguments.action {
        Action::Inspect(arguments) => inspect::execute(arguments),
        Action::Convert(arguments) => convert::execute(arguments),
    }
}
