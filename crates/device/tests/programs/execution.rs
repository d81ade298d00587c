//! Execute Program: what a program sees and returns, what it can't reach, and how a run ends.

use super::{
    MEMORY, OTHER, PROGRAMS, activate_sqe, bench, create_sqe, delete_sqe, dnr, execute, execute_sqe, install,
    read, returned, unload_sqe, write,
};
use crate::fixture::management::delete;
use crate::fixture::{Bench, NS_4K, Pair, TestHost, delete_sq, pattern, read_write, set_features};
use byteway_clock::{Delay, Time};
use byteway_program::Instruction;
use byteway_program::assemble::*;
use byteway_program::instruction::{alu, jump, size};
use byteway_program::memory::{PARAMETERS, range_address};
use byteway_wire::nvme::programs::MemoryRange;
use byteway_wire::nvme::{Abort, NvmOpcode, Status, fid};

/// Sums the 64-bit words of the first range.
fn sum() -> Vec<Instruction> {
    let [low, high] = wide(R6, range_address(0));
    vec![
        mov(R1, 0),
        call(byteway_program::verify::RANGE_BYTES),
        mov(R7, R0),
        low,
        high,
        alu64(alu::ADD, R7, R6), // the end
        mov(R0, 0),
        jump(jump::GE, R6, R7, 4),
        load(size::DOUBLE, R1, R6, 0),
        alu64(alu::ADD, R0, R1),
        alu64(alu::ADD, R6, 8),
        goto(-5),
        exit(),
    ]
}

/// Loops without end.
fn forever() -> Vec<Instruction> {
    vec![mov(R0, 0), goto(-2)]
}

// A program that sees other bytes, or whose answer is cut off, computes for nothing.
#[test]
fn a_program_sees_its_ranges_and_returns_64_bits() {
    bench().with_queue(async |host, pair| {
        install(&host, 2, &sum()).await;
        let bytes = pattern(1, 8192);
        assert_eq!(write(&host, &pair, MEMORY, 4000, &bytes).await, Status::SUCCESS);
        let words = |bytes: &[u8]| {
            let words = bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap()));
            words.fold(0, u64::wrapping_add)
        };
        let range = MemoryRange::new(MEMORY, 4000, 8192);
        let set = host.succeed(create_sqe(&host, &[range])).await as u16;
        assert_eq!(returned(&execute(&host, &pair, 2, set).await), words(&bytes));
        // The same range in the data of the command.
        let part = [MemoryRange::new(MEMORY, 4008, 80)];
        let cqe = host.io(&pair, execute_sqe(&host, 2, 0, &part, &[], [0; 2])).await;
        assert_eq!(returned(&cqe), words(&bytes[8..88]));
        assert_eq!(
            returned(&execute(&host, &pair, 2, 0).await),
            0,
            "without a range there is nothing to sum"
        );
    });
}

// A program decides by its parameters.
#[test]
fn a_program_finds_its_parameters() {
    bench().with_queue(async |host, pair| {
        // Stores R1 to R5, then the first parameter, to the second range; returns the second number.
        let [low, high] = wide(R6, range_address(1));
        let program = [
            low,
            high,
            load(size::WORD, R7, R1, 0),
            store(size::DOUBLE, R6, 0, R1),
            store(size::DOUBLE, R6, 8, R2),
            store(size::DOUBLE, R6, 16, R3),
            store(size::DOUBLE, R6, 24, R4),
            store(size::DOUBLE, R6, 32, R5),
            store(size::DOUBLE, R6, 40, R7),
            mov(R0, R4),
            exit(),
        ];
        install(&host, 0, &program).await;
        let ranges = [MemoryRange::new(MEMORY, 0, 4), MemoryRange::new(OTHER, 512, 48)];
        let numbers = [0x1111_2222_3333_4444, 0x5555_6666_7777_8888];
        let sqe = execute_sqe(&host, 0, 0, &ranges, &[1, 2, 3, 4, 5, 6, 7], numbers);
        assert_eq!(returned(&host.io(&pair, sqe).await), numbers[1]);
        let stored = read(&host, &pair, OTHER, 512, 48).await;
        let stored: Vec<u64> =
            stored.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
        assert_eq!(stored, [PARAMETERS, 7, numbers[0], numbers[1], 2, 0x0403_0201]);
        assert_eq!(read(&host, &pair, OTHER, 504, 8).await, [0; 8]);
        assert_eq!(read(&host, &pair, OTHER, 560, 8).await, [0; 8]);
    });
}

