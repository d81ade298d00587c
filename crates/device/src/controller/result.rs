//! How results go to the host beyond what its data pointer says: behind the completion, or rounded up to DMA units.

use crate::controller::log::add;
use crate::controller::queue::Permit;
use crate::controller::{Context, Core};
use byteway_clock::SpanId;
use byteway_transfer::result::Parts;
use byteway_wire::nvme::Segment;
use byteway_wire::nvme::command::PSDT_PRP;
use byteway_wire::nvme::vendor::{ResultSlot, Sink};

impl Context<'_> {
    /// Reserves room behind the completion for a Sink Read's result of `bytes`, if it may go there and has room now.
    /// Where it doesn't, it goes where the data pointer says, which is counted.
    pub(super) fn reserve_behind(&self, bytes: u32) -> bool {
        let is_wanted = self.sqe.cdw2 & Sink::INLINE_RESULT != 0;
        if !is_wanted || !self.queue.methods.get().inline_result() || bytes == 0 {
            return false;
        }
        self.reserve_result(bytes)
    }

    /// The same for any result that is wanted there.
    pub(super) fn reserve_result(&self, bytes: u32) -> bool {
        let is_short = bytes <= self.core.config.transfer.inline_result_bytes_max;
        let has_room = is_short && self.permit.reserve_behind(ResultSlot::count(bytes));
        if !has_room {
            add(&self.core.counters.results_fallen_back, 1);
        }
        has_room
    }

    /// How many zeroes follow a part of a result, so that whole DMA units are written: none but where the host has
    /// said that its buffers have room for them, and its data pointer is one of pages. They never leave the part's
    /// page.
    pub(super) fn padding(&self, part: Segment) -> u32 {
        let unit = u64::from(self.core.config.controller.dma_granularity);
        if !self.queue.methods.get().rounded_results() || self.sqe.psdt() != PSDT_PRP || part.bytes == 0 {
            return 0;
        }
        let end = part.address + u64::from(part.bytes); // it was found to be memory
        end.checked_next_multiple_of(unit).map_or(0, |rounded| (rounded - end) as u32)
    }
}

impl Core {
    /// Posts the completion of a command that ended well with `bytes` behind it, and announces it: as one completion.
    pub(super) fn post_result(&self, permit: Permit, cid: u16, dwords: [u32; 2], bytes: &[u8], span: SpanId) {
        let parts = Parts { bytes };
        let (run, entry, queue) = permit.complete_with_result(cid, dwords);
        let posted = self.port.post_result(run.parts(), |index| match index.checked_sub(1) {
            None => entry.to_bytes(),
            Some(part) => parts.entry(part, run.phase(index)),
        });
        add(&self.counters.data_out_bytes, u64::from(parts.count()) * 16);
        self.posted(posted, &queue, span);
    }
}
