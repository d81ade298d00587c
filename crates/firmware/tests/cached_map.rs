//! The cached map: hits and misses, the cost of a miss, the pages written for it, and absence of deadlock.
//! Contents are checked in `read_your_writes`.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail as the test does")]

use crate::map_fixture::{FLASH_READ, PAGE, SMALL, TRANSLATION, at_depth, config, mixed, timing};
use byteway_clock::random::Rng;
use byteway_clock::{Clock, Delay, Executor, Rate, SpanId, Spans, Stage, Time};
use byteway_content::Content;
use byteway_firmware::{Base, Cycles, Ftl, FtlConfig, FtlCounters, Placement, Route, Site, WorkKind};
use byteway_flash::{Fault, FaultKind, FaultPlan, Geometry, Ppa};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::rc::Rc;

fn ftl(clock: &Clock, geometry: Geometry, config: FtlConfig) -> Ftl {
    let site = Site::new(clock, 1, 1_000_000_000, Delay::from_ns(80), Rate::per_second(10_000_000_000));
    let placement = Placement::all_at(&site, Cycles::FREE.with(WorkKind::Translate, 100));
    Ftl::new(clock, placement, geometry, timing(), config).unwrap()
}

/// Runs `host` on a new drive. Returns the counters and the end time.
fn run<F: Future<Output = ()> + 'static>(
    geometry: Geometry,
    config: FtlConfig,
    host: impl FnOnce(Clock, Ftl) -> F + 'static,
) -> (FtlCounters, Time) {
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let ftl = ftl(&clock, geometry, config);
    let then = ftl.clone();
    executor.run(host(clock.clone(), ftl)).unwrap();
    then.stop();
    (then.counters(), clock.now())
}

async fn read(ftl: &Ftl, first: u64, count: u32) {
    ftl.read(SpanId::NONE, &Spans::default(), first, count, &mut Vec::new()).await.unwrap();
}

async fn write(ftl: &Ftl, unit: u64) {
    let mut contents = vec![Content::Zero];
    ftl.write(SpanId::NONE, &Spans::default(), unit, &mut contents, false).await.unwrap();
}

async fn flush(ftl: &Ftl) {
    ftl.flush(SpanId::NONE, &Spans::default()).await.unwrap();
}

/// Hits, misses, and look-ups served by another's read.
fn looks(counters: &FtlCounters) -> [u64; 3] {
    [counters.map_hits, counters.map_misses, counters.map_misses_shared]
}

// The cache's main figure: of uniform random reads, the fraction of uncached pages misses, and each miss
// takes one flash read longer. A cache that looked up units instead of pages, or lost some, would be off.
#[test]
fn random_reads_miss_as_often_as_pages_are_not_in_dram() {
    let geometry = Geometry { channels: 4, ways: 2, blocks: 160, pages: 128, ..SMALL };
    let user_units = 512 * PAGE;
    for base in [Base::Filled, Base::Steady] {
        for (pages, depth) in [(26, 1), (128, 1), (256, 1), (256, 16), (480, 1), (512, 4)] {
            let config = FtlConfig { user_units, base, ..config(pages) };
            let reads = 20_000 / depth;
            // After a first pass that fills the cache.
            let taken = Rc::new(Cell::new((FtlCounters::default(), Delay::ZERO)));
            let result = taken.clone();
            let (counters, _) = run(geometry, config, move |clock, ftl| async move {
                for page in 0..512 {
                    read(&ftl, page * PAGE, 1).await;
                }
                let (then, began) = (ftl.counters(), clock.now());
                at_depth(&clock, depth, |number| {
                    let mut stream = Rng::new(7).stream(&format!("host-{number}"));
                    let (ftl, clock, result) = (ftl.clone(), clock.clone(), result.clone());
                    async move {
                        for _ in 0..reads {
                            read(&ftl, stream.below(user_units), 1).await;
                        }
                        result.set((then, clock.now().since(began)));
                    }
                })
                .await;
            });
            let (then, took) = taken.get();
            let [hits, misses, shared] =
                std::array::from_fn(|look| looks(&counters)[look] - looks(&then)[look]);
            assert_eq!(hits + misses + shared, u64::from(reads * depth));
            // Look-ups that share a read find a frame already allocated for the page.
            let ratio = misses as f64 / (hits + misses + shared) as f64;
            let expected = 1.0 - f64::from(pages) / 512.0;
            println!("{base:?}, {pages} of 512 pages, depth {depth}: {ratio:.4}, expected {expected:.4}");
            assert!((ratio - expected).abs() < 0.015, "{ratio} against {expected}");
            assert_eq!(counters.map_reads - then.map_reads, misses, "all pages are on flash");
            if depth == 1 {
                // Alone, no task waits for a die: to the picosecond.
                let expected = (TRANSLATION.0 + FLASH_READ.0) * u64::from(reads) + FLASH_READ.0 * misses;
                assert_eq!(took, Delay(expected));
            }
        }
    }
}

