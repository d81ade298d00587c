//! The last sanitize operation, and the one in progress (NVMe Base 2.1, 8.1.24).

use crate::controller::namespace::record::{SanitizeRecord, SanitizeState};
use byteway_clock::{Clock, Notify};
use byteway_wire::nvme::{AdminOpcode, GetLogPage, SanitizeStatusLog, Sqe, Status, lid};
use std::cell::Cell;

/// The last sanitize operation, and the one that is going on.
pub struct Sanitizer {
    record: Cell<SanitizeRecord>,
    /// How the one that goes on has ended, as long as that is not on the medium.
    outcome: Cell<Option<SanitizeState>>,
    /// Of 65536.
    progress: Cell<u16>,
    /// What the host had written when the last one succeeded, units; none if that was in an earlier power cycle.
    written_then: Cell<Option<u64>>,
    begun: Notify,
}

impl Sanitizer {
    /// There was none.
    pub fn new(clock: &Clock) -> Self {
        Sanitizer {
            record: Cell::default(),
            outcome: Cell::default(),
            progress: Cell::default(),
            written_then: Cell::default(),
            begun: Notify::new(clock),
        }
    }

    /// How the last one went.
    pub fn state(&self) -> SanitizeState {
        self.record.get().state
    }

    /// What is to be remembered of it.
    pub fn record(&self) -> SanitizeRecord {
        let record = self.record.get();
        SanitizeRecord { state: self.outcome.get().unwrap_or(record.state), ..record }
    }

    /// What was remembered of it.
    pub fn restore(&self, record: SanitizeRecord) {
        self.record.set(record);
    }

    /// The last one, as far as the medium knows.
    pub(crate) fn last(&self) -> SanitizeRecord {
        self.record.get()
    }

    /// One begins; `cdw10` is dword 10 of its command.
    pub(crate) fn begin(&self, cdw10: u32) {
        self.record.set(SanitizeRecord { state: SanitizeState::InProgress, cdw10 });
        self.progress.set(0);
    }

    /// Waits until there is one to be carried out.
    pub(crate) async fn begun(&self) {
        loop {
            self.begun.notified().await;
            if self.state() == SanitizeState::InProgress {
                return;
            }
        }
    }

    /// How much of it is done, of 65536.
    pub(crate) fn set_progress(&self, progress: u16) {
        self.progress.set(progress);
    }

    /// It has ended like this, when the host had written so many units; the medium is yet to know.
    pub(crate) fn conclude(&self, outcome: SanitizeState, written: u64) {
        self.written_then.set(Some(written));
        self.outcome.set(Some(outcome));
    }

    /// The medium knows how it has ended.
    pub(crate) fn end(&self) {
        if let Some(outcome) = self.outcome.take() {
            self.set(outcome);
        }
    }

    /// The host leaves the state after a failure.
    pub(crate) fn leave(&self) {
        self.set(SanitizeState::Left);
    }

    /// It is to go on.
    pub fn wake(&self) {
        self.begun.notify_one();
    }

    fn set(&self, state: SanitizeState) {
        self.record.set(SanitizeRecord { state, ..self.record.get() });
    }

    /// Whether what touches media or namespaces is refused, and why.
    pub fn refuses(&self) -> Result<(), Status> {
        match self.state() {
            SanitizeState::InProgress => Err(Status::SANITIZE_IN_PROGRESS),
            SanitizeState::Failed => Err(Status::SANITIZE_FAILED.with_dnr()),
            SanitizeState::Never | SanitizeState::Succeeded | SanitizeState::Left => Ok(()),
        }
    }

    /// Whether an admin command is refused (NVMe Base 2.1, 8.1.24, figure "Admin Commands Allowed"): it may be one that
    /// manages queues, features and events, one that identifies, and one that asks how things stand.
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

    /// The log page. `written` is what the host has written so far, units.
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
