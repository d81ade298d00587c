//! `byteway trace`.

mod convert;
mod inspect;

use std::process::ExitCode;

use clap::Subcommand;

pub(super) const EXAMPLES: &str = "\
Examples:
  byteway trace inspect web.trace                       what it holds: sizes, arrivals, reuse, miss ratios
  byteway trace convert web.trace web.msr.csv.zst       to MSR Cambridge's format, packed by zstd
  byteway trace convert q.txt.gz - --to iolog3          to fio's log, on the output

Formats, told by the content or named with --from: mqsim disksim msr alibaba tencent systor fiu blkparse
iolog2 iolog3 oraclegeneral vscsi1 vscsi2; plain, or packed by gzip, xz or zstd.";

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

/// "3", or "8,0" as Linux writes devices.
fn device(text: &str) -> Result<u32, String> {
    let number = text.trim().parse().ok().or_else(|| crate::trace::format::device_pair(text));
    number.ok_or_else(|| "write the number of a device, or `major,minor` such as 8,0".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    // Who traces /dev/sda knows it as 8,0 and not as 8388608.
    #[test]
    fn a_device_has_one_number_or_two() {
        assert_eq!(device("3"), Ok(3));
        assert_eq!(device("8,1"), Ok((8 << 20) + 1));
        for bad in ["", "x", "8,", "4096,0", "8,1048576", "4294967296", "-1"] {
            assert!(device(bad).is_err(), "{bad}");
        }
    }
}
