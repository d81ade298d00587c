//! The map in DRAM that peers lend: hand-computed cost of a look-up, a load, an eviction and a commit; a full
//! log; and absence of deadlock. Reads while lenders come and go are checked in `crash::borrowed`.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail as the test does")]

use crate::map_fixture::{self, FLASH_READ, PAGE, SMALL, TRANSLATION, at_depth, mixed, timing};
use byteway_clock::random::{Rng, Stream};
use byteway_clock::{Clock, Delay, Executor, Notify, Passage, Rate, SpanId, Spans, Stage};
use byteway_content::Content;
use byteway_firmware::ftl::redo::RECORDS;
use byteway_firmware::{
    Base, BorrowFigures, Cycles, Ftl, FtlConfig, Lender, LenderId, LinkDirection, MapMonitor, Placement,
    Route, Site, SiteLink, WorkContext, WorkKind,
};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::rc::Rc;

/// A line from the first lender: 200 ns there, 60 ns of its DRAM, 64 bytes at 16 GB/s and 200 ns back.
const LINE: Delay = Delay::from_ns(200 + 60 + 4 + 200);
/// A page there: 4 KiB at 16 GB/s and 200 ns, then into its DRAM at 8 GB/s.
const FILL: Delay = Delay::from_ns(256 + 200 + 512 + 60);
/// The same back.
const READ_BACK: Delay = Delay::from_ns(200 + 512 + 60 + 256 + 200);

/// Configuration of the fixture, with segments of one page.
fn config(cache_pages: u32) -> FtlConfig {
    FtlConfig { map_segment_pages: 1, ..map_fixture::config(cache_pages) }
}

/// A drive, and two peers that work for it and lend it DRAM.
struct Rig {
    clock: Clock,
    ftl: Ftl,
    own: Site,
    peers: [Site; 2],
    routes: [Route; 2],
    lenders: [Lender; 2],
}

fn distance(clock: &Clock, ns: u64) -> SiteLink {
    SiteLink::new(clock, Delay::from_ns(ns), Rate::per_second(16_000_000_000))
}

fn site(clock: &Clock, dram_ns: u64, rate: u64) -> Site {
    Site::new(clock, 1, 1_000_000_000, Delay::from_ns(dram_ns), Rate::per_second(rate))
}

impl Rig {
    fn new(clock: &Clock, config: FtlConfig) -> Self {
        let own = site(clock, 80, 10_000_000_000);
        let peers = [site(clock, 60, 8_000_000_000), site(clock, 70, 8_000_000_000)];
        let mut placement = Placement::all_at(&own, Cycles::FREE.with(WorkKind::Translate, 100));
        let routes = [0, 1].map(|peer: usize| {
            placement = placement.clone().with_distance(&peers[peer], &own, &distance(clock, 300));
            placement.add_route_to(clock, &peers[peer]).unwrap()
        });
        let lenders = [0, 1].map(|peer: usize| {
            Lender::new(LenderId(peer as u8), &peers[peer], &distance(clock, 200))
                .with_route(routes[peer], None)
                .with_route(routes[1 - peer], Some(distance(clock, 500)))
        });
        let ftl = Ftl::new(clock, placement, SMALL, timing(), config).unwrap();
        Rig { clock: clock.clone(), ftl, own, peers, routes, lenders }
    }

    async fn read_by(&self, route: Route, unit: u64) -> Delay {
        let began = self.clock.now();
        let context = WorkContext { span: SpanId::NONE, route };
        self.ftl.read(context, &Spans::default(), unit, 1, &mut Vec::new()).await.unwrap();
        self.clock.now().since(began)
    }

    async fn read(&self, unit: u64) -> Delay {
        self.read_by(Route::OWN, unit).await
    }

    async fn write_by(&self, route: Route, unit: u64) {
        let context = WorkContext { span: SpanId::NONE, route };
        self.ftl.write(context, &Spans::default(), unit, &mut vec![Content::Zero], false).await.unwrap();
    }

    async fn flush(&self) {
        self.ftl.flush(SpanId::NONE, &Spans::default()).await.unwrap();
    }
}

fn run<F: Future<Output = ()> + 'static>(
    config: FtlConfig,
    test: impl FnOnce(Rc<Rig>) -> F + 'static,
) -> BorrowFigures {
    let executor = Executor::new();
    let it = Rc::new(Rig::new(executor.clock(), config));
    executor
        .run(test(it.clone()))
        .unwrap_or_else(|stalled| panic!("{stalled}: {:?}", it.ftl.borrow_figures()));
    it.ftl.stop();
    it.ftl.borrow_figures()
}

