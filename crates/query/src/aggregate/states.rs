//! Running states of an aggregate, one for each group.
//!
//! A batch with at least as many rows as there are groups is summed separately first, into arrays with several entries (lanes) for each
//! group: the loop over rows then has no check that can fail, and consecutive rows of one group do not wait for each other's addition.

use std::cmp::Ordering;

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef};
use arrow_buffer::NullBuffer;

use super::average::average;
use crate::error::QueryError;
use crate::expr::Aggregate;
use crate::schema::ColumnType;
use crate::statement::AggregateFunction;
use crate::value::Value;
use crate::values::{self, Native, with_primitive};

/// Lanes for each group while a batch is summed.
const LANES: usize = 4;
/// Upper limit of the groups that get several lanes. With more, the lanes would not fit into the L1 cache.
const LANES_GROUPS_MAX: usize = 256;
/// Upper limits of rows and of decimal digits for which a batch's sum cannot overflow 128 bits: 2^20 x 10^31 < 2^127.
const EXACT_ROWS: usize = 1 << 20;
const EXACT_DIGITS: u8 = 31;

/// Scratch space that all aggregates of a query share while they add a batch.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Rows of each group, counted on first use.
    rows: Vec<u64>,
    is_counted: bool,
    sums: Vec<i128>,
}

impl Tally {
    /// Starts the next batch.
    pub fn begin(&mut self) {
        self.is_counted = false;
    }

    /// Number of rows of each group in the batch.
    fn rows(&mut self, numbers: &[u32], groups: usize) -> &[u64] {
        if !std::mem::replace(&mut self.is_counted, true) {
            self.rows.clear();
            self.rows.resize(groups * LANES, 0);
            let (blocks, rest) = numbers.as_chunks::<LANES>();
            for block in blocks {
                for (lane, &number) in block.iter().enumerate() {
                    self.rows[number as usize * LANES + lane] += 1;
                }
            }
            rest.iter().for_each(|&number| self.rows[number as usize * LANES] += 1);
            for group in 0..groups {
                self.rows[group] = self.rows[group * LANES..][..LANES].iter().sum();
            }
            self.rows.truncate(groups);
        }
        &self.rows
    }
}

/// Adds values into lanes of their groups; each row takes the next lane.
fn add_up<T: Copy>(
    values: &[T],
    valid: Option<&NullBuffer>,
    numbers: &[u32],
    (sums, groups): (&mut Vec<i128>, usize),
    wide: impl Fn(T) -> i128,
) {
    let lanes = if groups <= LANES_GROUPS_MAX { LANES } else { 1 };
    sums.clear();
    sums.resize(groups * lanes, 0);
    let mut add = |number: u32, lane: usize, value: T| {
        let sum = &mut sums[number as usize * lanes + lane];
        *sum = sum.wrapping_add(wide(value));
    };
    match valid {
        None if lanes == LANES => {
            let (values, values_rest) = values.as_chunks::<LANES>();
            let (numbers, numbers_rest) = numbers.as_chunks::<LANES>();
            for (values, numbers) in values.iter().zip(numbers) {
                (0..LANES).for_each(|lane| add(numbers[lane], lane, values[lane]));
            }
            values_rest.iter().zip(numbers_rest).for_each(|(&value, &number)| add(number, 0, value));
        }
        None => values.iter().zip(numbers).for_each(|(&value, &number)| add(number, 0, value)),
        Some(valid) => {
            valid.valid_indices().for_each(|row| add(numbers[row], row % lanes, values[row]));
        }
    }
    if lanes > 1 {
        for group in 0..groups {
            let lanes = &sums[group * LANES..][..LANES];
            sums[group] = lanes.iter().fold(0, |sum: i128, lane| sum.wrapping_add(*lane));
        }
        sums.truncate(groups);
    }
}

/// State of one aggregate for each group.
#[derive(Debug)]
pub(super) struct States {
    function: AggregateFunction,
    /// Number of non-null values so far; for COUNT(*), of rows.
    counts: Vec<u64>,
    sums: Vec<i128>,
    float_sums: Vec<f64>,
    bests: Vec<Value>,
    float: bool,
    text_bytes: usize,
}

impl States {
    pub fn new(aggregate: &Aggregate) -> Self {
        let argument = aggregate.argument.as_ref().map(|argument| argument.column_type);
        Self {
            function: aggregate.function,
            counts: Vec::new(),
            sums: Vec::new(),
            float_sums: Vec::new(),
            bests: Vec::new(),
            float: matches!(argument, Some(ColumnType::Float32 | ColumnType::Float64)),
            text_bytes: 0,
        }
    }

    pub fn memory_bytes(&self) -> usize {
        self.counts.capacity() * 8
            + self.sums.capacity() * 16
            + self.float_sums.capacity() * 8
            + self.bests.capacity() * size_of::<Value>()
            + self.text_bytes
    }

