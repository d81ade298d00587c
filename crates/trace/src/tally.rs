//! What was met while reading, and what it makes doubtful.

use super::format::Action;
use super::options::ReadOptions;

/// What was met while reading.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Records given out.
    pub records: u64,
    /// Records of devices that were not asked for.
    pub other_devices: u64,
    /// Lines that are not a record, skipped.
    pub bad_lines: u64,
    /// The first of them, and why.
    pub first_bad: Option<String>,
    /// Records whose time was earlier than that of a record before.
    pub times_raised: u64,
    /// In a format of sectors whose unit nobody named: records whose offset and length are multiples of 512 sectors.
    pub multiples_of_512: u64,
    /// The action that was taken because the beginning of the file has none of those that are preferred to it.
    pub fallback: Option<Action>,
}

impl Tally {
    /// What makes it doubtful that the trace was read as it was meant.
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
