//! Command counters, and the error log (NVMe Base 2.1, 5.1.12.1.1 and 5.1.12.1.2).

use byteway_clock::Delay;
use byteway_wire::nvme::{ErrorLogEntry, Sqe, Status};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

/// Capacity of the error log, in entries.
pub const ERROR_ENTRIES: usize = 64;

/// Counters of the host's commands.
#[derive(Default)]
pub struct Counters {
    /// Read and Compare commands that moved data.
    pub reads: Cell<u64>,
    /// Write commands that moved data.
    pub writes: Cell<u64>,
    /// Bytes read by the host.
    pub read_bytes: Cell<u64>,
    /// Bytes written by the host.
    pub written_bytes: Cell<u64>,
    /// Time with a command outstanding.
    pub busy: Cell<Delay>,
    /// Media errors.
    pub media_errors: Cell<u64>,
    /// Submission queue entries fetched.
    pub fetched: Cell<u64>,
    /// Completion queue entries posted.
    pub posted: Cell<u64>,
    /// Payload bytes taken from the host by DMA, as commands count them.
    pub data_in_bytes: Cell<u64>,
    /// Payload bytes that came in submission queues, as commands count them. Not part of `data_in_bytes`.
    pub carried_bytes: Cell<u64>,
    /// Submission queue entries that carried payload. They count as fetched, too, unless their command was aborted
    /// before.
    pub carried_entries: Cell<u64>,
    /// Payload bytes taken from buffers that the host stores to, as commands count them.
    pub buffered_bytes: Cell<u64>,
    /// Commit records answered.
    pub records: Cell<u64>,
    /// Chunks that had already arrived.
    pub chunks_duplicate: Cell<u64>,
    /// Chunks dropped: no free buffer, no such chunk, or a contradiction to earlier ones.
    pub chunks_refused: Cell<u64>,
    /// Incomplete payloads that timed out.
    pub payloads_given_up: Cell<u64>,
    /// Results sent to the data pointer because they were too long, or too few completion slots were free.
    pub results_fallen_back: Cell<u64>,
    /// Bytes sent to the host, including padding and whole slots after completions.
    pub data_out_bytes: Cell<u64>,
    /// Queries started.
    pub tasks: Cell<u64>,
    /// Controller resets.
    pub resets: Cell<u64>,
}

/// Adds `count` to a counter.
pub fn add(counter: &Cell<u64>, count: u64) {
    counter.set(counter.get() + count);
}

/// The error log.
#[derive(Default)]
pub struct ErrorLog {
    entries: RefCell<VecDeque<ErrorLogEntry>>,
    count: Cell<u64>,
}

impl ErrorLog {
    /// Adds a failed command.
    pub fn record(&self, sqid: u16, sqe: &Sqe, status: Status, lba: u64, information: u64) {
        let count = self.count.get() + 1;
        self.count.set(count);
        let mut entry = ErrorLogEntry {
            error_count: count,
            sqid,
            cid: sqe.cid(),
            parameter_error_location: ErrorLogEntry::NONE,
            lba,
            command_specific: information,
            nsid: sqe.nsid,
            opcode: sqe.opcode(),
            version: 1, // the layout with the opcode field
            ..Default::default()
        };
        entry.set_status(status);
        let mut entries = self.entries.borrow_mut();
        entries.push_front(entry);
        entries.truncate(ERROR_ENTRIES);
    }

    /// Sets the number of errors before this power cycle.
    pub fn restore(&self, count: u64) {
        self.count.set(count);
    }

    /// Errors in the controller's life.
    pub fn count(&self) -> u64 {
        self.count.get()
    }

    /// The log page, newest first.
    pub fn page(&self) -> Vec<u8> {
        use byteway_wire::IntoBytes;
        let mut page = vec![0; ERROR_ENTRIES * ErrorLogEntry::SIZE];
        for (entry, into) in self.entries.borrow().iter().zip(page.chunks_exact_mut(ErrorLogEntry::SIZE)) {
            into.copy_from_slice(entry.as_bytes());
        }
        page
    }
}
