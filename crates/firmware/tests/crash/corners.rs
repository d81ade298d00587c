//! Drives of every shape, as small and as full as possible, with all background maintenance and failing
//! flash.

use crate::crash::fixture::{Case, histories, regions, share, streams};
use crate::crash::hosts::history;
use byteway_clock::random::{Rng, Stream};
use byteway_clock::{Delay, Executor};
use byteway_firmware::policy::Policies;
use byteway_firmware::{
    Background, Base, DynamicCache, Ftl, FtlConfig, FtlError, Maintenance, Refresh, SteadyTiming,
};
use byteway_flash::{FaultPlan, Geometry};

/// Policies that choose victims.
const VICTIMS: [&str; 6] =
    ["greedy", "cost-benefit", "fifo", "windowed-greedy:3", "d-choices:1", "d-choices:2"];

/// A wear policy.
fn wear(stream: &mut Stream) -> String {
    let unlevelled = if stream.chance(0.5) { "dynamic" } else { "fifo" };
    if !stream.chance(0.3) {
        return unlevelled.to_owned();
    }
    let name = if unlevelled == "fifo" { "random" } else { "static" };
    format!("{name}:{}", 1 + stream.below(3))
}

fn one_of<T: Clone>(stream: &mut Stream, values: &[T]) -> T {
    values[stream.below(values.len() as u64) as usize].clone()
}

/// A random drive; None if the parameters are impossible.
fn drawn(seed: u64) -> Option<Case> {
    let stream = &mut Rng::new(seed).stream("drive");
    let is_large = stream.chance(0.15);
    let upkeep = Maintenance {
        wear: Policies::default().find(&wear(stream)).expect("it is built in"),
        spare_blocks: one_of(stream, &[0, 0, 1, 2, 5]),
        factory_bad_blocks: 0,
        background: stream
            .chance(0.3)
            .then(|| Background { idle: Delay::from_us(50), free_blocks: 2 + stream.below(6) as u32 }),
        refresh: stream.chance(0.3).then(|| Refresh {
            reads: 5 + stream.below(50) as u32,
            age: Delay::from_ms(5 + stream.below(80)),
        }),
        slc_blocks: one_of(stream, &[0, 0, 0, 1, 2, 3]),
        ..Maintenance::default()
    };
    // Of a stream of their own, so that what seeds found before they were drawn is still found.
    let own = &mut Rng::new(seed).stream("dynamic cache");
    let upkeep = Maintenance {
        slc_dynamic: DynamicCache { most: one_of(own, &[0, 0, 2, 4]), until: 6 },
        slc_folds_idle: own.chance(0.5),
        ..upkeep
    };
    let upkeep =
        Maintenance { factory_bad_blocks: stream.below(u64::from(upkeep.spare_blocks) + 1) as u32, ..upkeep };
    let geometry = Geometry {
        channels: 1 + stream.below(2) as u32,
        ways: 1 + stream.below(2) as u32,
        planes: 1 + stream.below(2) as u32,
        blocks: upkeep.set_aside() + if is_large { 40 } else { 4 + stream.below(6) as u32 },
        pages: if is_large { 18 } else { 1 + stream.below(8) as u32 },
        page_bytes: one_of(stream, &[4096, 8192, 16384]),
    };
    let wordline = 1 + stream.below(3) as usize;
    let (program, erase) =
        (one_of(stream, &[0.0, 0.0, 0.002, 0.02]), one_of(stream, &[0.0, 0.0, 0.002, 0.05]));
    let faults = FaultPlan {
        program,
        erase,
        read: one_of(stream, &[0.0, 0.0, 0.0, 0.01, 0.1]),
        ..FaultPlan::default()
    };
    let reserve = one_of(stream, &[1, 1, 1, 2]);
    let mut config = FtlConfig {
        user_units: u64::from(u32::MAX >> 1),
        write_buffer_units: 1 + stream.below(64) as u32,
        gc: Policies::default().find(one_of(stream, &VICTIMS)).expect("it is built in"),
        gc_start_free_blocks: reserve + stream.below(3) as u32,
        gc_reserve_blocks: reserve,
        plp: stream.chance(0.25),
        map_cache_pages: one_of(stream, &[None, Some(1), Some(2)]),
        checkpoint_units: one_of(stream, &[0, 16, 64, 200]),
        wide_map: seed.is_multiple_of(3),
        upkeep,
        seed,
        rhythm: SteadyTiming { wordline: wordline as u32, ..SteadyTiming::default() },
        base: one_of(stream, &[Base::Empty, Base::Filled, Base::Steady]),
        regions: regions(),
        ..Default::default()
    };
    let fill = if stream.chance(0.6) { 1.0 } else { 0.3 + 0.7 * stream.unit() };
    let mut case = Case {
        name: "corner",
        faults,
        geometry,
        wordline,
        config: config.clone(),
        meddles: stream.chance(0.5),
        is_far: false,
    };
    // The answer to a capacity that is too large is the largest possible one.
    for _ in 0..8 {
        let executor = Executor::new();
        let powered = Ftl::medium(geometry, &config)
            .and_then(|medium| case.try_power_on(executor.clock(), medium, 0).map(|_| ()));
        match powered {
            Ok(()) => {
                let units = ((config.user_units as f64 * fill) as u64).max(1);
                case.config.user_units = units;
                return Some(case);
            }
            Err(FtlError::TooLarge { most, .. }) if most > 0 && most < config.user_units => {
                config.user_units = most
            }
            Err(_) => return None,
        }
        case.config = config.clone();
    }
    None
}

