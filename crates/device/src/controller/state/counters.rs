//! What the controller counts of commands, and the log of those that failed (NVMe Base 2.1, 5.1.12.1.1 and 5.1.12.1.2).

use byteway_clock::Delay;
use byteway_wire::nvme::{ErrorLogEntry, Sqe, Status};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

/// Entries that the error log keeps.
pub const ERROR_ENTRIES: usize = 64;

/// What the controller counts of the host's commands.
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
    /// Bytes of payload taken from the host, as commands count them.
    pub data_in_bytes: Cell<u64>,
    /// Bytes of payload that came by submission queues, as commands count them: not in the former.
    pub carried_bytes: Cell<u64>,
    /// Submission queue entries that carried them. They are fetched too, unless their command was aborted before.
    pub carried_entries: Cell<u64>,
    /// Bytes of payload taken from the buffer that the host stores to, as commands count them.
    pub buffered_bytes: Cell<u64>,
    /// Commit records that were answered.
    pub records: Cell<u64>,
    /// Chunks that were there already.
    pub chunks_duplicate: Cell<u64>,
    /// Chunks that were not kept: for want of room, because there is no such chunk, or because it contradicts others.
    pub chunks_refused: Cell<u64>,
    /// Payloads that were incomplete for too long.
    pub payloads_given_up: Cell<u64>,
    /// Results that went where the data pointer says, for want of room behind the completion or for their length.
    pub results_fallen_back: Cell<u64>,
    /// Bytes of payload given to the host, with what they were rounded up by, and in whole slots behind completions.
    pub data_out_bytes: Cell<u64>,
    /// Controller resets.
    pub resets: Cell<u64>,
}

/// Adds to a counter.
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
    /// Records a command that failed.
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
            version: 1, // of the layout that has the opcode
            ..Default::default()
        };
        entry.set_status(status);
        let mut entries = self.entries.borrow_mut();
        entries.push_front(entry);
        entries.truncate(ERROR_ENTRIES);
    }

    /// There were so many before this power cycle.
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
