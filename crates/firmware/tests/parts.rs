//! Absorbed parts: visibility to readers, order, and what is left after a power cut or an unreadable flash
//! unit.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail as the test does")]

use byteway_clock::{Clock, Delay, Executor, Rate, SpanId, Spans};
use byteway_content::{Content, Keep, UNIT_BYTES};
use byteway_firmware::{Cycles, Ftl, FtlConfig, FtlError, MediaError, Placement, Site, WorkKind};
use byteway_flash::{FaultPlan, FlashConfig, Geometry, Medium, Timing};

const GEOMETRY: Geometry =
    Geometry { channels: 2, ways: 1, planes: 2, blocks: 12, pages: 12, page_bytes: 8192 };

fn config() -> FtlConfig {
    FtlConfig { user_units: 300, write_buffer_units: 24, absorbs_parts: Some(4), ..FtlConfig::default() }
}

fn power_on(clock: &Clock, config: FtlConfig, medium: Option<Medium>, faults: FaultPlan) -> Ftl {
    let us = Delay::from_us;
    let timing = Timing { read: vec![us(40)], program: vec![us(300)], erase: us(3000), ..Timing::default() };
    let site = Site::new(clock, 1, 1_000_000_000, Delay::ZERO, Rate::per_second(1_000_000_000));
    let placement =
        Placement::all_at(&site, Cycles::FREE.with(WorkKind::Translate, 100).with(WorkKind::Buffer, 100));
    let medium = medium.unwrap_or_else(|| Ftl::medium(GEOMETRY, &config).unwrap());
    let flash = FlashConfig { faults, ..FlashConfig::from(timing) };
    Ftl::power_on(clock, placement, GEOMETRY, flash, config, medium).unwrap()
}

fn unit(fills: [u8; 8]) -> Vec<u8> {
    fills.into_iter().flat_map(|fill| [fill; 512]).collect()
}

/// Writes a fill over blocks of a unit.
async fn part(ftl: &Ftl, lpa: u64, first: usize, blocks: usize, fill: u8) {
    let bytes = vec![fill; blocks * 512];
    ftl.write_part(SpanId::NONE, &Spans::default(), lpa, first * 512, &bytes, false).await.unwrap();
}

async fn write(ftl: &Ftl, lpa: u64, fill: u8) {
    let mut contents = vec![Content::of(&[fill; UNIT_BYTES], Keep::Bytes)];
    ftl.write(SpanId::NONE, &Spans::default(), lpa, &mut contents, false).await.unwrap();
}

/// The fills of a unit's blocks.
async fn read(ftl: &Ftl, lpa: u64) -> [u8; 8] {
    let mut out = Vec::new();
    ftl.read(SpanId::NONE, &Spans::default(), lpa, 1, &mut out).await.unwrap();
    let (mut bytes, mut fills) = ([0; UNIT_BYTES], [0; 8]);
    out[0].write_to(&mut bytes);
    fills.iter_mut().zip(bytes.chunks_exact(512)).for_each(|(fill, block)| *fill = block[0]);
    assert_eq!(bytes.to_vec(), unit(fills), "whole blocks");
    fills
}

async fn flush(ftl: &Ftl) {
    ftl.flush(SpanId::NONE, &Spans::default()).await.unwrap();
}

fn run<F: Future<Output = ()> + 'static>(config: FtlConfig, main: impl FnOnce(Ftl, Clock) -> F) {
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let ftl = power_on(&clock, config, None, FaultPlan::default());
    executor.run(main(ftl, clock)).unwrap()
}

// The purpose: a partial write must not wait for a flash read, and readers must see it, wherever the rest is.
#[test]
fn a_part_is_there_as_soon_as_it_is_in_dram() {
    run(config(), |ftl, clock| async move {
        let spans = Spans::default();
        write(&ftl, 7, 9).await;
        flush(&ftl).await;
        write(&ftl, 8, 5).await;
        let before = clock.now();
        for lpa in 6..9 {
            part(&ftl, lpa, 2, 1, 1).await;
        }
        // Each takes 100 cycles of 1 ns, and a transfer of 512 bytes at a byte a nanosecond.
        assert_eq!(clock.now().since(before), Delay::from_ns(3 * (100 + 512)));
        assert_eq!(ftl.parts_waiting(), 3);
        assert_eq!(read(&ftl, 7).await, [9, 9, 1, 9, 9, 9, 9, 9], "over flash");
        assert_eq!(read(&ftl, 8).await, [5, 5, 1, 5, 5, 5, 5, 5], "over the buffer");
        assert_eq!(read(&ftl, 6).await, [0, 0, 1, 0, 0, 0, 0, 0], "over nothing");
        let mut out = Vec::new();
        ftl.read(SpanId::NONE, &spans, 5, 4, &mut out).await.unwrap();
        let one = |fill, at| unit(std::array::from_fn(|block| if block == 2 { at } else { fill }));
        let expected = [one(0, 0), one(0, 1), one(9, 1), one(5, 1)];
        for (found, expected) in out.iter().zip(expected) {
            let mut bytes = vec![0; UNIT_BYTES];
            found.write_to(&mut bytes);
            assert_eq!(bytes, expected, "many at once");
        }
        flush(&ftl).await;
        assert_eq!((ftl.parts_waiting(), ftl.counters().parts_merged), (0, 3));
        assert_eq!(read(&ftl, 7).await, [9, 9, 1, 9, 9, 9, 9, 9]);
        assert_eq!(ftl.footprint().parts, 0);
    });
}

