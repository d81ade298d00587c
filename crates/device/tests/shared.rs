//! The controller behind a register page that it shares with its driver: what a look at the page finds, and what it
//! must not miss. The page is looked at between two steps of the host, so that each test says what a look can see.

#![allow(clippy::unwrap_used, reason = "what a test can't do fails it")]

mod fixture;

use byteway_clock::Delay;
use byteway_clock::random::Rng;
use byteway_device::SharedFront;
use byteway_link::{Memory, SharedBar};
use byteway_wire::nvme::register::{self, Aqa, Csts};
use byteway_wire::nvme::{
    AsyncEvent, AsyncEventRequest, Cns, Cqe, Doorbell, Flush, Identify, QueuePriority, Sqe, Status,
};
use fixture::{Bench, NS_4K, Pair, TestHost, create_cq, create_sq, delete_cq, delete_sq};

const PAGE_WORDS: usize = 2048;
/// Looks in which whatever is due has happened.
const LOOKS: usize = 2000;

/// The driver's view of the page, and what serves it.
struct Page {
    host: TestHost,
    driver: SharedBar,
    front: SharedFront,
}

impl Page {
    fn new(host: TestHost, memory: &Memory, address: u64) -> Page {
        let side = || SharedBar::new(memory.clone(), address, PAGE_WORDS);
        let front = SharedFront::new(host.device(), &host.drive().controller, side());
        Page { driver: side(), front, host }
    }

    /// In memory of its own: the drive has no DMA to its registers.
    fn fresh(host: TestHost) -> Page {
        let memory = Memory::simulated();
        let address = memory.allocate(PAGE_WORDS * 4 / 4096).unwrap();
        Page::new(host, &memory, address)
    }

    async fn look(&self) {
        self.front.look();
        self.host.sleep(Delay::from_us(1)).await;
    }

    async fn csts_until(&self, wanted: impl Fn(Csts) -> bool) {
        for _ in 0..LOOKS {
            if wanted(Csts::from_bits(self.driver.load(register::CSTS))) {
                return;
            }
            self.look().await;
        }
        panic!("CSTS is {:#x}", self.driver.load(register::CSTS));
    }

    fn ring(&self, doorbell: Doorbell, value: u32) {
        self.driver.store(doorbell.offset(0), value);
    }

    /// Enables the controller with new admin queues.
    async fn enable(&self) -> Pair {
        let pair = Pair { sq: self.host.new_sq(0, 32), cq: self.host.new_cq(0, 32) };
        self.driver.store(register::AQA, Aqa::new().with_asqs_z(31).with_acqs_z(31).into_bits());
        for (offset, base) in [(register::ASQ, pair.sq.base), (register::ACQ, pair.cq.base)] {
            self.driver.store(offset, base as u32);
            self.driver.store(offset + 4, (base >> 32) as u32);
        }
        self.driver.store(register::CC, fixture::cc().into_bits());
        self.csts_until(|csts| csts.rdy()).await;
        pair
    }

    async fn disable(&self) {
        self.driver.store(register::CC, fixture::cc().with_en(false).into_bits());
        self.csts_until(|csts| !csts.rdy()).await;
    }

    /// Does a command.
    async fn execute(&self, pair: &Pair, sqe: Sqe) -> Cqe {
        let cid = self.host.place(&pair.sq, sqe);
        self.ring(Doorbell::SubmissionTail(pair.sq.id), pair.sq.tail.get());
        let cqe = self.next(pair).await;
        assert_eq!(cqe.cid, cid);
        cqe
    }

    /// The next completion.
    async fn next(&self, pair: &Pair) -> Cqe {
        for _ in 0..LOOKS {
            if let Some(cqe) = self.host.take(&pair.cq) {
                self.ring(Doorbell::CompletionHead(pair.cq.id), pair.cq.head.get());
                self.look().await;
                return cqe;
            }
            self.look().await;
        }
        panic!("no completion: the drive has missed a doorbell");
    }

    async fn succeed(&self, pair: &Pair, sqe: Sqe) {
        assert_eq!(self.execute(pair, sqe).await.status(), Status::SUCCESS);
    }

    async fn identify(&self, admin: &Pair) {
        let page = self.host.pages(1);
        let identify = Identify { cns: Cns::CONTROLLER, ..Identify::default() };
        self.succeed(admin, identify.sqe(0, 0).with_prp(page, 0)).await;
        assert_ne!(self.host.peek(page, 64), [0; 64]);
    }
}

