//! Measured quantiles of the time of a read.

use crate::array::fixture::{GEOMETRY, batch, medium, read_one, timing};
use byteway_clock::random::Rng;
use byteway_clock::{Delay, Executor};
use byteway_flash::{BlockId, Flash, FlashConfig, Priority, Quantiles, Reliability, Timing, TimingError};

/// Shares in per cent, and factors.
const MEASURED: [(f64, f64); 6] =
    [(0.0, 0.85), (10.0, 0.92), (50.0, 1.0), (90.0, 1.1), (99.0, 1.6), (100.0, 4.0)];

fn config(seed: u64, timing: Timing) -> FlashConfig {
    let read_quantiles = Some(Quantiles::new(&MEASURED).expect("they are possible"));
    FlashConfig { rng: Rng::new(seed), ..Timing { read_quantiles, ..timing }.into() }
}

/// Times of `count` reads one after the other, of four pages in turn, relative to the time of their type.
fn factors(config: FlashConfig, count: u32) -> Vec<f64> {
    let executor = Executor::new();
    let flash = Flash::new(executor.clock(), GEOMETRY, config, medium(GEOMETRY));
    let read = async move {
        let mut factors = Vec::new();
        for number in 0..count {
            let (die, stripe) = (number % 2, number / 2 % 2);
            let (cell, began) =
                (read_one(&flash, die, stripe, Priority::HostRead).wait().await.cell, flash.clock().now());
            assert!(began.0 > 0);
            factors.push(cell.0 as f64 / [30e6, 45e6][stripe as usize]);
        }
        factors
    };
    executor.run(read).expect("every wait must end")
}

// A profile that gives quantiles must have them: also of few pages that are read often, as a hot set is.
#[test]
fn reads_take_the_times_that_were_measured() {
    let mut found = factors(config(1, timing()), 40_000);
    found.sort_by(f64::total_cmp);
    for (percent, factor) in MEASURED {
        let share = percent / 100.0;
        let upto = found.partition_point(|found| *found <= factor) as f64 / 40_000.0;
        // Three standard deviations of what 40,000 draws make of it.
        assert!((upto - share).abs() <= 0.015 * (share * (1.0 - share)).sqrt(), "{upto} is not {share}");
    }
    assert!(found[0] < 0.851 && found[39_999] > 3.9);
    let mean = found.iter().sum::<f64>() / 40_000.0;
    // Trapezoids: 0.1 x 0.885 + 0.4 x 0.96 + 0.4 x 1.05 + 0.09 x 1.35 + 0.01 x 2.8.
    assert!((mean - 1.042).abs() < 0.005, "{mean}");
}

// Two drives of one seed are one drive; of two seeds, two. Other reads of a die must not change what a read of a page takes.
#[test]
fn times_follow_from_the_seed_and_the_read() {
    assert_eq!(factors(config(1, timing()), 100), factors(config(1, timing()), 100));
    assert_ne!(factors(config(1, timing()), 100), factors(config(2, timing()), 100));
    let cached = Timing { cache_read: true, ..timing() };
    assert_eq!(factors(config(1, timing()), 100), factors(config(1, cached), 100));
    let of_page = |others: bool| {
        let executor = Executor::new();
        let flash = Flash::new(executor.clock(), GEOMETRY, config(1, timing()), medium(GEOMETRY));
        let read = async move {
            let mut cells = Vec::new();
            for _ in 0..50 {
                if others {
                    flash.erase(BlockId(2)).await;
                    flash.program(BlockId(2), 0, batch(&flash, 0, 1), Priority::HostProgram).await;
                    let other = flash.ticket();
                    flash.submit_read(GEOMETRY.ppa(BlockId(2), 0, 0), 1, Priority::HostRead, &other);
                    other.wait().await;
                }
                cells.push(read_one(&flash, 0, 0, Priority::HostRead).wait().await.cell);
            }
            cells
        };
        executor.run(read).expect("every wait must end")
    };
    assert_eq!(of_page(false), of_page(true));
}

// A sensing again is a sensing: with one draw for all of them a slow read of an old page would be many times as slow.
#[test]
fn each_retry_draws_a_time_of_its_own() {
    let mut old = medium(GEOMETRY);
    old.rest(std::time::Duration::from_secs(365 * 86_400));
    let executor = Executor::new();
    let config = FlashConfig { reliability: Some(Reliability::tlc()), ..config(1, timing()) };
    let flash = Flash::new(executor.clock(), GEOMETRY, config, old);
    let (cells, sensings) = executor
        .run(async move {
            let mut cells = Vec::new();
            for _ in 0..1000 {
                cells.push(read_one(&flash, 0, 0, Priority::HostRead).wait().await.cell);
            }
            (cells, 1000 + flash.counters().retries)
        })
        .expect("every wait must end");
    assert!(sensings > 8000);
    let mean = cells.iter().map(|cell| cell.0).sum::<u64>() as f64 / sensings as f64 / 30e6;
    assert!((mean - 1.042).abs() < 0.01, "{mean}");
    // Of some nine draws each, the slowest of 1000 reads has not all as slow as can be.
    assert!(cells.iter().all(|cell| *cell < Delay::from_us(30 * 10 * 2)), "{:?}", cells.iter().max());
}

// The greatest factor of the longest time must be within the range of time.
#[test]
fn a_time_beyond_what_is_possible_is_named() {
    let read_quantiles = Some(Quantiles::new(&[(0.0, 1.0), (100.0, 10_000.0)]).expect("they are possible"));
    let timing = Timing { read: vec![Delay::from_ms(2)], read_quantiles, ..timing() };
    assert_eq!(timing.validate(), Err(TimingError::TooLong("read", Delay::from_s(20))));
}
