//! Random programs: random bytes, and instructions that are likely to verify. None may panic, run indefinitely or access memory outside its
//! ranges. A failure names its seed.

use byteway_program::instruction::{Instruction, alu, class, jump, mode, size};
use byteway_program::memory::{PARAMETERS, range_address};
use byteway_program::{Machine, Program, Range, Ranges, TrapCause};

/// Number of programs of random bytes.
const RAW_SEEDS: u64 = 200_000;
/// Number of programs of likely instructions.
const LIKELY_SEEDS: u64 = 200_000;
const FUEL: u64 = 2_000;
/// Guard bytes around each range, which must not change.
const GUARD: usize = 64;

/// Generator (splitmix64) of a deterministic sequence for a seed.
struct Draws(u64);

impl Draws {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ word >> 31
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}

/// Offset of an access from the address in `base`, mostly to a mapped address.
fn offset(draws: &mut Draws, base: u8) -> i16 {
    match draws.below(12) {
        0 => draws.next() as i16,
        _ if base == 10 => -8 - draws.below(64) as i16,
        _ => draws.below(if base == 1 { 58 } else { 9 }) as i16,
    }
}

/// An instruction that is likely to verify.
fn likely(draws: &mut Draws, at: u64, length: u64) -> Instruction {
    // Mostly a base register that holds an address; results mostly go to other registers, so that it keeps one.
    let base = |draws: &mut Draws| {
        if draws.below(8) == 0 { draws.below(11) as u8 } else { draws.of(&[1, 1, 2, 3, 10]) }
    };
    let dst = if draws.below(16) == 0 { draws.below(10) as u8 } else { draws.of(&[0, 4, 5, 6, 7, 8, 9]) };
    let src = draws.below(11) as u8;
    let imm = match draws.below(3) {
        0 => draws.below(64) as i32,
        1 => draws.next() as i32,
        _ => -(draws.below(64) as i32),
    };
    let to = draws.below(length) as i64 - at as i64 - 1;
    let all = Instruction { opcode: 0, dst, src, offset: 0, imm };
    let (by_register, by_value) = (Instruction { imm: 0, ..all }, Instruction { src: 0, ..all });
    let is_register = draws.below(2) == 0;
    let (operand, bit) = if is_register { (by_register, 8) } else { (by_value, 0) };
    match draws.below(10) {
        0..=3 => {
            let operation = draws.of(&[
                alu::ADD,
                alu::SUB,
                alu::MUL,
                alu::DIV,
                alu::OR,
                alu::AND,
                alu::LSH,
                alu::RSH,
                alu::MOD,
                alu::XOR,
                alu::MOV,
                alu::ARSH,
            ]);
            let opcode = operation | bit | draws.of(&[class::ALU, class::ALU64]);
            let offset = match operation {
                alu::DIV | alu::MOD => draws.below(2) as i16,
                alu::MOV if is_register => draws.of(&[0, 8, 16]),
                _ => 0,
            };
            Instruction { opcode, offset, ..operand }
        }
        4 | 5 => {
            let opcode =
                class::LDX | mode::MEM | draws.of(&[size::BYTE, size::HALF, size::WORD, size::DOUBLE]);
            let src = base(draws);
            Instruction { opcode, src, offset: offset(draws, src), ..by_register }
        }
        6 | 7 => {
            let opcode = draws.of(&[size::BYTE, size::HALF, size::WORD, size::DOUBLE]) | mode::MEM;
            let dst = base(draws);
            let offset = offset(draws, dst);
            match is_register {
                true => Instruction { opcode: opcode | class::STX, dst, offset, ..by_register },
                false => Instruction { opcode: opcode | class::ST, dst, offset, ..by_value },
            }
        }
        8 => {
            let operation = draws.of(&[
                jump::EQ,
                jump::GT,
                jump::GE,
                jump::SET,
                jump::NE,
                jump::SGT,
                jump::SGE,
                jump::LT,
                jump::LE,
                jump::SLT,
                jump::SLE,
            ]);
            let opcode = operation | bit | draws.of(&[class::JMP, class::JMP32]);
            Instruction { opcode, offset: to as i16, ..operand }
        }
        _ if draws.below(4) > 0 => Instruction { opcode: class::ALU64 | alu::MOV, ..by_value },
        _ => Instruction {
            opcode: class::JMP | jump::CALL,
            imm: 1 + draws.below(2) as i32,
            ..Instruction::default()
        },
    }
}

