//! The generator: whatever a job asks for, its I/Os one after the other.

use byteway_clock::random::Rng;
use byteway_console::error::InputError;

use super::io::Io;
use super::job::JobPlan;
use super::source_kind::WorkerIos;

/// Gives a worker's I/Os, one after the other. Allocates nothing on the way.
pub struct Generator {
    ios: Box<dyn WorkerIos>,
    runtime_ps: u64,
}

impl Generator {
    /// The generator of one worker (from 0) of a job. Its random streams are named after job and worker, so that
    /// neither another job nor another worker changes what it draws.
    ///
    /// # Errors
    /// The job asks for no I/Os but for something that has a generator of its own, its range has no room for them, or its
    /// trace cannot be read any more.
    pub fn new(plan: &JobPlan, worker: u32, rng: &Rng) -> Result<Self, InputError> {
        let ios = plan.source.kind().ios(&plan.settings, worker, rng)?;
        Ok(Generator { ios, runtime_ps: plan.end_ps() })
    }

    /// Why a replay ended early: the file changed or broke after it was checked. `None` while all is well.
    pub fn error(&self) -> Option<&InputError> {
        self.ios.error()
    }
}

impl Iterator for Generator {
    type Item = Io;

    fn next(&mut self) -> Option<Io> {
        let io = self.ios.next()?;
        // What is due after the end of the job is not issued; in a closed loop the runner watches the clock.
        io.at.is_none_or(|at| at < self.runtime_ps).then_some(io)
    }
}
