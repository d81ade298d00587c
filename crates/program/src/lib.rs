//! eBPF programs that a drive executes for its host (RFC 9669): verified at load time, and interpreted with a limit of instructions and a
//! bounds check of every access.
//!
//! | file | what |
//! |---|---|
//! | [`instruction`] | encoding of instructions, and the codes of the instruction set |
//! | [`assemble`] | assembler functions, for hosts and tests without a compiler |
//! | [`elf`] | instructions from an object file that needs no linker |
//! | [`verify`] | the verifier, and a verified [`Program`] |
//! | [`memory`] | address space of a program: ranges at fixed addresses |
//! | [`machine`] | the interpreter, which can pause and resume |
//! | `alu.rs` | arithmetic of a single instruction |
//! | [`counts`] | instruction counts by class, and weights |
//! | [`rows`] | rows of columns in a program's layout |
//! | [`filter`] | a program as a filter of rows |
//!
//! The instruction set consists of RFC 9669's conformance groups `base32`, `base64`, `divmul32` and `divmul64`, without program-local calls
//! (`call` with a source of 1). The helpers are [`verify::HELPERS`].
//!
//! Why no library is used: `rbpf` exposes addresses of the host process to programs, so that results differ from run to run, and it does
//! not count instructions.
//!
//! A program adds its first two arguments; one that accesses memory it was not given is stopped:
//!
//! ```
//! use byteway_program::assemble::{R0, R1, R2, alu64, assemble, exit, load, mov};
//! use byteway_program::instruction::{alu, size};
//! use byteway_program::{Program, Ranges};
//!
//! let mut memory = Ranges { parameters: &[], ranges: vec![] };
//! let sum = assemble(&[mov(R0, R1), alu64(alu::ADD, R0, R2), exit()]);
//! let outcome = Program::verify(&sum)?.run(&mut memory, [40, 2, 0, 0, 0], 100)?;
//! assert_eq!((outcome.r0, outcome.counts.all()), (42, 3));
//!
//! let stray = assemble(&[load(size::DOUBLE, R0, R1, 0), exit()]);
//! assert!(Program::verify(&stray)?.run(&mut memory, [40, 0, 0, 0, 0], 100).is_err());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What it does not do: it knows no clock, charges no time and does no I/O; no linking, maps, relocation, atomics, or compilation to
//! machine code. The verifier proves nothing about a program's result or termination: loops are allowed, and the instruction limit ends
//! them.

mod alu;
pub mod assemble;
pub mod counts;
pub mod elf;
pub mod filter;
pub mod instruction;
pub mod machine;
pub mod memory;
pub mod rows;
pub mod verify;

pub use counts::{Counts, Weights};
pub use filter::{Filter, FilterTrap, Fuel, Selection};
pub use instruction::Instruction;
pub use machine::{Machine, Outcome, Progress, Trap, TrapCause};
pub use memory::{Denied, Memory, Range, Ranges};
pub use rows::{Column, Rows};
pub use verify::{Program, ProgramError};
