//! Sanitize (NVMe Base 2.1, 5.1.22 and 8.1.24), by block erase: all that hosts have written is deallocated, and every
//! superblock that still holds some of it is erased.
//!
//! It goes on in a task of its own, through resets, and after a power cut begins anew. Meanwhile, and after one has
//! failed, nearly all commands are refused.

use crate::controller::Core;
use crate::controller::log::add;
use crate::controller::persist::{SanitizeRecord, SanitizeState};
use byteway_clock::{Clock, Notify, SpanId};
use byteway_firmware::MediaError;
use byteway_wire::nvme::{AdminOpcode, AsyncEvent, GetLogPage, Sanitize, SanitizeStatusLog, SelfTestResult};
use byteway_wire::nvme::{Sqe, Status, lid};
use std::cell::Cell;
use std::rc::Rc;

/// The share of a sanitize operation that is deallocating, of 65536; the rest is erasing.
const DEALLOCATED: u32 = 65536 / 16;

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

/// Whether a command asks for something that SANICAP offers: a block erase, whose blocks are deallocated (NDI), or the
/// end of a failure.
pub fn is_offered(command: &Sanitize) -> Result<(), Status> {
    match command.sanact {
        Sanitize::BLOCK_ERASE if !command.ndas && !command.emvs => Ok(()),
        Sanitize::EXIT_FAILURE => Ok(()),
        _ => Err(Status::INVALID_FIELD.with_dnr()),
    }
}

/// Carries out one sanitize operation after another.
pub async fn run(core: Rc<Core>) {
    loop {
        core.sanitize.begun.notified().await;
        if core.sanitize.state() != SanitizeState::InProgress {
            continue;
        }
        let erased = core.erase_all().await;
        for namespace in core.inventory.all() {
            let _ = core.open_pairs(&namespace); // it had them before, at that size
        }
        if erased.is_err() {
            add(&core.counters.media_errors, 1);
        }
        core.sanitize.written_then.set(Some(core.ftl.counters().user_units_written));
        // Until that is on the medium nothing may be written: after a power cut it would be erased.
        let outcome = if erased.is_ok() { SanitizeState::Succeeded } else { SanitizeState::Failed };
        core.sanitize.outcome.set(Some(outcome));
        core.store().await;
        core.sanitize.outcome.set(None);
        core.sanitize.set(outcome);
        core.refresh_refusals();
        core.raise(AsyncEvent::SANITIZE_COMPLETED);
    }
}

impl Core {
    /// Begins a sanitize operation, or leaves the failure of one; the command has been looked at.
    pub(super) async fn begin_sanitize(&self, command: Sanitize) -> Result<u32, Status> {
        let sanitize = &self.sanitize;
        let record = sanitize.record.get();
        if record.state == SanitizeState::InProgress {
            return Err(Status::SANITIZE_IN_PROGRESS);
        }
        // Whatever it is to do (NVMe Base 2.1, 8.1.16).
        for namespace in self.inventory.all() {
            namespace.check_writable()?;
        }
        // Whoever did not allow an unrestricted exit gets out by another restricted one only.
        let was_restricted =
            record.state == SanitizeState::Failed && !Sanitize::parse(&with_cdw10(record.cdw10)).ause;
        if command.sanact == Sanitize::EXIT_FAILURE {
            if was_restricted {
                return Err(Status::SANITIZE_FAILED.with_dnr());
            }
            if record.state == SanitizeState::Failed {
                sanitize.set(SanitizeState::Left);
                self.refresh_refusals();
                self.store().await;
            }
            return Ok(0);
        }
        if was_restricted && command.ause {
            return Err(Status::SANITIZE_FAILED.with_dnr());
        }
        // One that can't end would only take away what can still be read.
        if self.ftl.health().is_read_only {
            return Err(Status::NAMESPACE_WRITE_PROTECTED.with_dnr());
        }
        let cdw10 = command.sqe(0).cdw10;
        sanitize.record.set(SanitizeRecord { state: SanitizeState::InProgress, cdw10 });
        sanitize.progress.set(0);
        self.events.withdraw(AsyncEvent::SANITIZE_COMPLETED); // that was another one
        self.refresh_refusals();
        self.end_self_test(SelfTestResult::ABORTED_SANITIZE);
        self.store().await;
        sanitize.wake();
        Ok(0)
    }

    /// Erases all that hosts have written.
    async fn erase_all(&self) -> Result<(), MediaError> {
        for namespace in self.inventory.all() {
            self.quiesce(&namespace, 2).await;
            self.close_pairs(&namespace).await?;
        }
        self.ftl.trim(SpanId::NONE, self.port.spans(), 0, self.ftl.user_units()).await?;
        self.flush().await?;
        self.sanitize.progress.set(DEALLOCATED as u16);
        self.sink.clear();
        let progress = |done: u32| {
            let done = u64::from(65536 - DEALLOCATED) * u64::from(done) / 100;
            self.sanitize.progress.set((u64::from(DEALLOCATED) + done).min(65534) as u16);
        };
        self.erase_stale(progress).await
    }

    /// Erases every superblock that holds what is not valid any more; what is valid in it is moved. `progress` is told
    /// how much is done, per cent.
    pub(super) async fn erase_stale(&self, progress: impl Fn(u32)) -> Result<(), MediaError> {
        self.ftl.purge(progress).await
    }
}

fn with_cdw10(cdw10: u32) -> Sqe {
    Sqe { cdw10, ..Sqe::default() }
}
