//! Plain commands as records, carried on by calls, and as a task's: one behaviour.
//!
//! A command whose data pointer is one SGL data block is never plain, and its entry and payload cross the link as those of a PRP do. So the
//! same commands are done once by each, and every instant and status must be the same.
//!
//! Not here: what a reset, an Abort or a deletion does at each wait of a record (`cancellation.rs`), power cuts (the swarm).

use crate::fixture::{
    Bench, NS_4K, NS_4K_UNITS, NS_512, NS_512_UNITS, PAGE, Pair, TestHost, pattern, read_write,
};
use byteway_clock::{Delay, Time};
use byteway_flash::Quantiles;
use byteway_wire::nvme::{NvmOpcode, SglDescriptor, Sqe, Status};

/// One page, by the data pointer that makes the command plain, or the one that does not.
fn page(by_record: bool, sqe: Sqe, address: u64) -> Sqe {
    if by_record {
        sqe.with_prp(address, 0)
    } else {
        sqe.with_sgl(SglDescriptor::data_block(address, PAGE as u32))
    }
}

/// When each command of `commands` (namespace, unit, opcode) has completed, with its status, `depth` at a time; and what was read.
fn run(bench: Bench, by_record: bool, depth: usize, commands: Vec<(u32, u64, NvmOpcode)>) -> Run {
    bench.with_queue(async move |host, pair| {
        let mut run = Run::default();
        let pages: Vec<u64> = (0..depth).map(|_| host.aligned_pages(1)).collect();
        for round in commands.chunks(depth) {
            for ((nsid, unit, opcode), address) in round.iter().zip(&pages) {
                let per_unit = if *nsid == NS_4K { 1 } else { 8 };
                if *opcode == NvmOpcode::WRITE {
                    host.poke(*address, &pattern(*unit + run.ended.len() as u64, PAGE as usize));
                }
                let sqe = read_write(*opcode, *nsid, unit * per_unit, per_unit as u32);
                host.place(&pair.sq, page(by_record, sqe, *address));
            }
            host.ring_tail(&pair.sq);
            for _ in round {
                let cqe = host.next(&pair.cq).await;
                run.ended.push((host.clock().now(), cqe.cid, cqe.status()));
            }
            for ((_, _, opcode), address) in round.iter().zip(&pages) {
                if *opcode == NvmOpcode::READ {
                    run.read.push(host.peek(*address, PAGE as usize));
                }
            }
        }
        run
    })
}

#[derive(Default, PartialEq, Eq)]
struct Run {
    ended: Vec<(Time, u16, Status)>,
    read: Vec<Vec<u8>>,
}

/// Reads and writes over both namespaces in a fixed order: of what is in flash, in the buffer and nowhere, and beyond the end.
fn mixed(count: u64) -> Vec<(u32, u64, NvmOpcode)> {
    (0..count)
        .map(|number| {
            let draw = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
            let (nsid, units) = if draw & 1 == 0 { (NS_4K, NS_4K_UNITS) } else { (NS_512, NS_512_UNITS) };
            let opcode = if draw & 2 == 0 { NvmOpcode::READ } else { NvmOpcode::WRITE };
            let unit = if number % 61 == 60 { units } else { (draw >> 2) % units.min(40) };
            (nsid, unit, opcode)
        })
        .collect()
}

// Records exist for their speed alone: where they differ from tasks, one of the two is wrong.
#[test]
fn records_and_tasks_end_commands_at_the_same_instants() {
    for depth in [1, 7, 32] {
        let [by_record, by_task] =
            [true, false].map(|by_record| run(Bench::with_sgl(), by_record, depth, mixed(400)));
        let differs = by_record.ended.iter().zip(&by_task.ended).position(|(record, task)| record != task);
        let at = |run: &Run| differs.map(|at| run.ended[at]);
        assert_eq!(at(&by_record), at(&by_task), "depth {depth}, command {differs:?}");
        assert!(by_record.read == by_task.read, "depth {depth}: other data");
        let failed = by_record.ended.iter().filter(|(.., status)| *status != Status::SUCCESS).count();
        assert_eq!(failed, 6, "those beyond the end");
    }
}

// A read whose time is drawn must draw the same on either path, or what a drive measures would depend on how the model is built.
#[test]
fn records_and_tasks_draw_the_same_times_of_reads() {
    let quantiles = Quantiles::new(&[(0.0, 0.5), (50.0, 1.0), (100.0, 9.0)]).expect("they are possible");
    for depth in [1, 7, 32] {
        let bench = |given: Option<&Quantiles>| {
            let mut bench = Bench::with_sgl();
            bench.drive.timing.read_quantiles = given.cloned();
            bench
        };
        let [by_record, by_task] =
            [true, false].map(|by_record| run(bench(Some(&quantiles)), by_record, depth, mixed(400)));
        assert!(by_record == by_task, "depth {depth}");
        let even = run(bench(None), true, depth, mixed(400));
        assert!(
            by_record.ended != even.ended && by_record.read == even.read,
            "depth {depth}: no time was drawn"
        );
    }
}

