//! Key-value workloads on a simulated drive, from scenario to summary.

use crate::common::{real, run, scenario};
use byteway_results::RunResult;
use byteway_results::figures::{Figures, Metric};
use byteway_results::summary::{KvStoreSummary, KvSummary, OperationRow, Summary};
use byteway_run::run::{Session, run as run_scenario};
use byteway_text::interrupt::Interrupt;
use byteway_text::progress::Progress;

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

// Minimum requirement of a key-value drive: stored values are returned byte by byte, and deleted ones are gone.
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

// With one value per 4 KiB a page of 16 KiB has four; packed, hundreds: the point of BandSlim.
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
        // Comparisons need these figures to show the effect of packing.
        let (pages, all) = (store(&summary).log_pages, store(&summary).log_pages_all() as f64);
        let index = store(&summary).index_pages() as f64;
        let figures = Figures::of(&RunResult { summary, curves: Vec::new() });
        let found = [Metric::LogPages, Metric::IndexPages].map(|metric| figures.get(metric));
        assert_eq!(found, [Some(all), Some(index)]);
        pages
    };
    let [none, all, selective, backfill] = ["none", "all", "selective", "backfill"].map(pages);
    assert!((1200..=1250).contains(&none), "{none}");
    assert!(all * 50 < none, "{all} of {none}");
    assert!(all <= backfill && backfill <= selective && selective < none, "{all} {backfill} {selective}");
}

// Commit records must have the same effect on the store as commands, and differ as intended: without a command there is no entry, no
// doorbell and no completion on the link, and less work in the drive. The price must not be a page on the wire for each poll.
#[test]
fn records_take_the_place_of_commands() {
    let put = |method: &str, depth: u32| {
        let summary = run(&format!(
            "[drive]\nprofile = \"bandslim-gen5x8\"\npersonality = \"kv\"\ncapacity = \"1 GiB\"\noverride.cxl.records = 32\noverride.cxl.poll = \"200 ns\"\n\
             [host]\nprofile = \"cosmos\"\n[transfer]\nmethod = \"{method}\"\nordering = \"checksum\"\n\
             [[kv]]\nname = \"put\"\nworkload = \"w-a\"\nvalue = \"64 B\"\ncount = 2000\niodepth = {depth}\n\
             [[kv]]\nname = \"read\"\nstonewall = true\nworkload = \"readrandom\"\nkeys = 2000\ncount = 500\nkey_bytes = 4\n"
        ));
        assert_eq!((summary.errors.len(), summary.verification.mismatches), (0, 0), "{:?}", summary.errors);
        assert_eq!(store(&summary).values_stored, 2000);
        assert_eq!(row(&summary, "read", "retrieve").missing, 0, "{method}");
        summary
    };
    let mean = |summary: &Summary| row(summary, "put", "store").figures.latency.mean_ns;
    let crossed = |summary: &Summary, purpose: &str| -> u64 {
        summary.link.iter().filter(|row| row.purpose == purpose).map(|row| row.payload_bytes).sum()
    };
    for depth in [1, 32, 40] {
        let (command, record) = (put("cxl-mem", depth), put("cxl-commit", depth));
        let way =
            |summary: &Summary| summary.transfer.as_ref().map(|way| (way.ways[0].payloads, way.fallbacks));
        assert_eq!((way(&command), way(&record)), (Some((2000, 0)), Some((2000, 0))), "depth {depth}");
        let fetched = |summary: &Summary| crossed(summary, "SQE fetch") / 64;
        assert!(fetched(&command) - fetched(&record) >= 1990, "depth {depth}: {}", fetched(&record));
        assert_eq!(crossed(&record, "CXL.mem") - crossed(&command, "CXL.mem"), 2000 * 68, "a line more");
        let commits = store(&record).commits.expect("the drive has a ring");
        assert_eq!(commits.records, 2000);
        // Polls by time, five per microsecond, and after each record; fewer while the drive is busy with one.
        let elapsed_us = (record.elapsed_ns / 1e3) as u64;
        assert!(
            (2000..5 * elapsed_us + 4001).contains(&commits.looks),
            "{} in {elapsed_us} us",
            commits.looks
        );
        assert!(mean(&record) < mean(&command), "depth {depth}: {} {}", mean(&record), mean(&command));
        assert_eq!(store(&command).commits.map(|commits| commits.records), Some(0));
    }
    assert_eq!(put("cxl-commit", 8).to_json(), put("cxl-commit", 8).to_json());
}

