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

/// An object file with one function of this name, as a compiler writes it.
pub fn object(function: &str, instructions: &[Instruction]) -> Vec<u8> {
    let code = assemble(instructions);
    let names = format!("\0{function}\0").into_bytes();
    // No symbol, then a global function in section 1, whose name begins behind the first zero.
    let mut symbols = [0; 48];
    (symbols[24], symbols[28], symbols[30]) = (1, 0x12, 1);
    symbols[40..48].copy_from_slice(&(code.len() as u64).to_le_bytes());
    let mut file = vec![0; 64];
    let mut sections = vec![0; 64];
    // Their type, flags and related section: instructions, symbols, names.
    for (kind, flags, link, data) in [(1u32, 6u64, 0u32, &code[..]), (2, 0, 3, &symbols), (3, 0, 0, &names)] {
        let mut header = [0; 64];
        header[4..8].copy_from_slice(&kind.to_le_bytes());
        header[8..16].copy_from_slice(&flags.to_le_bytes());
        header[24..32].copy_from_slice(&(file.len() as u64).to_le_bytes());
        header[32..40].copy_from_slice(&(data.len() as u64).to_le_bytes());
        header[40..44].copy_from_slice(&link.to_le_bytes());
        sections.extend_from_slice(&header);
        file.extend_from_slice(data);
    }
    file[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    (file[16], file[18], file[58], file[60]) = (1, 247, 64, 4);
    let start = file.len() as u64;
    file[40..48].copy_from_slice(&start.to_le_bytes());
    file.extend_from_slice(&sections);
    file
}
