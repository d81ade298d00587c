//! Flush and shutdown end, on every profile's drive, whatever its collectors are doing: random overwriting of a drive in
//! steady state, with a flush or a shutdown every so often, where waits take the modelled time and where they take none.
//!
//! Verified: each flush and each shutdown ends, leaves nothing in the write buffer, and everything reads back. The drives
//! are as small as their profiles can be, and are the translation layers of served ones, without a host.

use byteway_clock::random::Rng;
use byteway_clock::{Clock, Delay, Executor, SpanId, Spans, Timing};
use byteway_console::interrupt::Interrupt;
use byteway_firmware::{Canary, Ftl};
use byteway_lab::build;
use byteway_scenario::profile::{DRIVES, Profile};
use byteway_scenario::{Device, Options, Scenario};
use byteway_wire::content::{BlockSize, Content, Stamp};
use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;

/// Units that each writer writes between two looks, at most.
const BURST: u64 = 400;
const WRITERS: u64 = 4;
const ROUNDS: u64 = 12;
const ROUNDS_MOST: u64 = 10 * ROUNDS;

/// Whether every flush and shutdown of a profile's drive ends; else what stood still.
fn ends(profile: &str, timing: Timing, canary: Option<Canary>) -> Result<(), String> {
    if Profile::built_in(profile).unwrap().is_hosted() {
        return ends_on_the_host(profile, timing);
    }
    let text = format!(
        "[drive]\nprofile = \"{profile}\"\ncapacity = \"1 GiB\"\nprecondition = \"steady\"\n[serve]\ntiming = \"none\"\n"
    );
    let device = Device::from_text("d.toml", Path::new("."), &text, &Options::default()).unwrap();
    let mut config = build::served(&device, "d");
    config.ftl.canary = canary;
    let executor = Executor::new();
    executor.set_timing(timing);
    let clock = executor.clock().clone();
    let powered = build::bay(&clock, &device.drive.profile).power_on(config, None).unwrap();
    let ftl = powered.drive.controller.ftl().clone();
    let result = executor.run(overwrite(clock, ftl, Rng::new(7)));
    result.map_err(|stalled| stalled.to_string())
}

/// The same of a drive whose firmware runs on the host: it begins empty, and is filled before.
fn ends_on_the_host(profile: &str, timing: Timing) -> Result<(), String> {
    let text = format!(
        "[drive]\nprofile = \"{profile}\"\ncapacity = \"1 GiB\"\n\
         [host]\nprofile = \"sandy-bridge\"\n[[job]]\nrw = \"randwrite\"\ncount = 1\n"
    );
    let scenario = Scenario::from_text("d.toml", Path::new("."), &text, &Options::default()).unwrap();
    let executor = Executor::new();
    executor.set_timing(timing);
    let clock = executor.clock().clone();
    let world = build::world(&executor, &scenario, &Interrupt::default()).unwrap().world;
    let ftl = world.drives()[0].drive.controller.ftl().clone();
    let result = executor.run(async move {
        let (spans, mut contents) = (Spans::default(), Vec::new());
        for first in (0..ftl.user_units()).step_by(256) {
            let count = (ftl.user_units() - first).min(256);
            contents.extend(
                (0..count)
                    .map(|_| Content::Stamp(Stamp { lba: 0, version: 0, tag: 98, block: BlockSize::B4096 })),
            );
            ftl.write(SpanId::NONE, &spans, first, &mut contents, false).await.unwrap();
        }
        overwrite(clock, ftl, Rng::new(7)).await;
    });
    result.map_err(|stalled| stalled.to_string())
}

/// Whether collectors have moved something: to make room, or out of the cache of one bit a cell.
fn has_collected(ftl: &Ftl) -> bool {
    let counters = ftl.counters();
    counters.units_programmed_collector + counters.units_programmed_folding > 0
}

