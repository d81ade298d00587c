//! The generator: the I/Os of a job of any kind.

use byteway_clock::random::Rng;
use byteway_text::error::InputError;

use super::io::Io;
use super::job::JobPlan;
use super::source_kind::WorkerIos;

/// Yields a worker's I/Os in order. Does not allocate while doing so.
pub struct Generator {
    ios: Box<dyn WorkerIos>,
    runtime_ps: u64,
}

impl Generator {
    /// The generator of one worker (from 0) of a job. Its random streams are named after job and worker, so
    /// that neither another job nor another worker changes its draws.
    ///
    /// # Errors
    /// The kind of job has its own generator, the range is too small for its I/Os, or its trace can no longer
    /// be read.
    pub fn new(plan: &JobPlan, worker: u32, rng: &Rng) -> Result<Self, InputError> {
        let ios = plan.source.kind().ios(&plan.settings, worker, rng)?;
        Ok(Generator { ios, runtime_ps: plan.end_ps() })
    }

    /// Why the I/Os ended early: the file of a replay changed or broke after it was checked, or a source that is not built in failed. `None` if
    /// they did not.
    pub fn error(&self) -> Option<&InputError> {
        self.ios.error()
    }
}

impl Iterator for Generator {
    type Item = Io;

    fn next(&mut self) -> Option<Io> {
        let io = self.ios.next()?;
        // I/Os that are due after the end of the job are not issued; in a closed loop the runner checks the
        // time.
        io.at.is_none_or(|at| at < self.runtime_ps).then_some(io)
    }
}
