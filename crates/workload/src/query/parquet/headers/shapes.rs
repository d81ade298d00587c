//! Known fields of a footer and a page header, by number and type, as in Apache Parquet's `parquet.thrift`.
//! Other fields may have any type.

use std::io;

/// The error of a header that is not as Parquet says.
pub(super) fn invalid(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// A type of Thrift's compact protocol, as far as skipping a value depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Bool,
    Byte,
    /// 16, 32 or 64 bits; all are varints.
    Integer,
    Double,
    Binary,
    /// A list or a set, with the element type if known.
    List(Option<&'static Type>),
    Map,
    Struct,
    Uuid,
}

impl Type {
    /// The type with this code, in the low 4 bits.
    pub fn from_code(code: u8) -> io::Result<Type> {
        Ok(match code & 0xf {
            1 | 2 => Type::Bool,
            3 => Type::Byte,
            4..=6 => Type::Integer,
            7 => Type::Double,
            8 => Type::Binary,
            9 | 10 => Type::List(None),
            11 => Type::Map,
            12 => Type::Struct,
            13 => Type::Uuid,
            _ => return Err(invalid("a header has a value of an unknown type")),
        })
    }

    /// The same without the type of its own elements.
    pub fn as_element(self) -> Type {
        match self {
            Type::List(_) => Type::List(None),
            other => other,
        }
    }
}

/// A field, and the fields of the structure or structures that it has.
pub(super) struct Field {
    pub number: u8,
    pub of: Type,
    pub fields: &'static [Field],
}

const fn plain(number: u8, of: Type) -> Field {
    Field { number, of, fields: &[] }
}

const fn list(number: u8, of: &'static Type) -> Field {
    plain(number, Type::List(Some(of)))
}

const fn structure(number: u8, fields: &'static [Field]) -> Field {
    Field { number, of: Type::Struct, fields }
}

const fn structures(number: u8, fields: &'static [Field]) -> Field {
    Field { number, of: Type::List(Some(&Type::Struct)), fields }
}

const fn integer(number: u8) -> Field {
    plain(number, Type::Integer)
}

const fn binary(number: u8) -> Field {
    plain(number, Type::Binary)
}

const fn truth(number: u8) -> Field {
    plain(number, Type::Bool)
}

/// `PageHeader`.
pub(super) const PAGE: &[Field] = &[
    integer(1),
    integer(2),
    integer(3),
    integer(4),
    structure(5, &[integer(1), integer(2), integer(3), integer(4), structure(5, STATISTICS)]),
    structure(6, &[]),
    structure(7, &[integer(1), integer(2), truth(3)]),
    structure(
        8,
        &[
            integer(1),
            integer(2),
            integer(3),
            integer(4),
            integer(5),
            integer(6),
            truth(7),
            structure(8, STATISTICS),
        ],
    ),
];

const STATISTICS: &[Field] =
    &[binary(1), binary(2), integer(3), integer(4), binary(5), binary(6), truth(7), truth(8)];

/// `FileMetaData`.
pub(super) const FOOTER: &[Field] = &[
    integer(1),
    structures(2, SCHEMA_ELEMENT),
    integer(3),
    structures(4, ROW_GROUP),
    structures(5, KEY_VALUE),
    binary(6),
    structures(7, &[]),
    structure(8, &[]),
    binary(9),
];

const KEY_VALUE: &[Field] = &[binary(1), binary(2)];

const SCHEMA_ELEMENT: &[Field] = &[
    integer(1),
    integer(2),
    integer(3),
    binary(4),
    integer(5),
    integer(6),
    integer(7),
    integer(8),
    integer(9),
    structure(10, LOGICAL_TYPE),
];

const LOGICAL_TYPE: &[Field] = &[
    structure(1, &[]),
    structure(2, &[]),
    structure(3, &[]),
    structure(4, &[]),
    structure(5, &[integer(1), integer(2)]),
    structure(6, &[]),
    structure(7, TIME),
    structure(8, TIME),
    structure(10, &[plain(1, Type::Byte), truth(2)]),
    structure(11, &[]),
    structure(12, &[]),
    structure(13, &[]),
    structure(14, &[]),
    structure(15, &[]),
    structure(16, &[plain(1, Type::Byte)]),
    structure(17, &[binary(1)]),
    structure(18, &[binary(1), integer(2)]),
];

/// `TimeType` and `TimestampType`.
const TIME: &[Field] = &[truth(1), structure(2, &[structure(1, &[]), structure(2, &[]), structure(3, &[])])];

const ROW_GROUP: &[Field] = &[
    structures(1, COLUMN_CHUNK),
    integer(2),
    integer(3),
    structures(4, &[integer(1), truth(2), truth(3)]),
    integer(5),
    integer(6),
    integer(7),
];

const COLUMN_CHUNK: &[Field] = &[
    binary(1),
    integer(2),
    structure(3, COLUMN),
    integer(4),
    integer(5),
    integer(6),
    integer(7),
    structure(8, &[]),
    binary(9),
];

/// `ColumnMetaData`.
const COLUMN: &[Field] = &[
    integer(1),
    list(2, &Type::Integer),
    list(3, &Type::Binary),
    integer(4),
    integer(5),
    integer(6),
    integer(7),
    structures(8, KEY_VALUE),
    integer(9),
    integer(10),
    integer(11),
    structure(12, STATISTICS),
    structures(13, &[integer(1), integer(2), integer(3)]),
    integer(14),
    integer(15),
    structure(16, &[integer(1), list(2, &Type::Integer), list(3, &Type::Integer)]),
    structure(17, &[structure(1, BOUNDING_BOX), list(2, &Type::Integer)]),
];

const BOUNDING_BOX: &[Field] = &[
    plain(1, Type::Double),
    plain(2, Type::Double),
    plain(3, Type::Double),
    plain(4, Type::Double),
    plain(5, Type::Double),
    plain(6, Type::Double),
    plain(7, Type::Double),
    plain(8, Type::Double),
];
