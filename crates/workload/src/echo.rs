//! Echo operations: a minimal workload kind, for tests. Like any further kind, it consists of this module and
//! a line in `source.rs`.

use byteway_clock::random::{Rng, Stream};

use super::settings::JobSettings;
use super::source_kind::SourceKind;

/// Operations on an echo namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EchoPlan {
    /// Number of distinct echo numbers.
    pub numbers: u32,
    /// Longest echo, in bytes.
    pub bytes_max: u32,
    /// Share of puts among the operations on a number, in percent; the others are gets.
    pub put_percent: u8,
}

impl EchoPlan {
    /// Settings for its job: `count` operations of one worker on the first namespace.
    pub fn settings(&self, name: &str, count: u64) -> JobSettings {
        JobSettings { count: Some(count), ..JobSettings::plain(name) }
    }
}

/// One operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EchoOp {
    /// Stores an echo.
    Put {
        /// Operation number.
        number: u32,
        /// Length in bytes, at least 1.
        bytes: u32,
    },
    /// Reads the echo that was stored.
    Get {
        /// Operation number.
        number: u32,
    },
    /// Counts the numbers with an echo.
    Count,
}

/// Generates a worker's operations.
pub struct EchoGenerator {
    plan: EchoPlan,
    stream: Stream,
    left: u64,
}

impl EchoGenerator {
    /// The generator of one worker (from 0) of a job: one operation in sixteen is a count.
    pub fn new(job: &JobSettings, plan: &EchoPlan, worker: u32, rng: &Rng) -> Self {
        let stream = rng.stream(&format!("job/{}/{worker}/echo", job.name));
        let (count, workers) = (job.count.unwrap_or(u64::MAX), u64::from(job.workers.max(1)));
        let left = count / workers + u64::from(u64::from(worker) < count % workers);
        EchoGenerator { plan: *plan, stream, left }
    }
}

impl Iterator for EchoGenerator {
    type Item = EchoOp;

    fn next(&mut self) -> Option<EchoOp> {
        self.left = self.left.checked_sub(1)?;
        if self.stream.below(16) == 0 {
            return Some(EchoOp::Count);
        }
        let number = self.stream.below(self.plan.numbers.into()) as u32;
        Some(match self.stream.below(100) < u64::from(self.plan.put_percent) {
            true => EchoOp::Put { number, bytes: 1 + self.stream.below(self.plan.bytes_max.into()) as u32 },
            false => EchoOp::Get { number },
        })
    }
}

impl SourceKind for EchoPlan {
    fn command_count(&self, job: &JobSettings) -> Option<u64> {
        job.count
    }

    fn lengths(&self, _: &JobSettings) -> String {
        "echoes".to_owned()
    }
}
