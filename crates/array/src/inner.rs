//! The parts of an array, and how they send to members.

use crate::area::Area;
use crate::config::{ArrayConfig, Level};
use crate::counters::{Cause, Counting};
use crate::group::{Groups, LentGroup, Verb};
use crate::intent::Intents;
use crate::journal::Journal;
use crate::layout::Layout;
use crate::lost::Lost;
use crate::port::Port;
use crate::read::Fragment;
use crate::rebuild::Rebuild;
use crate::superblock::SlotState;
use byteway_clock::{
    Clock, Delay, Notify, RangeLock, RangeLocks, RangeUse, Semaphore, SpanId, Stage, TaskId,
};
use byteway_content::{Content, UNIT_BYTES};
use byteway_firmware::{Placement, WorkContext, WorkKind};
use byteway_member::{MemberError, MemberLost};
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;

pub(crate) struct Inner {
    pub(crate) clock: Clock,
    pub(crate) placement: Placement,
    pub(crate) config: ArrayConfig,
    pub(crate) layout: Layout,
    pub(crate) area: Area,
    pub(crate) member_units: u64,
    pub(crate) slots: RefCell<Slots>,
    /// Drives of no array that were found at assembly.
    pub(crate) unused: RefCell<Vec<Rc<Port>>>,
    pub(crate) locks: RangeLocks,
    pub(crate) groups: Groups,
    pub(crate) intents: Intents,
    pub(crate) lost: RefCell<Lost>,
    pub(crate) journal: Journal,
    pub(crate) counting: Counting,
    /// The last rebuild.
    pub(crate) rebuild: Cell<Option<Rebuild>>,
    pub(crate) gate: Gate,
    /// Turn to write superblocks: one task at a time.
    pub(crate) superblock_turn: Semaphore,
    /// Stripes from here on need no repair, whatever their region's mark: they were degraded at the power
    /// cut.
    pub(crate) unsynced_below: Cell<u64>,
    pub(crate) events: Cell<u64>,
    /// Event number with which each slot's member joined.
    pub(crate) joined: RefCell<Vec<u32>>,
    /// Turn to write the bitmaps of lost units: one task at a time.
    pub(crate) lost_turn: Semaphore,
    pub(crate) record: RefCell<Option<Rc<[u8]>>>,
    pub(crate) record_number: Cell<u64>,
    /// Notified when the health may have become worse.
    pub(crate) health_changed: Notify,
    /// Notified when a member may have failed.
    pub(crate) fails: Notify,
    /// Notified when there may be something to rebuild or to repair.
    pub(crate) upkeep: Notify,
    /// Host I/Os in flight.
    pub(crate) attending: Cell<u32>,
    /// Reusable vectors for dividing reads.
    pub(crate) fragments: RefCell<Vec<Vec<Fragment>>>,
    /// Reusable vectors.
    pub(crate) scratch: RefCell<Vec<Vec<Content>>>,
    pub(crate) tasks: RefCell<Vec<TaskId>>,
}

/// The members and their states.
pub(crate) struct Slots {
    pub(crate) ports: Vec<Option<Rc<Port>>>,
    pub(crate) states: Vec<SlotState>,
    /// States that are durable on the members.
    pub(crate) durable: Vec<SlotState>,
    /// For each slot being rebuilt: the stripe below which the new member is durably complete.
    pub(crate) flushed: Vec<u64>,
    /// Slots that have failed since, with their previous states.
    pub(crate) failed: Vec<(usize, SlotState)>,
    /// Too many members have failed.
    pub(crate) is_broken: bool,
}

/// Keeps writes out while the members' states change.
pub(crate) struct Gate {
    pub(crate) is_closed: Cell<bool>,
    pub(crate) in_flight: Cell<u32>,
    /// Notified when a slot has failed.
    pub(crate) failed: Notify,
    pub(crate) drained: Notify,
    pub(crate) opened: Notify,
}

impl Gate {
    pub(crate) fn new(clock: &Clock) -> Self {
        let notify = || Notify::new(clock);
        Gate {
            is_closed: Cell::default(),
            in_flight: Cell::default(),
            failed: notify(),
            drained: notify(),
            opened: notify(),
        }
    }

    /// Waits until a state change in progress is durable.
    pub(crate) async fn open(&self) {
        while self.is_closed.get() {
            self.opened.notified().await;
        }
    }

