//! Table schemas: column names, types and nullability, with conversions to bytes and to Arrow's schema.

use std::sync::Arc;

use arrow_schema::{DataType, Field, SchemaRef, TimeUnit};
use thiserror::Error;

use crate::bytes::{FormatError, Reader, Write};

/// Upper limit of a table's columns.
pub const COLUMNS_MAX: usize = 1024;
/// Upper limit of a column's or table's name in bytes.
pub const NAME_BYTES_MAX: usize = 255;
/// Upper limit of an encoded schema in bytes: names, types and a header.
pub const SCHEMA_BYTES_MAX: usize = 4 + COLUMNS_MAX * (2 + NAME_BYTES_MAX + 4);

const VERSION: u8 = 1;

/// Type of a column or an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ColumnType {
    /// Boolean.
    Bool,
    /// 8-bit signed integer.
    Int8,
    /// 16-bit signed integer.
    Int16,
    /// 32-bit signed integer.
    Int32,
    /// 64-bit signed integer.
    Int64,
    /// 8-bit unsigned integer.
    UInt8,
    /// 16-bit unsigned integer.
    UInt16,
    /// 32-bit unsigned integer.
    UInt32,
    /// 64-bit unsigned integer.
    UInt64,
    /// 128-bit signed integer, DuckDB's HUGEINT. It is the type of sums, never of a stored column. In Arrow it is `Decimal128(38, 0)`, as
    /// in DuckDB's results.
    HugeInt,
    /// IEEE 754 single precision.
    Float32,
    /// IEEE 754 double precision.
    Float64,
    /// Fixed point: an integer of at most 38 digits times 10^-scale.
    Decimal {
        /// Total number of digits, 1 to 38.
        precision: u8,
        /// Digits after the point, at most `precision`.
        scale: u8,
    },
    /// Days since 1970-01-01, in 32 bits.
    Date,
    /// Microseconds since 1970-01-01T00:00, without a time zone, in 64 bits.
    Timestamp,
    /// UTF-8 text.
    Utf8,
}

/// Largest precision of a decimal.
pub const PRECISION_MAX: u8 = 38;

impl ColumnType {
    const CODES: [ColumnType; 14] = [
        Self::Bool,
        Self::Int8,
        Self::Int16,
        Self::Int32,
        Self::Int64,
        Self::UInt8,
        Self::UInt16,
        Self::UInt32,
        Self::UInt64,
        Self::Float32,
        Self::Float64,
        Self::Date,
        Self::Timestamp,
        Self::Utf8,
    ];
    const DECIMAL_CODE: u8 = 32;
    const HUGE_INT_CODE: u8 = 33;

    /// The Arrow type of arrays of this type.
    pub fn to_arrow(self) -> DataType {
        match self {
            Self::Bool => DataType::Boolean,
            Self::Int8 => DataType::Int8,
            Self::Int16 => DataType::Int16,
            Self::Int32 => DataType::Int32,
            Self::Int64 => DataType::Int64,
            Self::UInt8 => DataType::UInt8,
            Self::UInt16 => DataType::UInt16,
            Self::UInt32 => DataType::UInt32,
            Self::UInt64 => DataType::UInt64,
            Self::HugeInt => DataType::Decimal128(PRECISION_MAX, 0),
            Self::Float32 => DataType::Float32,
            Self::Float64 => DataType::Float64,
            Self::Decimal { precision, scale } => DataType::Decimal128(precision, scale as i8),
            Self::Date => DataType::Date32,
            Self::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
            Self::Utf8 => DataType::Utf8,
        }
    }

