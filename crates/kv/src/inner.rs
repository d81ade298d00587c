//! The parts of a store, and the steps that all its operations share.

use super::config::{KvConfig, KvError};
use super::filter;
use super::key::Key;
use super::segments::Layout;
use super::state::{HOST, Lookup, Refusal, State};
use super::table::Entries;
use super::units::Units;
use super::version;
use byteway_clock::{Awaited, Clock, Notify, SpanId, Spans, Stage, TaskId};
use byteway_firmware::{MediaError, Placement, WorkKind};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

pub(super) struct Inner {
    pub(super) clock: Clock,
    pub(super) placement: Placement,
    pub(super) config: KvConfig,
    pub(super) layout: Rc<Layout>,
    pub(super) units: Units,
    pub(super) state: RefCell<State>,
    pub(super) is_ready: Cell<bool>,
    pub(super) readied: Notify,
    /// The write queue is not empty.
    pub(super) queued: Notify,
    /// The upkeep task has work.
    pub(super) upkeep: Notify,
    /// Space may be free, the queue is shorter, or the state has changed otherwise.
    pub(super) changed: Notify,
    /// Formats requested, and done.
    pub(super) formats: Cell<(u64, u64)>,
    pub(super) tasks: RefCell<Vec<TaskId>>,
}

/// A key-value store. Cheap to clone.
#[derive(Clone)]
pub struct Kv(pub(super) Rc<Inner>);

/// Protects segments that are given up from reuse while it exists.
pub(super) struct Pin<'a> {
    inner: &'a Inner,
    epoch: u64,
}

impl Drop for Pin<'_> {
    fn drop(&mut self) {
        self.inner.unpin(self.epoch);
    }
}

impl Inner {
    /// Takes a step, and wakes the tasks that have work afterwards.
    pub(super) fn step<T>(&self, step: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state.borrow_mut();
        let done = step(&mut state);
        let has_writes = !state.queue.writes.is_empty();
        let wants = state.wants;
        let calls = wants.pool || wants.space || wants.sums || !state.full.is_empty();
        drop(state);
        if has_writes && self.queued.waiting() > 0 {
            self.queued.notify_one();
        }
        if calls && self.upkeep.waiting() > 0 {
            self.upkeep.notify_one();
        }
        done
    }

    /// Waits until a refused step may succeed, or returns the error.
    pub(super) async fn wait_for(
        &self,
        span: SpanId,
        spans: &Spans,
        refusal: Refusal,
    ) -> Result<(), KvError> {
        match refusal {
            Refusal::Error(error) => return Err(error),
            Refusal::Stale | Refusal::Look => {}
            Refusal::Wait => {
                self.state.borrow_mut().counters.stalls += 1;
                self.changed.notified().await;
                spans.wait(span, self.clock.now(), Awaited::Buffer);
            }
        }
        Ok(())
    }

    /// Opens a log segment for the host's values, if a free one is in the pool.
    pub(super) fn open_log(&self) {
        if self.is_ready.get() && self.state.borrow().logs[HOST].segment().is_none() {
            _ = self.step(|state| state.next_segment(HOST));
        }
    }

    pub(super) fn pin(&self) -> Pin<'_> {
        Pin { inner: self, epoch: self.state.borrow_mut().segments.pin() }
    }

    pub(super) fn unpin(&self, epoch: u64) {
        let frees = self.state.borrow_mut().segments.unpin(epoch);
        if frees {
            self.upkeep.notify_one();
        }
    }

    pub(super) async fn charge_index(&self, span: SpanId, spans: &Spans) {
        let service = self.placement.run(WorkKind::Index, 1).await;
        spans.charge_split(span, self.clock.now(), service.queued, Stage::Firmware);
    }

    /// Charges the processor's copy of `bytes` bytes.
    pub(super) async fn charge_copy(&self, span: SpanId, spans: &Spans, bytes: u32) {
        let service = self.placement.run(WorkKind::Pack, u64::from(bytes.div_ceil(64))).await;
        spans.charge_split(span, self.clock.now(), service.queued, Stage::Firmware);
        let passage = self.placement.site(WorkKind::Pack).dram("into a log page", u64::from(bytes));
        self.clock.sleep_until(passage.arrival).await;
        spans.charge_split(span, self.clock.now(), passage.queued, Stage::Dram);
    }

    /// Looks up a key. A tombstone is an entry, too.
    pub(super) async fn find(&self, span: SpanId, spans: &Spans, key: &Key) -> Result<Lookup, KvError> {
        let (version, found) = {
            let state = self.state.borrow();
            state.check_known()?;
            if let Some(entry) = state.find_in_memory(key) {
                return Ok(state.found(Some(entry), true));
            }
            (state.version.clone(), state.found(None, false))
        };
        let hash = filter::hash(key, self.config.seed);
        let _pin = self.pin();
        for run in version.runs() {
            let Some(slice) = version::find(run, key) else { continue };
            let table = &slice.table;
            if table.filter.as_ref().is_some_and(|filter| !filter.may_hold(hash)) {
                self.state.borrow_mut().counters.filter_hits += 1;
                continue;
            }
            let Some(unit) = table.unit_of(key) else { continue };
            let bytes = self.index_unit(span, spans, table, unit).await?;
            if let Some(entry) = Entries::find(&bytes, key) {
                if !self.layout.holds(&entry) {
                    return Err(KvError::Media(MediaError::Unreadable));
                }
                return Ok(Lookup { entry: Some(entry), ..found });
            }
            self.state.borrow_mut().counters.filter_misses += 1;
        }
        Ok(found)
    }

    /// Records a failure of flash: from now on the store only reads. Queued writes stay in the queue, where reads find
    /// them.
    pub(super) fn fail(&self, error: MediaError) {
        self.state.borrow_mut().failed.get_or_insert(error);
        self.changed.notify_all();
    }
}
