//! Sources by their names in scenarios.

use super::source::WorkloadSource;
use byteway_text::error::InputError;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// A source that was made, or what is wrong with its argument and what would be right, each a clause.
pub type MadeSource = Result<Box<dyn WorkloadSource>, InputError>;

type Make = Arc<dyn Fn(Option<&str>) -> MadeSource + Send + Sync>;

/// A source under its name, from which each worker makes its own.
#[derive(Clone)]
pub struct NamedSource {
    text: String,
    hash: String,
    /// The program that has it.
    build: String,
    make: Make,
}

impl NamedSource {
    /// Its name, with its argument.
    pub fn name(&self) -> &str {
        &self.text
    }

    /// The version of its code.
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// One for a worker.
    ///
    /// # Errors
    /// What is wrong with its argument.
    pub fn make(&self) -> MadeSource {
        (self.make)(self.text.split_once(':').map(|(_, argument)| argument))
    }
}

/// By names and versions: code can't be compared.
impl PartialEq for NamedSource {
    fn eq(&self, other: &Self) -> bool {
        (&self.text, &self.hash, &self.build) == (&other.text, &other.hash, &other.build)
    }
}

impl fmt::Debug for NamedSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("NamedSource");
        shown.field("name", &self.text).field("hash", &self.hash).field("build", &self.build);
        shown.finish_non_exhaustive()
    }
}

/// The sources of a program, by name. None is built in.
#[derive(Clone, Default)]
pub struct WorkloadSources {
    added: BTreeMap<String, Added>,
    build: String,
}

#[derive(Clone)]
struct Added {
    about: String,
    hash: String,
    make: Make,
}

impl PartialEq for WorkloadSources {
    fn eq(&self, other: &Self) -> bool {
        let versions = |all: &Self| -> Vec<(String, String)> {
            all.added.iter().map(|(name, added)| (name.clone(), added.hash.clone())).collect()
        };
        (versions(self), &self.build) == (versions(other), &other.build)
    }
}

impl fmt::Debug for WorkloadSources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.added.keys()).finish()
    }
}

/// Why there is no source of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnknownSource {
    /// Nothing has this name.
    Name,
    /// Its argument is wrong.
    Argument(InputError),
}

impl WorkloadSources {
    /// Adds a source. `about` is what it asks for, in a sentence; `hash` tells this version of its code from others, for summaries and caches
    /// of results.
    ///
    /// # Panics
    /// The name is empty, or has a colon: it could not be reached.
    #[must_use]
    pub fn with_source(
        mut self,
        name: impl Into<String>,
        about: impl Into<String>,
        hash: impl Into<String>,
        make: impl Fn(Option<&str>) -> MadeSource + Send + Sync + 'static,
    ) -> Self {
        let name = name.into();
        assert!(!name.is_empty() && !name.contains(':'), "`{name}` is no name: a colon begins an argument");
        self.added.insert(name, Added { about: about.into(), hash: hash.into(), make: Arc::new(make) });
        self
    }

    /// Names the program that has these sources, by a hash of its file, say: results kept of another one are not taken for its.
    #[must_use]
    pub fn with_build(self, build: String) -> Self {
        WorkloadSources { build, ..self }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty()
    }

    /// The names, with what each source asks for.
    pub fn each(&self) -> impl Iterator<Item = (&str, &str)> {
        self.added.iter().map(|(name, added)| (name.as_str(), added.about.as_str()))
    }

    /// The source with this name, `name` or `name:argument`.
    ///
    /// # Errors
    /// There is none, or its argument is wrong.
    pub fn find(&self, text: &str) -> Result<NamedSource, UnknownSource> {
        let name = text.split_once(':').map_or(text, |(name, _)| name);
        let Added { hash, make, .. } = self.added.get(name).ok_or(UnknownSource::Name)?;
        let (build, hash, make) = (self.build.clone(), hash.clone(), make.clone());
        let named = NamedSource { text: text.to_owned(), hash, build, make };
        named.make().map_err(UnknownSource::Argument)?;
        Ok(named)
    }
}
