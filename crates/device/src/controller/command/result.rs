//! How results go to the host beyond what its data pointer says: behind the completion, or rounded up to DMA units.

use crate::controller::command::context::Context;
use crate::controller::state::counters::add;
use byteway_wire::nvme::Segment;
use byteway_wire::nvme::command::PSDT_PRP;
use byteway_wire::nvme::vendor::ResultSlot;

impl Context<'_> {
    /// Reserves entries behind the completion for a result of `bytes`, if the host has enabled that for the queue, and they
    /// are free now. Where they aren't, the result goes where the data pointer says, which is counted.
    pub(crate) fn reserve_behind(&self, bytes: u32) -> bool {
        self.queue.methods.get().inline_result() && bytes > 0 && self.reserve_result(bytes)
    }

    /// The same for a result that may go there.
    pub(crate) fn reserve_result(&self, bytes: u32) -> bool {
        let is_short = bytes <= self.core.config.transfer.inline_result_bytes_max;
        self.core.port.settle_writes();
        let has_room = is_short && self.permit.reserve_behind(ResultSlot::count(bytes));
        if !has_room {
            add(&self.core.counters.results_fallen_back, 1);
        }
        has_room
    }

    /// How many zeroes follow a part of a result, so that whole DMA units are written: none but where the host has
    /// said that its buffers have room for them, and its data pointer is one of pages. They never leave the part's
    /// page.
    pub(crate) fn padding(&self, part: Segment) -> u32 {
        let unit = u64::from(self.core.config.controller.dma_granularity);
        if !self.queue.methods.get().rounded_results() || self.sqe.psdt() != PSDT_PRP || part.bytes == 0 {
            return 0;
        }
        let end = part.address + u64::from(part.bytes); // it was found to be memory
        end.checked_next_multiple_of(unit).map_or(0, |rounded| (rounded - end) as u32)
    }
}
