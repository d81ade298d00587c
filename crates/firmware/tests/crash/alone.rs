//! One host, which waits for each of its commands: one command is in flight at the power cut. Flash fails,
//! too, and is maintained.

use crate::crash::fixture::{
    Case, Host, Model, cached_cases, cases, find_defects, found, histories, lives, regions, share, streams,
    tiny,
};
use byteway_clock::random::{Rng, Stream};
use byteway_clock::{Delay, Executor};
use byteway_firmware::policy::Policies;
use byteway_firmware::{Background, Base, DynamicCache, Ftl, FtlConfig, Maintenance, Refresh, SteadyTiming};
use byteway_flash::{FaultPlan, Geometry, Medium};
use std::cell::RefCell;
use std::rc::Rc;

async fn host(ftl: Ftl, model: Rc<RefCell<Model>>, mut stream: Stream, steps: u32) {
    let user = ftl.user_units();
    let (all, has_parts) = (model.borrow().all(), model.borrow().has_parts);
    let mut host = Host::new(ftl, model, all);
    for _ in 0..steps {
        let count = if stream.chance(0.8) { 1 } else { 1 + stream.below(20.min(user)) };
        let first = stream.below(user - count + 1);
        let goes_on = match stream.below(100) {
            0..66 if has_parts && stream.chance(0.5) => {
                let (from, blocks) = (stream.below(8), 1 + stream.below(8));
                let blocks = from as usize..(from + blocks).min(8) as usize;
                let lpa = if stream.chance(0.5) { stream.below(4.min(user)) } else { first };
                host.write_part(lpa, blocks, stream.chance(0.1)).await
            }
            0..66 => host.write(first..first + count, stream.chance(0.1)).await,
            66..92 => match stream.below(40) {
                0 => host.trim(0..user).await,
                1 => host.trim(first..user).await,
                _ => host.trim(first..first + count).await,
            },
            92..98 => host.flush().await,
            _ if stream.chance(0.3) => host.shut_down().await,
            _ => true,
        };
        if !goes_on {
            return;
        }
    }
}

/// Runs until the power cut: `polls` after power-on, or when the host is done.
fn run(case: &Case, medium: Medium, model: &Rc<RefCell<Model>>, polls: u64, seed: u64, what: &str) -> Medium {
    let executor = Executor::new();
    let powered = case.powered(&executor, medium, seed);
    let (ftl, polls) = (powered.ftl.clone(), polls.saturating_add(executor.clock().counters().polls));
    case.lend(executor.clock(), &ftl, seed);
    let (inner, model, what_then) = (ftl.clone(), model.clone(), what.to_owned());
    let ended = executor.run_cut(
        async move {
            inner.ready().await;
            inner.check_extents();
            let found = found(&inner).await;
            model.borrow_mut().look(found, &what_then);
            host(inner, model, Rng::new(seed).stream("host"), 60).await;
        },
        polls,
    );
    if let Err(stalled) = ended {
        panic!("{what}: {stalled}; {:?}", ftl.counters());
    }
    powered.off()
}

fn history(case: &Case, seed: u64, cuts: &[u64]) {
    lives(run, case, seed, cuts);
}

