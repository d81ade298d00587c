//! Every instruction, compared with values computed by hand from RFC 9669.

use byteway_program::assemble::*;
use byteway_program::instruction::{Instruction, REGISTER, alu, class, jump, mode, size};
use byteway_program::{Program, Range, Ranges};

/// Return value of a program with one range of 64 bytes, whose address is in R1.
fn result(instructions: &[Instruction]) -> u64 {
    let program = Program::verify(&assemble(instructions)).unwrap();
    let mut bytes = [0; 64];
    for (at, byte) in (0..).zip(&mut bytes) {
        *byte = 0xf0_u8.wrapping_add(at);
    }
    let mut memory = Ranges { parameters: &[], ranges: vec![Range::Write(&mut bytes)] };
    program.run(&mut memory, [byteway_program::memory::range_address(0), 0, 0, 0, 0], 1000).unwrap().r0
}

/// `operation` on `a` and `b`, both in registers.
fn of(make: fn(u8, Register, Register) -> Instruction, operation: u8, offset: i16, a: u64, b: u64) -> u64 {
    let [a0, a1] = wide(R0, a);
    let [b0, b1] = wide(R2, b);
    result(&[a0, a1, b0, b1, Instruction { offset, ..make(operation, R0, R2) }, exit()])
}

fn of64(operation: u8, offset: i16, a: u64, b: u64) -> u64 {
    of(alu64, operation, offset, a, b)
}

fn of32(operation: u8, offset: i16, a: u64, b: u64) -> u64 {
    of(alu32, operation, offset, a, b)
}

const MINUS: fn(i64) -> u64 = |value| -value as u64;
const HIGH: u64 = 0xdead_beef_0000_0000;

// A single wrong operation would change the results of compiled programs.
#[test]
fn arithmetic_of_64_bits() {
    assert_eq!(of64(alu::ADD, 0, u64::MAX, 2), 1);
    assert_eq!(of64(alu::SUB, 0, 1, 2), u64::MAX);
    assert_eq!(of64(alu::MUL, 0, 1 << 63, 3), 1 << 63);
    assert_eq!(of64(alu::DIV, 0, MINUS(7), 2), 0x7fff_ffff_ffff_fffc);
    assert_eq!(of64(alu::DIV, 1, MINUS(7), 2), MINUS(3), "signed division goes towards zero");
    assert_eq!(of64(alu::DIV, 0, 7, 0), 0);
    assert_eq!(of64(alu::DIV, 1, 7, 0), 0);
    assert_eq!(of64(alu::DIV, 1, 1 << 63, MINUS(1)), 1 << 63, "the least number by -1");
    assert_eq!(of64(alu::MOD, 0, MINUS(7), 2), 1);
    assert_eq!(of64(alu::MOD, 1, MINUS(7), 2), MINUS(1), "a remainder has the dividend's sign");
    assert_eq!(of64(alu::MOD, 0, 7, 0), 7);
    assert_eq!(of64(alu::MOD, 1, MINUS(7), 0), MINUS(7));
    assert_eq!(of64(alu::MOD, 1, 1 << 63, MINUS(1)), 0);
    assert_eq!(of64(alu::OR, 0, 0b1100, 0b1010), 0b1110);
    assert_eq!(of64(alu::AND, 0, 0b1100, 0b1010), 0b1000);
    assert_eq!(of64(alu::XOR, 0, 0b1100, 0b1010), 0b0110);
    assert_eq!(of64(alu::LSH, 0, 3, 64 + 62), 3 << 62, "of a shift 6 bits count");
    assert_eq!(of64(alu::RSH, 0, 1 << 63, 63), 1);
    assert_eq!(of64(alu::ARSH, 0, 1 << 63, 63), u64::MAX);
    assert_eq!(of64(alu::MOV, 0, 1, HIGH), HIGH);
    assert_eq!(of64(alu::MOV, 8, 0, 0x1234_5680), 0xffff_ffff_ffff_ff80);
    assert_eq!(of64(alu::MOV, 16, 0, 0x1234_8000), 0xffff_ffff_ffff_8000);
    assert_eq!(of64(alu::MOV, 32, 0, 0x1_8000_0000), 0xffff_ffff_8000_0000);
    assert_eq!(result(&[mov(R0, 5), alu64(alu::NEG, R0, 0), exit()]), MINUS(5));
}

