//! What a store is made of: its state, the changes that wait, and its units.

use crate::catalog::{Catalog, Group, NewGroup, TableId};
use crate::config::{TablesConfig, TablesError, units_of};
use crate::range::Range;
use crate::space::Space;
use byteway_clock::{Clock, Notify, SpanId, Spans, TaskId};
use byteway_content::UNIT_BYTES;
use byteway_firmware::MediaError;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

/// A store, shared with its writer task.
pub(crate) struct Core {
    pub(crate) clock: Clock,
    pub(crate) config: TablesConfig,
    pub(crate) range: Range,
    /// Size of each of the two catalog slots in units. The slots are the first units of the range.
    pub(crate) slot_units: u64,
    pub(crate) state: RefCell<State>,
    pub(crate) is_ready: Cell<bool>,
    pub(crate) is_stopped: Cell<bool>,
    /// Notified when recovery ends, when a change is made, and when the store stops.
    pub(crate) changed: Notify,
    /// Notified when a change is queued.
    pub(crate) asked: Notify,
    pub(crate) task: Cell<Option<TaskId>>,
}

pub(crate) struct State {
    pub(crate) catalog: Catalog,
    pub(crate) space: Space,
    /// Row groups without a table; readers may still hold some.
    pub(crate) retired: Vec<Rc<Group>>,
    pub(crate) requests: VecDeque<Request>,
    /// Recovery could not read the catalog: the set of tables is unknown.
    pub(crate) unknown: Option<MediaError>,
    /// A write of the catalog failed: whether it took effect is unknown, so the store accepts no further change.
    pub(crate) failed: Option<MediaError>,
}

/// A change to make.
pub(crate) enum Change {
    Create { name: Rc<str>, schema: Rc<[u8]> },
    Drop { id: TableId },
    Append { id: TableId, groups: Vec<NewGroup> },
    Format,
}

/// Result slot of a change: the table's identifier or its number of rows.
pub(crate) type Answer = Rc<Cell<Option<Result<u64, TablesError>>>>;

/// A queued change.
pub(crate) struct Request {
    pub(crate) change: Change,
    pub(crate) answer: Answer,
}

impl Core {
    /// Appends `bytes` bytes of a row group's units, from `offset` on, to the buffer.
    pub(crate) async fn read(
        &self,
        span: SpanId,
        spans: &Spans,
        group: &Group,
        offset: u64,
        bytes: u64,
        into: &mut Vec<u8>,
    ) -> Result<(), MediaError> {
        let unit = UNIT_BYTES as u64;
        let (mut first, end) = (offset / unit, units_of(offset + bytes));
        let begin = into.len();
        let mut before = 0;
        for extent in &group.extents {
            let stop = before + extent.count;
            if first < stop.min(end) {
                let count = stop.min(end) - first;
                self.range.read(span, spans, extent.first + (first - before), count, into).await?;
                first += count;
            }
            before = stop;
        }
        if first < end {
            return Err(MediaError::OutOfRange);
        }
        into.truncate(begin + (offset % unit + bytes) as usize);
        into.drain(begin..begin + (offset % unit) as usize);
        Ok(())
    }
    /// Frees the units of row groups that have neither a table nor a reader.
    pub(crate) async fn give_back(&self, spans: &Spans) {
        let over = {
            let mut state = self.state.borrow_mut();
            let (over, read): (Vec<_>, Vec<_>) =
                state.retired.drain(..).partition(|group| Rc::strong_count(group) == 1);
            state.retired = read;
            over
        };
        for extent in over.iter().flat_map(|group| &group.extents) {
            // At the drive's end of life deallocation may fail; the units are free regardless.
            let _ = self.range.trim(spans, extent.first, extent.count).await;
            self.state.borrow_mut().space.release(*extent);
        }
    }
}
