//! Host memory for payloads.

use crate::extension::HeldArea;
use byteway_link::Memory;
use byteway_link::memory::PAGE_BYTES;
use byteway_transfer::host::{Buffer, DataPointer, PointerKind};
use std::cell::Cell;

/// Memory for the payload of one command at a time, with its lists.
pub struct IoBuffer {
    pub(crate) buffer: Buffer,
    pub(crate) slot: usize,
    /// The data pointer that was made last: its lists are still there.
    pub(crate) planned: Cell<Option<Planned>>,
    /// Of the device's buffer, for payloads that go there.
    pub(crate) area: Option<HeldArea>,
    /// The same of the device's memory.
    pub(crate) memory: Option<HeldArea>,
}

/// A data pointer for the first bytes of a buffer.
#[derive(Clone, Copy)]
pub(crate) struct Planned {
    pub kind: PointerKind,
    pub bytes: u32,
    pub pointer: DataPointer,
}

impl IoBuffer {
    /// Where it lies.
    pub fn place(&self) -> &Buffer {
        &self.buffer
    }
}

/// A part of a buffer: payload that the host itself moves.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// Where it lies.
    pub buffer: &'a Buffer,
    /// From which byte of the buffer on.
    pub offset: u32,
    /// How long it is.
    pub bytes: u32,
}

impl Part<'_> {
    /// Copies what begins at `at` of it into `into`, as far as there is something.
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
                return; // not memory any more: the checksum will tell
            }
            (rest, place) = (later, place + now as u64);
        }
    }
}
