//! More members fail than the level tolerates: a defined state, never garbage.

use crate::levels::disks;
use crate::model::{Model, run_all};
use crate::ram::{assemble, config, create};
use byteway_array::{ArrayError, Level};
use byteway_clock::random::Rng;
use byteway_clock::{Delay, Executor, SpanId};
use byteway_content::Content;
use byteway_firmware::MediaError;

// After a second failure reads of lost data must fail, and all writes: an acknowledged write that is lost, or
// made-up data, is worse than an error. And nothing may be written that keeps the drives from forming an
// array again when they are back.
#[test]
fn a_second_failure_is_told_and_a_power_cycle_brings_all_back() {
    for seed in 0..30 {
        let levels = [(Level::Raid0, 3), (Level::Raid1, 2), (Level::Raid5, 4), (Level::Raid10, 4)];
        let (level, count) = levels[seed as usize % levels.len()];
        let disks = disks(count);
        let model = Model::new({
            let executor = Executor::new();
            let (clock, disks) = (executor.clock().clone(), disks.clone());
            executor
                .run(async move {
                    let array = create(&clock, config(level), &disks).await;
                    let units = array.user_units();
                    array.shutdown(SpanId::NONE).await.unwrap();
                    units
                })
                .unwrap()
        });
        let mut chance = Rng::new(seed).stream("double failure");
        let first = chance.below(count as u64) as usize;
        let second = match level {
            Level::Raid0 => first,
            Level::Raid10 => first ^ 1,
            _ => (first + 1 + chance.below(count as u64 - 1) as usize) % count,
        };
        let (at, between) = (chance.range(100..=1_500), chance.range(0..=800));
        let executor = Executor::new();
        let (clock, model_here, disks_here) = (executor.clock().clone(), model.clone(), disks.clone());
        executor
            .run(async move {
                let array = assemble(&clock, config(level), &disks_here, seed).await.unwrap();
                let (timer, victims) = (clock.clone(), disks_here.clone());
                model_here.may_fail.set(true);
                model_here.may_lose.set(true);
                clock.spawn("unplugs", async move {
                    timer.sleep(Delay::from_us(at)).await;
                    victims[first].is_gone.set(true);
                    timer.sleep(Delay::from_us(between)).await;
                    victims[second].is_gone.set(true);
                });
                run_all(&clock, &array, &model_here, seed, 120).await;
                let state = array.state();
                assert!(state.is_broken && array.health().is_read_only, "seed {seed}");
                let mut contents = vec![Content::Zero];
                let written = array.write(SpanId::NONE, 0, &mut contents, false).await;
                assert_eq!(written, Err(MediaError::Failed));
                assert_eq!(array.trim(SpanId::NONE, 0, 1).await, Err(MediaError::Failed));
                assert_eq!(array.flush(SpanId::NONE).await, Err(MediaError::Failed));
                model_here.read_all(&array, &format!("seed {seed}, two have failed")).await;
                assert!(model_here.unreadable.get() > 0 && model_here.failed.get() > 0);
                assert_eq!(array.ranges_locked(), 0);
                let all_back = disks_here.iter().filter(|disk| disk.is_gone.get()).count();
                array.stop();
                // With both still missing there is no array.
                let missing = assemble(&clock, config(level), &disks_here, seed).await;
                let told = ArrayError::Incomplete { missing: all_back, members: count };
                match level {
                    Level::Raid1 => assert_eq!(missing.err(), Some(ArrayError::NoMembers)),
                    _ => assert_eq!(missing.err(), Some(told)),
                }
            })
            .unwrap_or_else(|stalled| panic!("seed {seed}: {stalled}"));
        drop(executor);
        // A power cycle brings the drives back.
        disks.iter().for_each(|disk| {
            disk.is_gone.set(false);
            disk.cut(&mut chance);
        });
        model.cut();
        model.may_fail.set(false);
        model.may_lose.set(false);
        let executor = Executor::new();
        let clock = executor.clock().clone();
        executor
            .run(async move {
                let array = assemble(&clock, config(level), &disks, seed).await.unwrap();
                model.read_all(&array, &format!("seed {seed}, all back")).await;
                run_all(&clock, &array, &model, seed + 7, 20).await;
            })
            .unwrap();
    }
}
