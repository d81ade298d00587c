//! The KV oracle against a simulated drive with overlapping operations and power cuts, and against defective drives.

use byteway_host::{KvFlush, KvRead, KvWrite};
use byteway_host::{KvOracle, KvOutcome};
use byteway_wire::nvme::kv::Key;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn key(index: u8) -> Key {
    Key::new(&[b'k', index]).unwrap()
}

/// The drive's contents: now, and on the media.
type Pairs = BTreeMap<Key, Vec<u8>>;

#[derive(Clone, Debug)]
enum Step {
    Store { key: u8, bytes: u32 },
    Delete { key: u8 },
    EndWrite { which: usize, how: u8 },
    Retrieve { key: u8 },
    EndRetrieve { which: usize },
    List { from: u8 },
    Flush,
    EndFlush { which: usize },
    Destage { key: u8 },
    Cut,
}

fn step() -> impl Strategy<Value = Step> {
    let (key, which) = (0..4_u8, 0..64_usize);
    prop_oneof![
        6 => (key.clone(), 0..40_u32).prop_map(|(key, bytes)| Step::Store { key, bytes }),
        3 => key.clone().prop_map(|key| Step::Delete { key }),
        9 => (which.clone(), 0..10_u8).prop_map(|(which, how)| Step::EndWrite { which, how }),
        3 => key.clone().prop_map(|key| Step::Retrieve { key }),
        4 => which.clone().prop_map(|which| Step::EndRetrieve { which }),
        1 => key.clone().prop_map(|from| Step::List { from }),
        2 => Just(Step::Flush),
        2 => which.prop_map(|which| Step::EndFlush { which }),
        2 => key.prop_map(|key| Step::Destage { key }),
        1 => Just(Step::Cut),
    ]
}

struct Writing {
    token: KvWrite,
    key: Key,
    value: Option<Vec<u8>>,
    /// It has taken effect.
    is_applied: bool,
}

fn set(pairs: &mut Pairs, key: Key, value: Option<Vec<u8>>) {
    match value {
        Some(value) => drop(pairs.insert(key, value)),
        None => drop(pairs.remove(&key)),
    }
}

