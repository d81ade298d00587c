//! Doorbells that a host stores to shared memory, and the task that looks at them.
//!
//! A store to shared memory wakes nobody, and leaves only its value behind. So the front looks, again and again, while
//! there is something to do and for a while after; then it rests. Two kinds of memory are looked at: the page of
//! doorbells in BAR0 that the host may map, and the shadow doorbells that it may have set up in its own memory (NVMe
//! Base 2.1, Doorbell Buffer Config).
//!
//! - A doorbell of a new queue is made zero before the host is told that the queue is there. Else the value that an
//!   earlier queue of that identifier left behind would hide its first ring: the same value again is no news.
//! - With the page mapped, a rest is a pause after which it looks again. Without it, every ring that no shadow
//!   doorbell stands for comes as a message and ends the rest, however long: the front first tells the host, by
//!   EventIdx, from where on to send such messages, and looks once more.

use byteway_clock::{Clock, Delay, Notify};
use byteway_device::Controller;
use byteway_link::{HostEnd, Memory, Purpose};
use byteway_wire::nvme::Doorbell;
use byteway_wire::nvme::register::{ASQ, CSTS, Csts};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// How long the front goes on looking after the last doorbell, or while a command is under way.
const ALERT: Delay = Delay::from_us(200);
/// It looks so often at least before it rests: time passes also while the system gives this thread no processor.
const LOOKS_MIN: u32 = 64;
/// How long a rest lasts while doorbells are mapped, if nobody says otherwise.
pub const REST: Delay = Delay::from_us(200);

/// A doorbell of a queue that exists.
struct Watched {
    doorbell: Doorbell,
    offset: u64,
    /// Where its value stands in `seen`.
    index: usize,
}

/// Looks at doorbells for a controller.
pub struct Front {
    clock: Clock,
    /// The host's end of the link, where its doorbells cross.
    host: HostEnd,
    controller: Controller,
    /// The doorbells that the host may map, by their offsets in BAR0.
    page: RefCell<Option<Memory>>,
    dstrd: u8,
    rest: Cell<Delay>,
    watched: RefCell<Vec<Watched>>,
    /// Which state of the controller's queues `watched` is.
    epoch: Cell<Option<u64>>,
    /// What was last taken from the page, by doorbell.
    seen: RefCell<Vec<u32>>,
    /// A message has come, or a shadow doorbell may have been set up.
    rung: Notify,
    /// The admin queue was rung since it was made.
    has_spoken: Cell<bool>,
}

impl Front {
    /// A front for `controller`, which is at the other end of the link. `page` reaches to the last doorbell.
    pub fn new(host: &HostEnd, controller: &Controller, page: Option<Memory>, dstrd: u8) -> Rc<Self> {
        let doorbells = 2 * (usize::from(controller.io_queues_max()) + 1);
        let front = Rc::new(Front {
            clock: host.clock().clone(),
            host: host.clone(),
            controller: controller.clone(),
            page: RefCell::new(page),
            dstrd,
            rest: Cell::new(REST),
            watched: RefCell::default(),
            epoch: Cell::default(),
            seen: RefCell::new(vec![0; doorbells]),
            rung: Notify::new(host.clock()),
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

    /// From now on this is the page. The one before may still be stored to by a host that has gone.
    pub fn replace_page(&self, page: Memory) {
        self.page.replace(Some(page));
        self.seen.borrow_mut().fill(0);
    }

    /// From now on rests last so long: what a first doorbell waits at most, and what looking costs while idle.
    pub fn set_rest(&self, rest: Delay) {
        self.rest.set(rest);
    }

    /// A queue is about to exist.
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
            self.rung.notify_one();
        }
    }

    /// A doorbell was written by a message: its offset in BAR0 and its value.
    pub fn written(&self, offset: u64, value: u32) {
        match &*self.page.borrow() {
            // Where the others are looked for.
            Some(page) => _ = page.store32(offset, value),
            None => self.ring(offset, value, Doorbell::decode(offset, self.dstrd)),
        }
        self.rung.notify_one();
    }

    /// Looks for ever.
    pub async fn run(self: Rc<Self>) {
        let mut busy = self.clock.now();
        let mut in_vain = 0;
        loop {
            let is_ready = Csts::from_bits(self.controller.register(CSTS, 4) as u32).rdy();
            let is_mapped = self.page.borrow().is_some();
            let polls = is_mapped || self.controller.has_shadow_doorbells();
            if !(is_ready && polls) {
                self.rung.notified().await; // by a message, or by the first queue
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
                if !self.controller.arm_shadow_doorbells() {
                    self.rung.notified().await;
                }
                busy = self.clock.now();
            }
        }
    }

    /// Looks once at every doorbell. True if one was rung.
    pub fn look(&self) -> bool {
        let mut any = false;
        if let Some(page) = &*self.page.borrow() {
            let epoch = self.controller.queues_epoch();
            if self.epoch.replace(Some(epoch)) != Some(epoch) {
                self.watch();
            }
            let mut seen = self.seen.borrow_mut();
            for watched in self.watched.borrow().iter() {
                let last = &mut seen[watched.index];
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

    /// Notes which queues there are.
    fn watch(&self) {
        let mut watched = self.watched.borrow_mut();
        watched.clear();
        self.controller.each_queue(|doorbell| {
            let offset = doorbell.offset(self.dstrd);
            watched.push(Watched { doorbell, offset, index: index(doorbell) });
        });
    }

    /// The host has submitted admin commands. The first of them tells whether it and this side see the same memory: a
    /// file may be mapped privately by the host, which then never finds a completion.
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

/// Doorbells in the order of their offsets.
fn index(doorbell: Doorbell) -> usize {
    match doorbell {
        Doorbell::SubmissionTail(id) => 2 * usize::from(id),
        Doorbell::CompletionHead(id) => 2 * usize::from(id) + 1,
    }
}
