//! A space: the scenario, the varied keys, the search; and its file.

use super::dimension::{Dimension, DimensionSection};
use super::search::{Search, SearchSection};
use crate::compare::{Value, job_count, place};
use byteway_scenario::source::{Index, Sources, Texts};
use byteway_scenario::{Options, Scenario, ScenarioInput};
use byteway_text::error::InputError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The file of a space.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SpaceFile {
    /// The scenario file; a relative path starts at the folder of this file.
    pub scenario: PathBuf,
    /// Keys of the scenario that are replaced in every point, by their dotted paths in quotes.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, serde_json::Value>")]
    pub set: BTreeMap<String, toml::Value>,
    /// The varied keys.
    #[serde(default)]
    pub vary: Vec<DimensionSection>,
    /// How points are chosen.
    #[serde(default)]
    pub search: SearchSection,
}

/// A space whose keys have been checked.
#[derive(Debug)]
pub struct Space {
    /// The scenario of all points.
    pub input: ScenarioInput,
    /// Options common to all points.
    pub options: Options,
    /// The varied keys; the first varies slowest.
    pub dimensions: Vec<Dimension>,
    /// How points are chosen.
    pub search: SearchSection,
}

/// Loads the file of a space. `sets` are further overrides of every point, which come after the file's.
///
/// # Errors
/// The file cannot be read, a key of it is unknown, or the scenario or a varied key is invalid.
pub fn load_space(path: &Path, options: Options) -> Result<Space, InputError> {
    let texts = Texts::default();
    let mut sources = Sources::new(&texts);
    let tree = sources.parse_file(path, "space")?;
    let (file, _): (SpaceFile, Index) = sources.decode(tree, "space")?;
    if file.scenario.as_os_str().is_empty() {
        let what = "the space names no scenario";
        return Err(InputError::new(what, "write `scenario = \"FILE.toml\"`"));
    }
    let scenario = path.parent().unwrap_or(Path::new("")).join(&file.scenario);
    let mut options = options;
    let sets = file.set.iter().map(|(key, value)| format!("{key}={value}"));
    options.sets = sets.chain(options.sets).collect();
    Space::new(ScenarioInput::File(scenario), options, &file.vary, file.search)
}

impl Space {
    /// Checks the keys of a space.
    ///
    /// # Errors
    /// The scenario or a varied key is invalid, or nothing is varied.
    pub fn new(
        input: ScenarioInput,
        options: Options,
        vary: &[DimensionSection],
        search: SearchSection,
    ) -> Result<Space, InputError> {
        let jobs = job_count(&input, &options)?;
        let mut dimensions: Vec<Dimension> = Vec::new();
        for section in vary {
            let dimension = section.check(jobs)?;
            let is_same =
                |other: &&Dimension| other.paths().iter().any(|path| dimension.paths().contains(path));
            if let Some(other) = dimensions.iter().find(is_same) {
                let what = format!("`{}` and `{}` are the same key", other.key(), dimension.key());
                return Err(InputError::new(what, "vary it once").at(place("vary", dimension.key())));
            }
            dimensions.push(dimension);
        }
        if dimensions.is_empty() {
            let what = "nothing is varied";
            return Err(InputError::new(what, "add `[[vary]]` with a key and its values"));
        }
        Ok(Space { input, options, dimensions, search })
    }

    /// The search over this space.
    ///
    /// # Errors
    /// It does not fit the varied keys.
    pub(super) fn start(&self) -> Result<Box<dyn Search>, InputError> {
        self.search.start(&self.dimensions)
    }

    /// Overrides of a point.
    pub(super) fn sets(&self, choice: &[Value]) -> Vec<String> {
        let each = self.dimensions.iter().zip(choice);
        let own = each.flat_map(|(dimension, value)| {
            dimension.paths().iter().map(|path| format!("{path}={}", value.raw))
        });
        self.options.sets.iter().cloned().chain(own).collect()
    }

    /// A point in words: `iodepth=4, method=sgl`.
    pub(super) fn named(&self, choice: &[Value]) -> String {
        let each = self.dimensions.iter().zip(choice);
        each.map(|(dimension, value)| format!("{}={}", dimension.key(), value.label))
            .collect::<Vec<_>>()
            .join(", ")
    }

    /// Loads the scenario of a point. The error names the point.
    pub(super) fn scenario(&self, choice: &[Value]) -> Result<Scenario, InputError> {
        let options = Options { sets: self.sets(choice), ..self.options.clone() };
        self.input.load(&options).map_err(|mut error| {
            error.what = format!("{} (in the point {})", error.what, self.named(choice));
            error
        })
    }
}