// The upper half of a 32-bit result is zero; stale bits would turn an index into an invalid address.
#[test]
fn arithmetic_of_32_bits() {
    assert_eq!(of32(alu::ADD, 0, HIGH | 0xffff_ffff, HIGH | 2), 1);
    assert_eq!(of32(alu::SUB, 0, HIGH | 1, 2), 0xffff_ffff);
    assert_eq!(of32(alu::MUL, 0, HIGH | 0x8000_0000, 3), 0x8000_0000);
    assert_eq!(of32(alu::DIV, 0, HIGH | 0xffff_fff9, 2), 0x7fff_fffc);
    assert_eq!(of32(alu::DIV, 1, HIGH | 0xffff_fff9, 2), 0xffff_fffd);
    assert_eq!(of32(alu::DIV, 0, HIGH | 7, HIGH), 0, "the divisor's low half is zero");
    assert_eq!(of32(alu::DIV, 1, 0x8000_0000, 0xffff_ffff), 0x8000_0000);
    assert_eq!(of32(alu::MOD, 0, HIGH | 0xffff_fff9, 2), 1);
    assert_eq!(of32(alu::MOD, 1, HIGH | 0xffff_fff9, 2), 0xffff_ffff);
    assert_eq!(of32(alu::MOD, 0, HIGH | 7, HIGH), 7, "by zero the low half stays and the high half goes");
    assert_eq!(of32(alu::MOD, 1, 0x8000_0000, 0xffff_ffff), 0);
    assert_eq!(of32(alu::OR, 0, HIGH | 0b1100, HIGH | 0b1010), 0b1110);
    assert_eq!(of32(alu::AND, 0, HIGH | 0b1100, HIGH | 0b1010), 0b1000);
    assert_eq!(of32(alu::XOR, 0, HIGH | 0b1100, 0b1010), 0b0110);
    assert_eq!(of32(alu::LSH, 0, 3, 32 + 31), 0x8000_0000, "of a shift 5 bits count");
    assert_eq!(of32(alu::RSH, 0, HIGH | 0x8000_0000, 31), 1);
    assert_eq!(of32(alu::ARSH, 0, 0x8000_0000, 31), 0xffff_ffff);
    assert_eq!(of32(alu::MOV, 0, 0, HIGH | 9), 9);
    assert_eq!(of32(alu::MOV, 8, 0, 0x80), 0xffff_ff80);
    assert_eq!(of32(alu::MOV, 16, 0, 0x8000), 0xffff_8000);
    assert_eq!(result(&[mov(R0, 5), alu32(alu::NEG, R0, 0), exit()]), 0xffff_fffb);
}

// Immediate values are sign-extended to 64 bits, not in 32-bit operations.
#[test]
fn immediate_values() {
    assert_eq!(result(&[mov(R0, -1), exit()]), u64::MAX);
    assert_eq!(result(&[alu32(alu::MOV, R0, -1), exit()]), 0xffff_ffff);
    assert_eq!(result(&[mov(R0, 0), alu64(alu::OR, R0, i32::MIN), exit()]), 0xffff_ffff_8000_0000);
    assert_eq!(result(&[mov(R0, 100), alu64(alu::DIV, R0, -1), exit()]), 0, "unsigned: by 2^64 - 1");
    let signed = Instruction { offset: 1, ..alu64(alu::DIV, R0, -1) };
    assert_eq!(result(&[mov(R0, 100), signed, exit()]), MINUS(100));
    let [low, high] = wide(R0, 0x8000_0001_8000_0002);
    assert_eq!(result(&[low, high, exit()]), 0x8000_0001_8000_0002);
}