    /// The column type for an Arrow type; `None` if no column type holds its values unchanged.
    pub fn from_arrow(data_type: &DataType) -> Option<Self> {
        Some(match data_type {
            DataType::Boolean => Self::Bool,
            DataType::Int8 => Self::Int8,
            DataType::Int16 => Self::Int16,
            DataType::Int32 => Self::Int32,
            DataType::Int64 => Self::Int64,
            DataType::UInt8 => Self::UInt8,
            DataType::UInt16 => Self::UInt16,
            DataType::UInt32 => Self::UInt32,
            DataType::UInt64 => Self::UInt64,
            DataType::Float32 => Self::Float32,
            DataType::Float64 => Self::Float64,
            DataType::Decimal128(precision, scale) => {
                let scale = u8::try_from(*scale).ok()?;
                (1..=PRECISION_MAX).contains(precision).then_some(())?;
                (scale <= *precision).then_some(Self::Decimal { precision: *precision, scale })?
            }
            DataType::Date32 => Self::Date,
            DataType::Timestamp(TimeUnit::Microsecond, None) => Self::Timestamp,
            DataType::Utf8 => Self::Utf8,
            _ => return None,
        })
    }

    /// Bytes of a value in a plain chunk; `None` for strings. Decimals take 4, 8 or 16 bytes by precision.
    pub fn stored_bytes(self) -> Option<usize> {
        Some(match self {
            Self::Bool | Self::Int8 | Self::UInt8 => 1,
            Self::Int16 | Self::UInt16 => 2,
            Self::Int32 | Self::UInt32 | Self::Float32 | Self::Date => 4,
            Self::Int64 | Self::UInt64 | Self::Float64 | Self::Timestamp => 8,
            Self::HugeInt => 16,
            Self::Decimal { precision, .. } => match precision {
                0..=9 => 4,
                10..=18 => 8,
                _ => 16,
            },
            Self::Utf8 => return None,
        })
    }

    /// Width in bits and signedness of an integer type.
    pub fn integer_bits(self) -> Option<(u32, bool)> {
        Some(match self {
            Self::Int8 => (8, true),
            Self::Int16 => (16, true),
            Self::Int32 => (32, true),
            Self::Int64 => (64, true),
            Self::HugeInt => (128, true),
            Self::UInt8 => (8, false),
            Self::UInt16 => (16, false),
            Self::UInt32 => (32, false),
            Self::UInt64 => (64, false),
            _ => return None,
        })
    }

    /// Minimum and maximum of an integer type.
    pub fn integer_range(self) -> Option<(i128, i128)> {
        Some(match self.integer_bits()? {
            (128, _) => (i128::MIN, i128::MAX),
            (bits, true) => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
            (bits, false) => (0, (1 << bits) - 1),
        })
    }

    pub(crate) fn write(self, bytes: &mut Vec<u8>) {
        match (self, Self::CODES.iter().position(|&known| known == self)) {
            (Self::Decimal { precision, scale }, _) => bytes.extend([Self::DECIMAL_CODE, precision, scale]),
            (_, Some(code)) => bytes.push(code as u8),
            // HUGEINT occurs as the target of a cast.
            (_, None) => bytes.push(Self::HUGE_INT_CODE),
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, FormatError> {
        let code = reader.u8()?;
        if code == Self::HUGE_INT_CODE {
            return Ok(Self::HugeInt);
        }
        if code != Self::DECIMAL_CODE {
            let known = Self::CODES.get(usize::from(code));
            return known.copied().ok_or_else(|| reader.error(format!("unknown type {code}")));
        }
        let (precision, scale) = (reader.u8()?, reader.u8()?);
        if !(1..=PRECISION_MAX).contains(&precision) || scale > precision {
            return Err(reader.error(format!(
                "decimal({precision},{scale}) needs 1 to {PRECISION_MAX} digits, and no more after the point"
            )));
        }
        Ok(Self::Decimal { precision, scale })
    }
}

/// SQL name, as DuckDB's `typeof` prints it.
impl std::fmt::Display for ColumnType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Bool => "BOOLEAN",
            Self::Int8 => "TINYINT",
            Self::Int16 => "SMALLINT",
            Self::Int32 => "INTEGER",
            Self::Int64 => "BIGINT",
            Self::UInt8 => "UTINYINT",
            Self::UInt16 => "USMALLINT",
            Self::UInt32 => "UINTEGER",
            Self::UInt64 => "UBIGINT",
            Self::HugeInt => "HUGEINT",
            Self::Float32 => "FLOAT",
            Self::Float64 => "DOUBLE",
            Self::Decimal { precision, scale } => return write!(f, "DECIMAL({precision},{scale})"),
            Self::Date => "DATE",
            Self::Timestamp => "TIMESTAMP",
            Self::Utf8 => "VARCHAR",
        })
    }
}

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Name, as spelled at creation. Look-ups ignore case, as in DuckDB.
    pub name: String,
    /// Type of the values.
    pub column_type: ColumnType,
    /// Whether values can be null.
    pub nullable: bool,
}

