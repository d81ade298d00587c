//! Random operations against a `BTreeMap`, without power cuts.

use crate::fixture::{Case, NOBODY, key, length, spans, value};
use byteway_clock::Executor;
use byteway_clock::random::Rng;
use byteway_kv::{Key, Kv, KvError, Origin, Packing, StoreMode};
use std::collections::BTreeMap;

type Model = BTreeMap<Key, Vec<u8>>;

async fn compare(kv: &Kv, model: &Model, what: &str) {
    let spans = spans();
    kv.check().await.unwrap_or_else(|error| panic!("{what}: {error}"));
    let mut cursor = kv.seek(None);
    let mut bytes = Vec::new();
    for (key, value) in model {
        let found = cursor.next(NOBODY, &spans, &mut bytes).await.unwrap();
        assert_eq!(found, Some(*key), "{what}");
        assert!(bytes == *value, "{what}: {key:?} has {} bytes, should have {}", bytes.len(), value.len());
    }
    assert_eq!(cursor.next(NOBODY, &spans, &mut bytes).await, Ok(None), "{what}");
}

async fn one(kv: &Kv, model: &mut Model, stream: &mut byteway_clock::random::Stream, keys: u64, step: u32) {
    let spans = spans();
    let key = key(stream.below(keys));
    match stream.below(20) {
        0..10 => {
            let bytes = value(&key, step, length(stream));
            let origin = if stream.chance(0.5) { Origin::Memory } else { Origin::Dma };
            let mode = match stream.below(6) {
                0 => StoreMode::MustExist,
                1 => StoreMode::MustNotExist,
                _ => StoreMode::Any,
            };
            let expected = match (mode, model.contains_key(&key)) {
                (StoreMode::MustExist, false) => Err(KvError::NotFound),
                (StoreMode::MustNotExist, true) => Err(KvError::Exists),
                _ => Ok(()),
            };
            let stored = kv.store(NOBODY, &spans, key, &bytes, origin, mode).await;
            assert_eq!(stored, expected, "step {step}");
            if stored.is_ok() {
                model.insert(key, bytes);
            }
        }
        10..13 => {
            let expected = model.remove(&key).map(|_| ()).ok_or(KvError::NotFound);
            assert_eq!(kv.delete(NOBODY, &spans, key).await, expected, "step {step}");
        }
        13 => assert_eq!(kv.exist(NOBODY, &spans, key).await, Ok(model.contains_key(&key))),
        14 => {
            let mut keys = Vec::new();
            let room = stream.below(300) as usize;
            kv.list(NOBODY, &spans, key, room, &mut keys).await.unwrap();
            let mut left = room;
            let fits = |key: &&Key| {
                let bytes = (2 + key.len()).next_multiple_of(4);
                let fits = bytes <= left;
                left = left.saturating_sub(bytes);
                fits
            };
            let expected: Vec<Key> =
                model.range(key..).map(|(key, _)| key).take_while(fits).copied().collect();
            assert_eq!(keys, expected, "step {step}");
        }
        15 if stream.chance(0.2) => kv.flush(NOBODY, &spans).await.unwrap(),
        _ => {
            let mut bytes = Vec::new();
            let (offset, most) = match stream.below(3) {
                0 => (stream.below(6000) as u32, stream.below(6000) as u32),
                _ => (0, u32::MAX),
            };
            let found = kv.retrieve(NOBODY, &spans, key, offset, most, &mut bytes).await;
            let Some(value) = model.get(&key) else {
                assert_eq!(found, Err(KvError::NotFound), "step {step}");
                return;
            };
            assert_eq!(found, Ok(value.len() as u32), "step {step}");
            let from = (offset as usize).min(value.len());
            let end = from.saturating_add(most as usize).min(value.len());
            assert!(bytes == value[from..end], "step {step}: {key:?}");
        }
    }
}

// A store that loses, mixes up or resurrects pairs, or lists them out of order, during merges and garbage collection.
#[test]
fn it_is_a_map() {
    for (packing, plp) in [
        (Packing::All, false),
        (Packing::None, true),
        (Packing::Selective, false),
        (Packing::Backfill, true),
        (Packing::Backfill, false),
    ] {
        for seed in 0..2 {
            let mut case = Case::tiny("map", plp);
            case.kv.packing = packing;
            let executor = Executor::new();
            let (_, kv) = case.power_on(executor.clock(), case.medium());
            let inner = kv.clone();
            executor
                .run(async move {
                    let mut model = Model::new();
                    let mut stream = Rng::new(seed).stream("operations");
                    for step in 0..9000 {
                        one(&inner, &mut model, &mut stream, 500, step).await;
                        if step % 3000 == 0 {
                            compare(&inner, &model, &format!("{packing:?}, seed {seed}, step {step}")).await;
                        }
                    }
                    compare(&inner, &model, &format!("{packing:?}, seed {seed}")).await;
                })
                .unwrap();
            let counters = kv.counters();
            assert!(counters.compactions > 10 && counters.collections > 10, "{counters:?}");
            assert!(counters.values_moved > 10, "{counters:?}");
        }
    }
}

