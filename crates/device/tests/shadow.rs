//! Shadow doorbells: the host's side of the protocol is written here step by step as Linux does it, down to its event
//! index arithmetic in 16 bits.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail as the test does")]

use crate::fixture::{
    Bench, Cq, LONG, NS_4K, PAGE, Pair, Sq, TestHost, create_cq, delete_cq, delete_sq, drive_config,
    read_write,
};
use byteway_clock::Delay;
use byteway_clock::random::Rng;
use byteway_link::Memory;
use byteway_link::memory::{Access, Backing, Mapped, Remote};
use byteway_link::{Fault, MmioWrite};
use byteway_wire::FromBytes;
use byteway_wire::nvme::identify::oacs;
use byteway_wire::nvme::register::{Csts, DOORBELLS};
use byteway_wire::nvme::{
    AdminOpcode, AsyncEvent, Cns, CommandsSupportedLog, Cqe, Doorbell, DoorbellBufferConfig,
    IdentifyController, NvmOpcode, QueuePriority, Sqe, Status, lid,
};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

fn bench() -> Bench {
    let mut bench = Bench::default();
    bench.drive.controller.shadow_doorbells = true;
    bench
}

fn config(shadow_doorbells: u64, event_indexes: u64) -> Sqe {
    DoorbellBufferConfig { shadow_doorbells, event_indexes }.sqe(0)
}

/// Whether the host asks for the register when it goes from `old` to `new`.
fn needs_ring(event: u32, new: u32, old: u32) -> bool {
    let (event, new, old) = (event as u16, new as u16, old as u16);
    new.wrapping_sub(event).wrapping_sub(1) < new.wrapping_sub(old)
}

/// A host with shadow doorbells. Cheap to clone.
#[derive(Clone)]
struct Guest {
    host: TestHost,
    doorbells: u64,
    events: u64,
    dstrd: u8,
    /// Registers written.
    rings: Rc<Cell<u64>>,
}

impl Guest {
    async fn new(host: &TestHost) -> Guest {
        let (doorbells, events) = (host.pages(1), host.pages(1));
        host.succeed(config(doorbells, events)).await;
        Guest { host: host.clone(), doorbells, events, dstrd: 0, rings: Rc::default() }
    }

    fn offset(&self, doorbell: Doorbell) -> u64 {
        doorbell.offset(self.dstrd) - DOORBELLS
    }

    fn shadow(&self, doorbell: Doorbell) -> u32 {
        self.host.memory().load32(self.doorbells + self.offset(doorbell)).unwrap()
    }

    fn event(&self, doorbell: Doorbell) -> u32 {
        self.host.memory().load32(self.events + self.offset(doorbell)).unwrap()
    }

    fn store(&self, doorbell: Doorbell, value: u32) {
        self.host.memory().store32(self.doorbells + self.offset(doorbell), value).unwrap();
    }

    /// Tells the controller of a new value.
    fn tell(&self, doorbell: Doorbell, value: u32) {
        let old = self.shadow(doorbell);
        self.store(doorbell, value);
        if needs_ring(self.event(doorbell), value, old) {
            self.rings.set(self.rings.get() + 1);
            self.host.ring(doorbell, value);
        }
    }

    fn tell_tail(&self, sq: &Sq) {
        self.tell(Doorbell::SubmissionTail(sq.id), sq.tail.get());
    }

    fn tell_head(&self, cq: &Cq) {
        self.tell(Doorbell::CompletionHead(cq.id), cq.head.get());
    }

    /// Does `total` reads, up to `depth` at once, telling of each alone.
    async fn read(&self, pair: &Pair, total: u32, depth: u32) {
        let sqe = read_write(NvmOpcode::READ, NS_4K, 3, 1).with_prp(self.host.pages(1), 0);
        let (mut submitted, mut completed) = (0, 0);
        while completed < total {
            while submitted < total && submitted - completed < depth {
                self.host.place(&pair.sq, sqe);
                self.tell_tail(&pair.sq);
                submitted += 1;
            }
            assert_eq!(self.host.next_quietly(&pair.cq).await.status(), Status::SUCCESS);
            self.tell_head(&pair.cq);
            completed += 1;
        }
    }

