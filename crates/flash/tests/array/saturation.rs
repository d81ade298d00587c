//! Throughput when one resource is the limit: it must be that resource's, within 1 %.

use crate::array::fixture::{COMMAND, UNIT, batch, run_with, timing};
use byteway_clock::{Delay, Rate};
use byteway_flash::{Flash, Geometry, Ppa, Priority, Timing};

const WIDE: Geometry = Geometry { channels: 2, ways: 8, planes: 2, blocks: 4, pages: 6, page_bytes: 16384 };

/// Reads `count` units for each die, `depth` in flight on each. Returns the duration.
async fn read_all(flash: &Flash, depth: u32, count: u32) -> Delay {
    let clock = flash.clock().clone();
    let begin = clock.now();
    let done = flash.ticket();
    for die in 0..flash.geometry().dies() {
        for _ in 0..depth {
            let flash = flash.clone();
            clock.spawn("reader", async move {
                let ticket = flash.ticket();
                let block = flash.geometry().block(die, 0);
                for _ in 0..count / depth {
                    ticket.clear();
                    flash.submit_read(flash.geometry().ppa(block, 0, 0), 1, Priority::HostRead, &ticket);
                    assert!(!ticket.wait().await.failed);
                }
            });
        }
    }
    // Each reader is done when as many reads have been served as were requested.
    let all = u64::from(flash.geometry().dies() * count);
    while flash.counters().reads[0] < all {
        clock.sleep(Delay::from_us(1)).await;
    }
    drop(done);
    clock.now().since(begin)
}

fn assert_within_a_percent(took: Delay, limit: Delay) {
    let ratio = took.0 as f64 / limit.0 as f64;
    assert!((1.0 - 1e-9..1.01).contains(&ratio), "{took} against {limit}");
}

// Dies that stand idle between reads, or overlap with themselves, would move every saturated figure.
#[test]
fn slow_dies_are_the_limit() {
    let timing =
        Timing { read: vec![Delay::from_us(600)], channel: Rate::per_second(8_000_000_000), ..timing() };
    run_with(WIDE, timing, async |flash, _| {
        let took = read_all(&flash, 4, 1000).await;
        assert_within_a_percent(took, Delay::from_ns(600_000 + 100 + 512) * 1000);
        let busy = flash.die_busy(5).0 as f64 / took.0 as f64;
        assert!(busy > 0.999, "{busy}");
    });
}

// The same for a channel: every command and every unit takes its turn, without a gap while any request waits.
#[test]
fn a_slow_channel_is_the_limit() {
    run_with(WIDE, timing(), async |flash, _| {
        let took = read_all(&flash, 4, 1000).await;
        assert_within_a_percent(took, (COMMAND + UNIT) * 8000);
        let busy = flash.channel_busy(1).0 as f64 / took.0 as f64;
        assert!(busy > 0.99, "{busy}");
    });
}

// And for programs, whose data come in while other dies program.
#[test]
fn a_slow_channel_is_the_limit_of_programs() {
    let geometry = Geometry { pages: 600, ..WIDE };
    let timing = Timing { program: vec![Delay::from_us(50)], ..timing() };
    run_with(geometry, timing, async |flash, clock| {
        let ticket = flash.ticket();
        for stripe in 0..600 {
            for die in 0..16 {
                let block = flash.geometry().block(die, 2);
                flash.submit_program(block, stripe, batch(&flash, 0, 1), Priority::HostProgram, &ticket);
            }
        }
        ticket.wait().await;
        assert_within_a_percent(clock.now().since(Default::default()), (COMMAND + UNIT * 8) * 8 * 600);
    });
}

// A channel full of data moving out must let a program's data in now and then, or a write would never end.
#[test]
fn reads_do_not_starve_programs_on_the_channel() {
    run_with(WIDE, timing(), async |flash, clock| {
        // Dies 0 to 12 of channel 0 read without end, die 14 programs.
        for die in (0..14).step_by(2) {
            let flash = flash.clone();
            clock.spawn("reader", async move {
                loop {
                    let mut out = Vec::new();
                    let first = flash.geometry().ppa(flash.geometry().block(die, 0), 0, 0);
                    flash.read(&[first, Ppa(first.0 + 1)], Priority::HostRead, &mut out).await;
                }
            });
        }
        clock.sleep(Delay::from_ms(1)).await;
        let block = flash.geometry().block(14, 2);
        let outcome = flash.program(block, 0, batch(&flash, 0, 1), Priority::HostProgram).await;
        // Until then eight others at most, of up to 10.24 us each, and one that has begun.
        assert!(outcome.queued <= Delay::from_ns(9 * 10_240), "{}", outcome.queued);
    });
}

/// Cost of a read in the executor. `cargo test -p byteway-flash -- --ignored --nocapture`
#[test]
#[ignore = "prints figures, and takes a while"]
fn polls_per_read() {
    for (name, depth, timing) in [
        ("one a die", 1, timing()),
        ("die-bound", 4, Timing { channel: Rate::per_second(80_000_000_000), ..timing() }),
        ("channel-bound", 4, timing()),
    ] {
        run_with(WIDE, timing, async move |flash, clock| {
            let before = clock.counters();
            let took = read_all(&flash, depth, 20_000).await;
            let reads = f64::from(16 * 20_000);
            // Minus the sleeps of the task that waits for the end.
            let idle = took.0 as f64 / 1e6;
            let polls = (clock.counters().polls - before.polls) as f64 - idle;
            let timers = (clock.counters().timers - before.timers) as f64 - idle;
            println!(
                "{name}: {:.3} polls, {:.3} timers a read, its reader's included",
                polls / reads,
                timers / reads
            );
        });
    }
}
