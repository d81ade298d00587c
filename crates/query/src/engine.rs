//! Query execution: takes rows, returns result rows.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow_schema::{Field, SchemaRef};

use crate::aggregate::{Groups, result_order};
use crate::error::QueryError;
use crate::eval::{self, Rows};
use crate::expr::{Expr, ExprKind, Query};
use crate::group::GroupMeta;
use crate::prune;
use crate::schema::Schema;
use crate::value::Value;
use crate::values;
use crate::work::{Operator, Work};

pub use crate::aggregate::{GROUPS_MAX, STATE_BYTES_MAX};

/// Upper limit of a result batch in bytes. A column can be output a thousand times while it shares one array until encoding.
pub const BATCH_BYTES_MAX: u64 = 1 << 30;

/// A running query.
#[derive(Debug)]
pub struct Execution {
    /// The query, with column indexes rewritten to those of the pushed batches.
    query: Query,
    /// The filter with the table's column indexes, for zone maps.
    filter: Option<Expr>,
    columns: Vec<usize>,
    input: SchemaRef,
    output: SchemaRef,
    groups: Option<Groups>,
    rows_left: u64,
    work: Work,
}

impl Execution {
    /// Starts a query on a table of this schema.
    ///
    /// # Errors
    /// The query uses a column that the schema does not have.
    pub fn new(query: Query, schema: &Schema) -> Result<Self, QueryError> {
        let mut used = vec![false; schema.columns().len()];
        let mut wrong = None;
        over_table(&query, |expr| {
            expr.visit_columns(&mut |index| match used.get_mut(index) {
                Some(used) => *used = true,
                None => wrong = Some(index),
            });
        });
        if let Some(index) = wrong {
            let problem =
                format!("column {index} is out of range: the schema has {}", schema.columns().len());
            return Err(QueryError::Batch(problem));
        }
        let columns: Vec<usize> = (0..used.len()).filter(|&index| used[index]).collect();
        let filter = query.filter.clone();
        let mut query = query;
        let mut clash = None;
        over_table_mut(&mut query, &mut |index, column_type| {
            let known = schema.columns()[*index].column_type;
            if known != column_type {
                clash = Some(QueryError::Batch(format!("column {index} is {known}, not {column_type}")));
            }
            *index = columns
                .binary_search(index)
                .unwrap_or_else(|_| unreachable!("the list contains every column used"));
        });
        if let Some(clash) = clash {
            return Err(clash);
        }
        let fields = query
            .outputs
            .iter()
            .map(|output| Field::new(&output.name, output.expr.column_type.to_arrow(), output.nullable));
        Ok(Self {
            filter,
            input: schema.project(columns.iter().copied()),
            output: Arc::new(arrow_schema::Schema::new(fields.collect::<Vec<_>>())),
            columns,
            groups: query.grouping.as_ref().map(Groups::new),
            rows_left: query.limit.unwrap_or(u64::MAX),
            query,
            work: Work::default(),
        })
    }

    /// Indexes of the table's columns that the query reads, ascending: [`push`](Self::push) takes batches of these, in this order. Empty
    /// for `SELECT COUNT(*)` without a filter, whose batches have rows and no columns.
    pub fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// Whether a row group may contribute to the result, by its zone maps. If `false`, its columns need not be read.
    pub fn may_match(&self, meta: &GroupMeta) -> bool {
        self.filter.as_ref().is_none_or(|filter| prune::may_match(filter, meta))
    }

    /// Schema of the result's batches.
    pub fn result_schema(&self) -> SchemaRef {
        self.output.clone()
    }

    /// Takes rows in the table's order and returns the result rows that are ready. A query with groups returns them in
    /// [`finish`](Self::finish).
    ///
    /// # Errors
    /// A batch that does not match [`columns`](Self::columns), an overflow, or too many groups.
    pub fn push(&mut self, batch: &RecordBatch) -> Result<Option<RecordBatch>, QueryError> {
        self.check(batch)?;
        let rows = Rows::of(batch);
        self.work.rows_in += rows.count as u64;
        if self.is_done() || rows.count == 0 {
            return Ok(None);
        }
        let rows = match &self.query.filter {
            None => rows,
            Some(filter) => {
                let passing = eval::passing(filter, &rows, &mut self.work)?;
                self.keep(&rows, passing)?
            }
        };
        if rows.count == 0 {
            return Ok(None);
        }
        if let (Some(grouping), Some(groups)) = (&self.query.grouping, &mut self.groups) {
            groups.add(grouping, &rows, &mut self.work)?;
            return Ok(None);
        }
        self.emit(&rows, rows.count)
    }

