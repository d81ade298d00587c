//! Reads the row groups of a query from flash. Several readers work at once, in pieces, in the order of
//! evaluation, so that the first row group arrives early.
//!
//! Row groups that zone maps rule out are not read. Readers stay a few row groups ahead of the evaluation,
//! which bounds memory.

use crate::config::Defect;
use crate::controller::command_set::csd::failure::Failure;
use crate::controller::core::Core;
use byteway_clock::{Notify, SpanId};
use byteway_firmware::WorkKind;
use byteway_query::pieces::{Piece, column, pieces};
use byteway_query::{Execution, GroupMeta, Schema};
use byteway_tables::{Group, Table, Tables};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Row groups read ahead of the evaluated one, in addition to one per reader.
const AHEAD: usize = 2;

/// Maximum size of a flash read: enough to occupy all channels of a drive.
const PIECE_BYTES: u32 = 512 << 10;

/// Maximum number of bytes being read. More would delay the first row group without speeding up the last.
const IN_FLIGHT_BYTES: u64 = 2 << 20;

/// Gaps between columns up to this size are read too, which saves a separate read.
const GAP_BYTES: u64 = 4096;

/// A row group with its column chunks; `None` if zone maps ruled it out.
pub(crate) type Brought = Result<Option<(GroupMeta, Vec<Vec<u8>>)>, Failure>;

/// Reads of one query from one table.
pub(crate) struct Reading {
    core: Rc<Core>,
    tables: Tables,
    table: Table,
    schema: Schema,
    execution: Rc<RefCell<Execution>>,
    /// Columns to read, ascending.
    columns: Vec<usize>,
    state: RefCell<State>,
    /// Notified when a row group has arrived, or another one may be read.
    pub(crate) changed: Notify,
}

#[derive(Default)]
struct State {
    /// Next row group whose description is to be read, and number of such reads in flight.
    next: usize,
    looking: usize,
    /// Index of the first row group that has not been taken for evaluation.
    evaluated: usize,
    /// Bytes being read.
    in_flight: u64,
    coming: BTreeMap<usize, Coming>,
    brought: BTreeMap<usize, Brought>,
}

/// A row group whose pieces have not all arrived.
struct Coming {
    meta: GroupMeta,
    /// Byte ranges of the columns: offset and length.
    ranges: Vec<(u64, u32)>,
    pieces: Vec<Piece>,
    /// Number of pieces that readers have taken.
    taken: usize,
    /// Pieces that have arrived, by offset.
    there: BTreeMap<u64, Vec<u8>>,
}

impl Coming {
    fn chunks(&self) -> Vec<Vec<u8>> {
        self.ranges.iter().map(|range| column(&self.there, *range)).collect()
    }
}

/// Next step of a reader.
enum Next {
    /// Read the description of a row group.
    Look(usize),
    /// Read a piece of a row group.
    Read(usize, Piece),
    /// Wait for a change.
    Wait,
    /// All row groups are read.
    End,
}

impl Reading {
    pub(crate) fn new(
        core: &Rc<Core>,
        (tables, table, schema): (Tables, Table, Schema),
        execution: Rc<RefCell<Execution>>,
        columns: Vec<usize>,
    ) -> Rc<Reading> {
        debug_assert!(columns.is_sorted(), "chunks are found by binary search");
        let changed = Notify::new(&core.clock);
        let (core, state) = (core.clone(), RefCell::default());
        Rc::new(Reading { core, tables, table, schema, execution, columns, state, changed })
    }

    /// Number of concurrent readers.
    pub(crate) fn readers(&self) -> usize {
        self.core.config.csd.as_ref().map_or(1, |policy| policy.readers as usize)
    }

    pub(crate) fn schema(&self) -> &Schema {
        &self.schema
    }

    pub(crate) fn columns(&self) -> &[usize] {
        &self.columns
    }

    pub(crate) fn groups(&self) -> &[Rc<Group>] {
        &self.table.groups
    }

    /// Takes row group `index` if it has arrived; further ones may then be read.
    pub(crate) fn take(&self, index: usize) -> Option<Brought> {
        let mut state = self.state.borrow_mut();
        let brought = state.brought.remove(&index)?;
        state.evaluated = index + 1;
        drop(state);
        self.changed.notify_all();
        Some(brought)
    }