// Without merging in DRAM, a log that is written block by block would read and program its unit eight times.
#[test]
fn parts_of_one_unit_are_merged_in_dram() {
    run(config(), |ftl, clock| async move {
        write(&ftl, 3, 9).await;
        flush(&ftl).await;
        let before = ftl.flash().counters().reads;
        for block in 0..8 {
            part(&ftl, 3, block, 1, 10 + block as u8).await;
        }
        clock.sleep(Delay::from_ms(1)).await;
        assert_eq!(ftl.parts_waiting(), 0, "all of it is there: it goes on without being asked");
        assert_eq!((ftl.counters().parts_absorbed, ftl.counters().parts_merged), (8, 1));
        assert_eq!(ftl.flash().counters().reads, before, "nothing of the unit is needed");
        assert_eq!(read(&ftl, 3).await, [10, 11, 12, 13, 14, 15, 16, 17]);
    });
}

// A later write of the whole unit must not be undone by an earlier part; and deallocated data must not
// return.
#[test]
fn what_comes_later_wins() {
    run(config(), |ftl, _| async move {
        let (span, spans) = (SpanId::NONE, Spans::default());
        for lpa in 1..4 {
            write(&ftl, lpa, 9).await;
        }
        flush(&ftl).await;
        part(&ftl, 1, 0, 2, 1).await;
        write(&ftl, 1, 2).await;
        part(&ftl, 1, 7, 1, 3).await;
        part(&ftl, 2, 0, 2, 1).await;
        ftl.trim(span, &spans, 2, 1).await.unwrap();
        part(&ftl, 2, 1, 1, 4).await;
        part(&ftl, 3, 0, 1, 1).await;
        // An edit that reads its unit first has the part in what it reads.
        let edit = |bytes: &mut [u8; UNIT_BYTES], _: &mut u8| bytes.copy_within(..512, 512);
        ftl.edit(span, &spans, 3, edit, false).await.unwrap();
        let expected = [[2, 2, 2, 2, 2, 2, 2, 3], [0, 4, 0, 0, 0, 0, 0, 0], [1, 1, 9, 9, 9, 9, 9, 9]];
        for _ in 0..2 {
            assert_eq!([read(&ftl, 1).await, read(&ftl, 2).await, read(&ftl, 3).await], expected);
            flush(&ftl).await;
        }
        // So has an exchange, and no part comes in between.
        part(&ftl, 3, 3, 1, 6).await;
        let exchange = ftl.exchange(span, &spans, &[3]).await.unwrap();
        let mut contents = Vec::new();
        exchange.read(span, &spans, &mut contents).await.unwrap();
        contents[0] = contents[0].edited(Keep::Bytes, |bytes, _| bytes.copy_within(1536..2048, 2048));
        exchange.write(span, &spans, &mut contents, false).await.unwrap();
        assert_eq!(read(&ftl, 3).await, [1, 1, 9, 6, 6, 9, 9, 9]);
        // In an unreadable unit, the blocks that the host wrote last are readable.
        part(&ftl, 1, 4, 2, 8).await;
        ftl.edit(span, &spans, 1, |_, marred| *marred |= 1 << 4, false).await.unwrap();
        part(&ftl, 1, 6, 1, 8).await;
        flush(&ftl).await;
        assert_eq!(ftl.peek(1).marred(), 1 << 4);
        part(&ftl, 1, 4, 1, 8).await;
        assert_eq!(read(&ftl, 1).await, [2, 2, 2, 2, 8, 8, 8, 3]);
    });
}

