//! Execution of the rest of a query on the host: joins, groups, DISTINCT, order.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow_schema::{Field, SchemaRef};

use super::join::{HeldTable, Pairs, bytes_of};
use super::key::{KeyColumn, KeyTable};
use super::sort::Sorter;
use super::split::Rest;
use crate::aggregate::Groups;
use crate::error::QueryError;
use crate::eval::{Rows, evaluate, passing};
use crate::expr::{Expr, Grouping};
use crate::schema::ColumnType;
use crate::work::{Operator, Work};

/// Upper limit of a result batch's rows, for results produced at the end.
const BATCH_ROWS: usize = 65_536;

/// Resource limits of a rest on the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RestLimits {
    /// Upper limit of memory in bytes: build tables, rows to sort, DISTINCT, groups, and the result.
    pub memory_bytes: usize,
    /// Upper limit of the rows that all joins produce in total: many equal keys multiply.
    pub joined_rows: u64,
}

impl Default for RestLimits {
    fn default() -> Self {
        Self { memory_bytes: 1 << 30, joined_rows: 1 << 28 }
    }
}

/// A running rest of a query.
///
/// Rows are pushed scan by scan, in the order of [`Rest::order`]; [`end`](Self::end) ends each scan.
#[derive(Debug)]
pub struct RestExecution {
    rest: Rest,
    limits: RestLimits,
    output: SchemaRef,
    held: Vec<HeldTable>,
    built: usize,
    /// Number of columns of a row of all scans, without flags.
    width: usize,
    groups: Option<Groups>,
    /// For each DISTINCT aggregate the values seen, with their group keys.
    flags: Vec<KeyTable>,
    different: KeyTable,
    sorter: Option<Sorter>,
    to_skip: u64,
    to_give: u64,
    joined_rows: u64,
    result_bytes: usize,
    work: Work,
    scratch: Vec<u8>,
}

impl RestExecution {
    /// Starts the execution.
    pub fn new(rest: &Rest, limits: RestLimits) -> Self {
        let fields = rest.outputs[..rest.shown]
            .iter()
            .map(|output| Field::new(&output.name, output.expr.column_type.to_arrow(), output.nullable));
        let output: SchemaRef = Arc::new(arrow_schema::Schema::new(fields.collect::<Vec<_>>()));
        let held =
            rest.stages.iter().map(|stage| HeldTable::new(stage.clone(), rest.inputs[stage.table].clone()));
        let by = rest.order_by.iter().map(|order| {
            let column_type = rest.outputs[order.output].expr.column_type;
            let (descending, nulls_first) = (order.descending, order.nulls_first);
            (order.output, KeyColumn { column_type, descending, nulls_first })
        });
        let most = rest.limit.map_or(u64::MAX, |limit| limit.saturating_add(rest.offset));
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let sorter = (!rest.order_by.is_empty()).then(|| Sorter::new(by.collect(), most));
        let groups = rest.grouping.as_ref().map(|grouping| {
            // Groups are limited by memory, which is checked after each batch.
            Groups::limited(grouping, u32::MAX as usize - 1, limits.memory_bytes)
        });
        Self {
            held: held.collect(),
            built: 0,
            width: rest.inputs.iter().map(|(_, types)| types.len()).sum(),
            flags: rest.distinct.iter().map(|_| KeyTable::default()).collect(),
            different: KeyTable::default(),
            sorter,
            groups,
            to_skip: rest.offset,
            to_give: rest.limit.unwrap_or(u64::MAX),
            joined_rows: 0,
            result_bytes: 0,
            work: Work::default(),
            scratch: Vec::new(),
            output,
            limits,
            rest: rest.clone(),
        }
    }

    /// Schema of the result's batches.
    pub fn result_schema(&self) -> SchemaRef {
        self.output.clone()
    }

    /// Work so far.
    pub fn work(&self) -> &Work {
        &self.work
    }

