//! Scenarios from files, texts and dictionaries; profiles and schemas.

use crate::error::invalid;
use byteway_scenario::profile::{
    all_texts, drive_entries, host_entries, network_entries, profile_schema, text_of,
};
use byteway_scenario::{
    Options, Policies, ScenarioInput, device_schema, host_schema, network_schema, scenario_schema,
};
use byteway_text::error::{InputError, suggest};
use byteway_text::units::excerpt;
use pyo3::prelude::*;
use std::path::PathBuf;

/// A scenario as the user gave it, with its overrides; it is loaded where it is used.
#[pyclass(frozen, module = "byteway._native")]
pub(crate) struct Scenario {
    pub(crate) input: ScenarioInput,
    pub(crate) options: Options,
}

impl Scenario {
    pub(crate) fn load(&self) -> Result<byteway_scenario::Scenario, InputError> {
        self.input.load(&self.options)
    }
}

/// TOML of a dictionary, which came as JSON.
fn toml_of(json: &str) -> Result<String, InputError> {
    let help = "use only what TOML has: strings, integers, floats, booleans, lists and dictionaries";
    let wrong = |error: String| InputError::new(format!("the dictionary is no scenario: {error}"), help);
    let value: toml::Table = serde_json::from_str(json).map_err(|error| wrong(error.to_string()))?;
    toml::to_string(&value).map_err(|error| wrong(error.to_string()))
}

#[pymethods]
impl Scenario {
    /// A file.
    #[staticmethod]
    fn file(path: PathBuf, sets: Vec<String>, defines: Vec<String>, skip_bad_lines: bool) -> Scenario {
        let options = Options { sets, defines, skip_bad_lines, ..Options::default() };
        Scenario { input: ScenarioInput::File(path), options }
    }

    /// A text of TOML.
    #[staticmethod]
    fn text(
        name: String,
        text: String,
        sets: Vec<String>,
        defines: Vec<String>,
        skip_bad_lines: bool,
    ) -> Scenario {
        let options = Options { sets, defines, skip_bad_lines, ..Options::default() };
        Scenario { input: ScenarioInput::Text { name, folder: PathBuf::new(), text }, options }
    }

    /// A dictionary, as JSON.
    #[staticmethod]
    fn json(
        py: Python<'_>,
        name: String,
        json: &str,
        sets: Vec<String>,
        defines: Vec<String>,
        skip_bad_lines: bool,
    ) -> PyResult<Scenario> {
        let text = toml_of(json).map_err(|error| invalid(py, &error))?;
        Ok(Scenario::text(name, text, sets, defines, skip_bad_lines))
    }

    /// Loads and validates it; returns its text.
    fn check(&self, py: Python<'_>) -> PyResult<String> {
        py.detach(|| self.load()).map(|scenario| scenario.text).map_err(|error| invalid(py, &error))
    }

    /// Identity of its results: equal fingerprints have equal results.
    fn fingerprint(&self, py: Python<'_>) -> PyResult<String> {
        let found = py.detach(|| byteway_explore::compare::fingerprint(&self.load()?));
        found.map(|fingerprint| fingerprint.to_string()).map_err(|error| invalid(py, &error))
    }
}

/// The built-in profiles as JSON: `drives`, `hosts`, `networks`.
#[pyfunction]
pub(crate) fn profiles() -> String {
    let (drives, hosts, networks) = (drive_entries(), host_entries(), network_entries());
    serde_json::json!({ "drives": drives, "hosts": hosts, "networks": networks }).to_string()
}

/// A built-in profile as TOML.
#[pyfunction]
pub(crate) fn profile_show(py: Python<'_>, name: &str) -> PyResult<&'static str> {
    text_of(name).ok_or_else(|| {
        let names: Vec<&str> = all_texts().map(|(name, _)| *name).collect();
        let what = format!("no such built-in profile: `{}`", excerpt(name));
        invalid(py, &InputError::new(what, suggest(name, &names)))
    })
}

/// The JSON schema of a file: "scenario", "device", "profile", "host", "network".
#[pyfunction]
pub(crate) fn schema(of: &str) -> Option<String> {
    let schema = match of {
        "scenario" => scenario_schema(),
        "device" => device_schema(),
        "profile" => profile_schema(&Policies::default()),
        "host" => host_schema(),
        "network" => network_schema(),
        _ => return None,
    };
    Some(schema.to_string())
}
