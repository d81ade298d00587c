//! The verifier. It checks that every opcode is supported, registers exist and unused fields are zero; that no jump leaves the program or
//! lands in the middle of an instruction; that execution cannot run past the end; that R10 is never written; and that every helper exists.

use crate::instruction::{FRAME, Instruction, LOAD_WIDE, alu, class, jump, mode, size};

/// Upper limit of a program's instructions; a 64-bit immediate load counts as two.
pub const INSTRUCTIONS_MAX: usize = 4096;

/// Helper: start address of the range with the index in R1, or 0 if there is no such range.
pub const RANGE_ADDRESS: i32 = 1;
/// Helper: length in bytes of the range with the index in R1, or 0 if there is no such range.
pub const RANGE_BYTES: i32 = 2;
/// All helpers. A helper takes R1 to R5, returns R0, and sets R1 to R5 to zero.
pub const HELPERS: [i32; 2] = [RANGE_ADDRESS, RANGE_BYTES];

/// Source register of a call whose target is a function of the file, not a helper.
const CALL_FUNCTION: u8 = 1;

/// Why a program is refused. `at` is an instruction's index, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProgramError {
    /// Not a positive multiple of 8 bytes.
    #[error("the program has {bytes} bytes, expected a positive multiple of 8")]
    Length {
        /// Length in bytes.
        bytes: usize,
    },
    /// Too many instructions.
    #[error("the program has {instructions} instructions, limit {INSTRUCTIONS_MAX}")]
    TooLong {
        /// Number of instructions.
        instructions: usize,
    },
    /// Unknown or unsupported opcode.
    #[error("instruction {at}: opcode {opcode:#04x} is not supported")]
    Opcode {
        /// Instruction.
        at: usize,
        /// Opcode.
        opcode: u8,
    },
    /// A register above R10.
    #[error("instruction {at}: no such register; registers are R0 to R10")]
    Register {
        /// Instruction.
        at: usize,
    },
    /// A write to R10.
    #[error("instruction {at}: R10 is read-only")]
    Frame {
        /// Instruction.
        at: usize,
    },
    /// A reserved field that is not zero, or an invalid value.
    #[error("instruction {at}: a reserved field is not zero, or a field has an invalid value")]
    Field {
        /// Instruction.
        at: usize,
    },
    /// A jump out of the program, or into a 64-bit immediate load.
    #[error("instruction {at}: jump target {target} is not an instruction")]
    Jump {
        /// Instruction.
        at: usize,
        /// Target, as an index.
        target: i64,
    },
    /// Unknown helper.
    #[error("instruction {at}: unknown helper {helper}")]
    Helper {
        /// Instruction.
        at: usize,
        /// Number of the helper.
        helper: i32,
    },
    /// A call of another function of the same file.
    #[error(
        "instruction {at}: it calls another function: make that one `static inline __attribute__((always_inline))`"
    )]
    Function {
        /// Instruction.
        at: usize,
    },
    /// Execution can run past the last instruction.
    #[error("execution can run past the end: the last instruction must be an exit or an unconditional jump")]
    End,
}

/// A verified program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    instructions: Box<[Instruction]>,
}

impl Program {
    /// Verifies a program.
    ///
    /// # Errors
    /// The reason for which it is refused.
    pub fn verify(bytes: &[u8]) -> Result<Program, ProgramError> {
        let (chunks, rest) = bytes.as_chunks::<{ Instruction::BYTES }>();
        if chunks.is_empty() || !rest.is_empty() {
            return Err(ProgramError::Length { bytes: bytes.len() });
        }
        if chunks.len() > INSTRUCTIONS_MAX {
            return Err(ProgramError::TooLong { instructions: chunks.len() });
        }
        let instructions: Box<[Instruction]> =
            chunks.iter().map(|bytes| Instruction::from_bytes(*bytes)).collect();
        check(&instructions)?;
        Ok(Program { instructions })
    }

    /// Instructions of the program; a 64-bit immediate load is two.
    pub fn instructions(&self) -> &[Instruction] {
        &self.instructions
    }
}

/// For each instruction whether it is the second half of a 64-bit immediate load.
fn halves(instructions: &[Instruction]) -> Vec<bool> {
    let mut halves = vec![false; instructions.len()];
    let mut at = 0;
    while at < instructions.len() {
        let is_wide = instructions[at].opcode == LOAD_WIDE;
        if let Some(half) = halves.get_mut(at + 1).filter(|_| is_wide) {
            *half = true;
        }
        at += if is_wide { 2 } else { 1 };
    }
    halves
}

