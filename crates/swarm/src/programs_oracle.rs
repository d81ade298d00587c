//! The expected state of a drive's local memory and programs: bytes, and the program in each slot, or unknown after a command whose outcome
//! is unknown.
//!
//! There are a few fixed programs, which the host also runs on its own copy: each on a range of memory, and as a row filter.

use byteway_host::{AnyClientError, AnyIoError, ClientErrorKind, IoError};
use byteway_program::assemble::*;
use byteway_program::instruction::{alu, jump, size};
use byteway_program::memory::{PARAMETERS, range_address};
use byteway_program::verify::{RANGE_ADDRESS, RANGE_BYTES};
use byteway_program::{
    Column, Filter, FilterTrap, Fuel, Instruction, Machine, Program, Progress, Range, Ranges, Rows, Trap,
    TrapCause,
};
use std::cell::{Cell, RefCell};

/// Number of programs.
pub(super) const KINDS: u8 = 7;
/// Number of slots used.
pub(super) const SLOTS: u16 = 4;
/// Instruction limit of an execution: more than one slice of the drive, so that some are aborted between slices.
pub(super) const FUEL: u64 = 25_000;
/// Instruction limits of a row, and of all rows of a query.
pub(super) const ROW_FUEL: Fuel = Fuel { row: 400, all: 30_000 };

/// The instructions of a program.
pub(super) fn instructions(kind: u8) -> Vec<Instruction> {
    // R8 holds the number of the command across calls; R6 and R7 become start and end of the first range.
    let range = [
        mov(R8, R3),
        mov(R1, 0),
        call(RANGE_BYTES),
        mov(R7, R0),
        mov(R1, 0),
        call(RANGE_ADDRESS),
        mov(R6, R0),
        alu64(alu::ADD, R7, R6),
        mov(R0, 0),
    ];
    let over_bytes = |body: &[Instruction]| {
        let length = body.len() as i16;
        let mut code = range.to_vec();
        code.push(jump(jump::GE, R6, R7, length + 2));
        code.extend_from_slice(body);
        code.extend([alu64(alu::ADD, R6, 1), goto(-length - 3), exit()]);
        code
    };
    let remainder = |divisor: i32, wanted: i32| {
        vec![
            load(size::DOUBLE, R4, R1, 0),
            alu64(alu::MOD, R4, divisor),
            mov(R0, 0),
            jump(jump::NE, R4, wanted, 1),
            mov(R0, 1),
            exit(),
        ]
    };
    match kind % KINDS {
        // Sums all bytes.
        0 => over_bytes(&[load(size::BYTE, R1, R6, 0), alu64(alu::ADD, R0, R1)]),
        // Changes every byte.
        1 => over_bytes(&[
            load(size::BYTE, R1, R6, 0),
            alu64(alu::XOR, R1, R8),
            store(size::BYTE, R6, 0, R1),
            alu64(alu::ADD, R0, 1),
        ]),
        // Stores until the limit or past the end of the range.
        2 => {
            let mut code = range.to_vec();
            code.extend([store(size::WORD, R6, 0, R8), alu64(alu::ADD, R6, 4), goto(-3), exit()]);
            code
        }
        // Increments the first word until the limit.
        3 => {
            let mut code = range.to_vec();
            code.extend([
                load(size::WORD, R1, R6, 0),
                alu64(alu::ADD, R1, 1),
                store(size::WORD, R6, 0, R1),
                goto(-4),
                exit(),
            ]);
            code
        }
        // Tests the number at R1: the first column of a row, or the first parameter of an execution.
        4 => remainder(7, 3),
        5 => remainder(2, 0),
        // Uses the number of the row, or of the command.
        _ => vec![
            mov(R0, R3),
            alu64(alu::MOD, R0, 5),
            jump(jump::EQ, R0, 0, 2),
            mov(R0, 0),
            exit(),
            mov(R0, 1),
            exit(),
        ],
    }
}

/// A program in verified form.
pub(super) fn program(kind: u8) -> Program {
    Program::verify(&assemble(&instructions(kind))).expect("a test verifies each of them")
}

/// State of a program slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    Empty,
    /// Holds this program, activated.
    Loaded(u8),
    Unknown,
}

/// Expected state.
pub(super) struct ProgramsOracle {
    /// Namespace identifiers of the memory and of the programs.
    pub(super) memory_nsid: u32,
    pub(super) nsid: u32,
    /// Bytes; `None`: unknown.
    memory: RefCell<Vec<Option<u8>>>,
    slots: RefCell<[Slot; SLOTS as usize]>,
    /// Number of verified results.
    pub(super) verified: Cell<u64>,
}

impl ProgramsOracle {
    /// Expected state of a new drive, in which these namespaces follow `namespaces` others.
    pub(super) fn new(namespaces: u32, bytes: u64) -> ProgramsOracle {
        ProgramsOracle {
            memory_nsid: namespaces + 1,
            nsid: namespaces + 2,
            memory: RefCell::new(vec![Some(0); bytes as usize]),
            slots: RefCell::new([Slot::Empty; SLOTS as usize]),
            verified: Cell::default(),
        }
    }

