//! ORDER BY: a full sort, or top-N if LIMIT is known, which holds only the rows needed.

use arrow_array::{Array, ArrayRef};
use arrow_select::interleave::interleave;

use super::join::bytes_of;
use super::key::{KeyColumn, KeyTable};
use crate::error::QueryError;
use crate::work::{Operator, Work};

/// Rows held in addition to those that LIMIT needs before the surplus is discarded.
const SPARE_ROWS: usize = 65_536;

/// Rows to be sorted.
#[derive(Debug)]
pub(super) struct Sorter {
    by: Vec<(usize, KeyColumn)>,
    /// Number of rows needed.
    most: usize,
    batches: Vec<Vec<ArrayRef>>,
    /// Batch index and position of each row.
    places: Vec<(usize, usize)>,
    keys: KeyTable,
    column_bytes: usize,
    scratch: Vec<u8>,
}

impl Sorter {
    /// Sorts by these columns; only the first `most` rows are needed.
    pub fn new(by: Vec<(usize, KeyColumn)>, most: usize) -> Self {
        Self {
            by,
            most,
            batches: Vec::new(),
            places: Vec::new(),
            keys: KeyTable::default(),
            column_bytes: 0,
            scratch: Vec::new(),
        }
    }

    pub fn memory_bytes(&self) -> usize {
        self.column_bytes + self.keys.memory_bytes() + self.places.capacity() * size_of::<(usize, usize)>()
    }

    /// Adds rows.
    pub fn add(&mut self, columns: Vec<ArrayRef>, count: usize, work: &mut Work) -> Result<(), QueryError> {
        let batch = self.batches.len();
        let mut scratch = std::mem::take(&mut self.scratch);
        for row in 0..count {
            scratch.clear();
            for (column, key) in &self.by {
                key.encode(&columns[*column], row, &mut scratch);
            }
            self.keys.append(&scratch);
            self.places.push((batch, row));
        }
        self.scratch = scratch;
        debug_assert_eq!(self.keys.len(), self.places.len(), "each row has one key and one place");
        self.column_bytes += columns.iter().map(bytes_of).sum::<usize>();
        self.batches.push(columns);
        if self.keys.len() > self.most.saturating_mul(2).saturating_add(SPARE_ROWS) {
            self.shrink(work)?;
        }
        Ok(())
    }

    /// Row indexes in sorted order. The sort is stable.
    fn order(&self, work: &mut Work) -> Vec<usize> {
        if self.most == 0 {
            return Vec::new();
        }
        let mut order: Vec<usize> = (0..self.keys.len()).collect();
        let mut compared = 0;
        let mut compare = |a: &usize, b: &usize| {
            compared += 1;
            self.keys.get(*a).cmp(self.keys.get(*b)).then(a.cmp(b))
        };
        if order.len() > self.most {
            order.select_nth_unstable_by(self.most - 1, &mut compare);
            order.truncate(self.most);
        }
        order.sort_unstable_by(compare);
        work.add_rows(Operator::Sort, compared);
        order
    }

    fn gather(&self, rows: &[usize], work: &mut Work) -> Result<Vec<ArrayRef>, QueryError> {
        let places: Vec<(usize, usize)> = rows.iter().map(|&row| self.places[row]).collect();
        let width = self.batches.first().map_or(0, Vec::len);
        let column = |column: usize| {
            let arrays: Vec<&dyn Array> = self.batches.iter().map(|batch| &*batch[column] as _).collect();
            work.add_rows(Operator::Gather, places.len());
            Ok(interleave(&arrays, &places)?)
        };
        (0..width).map(column).collect()
    }

    /// Discards rows that are not among the first `most`.
    fn shrink(&mut self, work: &mut Work) -> Result<(), QueryError> {
        let order = self.order(work);
        let columns = self.gather(&order, work)?;
        (self.batches, self.places, self.column_bytes) = (Vec::new(), Vec::new(), 0);
        self.keys.clear();
        // In sorted order, so that equal rows keep their order. So few rows do not shrink again.
        debug_assert!(order.len() <= self.most);
        self.add(columns, order.len(), work)
    }

    /// Ends the sort and returns the rows in order, without the first `offset`, in batches of at most `batch_rows`.
    pub fn finish(
        self,
        offset: usize,
        batch_rows: usize,
        work: &mut Work,
    ) -> Result<Vec<(Vec<ArrayRef>, usize)>, QueryError> {
        let order = self.order(work);
        let mut found = Vec::new();
        for rows in order.get(offset..).unwrap_or_default().chunks(batch_rows) {
            found.push((self.gather(rows, work)?, rows.len()));
        }
        Ok(found)
    }
}