    /// Looks every 200 ns, until the cell is set.
    fn poll(&self) -> Rc<Cell<bool>> {
        let stop = Rc::new(Cell::new(false));
        let (host, stopped) = (self.host.clone(), stop.clone());
        self.host.clock().spawn("poller", async move {
            while !stopped.get() {
                host.drive().controller.look_at_shadow_doorbells();
                host.sleep(Delay::from_ns(200)).await;
            }
        });
        stop
    }
}

// A host sends the command to drives that offer it, and believes in the buffers when it succeeds.
#[test]
fn the_command_is_there_where_it_is_offered() {
    for offered in [false, true] {
        let mut bench = bench();
        bench.drive.controller.shadow_doorbells = offered;
        bench.enabled(async move |host| {
            let id = host.identify(Cns::CONTROLLER, 0).await;
            let id = IdentifyController::read_from_bytes(&id).unwrap();
            assert_eq!(id.oacs & oacs::DOORBELL_BUFFER != 0, offered);
            let log = host.log(lid::COMMANDS_SUPPORTED, 0, 4096).await;
            let log = CommandsSupportedLog::read_from_bytes(&log).unwrap();
            let opcode = usize::from(AdminOpcode::DOORBELL_BUFFER_CONFIG.0);
            assert_eq!(log.acs[opcode] & CommandsSupportedLog::CSUPP != 0, offered);
            let (one, other) = (host.pages(1), host.pages(1));
            if !offered {
                host.refused(config(one, other), Status::INVALID_OPCODE).await;
                return;
            }
            let controller = &host.drive().controller;
            let wrong = [(0, other), (one, 0), (one + 4, other), (one, other + 2048), (one, one), (1, 1)];
            for (shadow, events) in wrong {
                host.refused(config(shadow, events), Status::INVALID_FIELD).await;
            }
            for away in [host.hole(), !(PAGE - 1), 1 << 63] {
                for (shadow, events) in [(away, one), (one, away)] {
                    let cqe = host.admin(config(shadow, events)).await;
                    assert_eq!(cqe.status(), Status::DATA_TRANSFER_ERROR, "at {away:#x}");
                }
            }
            assert!(!controller.has_shadow_doorbells() && !controller.look_at_shadow_doorbells());
            host.succeed(config(one, other)).await;
            assert!(controller.has_shadow_doorbells());
            host.succeed(config(other, one)).await;
            assert!(!controller.look_at_shadow_doorbells() && !controller.arm_shadow_doorbells());
        });
    }
}

// The point of it all: while the server polls, the host writes no doorbell, whatever the queue's size and the place in it.
#[test]
fn a_polled_controller_is_hardly_ever_rung() {
    for (entries, depth) in [(2, 1), (3, 2), (5, 3), (8, 7), (64, 1), (64, 32), (1000, 60)] {
        bench().enabled(async move |host| {
            let guest = Guest::new(&host).await;
            let pair = host.create_pair(1, entries).await;
            let stop = guest.poll();
            let total = 20 * entries;
            guest.read(&pair, total, depth).await;
            // At first the event indexes are where the queues begin.
            assert!(guest.rings.get() <= 2, "{} of {total}, {entries} entries", guest.rings.get());
            stop.set(true);
        });
    }
}

// The line of event indexes is read at every ring: written as often, it would go back and forth between two cores.
#[test]
fn event_indexes_are_written_twice_a_round() {
    bench().enabled(async |host| {
        let guest = Guest::new(&host).await;
        let pair = host.create_pair(1, 64).await;
        let (mut changes, mut last) = (0, 0);
        for _ in 0..10 * 64 {
            let sqe = read_write(NvmOpcode::READ, NS_4K, 3, 1).with_prp(0x1000, 0);
            host.place(&pair.sq, sqe);
            guest.tell_tail(&pair.sq);
            assert!(host.drive().controller.look_at_shadow_doorbells());
            assert!(!host.drive().controller.look_at_shadow_doorbells());
            let event = guest.event(Doorbell::SubmissionTail(1));
            changes += u32::from(event != last);
            last = event;
            host.next_quietly(&pair.cq).await;
            guest.tell_head(&pair.cq);
            host.drive().controller.look_at_shadow_doorbells();
        }
        assert!((19..=22).contains(&changes), "{changes}");
    });
}