/// Drives with all background maintenance, while their flash fails.
fn upkeep_cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (index, name) in
        (0..).zip(["levels", "caches", "fails", "all", "all, three stripes", "all, protected"])
    {
        let is_all = index >= 3;
        let upkeep = Maintenance {
            wear: Policies::default()
                .find(if is_all || index == 0 { "static:1" } else { "dynamic" })
                .unwrap(),
            spare_blocks: 5,
            factory_bad_blocks: index,
            background: is_all.then_some(Background { idle: Delay::from_us(50), free_blocks: 6 }),
            refresh: is_all.then_some(Refresh { reads: 20, age: Delay::from_ms(50) }),
            slc_blocks: if is_all || index == 1 { 3 } else { 0 },
            slc_dynamic: DynamicCache { most: if is_all { 4 } else { 0 }, until: 6 },
            slc_folds_idle: index == 4,
        };
        let base = [Base::Empty, Base::Filled, Base::Steady][index as usize % 3];
        let wordline = if index == 4 { 3 } else { 1 };
        let config = FtlConfig {
            user_units: if wordline == 3 { 110 } else { 150 },
            rhythm: SteadyTiming { wordline: wordline as u32, ..SteadyTiming::default() },
            write_buffer_units: 24,
            base,
            plp: index == 5,
            checkpoint_units: 64,
            wide_map: index % 2 == 1,
            regions: regions(),
            upkeep,
            ..Default::default()
        };
        let geometry = Geometry { blocks: 17, ..tiny(6) };
        let chance = if is_all || index == 2 { 0.005 } else { 0.0 };
        let faults = FaultPlan { program: chance, erase: chance, ..FaultPlan::default() };
        cases.push(Case { name, faults, geometry, wordline, config, meddles: false, is_far: false });
    }
    cases
}

// A drive must not lose what it reported as durable, nor return what was never written, nor change its mind.
#[test]
fn what_was_durable_is_there_after_any_cut() {
    for case in cases() {
        histories(&case, 0..20 * share(), history);
    }
}

// Evicted pages are newer than the root, and older than what was moved or written since: trusting one too
// much or too little loses units.
#[test]
fn translation_pages_that_were_evicted_are_found() {
    for case in cached_cases() {
        histories(&case, 0..8 * share(), history);
    }
}

// A dirty page in a frame that is given up must be in flash before the frame is reused: otherwise a cut
// between the two loses it.
#[test]
fn places_of_the_map_come_and_go_over_cuts() {
    for case in cached_cases() {
        histories(&case.lending(), 0..8 * share(), history);
    }
}

// A die without a free superblock leaves the one that it was filling, and the units moved there return. A
// translation page written in between has the location that was left, and the copy that replaces it may be
// older than the root.
#[test]
fn seed_40000_a_page_says_a_place_that_was_left() {
    let case = cached_cases().remove(2);
    history(&case, 40_000, &[521, 278, 163]);
}

// Failed, worn or refreshed units must be found again like all others: bad superblocks stay bad, and their
// remaining data are there.
#[test]
fn so_it_is_while_flash_fails_and_is_looked_after() {
    for case in upkeep_cases() {
        histories(&case, 0..30 * share(), history);
    }
}

// Units of several streams lie in stripes out of their order, in more open superblocks than one: recovery must
// find all of them, and a deallocation must end the older ones and no others.
#[test]
fn so_it_is_with_several_streams() {
    for name in ["sepbit", "anywhere", "hot-cold:8"] {
        for case in cases().into_iter().chain(upkeep_cases()) {
            histories(&case.in_streams(streams(name)), 0..6 * share(), history);
        }
    }
    for case in cached_cases() {
        histories(&case.in_streams(streams("sepbit")), 0..3 * share(), history);
    }
    for case in upkeep_cases().into_iter().map(Case::absorbing) {
        histories(&case.in_streams(streams("anywhere")).across(), 0..3 * share(), history);
    }
}

// A unit that waits in a stream that nothing fills is overtaken by later ones, which a root then has to name: they are newer than a
// deallocation after the one that waits.
#[test]
fn seed_19000_what_overtook_an_older_unit_is_newer_than_a_deallocation() {
    let case = cached_cases().remove(3).in_streams(streams("sepbit"));
    history(&case, 19_000, &[138, 1644, 1101, 448]);
}

// A failed superblock sends units back, and loses what it holds: the tree of extents must follow that, too.
#[test]
fn so_it_is_with_a_map_of_extents_while_flash_fails() {
    for case in upkeep_cases().into_iter().map(Case::in_extents) {
        histories(&case, 0..8 * share(), history);
    }
    for case in upkeep_cases().into_iter().map(Case::in_extents).map(Case::across) {
        histories(&case, 0..4 * share(), history);
    }
}

