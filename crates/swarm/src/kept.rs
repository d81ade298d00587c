//! What is left of a drive while its power is off.

use super::drive;
use super::failure::{Failure, Kind};
use super::plan::{ArrayCanarySpec, Plan};
use byteway_array::Nvram;
use byteway_device::{ConfigError, Drive, DriveConfig};
use byteway_flash::Medium;
use byteway_flash::file::{SimulatedFiles, Tuning};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Checkpoints of a medium in files come often, for so small a drive.
const TUNING: Tuning = Tuning { image_units: 300, journal_bytes: 4000 };

/// A drive's media while its power is off.
pub(super) enum Kept {
    /// Its own, or those of its endpoints.
    Memory(Vec<Medium>),
    /// In files.
    Files(SimulatedFiles),
    /// Those of an array's members.
    Array(KeptArray),
}

/// What is left of an array, or of a bridge.
#[derive(Default)]
pub(super) struct KeptArray {
    /// The media of members that are in their slots, by number.
    pub(super) media: BTreeMap<usize, Medium>,
    /// Those of members that are out of them at the next power-on, and back at the one after it.
    pub(super) out: BTreeMap<usize, Medium>,
    /// A bridge's memory.
    pub(super) nvram: Nvram,
    /// The array was made in an earlier life.
    pub(super) is_made: bool,
}

impl Kept {
    /// A new one.
    pub(super) fn new(plan: &Plan, config: &DriveConfig) -> Result<Kept, Failure> {
        if let Some(array) = &plan.drive.array {
            let number = 0..array.drives();
            let medium = |number| Ok((number, Drive::medium(&drive::member(plan, config, number))?));
            let media = number.map(medium).collect::<Result<_, _>>().map_err(impossible)?;
            return Ok(Kept::Array(KeptArray { media, ..KeptArray::default() }));
        }
        match plan.drive.files {
            true => Ok(Kept::Files(SimulatedFiles::new())),
            false => match drive::hosted(plan, config) {
                Some(hosted) => hosted.media(),
                None => Drive::medium(config).map(|medium| vec![medium]),
            }
            .map(Kept::Memory)
            .map_err(impossible),
        }
    }

    /// The medium of a drive with one, and the files that it is in.
    pub(super) fn open(self, config: &DriveConfig) -> Result<(Medium, Option<SimulatedFiles>), Failure> {
        match self {
            Kept::Memory(mut media) => match media.pop() {
                Some(medium) => Ok((medium, None)),
                None => Err(Failure::new(Kind::Plan, "a drive has a medium")),
            },
            Kept::Files(files) => {
                let opened = Drive::open_medium_tuned(config, Arc::new(files.clone()), TUNING);
                // What a power cut leaves must be a medium.
                let (medium, _) = opened.map_err(|error| Failure::new(Kind::Data, error.to_string()))?;
                Ok((medium, Some(files)))
            }
            Kept::Array(_) => Err(Failure::new(Kind::Plan, "an array has no medium of its own")),
        }
    }
}

impl KeptArray {
    /// A life has ended: members that were out of their slots are back, and a bridge that is broken on purpose forgets.
    pub(super) fn end_life(&mut self, canary: Option<ArrayCanarySpec>) {
        self.media.append(&mut self.out);
        if canary == Some(ArrayCanarySpec::ForgetMemory) {
            self.nvram = Nvram::default();
        }
    }
}

/// There can be no such drive.
pub(super) fn impossible(error: ConfigError) -> Failure {
    Failure::new(Kind::Plan, error.to_string())
}