    /// Whether LIMIT is reached, so that further rows cannot change the result.
    pub fn is_done(&self) -> bool {
        self.groups.is_none() && self.rows_left == 0
    }

    /// Ends the query and returns the groups, if it has any.
    ///
    /// # Errors
    /// An overflow.
    pub fn finish(&mut self) -> Result<Option<RecordBatch>, QueryError> {
        let (Some(grouping), Some(groups)) = (&self.query.grouping, self.groups.take()) else {
            return Ok(None);
        };
        let mut rows = groups.columns(grouping)?;
        drop(groups);
        if let Some(having) = &grouping.having {
            let passing = BooleanArray::new(eval::passing(having, &rows, &mut self.work)?, None);
            for column in &mut rows.columns {
                *column = arrow_select::filter::filter(column, &passing)?;
            }
            rows.count = passing.true_count();
        }
        let count = rows.count;
        self.emit(&rows, count)
    }

    /// Work so far, without the decoding of chunks, which [`group::decode`](crate::group::decode) counts.
    pub fn work(&self) -> &Work {
        &self.work
    }

    /// Memory held between batches, in bytes: groups and their keys.
    pub fn memory_bytes(&self) -> usize {
        self.groups.as_ref().map_or(0, Groups::memory_bytes)
    }

    fn check(&self, batch: &RecordBatch) -> Result<(), QueryError> {
        if batch.num_columns() != self.columns.len() {
            let (have, need) = (batch.num_columns(), self.columns.len());
            return Err(QueryError::Batch(format!("{have} columns, not {need}")));
        }
        for (field, array) in self.input.fields().iter().zip(batch.columns()) {
            if field.data_type() != array.data_type() {
                let (name, want, have) = (field.name(), field.data_type(), array.data_type());
                return Err(QueryError::Batch(format!("column {name:?} is {have}, not {want}")));
            }
        }
        Ok(())
    }

    /// The rows that pass the filter, of the columns that are still needed.
    fn keep(&mut self, rows: &Rows, passing: arrow_buffer::BooleanBuffer) -> Result<Rows, QueryError> {
        let count = passing.count_set_bits();
        if count == rows.count || count == 0 {
            return Ok(Rows { columns: rows.columns.clone(), count });
        }
        let mut needed = vec![false; rows.columns.len()];
        over_outputs(&self.query, |expr| expr.visit_columns(&mut |index| needed[index] = true));
        let passing = BooleanArray::new(passing, None);
        let mut filter = arrow_select::filter::FilterBuilder::new(&passing);
        if needed.iter().filter(|needed| **needed).count() > 1 {
            filter = filter.optimize();
        }
        let filter = filter.build();
        let mut columns = rows.columns.clone();
        for (column, _) in columns.iter_mut().zip(needed).filter(|(_, needed)| *needed) {
            *column = filter.filter(column)?;
            self.work.add_rows(Operator::Gather, count);
        }
        Ok(Rows { columns, count })
    }

    /// Evaluates the outputs over rows or groups, sorts them and applies the limit.
    fn emit(&mut self, rows: &Rows, count: usize) -> Result<Option<RecordBatch>, QueryError> {
        // Rows beyond the limit are not evaluated, so they cannot fail; with ORDER BY all are needed first.
        let limit = usize::try_from(self.rows_left).unwrap_or(usize::MAX);
        let early = if self.query.order_by.is_empty() { count.min(limit) } else { count };
        let few =
            Rows { columns: rows.columns.iter().map(|column| slice(column, early)).collect(), count: early };
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(self.query.outputs.len());
        for output in &self.query.outputs {
            let vector = eval::evaluate(&output.expr, &few, &mut self.work)?;
            columns.push(vector.into_array(output.expr.column_type, early)?);
        }
        if !self.query.order_by.is_empty() {
            let places = self.sorted(&columns, early, limit);
            for column in &mut columns {
                *column = eval::gather(column, &places)?;
            }
        }
        let options = RecordBatchOptions::new().with_row_count(Some(early.min(limit)));
        let batch = RecordBatch::try_new_with_options(self.output.clone(), columns, &options)?;
        self.rows_left -= batch.num_rows() as u64;
        self.work.rows_out += batch.num_rows() as u64;
        let bytes = |column: &ArrayRef| column.to_data().get_slice_memory_size().unwrap_or(0) as u64;
        let bytes = batch.columns().iter().map(bytes).sum::<u64>();
        if bytes > BATCH_BYTES_MAX {
            let (found, max) = (bytes, BATCH_BYTES_MAX);
            return Err(QueryError::Limit { what: "bytes of a batch of the result", found, max });
        }
        self.work.bytes_out += bytes;
        Ok(Some(batch).filter(|batch| batch.num_rows() > 0))
    }

