//! Power cuts at any poll: acknowledged data survive, and repairs are right.

use crate::levels::disks;
use crate::model::{Model, run_all};
use crate::ram::{Disk, RamMember, assemble, config, create};
use byteway_array::{Array, ArrayConfig, Defect, Level, SlotState};
use byteway_clock::random::Rng;
use byteway_clock::{Clock, Delay, Executor, RunOutcome, SpanId};
use byteway_defect::Planted;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

/// The failure in addition to the power cut.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ExtraFailure {
    None,
    /// A member is missing before the power cut.
    Degraded,
    /// A member fails together with the power.
    LostWithPower,
    /// A member is being rebuilt at the power cut.
    Rebuilding,
    /// A member is unplugged some time before the power cut.
    Unplugged,
}

struct Case {
    level: Level,
    members: usize,
    trouble: ExtraFailure,
    defect: Planted<Defect>,
    seed: u64,
}

fn run<T: 'static>(test: impl AsyncFnOnce(Clock) -> T + 'static) -> T {
    let executor = Executor::new();
    let clock = executor.clock().clone();
    executor.run(async move { test(clock).await }).unwrap_or_else(|stalled| panic!("{stalled}"))
}

async fn settled(clock: &Clock, array: &Array) {
    while array.state().regions_unsynced > 0 {
        clock.sleep(Delay::from_us(100)).await;
    }
}

/// Three lives with a power cut in each, at a random poll, also during assembly. Returns the number of lost
/// units.
fn survive(case: &Case) -> u64 {
    let Case { level, members, trouble, defect, seed } = *case;
    let config = move || ArrayConfig { defect, ..config(level) };
    let mut disks = disks(members);
    let units = {
        let disks = disks.clone();
        run(async move |clock| create(&clock, config(), &disks).await.user_units())
    };
    let model = Model::new(units);
    let mut chance = Rng::new(seed).stream("cuts");
    let (mut lost, mut was_degraded) = (0, false);
    let spare = Disk::new(500);
    let victim = chance.below(members as u64) as usize;
    for life in 0..3 {
        let polls = chance.range(50..=6_000);
        let executor = Executor::new();
        let clock = executor.clock().clone();
        let (here, model_here, spare_here) = (disks.clone(), model.clone(), spare.clone());
        let unplugged_at = Delay::from_us(chance.range(1..=2_000));
        let ran = executor.run_cut(
            async move {
                let array = assemble(&clock, config(), &here, seed + life).await.expect("it is assembled");
                match trouble {
                    ExtraFailure::Degraded => array.remove(victim).await,
                    ExtraFailure::Rebuilding if life == 0 => {
                        array.remove(victim).await;
                        array.add_spare(RamMember::new(&clock, &spare_here, seed, 77)).await.expect("a slot");
                    }
                    ExtraFailure::Unplugged => {
                        let timer = clock.clone();
                        clock.spawn("unplugs", async move {
                            timer.sleep(unplugged_at).await;
                            here[victim].is_gone.set(true);
                        });
                    }
                    _ => {}
                }
                run_all(&clock, &array, &model_here, seed * 10 + life, 100_000).await;
            },
            polls,
        );
        assert!(matches!(ran, Ok(RunOutcome::Cut)), "{ran:?}");
        drop(executor);
        if trouble == ExtraFailure::Rebuilding && life == 0 {
            disks.push(spare.clone());
        }
        // The unplugged member is back, with its old contents.
        disks[victim].is_gone.set(false);
        disks.iter().for_each(|disk| disk.cut(&mut chance));
        model.cut();
        if trouble == ExtraFailure::LostWithPower && life == 2 {
            disks[victim].is_gone.set(true);
            model.may_lose.set(true);
        }
        // From the second life on the member may be unplugged during the repair after the cut.
        if trouble == ExtraFailure::Unplugged {
            model.may_lose.set(true);
        }
        let (here, model_here) = (disks.clone(), model.clone());
        let found = run(async move |clock| {
            let array = assemble(&clock, config(), &here, seed).await.expect("it is assembled");
            let context = format!("seed {seed}, life {life}");
            model_here.read_all(&array, &context).await;
            settled(&clock, &array).await;
            model_here.read_all(&array, &format!("{context}, repaired")).await;
            if life == 2 {
                while array.state().slots.iter().any(|(slot, _)| matches!(slot, SlotState::Rebuilding { .. }))
                {
                    clock.sleep(Delay::from_us(100)).await;
                }
                array.shutdown(SpanId::NONE).await.expect("it is whole");
            }
            (array.state().lost_units, array.state().is_degraded())
        });
        let (found, is_degraded) = found;
        was_degraded = is_degraded;
        let may_lose = match trouble {
            ExtraFailure::LostWithPower => life == 2,
            ExtraFailure::Unplugged => life > 0,
            _ => false,
        };
        assert!(found == 0 || may_lose, "seed {seed}, life {life}: units are lost");
        lost += found;
    }
    // After the repair any member may be removed: the data of the others must be the same.
    for missing in 0..if was_degraded { 0 } else { disks.len() } {
        let copies: Vec<Rc<Disk>> = disks.iter().map(|disk| copy(disk)).collect();
        copies[missing].is_gone.set(true);
        let model = model.clone();
        run(async move |clock| {
            let array = assemble(&clock, config(), &copies, seed).await.expect("one may be missing");
            model.read_all(&array, &format!("seed {seed}, without member {missing}")).await;
        });
    }
    lost
}