// A transport that sleeps hears only of registers. Which value they carry doesn't matter: it may be an old one.
#[test]
fn a_controller_that_nobody_polls_is_always_rung() {
    bench().enabled(async |host| {
        let guest = Guest::new(&host).await;
        let event = host.request_event();
        for entries in [2, 3, 64] {
            let pair = host.create_pair(1, entries).await;
            guest.rings.set(0);
            guest.read(&pair, 5 * entries, 1).await;
            assert_eq!(guest.rings.get(), u64::from(2 * 5 * entries), "each tail and each head");
            guest.read(&pair, 5 * entries, entries - 1).await;
            host.succeed(delete_sq(1)).await;
            host.succeed(delete_cq(1)).await;
        }
        let pair = host.create_pair(1, 8).await;
        for (round, hint) in [0, 7, 8, u32::MAX, 1, 2, 3, 4, 5, 6].into_iter().enumerate() {
            let sqe = read_write(NvmOpcode::READ, NS_4K, round as u64, 1).with_prp(host.pages(1), 0);
            host.place(&pair.sq, sqe);
            guest.store(Doorbell::SubmissionTail(1), pair.sq.tail.get());
            host.ring(Doorbell::SubmissionTail(1), hint);
            host.next_quietly(&pair.cq).await;
            guest.store(Doorbell::CompletionHead(1), pair.cq.head.get());
            host.ring(Doorbell::CompletionHead(1), hint);
            host.ring(Doorbell::CompletionHead(1), hint);
        }
        host.sleep(LONG).await;
        assert!(host.look(&host.admin_pair().cq).is_none(), "no event for request {event}");
    });
}

// With memory of an earlier queue under it, a new one would begin with commands that no host wrote.
#[test]
fn a_queue_begins_at_zero_and_an_old_one_where_it_is() {
    bench().enabled(async |host| {
        let pair = host.create_pair(1, 8).await;
        for _ in 0..5 {
            let sqe = read_write(NvmOpcode::READ, NS_4K, 0, 1).with_prp(host.pages(1), 0);
            host.submit(&pair.sq, sqe);
            host.next(&pair.cq).await;
        }
        host.sleep(LONG).await;
        let (doorbells, events) = (host.pages(1), host.pages(1));
        host.poke(doorbells, &[0x03; 4096]);
        host.poke(events, &[0x05; 4096]);
        host.poke(doorbells + 8, &[0; 8]); // those of queue 1, as a host begins
        host.succeed(config(doorbells, events)).await;
        let guest = Guest { host: host.clone(), doorbells, events, dstrd: 0, rings: Rc::default() };
        for doorbell in [Doorbell::SubmissionTail(1), Doorbell::CompletionHead(1)] {
            assert_eq!((guest.shadow(doorbell), guest.event(doorbell)), (5, 5));
        }
        let words = |address| host.peek(address, 4096).chunks(4).map(<[u8]>::to_vec).collect::<Vec<_>>();
        for (address, fill) in [(doorbells, 3), (events, 5)] {
            for (index, word) in words(address).into_iter().enumerate() {
                assert!((2..4).contains(&index) || word == [fill; 4], "word {index} is unused");
            }
        }
        guest.read(&pair, 20, 7).await;
        for round in 0..3 {
            for doorbell in [Doorbell::SubmissionTail(2), Doorbell::CompletionHead(2)] {
                guest.store(doorbell, 3);
            }
            let pair = host.create_pair(2, 8).await;
            for doorbell in [Doorbell::SubmissionTail(2), Doorbell::CompletionHead(2)] {
                assert_eq!((guest.shadow(doorbell), guest.event(doorbell)), (0, 0), "round {round}");
            }
            guest.read(&pair, 5, 2).await;
            host.succeed(delete_sq(2)).await;
            host.succeed(delete_cq(2)).await;
            assert!(!host.drive().controller.arm_shadow_doorbells(), "unused words are ignored");
        }
    });
}

