//! Predicates and aggregates with constants sampled from a table's values, for tables of any schema.

use std::collections::BTreeMap;

use arrow_array::RecordBatch;
use byteway_clock::random::Stream;
use byteway_query::statement::{Arithmetic, ColumnName, Comparison, Literal, Term};
use byteway_query::{ColumnType, Schema, Value, values};

use crate::oracle::Oracle;
use crate::predicates::shrunk;
use crate::table::Table;
use crate::{Outcome, compare};

/// Up to this number of rows results are compared row by row, above it by sums and extremes.
const ROWS_MAX: u64 = 2_000;
/// Upper limit of distinct values of a column used in GROUP BY, estimated from a sample.
const GROUPS_MAX: usize = 50;

struct Sampled<'a> {
    schema: &'a Schema,
    rows: &'a RecordBatch,
    random: Stream,
}

impl Sampled<'_> {
    fn below(&mut self, n: usize) -> usize {
        self.random.below(n.max(1) as u64) as usize
    }

    fn column_type(&self, column: usize) -> ColumnType {
        self.schema.columns()[column].column_type
    }

    fn is_number(&self, column: usize) -> bool {
        let other = [ColumnType::Bool, ColumnType::Date, ColumnType::Timestamp, ColumnType::Utf8];
        !other.contains(&self.column_type(column))
    }

    fn column(&self, column: usize) -> Term {
        Term::Column(ColumnName::Name(self.schema.columns()[column].name.clone()))
    }

    /// A column's value in a random row.
    fn constant(&mut self, column: usize) -> Term {
        let row = self.below(self.rows.num_rows());
        let column_type = self.column_type(column);
        Term::Literal(match (values::at(self.rows.column(column), column_type, row), column_type) {
            (Value::Null, _) => Literal::Null,
            (Value::Bool(value), _) => Literal::Bool(value),
            (Value::Integer(value), ColumnType::Date) => Literal::Date(value as i32),
            (Value::Integer(value), ColumnType::Timestamp) => Literal::Timestamp(value as i64),
            (Value::Integer(unscaled), ColumnType::Decimal { precision, scale }) => {
                Literal::Decimal { unscaled, precision, scale }
            }
            (Value::Integer(value), _) => Literal::Integer(value),
            (Value::Float(value), _) if value.is_finite() => Literal::Double(value),
            (Value::Float(_), _) => Literal::Double(0.5),
            (Value::Text(text), _) => Literal::Text(text),
        })
    }

    /// A number, or arithmetic on numbers.
    fn value(&mut self) -> Term {
        let numbers: Vec<usize> =
            (0..self.schema.columns().len()).filter(|column| self.is_number(*column)).collect();
        let number = numbers[self.below(numbers.len())];
        let column = self.column(number);
        if self.random.chance(0.5) {
            return column;
        }
        let operation = [Arithmetic::Add, Arithmetic::Subtract, Arithmetic::Multiply][self.below(3)];
        let other = match self.below(3) {
            0 => Term::Literal(Literal::Integer(1 + self.below(9) as i128)),
            1 => self.constant(number),
            _ => {
                let other = numbers[self.below(numbers.len())];
                self.column(other)
            }
        };
        Term::Arithmetic(operation, Box::new([column, other]))
    }

    fn simple(&mut self) -> Term {
        let index = self.below(self.schema.columns().len());
        let column = self.column(index);
        let comparison = Comparison::ALL[self.below(6)];
        match self.below(8) {
            0 => Term::Between(Box::new([column, self.constant(index), self.constant(index)])),
            1 => {
                let count = 1 + self.below(20);
                Term::InList(Box::new(column), (0..count).map(|_| self.constant(index)).collect())
            }
            2 | 3 if self.column_type(index) == ColumnType::Utf8 => {
                Term::Like { text: Box::new(column), pattern: self.pattern(index), escape: None }
            }
            4 => {
                let like: Vec<usize> = (0..self.schema.columns().len())
                    .filter(|other| self.column_type(*other) == self.column_type(index))
                    .collect();
                let other = like[self.below(like.len())];
                Term::Compare(comparison, Box::new([column, self.column(other)]))
            }
            5 if self.is_number(index) => {
                let value = self.value();
                Term::Compare(comparison, Box::new([value, self.constant(index)]))
            }
            6 => Term::IsNull(Box::new(column)),
            _ => Term::Compare(comparison, Box::new([column, self.constant(index)])),
        }
    }

    /// A substring of a column's value, with % and _ inserted.
    fn pattern(&mut self, column: usize) -> String {
        let Term::Literal(Literal::Text(text)) = self.constant(column) else { return "%".to_owned() };
        let chars: Vec<char> = text.chars().collect();
        let begin = self.below(chars.len());
        let end = begin + self.below(chars.len() - begin + 1).min(12);
        let mut pattern = String::from(["", "%", "_%"][self.below(3)]);
        for &char in &chars[begin..end] {
            match self.below(8) {
                0 => pattern.push('_'),
                1 => pattern.push('%'),
                _ => pattern.push(char),
            }
        }
        pattern + ["", "%"][self.below(2)]
    }

    fn predicate(&mut self, depth: usize) -> Term {
        match (depth, self.below(4)) {
            (0, _) => self.simple(),
            (_, 0) => Term::Not(Box::new(self.predicate(depth - 1))),
            (_, 1) => Term::And((0..2 + self.below(2)).map(|_| self.predicate(depth - 1)).collect()),
            (_, 2) => Term::Or((0..2 + self.below(2)).map(|_| self.predicate(depth - 1)).collect()),
            _ => self.simple(),
        }
    }

    /// Outputs: sums and extremes of some columns.
    fn aggregates(&mut self) -> String {
        let mut outputs = vec!["count(*)".to_owned()];
        for _ in 0..3 {
            let index = self.below(self.schema.columns().len());
            let function = match self.is_number(index) {
                true => ["count", "sum", "min", "max", "avg"][self.below(5)],
                false => ["count", "min", "max"][self.below(3)],
            };
            let argument = match self.random.chance(0.3) && self.is_number(index) {
                true => self.value(),
                false => self.column(index),
            };
            outputs.push(format!("{function}({argument})"));
        }
        outputs.join(", ")
    }
}

