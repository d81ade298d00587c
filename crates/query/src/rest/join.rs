//! Inner hash join: the build table is held in memory, the probe rows look up their keys in it.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, UInt32Array};
use arrow_select::concat::concat;
use arrow_select::take::take;

use super::key::{KeyColumn, KeyTable};
use super::stages::JoinStage;
use crate::error::QueryError;
use crate::eval::{Rows, evaluate};
use crate::schema::ColumnType;
use crate::work::{Operator, Work};

/// Upper limit of the rows that one step produces.
const CHUNK_ROWS: usize = 16_384;
/// Upper limit in bytes of the strings that one step produces: Arrow's string offsets have 31 bits.
const CHUNK_TEXT_BYTES: usize = 256 << 20;

/// The build side of a join.
#[derive(Debug)]
pub(super) struct HeldTable {
    stage: JoinStage,
    /// Index of its first column in a row of all tables, and its column types.
    first: usize,
    types: Vec<ColumnType>,
    pending: Vec<Vec<ArrayRef>>,
    columns: Vec<ArrayRef>,
    rows: usize,
    keys: KeyTable,
    column_bytes: usize,
    scratch: Vec<u8>,
}

/// Progress of a join: matches of probe rows with held rows that have not been produced yet.
pub(super) struct Pairs {
    probe: Vec<u32>,
    held: Vec<u32>,
    /// The next probe row, and the number of its matches already taken.
    row: usize,
    taken: usize,
    keys: Vec<ArrayRef>,
}

impl HeldTable {
    pub fn new(stage: JoinStage, (first, types): (usize, Vec<ColumnType>)) -> Self {
        Self {
            stage,
            first,
            types,
            pending: Vec::new(),
            columns: Vec::new(),
            rows: 0,
            keys: KeyTable::default(),
            column_bytes: 0,
            scratch: Vec::new(),
        }
    }

    pub fn table(&self) -> usize {
        self.stage.table
    }

    pub fn stage(&self) -> &JoinStage {
        &self.stage
    }

    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    pub fn memory_bytes(&self) -> usize {
        self.column_bytes + self.keys.memory_bytes()
    }

    /// Adds rows to the build side.
    pub fn add(&mut self, batch: &RecordBatch) -> Result<(), QueryError> {
        self.column_bytes += batch.columns().iter().map(bytes_of).sum::<usize>();
        self.rows += batch.num_rows();
        if self.rows > u32::MAX as usize - 1 {
            let (found, max) = (self.rows as u64, u64::from(u32::MAX) - 1);
            return Err(QueryError::Limit { what: "rows of a joined table", found, max });
        }
        self.pending.push(batch.columns().to_vec());
        Ok(())
    }