// The least recently used page is evicted, not the oldest one, and not a random one.
#[test]
fn the_page_used_least_recently_makes_room() {
    for (pages, sequence, expected) in [
        (3, &[0, 1, 2, 0, 3, 1, 0, 2][..], "mmmhmmhm"),
        (3, &[0, 1, 2, 0, 3, 0, 2, 1], "mmmhmhhm"),
        (1, &[0, 0, 1, 0, 0, 2, 2], "mhmmhmh"),
        (2, &[0, 1, 0, 1, 2, 1, 0], "mmhhmhm"),
    ] {
        run(SMALL, config(pages), move |_, ftl| async move {
            let mut seen = String::new();
            for page in sequence {
                let misses = ftl.counters().map_misses;
                read(&ftl, page * PAGE + 7, 1).await;
                seen.push(if ftl.counters().map_misses > misses { 'm' } else { 'h' });
            }
            assert_eq!(seen, expected, "{pages} pages, {sequence:?}");
        });
    }
}

// A cached map writes a translation page for about every write of the host. With the bytes of each until its
// superblock was erased, a million writes took 4 GB.
#[test]
fn memory_holds_the_bytes_of_pages_that_count_and_of_no_earlier_ones() {
    let geometry = Geometry { blocks: 512, ..SMALL };
    let (counters, _) = run(geometry, config(2), move |_, ftl| async move {
        let mut stream = Rng::new(11).stream("host");
        for _ in 0..3000 {
            write(&ftl, stream.below(ftl.user_units())).await;
        }
        flush(&ftl).await;
        let kept = (0..geometry.total_units()).map(|unit| ftl.flash().content(Ppa(unit)));
        let kept = kept.filter(|content| matches!(content, Content::Bytes(_))).count() as u64;
        // Those that were superseded last wait for reads in flight, or for a version that reflects more.
        let most = u64::from(ftl.map_pages()) + 16;
        assert!(kept <= most, "{kept} pages are kept as bytes, of {}", ftl.map_pages());
        assert!(kept >= 4, "the pages that count are there");
    });
    assert!(counters.map_evictions_dirty > 1000, "{}", counters.map_evictions_dirty);
}

// Computed by hand: two frames, two dirty pages, evicted one after the other. A dirty page that was dropped
// would be lost with the power; one written while clean, or twice, would wear the flash for nothing.
#[test]
fn dirty_pages_are_written_when_they_make_room() {
    let (counters, _) = run(SMALL, config(2), |_, ftl| async move {
        write(&ftl, 0).await; // page 0 is read
        flush(&ftl).await; // and dirty when its unit is programmed, with three units of padding
        write(&ftl, PAGE).await; // so is page 1
        flush(&ftl).await;
        read(&ftl, 5, 1).await; // a hit: page 1 is now the one to go
        assert_eq!((looks(&ftl.counters()), ftl.counters().map_evictions_dirty), ([1, 2, 0], 0));
        read(&ftl, 2 * PAGE, 1).await; // page 1 goes
        assert_eq!((ftl.counters().map_evictions_dirty, ftl.units_buffered()), (1, 1));
        read(&ftl, 3 * PAGE, 1).await; // page 0 goes
        assert_eq!((ftl.counters().map_evictions_dirty, ftl.units_buffered()), (2, 2));
        assert_eq!(ftl.counters().map_reads, 4);
        read(&ftl, PAGE + 1, 1).await; // page 1 is still in the buffer: a miss, without a read; page 2 is clean
        assert_eq!((looks(&ftl.counters()), ftl.counters().map_reads), ([1, 5, 0], 4));
        flush(&ftl).await; // both are programmed, with two units of padding
        assert_eq!((ftl.counters().units_programmed_map, ftl.units_buffered()), (2, 0));
        read(&ftl, 1, 1).await; // page 0 is read from its new place
        assert_eq!((looks(&ftl.counters()), ftl.counters().map_reads), ([1, 6, 0], 5));
    });
    assert_eq!((counters.map_evictions_dirty, counters.map_updates), (2, 0));
    assert_eq!((counters.units_programmed_host, counters.units_programmed_map), (2, 2));
    assert_eq!(counters.units_programmed_padding, 3 + 3 + 2);
    assert!((counters.write_amplification() - 12.0 / 2.0).abs() < 1e-9, "map pages are written, too");
}

