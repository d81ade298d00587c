//! The files of a fit: measurements that it reads, results that it writes.

use std::path::Path;

use super::fio_json::read_fio;
use super::measurement::Measurements;
use super::outcome::Fit;
use super::points_csv::read_csv;
use super::report::report;
use byteway_text::error::InputError;
use byteway_text::file::read_small_file;

/// Reads measurements: a table if the path ends in `.csv`, else fio's JSON.
///
/// # Errors
/// The file can't be read, or its content is not what its name says; with its place.
pub fn read_measurements(path: &Path) -> Result<Measurements, InputError> {
    let name = path.display().to_string();
    let text = read_small_file(path, "file of measurements")?;
    let is_table = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("csv"));
    if is_table { read_csv(&name, &text) } else { read_fio(&name, &text) }
}

/// The name of the profile's file.
const PROFILE: &str = "my-drive.toml";

/// Checks that the files of a fit in `folder` do not take the place of its base.
///
/// # Errors
/// The base is the profile in that folder.
pub fn check_folder(base: &str, folder: &Path) -> Result<(), InputError> {
    let whole = |path: &Path| path.canonicalize().ok();
    match (whole(Path::new(base)), whole(&folder.join(PROFILE))) {
        (Some(base), Some(written)) if base == written => {
            let what = format!("the fitted profile would replace its base `{}`", base.display());
            Err(InputError::new(what, "name another folder, or rename the base"))
        }
        _ => Ok(()),
    }
}

impl Fit {
    /// Name and content of the result files in `folder`: the profile names its base as it is found from there.
    pub fn files(&self, folder: &Path) -> [(&'static str, String); 3] {
        let base = base_beside(&self.base, folder);
        [
            (PROFILE, self.to_profile(base.as_deref())),
            ("fit.json", self.to_json()),
            ("report.html", report(self).render()),
        ]
    }
}

/// The base as a profile in `folder` names it: paths are relative to the profile's folder. `None`: as it was
/// given.
fn base_beside(base: &str, folder: &Path) -> Option<String> {
    let is_path = base.contains('/') || base.ends_with(".toml");
    if !is_path || Path::new(base).is_absolute() {
        return None;
    }
    match Path::new(base).strip_prefix(folder) {
        Ok(rest) => Some(format!("./{}", rest.display())),
        Err(_) => std::path::absolute(base).ok().map(|path| path.display().to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A profile that is its own base can't be used any more, and what it was is lost.
    #[test]
    fn the_base_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().join(PROFILE);
        assert!(check_folder(base.to_str().unwrap(), folder.path()).is_ok(), "it is not there");
        std::fs::write(&base, "").unwrap();
        assert!(check_folder(base.to_str().unwrap(), &folder.path().join(".")).is_err());
        assert!(check_folder("p4500", folder.path()).is_ok());
    }

    // A profile whose base is not found from where it lies can't be run.
    #[test]
    fn a_base_is_found_from_the_profile() {
        let beside = |base: &str, folder: &str| base_beside(base, Path::new(folder));
        assert_eq!(beside("p4500", "results"), None);
        assert_eq!(beside("drives/base.toml", "drives").as_deref(), Some("./base.toml"));
        assert_eq!(beside("/abs/base.toml", "drives"), None);
        assert!(beside("base.toml", "drives").unwrap().starts_with('/'));
    }
}