// Memory that was not passed to a program must be neither readable nor writable: next to a range, in another
// namespace, or, for writes, the parameters.
#[test]
fn a_program_that_reaches_beyond_is_stopped() {
    bench().with_queue(async |host, pair| {
        assert_eq!(write(&host, &pair, MEMORY, 0, &[7; 4096]).await, Status::SUCCESS);
        let range = [MemoryRange::new(MEMORY, 1024, 64)];
        let at = |address: u64, access: Instruction| {
            let [low, high] = wide(R1, address);
            vec![low, high, mov(R0, 0), access, exit()]
        };
        let base = range_address(0);
        for (address, access) in [
            (base + 64, load(size::BYTE, R0, R1, 0)),
            (base + 60, load(size::DOUBLE, R0, R1, 0)),
            (base, load(size::BYTE, R0, R1, -1)),
            (base + 61, store(size::WORD, R1, 0, 1)),
            (base - 1, store(size::BYTE, R1, 0, 1)),
            (range_address(1), load(size::BYTE, R0, R1, 0)),
            (PARAMETERS, store(size::BYTE, R1, 0, 1)),
            (PARAMETERS + 16, load(size::BYTE, R0, R1, 0)),
            (0, load(size::BYTE, R0, R1, 0)),
            (u64::MAX, load(size::DOUBLE, R0, R1, 0)),
        ] {
            install(&host, 0, &at(address, access)).await;
            let cqe = host.io(&pair, execute_sqe(&host, 0, 0, &range, &[9; 16], [0; 2])).await;
            assert_eq!(cqe.status(), dnr(Status::PROGRAM_TRAP), "{address:#x}");
            assert_eq!(cqe.dw0, 3, "the instruction that did it");
            host.succeed(activate_sqe(0, false)).await;
            host.succeed(unload_sqe(0)).await;
        }
        assert_eq!(read(&host, &pair, MEMORY, 0, 4096).await, [7; 4096]);
        // The drive continues to work.
        install(&host, 0, &[mov(R0, 5), exit()]).await;
        assert_eq!(returned(&execute(&host, &pair, 0, 0).await), 5);
    });
}

// Every wrong command has its status.
#[test]
fn executions_that_cannot_be_are_refused() {
    bench().with_queue(async |host, pair| {
        install(&host, 0, &[exit()]).await;
        let range = MemoryRange::new(MEMORY, 0, 64);
        let set = host.succeed(create_sqe(&host, &[range])).await as u16;
        let inactive = assemble(&[exit()]);
        host.succeed(super::piece_sqe(&host, 1, 8, 0, &inactive)).await;
        host.succeed(super::piece_sqe(&host, 2, 16, 0, &inactive)).await; // half of it
        let own = |ranges: &[MemoryRange]| execute_sqe(&host, 0, 0, ranges, &[], [0; 2]);
        let of = |program, set| execute_sqe(&host, program, set, &[], &[], [0; 2]);
        let mut short = own(&[range]);
        short.mptr = 31;
        let mut long = own(&[range]);
        long.mptr = (128 << 10) + 1;
        let mut many = own(&[range]);
        many.cdw3 = u32::MAX;
        for (sqe, status) in [
            (of(4, 0), Status::INVALID_PROGRAM_INDEX),
            (of(3, 0), Status::NO_PROGRAM),
            (of(1, 0), Status::PROGRAM_NOT_ACTIVATED),
            (of(2, 0), Status::PROGRAM_NOT_ACTIVATED),
            (of(0, set + 1), Status::INVALID_MEMORY_RANGE_SET_ID),
            (of(0, u16::MAX), Status::INVALID_MEMORY_RANGE_SET_ID),
            (execute_sqe(&host, 0, set, &[range], &[], [0; 2]), Status::INVALID_FIELD),
            (own(&[range; 5]), Status::MEMORY_RANGES_EXCEEDED),
            (own(&[range; 2]), Status::OVERLAPPING_MEMORY_RANGES),
            (own(&[MemoryRange::new(NS_4K, 0, 64)]), Status::INVALID_MEMORY_NAMESPACE),
            (own(&[MemoryRange::new(OTHER, 0, 1 << 20)]), Status::INVALID_MEMORY_RANGE_SET),
            (short, Status::INVALID_FIELD),
            (long, Status::INVALID_FIELD),
            (many, Status::MEMORY_RANGES_EXCEEDED),
        ] {
            assert_eq!(host.io(&pair, sqe).await.status(), dnr(status), "{sqe:?}");
        }
        let hole = own(&[range]).with_prp(host.hole(), 0);
        assert_eq!(host.io(&pair, hole).await.status(), Status::DATA_TRANSFER_ERROR);
        // None of them has left its program or its set in use.
        host.succeed(delete_sqe(set)).await;
        host.succeed(activate_sqe(0, false)).await;
        host.succeed(unload_sqe(0)).await;
    });
}

