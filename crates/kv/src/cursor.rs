//! A cursor: a snapshot of the key-value pairs, read in key order.

use super::config::KvError;
use super::inner::{Inner, Kv};
use super::key::Key;
use super::memtable::Memtable;
use super::merge::RunReader;
use super::record::Entry;
use super::version::{Run, Version};
use byteway_clock::{SpanId, Spans};
use std::cell::RefCell;
use std::rc::Rc;

/// The memtables and tables that a cursor reads.
struct View {
    snapshot: u64,
    epoch: u64,
    /// The newest first.
    memtables: Vec<Rc<RefCell<Memtable>>>,
    version: Rc<Version>,
}

/// A snapshot of the key-value pairs, in key order from a start key on. While it exists, the segments that it reads are
/// not reused.
pub struct Cursor {
    kv: Kv,
    /// Lower bound of the next key; `None` past the greatest key.
    from: Option<Key>,
    view: Option<View>,
    /// The host may keep it open indefinitely, so no operation waits for its end.
    is_lasting: bool,
    heads: Vec<Option<(Key, Entry)>>,
    readers: Vec<RunReader>,
}

impl Cursor {
    pub(super) fn new(kv: Kv, from: Key, is_lasting: bool) -> Cursor {
        let mut cursor =
            Cursor { kv, from: Some(from), view: None, is_lasting, heads: Vec::new(), readers: Vec::new() };
        if cursor.kv.0.is_ready.get() {
            cursor.open();
        }
        cursor
    }

    fn open(&mut self) {
        let Some(from) = self.from else { return };
        let mut guard = self.kv.0.state.borrow_mut();
        let state = &mut *guard;
        let memtables = std::iter::once(&state.memtable).chain(state.full.iter().rev()).cloned().collect();
        let snapshot = state.next_sequence - 1;
        *state.snapshots.entry(snapshot).or_default() += 1;
        state.lasting += u32::from(self.is_lasting);
        let epoch = state.segments.pin();
        let version = state.version.clone();
        self.readers = version.runs().map(|run| RunReader::new(&from_key(run, &from))).collect();
        let view = View { snapshot, epoch, memtables, version };
        self.heads =
            view.memtables.iter().map(|memtable| memtable.borrow().first_seen(&from, snapshot)).collect();
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
        self.kv.0.read_value(span, spans, &entry, 0, u32::MAX, into).await?;
        Ok(Some(key))
    }

    pub(super) async fn next_entry(
        &mut self,
        span: SpanId,
        spans: &Spans,
    ) -> Result<Option<(Key, Entry)>, KvError> {
        self.kv.ready().await;
        if self.view.is_none() {
            self.open();
        }
        let kv = self.kv.clone();
        kv.0.state.borrow().check_known()?;
        loop {
            for reader in &mut self.readers {
                if reader.is_empty() {
                    reader.fill_for(&kv.0, span, spans).await?;
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
                    *head = key.next().and_then(|next| memtable.borrow().first_seen(&next, view.snapshot));
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
        let inner: &Inner = &self.kv.0;
        {
            let mut state = inner.state.borrow_mut();
            state.lasting -= u32::from(self.is_lasting);
            if let Some(count) = state.snapshots.get_mut(&view.snapshot) {
                *count -= 1;
                if *count == 0 {
                    state.snapshots.remove(&view.snapshot);
                    state.exhausted_at = None;
                }
            }
        }
        drop(view.version);
        inner.unpin(view.epoch);
    }
}
