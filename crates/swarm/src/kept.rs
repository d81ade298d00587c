//! Persistent state of a drive while its power is off.

use super::defects::{AnyDefect, Defect};
use super::drive;
use super::failure::{Failure, Kind};
use super::plan::Plan;
use byteway_array::Nvram;
use byteway_defect::Planted;
use byteway_device::{ConfigError, Drive, DriveConfig};
use byteway_flash::Medium;
use byteway_flash::file::{SimulatedFiles, Tuning};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Media in files take checkpoints often, given how small the drives are.
const TUNING: Tuning = Tuning { image_units: 300, journal_bytes: 4000 };

/// A drive's media without power.
pub(super) enum Kept {
    /// Medium of the drive, or media of its endpoints.
    Memory(Vec<Medium>),
    /// Media in files.
    Files(SimulatedFiles),
    /// Media of an array's members.
    Array(KeptArray),
}

/// Persistent state of an array or a bridge.
#[derive(Default)]
pub(super) struct KeptArray {
    /// Media of the members in their slots, by number.
    pub(super) media: BTreeMap<usize, Medium>,
    /// Media of the members that are absent at the next power-on, and return at the one after.
    pub(super) out: BTreeMap<usize, Medium>,
    /// A bridge's memory.
    pub(super) nvram: Nvram,
    /// Whether the array was created in an earlier life.
    pub(super) is_made: bool,
}

impl Kept {
    /// Initial state.
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

    /// The medium of a single-medium drive, with its files.
    pub(super) fn open(self, config: &DriveConfig) -> Result<(Medium, Option<SimulatedFiles>), Failure> {
        match self {
            Kept::Memory(mut media) => match media.pop() {
                Some(medium) => Ok((medium, None)),
                None => Err(Failure::new(Kind::Plan, "a drive must have a medium")),
            },
            Kept::Files(files) => {
                let opened = Drive::open_medium_tuned(config, Arc::new(files.clone()), TUNING);
                // The state after a power cut must be a valid medium.
                let (medium, _) = opened.map_err(|error| Failure::new(Kind::Data, error.to_string()))?;
                Ok((medium, Some(files)))
            }
            Kept::Array(_) => Err(Failure::new(Kind::Plan, "an array has no single medium")),
        }
    }
}

impl KeptArray {
    /// End of a life: absent members return, and a bridge may have the defect that it loses its memory.
    pub(super) fn end_life(&mut self, defect: Planted<AnyDefect>) {
        self.media.append(&mut self.out);
        if defect.and_then(AnyDefect::of_swarm).has(Defect::ForgetMemory) {
            self.nvram = Nvram::default();
        }
    }
}

/// The configuration is not supported.
pub(super) fn impossible(error: ConfigError) -> Failure {
    Failure::new(Kind::Plan, error.to_string())
}
