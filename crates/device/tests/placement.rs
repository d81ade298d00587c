//! Placement is real: firmware work of one drive runs on the cores of another, is charged there, and suffers from what
//! else those cores do.
//!
//! Verified: whose cores are busy and for how long, to the cycle; that the borrower's latency rises with the lender's
//! load and with nothing else; that data is right throughout; that a command whose work is done elsewhere pays the distance to
//! what it works on, to the picosecond; that firmware on the host's cores competes with the application.

use crate::fixture::{NS_4K, NS_4K_UNITS, Pair, TestHost, drive_config, link_config, pattern, read_write};
use byteway_clock::{Clock, Delay, Executor, Rate, Station};
use byteway_device::{Drive, DriveConfig, Router};
use byteway_firmware::{Base, Placement, Route, Site, SiteLink, WorkKind};
use byteway_link::Memory;
use byteway_wire::nvme::{NvmOpcode, Sqe, Status};
use byteway_world::DriveBay;
use std::cell::RefCell;
use std::rc::Rc;

/// Cycles that looking a unit up takes here: with one GHz, 5 us.
const TRANSLATE_CYCLES: u64 = 5_000;
/// Of the lender, whose own work it also is.
const LENDER_CORES: u32 = 1;

/// Two drives with hosts of their own.
struct Two {
    borrower: TestHost,
    lender: TestHost,
    /// The borrower's own cores.
    own: Site,
    /// The lender's.
    lent: Site,
}

/// Runs `test` with two enabled drives on one executor. With `borrows`, the first one's translation is placed on the
/// second one's cores.
fn run<T: 'static>(borrows: bool, test: impl AsyncFnOnce(Two) -> T + 'static) -> T {
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let mut config = drive_config();
    config.site.cores = LENDER_CORES;
    config.site.cycles = config.site.cycles.with(WorkKind::Translate, TRANSLATE_CYCLES);
    let (own, lent) = (Drive::site(&clock, &config), Drive::site(&clock, &config));
    let at_own = Placement::all_at(&own, config.site.cycles);
    let at_lent = Placement::all_at(&lent, config.site.cycles);
    let borrowed = if borrows { at_own.with(WorkKind::Translate, &lent) } else { at_own };
    let host = |site: &Site, placement: Placement| {
        let bay = DriveBay::new(&clock, link_config(), Memory::simulated());
        let powered = bay.power_on_placed(config.clone(), site.clone(), placement, None);
        TestHost::over(powered.expect("a possible drive"))
    };
    let two = Two { borrower: host(&own, borrowed), lender: host(&lent, at_lent), own, lent };
    let finished = executor.run(async move {
        two.borrower.enable().await;
        two.lender.enable().await;
        test(two).await
    });
    finished.unwrap_or_else(|stalled| panic!("{stalled}"))
}

/// Writes a unit and reads it back; gives how long the read took.
async fn write_and_read(host: &TestHost, pair: &Pair, slba: u64) -> Delay {
    let bytes = pattern(slba + 1, 4096);
    assert_eq!(host.write(pair, NS_4K, slba, &bytes).await, Status::SUCCESS);
    let before = host.clock().now();
    assert_eq!(host.read(pair, NS_4K, slba, 1).await, bytes);
    host.clock().now().since(before)
}

/// The mean latency of `count` reads of the borrower, each verified, while the lender has `load` reads outstanding.
async fn latency_under(two: &Two, count: u64, load: u32) -> Delay {
    let (borrower, lender) = (&two.borrower, &two.lender);
    let (a, b) = (borrower.create_pair(1, 64).await, lender.create_pair(1, 64).await);
    let busy = {
        let lender = lender.clone();
        let page = lender.pages(1);
        borrower.clock().spawn("load", async move {
            let read = |slba| read_write(NvmOpcode::READ, NS_4K, slba, 1).with_prp(page, 0);
            (0..load).for_each(|slba| _ = lender.submit(&b.sq, read(slba.into())));
            for slba in 0.. {
                assert_eq!(lender.next(&b.cq).await.status(), Status::SUCCESS);
                lender.submit(&b.sq, read(slba % NS_4K_UNITS));
            }
        })
    };
    let mut total = Delay::ZERO;
    for slba in 0..count {
        total += write_and_read(borrower, &a, slba * 7).await;
    }
    borrower.clock().kill(busy);
    Delay(total.0 / count)
}