// A program without an end must not take the drive with it: it is stopped when its fuel is used, and others work meanwhile.
#[test]
fn a_loop_ends_by_its_fuel_and_holds_up_nothing() {
    bench().with_queue(async |host, pair| {
        install(&host, 0, &forever()).await;
        let page = host.holding(&pattern(1, 4096));
        let block = read_write(NvmOpcode::WRITE, NS_4K, 0, 1).with_prp(page, 0);
        let time = async |sqe| {
            let start = host.clock().now();
            assert_eq!(host.io(&pair, sqe).await.status(), Status::SUCCESS);
            host.clock().now().since(start)
        };
        let alone = time(block).await;
        let start = host.clock().now();
        let runs: Vec<u16> =
            (0..8).map(|_| host.submit(&pair.sq, execute_sqe(&host, 0, 0, &[], &[], [0; 2]))).collect();
        // Of two cores one is the programs'; a slice of 10,000 instructions weighs 15,000.
        for _ in 0..50 {
            let beside = time(block).await;
            assert!(beside <= alone + Delay::from_us(16), "{beside:?} next to programs, {alone:?} alone");
        }
        assert!(host.look(&pair.cq).is_none(), "the programs run on");
        for run in runs {
            let cqe = host.completion(&pair.cq, run).await;
            assert_eq!(cqe.status(), dnr(Status::PROGRAM_OUT_OF_FUEL));
            assert!(cqe.dw0 < 2);
        }
        // A million instructions each, half of which weigh 2: one after another on one core.
        let took = host.clock().now().since(start);
        assert!((Delay::from_us(12_000)..Delay::from_us(12_100)).contains(&took), "{took:?}");
    });
}

// Runs hold command slots: without a limit they could hold all of them, and no read or write would be executed until they end.
#[test]
fn runs_leave_slots_for_other_commands() {
    bench().with_queue(async |host, pair| {
        install(&host, 0, &forever()).await;
        let runs: Vec<u16> =
            (0..12).map(|_| host.submit(&pair.sq, execute_sqe(&host, 0, 0, &[], &[], [0; 2]))).collect();
        host.sleep(Delay::from_us(100)).await;
        let refused = execute(&host, &pair, 0, 0).await;
        assert_eq!(refused.status(), Status::INSUFFICIENT_PROGRAM_RESOURCES, "it may be tried again");
        for run in runs {
            let cqe = host.completion(&pair.cq, run).await;
            assert_eq!(cqe.status(), dnr(Status::PROGRAM_OUT_OF_FUEL));
        }
        assert_eq!(execute(&host, &pair, 0, 0).await.status(), dnr(Status::PROGRAM_OUT_OF_FUEL));
    });
}

// A run is charged for its instructions: a free program, or one charged twice, would make push-down look
// better or worse.
#[test]
fn a_run_takes_what_its_instructions_weigh() {
    bench().with_queue(async |host, pair| {
        let repeated = |instruction: Instruction, count: usize| {
            let mut program = vec![instruction; count];
            program.push(exit());
            program
        };
        let mut times = Vec::new();
        for (instruction, count) in [
            (mov(R0, 1), 1),
            (mov(R0, 1), 1001),
            (alu64(alu::DIV, R0, 3), 1001),
            (store(size::DOUBLE, R10, -8, R0), 1001),
            (jump(jump::EQ, R0, 1, 0), 1001),
        ] {
            install(&host, 0, &repeated(instruction, count)).await;
            let start = host.clock().now();
            returned(&execute(&host, &pair, 0, 0).await);
            times.push(host.clock().now().since(start));
            host.succeed(activate_sqe(0, false)).await;
            host.succeed(unload_sqe(0)).await;
        }
        let ns = |delay: u64| Delay::from_ns(delay);
        assert_eq!(times[1] - times[0], ns(1000));
        assert_eq!(times[2] - times[0], ns(1001 * 10 - 1));
        assert_eq!(times[3] - times[0], ns(1001 * 4 - 1));
        assert_eq!(times[4] - times[0], ns(1001 * 2 - 1));
    });
}

