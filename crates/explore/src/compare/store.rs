//! Storage of completed points: `points/NNN/point.json` contains the result of a point with its fingerprint.
//! A file that cannot be read completely counts as missing.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::fingerprint::Fingerprint;
use super::fnv::Fnv;
use byteway_results::RunResult;
use byteway_results::output::{Output, OutputError, POINT_RESULTS, POINTS, RESULTS, folders};
use byteway_text::error::InputError;

/// Why the results of a comparison cannot be stored.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A point's directory is not writable.
    #[error(transparent)]
    Input(#[from] InputError),
    /// A file cannot be written or removed.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// A point cannot be serialized: a defect.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// A completed point could not be stored.
    #[error("a point's results cannot be written")]
    Point(#[source] Box<StoreError>),
}

impl StoreError {
    /// The invalid input, if that is the reason.
    pub fn wrong_input(&self) -> Option<&InputError> {
        match self {
            StoreError::Input(error) => Some(error),
            StoreError::Point(error) => error.wrong_input(),
            StoreError::Output(_) | StoreError::Json(_) => None,
        }
    }
}

/// The directory of a comparison.
#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
    output: Output,
    /// Digits of a point's number in directory names.
    digits: usize,
}

/// The stored form of a point.
#[derive(Serialize, Deserialize)]
pub(crate) struct Kept {
    /// Identity of the point. Checked when it is read, because files are copied and renamed.
    pub(crate) fingerprint: Fingerprint,
    /// Its result.
    pub(crate) found: RunResult,
}

/// How the stored form begins: the hash of what follows, and after it the rest of the object.
const SUM: &str = "{\"sum\":\"";

impl Kept {
    /// As JSON whose `sum` is the hash of all else, so that a changed digit is noticed.
    pub(crate) fn to_json(&self) -> serde_json::Result<String> {
        let json = serde_json::to_string(self)?;
        Ok(format!("{SUM}{}\",{}", sum(&json[1..]), &json[1..]))
    }

    /// Reads what [`Kept::to_json`] has made; `None` for anything else.
    fn from_json(json: &str) -> Option<Kept> {
        let (given, rest) = json.trim_end().strip_prefix(SUM)?.split_once("\",")?;
        if sum(rest) != given {
            return None;
        }
        serde_json::from_str(json).ok()
    }
}

fn sum(text: &str) -> String {
    let mut hash = Fnv::default();
    hash.add(text.as_bytes());
    hash.hex()
}

/// Size limit; a larger file was not written by a comparison.
const KEPT_BYTES_MAX: u64 = 64 << 20;

impl Store {
    /// Opens the store in `folder` for a number of points. Refuses a directory that is not writable, or
    /// locked by another run.
    pub fn open(folder: &Path, points: usize) -> Result<Store, InputError> {
        let digits = points.saturating_sub(1).to_string().len().max(3);
        Ok(Store { folder: folder.to_owned(), output: Output::check(folder)?.claim()?, digits })
    }

    /// All stored points, by fingerprint.
    pub(super) fn kept(&self) -> BTreeMap<Fingerprint, RunResult> {
        let folders = folders(&self.folder.join(POINTS));
        let kept = folders.iter().filter_map(|folder| read_kept(&folder.join("point.json")));
        kept.map(|kept| (kept.fingerprint, kept.found)).collect()
    }

    /// Stores a point. `point.json` is written last: a point without it is run again.
    pub(super) fn keep(
        &self,
        index: usize,
        fingerprint: &Fingerprint,
        found: &RunResult,
    ) -> Result<(), StoreError> {
        let output = Output::check(&self.point(index))?;
        let kept = Kept { fingerprint: fingerprint.clone(), found: found.clone() };
        let mut json = kept.to_json()?;
        json.push('\n');
        let [point, summary] = POINT_RESULTS;
        let files =
            [output.made(summary, found.summary.to_json().as_bytes()), output.made(point, json.as_bytes())];
        // An incomplete replacement must not look like a complete point, so `point.json` is removed first. On
        // a full disk nothing has changed yet.
        if files.iter().all(Result::is_ok) {
            output.remove(&[point])?;
        }
        Ok(output.publish(files)?)
    }

    /// Removes a stored point.
    pub(super) fn forget(&self, index: usize) -> Result<(), StoreError> {
        Ok(Output::check(&self.point(index))?.remove(&POINT_RESULTS)?)
    }

    /// Removes results of an earlier run: files of any command, and points from `count` on. The others may be
    /// resumed from.
    pub(super) fn clear(&self, count: usize) -> Result<(), StoreError> {
        self.output.remove(&RESULTS)?;
        let own: BTreeSet<PathBuf> = (0..count).map(|index| self.point(index)).collect();
        for folder in folders(&self.folder.join(POINTS)).into_iter().filter(|folder| !own.contains(folder)) {
            Output::check(&folder)?.remove(&POINT_RESULTS)?;
            // This fails if the user keeps other files in it, and then the directory stays.
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

/// A stored point; `None` if the file is missing, incomplete, or something else.
pub(crate) fn read_kept(path: &Path) -> Option<Kept> {
    let mut json = String::new();
    std::fs::File::open(path).ok()?.take(KEPT_BYTES_MAX).read_to_string(&mut json).ok()?;
    Kept::from_json(&json)
}
