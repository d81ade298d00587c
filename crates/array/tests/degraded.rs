//! Members that fail during I/O, spares that are rebuilt under load, unreadable units.

use crate::levels::disks;
use crate::model::{Model, run_all};
use crate::ram::{Disk, RamMember, config, create, same, stamp};
use byteway_array::{Array, ArrayConfig, ArrayError, Level, RebuildConfig, SlotState};
use byteway_clock::random::Rng;
use byteway_clock::{Clock, Delay, Executor, SpanId};
use byteway_content::Content;
use byteway_firmware::MediaError;
use std::cell::Cell;
use std::rc::Rc;

fn run<T: 'static>(test: impl AsyncFnOnce(Clock) -> T + 'static) -> T {
    let executor = Executor::new();
    let clock = executor.clock().clone();
    executor.run(async move { test(clock).await }).unwrap_or_else(|stalled| panic!("{stalled}"))
}

async fn until_rebuilt(clock: &Clock, array: &Array) {
    while array.state().is_degraded() {
        assert!(!array.state().is_broken, "it fails while it is rebuilt");
        clock.sleep(Delay::from_us(100)).await;
    }
}

/// Each member in turn is missing: reads then use the others.
async fn check_without_each(clock: &Clock, array: &Array, model: &Rc<Model>, count: usize, seed: u64) {
    for slot in 0..count {
        array.remove(slot).await;
        model.read_all(array, &format!("seed {seed}, without member {slot}")).await;
        let spare = Disk::new(500);
        let member = RamMember::new(clock, &spare, seed, 50 + slot);
        assert_eq!(array.add_spare(member).await, Ok(slot));
        until_rebuilt(clock, array).await;
    }
    model.read_all(array, &format!("seed {seed}, all rebuilt")).await;
}

// An array that stops, or returns other data, when a drive is pulled is worth less than one drive. The drive
// goes at a random time, in the middle of whatever is in flight; a spare is rebuilt while I/O continues.
#[test]
fn a_member_that_is_unplugged_is_served_through_and_rebuilt_under_load() {
    let levels = [(Level::Raid1, 2), (Level::Raid5, 3), (Level::Raid5, 5), (Level::Raid10, 4)];
    for seed in 0..40 {
        let (level, count) = levels[seed as usize % levels.len()];
        run(async move |clock| {
            let disks = disks(count);
            let rebuild = RebuildConfig { idle_rate: 0, busy_rate: 200_000 };
            let array = create(&clock, ArrayConfig { rebuild, ..config(level) }, &disks).await;
            let model = Model::new(array.user_units());
            let mut chance = Rng::new(seed).stream("unplugging");
            let victim = disks[chance.below(count as u64) as usize].clone();
            let at = Delay::from_us(chance.range(10..=4_000));
            let spare = Disk::new(500);
            let member = RamMember::new(&clock, &spare, seed, 99);
            let (timer, other, added) = (clock.clone(), array.clone(), Rc::new(Cell::new(false)));
            let is_added = added.clone();
            clock.spawn("unplugs", async move {
                timer.sleep(at).await;
                victim.is_gone.set(true);
                while !other.state().is_degraded() {
                    timer.sleep(Delay::from_us(10)).await;
                }
                timer.sleep(Delay::from_us(500)).await;
                other.add_spare(member).await.expect("it takes the slot");
                is_added.set(true);
            });
            run_all(&clock, &array, &model, seed, 120).await;
            while !added.get() {
                run_all(&clock, &array, &model, seed + 1000, 20).await;
            }
            until_rebuilt(&clock, &array).await;
            model.read_all(&array, &format!("seed {seed}, rebuilt")).await;
            assert!(array.counters().of(byteway_array::Cause::Rebuild).units_written > 0);
            assert_eq!((array.ranges_locked(), array.state().lost_units), (0, 0));
            check_without_each(&clock, &array, &model, count, seed).await;
        });
    }
}

