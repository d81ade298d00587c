//! Exclusive operations: those that change namespaces, or the content of all of them, and that no other operation may overlap.
//!
//! A change that a power cut, reset or shutdown interrupts is pending until the host has checked its outcome: the namespace then has either
//! the old or the new state.

use super::drive;
use super::failure::{Failure, Kind};
use super::life::{Life, WorkerClient, broken, fit};
use super::plan::{Extent, Op};
use super::seat::Pending;
use super::space::{Holds, Space};
use byteway_clock::Delay;
use byteway_content::BlockSize;
use byteway_host::{AnyIoError, BaseState, Client, Data, Driver, DriverError, IoBuffer, Lost};
use byteway_wire::nvme::kv::identify::IdentifyNamespaceKv;
use byteway_wire::nvme::vendor::csd;
use byteway_wire::nvme::{
    Cns, ControllerList, FormatNvm, Identify, IdentifyController, IdentifyNamespace, NamespaceAttachment,
    NamespaceManagement, Sanitize, SanitizeStatusLog, Sqe, Status, csi, lid,
};
use byteway_wire::{FromBytes, IntoBytes};
use std::cell::RefCell;
use std::rc::Rc;

/// Upper limit of polls of a sanitize operation's progress, one every 100 us.
const LOOKS_MAX: u32 = 1_000_000;

/// Outcome of an admin command.
enum Ended {
    Done,
    Refused(Status),
    Lost,
}

impl Life {
    /// Performs an exclusive operation. `ways` are the worker's clients, by namespace.
    pub(super) async fn perform_alone(
        &self,
        driver: &Driver,
        op: &Op,
        way: Option<&mut WorkerClient>,
    ) -> Result<Result<(), AnyIoError>, Failure> {
        match (op, way) {
            (Op::Copy { to, extents, .. }, Some(way)) => Ok(way.copy(*to, extents).await),
            (Op::Format { block, .. }, Some(way)) => {
                self.format(driver, way.nsid, drive::block(*block)).await.map(Ok)
            }
            (Op::Delete { .. }, Some(way)) => self.delete(driver, way.nsid).await.map(Ok),
            (Op::Create { pairs: true, .. }, _) if !self.run.plan.drive.has_pairs() => Ok(Ok(())),
            (Op::Create { units, pairs: true, .. }, _) => self.create_pairs(driver, *units).await.map(Ok),
            (Op::Create { units, block, .. }, _) => {
                self.create(driver, *units, drive::block(*block)).await.map(Ok)
            }
            (Op::Sanitize, _) => self.sanitize(driver).await.map(Ok),
            _ => Ok(Ok(())),
        }
    }

    /// Submits an admin command, and repeats it if a reset intervened.
    async fn admin(&self, driver: &Driver, sqe: Sqe, data: &[u8]) -> Result<Ended, Failure> {
        loop {
            let data = if data.is_empty() { Data::None } else { Data::Out(data) };
            return match driver.admin(sqe, data).await {
                Ok(cqe) if cqe.status().is_success() => Ok(Ended::Done),
                Ok(cqe) => Ok(Ended::Refused(cqe.status())),
                Err(DriverError::Lost { lost: Lost::Reset, .. }) => continue,
                Err(DriverError::Lost { .. } | DriverError::Gone(_)) => Ok(Ended::Lost),
                Err(error) => Err(broken(error)),
            };
        }
    }

    fn holds(&self, nsid: u32) -> Option<Holds> {
        let spaces = self.run.spaces.borrow();
        spaces.iter().find(|space| space.nsid == nsid).map(|space| space.holds.clone())
    }

    async fn format(&self, driver: &Driver, nsid: u32, block: BlockSize) -> Result<(), Failure> {
        let Some(holds) = self.holds(nsid) else { return Ok(()) };
        // With an unchanged block size a format is a write of zeroes. Otherwise another namespace replaces this one; or it stays, possibly
        // partly deallocated, if the drive could no longer write.
        let emptying = holds.begin_emptying();
        // KV and table namespaces have a single format.
        let lbaf = u8::from(block == BlockSize::B4096 && matches!(holds, Holds::Blocks(_)));
        self.run.pending.set(Some(Pending::Format { nsid, lbaf }));
        let sqe = FormatNvm { lbaf, ..FormatNvm::default() }.sqe(0, nsid);
        let ended = self.admin(driver, sqe, &[]).await?;
        emptying.end(matches!(ended, Ended::Done));
        self.settled(driver, "Format NVM", ended, |_| false).await
    }

