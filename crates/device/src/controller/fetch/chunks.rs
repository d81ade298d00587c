//! Payload in chunks (ByteExpress 3.3.2): chunks are taken as they are fetched, in any order and from any queue.
//! Neither a chunk nor a command that waits for chunks occupies a command slot; the last chunk of a payload passes its
//! slot to the command.

use crate::controller::core::Core;
use crate::controller::fetch::entry::EntryResources;
use crate::controller::queue::partial::State;
use crate::controller::queue::ring::QueueFate;
use crate::controller::queue::waiting::Waiting;
use crate::controller::state::counters::add;
use crate::controller::state::slot::{Command, Payload};
use byteway_clock::Stage;
use byteway_transfer::partial::Partial;
use byteway_transfer::reassembly::{ChunkResult, Complete, Named};
use byteway_wire::nvme::opcode::Direction;
use byteway_wire::nvme::vendor::{Chunk, InlineSlots};
use byteway_wire::nvme::{Sqe, Status};

impl Core {
    /// Takes an entry that carries a part of a payload, with the resources that it was given.
    pub(crate) fn take_chunk(&self, sqe: &Sqe, place: EntryResources) {
        let chunk = Chunk::parse(sqe);
        let EntryResources { permit, slot, span } = place;
        let mut slot = Some(slot);
        let status = match permit.queue().fate.get() {
            QueueFate::Live => self.keep_chunk(&chunk, &mut slot),
            QueueFate::Deleting | QueueFate::Reset => Status::ABORTED_SQ_DELETED,
        };
        if chunk.completes() {
            self.post(permit, chunk.id, status, [0; 2], span);
        } else {
            drop(permit);
        }
        match slot {
            Some(slot) => self.free_slot(slot),
            None => self.queues.freed(),
        }
    }

    /// Adds a chunk to its payload. If the payload is complete, its command takes the slot.
    fn keep_chunk(&self, chunk: &Chunk, slot: &mut Option<u32>) -> Status {
        let mut state = self.parked.partials.state();
        let State { pool, reassembly, .. } = &mut *state;
        let taken = reassembly.chunk(pool, chunk, self.partial_until());
        drop(state);
        let failed = match taken {
            ChunkResult::Kept => return Status::SUCCESS,
            ChunkResult::Duplicate => {
                add(&self.counters.chunks_duplicate, 1);
                return Status::SUCCESS;
            }
            ChunkResult::Complete(Complete { command, partial }) => {
                if let Some(slot) = slot.take() {
                    self.start_chunked(slot, command, Some(partial));
                }
                return Status::SUCCESS;
            }
            ChunkResult::Refused => None,
            ChunkResult::Failed(command) => Some(command),
        };
        add(&self.counters.chunks_refused, 1);
        if let Some(waiting) = failed {
            self.refuse_waiting(waiting, Status::DATA_TRANSFER_ERROR);
        }
        Status::DATA_TRANSFER_ERROR
    }

    /// Takes a command whose payload comes in chunks: it waits without its slot until they are complete.
    pub(crate) fn take_chunked(&self, sqe: Sqe, place: EntryResources) {
        let EntryResources { permit, slot, span } = place;
        let waiting = Waiting { sqe, permit, span };
        let Some(named) =
            Chunk::named_by(&sqe).filter(|_| waiting.permit.queue().fate.get() == QueueFate::Live)
        else {
            return self.start_refused(slot, waiting, Status::ABORTED_SQ_DELETED);
        };
        if Direction::of(sqe.opcode()) != Direction::HostToController {
            return self.start_refused(slot, waiting, Status::SGL_TYPE_INVALID.with_dnr());
        }
        let mut state = self.parked.partials.state();
        let State { pool, reassembly, .. } = &mut *state;
        let outcome = reassembly.command(pool, named, waiting, self.partial_until());
        drop(state);
        match outcome {
            Named::Waits => self.free_slot(slot),
            Named::Complete(waiting, partial) => self.start_chunked(slot, waiting, partial),
            Named::Failed(waiting, status) => self.start_refused(slot, waiting, status),
        }
    }

    /// Starts a command whose payload is complete; `None`: it has no payload.
    fn start_chunked(&self, slot: u32, waiting: Waiting, partial: Option<Partial>) {
        let bytes = Chunk::named_by(&waiting.sqe).map_or(0, |(_, bytes)| bytes);
        {
            let mut carried = self.slots.at(slot).carried.borrow_mut();
            carried.clear();
            if let Some(mut partial) = partial {
                partial.swap_into(&mut carried, bytes as usize);
                self.parked.partials.state().pool.give(partial);
            }
        }
        let Waiting { sqe, permit, span } = waiting;
        self.port.spans().charge(span, self.clock.now(), Stage::Fetch);
        let payload = Payload::Chunked(InlineSlots { bytes });
        self.start(slot, Command::new(sqe, permit, span, payload));
    }

    /// Starts a command that is to fail: the failure takes its time in the slot, as any command does.
    fn start_refused(&self, slot: u32, waiting: Waiting, status: Status) {
        let Waiting { sqe, permit, span } = waiting;
        self.start(slot, Command::new(sqe, permit, span, Payload::Refused(status)));
    }
}