// Absorbed parts must stay intact when flash fails, or accepts nothing more, and a flush must then fail.
#[test]
fn so_it_is_where_parts_wait_while_flash_fails() {
    for case in cases().into_iter().chain(upkeep_cases()).map(Case::absorbing) {
        histories(&case, 0..10 * share(), history);
    }
    for case in upkeep_cases().into_iter().map(Case::absorbing) {
        let faults = FaultPlan { read: 0.05, ..case.faults.clone() };
        histories(&Case { faults, ..case }, 0..6 * share(), history);
    }
    for case in upkeep_cases().into_iter().map(Case::absorbing).map(Case::across) {
        histories(&case, 0..3 * share(), history);
    }
}

// Flash across a link survives the host's power cut, and operations in flight are done or not: everything
// reported as durable is there when both are back, and what failed stays out of use.
#[test]
fn so_it_is_across_a_link() {
    for case in cases().into_iter().chain(cached_cases()).map(Case::across) {
        histories(&case, 0..6 * share(), history);
    }
    for case in upkeep_cases().into_iter().map(Case::across) {
        histories(&case, 0..8 * share(), history);
    }
}

/// The host crashes again and again, after this many microseconds each; the drive with the flash stays on,
/// and completes its operations.
fn crashes(case: &Case, seed: u64, pauses: &[u64]) {
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let drive = case.raw(&clock, seed);
    let model = Rc::new(RefCell::new(Model::new(case)));
    for (turn, pause) in (0..).zip(pauses.iter().chain([&0])) {
        let what = format!("{}, seed {seed}, crashes {pauses:?}, turn {turn}", case.name);
        let ftl = case.attach(&executor, &drive);
        let (inner, model, clock, pause) = (ftl.clone(), model.clone(), clock.clone(), *pause);
        let stream = Rng::new(seed).stream(&format!("host-{turn}"));
        let ended = executor.run(async move {
            inner.ready().await;
            inner.check_extents();
            let found = found(&inner).await;
            model.borrow_mut().look(found, &what);
            if pause == 0 {
                let audit = inner.audit().await;
                assert_eq!(audit.findings, [], "{what}");
                return;
            }
            let host = clock.spawn("host", host(inner, model, stream, 1000));
            clock.sleep(Delay::from_us(pause)).await;
            clock.kill(host);
        });
        if let Err(stalled) = ended {
            panic!("{}, seed {seed}, crashes {pauses:?}, turn {turn}: {stalled}", case.name);
        }
        ftl.stop();
    }
}

// Commands on the link when the host crashed take effect, or not, after the next host might have looked: what
// it finds must stay so.
#[test]
fn what_was_durable_is_there_when_only_the_host_crashes() {
    for case in cases().into_iter().chain(cached_cases()).chain(upkeep_cases()).map(Case::across) {
        for seed in 0..4 * share() {
            let mut stream = Rng::new(seed).stream("pauses");
            let pauses: Vec<u64> =
                (0..5).map(|_| 1 + stream.below([300, 3000, 30_000][seed as usize % 3])).collect();
            crashes(&case, seed, &pauses);
        }
    }
}

// A test that finds nothing is meaningful only if it finds defects on purpose.
#[test]
fn a_broken_recovery_is_found() {
    find_defects(history, |case| case);
}

// Units sent back after a failure come behind newer ones, so the first unit of a wordline need not be its
// oldest: a flush once waited for a unit whose wordline no task completed.
#[test]
fn seed_1268_a_flush_sees_to_what_was_sent_back() {
    let case = upkeep_cases().into_iter().find(|case| case.name == "all, three stripes").unwrap();
    history(&case, 1_268_000, &[15, 284, 5681, 14, 8, 127]);
}

// A root that named unfinished stripes, but not those behind a failed one: units settled there, newer than a
// deallocation, were taken for older.
#[test]
fn seed_4921_what_came_behind_a_failure_is_newer_than_it() {
    let case = upkeep_cases().into_iter().find(|case| case.name == "all, three stripes").unwrap();
    history(&case, 4_921_000, &[118, 3593, 322, 2165, 370]);
}