fn copy(disk: &Disk) -> Rc<Disk> {
    let copy = Disk::new(disk.units);
    (0..disk.units).for_each(|unit| copy.put(unit, disk.peek(unit)));
    copy.is_gone.set(disk.is_gone.get());
    copy
}

const REDUNDANT: [(Level, usize); 4] =
    [(Level::Raid5, 4), (Level::Raid1, 2), (Level::Raid5, 3), (Level::Raid10, 4)];

fn survive_all(trouble: ExtraFailure, seeds: u64) -> u64 {
    let case = |seed: u64| {
        let (level, members) = REDUNDANT[seed as usize % REDUNDANT.len()];
        survive(&Case { level, members, trouble, defect: Planted::none(), seed })
    };
    (0..seeds).map(case).sum()
}

// The write hole: a cut in the middle of a stripe leaves parity that yields garbage for a member that fails
// later.
#[test]
fn a_cut_in_mid_stripe_is_found_and_repaired() {
    survive_all(ExtraFailure::None, 60);
}

// The write hole that no repair closes: the missing chunk is defined by the others, some of which are new.
#[test]
fn a_cut_of_a_degraded_array_loses_nothing() {
    survive_all(ExtraFailure::Degraded, 60);
}

// A failure during I/O must be recorded by the others before a write without the member is acknowledged: it
// is back after the cut, with old data.
#[test]
fn a_member_that_was_unplugged_before_the_cut_is_not_trusted() {
    survive_all(ExtraFailure::Unplugged, 60);
}

// The recorded progress of a rebuild must never exceed what is on the new member.
#[test]
fn a_rebuild_goes_on_after_a_cut() {
    survive_all(ExtraFailure::Rebuilding, 60);
}

// Assembly once started to rebuild before replaying the journal: the new member was computed from a torn
// stripe.
#[test]
fn nothing_is_rebuilt_from_a_stripe_that_the_journal_mends() {
    let trouble = ExtraFailure::Rebuilding;
    survive(&Case { level: Level::Raid5, members: 3, trouble, defect: Planted::none(), seed: 102 });
}

// A member that fails together with the power takes the units with it whose parity cannot be trusted: only
// those must become unreadable.
#[test]
fn what_fails_with_the_power_is_lost_and_told() {
    assert!(survive_all(ExtraFailure::LostWithPower, 60) > 0);
}

/// Whether some seed detects that a part of the array is left out.
fn is_found(defect: Defect, trouble: ExtraFailure) -> bool {
    (0..60).any(|seed| {
        let case = Case { level: Level::Raid5, members: 4, trouble, defect: defect.into(), seed };
        catch_unwind(AssertUnwindSafe(|| survive(&case))).is_err()
    })
}

// A test that always passes proves nothing: without each of the three mechanisms it must fail.
#[test]
fn defects_on_purpose_are_found() {
    assert!(is_found(Defect::NoIntentLog, ExtraFailure::None), "no write-intent log");
    assert!(is_found(Defect::NoJournal, ExtraFailure::Degraded), "no journal");
    assert!(is_found(Defect::NoLostMarks, ExtraFailure::LostWithPower), "no marks of lost units");
}
