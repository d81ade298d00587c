//! The payload sink, by data pointer and inline.
//!
//! Verified: every byte, at and over page boundaries; checksums; what is outside or too long; what a reset leaves; what
//! it costs, to the picosecond. Not verified: the other ways of payload, which have tests of their own.

use crate::fixture;
use crate::fixture::payload::{INLINE, SINK_BYTES, board_link, sink_write};
use crate::fixture::{Bench, Pair, TestHost, pattern};
use byteway_clock::{Delay, Rate};
use byteway_firmware::{Cycles, WorkKind};
use byteway_link::{Direction, Purpose};
use byteway_transfer::inline;
use byteway_wire::nvme::vendor::{Methods, Sink, inline_descriptor};
use byteway_wire::nvme::{SglDescriptor, Sqe, Status, VendorOpcode};

const PLAIN: Methods = Methods::new();

fn sink_read(offset: u64, bytes: u32) -> Sqe {
    Sink { offset, bytes }.sqe(VendorOpcode::SINK_READ, 0, 1)
}

/// Writes `bytes`, which must succeed with their checksum.
async fn write(host: &TestHost, pair: &Pair, offset: u64, bytes: &[u8]) {
    let cqe = host.io(pair, host.sink_write(offset, bytes)).await;
    assert_eq!(cqe.status(), Status::SUCCESS, "{} bytes at {offset}", bytes.len());
    assert_eq!((cqe.dw0, cqe.dw1), (crc32c::crc32c(bytes), 0));
}

// The microbenchmarks verify their payloads by this: a byte elsewhere, and they verify nothing.
#[test]
fn it_holds_what_was_written_where_it_was_written() {
    for granularity in [1, 512, 4096] {
        let mut bench = Bench::offering(PLAIN);
        bench.drive.controller.dma_granularity = granularity;
        bench.with_queue(async |host, pair| {
            let mut model = vec![0; 128 << 10];
            for (seed, (offset, bytes)) in [
                (0, 1),
                (1, 64),
                (4095, 2),
                (4096, 4096),
                (10_000, 8192),
                (63, 0),
                (20_001, 4095),
                (4096 * 3, 40_000),
                (77, 13),
            ]
            .into_iter()
            .enumerate()
            {
                let payload = pattern(seed as u64 + 1, bytes);
                write(&host, &pair, offset as u64, &payload).await;
                model[offset..offset + bytes].copy_from_slice(&payload);
                assert!(host.sink_read(&pair, 0, 128 << 10).await == model, "{bytes} bytes at {offset}");
                assert!(host.sink_read(&pair, offset as u64, bytes as u32).await == payload);
            }
        });
    }
}

// The sink belongs to the drive: a second one behind the second port would be memory that no host requested.
#[test]
fn both_ports_have_one_sink() {
    Bench::offering(PLAIN).with_queue(async |host, pair| {
        let other = host.beside();
        other.enable().await;
        let other_pair = other.create_pair(1, 64).await;
        let payload = pattern(3, 5000);
        write(&host, &pair, 700, &payload).await;
        assert!(other.sink_read(&other_pair, 700, 5000).await == payload);
    });
}

// Memory that a drive gives without having been written is another owner's data, unless it is zeroes; and a sink must
// not take the memory of its whole size to begin with.
#[test]
fn what_was_never_written_is_zeroes() {
    let mut bench = Bench::offering(PLAIN);
    bench.drive.transfer.sink_bytes = 1 << 40;
    bench.with_queue(async |host, pair| {
        for offset in [0, 4000, 1 << 30, (1 << 40) - 5000] {
            assert_eq!(host.sink_read(&pair, offset, 5000).await, vec![0; 5000]);
        }
        write(&host, &pair, (1 << 40) - 100, &pattern(1, 100)).await;
        let end = host.sink_read(&pair, (1 << 40) - 8192, 8192).await;
        assert!(end[..8092].iter().all(|byte| *byte == 0) && end[8092..] == pattern(1, 100));
    });
}

