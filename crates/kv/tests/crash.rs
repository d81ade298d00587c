//! Power cuts at any poll, including during recovery: durable pairs survive, nothing else appears, and a second
//! recovery finds the same.

use crate::fixture::{Case, NOBODY, key, spans, value};
use byteway_clock::random::{Rng, Stream};
use byteway_clock::{Executor, RunOutcome};
use byteway_flash::Medium;
use byteway_kv::{Defect, Key, Kv, KvCounters, KvError, Origin, Packing, StoreMode};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// The model of the store: for each key its allowed versions, the last durable one or any since; 0 is a missing key,
/// others the version of a value.
#[derive(Clone, Default)]
struct Model {
    keys: BTreeMap<Key, Vec<u32>>,
    next_version: u32,
    plp: bool,
}

impl Model {
    fn begin(&mut self, key: Key, version: u32) {
        self.keys.entry(key).or_insert_with(|| vec![0]).push(version);
    }

    /// The newest version of a key without operations in flight.
    fn newest(&self, key: &Key) -> u32 {
        self.keys.get(key).and_then(|states| states.last()).copied().unwrap_or(0)
    }

    fn settle(&mut self, key: &Key) {
        if let Some(states) = self.keys.get_mut(key) {
            states.drain(..states.len() - 1);
        }
    }

    fn settle_all(&mut self) {
        let keys: Vec<Key> = self.keys.keys().copied().collect();
        keys.iter().for_each(|key| self.settle(key));
    }
}

fn bytes_of(key: &Key, version: u32) -> Vec<u8> {
    let mut stream = Rng::new(u64::from(version)).stream("length");
    value(key, version, crate::fixture::length(&mut stream).min(40_000))
}

/// A host that awaits each of its commands. Returns what it has observed: polls and counters.
async fn host(
    kv: Kv,
    model: Rc<RefCell<Model>>,
    mut stream: Stream,
    steps: u32,
    keys: u64,
    log: Rc<RefCell<Vec<(u64, KvCounters)>>>,
) {
    let spans = spans();
    for _ in 0..steps {
        let key = key(stream.below(keys));
        match stream.below(20) {
            0..12 => {
                let version = {
                    let mut model = model.borrow_mut();
                    model.next_version += 1;
                    let version = model.next_version;
                    model.begin(key, version);
                    version
                };
                let bytes = bytes_of(&key, version);
                let origin = if stream.chance(0.5) { Origin::Memory } else { Origin::Dma };
                match kv.store(NOBODY, &spans, key, &bytes, origin, StoreMode::Any).await {
                    Ok(()) => {}
                    Err(KvError::CapacityExceeded) => {
                        model.borrow_mut().keys.get_mut(&key).unwrap().pop();
                    }
                    Err(error) => panic!("{error}"),
                }
                if model.borrow().plp {
                    model.borrow_mut().settle(&key);
                }
            }
            12..16 => {
                let exists = model.borrow().newest(&key) != 0;
                if exists {
                    model.borrow_mut().begin(key, 0);
                }
                let expected = if exists { Ok(()) } else { Err(KvError::NotFound) };
                assert_eq!(kv.delete(NOBODY, &spans, key).await, expected);
                if model.borrow().plp {
                    model.borrow_mut().settle(&key);
                }
            }
            16..18 => {
                let mut bytes = Vec::new();
                let found = kv.retrieve(NOBODY, &spans, key, 0, u32::MAX, &mut bytes).await;
                match model.borrow().newest(&key) {
                    0 => assert_eq!(found, Err(KvError::NotFound)),
                    version => assert!(bytes == bytes_of(&key, version), "{key:?} {found:?}"),
                }
            }
            18 if stream.chance(0.5) => {
                kv.flush(NOBODY, &spans).await.unwrap();
                model.borrow_mut().settle_all();
            }
            _ => {}
        }
        log.borrow_mut().push((kv.clock().counters().polls, kv.counters()));
    }
}

/// Reads every pair: each key has an allowed version, and from now on only that one.
async fn look(kv: &Kv, model: &RefCell<Model>, what: &str) {
    let spans = spans();
    kv.check().await.unwrap_or_else(|error| panic!("{what}: {error}"));
    let mut found: BTreeMap<Key, Vec<u8>> = BTreeMap::new();
    let mut cursor = kv.seek(None);
    let mut bytes = Vec::new();
    loop {
        let next = cursor.next(NOBODY, &spans, &mut bytes).await;
        let next = next.unwrap_or_else(|error| panic!("{what}: {error}"));
        let Some(key) = next else { break };
        found.insert(key, bytes.clone());
    }
    for (key, states) in &mut model.borrow_mut().keys {
        let held = found.remove(key);
        let fits = |version: &&u32| match (**version, &held) {
            (0, None) => true,
            (0, _) | (_, None) => false,
            (version, Some(held)) => *held == bytes_of(key, version),
        };
        match states.iter().rev().find(fits).copied() {
            Some(version) => *states = vec![version],
            None => {
                panic!("{what}: {key:?} holds {:?} bytes, may be {states:?}", held.map(|held| held.len()))
            }
        }
    }
    assert!(found.is_empty(), "{what}: {:?} come from nowhere", found.keys());
}

