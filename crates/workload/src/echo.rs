//! Echoes: a kind of its own, for tests. It has the least that a kind takes, and is plugged in as any further one: by this
//! module, and by a line in the list (`source.rs`).

use byteway_clock::random::{Rng, Stream};

use super::settings::JobSettings;
use super::source_kind::SourceKind;

/// What is asked of a namespace of echoes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EchoPlan {
    /// Numbers that it chooses from.
    pub numbers: u32,
    /// The longest echo, bytes.
    pub bytes_max: u32,
    /// Of the operations on a number, the share that puts an echo, per cent; the others get one.
    pub put_percent: u8,
}

impl EchoPlan {
    /// Settings of its job: `count` operations of one worker on the first namespace.
    pub fn settings(&self, name: &str, count: u64) -> JobSettings {
        JobSettings { count: Some(count), ..JobSettings::plain(name) }
    }
}

/// One operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EchoOp {
    /// Puts an echo.
    Put {
        /// Of which number.
        number: u32,
        /// How long it is, from 1.
        bytes: u32,
    },
    /// Gets what was put.
    Get {
        /// Of which number.
        number: u32,
    },
    /// Counts the numbers that have an echo.
    Count,
}

/// Gives a worker's operations.
pub struct EchoGenerator {
    plan: EchoPlan,
    stream: Stream,
    left: u64,
}

impl EchoGenerator {
    /// That of one worker (from 0) of a job: one operation in sixteen counts.
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
