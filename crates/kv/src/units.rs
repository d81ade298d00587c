//! Reading and writing units of the range. Queued writes are read from the queue.

use super::config::KvError;
use super::inner::Inner;
use super::log::{Write, Written};
use super::record::{Entry, ValueExtent};
use super::segments::{Layout, UNIT};
use super::state::State;
use super::table::{Entries, Table};
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

/// The task that writes the queue to flash, in order.
pub(super) async fn run(inner: Rc<Inner>) {
    let spans = Spans::default();
    let mut contents = Vec::new();
    loop {
        let first = {
            let mut guard = inner.state.borrow_mut();
            let state = &mut *guard;
            let oldest = state.queue.writes.front().filter(|_| state.failed.is_none());
            let first = oldest.map(|write| {
                contents.extend(write.units.iter().map(Content::of_bytes));
                write.first
            });
            state.queue.is_writing = first.is_some();
            first
        };
        let Some(first) = first else {
            inner.queued.notified().await;
            continue;
        };
        let written = inner.units.write(&spans, first, &mut contents).await;
        contents.clear();
        inner.state.borrow_mut().queue.is_writing = false;
        if let Err(error) = written {
            // A write that failed stays in the queue: reads find it there, and capacitors save it.
            inner.fail(error);
            continue;
        }
        let mut state = inner.state.borrow_mut();
        let (kind, units) = match state.queue.writes.front() {
            Some(write) => (write.kind, write.units.len() as u64),
            None => (Written::Rest, 0),
        };
        let counters = &mut state.counters;
        match kind {
            Written::Page { is_moved: true, .. } => counters.log_pages_moved += 1,
            Written::Page { is_partial, .. } => {
                counters.log_pages += 1;
                counters.log_pages_partial += u64::from(is_partial);
            }
            Written::Rest => {}
            Written::Records => counters.record_units += units,
        }
        // Only now: until the write buffer has the units, reads find them in the queue.
        state.queue.pop();
        drop(state);
        inner.changed.notify_all();
    }
}

impl Inner {
    /// Writes everything that the logs hold, and waits until it is durable.
    pub(super) async fn flush_logs(&self, span: SpanId, spans: &Spans) -> Result<(), KvError> {
        // A format discards what the logs hold, so nothing is left to write after it.
        while self.state.borrow().is_formatting && !self.state.borrow().is_stopped {
            self.changed.notified().await;
        }
        let target = self.step(|state| {
            let State { logs, queue, .. } = state;
            logs.iter_mut().for_each(|log| log.flush(queue));
            queue.queued
        });
        self.written_to(target).await?;
        Ok(self.units.ftl().flush(span, spans).await?)
    }

    /// Waits until everything queued at the time of the call has been written.
    pub(super) async fn drain(&self) -> Result<(), KvError> {
        let target = self.state.borrow().queue.queued;
        self.written_to(target).await
    }

    async fn written_to(&self, target: u64) -> Result<(), KvError> {
        loop {
            {
                let state = self.state.borrow();
                state.check()?;
                if state.queue.done >= target {
                    return Ok(());
                }
            }
            self.changed.notified().await;
        }
    }

    /// Reads one unit of a table, through the cache.
    pub(super) async fn index_unit(
        &self,
        span: SpanId,
        spans: &Spans,
        table: &Table,
        unit: u32,
    ) -> Result<UnitBytes, KvError> {
        let name = table.unit_name(unit);
        {
            let mut state = self.state.borrow_mut();
            if let Some(bytes) = state.cache.get(name) {
                state.counters.cache_hits += 1;
                return Ok(bytes);
            }
            state.counters.index_units_read += 1;
        }
        let mut contents = self.take_contents();
        let first = self.layout.first(table.segment) + u64::from(unit);
        let read = self.units.read(span, spans, first, 1, &mut contents).await;
        let bytes = contents.first().map(bytes_of);
        self.give_contents(contents);
        read?;
        let bytes = bytes.filter(|bytes| Entries::new(bytes, table.number).is_some());
        let bytes = bytes.ok_or(KvError::Media(MediaError::Unreadable))?;
        self.state.borrow_mut().cache.put(name, bytes.clone());
        Ok(bytes)
    }