// If placement were a word only, a peer's cores would cost nothing, and lending would look free.
#[test]
fn work_is_done_where_it_is_placed_and_nowhere_else() {
    run(true, async |two| {
        let pair = two.borrower.create_pair(1, 64).await;
        let (own, lent) = (two.own.busy(), two.lent.busy());
        let bytes = pattern(1, 4096);
        for slba in 0..10 {
            assert_eq!(two.borrower.write(&pair, NS_4K, slba, &bytes).await, Status::SUCCESS);
            assert_eq!(two.borrower.read(&pair, NS_4K, slba, 1).await, bytes);
        }
        let cycles = drive_config().site.cycles;
        let of_command =
            cycles.of(WorkKind::Fetch) + cycles.of(WorkKind::Parse) + cycles.of(WorkKind::Complete);
        // A cycle is a nanosecond. A write translates as well: its entry of the map changes.
        assert_eq!(Delay(two.lent.busy().0 - lent.0), Delay::from_ns(20 * TRANSLATE_CYCLES));
        let of_buffer = 10 * cycles.of(WorkKind::Buffer);
        assert_eq!(Delay(two.own.busy().0 - own.0), Delay::from_ns(20 * of_command + of_buffer));
    });
}

// Borrowed cores that are busy with their owner's work must be slow: that is what lending is about.
#[test]
fn the_borrower_waits_behind_the_lender() {
    let idle = run(true, async |two| latency_under(&two, 50, 0).await);
    let loaded = run(true, async |two| latency_under(&two, 50, 16).await);
    // Sixteen reads are always outstanding, all of them in line for the one core: some with their translation, the
    // others with work that is shorter.
    let line = Delay::from_ns(TRANSLATE_CYCLES * 3);
    assert!(loaded > idle + line, "{loaded} behind sixteen reads of the lender's, {idle} without");
}

// A drive that borrows nothing must not notice what its neighbour does; else the test above shows a common clock.
#[test]
fn a_drive_on_its_own_cores_does_not_notice() {
    let idle = run(false, async |two| latency_under(&two, 50, 0).await);
    let loaded = run(false, async |two| latency_under(&two, 50, 16).await);
    assert_eq!(loaded, idle);
}

// The lender's own I/O must pay for what it lends.
#[test]
fn the_lender_waits_behind_the_borrower() {
    let of_lender = |borrows| {
        run(borrows, async move |two| {
            let (a, b) = (two.borrower.create_pair(1, 64).await, two.lender.create_pair(1, 64).await);
            let page = two.borrower.pages(1);
            let read = |slba| read_write(NvmOpcode::READ, NS_4K, slba, 1).with_prp(page, 0);
            (0..32).for_each(|slba| _ = two.borrower.place(&a.sq, read(slba)));
            two.borrower.ring_tail(&a.sq);
            two.borrower.sleep(Delay::from_us(3)).await;
            let before = two.lender.clock().now();
            write_and_read(&two.lender, &b, 5).await;
            let took = two.lender.clock().now().since(before);
            two.borrower.next_many(&a.cq, 32).await;
            took
        })
    };
    let (alone, lending) = (of_lender(false), of_lender(true));
    let line = Delay::from_ns(TRANSLATE_CYCLES * 20);
    assert!(lending > alone + line, "{lending} while it lends, {alone} while it doesn't");
}

/// Runs `test` with a host and its drive, which holds a pattern; its placement comes from its own site and another.
fn run_placed<T: 'static>(
    place: impl FnOnce(&Clock, Placement, &Site) -> (Placement, Option<Router>),
    peer: impl FnOnce(&Clock) -> Site,
    test: impl AsyncFnOnce(TestHost, Site) -> T + 'static,
) -> T {
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let mut config = DriveConfig { base: Base::Filled, ..drive_config() };
    config.site.cycles = config.site.cycles.with(WorkKind::Translate, TRANSLATE_CYCLES);
    let (own, peer) = (Drive::site(&clock, &config), peer(&clock));
    let (placement, router) = place(&clock, Placement::all_at(&own, config.site.cycles), &peer);
    let bay = DriveBay::new(&clock, link_config(), Memory::simulated());
    let powered = bay.power_on_placed(config, own, placement, None).expect("a possible drive");
    if let Some(router) = router {
        powered.drive.controller.route_by(router);
    }
    let host = TestHost::over(powered);
    let finished = executor.run(async move {
        host.enable().await;
        test(host, peer).await
    });
    finished.unwrap_or_else(|stalled| panic!("{stalled}"))
}

/// How long a read of one block of 4 KiB takes, alone.
async fn read_alone(host: &TestHost, pair: &Pair, slba: u64) -> Delay {
    let before = host.clock().now();
    host.read(pair, NS_4K, slba, 1).await;
    host.clock().now().since(before)
}