fn check(instructions: &[Instruction]) -> Result<(), ProgramError> {
    let halves = halves(instructions);
    for (at, instruction) in instructions.iter().enumerate().filter(|(at, _)| !halves[*at]) {
        check_one(at, *instruction, instructions.get(at + 1))?;
        if let Some(distance) = distance(*instruction) {
            let target = at as i64 + 1 + distance;
            let half = usize::try_from(target).ok().and_then(|target| halves.get(target));
            if half != Some(&false) {
                return Err(ProgramError::Jump { at, target });
            }
        }
    }
    let last = instructions.last().filter(|_| halves.last() == Some(&false));
    let ends = last.is_some_and(|last| {
        last.opcode == class::JMP | jump::EXIT
            || matches!(last.class(), class::JMP | class::JMP32) && last.operation() == jump::ALWAYS
    });
    if ends { Ok(()) } else { Err(ProgramError::End) }
}

/// The number of instructions that a jump skips; `None` for other instructions.
pub(crate) fn distance(instruction: Instruction) -> Option<i64> {
    match (instruction.class(), instruction.operation()) {
        (class::JMP, jump::CALL | jump::EXIT) => None,
        (class::JMP32, jump::ALWAYS) => Some(instruction.imm.into()),
        (class::JMP | class::JMP32, _) => Some(instruction.offset.into()),
        _ => None,
    }
}

/// Checks an instruction in isolation; `next` is the one after it.
fn check_one(at: usize, it: Instruction, next: Option<&Instruction>) -> Result<(), ProgramError> {
    if it.dst > FRAME || it.src > FRAME {
        return Err(ProgramError::Register { at });
    }
    let unknown = Err(ProgramError::Opcode { at, opcode: it.opcode });
    // Which values the source register, the offset and the immediate value may have.
    let (uses_src, fits_offset, uses_imm, writes) = match it.class() {
        class::LD if it.opcode == LOAD_WIDE => {
            let half =
                next.is_some_and(|next| (next.opcode, next.dst, next.src, next.offset) == (0, 0, 0, 0));
            (false, it.offset == 0 && half, true, true)
        }
        class::LDX => match (it.mode(), it.opcode & 0x18) {
            (mode::MEM, _) | (mode::MEMSX, size::WORD | size::HALF | size::BYTE) => (true, true, false, true),
            _ => return unknown,
        },
        class::ST if it.mode() == mode::MEM => (false, true, true, false),
        class::STX if it.mode() == mode::MEM => (true, true, false, false),
        class::ALU | class::ALU64 => {
            let is_wide = it.class() == class::ALU64;
            let (register, none) = (it.has_register(), it.offset == 0);
            match it.operation() {
                alu::DIV | alu::MOD => (register, matches!(it.offset, 0 | 1), !register, true),
                alu::MOV if register => {
                    let fits = matches!(it.offset, 0 | 8 | 16) || is_wide && it.offset == 32;
                    (true, fits, false, true)
                }
                alu::NEG if !register => (false, none, false, true),
                // With 64 bits, bytes are swapped regardless of the machine's order, and bit 3 is reserved.
                alu::END if !(is_wide && register) => {
                    (false, none && matches!(it.imm, 16 | 32 | 64), true, true)
                }
                alu::NEG | alu::END => return unknown,
                operation if operation <= alu::ARSH => (register, none, !register, true),
                _ => return unknown,
            }
        }
        class::JMP | class::JMP32 => {
            let (register, is_long) = (it.has_register(), it.class() == class::JMP32);
            match it.operation() {
                jump::ALWAYS if !register => {
                    (false, it.dst == 0 && (!is_long || it.offset == 0), is_long, false)
                }
                jump::CALL if !register && !is_long => {
                    if it.src == CALL_FUNCTION {
                        return Err(ProgramError::Function { at });
                    }
                    if it.src == 0 && !HELPERS.contains(&it.imm) {
                        return Err(ProgramError::Helper { at, helper: it.imm });
                    }
                    (false, it.dst == 0 && it.offset == 0, true, false)
                }
                jump::EXIT if !register && !is_long => (false, it.dst == 0 && it.offset == 0, false, false),
                jump::ALWAYS | jump::CALL | jump::EXIT => return unknown,
                operation if operation <= jump::SLE => (register, true, !register, false),
                _ => return unknown,
            }
        }
        _ => return unknown,
    };
    if !fits_offset || !uses_src && it.src != 0 || !uses_imm && it.imm != 0 {
        return Err(ProgramError::Field { at });
    }
    if writes && it.dst == FRAME {
        return Err(ProgramError::Frame { at });
    }
    Ok(())
}