// Network protocols and big-endian files depend on these.
#[test]
fn order_of_bytes() {
    let value = 0x0102_0304_0506_0708;
    let [low, high] = wide(R0, value);
    let of = |opcode: u8, bits| {
        result(&[low, high, Instruction { opcode, dst: 0, src: 0, offset: 0, imm: bits }, exit()])
    };
    let (little, big) = (class::ALU | alu::END, class::ALU | alu::END | REGISTER);
    let swap = class::ALU64 | alu::END;
    assert_eq!([16, 32, 64].map(|bits| of(little, bits)), [0x0708, 0x0506_0708, value]);
    for opcode in [big, swap] {
        assert_eq!([16, 32, 64].map(|bits| of(opcode, bits)), [0x0807, 0x0807_0605, 0x0807_0605_0403_0201]);
    }
}

/// Whether a jump is taken.
fn taken(make: fn(u8, Register, Register, i16) -> Instruction, operation: u8, a: u64, b: u64) -> bool {
    let [a0, a1] = wide(R2, a);
    let [b0, b1] = wide(R3, b);
    result(&[a0, a1, b0, b1, make(operation, R2, R3, 2), mov(R0, 0), exit(), mov(R0, 1), exit()]) == 1
}

// A comparison that is off by one, or by signedness, makes a filter select wrong rows.
#[test]
fn jumps() {
    let minus = MINUS(1);
    // For each: whether it holds for less, equal, greater (unsigned), and for -1 with 1.
    for (operation, holds) in [
        (jump::EQ, [false, true, false, false]),
        (jump::NE, [true, false, true, true]),
        (jump::GT, [false, false, true, true]),
        (jump::GE, [false, true, true, true]),
        (jump::LT, [true, false, false, false]),
        (jump::LE, [true, true, false, false]),
        (jump::SGT, [false, false, true, false]),
        (jump::SGE, [false, true, true, false]),
        (jump::SLT, [true, false, false, true]),
        (jump::SLE, [true, true, false, true]),
    ] {
        let pairs = [(4, 5), (5, 5), (6, 5), (minus, 1)];
        assert_eq!(pairs.map(|(a, b)| taken(jump, operation, a, b)), holds, "{operation:#x}");
        let low = |value: u64| value & 0xffff_ffff | HIGH;
        let other = pairs.map(|(a, b)| taken(jump32, operation, low(a), b & 0xffff_ffff));
        assert_eq!(other, holds, "{operation:#x} of 32 bits, whatever the upper half");
    }
    assert!(taken(jump, jump::SET, 0b110, 0b010) && !taken(jump, jump::SET, 0b110, 0b001));
    assert!(!taken(jump32, jump::SET, HIGH, HIGH) && taken(jump, jump::SET, HIGH, HIGH));
    // Immediate values are sign-extended before the comparison.
    let with = |instruction| result(&[mov(R2, -5), instruction, mov(R0, 0), exit(), mov(R0, 1), exit()]);
    assert_eq!(with(jump(jump::EQ, R2, -5, 2)), 1);
    assert_eq!(with(jump32(jump::SLT, R2, -4, 2)), 1);
    assert_eq!(with(goto(2)), 1);
    let long = Instruction { opcode: class::JMP32 | jump::ALWAYS, imm: 2, ..Instruction::default() };
    assert_eq!(with(long), 1);
    // A backward jump: the sum of 1 to 10.
    let sum =
        [mov(R2, 10), alu64(alu::ADD, R0, R2), alu64(alu::SUB, R2, 1), jump(jump::NE, R2, 0, -3), exit()];
    assert_eq!(result(&sum), 55);
}

// The range holds f0 f1 f2 …, so that a wrong width, order or sign gives another number.
#[test]
fn loads() {
    let of = |instruction| result(&[instruction, exit()]);
    assert_eq!(of(load(size::BYTE, R0, R1, 1)), 0xf1);
    assert_eq!(of(load(size::HALF, R0, R1, 1)), 0xf2f1);
    assert_eq!(of(load(size::WORD, R0, R1, 1)), 0xf4f3_f2f1);
    assert_eq!(of(load(size::DOUBLE, R0, R1, 1)), 0xf8f7_f6f5_f4f3_f2f1);
    let signed = |size| of(Instruction { opcode: class::LDX | mode::MEMSX | size, ..load(size, R0, R1, 0) });
    assert_eq!(signed(size::BYTE), 0xffff_ffff_ffff_fff0);
    assert_eq!(signed(size::HALF), 0xffff_ffff_ffff_f1f0);
    assert_eq!(signed(size::WORD), 0xffff_ffff_f3f2_f1f0);
    assert_eq!(result(&[alu64(alu::ADD, R1, 8), load(size::BYTE, R0, R1, -3), exit()]), 0xf5);
}