// A member that is replaced while the flush of its rebuild is under way: its successor was taken for rebuilt, with none of its data; or the
// flush, whose lane had ended, was waited for indefinitely, and nothing was ever rebuilt again.
#[test]
fn a_member_that_is_replaced_in_its_last_flush_leaves_its_successor_to_be_rebuilt() {
    for (level, count) in [(Level::Raid1, 2), (Level::Raid5, 3)] {
        run(async move |clock| {
            let disks = disks(count);
            let array = create(&clock, config(level), &disks).await;
            let model = Model::new(array.user_units());
            for first in (0..array.user_units()).step_by(12) {
                let units = 12.min(array.user_units() - first);
                model.write(&array, first, units, false).await.unwrap();
            }
            let add = async |disk: &Rc<Disk>, number| {
                array.remove(1).await;
                assert_eq!(array.add_spare(RamMember::new(&clock, disk, 1, number)).await, Ok(1));
            };
            let (replaced, successor) = (Disk::new(500), Disk::new(500));
            replaced.holds_flushes.set(true);
            add(&replaced, 8).await;
            let all = |array: &Array| array.state().rebuild.is_some_and(|it| it.done == it.stripes);
            while !all(&array) {
                clock.sleep(Delay::from_us(10)).await;
            }
            clock.sleep(Delay::from_ms(1)).await;
            assert!(array.state().is_degraded(), "it waits for the flush");
            add(&successor, 9).await;
            assert!(matches!(array.state().slots[1].0, SlotState::Rebuilding { .. }), "{:?}", array.state());
            replaced.holds_flushes.set(false);
            let begun = clock.now();
            while array.state().is_degraded() && clock.now().since(begun) < Delay::from_ms(500) {
                clock.sleep(Delay::from_us(100)).await;
            }
            assert!(!array.state().is_degraded() && all(&array), "{:?}", array.state());
            // The others are gone in turn: the successor has what they had.
            array.remove(0).await;
            model.read_all(&array, "with the successor").await;
        });
    }
}

// The rate limit preserves hosts' latency during a rebuild; without it a rebuild takes all that members give.
#[test]
fn a_rebuild_keeps_to_its_rate() {
    run(async |clock| {
        let disks = disks(3);
        let rebuild = RebuildConfig { idle_rate: 100_000, busy_rate: 1_000 };
        let array = create(&clock, ArrayConfig { rebuild, ..config(Level::Raid5) }, &disks).await;
        array.remove(1).await;
        let spare = Disk::new(500);
        assert_eq!(array.state().rebuild, None);
        let begun = clock.now();
        array.add_spare(RamMember::new(&clock, &spare, 1, 9)).await.unwrap();
        clock.sleep(Delay::from_ms(1)).await;
        // The progress predicts the end: a user waits, or takes another drive.
        let progress = array.state().rebuild.unwrap();
        assert!(progress.done > 0 && progress.done < progress.stripes, "{progress:?}");
        assert_eq!((progress.slot, progress.before, progress.ended), (1, 0, None));
        let expected = progress.expected_end(clock.now()).unwrap();
        until_rebuilt(&clock, &array).await;
        let progress = array.state().rebuild.unwrap();
        assert_eq!((progress.done, progress.expected_end(clock.now())), (progress.stripes, None));
        let ended = progress.ended.unwrap();
        let (whole, off) = (ended.since(progress.began).0, ended.since(expected).0 + expected.since(ended).0);
        assert!(
            off < whole / 4,
            "expected at {expected:?}, ended at {ended:?}, begun at {:?}",
            progress.began
        );
        let taken = clock.now().since(begun);
        let least = Delay::from_us(array.user_units() / 2 * 10); // 10 us a unit of the member
        assert!(taken > least && taken < least * 4, "{taken:?}, at least {least:?}");
    });
}

// Redundancy must serve a unit that a drive cannot read; if it is not written back, the next failure loses
// it.
#[test]
fn a_unit_that_cannot_be_read_is_computed_and_written_back() {
    for (level, count) in [(Level::Raid1, 2), (Level::Raid5, 4), (Level::Raid10, 4)] {
        run(async move |clock| {
            let disks = disks(count);
            let array = create(&clock, config(level), &disks).await;
            let model = Model::new(array.user_units());
            for first in (0..48).step_by(12) {
                model.write(&array, first, 12, false).await.unwrap();
            }
            for (slot, disk) in disks.iter().enumerate() {
                disk.unreadable.borrow_mut().insert(2 + 4 * slot as u64);
                for _ in 0..4 {
                    model.read(&array, 0, 48, "a unit can't be read").await; // of copies only one is read at a time
                }
                model.write(&array, 4 * slot as u64 + 1, 1, false).await.unwrap();
                model.read(&array, 0, 48, "after a write").await;
            }
            let state = array.state();
            assert!(!state.is_degraded() && state.lost_units == 0, "a member with a bad unit stays");
            assert!(array.counters().units_written_back > 0);
        });
    }
}

