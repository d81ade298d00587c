//! Shadow doorbells (NVMe Base 2.1, 5.2.5 and annex B.5): the host stores tails and heads of its I/O queues to a page
//! of its memory, and writes a doorbell register only when the controller has asked for it in a second page.
//!
//! From Doorbell Buffer Config on, until the controller is reset:
//! - The shadow is authoritative. A register write is a hint to read it, and its value is ignored: it may be older than
//!   what was read meanwhile. The admin queue is not covered, because Linux keeps no shadow for it.
//! - A value is taken as a register write would be. An impossible value raises its event once, however long it stays.
//! - A queue starts with zeroes in both pages, whatever an earlier queue left there.
//! - A page that is no longer memory is a fatal status, as for a queue: doorbells would be lost unnoticed.
//!
//! The host moves a value from `old` to `new` and writes the register if it passes the *event index* in the range from
//! `old` to before `new`, counting up through all 16 bits. So an event index equal to `old` asks for the next doorbell
//! write, and one that is behind asks for one write per round of the queue. There are two modes:
//! - **armed**, initially: every event index is the value taken last, so the host writes the register each time. After
//!   each store of an event index there is a barrier and another look, because the host may have passed the old one
//!   before.
//! - **polled**, from [`Core::look_at_shadow_doorbells`] on: the server polls continuously. The event index stays until
//!   the queue is half a round ahead, and then moves to just behind the current value. The host does not reach it while
//!   polls keep up, and the cache line of the event indexes is written twice a round instead of at every doorbell.
//!
//! These loads and stores enter no ledger and take no time: the command is for controllers in software on the host's
//! machine, with no link between. A drive modelled as hardware does not offer it.

use crate::controller::core::Core;
use crate::controller::queue::ring::{CompletionQueue, DoorbellError, SubmissionQueue, distance};
use crate::controller::queue::shadow::{Buffers, Queue};
use byteway_link::{Direction, Fault};
use byteway_wire::nvme::register::DOORBELLS;
use byteway_wire::nvme::{DoorbellBufferConfig, Segment, Status};
use std::rc::Rc;
use std::sync::atomic::{Ordering, fence};

impl Core {
    /// Whether Doorbell Buffer Config is in effect.
    pub fn has_shadow_doorbells(&self) -> bool {
        self.queues.shadow.buffers.get().is_some()
    }

    /// Doorbell Buffer Config.
    pub(crate) fn configure_shadow(&self, command: &DoorbellBufferConfig) -> Result<(), Status> {
        let page_bytes = self.registers.page_bytes.get();
        let DoorbellBufferConfig { shadow_doorbells: doorbells, event_indexes: events } = *command;
        let possible = |address: u64| address != 0 && address.is_multiple_of(page_bytes.into());
        if !possible(doorbells) || !possible(events) || doorbells == events {
            return Err(Status::INVALID_FIELD.with_dnr());
        }
        let epoch = self.port.epoch();
        for address in [doorbells, events] {
            for direction in [Direction::Down, Direction::Up] {
                let checked = self.port.check(Segment { address, bytes: page_bytes }, direction, epoch);
                checked.map_err(|_: Fault| Status::DATA_TRANSFER_ERROR)?;
            }
        }
        self.queues.shadow.clear();
        self.queues.shadow.buffers.set(Some(Buffers { doorbells, events }));
        self.queues.shadow.armed.set(true);
        self.find_shadowed();
        let introduced = self.queues.shadow.queues.borrow().iter().try_for_each(|queue| {
            // Linux maintains a queue's shadow from the queue's creation, and may use it before this command completes:
            // it has then not written the register for what it stored there.
            let is_kept = self.port.load32(doorbells + self.shadow_offset(queue))? != 0;
            if is_kept { self.cover(queue) } else { self.introduce(queue) }
        });
        introduced.map_err(|_: Fault| Status::DATA_TRANSFER_ERROR)?;
        fence(Ordering::SeqCst); // as in arm_shadow_doorbells
        self.look_at_shadowed();
        Ok(())
    }

    /// Starts the shadow of a new submission queue.
    pub(crate) fn shadow_submission(&self, queue: &Rc<SubmissionQueue>) {
        self.shadow_created(Queue::Submission(queue.clone()));
    }

    /// Starts the shadow of a new completion queue.
    pub(crate) fn shadow_completion(&self, queue: &Rc<CompletionQueue>) {
        self.shadow_created(Queue::Completion(queue.clone()));
    }

    fn shadow_created(&self, queue: Queue) {
        if self.has_shadow_doorbells() && self.introduce(&queue).is_err() {
            self.lose_shadow();
        }
    }

    /// Writes the queue's current index to both buffers.
    fn introduce(&self, queue: &Queue) -> Result<(), Fault> {
        let Some(buffers) = self.queues.shadow.buffers.get() else { return Ok(()) };
        self.port.store32(buffers.doorbells + self.shadow_offset(queue), queue.place())?;
        self.cover(queue)
    }

    /// Makes a queue's shadow authoritative, armed.
    fn cover(&self, queue: &Queue) -> Result<(), Fault> {
        let Some(buffers) = self.queues.shadow.buffers.get() else { return Ok(()) };
        queue.mirror().seen.set(queue.place());
        self.store_event(&buffers, queue, queue.place())
    }

    /// Reads the shadow doorbells of all queues. `true` if any was new. The caller keeps polling, and calls
    /// [`Core::arm_shadow_doorbells`] before it stops.
    pub fn look_at_shadow_doorbells(&self) -> bool {
        if !self.shadow_is_live() {
            return false;
        }
        self.queues.shadow.armed.set(false);
        self.look_at_shadowed()
    }

