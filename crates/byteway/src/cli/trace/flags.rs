//! How a trace is to be read, in flags.

use byteway_trace::{self, Columns, Format, ReadOptions, Unit};

/// How a trace is to be read.
#[derive(clap::Args)]
pub(super) struct ReadFlags {
    /// How the trace is written; left out, as its first lines look.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = Format::Auto)]
    from: Format,
    /// The columns of the trace, such as time_us,op,offset,bytes, instead of a format; `byteway trace --help` lists them.
    #[arg(long, value_name = "NAMES")]
    columns: Option<Columns>,
    /// What offsets and sizes are counted in, if not in what the format says.
    #[arg(long, value_enum)]
    unit: Option<Unit>,
    /// Only this device's records; of blkparse and FIU also as 8,0.
    #[arg(long, value_name = "N", value_parser = device)]
    pub(super) device: Option<u32>,
    /// In mqsim, disksim, tencent and columns: the number that means read, if not the format's own.
    #[arg(long, value_name = "0|1", value_parser = clap::value_parser!(u8).range(0..=1))]
    reads_are: Option<u8>,
    /// Of blkparse's text: which step of an I/O counts, Q queued, D issued, C completed; left out, the first of these that
    /// the beginning of the trace has.
    #[arg(long, value_enum)]
    action: Option<byteway_trace::Action>,
    /// Skip the lines that are no records, and count them.
    #[arg(long)]
    skip_bad_lines: bool,
}

impl ReadFlags {
    pub(super) fn options(&self) -> ReadOptions {
        ReadOptions {
            format: self.from,
            device: self.device,
            skip_bad_lines: self.skip_bad_lines,
            reads_are: self.reads_are,
            action: self.action,
            unit: self.unit,
            columns: self.columns.clone(),
        }
    }
}

/// "3", or "8,0" as Linux writes devices.
fn device(text: &str) -> Result<u32, String> {
    let number = text.trim().parse().ok().or_else(|| byteway_trace::format::device_pair(text));
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
