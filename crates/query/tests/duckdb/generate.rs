//! Random tables and queries from a seed.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use byteway_clock::random::Stream;
use byteway_query::statement::{Arithmetic, ColumnName, Comparison, Literal, Term};
use byteway_query::{Column, ColumnType, Schema, Value, values};

pub const TYPES: [ColumnType; 18] = [
    ColumnType::Bool,
    ColumnType::Int8,
    ColumnType::Int16,
    ColumnType::Int32,
    ColumnType::Int64,
    ColumnType::UInt8,
    ColumnType::UInt16,
    ColumnType::UInt32,
    ColumnType::UInt64,
    ColumnType::Float32,
    ColumnType::Float64,
    ColumnType::Decimal { precision: 6, scale: 2 },
    ColumnType::Decimal { precision: 15, scale: 2 },
    ColumnType::Decimal { precision: 19, scale: 0 },
    ColumnType::Decimal { precision: 38, scale: 10 },
    ColumnType::Date,
    ColumnType::Timestamp,
    ColumnType::Utf8,
];

/// The numeric types: index of the first, and their number.
const NUMBERS: (usize, usize) = (1, 14);
/// Index of the string type.
const TEXT: usize = TYPES.len() - 1;

/// Two columns of each type, `a0..` and `b0..`, the second with few distinct values; every third has no nulls. And the row's number, `id`.
pub fn schema() -> Schema {
    let columns = TYPES.iter().enumerate().flat_map(|(index, &column_type)| {
        let column = |name: &str| Column {
            name: format!("{name}{index}"),
            column_type,
            nullable: (index + usize::from(name == "b")) % 3 != 0,
        };
        [column("a"), column("b")]
    });
    let id = Column { name: "id".to_owned(), column_type: ColumnType::Int64, nullable: false };
    Schema::new(columns.chain([id]).collect()).unwrap()
}

/// Random rows. With `is_far`, dates and timestamps at the limits of their types.
pub fn rows(schema: &Schema, count: usize, is_far: bool, random: &mut Stream) -> RecordBatch {
    let arrays = schema.columns().iter().map(|column| {
        if column.name == "id" {
            let ids: Vec<Value> = (0..count).map(|row| Value::Integer(row as i128)).collect();
            return values::array(ids.iter(), column.column_type);
        }
        let nulls =
            if column.nullable { [0.0, 0.2, 1.0][random.below(10).saturating_sub(7) as usize] } else { 0.0 };
        let few = column.name.starts_with('b');
        // Runs and stretches of similar values, so that encodings and zone maps are exercised.
        let mut last = Value::Null;
        let found: Vec<Value> = (0..count)
            .map(|_| {
                if !few || last.is_null() || random.chance(0.3) {
                    last = match column.column_type {
                        ColumnType::Date if is_far && random.chance(0.3) => far(&FAR_DATES, random),
                        ColumnType::Timestamp if is_far && random.chance(0.3) => far(&FAR_TIMES, random),
                        column_type => one(column_type, few, random),
                    };
                }
                if random.chance(nulls) { Value::Null } else { last.clone() }
            })
            .collect();
        values::array(found.iter(), column.column_type)
    });
    let arrays: Vec<ArrayRef> = arrays.collect();
    RecordBatch::try_new(Arc::clone(&schema.to_arrow()), arrays).unwrap()
}

/// The first and last dates of DuckDB other than its infinities, and their neighbors.
const FAR_DATES: [i128; 4] = [-2_147_483_646, -2_147_483_645, 2_147_483_645, 2_147_483_646];
/// The same for timestamps; the first is the start of a day.
const FAR_TIMES: [i128; 4] = [
    -9_223_372_022_400_000_000,
    -9_223_372_022_399_999_999,
    9_223_372_036_854_775_805,
    9_223_372_036_854_775_806,
];

fn far(ends: &[i128; 4], random: &mut Stream) -> Value {
    Value::Integer(ends[random.below(4) as usize])
}