// Linux stores to the shadow from the queue's creation on, and starts I/O after a reset before it sends the command:
// it has not written a doorbell for what it submitted in between, and waits indefinitely if that is overwritten.
#[test]
fn what_was_stored_before_the_command_is_taken_with_it() {
    bench().enabled(async |host| {
        let pair = host.create_pair(1, 8).await;
        let (doorbells, events) = (host.pages(1), host.pages(1));
        let guest = Guest { host: host.clone(), doorbells, events, dstrd: 0, rings: Rc::default() };
        let sqe = read_write(NvmOpcode::READ, NS_4K, 3, 1).with_prp(host.pages(1), 0);
        for _ in 0..3 {
            host.place(&pair.sq, sqe);
            guest.tell_tail(&pair.sq); // rings for the first only: the event index is zero
        }
        host.sleep(LONG).await;
        host.succeed(config(doorbells, events)).await;
        for _ in 0..3 {
            assert_eq!(host.next_quietly(&pair.cq).await.status(), Status::SUCCESS);
            guest.tell_head(&pair.cq);
        }
        assert_eq!(guest.event(Doorbell::SubmissionTail(1)), 3);
        guest.read(&pair, 20, 7).await;
    });
}

// The stride is the registers': with another one queues would hear each other's rings.
#[test]
fn words_lie_as_far_apart_as_the_registers() {
    let mut bench = bench();
    bench.drive.controller.dstrd = 4;
    bench.enabled(async |host| {
        let mut guest = Guest::new(&host).await;
        guest.dstrd = 4;
        for id in [7, 8] {
            let pair = host.create_pair(id, 16).await;
            guest.read(&pair, 40, 5).await;
            assert_eq!(host.memory().load32(guest.doorbells + u64::from(id) * 128), Ok(40 % 16));
            assert_eq!(host.memory().load32(guest.doorbells + u64::from(id) * 128 + 64), Ok(40 % 16));
        }
    });
    let mut drive = drive_config();
    drive.controller.shadow_doorbells = true;
    for (dstrd, fit) in [(0, 511), (1, 255), (4, 31), (8, 1)] {
        drive.controller.dstrd = dstrd;
        drive.controller.io_queues_max = fit;
        assert_eq!(drive.validate(), Ok(()));
        drive.controller.io_queues_max = fit + 1;
        assert!(drive.validate().unwrap_err().message.contains("4 KiB"), "stride {dstrd}");
    }
    drive.controller.dstrd = 255;
    assert!(drive.validate().is_err());
}

// After a reset the pages are the host's for other things: read as doorbells, they would ring queues of the next driver.
#[test]
fn a_reset_forgets_the_buffers() {
    bench().enabled(async |host| {
        for function in [false, true] {
            let guest = Guest::new(&host).await;
            let pair = host.create_pair(1, 8).await;
            guest.read(&pair, 3, 2).await;
            host.drive().controller.look_at_shadow_doorbells();
            if function {
                host.drive().controller.reset().await;
            } else {
                host.disable().await;
            }
            let controller = &host.drive().controller;
            assert!(!controller.has_shadow_doorbells());
            host.poke(guest.doorbells, &[0x01; 4096]);
            host.poke(guest.events, &[0x02; 4096]);
            assert!(!controller.look_at_shadow_doorbells() && !controller.arm_shadow_doorbells());
            host.enable().await;
            let pair = host.create_pair(1, 8).await;
            assert!(!controller.look_at_shadow_doorbells() && !controller.arm_shadow_doorbells());
            assert_eq!(host.read(&pair, NS_4K, 0, 1).await.len(), 4096);
            assert_eq!(host.peek(guest.doorbells, 4096), [0x01; 4096]);
            assert_eq!(host.peek(guest.events, 4096), [0x02; 4096]);
            host.disable().await;
            host.enable().await;
        }
    });
}

/// The next event, if one is reported within a while.
async fn event(host: &TestHost) -> Option<u32> {
    let cid = host.request_event();
    host.sleep(Delay::from_us(100)).await;
    let cqe = host.take(&host.admin_pair().cq)?;
    assert_eq!(cqe.cid, cid);
    host.ring_head(&host.admin_pair().cq);
    Some(cqe.dw0)
}

