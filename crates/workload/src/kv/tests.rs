//! Complete key-value workloads, as a run generates them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use byteway_clock::random::Rng;

use super::*;
use crate::{Distribution, JobPlan, JobSettings, Source};

/// A job of one worker with a thousand key-value pairs, keys of 4 B, and a count.
fn plan(source: KvSource, count: u64) -> JobPlan {
    keyed(source, 4, count)
}

fn keyed(source: KvSource, key_bytes: u32, count: u64) -> JobPlan {
    let plan = KvPlan { keys: 1000, key_bytes, source, engine: Engine::Drive, bulk: None };
    JobPlan {
        settings: JobSettings { count: Some(count), ..plan.settings("job") },
        source: Source::Pairs(Box::new(plan)),
    }
}

fn of(job: &JobPlan) -> &KvPlan {
    let Source::Pairs(plan) = &job.source else { unreachable!() };
    plan
}

fn preset(preset: Preset, value: &str, count: u64) -> JobPlan {
    let draws = preset.draws(value.parse().unwrap(), Distribution::Uniform, 10);
    plan(KvSource::Draws(draws), count)
}

/// All operations, where every insert completes at once.
fn drawn(job: &JobPlan, worker: u32, seed: u64) -> Vec<KvOp> {
    let inserted = Inserted::new(of(job).records());
    let generator = KvGenerator::new(job, of(job), worker, &Rng::new(seed), &inserted).unwrap();
    let mut all = Vec::new();
    for op in generator {
        if op.verb == Verb::Insert {
            inserted.end(op.number);
        }
        all.push(op);
    }
    all
}

fn share(ops: &[KvOp], of: impl Fn(&KvOp) -> bool) -> f64 {
    ops.iter().filter(|op| of(op)).count() as f64 / ops.len() as f64
}

// A fill that skipped a pair, or workers that stored the same ones, would leave fewer pairs than the run
// expects.
#[test]
fn workers_fill_all_pairs_between_them() {
    for which in [Preset::Fillseq, Preset::Filluniquerandom, Preset::WD] {
        let mut plan = preset(which, "64 B", 0);
        (plan.count, plan.workers) = (None, 3);
        let mut keys = BTreeSet::new();
        for worker in 0..3 {
            let ops = drawn(&plan, worker, 1);
            assert!(ops.iter().all(|op| op.verb == Verb::Store && keys.insert(op.key)), "{which:?}");
            let rises = ops.windows(2).all(|pair| pair[0].key < pair[1].key);
            assert_eq!(rises, which == Preset::Fillseq, "{which:?}");
        }
        assert_eq!((keys.len() as u64, of(&plan).operations()), (1000, Some(1000)));
    }
}

// W(A) to W(D) and W(M) define BandSlim's figures: another order or other lengths would be other workloads.
#[test]
fn the_papers_workloads_are_as_it_says() {
    let a = drawn(&preset(Preset::WA, "32 B", 2500), 0, 1);
    assert!(a.iter().all(|op| op.bytes == 32 && op.key.as_slice().len() == 4));
    assert_eq!((a[0].key, a[999].key), (a[1000].key, a[1999].key));
    for (which, small) in [(Preset::WB, 0.9), (Preset::WC, 0.1)] {
        let ops = drawn(&preset(which, "0 B", 100_000), 0, 1);
        assert!((share(&ops, |op| op.bytes == 8) - small).abs() < 0.005, "{which:?}");
        assert!(ops.iter().all(|op| [8, 2048].contains(&op.bytes)));
    }
    let d = drawn(&preset(Preset::WD, "0 B", 90_000), 0, 1);
    let lengths: BTreeSet<u32> = d.iter().map(|op| op.bytes).collect();
    assert_eq!(lengths.into_iter().collect::<Vec<_>>(), [8, 16, 32, 64, 128, 256, 512, 1024, 2048]);
    let m = drawn(&preset(Preset::WM, "0 B", 100_000), 0, 1);
    assert!((share(&m, |op| op.bytes <= 35) - 0.691).abs() < 0.005);
    assert!(m.iter().all(|op| op.verb == Verb::Store && op.bytes <= 1024));
    assert!(m.windows(2).any(|pair| pair[0].key > pair[1].key));
    // Unique hashed keys in random order, except for W(A), whose keys ascend; repeated keys would be fewer
    // pairs.
    for which in [Preset::WB, Preset::WC, Preset::WD, Preset::WM] {
        let ops = drawn(&preset(which, "0 B", 1000), 0, 1);
        let keys: BTreeSet<KeyBytes> = ops.iter().map(|op| op.key).collect();
        assert_eq!(keys.len(), 1000, "{which:?}");
        let rises = ops.windows(2).filter(|pair| pair[0].key < pair[1].key).count();
        assert!((400..600).contains(&rises), "{which:?}: {rises} of 999 keys are above the one before");
        assert!(ops.iter().any(|op| op.key.as_slice()[0] > 200), "{which:?}: keys are not spread");
    }
    assert!(a[..1000].windows(2).all(|pair| pair[0].key < pair[1].key));
}