// Commands that need one page at once must read it once: otherwise a cold page of a busy namespace is read a
// thousand times.
#[test]
fn misses_of_one_page_share_a_read() {
    let ended = Rc::new(RefCell::new(Vec::new()));
    let ends = ended.clone();
    let (counters, _) = run(SMALL, config(2), move |clock, ftl| async move {
        at_depth(&clock, 10, |number| {
            let (ftl, clock, ends) = (ftl.clone(), clock.clone(), ends.clone());
            async move {
                // Each has a die and a page of its own of user data, except for the queue at the die.
                read(&ftl, u64::from(number), 1).await;
                ends.borrow_mut().push(clock.now().0);
            }
        })
        .await;
        read(&ftl, 500, 1).await;
    });
    assert_eq!((looks(&counters), counters.map_reads), ([1, 1, 9], 1));
    let first = TRANSLATION + FLASH_READ + FLASH_READ;
    assert_eq!(ended.borrow().iter().min(), Some(&first.0));
}

// A command that is dropped while it reads a page must neither keep its frame nor leave others waiting.
#[test]
fn a_cancelled_waiter_releases_its_place() {
    for pages in [1, 2] {
        let (counters, _) = run(SMALL, config(pages), |clock, ftl| async move {
            for round in 0..3 {
                let then = ftl.clone();
                let first = clock.spawn("dropped", async move { read(&then, 0, 1).await });
                let then = ftl.clone();
                let other = clock.spawn("dropped", async move { read(&then, PAGE, 1).await });
                let (timer, ended) = (clock.clone(), Rc::new(Cell::new(false)));
                let (then, end) = (ftl.clone(), ended.clone());
                clock.spawn("waits", async move {
                    timer.sleep(Delay::from_us(1)).await;
                    read(&then, 1, 1).await;
                    end.set(true);
                });
                clock.sleep(Delay::from_us(10 + round)).await;
                clock.kill(first);
                clock.kill(other);
                clock.sleep(Delay::from_ms(1)).await;
                assert!(ended.get());
                read(&ftl, 5 * PAGE, 1).await;
                read(&ftl, 6 * PAGE, 1).await;
            }
        });
        assert_eq!(counters.units_read_unmapped, 0);
    }
}

// One look-up a page, not a unit: the map of a sequential stream is read once for 4 MiB. And a command over
// more pages than the cache has frames must end.
#[test]
fn a_command_looks_each_page_up_once() {
    let (counters, _) = run(SMALL, config(2), |_, ftl| async move {
        read(&ftl, 10, 1000).await;
        assert_eq!(looks(&ftl.counters()), [0, 1, 0]);
        read(&ftl, 1000, 48).await;
        assert_eq!(looks(&ftl.counters()), [1, 2, 0]);
        let mut contents = vec![Content::Zero; 2 * PAGE as usize];
        ftl.write(SpanId::NONE, &Spans::default(), 512, &mut contents, false).await.unwrap();
        assert_eq!(looks(&ftl.counters()), [3, 3, 0]);
    });
    assert_eq!(counters.map_reads, 3);
    let (counters, _) = run(SMALL, config(1), |_, ftl| async move {
        read(&ftl, 0, ftl.user_units() as u32).await;
    });
    assert_eq!((looks(&counters), counters.map_reads), ([0, 8, 0], 8));
}

