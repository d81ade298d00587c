//! Write amplification under uniform random writes, compared with the formula; and the constructed steady
//! state, compared with a drive that was really overwritten.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail as the test does")]

use byteway_clock::random::Rng;
use byteway_clock::{Delay, Executor, Rate, SpanId, Spans};
use byteway_content::{BlockSize, Content};
use byteway_firmware::ftl::greedy_write_amplification;
use byteway_firmware::{Base, Cycles, Ftl, FtlConfig, Placement, Region, Site};
use byteway_flash::{BlockId, Geometry, Medium, Timing};

/// 256 superblocks a die, of 512 units in stripes of 4.
const GEOMETRY: Geometry =
    Geometry { channels: 2, ways: 1, planes: 2, blocks: 256, pages: 128, page_bytes: 8192 };

fn ftl(executor: &Executor, base: Base, op: f64) -> Ftl {
    power_on(executor, Ftl::medium(GEOMETRY, &config(base, op)).unwrap(), base, op)
}

fn config(base: Base, op: f64) -> FtlConfig {
    let defaults = FtlConfig::default();
    FtlConfig {
        user_units: FtlConfig::user_units_at(&GEOMETRY, defaults.gc_reserve_blocks, op),
        write_buffer_units: 16,
        base,
        regions: vec![Region { first_unit: 0, tag: 1, block: BlockSize::B4096 }],
        seed: 3,
        ..defaults
    }
}

fn power_on(executor: &Executor, medium: Medium, base: Base, op: f64) -> Ftl {
    let clock = executor.clock();
    let site = Site::new(clock, 1, 1_000_000_000, Delay::ZERO, Rate::per_second(1_000_000_000));
    let timing = Timing {
        read: vec![Delay::from_us(30)],
        program: vec![Delay::from_us(200)],
        erase: Delay::from_ms(2),
        channel: Rate::per_second(2_000_000_000),
        command: Delay::ZERO,
        ..Timing::default()
    };
    let placement = Placement::all_at(&site, Cycles::FREE);
    Ftl::power_on(clock, placement, GEOMETRY, timing, config(base, op), medium).unwrap()
}

/// Overwrites `times` times as many random units as there are.
fn overwrite(executor: &Executor, ftl: &Ftl, times: f64, name: &str) {
    let count = (ftl.user_units() as f64 * times) as u64;
    let mut stream = Rng::new(5).stream(name);
    let ftl = ftl.clone();
    let write = async move {
        let (spans, mut contents) = (Spans::default(), Vec::new());
        for _ in 0..count {
            contents.push(Content::Zero);
            let unit = stream.below(ftl.user_units());
            ftl.write(SpanId::NONE, &spans, unit, &mut contents, false).await.unwrap();
        }
    };
    executor.run(write).unwrap();
}

/// Write amplification factor over the next `times` drive sizes.
fn write_amplification(executor: &Executor, ftl: &Ftl, times: f64, name: &str) -> f64 {
    let then = ftl.counters();
    overwrite(executor, ftl, times, name);
    ftl.counters().write_amplification_since(&then)
}

/// Deciles of the valid counts of closed superblocks, as fractions of a superblock. The emptiest of each die
/// is left out: it may be the current victim.
fn tenths(ftl: &Ftl) -> Vec<f64> {
    let blocks = (0..GEOMETRY.total_blocks()).map(|block| ftl.valid_units(BlockId(block)));
    let mut counts: Vec<u32> = blocks.filter(|(_, closed)| *closed).map(|(valid, _)| valid).collect();
    counts.sort_unstable();
    counts.drain(..GEOMETRY.dies() as usize);
    let at = |tenth: usize| counts[(counts.len() - 1) * tenth / 10];
    (0..=10).map(|tenth| f64::from(at(tenth)) / f64::from(GEOMETRY.units_per_block())).collect()
}

// Victim selection, moves of stale units, padding, or too many free superblocks all show in this one number.
#[test]
fn greedy_collection_amplifies_as_the_formula_says() {
    for op in [0.07, 0.15, 0.28] {
        let expected = greedy_write_amplification(op);
        let executor = Executor::new();
        let constructed = ftl(&executor, Base::Steady, op);
        let at_once = write_amplification(&executor, &constructed, 0.25, "at once");
        overwrite(&executor, &constructed, 1.0, "settle");
        let later = write_amplification(&executor, &constructed, 1.0, "later");

        let executor = Executor::new();
        let real = ftl(&executor, Base::Filled, op);
        overwrite(&executor, &real, 4.0, "fill");
        let settled = write_amplification(&executor, &real, 1.0, "real");
        println!(
            "OP {op}: formula {expected:.3}, constructed {at_once:.3}, later {later:.3}, real {settled:.3}"
        );
        for (name, measured, reference, tolerance) in [
            ("constructed", at_once, expected, 0.03),
            ("constructed, later", later, expected, 0.03),
            ("really overwritten", settled, expected, 0.03),
            ("constructed against real", at_once, settled, 0.02),
        ] {
            let off = measured / reference - 1.0;
            assert!(off.abs() < tolerance, "OP {op}: {name}: {measured:.3} against {reference:.3}");
        }
        let constructed = tenths(&ftl(&Executor::new(), Base::Steady, op));
        for (tenth, (constructed, real)) in constructed.into_iter().zip(tenths(&real)).enumerate() {
            println!("  tenth {tenth}: constructed {constructed:.4}, real {real:.4}");
            assert!(
                (constructed - real).abs() < 0.02,
                "OP {op}, tenth {tenth}: {constructed:.4} against {real:.4}"
            );
        }
    }
}

