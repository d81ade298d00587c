use super::view::{OperationKind, Schedule, ScheduleView};
use crate::priority::Priority;
use byteway_program::elf::{FileError, verified_as};
use byteway_program::memory::range_address;
use byteway_program::{Program, Range, Ranges};
use std::sync::Arc;

/// Instructions of a choice at most.
const FUEL: u64 = 10_000;

/// Bytes of what waits of a priority.
const WAITING_BYTES: usize = 24;

/// An eBPF program, called with
///
/// | register | value |
/// |---|---|
/// | R1 | address of what waits, read-only, the most urgent first: `struct { uint64_t waited; uint32_t priority, count, first, passed; }` each |
/// | R2 | number of priorities that wait, at least 2 |
/// | R3 | number of the die |
/// | R4 | a random number of 64 bits |
/// | R5 | 0 |
///
/// It returns the place in the array whose first operation is next. Fields are those of [`Waiting`](super::view::Waiting): `waited` in
/// picoseconds, `priority` from 0, the most urgent, to 4, `first` 0 of a read, 1 of a program, 2 of an erase. It keeps no state from one
/// choice to the next.
#[derive(Debug)]
pub struct ScheduleProgram {
    program: Arc<Program>,
    waiting: Vec<u8>,
    fault: Option<String>,
}

impl ScheduleProgram {
    /// Name of the function in an object file.
    pub const FUNCTION: &str = "schedule";

    /// Verifies a file with a program: an object file, or bare instructions.
    ///
    /// # Errors
    /// Its function has another name, it needs a linker, or the verifier refuses it.
    pub fn verify(file: &[u8]) -> Result<Arc<Program>, FileError> {
        verified_as(file, Self::FUNCTION).map(Arc::new)
    }

    /// A policy of a verified program.
    pub fn new(program: Arc<Program>) -> Self {
        ScheduleProgram { program, waiting: Vec::new(), fault: None }
    }
}

impl Schedule for ScheduleProgram {
    fn choose(&mut self, view: &mut ScheduleView<'_>) -> Priority {
        self.waiting.clear();
        for waiting in view.waiting() {
            let first = match waiting.first {
                OperationKind::Read => 0,
                OperationKind::Program => 1,
                OperationKind::Erase => 2,
            };
            self.waiting.extend(waiting.waited.0.to_le_bytes());
            let fields = [waiting.priority as u32, waiting.count, first, waiting.passed];
            self.waiting.extend(fields.iter().flat_map(|field| field.to_le_bytes()));
        }
        let count = (self.waiting.len() / WAITING_BYTES) as u64;
        let random = view.random();
        let mut memory = Ranges { parameters: &[], ranges: [Range::Read(&self.waiting)] };
        let arguments = [range_address(0), count, view.die().into(), random, 0];
        let found = match self.program.run(&mut memory, arguments, FUEL) {
            Ok(outcome) => {
                let place = usize::try_from(outcome.r0).ok();
                let chosen = place.and_then(|place| view.waiting().get(place));
                chosen.ok_or_else(|| format!("it returned {}, of {count} priorities", outcome.r0))
            }
            Err(trap) => Err(trap.to_string()),
        };
        found.map_or_else(
            |fault| {
                self.fault = Some(format!("asked for the next operation of a die, {fault}"));
                Priority::HostRead
            },
            |waiting| waiting.priority,
        )
    }

    fn fault(&self) -> Option<String> {
        self.fault.clone()
    }
}
