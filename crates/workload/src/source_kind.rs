//! What a kind of source says of itself, and gives each worker.

use byteway_clock::random::Rng;
use byteway_console::error::InputError;

use super::io::Io;
use super::settings::JobSettings;

/// What a kind says of itself, for a job that it is the source of. Each default is that of a kind whose operations are no I/Os:
/// it has a generator of its own.
pub(crate) trait SourceKind {
    /// Operations that the job comes to in all, if that is known beforehand.
    fn command_count(&self, job: &JobSettings) -> Option<u64>;

    /// The longest of its I/Os, blocks, which may become several commands.
    fn io_blocks_max(&self, job: &JobSettings) -> u32 {
        job.transfer_blocks_max
    }

    /// How long its operations are, in words.
    fn lengths(&self, job: &JobSettings) -> String;

    /// Whether each of its operations has a verb, by which they are reported. Without one they are reads, writes and trims.
    fn has_verbs(&self) -> bool {
        true
    }

    /// The I/Os of one worker, from 0.
    ///
    /// # Errors
    /// It asks for no I/Os, or what it says of them contradicts itself or its file.
    fn ios(&self, job: &JobSettings, _worker: u32, _rng: &Rng) -> Result<Box<dyn WorkerIos>, InputError> {
        let what = format!("job `{}` asks for {} and not for I/Os", job.name, self.lengths(job));
        Err(InputError::new(what, "give it a source of I/Os"))
    }
}

/// I/Os of one worker, one after the other. `next` allocates nothing.
pub(crate) trait WorkerIos: Iterator<Item = Io> {
    /// Why they ended early; `None` while all is well.
    fn error(&self) -> Option<&InputError> {
        None
    }
}