    /// Memory in use in bytes, including that of the result.
    pub fn memory_bytes(&self) -> usize {
        self.held.iter().map(HeldTable::memory_bytes).sum::<usize>()
            + self.flags.iter().map(KeyTable::memory_bytes).sum::<usize>()
            + self.different.memory_bytes()
            + self.groups.as_ref().map_or(0, Groups::memory_bytes)
            + self.sorter.as_ref().map_or(0, Sorter::memory_bytes)
            + self.result_bytes
    }

    /// Whether further rows cannot change the result: LIMIT is reached, or a joined table is empty.
    pub fn is_done(&self) -> bool {
        let is_plain = self.groups.is_none() && self.sorter.is_none();
        is_plain && self.to_give == 0
            || self.rest.limit == Some(0)
            || self.held[..self.built].iter().any(HeldTable::is_empty)
    }

    /// Takes rows of a scan and returns the result rows that are ready. Names and nullability of the batch's columns are ignored.
    ///
    /// # Errors
    /// The batch's columns do not match the scan, a value overflows, or a limit is reached.
    pub fn push(&mut self, scan: usize, batch: &RecordBatch) -> Result<Vec<RecordBatch>, QueryError> {
        self.check(scan, batch)?;
        self.work.rows_in += batch.num_rows() as u64;
        if batch.num_rows() == 0 || self.is_done() {
            return Ok(Vec::new());
        }
        if scan != self.rest.probe {
            let held = self.held.iter_mut().find(|held| held.table() == scan);
            if let Some(held) = held {
                held.add(batch)?;
            }
            self.check_memory()?;
            return Ok(Vec::new());
        }
        if self.built < self.held.len() {
            return Err(QueryError::Batch(
                "rows of the probe table precede the end of another table".to_owned(),
            ));
        }
        let first = self.rest.inputs[scan].0;
        let nothing = arrow_array::new_empty_array(&ColumnType::Bool.to_arrow());
        let mut columns = vec![nothing; self.width];
        columns[first..][..batch.num_columns()].clone_from_slice(batch.columns());
        let rows = Rows { columns, count: batch.num_rows() };
        let mut found = Vec::new();
        if let Some(rows) = self.filtered(self.rest.filter.clone().as_ref(), rows)? {
            self.join(rows, &mut found)?;
        }
        self.check_memory()?;
        Ok(found)
    }

    /// Ends a scan.
    ///
    /// # Errors
    /// A key overflows, or a limit is reached.
    pub fn end(&mut self, scan: usize) -> Result<(), QueryError> {
        if let Some(held) = self.held.get_mut(self.built)
            && held.table() == scan
        {
            held.build(self.width, &mut self.work)?;
            self.built += 1;
        }
        self.check_memory()
    }

    /// Ends the query and returns groups and sorted rows.
    ///
    /// # Errors
    /// A value overflows, or a limit is reached.
    pub fn finish(&mut self) -> Result<Vec<RecordBatch>, QueryError> {
        let mut found = Vec::new();
        if let (Some(grouping), Some(groups)) = (self.rest.grouping.clone(), self.groups.take()) {
            let rows = groups.columns(&grouping)?;
            drop(groups);
            self.emit(rows, &mut found)?;
        }
        if let Some(sorter) = self.sorter.take() {
            let offset = usize::try_from(self.rest.offset).unwrap_or(usize::MAX);
            for (columns, count) in sorter.finish(offset, BATCH_ROWS, &mut self.work)? {
                found.push(self.batch(columns, count)?);
            }
        }
        self.check_memory()?;
        Ok(found)
    }