/// Columns with few distinct values, estimated from a sample.
fn keys(schema: &Schema, rows: &RecordBatch) -> Vec<usize> {
    let step = (rows.num_rows() / 1000).max(1);
    let is_key = |column: &usize| {
        let column_type = schema.columns()[*column].column_type;
        let found: BTreeMap<String, ()> = (0..rows.num_rows())
            .step_by(step)
            .map(|row| (format!("{:?}", values::at(rows.column(*column), column_type, row)), ()))
            .collect();
        found.len() <= GROUPS_MAX
    };
    (0..schema.columns().len()).filter(is_key).collect()
}

/// Compares random predicates over a table, with rows or aggregates, with DuckDB. Panics at the first difference, with the smallest
/// predicate that shows it.
pub fn check(oracle: &mut Oracle, table: &Table, rows: &RecordBatch, random: Stream, count: usize) {
    let keys = keys(&table.schema, rows);
    let mut sampled = Sampled { schema: &table.schema, rows, random };
    let (mut refusals, mut one_failed, mut too_many_groups) = (BTreeMap::new(), 0, 0);
    for number in 0..count {
        let term = sampled.predicate(number % 3);
        let found = table.count(&term);
        let outputs = match (number % 4, found) {
            (0, Some(found)) if found <= ROWS_MAX => "*".to_owned(),
            _ => sampled.aggregates(),
        };
        let group = match number % 2 {
            1 if outputs != "*" && !keys.is_empty() => {
                let count = 1 + sampled.below(2);
                let picked: Vec<usize> = (0..count).map(|_| keys[sampled.below(keys.len())]).collect();
                let names: Vec<String> = picked.iter().map(|key| sampled.column(*key).to_string()).collect();
                names.join(", ")
            }
            _ => String::new(),
        };
        let sql = |term: &Term| match group.is_empty() {
            true => format!("SELECT {outputs} FROM {} WHERE {term}", table.name),
            false => format!("SELECT {group}, {outputs} FROM {} WHERE {term} GROUP BY {group}", table.name),
        };
        match compare(oracle, table, &sql(&term)) {
            Outcome::Same => {}
            Outcome::Refused(construct) => *refusals.entry(construct).or_insert(0) += 1,
            Outcome::OneFailed(_) => one_failed += 1,
            Outcome::TooManyGroups => too_many_groups += 1,
            outcome => {
                let fails = |outcome: &Outcome| matches!(outcome, Outcome::Differs(_));
                let (term, outcome) = shrunk(oracle, table, (term, outcome), &sql, fails);
                panic!("{}, query {number}: {}\n{outcome:?}", table.name, sql(&term));
            }
        }
    }
    let name = &table.name;
    eprintln!(
        "{name}: {count} queries; refused: {refusals:?}; {too_many_groups} had too many groups; in {one_failed} one side failed"
    );
    let refused: usize = refusals.values().sum();
    assert!(refused < count / 10 && one_failed < count / 10, "{refused} refused, {one_failed} failed");
    assert!(too_many_groups < count / 2, "{too_many_groups} with too many groups");
}
