//! Namespace changes, one at a time: create, delete, attach, format, protect.
//!
//! A change that has started is completed, whatever happens to its command: a reset ends only the wait. A long change
//! is entered in the record before it starts, so that after a power cut the next power-on completes it before the
//! controller is ready: the host finds the namespace either as before, or as requested. At the end of the drive's life
//! nothing can be deallocated; the namespace then stays as before, except for its contents.
//!
//! No other namespace ever sees the contents of a deleted one. They are deallocated, durably, before the chunks become
//! free; and before that, every command that looked the namespace up has ended (`Operations::quiesce`). Until then
//! every record still contains the namespace, whatever it is written for: a power cut must not free chunks that are not
//! deallocated.

use crate::controller::command::context::Context;
use crate::controller::command::media::status_of;
use crate::controller::command_set::CommandSets;
use crate::controller::core::Core;
use crate::controller::namespace::record::{Pending, SanitizeState};
use crate::controller::namespace::{Format, Namespace};
use crate::controller::state::operations::{Accepted, Operation};
use byteway_clock::SpanId;
use byteway_content::{BlockSize, UNIT_BYTES};
use byteway_firmware::MediaError;
use byteway_wire::nvme::feature::WriteProtection;
use byteway_wire::nvme::{AsyncEvent, NSID_ALL, SelfTestResult, Status};
use std::rc::Rc;

/// Units deallocated between two progress updates.
const STEP_UNITS: u64 = 1 << 18;

/// Requests a change on behalf of a command, and waits for it. Returns dword 0 of its completion.
pub async fn perform(context: &Context<'_>, operation: Operation) -> Result<u32, Status> {
    let operations = &context.core.background.operations;
    while operations.is_busy() {
        operations.changed().await;
        context.check()?;
    }
    let outcome = operations.accept(operation, context.core.number);
    loop {
        operations.changed().await;
        if let Some(outcome) = outcome.get() {
            return outcome;
        }
        // The change continues after a reset, and an Abort is too late for it.
        context.check_queue()?;
    }
}

/// Makes one change after another, with the view of namespaces of the controller that received the command.
pub async fn run(sets: Rc<CommandSets>) {
    let operations = &sets.core.background.operations;
    loop {
        let Accepted { operation, controller, outcome } = operations.next().await;
        let result = match sets.peers.at(controller) {
            Some(asked) => execute(&asked, operation).await,
            None => Err(Status::INTERNAL_ERROR),
        };
        operations.end(&outcome, result);
    }
}

/// Completes a change that a power cut interrupted.
pub async fn carry_on(sets: &CommandSets, pending: Pending) {
    // What fails here failed before the power cut, or will show in the host's next command.
    let _ = match pending {
        Pending::None => Ok(0),
        Pending::Delete(nsids) => delete_all(sets, &nsids).await,
        Pending::Format { nsids, block, erase } => format_all(sets, &nsids, block, erase).await,
    };
}

async fn execute(sets: &CommandSets, operation: Operation) -> Result<u32, Status> {
    let core = &sets.core;
    if !matches!(operation, Operation::Sanitize(_)) {
        core.background.sanitize.refuses()?;
    }
    match operation {
        Operation::Create { blocks, format } => create(sets, blocks, format).await,
        Operation::Delete(nsid) => delete(sets, nsid).await,
        Operation::Attach { nsid, attach } => self::attach(sets, nsid, attach).await,
        Operation::Format { nsid, block, erase } => format(sets, nsid, block, erase).await,
        Operation::Protect { nsid, state } => protect(sets, nsid, state).await,
        Operation::Sanitize(command) => core.begin_sanitize(command).await,
    }
}

