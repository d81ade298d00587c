//! Writes to BAR0: registers, doorbells, the payload buffer.

use crate::controller::core::Core;
use crate::controller::queue::ring::{CompletionQueue, DoorbellError, SubmissionQueue};
use crate::controller::state::registers::Effect;
use byteway_link::{Bar, MmioWrite};
use byteway_wire::nvme::Doorbell;

impl Core {
    /// Takes a write to a register, a doorbell or the payload buffer. `true` if it has exposed entries: the caller then
    /// has entries fetched.
    #[must_use]
    pub(crate) fn register_write(&self, write: MmioWrite) -> bool {
        let MmioWrite { offset, value, bytes } = write;
        if !matches!(bytes, 4 | 8) || !offset.is_multiple_of(4) {
            return false; // the specification leaves this undefined
        }
        if self.lifecycle.resets.is_pending() {
            return false;
        }
        if self.memory.buffer.position(offset).is_some() {
            self.memory.buffer.store(offset, &value.to_le_bytes()[..bytes as usize]);
            return false;
        }
        if offset < byteway_wire::nvme::register::DOORBELLS {
            for effect in self.registers.write(offset, value, bytes) {
                match effect {
                    Effect::Lifecycle => self.lifecycle.changed.notify_one(),
                    Effect::Unmasked => self.interrupts.unmasked(self.registers.interrupt_mask.get()),
                    Effect::None => {}
                }
            }
            return false;
        }
        match Doorbell::decode(offset, self.config.controller.dstrd) {
            Some(doorbell) => return self.ring(doorbell, value as u32),
            None if self.registers.csts.get().rdy() => self.events.raise(DoorbellError::Register.event()),
            None => {}
        }
        false
    }

    /// Takes a doorbell write, which has no meaning while the controller is not ready. `true` if it has exposed
    /// entries.
    fn ring(&self, doorbell: Doorbell, value: u32) -> bool {
        if !self.registers.csts.get().rdy() || self.lifecycle.resets.is_pending() {
            return false;
        }
        let rung = match doorbell {
            Doorbell::SubmissionTail(id) => match self.queues.submission(id) {
                Some(queue) if self.tail_hint(&queue) => Ok(false),
                Some(queue) => self.submitted(&queue, value).map(|()| true),
                None => Err(DoorbellError::Register),
            },
            Doorbell::CompletionHead(id) => match self.queues.completion(id) {
                Some(queue) if self.head_hint(&queue) => Ok(false),
                Some(queue) => self.consumed(&queue, value).map(|()| false),
                None => Err(DoorbellError::Register),
            },
        };
        rung.unwrap_or_else(|error| {
            self.events.raise(error.event());
            false
        })
    }

    /// The host has submitted commands up to `tail`. The caller has them fetched.
    pub(crate) fn submitted(&self, queue: &SubmissionQueue, tail: u32) -> Result<(), DoorbellError> {
        let before = queue.tail();
        queue.set_tail(tail)?;
        if self.port.ios().is_some() {
            queue.note_rung(before, self.clock.now());
        }
        if queue.missing.get() > 0 {
            self.parked.trains.skip(queue);
        }
        Ok(())
    }

    /// The host has consumed completions up to `head`.
    pub(crate) fn consumed(&self, queue: &CompletionQueue, head: u32) -> Result<(), DoorbellError> {
        queue.set_head(head)?;
        if queue.id == 0 {
            self.events.wake();
        }
        self.queues.freed();
        Ok(())
    }
}

impl Bar for Core {
    fn read(&self, offset: u64, bytes: u32) -> u64 {
        self.memory.buffer.load(offset, bytes).unwrap_or_else(|| self.registers.read(offset, bytes))
    }

    fn write(&self, write: MmioWrite) {
        if self.register_write(write) {
            self.queues.wake_fetch();
        }
    }

    fn store(&self, offset: u64, bytes: &[u8]) {
        self.memory.buffer.store(offset, bytes);
    }
}
