use super::view::{Filler, STREAMS_MAX, Source, Stream, StreamCounts, StreamView};
use crate::policy::file::NoProgram;
use byteway_program::elf::verified_as;
use byteway_program::memory::{PARAMETERS, range_address};
use byteway_program::{Program, Range, Ranges};
use std::sync::Arc;

/// Instructions of an answer at most.
const FUEL: u64 = 10_000;

/// Bytes of a program's own memory. What it does not touch costs nothing.
const MEMORY_BYTES: usize = 16 << 20;

/// What a program is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Question {
    /// How many streams there are: those of the host, and 256 times those of the collector; 65,536 more if it asks for `last_write`.
    Counts,
    /// The stream of a unit that the host writes.
    Written,
    /// The stream of a unit that garbage collection moves.
    Moved,
    /// Nothing: it is told that a superblock was chosen to be emptied.
    Collects,
}

impl Question {
    /// What it was asked or told, as the beginning of a sentence about what came of it.
    fn asked(self) -> &'static str {
        match self {
            Question::Counts => "asked for the number of its streams",
            Question::Written => "asked for the stream of a unit that the host writes",
            Question::Moved => "asked for the stream of a unit that garbage collection moves",
            Question::Collects => "told of a superblock that will be emptied",
        }
    }
}

/// Bytes of [`Parameters`].
const PARAMETERS_BYTES: usize = 48;

/// Numbers of 8 bytes, and two of 4 bytes, little-endian.
struct Parameters {
    unit: u64,
    units: u64,
    now: u64,
    last_write: Option<u64>,
    source: Option<Source>,
}

impl Parameters {
    fn bytes(&self, question: Question) -> [u8; PARAMETERS_BYTES] {
        let filled_by = match self.source.and_then(|source| source.filled_by) {
            None => 0,
            Some(Filler::Host(stream)) => 1 + stream,
            Some(Filler::Collector(stream)) => 257 + stream,
        };
        let opened_at = self.source.map_or(0, |source| source.opened_at);
        let mut bytes = [0; PARAMETERS_BYTES];
        let numbers = [self.unit, self.units, self.now, self.last_write.unwrap_or(u64::MAX), opened_at];
        for (into, number) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(numbers) {
            *into = number.to_le_bytes();
        }
        bytes[40..44].copy_from_slice(&(question as u32).to_le_bytes());
        bytes[44..48].copy_from_slice(&filled_by.to_le_bytes());
        bytes
    }
}

/// An eBPF program, called with
///
/// | register | value |
/// |---|---|
/// | R1 | address of what it is asked, read-only: `struct { uint64_t unit, units, now, last_write, opened_at; uint32_t question, filled_by; }` |
/// | R2 | address of its own memory, 16 MiB, which is zero at power-on and keeps what is written to it |
/// | R3 | bytes of that memory |
/// | R4 | a random number of 64 bits |
/// | R5 | 0 |
///
/// Questions are 0: how many streams (it returns those of the host, and 256 times those of the collector, and 65,536 more if it asks for
/// `last_write`); 1: the stream of a unit that the host writes; 2: that of a unit that garbage collection moves; 3: nothing, a superblock was
/// chosen to be emptied. `last_write` is all ones if there is none. `filled_by` is 0 if it is not known, 1 + N for stream N of the host,
/// and 257 + N for stream N of the collector.
#[derive(Debug)]
pub struct StreamProgram {
    program: Arc<Program>,
    counts: StreamCounts,
    needs_last_write: bool,
    memory: Vec<u8>,
    fault: Option<String>,
}

impl StreamProgram {
    /// Name of the function in an object file.
    pub const FUNCTION: &str = "stream";

    /// Verifies a file with a program, an object file or bare instructions, and asks it for its streams.
    ///
    /// # Errors
    /// Its function has another name, it needs a linker, the verifier refuses it, or a drive can't have its streams.
    pub fn verify(file: &[u8]) -> Result<StreamProgram, NoProgram> {
        let mut made = StreamProgram {
            program: Arc::new(verified_as(file, Self::FUNCTION)?),
            counts: StreamCounts::SEPARATE,
            needs_last_write: false,
            memory: vec![0; MEMORY_BYTES],
            fault: None,
        };
        let nothing = Parameters { unit: 0, units: 0, now: 0, last_write: None, source: None };
        let no = |answer: String| NoProgram::Answer { asked: Question::Counts.asked(), answer };
        let answer = made.answer(Question::Counts, &nothing, 0).map_err(no)?;
        made.counts = StreamCounts { host: (answer & 0xff) as u32, collector: (answer >> 8 & 0xff) as u32 };
        made.needs_last_write = answer >> 16 == 1;
        let StreamCounts { host, collector } = made.counts;
        match made.counts.is_valid() && answer >> 17 == 0 {
            true => Ok(made.again()),
            false => Err(no(format!(
                "it returned {answer:#x}, {host} of the host and {collector} of the collector: there is at least one of each, and there are \
                 at most {STREAMS_MAX} in all"
            ))),
        }
    }

    /// The same one for another drive, with memory of its own.
    #[must_use]
    pub fn again(&self) -> StreamProgram {
        StreamProgram { program: self.program.clone(), memory: vec![0; MEMORY_BYTES], fault: None, ..*self }
    }

    fn answer(&mut self, question: Question, parameters: &Parameters, random: u64) -> Result<u64, String> {
        let bytes = parameters.bytes(question);
        let mut memory = Ranges { parameters: &bytes, ranges: [Range::Write(&mut self.memory)] };
        let arguments = [PARAMETERS, range_address(0), MEMORY_BYTES as u64, random, 0];
        let outcome = self.program.run(&mut memory, arguments, FUEL);
        outcome.map(|outcome| outcome.r0).map_err(|trap| trap.to_string())
    }

    /// Keeps the first fault: later ones follow from it.
    fn failed(&mut self, question: Question, fault: String) -> u32 {
        self.fault.get_or_insert(format!("{}, {fault}", question.asked()));
        u32::MAX
    }
}

impl Stream for StreamProgram {
    fn counts(&self) -> StreamCounts {
        self.counts
    }

    fn needs_last_write(&self) -> bool {
        self.needs_last_write
    }

    fn place(&mut self, view: &mut StreamView<'_>) -> u32 {
        let random = view.random();
        let source = view.source();
        let (question, count) = match source {
            None => (Question::Written, self.counts.host),
            Some(_) => (Question::Moved, self.counts.collector),
        };
        let (unit, units, now, last_write) = (view.unit(), view.units(), view.now(), view.last_write());
        if self.fault.is_some() {
            return u32::MAX;
        }
        match self.answer(question, &Parameters { unit, units, now, last_write, source }, random) {
            Ok(stream) if stream < u64::from(count) => stream as u32,
            Ok(stream) => self.failed(question, format!("it returned {stream}, of {count} streams")),
            Err(trap) => self.failed(question, trap),
        }
    }

    fn collects(&mut self, source: Source, now: u64) {
        let told = Parameters { unit: 0, units: 0, now, last_write: None, source: Some(source) };
        if let Err(trap) = self.answer(Question::Collects, &told, 0) {
            self.failed(Question::Collects, trap);
        }
    }

    fn fault(&self) -> Option<String> {
        self.fault.clone()
    }
}
