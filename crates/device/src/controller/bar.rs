//! The payload buffer behind BAR0's registers: what the host stores there, and commands whose payload it is.

use crate::controller::io::{Landing, Workspace};
use crate::controller::log::add;
use crate::controller::{Context, Core};
use byteway_clock::Stage;
use byteway_firmware::Work;
use byteway_transfer::mmio;
use byteway_wire::nvme::Status;

impl Core {
    /// Where in the payload buffer an offset of BAR0 is, if it is there.
    pub(super) fn in_buffer(&self, offset: u64) -> Option<u64> {
        let at = offset.checked_sub(self.bar_offset)?;
        (at < u64::from(self.config.transfer.bar_bytes)).then_some(at)
    }

    /// The host has stored `bytes` at `offset` of BAR0.
    pub(super) fn buffer_store(&self, offset: u64, bytes: &[u8]) {
        if let Some(at) = self.in_buffer(offset) {
            self.buffer.borrow_mut().store(at, bytes);
        }
    }

    /// The `bytes` (4 or 8) at `offset` of BAR0, if that is in the buffer.
    pub(super) fn buffer_load(&self, offset: u64, bytes: u32) -> Option<u64> {
        let at = self.in_buffer(offset)?;
        let mut word = [0; 8];
        self.buffer.borrow().load(at, &mut word[..bytes.min(8) as usize]);
        Some(u64::from_le_bytes(word))
    }
}

impl Context<'_> {
    /// Whether the data pointer names the payload buffer, and the host has enabled that for the queue.
    pub(super) fn names_buffer(&self) -> bool {
        self.queue.methods.get().mmio() && mmio::named_by(self.sqe).is_some()
    }

    /// Takes the payload of `bytes` from the buffer.
    pub(super) async fn unbuffer(
        &self,
        workspace: &mut Workspace,
        bytes: u64,
        landing: Landing,
    ) -> Result<(), Status> {
        let core = self.core;
        let Some((offset, named)) = mmio::named_by(self.sqe) else { return Err(Status::INTERNAL_ERROR) };
        if u64::from(named) != bytes {
            return Err(Status::DATA_SGL_LENGTH_INVALID.with_dnr());
        }
        workspace.land(landing, core.config.keep, 0, core.buffer.borrow_mut().payload(offset, named)?);
        add(&core.counters.buffered_bytes, bytes);
        if landing == Landing::Sink && bytes > 0 {
            let stored = core.placement.site(Work::Buffer).dram("payload", bytes);
            core.clock.sleep_until(stored.arrival).await;
            self.charge(Stage::Dram);
        }
        self.check()
    }
}