// A word in memory stays: reported at every look, one wrong value would fill the host's event log indefinitely.
#[test]
fn a_value_that_is_impossible_is_reported_once() {
    bench().enabled(async |host| {
        let guest = Guest::new(&host).await;
        let pair = host.create_pair(1, 8).await;
        guest.read(&pair, 10, 3).await; // tail and head are 2
        let controller = &host.drive().controller;
        let (tail, head) = (Doorbell::SubmissionTail(1), Doorbell::CompletionHead(1));
        for (doorbell, value) in [
            (tail, 8),
            (tail, u32::MAX),
            (tail, 0x1_0003),
            (head, 3),
            (head, 1),
            (head, 8),
            (head, 0x8000_0002),
        ] {
            let right = guest.shadow(doorbell);
            guest.store(doorbell, value);
            assert!(controller.look_at_shadow_doorbells(), "{doorbell:?} {value:#x}");
            for _ in 0..20 {
                assert!(!controller.look_at_shadow_doorbells());
                host.ring(doorbell, value);
                host.sleep(Delay::from_us(1)).await;
            }
            assert!(!controller.arm_shadow_doorbells());
            assert_eq!(event(&host).await, Some(AsyncEvent::INVALID_DOORBELL_VALUE.dw0()));
            host.log(lid::ERROR_INFORMATION, 0, 64).await; // and further events may be reported
            guest.store(doorbell, right);
            controller.look_at_shadow_doorbells();
            host.sleep(Delay::from_us(10)).await;
            let request = host.request_event();
            host.sleep(Delay::from_us(100)).await;
            assert!(host.look(&host.admin_pair().cq).is_none(), "{doorbell:?} {value:#x}: once, and no more");
            let abort = byteway_wire::nvme::Abort { sqid: 0, cid: request }.sqe(0);
            let abort = host.submit(&host.admin_pair().sq, abort);
            for _ in 0..2 {
                let cqe = host.next(&host.admin_pair().cq).await;
                assert!([abort, request].contains(&cqe.cid));
            }
        }
        assert!(!controller.arm_shadow_doorbells());
        guest.read(&pair, 20, 7).await;
    });
}

// A queue that waits for rings that it can no longer see must say so: else its commands time out, one after the other.
#[test]
fn a_buffer_that_is_memory_no_longer_is_a_fatal_status() {
    bench().enabled(async |host| {
        for case in 0..7 {
            let guest = Guest::new(&host).await;
            let pair = host.create_pair(1, 8).await;
            guest.read(&pair, 10, 3).await;
            let controller = &host.drive().controller;
            let page = if case % 2 == 0 { guest.doorbells } else { guest.events };
            if case == 5 {
                controller.look_at_shadow_doorbells(); // polled: arming has something to write
                guest.read_polled(&pair, 1).await;
            }
            guest.store(Doorbell::SubmissionTail(1), 9); // something to see, where a look comes that far
            let another = host.new_cq(2, 4);
            host.memory().free(page, 1);
            match case {
                0 => _ = controller.look_at_shadow_doorbells(),
                2 => _ = controller.arm_shadow_doorbells(),
                4 => host.ring(Doorbell::SubmissionTail(1), 1),
                6 => host.ring(Doorbell::CompletionHead(1), 1),
                5 => _ = controller.arm_shadow_doorbells(),
                // Event indexes: written when a queue is created.
                _ => _ = host.submit(&host.admin_pair().sq, create_cq(&another, None)),
            }
            host.csts_until(Csts::cfs).await;
            assert!(!controller.has_shadow_doorbells() && !controller.look_at_shadow_doorbells());
            host.disable().await;
            host.enable().await;
            let pair = host.create_pair(1, 8).await;
            assert_eq!(host.read(&pair, NS_4K, 0, 1).await.len(), 4096, "case {case}");
            host.disable().await;
            host.enable().await;
        }
    });
}

impl Guest {
    /// Reads while the test itself looks.
    async fn read_polled(&self, pair: &Pair, total: u32) {
        let stop = self.poll();
        self.read(pair, total, 1).await;
        self.host.sleep(Delay::from_us(1)).await;
        stop.set(true);
        self.host.sleep(Delay::from_us(1)).await;
    }
}

// Lost wake-ups.