// The purpose of borrowing, to the picosecond: a line over the fabric instead of a flash read, and the cost
// of moving a page there. A lender that works on its own DRAM pays nothing for that; another one pays for its
// own link.
#[test]
fn a_page_in_a_peers_dram_is_a_line_away() {
    let figures = run(config(1), |it| async move {
        assert_eq!(it.ftl.borrow_segments(&it.lenders[0], 1), 1);
        assert_eq!((it.ftl.map_frames(), it.ftl.segments_borrowed()), (Some(2), vec![(LenderId(0), 1)]));
        assert_eq!(it.read(0).await, TRANSLATION + FLASH_READ * 2, "into the drive's own DRAM");
        assert_eq!(it.read(PAGE).await, TRANSLATION + FLASH_READ * 2 + FILL);
        assert_eq!(it.read(PAGE + 7).await, TRANSLATION + LINE + FLASH_READ);
        assert_eq!(it.read(7).await, TRANSLATION + FLASH_READ, "the other one is near");
        // At a peer: its cores, then a line of what the drive itself holds.
        let elsewhere = Delay::from_ns(100 + 300 + 80 + 4 + 300);
        assert_eq!(it.read_by(it.routes[0], PAGE + 1).await, elsewhere + FLASH_READ, "it is the lender");
        let other = Delay::from_ns(500 + 60 + 4 + 500);
        assert_eq!(it.read_by(it.routes[1], PAGE + 1).await, elsewhere + other + FLASH_READ);
        assert_eq!(it.read_by(it.routes[1], 1).await, elsewhere + FLASH_READ);
        // The stages of a read charge the fabric's part to DRAM.
        let spans = Spans::default();
        let span = spans.open(it.clock.now());
        it.ftl.read(span, &spans, PAGE, 1, &mut Vec::new()).await.unwrap();
        assert_eq!(spans.close(span).stage(Stage::Dram), Delay::from_ns(80) + LINE);
    });
    assert_eq!((figures.accesses, figures.pages_loaded, figures.commits), (4, 1, 0));
}

// A changed entry becomes a record here, on the cores that wrote the unit: 321.9 ns. Left out it would be
// lost with the lender; charged to the drive it would make lenders look free.
#[test]
fn a_change_there_is_committed_by_who_made_it() {
    let figures = run(config(1), |it| async move {
        it.ftl.borrow_segments(&it.lenders[0], 1);
        it.read(0).await;
        it.read(PAGE).await;
        let busy = |site: &Site| (site.busy(), site.lent());
        let before = (busy(&it.own), busy(&it.peers[1]));
        it.write_by(Route::OWN, PAGE).await;
        it.write_by(Route::OWN, 1).await; // in the drive's own DRAM
        it.flush().await;
        it.clock.sleep(Delay::from_us(10)).await;
        assert_eq!(it.ftl.borrow_figures().commits, 1);
        let after = busy(&it.own);
        assert_eq!(
            after.0 - before.0.0,
            Delay::from_ns(200) + Lender::COMMIT,
            "two changes, one of them committed"
        );
        it.write_by(it.routes[1], PAGE).await;
        it.write_by(it.routes[1], PAGE + 1).await;
        it.flush().await;
        it.clock.sleep(Delay::from_us(10)).await;
        assert_eq!(it.ftl.borrow_figures().commits, 3);
        let lent = busy(&it.peers[1]);
        assert_eq!(lent.0 - before.1.0, Delay::from_ns(200) + Lender::COMMIT * 2);
        assert_eq!(lent.1 - before.1.1, Delay::from_ns(200) + Lender::COMMIT * 2, "all of it for another");
        assert_eq!(busy(&it.own).0, after.0);
    });
    assert_eq!((figures.commits, figures.commits_late, figures.flushes), (3, 0, 0));
}

