//! Blocks that can't be read: Write Uncorrectable and Verify (NVM Command Set 1.1, 3.2.6 and 3.2.7), and what every
//! other command makes of such blocks.

use crate::fixture::{
    Bench, LONG, NS_4K, NS_4K_UNITS, NS_512, NS_512_UNITS, Pair, TestHost, block_bytes, pattern, read_write,
};
use byteway_wire::FromBytes;
use byteway_wire::nvme::{
    Copy, CopyRange, DatasetManagement, ErrorLogEntry, NvmOpcode, Range, SmartLog, Sqe, Status, WriteZeroes,
    fid, lid,
};

fn uncorrectable(nsid: u32, slba: u64, blocks: u32) -> Sqe {
    read_write(NvmOpcode::WRITE_UNCORRECTABLE, nsid, slba, blocks)
}

fn verify(nsid: u32, slba: u64, blocks: u32) -> Sqe {
    read_write(NvmOpcode::VERIFY, nsid, slba, blocks)
}

async fn expect(host: &TestHost, pair: &Pair, sqe: Sqe, status: Status) {
    assert_eq!(host.io(pair, sqe).await.status(), status, "{sqe:?}");
}

async fn reads(host: &TestHost, pair: &Pair, nsid: u32, slba: u64, blocks: u32) -> bool {
    let (status, _) = host.try_read(pair, nsid, slba, blocks, block_bytes(nsid)).await;
    let verified = host.io(pair, verify(nsid, slba, blocks)).await.status();
    assert_eq!(verified, status, "what can be read can be verified");
    assert!(matches!(status, Status::SUCCESS | Status::UNRECOVERED_READ_ERROR), "{status}");
    status == Status::SUCCESS
}

// A tester marks single blocks. One too many and good data is lost; one too few and the error is not found; and what was
// there before must not come through.
#[test]
fn exactly_the_named_blocks_cannot_be_read() {
    for flushed in [false, true] {
        Bench::default().with_queue(async move |host, pair| {
            for nsid in [NS_512, NS_4K] {
                let bytes = pattern(1, 32 * block_bytes(nsid));
                for (from, count) in [(3, 1), (8, 8), (5, 20), (7, 2), (16, 9), (0, 32)] {
                    assert_eq!(host.write(&pair, nsid, 0, &bytes).await, Status::SUCCESS);
                    expect(&host, &pair, uncorrectable(nsid, from, count), Status::SUCCESS).await;
                    if flushed {
                        expect(&host, &pair, Sqe::new(NvmOpcode::FLUSH, 0, nsid), Status::SUCCESS).await;
                        host.sleep(LONG).await;
                    }
                    for lba in 0..32 {
                        let is_marked = (from..from + u64::from(count)).contains(&lba);
                        assert_eq!(reads(&host, &pair, nsid, lba, 1).await, !is_marked, "block {lba}");
                    }
                    assert!(!reads(&host, &pair, nsid, 0, 32).await);
                    if from > 0 {
                        assert_eq!(
                            host.read(&pair, nsid, 0, from as u32).await,
                            bytes[..from as usize * block_bytes(nsid)]
                        );
                    }
                }
            }
        });
    }
}

// A block is written to mend it. If it stayed bad, or mended its neighbours, no host could.
#[test]
fn writing_mends() {
    Bench::default().with_queue(async |host, pair| {
        let block = pattern(2, 512);
        expect(&host, &pair, uncorrectable(NS_512, 0, 64), Status::SUCCESS).await;
        assert_eq!(host.write(&pair, NS_512, 9, &block).await, Status::SUCCESS);
        for lba in 0..64 {
            assert_eq!(reads(&host, &pair, NS_512, lba, 1).await, lba == 9);
        }
        assert_eq!(host.read(&pair, NS_512, 9, 1).await, block);
        let zeroes = WriteZeroes { slba: 13, nlb_z: 16, ..WriteZeroes::default() }.sqe(0, NS_512);
        expect(&host, &pair, zeroes, Status::SUCCESS).await;
        let range = host.holding(&Range::new(40, 9).to_bytes());
        let trim = DatasetManagement { ad: true, ..DatasetManagement::default() }.sqe(0, NS_512);
        expect(&host, &pair, trim.with_prp(range, 0), Status::SUCCESS).await;
        for lba in 0..64 {
            let mended = lba == 9 || (13..30).contains(&lba) || (40..49).contains(&lba);
            assert_eq!(reads(&host, &pair, NS_512, lba, 1).await, mended, "block {lba}");
        }
        assert_eq!(host.read(&pair, NS_512, 13, 17).await, [0; 17 * 512]);
    });
}