    async fn create_pairs(&self, driver: &Driver, units: u64) -> Result<(), Failure> {
        self.run.pending.set(Some(Pending::Create));
        let wanted = IdentifyNamespaceKv { nsze: units * 4096, ..IdentifyNamespaceKv::default() };
        let create = NamespaceManagement { sel: NamespaceManagement::CREATE, csi: csi::KEY_VALUE };
        let ended = self.admin(driver, create.sqe(0, 0), wanted.as_bytes()).await?;
        let is_small = units < drive::pairs_units_min(&self.run.plan.drive);
        let refused = |status: Status| {
            status.is(Status::NAMESPACE_INSUFFICIENT_CAPACITY)
                || status.is(Status::NAMESPACE_ID_UNAVAILABLE)
                || is_small && status.is(Status::INVALID_FIELD)
        };
        self.settled(driver, "Namespace Management (create pairs)", ended, refused).await
    }

    async fn create(&self, driver: &Driver, units: u64, block: BlockSize) -> Result<(), Failure> {
        self.run.pending.set(Some(Pending::Create));
        let blocks = units * block.per_unit() as u64;
        let flbas = u8::from(block == BlockSize::B4096);
        let wanted = IdentifyNamespace { nsze: blocks, ncap: blocks, flbas, ..IdentifyNamespace::default() };
        let create =
            NamespaceManagement { sel: NamespaceManagement::CREATE, ..NamespaceManagement::default() };
        let ended = self.admin(driver, create.sqe(0, 0), wanted.as_bytes()).await?;
        let refused = |status: Status| {
            status.is(Status::NAMESPACE_INSUFFICIENT_CAPACITY) || status.is(Status::NAMESPACE_ID_UNAVAILABLE)
        };
        self.settled(driver, "Namespace Management (create)", ended, refused).await
    }

    async fn delete(&self, driver: &Driver, nsid: u32) -> Result<(), Failure> {
        let Some(holds) = self.holds(nsid).filter(|_| self.run.spaces.borrow().len() > 1) else {
            return Ok(());
        };
        // If it stays, its content is unchanged, except what was deallocated before the drive could no longer write.
        let emptying = holds.begin_emptying();
        self.run.pending.set(Some(Pending::Delete { nsid }));
        let delete =
            NamespaceManagement { sel: NamespaceManagement::DELETE, ..NamespaceManagement::default() };
        let ended = self.admin(driver, delete.sqe(0, nsid), &[]).await?;
        emptying.end(false);
        // It was deleted before a reset, and the deletion was repeated after it.
        let refused =
            |status: Status| status.is(Status::INVALID_NAMESPACE) || status.is(Status::INVALID_FIELD);
        self.settled(driver, "Namespace Management (delete)", ended, refused).await
    }

    async fn sanitize(&self, driver: &Driver) -> Result<(), Failure> {
        let begun: Vec<_> =
            self.run.spaces.borrow().iter().map(|space| space.holds.begin_emptying()).collect();
        self.run.programs.iter().for_each(|programs| programs.forget());
        let sqe = sanitize(Sanitize::BLOCK_ERASE);
        let ended = self.admin(driver, sqe, &[]).await?;
        // Once accepted, the operation completes unless flash fails; reads and writes are refused until then.
        let mut is_certain = matches!(ended, Ended::Done);
        let done = match ended {
            Ended::Done => {
                self.run.count(|tally| tally.sanitized += 1);
                if self.writes_fail() {
                    is_certain = self.wait_for_sanitize(driver).await?;
                }
                Ok(())
            }
            // It was accepted before a reset, and requested again after it.
            Ended::Refused(status) if status.is(Status::SANITIZE_IN_PROGRESS) => Ok(()),
            Ended::Refused(status) => self.refused("Sanitize", status),
            Ended::Lost => Ok(()),
        };
        begun.into_iter().for_each(|begun| begun.end(is_certain));
        self.run.programs.iter().filter(|_| is_certain).for_each(|programs| programs.clear());
        done?;
        self.wait_for_sanitize(driver).await.map(drop)
    }

    /// Waits until no sanitize operation is in progress, and exits failure mode. `false` if it is not known that one has succeeded.
    async fn wait_for_sanitize(&self, driver: &Driver) -> Result<bool, Failure> {
        let mut bytes = [0; size_of::<SanitizeStatusLog>()];
        for _ in 0..LOOKS_MAX {
            match driver.log_page(lid::SANITIZE_STATUS, u32::MAX, false, &mut bytes).await {
                Ok(cqe) if cqe.status().is_success() => {}
                Ok(cqe) => return self.refused("Get Log Page", cqe.status()).map(|()| false),
                Err(DriverError::Lost { lost: Lost::Reset, .. }) => continue,
                Err(DriverError::Lost { .. } | DriverError::Gone(_)) => return Ok(false),
                Err(error) => return Err(broken(error)),
            }
            let log = SanitizeStatusLog::read_from_bytes(&bytes).expect("the buffer has the log's length");
            match log.sstat & 0b111 {
                SanitizeStatusLog::IN_PROGRESS => {}
                SanitizeStatusLog::FAILED if self.writes_fail() => {
                    return self.leave_failure(driver).await.map(|()| false);
                }
                SanitizeStatusLog::FAILED => {
                    return Err(Failure::new(Kind::Error, "a sanitize operation failed"));
                }
                of => return Ok(of == SanitizeStatusLog::SUCCEEDED),
            }
            self.clock.timer(Delay::from_us(100)).await;
        }
        Err(Failure::new(Kind::Hang, "a sanitize operation never ends"))
    }