// A dirty page that leaves is read back before it is captured: dropped there, it would be lost with the
// power, or with the lender.
#[test]
fn a_dirty_page_is_read_back_before_it_leaves() {
    let figures = run(config(1), |it| async move {
        it.ftl.borrow_segments(&it.lenders[0], 1);
        it.read(0).await;
        it.write_by(Route::OWN, PAGE).await;
        it.flush().await;
        it.clock.sleep(Delay::from_us(10)).await;
        it.read(0).await; // page 1 is now the one to go
        let took = it.read(2 * PAGE).await;
        assert_eq!(took, TRANSLATION + READ_BACK + FLASH_READ * 2 + FILL);
        assert_eq!((it.ftl.counters().map_evictions_dirty, it.ftl.units_buffered()), (1, 1));
        it.read(PAGE + 1).await; // out of the buffer; clean pages are dropped where they are
        assert_eq!(it.ftl.borrow_figures().pages_read_back, 1);
        assert_eq!(it.ftl.give_back_segments(LenderId(1), 3).await, 0, "it lends none");
        assert_eq!(it.ftl.give_back_segments(LenderId(0), 3).await, 1);
        assert_eq!((it.ftl.map_frames(), it.ftl.segments_borrowed()), (Some(1), vec![]));
    });
    assert_eq!((figures.pages_read_back, figures.segments_returned), (1, 1));
}

// The log of a segment has 170 records. When it is full, the segment is flushed and the log cleared;
// otherwise nothing would be committed from then on, or the drive would stall.
#[test]
fn a_full_log_has_its_segment_flushed() {
    let figures = run(config(1), |it| async move {
        it.ftl.borrow_segments(&it.lenders[0], 1);
        it.read(0).await;
        it.read(PAGE).await;
        for unit in 0..RECORDS as u64 {
            it.write_by(Route::OWN, PAGE + unit).await;
        }
        assert_eq!(it.ftl.borrow_figures().flushes, 0);
        it.flush().await;
        it.clock.sleep(Delay::from_ms(1)).await;
        let figures = it.ftl.borrow_figures();
        assert_eq!((figures.commits, figures.flushes, figures.pages_read_back), (RECORDS as u64, 1, 1));
        assert_eq!(it.ftl.counters().map_evictions_dirty, 1, "its page is in the buffer");
        // Nothing is lost with the lender now, and nothing is left to replay.
        it.ftl.lose_segments(LenderId(0));
        assert_eq!(it.ftl.borrow_figures().records_replayed, 0);
        it.ftl.borrow_segments(&it.lenders[1], 1);
        it.read(0).await;
        for unit in 0..50 {
            it.write_by(Route::OWN, PAGE + unit).await;
        }
        it.flush().await;
        it.clock.sleep(Delay::from_ms(1)).await;
        it.ftl.lose_segments(LenderId(1));
        let figures = it.ftl.borrow_figures();
        assert_eq!((figures.records_replayed, figures.pages_recovered, figures.segments_lost), (50, 1, 2));
        // The page is away, and its remembered changes are applied when it is next read.
        assert_eq!(it.ftl.map_pages_held(), 1);
        let reads = it.ftl.counters().map_reads;
        it.read(PAGE).await;
        assert_eq!(it.ftl.counters().map_reads, reads + 1);
    });
    assert_eq!(figures.flushes, 1);
}

/// Whether a lender stays is random.
async fn come_and_go(it: Rc<Rig>, mut stream: Stream) {
    loop {
        it.clock.sleep(Delay::from_us(stream.below(3000))).await;
        let lender = &it.lenders[stream.below(2) as usize];
        match stream.below(3) {
            0 => _ = it.ftl.borrow_segments(lender, 1),
            1 => _ = it.ftl.give_back_segments(lender.id(), 1).await,
            _ => _ = it.ftl.lose_segments(lender.id()),
        }
    }
}

// A command waits for a flush, that for a buffer slot, that for a program, that for a collector, which fills
// logs: with a cycle anywhere, or a flush that makes another necessary without end, the drive stalls.
#[test]
fn nothing_stands_still_with_one_segment_and_the_smallest_buffer() {
    for (seed, segments, comes_and_goes) in [(1, 1, false), (2, 1, true), (3, 3, false), (4, 2, true)] {
        for base in [Base::Filled, Base::Steady] {
            let config = FtlConfig { user_units: 7434, write_buffer_units: 0, base, seed, ..config(1) };
            let figures = run(config, move |it| async move {
                it.ftl.borrow_segments(&it.lenders[0], segments);
                if comes_and_goes {
                    it.clock.spawn("peers", come_and_go(it.clone(), Rng::new(seed).stream("peers")));
                }
                let routes = [Route::OWN, it.routes[0], it.routes[1]];
                at_depth(&it.clock, 64, |number| {
                    mixed(it.ftl.clone(), routes, Rng::new(seed).stream(&format!("host-{number}")), 60)
                })
                .await;
                it.flush().await;
                it.clock.sleep(Delay::from_ms(100)).await;
                let buffered = it.ftl.slots_free() + it.ftl.units_buffered();
                assert_eq!((buffered, it.ftl.units_locked()), (it.ftl.slots(), 0));
            });
            println!("{base:?}, seed {seed}: {figures:?}");
            assert!(figures.commits > 100 && figures.flushes > 0, "{figures:?}");
        }
    }
}