// DRAM is limited: a host that writes parts of more units than fit waits for merging, and is not refused.
#[test]
fn parts_wait_for_room() {
    run(config(), |ftl, clock| async move {
        for lpa in 0..40 {
            write(&ftl, lpa, 9).await;
        }
        flush(&ftl).await;
        let mut most = 0;
        let before = clock.now();
        for lpa in 0..40 {
            part(&ftl, lpa, 1, 1, lpa as u8).await;
            most = most.max(ftl.parts_waiting());
        }
        assert_eq!(most, 4);
        assert!(clock.now().since(before) > Delay::from_us(400), "two dies read for it");
        assert!(ftl.counters().parts_merged >= 36);
        for lpa in 0..40 {
            assert_eq!(read(&ftl, lpa).await, [9, lpa as u8, 9, 9, 9, 9, 9, 9]);
        }
        let refused = ftl.write_part(SpanId::NONE, &Spans::default(), 300, 0, &[0; 512], false).await;
        assert_eq!(refused, Err(MediaError::OutOfRange));
        let refused = ftl.write_part(SpanId::NONE, &Spans::default(), 0, 4000, &[0; 512], false).await;
        assert_eq!(refused, Err(MediaError::OutOfRange));
        // Ranges that are no whole blocks are read, changed and written.
        ftl.write_part(SpanId::NONE, &Spans::default(), 0, 511, &[7; 2], true).await.unwrap();
        assert_eq!(ftl.parts_waiting(), 0);
    });
    let refused = |units| {
        let config = FtlConfig { absorbs_parts: Some(units), ..config() };
        Ftl::medium(GEOMETRY, &config).err()
    };
    assert_eq!(
        [refused(0), refused(u32::MAX), refused(9)],
        [Some(FtlError::Parts), Some(FtlError::Parts), None]
    );
}

// With protection an acknowledged part is durable as it is: saved, and found, even by a drive that absorbs
// none any more.
#[test]
fn capacitors_save_parts() {
    for absorbs_parts in [Some(4), Some(1), None] {
        let config = FtlConfig { plp: true, ..config() };
        let executor = Executor::new();
        let ftl = power_on(executor.clock(), config.clone(), None, FaultPlan::default());
        let medium = executor
            .run(async move {
                write(&ftl, 1, 9).await;
                write(&ftl, 2, 9).await;
                flush(&ftl).await;
                part(&ftl, 1, 3, 2, 1).await;
                part(&ftl, 5, 0, 1, 2).await;
                ftl.power_off()
            })
            .unwrap();
        let executor = Executor::new();
        let config = FtlConfig { absorbs_parts, ..config };
        let ftl = power_on(executor.clock(), config, Some(medium), FaultPlan::default());
        executor
            .run(async move {
                ftl.ready().await;
                let expected = [[9, 9, 9, 1, 1, 9, 9, 9], [9; 8], [2, 0, 0, 0, 0, 0, 0, 0]];
                for _ in 0..2 {
                    assert_eq!([read(&ftl, 1).await, read(&ftl, 2).await, read(&ftl, 5).await], expected);
                    ftl.shutdown(SpanId::NONE, &Spans::default()).await.unwrap();
                    assert_eq!(ftl.parts_waiting(), 0);
                }
            })
            .unwrap();
    }
}

// An acknowledged part cannot be refused when the rest of its unit turns out to be lost: it is kept, and
// blocks that were not written are an error, never zeroes.
#[test]
fn what_cannot_be_read_beneath_a_part_is_an_error() {
    let executor = Executor::new();
    let faults = FaultPlan { read: 1.0, ..FaultPlan::default() };
    let ftl = power_on(executor.clock(), config(), None, faults);
    executor
        .run(async move {
            write(&ftl, 1, 9).await;
            flush(&ftl).await;
            part(&ftl, 1, 2, 3, 1).await;
            let mut out = Vec::new();
            ftl.read(SpanId::NONE, &Spans::default(), 1, 1, &mut out).await.unwrap();
            assert_eq!(out[0].marred(), 0b1110_0011, "what is in DRAM can be read all the same");
            flush(&ftl).await;
            assert_eq!((ftl.peek(1).marred(), ftl.counters().units_lost), (0b1110_0011, 1));
            let mut bytes = [0; UNIT_BYTES];
            ftl.peek(1).write_to(&mut bytes);
            assert_eq!(bytes.to_vec(), unit([0, 0, 1, 1, 1, 0, 0, 0]));
        })
        .unwrap();
}

// Write amplification divides by what the host wrote: a part that counted as a unit would make it eight times
// too small.
#[test]
fn a_part_counts_as_the_bytes_that_it_is() {
    for absorbs_parts in [Some(4), None] {
        run(FtlConfig { absorbs_parts, ..config() }, |ftl, _| async move {
            write(&ftl, 7, 9).await;
            part(&ftl, 7, 2, 1, 1).await;
            part(&ftl, 8, 0, 3, 2).await;
            flush(&ftl).await;
            let counters = ftl.counters();
            assert_eq!((counters.user_units_written, counters.user_bytes_written), (3, 4096 + 512 + 3 * 512));
        });
    }
}
