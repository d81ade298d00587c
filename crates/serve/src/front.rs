//! The doorbell poller: finds doorbell writes that a host makes by storing to shared memory.
//!
//! A store to shared memory causes no event and leaves only its value. So the poller looks again and again
//! while commands are in flight and for a while after; then it rests. It polls two kinds of memory: the page
//! of doorbells in BAR0 that the host may map, and the shadow doorbells that the host may have set up in its
//! own memory (NVMe Base 2.1, Doorbell Buffer Config).
//!
//! - The doorbell of a new queue is set to zero before the host learns that the queue exists. Otherwise the
//!   value left by an earlier queue with the same identifier would hide its first doorbell write, because an
//!   unchanged value is no event.
//! - With the page mapped, a rest is a pause after which the poller looks again. Without it, every doorbell
//!   write that has no shadow doorbell arrives as a message and ends the rest, however long. Before such a
//!   rest the poller sets EventIdx, to request those messages from the host, and looks once more, because the
//!   host may have stored between the last look and the update.

use byteway_clock::{Clock, Delay, Notify};
use byteway_device::Controller;
use byteway_link::{HostEnd, Memory, Purpose};
use byteway_wire::nvme::Doorbell;
use byteway_wire::nvme::register::{ASQ, CSTS, Csts};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Time for which the poller stays active after the last doorbell write, or while a command is in flight.
const ALERT: Delay = Delay::from_us(200);
/// Polls before a rest, at least: the clock also advances while the system runs other threads.
const LOOKS_MIN: u32 = 64;
/// Default interval between two polls of mapped doorbells while the host is idle.
pub const REST: Delay = Delay::from_us(200);

/// The doorbell of a queue that exists.
struct Watched {
    doorbell: Doorbell,
    offset: u64,
    /// Index in `seen`.
    index: usize,
}

/// Polls doorbells for a controller.
pub struct DoorbellPoller {
    clock: Clock,
    /// The host's end of the link, where doorbell writes cross.
    host: HostEnd,
    controller: Controller,
    /// The doorbells that the host may map, at their offsets in BAR0.
    page: RefCell<Option<Memory>>,
    dstrd: u8,
    rest: Cell<Delay>,
    watched: RefCell<Vec<Watched>>,
    /// Epoch of the controller's queues for which `watched` was built.
    epoch: Cell<Option<u64>>,
    /// Last value taken from the page, by doorbell index.
    seen: RefCell<Vec<u32>>,
    /// Notified when a message arrives, or when a shadow doorbell may have been set up.
    activity: Notify,
    /// Whether the admin queue's doorbell was written since the queue was created.
    has_spoken: Cell<bool>,
}

impl DoorbellPoller {
    /// A poller for `controller`, which is at the other end of the link. `page` extends to the last doorbell.
    pub fn new(host: &HostEnd, controller: &Controller, page: Option<Memory>, dstrd: u8) -> Rc<Self> {
        let doorbells = 2 * (usize::from(controller.io_queues_max()) + 1);
        let front = Rc::new(DoorbellPoller {
            clock: host.clock().clone(),
            host: host.clone(),
            controller: controller.clone(),
            page: RefCell::new(page),
            dstrd,
            rest: Cell::new(REST),
            watched: RefCell::default(),
            epoch: Cell::default(),
            seen: RefCell::new(vec![0; doorbells]),
            activity: Notify::new(host.clock()),
            has_spoken: Cell::default(),
        });
        let created = Rc::downgrade(&front);
        controller.on_queue_created(Rc::new(move |doorbell| {
            if let Some(front) = created.upgrade() {
                front.begin(doorbell);
            }
        }));
        front
    }

    /// Replaces the page. A host that has detached may still store to the previous one.
    pub fn replace_page(&self, page: Memory) {
        self.page.replace(Some(page));
        self.seen.borrow_mut().fill(0);
    }

    /// Sets the interval between polls while idle: the longest wait of a first doorbell write, against the
    /// CPU time of polling.
    pub fn set_rest(&self, rest: Delay) {
        self.rest.set(rest);
    }

    /// Clears the doorbell of a queue that is about to be created.
    fn begin(&self, doorbell: Doorbell) {
        if let Some(page) = &*self.page.borrow() {
            let stored = page.store32(doorbell.offset(self.dstrd), 0);
            debug_assert!(stored.is_ok(), "the page reaches to the last doorbell");
        }
        if let Some(seen) = self.seen.borrow_mut().get_mut(index(doorbell)) {
            *seen = 0;
        }
        if doorbell == Doorbell::SubmissionTail(0) {
            self.has_spoken.set(false);
            self.activity.notify_one();
        }
    }