/// A link direction that can be closed.
struct Gate {
    clock: Clock,
    is_closed: Cell<bool>,
    opened: Notify,
}

impl LinkDirection for Gate {
    fn send(&self, _: u64) -> Passage {
        assert!(!self.is_closed.get(), "sent over a link that is not there");
        self.ask()
    }

    fn ask(&self) -> Passage {
        let now = self.clock.now();
        Passage { queued: Delay::ZERO, sent: now, arrival: now + Delay::from_ns(100) }
    }

    fn closed(&self) -> Option<&Notify> {
        self.is_closed.get().then_some(&self.opened)
    }

    fn bytes(&self) -> u64 {
        0
    }
}

// A lost link may never come back: tasks that wait for a line or a page from there must continue when the
// lender is declared lost, and writers and collectors must not wait at all; otherwise the drive stalls
// because of a neighbour's cable.
#[test]
fn a_link_that_is_lost_holds_nothing_up_for_good() {
    for closes_back_alone in [false, true] {
        let figures = run(config(1), move |it| async move {
            let gate = |is_closed: bool| {
                let (is_closed, opened) = (Cell::new(is_closed), Notify::new(&it.clock));
                Rc::new(Gate { clock: it.clock.clone(), is_closed, opened })
            };
            let (there, back) = (gate(false), gate(false));
            let distance = SiteLink::over(&it.clock, there.clone(), back.clone());
            let lender = Lender::new(LenderId(9), &it.peers[0], &distance);
            it.ftl.borrow_segments(&lender, 2);
            for page in 0..3 {
                it.write_by(Route::OWN, page * PAGE).await;
            }
            it.flush().await;
            there.is_closed.set(!closes_back_alone);
            back.is_closed.set(true);
            let done = Rc::new(Cell::new(0));
            let spawn = |unit: u64, writes: bool| {
                let (it, done) = (it.clone(), done.clone());
                it.clock.clone().spawn("host", async move {
                    if writes {
                        it.write_by(Route::OWN, unit).await;
                    } else {
                        it.read(unit).await;
                    }
                    done.set(done.get() + 1);
                });
            };
            spawn(PAGE, false); // a line
            spawn(2 * PAGE, true);
            spawn(3 * PAGE, false); // in own DRAM
            spawn(4 * PAGE, false); // for which a page is to be read back
            it.flush().await;
            it.clock.sleep(Delay::from_ms(1)).await;
            assert_eq!(done.get(), 1, "the one that takes the place in own DRAM");
            it.ftl.lose_segments(LenderId(9));
            it.clock.sleep(Delay::from_ms(1)).await;
            assert_eq!((done.get(), it.ftl.map_frames()), (4, Some(1)));
            it.flush().await;
            assert_eq!(it.ftl.slots_free() + it.ftl.units_buffered(), it.ftl.slots());
        });
        assert_eq!((figures.segments_lost, figures.pages_recovered), (2, 2));
    }
}

// The monitor sees each look-up once, whether or not the page is cached: otherwise the miss ratio curve
// describes another workload.
#[test]
fn a_monitor_is_told_of_each_look_up() {
    #[derive(Default)]
    struct Seen(RefCell<Vec<u32>>);
    impl MapMonitor for Seen {
        fn look_up(&self, page: u32) {
            self.0.borrow_mut().push(page);
        }
    }
    run(config(1), |it| async move {
        let seen = Rc::new(Seen::default());
        assert!(it.ftl.monitor_map(Some(seen.clone())));
        it.read(0).await;
        it.read(3 * PAGE).await;
        it.write_by(Route::OWN, 3 * PAGE + 5).await;
        it.ftl.monitor_map(None);
        it.read(5 * PAGE).await;
        assert_eq!(*seen.0.borrow(), [0, 3, 3]);
    });
    run(FtlConfig { map_cache_pages: None, ..config(1) }, |it| async move {
        assert!(!it.ftl.monitor_map(Some(Rc::new(Seen::default()))));
        assert_eq!(it.ftl.borrow_segments(&it.lenders[0], 1), 0, "the drive's own DRAM holds the whole map");
        assert_eq!(
            (it.ftl.give_back_segments(LenderId(0), 1).await, it.ftl.lose_segments(LenderId(0))),
            (0, 0)
        );
    });
}
