//! Compares arithmetic and comparisons with an independent evaluator, which uses 128-bit integers and reduces at the end.

use byteway_program::assemble::*;
use byteway_program::instruction::{Instruction, alu, jump};
use byteway_program::{Program, Ranges};
use proptest::prelude::*;

/// Edge values and random numbers.
fn number() -> impl Strategy<Value = u64> {
    let edges = [0, 1, 2, 31, 32, 63, 64, 0x7f, 0x80, 0x7fff, 0x8000, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff];
    let of_edge = proptest::sample::select(edges.to_vec());
    prop_oneof![
        of_edge.clone(),
        of_edge.clone().prop_map(|edge: u64| edge.wrapping_neg()),
        of_edge.prop_map(|edge| edge << 32),
        Just(1 << 63),
        any::<u64>(),
    ]
}

/// `value` as a signed number of `bits` bits.
fn signed(value: u64, bits: u32) -> i128 {
    let modulus = 1_i128 << bits;
    let value = i128::from(value) % modulus;
    if value >= modulus / 2 { value - modulus } else { value }
}

/// Result of an operation of 64 or 32 bits.
fn naive(operation: u8, offset: i16, bits: u32, a: u64, b: u64) -> u64 {
    let modulus = 1_i128 << bits;
    let (x, y) = (i128::from(a) % modulus, i128::from(b) % modulus);
    let (sx, sy) = (signed(a, bits), signed(b, bits));
    let power = |shift: i128| 1_i128 << (shift % i128::from(bits));
    let value = match (operation, offset) {
        (alu::ADD, _) => x + y,
        (alu::SUB, _) => x - y,
        (alu::MUL, _) => (x % (1 << 32)) * y + (((x >> 32) * (y % (1 << 32)) % (1 << 32)) << 32),
        (alu::DIV, 0) => {
            if y == 0 {
                0
            } else {
                x / y
            }
        }
        (alu::DIV, _) => {
            if sy == 0 {
                0
            } else {
                sx / sy
            }
        }
        (alu::MOD, 0) => {
            if y == 0 {
                x
            } else {
                x - x / y * y
            }
        }
        (alu::MOD, _) => {
            if sy == 0 {
                x
            } else {
                sx - sx / sy * sy
            }
        }
        (alu::OR, _) => x + y - (x & y),
        (alu::AND, _) => x & y,
        (alu::XOR, _) => (x | y) - (x & y),
        (alu::LSH, _) => (x % (modulus / power(y))) * power(y),
        (alu::RSH, _) => x / power(y),
        (alu::ARSH, _) => sx.div_euclid(power(y)),
        (alu::NEG, _) => -x,
        (_, 0) => y,
        (_, wide) => signed(b, wide as u32),
    };
    value.rem_euclid(modulus) as u64
}

const OPERATIONS: [(u8, i16); 15] = [
    (alu::ADD, 0),
    (alu::SUB, 0),
    (alu::MUL, 0),
    (alu::DIV, 0),
    (alu::DIV, 1),
    (alu::MOD, 0),
    (alu::MOD, 1),
    (alu::OR, 0),
    (alu::AND, 0),
    (alu::XOR, 0),
    (alu::LSH, 0),
    (alu::RSH, 0),
    (alu::ARSH, 0),
    (alu::MOV, 0),
    (alu::MOV, 16),
];

fn run(instructions: &[Instruction]) -> u64 {
    let program = Program::verify(&assemble(instructions)).unwrap();
    program.run(&mut Ranges::default(), [0; 5], 100).unwrap().r0
}

fn with_both(a: u64, b: u64, rest: &[Instruction]) -> u64 {
    let mut all = [wide(R0, a), wide(R2, b)].concat();
    all.extend_from_slice(rest);
    run(&all)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4096, failure_persistence: None, ..ProptestConfig::default() })]

    // Two independent evaluators that agree on all kinds of numbers are unlikely to share a corner-case error.
    #[test]
    fn arithmetic_is_what_it_is_in_whole_numbers(a in number(), b in number(), which in 0..OPERATIONS.len()) {
        let (operation, offset) = OPERATIONS[which];
        let one = |make: fn(u8, Register, Register) -> Instruction| {
            with_both(a, b, &[Instruction { offset, ..make(operation, R0, R2) }, exit()])
        };
        prop_assert_eq!(one(alu64), naive(operation, offset, 64, a, b), "{:#x} of {} and {}", operation, a, b);
        prop_assert_eq!(one(alu32), naive(operation, offset, 32, a, b), "{:#x} of 32 bits", operation);
        // An immediate value equals the same number in a register.
        if operation != alu::MOV || offset == 0 {
            let value = b as i32;
            let immediate = with_both(a, 0, &[Instruction { offset, ..alu64(operation, R0, value) }, exit()]);
            prop_assert_eq!(immediate, naive(operation, offset, 64, a, value as i64 as u64));
        }
    }

    #[test]
    fn negation_is_what_it_is_in_whole_numbers(a in number()) {
        prop_assert_eq!(with_both(a, 0, &[alu64(alu::NEG, R0, 0), exit()]), naive(alu::NEG, 0, 64, a, 0));
        prop_assert_eq!(with_both(a, 0, &[alu32(alu::NEG, R0, 0), exit()]), naive(alu::NEG, 0, 32, a, 0));
    }

    // Filters consist of comparisons.
    #[test]
    fn comparisons_are_what_they_are_in_whole_numbers(a in number(), b in number()) {
        for (bits, make) in [(64, jump as fn(u8, Register, Register, i16) -> Instruction), (32, jump32)] {
            let modulus = 1_i128 << bits;
            let (x, y) = (i128::from(a) % modulus, i128::from(b) % modulus);
            let (sx, sy) = (signed(a, bits), signed(b, bits));
            for (operation, holds) in [
                (jump::EQ, x == y),
                (jump::NE, x != y),
                (jump::GT, x > y),
                (jump::GE, x >= y),
                (jump::LT, x < y),
                (jump::LE, x <= y),
                (jump::SGT, sx > sy),
                (jump::SGE, sx >= sy),
                (jump::SLT, sx < sy),
                (jump::SLE, sx <= sy),
                (jump::SET, x & y != 0),
            ] {
                let taken = with_both(a, b, &[make(operation, R0, R2, 2), mov(R0, 0), exit(), mov(R0, 1), exit()]);
                prop_assert_eq!(taken == 1, holds, "{:#x} of {} bits: {} and {}", operation, bits, a, b);
            }
        }
    }
}
