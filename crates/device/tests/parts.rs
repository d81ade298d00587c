//! A drive that acknowledges parts of units when they are in DRAM: every command of the block set meets parts that wait.

use crate::fixture::{Bench, LONG, NS_512, Pair, TestHost, pattern, read_write};
use byteway_clock::random::Rng;
use byteway_testkit::drive_config;
use byteway_wire::nvme::{DatasetManagement, NvmOpcode, Range, Sqe, Status, WriteZeroes};

/// Blocks that the test works on: of 12 units.
const BLOCKS: u64 = 96;

async fn expect(host: &TestHost, pair: &Pair, sqe: Sqe) {
    assert_eq!(host.io(pair, sqe).await.status(), Status::SUCCESS, "{sqe:?}");
}

// A command that passes by the parts that wait gives what was, marks what it should not, or is undone by what was before it.
#[test]
fn every_command_sees_the_parts_that_wait() {
    for seed in 0..6 {
        let mut bench = Bench { drive: drive_config(), ..Bench::default() };
        bench.drive.ftl.absorbs_parts = Some(3 + seed as u32);
        bench.drive.ftl.plp = seed % 2 == 1;
        bench.with_queue(async move |host, pair| {
            let mut stream = Rng::new(seed).stream("host");
            // Of each block what it holds; none if it can't be read.
            let mut model: Vec<Option<Vec<u8>>> = vec![Some(vec![0; 512]); BLOCKS as usize];
            for step in 0..1500u64 {
                let first = stream.below(BLOCKS);
                let most = if stream.chance(0.8) { 4 } else { 24 };
                let count = 1 + stream.below(most.min(BLOCKS - first));
                let span = first as usize..(first + count) as usize;
                match stream.below(100) {
                    0..50 => {
                        let bytes = pattern(seed * 10_000 + step, count as usize * 512);
                        assert_eq!(host.write(&pair, NS_512, first, &bytes).await, Status::SUCCESS);
                        let blocks = bytes.chunks(512).map(|block| Some(block.to_vec()));
                        model[span].iter_mut().zip(blocks).for_each(|(held, block)| *held = block);
                    }
                    50..75 => {
                        let (status, bytes) = host.try_read(&pair, NS_512, first, count as u32, 512).await;
                        let expected: Option<Vec<Vec<u8>>> = model[span].iter().cloned().collect();
                        match expected {
                            Some(blocks) => {
                                assert_eq!(
                                    (status, bytes),
                                    (Status::SUCCESS, blocks.concat()),
                                    "step {step}"
                                );
                            }
                            None => assert_eq!(status, Status::UNRECOVERED_READ_ERROR, "step {step}"),
                        }
                    }
                    75..80 => {
                        let mark = read_write(NvmOpcode::WRITE_UNCORRECTABLE, NS_512, first, count as u32);
                        expect(&host, &pair, mark).await;
                        model[span].fill(None);
                    }
                    80..87 => {
                        let zeroes =
                            WriteZeroes { slba: first, nlb_z: count as u16 - 1, ..Default::default() };
                        expect(&host, &pair, zeroes.sqe(0, NS_512)).await;
                        model[span].fill(Some(vec![0; 512]));
                    }
                    87..92 => {
                        let range = host.holding(&Range::new(first, count as u32).to_bytes());
                        let trim = DatasetManagement { ad: true, ..Default::default() }.sqe(0, NS_512);
                        expect(&host, &pair, trim.with_prp(range, 0)).await;
                        model[span].fill(Some(vec![0; 512]));
                    }
                    92..97 => expect(&host, &pair, Sqe::new(NvmOpcode::FLUSH, 0, NS_512)).await,
                    _ => {
                        let equal = model[first as usize].clone();
                        let bytes = equal.clone().unwrap_or_else(|| vec![1; 512]);
                        let mut compare = host.write_sqe(NS_512, first, &bytes);
                        compare.set_opcode(NvmOpcode::COMPARE);
                        let status = host.io(&pair, compare).await.status();
                        assert_eq!(status == Status::SUCCESS, equal.is_some(), "step {step}: {status}");
                    }
                }
            }
            host.sleep(LONG).await;
        });
    }
}
