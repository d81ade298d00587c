//! Sources by their names in scenarios.

use super::source::{Operation, WorkloadSource, WorkloadView};
use byteway_policy::{Added, BuiltIn, Kind, Made, Named, Set, UnknownPolicy, WrongArgument};
use std::fmt;
use std::sync::Arc;

/// A source that was made, or what is wrong with its argument and what would be right, each a clause.
pub type MadeSource = Made<dyn WorkloadSource>;

/// A source under its name, from which each worker makes its own.
pub type NamedSource = Named<dyn WorkloadSource>;

/// Why there is no source of a name.
pub type UnknownSource = UnknownPolicy;

impl Kind for dyn WorkloadSource {
    fn built_in() -> &'static [BuiltIn<Self>] {
        &[]
    }

    fn unmade(_why: WrongArgument) -> Box<Self> {
        Box::new(Nothing)
    }
}

/// Asks for nothing. A job asks for what was [made](Named::made), which says why it was not.
struct Nothing;

impl WorkloadSource for Nothing {
    fn next(&mut self, _view: &mut WorkloadView<'_>) -> Option<Operation> {
        None
    }
}

/// The sources of a program, by name. None is built in.
#[derive(Clone, Default, PartialEq)]
pub struct WorkloadSources {
    named: Set<dyn WorkloadSource>,
    build: String,
}

impl fmt::Debug for WorkloadSources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.named.added()).finish()
    }
}

impl WorkloadSources {
    /// Adds a source. `about` is what it asks for, in a sentence; `hash` tells this version of its code from others, for summaries and caches
    /// of results.
    ///
    /// # Panics
    /// The name is one that could not be reached: empty, with a colon, or of a file.
    #[must_use]
    pub fn with_source(
        mut self,
        name: impl Into<String>,
        about: impl Into<String>,
        hash: impl Into<String>,
        make: impl Fn(Option<&str>) -> MadeSource + Send + Sync + 'static,
    ) -> Self {
        let added = Added { about: about.into(), hash: hash.into(), make: Arc::new(make) };
        self.named.add(name.into(), added);
        self
    }

    /// Names the program that has these sources, by a hash of its file, say: results kept of another one are not taken for its.
    #[must_use]
    pub fn with_build(self, build: String) -> Self {
        WorkloadSources { build, ..self }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.named.is_empty()
    }

    /// The names, with what each source asks for.
    pub fn each(&self) -> impl Iterator<Item = (&str, &str)> {
        self.named.each()
    }

    /// The source with this name, `name` or `name:argument`.
    ///
    /// # Errors
    /// There is none, or its argument is wrong.
    pub fn find(&self, text: &str) -> Result<NamedSource, UnknownSource> {
        self.named.find(text, &self.build)
    }
}