/// Begins a loop; gives its command identifier when it runs.
async fn begin(host: &TestHost, pair: &Pair, set: u16) -> u16 {
    let cid = host.submit(&pair.sq, execute_sqe(host, 0, set, &[], &[], [0; 2]));
    host.sleep(Delay::from_us(200)).await;
    cid
}

/// Everything of a run that was ended is free again.
async fn is_free(host: &TestHost, set: u16) {
    host.succeed(delete_sqe(set)).await;
    host.succeed(activate_sqe(0, false)).await;
    host.succeed(unload_sqe(0)).await;
}

// A run that can't be ended holds its queue, and its memory, for as long as it likes.
#[test]
fn a_run_ends_with_its_command() {
    bench().with_queue(async |host, pair| {
        install(&host, 0, &forever()).await;
        let range = MemoryRange::new(MEMORY, 0, 64);
        let set = host.succeed(create_sqe(&host, &[range])).await as u16;
        let cid = begin(&host, &pair, set).await;
        // While it runs nothing of it can be taken.
        host.refused(activate_sqe(0, false), Status::PROGRAM_IN_USE).await;
        host.refused(unload_sqe(0), Status::PROGRAM_IN_USE).await;
        host.refused(delete_sqe(set), Status::MEMORY_RANGE_SET_IN_USE).await;
        let start = host.clock().now();
        let aborted = host.admin(Abort { sqid: 1, cid }.sqe(0)).await;
        assert_eq!((aborted.status(), aborted.dw0), (Status::SUCCESS, 0));
        assert!(host.clock().now().since(start) < Delay::from_us(40), "within a slice or two");
        assert_eq!(host.completion(&pair.cq, cid).await.status(), Status::ABORT_REQUESTED);
        // Delete SQ.
        let second = host.create_pair(2, 64).await;
        let cid = begin(&host, &second, set).await;
        host.succeed(delete_sq(2)).await;
        assert_eq!(host.completion(&second.cq, cid).await.status(), Status::ABORTED_SQ_DELETED);
        // A reset.
        begin(&host, &pair, set).await;
        let start = host.clock().now();
        host.disable().await;
        assert!(host.clock().now().since(start) < Delay::from_us(60));
        host.enable().await;
        let pair = host.create_pair(1, 64).await;
        begin(&host, &pair, set).await;
        host.disable().await;
        host.enable().await;
        is_free(&host, set).await;
    });
}

// Aborts and resets at every place of a run: whatever it waits for, it ends, and leaves nothing behind.
#[test]
fn a_run_ends_wherever_it_is() {
    bench().with_queue(async |host, mut pair| {
        install(&host, 0, &forever()).await;
        let ranges = [MemoryRange::new(MEMORY, 0, 64)];
        for step in 0..60 {
            let sqe = execute_sqe(&host, 0, 0, &ranges, &[3; 5000], [0; 2]);
            let cid = host.submit(&pair.sq, sqe);
            host.sleep(Delay::from_ns(step * 137)).await;
            if step % 2 == 0 {
                host.admin(Abort { sqid: 1, cid }.sqe(0)).await;
                assert_eq!(host.completion(&pair.cq, cid).await.status(), Status::ABORT_REQUESTED, "{step}");
            } else {
                host.disable().await;
                host.enable().await;
                pair = host.create_pair(1, 64).await;
            }
        }
        host.succeed(activate_sqe(0, false)).await;
        host.succeed(unload_sqe(0)).await;
    });
}

// A set outlives its namespace. What has its identifier later is another's: a program must not get that by an old set.
#[test]
fn a_set_whose_namespace_is_gone_is_of_no_use() {
    bench().with_queue(async |host, pair| {
        install(&host, 0, &sum()).await;
        let set = host.succeed(create_sqe(&host, &[MemoryRange::new(OTHER, 0, 64)])).await as u16;
        assert_eq!(write(&host, &pair, OTHER, 0, &[1; 64]).await, Status::SUCCESS);
        assert_eq!(returned(&execute(&host, &pair, 0, set).await), 8 * 0x0101_0101_0101_0101);
        host.succeed(host.attach_sqe(OTHER, false)).await;
        let cqe = execute(&host, &pair, 0, set).await;
        assert_eq!(cqe.status(), dnr(Status::INVALID_MEMORY_NAMESPACE), "detached");
        host.succeed(host.attach_sqe(OTHER, true)).await;
        assert_eq!(returned(&execute(&host, &pair, 0, set).await), 8 * 0x0101_0101_0101_0101);
        host.succeed(delete(OTHER)).await;
        let cqe = execute(&host, &pair, 0, set).await;
        assert_eq!(cqe.status(), dnr(Status::INVALID_MEMORY_NAMESPACE), "deleted");
        let again = super::client::create_memory(&host, 64 << 10).await;
        assert_eq!(again, OTHER, "another namespace of the same identifier");
        let cqe = execute(&host, &pair, 0, set).await;
        assert_eq!(cqe.status(), dnr(Status::INVALID_MEMORY_NAMESPACE), "another");
        assert_eq!(read(&host, &pair, OTHER, 0, 64).await, [0; 64], "nothing of the old one is in it");
        let set = host.succeed(create_sqe(&host, &[MemoryRange::new(OTHER, 0, 64)])).await as u16;
        assert_eq!(returned(&execute(&host, &pair, 0, set).await), 0);
    });
}

