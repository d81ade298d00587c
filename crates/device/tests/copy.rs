//! Copy (NVM Command Set 1.1, 3.2.2).

use crate::fixture::{Bench, NS_4K, NS_4K_UNITS, NS_512, Pair, TestHost, block_bytes, pattern};
use byteway_wire::FromBytes;
use byteway_wire::nvme::identify::oncs;
use byteway_wire::nvme::{Cns, Copy, CopyRange, IdentifyController, NvmOpcode, SmartLog, Sqe, Status, lid};

fn copy(host: &TestHost, nsid: u32, sdlba: u64, ranges: &[(u64, u32)]) -> Sqe {
    let bytes: Vec<u8> =
        ranges.iter().flat_map(|(slba, blocks)| CopyRange::new(*slba, *blocks).to_bytes()).collect();
    let command = Copy { sdlba, nr_z: (ranges.len() - 1) as u8, ..Copy::default() };
    let (prp1, prp2) = host.prp(host.holding(&bytes), bytes.len() as u64);
    command.sqe(0, nsid).with_prp(prp1, prp2)
}

async fn expect(host: &TestHost, pair: &Pair, sqe: Sqe, status: Status) {
    assert_eq!(host.io(pair, sqe).await.status(), status, "{sqe:?}");
}

// A copy that is not what it was made from is data that no host wrote.
#[test]
fn ranges_come_to_lie_one_after_another() {
    Bench::default().with_queue(async |host, pair| {
        for nsid in [NS_512, NS_4K] {
            let block = block_bytes(nsid);
            let source = pattern(3, 200 * block);
            for part in source.chunks(32 * block).enumerate() {
                assert_eq!(host.write(&pair, nsid, 32 * part.0 as u64, part.1).await, Status::SUCCESS);
            }
            for (sdlba, ranges) in [
                (1000, vec![(0, 8)]),
                (1001, vec![(0, 8)]),
                (1000, vec![(3, 1), (17, 9), (190, 10), (3, 1)]),
                (1006, vec![(0, 32), (8, 16), (100, 24)]),
                (200, vec![(199, 1)]),
            ] {
                let count: u32 = ranges.iter().map(|(_, count)| count).sum();
                let around = pattern(8, block);
                let end = sdlba + u64::from(count);
                assert_eq!(host.write(&pair, nsid, end, &around).await, Status::SUCCESS);
                expect(&host, &pair, copy(&host, nsid, sdlba, &ranges), Status::SUCCESS).await;
                let expected: Vec<u8> = ranges
                    .iter()
                    .flat_map(|(slba, count)| {
                        &source[*slba as usize * block..(*slba as usize + *count as usize) * block]
                    })
                    .copied()
                    .collect();
                for (at, part) in expected.chunks(32 * block).enumerate() {
                    let lba = sdlba + 32 * at as u64;
                    let held = host.read(&pair, nsid, lba, (part.len() / block) as u32).await;
                    assert!(held == part, "{ranges:?} to {sdlba}");
                }
                assert_eq!(host.read(&pair, nsid, end, 1).await, around, "nothing behind them");
            }
        }
    });
}

// A host may ask for what it should not: with ranges of this format every block of the destination then holds what some
// source block held, before or after the copy of the range that it is of.
#[test]
fn a_destination_that_overlaps_its_sources_holds_blocks_of_theirs() {
    Bench::default().with_queue(async |host, pair| {
        for nsid in [NS_512, NS_4K] {
            let block = block_bytes(nsid);
            let bytes = pattern(3, 16 * block);
            assert_eq!(host.write(&pair, nsid, 100, &bytes).await, Status::SUCCESS);
            expect(&host, &pair, copy(&host, nsid, 101, &[(100, 8)]), Status::SUCCESS).await;
            let held = host.read(&pair, nsid, 100, 16).await;
            assert_eq!(held[..block], bytes[..block]);
            assert_eq!(held[block..9 * block], bytes[..8 * block], "a range is read before it is written");
            assert_eq!(held[9 * block..], bytes[9 * block..]);
            expect(&host, &pair, copy(&host, nsid, 100, &[(100, 1)]), Status::SUCCESS).await;
            expect(&host, &pair, copy(&host, nsid, 109, &[(115, 1), (109, 1)]), Status::SUCCESS).await;
            let last = &bytes[15 * block..];
            assert_eq!(host.read(&pair, nsid, 109, 2).await, [last, last].concat());
        }
    });
}

// The limits are in Identify: exactly as much must go, and one more must not.
#[test]
fn limits_are_refused_before_anything_is_copied() {
    Bench::default().with_queue(async |host, pair| {
        let id = IdentifyController::read_from_bytes(&host.identify(Cns::CONTROLLER, 0).await)
            .expect("a page is as long as its structure");
        assert_eq!(id.cdfs, 1);
        assert_ne!(id.oncs & oncs::COPY_ATOMIC, 0, "blocks are atomic in a copy as they are in a write");
        let id = host.namespace(NS_4K).await;
        assert_eq!((id.mssrl, id.mcl, id.msrc), (32, 32 * 128, 127));
        assert_eq!(host.namespace(NS_512).await.mssrl, 256);
        let bytes = pattern(1, 4096);
        assert_eq!(host.write(&pair, NS_4K, 0, &bytes).await, Status::SUCCESS);
        let limit = Status::COMMAND_SIZE_LIMIT_EXCEEDED.with_dnr();
        let range = Status::LBA_OUT_OF_RANGE.with_dnr();
        let all = vec![(0, 32); 128];
        expect(&host, &pair, copy(&host, NS_4K, 4000, &all), Status::SUCCESS).await;
        for (sdlba, ranges, status) in [
            (4000, vec![(0, 33)], limit),
            (4000, vec![(0, 1); 129], limit),
            (4000, vec![(0, 65_536)], limit),
            (4000, vec![(0, 1), (NS_4K_UNITS, 1)], range),
            (4000, vec![(0, 1), (u64::MAX, 2)], range),
            (NS_4K_UNITS - 1, vec![(0, 2)], range),
            (u64::MAX, vec![(0, 1)], range),
        ] {
            let before = host.read(&pair, NS_4K, 4000, 8).await;
            expect(&host, &pair, copy(&host, NS_4K, sdlba, &ranges), status).await;
            assert_eq!(host.read(&pair, NS_4K, 4000, 8).await, before, "nothing was copied");
        }
        for format in 1..16 {
            let mut sqe = copy(&host, NS_4K, 4000, &[(0, 1)]);
            sqe.cdw12 |= format << 8;
            expect(&host, &pair, sqe, Status::INVALID_FIELD.with_dnr()).await;
        }
        let smart = SmartLog::read_from_bytes(&host.log(lid::SMART, 0, 512).await)
            .expect("a page is as long as its structure");
        assert_eq!(smart.host_write_commands.get(), 2);
    });
}

// Ranges lie in memory that the host may not have: the copy fails, and leaves no trace.
#[test]
fn ranges_that_are_not_there_fail_the_copy() {
    Bench::default().with_queue(async |host, pair| {
        let sqe = Copy { sdlba: 8, ..Copy::default() }.sqe(0, NS_4K).with_prp(host.hole(), 0);
        expect(&host, &pair, sqe, Status::DATA_TRANSFER_ERROR).await;
        expect(&host, &pair, Sqe::new(NvmOpcode::FLUSH, 0, NS_4K), Status::SUCCESS).await;
        assert_eq!(host.read(&pair, NS_4K, 8, 1).await, [0; 4096]);
    });
}
