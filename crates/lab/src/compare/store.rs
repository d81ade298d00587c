//! Points that were run before: `points/NNN/point.json` holds all that the comparison needs of a point, with its
//! fingerprint. A file that cannot be read in full counts as absent.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::fingerprint::Fingerprint;
use super::outcome::Found;
use crate::error::InputError;
use crate::output::Output;

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
    /// In `folder`, for so many points. Found writable, or refused.
    pub fn open(folder: &Path, points: usize) -> Result<Store, InputError> {
        let digits = points.saturating_sub(1).to_string().len().max(3);
        Ok(Store { folder: folder.to_owned(), output: Output::check(folder)?, digits })
    }

    /// Everything that was kept, whatever its number was then.
    pub(super) fn kept(&self) -> BTreeMap<Fingerprint, Found> {
        let Ok(entries) = std::fs::read_dir(self.folder.join("points")) else { return BTreeMap::new() };
        let mut folders: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        folders.sort();
        let kept = folders.iter().filter_map(|folder| read(&folder.join("point.json")));
        kept.map(|kept| (kept.fingerprint, kept.found)).collect()
    }

    /// Keeps a point. What it is resumed from is written last: a point without it is run again.
    pub(super) fn keep(&self, index: usize, fingerprint: &Fingerprint, found: &Found) -> anyhow::Result<()> {
        let folder = self.point(index);
        let output = Output::check(&folder)?;
        let kept = Kept { fingerprint: fingerprint.clone(), found: found.clone() };
        let mut json = serde_json::to_string(&kept)?;
        json.push('\n');
        // Before the first of the two changes, what is there must no longer pass for a whole point.
        self.forget(index)?;
        output.write("summary.json", found.summary.to_json().as_bytes())?;
        output.write("point.json", json.as_bytes())?;
        Ok(())
    }

    /// Removes what is kept of a point.
    pub(super) fn forget(&self, index: usize) -> anyhow::Result<()> {
        for name in ["point.json", "summary.json"] {
            match std::fs::remove_file(self.point(index).join(name)) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
                _ => {}
            }
        }
        Ok(())
    }

    fn point(&self, index: usize) -> PathBuf {
        self.folder.join("points").join(format!("{index:0width$}", width = self.digits))
    }

    /// Writes a file beside the points.
    pub(super) fn write(&self, name: &str, content: &[u8]) -> anyhow::Result<()> {
        self.output.write(name, content)
    }
}

fn read(path: &Path) -> Option<Kept> {
    let mut bytes = Vec::new();
    std::fs::File::open(path).ok()?.take(KEPT_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    serde_json::from_slice(&bytes).ok()
}
