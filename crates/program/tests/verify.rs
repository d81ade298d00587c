//! Programs that the verifier refuses, and the errors.

use byteway_program::assemble::*;
use byteway_program::instruction::{Instruction, LOAD_WIDE, REGISTER, alu, class, jump, mode, size};
use byteway_program::verify::INSTRUCTIONS_MAX;
use byteway_program::{Program, ProgramError};

fn error(instructions: &[Instruction]) -> ProgramError {
    Program::verify(&assemble(instructions)).expect_err("it is refused")
}

/// The error of an instruction followed by an exit.
fn one(instruction: Instruction) -> ProgramError {
    error(&[instruction, exit()])
}

// The interpreter does not check its program counter: programs of invalid length must not reach it.
#[test]
fn lengths() {
    assert_eq!(Program::verify(&[]), Err(ProgramError::Length { bytes: 0 }));
    let exit_bytes = assemble(&[exit()]);
    assert_eq!(Program::verify(&exit_bytes[..7]), Err(ProgramError::Length { bytes: 7 }));
    let mut most = vec![mov(R0, 1); INSTRUCTIONS_MAX];
    most[INSTRUCTIONS_MAX - 1] = exit();
    assert!(Program::verify(&assemble(&most)).is_ok());
    most.insert(0, mov(R0, 1));
    assert_eq!(error(&most), ProgramError::TooLong { instructions: INSTRUCTIONS_MAX + 1 });
}

// An unknown opcode must not run as a known one.
#[test]
fn opcodes() {
    let of = |opcode| Instruction { opcode, ..Instruction::default() };
    // Opcodes that are accepted, or refused for another reason: counted by hand from RFC 9669, without atomics and packet access.
    let unrefused = |instruction: Instruction| {
        !matches!(Program::verify(&assemble(&[instruction, exit()])), Err(ProgramError::Opcode { .. }))
    };
    let known = (0..=u8::MAX).filter(|opcode| unrefused(Instruction { imm: 16, ..of(*opcode) })).count();
    // ALU: 12 with two forms each, NEG with one, END with two. ALU64: the same, END with one. 64-bit jumps: 11 with two forms, ALWAYS,
    // CALL, EXIT; 32-bit jumps: 11 with two forms, ALWAYS. Loads: 4, and 3 with sign extension; 8 stores; 1 immediate load.
    assert_eq!(known, (24 + 1 + 2) + (24 + 1 + 1) + (22 + 3) + (22 + 1) + 4 + 3 + 8 + 1);
    for opcode in [
        class::STX | 0xc0 | size::DOUBLE, // atomics
        class::LDX | mode::MEMSX | size::DOUBLE,
        class::LD | 0x20, // packet access
        class::ALU64 | alu::END | REGISTER,
        class::ALU | alu::NEG | REGISTER,
        class::JMP32 | jump::CALL,
        class::JMP32 | jump::EXIT,
        class::JMP | jump::EXIT | REGISTER,
        class::JMP | 0xe0,
        class::ALU | 0xe0,
    ] {
        assert_eq!(one(of(opcode)), ProgramError::Opcode { at: 0, opcode });
    }
}

// There are eleven registers, and the last is the read-only frame pointer.
#[test]
fn registers() {
    assert_eq!(one(mov(Register(11), 1)), ProgramError::Register { at: 0 });
    assert_eq!(one(mov(R0, Register(15))), ProgramError::Register { at: 0 });
    for instruction in
        [mov(R10, 1), alu32(alu::ADD, R10, R1), load(size::BYTE, R10, R1, 0), alu64(alu::NEG, R10, 0)]
    {
        assert_eq!(one(instruction), ProgramError::Frame { at: 0 });
    }
    let [low, high] = wide(R10, 1);
    assert_eq!(error(&[low, high, exit()]), ProgramError::Frame { at: 0 });
    assert!(Program::verify(&assemble(&[store(size::BYTE, R10, -1, 0), exit()])).is_ok());
}

