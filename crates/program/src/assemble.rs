//! Assembler functions for instructions: `assemble(&[mov(R0, 2), alu64(alu::MUL, R0, R1), exit()])`.

use crate::instruction::{Instruction, LOAD_WIDE, REGISTER, class, jump, mode};

/// A register, R0 to R10.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Register(pub u8);

/// Return value.
pub const R0: Register = Register(0);
/// First argument.
pub const R1: Register = Register(1);
/// Second argument.
pub const R2: Register = Register(2);
/// Third argument.
pub const R3: Register = Register(3);
/// Fourth argument.
pub const R4: Register = Register(4);
/// Fifth argument.
pub const R5: Register = Register(5);
/// Callee-saved register.
pub const R6: Register = Register(6);
/// Callee-saved register.
pub const R7: Register = Register(7);
/// Callee-saved register.
pub const R8: Register = Register(8);
/// Callee-saved register.
pub const R9: Register = Register(9);
/// The end of the stack.
pub const R10: Register = Register(10);

/// Second operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    /// Register.
    Register(Register),
    /// Immediate value.
    Value(i32),
}

impl From<Register> for Operand {
    fn from(register: Register) -> Operand {
        Operand::Register(register)
    }
}

impl From<i32> for Operand {
    fn from(value: i32) -> Operand {
        Operand::Value(value)
    }
}

fn with(opcode: u8, dst: Register, operand: Operand, offset: i16) -> Instruction {
    match operand {
        Operand::Register(src) => {
            Instruction { opcode: opcode | REGISTER, dst: dst.0, src: src.0, offset, imm: 0 }
        }
        Operand::Value(imm) => Instruction { opcode, dst: dst.0, src: 0, offset, imm },
    }
}

/// 64-bit arithmetic; `operation` is one of [`alu`](crate::instruction::alu).
pub fn alu64(operation: u8, dst: Register, operand: impl Into<Operand>) -> Instruction {
    with(operation | class::ALU64, dst, operand.into(), 0)
}

/// 32-bit arithmetic; `operation` is one of [`alu`](crate::instruction::alu).
pub fn alu32(operation: u8, dst: Register, operand: impl Into<Operand>) -> Instruction {
    with(operation | class::ALU, dst, operand.into(), 0)
}

/// 64-bit move; immediate values are sign-extended.
pub fn mov(dst: Register, operand: impl Into<Operand>) -> Instruction {
    alu64(crate::instruction::alu::MOV, dst, operand)
}

/// Load of a 64-bit immediate value: two instructions.
pub fn wide(dst: Register, value: u64) -> [Instruction; 2] {
    let low = Instruction { opcode: LOAD_WIDE, dst: dst.0, imm: value as i32, ..Instruction::default() };
    [low, Instruction { imm: (value >> 32) as i32, ..Instruction::default() }]
}

/// Load from the address `src + offset`; `size` is one of [`size`](crate::instruction::size).
pub fn load(size: u8, dst: Register, src: Register, offset: i16) -> Instruction {
    Instruction { opcode: class::LDX | mode::MEM | size, dst: dst.0, src: src.0, offset, imm: 0 }
}

/// Store to the address `dst + offset`; `size` is one of [`size`](crate::instruction::size).
pub fn store(size: u8, dst: Register, offset: i16, operand: impl Into<Operand>) -> Instruction {
    match operand.into() {
        Operand::Register(src) => {
            Instruction { opcode: class::STX | mode::MEM | size, dst: dst.0, src: src.0, offset, imm: 0 }
        }
        Operand::Value(imm) => {
            Instruction { opcode: class::ST | mode::MEM | size, dst: dst.0, src: 0, offset, imm }
        }
    }
}

/// Jump over `offset` instructions if the 64-bit comparison holds; `operation` is one of [`mod@jump`].
pub fn jump(operation: u8, dst: Register, operand: impl Into<Operand>, offset: i16) -> Instruction {
    with(operation | class::JMP, dst, operand.into(), offset)
}

/// Jump as [`jump()`], with a 32-bit comparison.
pub fn jump32(operation: u8, dst: Register, operand: impl Into<Operand>, offset: i16) -> Instruction {
    with(operation | class::JMP32, dst, operand.into(), offset)
}

/// Unconditional jump over `offset` instructions.
pub fn goto(offset: i16) -> Instruction {
    Instruction { opcode: class::JMP | jump::ALWAYS, offset, ..Instruction::default() }
}

/// Call of a helper in [`HELPERS`](crate::verify::HELPERS).
pub fn call(helper: i32) -> Instruction {
    Instruction { opcode: class::JMP | jump::CALL, imm: helper, ..Instruction::default() }
}

/// End of the program; R0 is the return value.
pub fn exit() -> Instruction {
    Instruction { opcode: class::JMP | jump::EXIT, ..Instruction::default() }
}

/// Encodes instructions, 8 bytes each.
pub fn assemble(instructions: &[Instruction]) -> Vec<u8> {
    instructions.iter().flat_map(|instruction| instruction.to_bytes()).collect()
}
