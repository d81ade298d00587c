//! Key-value workloads on a simulated drive, from scenario to summary.

mod common;

use byteway_lab::summary::{KvStoreSummary, KvSummary, OperationRow, Summary};
use common::run;

const DRIVE: &str = "[drive]\nprofile = \"cosmos-plus\"\npersonality = \"kv\"\ncapacity = \"1 GiB\"\n\
                     [host]\nprofile = \"cosmos\"\n";

fn kv(summary: &Summary) -> &KvSummary {
    summary.kv.as_ref().expect("a key-value drive")
}

fn store(summary: &Summary) -> &KvStoreSummary {
    kv(summary).store.as_ref().expect("a simulated drive")
}

fn row<'a>(summary: &'a Summary, job: &str, operation: &str) -> &'a OperationRow {
    let rows = &kv(summary).operations;
    rows.iter()
        .find(|row| row.job == job && row.operation == operation)
        .unwrap_or_else(|| panic!("{rows:#?}"))
}

// The least that a key-value drive must do: what was stored is there, byte by byte, and what was deleted is not.
#[test]
fn what_is_stored_is_found() {
    let summary = run(&format!(
        "{DRIVE}[[kv]]\nname = \"load\"\nworkload = \"filluniquerandom\"\nkeys = 2000\nvalue = \"8 B/50:2 KiB/50\"\niodepth = 8\n\
         [[kv]]\nname = \"read\"\nstonewall = true\nworkload = \"readrandom\"\nkeys = 2000\ncount = 1000\niodepth = 8\n\
         [[kv]]\nname = \"mix\"\nstonewall = true\nworkload = \"mixed\"\nkeys = 3000\nvalue = \"100 B\"\ncount = 2000\nnumjobs = 2\n\
         iodepth = 4\nscan_length = 20\n\
         shares = {{ store = 1, retrieve = 3, delete = 1, exist = 1, scan = 0.5, modify = 1 }}\n"
    ));
    assert_eq!(summary.verification.mismatches, 0, "{:?}", summary.notes);
    assert!(summary.errors.is_empty(), "{:?}", summary.errors);
    assert_eq!((summary.ios, row(&summary, "read", "retrieve").missing), (5000, 0));
    assert_eq!(row(&summary, "load", "store").figures.ios, 2000);
    let scan = row(&summary, "mix", "scan");
    assert!(scan.pairs > 10 * scan.figures.ios, "{scan:?}");
    // A third of the keys were never loaded.
    let retrieve = row(&summary, "mix", "retrieve");
    assert!((0.2..0.6).contains(&(retrieve.missing as f64 / retrieve.figures.ios as f64)), "{retrieve:?}");
    assert!(summary.spans.iter().map(|span| span.mean_ns).sum::<f64>() > 0.0);
}

// With one value in each 4 KiB a page of 16 KiB has four; packed, hundreds: BandSlim's point.
#[test]
fn packing_saves_pages() {
    let pages = |packing: &str| {
        let summary = run(&format!(
            "{DRIVE}[drive.override.kv]\npacking = \"{packing}\"\n[transfer]\nmethod = \"adaptive\"\nfine = \"piggyback\"\n\
             threshold = \"128 B\"\n[[kv]]\nworkload = \"w-m\"\ncount = 5000\n"
        ));
        assert_eq!((summary.ios, summary.errors.len()), (5000, 0), "{:?}", summary.errors);
        assert_eq!(store(&summary).values_stored, 5000);
        assert_eq!(store(&summary).packing, packing);
        store(&summary).log_pages
    };
    let [none, all, selective, backfill] = ["none", "all", "selective", "backfill"].map(pages);
    assert!((1200..=1250).contains(&none), "{none}");
    assert!(all * 50 < none, "{all} of {none}");
    assert!(all <= backfill && backfill <= selective && selective < none, "{all} {backfill} {selective}");
}

// The same seed and scenario give the same bytes, and another seed does not.
#[test]
fn a_run_repeats_itself() {
    let text = |seed: u32| {
        let job =
            "workload = \"mixgraph-prefix-dist\"\nkeys = 500\ncount = 1500\niodepth = 16\nnumjobs = 2\n";
        run(&format!("seed = {seed}\n{DRIVE}[[kv]]\n{job}")).to_json()
    };
    assert_eq!(text(1), text(1));
    assert_ne!(text(1), text(2));
}

/// A file of the real traces, if they are here: `BYTEWAY_TRACES`, or `../shared/traces` beside the repository.
fn real(path: &str) -> Option<std::path::PathBuf> {
    let beside = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
    let folder = std::env::var_os("BYTEWAY_TRACES").map_or(beside, Into::into);
    let file = folder.join(path);
    if !file.exists() {
        eprintln!("not tested: {} is not here", file.display());
        return None;
    }
    Some(file)
}

// Parameter files and traces that nobody here wrote: what is read wrong of them runs as another workload.
#[test]
fn real_parameters_and_traces_run() {
    for workload in ["a", "b", "c", "d", "e", "f"] {
        let Some(file) = real(&format!("kv/ycsb/workload{workload}")) else { return };
        let file = file.display();
        let summary = run(&format!(
            "{DRIVE}[[kv]]\nname = \"load\"\nworkload = \"ycsb-load\"\nfile = \"{file}\"\niodepth = 16\n\
             [[kv]]\nname = \"run\"\nstonewall = true\nworkload = \"ycsb\"\nfile = \"{file}\"\niodepth = 4\n"
        ));
        assert_eq!(summary.verification.mismatches, 0, "{workload}: {:?}", summary.notes);
        assert!(summary.errors.is_empty(), "{workload}: {:?}", summary.errors);
        assert_eq!(summary.ios, 2000, "{workload}");
        let rows = &kv(&summary).operations;
        assert_eq!(rows.iter().map(|row| row.missing).sum::<u64>(), 0, "{workload}: {rows:#?}");
    }
    let Some(trace) = real("kv/cachelib/kv_traces_1.csv") else { return };
    let summary = run(&format!("{DRIVE}[[kv]]\nworkload = \"trace\"\nfile = \"{}\"\n", trace.display()));
    assert!(summary.errors.is_empty() && summary.ios >= 99, "{:?}", summary.errors);
    let Some(sizes) = real("kv/cachelib-distributions/kvcache_reg/sizes.json") else { return };
    let popularity = sizes.with_file_name("pop.json");
    let summary = run(&format!(
        "{DRIVE}[[kv]]\nworkload = \"cachelib\"\nsizes = \"{}\"\npopularity = \"{}\"\nkeys = 5000\ncount = 2000\niodepth = 8\n\
         shares = {{ store = 0.3, retrieve = 0.7 }}\n",
        sizes.display(),
        popularity.display()
    ));
    assert!(summary.errors.is_empty() && summary.verification.mismatches == 0, "{:?}", summary.errors);
}
