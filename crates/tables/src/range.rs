//! The units of a range, numbered from 0 across its extents, with reads and writes.

use crate::config::UnitExtent;
use byteway_clock::{SpanId, Spans};
use byteway_content::UnitBytes;
use byteway_content::{Content, UNIT_BYTES};
use byteway_firmware::{Ftl, MediaError};

/// Upper limit of the units that one call reads or writes.
const PIECE_UNITS: u64 = 256;

pub(crate) struct Range {
    ftl: Ftl,
    extents: Vec<UnitExtent>,
}

impl Range {
    pub(crate) fn new(ftl: Ftl, extents: Vec<UnitExtent>) -> Range {
        Range { ftl, extents }
    }

    /// Maps the unit `first` of the range to a unit of the drive, with the number of units (at most `count`) that follow contiguously.
    fn locate(&self, first: u64, count: u64) -> Option<(u64, u64)> {
        let mut before = 0;
        self.extents.iter().find_map(|extent| {
            let offset = first.checked_sub(before)?;
            before += extent.count;
            (offset < extent.count).then(|| (extent.first + offset, count.min(extent.count - offset)))
        })
    }

    /// Appends the bytes of `count` units from `first` to the buffer.
    pub(crate) async fn read(
        &self,
        span: SpanId,
        spans: &Spans,
        first: u64,
        count: u64,
        into: &mut Vec<u8>,
    ) -> Result<(), MediaError> {
        let mut contents = Vec::new();
        let (mut next, end) = (first, first + count);
        while next < end {
            let (at, run) = self.locate(next, (end - next).min(PIECE_UNITS)).ok_or(MediaError::OutOfRange)?;
            self.ftl.read(span, spans, at, run as u32, &mut contents).await?;
            for content in &contents {
                if content.marred() != 0 {
                    return Err(MediaError::Unreadable);
                }
                let begin = into.len();
                into.resize(begin + UNIT_BYTES, 0);
                content.write_to(&mut into[begin..]);
            }
            next += run;
        }
        Ok(())
    }

    /// Writes bytes to the units from `first` on; zeros pad the last one. With `durable` they are on flash when this returns.
    pub(crate) async fn write(
        &self,
        spans: &Spans,
        first: u64,
        bytes: &[u8],
        durable: bool,
    ) -> Result<(), MediaError> {
        let mut contents = Vec::new();
        let (mut next, mut left) = (first, bytes);
        while !left.is_empty() {
            let units = (left.len() as u64).div_ceil(UNIT_BYTES as u64).min(PIECE_UNITS);
            let (at, run) = self.locate(next, units).ok_or(MediaError::OutOfRange)?;
            let (now, rest) = left.split_at(left.len().min(run as usize * UNIT_BYTES));
            contents.extend(now.chunks(UNIT_BYTES).map(|chunk| {
                let mut unit = UnitBytes::from([0; UNIT_BYTES]);
                unit.make_mut()[..chunk.len()].copy_from_slice(chunk);
                Content::of_bytes(&unit)
            }));
            self.ftl.write(SpanId::NONE, spans, at, &mut contents, durable).await?;
            (next, left) = (next + run, rest);
        }
        Ok(())
    }

    pub(crate) async fn flush(&self, spans: &Spans) -> Result<(), MediaError> {
        self.ftl.flush(SpanId::NONE, spans).await
    }

    /// Deallocates units.
    pub(crate) async fn trim(&self, spans: &Spans, first: u64, count: u64) -> Result<(), MediaError> {
        let (mut next, end) = (first, first + count);
        while next < end {
            let (at, run) = self.locate(next, end - next).ok_or(MediaError::OutOfRange)?;
            self.ftl.trim(SpanId::NONE, spans, at, run).await?;
            next += run;
        }
        Ok(())
    }
}
