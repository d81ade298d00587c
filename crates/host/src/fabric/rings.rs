//! The rings of an association's queues, created by its driver.

use byteway_clock::SpanId;

/// A submission ring.
pub(super) struct Ring {
    pub address: u64,
    pub entries: u32,
    pub tail: u32,
    /// Trace span of the command in each slot.
    pub spans: Vec<SpanId>,
    pub cqid: u16,
}

impl Ring {
    pub fn new(address: u64, entries: u32, cqid: u16) -> Ring {
        let spans = vec![SpanId::NONE; entries as usize];
        Ring { address, entries, tail: 0, spans, cqid }
    }

    pub fn advance(&mut self) {
        self.tail = if self.tail + 1 == self.entries { 0 } else { self.tail + 1 };
    }
}

/// A completion ring.
pub(super) struct Completions {
    pub address: u64,
    pub entries: u32,
    pub tail: u32,
    pub phase: bool,
    pub vector: u16,
}

impl Completions {
    pub fn new(address: u64, entries: u32, vector: u16) -> Completions {
        Completions { address, entries, tail: 0, phase: true, vector }
    }
}
