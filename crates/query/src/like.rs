//! LIKE: matches strings against patterns with % (any string) and _ (any character), without the cost of a regular expression.

use crate::error::QueryError;
use crate::statement::Term;

/// Upper limit of a pattern's parts. Matching takes at most (string length x parts) steps.
pub const PARTS_MAX: usize = 1024;

/// A compiled pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    parts: Vec<Part>,
    shape: Shape,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Character(char),
    AnyCharacter,
    AnyText,
}

/// Frequent pattern shapes with a faster comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Shape {
    Exact(String),
    Prefix(String),
    Suffix(String),
    Contains(String),
    Other,
}

impl Pattern {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// The pattern is too long, or ends with the escape character.
    pub fn new(pattern: &str, escape: Option<char>) -> Result<Self, QueryError> {
        let mut parts = Vec::new();
        let mut chars = pattern.chars();
        while let Some(char) = chars.next() {
            let part = match char {
                _ if Some(char) == escape => match chars.next() {
                    Some(escaped) => Part::Character(escaped),
                    None => {
                        let problem = "the pattern ends with the escape character".to_owned();
                        return Err(QueryError::Misplaced { construct: "LIKE".to_owned(), problem });
                    }
                },
                '%' if parts.last() == Some(&Part::AnyText) => continue,
                '%' => Part::AnyText,
                '_' => Part::AnyCharacter,
                other => Part::Character(other),
            };
            parts.push(part);
            if parts.len() > PARTS_MAX {
                let (found, max) = (pattern.chars().count() as u64, PARTS_MAX as u64);
                return Err(QueryError::Limit { what: "characters of a pattern", found, max });
            }
        }
        let shape = Shape::of(&parts);
        Ok(Self { parts, shape })
    }

    /// Whether a string matches.
    pub fn matches(&self, text: &str) -> bool {
        match &self.shape {
            Shape::Exact(exact) => text == exact,
            Shape::Prefix(start) => text.starts_with(start.as_str()),
            Shape::Suffix(end) => text.ends_with(end.as_str()),
            Shape::Contains(middle) => text.contains(middle.as_str()),
            Shape::Other => self.walk(text),
        }
    }

    /// The literal prefix of every match, which zone maps can be compared with.
    pub fn prefix(&self) -> String {
        let literal = |part: &Part| match part {
            Part::Character(char) => Some(*char),
            _ => None,
        };
        self.parts.iter().map_while(literal).collect()
    }

    /// Greedy matching with backtracking to the last % only: whatever an earlier % could match in addition, the last one can match too.
    fn walk(&self, text: &str) -> bool {
        let (mut part, mut rest) = (0, text);
        let mut resume: Option<(usize, &str)> = None;
        loop {
            let char = rest.chars().next();
            match (self.parts.get(part), char) {
                (Some(Part::AnyText), _) => {
                    part += 1;
                    resume = Some((part, rest));
                    continue;
                }
                (None, None) => return true,
                (Some(Part::AnyCharacter), Some(char)) => {
                    part += 1;
                    rest = &rest[char.len_utf8()..];
                    continue;
                }
                (Some(Part::Character(wanted)), Some(char)) if *wanted == char => {
                    part += 1;
                    rest = &rest[char.len_utf8()..];
                    continue;
                }
                _ => {}
            }
            let Some((again, from)) = resume else { return false };
            let Some(skipped) = from.chars().next() else { return false };
            rest = &from[skipped.len_utf8()..];
            part = again;
            resume = Some((again, rest));
        }
    }
}

impl Shape {
    fn of(parts: &[Part]) -> Self {
        let literal = |parts: &[Part]| {
            let char = |part: &Part| match part {
                Part::Character(char) => Some(*char),
                _ => None,
            };
            parts.iter().map(char).collect::<Option<String>>()
        };
        let shape = match parts {
            [Part::AnyText, middle @ .., Part::AnyText] => literal(middle).map(Self::Contains),
            [Part::AnyText, end @ ..] => literal(end).map(Self::Suffix),
            [start @ .., Part::AnyText] => literal(start).map(Self::Prefix),
            all => literal(all).map(Self::Exact),
        };
        shape.unwrap_or(Self::Other)
    }
}

/// The term `text LIKE pattern`.
pub(crate) fn term(text: Term, pattern: String, escape: Option<char>) -> Term {
    Term::Like { text: Box::new(text), pattern, escape }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reference implementation: tries every alternative.
    fn slow(parts: &[Part], text: &[char]) -> bool {
        match (parts.first(), text.first()) {
            (None, first) => first.is_none(),
            (Some(Part::AnyText), _) => (0..=text.len()).any(|skip| slow(&parts[1..], &text[skip..])),
            (Some(_), None) => false,
            (Some(Part::AnyCharacter), _) => slow(&parts[1..], &text[1..]),
            (Some(Part::Character(wanted)), Some(char)) => wanted == char && slow(&parts[1..], &text[1..]),
        }
    }

    // A match that misses a backtrack would lose result rows: compares all short patterns with all short strings.
    #[test]
    fn every_short_pattern_is_as_by_definition() {
        let alphabet = |letters: &[char], most: usize| {
            let mut all = vec![String::new()];
            let mut last = all.clone();
            for _ in 0..most {
                last = last.iter().flat_map(|w| letters.iter().map(move |c| format!("{w}{c}"))).collect();
                all.extend(last.clone());
            }
            all
        };
        let texts = alphabet(&['a', 'ü'], 5);
        for pattern in alphabet(&['a', 'ü', '%', '_'], 5) {
            let parsed = Pattern::new(&pattern, None).unwrap();
            for text in &texts {
                let chars: Vec<char> = text.chars().collect();
                assert_eq!(parsed.matches(text), slow(&parsed.parts, &chars), "{text:?} LIKE {pattern:?}");
            }
        }
    }

    // Patterns with many % must not take exponential time, which would block a core of the drive.
    #[test]
    fn many_wildcards_end_soon() {
        let pattern = Pattern::new(&"%a_".repeat(300), None).unwrap();
        assert!(!pattern.matches(&"ab".repeat(100)));
        assert!(Pattern::new(&"a".repeat(PARTS_MAX + 1), None).is_err());
        assert!(Pattern::new("a\\", Some('\\')).is_err());
        assert!(Pattern::new("a\\%", Some('\\')).unwrap().matches("a%"));
    }
}