// An empty buffer takes as many units as it has slots at once, whatever flash can do; and filling it must not
// bring back what was deallocated before.
#[test]
fn the_first_write_finds_the_buffer_full() {
    let executor = Executor::new();
    let ftl = ftl(&executor, Base::Steady, 0.07);
    let (user, slots) = (ftl.user_units(), ftl.slots());
    let before: Vec<Content> = (0..user).map(|unit| ftl.peek(unit)).collect();
    assert_eq!(ftl.slots_free(), slots, "a drive that is only read from is at rest");
    let some = user / 4;
    let it = ftl.clone();
    let first = async move {
        let (spans, mut contents) = (Spans::default(), vec![Content::Zero]);
        it.trim(SpanId::NONE, &spans, 0, some).await.unwrap();
        let writes = it.write(SpanId::NONE, &spans, some, &mut contents, false);
        writes.await.unwrap();
        it.counters().units_programmed_host
    };
    let programmed = executor.run(first).unwrap();
    assert!(programmed > 0, "the write waited for a slot");
    assert!((0..some).all(|unit| ftl.peek(unit) == Content::Zero), "what was deallocated stays so");
    let is_kept = |unit: &u64| ftl.peek(*unit) == before[*unit as usize];
    assert!((some + 1..user).all(|unit| is_kept(&unit)), "what was there is there");
}

// All superblocks of a fully deallocated drive are empty. Choosing every one of them while the journal record
// is being written would wear the drive out, and block waiting tasks for minutes on a large one.
#[test]
fn a_drive_that_was_deallocated_erases_what_it_needs() {
    for base in [Base::Steady, Base::Filled] {
        let executor = Executor::new();
        let ftl = self::ftl(&executor, base, 0.1);
        overwrite(&executor, &ftl, 0.3, "before");
        // After a power cut no superblock is open any more, and few are free.
        let executor = Executor::new();
        let ftl = power_on(&executor, ftl.power_off(), base, 0.1);
        let (inner, clock) = (ftl.clone(), executor.clock().clone());
        let main = async move {
            let (span, spans) = (SpanId::NONE, Spans::default());
            inner.ready().await;
            inner.trim(span, &spans, 0, inner.user_units()).await.unwrap();
            let before = inner.flash().counters().erases;
            inner.flush(span, &spans).await.unwrap();
            clock.sleep(Delay::from_s(2)).await;
            inner.flash().counters().erases - before
        };
        let erases = executor.run(main).unwrap();
        assert!(erases <= 16, "{base:?}: {erases} erases, of 512 superblocks");
    }
}

// Each written translation page needs space, which moves units, which changes other pages: a checkpoint that
// waited for those too would write the whole map, and a shutdown of a large drive would take minutes.
#[test]
fn a_checkpoint_writes_what_had_changed_when_it_began() {
    const LARGE: Geometry = Geometry { blocks: 8192, ..GEOMETRY };
    let executor = Executor::new();
    let site = Site::new(executor.clock(), 1, 1_000_000_000, Delay::ZERO, Rate::per_second(1_000_000_000));
    let config = FtlConfig {
        user_units: FtlConfig::user_units_at(&LARGE, 1, 0.07),
        write_buffer_units: 16,
        base: Base::Steady,
        ..FtlConfig::default()
    };
    let placement = Placement::all_at(&site, Cycles::FREE);
    let ftl = Ftl::new(executor.clock(), placement, LARGE, Timing::default(), config).unwrap();
    let pages = ftl.space().map.1;
    let main = async move {
        let (span, spans) = (SpanId::NONE, Spans::default());
        ftl.write(span, &spans, 0, &mut vec![Content::Zero; 8], true).await.unwrap();
        let before = ftl.counters();
        ftl.shutdown(span, &spans).await.unwrap();
        let after = ftl.counters();
        let changed = before.units_programmed() + u64::from(ftl.slots());
        (changed, after.units_programmed_map - before.units_programmed_map)
    };
    let (changed, written) = executor.run(main).unwrap();
    assert!(changed < pages / 4 && written <= changed, "{written} of {pages} pages, {changed} units changed");
}
