//! Invariants of a whole store, for tests.

use super::Kv;
use super::record::ValueExtent;
use super::segments::Use;
use byteway_clock::{SpanId, Spans};
use std::collections::BTreeMap;

impl Kv {
    /// Checks everything: no two live values overlap, each lies in a segment of the value log, tables and free segments
    /// are disjoint from all else, and each level is in order.
    ///
    /// # Errors
    /// A sentence that names the first violation.
    #[doc(hidden)]
    pub async fn check(&self) -> Result<(), String> {
        self.ready().await;
        let spans = Spans::default();
        let mut cursor = self.seek(None);
        let mut places: BTreeMap<(u32, u32), ValueExtent> = BTreeMap::new();
        let mut last = None;
        while let Some((key, entry)) =
            cursor.next_entry(SpanId::NONE, &spans).await.map_err(|error| format!("cursor: {error}"))?
        {
            if last.is_some_and(|last| last >= key) {
                return Err(format!("{key:?} comes behind {last:?}"));
            }
            last = Some(key);
            for place in entry.extents().iter().filter(|place| place.bytes > 0) {
                if let Some(other) = places.insert((place.segment, place.offset), *place) {
                    return Err(format!("{key:?}: {place:?} and {other:?}"));
                }
            }
        }
        let pairs = places.values().zip(places.values().skip(1));
        for (one, other) in pairs {
            if one.segment == other.segment && one.end() > other.offset {
                return Err(format!("{one:?} overlaps {other:?}"));
            }
        }
        let state = self.0.state.borrow();
        let usage = |segment: u32| state.segments.usage(segment);
        for place in places.values() {
            let is_value =
                usage(place.segment) == Some(Use::Value) || usage(place.segment) == Some(Use::Freeing);
            if !is_value || place.end() > state.layout.segment_bytes() {
                return Err(format!("{place:?} lies in a segment that is {:?}", usage(place.segment)));
            }
        }
        for run in state.index.version().runs() {
            for (one, other) in run.iter().zip(run.iter().skip(1)) {
                if one.table.last >= other.from {
                    return Err(format!("tables {} and {} overlap", one.table.number, other.table.number));
                }
            }
            for slice in run {
                if usage(slice.table.segment) != Some(Use::Index) || slice.from > slice.table.last {
                    return Err(format!("table {} is not where it should be", slice.table.number));
                }
            }
        }
        state.segments.check()
    }
}