// An empty drive has no translation pages to read: the directory says so. They are created when first
// written.
#[test]
fn pages_in_which_nothing_is_mapped_cost_nothing() {
    let empty = FtlConfig { base: Base::Empty, ..config(1) };
    let (counters, _) = run(SMALL, empty, |clock, ftl| async move {
        let began = clock.now();
        for page in 0..7 {
            read(&ftl, page * PAGE, 1).await;
        }
        assert_eq!(clock.now().since(began), Delay(7 * TRANSLATION.0));
        assert_eq!((looks(&ftl.counters()), ftl.map_pages_in_flash()), ([7, 0, 0], 0));
        write(&ftl, 0).await;
        flush(&ftl).await;
        write(&ftl, PAGE).await; // page 0 goes, and has now a place
        flush(&ftl).await;
        assert_eq!((ftl.counters().map_reads, ftl.map_pages_in_flash()), (0, 1));
        write(&ftl, 1).await; // so that it must be read
        read(&ftl, 2, 1).await;
        assert_eq!(ftl.counters().map_reads, 1);
    });
    assert_eq!(looks(&counters), [8, 3, 0]);
}

// Deallocating part of a page needs the rest of it; deallocating all of it does not.
#[test]
fn only_pages_of_which_something_stays_are_read_to_deallocate() {
    let (counters, _) = run(SMALL, config(4), |_, ftl| async move {
        let (spans, span) = (Spans::default(), SpanId::NONE);
        ftl.trim(span, &spans, 100, 10).await.unwrap();
        assert_eq!(ftl.counters().map_reads, 1, "one page in part");
        ftl.trim(span, &spans, PAGE, 2 * PAGE).await.unwrap();
        assert_eq!(ftl.counters().map_reads, 1, "two as wholes");
        ftl.trim(span, &spans, PAGE / 2, 3 * PAGE).await.unwrap();
        assert_eq!(
            ftl.counters().map_reads,
            2,
            "the first is there, the last is not, what is between is whole"
        );
        ftl.trim(span, &spans, 7 * PAGE, PAGE / 8).await.unwrap();
        assert_eq!(ftl.counters().map_reads, 2, "the last one of the drive is short, and whole");
        read(&ftl, PAGE, 1).await;
        assert_eq!(
            (ftl.counters().map_reads, ftl.counters().units_read_unmapped),
            (2, 1),
            "nothing is in it"
        );
        write(&ftl, PAGE).await;
        flush(&ftl).await;
        assert_eq!(ftl.counters().map_reads, 2, "nor must it be read to be written");
        ftl.trim(span, &spans, 0, ftl.user_units()).await.unwrap();
        assert_eq!(ftl.counters().map_reads, 2);
    });
    assert_eq!(counters.units_programmed_map, 0, "no page had to be evicted");
}

// Pages in DRAM that is given up are dropped if clean, and written if dirty; later look-ups read them. Added
// DRAM is used.
#[test]
fn dirty_pages_are_written_before_their_places_are_given_up() {
    let lending = FtlConfig { map_segment_pages: 2, ..config(5) };
    let (counters, _) = run(SMALL, lending, |clock, ftl| async move {
        for page in 0..3 {
            write(&ftl, page * PAGE).await;
        }
        flush(&ftl).await;
        read(&ftl, 3 * PAGE, 1).await;
        read(&ftl, 4 * PAGE, 1).await;
        assert_eq!((ftl.map_frames(), ftl.map_pages_held(), ftl.counters().map_reads), (Some(5), 5, 5));
        let begin = clock.now();
        assert_eq!(ftl.give_up_map_segments(9).await, 2, "a place is left");
        assert_eq!(clock.now(), begin, "there is space in the buffer for all that is dirty");
        assert_eq!((ftl.map_frames(), ftl.map_pages_held()), (Some(1), 1));
        // Pages 1 to 4 had the frames: two of them are dirty.
        assert_eq!((ftl.counters().map_evictions_dirty, ftl.units_buffered()), (2, 2));
        read(&ftl, 0, 1).await;
        assert_eq!(ftl.counters().map_reads, 5, "it is still there");
        ftl.take_map_segments(1);
        for page in [3, 0, 3, 0] {
            read(&ftl, page * PAGE, 1).await;
        }
        assert_eq!((ftl.counters().map_reads, ftl.map_pages_held()), (6, 2), "each has a place");
    });
    assert_eq!(counters.map_evictions_dirty, 2);
    let (counters, _) = run(SMALL, FtlConfig { map_cache_pages: None, ..config(1) }, |_, ftl| async move {
        ftl.take_map_segments(3);
        assert_eq!((ftl.map_frames(), ftl.give_up_map_segments(3).await), (None, 0), "it is all in DRAM");
    });
    assert_eq!(counters.map_reads, 0);
}