// An extent that reaches beyond would be memory of the drive's own.
#[test]
fn what_is_outside_is_out_of_range() {
    Bench::offering(INLINE).with_methods(64, async |host, pair| {
        let page = host.pages(1);
        for (offset, bytes) in
            [(SINK_BYTES, 1), (SINK_BYTES - 1, 2), (u64::MAX, 1), (u64::MAX - 10, 64), (SINK_BYTES + 1, 0)]
        {
            for sqe in [sink_write(offset, bytes), sink_read(offset, bytes)] {
                let status = host.io(&pair, sqe.with_prp(page, 0)).await.status();
                assert_eq!(status, Status::LBA_OUT_OF_RANGE.with_dnr(), "{bytes} bytes at {offset}");
            }
            if bytes > 0 {
                let payload = pattern(1, bytes as usize);
                let cqe = host.inline(&pair, sink_write(offset, bytes), &payload).await;
                assert_eq!(cqe.status(), Status::LBA_OUT_OF_RANGE.with_dnr());
            }
        }
        write(&host, &pair, SINK_BYTES - 64, &pattern(2, 64)).await;
        for bytes in [(128 << 10) + 1, u32::MAX] {
            for sqe in [sink_write(0, bytes), sink_read(0, bytes)] {
                let status = host.io(&pair, sqe.with_prp(page, 0)).await.status();
                assert_eq!(status, Status::INVALID_FIELD.with_dnr(), "{bytes} bytes");
            }
        }
        for nsid in [0, 999, u32::MAX] {
            let sqe = Sqe { nsid, ..sink_write(0, 1).with_prp(page, 0) };
            assert_eq!(host.io(&pair, sqe).await.status(), Status::INVALID_NAMESPACE.with_dnr());
        }
        let hole = sink_write(0, 64).with_prp(host.hole(), 0);
        assert_eq!(host.io(&pair, hole).await.status(), Status::DATA_TRANSFER_ERROR);
        let hole = sink_read(0, 64).with_prp(host.hole(), 0);
        assert_eq!(host.io(&pair, hole).await.status(), Status::DATA_TRANSFER_ERROR);
    });
}

// A reset that loses what was acknowledged loses data; the sink is memory of the drive, as its write buffer is.
#[test]
fn a_reset_leaves_it_as_it_is() {
    Bench::offering(PLAIN).with_queue(async |host, pair| {
        write(&host, &pair, 500, &pattern(1, 9000)).await;
        host.disable().await;
        host.enable().await;
        let pair = host.create_pair(1, 64).await;
        assert!(host.sink_read(&pair, 500, 9000).await == pattern(1, 9000));
    });
}

// SGLs move exactly the bytes; a bit bucket swallows what it says, and nothing after it is shifted.
#[test]
fn sgls_move_exactly_the_bytes() {
    let mut bench = Bench::offering(PLAIN);
    bench.drive.controller.sgl = true;
    bench.with_queue(async |host, pair| {
        let payload = pattern(1, 100);
        let from = host.holding(&payload);
        let then = host.end().ledger().snapshot();
        let sqe = sink_write(4090, 100).with_sgl(SglDescriptor::data_block(from, 100));
        assert_eq!(host.io(&pair, sqe).await.dw0, crc32c::crc32c(&payload));
        let ledger = host.end().ledger().since(&then);
        assert_eq!(ledger.entry(Purpose::Data, Direction::Down).payload, 100);
        let into = host.pages(1);
        let list = [SglDescriptor::bit_bucket(40), SglDescriptor::data_block(into, 60)];
        let segment = host.pages(1);
        host.poke(segment, &list.map(|descriptor| descriptor.to_bytes()).concat());
        let sqe = sink_read(4090, 100).with_sgl(SglDescriptor::last_segment(segment, 32));
        let cqe = host.io(&pair, sqe).await;
        assert_eq!((cqe.status(), cqe.dw0), (Status::SUCCESS, crc32c::crc32c(&payload)));
        assert_eq!(host.peek(into, 64), [&payload[40..], &[0; 4]].concat());
    });
}

