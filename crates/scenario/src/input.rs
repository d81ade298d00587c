//! Where a scenario comes from: a file, or a text of a program that uses this library.

use crate::source::{Sources, Tree};
use crate::{Options, Scenario};
use byteway_text::error::InputError;
use byteway_text::file::read_small_file;
use std::path::{Path, PathBuf};
use toml::Spanned;

/// Where a scenario comes from.
#[derive(Clone, Debug)]
pub enum ScenarioInput {
    /// A scenario file, or a fio job file (with a name that ends in `.fio`).
    File(PathBuf),
    /// The text of such a file.
    Text {
        /// Its name, for errors and results.
        name: String,
        /// The folder in which it would be: relative paths in the text start here.
        folder: PathBuf,
        /// The text.
        text: String,
    },
}

impl Default for ScenarioInput {
    fn default() -> Self {
        ScenarioInput::File(PathBuf::new())
    }
}

impl From<PathBuf> for ScenarioInput {
    fn from(path: PathBuf) -> Self {
        ScenarioInput::File(path)
    }
}

impl ScenarioInput {
    /// Loads and validates the scenario.
    ///
    /// # Errors
    /// The file cannot be read, or a value of it is invalid.
    pub fn load(&self, options: &Options) -> Result<Scenario, InputError> {
        match self {
            ScenarioInput::File(path) => Scenario::load(path, options),
            ScenarioInput::Text { name, folder, text } => Scenario::from_text(name, folder, text, options),
        }
    }

    /// The path of the file, or the name of the text.
    pub fn path(&self) -> &Path {
        match self {
            ScenarioInput::File(path) => path,
            ScenarioInput::Text { name, .. } => Path::new(name),
        }
    }

    /// Its name, the folder to which relative paths refer, and its text.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn text(&self) -> Result<(String, PathBuf, String), InputError> {
        match self {
            ScenarioInput::File(path) => {
                let text = read_small_file(path, "scenario")?;
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                Ok((name, path.parent().unwrap_or(Path::new("")).to_owned(), text))
            }
            ScenarioInput::Text { name, folder, text } => Ok((name.clone(), folder.clone(), text.clone())),
        }
    }

    /// Parses it as TOML without looking at what the keys mean.
    ///
    /// # Errors
    /// The file cannot be read, or is not TOML.
    pub fn parse<'t>(&self, sources: &mut Sources<'t>) -> Result<Spanned<Tree<'t>>, InputError> {
        match self {
            ScenarioInput::File(path) => sources.parse_file(path, "scenario"),
            ScenarioInput::Text { name, folder, text } => sources.parse_text(name, folder, text),
        }
    }
}
