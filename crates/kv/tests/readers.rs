//! Slow readers, whose segments are collected, given up and reused meanwhile.

use crate::fixture::{Case, NOBODY, key, spans, value};
use byteway_clock::Executor;
use byteway_clock::random::{Rng, Stream};
use byteway_kv::{Key, Kv, KvError, Origin, StoreMode};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Keys that never change lie between those that change constantly.
const FIXED: u64 = 40;

async fn put(kv: &Kv, number: u64, version: u32, bytes: usize) -> Result<(), KvError> {
    let key = key(number);
    let value = value(&key, version, bytes);
    kv.store(NOBODY, &spans(), key, &value, Origin::Memory, StoreMode::Any).await
}

async fn churn(kv: &Kv, stream: &mut Stream, version: u32, seldom: u64) {
    // Some change constantly, some rarely.
    let number = FIXED + if stream.chance(0.7) { stream.below(60) } else { 60 + stream.below(seldom) };
    match put(kv, number, version, 300 + stream.below(1500) as usize).await {
        Ok(()) | Err(KvError::CapacityExceeded) => {}
        Err(error) => panic!("{error}"),
    }
}

async fn load(kv: &Kv, stream: &mut Stream, seldom: u64) -> BTreeMap<Key, Vec<u8>> {
    let mut model = BTreeMap::new();
    for number in 0..FIXED {
        put(kv, number, 0, 1000).await.unwrap();
        model.insert(key(number), value(&key(number), 0, 1000));
        for part in 0..seldom / FIXED {
            put(kv, FIXED + 60 + part * FIXED + number, 0, 900).await.unwrap();
            churn(kv, stream, 0, seldom).await;
        }
    }
    model
}

// A Retrieve with a pin older than its look-up does not protect the value's segment: it is reused during the read,
// which returns bytes of another value.
#[test]
fn a_retrieve_gives_its_own_value() {
    for seed in 0..3 {
        let mut case = Case::small("readers", true);
        case.index_cycles = 3_000_000;
        let executor = Executor::new();
        let (_, kv) = case.power_on(executor.clock(), case.medium());
        let inner = kv.clone();
        executor
            .run(async move {
                let mut stream = Rng::new(seed).stream("load");
                let model = load(&inner, &mut stream, 240).await;
                let clock = inner.clock().clone();
                let done = Rc::new(Cell::new(0));
                for worker in 0..12u64 {
                    let (kv, done, model) = (inner.clone(), done.clone(), model.clone());
                    clock.spawn("worker", async move {
                        let mut stream = Rng::new(seed * 100 + worker).stream("worker");
                        let mut bytes = Vec::new();
                        for step in 0..400 {
                            if worker % 2 == 0 {
                                churn(&kv, &mut stream, step, 240).await;
                                continue;
                            }
                            let key = key(stream.below(FIXED));
                            bytes.clear();
                            // A part of the value, which no checksum protects.
                            let found = kv.retrieve(NOBODY, &spans(), key, 1, 900, &mut bytes).await;
                            assert_eq!(found, Ok(1000), "seed {seed}, {worker} {step}");
                            assert!(bytes == model[&key][1..901], "seed {seed}, {worker} {step}");
                        }
                        done.set(done.get() + 1);
                    });
                }
                while done.get() < 12 {
                    clock.sleep(byteway_clock::Delay::from_ms(1)).await;
                }
            })
            .unwrap();
        assert!(kv.counters().collections > 20, "{:?}", kv.counters());
    }
}