// MixGraph's mix is 0.85, 0.14, 0.01, and prefix_dist concentrates on few keys.
#[test]
fn mixgraph_retrieves_stores_and_scans() {
    for which in [Preset::MixgraphAllRandom, Preset::MixgraphPrefixDist] {
        let ops = drawn(&preset(which, "0 B", 100_000), 0, 1);
        for (verb, wanted) in [(Verb::Retrieve, 0.85), (Verb::Store, 0.14), (Verb::Scan, 0.01)] {
            assert!((share(&ops, |op| op.verb == verb) - wanted).abs() < 0.004, "{which:?} {verb:?}");
        }
        assert!(ops.iter().any(|op| op.verb == Verb::Scan && op.count > 20));
        let mut keys = BTreeMap::new();
        ops.iter().for_each(|op| *keys.entry(op.key).or_insert(0u32) += 1);
        let most = f64::from(*keys.values().max().unwrap()) / 1e5;
        assert_eq!(most > 0.01, which == Preset::MixgraphPrefixDist, "{most}");
    }
}

// An insert of an existing key would be an update, and D would read keys that were never written.
#[test]
fn ycsb_inserts_new_records() {
    let ycsb = Ycsb {
        records: 1000,
        operations: 10_000,
        mix: vec![(Verb::Retrieve, 0.95), (Verb::Insert, 0.05)],
        choice: Choice::Latest,
        is_ordered: false,
        value_bytes: 1000,
        scan: (1, 100),
        scan_lengths: ScanLengths::Uniform,
    };
    let load = keyed(KvSource::Draws(Preset::YcsbLoad.ycsb(&ycsb)), 8, 1000);
    let mut there: BTreeSet<KeyBytes> = drawn(&load, 0, 1).into_iter().map(|op| op.key).collect();
    assert_eq!(there.len(), 1000);
    let run = keyed(KvSource::Draws(Preset::Ycsb.ycsb(&ycsb)), 8, 10_000);
    let ops = drawn(&run, 0, 1);
    for op in &ops {
        match op.verb {
            Verb::Insert => assert!(there.insert(op.key) && op.bytes == 1000),
            _ => assert!(there.contains(&op.key)),
        }
    }
    assert!((share(&ops, |op| op.verb == Verb::Insert) - 0.05).abs() < 0.01);
}

// Workers with one stream would repeat each other; draws that depend on other jobs would change with them.
#[test]
fn the_same_seed_draws_the_same_and_another_does_not() {
    let mut plan = preset(Preset::MixgraphPrefixDist, "0 B", 2000);
    plan.workers = 2;
    assert_eq!(drawn(&plan, 0, 1), drawn(&plan, 0, 1));
    assert_ne!(drawn(&plan, 0, 1), drawn(&plan, 1, 1));
    assert_ne!(drawn(&plan, 0, 1), drawn(&plan, 0, 2));
    assert_eq!(drawn(&plan, 0, 1).len() + drawn(&plan, 1, 1).len(), 2000);
}

// Popular objects must stay popular if there are fewer pairs than the cache had objects.
#[test]
fn a_caches_objects_are_as_popular_as_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let pop = folder.path().join("pop.json");
    std::fs::write(&pop, r#"{"oneHits":0.1,"popularityBuckets":[1,9999],"popularityWeights":[30,70]}"#)
        .unwrap();
    let sizes = folder.path().join("sizes.json");
    std::fs::write(&sizes, r#"{"valSizeRange":[31,63],"valSizeRangeProbability":[3,1]}"#).unwrap();
    let draws = KvDraws {
        mix: vec![(Verb::Store, 1.0)],
        choice: KvChoice::Popular(Arc::new(Popularity::load(&pop).unwrap())),
        order: KeyOrder::Scattered,
        lengths: Lengths::Measured(Histogram::sizes(&sizes).unwrap()),
        scans: KvScans::Fixed(0),
    };
    let ops = drawn(&plan(KvSource::Draws(draws), 50_000), 0, 1);
    let first = ops.iter().max_by_key(|op| ops.iter().take(500).filter(|other| other.key == op.key).count());
    let hottest = first.unwrap().key;
    assert!((share(&ops, |op| op.key == hottest) - 0.3).abs() < 0.01);
    assert!((share(&ops, |op| op.bytes == 31) - 0.75).abs() < 0.01);
    let error = Popularity::load(&sizes).unwrap_err().to_string();
    assert!(error.contains("popularityBuckets"), "{error}");
}

// A trace's operations on one key must stay in order, or a Retrieve would overtake the Store before it.
#[test]
fn workers_divide_a_trace_by_key() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kv.csv");
    let lines: String = (0..400).map(|at| format!("key{},SET,{at}\n", at % 37)).collect();
    std::fs::write(&path, format!("key,op,size\n{lines}")).unwrap();
    let mut plan = plan(KvSource::Trace(KvTrace::scan(&path).unwrap()), 0);
    plan.workers = 3;
    let parts: Vec<Vec<KvOp>> = (0..3).map(|worker| drawn(&plan, worker, 1)).collect();
    assert_eq!(parts.iter().map(Vec::len).sum::<usize>(), 400);
    assert!(
        parts
            .iter()
            .all(|part| !part.is_empty() && part.windows(2).all(|pair| pair[0].bytes < pair[1].bytes))
    );
    let keys: Vec<BTreeSet<KeyBytes>> =
        parts.iter().map(|part| part.iter().map(|op| op.key).collect()).collect();
    assert!(keys[0].is_disjoint(&keys[1]) && keys[1].is_disjoint(&keys[2]) && keys[0].is_disjoint(&keys[2]));
}
