//! Sanitize by block erase (NVMe Base 2.1, 5.1.22 and 8.1.24): everything that hosts have written is deallocated, and
//! every superblock that still holds some of it is erased.
//!
//! The operation runs in a task of its own, through resets, and starts over after a power cut. While it runs, and after
//! it has failed, nearly all commands are refused.

use crate::controller::command_set::CommandSets;
use crate::controller::core::Core;
use crate::controller::namespace::record::SanitizeState;
use crate::controller::state::counters::add;
use byteway_clock::SpanId;
use byteway_firmware::MediaError;
use byteway_wire::nvme::{AsyncEvent, Sanitize, SelfTestResult, Sqe, Status};
use std::rc::Rc;

/// The share of deallocation in the progress, in 65536ths; the rest is erasing.
const DEALLOCATED: u32 = 65536 / 16;

/// Carries out one sanitize operation after another.
pub async fn run(sets: Rc<CommandSets>) {
    let core = &sets.core;
    loop {
        core.background.sanitize.begun().await;
        let erased = erase_all(&sets).await;
        for namespace in core.inventory.all() {
            let _ = sets.open(&namespace); // it was open before, at this size
        }
        if erased.is_err() {
            add(&core.counters.media_errors, 1);
        }
        // Nothing may be written until the media record the result: after a power cut it would be erased.
        let outcome = if erased.is_ok() { SanitizeState::Succeeded } else { SanitizeState::Failed };
        core.background.sanitize.conclude(outcome, core.backing.user_units_written());
        core.store().await;
        core.background.sanitize.end();
        core.refresh_refusals();
        core.peers.each(|peer| peer.events.raise(AsyncEvent::SANITIZE_COMPLETED));
    }
}

impl Core {
    /// Starts a sanitize operation, or exits the failure state; the command was checked before.
    pub(crate) async fn begin_sanitize(&self, command: Sanitize) -> Result<u32, Status> {
        let sanitize = &self.background.sanitize;
        let record = sanitize.last();
        if record.state == SanitizeState::InProgress {
            return Err(Status::SANITIZE_IN_PROGRESS);
        }
        // Whatever the operation is (NVMe Base 2.1, 8.1.16).
        for namespace in self.inventory.all() {
            namespace.check_writable()?;
        }
        // After an operation with restricted exit, only another restricted one may follow.
        let was_restricted =
            record.state == SanitizeState::Failed && !Sanitize::parse(&with_cdw10(record.cdw10)).ause;
        if command.sanact == Sanitize::EXIT_FAILURE {
            if was_restricted {
                return Err(Status::SANITIZE_FAILED.with_dnr());
            }
            if record.state == SanitizeState::Failed {
                sanitize.leave();
                self.refresh_refusals();
                self.store().await;
            }
            return Ok(0);
        }
        if was_restricted && command.ause {
            return Err(Status::SANITIZE_FAILED.with_dnr());
        }
        // An operation that can't end would only take away data that can still be read.
        if self.backing.health().is_read_only {
            return Err(Status::NAMESPACE_WRITE_PROTECTED.with_dnr());
        }
        sanitize.begin(command.sqe(0).cdw10);
        self.peers.each(|peer| peer.events.withdraw(AsyncEvent::SANITIZE_COMPLETED)); // it was of an earlier operation
        self.refresh_refusals();
        self.end_self_test(SelfTestResult::ABORTED_SANITIZE);
        self.store().await;
        sanitize.wake();
        Ok(0)
    }

    /// Erases every superblock that holds stale data, after moving its valid data. `progress` receives per cent done.
    pub(crate) async fn erase_stale(&self, progress: impl Fn(u32)) -> Result<(), MediaError> {
        self.backing.purge(progress).await
    }
}

fn with_cdw10(cdw10: u32) -> Sqe {
    Sqe { cdw10, ..Sqe::default() }
}

/// Erases all that hosts have written.
async fn erase_all(sets: &CommandSets) -> Result<(), MediaError> {
    let core = &sets.core;
    for namespace in core.inventory.all() {
        core.background.operations.quiesce(&namespace, 2).await;
        sets.close(&namespace).await?;
    }
    core.backing.trim(SpanId::NONE, core.port.spans(), 0, core.backing.user_units()).await?;
    core.flush().await?;
    core.background.sanitize.set_progress(DEALLOCATED as u16);
    sets.sanitize();
    let progress = |done: u32| {
        let done = u64::from(65536 - DEALLOCATED) * u64::from(done) / 100;
        core.background.sanitize.set_progress((u64::from(DEALLOCATED) + done).min(65534) as u16);
    };
    core.erase_stale(progress).await
}