/// Runs a program over guarded ranges; returns whether it ended by itself.
fn run(program: &Program, seed: u64) -> bool {
    let mut bytes = [0xa5; 3 * GUARD];
    let (before, rest) = bytes.split_at_mut(GUARD);
    let (range, behind) = rest.split_at_mut(GUARD);
    let fixed = [0x5a; 32];
    let mut memory =
        Ranges { parameters: &fixed[..16], ranges: vec![Range::Write(range), Range::Read(&fixed[16..])] };
    let arguments = [range_address(0), range_address(1), PARAMETERS, 16, seed];
    let mut machine = Machine::new(arguments);
    let ran = machine.proceed(program, &mut memory, FUEL);
    assert!(machine.counts().all() <= FUEL, "seed {seed}");
    assert!(before.iter().chain(&*behind).all(|byte| *byte == 0xa5), "seed {seed}: a guard was written");
    assert_eq!(fixed, [0x5a; 32], "seed {seed}: what can't be written was");
    match ran {
        Ok(progress) => matches!(progress, byteway_program::Progress::Ended(_)),
        Err(trap) => {
            assert!((trap.at as usize) < program.instructions().len(), "seed {seed}");
            assert!(!matches!(trap.cause, TrapCause::Answer(_)), "seed {seed}");
            false
        }
    }
}

// A host may send arbitrary bytes: they must be refused, or run within their bounds.
#[test]
fn random_bytes_are_refused_or_run_within_their_bounds() {
    let mut verified = 0;
    for seed in 0..RAW_SEEDS {
        let mut draws = Draws(seed);
        let mut bytes: Vec<u8> = (0..draws.below(6)).flat_map(|_| draws.next().to_le_bytes()).collect();
        if draws.below(4) > 0 {
            // Valid registers and an exit: otherwise hardly any program would verify.
            bytes.chunks_exact_mut(8).for_each(|it| it[1] &= 0x77);
            bytes.extend([class::JMP | jump::EXIT, 0, 0, 0, 0, 0, 0, 0]);
        }
        if let Ok(program) = Program::verify(&bytes) {
            verified += 1;
            run(&program, seed);
        }
    }
    assert!(verified > RAW_SEEDS / 10, "{verified} passed: the test runs next to nothing");
}

// Most of these programs verify, so that loads, stores, loops and calls run in many orders.
#[test]
fn likely_programs_stay_within_their_bounds() {
    let (mut verified, mut ended) = (0, 0);
    for seed in 0..LIKELY_SEEDS {
        let mut draws = Draws(seed ^ 0x5eed);
        let length = 2 + draws.below(24);
        let mut bytes = Vec::new();
        for at in 0..length - 1 {
            bytes.extend(likely(&mut draws, at, length).to_bytes());
        }
        bytes.extend([class::JMP | jump::EXIT, 0, 0, 0, 0, 0, 0, 0]);
        let program = Program::verify(&bytes).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        verified += 1;
        ended += u64::from(run(&program, seed));
    }
    assert!(
        ended > verified / 10,
        "{ended} of {verified} ended: the others were stopped too early to say much"
    );
}

// The same program on the same memory must always behave the same.
#[test]
fn a_run_is_determined_by_what_it_is_given() {
    for seed in 0..2_000 {
        let outcome = || {
            let mut draws = Draws(seed);
            let bytes: Vec<u8> = (0..10)
                .flat_map(|at| likely(&mut draws, at, 11).to_bytes())
                .chain([class::JMP | jump::EXIT, 0, 0, 0, 0, 0, 0, 0])
                .collect();
            let mut range = vec![1; 64];
            let mut memory = Ranges { parameters: &[], ranges: vec![Range::Write(&mut range)] };
            let program = Program::verify(&bytes).unwrap();
            let ran = program.run(&mut memory, [range_address(0), 0, 0, 0, 0], FUEL);
            (ran, range)
        };
        assert_eq!(outcome(), outcome(), "seed {seed}");
    }
}
