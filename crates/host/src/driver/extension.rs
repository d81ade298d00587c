//! A controller's vendor extensions, which its queues share: identifiers of payloads in chunks, the limit of incomplete
//! payloads, areas of the payload buffer and of device memory, the page buffer's owner, and the ring of commit records.

use crate::driver::commit::Commits;
use crate::driver::page_owner::PageOwner;
use crate::driver::port::Port;
use crate::error::Lost;
use byteway_clock::{Clock, Delay, Semaphore};
use byteway_transfer::Limits;
use byteway_transfer::area::{Area, Areas};
use byteway_wire::nvme::vendor::cxl::DeviceMemoryLog;
use byteway_wire::nvme::vendor::{Capabilities, Methods};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// The first identifier of a payload; lower ones are commands'.
pub(crate) const PAYLOAD_ID_MIN: u16 = 0x8000;
/// Number of payload identifiers.
const PAYLOAD_IDS: usize = 0x8000;

/// A controller's extensions, shared by its queues.
pub(crate) struct Extensions {
    clock: Clock,
    capabilities: Cell<Capabilities>,
    /// Credits for incomplete payloads.
    partials: Semaphore,
    /// The limit for all of them, and the number of credits that must not be returned after the limit has decreased.
    granted: Cell<usize>,
    surplus: Cell<usize>,
    free: RefCell<Vec<u16>>,
    /// Number of identifiers ever used.
    used: Cell<u16>,
    areas: RefCell<Areas>,
    /// Division of device memory, its areas, and the owner of the page buffer.
    memory: Cell<DeviceMemoryLog>,
    memory_areas: RefCell<Areas>,
    page_owner: RefCell<Option<Rc<PageOwner>>>,
    commits: RefCell<Option<Rc<Commits>>>,
}

impl Extensions {
    pub(crate) fn new(clock: &Clock) -> Extensions {
        Extensions {
            clock: clock.clone(),
            capabilities: Cell::default(),
            partials: Semaphore::new(clock, 0),
            granted: Cell::default(),
            surplus: Cell::default(),
            free: RefCell::default(),
            used: Cell::default(),
            areas: RefCell::default(),
            memory: Cell::default(),
            memory_areas: RefCell::default(),
            page_owner: RefCell::default(),
            commits: RefCell::default(),
        }
    }

    /// Capabilities of the controller.
    pub(crate) fn capabilities(&self) -> Capabilities {
        self.capabilities.get()
    }

    /// Stores the capabilities of the controller.
    pub(crate) fn learn(&self, said: Capabilities) {
        // A buffer outside the address space is unusable.
        let reached = said.bar_offset.checked_add(u64::from(said.bar_bytes)).is_some();
        let capabilities = Capabilities { bar_bytes: if reached { said.bar_bytes } else { 0 }, ..said };
        if self.capabilities.get().bar_bytes == 0 {
            self.areas.replace(Areas::new(capabilities.bar_bytes));
        }
        self.capabilities.set(capabilities);
        let now = (capabilities.partial_payloads_max as usize).min(PAYLOAD_IDS);
        let before = self.granted.replace(now);
        if now < before {
            self.surplus.set(self.surplus.get() + before - now);
        } else {
            self.release_partials(now - before);
        }
        while self.surplus.get() > 0 && self.partials.try_take(1) {
            self.surplus.set(self.surplus.get() - 1);
        }
    }

    /// The division of device memory.
    pub(crate) fn memory(&self) -> DeviceMemoryLog {
        self.memory.get()
    }

    /// The owner of the page buffer, if namespace `nsid` has one.
    pub(crate) fn page_owner(&self, nsid: u32) -> Option<Rc<PageOwner>> {
        self.page_owner.borrow().clone().filter(|_| self.memory.get().nsid == nsid)
    }

    /// The ring of commit records, if it is on.
    pub(crate) fn commits(&self) -> Option<Rc<Commits>> {
        self.commits.borrow().clone().filter(|commits| commits.is_on())
    }

    /// Ends the commit ring: the controller was reset or removed.
    pub(crate) fn lose_commits(&self, lost: Lost) {
        if let Some(commits) = &*self.commits.borrow() {
            commits.lose(lost);
        }
    }

    /// Whether a record has been unanswered for longer than `timeout`.
    pub(crate) fn commits_are_overdue(&self, timeout: Delay) -> bool {
        self.commits.borrow().as_ref().is_some_and(|commits| commits.is_overdue(timeout))
    }

    fn learn_ring(&self, port: &Port, said: &DeviceMemoryLog) {
        let mut commits = self.commits.borrow_mut();
        let Some(ring) = said.ring() else { return };
        if commits.as_ref().is_none_or(|commits| commits.ring() != ring)
            && let Some(before) = commits.replace(Commits::new(port, ring))
        {
            before.close();
        }
        if let Some(commits) = &*commits {
            commits.switch_on(said.generation);
        }
    }

    /// Stores the division of device memory of a newly enabled controller; `bytes` of it can be reached through `port`.
    pub(crate) fn learn_memory(&self, port: &Port, said: DeviceMemoryLog, bytes: u64) {
        self.learn_ring(port, &DeviceMemoryLog { bytes: said.bytes.min(bytes), ..said });
        let reached = |offset: u32, length: u32| u64::from(offset) + u64::from(length) <= bytes;
        let sound = |offset, length| if reached(offset, length) { length } else { 0 };
        let said = DeviceMemoryLog {
            area_bytes: sound(said.area_offset, said.area_bytes),
            buffer_bytes: sound(said.buffer_offset, said.buffer_bytes),
            ..said
        };
        if self.memory.get().area_bytes == 0 {
            self.memory_areas.replace(Areas::new(said.area_bytes));
        }
        let before = self.memory.replace(said);
        let mut owner = self.page_owner.borrow_mut();
        match &*owner {
            Some(owner) if before.placing() == said.placing() => owner.forget(),
            _ => *owner = PageOwner::new(&self.clock, &said).map(Rc::new),
        }
    }

