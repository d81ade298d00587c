//! Conversion of a trace into another format.

use std::io::Write;

use super::{Reader, Writer};
use crate::writer::WriteError;
use byteway_text::error::InputError;

/// Changes made during the conversion.
#[derive(Clone, Copy, Debug)]
pub struct Conversion {
    /// Maximum number of records to convert.
    pub head: Option<u64>,
    /// Factor of times, in units of 2^-32.
    pub time_scale_q32: u64,
}

impl Default for Conversion {
    fn default() -> Self {
        Conversion { head: None, time_scale_q32: 1 << 32 }
    }
}

/// Records between two progress reports.
const RECORDS_PER_LOOK: u64 = 4096;

/// Converts all records, or as many as requested. From time to time `progress` receives the numbers of
/// records and bytes read.
///
/// # Errors
/// A line of the trace is not a record, the format cannot represent a record, or the output failed.
pub fn convert<W: Write>(
    reader: &mut Reader,
    writer: &mut Writer<W>,
    conversion: &Conversion,
    mut progress: impl FnMut(u64, u64),
) -> Result<(), WriteError> {
    let head = conversion.head.unwrap_or(u64::MAX);
    while reader.tally().records < head {
        let Some(mut record) = reader.next_record()? else { break };
        record.time_ps = scaled(record.time_ps, conversion.time_scale_q32).ok_or_else(|| {
            let what = "its time, scaled, is beyond the 213 days that a trace may last here";
            InputError::new(what, "choose a smaller --time-scale").at(reader.place())
        })?;
        writer.write(&record).map_err(|error| match error {
            WriteError::Unfit(unfit) => unfit.at(reader.place()).into(),
            WriteError::Output(_) => error,
        })?;
        if reader.tally().records.is_multiple_of(RECORDS_PER_LOOK) {
            progress(reader.tally().records, reader.progress_bytes().0);
        }
    }
    Ok(())
}

/// A time multiplied by a factor in units of 2^-32, rounded down.
pub fn scaled(time_ps: u64, scale_q32: u64) -> Option<u64> {
    u64::try_from((u128::from(time_ps) * u128::from(scale_q32)) >> 32).ok()
}