async fn create(sets: &CommandSets, blocks: u64, format: Format) -> Result<u32, Status> {
    let core = &sets.core;
    let inventory = &core.inventory;
    let nsid = inventory.free_nsid().ok_or(Status::NAMESPACE_ID_UNAVAILABLE.with_dnr())?;
    let units = blocks.div_ceil(format.block.per_unit() as u64);
    if !inventory.capacity.borrow_mut().allocate(nsid, units) {
        return Err(Status::NAMESPACE_INSUFFICIENT_CAPACITY.with_dnr());
    }
    let uid = inventory.next_uid.get();
    inventory.next_uid.set(uid + 1);
    let extents = inventory.capacity.borrow().extents(nsid);
    let namespace = Namespace::new(nsid, uid, format, blocks, extents);
    namespace.attached.set(false);
    if sets.open(&namespace).is_err() {
        inventory.capacity.borrow_mut().release(nsid);
        return Err(Status::INVALID_FIELD.with_dnr()); // too small for its command set
    }
    inventory.put(namespace);
    core.refresh_refusals();
    core.store().await;
    Ok(nsid)
}

async fn delete(sets: &CommandSets, nsid: u32) -> Result<u32, Status> {
    let core = &sets.core;
    let nsids = match nsid {
        NSID_ALL => core.inventory.nsids(false),
        _ => {
            core.known(nsid)?;
            vec![nsid]
        }
    };
    for nsid in &nsids {
        core.known(*nsid)?.check_writable()?;
    }
    core.check_alive()?;
    core.background.persistence.pending.replace(Pending::Delete(nsids.clone()));
    core.store().await;
    delete_all(sets, &nsids).await
}

async fn delete_all(sets: &CommandSets, nsids: &[u32]) -> Result<u32, Status> {
    let core = &sets.core;
    let inventory = &core.inventory;
    let mut taken = Vec::new();
    let mut emptied = Ok(());
    for nsid in nsids {
        let Some(namespace) = inventory.take(*nsid) else { continue };
        core.end_self_test_on(*nsid, SelfTestResult::ABORTED_NAMESPACE);
        core.background.operations.quiesce(&namespace, 2).await;
        if emptied.is_ok() {
            emptied = sets.close(&namespace).await;
        }
        if emptied.is_ok() {
            emptied = core.deallocate(&namespace, |_| ()).await;
        }
        taken.push(namespace);
    }
    if let Err(error) = emptied.and(core.flush().await) {
        return Err(take_back(sets, taken, error).await);
    }
    taken.iter().filter(|namespace| namespace.attached.get()).for_each(|it| core.note_change(it.nsid));
    for nsid in nsids {
        inventory.release(*nsid);
    }
    core.background.persistence.pending.replace(Pending::None);
    core.store().await;
    Ok(0)
}

/// Restores the namespaces after the media refused a change. Returns the status that reports it.
async fn take_back(sets: &CommandSets, namespaces: Vec<Rc<Namespace>>, error: MediaError) -> Status {
    let core = &sets.core;
    for namespace in namespaces {
        let _ = sets.open(&namespace); // it was open before
        core.inventory.put_back(namespace);
    }
    core.background.persistence.pending.replace(Pending::None);
    core.refresh_refusals();
    core.store().await;
    status_of(error, Status::INTERNAL_ERROR)
}

async fn attach(sets: &CommandSets, nsid: u32, attach: bool) -> Result<u32, Status> {
    let core = &sets.core;
    let namespace = core.known(nsid)?;
    match (attach, namespace.attached.get()) {
        (true, true) => return Err(Status::NAMESPACE_ALREADY_ATTACHED.with_dnr()),
        (false, false) => return Err(Status::NAMESPACE_NOT_ATTACHED.with_dnr()),
        _ => {}
    }
    namespace.attached.set(attach);
    if attach {
        core.bar(nsid);
    }
    core.refresh_refusals();
    if !attach {
        core.background.operations.quiesce(&namespace, 2).await;
    }
    core.store().await;
    core.note_change(nsid);
    Ok(0)
}