/// Loads pairs, creates a cursor, and changes others for a while; `false` if the cursor does not return the original
/// pairs.
fn sees_what_was_moved(seed: u64) -> bool {
    let mut case = Case::tiny("moved", true);
    case.kv.memtable_bytes = [3_000, 12_000, 60_000][seed as usize % 3];
    let executor = Executor::new();
    let (_, kv) = case.power_on(executor.clock(), case.medium());
    let inner = kv.clone();
    let sees = executor.run(async move {
        let kv = inner;
        let mut stream = Rng::new(seed).stream("load");
        let mut left = load(&kv, &mut stream, 1200).await;
        for version in 0..stream.below(2500) as u32 {
            churn(&kv, &mut stream, version, 1200).await;
        }
        let mut cursor = kv.seek(None);
        for version in 0..5000 {
            churn(&kv, &mut stream, version, 1200).await;
        }
        let mut bytes = Vec::new();
        while let Some(key) = cursor.next(NOBODY, &spans(), &mut bytes).await? {
            if left.remove(&key).is_some_and(|value| value != bytes) {
                return Ok(false);
            }
        }
        Ok::<bool, KvError>(left.is_empty())
    });
    assert!(kv.counters().values_moved > 60, "{:?}", kv.counters());
    sees.unwrap() == Ok(true)
}

// Values that a cursor sees are moved into a segment younger than the cursor, and moved again: that segment must not be
// reused while the cursor exists.
#[test]
fn a_cursor_finds_what_was_moved_twice() {
    for seed in 0..9 {
        assert!(sees_what_was_moved(seed), "seed {seed}");
    }
}

// If a host never closes a cursor, the drive may refuse stores without free space, but must not fail otherwise; after
// the cursor is closed it must be as good as before.
#[test]
fn a_cursor_that_stays_costs_room_and_nothing_else() {
    for (seed, plp) in [(1, true), (2, false), (3, true), (4, false)] {
        let mut case = if seed < 3 { Case::small("stays", plp) } else { Case::tiny("stays", plp) };
        case.kv.memtable_bytes = 2000;
        let executor = Executor::new();
        let (_, kv) = case.power_on(executor.clock(), case.medium());
        executor
            .run(async move {
                let spans = spans();
                let mut stream = Rng::new(seed).stream("load");
                let mut model = load(&kv, &mut stream, 80).await;
                for round in 0..3 {
                    let cursor = kv.seek(None);
                    let mut refused = 0;
                    for step in 0..3000u32 {
                        let number = FIXED + 140 + stream.below(200);
                        let bytes = 20 + stream.below(3000) as usize;
                        let key = key(number);
                        if stream.chance(0.3) {
                            let expected = model.remove(&key).map(|_| ()).ok_or(KvError::NotFound);
                            let deleted = kv.delete(NOBODY, &spans, key).await;
                            if deleted == Err(KvError::CapacityExceeded) {
                                refused += 1;
                                if expected.is_ok() {
                                    let mut bytes = Vec::new();
                                    kv.retrieve(NOBODY, &spans, key, 0, u32::MAX, &mut bytes).await.unwrap();
                                    model.insert(key, bytes);
                                }
                            } else {
                                assert_eq!(deleted, expected, "seed {seed}, round {round}, step {step}");
                            }
                            continue;
                        }
                        match put(&kv, number, step, bytes).await {
                            Ok(()) => _ = model.insert(key, value(&key, step, bytes)),
                            Err(error) => {
                                assert_eq!(error, KvError::CapacityExceeded, "seed {seed}, {round}, {step}");
                                refused += 1;
                            }
                        }
                    }
                    assert!(refused > 0 || seed > 2, "seed {seed}: nothing was refused for lack of space");
                    drop(cursor);
                }
                kv.check().await.unwrap();
                for (key, value) in &model {
                    let mut bytes = Vec::new();
                    let found = kv.retrieve(NOBODY, &spans, *key, 0, u32::MAX, &mut bytes).await;
                    assert_eq!(found, Ok(value.len() as u32), "seed {seed}: {key:?}");
                    assert!(bytes == *value, "seed {seed}: {key:?}");
                }
                for key in model.keys() {
                    assert_eq!(kv.delete(NOBODY, &spans, *key).await, Ok(()), "seed {seed}");
                }
                put(&kv, 1, 1, 9000).await.unwrap();
            })
            .unwrap();
    }
}