/// A drawn drive with hosts only, as a failure was found.
fn remembered(seed: u64) -> Case {
    Case { meddles: false, ..drawn(seed).unwrap() }
}

// No shape, shortage or failure may lose data or stall the drive.
#[test]
fn drives_of_every_shape_keep_what_was_durable() {
    let mut drives = 0;
    for seed in 0..200 * share() {
        if let Some(case) = drawn(seed) {
            histories(&case, seed..seed + 1, history);
            drives += 1;
        }
    }
    assert!(drives > 50, "{drives} of them are drives");
}

// The same with several streams.
#[test]
fn drives_of_every_shape_with_several_streams_keep_what_was_durable() {
    for seed in 0..100 * share() {
        let name = ["sepbit", "anywhere", "hot-cold:30"][seed as usize % 3];
        if let Some(case) = drawn(seed) {
            histories(&case.in_streams(streams(name)), seed..seed + 1, history);
        }
    }
}

// The same with the flash across a link.
#[test]
fn drives_of_every_shape_keep_what_was_durable_across_a_link() {
    for seed in 0..60 * share() {
        // With power-loss protection more units fit than without.
        if let Some(case) = drawn(seed).filter(|case| !case.config.plp) {
            histories(&case.across(), seed..seed + 1, history);
        }
    }
}

// Two versions of a unit lie in one stripe if a failure has sent the older one back: it was once stale before
// it had been counted.
#[test]
fn seed_703_what_was_sent_back_lies_beside_what_is_newer() {
    histories(&remembered(703), 703..704, history);
}

// Spare superblocks were once taken for free ones: on a die without one the host continued with the
// collector's superblock, and the collector left an empty one again and again.
#[test]
fn seed_281_spare_superblocks_are_not_free() {
    history(&remembered(281), 281_000, &[21, 414, 387, 524, 523, 0]);
}

// When all superblocks waited for refresh none could be collected, and none refreshed without a free one.
#[test]
fn seed_447_what_waits_to_be_refreshed_can_be_collected() {
    history(&remembered(447), 447_000, &[46, 3450, 79, 1774, 1755, 23]);
}

// A collector whose units to read again had all become stale once went idle with a stripe still to be padded.
#[test]
fn seed_9567_a_collector_pads_when_nothing_is_to_be_read_again() {
    history(&remembered(9567), 9_567_000, &[47, 5358, 55, 542]);
}

// An unreadable translation page was once moved as an empty one: after a cut its units were in their base
// state, zeroes, or another unit's data.
#[test]
fn seeds_9355_and_40340_a_page_that_cannot_be_read_is_made_anew() {
    history(&remembered(9355), 9_355_000, &[15, 2330, 5088, 22, 8, 577]);
    history(&remembered(40_340), 40_340_000, &[366, 15, 16, 10, 55, 5044]);
}