/// A random value: a limit of the type, a neighbor of zero, or one in between.
pub fn one(column_type: ColumnType, few: bool, random: &mut Stream) -> Value {
    let extreme = !few && random.chance(0.15);
    let small = |random: &mut Stream| random.below(9) as i128 - if few { 0 } else { 4 };
    match column_type {
        ColumnType::Bool => Value::Bool(random.chance(0.5)),
        ColumnType::Float32 | ColumnType::Float64 => {
            let odd = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 0.0, 1e-30, 1e30, -1.5, 0.1];
            let value = match random.chance(if few { 0.1 } else { 0.3 }) {
                true => odd[random.below(odd.len() as u64) as usize],
                false => small(random) as f64 / 2.0,
            };
            Value::Float(if column_type == ColumnType::Float32 { f64::from(value as f32) } else { value })
        }
        ColumnType::Utf8 => {
            let words = [
                "",
                "a",
                "A",
                "ab",
                "abc",
                "b",
                "a%b",
                "a_b",
                "it's",
                "zürich",
                "zz",
                "日本",
                "\u{10ffff}",
                " ",
                "a\\b",
                "a long text that is cut in its zone map",
                "a long text that is cut in its zone map, too",
            ];
            let count = if few { 5 } else { words.len() };
            let word = words[random.below(count as u64) as usize];
            // Thousands of bytes, of which a zone map has the prefix.
            let times = if extreme { 1 + 100 * random.below(3) as usize } else { 1 };
            Value::Text(word.repeat(times))
        }
        ColumnType::Date => {
            // 0001-01-01 and 9999-12-31, the limits of Python's dates.
            let ends = [-719_162, 2_932_896];
            Value::Integer(match extreme {
                true => ends[random.below(2) as usize],
                false => 10_000 + 15 * small(random),
            })
        }
        ColumnType::Timestamp => {
            let ends = [-62_135_596_800_000_000, 253_402_300_799_999_999, 1, -1];
            Value::Integer(match extreme {
                true => ends[random.below(4) as usize],
                false => (10_000 + 15 * small(random)) * 86_400_000_000 + small(random) * 43_200_000_000,
            })
        }
        ColumnType::Decimal { precision, .. } => {
            let most = 10i128.pow(precision.into()) - 1;
            Value::Integer(match extreme {
                true => [most, -most, most - 1][random.below(3) as usize],
                false => small(random) * [1, 50, 100][random.below(3) as usize],
            })
        }
        integer => {
            let (low, high) = range(integer);
            let value = match extreme {
                true => [low, high, high - 1, low + 1][random.below(4) as usize],
                false => small(random),
            };
            Value::Integer(value.clamp(low, high))
        }
    }
}

fn range(column_type: ColumnType) -> (i128, i128) {
    match column_type {
        ColumnType::Int8 => (i8::MIN.into(), i8::MAX.into()),
        ColumnType::Int16 => (i16::MIN.into(), i16::MAX.into()),
        ColumnType::Int32 => (i32::MIN.into(), i32::MAX.into()),
        ColumnType::Int64 => (i64::MIN.into(), i64::MAX.into()),
        ColumnType::UInt8 => (0, u8::MAX.into()),
        ColumnType::UInt16 => (0, u16::MAX.into()),
        ColumnType::UInt32 => (0, u32::MAX.into()),
        _ => (0, u64::MAX.into()),
    }
}

fn is_number(type_index: usize) -> bool {
    (NUMBERS.0..NUMBERS.0 + NUMBERS.1).contains(&type_index)
}

/// Random terms over a schema.
pub struct Terms<'a> {
    pub random: &'a mut Stream,
    /// Whether terms may be nested, so that the order of evaluation decides whether a query fails.
    pub nested: bool,
}

