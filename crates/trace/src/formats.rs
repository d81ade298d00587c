//! Formats by name: those of a program of one's own, beside the built-in ones.

use crate::format::{Format, OwnFormat, TraceFormat};

/// The formats that a program adds, by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TraceFormats {
    added: Vec<&'static OwnFormat>,
}

impl TraceFormats {
    /// Adds a format. `about` is what its lines are, in a sentence; `hash` tells this version of its code from others, for results and caches of
    /// results.
    ///
    /// # Panics
    /// The name is that of another format.
    #[must_use]
    pub fn with_format(
        mut self,
        name: &str,
        about: &str,
        hash: &str,
        make: impl Fn() -> Box<dyn TraceFormat> + Send + Sync + 'static,
    ) -> Self {
        let is_free = self.find(name).is_none() && !name.eq_ignore_ascii_case(Format::Auto.name());
        assert!(is_free, "`{name}` is the name of another format");
        self.added.push(OwnFormat::leaked(name, about, hash, make));
        self
    }

    /// Names the program that has these formats, by a hash of its file, say: results kept of another one are not taken for its.
    #[must_use]
    pub fn with_build(self, build: &str) -> Self {
        TraceFormats { added: self.added.iter().map(|own| own.built(build)).collect() }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty()
    }

    /// Those that are added.
    pub fn each(&self) -> impl Iterator<Item = &'static OwnFormat> {
        self.added.iter().copied()
    }

    /// The format of this name, ignoring case, of these or of the built-in ones.
    pub fn find(&self, name: &str) -> Option<Format> {
        let own = self.each().find(|own| own.name().eq_ignore_ascii_case(name));
        own.map(Format::Own).or_else(|| Format::named(name))
    }
}
