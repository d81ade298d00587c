//! The interpreter (RFC 9669). It executes a bounded number of instructions per call, so that its caller can yield or cancel in between.
//!
//! Registers and stack are initially zero. A call sets R1 to R5 to zero.

use crate::alu;
use crate::counts::Counts;
use crate::instruction::{FRAME, Instruction, alu as op, class, jump, mode};
use crate::memory::{Denied, Memory, STACK_BYTES, STACK_END, range_address};
use crate::verify::{Program, RANGE_ADDRESS, RANGE_BYTES, distance};

/// Why a program was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TrapCause {
    /// Access outside the program's ranges.
    #[error("access to {bytes} bytes at {address:#x} is out of range")]
    OutOfRange {
        /// Address of the access.
        address: u64,
        /// Length in bytes.
        bytes: u8,
    },
    /// Write to a read-only range.
    #[error("write of {bytes} bytes at {address:#x}, which are read-only")]
    ReadOnly {
        /// Address of the access.
        address: u64,
        /// Length in bytes.
        bytes: u8,
    },
    /// The limit of instructions is reached.
    #[error("the limit of instructions is reached")]
    OutOfFuel,
    /// A filter returned a value other than 0 and 1.
    #[error("it returned {0}; a filter must return 0 or 1")]
    Answer(u64),
}

/// Location and cause of a stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the program was stopped at instruction {at}: {cause}")]
pub struct Trap {
    /// Index of the instruction, from 0.
    pub at: u32,
    /// Cause.
    pub cause: TrapCause,
}

/// Result of a program that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Return value.
    pub r0: u64,
    /// Instructions executed.
    pub counts: Counts,
}

/// State of a run after a call of [`Machine::proceed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The program ended with this value in R0.
    Ended(u64),
    /// The instruction limit of the call is used up; the run can continue.
    Paused,
}

/// A run of a program: registers, stack and program counter.
#[derive(Clone, Debug)]
pub struct Machine {
    registers: [u64; FRAME as usize + 1],
    at: usize,
    stack: [u8; STACK_BYTES],
    counts: Counts,
}

impl Program {
    /// Runs the program to its end, with `arguments` in R1 to R5 and at most `fuel` instructions.
    ///
    /// # Errors
    /// It is stopped; the trap gives location and cause.
    pub fn run(&self, memory: &mut impl Memory, arguments: [u64; 5], fuel: u64) -> Result<Outcome, Trap> {
        let mut machine = Machine::new(arguments);
        match machine.proceed(self, memory, fuel)? {
            Progress::Ended(r0) => Ok(Outcome { r0, counts: machine.counts() }),
            Progress::Paused => Err(machine.trap(TrapCause::OutOfFuel)),
        }
    }
}

impl Machine {
    /// The start of a run, with `arguments` in R1 to R5.
    pub fn new(arguments: [u64; 5]) -> Machine {
        let mut registers = [0; FRAME as usize + 1];
        registers[1..=5].copy_from_slice(&arguments);
        registers[usize::from(FRAME)] = STACK_END;
        Machine { registers, at: 0, stack: [0; STACK_BYTES], counts: Counts::default() }
    }

    /// Instructions executed so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// A trap at the current instruction.
    pub fn trap(&self, cause: TrapCause) -> Trap {
        Trap { at: self.at as u32, cause }
    }

    /// Executes up to `limit` instructions of `program`, which must be the same in every call.
    ///
    /// # Errors
    /// An access is refused. It has no effect; earlier effects remain.
    pub fn proceed(
        &mut self,
        program: &Program,
        memory: &mut impl Memory,
        limit: u64,
    ) -> Result<Progress, Trap> {
        let code = program.instructions();
        for _ in 0..limit {
            // The verifier guarantees that the program counter stays inside the program.
            let it = code[self.at];
            let mut next = self.at + 1;
            match it.class() {
                class::ALU64 | class::ALU => self.compute(it),
                class::LDX => {
                    self.counts.memory += 1;
                    let address = self.address(it.src, it.offset);
                    let value = self.load(memory, address, it.access_bytes())?;
                    self.set(it.dst, if it.mode() == mode::MEMSX { extended(value, it) } else { value });
                }
                class::ST | class::STX => {
                    self.counts.memory += 1;
                    let value = if it.class() == class::ST { it.imm as i64 as u64 } else { self.get(it.src) };
                    let address = self.address(it.dst, it.offset);
                    self.store(memory, address, &value.to_le_bytes()[..it.access_bytes()])?;
                }
                class::LD => {
                    self.counts.alu += 1;
                    // The verifier guarantees the second half, which is never executed by itself.
                    let high = code[next].imm as u32;
                    self.set(it.dst, u64::from(it.imm as u32) | u64::from(high) << 32);
                    next += 1;
                }
                _ => match it.operation() {
                    jump::EXIT if it.class() == class::JMP => {
                        self.counts.jump += 1;
                        return Ok(Progress::Ended(self.get(0)));
                    }
                    jump::CALL if it.class() == class::JMP => {
                        self.counts.call += 1;
                        self.call(it.imm, memory);
                    }
                    _ => {
                        self.counts.jump += 1;
                        if self.holds(it) {
                            next = next.wrapping_add_signed(distance(it).unwrap_or(0) as isize);
                        }
                    }
                },
            }
            self.at = next;
        }
        Ok(Progress::Paused)
    }