// A unit whose page was evicted before it was programmed: the page in flash is outdated until it is read and
// written.
#[test]
fn pages_that_change_while_they_are_away_are_read_and_written() {
    let (counters, _) = run(SMALL, config(1), |clock, ftl| async move {
        write(&ftl, 0).await;
        read(&ftl, PAGE, 1).await; // page 0 goes, clean: its unit only waits
        assert_eq!((ftl.counters().map_evictions_dirty, ftl.units_buffered()), (0, 1));
        flush(&ftl).await;
        clock.sleep(Delay::from_ms(1)).await;
        assert_eq!((ftl.counters().map_updates, ftl.counters().map_reads), (0, 2), "one page may be away");
        write(&ftl, 2 * PAGE).await;
        read(&ftl, 3 * PAGE, 1).await;
        flush(&ftl).await;
        clock.sleep(Delay::from_ms(1)).await;
        // Page 0 was read once more, and waits to be programmed.
        assert_eq!((ftl.counters().map_updates, ftl.counters().map_reads), (1, 5));
        assert_eq!(ftl.units_buffered(), 1);
        // Page 2 is still away: a look-up gets it with its changes, dirty, and the next one has it written.
        read(&ftl, 2 * PAGE, 1).await;
        assert_eq!(ftl.counters().map_evictions_dirty, 0);
        read(&ftl, 3 * PAGE, 1).await;
    });
    assert_eq!((counters.map_evictions_dirty, counters.map_updates), (1, 1));
}

// A command waits for a frame, that for an eviction, that for a buffer slot, that for a program, that for a
// collector: with a cycle anywhere, or a lost notification, the drive stalls.
#[test]
fn nothing_stands_still_with_one_place_and_the_smallest_buffer() {
    for (seed, pages) in [(1, 1), (2, 1), (3, 2), (4, 3)] {
        for base in [Base::Filled, Base::Steady] {
            let config = FtlConfig { user_units: 7434, write_buffer_units: 0, base, seed, ..config(pages) };
            let (counters, _) = run(SMALL, config, move |clock, ftl| async move {
                at_depth(&clock, 64, |number| {
                    mixed(ftl.clone(), [Route::OWN], Rng::new(seed).stream(&format!("host-{number}")), 100)
                })
                .await;
                flush(&ftl).await;
                clock.sleep(Delay::from_ms(100)).await;
                let buffered = ftl.slots_free() + ftl.units_buffered();
                assert_eq!((buffered, ftl.units_locked()), (ftl.slots(), 0));
            });
            assert!(counters.blocks_collected > 100, "{counters:?}");
            assert!(counters.map_evictions_dirty > 100 && counters.map_misses_shared > 100, "{counters:?}");
        }
    }
}

// The flash's programs must equal the counters, map pages included: otherwise write amplification is
// meaningless. And a cache of the whole map writes none.
#[test]
fn write_amplification_counts_map_pages() {
    let geometry = Geometry { blocks: 160, pages: 128, ..SMALL };
    let overwrite = |map_cache_pages| {
        let user_units = FtlConfig::user_units_at(&geometry, 1, 0.28);
        let config = FtlConfig { user_units, base: Base::Steady, map_cache_pages, seed: 3, ..config(1) };
        let (counters, _) = run(geometry, config, move |clock, ftl| async move {
            let mut stream = Rng::new(5).stream("overwrite");
            for _ in 0..user_units {
                write(&ftl, stream.below(user_units)).await;
            }
            flush(&ftl).await;
            clock.sleep(Delay::from_s(1)).await; // the collectors come to rest
            let programmed: u64 = ftl.flash().counters().units_programmed.iter().sum();
            assert_eq!(ftl.counters().units_programmed(), programmed, "{:?}", ftl.counters());
        });
        counters
    };
    let (all, enough, few) = (overwrite(None), overwrite(Some(200)), overwrite(Some(4)));
    let amplification = [&all, &enough, &few].map(FtlCounters::write_amplification);
    println!("write amplification: {amplification:?}; {few:?}");
    assert_eq!((all.units_programmed_map, enough.units_programmed_map), (0, 0));
    assert!((amplification[1] / amplification[0] - 1.0).abs() < 0.02, "{amplification:?}");
    // Of 125 pages 4 are in DRAM: each write makes a page dirty, and so does each unit that garbage
    // collection moves.
    let pages = few.units_programmed_map as f64 / few.user_units_written as f64;
    assert!((1.0..2.0).contains(&pages), "{few:?}");
    assert!(amplification[2] > amplification[0] + pages, "what is programmed must be collected, too");
    assert!(few.units_programmed_map <= few.map_evictions_dirty + few.map_updates);
    assert!(few.map_units_collected > 0);
}