// A driver that shares the page must find a controller there, and be able to use it; again after a reset, too.
#[test]
fn a_controller_is_driven_by_nothing_but_stores_and_loads() {
    Bench::default().run(async |host| {
        let controller = host.drive().controller.clone();
        let page = Page::fresh(host);
        let cap =
            u64::from(page.driver.load(register::CAP)) | u64::from(page.driver.load(register::CAP + 4)) << 32;
        assert_eq!(cap, controller.register(register::CAP, 8));
        assert_eq!(u64::from(page.driver.load(register::VS)), controller.register(register::VS, 4));
        for _ in 0..3 {
            let admin = page.enable().await;
            for _ in 0..40 {
                page.identify(&admin).await; // more often than the queue has entries
            }
            page.disable().await;
            for doorbell in [Doorbell::SubmissionTail(0), Doorbell::CompletionHead(0)] {
                assert_eq!(page.driver.load(doorbell.offset(0)), 0, "{doorbell:?} begins anew");
            }
        }
        assert_eq!(controller.counters().resets.get(), 3);
    });
}

// A value that a deleted queue left in its doorbell would hide the same value of the next queue: its command would
// never be fetched.
#[test]
fn a_new_queue_is_served_whatever_the_last_one_rang() {
    Bench::default().run(async |host| {
        let page = Page::fresh(host.clone());
        let admin = page.enable().await;
        for _ in 0..3 {
            let pair = Pair { sq: host.new_sq(1, 8), cq: host.new_cq(1, 8) };
            page.succeed(&admin, create_cq(&pair.cq, None)).await;
            page.succeed(&admin, create_sq(&pair.sq, 1, QueuePriority::Urgent)).await;
            page.succeed(&pair, Flush.sqe(0, NS_4K)).await;
            page.succeed(&admin, delete_sq(1)).await;
            page.succeed(&admin, delete_cq(1)).await;
        }
    });
}

// The specification has an event for a doorbell that belongs to no queue; and the event must come once, although the
// value stays to be seen.
#[test]
fn a_doorbell_without_a_queue_is_reported_once_and_forgotten() {
    Bench::default().run(async |host| {
        let page = Page::fresh(host.clone());
        let admin = page.enable().await;
        host.place(&admin.sq, AsyncEventRequest.sqe(0));
        page.ring(Doorbell::SubmissionTail(3), 7);
        page.ring(Doorbell::SubmissionTail(0), admin.sq.tail.get());
        let cqe = page.next(&admin).await;
        assert_eq!(cqe.dw0, AsyncEvent::INVALID_DOORBELL_REGISTER.dw0());
        assert_eq!(page.driver.load(Doorbell::SubmissionTail(3).offset(0)), 0);
        for _ in 0..10 {
            assert!(!page.front.look(), "nothing is new");
        }
        page.disable().await;
    });
}

// Power-on: what a drive before this one, or anybody, left in the page is not a driver's wish.
#[test]
fn what_was_in_the_page_before_is_not_taken_for_writes() {
    Bench::default().run(async |host| {
        let memory = Memory::simulated();
        let address = memory.allocate(PAGE_WORDS * 4 / 4096).unwrap();
        memory.with_mut(address, PAGE_WORDS * 4, |bytes| bytes.fill(0xff)).unwrap();
        let page = Page::new(host.clone(), &memory, address);
        assert!(!page.front.look());
        for offset in [register::CC, register::CSTS, register::AQA, register::ACQ + 4, register::DOORBELLS] {
            assert_eq!(page.driver.load(offset), 0, "register {offset:#x}");
        }
        let admin = page.enable().await;
        page.identify(&admin).await;
    });
}

// Whatever a driver stores, wherever and whenever: the drive goes on, and a reset brings it back.
#[test]
fn a_hostile_page_stops_nobody() {
    for seed in 0..8 {
        Bench { ends_quiet: false, ..Bench::default() }.run(async move |host| {
            let page = Page::fresh(host);
            let mut stream = Rng::new(seed).stream("page");
            for step in 0..5000 {
                let offset = match stream.below(4) {
                    0 => register::CC,
                    1 => stream.below(0x40 / 4) * 4,
                    2 => register::DOORBELLS + stream.below(20) * 4,
                    _ => stream.below(PAGE_WORDS as u64 + 8) * 4,
                };
                let value = match stream.below(3) {
                    0 => fixture::cc().into_bits() ^ 1 << stream.below(32),
                    1 => stream.below(40) as u32,
                    _ => stream.next_u64() as u32,
                };
                page.driver.store(offset, value);
                if step % 3 == 0 {
                    page.look().await;
                }
            }
            page.disable().await;
            let admin = page.enable().await;
            page.identify(&admin).await;
        });
    }
}
