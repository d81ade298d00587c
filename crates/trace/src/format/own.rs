//! Formats that are not built in: parsers of lines, which a program of one's own adds under names.
//!
//! A [`Format`](super::Format) is `Copy`, so what stands behind one of these lives as long as the process: a program has a few.

use byteway_policy::{BuiltIn, Kind as PolicyKind, Named, WrongArgument, caught};

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

impl PolicyKind for dyn TraceFormat {
    fn built_in() -> &'static [BuiltIn<Self>] {
        &[]
    }

    fn unmade(why: WrongArgument) -> Box<Self> {
        Box::new(Unmade(why.what))
    }
}

/// A parser that could not be made: no line is right.
struct Unmade(String);

impl TraceFormat for Unmade {
    fn parse(&mut self, _line: &str) -> Result<Option<TraceLine>, FieldError> {
        Err(FieldError::new(format!("the format {}", self.0)))
    }
}

/// A format that is not built in, with the version of its code.
#[derive(Debug)]
pub struct OwnFormat {
    spec: Spec,
    named: Named<dyn TraceFormat>,
}

impl OwnFormat {
    /// A format of a program, for as long as the process lives.
    pub(crate) fn leaked(
        name: &str,
        about: &str,
        hash: &str,
        make: impl Fn() -> Box<dyn TraceFormat> + Send + Sync + 'static,
    ) -> &'static OwnFormat {
        let leaked = |text: &str| -> &'static str { Box::leak(text.to_owned().into_boxed_str()) };
        let about = leaked(about);
        let assumption =
            format!("`{name}` (version {hash}), which is not built in: {}", about.trim_end_matches('.'));
        let spec = Spec { name: leaked(name), shape: about, assumption: leaked(&assumption), ..Spec::TEXT };
        Box::leak(Box::new(OwnFormat { spec, named: Named::new(name, Some(hash.to_owned()), make) }))
    }

    /// The same of this build of its program.
    pub(crate) fn built(&self, build: &str) -> &'static OwnFormat {
        Box::leak(Box::new(OwnFormat { spec: self.spec, named: self.named.clone().of_build(build) }))
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.spec.name
    }

    /// What its lines are, in a sentence.
    pub fn about(&self) -> &'static str {
        self.spec.shape
    }

    /// The version of its code.
    pub fn hash(&self) -> &str {
        self.named.hash().unwrap_or_default()
    }

    pub(super) fn spec(&self) -> &Spec {
        &self.spec
    }

    pub(super) fn parser(&self) -> OwnParser {
        let made = self.named.made();
        let is_broken = made.is_err();
        OwnParser { format: made.unwrap_or_else(PolicyKind::unmade), is_broken }
    }
}

/// By name and version: code can't be compared.
impl PartialEq for OwnFormat {
    fn eq(&self, other: &Self) -> bool {
        self.named == other.named
    }
}

impl Eq for OwnFormat {}

/// A parser that is not built in, reading a file.
pub(super) struct OwnParser {
    format: Box<dyn TraceFormat>,
    is_broken: bool,
}

impl OwnParser {
    pub(super) fn parse(&mut self, line: &[u8]) -> Result<Option<Line>, FieldError> {
        let line = std::str::from_utf8(line).map_err(|_| FieldError::new("it is not UTF-8"))?;
        // A panic is a fault of the format, and none of this program.
        let parsed = caught(|| self.format.parse(line)).unwrap_or_else(|what| {
            self.is_broken = true;
            Err(FieldError::new(format!("the format {what}")))
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

#[cfg(test)]
mod tests {
    use super::*;

    // A panic where a parser is made is a fault of the format, as one at a line is; skipped lines would make it an empty trace.
    #[test]
    fn a_parser_that_cannot_be_made_is_broken() {
        let format = OwnFormat::leaked("own", "Nothing.", "1", || panic!("on purpose"));
        let mut parser = format.parser();
        let refused = parser.parse(b"1 2 3").unwrap_err();
        assert!(parser.is_broken() && refused.0 == "the format panicked: on purpose", "{refused:?}");
    }
}
