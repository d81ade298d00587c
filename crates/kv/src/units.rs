//! The units of the range, on the drive.

use super::layout::Layout;
use super::log::Write;
use byteway_clock::{SpanId, Spans};
use byteway_content::UnitBytes;
use byteway_content::{Content, UNIT_BYTES};
use byteway_firmware::{Ftl, MediaError};
use std::rc::Rc;

/// The store's units on the drive.
pub(super) struct Units {
    ftl: Ftl,
    layout: Rc<Layout>,
}

impl Units {
    pub(super) fn new(ftl: Ftl, layout: &Rc<Layout>) -> Units {
        Units { ftl, layout: layout.clone() }
    }

    pub(super) fn ftl(&self) -> &Ftl {
        &self.ftl
    }

    /// Reads `count` units and appends their contents.
    pub(super) async fn read(
        &self,
        span: SpanId,
        spans: &Spans,
        first: u64,
        count: u32,
        out: &mut Vec<Content>,
    ) -> Result<(), MediaError> {
        let mut done = 0;
        let mut part = Vec::new();
        while done < count {
            let (at, run) = self.layout.locate(first + u64::from(done), u64::from(count - done));
            let run = run as u32;
            if done == 0 && run == count && out.is_empty() {
                self.ftl.read(span, spans, at, count, out).await?;
            } else {
                self.ftl.read(span, spans, at, run, &mut part).await?;
                out.append(&mut part);
            }
            done += run;
        }
        let is_marred = out.iter().any(|content| content.marred() != 0);
        if is_marred { Err(MediaError::Unreadable) } else { Ok(()) }
    }

    /// Writes units and empties `contents`. Returns when the translation layer's write buffer has them.
    pub(super) async fn write(
        &self,
        spans: &Spans,
        first: u64,
        contents: &mut Vec<Content>,
    ) -> Result<(), MediaError> {
        let mut next = first;
        while !contents.is_empty() {
            let (at, run) = self.layout.locate(next, contents.len() as u64);
            if run as usize == contents.len() {
                return self.ftl.write(SpanId::NONE, spans, at, contents, false).await;
            }
            let mut part: Vec<Content> = contents.drain(..run as usize).collect();
            self.ftl.write(SpanId::NONE, spans, at, &mut part, false).await?;
            next += run;
        }
        Ok(())
    }

    /// Tells the translation layer that units are unused.
    pub(super) async fn trim(&self, spans: &Spans, first: u64, count: u64) -> Result<(), MediaError> {
        let mut done = 0;
        while done < count {
            let (at, run) = self.layout.locate(first + done, count - done);
            self.ftl.trim(SpanId::NONE, spans, at, run).await?;
            done += run;
        }
        Ok(())
    }

    /// Hands a write to the translation layer when the power fails.
    pub(super) fn save(&self, write: &Write) {
        for (unit, bytes) in (write.first..).zip(&write.units) {
            let (at, _) = self.layout.locate(unit, 1);
            self.ftl.save_unit(at, Content::Bytes(bytes.clone()));
        }
    }
}

/// The bytes of a unit.
pub(super) fn bytes_of(content: &Content) -> UnitBytes {
    match content {
        Content::Bytes(bytes) => bytes.clone(),
        other => {
            let mut bytes = UnitBytes::from([0; UNIT_BYTES]);
            other.write_to(&mut bytes.make_mut()[..]);
            bytes
        }
    }
}