/// Why columns do not form a schema.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SchemaError {
    /// No or too many columns.
    #[error("a table must have 1 to {COLUMNS_MAX} columns, {0} given")]
    Columns(usize),
    /// An empty or too long name.
    #[error("a name must have 1 to {NAME_BYTES_MAX} bytes; that of column {index} has {bytes}")]
    Name {
        /// Index of the column.
        index: usize,
        /// Length of the name in bytes.
        bytes: usize,
    },
    /// Two names that differ at most by case.
    #[error("two columns are named {0:?}; names must differ by more than case")]
    Twice(String),
    /// A type that tables do not support.
    #[error("column {name:?} has type {found}, which tables do not support")]
    Type {
        /// Column name.
        name: String,
        /// Name of the type in Arrow.
        found: String,
    },
    /// A decimal with invalid precision or scale.
    #[error(
        "column {name:?}: decimal({precision},{scale}) needs 1 to {PRECISION_MAX} digits, and no more after the point"
    )]
    Digits {
        /// Column name.
        name: String,
        /// Precision.
        precision: u8,
        /// Scale.
        scale: u8,
    },
}

/// The columns of a table, in order. Names are unique, ignoring case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schema {
    columns: Vec<Column>,
}

impl Schema {
    /// A schema of these columns.
    ///
    /// # Errors
    /// No or too many columns; an empty, too long or duplicate name; or a type that cannot be stored.
    pub fn new(columns: Vec<Column>) -> Result<Self, SchemaError> {
        if columns.is_empty() || columns.len() > COLUMNS_MAX {
            return Err(SchemaError::Columns(columns.len()));
        }
        let mut names = std::collections::BTreeSet::new();
        for (index, column) in columns.iter().enumerate() {
            if column.name.is_empty() || column.name.len() > NAME_BYTES_MAX {
                return Err(SchemaError::Name { index, bytes: column.name.len() });
            }
            if !names.insert(column.name.to_lowercase()) {
                return Err(SchemaError::Twice(column.name.clone()));
            }
            let name = || column.name.clone();
            match column.column_type {
                ColumnType::HugeInt => {
                    return Err(SchemaError::Type { name: name(), found: "HUGEINT".to_owned() });
                }
                ColumnType::Decimal { precision, scale }
                    if !(1..=PRECISION_MAX).contains(&precision) || scale > precision =>
                {
                    return Err(SchemaError::Digits { name: name(), precision, scale });
                }
                _ => {}
            }
        }
        Ok(Self { columns })
    }

    /// The columns of several tables in sequence. Names may be duplicate, so queries refer to them by index.
    pub(crate) fn joint(columns: Vec<Column>) -> Self {
        Self { columns }
    }