    /// A message wrote a doorbell: its offset in BAR0 and its value.
    pub fn written(&self, offset: u64, value: u32) {
        match &*self.page.borrow() {
            // Store it where the poller finds the mapped doorbells, so that one path handles both.
            Some(page) => _ = page.store32(offset, value),
            None => self.ring(offset, value, Doorbell::decode(offset, self.dstrd)),
        }
        self.activity.notify_one();
    }

    /// Polls indefinitely.
    pub async fn run(self: Rc<Self>) {
        let mut busy = self.clock.now();
        let mut in_vain = 0;
        loop {
            let is_ready = Csts::from_bits(self.controller.register(CSTS, 4) as u32).rdy();
            let is_mapped = self.page.borrow().is_some();
            let polls = is_mapped || self.controller.has_shadow_doorbells();
            if !(is_ready && polls) {
                self.activity.notified().await; // woken by a message, or by the first queue
                busy = self.clock.now();
                continue;
            }
            if self.look() || self.controller.is_busy() {
                busy = self.clock.now();
                in_vain = 0;
            }
            if self.clock.now().since(busy) < ALERT || in_vain < LOOKS_MIN {
                in_vain += 1;
                self.clock.yield_now().await;
            } else if is_mapped {
                self.clock.timer(self.rest.get()).await;
            } else {
                // Arming looks again after it has set EventIdx. A store before that is found here; a later one comes as
                // a message, so that no doorbell write is lost.
                if !self.controller.arm_shadow_doorbells() {
                    self.activity.notified().await;
                }
                busy = self.clock.now();
            }
        }
    }

    /// Polls every doorbell once. Returns whether one has changed.
    pub fn look(&self) -> bool {
        let mut any = false;
        if let Some(page) = &*self.page.borrow() {
            // The list of queues is rebuilt only if queues were created or deleted since the last poll.
            let epoch = self.controller.queues_epoch();
            if self.epoch.replace(Some(epoch)) != Some(epoch) {
                self.watch();
            }
            let mut seen = self.seen.borrow_mut();
            for watched in self.watched.borrow().iter() {
                let last = &mut seen[watched.index];
                debug_assert!(watched.index < 1 << 17, "two doorbells for each 16-bit queue identifier");
                let value = page.load32(watched.offset).unwrap_or(*last);
                if value != *last {
                    *last = value;
                    any = true;
                    self.ring(watched.offset, value, Some(watched.doorbell));
                }
            }
        }
        any | self.controller.look_at_shadow_doorbells()
    }

    fn ring(&self, offset: u64, value: u32, doorbell: Option<Doorbell>) {
        if doorbell == Some(Doorbell::SubmissionTail(0)) {
            self.spoken();
        }
        self.host.write32(offset, value, Purpose::Doorbell);
    }

    /// Rebuilds the list of queues if it has changed.
    fn watch(&self) {
        let mut watched = self.watched.borrow_mut();
        watched.clear();
        self.controller.each_queue(|doorbell| {
            let offset = doorbell.offset(self.dstrd);
            watched.push(Watched { doorbell, offset, index: index(doorbell) });
        });
    }

    /// The host has submitted admin commands. The first of them shows whether host and server see the same
    /// memory: a host may have mapped a file privately, and then never finds a completion.
    fn spoken(&self) {
        if self.has_spoken.replace(true) {
            return;
        }
        let mut entry = [0; 64];
        let asq = self.controller.register(ASQ, 8);
        if self.host.memory().read(asq, &mut entry).is_ok() && entry == [0; 64] {
            tracing::error!(
                "the host has submitted a command, but its memory reads as zeroes there: what it gave is a private \
                 copy, so commands will time out. Start QEMU with a shared memory backend: -object \
                 memory-backend-memfd,id=mem0,size=1G,share=on -M q35,memory-backend=mem0"
            );
        }
    }
}

/// Index of a doorbell, in the order of BAR0 offsets.
fn index(doorbell: Doorbell) -> usize {
    match doorbell {
        Doorbell::SubmissionTail(id) => 2 * usize::from(id),
        Doorbell::CompletionHead(id) => 2 * usize::from(id) + 1,
    }
}
