//! What an array is made of, and how it sends to members. What it does is in the files above this one, each of which
//! knows those below it.

use crate::area::Area;
use crate::config::{ArrayConfig, Defect, Level};
use crate::counters::{Cause, Counting};
use crate::gate::Gate;
use crate::group::{Groups, LentGroup, Verb};
use crate::intent::Intents;
use crate::journal::Journal;
use crate::layout::Layout;
use crate::lost::Lost;
use crate::port::Port;
use crate::rebuild::Rebuild;
use crate::record::Record;
use crate::scratch::Scratch;
use crate::slots::Slots;
use crate::superblock::Superblocks;
use byteway_clock::{
    Clock, Delay, Notify, RangeLock, RangeLocks, RangeUse, Semaphore, SpanId, Stage, TaskId,
};
use byteway_content::UNIT_BYTES;
use byteway_firmware::{Placement, WorkContext, WorkKind};
use byteway_member::{MemberError, MemberLost};
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;

/// An array, shared by its tasks.
pub(crate) struct Core {
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
    /// Turn to write the bitmaps of lost units: one task at a time.
    pub(crate) lost_turn: Semaphore,
    pub(crate) journal: Journal,
    pub(crate) superblocks: Superblocks,
    pub(crate) record: RefCell<Record>,
    pub(crate) counting: Counting,
    /// The last rebuild.
    pub(crate) rebuild: Cell<Option<Rebuild>>,
    pub(crate) gate: Gate,
    /// Notified when the health may have become worse.
    pub(crate) health_changed: Notify,
    /// Notified when a member may have failed.
    pub(crate) fails: Notify,
    /// Notified when there may be something to rebuild or to repair.
    pub(crate) upkeep: Notify,
    /// Host I/Os in flight.
    pub(crate) attending: Cell<u32>,
    pub(crate) scratch: Scratch,
    pub(crate) tasks: RefCell<Vec<TaskId>>,
}

/// A host I/O, until dropped.
pub(crate) struct Attending<'a>(&'a Cell<u32>);

impl Drop for Attending<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl Core {
    pub(crate) fn new(
        clock: &Clock,
        placement: Placement,
        config: ArrayConfig,
        layout: Layout,
        area: Area,
        member_units: u64,
        slots: Slots,
    ) -> Core {
        Core {
            clock: clock.clone(),
            placement,
            slots: RefCell::new(slots),
            unused: RefCell::default(),
            locks: RangeLocks::new(clock),
            groups: Groups::new(clock),
            intents: Intents::new(clock, layout.stripes, layout.chunk),
            lost: RefCell::default(),
            lost_turn: Semaphore::new(clock, 1),
            journal: Journal::new(clock),
            superblocks: Superblocks::new(clock),
            record: RefCell::default(),
            counting: Counting::default(),
            rebuild: Cell::default(),
            gate: Gate::new(clock),
            health_changed: Notify::new(clock),
            fails: Notify::new(clock),
            upkeep: Notify::new(clock),
            attending: Cell::default(),
            scratch: Scratch::default(),
            tasks: RefCell::default(),
            config,
            layout,
            area,
            member_units,
        }
    }

    pub(crate) fn attend(&self) -> Attending<'_> {
        self.attending.set(self.attending.get() + 1);
        Attending(&self.attending)
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.slots.borrow().is_broken()
    }

    /// Whether a slot's member holds its data of a stripe.
    pub(crate) fn has(&self, slot: usize, stripe: u64) -> bool {
        self.slots.borrow().has(slot, stripe)
    }

    /// Whether writes of a stripe must be journaled: a member is missing according to the durable state.
    pub(crate) fn is_degraded(&self, stripe: u64) -> bool {
        self.slots.borrow().is_degraded(stripe)
    }

    /// Slots with a member, rebuilt or not.
    pub(crate) fn present(&self) -> Vec<usize> {
        self.slots.borrow().present()
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
        let marked = Marked { intents: &self.intents, stripes: stripes.clone(), is_logged };
        if is_logged && !self.intents.begin(stripes) && !self.config.defect.has(Defect::NoIntentLog) {
            while !self.intents.are_marked(stripes) && !self.is_broken() {
                self.intents.written().await;
            }
        }
        marked
    }

    pub(crate) fn group(&self, span: SpanId, is_background: bool) -> LentGroup<'_> {
        self.groups.lend(span, is_background)
    }

    /// Sends all pieces of a group. Pieces for missing members fail immediately.
    fn send(&self, group: &LentGroup<'_>, cause: Cause) {
        let slots = self.slots.borrow();
        for index in 0..group.len() {
            let (slot, verb, count) = {
                let piece = &mut group.pieces.borrow_mut()[index];
                piece.joined = slots.joined()[piece.slot];
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
            match slots.present_port(slot) {
                Some(port) => port.send(group.shared(), index),
                None => group.pieces.borrow_mut()[index]
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
    async fn conclude(&self, group: &LentGroup<'_>) -> bool {
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
            if is_out && joined == self.slots.borrow().joined()[slot] {
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
        if !self.slots.borrow_mut().fail(slot, error, &self.layout) {
            return;
        }
        self.counting.count(|counters| counters.members_failed += 1);
        self.gate.close();
        self.health_changed.notify_one();
        self.fails.notify_one();
        // Tasks that wait for marks on members must check whether enough are left.
        self.intents.wake();
    }

    /// The smallest write that every member supports, in bytes.
    pub(crate) fn block_bytes(&self) -> u32 {
        self.slots.borrow().ports().map(|port| port.shape.block_bytes).max().unwrap_or(4096)
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
    intents: &'a Intents,
    stripes: Range<u64>,
    is_logged: bool,
}

impl Drop for Marked<'_> {
    fn drop(&mut self) {
        if self.is_logged {
            self.intents.end(&self.stripes);
        }
    }
}