async fn format(sets: &CommandSets, nsid: u32, block: BlockSize, erase: bool) -> Result<u32, Status> {
    let core = &sets.core;
    let nsids = match nsid {
        NSID_ALL => core.inventory.nsids(true),
        _ => {
            core.inventory.active(nsid)?;
            vec![nsid]
        }
    };
    for nsid in &nsids {
        core.known(*nsid)?.check_writable()?;
    }
    core.check_alive()?;
    core.background.persistence.pending.replace(Pending::Format { nsids: nsids.clone(), block, erase });
    core.store().await;
    format_all(sets, &nsids, block, erase).await
}

async fn format_all(sets: &CommandSets, nsids: &[u32], block: BlockSize, erase: bool) -> Result<u32, Status> {
    let core = &sets.core;
    let inventory = &core.inventory;
    let mut formatted = Vec::new();
    let mut before = Vec::new();
    let mut closed = Ok(());
    for nsid in nsids {
        let Some(old) = inventory.allocated(*nsid) else { continue };
        let namespace = old.formatted(block);
        namespace.formatting.set(Some(100));
        drop(inventory.put(namespace));
        core.refresh_refusals();
        core.end_self_test_on(*nsid, SelfTestResult::ABORTED_FORMAT);
        core.background.operations.quiesce(&old, 1).await;
        if closed.is_ok() {
            closed = sets.close(&old).await;
        }
        before.push(old);
        formatted.extend(inventory.allocated(*nsid));
    }
    let emptied = match closed {
        Ok(()) => core.empty(&formatted).await,
        Err(error) => Err(error),
    };
    if let Err(error) = emptied {
        return Err(take_back(sets, before, error).await);
    }
    for namespace in &formatted {
        let _ = sets.open(namespace); // it was open before, at this size
    }
    // If the erase fails the namespaces are formatted nevertheless, and the status tells the host that data may be
    // left.
    let erased = if erase && core.backing.has_own_media() { core.erase_stale(|_| ()).await } else { Ok(()) };
    core.background.persistence.pending.replace(Pending::None);
    formatted.iter().for_each(|namespace| namespace.formatting.set(None));
    core.store().await;
    before.iter().filter(|old| old.formatted(block).block != old.block).for_each(|old| core.bar(old.nsid));
    core.refresh_refusals();
    nsids.iter().for_each(|nsid| core.note_change(*nsid));
    erased.map(|()| 0).map_err(|_| Status::INTERNAL_ERROR)
}

async fn protect(sets: &CommandSets, nsid: u32, state: WriteProtection) -> Result<u32, Status> {
    let core = &sets.core;
    let nsids = match nsid {
        NSID_ALL => core.inventory.nsids(true),
        _ => vec![nsid],
    };
    let mut namespaces = Vec::new();
    for nsid in nsids {
        namespaces.push(core.inventory.active(nsid)?);
    }
    for namespace in &namespaces {
        let was = namespace.protection.replace(state);
        if (was == WriteProtection::None) != (state == WriteProtection::None) {
            core.note_change(namespace.nsid);
        }
    }
    if state != WriteProtection::None {
        for namespace in &namespaces {
            core.background.operations.quiesce(namespace, 2).await;
        }
        // Earlier writes must reach the media first (NVMe Base 2.1, 8.1.16).
        sets.flush(SpanId::NONE).await?;
        core.flush().await.map_err(|_| Status::INTERNAL_ERROR)?;
    }
    core.store().await;
    Ok(0)
}

impl Core {
    /// The allocated namespace with this identifier.
    ///
    /// # Errors
    /// Same as [`Inventory::active`](super::inventory::Inventory::active).
    pub(crate) fn known(&self, nsid: u32) -> Result<Rc<Namespace>, Status> {
        if nsid == 0 || nsid > self.inventory.nsid_max() {
            return Err(Status::INVALID_NAMESPACE.with_dnr());
        }
        self.inventory.allocated(nsid).ok_or(Status::INVALID_FIELD.with_dnr())
    }

    /// Fails if the media are read-only: a change could not be completed.
    fn check_alive(&self) -> Result<(), Status> {
        let is_read_only = self.backing.health().is_read_only;
        if is_read_only { Err(Status::NAMESPACE_WRITE_PROTECTED.with_dnr()) } else { Ok(()) }
    }

