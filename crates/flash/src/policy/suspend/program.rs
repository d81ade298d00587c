use super::view::{Suspend, SuspendView};
use byteway_program::elf::{FileError, verified_as};
use byteway_program::memory::PARAMETERS;
use byteway_program::{Program, Range, Ranges};
use std::sync::Arc;

/// Instructions of a decision at most.
const FUEL: u64 = 10_000;

/// Bytes of what it is asked about.
const VIEW_BYTES: usize = 56;

/// An eBPF program, called with
///
/// | register | value |
/// |---|---|
/// | R1 | address of what it is asked about, read-only: `struct { uint64_t remaining, latency, resume, waited; uint32_t is_erase, priority, suspends, reads, die; }` |
/// | R2, R3 | 0 |
/// | R4 | a random number of 64 bits |
/// | R5 | 0 |
///
/// It returns 1 if the operation is suspended, and 0 if it goes on. Fields are those of [`SuspendView`]: times in picoseconds, `is_erase` 1
/// of an erase and 0 of a program, `priority` from 0, the most urgent, to 4. It keeps no state from one decision to the next.
#[derive(Debug)]
pub struct SuspendProgram {
    program: Arc<Program>,
    fault: Option<String>,
}

impl SuspendProgram {
    /// Name of the function in an object file.
    pub const FUNCTION: &str = "suspend";

    /// Verifies a file with a program: an object file, or bare instructions.
    ///
    /// # Errors
    /// Its function has another name, it needs a linker, or the verifier refuses it.
    pub fn verify(file: &[u8]) -> Result<Arc<Program>, FileError> {
        verified_as(file, Self::FUNCTION).map(Arc::new)
    }

    /// A policy of a verified program.
    pub fn new(program: Arc<Program>) -> Self {
        SuspendProgram { program, fault: None }
    }
}

/// Numbers of 8 bytes, then of 4, little-endian.
fn bytes_of(view: &SuspendView<'_>) -> [u8; VIEW_BYTES] {
    let times = [view.remaining(), view.latency(), view.resume(), view.waited()];
    let is_erase = u32::from(view.is_erase());
    let numbers = [is_erase, view.priority() as u32, view.suspends(), view.reads(), view.die()];
    let mut bytes = [0; VIEW_BYTES];
    let (of_times, of_numbers) = bytes.split_at_mut(8 * times.len());
    for (into, time) in of_times.as_chunks_mut::<8>().0.iter_mut().zip(times) {
        *into = time.0.to_le_bytes();
    }
    for (into, number) in of_numbers.as_chunks_mut::<4>().0.iter_mut().zip(numbers) {
        *into = number.to_le_bytes();
    }
    bytes
}

impl Suspend for SuspendProgram {
    fn suspends(&mut self, view: &mut SuspendView<'_>) -> bool {
        let random = view.random();
        let bytes = bytes_of(view);
        let mut memory: Ranges<'_, [Range<'_>; 0]> = Ranges { parameters: &bytes, ranges: [] };
        let fault = match self.program.run(&mut memory, [PARAMETERS, 0, 0, random, 0], FUEL) {
            Ok(outcome) if outcome.r0 <= 1 => return outcome.r0 == 1,
            Ok(outcome) => format!("it returned {}, which is neither 0 nor 1", outcome.r0),
            Err(trap) => trap.to_string(),
        };
        self.fault = Some(format!("asked whether an operation is suspended, {fault}"));
        true
    }

    fn fault(&self) -> Option<String> {
        self.fault.clone()
    }
}
