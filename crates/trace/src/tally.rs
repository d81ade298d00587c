//! The tally of a reader: counts of what it read, and of what makes the result doubtful.

use super::format::Action;
use super::options::ReadOptions;

/// Counts kept while reading a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Records returned.
    pub records: u64,
    /// Records of devices that were filtered out.
    pub other_devices: u64,
    /// Skipped lines that are not records.
    pub bad_lines: u64,
    /// The first of them, and the reason.
    pub first_bad: Option<String>,
    /// Records whose time was raised to that of an earlier record.
    pub times_raised: u64,
    /// In a format that counts in sectors, without a unit option: records whose offset and length are
    /// multiples of 512 sectors.
    pub multiples_of_512: u64,
    /// The action selected because the beginning of the file has no event of a preferred one.
    pub fallback: Option<Action>,
}

impl Tally {
    /// Reasons to doubt that the trace was interpreted as intended.
    pub fn doubts(&self, options: &ReadOptions) -> Vec<String> {
        let mut doubts = Vec::new();
        if self.records > 0 && self.multiples_of_512 == self.records {
            doubts.push(
                "warning: all offsets and lengths are multiples of 512, so they may be bytes, not sectors: `unit = \"bytes\"` \
                 (--unit bytes) reads them so, `unit = \"sectors\"` says that they are sectors"
                    .to_owned(),
            );
        }
        if let Some(action) = self.fallback {
            let without = if action == Action::D {
                "no I/O is queued (Q)"
            } else {
                "no I/O is queued (Q) or issued (D)"
            };
            doubts.push(format!(
                "{without} at the beginning of the trace; those that are {} ({}) were taken",
                action.noun(),
                action.letter()
            ));
        }
        if let Some(columns) = &options.columns {
            if !columns.has_op() {
                doubts.push("no column is the op: all records were taken as reads".to_owned());
            }
            if !columns.has_time() {
                doubts.push("no column is a time: all records come at once".to_owned());
            }
        }
        doubts
    }
}
