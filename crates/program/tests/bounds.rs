//! Memory bounds and instruction limits of programs.

use byteway_program::assemble::*;
use byteway_program::instruction::{Instruction, alu, jump, size};
use byteway_program::memory::{PARAMETERS, STACK_BYTES, STACK_END, range_address};
use byteway_program::{Machine, Program, Progress, Range, Ranges, Trap, TrapCause};

fn program(instructions: &[Instruction]) -> Program {
    Program::verify(&assemble(instructions)).unwrap()
}

/// Runs one instruction with `address` in R1, with a range of 16 bytes, a read-only one of 8, and 4 bytes of parameters.
fn access(instruction: Instruction, address: u64) -> Option<TrapCause> {
    let (mut first, second) = ([0; 16], [0; 8]);
    let mut memory =
        Ranges { parameters: &[0; 4], ranges: vec![Range::Write(&mut first), Range::Read(&second)] };
    let ran = program(&[instruction, exit()]).run(&mut memory, [address, 0, 0, 0, 0], 10);
    ran.err().map(|trap| {
        assert_eq!(trap.at, 0);
        trap.cause
    })
}

const SIZES: [(u8, u64); 4] = [(size::BYTE, 1), (size::HALF, 2), (size::WORD, 4), (size::DOUBLE, 8)];

// A byte beyond a range may belong to another host.
#[test]
fn nothing_beyond_a_range_is_read_or_written() {
    for (size, bytes) in SIZES {
        for (base, length, is_writable) in [
            (range_address(0), 16, true),
            (range_address(1), 8, false),
            (PARAMETERS, 4, false),
            (STACK_END - STACK_BYTES as u64, 512, true),
        ] {
            for at in -9..=length as i64 + 9 {
                let address = base.wrapping_add_signed(at);
                let fits = at >= 0 && at as u64 + bytes <= length;
                let outside = TrapCause::OutOfRange { address, bytes: bytes as u8 };
                let expected = (!fits).then_some(outside);
                assert_eq!(access(load(size, R0, R1, 0), address), expected, "{bytes} bytes at {address:#x}");
                let expected = match (fits, is_writable) {
                    (true, true) => None,
                    (true, false) => Some(TrapCause::ReadOnly { address, bytes: bytes as u8 }),
                    (false, _) => Some(outside),
                };
                assert_eq!(access(store(size, R1, 0, 1), address), expected);
                assert_eq!(access(store(size, R1, 0, R2), address), expected);
            }
        }
        for address in [0, 1, u64::MAX, u64::MAX - 7, 1 << 63, range_address(2), range_address(1 << 20)] {
            let outside = Some(TrapCause::OutOfRange { address, bytes: bytes as u8 });
            assert_eq!(access(load(size, R0, R1, 0), address), outside);
            assert_eq!(access(store(size, R1, 0, 1), address), outside);
        }
    }
    // Address arithmetic wraps around before the check.
    assert_eq!(access(load(size::BYTE, R0, R1, -1), range_address(0) + 16), None);
    let wrapped = TrapCause::OutOfRange { address: u64::MAX, bytes: 1 };
    assert_eq!(access(load(size::BYTE, R0, R1, -1), 0), Some(wrapped));
}

// A program that loops would otherwise block the drive.
#[test]
fn a_loop_ends_when_its_fuel_does() {
    let forever = program(&[goto(-1)]);
    for fuel in [0, 1, 1000] {
        let ran = forever.run(&mut Ranges::default(), [0; 5], fuel);
        assert_eq!(ran, Err(Trap { at: 0, cause: TrapCause::OutOfFuel }));
    }
    let two = program(&[mov(R0, 7), exit()]);
    assert_eq!(two.run(&mut Ranges::default(), [0; 5], 2).unwrap().r0, 7, "exactly as much as it needs");
    assert!(two.run(&mut Ranges::default(), [0; 5], 1).is_err());
}

// A run in slices must equal a run in one piece, or a result would depend on the drive's other load.
#[test]
fn slices_make_no_difference() {
    let sum = program(&[
        mov(R2, 100),
        alu64(alu::ADD, R0, R2),
        store(size::DOUBLE, R10, -8, R0),
        load(size::DOUBLE, R0, R10, -8),
        alu64(alu::SUB, R2, 1),
        jump(jump::NE, R2, 0, -5),
        exit(),
    ]);
    let whole = sum.run(&mut Ranges::default(), [0; 5], 10_000).unwrap();
    assert_eq!(whole.r0, 5050);
    for slice in [1, 2, 3, 7, 100] {
        let mut machine = Machine::new([0; 5]);
        let mut slices = 1;
        let r0 = loop {
            match machine.proceed(&sum, &mut Ranges::default(), slice).unwrap() {
                Progress::Ended(r0) => break r0,
                Progress::Paused => slices += 1,
            }
        };
        assert_eq!((r0, machine.counts()), (whole.r0, whole.counts));
        assert_eq!(slices, whole.counts.all().div_ceil(slice));
    }
}

// Effects before a trap remain; the trapping access has none.
#[test]
fn a_trap_says_where_and_changes_nothing() {
    let mut bytes = [1; 8];
    let broken = program(&[
        store(size::BYTE, R1, 7, 2),
        store(size::WORD, R1, 6, 3), // half of it is in range
        exit(),
    ]);
    let mut memory = Ranges { parameters: &[], ranges: vec![Range::Write(&mut bytes)] };
    let trap = broken.run(&mut memory, [range_address(0), 0, 0, 0, 0], 10).unwrap_err();
    let cause = TrapCause::OutOfRange { address: range_address(0) + 6, bytes: 4 };
    assert_eq!(trap, Trap { at: 1, cause });
    assert_eq!(
        trap.to_string(),
        "the program was stopped at instruction 1: access to 4 bytes at 0x200000006 is out of range"
    );
    assert_eq!(bytes, [1, 1, 1, 1, 1, 1, 1, 2]);
}
