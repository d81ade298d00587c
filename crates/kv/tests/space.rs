//! Full drives: errors instead of corruption, and free space after deletions.

use crate::fixture::{Case, NOBODY, key, length, spans, value};
use byteway_clock::Executor;
use byteway_clock::random::Rng;
use byteway_kv::{Key, Kv, KvError, Origin, Packing, StoreMode};
use std::collections::BTreeMap;

async fn holds(kv: &Kv, model: &BTreeMap<Key, Vec<u8>>, what: &str) {
    let spans = spans();
    kv.check().await.unwrap_or_else(|error| panic!("{what}: {error}"));
    let mut cursor = kv.seek(None);
    let mut bytes = Vec::new();
    for (key, value) in model {
        assert_eq!(cursor.next(NOBODY, &spans, &mut bytes).await, Ok(Some(*key)), "{what}");
        assert!(bytes == *value, "{what}: {key:?}");
    }
    assert_eq!(cursor.next(NOBODY, &spans, &mut bytes).await, Ok(None), "{what}");
}

// A drive that is filled and overwritten repeatedly must not lose a pair, stall, or refuse pairs that fit.
#[test]
fn filled_to_capacity_and_overwritten_tenfold() {
    for (packing, most, seed) in [
        (Packing::All, 200, 1),
        (Packing::Backfill, 6000, 2),
        (Packing::None, 3000, 3),
        (Packing::All, 60_000, 4),
    ] {
        let mut case = Case::tiny("full", seed % 2 == 0);
        case.kv.packing = packing;
        case.kv.memtable_bytes = 12_000;
        let executor = Executor::new();
        let (_, kv) = case.power_on(executor.clock(), case.medium());
        let what = format!("{packing:?}, values up to {most}");
        let inner = kv.clone();
        let then = what.clone();
        let ran = executor.run(async move {
            let (kv, what, spans) = (inner, then, spans());
            let mut stream = Rng::new(seed).stream("full");
            let mut model: BTreeMap<Key, Vec<u8>> = BTreeMap::new();
            let mut number = 0;
            // Until it is full.
            loop {
                let key = key(number);
                let bytes = value(&key, number as u32, length(&mut stream) % most + 1);
                match kv.store(NOBODY, &spans, key, &bytes, Origin::Dma, StoreMode::Any).await {
                    Ok(()) => _ = model.insert(key, bytes),
                    Err(error) => {
                        assert_eq!(error, KvError::CapacityExceeded, "{what}");
                        break;
                    }
                }
                number += 1;
            }
            let usage = kv.usage();
            let stored: usize = model.values().map(Vec::len).sum();
            assert!(usage.used_bytes * 10 >= usage.capacity_bytes * 7, "{what}: refused at {usage:?}");
            holds(&kv, &model, &what).await;
            // Tenfold.
            let (mut written, mut refused, mut step) = (0, 0u32, 0);
            while written < 10 * stored && step < 4000 {
                step += 1;
                let key = key(stream.below(number));
                let bytes = value(&key, step, length(&mut stream) % most + 1);
                match kv.store(NOBODY, &spans, key, &bytes, Origin::Dma, StoreMode::Any).await {
                    Ok(()) => {
                        written += bytes.len();
                        model.insert(key, bytes);
                    }
                    Err(error) => {
                        assert_eq!(error, KvError::CapacityExceeded, "{what}");
                        refused += 1;
                        // A full store accepts a pair again after one of equal size was deleted.
                        let victim = model.iter().max_by_key(|(_, value)| value.len()).map(|(key, _)| *key);
                        let victim = victim.unwrap();
                        assert_eq!(kv.delete(NOBODY, &spans, victim).await, Ok(()), "{what}");
                        let gone = model.remove(&victim).unwrap();
                        let bytes = value(&victim, step, gone.len());
                        let again =
                            kv.store(NOBODY, &spans, victim, &bytes, Origin::Dma, StoreMode::Any).await;
                        assert_eq!(again, Ok(()), "{what}: after {refused} refusals, {:?}", kv.usage());
                        model.insert(victim, bytes);
                        if stream.chance(0.5) {
                            assert_eq!(kv.delete(NOBODY, &spans, victim).await, Ok(()), "{what}");
                            model.remove(&victim);
                        }
                    }
                }
            }
            holds(&kv, &model, &what).await;
            // If every value occupies whole units, an overwritten one needs no further space.
            assert!(refused > 0 || packing == Packing::None, "{what}");
            // All can be deleted, and their space is free then.
            for key in model.keys() {
                assert_eq!(kv.delete(NOBODY, &spans, *key).await, Ok(()), "{what}");
            }
            holds(&kv, &BTreeMap::new(), &what).await;
            assert_eq!(kv.usage().keys, 0, "{what}: {:?}", kv.usage());
            kv.format().await.unwrap();
            holds(&kv, &BTreeMap::new(), &what).await;
        });
        ran.unwrap_or_else(|stalled| panic!("{what}: {stalled}; {:?} {:?}", kv.counters(), kv.usage()));
    }
}