    /// Exits the failure mode of a failed sanitize operation, so that the remaining data can be read again.
    async fn leave_failure(&self, driver: &Driver) -> Result<(), Failure> {
        match self.admin(driver, sanitize(Sanitize::EXIT_FAILURE), &[]).await? {
            Ended::Refused(status) => {
                Err(Failure::new(Kind::Error, format!("Sanitize (exit failure mode): {status}")))
            }
            Ended::Done | Ended::Lost => Ok(()),
        }
    }

    /// Checks the outcome of a change that has ended. `may_refuse` selects the refusals that are not errors
    /// of the drive.
    async fn settled(
        &self,
        driver: &Driver,
        what: &str,
        ended: Ended,
        may_refuse: impl Fn(Status) -> bool,
    ) -> Result<(), Failure> {
        match ended {
            Ended::Lost => return Ok(()), // the next life checks
            Ended::Refused(status) if !may_refuse(status) => self.refused(what, status)?,
            Ended::Done | Ended::Refused(_) => {}
        }
        match self.reconcile(driver).await {
            Err(DriverError::Lost { .. } | DriverError::Gone(_)) => Ok(()),
            result => result.map_err(broken),
        }
    }

    fn refused(&self, what: &str, status: Status) -> Result<(), Failure> {
        // After failures of flash the drive may be at its end of life.
        if status.is(Status::NAMESPACE_WRITE_PROTECTED) && self.is_read_only() {
            self.run.count(|tally| tally.ops_failed += 1);
            return Ok(());
        }
        Err(Failure::new(Kind::Error, format!("{what}: {status}")))
    }

    /// Repeats a format after a restart, because the host does not know how far it had proceeded, and waits
    /// for it.
    pub(super) async fn format_again(&self, driver: &Driver) -> Result<(), Failure> {
        let Some(Pending::Format { nsid, lbaf }) = self.run.pending.get() else { return Ok(()) };
        let sqe = FormatNvm { lbaf, ..FormatNvm::default() }.sqe(0, nsid);
        self.admin(driver, sqe, &[]).await.map(drop)
    }

    /// After power-on, waits for operations in progress, and checks the outcome of those that were
    /// outstanding.
    pub(super) async fn check_outcomes(&self, driver: &Driver) -> Result<(), Failure> {
        if self.run.plan.ops.contains(&Op::Sanitize) {
            self.wait_for_sanitize(driver).await?;
        }
        self.reconcile(driver).await.map_err(broken)
    }

    /// Checks the outcome of a pending change.
    async fn reconcile(&self, driver: &Driver) -> Result<(), DriverError> {
        let Some(pending) = self.run.pending.get() else { return Ok(()) };
        loop {
            let result = match pending {
                Pending::Create => self.attach_new(driver).await,
                _ => driver.refresh().await,
            };
            match result {
                Err(DriverError::Lost { lost: Lost::Reset, .. }) => continue,
                result => break result,
            }
        }?;
        let tables = loop {
            match driver.namespaces_of(csd::CSI).await {
                Err(DriverError::Lost { lost: Lost::Reset, .. }) => continue,
                tables => break tables?,
            }
        };
        let (namespaces, pairs) = (driver.namespaces(), driver.kv_namespaces());
        let mut spaces = self.run.spaces.borrow_mut();
        match pending {
            Pending::Delete { nsid } => {
                let is_there = namespaces.iter().any(|namespace| namespace.nsid == nsid)
                    || pairs.iter().any(|namespace| namespace.nsid == nsid)
                    || tables.contains(&nsid);
                if !is_there {
                    spaces.retain(|space| space.nsid != nsid);
                    self.run.count(|tally| tally.namespaces_deleted += 1);
                }
            }
            Pending::Format { nsid, .. } => {
                let found = namespaces.iter().find(|namespace| namespace.nsid == nsid);
                let space = spaces.iter_mut().find(|space| space.nsid == nsid);
                self.run.count(|tally| tally.formats += 1);
                if let (Some(found), Some(space)) = (found, space)
                    && let Holds::Blocks(oracle) = &space.holds
                {
                    let block = drive::block(found.block_bytes);
                    let is_other = block != oracle.borrow().block();
                    if is_other {
                        *space = self.fresh(nsid, found.blocks, block);
                    }
                }
            }
            Pending::Create => {
                for found in namespaces.iter() {
                    if !spaces.iter().any(|space| space.nsid == found.nsid) {
                        let block = drive::block(found.block_bytes);
                        spaces.push(self.fresh(found.nsid, found.blocks, block));
                        self.run.count(|tally| tally.namespaces_created += 1);
                    }
                }
                for found in pairs.iter() {
                    if !spaces.iter().any(|space| space.nsid == found.nsid) {
                        let oracle = self.run.pairs_oracle(self.next_tag());
                        let holds = Holds::Pairs(Rc::new(RefCell::new(oracle)));
                        spaces.push(Space { nsid: found.nsid, holds });
                        self.run.count(|tally| tally.namespaces_created += 1);
                    }
                }
                spaces.sort_by_key(|space| space.nsid);
            }
        }
        self.run.spaces_version.set(self.run.spaces_version.get() + 1);
        self.run.pending.set(None);
        Ok(())
    }