async fn overwrite(clock: Clock, ftl: Ftl, rng: Rng) {
    let (spans, span) = (Rc::new(Spans::default()), SpanId::NONE);
    let mut moments = rng.stream("moments");
    ftl.ready().await;
    // A sixteenth of the drive, so that what is written is soon stale.
    let units = ftl.user_units() / 16;
    let stamp = |lpa, version| Content::Stamp(Stamp { lba: lpa, version, tag: 99, block: BlockSize::B4096 });
    let versions: Rc<Vec<Cell<u32>>> = Rc::new((0..units).map(|_| Cell::new(0)).collect());
    // Until collectors have been at work, too: on a drive with few and large superblocks they begin late.
    let mut rounds = 0;
    while rounds < ROUNDS || (!has_collected(&ftl) && rounds < ROUNDS_MOST) {
        let round = rounds;
        rounds += 1;
        let writing = Rc::new(Cell::new(WRITERS));
        for writer in 0..WRITERS {
            let (ftl, spans, writing, versions) =
                (ftl.clone(), spans.clone(), writing.clone(), versions.clone());
            let mut stream = rng.stream(&format!("writer-{writer}-{round}"));
            clock.spawn("writer of the host", async move {
                let mut contents = Vec::new();
                for step in 0..BURST {
                    // Each writer has its own units, a run of which is a command.
                    let count = 1 + stream.below(16);
                    let own = units / WRITERS;
                    let first = writer * own + stream.below(own - count);
                    let version = (round * BURST + step + 1) as u32;
                    contents.extend((first..first + count).map(|lpa| stamp(lpa, version)));
                    ftl.write(span, &spans, first, &mut contents, stream.chance(0.02)).await.unwrap();
                    (first..first + count).for_each(|lpa| versions[lpa as usize].set(version));
                }
                writing.set(writing.get() - 1);
            });
        }
        let mut looks = 0;
        while writing.get() > 0 {
            let turns = moments.below(300);
            match clock.is_immediate() {
                // Time passes only when no task is ready.
                false => clock.sleep(Delay::from_us(10 * turns)).await,
                true => {
                    for _ in 0..turns {
                        clock.yield_now().await;
                    }
                }
            }
            match moments.chance(0.5) {
                true => ftl.flush(span, &spans).await.unwrap(),
                false => ftl.shutdown(span, &spans).await.unwrap(),
            }
            looks += 1;
        }
        assert!(looks > 0);
        // Writers have ended, collectors have not.
        ftl.shutdown(span, &spans).await.unwrap();
        assert_eq!(ftl.units_buffered(), 0, "round {round}");
    }
    let mut held = Vec::new();
    for (lpa, version) in (0..).zip(versions.iter().map(Cell::get)).filter(|(_, version)| *version > 0) {
        ftl.read(span, &spans, lpa, 1, &mut held).await.unwrap();
        assert_eq!(held, [stamp(lpa, version)], "unit {lpa}");
    }
    assert!(has_collected(&ftl), "collectors were at work: {:?}", ftl.counters());
}

// A served drive of one profile of fourteen stopped for good in its first shutdown after some overwriting: Flush and
// shutdown must end for every geometry, number of bits a cell and set of thresholds that there is.
#[test]
fn flush_and_shutdown_end_for_every_profile() {
    for (profile, _) in DRIVES {
        if Profile::built_in(profile).unwrap().bridge.is_some() {
            continue; // its drives are like the others, each behind a controller of its own
        }
        for timing in [Timing::None, Timing::Model] {
            ends(profile, timing, None).unwrap_or_else(|stalled| panic!("{profile}, {timing:?}: {stalled}"));
        }
    }
}

// This is the fault that was there, and these drives would have shown it.
#[test]
fn the_overwriting_finds_a_drive_that_does_not_end() {
    ends("samsung-970-pro", Timing::None, Some(Canary::TakeAlong)).unwrap_err();
    ends("samsung-970-pro", Timing::Model, Some(Canary::TakeAlong)).unwrap();
    ends("tlc-generic", Timing::Model, Some(Canary::StallShutdown)).unwrap_err();
}
