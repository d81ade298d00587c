//! Flags for reading traces.

use byteway_trace::{self, Columns, Format, ReadOptions, Unit};
use clap::ValueEnum;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

/// Flags for reading a trace.
#[derive(clap::Args)]
pub(super) struct ReadFlags {
    /// Format of the trace. Default: detected from its first lines.
    #[arg(long, value_name = "FORMAT", value_parser = format(), default_value = Format::Auto.name())]
    from: Format,
    /// Columns of the trace, such as time_us,op,offset,bytes, instead of a format; `byteway trace --help` lists them.
    #[arg(long, value_name = "NAMES")]
    columns: Option<Columns>,
    /// Unit of offsets and sizes, if it differs from the format's.
    #[arg(long, value_enum)]
    unit: Option<Unit>,
    /// Read only this device's records; for blkparse and FIU also as 8,0.
    #[arg(long, value_name = "N", value_parser = device)]
    pub(super) device: Option<u32>,
    /// In mqsim, disksim, tencent and columns: the number that means read, if it differs from the format's.
    #[arg(long, value_name = "0|1", value_parser = clap::value_parser!(u8).range(0..=1))]
    reads_are: Option<u8>,
    /// In blkparse's text: the step of an I/O that counts, Q queued, D issued, C completed. Default: the first of these that occurs at the
    /// start of the trace.
    #[arg(long, value_enum)]
    action: Option<byteway_trace::Action>,
    /// Skip and count the lines that are not records.
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

/// Parses the name of a format, of those that are built in and those that this program adds.
fn format() -> impl TypedValueParser<Value = Format> {
    let formats = crate::extensions::formats();
    let built_in = Format::value_variants().iter().filter_map(Format::to_possible_value);
    let own = formats.each().map(|own| PossibleValue::new(own.name()).help(own.about()));
    let parser = PossibleValuesParser::new(built_in.chain(own));
    parser.try_map(move |name| match name.as_str() {
        "auto" => Ok(Format::Auto),
        name => formats.find(name).ok_or("there is no such format"),
    })
}

/// Parses "3", or "8,0" in Linux's notation.
fn device(text: &str) -> Result<u32, String> {
    let number = text.trim().parse().ok().or_else(|| byteway_trace::format::device_pair(text));
    number.ok_or_else(|| "write the number of a device, or `major,minor` such as 8,0".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    // Users know /dev/sda as 8,0, not as 8388608.
    #[test]
    fn a_device_has_one_number_or_two() {
        assert_eq!(device("3"), Ok(3));
        assert_eq!(device("8,1"), Ok((8 << 20) + 1));
        for bad in ["", "x", "8,", "4096,0", "8,1048576", "4294967296", "-1"] {
            assert!(device(bad).is_err(), "{bad}");
        }
    }
}
