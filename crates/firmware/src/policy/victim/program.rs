use super::view::{Victim, VictimView};
use byteway_program::elf::{FileError, verified_as};
use byteway_program::memory::range_address;
use byteway_program::{Program, Range, Ranges};
use std::sync::Arc;

/// Instructions of a choice at most: so many, and as many for each candidate.
const FUEL: u64 = 1000;

/// Bytes of a candidate: its index, valid units and age, each of 4 bytes, little-endian, as in [`Candidate`](super::view::Candidate).
const CANDIDATE_BYTES: usize = 12;

/// An eBPF program, called with
///
/// | register | value |
/// |---|---|
/// | R1 | address of the candidates, read-only: `struct { uint32_t index, valid, age; }` each |
/// | R2 | number of candidates, at least 1 |
/// | R3 | units of a superblock |
/// | R4 | a random number of 64 bits |
/// | R5 | 0 |
///
/// It returns the chosen candidate's place in the array. It keeps no state from one choice to the next.
#[derive(Debug)]
pub struct VictimProgram {
    program: Arc<Program>,
    candidates: Vec<u8>,
    fault: Option<String>,
}

impl VictimProgram {
    /// Name of the function in an object file.
    pub const FUNCTION: &str = "victim";

    /// Verifies a file with a program: an object file, or bare instructions.
    ///
    /// # Errors
    /// Its function has another name, it needs a linker, or the verifier refuses it.
    pub fn verify(file: &[u8]) -> Result<Arc<Program>, FileError> {
        verified_as(file, Self::FUNCTION).map(Arc::new)
    }

    /// A policy of a verified program.
    pub fn new(program: Arc<Program>) -> Self {
        VictimProgram { program, candidates: Vec::new(), fault: None }
    }
}

impl Victim for VictimProgram {
    fn choose(&mut self, view: &mut VictimView<'_>) -> u32 {
        self.candidates.clear();
        for candidate in view.candidates() {
            let fields = [candidate.index, candidate.valid, candidate.age];
            self.candidates.extend(fields.iter().flat_map(|field| field.to_le_bytes()));
        }
        let count = (self.candidates.len() / CANDIDATE_BYTES) as u64;
        let random = view.random();
        let mut memory = Ranges { parameters: &[], ranges: [Range::Read(&self.candidates)] };
        let arguments = [range_address(0), count, view.units().into(), random, 0];
        let place = match self.program.run(&mut memory, arguments, FUEL * (1 + count)) {
            Ok(outcome) => outcome.r0,
            Err(trap) => {
                self.fault = Some(format!("asked for a victim among {count} candidates, {trap}"));
                return u32::MAX;
            }
        };
        let all = self.candidates.as_chunks::<CANDIDATE_BYTES>().0;
        match usize::try_from(place).ok().and_then(|place| all.get(place)) {
            Some([a, b, c, d, ..]) => u32::from_le_bytes([*a, *b, *c, *d]),
            None => {
                self.fault = Some(format!("asked for a victim, it returned {place}, of {count} candidates"));
                u32::MAX
            }
        }
    }

    fn fault(&self) -> Option<String> {
        self.fault.clone()
    }
}
