//! Which die programs what is written, and what stops programs.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail as the test does")]

use byteway_clock::{Clock, Delay, Executor, Rate, SpanId, Spans};
use byteway_content::{Content, Keep, UNIT_BYTES};
use byteway_firmware::{Cycles, Ftl, FtlConfig, Housekeeping, Placement, Site, Striping};
use byteway_flash::{FlashConfig, Geometry, Timing};

const GEOMETRY: Geometry =
    Geometry { channels: 4, ways: 1, planes: 1, blocks: 12, pages: 32, page_bytes: 4096 };

fn config() -> FtlConfig {
    FtlConfig { user_units: 800, write_buffer_units: 8, ..FtlConfig::default() }
}

/// The time that `main` takes on a new drive whose pages take `program` each.
fn time<F: Future<Output = ()> + 'static>(config: FtlConfig, main: impl FnOnce(Ftl, Clock) -> F) -> Delay {
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let us = Delay::from_us;
    let timing =
        Timing { read: vec![us(2000)], program: vec![us(300)], erase: us(3000), ..Timing::default() };
    let site = Site::new(&clock, 1, 1_000_000_000, Delay::ZERO, Rate::per_second(1_000_000_000_000));
    let placement = Placement::all_at(&site, Cycles::FREE);
    let medium = Ftl::medium(GEOMETRY, &config).unwrap();
    let ftl = Ftl::power_on(&clock, placement, GEOMETRY, FlashConfig::from(timing), config, medium).unwrap();
    let before = clock.now();
    executor.run(main(ftl, clock.clone())).unwrap();
    clock.now().since(before)
}

async fn write(ftl: &Ftl, lpa: u64) {
    let mut contents = vec![Content::of(&[lpa as u8; UNIT_BYTES], Keep::Bytes)];
    ftl.write(SpanId::NONE, &Spans::default(), lpa, &mut contents, false).await.unwrap();
}

async fn flush(ftl: &Ftl) {
    ftl.flush(SpanId::NONE, &Spans::default()).await.unwrap();
}

async fn read(ftl: &Ftl, lpa: u64) {
    let mut out = Vec::new();
    ftl.read(SpanId::NONE, &Spans::default(), lpa, 1, &mut out).await.unwrap();
    assert_eq!(out, [Content::of(&[lpa as u8; UNIT_BYTES], Keep::Bytes)]);
}

// Housekeeping that stopped nothing, or for ever, would show as a p99 that is none or as a hang: what is written comes back, later by its times.
#[test]
fn housekeeping_stops_programs_for_its_time() {
    let took = |housekeeping| {
        time(FtlConfig { housekeeping, ..config() }, |ftl, _| async move {
            for lpa in 0..400 {
                write(&ftl, lpa).await;
            }
            flush(&ftl).await;
            read(&ftl, 399).await;
        })
    };
    let (ms, without) = (|ms: u64| Delay::from_us(1000 * ms), took(None));
    let with = took(Some(Housekeeping { units: 100, time: ms(50) }));
    // The fourth is due when the last stripe is sent: nothing waits for it.
    assert!((without + ms(148)..without + ms(151)).contains(&with), "{without:?} without, {with:?} with");
}

// A die that is late holds up all writes if dies take turns, and none if they do not.
#[test]
fn in_turn_one_busy_die_holds_up_the_others() {
    let took = |striping| {
        time(FtlConfig { striping, ..config() }, |ftl, clock| async move {
            for lpa in 0..16 {
                write(&ftl, lpa).await;
            }
            flush(&ftl).await;
            // Die 0 reads again and again, for 2 ms each time.
            let reader = ftl.clone();
            clock.spawn("reader", async move {
                loop {
                    read(&reader, 0).await;
                }
            });
            for lpa in 100..200 {
                write(&ftl, lpa).await;
            }
            flush(&ftl).await;
        })
    };
    let (ready, in_turn) = (took(Striping::Ready), took(Striping::InTurn));
    assert!(in_turn > ready * 2, "{ready:?} if any die may, {in_turn:?} in turn");
}