    pub(super) fn take_contents(&self) -> Vec<Content> {
        self.state.borrow_mut().contents.pop().unwrap_or_default()
    }

    pub(super) fn give_contents(&self, mut contents: Vec<Content>) {
        contents.clear();
        self.state.borrow_mut().contents.push(contents);
    }

    /// Reads units of a segment of the value log, in their current state.
    pub(super) async fn log_units(
        &self,
        span: SpanId,
        spans: &Spans,
        segment: u32,
        unit: u32,
        count: u32,
        out: &mut Vec<Content>,
    ) -> Result<(), MediaError> {
        let first = self.layout.first(segment);
        let resident = |unit: u32| {
            let state = self.state.borrow();
            let in_log = state.logs.iter().find_map(|log| log.get(segment, unit));
            in_log.or_else(|| state.queue.get(first + u64::from(unit))).cloned().map(Content::Bytes)
        };
        let mut part = Vec::new();
        let mut next = unit;
        let end = unit + count;
        while next < end {
            if let Some(content) = resident(next) {
                out.push(content);
                next += 1;
                continue;
            }
            let mut stop = next + 1;
            let mut after = None;
            while stop < end {
                after = resident(stop);
                if after.is_some() {
                    break;
                }
                stop += 1;
            }
            if stop == unit + count && out.is_empty() {
                self.units.read(span, spans, first + u64::from(next), stop - next, out).await?;
            } else {
                self.units.read(span, spans, first + u64::from(next), stop - next, &mut part).await?;
                out.append(&mut part);
            }
            next = stop;
            if let Some(content) = after {
                out.push(content);
                next += 1;
            }
        }
        Ok(())
    }

    /// Appends the bytes of a value from `offset` on. A part that is read as a whole is verified against its checksum.
    pub(super) async fn read_value(
        &self,
        span: SpanId,
        spans: &Spans,
        entry: &Entry,
        offset: u32,
        bytes_max: u32,
        into: &mut Vec<u8>,
    ) -> Result<(), KvError> {
        let (mut skip, mut left) = (offset, bytes_max);
        for place in entry.extents() {
            if skip >= place.bytes && place.bytes > 0 {
                skip -= place.bytes;
                continue;
            }
            let count = left.min(place.bytes.saturating_sub(skip));
            if count == 0 {
                break;
            }
            self.read_place(span, spans, place, skip, count, into).await?;
            (skip, left) = (0, left - count);
        }
        Ok(())
    }

    async fn read_place(
        &self,
        span: SpanId,
        spans: &Spans,
        place: &ValueExtent,
        skip: u32,
        bytes: u32,
        into: &mut Vec<u8>,
    ) -> Result<(), KvError> {
        let (from, to) = (place.offset + skip, place.offset + skip + bytes);
        let (unit, count) = (from / UNIT, to.div_ceil(UNIT) - from / UNIT);
        let mut contents = self.take_contents();
        let read = self.log_units(span, spans, place.segment, unit, count, &mut contents).await;
        let begin = into.len();
        if read.is_ok() {
            let mut at = from;
            for content in &contents {
                let stop = to.min((at / UNIT + 1) * UNIT);
                let old = into.len();
                into.resize(old + (stop - at) as usize, 0);
                content.write_part((at % UNIT) as usize, &mut into[old..]);
                at = stop;
            }
            self.state.borrow_mut().counters.value_units_read += u64::from(count);
        }
        self.give_contents(contents);
        read?;
        if bytes == place.bytes && crc32c::crc32c(&into[begin..]) != place.crc {
            into.truncate(begin);
            return Err(KvError::Media(MediaError::Unreadable));
        }
        Ok(())
    }
}