// Nothing of a payload goes to flash: that is what the microbenchmarks of links are for.
#[test]
fn it_has_no_flash_behind_it() {
    Bench::offering(INLINE).with_methods(64, async |host, pair| {
        for offset in 0..100 {
            write(&host, &pair, offset * 4096, &pattern(offset, 4096)).await;
            host.inline(&pair, sink_write(offset, 64), &pattern(offset, 64)).await;
        }
        host.sleep(fixture::LONG).await;
        let counters = host.drive().controller.ftl().flash().counters();
        assert_eq!((counters.programs, counters.reads), ([0; 5], [0; 5]));
    });
}

// Commands of the sink without a sink, and with fields that contradict their payload.
#[test]
fn hostile_commands_are_refused() {
    let mut bench = Bench::offering(INLINE);
    bench.drive.transfer.sink_bytes = 0;
    bench.with_methods(64, async |host, pair| {
        for sqe in [sink_write(0, 64), sink_read(0, 64)] {
            let status = host.io(&pair, sqe.with_prp(host.pages(1), 0)).await.status();
            assert_eq!(status, Status::INVALID_OPCODE.with_dnr());
        }
        let cqe = host.inline(&pair, sink_write(0, 64), &[1; 64]).await;
        assert_eq!(cqe.status(), Status::INVALID_OPCODE.with_dnr());
    });
    Bench::offering(INLINE).with_methods(64, async |host, pair| {
        // No payload is announced for a command that has one.
        let sqe = sink_write(0, 64).with_sgl(inline_descriptor(0));
        assert_eq!(host.io(&pair, sqe).await.status(), Status::DATA_SGL_LENGTH_INVALID.with_dnr());
        let sqe = inline::place(sink_write(0, 0), 0, false);
        assert_eq!(host.io(&pair, sqe).await.status(), Status::SUCCESS);
    });
}

/// The board's link and constants (`calibration`): a page by PRP costs 2620 ns more than no payload.
fn board(dma_granularity: u32) -> Bench {
    let mut bench = Bench::offering(INLINE);
    bench.link = board_link();
    bench.drive.controller.sgl = true;
    bench.drive.controller.dma_granularity = dma_granularity;
    bench.drive.site.cores = 1;
    bench.drive.site.dram_latency = Delay::from_ns(50);
    bench.drive.site.dram_rate = Rate::per_second(4_266_000_000);
    bench.drive.site.cycles = Cycles::FREE.with(WorkKind::Dma, 1154);
    bench
}

async fn latency(host: &TestHost, pair: &Pair, sqe: Sqe) -> Delay {
    let start = host.clock().now();
    assert_eq!(host.io(pair, sqe).await.status(), Status::SUCCESS);
    host.clock().now().since(start)
}

// The board's page by PRP takes 2620 ns: 1154 of firmware, 312 until the first bytes come, 1104 until the last has, and
// 50 until that is stored. DRAM that is taken after the link and not next to it would make it 3580.
#[test]
fn a_page_costs_the_board_what_the_fit_says() {
    board(4096).with_queue(async |host, pair| {
        let none = latency(&host, &pair, host.sink_write(0, &[])).await;
        for bytes in [1, 64, 4096] {
            let page = latency(&host, &pair, host.sink_write(0, &pattern(1, bytes))).await;
            assert_eq!(page - none, Delay::from_ns(1154 + 312 + 1104 + 50), "{bytes} bytes");
        }
        // Two pages: the firmware's work twice, and the second behind the first on the link.
        let two = latency(&host, &pair, host.sink_write(0, &pattern(1, 8192))).await;
        let each = Delay::from_ns(1154 + 1104);
        assert!(two - none >= Delay::from_ns(312 + 50) + each + each, "{two:?}");
    });
    board(1).with_queue(async |host, pair| {
        let none = latency(&host, &pair, host.sink_write(0, &[])).await;
        let from = host.holding(&[1; 64]);
        let sqe = sink_write(0, 64).with_sgl(SglDescriptor::data_block(from, 64));
        // 24 bytes up and 84 down at 4 GB/s, twice the way and the memory.
        let exact = Delay::from_ns(1154 + 6 + 21 + 300 + 50);
        assert_eq!(latency(&host, &pair, sqe).await - none, exact);
    });
}