    /// Enters the gate: states do not change until the result is dropped.
    pub(crate) async fn enter(&self) -> Entered<'_> {
        self.open().await;
        self.in_flight.set(self.in_flight.get() + 1);
        Entered(self)
    }
}

/// A write in flight.
pub(crate) struct Entered<'a>(&'a Gate);

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.0.in_flight.set(self.0.in_flight.get() - 1);
        if self.0.in_flight.get() == 0 {
            self.0.drained.notify_one();
        }
    }
}

/// A host I/O, until dropped.
pub(crate) struct Attending<'a>(&'a Cell<u32>);

impl Drop for Attending<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// Reason why a write was not carried out.
pub(crate) enum Stopped {
    /// A member failed before anything was written: retry with the others.
    Again,
    /// Too many members have failed.
    Broken,
    /// Data of the stripe that the parity needs are unreadable.
    Unreadable,
}

impl Inner {
    pub(crate) fn attend(&self) -> Attending<'_> {
        self.attending.set(self.attending.get() + 1);
        Attending(&self.attending)
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.slots.borrow().is_broken
    }

    /// Whether a slot's member holds its data of a stripe.
    pub(crate) fn has(&self, slot: usize, stripe: u64) -> bool {
        self.slots.borrow().states[slot].has(stripe)
    }

    /// Whether writes of a stripe must be journaled: a member is missing according to the durable state.
    pub(crate) fn is_degraded(&self, stripe: u64) -> bool {
        !self.slots.borrow().durable.iter().all(|state| state.has(stripe))
    }

    /// Slots with a member, rebuilt or not.
    pub(crate) fn present(&self) -> Vec<usize> {
        let slots = self.slots.borrow();
        let is_there =
            |slot: &usize| slots.states[*slot] != SlotState::Failed && slots.ports[*slot].is_some();
        (0..slots.states.len()).filter(is_there).collect()
    }

    /// Locks units against other changes; with parity, whole stripes.
    pub(crate) async fn lock(&self, first: u64, count: u64) -> RangeLock {
        let mut range = first..first + count;
        if self.layout.level == Level::Raid5 {
            let stripe = self.layout.stripe_units();
            range = first / stripe * stripe..range.end.next_multiple_of(stripe);
        }
        self.locks.lock(range, RangeUse::Change).await
    }

    /// Marks the regions of stripes before they are written. The marks are durable when this ends.
    pub(crate) async fn mark(&self, stripes: &Range<u64>) -> Marked<'_> {
        let is_logged = self.layout.level.is_redundant();
        let marked = Marked { inner: self, stripes: stripes.clone(), is_logged };
        if is_logged
            && !self.intents.begin(stripes)
            && !self.config.defect.has(crate::config::Defect::NoIntentLog)
        {
            while !self.intents.are_marked(stripes) && !self.is_broken() {
                self.intents.written.notified().await;
            }
        }
        marked
    }

    pub(crate) fn group(&self, span: SpanId, is_background: bool) -> LentGroup<'_> {
        self.groups.lend(span, is_background)
    }

    /// Sends all pieces of a group.
    pub(crate) fn send(&self, group: &LentGroup<'_>, cause: Cause) {
        self.send_from(group, 0, cause);
    }

    /// Sends the pieces of a group from index `first` on. Pieces for missing members fail immediately.
    pub(crate) fn send_from(&self, group: &LentGroup<'_>, first: usize, cause: Cause) {
        let (slots, joined) = (self.slots.borrow(), self.joined.borrow());
        for index in first..group.len() {
            let (slot, verb, count) = {
                let piece = &mut group.pieces.borrow_mut()[index];
                piece.joined = joined[piece.slot];
                (piece.slot, piece.verb, piece.count)
            };
            self.counting.count(|counters| {
                let traffic = &mut counters.traffic[cause as usize];
                match verb {
                    Verb::Read => {
                        traffic.reads += 1;
                        traffic.units_read += count;
                    }
                    Verb::Write(_) => {
                        traffic.writes += 1;
                        traffic.units_written += count;
                        traffic.bytes_written += count * UNIT_BYTES as u64;
                    }
                    Verb::WritePart(_, bytes, _) => {
                        traffic.writes += 1;
                        traffic.units_written += count;
                        traffic.bytes_written += u64::from(bytes);
                    }
                    Verb::Flush => counters.flushes += 1,
                    Verb::Deallocate => {}
                }
            });
            match &slots.ports[slot] {
                Some(port) if slots.states[slot] != SlotState::Failed => port.send(group.shared(), index),
                _ => group.pieces.borrow_mut()[index]
                    .fail(MemberLost::because("the slot has no member").into()),
            }
        }
    }

    /// Sends all pieces and waits for the answers. Members that are lost or fail a write are dropped from the
    /// array. Time is charged to the group's I/O. Returns whether every piece succeeded.
    pub(crate) async fn exchange(&self, group: &LentGroup<'_>, cause: Cause) -> bool {
        // A bridge converts commands to its members' protocol.
        self.work(group.span.get().into(), WorkKind::Convert, group.len() as u64).await;
        self.send(group, cause);
        self.conclude(group).await
    }

    /// Waits for the answers of a group that was sent.
    pub(crate) async fn conclude(&self, group: &LentGroup<'_>) -> bool {
        group.wait().await;
        self.clock.spans().charge(group.span.get(), self.clock.now(), Stage::Flash);
        let mut all = true;
        for index in 0..group.len() {
            let (slot, error) = group.error(index);
            let Some(error) = error else { continue };
            all = false;
            let (verb, joined) = {
                let pieces = group.pieces.borrow();
                (pieces[index].verb, pieces[index].joined)
            };
            let is_out = verb != Verb::Read || matches!(error, MemberError::Lost(_));
            if is_out && joined == self.joined.borrow()[slot] {
                self.fail(slot, error);
            }
        }
        all
    }

    /// Does `count` times `work`, and charges it.
    pub(crate) async fn work(&self, context: WorkContext, work: WorkKind, count: u64) {
        if count == 0 || self.placement.cycles().of(work) == 0 {
            return;
        }
        let service = self.placement.reserve_by(context.route, work, count);
        self.clock.sleep_until(service.end).await;
        let now = self.clock.now();
        self.clock.spans().charge_split(context.span, now, service.queued, Stage::Firmware);
    }

    /// Marks a member as failed.
    #[cold]
    pub(crate) fn fail(&self, slot: usize, error: MemberError) {
        let mut slots = self.slots.borrow_mut();
        let before = std::mem::replace(&mut slots.states[slot], SlotState::Failed);
        if before == SlotState::Failed {
            return;
        }
        if let Some(port) = &slots.ports[slot] {
            port.give_up(MemberLost::because(error));
        }
        slots.failed.push((slot, before));
        slots.is_broken = !is_complete(&self.layout, &slots.states);
        drop(slots);
        self.counting.count(|counters| counters.members_failed += 1);
        self.gate.is_closed.set(true);
        self.gate.failed.notify_one();
        self.health_changed.notify_one();
        self.fails.notify_one();
        // Tasks that wait for marks on members must check whether enough are left.
        self.intents.written.notify_all();
    }

    /// A vector for contents; return it to [`keep`](Self::keep).
    pub(crate) fn vector(&self) -> Vec<Content> {
        self.scratch.borrow_mut().pop().unwrap_or_default()
    }

    pub(crate) fn keep(&self, mut vector: Vec<Content>) {
        vector.clear();
        self.scratch.borrow_mut().push(vector);
    }

    /// Delays so that `units` more take at least their time at `rate` units a second; 0 for no limit.
    pub(crate) async fn pace(&self, units: u64, rate: u64) {
        if rate > 0 {
            let ps = u128::from(units) * 1_000_000_000_000 / u128::from(rate);
            self.clock.sleep(Delay(u64::try_from(ps).unwrap_or(u64::MAX))).await;
        }
    }
}

/// Regions with writes in flight, until dropped.
pub(crate) struct Marked<'a> {
    inner: &'a Inner,
    stripes: Range<u64>,
    is_logged: bool,
}

impl Drop for Marked<'_> {
    fn drop(&mut self) {
        if self.is_logged {
            self.inner.intents.end(&self.stripes);
        }
    }
}

/// Whether all data are readable with these members.
pub(crate) fn is_complete(layout: &Layout, states: &[SlotState]) -> bool {
    let is_active = |state: &SlotState| *state == SlotState::Active;
    match layout.level {
        Level::Raid5 => states.iter().filter(|state| !is_active(state)).count() <= 1,
        _ => states.chunks(layout.copies).all(|copies| copies.iter().any(is_active)),
    }
}