/// How long a write of one takes, alone.
async fn write_alone(host: &TestHost, pair: &Pair, slba: u64) -> Delay {
    let bytes = pattern(slba, 4096);
    let before = host.clock().now();
    assert_eq!(host.write(pair, NS_4K, slba, &bytes).await, Status::SUCCESS);
    host.clock().now().since(before)
}

/// Commands to odd blocks have `work` done elsewhere: cores and DRAM like the drive's own, 300 ns away at 10 GB/s.
fn odd_ones_elsewhere(
    work: WorkKind,
) -> impl FnOnce(&Clock, Placement, &Site) -> (Placement, Option<Router>) {
    move |clock, placement, peer| {
        let distance = SiteLink::new(clock, Delay::from_ns(300), Rate::per_second(10_000_000_000));
        let own = placement.site(work).clone();
        let mut placement = placement.with_distance(peer, &own, &distance);
        let route = placement.add_route(work, peer).expect("a route is available");
        let router = move |_: u16, sqe: &Sqe| if sqe.cdw10 % 2 == 1 { route } else { Route::OWN };
        (placement, Some(Rc::new(router)))
    }
}

// Work that is lent by the command, but reads the owner's map as if it were next to it, would make lending free.
#[test]
fn a_command_translated_elsewhere_pays_the_distance_to_the_picosecond() {
    let alike = |clock: &Clock| Drive::site(clock, &drive_config());
    let (near, far, near_write, far_write, peers) =
        run_placed(odd_ones_elsewhere(WorkKind::Translate), alike, async |host, peer| {
            let pair = host.create_pair(1, 64).await;
            let (near, busy) = (read_alone(&host, &pair, 10).await, peer.busy());
            let far = read_alone(&host, &pair, 11).await;
            let peers = Delay(peer.busy().0 - busy.0);
            (near, far, write_alone(&host, &pair, 20).await, write_alone(&host, &pair, 21).await, peers)
        });
    assert_eq!(peers, Delay::from_ns(TRANSLATE_CYCLES), "the peer has translated one unit");
    // There and back, and a line of 64 B at 10 GB/s.
    let line = Delay(6_400);
    assert_eq!(far, near + Delay::from_ns(600) + line);
    // Buffering and translating are two pieces of work now, of as many cycles; the changed entry crosses once.
    assert_eq!(far_write, near_write + Delay::from_ns(300) + line);
}

// The write buffer's bytes cross as well.
#[test]
fn a_command_buffered_elsewhere_pays_for_its_bytes() {
    let alike = |clock: &Clock| Drive::site(clock, &drive_config());
    let (near, far, read_near, read_far) =
        run_placed(odd_ones_elsewhere(WorkKind::Buffer), alike, async |host, _| {
            let pair = host.create_pair(1, 64).await;
            let (near, far) = (write_alone(&host, &pair, 20).await, write_alone(&host, &pair, 21).await);
            // They are still there.
            (near, far, read_alone(&host, &pair, 20).await, read_alone(&host, &pair, 21).await)
        });
    let unit = Delay(409_600); // 4 KiB at 10 GB/s
    assert_eq!(far, near + Delay::from_ns(300) + unit);
    assert_eq!(read_far, read_near + Delay::from_ns(600) + unit);
}

// Firmware on the host that had cores of its own would take nothing from the application.
#[test]
fn firmware_on_the_host_and_the_application_compete_for_its_cores() {
    let application = Delay::from_us(40);
    let took = |busy: bool| {
        let cores: Rc<RefCell<Option<Rc<Station>>>> = Rc::default();
        let shared = cores.clone();
        let of_host = move |clock: &Clock| {
            let station = Rc::new(Station::new(clock, 1));
            shared.replace(Some(station.clone()));
            Site::over(clock, station, 1_000_000_000, Delay::from_ns(50), Rate::per_second(10_000_000_000))
        };
        let place =
            |_: &Clock, placement: Placement, peer: &Site| (placement.with(WorkKind::Translate, peer), None);
        run_placed(place, of_host, async move |host, site| {
            let station = cores.take().expect("the host has a core");
            let pair = host.create_pair(1, 64).await;
            let before = station.busy();
            if busy {
                station.reserve_for("application", application);
            }
            let took = read_alone(&host, &pair, 10).await;
            let all = Delay(station.busy().0 - before.0);
            let own = if busy { application } else { Delay::ZERO };
            assert_eq!(all, own + Delay::from_ns(TRANSLATE_CYCLES), "one core does both");
            assert_eq!(site.served(), station.served());
            took
        })
    };
    let (alone, beside) = (took(false), took(true));
    // Less what the command takes until it is to be translated.
    assert!(beside > alone + Delay::from_us(35) && beside < alone + application, "{alone}, {beside}");
}