    /// The columns, in order.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The index of a column by name, ignoring case.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name.eq_ignore_ascii_case(name)).or_else(|| {
            let lower = name.to_lowercase();
            self.columns.iter().position(|column| column.name.to_lowercase() == lower)
        })
    }

    /// Converts to an Arrow schema.
    pub fn to_arrow(&self) -> SchemaRef {
        self.project(0..self.columns.len())
    }

    /// An Arrow schema of these columns, in the given order. Panics if an index is out of range.
    pub fn project(&self, columns: impl IntoIterator<Item = usize>) -> SchemaRef {
        let field = |index: usize| {
            let column = &self.columns[index];
            Field::new(&column.name, column.column_type.to_arrow(), column.nullable)
        };
        Arc::new(arrow_schema::Schema::new(columns.into_iter().map(field).collect::<Vec<_>>()))
    }

    /// Converts from an Arrow schema.
    ///
    /// # Errors
    /// Same as [`Schema::new`], and for unsupported types.
    pub fn from_arrow(schema: &arrow_schema::Schema) -> Result<Self, SchemaError> {
        let column = |field: &Arc<Field>| {
            let column_type = ColumnType::from_arrow(field.data_type()).ok_or_else(|| SchemaError::Type {
                name: field.name().clone(),
                found: field.data_type().to_string(),
            })?;
            Ok(Column { name: field.name().clone(), column_type, nullable: field.is_nullable() })
        };
        Self::new(schema.fields().iter().map(column).collect::<Result<_, _>>()?)
    }

    /// Encodes the schema: version (8 bits), number of columns (16 bits); for each type, nullable (8 bits), length of the name and the
    /// name.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        bytes.extend((self.columns.len() as u16).to_le_bytes());
        for column in &self.columns {
            column.column_type.write(&mut bytes);
            bytes.push(u8::from(column.nullable));
            bytes.text(&column.name);
        }
        bytes
    }

    /// Decodes what [`to_bytes`](Self::to_bytes) wrote.
    ///
    /// # Errors
    /// Another version, truncated or too many bytes, or an invalid schema.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, FormatError> {
        let mut reader = Reader::new("schema", bytes);
        let version = reader.u8()?;
        if version != VERSION {
            return Err(reader.error(format!("version is {version}, expected {VERSION}")));
        }
        let count = usize::from(reader.u16()?);
        if count > COLUMNS_MAX {
            return Err(reader.error(SchemaError::Columns(count).to_string()));
        }
        let mut columns = Vec::with_capacity(count.min(reader.remaining() / 4));
        for _ in 0..count {
            let column_type = ColumnType::read(&mut reader)?;
            let nullable = reader.flag()?;
            let name = reader.text("bytes of a name", NAME_BYTES_MAX)?.to_owned();
            columns.push(Column { name, column_type, nullable });
        }
        reader.end()?;
        Self::new(columns).map_err(|error| reader.error(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(name: &str, column_type: ColumnType) -> Column {
        Column { name: name.to_owned(), column_type, nullable: name.len().is_multiple_of(2) }
    }

    fn every_type() -> Schema {
        let decimal = ColumnType::Decimal { precision: 38, scale: 5 };
        let types = ColumnType::CODES.into_iter().chain([decimal]);
        Schema::new(types.enumerate().map(|(n, t)| column(&"x".repeat(n + 1), t)).collect()).unwrap()
    }

    // A schema changed by a round trip through flash or Arrow would make a different table.
    #[test]
    fn every_type_comes_back() {
        let schema = every_type();
        assert_eq!(Schema::from_bytes(&schema.to_bytes()).unwrap(), schema);
        assert_eq!(Schema::from_arrow(&schema.to_arrow()).unwrap(), schema);
    }

    // Damaged or hostile bytes must be an error, never a panic or a different table.
    #[test]
    fn damaged_bytes_are_refused() {
        let bytes = every_type().to_bytes();
        for end in 0..bytes.len() {
            assert!(Schema::from_bytes(&bytes[..end]).is_err(), "cut off at {end}");
        }
        assert!(Schema::from_bytes(&[&bytes[..], &[0]].concat()).is_err());
        assert!(Schema::from_bytes(&[1, 0xff, 0xff]).unwrap_err().problem.contains("1 to 1024"));
    }

    // `WHERE a = 1` would be ambiguous on a table with both `a` and `A`.
    #[test]
    fn names_that_differ_by_case_alone_are_refused() {
        let twice = Schema::new(vec![column("a", ColumnType::Bool), column("A", ColumnType::Date)]);
        assert_eq!(twice, Err(SchemaError::Twice("A".to_owned())));
        let decimal = ColumnType::Decimal { precision: 3, scale: 4 };
        assert!(matches!(Schema::new(vec![column("d", decimal)]), Err(SchemaError::Digits { .. })));
    }
}