/// Jobs on an LSM tree on the host, on a block drive.
fn on_a_tree(seed: u32, sync: bool) -> Summary {
    run(&format!(
        "seed = {seed}\n[drive]\nprofile = \"cosmos-plus\"\ncapacity = \"1 GiB\"\n[host]\nprofile = \"cosmos\"\n\
         [[kv]]\nname = \"load\"\nengine = \"leveldb\"\nsync = {sync}\nworkload = \"filluniquerandom\"\nkeys = 6000\n\
         value = \"2 KiB\"\n\
         [[kv]]\nname = \"mix\"\nengine = \"leveldb\"\nsync = {sync}\nstonewall = true\nworkload = \"mixed\"\nkeys = 9000\n\
         value = \"100 B\"\ncount = 2000\nscan_length = 20\n\
         shares = {{ store = 1, retrieve = 3, delete = 1, exist = 1, scan = 0.5, modify = 1 }}\n"
    ))
}

// The tree is the baseline for key-value drives: it must keep all data, read its tables from the drive, and the two threads must not affect
// the result.
#[test]
fn a_tree_on_the_host_keeps_pairs_on_a_drive_of_blocks() {
    let summary = on_a_tree(1, false);
    assert_eq!((summary.verification.mismatches, summary.errors.len()), (0, 0), "{:?}", summary.errors);
    assert_eq!(summary.ios, 8000);
    assert_eq!(kv(&summary).store, None, "the drive has no store of pairs");
    let retrieve = row(&summary, "mix", "retrieve");
    assert!((0.2..0.6).contains(&(retrieve.missing as f64 / retrieve.figures.ios as f64)), "{retrieve:?}");
    // Three memtables were flushed and merged, besides the log of 12 MB.
    let written = summary.flash.as_ref().map_or(0, |flash| flash.host_programs);
    assert!(written > 2 * 12_000_000 / 16384, "{written} pages");
    assert_eq!(on_a_tree(1, false).to_json(), summary.to_json());
    let synced = on_a_tree(1, true);
    let mean = |summary: &Summary| row(summary, "load", "store").figures.latency.mean_ns;
    assert!(mean(&synced) > 2.0 * mean(&summary), "{} {}", mean(&synced), mean(&summary));
}