/// Pages that only messages reach: each access of the device lets the host take a step before.
#[derive(Default)]
struct Stepping {
    bytes: RefCell<Vec<u8>>,
    before: RefCell<Option<Rc<dyn Fn()>>>,
}

impl Stepping {
    fn load(&self, at: u64) -> u32 {
        let at = at as usize;
        u32::from_le_bytes(self.bytes.borrow()[at..at + 4].try_into().unwrap())
    }

    fn store(&self, at: u64, value: u32) {
        let at = at as usize;
        self.bytes.borrow_mut()[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }

    fn step(&self) {
        let before = self.before.borrow().clone();
        before.inspect(|before| before());
    }
}

const STEPPING: u64 = 1 << 40;

impl Remote for Stepping {
    fn read(&self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        self.step();
        let at = (address - STEPPING) as usize;
        into.copy_from_slice(&self.bytes.borrow()[at..at + into.len()]);
        Ok(())
    }

    fn write(&self, address: u64, from: &[u8]) -> Result<(), Fault> {
        self.step();
        let at = (address - STEPPING) as usize;
        self.bytes.borrow_mut()[at..at + from.len()].copy_from_slice(from);
        Ok(())
    }
}

/// Step of the host in announcing a new value.
#[derive(Clone, Copy, Debug)]
enum Step {
    Store(Doorbell, u32),
    Load(Doorbell, u32),
}

/// Time of the host's steps: each at the device's access of that number, or at an earlier step's time.
struct Script {
    host: TestHost,
    pages: Rc<Stepping>,
    steps: RefCell<VecDeque<(u32, Step)>>,
    accesses: Cell<u32>,
    old: Cell<u32>,
}

impl Script {
    fn access(&self) {
        let access = self.accesses.get();
        self.accesses.set(access + 1);
        while self.steps.borrow().front().is_some_and(|(at, _)| *at <= access) {
            self.step();
        }
    }

    fn step(&self) -> bool {
        let Some((_, step)) = self.steps.borrow_mut().pop_front() else { return false };
        match step {
            Step::Store(doorbell, value) => {
                let at = doorbell.offset(0) - DOORBELLS;
                self.old.set(self.pages.load(at));
                self.pages.store(at, value);
            }
            Step::Load(doorbell, value) => {
                let event = self.pages.load(PAGE + doorbell.offset(0) - DOORBELLS);
                if needs_ring(event, value, self.old.get()) {
                    // Straight to the device, so that it comes in the middle of what the device does next.
                    self.host.device().deliver(MmioWrite { offset: doorbell.offset(0), value: 0, bytes: 4 });
                }
            }
        }
        true
    }