    /// Deallocates namespaces that are being formatted.
    async fn empty(&self, formatted: &[Rc<Namespace>]) -> Result<(), MediaError> {
        for namespace in formatted {
            let tell = |left: u8| namespace.formatting.set(Some(left.clamp(1, 100)));
            self.deallocate(namespace, tell).await?;
        }
        self.flush().await
    }

    /// Deallocates all units of a namespace, including those without blocks. `left` receives the remaining per cent.
    async fn deallocate(&self, namespace: &Namespace, left: impl Fn(u8)) -> Result<(), MediaError> {
        let all: u64 = namespace.extents().iter().map(|extent| extent.units).sum();
        let mut done = 0;
        for extent in namespace.extents() {
            let (mut first, end) = (extent.first, extent.first + extent.units);
            while first < end {
                let count = STEP_UNITS.min(end - first);
                self.backing.trim(SpanId::NONE, self.port.spans(), first, count).await?;
                first += count;
                done += count;
                left((100 - done * 100 / all.max(1)) as u8);
            }
        }
        Ok(())
    }

    /// Flushes the write buffer and all deallocations to the media.
    ///
    /// # Errors
    /// At the end of life, if flash has no space for it.
    pub(crate) async fn flush(&self) -> Result<(), MediaError> {
        self.backing.flush(SpanId::NONE, self.port.spans()).await
    }

    /// Notes a change in each controller's log, and raises the event if its host has enabled it.
    fn note_change(&self, nsid: u32) {
        self.peers.each(|peer| {
            peer.inventory.note_change(nsid);
            if peer.features.async_events.get().namespace_attribute() {
                peer.events.raise(AsyncEvent::NAMESPACE_ATTRIBUTE_CHANGED);
            }
        });
    }

    /// Updates the refusal status of every namespace.
    pub(crate) fn refresh_refusals(&self) {
        let of_all = match self.background.sanitize.state() {
            SanitizeState::InProgress => Status::SANITIZE_IN_PROGRESS,
            SanitizeState::Failed => Status::SANITIZE_FAILED.with_dnr(),
            SanitizeState::Never | SanitizeState::Succeeded | SanitizeState::Left => Status::SUCCESS,
        };
        for namespace in self.inventory.all() {
            let refusal = match (namespace.attached.get(), namespace.formatting.get()) {
                (false, _) => Status::INVALID_FIELD.with_dnr(),
                (true, Some(_)) => Status::FORMAT_IN_PROGRESS,
                (true, None) if of_all == Status::SUCCESS && self.is_barred_anywhere(namespace.nsid) => {
                    Status::NAMESPACE_NOT_READY
                }
                (true, None) => of_all,
            };
            namespace.refusal.set(refusal);
        }
    }

    fn is_barred_anywhere(&self, nsid: u32) -> bool {
        let mut is_barred = false;
        self.peers.each(|peer| is_barred |= peer.inventory.is_barred(nsid));
        is_barred
    }

    /// Refuses commands of other controllers' hosts to a namespace that has a new block size or was replaced, until
    /// they identify it.
    fn bar(&self, nsid: u32) {
        self.peers.each(|peer| {
            // A host that enables its controller later identifies all namespaces anyway.
            if peer.number != self.number && peer.registers.csts.get().rdy() {
                peer.inventory.bar(nsid);
            }
        });
    }

    /// Lifts the refusal: the host has identified a namespace, or with `None` all of them.
    pub(crate) fn unbar(&self, nsid: Option<u32>) {
        if self.is_shared() {
            self.inventory.unbar(nsid);
            self.refresh_refusals();
        }
    }

    /// Bytes of the drive that belong to no namespace.
    pub(crate) fn unallocated_bytes(&self) -> u128 {
        u128::from(self.inventory.capacity.borrow().units_of(0)) * UNIT_BYTES as u128
    }
}