    fn next(&self) -> Next {
        let mut state = self.state.borrow_mut();
        let readers = self.readers();
        let with_pieces = state.coming.values().filter(|coming| coming.taken < coming.pieces.len()).count();
        let has_next = state.next < self.table.groups.len();
        // Descriptions are read ahead: one that is not cached costs a flash read.
        if has_next
            && with_pieces + state.looking < readers.max(2)
            && state.next <= state.evaluated + readers + AHEAD
        {
            let index = state.next;
            state.next += 1;
            state.looking += 1;
            return Next::Look(index);
        }
        let in_flight = state.in_flight;
        let first = state.coming.iter_mut().find(|(_, coming)| coming.taken < coming.pieces.len());
        if let Some((index, coming)) = first {
            let (index, piece) = (*index, coming.pieces[coming.taken]);
            let bytes = in_flight + u64::from(piece.bytes);
            if in_flight > 0 && bytes > IN_FLIGHT_BYTES {
                return Next::Wait;
            }
            coming.taken += 1;
            state.in_flight = bytes;
            return Next::Read(index, piece);
        }
        if has_next || state.looking > 0 { Next::Wait } else { Next::End }
    }

    /// Reads row groups until none is left.
    pub(crate) async fn read(self: Rc<Self>) {
        loop {
            match self.next() {
                Next::Look(index) => {
                    let coming = self.look(index).await;
                    let mut state = self.state.borrow_mut();
                    state.looking -= 1;
                    match coming {
                        Ok(Some(coming)) if coming.pieces.is_empty() => {
                            let chunks = coming.chunks();
                            state.brought.insert(index, Ok(Some((coming.meta, chunks))));
                        }
                        Ok(Some(coming)) => drop(state.coming.insert(index, coming)),
                        Ok(None) => drop(state.brought.insert(index, Ok(None))),
                        Err(failure) => drop(state.brought.insert(index, Err(failure))),
                    }
                }
                Next::Read(index, piece) => {
                    let bytes = self.bring(index, piece).await;
                    self.place(index, piece, bytes);
                }
                Next::Wait => {
                    self.changed.notified().await;
                    continue;
                }
                Next::End => return,
            }
            self.changed.notify_all();
        }
    }

    fn place(&self, index: usize, piece: Piece, bytes: Result<Vec<u8>, Failure>) {
        let mut state = self.state.borrow_mut();
        debug_assert!(state.in_flight >= u64::from(piece.bytes));
        state.in_flight -= u64::from(piece.bytes);
        // A failed piece has ended this row group; the others are dropped.
        let Some(coming) = state.coming.get_mut(&index) else { return };
        match bytes {
            Ok(bytes) => {
                coming.there.insert(piece.offset, bytes);
                if coming.there.len() < coming.pieces.len() {
                    return;
                }
                let chunks = coming.chunks();
                let meta = state.coming.remove(&index).map(|coming| (coming.meta, chunks));
                state.brought.insert(index, Ok(meta));
            }
            Err(failure) => {
                state.coming.remove(&index);
                state.brought.insert(index, Err(failure));
            }
        }
    }

    async fn meta(&self, group: &Group) -> Result<GroupMeta, Failure> {
        let spans = self.core.port.spans();
        let meta = self.tables.meta(SpanId::NONE, spans, group).await.map_err(Failure::Store)?;
        GroupMeta::from_bytes(&self.schema, &meta).map_err(Failure::Damaged)
    }

    /// Determines the reads for a row group; `None` if no row can match, or the query needs no more rows.
    async fn look(&self, index: usize) -> Result<Option<Coming>, Failure> {
        let meta = self.meta(&self.table.groups[index]).await?;
        let defect = self.core.config.csd.as_ref().map(|policy| policy.defect).unwrap_or_default();
        let zones = match index.checked_sub(1) {
            Some(before) if defect.has(Defect::ForeignZones) => {
                Some(self.meta(&self.table.groups[before]).await?)
            }
            _ => None,
        };
        let execution = self.execution.borrow();
        if execution.is_done() || !execution.may_match(zones.as_ref().unwrap_or(&meta)) {
            return Ok(None);
        }
        let ranges = meta.ranges(&self.columns);
        let pieces = pieces(&ranges, PIECE_BYTES, GAP_BYTES);
        Ok(Some(Coming { meta, ranges, pieces, taken: 0, there: BTreeMap::new() }))
    }

    async fn bring(&self, index: usize, piece: Piece) -> Result<Vec<u8>, Failure> {
        let (core, group) = (&self.core, &self.table.groups[index]);
        let mut bytes = Vec::with_capacity(piece.bytes as usize);
        let (offset, length) = (piece.offset, u64::from(piece.bytes));
        let read = self.tables.read(SpanId::NONE, core.port.spans(), group, offset, length, &mut bytes).await;
        read.map_err(Failure::Store)?;
        let passage = core.placement.site(WorkKind::Decode).dram("column", length);
        core.clock.sleep_until(passage.arrival).await;
        Ok(bytes)
    }
}