// A core for the DMA engine, and few tags for reads of host memory, are waits of their own.
#[test]
fn records_wait_as_tasks_do_for_the_dma_engine_and_for_tags() {
    let bench = || {
        let mut bench = Bench::with_sgl();
        bench.link.read_tags = 24;
        bench
    };
    let [by_record, by_task] = [true, false].map(|by_record| run(bench(), by_record, 32, mixed(320)));
    assert!(by_record == by_task, "with few tags");
}

// A buffer that is full is the usual wait of writes: the line for it must be the same line.
#[test]
fn records_wait_as_tasks_do_for_the_write_buffer() {
    let writes = |count: u64| (0..count).map(|unit| (NS_4K, unit % 64, NvmOpcode::WRITE)).collect::<Vec<_>>();
    let bench = || {
        let mut bench = Bench::with_sgl();
        bench.drive.ftl.write_buffer_units = 16;
        bench
    };
    let [by_record, by_task] = [true, false].map(|by_record| run(bench(), by_record, 48, writes(480)));
    assert!(by_record == by_task, "with a small buffer");
    let longest = by_record.ended.windows(2).map(|pair| pair[1].0.since(pair[0].0)).max();
    assert!(longest > Some(Delay::from_us(20)), "no write has waited for a program: {longest:?}");
}

/// Twelve reads and writes of one page each, in one doorbell.
fn submit_twelve(host: &TestHost, pair: &Pair) {
    let page = host.aligned_pages(1);
    for unit in 0..12 {
        let opcode = if unit % 2 == 0 { NvmOpcode::WRITE } else { NvmOpcode::READ };
        host.place(&pair.sq, read_write(opcode, NS_4K, unit, 1).with_prp(page, 0));
    }
    host.ring_tail(&pair.sq);
}

// A read of entries that takes several batches of requests is a task's, between calls: the commands must not notice.
#[test]
fn entries_come_in_several_parts() {
    let bench = || {
        let mut bench = Bench::default();
        (bench.link.read_tags, bench.link.mrrs) = (4, 128); // two entries a batch of requests
        bench.drive.controller.fetch_burst = 64;
        bench
    };
    for fetches in [1, 3] {
        let mut bench = bench();
        bench.drive.controller.fetch_outstanding = fetches;
        let tags_free = bench.with_queue(async |host, pair| {
            for _ in 0..5 {
                submit_twelve(&host, &pair);
                for _ in 0..12 {
                    assert_eq!(host.next(&pair.cq).await.status(), Status::SUCCESS);
                }
                host.ring_head(&pair.cq);
            }
            host.device().tags_free()
        });
        assert!(tags_free, "{fetches} reads of entries at a time");
    }
}

// A link outlives its drive: what a read of entries or a command held of it when the power went must be free for the next drive.
#[test]
fn a_drive_without_power_holds_no_tags() {
    for (mrrs, tags) in [(512, 32), (512, 8), (128, 4)] {
        for tenths in 0..60 {
            let mut bench = Bench { ends_quiet: false, ..Bench::default() };
            (bench.link.read_tags, bench.link.mrrs) = (tags, mrrs);
            bench.with_queue(async move |host, pair| {
                submit_twelve(&host, &pair);
                host.sleep(Delay::from_ns(tenths * 100)).await;
                drop(host.drive().power_off());
                host.sleep(Delay::from_us(20)).await;
                assert!(
                    host.device().tags_free(),
                    "{tags} tags, without power after {tenths} tenths of a microsecond"
                );
            });
        }
    }
}

// A reset waits for reads of entries as it does for commands, also for those that are a task's, and the entries are nobody's after it.
#[test]
fn a_reset_meets_entries_that_are_being_read() {
    for (mrrs, tags) in [(512, 32), (128, 4)] {
        for tenths in 0..40 {
            let mut bench = Bench::default();
            (bench.link.read_tags, bench.link.mrrs) = (tags, mrrs);
            bench.drive.controller.fetch_burst = 64;
            bench.with_queue(async move |host, pair| {
                submit_twelve(&host, &pair);
                host.sleep(Delay::from_ns(tenths * 100)).await;
                host.disable().await;
                assert!(
                    host.controller().is_quiet(),
                    "{tags} tags, reset after {tenths} tenths of a microsecond"
                );
                host.enable().await;
                let pair = host.create_pair(1, 64).await;
                submit_twelve(&host, &pair);
                for _ in 0..12 {
                    assert_eq!(host.next(&pair.cq).await.status(), Status::SUCCESS);
                }
            });
        }
    }
}
