//! Memory Read, Memory Write, Memory Fill, Memory Copy.

use super::{MEMORY, MEMORY_BYTES, OTHER, OTHER_BYTES, PROGRAMS, bench, dnr, read, with_data, write};
use crate::fixture::{NS_4K, NS_512, Pair, TestHost, pattern};
use byteway_clock::Delay;
use byteway_wire::IntoBytes;
use byteway_wire::nvme::slm::{
    self, BlocksRange, BytesRange, FAST_ONLY, LocalMemoryOpcode, MemoryAccess, MemoryCopy,
};
use byteway_wire::nvme::{Cns, Cqe, Identify, Sqe, Status, programs};

fn fill_sqe(nsid: u32, start: u64, bytes: u32) -> Sqe {
    MemoryAccess { start, bytes }.sqe(LocalMemoryOpcode::MEMORY_FILL, 0, nsid)
}

fn bytes_range(snsid: u32, start: u64, bytes: u32) -> BytesRange {
    BytesRange { snsid, start, bytes, ..BytesRange::default() }
}

fn blocks_range(snsid: u32, slba: u64, blocks: u16) -> BlocksRange {
    BlocksRange { snsid, slba, nlb_z: blocks - 1, ..BlocksRange::default() }
}

async fn copy(host: &TestHost, pair: &Pair, command: MemoryCopy, list: &[u8]) -> Cqe {
    let command = MemoryCopy { ranges_z: (list.len() / 32 - 1) as u8, ..command };
    host.io(pair, with_data(host, command.sqe(0, MEMORY), list)).await
}

// A byte at another place, or one that another namespace gets, is another tenant's.
#[test]
fn memory_holds_what_was_written() {
    bench().with_queue(async |host, pair| {
        let mut model = vec![0; MEMORY_BYTES as usize];
        for (seed, (start, bytes)) in
            [(0, 4), (4092, 8), (8192, 4096), (10_000, 40_000), (MEMORY_BYTES as usize - 128, 128)]
                .into_iter()
                .enumerate()
        {
            let payload = pattern(seed as u64 + 1, bytes);
            assert_eq!(write(&host, &pair, MEMORY, start as u64, &payload).await, Status::SUCCESS);
            model[start..start + bytes].copy_from_slice(&payload);
        }
        for (start, bytes) in [(12_000, 5_000), (8192, 4096), (500_000, 100)] {
            let cqe = host.io(&pair, fill_sqe(MEMORY, start, bytes)).await;
            assert_eq!(cqe.status(), Status::SUCCESS);
            model[start as usize..(start + u64::from(bytes)) as usize].fill(0);
        }
        for part in 0..MEMORY_BYTES / (128 << 10) {
            let start = part * (128 << 10);
            let there = read(&host, &pair, MEMORY, start, 128 << 10).await;
            assert!(there == model[start as usize..start as usize + (128 << 10)], "from {start}");
        }
        assert_eq!(read(&host, &pair, OTHER, 0, 4096).await, vec![0; 4096]);
        assert_eq!(read(&host, &pair, MEMORY, 4088, 12).await, model[4088..4100]);
        host.disable().await;
        host.enable().await;
        let pair = host.create_pair(1, 64).await;
        assert!(
            read(&host, &pair, MEMORY, 10_000, 40_000).await == model[10_000..50_000],
            "a reset keeps it"
        );
    });
}

// Memory outside the namespace would be the drive's own.
#[test]
fn what_is_outside_is_refused() {
    bench().with_queue(async |host, pair| {
        let page = host.pages(1);
        let opcodes =
            [LocalMemoryOpcode::MEMORY_READ, LocalMemoryOpcode::MEMORY_WRITE, LocalMemoryOpcode::MEMORY_FILL];
        for opcode in opcodes {
            let of = |start, bytes| MemoryAccess { start, bytes }.sqe(opcode, 0, MEMORY).with_prp(page, 0);
            for (start, bytes, status) in [
                (MEMORY_BYTES, 4, Status::LBA_OUT_OF_RANGE),
                (MEMORY_BYTES - 4, 8, Status::LBA_OUT_OF_RANGE),
                (u64::MAX - 3, 4, Status::LBA_OUT_OF_RANGE),
                (u64::MAX - 3, 8, Status::LBA_OUT_OF_RANGE),
                (1, 4, Status::INVALID_FIELD),
                (0, 6, Status::INVALID_FIELD),
            ] {
                let cqe = host.io(&pair, of(start, bytes)).await;
                assert_eq!(cqe.status(), dnr(status), "{opcode} {bytes} from {start}");
            }
            assert_eq!(host.io(&pair, of(MEMORY_BYTES - 4, 4)).await.status(), Status::SUCCESS);
            // Zero bytes at the end are within range.
            let none = MemoryAccess { start: MEMORY_BYTES, bytes: 0 }.sqe(opcode, 0, MEMORY);
            assert_eq!(host.io(&pair, none.with_prp(page, 0)).await.status(), Status::SUCCESS);
        }
        for opcode in &opcodes[..2] {
            let long = MemoryAccess { start: 0, bytes: (128 << 10) + 4 }.sqe(*opcode, 0, MEMORY);
            assert_eq!(host.io(&pair, long.with_prp(page, 0)).await.status(), dnr(Status::INVALID_FIELD));
            let hole = MemoryAccess { start: 0, bytes: 64 }.sqe(*opcode, 0, MEMORY);
            let cqe = host.io(&pair, hole.with_prp(host.hole(), 0)).await;
            assert_eq!(cqe.status(), Status::DATA_TRANSFER_ERROR);
        }
        // To other namespaces these opcodes are other commands, or none.
        let to = |nsid| fill_sqe(nsid, 0, 4);
        assert_eq!(host.io(&pair, to(PROGRAMS)).await.status(), dnr(Status::INVALID_OPCODE));
        assert_eq!(host.io(&pair, to(99)).await.status(), dnr(Status::INVALID_FIELD));
        assert_eq!(host.io(&pair, to(0)).await.status(), dnr(Status::INVALID_NAMESPACE));
    });
}

