//! Jobs: their settings, and what they ask for.

use std::ops::{Deref, DerefMut};

use super::settings::JobSettings;
use super::source::Source;

/// A job, resolved and checked: all that a runner needs to know. It derefs to its settings.
#[derive(Clone, Debug, PartialEq)]
pub struct JobPlan {
    /// Where, how many at once, when, and for how long.
    pub settings: JobSettings,
    /// Where its I/Os come from.
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
    /// Operations that the job comes to in all, if that is known beforehand.
    pub fn command_count(&self) -> Option<u64> {
        self.source.kind().command_count(&self.settings)
    }

    /// The longest of its I/Os, blocks, which may become several commands.
    pub fn io_blocks_max(&self) -> u32 {
        self.source.kind().io_blocks_max(&self.settings)
    }

    /// The longest payload of one command of its I/Os, bytes.
    pub fn payload_bytes_max(&self) -> u32 {
        self.io_blocks_max().min(self.transfer_blocks_max) * self.lba_bytes
    }

    /// How long its operations are, in words.
    pub fn lengths(&self) -> String {
        self.source.kind().lengths(&self.settings)
    }

    /// Whether each of its operations has a verb, by which they are reported.
    pub fn has_verbs(&self) -> bool {
        self.source.kind().has_verbs()
    }
}