    fn check(&self, scan: usize, batch: &RecordBatch) -> Result<(), QueryError> {
        let Some((_, types)) = self.rest.inputs.get(scan) else {
            return Err(QueryError::Batch(format!("scan {scan} is out of range")));
        };
        if batch.num_columns() != types.len() {
            let (have, need) = (batch.num_columns(), types.len());
            return Err(QueryError::Batch(format!("scan {scan} has {have} columns, expected {need}")));
        }
        for (column_type, array) in types.iter().zip(batch.columns()) {
            if column_type.to_arrow() != *array.data_type() {
                let have = array.data_type();
                return Err(QueryError::Batch(format!(
                    "a column of scan {scan} is {have}, expected {column_type}"
                )));
            }
        }
        Ok(())
    }

    fn check_memory(&self) -> Result<(), QueryError> {
        let (found, max) = (self.memory_bytes() as u64, self.limits.memory_bytes as u64);
        match found > max {
            true => Err(QueryError::Limit { what: "bytes of joins, groups, sorting and result", found, max }),
            false => Ok(()),
        }
    }

    /// The rows that pass a filter, if any.
    fn filtered(&mut self, filter: Option<&Expr>, rows: Rows) -> Result<Option<Rows>, QueryError> {
        let Some(filter) = filter else { return Ok(Some(rows).filter(|rows| rows.count > 0)) };
        let chosen = passing(filter, &rows, &mut self.work)?;
        let count = chosen.count_set_bits();
        if count == 0 {
            return Ok(None);
        }
        self.chosen(rows, BooleanArray::new(chosen, None), count).map(Some)
    }

    fn chosen(&mut self, mut rows: Rows, chosen: BooleanArray, count: usize) -> Result<Rows, QueryError> {
        if count == rows.count {
            return Ok(rows);
        }
        let all = rows.count;
        for column in rows.columns.iter_mut().filter(|column| column.len() == all) {
            *column = arrow_select::filter::filter(column, &chosen)?;
            self.work.add_rows(Operator::Gather, count);
        }
        rows.count = count;
        Ok(rows)
    }

    /// Joins rows with all build tables, in bounded steps and without recursion.
    fn join(&mut self, rows: Rows, found: &mut Vec<RecordBatch>) -> Result<(), QueryError> {
        if self.held.is_empty() {
            return self.collect(rows, found);
        }
        // One entry for each join level: its probe rows and their remaining matches.
        let pairs = self.held[0].begin(&rows, &mut self.work)?;
        let mut open: Vec<(Rows, Pairs)> = vec![(rows, pairs)];
        while let Some(stage) = open.len().checked_sub(1) {
            let (rows, pairs) = &mut open[stage];
            let Some(joined) = self.held[stage].next(rows, pairs, &mut self.work)? else {
                open.pop();
                continue;
            };
            self.joined_rows += joined.count as u64;
            if self.joined_rows > self.limits.joined_rows {
                let (found, max) = (self.joined_rows, self.limits.joined_rows);
                return Err(QueryError::Limit { what: "rows of joins", found, max });
            }
            let filter = self.held[stage].stage().filter.clone();
            let Some(joined) = self.filtered(filter.as_ref(), joined)? else { continue };
            match self.held.get(stage + 1) {
                Some(next) => {
                    let pairs = next.begin(&joined, &mut self.work)?;
                    open.push((joined, pairs));
                }
                None => self.collect(joined, found)?,
            }
            if self.is_done() {
                break;
            }
        }
        Ok(())
    }

    /// Takes joined rows: into groups, the sorter, or the result.
    fn collect(&mut self, rows: Rows, found: &mut Vec<RecordBatch>) -> Result<(), QueryError> {
        let Some(grouping) = self.rest.grouping.clone() else { return self.emit(rows, found) };
        let rows = self.flagged(&grouping, rows)?;
        if let Some(groups) = &mut self.groups {
            groups.add(&grouping, &rows, &mut self.work)?;
        }
        self.check_memory()
    }

