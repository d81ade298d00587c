//! What a store is made of, and the steps that all its operations share. What it does is in the files above this one,
//! each of which knows those below it.

use super::config::{KvConfig, KvError};
use super::layout::Layout;
use super::standing::Refusal;
use super::state::State;
use super::units::Units;
use super::values::HOST;
use byteway_clock::{Awaited, Clock, Notify, SpanId, Spans, Stage, TaskId};
use byteway_content::Content;
use byteway_firmware::{MediaError, Placement, WorkKind};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// A store, shared by its tasks.
pub(super) struct Core {
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
    /// Emptied vectors, for reuse.
    spare: RefCell<Vec<Vec<Content>>>,
}

/// Protects segments that are given up from reuse while it exists.
pub(super) struct Pin<'a> {
    core: &'a Core,
    epoch: u64,
}

impl Drop for Pin<'_> {
    fn drop(&mut self) {
        self.core.unpin(self.epoch);
    }
}

impl Core {
    pub(super) fn new(
        clock: &Clock,
        placement: Placement,
        units: Units,
        layout: Rc<Layout>,
        config: KvConfig,
    ) -> Core {
        Core {
            clock: clock.clone(),
            placement,
            state: RefCell::new(State::new(&config, &layout)),
            config,
            layout,
            units,
            is_ready: Cell::new(false),
            readied: Notify::new(clock),
            queued: Notify::new(clock),
            upkeep: Notify::new(clock),
            changed: Notify::new(clock),
            formats: Cell::default(),
            tasks: RefCell::default(),
            spare: RefCell::default(),
        }
    }

    /// Waits until recovery has ended, successfully or not, or the store is stopped.
    pub(super) async fn ready(&self) {
        while !self.is_ready.get() && !self.state.borrow().standing.is_stopped() {
            self.readied.notified().await;
        }
    }

    /// Takes a step, and wakes the tasks that have work afterwards.
    pub(super) fn step<T>(&self, step: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state.borrow_mut();
        let done = step(&mut state);
        let has_writes = state.values.queue().len() > 0;
        let calls = state.wants.has_any() || state.index.full() > 0;
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
        if self.is_ready.get() && self.state.borrow().values.host().segment().is_none() {
            _ = self.step(|state| state.next_segment(HOST));
        }
    }

    pub(super) fn pin(&self) -> Pin<'_> {
        Pin { core: self, epoch: self.state.borrow_mut().segments.pin() }
    }

    pub(super) fn unpin(&self, epoch: u64) {
        let frees = self.state.borrow_mut().segments.unpin(epoch);
        if frees {
            self.upkeep.notify_one();
        }
    }

    /// Records a failure of flash: from now on the store only reads. Queued writes stay in the queue, where reads find
    /// them.
    pub(super) fn fail(&self, error: MediaError) {
        self.state.borrow_mut().standing.fail(error);
        self.changed.notify_all();
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

    pub(super) fn take_contents(&self) -> Vec<Content> {
        self.spare.borrow_mut().pop().unwrap_or_default()
    }

    pub(super) fn give_contents(&self, mut contents: Vec<Content>) {
        contents.clear();
        self.spare.borrow_mut().push(contents);
    }
}