    /// Bytes of strings that MIN or MAX keeps.
    pub fn text_bytes(&self) -> usize {
        self.text_bytes
    }

    pub fn resize(&mut self, groups: usize) {
        self.counts.resize(groups, 0);
        match self.function {
            AggregateFunction::CountRows | AggregateFunction::Count => {}
            AggregateFunction::Sum | AggregateFunction::Avg if self.float => {
                self.float_sums.resize(groups, 0.0)
            }
            AggregateFunction::Sum | AggregateFunction::Avg => self.sums.resize(groups, 0),
            AggregateFunction::Min | AggregateFunction::Max => self.bests.resize(groups, Value::Null),
        }
    }

    /// Adds rows to COUNT(*).
    pub fn add_rows(&mut self, rows: usize, numbers: Option<&[u32]>, tally: &mut Tally) {
        match numbers {
            None => self.counts[0] += rows as u64,
            Some(numbers) if self.is_few(rows) => self.add_counts(tally.rows(numbers, self.counts.len())),
            Some(numbers) => numbers.iter().for_each(|&group| self.counts[group as usize] += 1),
        }
    }

    /// Whether a batch of `rows` rows is summed separately: few enough groups for that.
    fn is_few(&self, rows: usize) -> bool {
        self.counts.len() <= rows
    }

    fn add_counts(&mut self, more: &[u64]) {
        self.counts.iter_mut().zip(more).for_each(|(count, more)| *count += more);
    }

    pub fn add(
        &mut self,
        column_type: ColumnType,
        array: &ArrayRef,
        numbers: Option<&[u32]>,
        tally: &mut Tally,
    ) -> Result<(), QueryError> {
        match (numbers, array.nulls().filter(|nulls| nulls.null_count() > 0)) {
            (None, _) => self.counts[0] += (array.len() - array.null_count()) as u64,
            (numbers, None) => self.add_rows(array.len(), numbers, tally),
            (Some(numbers), Some(valid)) => {
                for (&group, valid) in numbers.iter().zip(valid) {
                    self.counts[group as usize] += u64::from(valid);
                }
            }
        }
        match self.function {
            AggregateFunction::CountRows | AggregateFunction::Count => Ok(()),
            AggregateFunction::Sum | AggregateFunction::Avg if self.float => {
                self.add_float_sums(column_type, array, numbers);
                Ok(())
            }
            AggregateFunction::Sum | AggregateFunction::Avg => {
                self.add_sums(column_type, array, numbers, tally)
            }
            AggregateFunction::Min | AggregateFunction::Max => {
                self.add_bests(column_type, array, numbers);
                Ok(())
            }
        }
    }

    /// Adds in row order, because floating-point addition is not associative and results must be deterministic.
    fn add_float_sums(&mut self, column_type: ColumnType, array: &ArrayRef, numbers: Option<&[u32]>) {
        macro_rules! sum {
            ($type:ty) => {{
                let values = array.as_primitive::<$type>().values();
                let group = |row: usize| numbers.map_or(0, |numbers| numbers[row] as usize);
                match array.nulls() {
                    None => {
                        for (row, &value) in values.iter().enumerate() {
                            self.float_sums[group(row)] += value as f64;
                        }
                    }
                    Some(valid) => {
                        for row in valid.valid_indices() {
                            self.float_sums[group(row)] += values[row] as f64;
                        }
                    }
                }
            }};
        }
        match column_type {
            ColumnType::Float32 => sum!(Float32Type),
            _ => sum!(Float64Type),
        }
    }

    fn add_sums(
        &mut self,
        column_type: ColumnType,
        array: &ArrayRef,
        numbers: Option<&[u32]>,
        tally: &mut Tally,
    ) -> Result<(), QueryError> {
        let is_exact = array.len() <= EXACT_ROWS
            && match column_type {
                ColumnType::Decimal { precision, .. } => precision <= EXACT_DIGITS,
                other => other != ColumnType::HugeInt,
            };
        let overflow = || QueryError::Overflow { operation: "sum", column_type: ColumnType::HugeInt };
        let (valid, is_few) = (array.nulls(), self.is_few(array.len()));
        let sums = &mut self.sums;
        macro_rules! sum {
            ($type:ty) => {{
                let values = array.as_primitive::<$type>().values();
                match (numbers, valid) {
                    (None, None) if is_exact => {
                        let sum = values.iter().fold(0, |sum: i128, &value| sum.wrapping_add(value as i128));
                        sums[0] = sums[0].checked_add(sum).ok_or_else(overflow)?;
                    }
                    (Some(numbers), _) if is_exact && is_few => {
                        add_up(values, valid, numbers, (&mut tally.sums, sums.len()), |value| value as i128);
                        for (sum, more) in sums.iter_mut().zip(&tally.sums) {
                            *sum = sum.checked_add(*more).ok_or_else(overflow)?;
                        }
                    }
                    _ => {
                        for (row, &value) in values.iter().enumerate() {
                            if array.is_valid(row) {
                                let sum = &mut sums[numbers.map_or(0, |numbers| numbers[row] as usize)];
                                *sum = sum.checked_add(value as i128).ok_or_else(overflow)?;
                            }
                        }
                    }
                }
            }};
        }
        match column_type {
            ColumnType::Int8 => sum!(Int8Type),
            ColumnType::Int16 => sum!(Int16Type),
            ColumnType::Int32 => sum!(Int32Type),
            ColumnType::Int64 => sum!(Int64Type),
            ColumnType::UInt8 => sum!(UInt8Type),
            ColumnType::UInt16 => sum!(UInt16Type),
            ColumnType::UInt32 => sum!(UInt32Type),
            ColumnType::UInt64 => sum!(UInt64Type),
            _ => sum!(Decimal128Type),
        }
        Ok(())
    }

