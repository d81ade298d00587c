//! Posting completions, with or without a result that follows, and announcing them.

use crate::controller::core::Core;
use crate::controller::queue::ring::{Permit, QueueFate, SubmissionQueue};
use crate::controller::state::counters::add;
use crate::controller::state::event::{Answer, ParkedRequest};
use byteway_clock::{Passage, SpanId, Stage};
use byteway_link::Fault;
use byteway_transfer::result::Parts;
use byteway_wire::nvme::Status;

impl Core {
    /// Posts a completion and announces it.
    pub(crate) fn post(&self, permit: Permit, cid: u16, status: Status, dwords: [u32; 2], span: SpanId) {
        let own = permit.take_span();
        let (address, entry, queue) = permit.complete(cid, status, dwords);
        let posted = self.port.post(address, entry.to_bytes());
        self.posted(posted, &queue, span, own);
    }

    /// Announces a completion that was posted to the completion queue of `queue`. `own` is the span, if the device has
    /// opened it.
    fn posted(&self, posted: Result<Passage, Fault>, queue: &SubmissionQueue, span: SpanId, own: SpanId) {
        let Ok(passage) = posted else {
            self.port.spans().close(own);
            self.fail();
            return;
        };
        // The link has the time until the entry arrives; from then on the time is the host's.
        self.port.spans().charge(span, passage.arrival, Stage::Link);
        if own != SpanId::NONE {
            self.book_latency(own);
        }
        add(&self.counters.posted, 1);
        if let Some(vector) = queue.completion_queue.vector {
            let mask = self.registers.interrupt_mask.get();
            self.interrupts.completion(vector, queue.id == 0, mask);
        }
    }

    /// Holds an Asynchronous Event Request.
    pub(crate) fn park(&self, permit: Permit, cid: u16) {
        if permit.queue().fate.get() == QueueFate::Live {
            let queue = permit.park();
            self.events.park(ParkedRequest { queue, cid, is_aborted: false });
            self.events.wake();
        }
    }

    /// Completes the Asynchronous Event Requests that were aborted or have an event, as far as completion slots are
    /// free.
    pub(crate) fn answer_events(&self) {
        while let Some((request, answer)) = self.events.next() {
            let (status, dw0) = match answer {
                Answer::Aborted => (Status::ABORT_REQUESTED, 0),
                Answer::Event(event) => (Status::SUCCESS, event.dw0()),
            };
            // `next` has found a free completion slot, and nothing has waited since.
            self.post(Permit::unpark(request.queue), request.cid, status, [dw0, 0], SpanId::NONE);
        }
    }

    /// Posts a successful completion with `bytes` after it, and announces both as one.
    pub(crate) fn post_result(&self, permit: Permit, cid: u16, dwords: [u32; 2], bytes: &[u8], span: SpanId) {
        let parts = Parts { bytes };
        let own = permit.take_span();
        let (run, entry, queue) = permit.complete_with_result(cid, dwords);
        let posted = self.port.post_result(run.parts(), |index| match index.checked_sub(1) {
            None => entry.to_bytes(),
            Some(part) => parts.entry(part, run.phase(index)),
        });
        add(&self.counters.data_out_bytes, u64::from(parts.count()) * 16);
        self.posted(posted, &queue, span, own);
    }
}