    /// Adds a flag column for each DISTINCT aggregate, set at the first occurrence of a value in its group.
    fn flagged(&mut self, grouping: &Grouping, mut rows: Rows) -> Result<Rows, QueryError> {
        if self.flags.is_empty() {
            return Ok(rows);
        }
        let mut keys = Vec::new();
        for key in &grouping.keys {
            let array = evaluate(key, &rows, &mut self.work)?.into_array(key.column_type, rows.count)?;
            keys.push((array, KeyColumn::plain(key.column_type)));
        }
        for (table, argument) in self.flags.iter_mut().zip(&self.rest.distinct) {
            let array =
                evaluate(argument, &rows, &mut self.work)?.into_array(argument.column_type, rows.count)?;
            let own = (array, KeyColumn::plain(argument.column_type));
            let mut flags = Vec::with_capacity(rows.count);
            for row in 0..rows.count {
                self.scratch.clear();
                for (array, key) in keys.iter().chain([&own]) {
                    key.encode(array, row, &mut self.scratch);
                }
                flags.push(table.insert_new(&self.scratch));
            }
            self.work.add_rows(Operator::GroupProbe, rows.count);
            rows.columns.push(Arc::new(BooleanArray::from(flags)));
        }
        Ok(rows)
    }

    /// Evaluates the outputs over rows or groups.
    fn emit(&mut self, rows: Rows, found: &mut Vec<RecordBatch>) -> Result<(), QueryError> {
        let Some(rows) = self.filtered(self.rest.having.clone().as_ref(), rows)? else { return Ok(()) };
        let mut rows = rows;
        // Rows beyond LIMIT are not evaluated, so they cannot fail.
        if self.sorter.is_none() && !self.rest.is_distinct {
            let few = self.to_skip.saturating_add(self.to_give).min(rows.count as u64) as usize;
            rows.columns.iter_mut().filter(|column| column.len() > few).for_each(|column| {
                *column = column.slice(0, few);
            });
            rows.count = few;
        }
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(self.rest.outputs.len());
        for output in &self.rest.outputs {
            let vector = evaluate(&output.expr, &rows, &mut self.work)?;
            columns.push(vector.into_array(output.expr.column_type, rows.count)?);
        }
        let mut rows = Rows { columns, count: rows.count };
        if self.rest.is_distinct {
            rows = self.different(rows)?;
        }
        if let Some(sorter) = &mut self.sorter {
            sorter.add(rows.columns, rows.count, &mut self.work)?;
            return self.check_memory();
        }
        let skipped = self.to_skip.min(rows.count as u64) as usize;
        self.to_skip -= skipped as u64;
        let given = self.to_give.min((rows.count - skipped) as u64) as usize;
        self.to_give -= given as u64;
        if given == 0 {
            return Ok(());
        }
        let columns = rows.columns.iter().map(|column| column.slice(skipped, given)).collect();
        found.push(self.batch(columns, given)?);
        self.check_memory()
    }

    /// The rows that have not occurred before.
    fn different(&mut self, rows: Rows) -> Result<Rows, QueryError> {
        let mut chosen = Vec::with_capacity(rows.count);
        for row in 0..rows.count {
            self.scratch.clear();
            for (array, output) in rows.columns.iter().zip(&self.rest.outputs) {
                KeyColumn::plain(output.expr.column_type).encode(array, row, &mut self.scratch);
            }
            chosen.push(self.different.insert_new(&self.scratch));
        }
        self.work.add_rows(Operator::GroupProbe, rows.count);
        let chosen = BooleanArray::from(chosen);
        let count = chosen.true_count();
        self.chosen(rows, chosen, count)
    }

    fn batch(&mut self, mut columns: Vec<ArrayRef>, count: usize) -> Result<RecordBatch, QueryError> {
        columns.truncate(self.rest.shown);
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        let batch = RecordBatch::try_new_with_options(self.output.clone(), columns, &options)?;
        self.work.rows_out += count as u64;
        let bytes: usize = batch.columns().iter().map(bytes_of).sum();
        self.work.bytes_out += bytes as u64;
        self.result_bytes += bytes;
        Ok(batch)
    }
}