    /// Attaches namespaces that were created and are not attached.
    async fn attach_new(&self, driver: &Driver) -> Result<(), DriverError> {
        let mut list = [0; 4096];
        let identify = Identify { cns: Cns::ALLOCATED_NAMESPACES, ..Identify::default() };
        let cqe = driver.admin(identify.sqe(0, 0), Data::In(&mut list)).await?;
        if cqe.status().is_success() {
            let (words, _) = list.as_chunks::<4>();
            let nsids = words.iter().map(|word| u32::from_le_bytes(*word)).take_while(|nsid| *nsid > 0);
            let known = |nsid: &u32| self.run.spaces.borrow().iter().any(|space| space.nsid == *nsid);
            let new: Vec<u32> = nsids.filter(|nsid| !known(nsid)).collect();
            let mut identity = IdentifyController::default();
            let identify = Identify { cns: Cns::CONTROLLER, ..Identify::default() };
            driver.admin(identify.sqe(0, 0), Data::In(identity.as_mut_bytes())).await?;
            for nsid in new {
                let attach = NamespaceAttachment { sel: NamespaceAttachment::ATTACH }.sqe(0, nsid);
                let to = ControllerList::from(0, [identity.cntlid]);
                // It may already be attached.
                driver.admin(attach, Data::Out(to.as_bytes())).await?;
            }
        }
        driver.refresh().await
    }

    /// An empty namespace.
    fn fresh(&self, nsid: u32, blocks: u64, block: BlockSize) -> Space {
        let oracle = self.run.oracle(blocks, block, self.next_tag(), BaseState::Zeroes);
        Space { nsid, holds: Holds::Blocks(Rc::new(RefCell::new(oracle))) }
    }

    fn next_tag(&self) -> u16 {
        let tag = self.run.next_tag.get();
        self.run.next_tag.set(tag.wrapping_add(1));
        tag
    }
}

/// The Sanitize command, always with AUSE set, so that its failure mode can be exited.
fn sanitize(sanact: u8) -> Sqe {
    Sanitize { sanact, ause: true, ..Sanitize::default() }.sqe(0)
}

impl WorkerClient {
    async fn copy(&mut self, to: u64, extents: &[Extent]) -> Result<(), AnyIoError> {
        let Some(client) = self.blocks().cloned() else { return Ok(()) };
        copy(&client, &mut self.buffer, to, extents).await
    }
}

/// Copies the ranges that fit and do not overlap the destination.
async fn copy(client: &Client, buffer: &mut IoBuffer, to: u64, extents: &[Extent]) -> Result<(), AnyIoError> {
    let blocks = client.namespace().blocks;
    let to = to % blocks;
    let mut room = (blocks - to).min(u64::from(u16::MAX));
    let mut sources = Vec::new();
    for extent in extents {
        // The drive limits a copy; half a payload is below all its limits.
        let Extent { lba, blocks } = fit(client, extent);
        let count = u64::from(blocks / 4).max(1).min(room);
        if count > 0 {
            sources.push((lba, count as u32));
            room -= count;
        }
    }
    let total: u64 = sources.iter().map(|(_, count)| u64::from(*count)).sum();
    sources.retain(|(lba, count)| lba + u64::from(*count) <= to || *lba >= to + total);
    if sources.is_empty() {
        return Ok(());
    }
    client.copy(buffer, to, &sources).await?;
    Ok(())
}
