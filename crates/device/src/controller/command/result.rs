//! Results that reach the host other than exactly at the data pointer: after the completion, or padded to DMA units.

use crate::controller::command::context::Context;
use crate::controller::state::counters::add;
use byteway_wire::nvme::Segment;
use byteway_wire::nvme::command::PSDT_PRP;
use byteway_wire::nvme::vendor::ResultSlot;

impl Context<'_> {
    /// Reserves completion queue slots for a result of `bytes`, if the host has enabled that for the queue
    /// and enough slots are free. Otherwise the result goes to the data pointer, which is counted.
    pub(crate) fn reserve_behind(&self, bytes: u32) -> bool {
        self.queue.methods.get().inline_result() && bytes > 0 && self.reserve_result(bytes)
    }

    /// Like [`Context::reserve_behind`], for a result that may also go to the data pointer.
    pub(crate) fn reserve_result(&self, bytes: u32) -> bool {
        let is_short = bytes <= self.core.config.transfer.inline_result_bytes_max;
        self.core.port.settle_writes();
        let has_room = is_short && self.permit.reserve_behind(ResultSlot::count(bytes));
        if !has_room {
            add(&self.core.counters.results_fallen_back, 1);
        }
        has_room
    }

    /// Number of zero bytes that follow a part of a result so that whole DMA units are written. 0 unless the host has
    /// declared that its buffers have space for them and the data pointer uses PRPs. They never cross the page's end.
    pub(crate) fn padding(&self, part: Segment) -> u32 {
        let unit = u64::from(self.core.config.controller.dma_granularity);
        if !self.queue.methods.get().rounded_results() || self.sqe.psdt() != PSDT_PRP || part.bytes == 0 {
            return 0;
        }
        let end = part.address + u64::from(part.bytes); // no overflow: the range was checked to be memory
        end.checked_next_multiple_of(unit).map_or(0, |rounded| (rounded - end) as u32)
    }
}
