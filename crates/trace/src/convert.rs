//! One trace poured into another.

use std::io::Write;

use super::{Reader, Writer};
use crate::writer::WriteError;
use byteway_console::error::InputError;

/// What is changed on the way.
#[derive(Clone, Copy, Debug)]
pub struct Conversion {
    /// Only so many records.
    pub head: Option<u64>,
    /// What times are multiplied with, in units of 2^-32.
    pub time_scale_q32: u64,
}

impl Default for Conversion {
    fn default() -> Self {
        Conversion { head: None, time_scale_q32: 1 << 32 }
    }
}

/// Records between two looks at the clock.
const RECORDS_PER_LOOK: u64 = 4096;

/// Reads records and writes them, to the end or as many as are asked for. Now and then `progress` is told how many records
/// and bytes have been read.
///
/// # Errors
/// If a line of the trace is no record, the format can't hold one, or the output takes no more.
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

/// A time by a factor in units of 2^-32, exactly rounded down.
pub fn scaled(time_ps: u64, scale_q32: u64) -> Option<u64> {
    u64::try_from((u128::from(time_ps) * u128::from(scale_q32)) >> 32).ok()
}
