//! State of the last or current sanitize operation (NVMe Base 2.1, 8.1.24).

use crate::controller::namespace::record::{SanitizeRecord, SanitizeState};
use byteway_clock::{Clock, Notify};
use byteway_wire::nvme::{AdminOpcode, GetLogPage, SanitizeStatusLog, Sqe, Status, lid};
use std::cell::Cell;

/// State of the last or current sanitize operation.
pub struct Sanitizer {
    record: Cell<SanitizeRecord>,
    /// The result of an operation that has ended, until the media record it.
    outcome: Cell<Option<SanitizeState>>,
    /// Progress, in 65536ths.
    progress: Cell<u16>,
    /// Units that hosts had written when the last operation succeeded; `None` if that was in an earlier power cycle.
    written_then: Cell<Option<u64>>,
    begun: Notify,
}

impl Sanitizer {
    /// No operation so far.
    pub fn new(clock: &Clock) -> Self {
        Sanitizer {
            record: Cell::default(),
            outcome: Cell::default(),
            progress: Cell::default(),
            written_then: Cell::default(),
            begun: Notify::new(clock),
        }
    }

    /// Result of the last operation.
    pub fn state(&self) -> SanitizeState {
        self.record.get().state
    }

    /// The state for the record.
    pub fn record(&self) -> SanitizeRecord {
        let record = self.record.get();
        SanitizeRecord { state: self.outcome.get().unwrap_or(record.state), ..record }
    }

    /// Restores the state from the record.
    pub fn restore(&self, record: SanitizeRecord) {
        self.record.set(record);
    }

    /// The last operation, as the media record it.
    pub(crate) fn last(&self) -> SanitizeRecord {
        self.record.get()
    }

    /// Starts an operation; `cdw10` is dword 10 of its command.
    pub(crate) fn begin(&self, cdw10: u32) {
        self.record.set(SanitizeRecord { state: SanitizeState::InProgress, cdw10 });
        self.progress.set(0);
    }

    /// Waits until there is an operation to carry out.
    pub(crate) async fn begun(&self) {
        loop {
            self.begun.notified().await;
            if self.state() == SanitizeState::InProgress {
                return;
            }
        }
    }

    /// Sets the progress, in 65536ths.
    pub(crate) fn set_progress(&self, progress: u16) {
        self.progress.set(progress);
    }

    /// Ends the operation with `outcome`, after hosts had written `written` units. The media do not record it yet.
    pub(crate) fn conclude(&self, outcome: SanitizeState, written: u64) {
        self.written_then.set(Some(written));
        self.outcome.set(Some(outcome));
    }

    /// Notes that the media record the result.
    pub(crate) fn end(&self) {
        if let Some(outcome) = self.outcome.take() {
            self.set(outcome);
        }
    }

    /// Exits the failure state at the host's request.
    pub(crate) fn leave(&self) {
        self.set(SanitizeState::Left);
    }

    /// Wakes the sanitize task, to continue an operation.
    pub fn wake(&self) {
        self.begun.notify_one();
    }

    fn set(&self, state: SanitizeState) {
        self.record.set(SanitizeRecord { state, ..self.record.get() });
    }

    /// The status that refuses commands to media or namespaces, if they are refused.
    pub fn refuses(&self) -> Result<(), Status> {
        match self.state() {
            SanitizeState::InProgress => Err(Status::SANITIZE_IN_PROGRESS),
            SanitizeState::Failed => Err(Status::SANITIZE_FAILED.with_dnr()),
            SanitizeState::Never | SanitizeState::Succeeded | SanitizeState::Left => Ok(()),
        }
    }

    /// The status that refuses an admin command, if it is refused (NVMe Base 2.1, 8.1.24, figure "Admin Commands
    /// Allowed"): commands that manage queues, features and events, that identify, or that read a status are allowed.
    pub fn check_admin(&self, sqe: &Sqe) -> Result<(), Status> {
        let allowed = match AdminOpcode(sqe.opcode()) {
            AdminOpcode::GET_LOG_PAGE => {
                let lid = GetLogPage::parse(sqe).lid;
                let pages =
                    [lid::ERROR_INFORMATION, lid::SMART, lid::CHANGED_NAMESPACE_LIST, lid::SANITIZE_STATUS];
                pages.contains(&lid)
            }
            AdminOpcode::FORMAT_NVM
            | AdminOpcode::NAMESPACE_MANAGEMENT
            | AdminOpcode::NAMESPACE_ATTACHMENT
            | AdminOpcode::DEVICE_SELF_TEST => false,
            AdminOpcode::SANITIZE => self.state() != SanitizeState::InProgress,
            _ => true,
        };
        if allowed { Ok(()) } else { self.refuses() }
    }

    /// The log page. `written`: units that hosts have written so far.
    pub fn log(&self, written: u64) -> SanitizeStatusLog {
        let SanitizeRecord { state, cdw10 } = self.record.get();
        let mut log = SanitizeStatusLog { scdw10: cdw10, ..Default::default() };
        log.sstat = match state {
            SanitizeState::Never => SanitizeStatusLog::NEVER,
            SanitizeState::Succeeded => SanitizeStatusLog::SUCCEEDED,
            SanitizeState::InProgress => SanitizeStatusLog::IN_PROGRESS,
            SanitizeState::Failed | SanitizeState::Left => SanitizeStatusLog::FAILED,
        };
        if state == SanitizeState::InProgress {
            log.sprog = self.progress.get();
        }
        if state == SanitizeState::Succeeded && self.written_then.get() == Some(written) {
            log.sstat |= SanitizeStatusLog::ERASED;
        }
        log
    }
}
