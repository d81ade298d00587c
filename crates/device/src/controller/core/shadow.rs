//! Shadow doorbells (NVMe Base 2.1, 5.2.5 and annex B.5): the host stores tails and heads of its I/O queues to a page of
//! its memory, and writes a doorbell register only when the controller has asked for that in a second page.
//!
//! From Doorbell Buffer Config on, until the controller is reset:
//! - What counts is the shadow. A write of the register is a hint to look there, and its value means nothing: it may be
//!   older than what a look has taken meanwhile. The admin queue is not covered, since Linux keeps no shadow for it.
//! - A value is taken as a register write would be. One that is impossible raises its event once, however long it stays.
//! - A queue that is created begins with zeroes in both pages, whatever an earlier queue left there.
//! - A page that is memory no longer is a fatal status, as a queue is that has gone: rings would be lost unseen.
//!
//! The host moves a value from `old` to `new` and writes the register if it has passed the *event index* on its way from
//! `old` to before `new`, counting up through all 16 bits. So an event index equal to `old` asks for the next ring, and
//! one that is behind asks for a ring once in a round of the queue. There are two modes:
//! - **armed**, as in the beginning: every event index is what was taken last, so every ring writes the register. After
//!   each store there is a barrier and another look, because the host may have passed the old event index before.
//! - **polled**, from [`Core::look_at_shadow_doorbells`] on: somebody looks all the time. The event index stays where it
//!   is until the queue is half a round ahead, and is then put right behind the present place. The host doesn't get there
//!   while looks come in time, and the line that holds the event indexes is written twice a round, not at every ring.
//!
//! These loads and stores are entered in no ledger, and take no time: the command is for controllers that are software
//! beside their host, and no link lies between. A drive that is modelled as hardware does not offer it.

use crate::controller::core::Core;
use crate::controller::queue::ring::{CompletionQueue, DoorbellError, SubmissionQueue, distance};
use crate::controller::queue::shadow::{Buffers, Queue};
use byteway_link::{Direction, Fault};
use byteway_wire::nvme::register::DOORBELLS;
use byteway_wire::nvme::{DoorbellBufferConfig, Segment, Status};
use std::rc::Rc;
use std::sync::atomic::{Ordering, fence};

impl Core {
    /// Whether a Doorbell Buffer Config is in force.
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
            // Linux keeps the shadow of a queue from the queue's beginning on, and may use it before this command does:
            // the register was not written for what it has stored there meanwhile.
            let is_kept = self.port.load32(doorbells + self.shadow_offset(queue))? != 0;
            if is_kept { self.cover(queue) } else { self.introduce(queue) }
        });
        introduced.map_err(|_: Fault| Status::DATA_TRANSFER_ERROR)?;
        fence(Ordering::SeqCst); // as in arm_shadow_doorbells
        self.look_at_shadowed();
        Ok(())
    }

    /// A submission queue was created.
    pub(crate) fn shadow_submission(&self, queue: &Rc<SubmissionQueue>) {
        self.shadow_created(Queue::Submission(queue.clone()));
    }

    /// A completion queue was created.
    pub(crate) fn shadow_completion(&self, queue: &Rc<CompletionQueue>) {
        self.shadow_created(Queue::Completion(queue.clone()));
    }

    fn shadow_created(&self, queue: Queue) {
        if self.has_shadow_doorbells() && self.introduce(&queue).is_err() {
            self.lose_shadow();
        }
    }

    /// Writes where a queue is into both buffers.
    fn introduce(&self, queue: &Queue) -> Result<(), Fault> {
        let Some(buffers) = self.queues.shadow.buffers.get() else { return Ok(()) };
        self.port.store32(buffers.doorbells + self.shadow_offset(queue), queue.place())?;
        self.cover(queue)
    }

    /// From now on a queue's shadow counts, and every ring is to write the register.
    fn cover(&self, queue: &Queue) -> Result<(), Fault> {
        let Some(buffers) = self.queues.shadow.buffers.get() else { return Ok(()) };
        queue.mirror().seen.set(queue.place());
        self.store_event(&buffers, queue, queue.place())
    }

    /// Looks at the shadow doorbells of all queues, and takes what is new. True if there was anything. Who calls this
    /// goes on to, and calls [`Core::arm_shadow_doorbells`] before it stops.
    pub fn look_at_shadow_doorbells(&self) -> bool {
        if !self.shadow_is_live() {
            return false;
        }
        self.queues.shadow.armed.set(false);
        self.look_at_shadowed()
    }

    /// Asks the host to write the register with its next ring, of any queue, and looks once more: true if there was
    /// anything, and then it may be worth to go on looking.
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
        // The host stores, then loads the event index. Here it is the other way round: with a barrier between on both
        // sides, at least one of the two sees what the other has stored.
        fence(Ordering::SeqCst);
        self.look_at_shadowed()
    }

    /// The register of a submission queue was written: true if its shadow is what counts, which was looked at.
    pub(crate) fn tail_hint(&self, queue: &Rc<SubmissionQueue>) -> bool {
        let covered = self.queues.shadow.covers(queue.id);
        if covered {
            self.look_or_fail(&Queue::Submission(queue.clone()));
        }
        covered
    }

    /// The same of a completion queue.
    pub(crate) fn head_hint(&self, queue: &Rc<CompletionQueue>) -> bool {
        let covered = self.queues.shadow.covers(queue.id);
        if covered {
            self.look_or_fail(&Queue::Completion(queue.clone()));
        }
        covered
    }

    fn shadow_is_live(&self) -> bool {
        let csts = self.registers.csts.get();
        self.has_shadow_doorbells() && csts.rdy() && !csts.cfs() && !self.lifecycle.resets.under_way()
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

    /// Looks at a queue's shadow doorbell. Ends, whatever the host does meanwhile: a queue takes only so many new
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
                // Right behind is a distance of one; none at all asks for the next ring.
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
            return Ok(()); // put right after an impossible one
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

    /// Where in either buffer a queue has its word: as in BAR0, from the first doorbell on. It lies in the page, since
    /// [`crate::DriveConfig::validate`] allows no more queues than fit.
    fn shadow_offset(&self, queue: &Queue) -> u64 {
        queue.doorbell().offset(self.config.controller.dstrd) - DOORBELLS
    }

    /// Brings the list of covered queues up to date.
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

    /// A buffer is memory no longer.
    fn lose_shadow(&self) {
        self.queues.shadow.buffers.set(None);
        self.fail();
    }
}

/// The admin queue has no shadow.
fn shadowed(id: u16, queue: impl FnOnce() -> Queue) -> Option<Queue> {
    (id > 0).then(queue)
}