    /// The payload limits of a queue. All queues share `bar_bytes`.
    pub(crate) fn limits(&self, enabled: Methods, entries: u32) -> Limits {
        Limits::of(&self.capabilities.get(), enabled, entries, self.memory.get().area_bytes)
    }

    /// Waits until the controller can keep another incomplete payload.
    pub(crate) async fn partial(self: &Rc<Self>) -> PartialCredit {
        self.partials.acquire(1).await.forget();
        PartialCredit { extensions: self.clone(), is_held: Cell::new(true), must_rest: Cell::new(false) }
    }

    /// An identifier; the caller holds a credit.
    fn take_id(&self) -> u16 {
        self.free.borrow_mut().pop().unwrap_or_else(|| {
            let used = self.used.get();
            assert!(usize::from(used) < PAYLOAD_IDS, "a credit stands for a free identifier");
            self.used.set(used + 1);
            PAYLOAD_ID_MIN + used
        })
    }

    /// Ends payload `id`, whose command has completed. Unless it `succeeded`, the controller may still have chunks of
    /// it, or receive some: the identifier is not reused until their timeout.
    pub(crate) fn end_payload(self: &Rc<Self>, id: u16, succeeded: bool) {
        if succeeded {
            return self.give_id(id);
        }
        let extensions = self.clone();
        self.clock.spawn("resting payload", async move {
            extensions.rest().await;
            extensions.give_id(id);
        });
    }

    fn give_id(&self, id: u16) {
        self.free.borrow_mut().push(id);
        self.release_partials(1);
    }

    fn release_partials(&self, count: usize) {
        let swallowed = self.surplus.get().min(count);
        self.surplus.set(self.surplus.get() - swallowed);
        self.partials.release(count - swallowed);
    }

    /// Waits for the timeout of incomplete payloads.
    async fn rest(&self) {
        let timeout = self.capabilities.get().partial_timeout_us;
        self.clock.timer(Delay::from_us(u64::from(timeout))).await;
    }

    /// An area of the payload buffer for payloads of up to `bytes`, if one is free.
    pub(crate) fn area(self: &Rc<Self>, bytes: u32) -> Option<HeldArea> {
        let bytes = bytes.min(self.capabilities.get().bar_bytes);
        let area = self.areas.borrow_mut().take(bytes)?;
        Some(HeldArea { extensions: self.clone(), area, of: Of::Buffer, is_used: Cell::new(false) })
    }

    /// An area of device memory for payloads of up to `bytes`, if one is free.
    pub(crate) fn memory_area(self: &Rc<Self>, bytes: u32) -> Option<HeldArea> {
        let bytes = bytes.min(self.memory.get().area_bytes);
        let area = self.memory_areas.borrow_mut().take(bytes)?;
        Some(HeldArea { extensions: self.clone(), area, of: Of::Memory, is_used: Cell::new(false) })
    }
}

/// The memory that an area belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    Buffer,
    Memory,
}

/// Credit for an incomplete payload.
pub(crate) struct PartialCredit {
    extensions: Rc<Extensions>,
    is_held: Cell<bool>,
    must_rest: Cell<bool>,
}

impl PartialCredit {
    /// Converts it to an identifier; [`Extensions::end_payload`] returns both.
    pub(crate) fn into_id(self) -> PayloadId {
        self.is_held.set(false);
        let extensions = self.extensions.clone();
        PayloadId { id: extensions.take_id(), extensions, is_placed: Cell::new(false) }
    }

    /// Sets whether the controller may keep a part of the payload until its timeout.
    pub(crate) fn set_must_rest(&self, must_rest: bool) {
        self.must_rest.set(must_rest);
    }
}

impl Drop for PartialCredit {
    fn drop(&mut self) {
        if !self.is_held.get() {
            return;
        }
        if !self.must_rest.get() {
            return self.extensions.release_partials(1);
        }
        let extensions = self.extensions.clone();
        self.extensions.clock.spawn("resting payload", async move {
            extensions.rest().await;
            extensions.release_partials(1);
        });
    }
}

/// An identifier, returned when dropped; once its command is submitted, the completion returns it instead.
pub(crate) struct PayloadId {
    extensions: Rc<Extensions>,
    pub(crate) id: u16,
    is_placed: Cell<bool>,
}

impl PayloadId {
    /// Notes that its command was submitted.
    pub(crate) fn placed(&self) {
        self.is_placed.set(true);
    }
}

impl Drop for PayloadId {
    fn drop(&mut self) {
        if !self.is_placed.get() {
            self.extensions.give_id(self.id);
        }
    }
}

/// An area of the payload buffer, or of device memory; returned when dropped, unless a command may still use it.
pub(crate) struct HeldArea {
    extensions: Rc<Extensions>,
    pub(crate) area: Area,
    of: Of,
    /// A command that uses it was submitted, and no task waits for it.
    pub(crate) is_used: Cell<bool>,
}

impl Drop for HeldArea {
    fn drop(&mut self) {
        if !self.is_used.get() {
            let areas = match self.of {
                Of::Buffer => &self.extensions.areas,
                Of::Memory => &self.extensions.memory_areas,
            };
            areas.borrow_mut().give(self.area);
        }
    }
}
