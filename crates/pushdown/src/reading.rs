//! Reads columns of a table to this host as a driver would: with several commands in flight, of up to
//! [`PIECE_BYTES`] each, one row group after the other. Adjacent columns of a row group are read together.

use crate::error::SessionError;
use crate::session::Session;
use byteway_clock::Notify;
use byteway_host::{IoBuffer, TablesClient, TablesIoError};
use byteway_query::GroupMeta;
use byteway_query::pieces::{Piece, column, pieces};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Number of read commands in flight.
pub const READ_DEPTH: usize = 16;

/// Maximum length of a command in bytes: Linux's default for NVMe drives.
pub(crate) const PIECE_BYTES: u32 = 128 << 10;

/// Row groups read ahead of the evaluated one, which bounds memory.
const AHEAD: usize = 8;

/// Pieces of a row group that have arrived.
#[derive(Default)]
struct Brought {
    /// Bytes of the pieces, by offset.
    pieces: BTreeMap<u64, Vec<u8>>,
    failed: Option<TablesIoError>,
}

/// Reads of a table's columns by several tasks.
pub(crate) struct Reading {
    table: u32,
    /// For each row group, the ranges of its columns: offset and length.
    ranges: Vec<Vec<(u64, u32)>>,
    /// Pieces to read with their row group's index, in order.
    pieces: Vec<(usize, Piece)>,
    /// Number of pieces of each row group.
    pieces_of: Vec<usize>,
    next: Cell<usize>,
    evaluated: Cell<usize>,
    brought: RefCell<BTreeMap<usize, Brought>>,
    pub(crate) bytes: Cell<u64>,
    pub(crate) commands: Cell<u64>,
    changed: Notify,
}

/// Number of commands to read these ranges of a row group.
pub(crate) fn commands(ranges: &[(u64, u32)]) -> usize {
    pieces(ranges, PIECE_BYTES, 0).len()
}

impl Reading {
    /// Reads pieces until none is left, or reading is stopped.
    async fn read(&self, client: &TablesClient, buffer: &mut IoBuffer) {
        loop {
            let index = self.next.get();
            let Some((group, piece)) = self.pieces.get(index).copied() else { return };
            self.next.set(index + 1);
            while group > self.evaluated.get() + AHEAD {
                self.changed.notified().await;
            }
            if self.evaluated.get() >= self.ranges.len() {
                return; // stopped
            }
            let mut bytes = Vec::with_capacity(piece.bytes as usize);
            let range = (piece.offset, u64::from(piece.bytes));
            let read = client.read(buffer, (self.table, group as u32), range, &mut bytes).await;
            self.bytes.set(self.bytes.get() + u64::from(piece.bytes));
            self.commands.set(self.commands.get() + 1);
            let mut brought = self.brought.borrow_mut();
            let group = brought.entry(group).or_default();
            match read {
                Ok(()) => drop(group.pieces.insert(piece.offset, bytes)),
                Err(error) => drop(group.failed.get_or_insert(error)),
            }
            drop(brought);
            self.changed.notify_all();
        }
    }

    /// Waits for the columns of a row group.
    pub(crate) async fn brought(&self, index: usize) -> Result<Vec<Vec<u8>>, SessionError> {
        self.evaluated.set(index);
        self.changed.notify_all();
        loop {
            if self.is_there(index) {
                let brought = self.brought.borrow_mut().remove(&index).unwrap_or_default();
                if let Some(error) = brought.failed {
                    return Err(error.into());
                }
                return Ok(self.ranges[index].iter().map(|range| column(&brought.pieces, *range)).collect());
            }
            self.changed.notified().await;
        }
    }

    fn is_there(&self, index: usize) -> bool {
        let brought = self.brought.borrow();
        let group = brought.get(&index);
        group.is_some_and(|group| group.failed.is_some())
            || group.map_or(0, |group| group.pieces.len()) == self.pieces_of[index]
    }

    /// Stops reading: no further row group is needed.
    pub(crate) fn stop(&self) {
        self.next.set(self.pieces.len());
        self.evaluated.set(self.ranges.len());
        self.changed.notify_all();
    }
}

impl Session {
    /// Starts reading these columns of all row groups of a table.
    pub(crate) fn begin_reading(
        &self,
        table: u32,
        metas: &[GroupMeta],
        columns: &[usize],
    ) -> Result<Rc<Reading>, SessionError> {
        let ranges: Vec<Vec<(u64, u32)>> = metas.iter().map(|meta| meta.ranges(columns)).collect();
        let of_groups: Vec<Vec<Piece>> = ranges.iter().map(|ranges| pieces(ranges, PIECE_BYTES, 0)).collect();
        let reading = Rc::new(Reading {
            table,
            pieces_of: of_groups.iter().map(Vec::len).collect(),
            pieces: of_groups
                .into_iter()
                .enumerate()
                .flat_map(|(group, pieces)| pieces.into_iter().map(move |piece| (group, piece)))
                .collect(),
            ranges,
            next: Cell::default(),
            evaluated: Cell::default(),
            brought: RefCell::default(),
            bytes: Cell::default(),
            commands: Cell::new(1),
            changed: Notify::new(&self.clock),
        });
        for _ in 0..READ_DEPTH.min(reading.pieces.len()) {
            let mut buffer = self.take_buffer()?;
            let (reading, client, buffers) = (reading.clone(), self.client.clone(), self.buffers.clone());
            self.clock.spawn("table reader", async move {
                reading.read(&client, &mut buffer).await;
                buffers.borrow_mut().push(buffer);
            });
        }
        Ok(reading)
    }
}
