//! Placement is real: firmware work of one drive runs on the cores of another, is charged there, and suffers from what
//! else those cores do.
//!
//! Verified: whose cores are busy and for how long, to the cycle; that the borrower's latency rises with the lender's
//! load and with nothing else; that data is right throughout. Not verified: what it costs to reach the lender, which
//! is a fabric's to say.

mod fixture;

use byteway_clock::{Delay, Executor};
use byteway_device::Drive;
use byteway_firmware::{Placement, Site, Work};
use byteway_link::{Link, Memory};
use byteway_wire::nvme::{NvmOpcode, Status};
use fixture::{NS_4K, NS_4K_UNITS, Pair, TestHost, drive_config, link_config, pattern, read_write};

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
    config.site.cycles = config.site.cycles.with(Work::Translate, TRANSLATE_CYCLES);
    let (own, lent) = (Drive::site(&clock, &config), Drive::site(&clock, &config));
    let at_own = Placement::all_at(&own, config.site.cycles);
    let at_lent = Placement::all_at(&lent, config.site.cycles);
    let borrowed = if borrows { at_own.with(Work::Translate, &lent) } else { at_own };
    let host = |site: &Site, placement: Placement| {
        let memory = Memory::simulated();
        let (end, device) = Link::connect(&clock, link_config(), memory.clone());
        let drive =
            Drive::placed(&device, config.clone(), site.clone(), placement).expect("a possible drive");
        TestHost::over(&clock, end, device, memory, drive)
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
        let of_command = cycles.of(Work::Fetch) + cycles.of(Work::Parse) + cycles.of(Work::Complete);
        // A cycle is a nanosecond. A write translates as well: its entry of the map changes.
        assert_eq!(Delay(two.lent.busy().0 - lent.0), Delay::from_ns(20 * TRANSLATE_CYCLES));
        let of_buffer = 10 * cycles.of(Work::Buffer);
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
