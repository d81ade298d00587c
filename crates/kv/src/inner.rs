//! What a store is made of, and the steps that all its verbs share.

use super::config::{KvConfig, KvError};
use super::filter;
use super::key::Key;
use super::segments::Layout;
use super::state::{Found, HOST, Refusal, State};
use super::table::Entries;
use super::units::Units;
use super::version;
use byteway_clock::{Clock, Notify, SpanId, Spans, Stage, TaskId};
use byteway_firmware::{MediaError, Placement, Work};
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
    /// There is something to be written.
    pub(super) queued: Notify,
    /// Somebody wants something of the upkeep.
    pub(super) upkeep: Notify,
    /// There may be room, or the queue is shorter.
    pub(super) changed: Notify,
    /// Formats that were asked for, and done.
    pub(super) formats: Cell<(u64, u64)>,
    pub(super) tasks: RefCell<Vec<TaskId>>,
}

/// A key-value store. Cheap to clone.
#[derive(Clone)]
pub struct Kv(pub(super) Rc<Inner>);

/// Segments that are given up are not used again while this is there.
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
    /// Makes a step, and calls those who have something to do then.
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

    /// A step could not be made: waits until it may be, or gives the error.
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
                spans.charge(span, self.clock.now(), Stage::Queueing);
            }
        }
        Ok(())
    }

    /// A log for the host's values is open, if there is a segment for it.
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
        let service = self.placement.run(Work::Index, 1).await;
        spans.charge_split(span, self.clock.now(), service.queued, Stage::Firmware);
    }

    /// The processor copies bytes.
    pub(super) async fn charge_copy(&self, span: SpanId, spans: &Spans, bytes: u32) {
        let service = self.placement.run(Work::Pack, u64::from(bytes.div_ceil(64))).await;
        spans.charge_split(span, self.clock.now(), service.queued, Stage::Firmware);
        let passage = self.placement.site(Work::Pack).dram("into a log page", u64::from(bytes));
        self.clock.sleep_until(passage.arrival).await;
        spans.charge_split(span, self.clock.now(), passage.queued, Stage::Dram);
    }

    /// What is known of a key: a tombstone is found, too.
    pub(super) async fn find(&self, span: SpanId, spans: &Spans, key: &Key) -> Result<Found, KvError> {
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
                return Ok(Found { entry: Some(entry), ..found });
            }
            self.state.borrow_mut().counters.filter_misses += 1;
        }
        Ok(found)
    }

    /// A failure of flash ends everything but reading. What waits to be written stays where it is read from.
    pub(super) fn fail(&self, error: MediaError) {
        self.state.borrow_mut().failed.get_or_insert(error);
        self.changed.notify_all();
    }
}
