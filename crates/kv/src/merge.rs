//! Sequential readers of runs, and the merge order over them.

use super::config::KvError;
use super::core::Core;
use super::key::Key;
use super::read::index_unit;
use super::record::Entry;
use super::table::{Entries, Slice};
use super::units::bytes_of;
use super::version::Run;
use byteway_clock::{SpanId, Spans};
use byteway_firmware::MediaError;
use std::collections::VecDeque;

/// Units of a table that are read in one request.
const READ_UNITS: u32 = 16;

/// A sequential reader of a run.
pub(super) struct RunReader {
    slices: VecDeque<Slice>,
    unit: u32,
    entries: VecDeque<(Key, Entry)>,
    /// The first slice is unread.
    is_whole: bool,
}

impl RunReader {
    pub(super) fn new(run: &Run) -> RunReader {
        RunReader { slices: run.iter().cloned().collect(), unit: 0, entries: VecDeque::new(), is_whole: true }
    }

    /// Next entry of the run; `None` after the last. Call [`RunReader::fill`] first.
    pub(super) fn head(&self) -> Option<&(Key, Entry)> {
        self.entries.front()
    }

    pub(super) fn pop(&mut self) -> Option<(Key, Entry)> {
        self.is_whole = false;
        self.entries.pop_front()
    }

    /// Whether the buffered entries are used up and the run has more.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty() && !self.slices.is_empty()
    }

    /// The slice whose first entry is next, if none of its entries was taken.
    pub(super) fn whole(&self) -> Option<&Slice> {
        self.slices.front().filter(|_| self.is_whole)
    }

    /// Skips that slice.
    pub(super) fn skip(&mut self) -> Option<Slice> {
        self.entries.clear();
        (self.unit, self.is_whole) = (0, true);
        self.slices.pop_front()
    }

    /// Rejects entries whose value extents are outside the segments: the media may hold anything.
    fn check(&self, core: &Core) -> Result<(), KvError> {
        let is_sound = self.entries.iter().all(|(_, entry)| core.layout.holds(entry));
        is_sound.then_some(()).ok_or(KvError::Media(MediaError::Unreadable))
    }

    /// Like [`RunReader::fill`], for a cursor: one unit at a time, through the cache.
    pub(super) async fn fill_for(&mut self, core: &Core, span: SpanId, spans: &Spans) -> Result<(), KvError> {
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
            let bytes = index_unit(core, span, spans, &table, self.unit).await?;
            let entries = Entries::new(&bytes, table.number).into_iter().flatten();
            self.entries.extend(entries.filter(|(key, _)| *key >= from));
            self.check(core)?;
            self.unit += 1;
        }
        Ok(())
    }

    /// Reads the next units once the buffered entries are used up.
    pub(super) async fn fill(&mut self, core: &Core, spans: &Spans) -> Result<(), KvError> {
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
            let mut contents = core.take_contents();
            let first = core.layout.first(table.segment) + u64::from(self.unit);
            let read = core.units.read(SpanId::NONE, spans, first, count, &mut contents).await;
            core.state.borrow_mut().counters.index_units_merged += u64::from(count);
            let mut is_good = true;
            for content in &contents {
                let bytes = bytes_of(content);
                match Entries::new(&bytes, table.number) {
                    Some(entries) => self.entries.extend(entries.filter(|(key, _)| *key >= slice.from)),
                    None => is_good = false,
                }
            }
            core.give_contents(contents);
            read?;
            if !is_good {
                return Err(KvError::Media(MediaError::Unreadable));
            }
            self.check(core)?;
            self.unit += count;
        }
        Ok(())
    }
}

/// The reader with the smallest key; among equal keys the first, which is the newest run.
pub(super) fn smallest(readers: &[RunReader]) -> Option<usize> {
    let heads = readers.iter().enumerate().filter_map(|(at, reader)| Some((at, &reader.head()?.0)));
    heads.reduce(|best, other| if other.1 < best.1 { other } else { best }).map(|(at, _)| at)
}