    /// Row indexes in sorted order. The sort is stable.
    fn sorted(&mut self, columns: &[ArrayRef], count: usize, limit: usize) -> Vec<usize> {
        let by: Vec<(Vec<Value>, bool, bool)> = self
            .query
            .order_by
            .iter()
            .map(|order| {
                let column_type = self.query.outputs[order.output].expr.column_type;
                let column = &columns[order.output];
                let found = (0..count).map(|row| values::at(column, column_type, row)).collect();
                (found, order.descending, order.nulls_first)
            })
            .collect();
        let mut compared = 0;
        let mut places: Vec<usize> = (0..count).collect();
        places.sort_by(|&a, &b| {
            compared += 1;
            by.iter().fold(std::cmp::Ordering::Equal, |order, (found, descending, nulls_first)| {
                order.then_with(|| result_order(&found[a], &found[b], *descending, *nulls_first))
            })
        });
        self.work.add_rows(Operator::Sort, compared);
        places.truncate(limit);
        places
    }
}

fn slice(column: &ArrayRef, rows: usize) -> ArrayRef {
    if column.len() > rows { column.slice(0, rows) } else { column.clone() }
}

/// Visits the expressions over the rows that passed the filter.
fn over_outputs(query: &Query, mut visit: impl FnMut(&Expr)) {
    match &query.grouping {
        None => query.outputs.iter().for_each(|output| visit(&output.expr)),
        Some(grouping) => {
            grouping.keys.iter().for_each(&mut visit);
            grouping.aggregates.iter().filter_map(|aggregate| aggregate.argument.as_ref()).for_each(visit);
        }
    }
}

/// Visits the expressions over the table's columns.
fn over_table(query: &Query, mut visit: impl FnMut(&Expr)) {
    query.filter.iter().for_each(&mut visit);
    over_outputs(query, visit);
}

fn over_table_mut(query: &mut Query, visit: &mut impl FnMut(&mut usize, crate::schema::ColumnType)) {
    query.filter.iter_mut().for_each(|filter| columns_mut(filter, visit));
    match &mut query.grouping {
        None => query.outputs.iter_mut().for_each(|output| columns_mut(&mut output.expr, visit)),
        Some(grouping) => {
            grouping.keys.iter_mut().for_each(|key| columns_mut(key, visit));
            let arguments =
                grouping.aggregates.iter_mut().filter_map(|aggregate| aggregate.argument.as_mut());
            arguments.for_each(|argument| columns_mut(argument, visit));
        }
    }
}

/// Calls `visit` with index and type of each column that an expression uses.
pub(crate) fn columns_mut(expr: &mut Expr, visit: &mut impl FnMut(&mut usize, crate::schema::ColumnType)) {
    let column_type = expr.column_type;
    match &mut expr.kind {
        ExprKind::Column(index) => visit(index, column_type),
        ExprKind::Constant(_) => {}
        ExprKind::Compare(_, sides) | ExprKind::Arithmetic(_, sides) => {
            sides.iter_mut().for_each(|side| columns_mut(side, visit));
        }
        ExprKind::And(terms) | ExprKind::Or(terms) => {
            terms.iter_mut().for_each(|term| columns_mut(term, visit));
        }
        ExprKind::Not(inner)
        | ExprKind::Negate(inner)
        | ExprKind::Like(inner, _)
        | ExprKind::IsNull(inner)
        | ExprKind::Cast(inner)
        | ExprKind::InList { value: inner, .. } => columns_mut(inner, visit),
        ExprKind::Case { arms, otherwise } => {
            for (when, then) in arms {
                columns_mut(when, visit);
                columns_mut(then, visit);
            }
            columns_mut(otherwise, visit);
        }
    }
}