// A cursor that changes under its reader would repeat keys, or return values of other times.
#[test]
fn a_cursor_sees_what_was_there() {
    for seed in 0..6 {
        let case = Case::tiny("cursor", seed % 2 == 0);
        let executor = Executor::new();
        let (_, kv) = case.power_on(executor.clock(), case.medium());
        executor
            .run(async move {
                let spans = spans();
                let mut model = Model::new();
                let mut stream = Rng::new(seed).stream("operations");
                let mut bytes = Vec::new();
                let mut step = 0;
                for _ in 0..8 {
                    for _ in 0..100 {
                        one(&kv, &mut model, &mut stream, 60, step).await;
                        step += 1;
                    }
                    let from = key(stream.below(60));
                    let then = model.clone();
                    let mut cursor = kv.seek(Some(from));
                    let mut expected = then.range(from..);
                    loop {
                        let found = cursor.next(NOBODY, &spans, &mut bytes).await.unwrap();
                        let next = expected.next();
                        assert_eq!(found.as_ref(), next.map(|(key, _)| key), "seed {seed}");
                        let Some((_, value)) = next else { break };
                        assert!(bytes == *value, "seed {seed}");
                        for _ in 0..3 {
                            one(&kv, &mut model, &mut stream, 60, step).await;
                            step += 1;
                        }
                    }
                }
                compare(&kv, &model, "in the end").await;
            })
            .unwrap();
    }
}

// Concurrent commands: the results must correspond to some order of them, and no command may wait indefinitely.
#[test]
fn many_at_once() {
    for seed in 0..4 {
        let mut case = Case::tiny("many", false);
        case.kv.packing = [Packing::All, Packing::Backfill][seed as usize % 2];
        let executor = Executor::new();
        let (_, kv) = case.power_on(executor.clock(), case.medium());
        executor
            .run(async move {
                let clock = kv_clock(&kv).await;
                let done = std::rc::Rc::new(std::cell::Cell::new(0));
                let merged = std::rc::Rc::new(std::cell::RefCell::new(Model::new()));
                for worker in 0..16u64 {
                    let (kv, done, merged) = (kv.clone(), done.clone(), merged.clone());
                    clock.spawn("worker", async move {
                        // Each task has keys of its own, so it knows the expected result.
                        let spans = spans();
                        let mut model = Model::new();
                        let mut stream = Rng::new(seed * 100 + worker).stream("worker");
                        for step in 0..400 {
                            let key = key(stream.below(12) * 16 + worker);
                            match stream.below(4) {
                                0 => {
                                    let expected = model.remove(&key).map(|_| ()).ok_or(KvError::NotFound);
                                    assert_eq!(kv.delete(NOBODY, &spans, key).await, expected);
                                }
                                1 => {
                                    let mut bytes = Vec::new();
                                    let found =
                                        kv.retrieve(NOBODY, &spans, key, 0, u32::MAX, &mut bytes).await.ok();
                                    assert_eq!(found.map(|_| &bytes), model.get(&key), "{worker} {step}");
                                }
                                _ => {
                                    let bytes = value(&key, step, length(&mut stream).min(9000));
                                    let origin = if worker % 2 == 0 { Origin::Dma } else { Origin::Memory };
                                    kv.store(NOBODY, &spans, key, &bytes, origin, StoreMode::Any)
                                        .await
                                        .unwrap();
                                    model.insert(key, bytes);
                                }
                            }
                        }
                        merged.borrow_mut().extend(model);
                        done.set(done.get() + 1);
                    });
                }
                while done.get() < 16 {
                    clock.sleep(byteway_clock::Delay::from_ms(1)).await;
                }
                let merged = merged.borrow().clone();
                compare(&kv, &merged, "many").await;
            })
            .unwrap();
    }
}

async fn kv_clock(kv: &Kv) -> byteway_clock::Clock {
    kv.ready().await;
    kv.clock().clone()
}
