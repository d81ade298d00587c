//! A job whose I/Os are those of a source that is not built in: its plan, and the I/Os of one worker, each of which is checked.

use super::named::NamedSource;
use super::source::{Operation, WorkloadSource, WorkloadView};
use crate::io::Io;
use crate::pace::Pace;
use crate::settings::JobSettings;
use crate::source_kind::{SourceKind, WorkerIos};
use byteway_clock::random::{Rng, Stream};
use byteway_policy::caught;
use byteway_text::error::InputError;
use byteway_trace::Kind;

/// A source with the limits of its job.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnPlan {
    /// The source.
    pub source: NamedSource,
    /// Whether it ends by itself.
    pub ends: bool,
    /// The longest read or write, in blocks; it may be split into several commands.
    pub blocks_max: u32,
    /// Whether it may trim: a sink has nothing to be trimmed.
    pub trims: bool,
}

impl SourceKind for OwnPlan {
    fn command_count(&self, job: &JobSettings) -> Option<u64> {
        job.count.filter(|_| !self.ends && job.io_bytes.is_none())
    }

    fn io_blocks_max(&self, _: &JobSettings) -> u32 {
        self.blocks_max
    }

    fn lengths(&self, _: &JobSettings) -> String {
        format!("what `{}` says", self.source.name())
    }

    fn has_verbs(&self) -> bool {
        false
    }

    fn ios(&self, job: &JobSettings, worker: u32, rng: &Rng) -> Result<Box<dyn WorkerIos>, InputError> {
        Ok(Box::new(OwnIos::new(job, self, worker, rng)?))
    }
}

/// The I/Os of one worker.
struct OwnIos {
    plan: OwnPlan,
    job: String,
    source: Box<dyn WorkloadSource>,
    random: Stream,
    pace: Pace,
    worker: u32,
    workers: u32,
    lba_bytes: u32,
    range_lba: u64,
    range_blocks: u64,
    left: u64,
    bytes_left: u64,
    asked: u64,
    error: Option<InputError>,
}

impl OwnIos {
    fn new(job: &JobSettings, plan: &OwnPlan, worker: u32, rng: &Rng) -> Result<Self, InputError> {
        let stream = |purpose: &str| rng.stream(&format!("job/{}/{worker}/{purpose}", job.name));
        let source = plan.source.made().map_err(|wrong| {
            let what = format!("job `{}`: the source `{}` {}", job.name, plan.source.name(), wrong.what);
            InputError::new(what, wrong.help)
        })?;
        let pace = Pace::new(job, u64::from(worker), || stream("arrival"))
            .map_err(|error| InputError::new(format!("job `{}`: {error}", job.name), "change the rate"))?;
        let (range_lba, range_blocks) = job.range_of(worker);
        let share = |all: Option<u64>| all.map_or(u64::MAX, |all| job.share_of(all, worker));
        Ok(OwnIos {
            plan: plan.clone(),
            job: job.name.clone(),
            source,
            random: stream("source"),
            pace,
            worker,
            workers: job.workers.max(1),
            lba_bytes: job.lba_bytes,
            range_lba,
            range_blocks,
            left: share(job.count),
            bytes_left: share(job.io_bytes),
            asked: 0,
            error: None,
        })
    }

    /// The source's next operation, or what is wrong with it.
    fn ask(&mut self) -> Result<Option<Operation>, String> {
        let mut view = WorkloadView {
            blocks: self.range_blocks,
            block_bytes: self.lba_bytes,
            blocks_max: self.plan.blocks_max,
            worker: self.worker,
            workers: self.workers,
            random: &mut self.random,
        };
        let source = &mut self.source;
        // A panic is a fault of the source, and none of this program.
        let next = caught(|| source.next(&mut view)).map_err(|what| format!("it {what}"))?;
        if let Some(operation) = next {
            self.check(operation)?;
        }
        Ok(next)
    }

    fn check(&self, Operation { kind, first, blocks }: Operation) -> Result<(), String> {
        let (range, most) = (self.range_blocks, self.plan.blocks_max);
        let noun = match kind {
            Kind::Read => "a read",
            Kind::Write => "a write",
            Kind::Trim => "a trim",
        };
        if blocks == 0 {
            return Err(format!("it asked for {noun} of 0 blocks"));
        }
        if kind == Kind::Trim && !self.plan.trims {
            return Err("it asked for a trim, and a sink has nothing to be trimmed".to_owned());
        }
        if kind != Kind::Trim && blocks > most {
            return Err(format!("it asked for {noun} of {blocks} blocks, and {most} are the most"));
        }
        if first.checked_add(u64::from(blocks)).is_none_or(|end| end > range) {
            return Err(format!(
                "it asked for {noun} of {blocks} blocks from block {first} on, and its range has {range}"
            ));
        }
        Ok(())
    }
}

impl Iterator for OwnIos {
    type Item = Io;

    fn next(&mut self) -> Option<Io> {
        if self.bytes_left == 0 {
            return None;
        }
        self.left = self.left.checked_sub(1)?;
        self.asked += 1;
        match self.ask() {
            Ok(Some(Operation { kind, first, blocks })) => {
                let bytes = u64::from(blocks) * u64::from(self.lba_bytes);
                self.bytes_left = self.bytes_left.saturating_sub(bytes);
                let at = self.pace.next(kind, bytes);
                Some(Io { kind, lba: self.range_lba + first, blocks, at })
            }
            Ok(None) => {
                self.left = 0;
                None
            }
            Err(wrong) => {
                self.left = 0;
                let what = format!(
                    "job `{}`: the source `{}` failed at operation {} of worker {}: {wrong}",
                    self.job,
                    self.plan.source.name(),
                    self.asked,
                    self.worker
                );
                let help = "correct the source: its view has the range and the longest I/O, in blocks";
                self.error = Some(InputError::new(what, help));
                None
            }
        }
    }
}

impl WorkerIos for OwnIos {
    fn error(&self) -> Option<&InputError> {
        self.error.as_ref()
    }
}
