//! Host memory buffers for payloads.

use crate::driver::extension::HeldArea;
use byteway_link::Memory;
use byteway_link::memory::PAGE_BYTES;
use byteway_transfer::host::{Buffer, DataPointer, PointerKind};
use std::cell::Cell;

/// Memory for the payload of one command at a time, and its PRP or SGL lists.
pub struct IoBuffer {
    pub(crate) buffer: Buffer,
    pub(crate) slot: usize,
    /// The data pointer planned last, whose lists are still in memory.
    pub(crate) planned: Cell<Option<Planned>>,
    /// An area of the device's buffer, for payloads that are stored there.
    pub(crate) area: Option<HeldArea>,
    /// An area of device memory, for payloads that are stored there.
    pub(crate) memory: Option<HeldArea>,
}

/// A data pointer for the beginning of a buffer.
#[derive(Clone, Copy)]
pub(crate) struct Planned {
    pub kind: PointerKind,
    pub bytes: u32,
    pub pointer: DataPointer,
}

impl IoBuffer {
    /// Location of the buffer in host memory.
    pub fn place(&self) -> &Buffer {
        &self.buffer
    }
}

/// A part of a buffer: payload that the host itself moves.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// The buffer.
    pub buffer: &'a Buffer,
    /// Offset in the buffer, in bytes.
    pub offset: u32,
    /// Length in bytes.
    pub bytes: u32,
}

impl Part<'_> {
    /// Copies the part from `at` on into `into`, as far as it reaches.
    pub(crate) fn read(&self, memory: &Memory, at: u32, into: &mut [u8]) {
        let count = (into.len() as u32).min(self.bytes.saturating_sub(at));
        let mut place = u64::from(self.buffer.offset()) + u64::from(self.offset) + u64::from(at);
        let mut rest = &mut into[..count as usize];
        while !rest.is_empty() {
            let Some(page) = self.buffer.pages().get((place / PAGE_BYTES) as usize) else { return };
            let within = place % PAGE_BYTES;
            let now = rest.len().min((PAGE_BYTES - within) as usize);
            let (part, later) = rest.split_at_mut(now);
            if memory.read(page + within, part).is_err() {
                return; // no longer memory: the checksum will not match
            }
            (rest, place) = (later, place + now as u64);
        }
    }
}
