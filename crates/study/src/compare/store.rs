//! Points that were run before: `points/NNN/point.json` holds all that the comparison needs of a point, with its
//! fingerprint. A file that cannot be read in full counts as absent.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::fingerprint::Fingerprint;
use super::found::Found;
use byteway_console::error::InputError;
use byteway_measure::output::{Output, OutputError, POINT_RESULTS, POINTS, RESULTS, folders};

/// Why the results of a comparison are not kept.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A point's folder cannot be written to.
    #[error(transparent)]
    Input(#[from] InputError),
    /// A file cannot be written or removed.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// A point cannot be encoded: a defect.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// A point was run and could not be kept.
    #[error("a point's results cannot be written")]
    Point(#[source] Box<StoreError>),
}

impl StoreError {
    /// What is wrong with the input, if that is why.
    pub fn wrong_input(&self) -> Option<&InputError> {
        match self {
            StoreError::Input(error) => Some(error),
            StoreError::Point(error) => error.wrong_input(),
            StoreError::Output(_) | StoreError::Json(_) => None,
        }
    }
}

/// The folder of a comparison.
#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
    output: Output,
    /// Digits of a point's number.
    digits: usize,
}

/// What is kept of a point.
#[derive(Serialize, Deserialize)]
struct Kept {
    fingerprint: Fingerprint,
    found: Found,
}

/// A larger file is none of ours.
const KEPT_BYTES_MAX: u64 = 64 << 20;

impl Store {
    /// In `folder`, for so many points. Found writable and no other run's, or refused.
    pub fn open(folder: &Path, points: usize) -> Result<Store, InputError> {
        let digits = points.saturating_sub(1).to_string().len().max(3);
        Ok(Store { folder: folder.to_owned(), output: Output::check(folder)?.claim()?, digits })
    }

    /// Everything that was kept, whatever its number was then.
    pub(super) fn kept(&self) -> BTreeMap<Fingerprint, Found> {
        let folders = folders(&self.folder.join(POINTS));
        let kept = folders.iter().filter_map(|folder| read(&folder.join("point.json")));
        kept.map(|kept| (kept.fingerprint, kept.found)).collect()
    }

    /// Keeps a point. What it is resumed from is written last: a point without it is run again.
    pub(super) fn keep(
        &self,
        index: usize,
        fingerprint: &Fingerprint,
        found: &Found,
    ) -> Result<(), StoreError> {
        let output = Output::check(&self.point(index))?;
        let kept = Kept { fingerprint: fingerprint.clone(), found: found.clone() };
        let mut json = serde_json::to_string(&kept)?;
        json.push('\n');
        let [point, summary] = POINT_RESULTS;
        let files =
            [output.made(summary, found.summary.to_json().as_bytes()), output.made(point, json.as_bytes())];
        // Between the two changes, what is there must not pass for a whole point. On a full disk nothing has changed yet.
        if files.iter().all(Result::is_ok) {
            output.remove(&[point])?;
        }
        Ok(output.publish(files)?)
    }

    /// Removes what is kept of a point.
    pub(super) fn forget(&self, index: usize) -> Result<(), StoreError> {
        Ok(Output::check(&self.point(index))?.remove(&POINT_RESULTS)?)
    }

    /// Removes what an earlier run left: results of any command, and points beyond the first `count`. The first ones may
    /// be resumed from.
    pub(super) fn clear(&self, count: usize) -> Result<(), StoreError> {
        self.output.remove(&RESULTS)?;
        let own: BTreeSet<PathBuf> = (0..count).map(|index| self.point(index)).collect();
        for folder in folders(&self.folder.join(POINTS)).into_iter().filter(|folder| !own.contains(folder)) {
            Output::check(&folder)?.remove(&POINT_RESULTS)?;
            // It stays if the user keeps something else in it.
            let _ = std::fs::remove_dir(folder);
        }
        Ok(())
    }

    fn point(&self, index: usize) -> PathBuf {
        self.folder.join(POINTS).join(format!("{index:0width$}", width = self.digits))
    }

    /// Writes files next to the points: all of them, or none.
    pub(super) fn publish(&self, files: &[(&str, String)]) -> Result<(), StoreError> {
        Ok(self.output.publish(files.iter().map(|(name, text)| self.output.made(name, text.as_bytes())))?)
    }
}

fn read(path: &Path) -> Option<Kept> {
    let mut bytes = Vec::new();
    std::fs::File::open(path).ok()?.take(KEPT_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    serde_json::from_slice(&bytes).ok()
}
