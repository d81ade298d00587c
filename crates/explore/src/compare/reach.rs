//! The sizes at which a transfer method is better than another.

use byteway_text::table::grouped;
use serde::Serialize;

/// Sizes at which one method is better than another, within the sizes of the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "where", content = "bytes", rename_all = "kebab-case")]
pub enum Reach {
    /// At no size.
    Nowhere,
    /// At every size of the comparison, the longest of which is given.
    Everywhere(u64),
    /// Up to this size, and not above it.
    UpTo(u64),
    /// From this size on, and not below it.
    From(u64),
    /// The lead changes more than once.
    Mixed,
}

impl Reach {
    /// In words.
    pub(super) fn words(self) -> String {
        match self {
            Reach::Nowhere => "at no size".to_owned(),
            Reach::Everywhere(bytes) => format!("at every size up to {} B", grouped(bytes)),
            Reach::UpTo(bytes) => format!("up to {} B", grouped(bytes)),
            Reach::From(bytes) => format!("from {} B", grouped(bytes)),
            Reach::Mixed => "at some sizes".to_owned(),
        }
    }
}