// A scan that runs on the drive begins with this: blocks that are copied wrongly give wrong rows, and the host never sees them.
#[test]
fn blocks_are_copied_into_memory() {
    bench().with_queue(async |host, pair| {
        let (small, large) = (pattern(1, 100 * 512), pattern(2, 30 * 4096));
        assert_eq!(host.write(&pair, NS_512, 7, &small).await, Status::SUCCESS);
        assert_eq!(host.write(&pair, NS_4K, 3, &large).await, Status::SUCCESS);
        let list = [
            blocks_range(NS_512, 8, 99),
            blocks_range(NS_4K, 3, 30),
            blocks_range(NS_512, 7, 1),
            blocks_range(NS_512, 4000, 2), // never written
        ];
        let expected = [&small[512..], &large[..], &small[..512], &[0; 1024]].concat();
        let command = MemoryCopy {
            to: 1000,
            bytes: expected.len() as u64,
            format: MemoryCopy::BLOCKS,
            ..MemoryCopy::default()
        };
        assert_eq!(write(&host, &pair, MEMORY, 0, &[0xee; 128 << 10]).await, Status::SUCCESS);
        let cqe = copy(&host, &pair, command, list.as_bytes()).await;
        assert_eq!((cqe.status(), cqe.dw0), (Status::SUCCESS, 0));
        let head = read(&host, &pair, MEMORY, 996, 100_000).await;
        assert_eq!(head[..4], [0xee; 4], "what is before it stays");
        assert!(head[4..] == expected[..99_996]);
        let rest = read(&host, &pair, MEMORY, 1000 + 99_996, expected.len() - 99_996 + 4).await;
        assert!(rest[..rest.len() - 4] == expected[99_996..]);
    });
}

// The same between memory namespaces and within one.
#[test]
fn bytes_are_copied_between_memory() {
    bench().with_queue(async |host, pair| {
        let (own, other) = (pattern(1, 80_000), pattern(2, 60_000));
        assert_eq!(write(&host, &pair, MEMORY, 0, &own).await, Status::SUCCESS);
        assert_eq!(write(&host, &pair, OTHER, 0, &other).await, Status::SUCCESS);
        let list = [bytes_range(OTHER, 8, 50_000), bytes_range(MEMORY, 0, 80_000), bytes_range(OTHER, 0, 0)];
        let command =
            MemoryCopy { to: 200_000, bytes: 130_000, format: MemoryCopy::BYTES, ..MemoryCopy::default() };
        let cqe = copy(&host, &pair, command, list.as_bytes()).await;
        assert_eq!((cqe.status(), cqe.dw0), (Status::SUCCESS, 0));
        assert!(read(&host, &pair, MEMORY, 200_000, 50_000).await == other[8..50_008]);
        assert!(read(&host, &pair, MEMORY, 250_000, 80_000).await == own);
    });
}