// A tree that continues after a failed write is inconsistent: LevelDB's panics.
#[test]
fn a_tree_without_room_ends_the_run() {
    let text = "[drive]\nprofile = \"cosmos-plus\"\ncapacity = \"1 GiB\"\nnamespaces = 8\n[host]\nprofile = \"cosmos\"\n\
                [[kv]]\nengine = \"leveldb\"\nsync = false\nworkload = \"fillrandom\"\nvalue = \"100 KiB\"\ncount = 5000\n";
    let mut progress = Progress::hidden();
    let session = Session { progress: &mut progress, interrupt: &Interrupt::default() };
    let Err(error) = run_scenario(&scenario(text), session) else { panic!("128 MiB are too few") };
    assert!(error.to_string().contains("no storage space"), "{error}");
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

// Bulk stores must save bytes (BandSlim, Introduction), lose nothing in a run that ends normally, and report the potential loss in a crash
// of the host: with a batch of n, n - 1 pairs, since the store that fills the batch waits until it is sent.
#[test]
fn gathered_stores_save_bytes_and_have_a_loss_window() {
    let put = |bulk: &str| {
        let summary = run(&format!(
            "{DRIVE}[[kv]]\nname = \"put\"\nworkload = \"w-m\"\ncount = 3001\n{bulk}\
             [[kv]]\nname = \"read\"\nstonewall = true\nworkload = \"readrandom\"\norder = \"scattered\"\nkeys = 3001\ncount = 1500\nkey_bytes = 4\niodepth = 8\n"
        ));
        assert_eq!((summary.errors.len(), summary.verification.mismatches), (0, 0), "{:?}", summary.errors);
        assert_eq!(row(&summary, "put", "store").figures.ios, 3001);
        assert_eq!(store(&summary).values_stored, 3001);
        summary
    };
    let to_device = |summary: &Summary| -> u64 {
        let rows = summary.link.iter().filter(|row| row.direction == "to device");
        rows.map(|row| row.payload_bytes).sum()
    };
    let mean = |summary: &Summary| row(summary, "put", "store").figures.latency.mean_ns;
    // W(M)'s keys are all distinct, so every pair exists, however it was sent.
    let missing = |summary: &Summary| row(summary, "read", "retrieve").missing;
    let each = put("");
    assert_eq!(missing(&each), 0);
    assert!(kv(&each).bulk.is_empty());
    let mut last = (to_device(&each), mean(&each));
    for pairs in [4, 64] {
        let summary = put(&format!("bulk_pairs = {pairs}\n"));
        let [bulk] = &kv(&summary).bulk[..] else { panic!("one job gathers") };
        assert_eq!((bulk.job.as_str(), bulk.batches, bulk.lost), ("put", 3001_u64.div_ceil(pairs), 0));
        assert_eq!((bulk.loss_pairs_max, missing(&summary)), (pairs - 1, missing(&each)));
        assert!(bulk.loss_pairs_mean > 0.1 && bulk.loss_pairs_mean < (pairs - 1) as f64, "{bulk:?}");
        assert!(bulk.loss_bytes_max >= 4 * bulk.loss_pairs_max && bulk.loss_time_max_ns > 0.0, "{bulk:?}");
        // Whole pages, most of which the collected stores fill.
        let now = (to_device(&summary), mean(&summary));
        assert!(now.0 * 3 < last.0 && now.1 < last.1, "{pairs} pairs: {now:?} after {last:?}");
        last = now;
    }
    let summary = put("bulk_bytes = \"4 KiB\"\niodepth = 3\n");
    let bulk = &kv(&summary).bulk[0];
    assert_eq!(missing(&summary), missing(&each));
    assert!(bulk.loss_bytes_max < 3 * 4096 && bulk.loss_pairs_max > 63, "{bulk:?}");
    assert!(summary.to_tables().contains("lost if the host crashes"));
}

// Parameter files and traces of others: a misread field would run another workload.
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

// Both kinds on one drive concurrently must not interfere.
#[test]
fn blocks_and_pairs_are_asked_for_at_once() {
    let summary = run(
        "[drive]\nprofile = \"cosmos-plus\"\ncapacity = \"1 GiB\"\nkv_capacity = \"256 MiB\"\n[host]\nprofile = \"cosmos\"\n\
         [[job]]\nrw = \"randrw\"\ncount = 2000\niodepth = 8\n\
         [[kv]]\nworkload = \"mixed\"\nkeys = 500\nvalue = \"300 B\"\ncount = 2000\niodepth = 8\n\
         shares = { store = 3, retrieve = 3, delete = 1 }\n",
    );
    assert_eq!(summary.verification.mismatches, 0, "{:?}", summary.notes);
    assert!(summary.errors.is_empty(), "{:?}", summary.errors);
    assert_eq!(summary.ios, 4000);
    assert_eq!(row(&summary, "kv0", "store").figures.ios, store(&summary).values_stored);
}