    fn add_bests(&mut self, column_type: ColumnType, array: &ArrayRef, numbers: Option<&[u32]>) {
        let max = self.function == AggregateFunction::Max;
        let better = |order: Ordering| if max { order.is_gt() } else { order.is_lt() };
        macro_rules! of_one_group {
            ($values:expr, $order:expr, $value:expr) => {{
                let mut best = None;
                for value in $values {
                    if best.is_none_or(|best| better($order(value, best))) {
                        best = Some(value);
                    }
                }
                if let Some(best) = best {
                    self.keep(0, $value(best), better);
                }
            }};
        }
        let Some(numbers) = numbers else {
            return with_primitive!(column_type, T => {
                let array = array.as_primitive::<T>();
                of_one_group!(array.iter().flatten(), Native::order, Native::to_value)
            }, else match column_type {
                ColumnType::Bool => of_one_group!(array.as_boolean().iter().flatten(), |a: bool, b| a.cmp(&b), Value::Bool),
                _ => of_one_group!(
                    array.as_string::<i32>().iter().flatten(),
                    |a: &str, b: &str| a.as_bytes().cmp(b.as_bytes()),
                    |text: &str| Value::Text(text.to_owned())
                ),
            });
        };
        if self.is_few(array.len()) && !matches!(column_type, ColumnType::Bool | ColumnType::Utf8) {
            return with_primitive!(column_type, T => {
                let array = array.as_primitive::<T>();
                let mut bests = vec![None; self.counts.len()];
                for (row, (&group, &value)) in numbers.iter().zip(array.values()).enumerate() {
                    let best = &mut bests[group as usize];
                    if array.is_valid(row) && best.is_none_or(|best| better(value.order(best))) {
                        *best = Some(value);
                    }
                }
                for (group, best) in bests.into_iter().enumerate() {
                    best.into_iter().for_each(|best| self.keep(group, best.to_value(), better));
                }
            }, else {});
        }
        for (row, &group) in numbers.iter().enumerate() {
            let group = group as usize;
            // Strings are compared in place and copied only when they replace the extreme.
            let keep = match (&self.bests[group], column_type) {
                (Value::Text(best), ColumnType::Utf8) if array.is_valid(row) => {
                    better(array.as_string::<i32>().value(row).as_bytes().cmp(best.as_bytes()))
                }
                _ => array.is_valid(row),
            };
            if keep {
                self.keep(group, values::at(array, column_type, row), better);
            }
        }
    }

    fn keep(&mut self, group: usize, value: Value, better: impl Fn(Ordering) -> bool) {
        let best = &mut self.bests[group];
        if best.is_null() || better(value.order(best)) {
            let text = |value: &Value| match value {
                Value::Text(text) => text.len(),
                _ => 0,
            };
            self.text_bytes = self.text_bytes + text(&value) - text(best);
            *best = value;
        }
    }

    pub fn results(&self, aggregate: &Aggregate) -> Vec<Value> {
        let scale = match aggregate.argument.as_ref().map(|argument| argument.column_type) {
            Some(ColumnType::Decimal { scale, .. }) => u32::from(scale),
            _ => 0,
        };
        let result = |group: usize| {
            let count = self.counts[group];
            match self.function {
                AggregateFunction::CountRows | AggregateFunction::Count => Value::Integer(count.into()),
                _ if count == 0 => Value::Null,
                AggregateFunction::Sum if self.float => Value::Float(self.float_sums[group]),
                AggregateFunction::Sum => Value::Integer(self.sums[group]),
                AggregateFunction::Avg if self.float => Value::Float(self.float_sums[group] / count as f64),
                AggregateFunction::Avg => Value::Float(average(self.sums[group], count, scale)),
                AggregateFunction::Min | AggregateFunction::Max => self.bests[group].clone(),
            }
        };
        (0..self.counts.len()).map(result).collect()
    }
}
