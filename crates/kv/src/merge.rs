//! Entries of several runs in one order.

use super::config::KvError;
use super::inner::Inner;
use super::key::Key;
use super::record::Entry;
use super::table::{Entries, Slice};
use super::units::bytes_of;
use super::version::Run;
use byteway_clock::{SpanId, Spans};
use byteway_firmware::MediaError;
use std::collections::VecDeque;

/// Units of a table that are read at once.
const READ_UNITS: u32 = 16;

/// A run that is read from its first entry on.
pub(super) struct RunReader {
    slices: VecDeque<Slice>,
    unit: u32,
    entries: VecDeque<(Key, Entry)>,
    /// It has a slice of which nothing has been read.
    is_whole: bool,
}

impl RunReader {
    pub(super) fn new(run: &Run) -> RunReader {
        RunReader { slices: run.iter().cloned().collect(), unit: 0, entries: VecDeque::new(), is_whole: true }
    }

    /// Its next entry; none behind the last, if [`RunReader::fill`] was called.
    pub(super) fn head(&self) -> Option<&(Key, Entry)> {
        self.entries.front()
    }

    pub(super) fn pop(&mut self) -> Option<(Key, Entry)> {
        self.is_whole = false;
        self.entries.pop_front()
    }

    /// Whether [`RunReader::fill`] has something to read.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty() && !self.slices.is_empty()
    }

    /// The slice whose first entry is next, if nothing of it was taken.
    pub(super) fn whole(&self) -> Option<&Slice> {
        self.slices.front().filter(|_| self.is_whole)
    }

    /// Leaves that slice out.
    pub(super) fn skip(&mut self) -> Option<Slice> {
        self.entries.clear();
        (self.unit, self.is_whole) = (0, true);
        self.slices.pop_front()
    }

    /// Whether what was read can be.
    fn check(&self, inner: &Inner) -> Result<(), KvError> {
        let is_sound = self.entries.iter().all(|(_, entry)| inner.layout.holds(entry));
        is_sound.then_some(()).ok_or(KvError::Media(MediaError::Unreadable))
    }

    /// The same for a cursor: a unit at a time, and by the cache.
    pub(super) async fn fill_for(
        &mut self,
        inner: &Inner,
        span: SpanId,
        spans: &Spans,
    ) -> Result<(), KvError> {
        while self.entries.is_empty() {
            let Some(slice) = self.slices.front() else { return Ok(()) };
            let table = slice.table.clone();
            if self.unit == 0 {
                self.unit = table.unit_of(&slice.from).unwrap_or(0);
            }
            if self.unit >= table.data_units {
                self.unit = 0;
                self.slices.pop_front();
                continue;
            }
            let from = slice.from;
            let bytes = inner.index_unit(span, spans, &table, self.unit).await?;
            let entries = Entries::new(&bytes, table.number).into_iter().flatten();
            self.entries.extend(entries.filter(|(key, _)| *key >= from));
            self.check(inner)?;
            self.unit += 1;
        }
        Ok(())
    }

    /// Reads on, if nothing is left of what was read.
    pub(super) async fn fill(&mut self, inner: &Inner, spans: &Spans) -> Result<(), KvError> {
        while self.entries.is_empty() {
            let Some(slice) = self.slices.front() else { return Ok(()) };
            let table = &slice.table;
            if self.unit == 0 {
                self.unit = table.unit_of(&slice.from).unwrap_or(0);
                self.is_whole = true;
            }
            if self.unit >= table.data_units {
                self.unit = 0;
                self.slices.pop_front();
                continue;
            }
            let count = READ_UNITS.min(table.data_units - self.unit);
            let mut contents = inner.take_contents();
            let first = inner.layout.first(table.segment) + u64::from(self.unit);
            let read = inner.units.read(SpanId::NONE, spans, first, count, &mut contents).await;
            inner.state.borrow_mut().counters.index_units_merged += u64::from(count);
            let mut is_good = true;
            for content in &contents {
                let bytes = bytes_of(content);
                match Entries::new(&bytes, table.number) {
                    Some(entries) => self.entries.extend(entries.filter(|(key, _)| *key >= slice.from)),
                    None => is_good = false,
                }
            }
            inner.give_contents(contents);
            read?;
            if !is_good {
                return Err(KvError::Media(MediaError::Unreadable));
            }
            self.check(inner)?;
            self.unit += count;
        }
        Ok(())
    }
}

/// The reader whose head is the smallest; among equal keys the first.
pub(super) fn smallest(readers: &[RunReader]) -> Option<usize> {
    let heads = readers.iter().enumerate().filter_map(|(at, reader)| Some((at, &reader.head()?.0)));
    heads.reduce(|best, other| if other.1 < best.1 { other } else { best }).map(|(at, _)| at)
}
