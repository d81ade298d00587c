//! GROUP BY: the groups of a query in order of first appearance, with the states of their aggregates.
//!
//! | file | what |
//! |---|---|
//! | `keys`, `numbers` | maps each row to its group |
//! | `states` | running sums, counts and extremes of the groups |
//! | `average` | division of a sum by a count, rounded as in DuckDB |

mod average;
mod keys;
mod numbers;
mod states;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};

use crate::error::QueryError;
use crate::eval::vector::Vector;
use crate::eval::{Rows, evaluate};
use crate::expr::Grouping;
use crate::schema::ColumnType;
use crate::value::{Value, float_order};
use crate::values;
use crate::work::{Operator, Work};
use keys::Keys;
use states::{States, Tally};

/// Upper limit of the groups of a query on a drive.
pub const GROUPS_MAX: usize = 65_536;
/// Upper limit in bytes of the keys, and of the strings that MIN and MAX keep.
pub const STATE_BYTES_MAX: usize = 64 << 20;

/// The groups of a running query.
#[derive(Debug)]
pub struct Groups {
    /// Maps keys to groups. It is never iterated: groups are iterated by number, which is deterministic.
    found: Keys,
    keys: Vec<Vec<Value>>,
    states: Vec<States>,
    count: usize,
    key_bytes: usize,
    /// Group number of each row of the current batch.
    numbers: Vec<u32>,
    tally: Tally,
    groups_max: usize,
    bytes_max: usize,
}

impl Groups {
    pub fn new(grouping: &Grouping) -> Self {
        Self::limited(grouping, GROUPS_MAX, STATE_BYTES_MAX)
    }

    /// No groups yet. At most `groups_max` groups and `bytes_max` bytes of keys and strings are accepted.
    pub fn limited(grouping: &Grouping, groups_max: usize, bytes_max: usize) -> Self {
        let mut groups = Self {
            found: Keys::new(grouping.keys.iter().map(|key| key.column_type), groups_max),
            keys: vec![Vec::new(); grouping.keys.len()],
            states: grouping.aggregates.iter().map(States::new).collect(),
            count: 0,
            key_bytes: 0,
            numbers: Vec::new(),
            tally: Tally::default(),
            groups_max,
            bytes_max,
        };
        if grouping.keys.is_empty() {
            // Without GROUP BY all rows form one group, which exists even if there are no rows.
            groups.count = 1;
            groups.states.iter_mut().for_each(|states| states.resize(1));
        }
        groups
    }

    /// Memory in use, in bytes, approximately.
    pub fn memory_bytes(&self) -> usize {
        let values = self.keys.len() * self.count * size_of::<Value>();
        let states: usize = self.states.iter().map(States::memory_bytes).sum();
        values + self.key_bytes + states + self.found.memory_bytes()
    }

    /// Adds rows that have passed the filter.
    pub fn add(&mut self, grouping: &Grouping, rows: &Rows, work: &mut Work) -> Result<(), QueryError> {
        if !grouping.keys.is_empty() {
            self.assign(grouping, rows, work)?;
        }
        let numbers = (!grouping.keys.is_empty()).then_some(&self.numbers[..]);
        self.tally.begin();
        for (aggregate, states) in grouping.aggregates.iter().zip(&mut self.states) {
            states.resize(self.count);
            work.add_rows(Operator::Aggregate, rows.count);
            match &aggregate.argument {
                None => states.add_rows(rows.count, numbers, &mut self.tally),
                Some(argument) => {
                    let array =
                        evaluate(argument, rows, work)?.into_array(argument.column_type, rows.count)?;
                    states.add(argument.column_type, &array, numbers, &mut self.tally)?;
                }
            }
        }
        let bytes = self.key_bytes + self.states.iter().map(States::text_bytes).sum::<usize>();
        self.check_bytes(bytes)
    }

    /// Determines the group of each row.
    fn assign(&mut self, grouping: &Grouping, rows: &Rows, work: &mut Work) -> Result<(), QueryError> {
        let mut arrays = Vec::with_capacity(grouping.keys.len());
        for key in &grouping.keys {
            let vector: Vector = evaluate(key, rows, work)?;
            arrays.push(vector.into_array(key.column_type, rows.count)?);
            work.add_rows(Operator::GroupProbe, rows.count);
        }
        self.found.assign(&arrays, &mut self.numbers).map_err(|keys::TooManyGroups| {
            let (found, max) = (self.groups_max as u64 + 1, self.groups_max as u64);
            QueryError::Limit { what: "groups", found, max }
        })?;
        // Numbers are assigned in row order, so a new number first occurs at the first row of its group.
        let count = self.found.count();
        let mut rows = self.numbers.iter().enumerate();
        while self.count < count {
            let Some((row, _)) = rows.find(|(_, number)| **number as usize == self.count) else { break };
            for ((array, key), keys) in arrays.iter().zip(&grouping.keys).zip(&mut self.keys) {
                self.key_bytes += key_bytes(array, key.column_type, row);
                keys.push(values::at(array, key.column_type, row));
            }
            self.count += 1;
            self.check_bytes(self.key_bytes)?;
        }
        Ok(())
    }

    fn check_bytes(&self, bytes: usize) -> Result<(), QueryError> {
        match bytes > self.bytes_max {
            true => Err(QueryError::Limit {
                what: "bytes of groups",
                found: bytes as u64,
                max: self.bytes_max as u64,
            }),
            false => Ok(()),
        }
    }

    /// The result as columns: keys, then aggregates, a row for each group.
    pub fn columns(&self, grouping: &Grouping) -> Result<Rows, QueryError> {
        let keys = grouping.keys.iter().zip(&self.keys);
        let mut columns: Vec<ArrayRef> =
            keys.map(|(key, found)| values::array(found.iter(), key.column_type)).collect();
        for (aggregate, states) in grouping.aggregates.iter().zip(&self.states) {
            columns.push(values::array(states.results(aggregate).iter(), aggregate.column_type));
        }
        Ok(Rows { columns, count: self.count })
    }
}

/// Bytes charged for a key: the length of a string plus a fixed cost.
fn key_bytes(array: &ArrayRef, column_type: ColumnType, row: usize) -> usize {
    let text = match column_type {
        ColumnType::Utf8 if array.is_valid(row) => array.as_string::<i32>().value(row).len(),
        _ => 0,
    };
    text + column_type.stored_bytes().unwrap_or(4) + 1
}

/// Order of two result values. `nulls_first` holds regardless of `descending`.
pub(crate) fn result_order(a: &Value, b: &Value, descending: bool, nulls_first: bool) -> std::cmp::Ordering {
    match (a.is_null(), b.is_null()) {
        (true, true) => std::cmp::Ordering::Equal,
        (true, false) if nulls_first => std::cmp::Ordering::Less,
        (true, false) => std::cmp::Ordering::Greater,
        (false, true) if nulls_first => std::cmp::Ordering::Greater,
        (false, true) => std::cmp::Ordering::Less,
        (false, false) => {
            let order = match (a, b) {
                (Value::Float(a), Value::Float(b)) => float_order(*a, *b),
                _ => a.order(b),
            };
            if descending { order.reverse() } else { order }
        }
    }
}
