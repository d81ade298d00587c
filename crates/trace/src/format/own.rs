//! Formats that are not built in: parsers of lines, which a program of one's own adds under names.
//!
//! A [`Format`](super::Format) is `Copy`, so what stands behind one of these lives as long as the process: a program has a few.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::field::FieldError;
use super::spec::{Line, Spec};
use crate::record::Kind;

/// Parses the lines of a trace. One is made each time that a file is read, and may keep state from line to line.
pub trait TraceFormat {
    /// Parses a line, which is neither empty nor a comment (`#`), without the white space around it. `None`: it is right, but no record, such
    /// as a line of column names.
    ///
    /// # Errors
    /// What is wrong with it, by its field.
    fn parse(&mut self, line: &str) -> Result<Option<TraceLine>, FieldError>;
}

/// A record, as a line has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceLine {
    /// Time in nanoseconds, since any instant: the first record's becomes 0.
    pub time_ns: u64,
    /// Number of the device; 0 in a format without devices.
    pub device: u32,
    /// Start address in bytes.
    pub offset_bytes: u64,
    /// Length in bytes, at least 1. Offset and length together are at most 2^63.
    pub bytes: u64,
    /// Read, write or trim.
    pub kind: Kind,
}

type Make = Arc<dyn Fn() -> Box<dyn TraceFormat> + Send + Sync>;

/// A format that is not built in, with the version of its code.
pub struct OwnFormat {
    spec: Spec,
    about: &'static str,
    hash: String,
    /// The program that has it.
    build: String,
    make: Make,
}

impl OwnFormat {
    /// A format of a program, for as long as the process lives.
    pub(crate) fn leaked(
        name: &str,
        about: &str,
        hash: &str,
        make: impl Fn() -> Box<dyn TraceFormat> + Send + Sync + 'static,
    ) -> &'static OwnFormat {
        OwnFormat::kept(name, about, hash, String::new(), Arc::new(make))
    }

    /// The same of this build of its program.
    pub(crate) fn built(&self, build: &str) -> &'static OwnFormat {
        OwnFormat::kept(self.spec.name, self.about, &self.hash, build.to_owned(), self.make.clone())
    }

    fn kept(name: &str, about: &str, hash: &str, build: String, make: Make) -> &'static OwnFormat {
        let leaked = |text: &str| -> &'static str { Box::leak(text.to_owned().into_boxed_str()) };
        let about = leaked(about);
        let assumption =
            format!("`{name}` (version {hash}), which is not built in: {}", about.trim_end_matches('.'));
        let spec = Spec { name: leaked(name), shape: about, assumption: leaked(&assumption), ..Spec::TEXT };
        Box::leak(Box::new(OwnFormat { spec, about, hash: hash.to_owned(), build, make }))
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.spec.name
    }

    /// What its lines are, in a sentence.
    pub fn about(&self) -> &'static str {
        self.about
    }

    /// The version of its code.
    pub fn hash(&self) -> &str {
        &self.hash
    }

    pub(super) fn spec(&self) -> &Spec {
        &self.spec
    }

    pub(super) fn parser(&self) -> OwnParser {
        OwnParser { format: (self.make)(), is_broken: false }
    }
}

/// By name and version: code can't be compared.
impl PartialEq for OwnFormat {
    fn eq(&self, other: &Self) -> bool {
        (self.spec.name, &self.hash, &self.build) == (other.spec.name, &other.hash, &other.build)
    }
}

impl Eq for OwnFormat {}

impl fmt::Debug for OwnFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("OwnFormat");
        shown.field("name", &self.spec.name).field("hash", &self.hash).field("build", &self.build);
        shown.finish_non_exhaustive()
    }
}

/// A parser that is not built in, reading a file.
pub(super) struct OwnParser {
    format: Box<dyn TraceFormat>,
    is_broken: bool,
}

impl OwnParser {
    pub(super) fn parse(&mut self, line: &[u8]) -> Result<Option<Line>, FieldError> {
        let line = std::str::from_utf8(line).map_err(|_| FieldError::new("it is not UTF-8"))?;
        // A panic is a fault of the format, and none of this program.
        let parsed = catch_unwind(AssertUnwindSafe(|| self.format.parse(line))).unwrap_or_else(|panic| {
            self.is_broken = true;
            let what = panic.downcast_ref::<&str>().copied().map(str::to_owned);
            let what = what.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
            Err(FieldError::new(format!("the format panicked: {what}")))
        })?;
        Ok(parsed.map(|TraceLine { time_ns, device, offset_bytes, bytes, kind }| Line {
            ticks: time_ns,
            device,
            offset_bytes,
            bytes,
            kind,
        }))
    }

    /// Whether it panicked: what it would say of further lines means nothing.
    pub(super) fn is_broken(&self) -> bool {
        self.is_broken
    }
}
