//! Fingerprints of points: a hash of everything that determines the results, and nothing else. Scenarios with
//! another notation or path, but the same plan, have equal fingerprints.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::fnv::Fnv;
use byteway_scenario::Scenario;
use byteway_text::error::InputError;
use byteway_workload::kv::KvSource;
use byteway_workload::query::RowSource;
use byteway_workload::{Layout, Source};

/// 32 hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Fingerprint(String);

/// Hash of the program's sources: a changed model has other results, even with the same version.
pub const SOURCES: &str = env!("BYTEWAY_SOURCES");

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The fingerprint of a scenario with this build. The contents of its traces and tables are included.
///
/// # Errors
/// A trace or table of the scenario cannot be read.
pub fn fingerprint(scenario: &Scenario) -> Result<Fingerprint, InputError> {
    let mut hash = Fnv::default();
    let Scenario {
        name,
        seed,
        drives,
        jbof,
        host,
        target,
        jobs,
        warmup,
        interval,
        host_cost,
        text: _,
        sets: _,
        constants: _,
        translated,
    } = scenario;
    let mut jobs = jobs.clone();
    let mut contents = Vec::new();
    let mut content_of = |path: &Path| -> Result<(), InputError> {
        contents.push((byteway_trace::file_name(path).to_string(), of_file(path)?));
        Ok(())
    };
    for table in drives.iter().flat_map(|drive| &drive.plan.tables) {
        if let RowSource::File(path) = &table.source {
            content_of(path)?;
        }
    }
    for job in &mut jobs {
        if let Source::Trace(replay) = &mut job.source {
            let path = std::mem::take(&mut replay.path);
            // It is derived from the rest, and may have millions of entries.
            replay.layout = Layout::default();
            content_of(&path)?;
        }
        if let Source::Pairs(plan) = &mut job.source
            && let KvSource::Trace(replay) = &mut plan.source
        {
            let path = std::mem::take(&mut replay.path);
            content_of(&path)?;
        }
    }
    let _ = write!(
        hash,
        "{SOURCES} {name:?} {seed} {drives:?} {jbof:?} {host:?} {target:?} {jobs:?} {warmup:?} {interval:?} {host_cost:?} {contents:?} {translated:?}"
    );
    Ok(Fingerprint(hash.hex()))
}

fn of_file(path: &Path) -> Result<String, InputError> {
    let failed = |error: std::io::Error| {
        let what = format!("cannot read `{}`: {error}", byteway_trace::file_name(path));
        InputError::new(what, "check the path and its permissions")
    };
    let mut file = std::fs::File::open(path).map_err(failed)?;
    let about = file.metadata().map_err(failed)?;
    let version = (path.to_owned(), about.len(), about.modified().ok());
    let mut hashes = HASHES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(hash) = hashes.get(&version) {
        return Ok(hash.clone());
    }
    let mut hash = Fnv::default();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer).map_err(failed)? {
            0 => break,
            count => hash.add(&buffer[..count]),
        }
    }
    Ok(hashes.entry(version).or_insert_with(|| hash.hex()).clone())
}

/// A file as it was: path, length and time of change.
type Version = (PathBuf, u64, Option<SystemTime>);

/// Hashes of files: the points of a sweep share their traces, which may have gigabytes.
static HASHES: Mutex<BTreeMap<Version, String>> = Mutex::new(BTreeMap::new());

#[cfg(test)]
mod tests {
    use super::*;

    // Published test vectors: with another hash function, all points stored by older versions would be run
    // again.
    #[test]
    fn the_hash_is_fnv_1a() {
        let of = |text: &str| {
            let mut hash = Fnv::default();
            hash.add(text.as_bytes());
            hash.hex()
        };
        assert_eq!(of(""), "6c62272e07bb014262b821756295c58d");
        assert_eq!(of("a"), "d228cb696f1a8caf78912b704e4a8964");
        assert_eq!(of("foobar"), "343e1662793c64bf6f0d3597ba446f18");
    }
}