// Two unreadable units of a stripe are lost. The rest must not be, a rebuild must not stop at them, and
// nothing computed over one of them may be returned as data.
#[test]
fn two_units_of_a_stripe_that_cannot_be_read_are_lost_and_nothing_else() {
    run(async |clock| {
        let disks = disks(4);
        let array = create(&clock, config(Level::Raid5), &disks).await;
        let model = Model::new(array.user_units());
        for first in (0..60).step_by(12) {
            model.write(&array, first, 12, false).await.unwrap();
        }
        // Stripe 0: data on 0, 1, 2, parity on 3. Slot 1 is replaced; units 1 of slots 0 and 3 are
        // unreadable.
        disks[0].unreadable.borrow_mut().insert(1);
        array.remove(1).await;
        let mut read = Vec::new();
        array.read(SpanId::NONE, 0, 12, &mut read).await.unwrap();
        let marred: Vec<usize> = (0..12).filter(|unit| read[*unit].marred() != 0).collect();
        assert_eq!(marred, [1, 5], "the one that can't be read, and the one that it is needed for");
        array.add_spare(RamMember::new(&clock, &Disk::new(500), 1, 9)).await.unwrap();
        until_rebuilt(&clock, &array).await;
        assert_eq!(array.state().lost_units, 2);
        for slot in [0, 2, 3] {
            let mut read = Vec::new();
            array.read(SpanId::NONE, 0, 60, &mut read).await.unwrap();
            let marred: Vec<usize> = (0..60).filter(|unit| read[*unit].marred() != 0).collect();
            assert_eq!(marred, [1, 5]);
            (0..60).filter(|unit| !marred.contains(unit)).for_each(|unit| {
                assert!(same(&read[unit], &stamp(unit as u64, unit as u32 / 12 + 1)), "{unit}");
            });
            array.remove(slot).await;
            array.add_spare(RamMember::new(&clock, &Disk::new(500), 1, 10 + slot)).await.unwrap();
            until_rebuilt(&clock, &array).await;
        }
        // Part of a lost unit cannot be written; the whole unit can, and is then readable.
        let part = array.edit(SpanId::NONE, 5, |bytes, _| bytes[0] = 1, false).await;
        assert_eq!(part, Err(MediaError::Unreadable));
        model.write(&array, 0, 2, false).await.unwrap();
        model.write(&array, 5, 1, true).await.unwrap();
        assert_eq!(array.state().lost_units, 0);
        model.read(&array, 0, 60, "written again").await;
        array.remove(1).await;
        model.read(&array, 0, 60, "and computed").await;
    });
}

// Spares that are too small, or without a slot, must be refused while the array stays in service.
#[test]
fn a_spare_that_does_not_fit_is_refused() {
    run(async |clock| {
        let disks = disks(3);
        let array = create(&clock, config(Level::Raid5), &disks).await;
        let spare = |units| RamMember::new(&clock, &Disk::new(units), 1, 9);
        assert_eq!(array.add_spare(spare(500)).await, Err(ArrayError::NoSlot));
        array.remove(2).await;
        let capacity = ArrayError::Capacity { member: 2, units: 499, first: 500 };
        assert_eq!(array.add_spare(spare(499)).await, Err(capacity));
        let gone = Disk::new(500);
        gone.is_gone.set(true);
        let gone = array.add_spare(RamMember::new(&clock, &gone, 1, 9)).await;
        assert!(matches!(gone, Err(ArrayError::Gone { member: 2, .. })), "{gone:?}");
        assert_eq!(array.state().slots[2].0, SlotState::Failed);
        let mut contents = vec![Content::Zero];
        array.write(SpanId::NONE, 0, &mut contents, false).await.unwrap();
        assert_eq!(array.add_spare(spare(500)).await, Ok(2));
    });
}

// Concurrent Compare and Write commands of two hosts on one unit must be atomic.
#[test]
fn an_exchange_has_its_unit_to_itself() {
    run(async |clock| {
        let disks = disks(3);
        let array = create(&clock, config(Level::Raid5), &disks).await;
        for _ in 0..8 {
            let array = array.clone();
            clock.spawn("adds one", async move {
                let exchange = array.exchange(SpanId::NONE, 7).await.unwrap();
                let mut contents = Vec::new();
                exchange.read(SpanId::NONE, &mut contents).await;
                let version = match &contents[0] {
                    Content::Stamp(stamp) => stamp.version,
                    _ => 0,
                };
                contents[0] = stamp(7, version + 1);
                exchange.write(SpanId::NONE, &mut contents, false).await.unwrap();
            });
        }
        clock.sleep(Delay::from_ms(5)).await;
        let mut read = Vec::new();
        array.read(SpanId::NONE, 7, 1, &mut read).await.unwrap();
        assert_eq!(read[0], stamp(7, 8));
    });
}