// A command that finds its page in DRAM must not pay for the cache, neither in time nor in turns of the
// executor.
#[test]
fn a_hit_costs_what_it_costs_without_a_cache() {
    let reads = |map_cache_pages| {
        let taken = Rc::new(Cell::new((0, Delay::ZERO)));
        let result = taken.clone();
        run(SMALL, FtlConfig { map_cache_pages, ..config(1) }, move |clock, ftl| async move {
            for page in 0..8 {
                read(&ftl, page * PAGE, 1).await;
            }
            let (polls, began) = (clock.counters().polls, clock.now());
            let mut stream = Rng::new(1).stream("reads");
            for _ in 0..1000 {
                read(&ftl, stream.below(7 * PAGE), 1 + stream.below(20) as u32).await;
            }
            result.set((clock.counters().polls - polls, clock.now().since(began)));
        });
        taken.get()
    };
    assert_eq!(reads(Some(8)), reads(None));
}

// The stages of a read that misses: its wait for the page counts as flash.
#[test]
fn a_miss_is_charged_to_flash() {
    run(SMALL, config(1), |clock, ftl| async move {
        let (spans, mut out) = (Spans::default(), Vec::new());
        for flash_reads in [2, 1] {
            let span = spans.open(clock.now());
            ftl.read(span, &spans, 0, 1, &mut out).await.unwrap();
            let record = spans.close(span);
            assert_eq!(record.stage(Stage::Firmware), Delay::from_ns(100));
            assert_eq!(record.stage(Stage::Dram), Delay::from_ns(80));
            assert_eq!(record.stage(Stage::Flash), Delay(flash_reads * FLASH_READ.0));
        }
    });
}

// A page that flash cannot deliver must not lose the units that it locates; it is rewritten.
#[test]
fn a_page_that_cannot_be_read_is_written_anew() {
    let (counters, _) = run(SMALL, config(1), |_, ftl| async move {
        // Page 0 lies behind 1824 host stripes, at the first die; unit 4 at the second.
        let fault = Fault { die: 0, kind: FaultKind::Read, nth: 1 };
        ftl.flash().inject(FaultPlan::exactly([fault]));
        read(&ftl, 4, 1).await;
        assert_eq!(ftl.counters().map_reads_failed, 1);
        read(&ftl, PAGE, 1).await;
        read(&ftl, 4, 1).await;
    });
    assert_eq!((counters.map_reads_failed, counters.map_evictions_dirty), (1, 1));
    assert_eq!((looks(&counters), counters.map_reads), ([0, 3, 0], 2), "the third is served by the buffer");
}

// Two runs of one seed that differed anywhere would make failures irreproducible.
#[test]
fn the_same_seed_gives_the_same_run() {
    let once = || {
        run(SMALL, config(2), |clock, ftl| async move {
            at_depth(&clock, 8, |number| {
                mixed(ftl.clone(), [Route::OWN], Rng::new(9).stream(&format!("host-{number}")), 200)
            })
            .await;
        })
    };
    assert_eq!(once(), once());
}

// A cache without a frame could never load a page; and translation pages take space, too.
#[test]
fn what_cannot_be_is_refused() {
    let executor = Executor::new();
    let attempt = |config| {
        let site = Site::new(executor.clock(), 1, 1, Delay::ZERO, Rate::per_second(1));
        let placement = Placement::all_at(&site, Cycles::FREE);
        Ftl::new(executor.clock(), placement, SMALL, timing(), config).map(drop)
    };
    let error = attempt(FtlConfig { map_cache_pages: Some(0), ..config(1) }).unwrap_err();
    assert!(error.to_string().contains("one translation page"), "{error}");
    let full = |user_units, map_cache_pages| FtlConfig { user_units, map_cache_pages, ..config(1) };
    assert_eq!(attempt(full(7434, Some(u32::MAX))), Ok(()));
    assert_eq!(attempt(full(7442, None)), Ok(()));
    let error = attempt(full(7435, Some(1))).unwrap_err();
    assert!(error.to_string().contains("at most 7434"), "{error}");
    assert!(attempt(full(u64::MAX, Some(1))).is_err());
}
