//! The interface of a workload kind.

use byteway_clock::random::Rng;
use byteway_text::error::InputError;

use super::io::Io;
use super::settings::JobSettings;

/// A workload kind, as the source of a job. The defaults fit a kind whose operations are not I/Os and which
/// has its own generator.
pub(crate) trait SourceKind {
    /// Total number of operations of the job, if known in advance.
    fn command_count(&self, job: &JobSettings) -> Option<u64>;

    /// The longest I/O in blocks; it may be split into several commands.
    fn io_blocks_max(&self, job: &JobSettings) -> u32 {
        job.transfer_blocks_max
    }

    /// The lengths of its operations, in words.
    fn lengths(&self, job: &JobSettings) -> String;

    /// Whether each operation has a verb, by which it is reported; otherwise it is reported as a read, write
    /// or trim.
    fn has_verbs(&self) -> bool {
        true
    }

    /// The I/Os of one worker, from 0.
    ///
    /// # Errors
    /// The kind issues no I/Os, or its parameters contradict each other or its file.
    fn ios(&self, job: &JobSettings, _worker: u32, _rng: &Rng) -> Result<Box<dyn WorkerIos>, InputError> {
        let what = format!("job `{}` asks for {} and not for I/Os", job.name, self.lengths(job));
        Err(InputError::new(what, "give it a source of I/Os"))
    }
}

/// The I/Os of one worker, in order. `next` does not allocate.
pub(crate) trait WorkerIos: Iterator<Item = Io> {
    /// Why the I/Os ended early; `None` if they did not.
    fn error(&self) -> Option<&InputError> {
        None
    }
}