// A field that is ignored today may get a meaning later: a program that sets it was built for another machine.
#[test]
fn fields() {
    for instruction in [
        Instruction { src: 1, ..mov(R0, 1) },
        Instruction { imm: 1, ..mov(R0, R1) },
        Instruction { offset: 1, ..alu64(alu::ADD, R0, 1) },
        Instruction { offset: 2, ..alu64(alu::DIV, R0, 1) },
        Instruction { offset: 8, ..mov(R0, 1) },
        Instruction { offset: 24, ..mov(R0, R1) },
        Instruction { offset: 32, ..alu32(alu::MOV, R0, R1) },
        Instruction { imm: 8, ..alu32(alu::END, R0, 0) },
        Instruction { imm: 1, ..load(size::BYTE, R0, R1, 0) },
        Instruction { src: 1, ..store(size::BYTE, R1, 0, 0) },
        Instruction { imm: 1, ..store(size::BYTE, R1, 0, R2) },
        Instruction { imm: 1, ..goto(0) },
        Instruction { dst: 1, ..goto(0) },
        Instruction { imm: 1, ..exit() },
        Instruction { src: 2, ..call(1) },
        Instruction { offset: 1, ..call(1) },
        Instruction { imm: 1, ..jump(jump::EQ, R0, R1, 0) },
        Instruction { opcode: LOAD_WIDE, src: 1, ..Instruction::default() },
    ] {
        assert_eq!(one(instruction), ProgramError::Field { at: 0 }, "{instruction:?}");
    }
    let [low, high] = wide(R0, 1);
    for half in [Instruction { dst: 1, ..high }, Instruction { opcode: 0x07, ..high }] {
        assert_eq!(error(&[low, half, exit()]), ProgramError::Field { at: 0 });
    }
    assert_eq!(error(&[exit(), low]), ProgramError::Field { at: 1 }, "its other half is missing");
}

// A jump out of the program would run the bytes behind it; one into a 64-bit immediate load would run its value.
#[test]
fn jumps() {
    for (instruction, target) in [
        (goto(1), 2),
        (goto(-2), -1),
        (goto(i16::MAX), 32768),
        (goto(i16::MIN), -32767),
        (jump(jump::EQ, R0, 0, 1), 2),
        (jump32(jump::EQ, R0, R1, -2), -1),
    ] {
        assert_eq!(one(instruction), ProgramError::Jump { at: 0, target });
    }
    let long = Instruction { opcode: class::JMP32 | jump::ALWAYS, imm: i32::MAX, ..Instruction::default() };
    assert_eq!(one(long), ProgramError::Jump { at: 0, target: 1 << 31 });
    let [low, high] = wide(R0, 1);
    assert_eq!(error(&[goto(1), low, high, exit()]), ProgramError::Jump { at: 0, target: 2 });
    assert!(Program::verify(&assemble(&[goto(0), low, high, exit()])).is_ok());
    // The second half of a load can look like the first half of another: their roles depend on the starting point.
    let odd = Instruction { imm: LOAD_WIDE.into(), ..high };
    assert!(Program::verify(&assemble(&[low, odd, goto(-3)])).is_ok());
}

// There is nothing to execute after the last instruction.
#[test]
fn ends() {
    let [low, high] = wide(R0, 1);
    for program in
        [vec![mov(R0, 1)], vec![exit(), jump(jump::EQ, R0, 0, -2)], vec![call(1)], vec![exit(), low, high]]
    {
        assert_eq!(error(&program), ProgramError::End);
    }
    assert!(Program::verify(&assemble(&[exit(), goto(-2)])).is_ok());
}

// An unknown helper number must not call an arbitrary function.
#[test]
fn helpers() {
    for helper in [0, 3, -1, i32::MIN] {
        assert_eq!(one(call(helper)), ProgramError::Helper { at: 0, helper });
    }
    // A function that was not inlined.
    assert_eq!(one(Instruction { src: 1, ..call(4) }), ProgramError::Function { at: 0 });
}
