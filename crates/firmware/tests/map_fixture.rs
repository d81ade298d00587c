//! A translation layer whose map is in flash, over two dies, and hosts with random commands: for the tests of
//! the map in its own DRAM (`cached_map`) and in its peers' (`borrowed`).

#![allow(clippy::unwrap_used, reason = "a test's helpers fail as the test does")]

use byteway_clock::random::Stream;
use byteway_clock::{Clock, Delay, Rate, SpanId, Spans, Time};
use byteway_content::Content;
use byteway_firmware::{Base, Ftl, FtlConfig, Route, WorkContext};
use byteway_flash::{Geometry, Timing};
use std::cell::Cell;
use std::future::Future;
use std::rc::Rc;

/// Two dies of 64 superblocks of 64 units, in stripes of 4.
pub const SMALL: Geometry =
    Geometry { channels: 2, ways: 1, planes: 2, blocks: 64, pages: 16, page_bytes: 8192 };
/// Units of a translation page.
pub const PAGE: u64 = 1024;
/// 100 cycles at 1 GHz, and 80 ns of DRAM.
pub const TRANSLATION: Delay = Delay::from_ns(180);
/// 200 ns of command, 40 us of sensing, 4 KiB at 800 MB/s.
pub const FLASH_READ: Delay = Delay::from_ns(200 + 40_000 + 5_120);

pub fn timing() -> Timing {
    Timing {
        read: vec![Delay::from_us(40)],
        program: vec![Delay::from_us(400)],
        erase: Delay::from_ms(3),
        channel: Rate::per_second(800_000_000),
        command: Delay::from_ns(200),
        ..Timing::default()
    }
}

/// Seven pages and an eighth of one, all in flash, of which `pages` are in the drive's DRAM.
pub fn config(cache_pages: u32) -> FtlConfig {
    FtlConfig {
        user_units: 7 * PAGE + PAGE / 8,
        write_buffer_units: 16,
        base: Base::Filled,
        map_cache_pages: Some(cache_pages),
        ..Default::default()
    }
}

/// Starts `depth` tasks, and waits for their end.
pub async fn at_depth<F: Future<Output = ()> + 'static>(clock: &Clock, depth: u32, task: impl Fn(u32) -> F) {
    let left = Rc::new(Cell::new(depth));
    for number in 0..depth {
        let (task, left) = (task(number), left.clone());
        clock.spawn("host", async move {
            task.await;
            left.set(left.get() - 1);
        });
    }
    while left.get() > 0 {
        clock.sleep(Delay::from_us(100)).await;
        assert!(clock.now() < Time(1_000_000_000_000_000), "{} hosts wait indefinitely", left.get());
    }
}

/// Random commands, many of which change the map, each by one of these routes.
pub async fn mixed<const N: usize>(ftl: Ftl, routes: [Route; N], mut stream: Stream, steps: u32) {
    let spans = Spans::default();
    for _ in 0..steps {
        let count = if stream.chance(0.9) { 1 } else { 1 + stream.below(1500) };
        let first = stream.below(ftl.user_units() - count + 1);
        // A choice from one takes nothing from the stream.
        let route = if N == 1 { routes[0] } else { routes[stream.below(N as u64) as usize] };
        let context = WorkContext { span: SpanId::NONE, route };
        match stream.below(100) {
            0..60 => {
                let mut contents = vec![Content::Zero; count as usize];
                ftl.write(context, &spans, first, &mut contents, stream.chance(0.1)).await.unwrap();
            }
            60..90 => ftl.read(context, &spans, first, count as u32, &mut Vec::new()).await.unwrap(),
            90..93 => ftl.trim(SpanId::NONE, &spans, first, count).await.unwrap(),
            93..98 => ftl.modify(context, &spans, first, |_| {}, stream.chance(0.2)).await.unwrap(),
            98 => ftl.flush(SpanId::NONE, &spans).await.unwrap(),
            _ if stream.chance(0.02) => {
                ftl.trim(SpanId::NONE, &spans, 0, ftl.user_units()).await.unwrap();
            }
            _ => {}
        }
    }
}