/// Each operation takes effect, if at all, at its end; a retrieve reads at its start or at its end.
fn check(steps: Vec<Step>, protected: bool) {
    let mut oracle = KvOracle::new(3).with_power_cuts(protected);
    let (mut now, mut medium) = (Pairs::new(), Pairs::new());
    let mut writes: Vec<Writing> = Vec::new();
    let mut reads: Vec<(KvRead, Key, Option<Vec<u8>>)> = Vec::new();
    let mut flushes: Vec<(KvFlush, Pairs)> = Vec::new();
    for step in steps {
        match step {
            Step::Store { key: index, bytes } => {
                let key = key(index);
                let token = oracle.begin_store(key, bytes);
                let mut value = vec![0; bytes as usize];
                oracle.fill(&token, &mut value);
                writes.push(Writing { token, key, value: Some(value), is_applied: false });
            }
            Step::Delete { key: index } => {
                let key = key(index);
                let token = oracle.begin_delete(key);
                writes.push(Writing { token, key, value: None, is_applied: false });
            }
            Step::EndWrite { which, how } if !writes.is_empty() => {
                let Writing { token, key, value, is_applied } = writes.swap_remove(which % writes.len());
                let outcome = match how {
                    0 if !is_applied => KvOutcome::Refused,
                    1 => KvOutcome::Uncertain,
                    _ => KvOutcome::Done,
                };
                // Of failed operations, every other one takes effect.
                if outcome == KvOutcome::Done || outcome == KvOutcome::Uncertain && which % 2 == 0 {
                    set(&mut now, key, value.clone());
                    if protected {
                        set(&mut medium, key, value);
                    }
                }
                oracle.end(token, outcome);
            }
            Step::Retrieve { key: index } => {
                let key = key(index);
                reads.push((oracle.begin_read(), key, now.get(&key).cloned()));
            }
            Step::EndRetrieve { which } if !reads.is_empty() => {
                let (read, key, early) = reads.swap_remove(which % reads.len());
                let found = if which % 2 == 0 { early } else { now.get(&key).cloned() };
                let verified = match &found {
                    Some(value) => oracle.verify_value(read, key, value.len() as u32, 0, value),
                    None => oracle.verify_key(read, key, false, None),
                };
                verified.unwrap();
                oracle.end_read(read);
            }
            Step::List { from } => {
                let read = oracle.begin_read();
                let keys: Vec<Key> = now.range(key(from)..).map(|(key, _)| *key).collect();
                oracle.verify_list(read.window(), Some(key(from)), &keys, true).unwrap();
                oracle.end_read(read);
            }
            Step::Flush => flushes.push((oracle.begin_flush(), now.clone())),
            Step::EndFlush { which } if !flushes.is_empty() => {
                let (flush, _) = flushes.swap_remove(which % flushes.len());
                medium = now.clone();
                oracle.end_flush(flush);
            }
            Step::Destage { key: index } => {
                let key = key(index);
                set(&mut medium, key, now.get(&key).cloned());
            }
            Step::Cut => {
                // Operations in flight may have taken effect.
                if let Some(writing) = writes.first() {
                    set(&mut medium, writing.key, writing.value.clone());
                }
                writes.clear();
                reads.clear();
                flushes.clear();
                oracle.cut_power();
                now = medium.clone();
            }
            Step::EndWrite { .. } | Step::EndRetrieve { .. } | Step::EndFlush { .. } => {}
        }
    }
    // At the end every key is read, twice.
    for _ in 0..2 {
        for index in 0..4 {
            let (key, read) = (key(index), oracle.begin_read());
            let verified = match now.get(&key) {
                Some(value) => oracle.verify_value(read, key, value.len() as u32, 0, value),
                None => oracle.verify_key(read, key, false, None),
            };
            verified.unwrap();
            oracle.end_read(read);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    // An oracle that rejects a correct drive makes its users search for faults that are its own.
    #[test]
    fn a_drive_that_does_right_is_never_accused(
        steps in prop::collection::vec(step(), 0..80), protected in any::<bool>(),
    ) {
        check(steps, protected);
    }
}

// A retrieve that found nothing was taken for the flushed delete before the store, and not for the one beside it that may have come
// after: the drive was then accused of holding the stored value after a cut.
#[test]
fn of_two_deletes_the_one_that_was_replaced_is_not_found() {
    let ended = |which, how| Step::EndWrite { which, how };
    let store = Step::Store { key: 0, bytes: 5 };
    check(
        vec![
            Step::Delete { key: 0 },
            Step::Delete { key: 0 },
            ended(1, 2), // the second: done
            store,
            Step::Flush,
            ended(1, 2), // the store: done
            Step::EndFlush { which: 0 },
            ended(0, 1), // the first delete: uncertain, and done
            Step::Retrieve { key: 0 },
            Step::EndRetrieve { which: 0 },
            Step::Cut,
        ],
        false,
    );
}

// A flushed delete was taken for one in doubt beside it, and its pair could come back after a cut.
#[test]
fn a_delete_that_was_flushed_stays_so_beside_one_in_doubt() {
    let mut oracle = KvOracle::new(3).with_power_cuts(false);
    let old = stored(&mut oracle, 1, 10);
    let flush = oracle.begin_flush();
    oracle.end_flush(flush);
    let view = oracle.begin_read();
    let (first, store, second) =
        (oracle.begin_delete(key(1)), oracle.begin_store(key(1), 20), oracle.begin_delete(key(1)));
    oracle.end(store, KvOutcome::Done);
    oracle.end(second, KvOutcome::Done);
    let flush = oracle.begin_flush();
    oracle.end_flush(flush);
    oracle.end(first, KvOutcome::Uncertain);
    assert!(may_be(&mut oracle, 1, None));
    oracle.end_read(view);
    oracle.cut_power();
    assert!(!may_be(&mut oracle, 1, Some(&old)), "it was deleted, and that was flushed");
    assert!(may_be(&mut oracle, 1, None));
}

/// A store that has succeeded, and its value.
fn stored(oracle: &mut KvOracle, index: u8, bytes: u32) -> Vec<u8> {
    let token = oracle.begin_store(key(index), bytes);
    let mut value = vec![0; bytes as usize];
    oracle.fill(&token, &mut value);
    oracle.end(token, KvOutcome::Done);
    value
}

fn deleted(oracle: &mut KvOracle, index: u8) {
    let token = oracle.begin_delete(key(index));
    oracle.end(token, KvOutcome::Done);
}

/// Whether a retrieve that begins now may return this.
fn may_be(oracle: &mut KvOracle, index: u8, value: Option<&[u8]>) -> bool {
    let read = oracle.begin_read();
    let verified = match value {
        Some(value) => oracle.verify_value(read, key(index), value.len() as u32, 0, value),
        None => oracle.verify_key(read, key(index), false, None),
    };
    oracle.end_read(read);
    verified.is_ok()
}

// A value decided later by a retrieve among overlapping ones existed before: an iterator created earlier was accused of
// showing a later store.
#[test]
fn what_is_decided_later_was_there_before() {
    let mut oracle = KvOracle::new(3);
    let [one, two] = [40, 50].map(|bytes| oracle.begin_store(key(1), bytes));
    let mut value = [0; 50];
    oracle.fill(&two, &mut value);
    oracle.end(one, KvOutcome::Done);
    oracle.end(two, KvOutcome::Done);
    let view = oracle.begin_read();
    let until = oracle.now();
    assert!(may_be(&mut oracle, 1, Some(&value)));
    oracle.verify_pair(view.view(until), key(1), 50, 0, &value).unwrap();
    let later = stored(&mut oracle, 1, 60);
    oracle.verify_pair(view.view(until), key(1), 60, 0, &later).unwrap_err();
    oracle.end_read(view);
}

// An oracle that accepts the results of a defective drive proves nothing.
#[test]
fn a_drive_that_does_wrong_is_found() {
    let mut oracle = KvOracle::new(3);
    let first = stored(&mut oracle, 1, 100);
    let other = stored(&mut oracle, 2, 100);
    assert!(may_be(&mut oracle, 1, Some(&first)));
    assert!(!may_be(&mut oracle, 1, None), "a lost pair");
    assert!(!may_be(&mut oracle, 1, Some(&other)), "another key's value");
    assert!(!may_be(&mut oracle, 1, Some(&first[..99])), "a value that is cut");
    let mut torn = first.clone();
    torn[99] ^= 1;
    assert!(!may_be(&mut oracle, 1, Some(&torn)), "a byte that is wrong");
    let second = stored(&mut oracle, 1, 100);
    assert!(!may_be(&mut oracle, 1, Some(&first)), "an old value");
    assert!(may_be(&mut oracle, 1, Some(&second)));
    deleted(&mut oracle, 1);
    assert!(!may_be(&mut oracle, 1, Some(&second)), "a value that was deleted");
    assert!(may_be(&mut oracle, 1, None));
    assert!(!may_be(&mut oracle, 3, Some(&first)), "a key that never was");
    assert_eq!(oracle.unsettled_keys(), 0);
}

// A read in flight during a replacement may see either value; the next one only the new value.
#[test]
fn overlapping_operations_may_be_seen_in_either_order() {
    let mut oracle = KvOracle::new(3);
    let old = stored(&mut oracle, 1, 10);
    let read = oracle.begin_read();
    let new = stored(&mut oracle, 1, 10);
    for value in [&old, &new] {
        oracle.verify_value(read, key(1), 10, 0, value).unwrap();
    }
    assert!(oracle.verify_key(read, key(1), false, None).is_err());
    oracle.end_read(read);
    assert!(!may_be(&mut oracle, 1, Some(&old)));
    // Two concurrent stores: either may win, and the first read decides.
    let (a, b) = (oracle.begin_store(key(1), 20), oracle.begin_store(key(1), 30));
    let (mut value_a, mut value_b) = ([0; 20], [0; 30]);
    oracle.fill(&a, &mut value_a);
    oracle.fill(&b, &mut value_b);
    oracle.end(a, KvOutcome::Done);
    oracle.end(b, KvOutcome::Done);
    assert!(may_be(&mut oracle, 1, Some(&value_a)));
    assert!(!may_be(&mut oracle, 1, Some(&value_b)), "it was the other");
    assert_eq!(oracle.unsettled_keys(), 0);
}

// Flushed data must survive a cut; other data may or may not, but the result is final.
#[test]
fn a_cut_leaves_what_is_durable() {
    let mut oracle = KvOracle::new(3).with_power_cuts(false);
    let flushed = stored(&mut oracle, 1, 10);
    let flush = oracle.begin_flush();
    oracle.end_flush(flush);
    let later = stored(&mut oracle, 1, 20);
    deleted(&mut oracle, 2);
    let lost = stored(&mut oracle, 2, 5);
    oracle.cut_power();
    assert!(!may_be(&mut oracle, 1, None));
    assert!(may_be(&mut oracle, 1, Some(&flushed)));
    assert!(!may_be(&mut oracle, 1, Some(&later)), "it was seen to be the older one");
    assert!(may_be(&mut oracle, 2, Some(&lost)));
    assert!(!may_be(&mut oracle, 2, None));
    oracle.cut_power();
    assert!(may_be(&mut oracle, 2, Some(&lost)), "what survived once and was seen is durable");
    let mut protected = KvOracle::new(3).with_power_cuts(true);
    let value = stored(&mut protected, 1, 10);
    protected.cut_power();
    assert!(!may_be(&mut protected, 1, None), "the capacitors have saved it");
    assert!(may_be(&mut protected, 1, Some(&value)));
}

// Lists and snapshots: a key that is missing, out of order, or newer than the snapshot.
#[test]
fn lists_are_whole_and_views_do_not_move() {
    let mut oracle = KvOracle::new(3);
    for index in [1, 3, 5] {
        stored(&mut oracle, index, 4);
    }
    let keys = |indices: &[u8]| indices.iter().map(|index| key(*index)).collect::<Vec<_>>();
    let read = oracle.begin_read();
    let mut list = |first: Option<u8>, indices: &[u8], is_whole| {
        oracle.verify_list(read.window(), first.map(key), &keys(indices), is_whole).is_ok()
    };
    assert!(list(None, &[1, 3, 5], true) && list(Some(2), &[3, 5], true) && list(None, &[1], false));
    assert!(!list(None, &[1, 5], true) && !list(None, &[1, 5], false), "one is missing in between");
    assert!(!list(None, &[1, 3], true), "one is missing at the end");
    assert!(!list(None, &[1, 3, 4, 5], true), "one is not there");
    assert!(!list(None, &[3, 1, 5], true) && !list(None, &[1, 1, 3, 5], true), "out of order");
    assert!(!list(Some(2), &[1, 3, 5], true), "before the first");
    oracle.end_read(read);
    let read = oracle.begin_read();
    let until = oracle.now();
    let new = stored(&mut oracle, 3, 4);
    stored(&mut oracle, 4, 4);
    deleted(&mut oracle, 5);
    let view = read.view(until);
    assert!(oracle.verify_pair(view, key(3), 4, 0, &new).is_err(), "it was stored later");
    assert!(oracle.verify_list(view, None, &keys(&[1, 3, 5]), true).is_ok());
    assert!(oracle.verify_list(view, None, &keys(&[1, 3]), true).is_err(), "it was deleted later");
    assert!(oracle.verify_list(view, None, &keys(&[1, 3, 4, 5]), true).is_err(), "it came later");
    oracle.end_read(read);
    assert_eq!(oracle.unsettled_keys(), 0);
}

// A refused operation changes nothing, and reveals the key's state.
#[test]
fn refusals_are_looked_at_too() {
    let mut oracle = KvOracle::new(3);
    let value = stored(&mut oracle, 1, 4);
    let read = oracle.begin_read();
    let again = oracle.begin_store(key(1), 5);
    assert!(oracle.verify_key(read, key(1), true, Some(&again)).is_ok());
    assert!(oracle.verify_key(read, key(1), false, Some(&again)).is_err());
    oracle.end(again, KvOutcome::Refused);
    oracle.end_read(read);
    assert!(may_be(&mut oracle, 1, Some(&value)));
    let read = oracle.begin_read();
    let none = oracle.begin_store(key(2), 5);
    assert!(oracle.verify_key(read, key(2), true, Some(&none)).is_err(), "its own store doesn't count");
    assert!(oracle.verify_key(read, key(2), false, Some(&none)).is_ok());
    oracle.end(none, KvOutcome::Refused);
    oracle.end_read(read);
    assert_eq!((oracle.settled_keys(), oracle.unsettled_keys()), (1, 0));
}