// A copy is looked at as a whole before anything is changed: a half that was copied before the other was refused is neither old nor new.
#[test]
fn copies_that_cannot_be_are_refused_whole() {
    bench().with_queue(async |host, pair| {
        assert_eq!(write(&host, &pair, MEMORY, 0, &pattern(1, 4096)).await, Status::SUCCESS);
        let good = bytes_range(MEMORY, 0, 64);
        let command = MemoryCopy { to: 4096, bytes: 128, format: MemoryCopy::BYTES, ..MemoryCopy::default() };
        let fast = BytesRange { sopt: FAST_ONLY, ..good };
        for (second, status) in [
            (bytes_range(OTHER, OTHER_BYTES - 60, 64), Status::LBA_OUT_OF_RANGE),
            (bytes_range(OTHER, u64::MAX - 3, 64), Status::LBA_OUT_OF_RANGE),
            (bytes_range(OTHER, 2, 64), Status::INVALID_FIELD),
            (bytes_range(OTHER, 0, 68), Status::INVALID_FIELD), // more than the command says
            (bytes_range(OTHER, 0, 60), Status::INVALID_FIELD),
            (bytes_range(MEMORY, 4220, 64), Status::OVERLAPPING_IO_RANGE),
            (bytes_range(MEMORY, 4036, 64), Status::OVERLAPPING_IO_RANGE),
            (bytes_range(NS_4K, 0, 64), Status::INCOMPATIBLE_NAMESPACE_OR_FORMAT),
            (bytes_range(PROGRAMS, 0, 64), Status::INCOMPATIBLE_NAMESPACE_OR_FORMAT),
            (bytes_range(99, 0, 64), Status::INVALID_FIELD),
            (bytes_range(0, 0, 64), Status::INVALID_NAMESPACE),
            (fast, Status::FAST_COPY_NOT_POSSIBLE),
        ] {
            let cqe = copy(&host, &pair, command, [good, second].as_bytes()).await;
            assert_eq!(cqe.status(), dnr(status), "{second:?}");
        }
        for (list, status) in [
            (blocks_range(MEMORY, 0, 1), Status::INCOMPATIBLE_NAMESPACE_OR_FORMAT),
            (blocks_range(NS_4K, 8191, 2), Status::LBA_OUT_OF_RANGE),
            (blocks_range(NS_4K, u64::MAX, 1), Status::LBA_OUT_OF_RANGE),
        ] {
            let command = MemoryCopy { bytes: 4096, format: MemoryCopy::BLOCKS, ..command };
            assert_eq!(copy(&host, &pair, command, list.as_bytes()).await.status(), dnr(status));
        }
        for (command, status) in [
            (MemoryCopy { format: 0, ..command }, Status::INVALID_FIELD),
            (MemoryCopy { format: 0xf, ..command }, Status::INVALID_FIELD),
            (MemoryCopy { to: MEMORY_BYTES - 124, ..command }, Status::LBA_OUT_OF_RANGE),
            (MemoryCopy { to: u64::MAX - 3, ..command }, Status::LBA_OUT_OF_RANGE),
            (MemoryCopy { bytes: u64::MAX - 3, ..command }, Status::LBA_OUT_OF_RANGE),
            (MemoryCopy { to: 2, ..command }, Status::INVALID_FIELD),
        ] {
            let cqe = copy(&host, &pair, command, [good, bytes_range(OTHER, 0, 64)].as_bytes()).await;
            assert_eq!(cqe.status(), dnr(status), "{command:?}");
        }
        assert_eq!(read(&host, &pair, MEMORY, 4096, 256).await, vec![0; 256], "nothing was copied");
    });
}

// Memory takes the drive's DRAM and no flash; a fill that took no time would make a clear of gigabytes free.
#[test]
fn memory_costs_dram_and_no_flash() {
    bench().with_queue(async |host, pair| {
        let time = async |sqe| {
            let start = host.clock().now();
            assert_eq!(host.io(&pair, sqe).await.status(), Status::SUCCESS);
            host.clock().now().since(start)
        };
        let none = time(fill_sqe(MEMORY, 0, 0)).await;
        // 1 MiB at 10 GB/s, and 50 ns until its last byte arrives.
        assert_eq!(time(fill_sqe(MEMORY, 0, 1 << 20)).await - none, Delay(104_857_600 + 50_000));
        let page = host.pages(1);
        let of = |bytes| MemoryAccess { start: 0, bytes }.sqe(LocalMemoryOpcode::MEMORY_READ, 0, MEMORY);
        let with_none = time(of(0).with_prp(page, 0)).await;
        let with_page = time(of(4096).with_prp(page, 0)).await;
        assert!(with_page - with_none >= Delay::from_ns(409 + 50), "DRAM, and the link: {with_page:?}");
        let counters = host.drive().controller.ftl().flash().counters();
        assert_eq!(counters.reads, [0; 5]);
    });
}

// A host plans its transfers by these.
#[test]
fn identify_says_how_large_it_is() {
    bench().enabled(async |host| {
        let page = host.pages(1);
        let of = |nsid, csi| {
            let identify = Identify { cns: Cns::COMMAND_SET_NAMESPACE, csi, ..Identify::default() };
            identify.sqe(0, nsid).with_prp(page, 0)
        };
        host.succeed(of(MEMORY, slm::CSI)).await;
        let id = host.peek(page, 24);
        assert_eq!(id[..8], MEMORY_BYTES.to_le_bytes());
        assert_eq!(id[8..16], [4, 0, 0, 0, 0, 0, 2, 0]);
        host.refused(of(MEMORY, programs::CSI), Status::INVALID_COMMAND_SET).await;
        host.succeed(of(PROGRAMS, programs::CSI)).await;
        let id = host.peek(page, 40);
        assert_eq!(id[..8], [2, 0, 3, 0, 2, 0, 4, 0]);
        assert_eq!(id[24..40], [4, 0, 0, 0, 0, 64, 0, 0, 0x40, 0x42, 0x0f, 0, 0, 0, 0, 0]);
    });
}