    fn begin(&self, steps: impl IntoIterator<Item = (u32, Step)>) {
        self.accesses.set(0);
        self.steps.borrow_mut().extend(steps);
    }
}

fn told(doorbell: Doorbell, value: u32) -> [Step; 2] {
    [Step::Store(doorbell, value), Step::Load(doorbell, value)]
}

/// Non-decreasing sequences of `length` numbers up to `most`.
fn sequences(length: usize, most: u32) -> Vec<Vec<u32>> {
    let mut all = vec![vec![]];
    for _ in 0..length {
        all = all
            .into_iter()
            .flat_map(|sequence: Vec<u32>| {
                let from = sequence.last().copied().unwrap_or_default();
                (from..=most).map(move |next| [sequence.clone(), vec![next]].concat())
            })
            .collect();
    }
    all
}

// The classic one: the host stores its ring, and reads an event index of before, while the controller goes to sleep.
// Every order of the host's six steps of telling three tails, and of the controller's loads and stores while it arms and
// while it takes what registers told, from different places of a small ring: nothing is left untold.
#[test]
fn no_order_of_steps_loses_a_ring() {
    const FILE_BYTES: u64 = 16 << 20;
    let path = std::env::temp_dir().join(format!("byteway-shadow-{}", std::process::id()));
    let file =
        std::fs::File::options().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    file.set_len(FILE_BYTES).unwrap();
    let memory = Memory::mapped(Mapped::new(&file, 1 << 32, FILE_BYTES).unwrap());
    let pages = Rc::new(Stepping::default());
    pages.bytes.replace(vec![0; 2 * PAGE as usize]);
    memory.map(STEPPING, 2 * PAGE, Backing::Remote(pages.clone()), Access::ReadWrite).unwrap();
    let cases = bench().run_on(memory, async move |host| {
        host.enable().await;
        host.succeed(config(STEPPING, STEPPING + PAGE)).await;
        let pair = host.create_pair(1, 8).await;
        let data = host.pages(1);
        let sqe = read_write(NvmOpcode::READ, NS_4K, 3, 1).with_prp(data, 0);
        let controller = host.drive().controller.clone();
        let script = Rc::new(Script {
            host: host.clone(),
            pages: pages.clone(),
            steps: RefCell::default(),
            accesses: Cell::default(),
            old: Cell::default(),
        });
        let stepped = script.clone();
        pages.before.replace(Some(Rc::new(move || stepped.access())));
        let (tail, head) = (Doorbell::SubmissionTail(1), Doorbell::CompletionHead(1));
        let orders = sequences(6, 9);
        for (case, order) in orders.iter().enumerate() {
            // Polled for a while, so that the event indexes are somewhere behind.
            controller.look_at_shadow_doorbells();
            for _ in 0..case % 5 {
                host.place(&pair.sq, sqe);
                script.begin(told(tail, pair.sq.tail.get()).map(|step| (u32::MAX, step)));
                while script.step() {}
                assert!(controller.look_at_shadow_doorbells());
                host.next_quietly(&pair.cq).await;
                script.begin(told(head, pair.cq.head.get()).map(|step| (u32::MAX, step)));
                while script.step() {}
                assert!(controller.look_at_shadow_doorbells());
            }
            let mut steps = Vec::new();
            for _ in 0..3 {
                host.place(&pair.sq, sqe);
                steps.extend(told(tail, pair.sq.tail.get()));
            }
            script.begin(order.iter().copied().zip(steps));
            controller.arm_shadow_doorbells();
            // From here on only register writes are noticed.
            host.sleep(Delay::from_us(1)).await;
            while script.step() {
                host.sleep(Delay::from_us(1)).await;
            }
            host.sleep(Delay::from_us(50)).await;
            for _ in 0..3 {
                let cqe = host.take(&pair.cq);
                assert_eq!(cqe.map(|cqe: Cqe| cqe.status()), Some(Status::SUCCESS), "case {case}: {order:?}");
                script.begin(told(head, pair.cq.head.get()).map(|step| (u32::MAX, step)));
                while script.step() {}
            }
            host.sleep(Delay::from_us(1)).await;
        }
        orders.len()
    });
    assert_eq!(cases, 5005);
}

// Whatever stands in the pages, and whenever: no panic, no hang, and a reset recovers.
#[test]
fn hostile_pages_do_no_harm() {
    for seed in 1..=6 {
        bench().enabled(async move |host| {
            let random = RefCell::new(Rng::new(seed).stream("shadow"));
            let below = |n| random.borrow_mut().below(n);
            let guest = Guest::new(&host).await;
            let cq = host.create_cq(1, 16, Some(1)).await;
            for id in 1..=3 {
                host.create_sq(id, 16, &cq, QueuePriority::Urgent).await;
            }
            let controller = host.drive().controller.clone();
            for _ in 0..3_000 {
                let page = if below(8) == 0 { guest.events } else { guest.doorbells };
                let value = match below(4) {
                    0 => random.borrow_mut().next_u64() as u32,
                    _ => below(17) as u32,
                };
                host.memory().store32(page + below(10) * 4, value).unwrap();
                match below(6) {
                    0 => _ = controller.look_at_shadow_doorbells(),
                    1 => _ = controller.arm_shadow_doorbells(),
                    2 => host.ring(Doorbell::SubmissionTail(below(5) as u16 + 1), below(20) as u32),
                    3 => host.ring(Doorbell::CompletionHead(below(5) as u16 + 1), below(20) as u32),
                    4 => host.sleep(Delay::from_ns(below(3_000))).await,
                    _ => {}
                }
            }
            host.disable().await;
            assert!(controller.is_quiet(), "seed {seed}");
            host.enable().await;
            let pair = host.create_pair(1, 16).await;
            assert_eq!(host.read(&pair, NS_4K, 0, 1).await.len(), 4096);
        });
    }
}
