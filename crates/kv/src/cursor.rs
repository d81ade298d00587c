//! A cursor: a snapshot of the key-value pairs, read in key order.

use super::config::KvError;
use super::core::Core;
use super::index::Snapshot;
use super::key::Key;
use super::merge::RunReader;
use super::read::read_value;
use super::record::Entry;
use super::version::Run;
use byteway_clock::{SpanId, Spans};
use std::rc::Rc;

/// A snapshot of the key-value pairs, in key order from a start key on. While it exists, the segments that it reads are
/// not reused.
pub struct Cursor {
    core: Rc<Core>,
    /// Lower bound of the next key; `None` past the greatest key.
    from: Option<Key>,
    view: Option<Snapshot>,
    /// The pin of the segments that it reads.
    epoch: u64,
    /// The host may keep it open indefinitely, so no operation waits for its end.
    is_lasting: bool,
    heads: Vec<Option<(Key, Entry)>>,
    readers: Vec<RunReader>,
}

impl Cursor {
    pub(super) fn new(core: Rc<Core>, from: Key, is_lasting: bool) -> Cursor {
        let (heads, readers) = (Vec::new(), Vec::new());
        let mut cursor = Cursor { core, from: Some(from), view: None, epoch: 0, is_lasting, heads, readers };
        if cursor.core.is_ready.get() {
            cursor.open();
        }
        cursor
    }

    fn open(&mut self) {
        let Some(from) = self.from else { return };
        let mut state = self.core.state.borrow_mut();
        let view = state.index.take_snapshot(self.is_lasting);
        self.epoch = state.segments.pin();
        self.readers = view.version.runs().map(|run| RunReader::new(&from_key(run, &from))).collect();
        let heads = view.memtables.iter().map(|memtable| memtable.borrow().first_seen(&from, view.sequence));
        self.heads = heads.collect();
        self.view = Some(view);
    }

    /// The next key. Its value replaces the contents of `into`. `None` after the last.
    ///
    /// # Errors
    /// [`KvError::Media`] if flash can't be read.
    pub async fn next(
        &mut self,
        span: SpanId,
        spans: &Spans,
        into: &mut Vec<u8>,
    ) -> Result<Option<Key>, KvError> {
        into.clear();
        let Some((key, entry)) = self.next_entry(span, spans).await? else { return Ok(None) };
        read_value(&self.core, span, spans, &entry, 0, u32::MAX, into).await?;
        Ok(Some(key))
    }

    pub(super) async fn next_entry(
        &mut self,
        span: SpanId,
        spans: &Spans,
    ) -> Result<Option<(Key, Entry)>, KvError> {
        self.core.ready().await;
        if self.view.is_none() {
            self.open();
        }
        self.core.state.borrow().standing.check_known()?;
        loop {
            for reader in &mut self.readers {
                if reader.is_empty() {
                    reader.fill_for(&self.core, span, spans).await?;
                }
            }
            let Some(view) = &self.view else { return Ok(None) };
            let heads = self.heads.iter().flatten().map(|(key, _)| *key);
            let heads = heads.chain(self.readers.iter().filter_map(|reader| Some(reader.head()?.0)));
            let Some(key) = heads.min() else { return Ok(None) };
            let mut newest: Option<Entry> = None;
            for (head, memtable) in self.heads.iter_mut().zip(&view.memtables) {
                if head.as_ref().is_some_and(|(found, _)| *found == key) {
                    let taken = head.take().map(|(_, entry)| entry);
                    newest = newest.or(taken);
                    *head = key.next().and_then(|next| memtable.borrow().first_seen(&next, view.sequence));
                }
            }
            for reader in &mut self.readers {
                if reader.head().is_some_and(|(found, _)| *found == key) {
                    let taken = reader.pop().map(|(_, entry)| entry);
                    newest = newest.or(taken);
                }
            }
            self.from = key.next();
            if let Some(entry) = newest.filter(|entry| !entry.is_tombstone()) {
                return Ok(Some((key, entry)));
            }
        }
    }
}

/// The part of a run from a key on.
fn from_key(run: &Run, from: &Key) -> Run {
    let mut slices: Run = run.iter().filter(|slice| slice.table.last >= *from).cloned().collect();
    slices.iter_mut().for_each(|slice| slice.from = slice.from.max(*from));
    slices
}

impl Drop for Cursor {
    fn drop(&mut self) {
        let Some(view) = self.view.take() else { return };
        {
            let mut state = self.core.state.borrow_mut();
            if state.index.end_snapshot(view.sequence, self.is_lasting) {
                state.wants.replenish();
            }
        }
        drop(view.version);
        self.core.unpin(self.epoch);
    }
}
