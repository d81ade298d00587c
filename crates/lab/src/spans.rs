//! Several commands as one operation.

use byteway_clock::{SpanRecord, Stage};

/// Joins the spans of two consecutive commands.
pub(crate) fn joined(first: SpanRecord, second: SpanRecord) -> SpanRecord {
    let mut stages = first.stages;
    for stage in Stage::ALL {
        stages[stage as usize] += second.stages[stage as usize];
    }
    SpanRecord { begin: first.begin, last: second.last, stages }
}