// A store must change exactly the bytes it addresses, in a range and on the stack.
#[test]
fn stores() {
    let [low, high] = wide(R2, 0x1122_3344_5566_7788);
    for at in [R1, R10] {
        let offset = if at == R10 { -16 } else { 0 };
        for (size, stored) in [
            (size::BYTE, 0xffff_ffff_ffff_88ff),
            (size::HALF, 0xffff_ffff_ff77_88ff),
            (size::WORD, 0xffff_ff55_6677_88ff),
            (size::DOUBLE, 0x2233_4455_6677_88ff),
        ] {
            let program = [
                low,
                high,
                store(size::DOUBLE, at, offset, -1),
                store(size, at, offset + 1, R2),
                load(size::DOUBLE, R0, at, offset),
                exit(),
            ];
            assert_eq!(result(&program), stored);
        }
        let value = |size| {
            let program = [store(size, at, offset, -2), load(size::DOUBLE, R0, at, offset), exit()];
            result(&program) as u8
        };
        assert_eq!([size::BYTE, size::HALF, size::WORD, size::DOUBLE].map(value), [0xfe; 4]);
        let wide = [store(size::DOUBLE, at, offset, -2), load(size::DOUBLE, R0, at, offset), exit()];
        assert_eq!(result(&wide), MINUS(2), "an immediate value of 64 bits has its sign");
    }
}

// Programs locate their input with these; a call that preserved R1 to R5 would let programs rely on unspecified behavior.
#[test]
fn helpers() {
    let of = |helper, index| result(&[mov(R1, index), call(helper), exit()]);
    assert_eq!(of(byteway_program::verify::RANGE_ADDRESS, 0), byteway_program::memory::range_address(0));
    assert_eq!(of(byteway_program::verify::RANGE_BYTES, 0), 64);
    for index in [1, -1, i32::MAX] {
        assert_eq!(of(byteway_program::verify::RANGE_ADDRESS, index), 0);
        assert_eq!(of(byteway_program::verify::RANGE_BYTES, index), 0);
    }
    let kept = [
        mov(R5, 9),
        mov(R6, 7),
        mov(R1, 0),
        call(byteway_program::verify::RANGE_BYTES),
        alu64(alu::ADD, R0, R6),
        alu64(alu::ADD, R0, R5),
        alu64(alu::ADD, R0, R1),
        exit(),
    ];
    assert_eq!(result(&kept), 64 + 7);
}

// The cost of a run is computed from these counts, so a wrong class is a wrong charge.
#[test]
fn instructions_are_counted_by_class() {
    let [low, high] = wide(R0, 1);
    let program = [
        low,
        high,
        alu64(alu::DIV, R0, 1),
        alu32(alu::MOD, R0, 2),
        store(size::BYTE, R10, -1, 1),
        load(size::BYTE, R2, R10, -1),
        store(size::BYTE, R10, -1, R2),
        jump(jump::EQ, R0, 99, 0),
        mov(R1, 0),
        call(1),
        exit(),
    ];
    let program = Program::verify(&assemble(&program)).unwrap();
    let counts = program.run(&mut Ranges::default(), [0; 5], 100).unwrap().counts;
    let expected = byteway_program::Counts { alu: 2, divide: 2, memory: 3, jump: 2, call: 1 };
    assert_eq!((counts, counts.all()), (expected, 10));
    let weights = byteway_program::Weights { alu: 1, divide: 10, memory: 100, jump: 1000, call: 10000 };
    assert_eq!(weights.of(&counts), 2 + 20 + 300 + 2000 + 10000);
}