// Compare that took zeroes for the data, or Copy that made an error into good data, would hide the loss.
#[test]
fn no_command_takes_such_a_block_for_data() {
    Bench::default().with_queue(async |host, pair| {
        for nsid in [NS_512, NS_4K] {
            let bytes = block_bytes(nsid);
            expect(&host, &pair, uncorrectable(nsid, 17, 1), Status::SUCCESS).await;
            let mut compare = host.write_sqe(nsid, 16, &vec![0; 3 * bytes]);
            compare.set_opcode(NvmOpcode::COMPARE);
            expect(&host, &pair, compare, Status::UNRECOVERED_READ_ERROR).await;
            let ranges = [CopyRange::new(0, 4), CopyRange::new(16, 3)].map(|range| range.to_bytes()).concat();
            let copy = Copy { sdlba: 100, nr_z: 1, ..Copy::default() }.sqe(0, nsid);
            let cqe = host.io(&pair, copy.with_prp(host.holding(&ranges), 0)).await;
            assert_eq!((cqe.status(), cqe.dw0), (Status::UNRECOVERED_READ_ERROR, 1), "the second range");
            assert!(reads(&host, &pair, nsid, 100, 7).await);
        }
        let log = host.log(lid::ERROR_INFORMATION, 0, 64).await;
        let entry = ErrorLogEntry::read_from_bytes(&log).expect("a page is as long as its structure");
        assert_eq!(
            (entry.lba, entry.status()),
            (17, Status::UNRECOVERED_READ_ERROR),
            "the block that failed"
        );
        let smart = SmartLog::read_from_bytes(&host.log(lid::SMART, 0, 512).await)
            .expect("a page is as long as its structure");
        assert_eq!(smart.media_errors.get(), 4);
    });
}

// The longest command names 65536 blocks, whatever a transfer may be: neither command may fail for that, or stop before
// its end.
#[test]
fn both_commands_are_as_long_as_a_command_can_be() {
    Bench::default().with_queue(async |host, pair| {
        let blocks = NS_4K_UNITS as u32;
        expect(&host, &pair, verify(NS_4K, 0, blocks), Status::SUCCESS).await;
        expect(&host, &pair, uncorrectable(NS_4K, 0, blocks), Status::SUCCESS).await;
        for lba in [0, 255, 256, 4000, NS_4K_UNITS - 1] {
            assert!(!reads(&host, &pair, NS_4K, lba, 1).await);
        }
        expect(&host, &pair, uncorrectable(NS_512, 3, 32_760), Status::SUCCESS).await;
        assert!(reads(&host, &pair, NS_512, 0, 3).await);
        for lba in [3, 8, 32_762] {
            assert!(!reads(&host, &pair, NS_512, lba, 1).await);
        }
        assert!(reads(&host, &pair, NS_512, 32_763, 5).await);
        let end = NS_512_UNITS * 8;
        for opcode in [NvmOpcode::VERIFY, NvmOpcode::WRITE_UNCORRECTABLE] {
            for (slba, count) in [(end, 1), (end - 1, 2), (u64::MAX, 1), (0, 65_536)] {
                let sqe = read_write(opcode, NS_512, slba, count);
                expect(&host, &pair, sqe, Status::LBA_OUT_OF_RANGE.with_dnr()).await;
            }
            expect(&host, &pair, read_write(opcode, 0, 0, 1), Status::INVALID_NAMESPACE.with_dnr()).await;
        }
    });
}

// Without a write cache what was marked is on flash when the command completes, like anything written.
#[test]
fn marks_are_durable_without_the_write_cache() {
    Bench::default().with_queue(async |host, pair| {
        host.set_feature(fid::VOLATILE_WRITE_CACHE, 0).await;
        expect(&host, &pair, uncorrectable(NS_512, 3, 9), Status::SUCCESS).await;
        assert_eq!(host.drive().controller.ftl().units_buffered(), 0);
    });
}