// Deletion waits for a run over the namespace: it would take the memory from under the program.
#[test]
fn a_namespace_is_deleted_when_no_run_has_it() {
    bench().with_queue(async |host, pair| {
        install(&host, 0, &forever()).await;
        let set = host.succeed(create_sqe(&host, &[MemoryRange::new(OTHER, 0, 64)])).await as u16;
        for nsid in [OTHER, PROGRAMS] {
            let cid = begin(&host, &pair, set).await;
            let deleted = host.submit(&host.admin_pair().sq, delete(nsid));
            host.sleep(Delay::from_us(300)).await;
            assert!(host.look(&host.admin_pair().cq).is_none(), "{nsid} is deleted under a program");
            host.admin(Abort { sqid: 1, cid }.sqe(0)).await;
            assert_eq!(host.completion(&pair.cq, cid).await.status(), Status::ABORT_REQUESTED);
            let cqe = host.completion(&host.admin_pair().cq, deleted).await;
            assert_eq!(cqe.status(), Status::SUCCESS);
            if nsid == OTHER {
                host.succeed(delete_sqe(set)).await;
                let range = MemoryRange::new(MEMORY, 0, 64);
                assert_eq!(host.succeed(create_sqe(&host, &[range])).await as u16, set);
            }
        }
        assert_eq!(execute(&host, &pair, 0, 0).await.status(), dnr(Status::INVALID_FIELD));
    });
}

// Write-protected memory is read-only for programs, too.
#[test]
fn a_protected_namespace_can_only_be_read() {
    bench().with_queue(async |host, pair| {
        let [low, high] = wide(R1, range_address(0));
        install(&host, 0, &[low, high, store(size::BYTE, R1, 0, 1), exit()]).await;
        install(&host, 1, &sum()).await;
        let set = host.succeed(create_sqe(&host, &[MemoryRange::new(OTHER, 0, 64)])).await as u16;
        let protect = |state| {
            let sqe = set_features(fid::NAMESPACE_WRITE_PROTECTION, state);
            byteway_wire::nvme::Sqe { nsid: OTHER, ..sqe }
        };
        host.succeed(protect(1)).await;
        let cqe = execute(&host, &pair, 0, set).await;
        assert_eq!(cqe.status(), dnr(Status::PROGRAM_TRAP));
        assert_eq!(returned(&execute(&host, &pair, 1, set).await), 0);
        assert_eq!(write(&host, &pair, OTHER, 0, &[1; 4]).await, dnr(Status::NAMESPACE_WRITE_PROTECTED));
        host.succeed(protect(0)).await;
        returned(&execute(&host, &pair, 0, set).await);
        assert_eq!(read(&host, &pair, OTHER, 0, 4).await, [1, 0, 0, 0]);
    });
}

// The same run twice must end at the same picosecond: what differed once differs in every comparison.
#[test]
fn runs_are_deterministic() {
    let run = || {
        Bench::with_queue(bench(), async |host, pair| -> Vec<(Time, u32, u32)> {
            install(&host, 0, &sum()).await;
            install(&host, 1, &forever()).await;
            assert_eq!(write(&host, &pair, MEMORY, 0, &pattern(3, 65536)).await, Status::SUCCESS);
            let ranges = [MemoryRange::new(MEMORY, 0, 65536)];
            let mut cids = Vec::new();
            for index in 0..12 {
                cids.push(host.submit(&pair.sq, execute_sqe(&host, index % 2, 0, &ranges, &[], [0; 2])));
                host.sleep(Delay::from_ns(777)).await;
            }
            let mut ends = Vec::new();
            for cid in cids {
                let cqe = host.completion(&pair.cq, cid).await;
                ends.push((host.clock().now(), cqe.dw0, cqe.dw1));
            }
            ends
        })
    };
    assert_eq!(run(), run());
}