    fn get(&self, register: u8) -> u64 {
        self.registers[usize::from(register)]
    }

    fn set(&mut self, register: u8, value: u64) {
        debug_assert_ne!(register, FRAME, "the verifier refuses writes to R10");
        self.registers[usize::from(register)] = value;
    }

    fn address(&self, register: u8, offset: i16) -> u64 {
        self.get(register).wrapping_add_signed(offset.into())
    }

    /// Second operand; an immediate value is sign-extended.
    fn operand(&self, it: Instruction) -> u64 {
        if it.has_register() { self.get(it.src) } else { it.imm as i64 as u64 }
    }

    fn compute(&mut self, it: Instruction) {
        let operation = it.operation();
        match operation {
            op::DIV | op::MOD => self.counts.divide += 1,
            _ => self.counts.alu += 1,
        }
        let (dst, src, is_wide) = (self.get(it.dst), self.operand(it), it.class() == class::ALU64);
        let value = match operation {
            // With 32 bits, bit 3 selects the byte order, and the machine is little-endian. With 64 bits, bytes are always swapped.
            op::END => alu::end(it.imm, is_wide || it.has_register(), dst),
            _ if is_wide => alu::alu64(operation, it.offset, dst, src),
            _ => alu::alu32(operation, it.offset, dst as u32, src as u32),
        };
        self.set(it.dst, value);
    }

    /// Whether a jump is taken.
    fn holds(&self, it: Instruction) -> bool {
        let (a, b) = (self.get(it.dst), self.operand(it));
        let is_wide = it.class() == class::JMP;
        let (a, b) = if is_wide { (a, b) } else { (u64::from(a as u32), u64::from(b as u32)) };
        let signed = |value: u64| if is_wide { value as i64 } else { i64::from(value as i32) };
        match it.operation() {
            jump::ALWAYS => true,
            jump::EQ => a == b,
            jump::GT => a > b,
            jump::GE => a >= b,
            jump::SET => a & b != 0,
            jump::NE => a != b,
            jump::SGT => signed(a) > signed(b),
            jump::SGE => signed(a) >= signed(b),
            jump::LT => a < b,
            jump::LE => a <= b,
            jump::SLT => signed(a) < signed(b),
            _ => signed(a) <= signed(b),
        }
    }

    fn call(&mut self, helper: i32, memory: &impl Memory) {
        let range =
            u32::try_from(self.get(1)).ok().and_then(|index| Some((index, memory.range_bytes(index)?)));
        let value = match (helper, range) {
            (RANGE_ADDRESS, Some((index, _))) => range_address(index),
            (RANGE_BYTES, Some((_, bytes))) => bytes,
            _ => 0,
        };
        // R1 to R5 are undefined after a call in eBPF; fixed values keep runs deterministic.
        self.registers[..=5].fill(0);
        self.set(0, value);
    }

    /// Position of these bytes in the stack; `None` if they are not all in it.
    fn in_stack(address: u64, bytes: usize) -> Option<std::ops::Range<usize>> {
        let from = usize::try_from(address.checked_sub(STACK_END - STACK_BYTES as u64)?).ok()?;
        let end = from.checked_add(bytes)?;
        (end <= STACK_BYTES).then_some(from..end)
    }

    fn load(&self, memory: &impl Memory, address: u64, bytes: usize) -> Result<u64, Trap> {
        let mut value = [0; 8];
        match Self::in_stack(address, bytes) {
            Some(range) => value[..bytes].copy_from_slice(&self.stack[range]),
            None => memory
                .load(address, &mut value[..bytes])
                .map_err(|denied| self.denied(denied, address, bytes))?,
        }
        Ok(u64::from_le_bytes(value))
    }

    fn store(&mut self, memory: &mut impl Memory, address: u64, bytes: &[u8]) -> Result<(), Trap> {
        match Self::in_stack(address, bytes.len()) {
            Some(range) => {
                self.stack[range].copy_from_slice(bytes);
                Ok(())
            }
            None => memory.store(address, bytes).map_err(|denied| self.denied(denied, address, bytes.len())),
        }
    }

    fn denied(&self, denied: Denied, address: u64, bytes: usize) -> Trap {
        let bytes = bytes as u8;
        self.trap(match denied {
            Denied::OutOfRange => TrapCause::OutOfRange { address, bytes },
            Denied::ReadOnly => TrapCause::ReadOnly { address, bytes },
        })
    }
}

/// Sign-extends a loaded value if the instruction requires it.
fn extended(value: u64, it: Instruction) -> u64 {
    match it.access_bytes() {
        1 => value as i8 as u64,
        2 => value as i16 as u64,
        _ => value as i32 as u64,
    }
}