    /// Makes the host write the register at its next doorbell of any queue, and reads all once more. `true` if any was
    /// new: more polling may then be worthwhile.
    pub fn arm_shadow_doorbells(&self) -> bool {
        if !self.shadow_is_live() {
            return false;
        }
        self.queues.shadow.armed.set(true);
        self.find_shadowed();
        let Some(buffers) = self.queues.shadow.buffers.get() else { return false };
        let stored = self.queues.shadow.queues.borrow().iter().try_for_each(|queue| {
            let place = queue.place();
            if queue.mirror().event.get() == place {
                Ok(())
            } else {
                self.store_event(&buffers, queue, place)
            }
        });
        if stored.is_err() {
            self.lose_shadow();
            return false;
        }
        // The host stores the doorbell, then loads the event index. Here it is the other way round: with a barrier
        // between the two on both sides, at least one side sees the other's store.
        fence(Ordering::SeqCst);
        self.look_at_shadowed()
    }

    /// Takes a write of a submission queue's register. `true` if its shadow is authoritative, which was then read.
    pub(crate) fn tail_hint(&self, queue: &Rc<SubmissionQueue>) -> bool {
        let covered = self.queues.shadow.covers(queue.id);
        if covered {
            self.look_or_fail(&Queue::Submission(queue.clone()));
        }
        covered
    }

    /// Like [`Core::tail_hint`], for a completion queue.
    pub(crate) fn head_hint(&self, queue: &Rc<CompletionQueue>) -> bool {
        let covered = self.queues.shadow.covers(queue.id);
        if covered {
            self.look_or_fail(&Queue::Completion(queue.clone()));
        }
        covered
    }

    fn shadow_is_live(&self) -> bool {
        let csts = self.registers.csts.get();
        self.has_shadow_doorbells() && csts.rdy() && !csts.cfs() && !self.lifecycle.resets.is_pending()
    }

    fn look_at_shadowed(&self) -> bool {
        self.find_shadowed();
        let mut any = false;
        for queue in self.queues.shadow.queues.borrow().iter() {
            any |= self.look_or_fail(queue);
        }
        any
    }

    fn look_or_fail(&self, queue: &Queue) -> bool {
        let looked = self.look_at_shadow(queue);
        if looked.is_err() {
            self.lose_shadow();
        }
        looked.unwrap_or(false)
    }

    /// Reads a queue's shadow doorbell. Terminates whatever the host does: a queue accepts a limited number of new
    /// values until a command is fetched or completed.
    fn look_at_shadow(&self, queue: &Queue) -> Result<bool, Fault> {
        let Some(buffers) = self.queues.shadow.buffers.get() else { return Ok(false) };
        let (address, mirror) = (buffers.doorbells + self.shadow_offset(queue), queue.mirror());
        let mut any = false;
        loop {
            let value = self.port.load32(address)?;
            if value == mirror.seen.get() {
                return Ok(any);
            }
            mirror.seen.set(value);
            any = true;
            if let Err(error) = self.take_shadow(queue, value) {
                self.events.raise(error.event());
                return Ok(any);
            }
            if !self.queues.shadow.armed.get() {
                // Just behind is a distance of one; a distance of zero asks for the next doorbell write.
                let ahead = distance(mirror.event.get(), queue.place(), queue.entries());
                if ahead == 0 || ahead > queue.entries() / 2 {
                    self.store_event(&buffers, queue, queue.behind())?;
                }
                return Ok(any);
            }
            self.store_event(&buffers, queue, queue.place())?;
            fence(Ordering::SeqCst); // as in arm_shadow_doorbells
        }
    }

    fn take_shadow(&self, queue: &Queue, value: u32) -> Result<(), DoorbellError> {
        if value == queue.place() {
            return Ok(()); // corrected after an impossible value
        }
        match queue {
            Queue::Submission(queue) => {
                self.submitted(queue, value)?;
                self.queues.wake_fetch();
                Ok(())
            }
            Queue::Completion(queue) => self.consumed(queue, value),
        }
    }

    fn store_event(&self, buffers: &Buffers, queue: &Queue, event: u32) -> Result<(), Fault> {
        queue.mirror().event.set(event);
        self.port.store32(buffers.events + self.shadow_offset(queue), event)
    }

    /// Offset of a queue's word in either buffer: as in BAR0, counted from the first doorbell. It lies in the page,
    /// because [`crate::DriveConfig::validate`] limits the number of queues.
    fn shadow_offset(&self, queue: &Queue) -> u64 {
        queue.doorbell().offset(self.config.controller.dstrd) - DOORBELLS
    }

    /// Updates the list of covered queues.
    fn find_shadowed(&self) {
        let epoch = self.queues.epoch();
        if self.queues.shadow.queues_epoch.replace(epoch) == epoch {
            return;
        }
        let mut list = self.queues.shadow.queues.borrow_mut();
        list.clear();
        self.queues
            .each_submission(|queue| list.extend(shadowed(queue.id, || Queue::Submission(queue.clone()))));
        self.queues
            .each_completion(|queue| list.extend(shadowed(queue.id, || Queue::Completion(queue.clone()))));
    }

    /// Sets Controller Fatal Status, because a shadow buffer is no longer in host memory.
    fn lose_shadow(&self) {
        self.queues.shadow.buffers.set(None);
        self.fail();
    }
}

/// The queue, unless it is the admin queue, which has no shadow.
fn shadowed(id: u16, queue: impl FnOnce() -> Queue) -> Option<Queue> {
    (id > 0).then(queue)
}
