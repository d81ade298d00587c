//! A space: the scenario, the varied keys, the search; and its file.

use super::dimension::{Dimension, DimensionSection};
use super::search::{Search, SearchSection};
use crate::compare::{Value, job_count, place};
use byteway_scenario::source::{Index, Sources, Texts};
use byteway_scenario::{Options, Scenario, ScenarioInput};
use byteway_text::error::{InputError, SourceLocation};
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
    places: Places,
}

/// Where the keys of a space stand in its file: nowhere, if it has none.
#[derive(Debug, Default)]
struct Places {
    /// Each varied key, at its values.
    vary: Vec<SourceLocation>,
    /// Each replaced key, as an override with its value.
    set: Vec<(String, SourceLocation)>,
}

/// Loads the file of a space. `sets` are further overrides of every point, which come after the file's.
///
/// # Errors
/// The file cannot be read, a key of it is unknown, or the scenario or a varied key is invalid.
pub fn load_space(path: &Path, options: Options) -> Result<Space, InputError> {
    let texts = Texts::default();
    let mut sources = Sources::new(&texts);
    let tree = sources.parse_file(path, "space")?;
    let (file, index): (SpaceFile, Index) = sources.decode(tree, "space")?;
    if file.scenario.as_os_str().is_empty() {
        let what = "the space names no scenario";
        return Err(InputError::new(what, "write `scenario = \"FILE.toml\"`"));
    }
    let scenario = path.parent().unwrap_or(Path::new("")).join(&file.scenario);
    let mut options = options;
    let sets: Vec<(&String, String)> =
        file.set.iter().map(|(key, value)| (key, format!("{key}={value}"))).collect();
    let own = sets.iter().map(|(_, set)| set.clone());
    options.sets = own.chain(options.sets).collect();
    let at = |key: String| sources.place(&index.span(&key));
    let of_vary = |(number, section): (usize, &DimensionSection)| {
        let value = if section.values.is_some() { "values" } else { "from" };
        at(format!("vary.{number}.{value}"))
    };
    let places = Places {
        vary: file.vary.iter().enumerate().map(of_vary).collect(),
        set: sets.into_iter().map(|(key, set)| (set, at(format!("set.{key}")))).collect(),
    };
    Space::at(ScenarioInput::File(scenario), options, &file.vary, (file.search, places))
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
        Space::at(input, options, vary, (search, Places::default()))
    }

    /// [`new`](Space::new), with the places of its keys.
    fn at(
        input: ScenarioInput,
        options: Options,
        vary: &[DimensionSection],
        (search, places): (SearchSection, Places),
    ) -> Result<Space, InputError> {
        let jobs = job_count(&input, &options).map_err(|error| places.of_set(error))?;
        let mut dimensions: Vec<Dimension> = Vec::new();
        for (number, section) in vary.iter().enumerate() {
            let stands = places.vary.get(number);
            let dimension = section.check(jobs).map_err(|error| match stands {
                Some(place) => error.at(place.clone()),
                None => error,
            })?;
            let is_same =
                |other: &&Dimension| other.paths().iter().any(|path| dimension.paths().contains(path));
            if let Some(other) = dimensions.iter().find(is_same) {
                let what = format!("`{}` and `{}` are the same key", other.key(), dimension.key());
                let stands = stands.cloned().unwrap_or_else(|| place("vary", dimension.key()));
                return Err(InputError::new(what, "vary it once").at(stands));
            }
            dimensions.push(dimension);
        }
        if dimensions.is_empty() {
            let what = "nothing is varied";
            return Err(InputError::new(what, "add `[[vary]]` with a key and its values"));
        }
        Ok(Space { input, options, dimensions, search, places })
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

    /// Loads the scenario of a point. The error names the point, and stands where the value does.
    pub(super) fn scenario(&self, choice: &[Value]) -> Result<Scenario, InputError> {
        let options = Options { sets: self.sets(choice), ..self.options.clone() };
        self.input.load(&options).map_err(|mut error| {
            error.what = format!("{} (in the point {})", error.what, self.named(choice));
            let each = self.dimensions.iter().zip(choice).zip(&self.places.vary);
            // The last override of a key is the one that counts.
            let varied = each.rev().find(|((dimension, value), _)| {
                dimension.paths().iter().any(|path| is_at(&error, &format!("{path}={}", value.raw)))
            });
            match varied {
                Some((_, place)) => error.at(place.clone()),
                None => self.places.of_set(error),
            }
        })
    }
}

/// Whether an error stands in this override.
fn is_at(error: &InputError, set: &str) -> bool {
    let source = error.place.as_ref().map(|place| place.source.as_str());
    source == Some(place("--set", set).source.as_str())
}

impl Places {
    /// The error, at the replaced key in whose value it is, if it is in one.
    fn of_set(&self, error: InputError) -> InputError {
        match self.set.iter().find(|(set, _)| is_at(&error, set)) {
            Some((_, place)) => error.at(place.clone()),
            None => error,
        }
    }
}
