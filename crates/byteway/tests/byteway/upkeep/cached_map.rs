//! Random reads on a drive whose map cache holds a share of the map.
//!
//! 10 GiB are 2560 translation pages of 1024 units of 4 KiB. With uniform reads every page is equally likely to be needed next, independent
//! of the cache's content: the miss ratio is 1 - s once it is full.

use crate::common::{assert_within, reads, round, run};
use byteway_results::summary::{MapCacheSummary, Summary};

/// Translation pages of the drive.
const PAGES: u64 = 2560;

/// Serial reads of 4 KiB. The cache of 90 % is full after some 6000; the first 20,000 are not measured.
fn random_reads(map_cache: &str, depth: u32) -> Summary {
    run(&random_reads_text(map_cache, depth))
}

fn random_reads_text(map_cache: &str, depth: u32) -> String {
    let drive = format!("capacity = \"10 GiB\"\n{map_cache}");
    let job =
        format!("[[job]]\nrw = \"randread\"\niodepth = {depth}\ncount = 60000\n[measure]\nwarmup = 20000");
    round(&drive, &job)
}

fn cached(pages: u64, depth: u32) -> (Summary, MapCacheSummary) {
    let summary = random_reads(&format!("override.firmware.map_cache = \"{} KiB\"", pages * 4), depth);
    let upkeep = summary.upkeep.as_ref().expect("the drive has a cached map");
    let cache = upkeep.map_cache.expect("it is told");
    (summary, cache)
}

// Users size a drive's DRAM by the miss ratio and the latency, so both must be correct.
#[test]
fn the_miss_ratio_is_what_the_cache_does_not_hold() {
    let whole = random_reads("", 1);
    assert_eq!(whole.upkeep, None, "a drive with its whole map in DRAM has no cache to tell of");
    let without_ns = reads(&whole).latency.mean_ns;
    // A translation page is a separate unit, without contention: command, sense, 4096 B at 1 GB/s.
    let flash_read_ns = 200.0 + 40_000.0 + 4096.0;
    for percent in [10, 25, 50, 90] {
        let (summary, cache) = cached(PAGES * percent / 100, 1);
        let missed = 1.0 - percent as f64 / 100.0;
        assert_eq!(cache.pages, PAGES * percent / 100);
        // One lookup per read. At most one is in flight at each end of the measurement.
        assert!((cache.hits + cache.misses).abs_diff(40_000) <= 1, "{cache:?}");
        assert!((cache.miss_ratio - missed).abs() < 0.015, "{cache:?} for {percent} % of the map");
        assert_eq!(cache.dirty_evictions, 0, "nothing was changed");
        // By hand: each miss is one additional flash read, which at depth 1 waits for nothing. The ratio is known to one lookup in 40,000,
        // which is 1.1 ns; the mean is rounded to a thousandth of one.
        let expected = without_ns + cache.miss_ratio * flash_read_ns;
        assert!((reads(&summary).latency.mean_ns - expected).abs() < 2.5, "{summary:?} and not {expected}");
        // And from the cache's share, within the deviation of 40,000 draws.
        let expected = without_ns + missed * flash_read_ns;
        assert_within(2.0, reads(&summary).latency.mean_ns, expected, "by the share alone");
    }
}

// Concurrent reads may need the same page, which must be read once.
#[test]
fn at_depth_misses_are_those_of_the_share_too() {
    let (_, cache) = cached(PAGES / 4, 32);
    assert!((cache.miss_ratio - 0.75).abs() < 0.015, "{cache:?}");
    // A cache that holds everything misses each page once.
    let (_, all) = cached(PAGES, 1);
    assert!(all.miss_ratio < 0.001, "{all:?}");
}

// Overwrites change the map: dirty pages are written to flash, which adds to write amplification.
#[test]
fn changed_pages_are_written_and_told() {
    let drive = "override.firmware.map_cache = \"64 KiB\"";
    let job = "[[job]]\nrw = \"randwrite\"\niodepth = 16\ncount = 20000\n[measure]\nwarmup = 2000";
    let summary = run(&round(drive, job));
    let upkeep = summary.upkeep.as_ref().expect("the drive has a cached map");
    let cache = upkeep.map_cache.expect("it is told");
    // 16 of 256 pages are in DRAM.
    assert!((cache.miss_ratio - 240.0 / 256.0).abs() < 0.03, "{cache:?}");
    assert!(cache.dirty_evictions > 0, "{cache:?}");
    let part =
        |cause: &str| upkeep.programmed.iter().find(|row| row.cause == cause).map_or(0, |row| row.units);
    assert!(part("map") > 0 && part("host") > 0, "{upkeep:?}");
    let parts: f64 = upkeep.programmed.iter().map(|row| row.per_unit_written).sum();
    assert_within(
        0.01,
        parts,
        summary.write_amplification.expect("the host wrote"),
        "the parts and the whole",
    );
}

// The cost of a drive without DRAM, and the saving by host memory: if a copy were free, or included a flash read, such a drive would look
// like one with DRAM, or like one without a host memory buffer.
#[test]
fn copies_in_the_hosts_memory_take_a_page_over_the_link() {
    let keys = "override.firmware.map_cache = \"40 KiB\"\noverride.firmware.host_buffer = \"10 MiB\"";
    let (alone, lent) = (random_reads("override.firmware.map_cache = \"40 KiB\"", 1), random_reads(keys, 1));
    let cache = |summary: &Summary| summary.upkeep.as_ref().unwrap().map_cache.unwrap();
    assert_eq!(cache(&alone).from_host, None, "it asks for nothing");
    let from_host = cache(&lent).from_host.unwrap();
    // After 20,000 reads of 2560 pages every page has a copy, except one in 2500.
    assert!(from_host.abs_diff(cache(&lent).misses) < 60, "{:?}", cache(&lent));
    // Each miss transfers a page over the link instead of reading it from flash; its wait for packets counts as link time.
    let rows = |summary: &Summary, direction: &str| {
        let row = summary.link.iter().find(|row| row.purpose == "host buffer" && row.direction == direction);
        row.map_or(0, |row| row.payload_bytes)
    };
    let loaded = rows(&lent, "to device");
    assert!(loaded.abs_diff(from_host * 4096) <= 4096 + 16, "{loaded} bytes for {from_host} pages");
    assert_eq!(rows(&alone, "to device") + rows(&alone, "to host"), 0);
    let saved = reads(&alone).latency.mean_ns - reads(&lent).latency.mean_ns;
    let flash_read_ns = 200.0 + 40_000.0 + 4096.0;
    let load_ns = flash_read_ns - saved / cache(&lent).miss_ratio;
    assert!((500.0..8000.0).contains(&load_ns), "a page over the link takes {load_ns} ns");
    // A host that provides no memory leaves the drive unchanged.
    let refused = run(&random_reads_text(keys, 1).replace("[host]", "[host]\nlends = \"0 B\""));
    assert_eq!(reads(&refused).latency, reads(&alone).latency);
    assert_eq!(cache(&refused).from_host, Some(0));
}
