//! Row groups that are brought from flash for a query: by several readers at once, in pieces, in the order in which they are evaluated, so
//! that the first one is there soon.
//!
//! A row group that zone maps rule out is not read. Readers stay a few row groups before the one that is evaluated: memory is bounded by
//! row groups.

use crate::config::CsdCanary;
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

/// Row groups that are brought before the one that is evaluated, in addition to one for each reader.
const AHEAD: usize = 2;

/// Bytes of a read of flash, at most: enough for all channels of a drive.
const PIECE_BYTES: u32 = 512 << 10;

/// Bytes that are being read, at most: with more, the first row group would be there later, and the last no sooner.
const IN_FLIGHT_BYTES: u64 = 2 << 20;

/// Gaps between columns that are read with them, instead of with a read of their own.
const GAP_BYTES: u64 = 4096;

/// A row group that was brought, with the chunks of its columns; none: it was ruled out.
pub(crate) type Brought = Result<Option<(GroupMeta, Vec<Vec<u8>>)>, Failure>;

/// What a query reads of a table.
pub(crate) struct Reading {
    core: Rc<Core>,
    tables: Tables,
    table: Table,
    schema: Schema,
    execution: Rc<RefCell<Execution>>,
    /// The columns that are read, ascending.
    columns: Vec<usize>,
    state: RefCell<State>,
    /// A row group is there, or may be read now.
    pub(crate) changed: Notify,
}

#[derive(Default)]
struct State {
    /// The next row group whose description is looked at, and how many are being looked at.
    next: usize,
    looking: usize,
    /// The row group that is evaluated.
    evaluated: usize,
    /// Bytes that are being read.
    in_flight: u64,
    coming: BTreeMap<usize, Coming>,
    brought: BTreeMap<usize, Brought>,
}

/// A row group of which not all pieces are there.
struct Coming {
    meta: GroupMeta,
    /// Where its columns are.
    ranges: Vec<(u64, u32)>,
    pieces: Vec<Piece>,
    /// Pieces that readers have taken.
    taken: usize,
    /// Pieces that are there, by where they begin.
    there: BTreeMap<u64, Vec<u8>>,
}

impl Coming {
    fn chunks(&self) -> Vec<Vec<u8>> {
        self.ranges.iter().map(|range| column(&self.there, *range)).collect()
    }
}

/// What a reader does next.
enum Next {
    /// Looks at the description of a row group.
    Look(usize),
    /// Reads a piece of one.
    Read(usize, Piece),
    /// Nothing, until something changes.
    Wait,
    /// Nothing any more.
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

    /// How many readers there are.
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

    /// The row group with that index, if it is there. Then those after it may be read.
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
        // Descriptions are looked at ahead: where they are not known yet, each takes a read of its own.
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

    /// Brings row groups until all are there.
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
        // After one piece failed, the others are not wanted.
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

    /// What is to be read of a row group; none: nothing in it can match, or nothing more is wanted.
    async fn look(&self, index: usize) -> Result<Option<Coming>, Failure> {
        let meta = self.meta(&self.table.groups[index]).await?;
        let canary = self.core.config.csd.as_ref().and_then(|policy| policy.canary);
        let zones = match (canary, index.checked_sub(1)) {
            (Some(CsdCanary::ForeignZones), Some(before)) => {
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
