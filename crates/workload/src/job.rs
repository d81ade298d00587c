//! A job: its settings and its source.

use std::ops::{Deref, DerefMut};

use super::settings::JobSettings;
use super::source::Source;
use byteway_trace::Format;

/// A job, resolved and validated: everything that a runner needs. Derefs to its settings.
#[derive(Clone, Debug, PartialEq)]
pub struct JobPlan {
    /// Settings: drive, range, concurrency, timing.
    pub settings: JobSettings,
    /// Source of its I/Os or operations.
    pub source: Source,
}

impl Deref for JobPlan {
    type Target = JobSettings;

    fn deref(&self) -> &JobSettings {
        &self.settings
    }
}

impl DerefMut for JobPlan {
    fn deref_mut(&mut self) -> &mut JobSettings {
        &mut self.settings
    }
}

impl JobPlan {
    /// Total number of operations, if known in advance.
    pub fn command_count(&self) -> Option<u64> {
        self.source.kind().command_count(&self.settings)
    }

    /// The longest I/O in blocks; it may be split into several commands.
    pub fn io_blocks_max(&self) -> u32 {
        self.source.kind().io_blocks_max(&self.settings)
    }

    /// The longest payload of a command, in bytes.
    pub fn payload_bytes_max(&self) -> u32 {
        self.io_blocks_max().min(self.transfer_blocks_max) * self.lba_bytes
    }

    /// What says its I/Os, if it is not built in: the key that names it, its name, and the version of its code.
    pub fn added(&self) -> Option<(&'static str, &str, &str)> {
        match &self.source {
            Source::Own(plan) => Some(("job.source", plan.source.name(), plan.source.hash()?)),
            Source::Trace(trace) => match trace.read.format {
                Format::Own(own) => Some(("job.trace.format", own.name(), own.hash())),
                _ => None,
            },
            _ => None,
        }
    }

    /// The lengths of its operations, in words.
    pub fn lengths(&self) -> String {
        self.source.kind().lengths(&self.settings)
    }

    /// Whether each operation has a verb, by which it is reported.
    pub fn has_verbs(&self) -> bool {
        self.source.kind().has_verbs()
    }
}