    /// Size of the memory in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.memory.borrow().len() as u64
    }

    /// Power loss: memory is volatile and becomes zero, and programs are lost.
    pub(super) fn clear(&self) {
        self.memory.borrow_mut().fill(Some(0));
        self.slots.replace([Slot::Empty; SLOTS as usize]);
    }

    /// Marks everything as unknown.
    pub(super) fn forget(&self) {
        self.memory.borrow_mut().fill(None);
        self.slots.replace([Slot::Unknown; SLOTS as usize]);
    }

    /// State of a slot.
    pub(super) fn slot(&self, slot: u16) -> Slot {
        self.slots.borrow()[usize::from(slot % SLOTS)]
    }

    /// Sets the state of a slot.
    pub(super) fn set_slot(&self, slot: u16, to: Slot) {
        self.slots.borrow_mut()[usize::from(slot % SLOTS)] = to;
    }

    /// Marks bytes as unknown until they are read.
    pub(super) fn forget_bytes(&self, start: u64, bytes: u64) {
        self.memory.borrow_mut()[start as usize..(start + bytes) as usize].fill(None);
    }

    /// Sets bytes.
    pub(super) fn set_bytes(&self, start: u64, bytes: &[u8]) {
        let mut memory = self.memory.borrow_mut();
        let there = &mut memory[start as usize..start as usize + bytes.len()];
        there.iter_mut().zip(bytes).for_each(|(there, byte)| *there = Some(*byte));
    }

    /// Bytes, if all of them are known.
    pub(super) fn known_bytes(&self, start: u64, bytes: u64) -> Option<Vec<u8>> {
        self.memory.borrow()[start as usize..(start + bytes) as usize].iter().copied().collect()
    }

    /// Verifies bytes that were read. Unknown ones become known.
    pub(super) fn settle(&self, start: u64, found: &[u8]) -> Result<(), AnyIoError> {
        let mut memory = self.memory.borrow_mut();
        let there = &mut memory[start as usize..start as usize + found.len()];
        let differs = there.iter().zip(found).position(|(there, found)| there.is_some_and(|it| it != *found));
        if let Some(at) = differs {
            let (place, had) = (start as usize + at, there[at]);
            return Err(wrong(format!("byte {place} of local memory is {} instead of {had:?}", found[at])));
        }
        there.iter_mut().zip(found).for_each(|(there, byte)| *there = Some(*byte));
        self.verified.set(self.verified.get() + 1);
        Ok(())
    }
}

/// An error: actual and expected state differ.
pub(super) fn wrong(text: String) -> AnyIoError {
    IoError::Client(AnyClientError { kind: ClientErrorKind::WrongData, text })
}

/// Runs a program as the drive must, with these bytes as its only range and this number as its parameter and first number. The bytes keep
/// the program's changes.
pub(super) fn run(kind: u8, bytes: &mut [u8], number: u32) -> Result<u64, Trap> {
    let program = program(kind);
    let parameters = u64::from(number).to_le_bytes();
    let arguments = [PARAMETERS, parameters.len() as u64, number.into(), 0, 1];
    let mut machine = Machine::new(arguments);
    let mut memory = Ranges { parameters: &parameters, ranges: vec![Range::Write(bytes)] };
    match machine.proceed(&program, &mut memory, FUEL)? {
        Progress::Ended(r0) => Ok(r0),
        Progress::Paused => Err(machine.trap(TrapCause::OutOfFuel)),
    }
}

/// The rows that a program selects from numbered ones, given their numbers, which are never null.
pub(super) fn select(kind: u8, rows: u64) -> Result<Vec<u32>, FilterTrap> {
    let numbers: Vec<u8> = (0..rows).flat_map(u64::to_le_bytes).collect();
    let nulls = vec![0; rows as usize];
    let columns = [Column { bytes: &numbers, width: 8 }, Column { bytes: &nulls, width: 1 }];
    let rows = Rows::of(&columns).expect("two columns of as many rows");
    let (mut filter, mut selected) = (Filter::new(ROW_FUEL), Vec::new());
    let parameters = range_address(0).to_le_bytes();
    filter.proceed(&program(kind), &rows, &parameters, (0, u64::MAX), &mut selected)?;
    Ok(selected)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Programs that all do the same, or nothing, would find no errors.
    #[test]
    fn programs_end_in_every_way() {
        let ends: Vec<_> = (0..KINDS)
            .map(|kind| {
                let mut bytes = vec![1; 64];
                let result = run(kind, &mut bytes, 10);
                (result.map_err(|trap| trap.cause), bytes.iter().filter(|byte| **byte != 1).count())
            })
            .collect();
        assert_eq!(ends[0], (Ok(64), 0));
        assert_eq!(ends[1], (Ok(64), 64));
        assert!(matches!(ends[2], (Err(TrapCause::OutOfRange { .. }), 64)), "{:?}", ends[2]);
        assert!(matches!(ends[3], (Err(TrapCause::OutOfFuel), 1..)), "{:?}", ends[3]);
        assert_eq!([ends[4].0, ends[5].0, ends[6].0], [Ok(1), Ok(1), Ok(1)]);
        assert_eq!(select(4, 20), Ok(vec![3, 10, 17]));
        assert_eq!(select(6, 11), Ok(vec![0, 5, 10]));
        assert!(select(1, 1).is_err() && select(0, 3).is_err());
        assert!(select(4, 20_000).is_err(), "there is no fuel for as many rows");
    }
}