type Seen = Rc<RefCell<Vec<(u64, KvCounters)>>>;

fn run(
    case: &Case,
    medium: Medium,
    model: &Rc<RefCell<Model>>,
    polls: u64,
    seed: u64,
    work: (u32, u64),
    what: &str,
) -> (Medium, Seen) {
    let executor = Executor::new();
    let (ftl, kv) = case.power_on(executor.clock(), medium);
    let seen = Seen::default();
    let (inner, model, then, log) = (kv.clone(), model.clone(), what.to_owned(), seen.clone());
    let ended = executor.run_cut(
        async move {
            inner.ready().await;
            look(&inner, &model, &then).await;
            host(inner, model, Rng::new(seed).stream("host"), work.0, work.1, log).await;
        },
        polls,
    );
    match ended {
        Ok(RunOutcome::Ended(()) | RunOutcome::Cut) => {}
        Err(stalled) => panic!("{what}: {stalled}; {:?}", kv.counters()),
    }
    kv.save();
    kv.stop();
    (ftl.power_off(), seen)
}

/// A history with cuts after these numbers of polls, and none at the end.
fn history(case: &Case, seed: u64, cuts: &[u64], work: (u32, u64)) -> Seen {
    let mut medium = case.medium();
    let model = Rc::new(RefCell::new(Model { plp: case.kv.plp, ..Model::default() }));
    let mut first = None;
    for (turn, polls) in cuts.iter().chain([&u64::MAX]).enumerate() {
        let what = format!("{}, seed {seed}, cuts {cuts:?}, turn {turn}", case.name);
        let seen;
        (medium, seen) = run(case, medium, &model, *polls, seed + turn as u64, work, &what);
        first.get_or_insert(seen);
    }
    first.unwrap()
}

fn cases() -> Vec<Case> {
    let with = |name, plp, packing| {
        let mut case = Case::tiny(name, plp);
        case.kv.packing = packing;
        case
    };
    let mut small = Case::small("small", false);
    small.kv.packing = Packing::Selective;
    vec![
        with("all", false, Packing::All),
        with("backfill", false, Packing::Backfill),
        with("none, protected", true, Packing::None),
        with("backfill, protected", true, Packing::Backfill),
        small,
        Case::small("small, protected", true),
    ]
}

fn histories(case: &Case, seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let mut stream = Rng::new(seed).stream("cuts");
        let count = 1 + stream.below(5);
        let cuts: Vec<u64> = (0..count)
            .map(|_| match stream.below(4) {
                0 => stream.below(300),
                1 => stream.below(3000),
                _ => stream.below(20_000),
            })
            .collect();
        history(case, seed * 1000, &cuts, (400, 60));
    }
}

/// Multiplier of the work, for a long run by hand.
fn share() -> u64 {
    std::env::var("BYTEWAY_CRASH_SHARE").ok().and_then(|share| share.parse().ok()).unwrap_or(1)
}

// A store that loses durable pairs, restores deleted ones, or finds something else after a second recovery.
#[test]
fn what_was_durable_is_there_after_any_cut() {
    for case in cases() {
        histories(&case, 0..12 * share());
    }
}

/// Cuts at every poll between two moments of a history.
fn every_poll(
    case: &Case,
    seed: u64,
    work: (u32, u64),
    begin: impl Fn(&KvCounters) -> bool,
    end: impl Fn(&KvCounters) -> bool,
) {
    let seen = history(case, seed, &[], work);
    let polls = |is_there: &dyn Fn(&KvCounters) -> bool| {
        seen.borrow().iter().find(|(_, counters)| is_there(counters)).map(|(polls, _)| *polls)
    };
    let (from, to) = (polls(&begin).expect("it begins"), polls(&end).expect("it ends"));
    assert!(from < to);
    for cut in from..=to {
        // Also during recovery.
        history(case, seed, &[cut, cut % 97], work);
    }
}

// Between two writes of a merge, manifest and tables may be inconsistent.
#[test]
fn a_cut_at_every_poll_of_a_merge() {
    for plp in [false, true] {
        let mut case = Case::tiny("merge", plp);
        case.kv.memtable_bytes = 700;
        let runs = u64::from(case.kv.l0_runs);
        every_poll(
            &case,
            5,
            (500, 60),
            |counters| counters.memtables_flushed >= runs,
            |counters| counters.compactions > 0,
        );
    }
}

// While values move, each is in two segments, and one of them is about to be given up.
#[test]
fn a_cut_at_every_poll_of_a_collection() {
    for plp in [false, true] {
        let case = Case::small("collection", plp);
        every_poll(
            &case,
            9,
            (700, 100),
            |counters| counters.collections >= 1,
            |counters| counters.values_moved > 3 && counters.collections >= 3,
        );
    }
}

// A test that finds nothing means something only if it finds defects on purpose.
#[test]
fn a_broken_store_is_found() {
    for defect in Defect::ALL {
        let found = (0..60).find(|seed| {
            cases().into_iter().any(|mut case| {
                case.kv.defect = defect.into();
                let run = || histories(&case, *seed..*seed + 1);
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_err()
            })
        });
        assert!(found.is_some(), "{defect:?} is not found");
    }
}