impl Terms<'_> {
    fn below(&mut self, n: usize) -> usize {
        self.random.below(n as u64) as usize
    }

    fn type_index(&mut self) -> usize {
        self.below(TYPES.len())
    }

    pub fn column(&mut self, type_index: usize) -> Term {
        let name = format!("{}{type_index}", if self.random.chance(0.5) { "a" } else { "b" });
        Term::Column(ColumnName::Name(name))
    }

    /// A number of any type: a column, or arithmetic.
    fn number(&mut self, depth: usize) -> (Term, usize) {
        let type_index = NUMBERS.0 + self.below(NUMBERS.1);
        let column = self.column(type_index);
        if depth == 0 || self.random.chance(0.6) {
            return (column, type_index);
        }
        if self.random.chance(0.1) {
            return (Term::Negate(Box::new(column)), type_index);
        }
        let other = match self.random.chance(0.5) {
            true => {
                let like = NUMBERS.0 + self.below(NUMBERS.1);
                self.literal(like)
            }
            false => self.number(depth - 1).0,
        };
        let operation = Arithmetic::ALL[self.below(6)];
        let sides = if self.random.chance(0.3) { [other, column] } else { [column, other] };
        (Term::Arithmetic(operation, Box::new(sides)), type_index)
    }

    /// A constant for a column of this type.
    pub fn literal(&mut self, type_index: usize) -> Term {
        let column_type = TYPES[type_index];
        let few = self.random.chance(0.5);
        Term::Literal(match (one(column_type, few, self.random), column_type) {
            (Value::Bool(value), _) => Literal::Bool(value),
            (Value::Integer(value), ColumnType::Date) => Literal::Date(value as i32),
            (Value::Integer(value), ColumnType::Timestamp) => Literal::Timestamp(value as i64),
            (Value::Integer(value), ColumnType::Decimal { precision, scale }) => {
                Literal::Decimal { unscaled: value, precision, scale }
            }
            (Value::Integer(value), _) if self.random.chance(0.1) => {
                Literal::Decimal { unscaled: (value % 1000) * 10 + 5, precision: 6, scale: 1 }
            }
            (Value::Integer(value), _) => Literal::Integer(value),
            (Value::Float(value), _) if value.is_finite() && value.abs() < 1e6 => {
                match self.random.chance(0.5) {
                    true => Literal::Decimal { unscaled: (value * 10.0) as i128, precision: 8, scale: 1 },
                    false => Literal::Double(value),
                }
            }
            (Value::Float(value), _) if value.is_finite() => Literal::Double(value),
            (Value::Float(_), _) => Literal::Double(2.5),
            (Value::Text(text), _) => Literal::Text(text),
            (Value::Null, _) => Literal::Null,
        })
    }

    /// A predicate without AND, OR and NOT.
    fn simple(&mut self) -> Term {
        let depth = usize::from(self.random.chance(0.3)) + usize::from(self.nested);
        let (value, type_index) = match self.random.chance(0.3) {
            true => self.number(depth),
            false => {
                let index = self.type_index();
                (self.column(index), index)
            }
        };
        let comparison = Comparison::ALL[self.below(6)];
        match self.below(12) {
            0 => Term::IsNull(Box::new(value)),
            1 => Term::Between(Box::new([value, self.literal(type_index), self.literal(type_index)])),
            2 => {
                let count = 1 + self.below(12);
                let mut list: Vec<Term> = (0..count).map(|_| self.literal(type_index)).collect();
                if self.random.chance(0.2) {
                    list.push(Term::Literal(Literal::Null));
                }
                Term::InList(Box::new(value), list)
            }
            3 => {
                let pieces = ["a", "%", "_", "b", "z", "ü", "\\", "long", " ", "本", "%a"];
                let count = self.below(5);
                let pattern = (0..count).map(|_| pieces[self.below(pieces.len())]).collect();
                let text = Box::new(self.column(TEXT));
                Term::Like { text, pattern, escape: None }
            }
            4 if is_number(type_index) => {
                let (other, _) = self.number(usize::from(self.nested));
                Term::Compare(comparison, Box::new([value, other]))
            }
            4 | 5 => {
                let other = self.column(type_index);
                Term::Compare(comparison, Box::new([value, other]))
            }
            6 => self.column(0),
            7 if self.nested => {
                let condition = self.simple();
                let (number, index) = self.number(0);
                let otherwise = self.random.chance(0.7).then(|| Box::new(self.literal(index)));
                let case = Term::Case { arms: vec![(condition, number)], otherwise };
                Term::Compare(comparison, Box::new([case, self.literal(index)]))
            }
            8 => {
                // Numbers of other types than the column's.
                let other = match is_number(type_index) {
                    true => NUMBERS.0 + self.below(NUMBERS.1),
                    false => type_index,
                };
                Term::Compare(comparison, Box::new([value, self.literal(other)]))
            }
            _ => Term::Compare(comparison, Box::new([value, self.literal(type_index)])),
        }
    }

    pub fn predicate(&mut self, depth: usize) -> Term {
        if depth == 0 {
            return self.simple();
        }
        match self.below(4) {
            0 => Term::Not(Box::new(self.predicate(depth - 1))),
            1 => Term::And((0..2 + self.below(2)).map(|_| self.predicate(depth - 1)).collect()),
            2 => Term::Or((0..2 + self.below(2)).map(|_| self.predicate(depth - 1)).collect()),
            _ => self.simple(),
        }
    }

    /// An expression to select or aggregate: a column, or arithmetic on numbers.
    pub fn value(&mut self) -> Term {
        match self.random.chance(0.5) {
            true => {
                let index = self.type_index();
                self.column(index)
            }
            false => self.number(1 + usize::from(self.nested)).0,
        }
    }
}