    /// Ends the build side and indexes its rows by key. `width` is the number of columns of a row of all tables.
    pub fn build(&mut self, width: usize, work: &mut Work) -> Result<(), QueryError> {
        let pending = std::mem::take(&mut self.pending);
        self.columns = (0..self.types.len())
            .map(|column| {
                let parts: Vec<&dyn Array> =
                    pending.iter().map(|batch| &*batch[column] as &dyn Array).collect();
                match parts.is_empty() {
                    true => Ok(arrow_array::new_empty_array(&self.types[column].to_arrow())),
                    false => Ok(concat(&parts)?),
                }
            })
            .collect::<Result<_, QueryError>>()?;
        drop(pending);
        self.column_bytes = self.columns.iter().map(bytes_of).sum();
        let mut columns = vec![arrow_array::new_empty_array(&ColumnType::Bool.to_arrow()); width];
        columns[self.first..][..self.columns.len()].clone_from_slice(&self.columns);
        let rows = Rows { columns, count: self.rows };
        let mut arrays = Vec::new();
        for (_, key) in &self.stage.keys {
            arrays.push((
                evaluate(key, &rows, work)?.into_array(key.column_type, rows.count)?,
                key.column_type,
            ));
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        for row in 0..self.rows {
            scratch.clear();
            for (array, column_type) in &arrays {
                KeyColumn::plain(*column_type).encode(array, row, &mut scratch);
            }
            self.keys.append(&scratch);
        }
        self.scratch = scratch;
        // A null key matches nothing.
        self.keys.chain(|row| arrays.iter().all(|(array, _)| array.is_valid(row)));
        work.add_rows(Operator::GroupProbe, self.rows);
        Ok(())
    }

    /// Starts to join a batch of probe rows.
    pub fn begin(&self, rows: &Rows, work: &mut Work) -> Result<Pairs, QueryError> {
        let mut keys = Vec::new();
        for (key, _) in &self.stage.keys {
            keys.push(evaluate(key, rows, work)?.into_array(key.column_type, rows.count)?);
        }
        work.add_rows(Operator::GroupProbe, rows.count);
        Ok(Pairs { probe: Vec::new(), held: Vec::new(), row: 0, taken: 0, keys })
    }

    /// Produces the next rows, a bounded number; `None` at the end.
    pub fn next(
        &mut self,
        rows: &Rows,
        pairs: &mut Pairs,
        work: &mut Work,
    ) -> Result<Option<Rows>, QueryError> {
        pairs.probe.clear();
        pairs.held.clear();
        let mut text = 0;
        let mut scratch = std::mem::take(&mut self.scratch);
        while pairs.row < rows.count && pairs.probe.len() < CHUNK_ROWS && text < CHUNK_TEXT_BYTES {
            let row = pairs.row;
            if pairs.keys.iter().any(|array| array.is_null(row)) {
                pairs.row += 1;
                continue;
            }
            scratch.clear();
            for (array, (key, _)) in pairs.keys.iter().zip(&self.stage.keys) {
                KeyColumn::plain(key.column_type).encode(array, row, &mut scratch);
            }
            // A row with more matches than fit continues after `taken` in the next call.
            let mut is_whole = true;
            for held in self.keys.equal(&scratch).skip(pairs.taken) {
                if pairs.probe.len() == CHUNK_ROWS || text >= CHUNK_TEXT_BYTES {
                    is_whole = false;
                    break;
                }
                pairs.probe.push(row as u32);
                pairs.held.push(held);
                pairs.taken += 1;
                text += text_bytes(&self.columns, held as usize) + text_bytes(&rows.columns, row);
            }
            if is_whole {
                (pairs.row, pairs.taken) = (row + 1, 0);
            }
        }
        self.scratch = scratch;
        if pairs.probe.is_empty() {
            return Ok(None);
        }
        let count = pairs.probe.len();
        let probe = UInt32Array::from(std::mem::take(&mut pairs.probe));
        let held = UInt32Array::from(std::mem::take(&mut pairs.held));
        debug_assert_eq!(probe.len(), held.len());
        // Columns of tables that are not joined yet are empty placeholders, and stay so.
        let mut columns = rows.columns.clone();
        for column in columns.iter_mut().filter(|column| column.len() == rows.count) {
            *column = take(column, &probe, None)?;
            work.add_rows(Operator::Gather, count);
        }
        for (place, column) in self.columns.iter().enumerate() {
            columns[self.first + place] = take(column, &held, None)?;
            work.add_rows(Operator::Gather, count);
        }
        Ok(Some(Rows { columns, count }))
    }
}

/// Memory of an array's rows, in bytes. Arrays of one message share a buffer, so the buffer's size cannot be used.
pub(super) fn bytes_of(array: &ArrayRef) -> usize {
    array.to_data().get_slice_memory_size().unwrap_or(0)
}

/// Bytes of a row's strings.
fn text_bytes(columns: &[ArrayRef], row: usize) -> usize {
    let texts = columns.iter().filter_map(|column| column.as_string_opt::<i32>());
    texts.filter(|texts| row < texts.len()).map(|texts| texts.value_length(row) as usize).sum()
}
