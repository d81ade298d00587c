//! Errors about input: what is wrong, where, and how to fix it.

use std::fmt;

/// Invalid input: a scenario, profile, flag, trace or output directory that cannot be used. The program exits
/// with code 2 and has written nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputError {
    /// Location of the value; `None` if it has none (a missing file).
    pub place: Option<Box<SourceLocation>>,
    /// Description of the mistake, with the key and the value.
    pub what: String,
    /// How to fix it: the nearest valid name, the accepted units, the accepted range.
    pub help: String,
}

/// A location in the user's input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceLocation {
    /// The file as the user named it, the built-in profile, or the flag.
    pub source: String,
    /// Line and column, both from 1, the column in characters; `None` for a flag.
    pub position: Option<(usize, usize)>,
    /// The line, and the width of the underlined part in characters, if it is worth showing.
    pub excerpt: Option<(String, usize)>,
}

impl InputError {
    /// An error without a location.
    pub fn new(what: impl Into<String>, help: impl Into<String>) -> Self {
        InputError { place: None, what: what.into(), help: help.into() }
    }

    /// Sets the location of the error.
    pub fn at(mut self, place: SourceLocation) -> Self {
        self.place = Some(Box::new(place));
        self
    }
}

impl fmt::Display for SourceLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)?;
        if let Some((line, column)) = self.position {
            write!(f, ":{line}:{column}")?;
        }
        Ok(())
    }
}

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(place) = &self.place else {
            return write!(f, "{}\n  help: {}", self.what, self.help);
        };
        writeln!(f, "{place}: {}", self.what)?;
        if let (Some((line, column)), Some((text, width))) = (place.position, &place.excerpt) {
            let number = line.to_string();
            let gutter = " ".repeat(number.len());
            writeln!(f, "  {number} | {text}")?;
            writeln!(f, "  {gutter} | {}{}", " ".repeat(column - 1), "^".repeat((*width).max(1)))?;
        }
        write!(f, "  help: {}", self.help)
    }
}

impl std::error::Error for InputError {}

/// An error and its causes in one line: the message with which the program exits.
pub fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |line, cause| format!("{line}: {cause}"))
}

/// The candidate nearest to `wrong` in spelling, if it is close enough to be a typing error.
pub fn nearest<'a>(wrong: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let folded = wrong.to_ascii_lowercase().replace('_', "-");
    candidates
        .into_iter()
        .map(|name| {
            (strsim::damerau_levenshtein(&folded, &name.to_ascii_lowercase().replace('_', "-")), name)
        })
        .filter(|(distance, name)| *distance <= 1 + name.len().max(folded.len()) / 3)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// "did you mean `x`? The choices are ...", or only the choices.
pub fn suggest(wrong: &str, candidates: &[&str]) -> String {
    let list = candidates.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    match nearest(wrong, candidates.iter().copied()) {
        Some(name) => format!("did you mean `{name}`? the choices are {list}"),
        None => format!("the choices are {list}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Without its causes an error says that a file can't be written, but not that the disk is full.
    #[test]
    fn causes_stand_behind_their_error() {
        #[derive(Debug)]
        struct Outer(std::num::ParseIntError);
        impl fmt::Display for Outer {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("no number")
            }
        }
        impl std::error::Error for Outer {
            fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
                Some(&self.0)
            }
        }
        let inner = "x".parse::<u8>().unwrap_err();
        assert_eq!(with_causes(&inner), "invalid digit found in string");
        assert_eq!(with_causes(&Outer(inner)), "no number: invalid digit found in string");
    }

    // Without a limit on the distance every typing error would suggest an unrelated name.
    #[test]
    fn only_a_near_name_is_offered() {
        assert_eq!(nearest("iodept", ["bs", "iodepth", "size"]), Some("iodepth"));
        assert_eq!(nearest("IO_depth", ["bs", "iodepth"]), Some("iodepth"));
        assert_eq!(nearest("zebra", ["bs", "iodepth", "size"]), None);
    }
}
