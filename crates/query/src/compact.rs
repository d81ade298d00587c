//! Binary encoding of statements, which a host sends instead of text when it has parsed the query.
//!
//! Fields, in order: version (8 bits); the table's name; outputs (a count; for each 0 for `*`, or 1, a term and a name, which is empty if
//! it equals the term's text); flags (8 bits: filter, having, limit); the filter; GROUP BY (a count, terms); having; ORDER BY (a count; for
//! each a term and a byte: bit 0 descending, bit 1 nulls first); the limit. Counts and lengths are LEB128, signed integers zigzag. A term
//! is a tag (8 bits) with its operands in order. A column is an index of the schema, or a name.

use crate::bytes::{FormatError, Reader, Write};
use crate::error::QueryError;
use crate::schema::{ColumnType, NAME_BYTES_MAX, Schema};
use crate::statement::{
    AggregateFunction, Arithmetic, ColumnName, Comparison, DEPTH_MAX, Interval, Literal, Order, Output,
    Statement, TASK_BYTES_MAX, TERMS_MAX, Term,
};

/// Version of the encoding that is written, and the only one accepted.
pub const VERSION: u8 = 1;

const HAS_FILTER: u8 = 1;
const HAS_HAVING: u8 = 2;
const HAS_LIMIT: u8 = 4;

/// Tags of terms. An operator's code is added to the first tag of its kind.
mod tag {
    pub const NAME: u8 = 0;
    pub const INDEX: u8 = 1;
    pub const NULL: u8 = 2;
    pub const FALSE: u8 = 3;
    pub const TRUE: u8 = 4;
    pub const INTEGER: u8 = 5;
    pub const DECIMAL: u8 = 6;
    pub const DOUBLE: u8 = 7;
    pub const TEXT: u8 = 8;
    pub const DATE: u8 = 9;
    pub const TIMESTAMP: u8 = 10;
    pub const INTERVAL: u8 = 11;
    pub const AND: u8 = 12;
    pub const OR: u8 = 13;
    pub const NOT: u8 = 14;
    pub const NEGATE: u8 = 15;
    pub const BETWEEN: u8 = 16;
    pub const IN_LIST: u8 = 17;
    pub const LIKE: u8 = 18;
    pub const LIKE_ESCAPE: u8 = 19;
    pub const IS_NULL: u8 = 20;
    pub const CASE: u8 = 21;
    pub const CASE_ELSE: u8 = 22;
    pub const CAST: u8 = 23;
    pub const COMPARE: u8 = 32;
    pub const ARITHMETIC: u8 = 40;
    pub const AGGREGATE: u8 = 48;
}

/// Encodes a statement. With a schema, columns are written as indexes.
///
/// # Errors
/// A column that the schema does not have, or more than [`TASK_BYTES_MAX`] bytes.
pub fn encode(statement: &Statement, schema: Option<&Schema>) -> Result<Vec<u8>, QueryError> {
    let mut encoder = Encoder { bytes: vec![VERSION], schema, table: &statement.table };
    encoder.bytes.text(&statement.table);
    encoder.bytes.varint(statement.outputs.len() as u128);
    for output in &statement.outputs {
        match output {
            Output::Star => encoder.bytes.push(0),
            Output::Term { term, name } => {
                encoder.bytes.push(1);
                encoder.term(term)?;
                // The name for which an empty one stands.
                let own = match (term, schema) {
                    (Term::Column(ColumnName::Name(column)), None) => column == name,
                    (Term::Column(ColumnName::Name(column)), Some(schema)) => {
                        schema.find(column).is_some_and(|index| schema.columns()[index].name == *name)
                    }
                    (term, Some(schema)) => term.text(schema) == *name,
                    (term, None) => term.to_string() == *name,
                };
                encoder.bytes.text(if own { "" } else { name });
            }
        }
    }
    let flag = |there: bool, flag| if there { flag } else { 0 };
    encoder.bytes.push(
        flag(statement.filter.is_some(), HAS_FILTER)
            | flag(statement.having.is_some(), HAS_HAVING)
            | flag(statement.limit.is_some(), HAS_LIMIT),
    );
    statement.filter.iter().try_for_each(|filter| encoder.term(filter))?;
    encoder.terms(&statement.group_by)?;
    statement.having.iter().try_for_each(|having| encoder.term(having))?;
    encoder.bytes.varint(statement.order_by.len() as u128);
    for order in &statement.order_by {
        encoder.term(&order.term)?;
        encoder.bytes.push(u8::from(order.descending) | u8::from(order.nulls_first) << 1);
    }
    statement.limit.iter().for_each(|&limit| encoder.bytes.varint(limit.into()));
    match encoder.bytes.len() > TASK_BYTES_MAX {
        true => {
            let (found, max) = (encoder.bytes.len() as u64, TASK_BYTES_MAX as u64);
            Err(QueryError::Limit { what: "bytes of a task", found, max })
        }
        false => Ok(encoder.bytes),
    }
}

struct Encoder<'a> {
    bytes: Vec<u8>,
    schema: Option<&'a Schema>,
    table: &'a str,
}

impl Encoder<'_> {
    fn terms(&mut self, terms: &[Term]) -> Result<(), QueryError> {
        self.bytes.varint(terms.len() as u128);
        terms.iter().try_for_each(|term| self.term(term))
    }

    fn term(&mut self, term: &Term) -> Result<(), QueryError> {
        match term {
            Term::Column(column) => return self.column(column),
            Term::Literal(literal) => self.literal(literal),
            Term::Compare(comparison, _) => self.bytes.push(tag::COMPARE + *comparison as u8),
            Term::Arithmetic(arithmetic, _) => self.bytes.push(tag::ARITHMETIC + *arithmetic as u8),
            Term::Aggregate(function, _) => self.bytes.push(tag::AGGREGATE + *function as u8),
            Term::And(terms) => {
                self.bytes.push(tag::AND);
                return self.terms(terms);
            }
            Term::Or(terms) => {
                self.bytes.push(tag::OR);
                return self.terms(terms);
            }
            Term::InList(value, list) => {
                self.bytes.push(tag::IN_LIST);
                self.term(value)?;
                return self.terms(list);
            }
            Term::Not(_) => self.bytes.push(tag::NOT),
            Term::Negate(_) => self.bytes.push(tag::NEGATE),
            Term::Between(_) => self.bytes.push(tag::BETWEEN),
            Term::IsNull(_) => self.bytes.push(tag::IS_NULL),
            Term::Like { pattern, escape, .. } => match escape {
                None => {
                    self.bytes.push(tag::LIKE);
                    self.bytes.text(pattern);
                }
                Some(escape) => {
                    self.bytes.push(tag::LIKE_ESCAPE);
                    self.bytes.varint(u32::from(*escape).into());
                    self.bytes.text(pattern);
                }
            },
            Term::Case { arms, otherwise } => {
                self.bytes.push(if otherwise.is_some() { tag::CASE_ELSE } else { tag::CASE });
                self.bytes.varint(arms.len() as u128);
            }
            Term::Cast(_, column_type) => {
                self.bytes.push(tag::CAST);
                column_type.write(&mut self.bytes);
            }
        }
        term.children().into_iter().try_for_each(|child| self.term(child))
    }

    fn column(&mut self, column: &ColumnName) -> Result<(), QueryError> {
        let index = match (column, self.schema) {
            (ColumnName::Index(index), _) => *index,
            (ColumnName::Name(name), None) => {
                self.bytes.push(tag::NAME);
                self.bytes.text(name);
                return Ok(());
            }
            (ColumnName::Name(name), Some(schema)) => match schema.find(name) {
                Some(index) => index as u16,
                // GROUP BY and ORDER BY may name an output instead of a column.
                None if name.len() <= NAME_BYTES_MAX => {
                    self.bytes.push(tag::NAME);
                    self.bytes.text(name);
                    return Ok(());
                }
                None => {
                    return Err(QueryError::UnknownColumn {
                        table: self.table.to_owned(),
                        name: name.chars().take(40).collect(),
                        columns: format!("{} with shorter names", schema.columns().len()),
                    });
                }
            },
        };
        self.bytes.push(tag::INDEX);
        self.bytes.varint(index.into());
        Ok(())
    }

    fn literal(&mut self, literal: &Literal) {
        let bytes = &mut self.bytes;
        match literal {
            Literal::Null => bytes.push(tag::NULL),
            Literal::Bool(value) => bytes.push(if *value { tag::TRUE } else { tag::FALSE }),
            Literal::Integer(value) => {
                bytes.push(tag::INTEGER);
                bytes.signed(*value);
            }
            Literal::Decimal { unscaled, precision, scale } => {
                bytes.extend([tag::DECIMAL, *precision, *scale]);
                bytes.signed(*unscaled);
            }
            Literal::Double(value) => {
                bytes.push(tag::DOUBLE);
                bytes.extend(value.to_bits().to_le_bytes());
            }
            Literal::Text(text) => {
                bytes.push(tag::TEXT);
                bytes.text(text);
            }
            Literal::Date(days) => {
                bytes.push(tag::DATE);
                bytes.signed((*days).into());
            }
            Literal::Timestamp(micros) => {
                bytes.push(tag::TIMESTAMP);
                bytes.signed((*micros).into());
            }
            Literal::Interval(interval) => {
                bytes.push(tag::INTERVAL);
                bytes.signed(interval.months.into());
                bytes.signed(interval.days.into());
                bytes.signed(interval.micros.into());
            }
        }
    }
}

/// Decodes a statement.
///
/// # Errors
/// Another version, truncated or malformed bytes, or too many or too deep terms.
pub fn decode(bytes: &[u8]) -> Result<Statement, QueryError> {
    let mut decoder = Decoder { reader: Reader::new("compact task", bytes), terms: 0 };
    Ok(decoder.statement()?)
}

struct Decoder<'a> {
    reader: Reader<'a>,
    terms: usize,
}

impl Decoder<'_> {
    fn statement(&mut self) -> Result<Statement, FormatError> {
        let version = self.reader.u8()?;
        if version != VERSION {
            return Err(self.reader.error(format!("version is {version}, expected {VERSION}")));
        }
        let table = self.reader.text("bytes of a table's name", NAME_BYTES_MAX)?.to_owned();
        if table.is_empty() {
            return Err(self.reader.error("the table name is empty"));
        }
        let count = self.reader.length("outputs", crate::bind::OUTPUTS_MAX)?;
        let mut outputs = Vec::new();
        for _ in 0..count {
            outputs.push(match self.reader.flag()? {
                false => Output::Star,
                true => {
                    let term = self.term(0)?;
                    // An empty name stands for the term's text, which only the schema determines.
                    let name = self.reader.text("bytes of a name", NAME_BYTES_MAX)?.to_owned();
                    Output::Term { term, name }
                }
            });
        }
        let flags = self.reader.u8()?;
        if flags & !(HAS_FILTER | HAS_HAVING | HAS_LIMIT) != 0 {
            return Err(self.reader.error(format!("unknown flags {flags:#x}")));
        }
        let filter = if flags & HAS_FILTER != 0 { Some(self.term(0)?) } else { None };
        let group_by = self.list(0)?;
        let having = if flags & HAS_HAVING != 0 { Some(self.term(0)?) } else { None };
        let count = self.reader.length("terms of ORDER BY", crate::bind::OUTPUTS_MAX)?;
        let mut order_by = Vec::new();
        for _ in 0..count {
            let term = self.term(0)?;
            let flags = self.reader.u8()?;
            if flags > 3 {
                return Err(self.reader.error(format!("unknown ORDER BY flags {flags:#x}")));
            }
            order_by.push(Order { term, descending: flags & 1 != 0, nulls_first: flags & 2 != 0 });
        }
        let limit = match flags & HAS_LIMIT != 0 {
            true => {
                let limit = self.reader.varint()?;
                Some(u64::try_from(limit).map_err(|_| self.reader.error("the limit exceeds 64 bits"))?)
            }
            false => None,
        };
        self.reader.end()?;
        Ok(Statement { table, outputs, filter, group_by, having, order_by, limit })
    }

    fn list(&mut self, depth: usize) -> Result<Vec<Term>, FormatError> {
        let count = self.reader.length("terms", TERMS_MAX)?;
        // Grows as terms are read: the untrusted count must not determine an allocation.
        (0..count).map(|_| self.term(depth)).collect()
    }

    fn term(&mut self, depth: usize) -> Result<Term, FormatError> {
        self.terms += 1;
        if depth > DEPTH_MAX || self.terms > TERMS_MAX {
            let problem = format!("more than {DEPTH_MAX} levels or {TERMS_MAX} terms");
            return Err(self.reader.error(problem));
        }
        let below = depth + 1;
        let code = self.reader.u8()?;
        let operator = |first: u8| usize::from(code.wrapping_sub(first));
        if let Some(&comparison) = Comparison::ALL.get(operator(tag::COMPARE)) {
            return Ok(Term::Compare(comparison, Box::new([self.term(below)?, self.term(below)?])));
        }
        if let Some(&arithmetic) = Arithmetic::ALL.get(operator(tag::ARITHMETIC)) {
            return Ok(Term::Arithmetic(arithmetic, Box::new([self.term(below)?, self.term(below)?])));
        }
        if let Some(&function) = AggregateFunction::ALL.get(operator(tag::AGGREGATE)) {
            let argument = match function {
                AggregateFunction::CountRows => None,
                _ => Some(Box::new(self.term(below)?)),
            };
            return Ok(Term::Aggregate(function, argument));
        }
        Ok(match code {
            tag::NAME => Term::Column(ColumnName::Name(
                self.reader.text("bytes of a name", NAME_BYTES_MAX)?.to_owned(),
            )),
            tag::INDEX => {
                let index = self.reader.length("columns", usize::from(u16::MAX))?;
                Term::Column(ColumnName::Index(index as u16))
            }
            tag::AND | tag::OR => {
                let terms = self.list(below)?;
                if terms.len() < 2 {
                    return Err(self.reader.error("AND and OR need at least two terms"));
                }
                if code == tag::AND { Term::And(terms) } else { Term::Or(terms) }
            }
            tag::NOT => Term::Not(Box::new(self.term(below)?)),
            tag::NEGATE => Term::Negate(Box::new(self.term(below)?)),
            tag::BETWEEN => {
                Term::Between(Box::new([self.term(below)?, self.term(below)?, self.term(below)?]))
            }
            tag::IN_LIST => Term::InList(Box::new(self.term(below)?), self.list(below)?),
            tag::LIKE | tag::LIKE_ESCAPE => {
                let escape = match code == tag::LIKE_ESCAPE {
                    true => {
                        let code = self.reader.varint()?;
                        let char = u32::try_from(code).ok().and_then(char::from_u32);
                        Some(char.ok_or_else(|| self.reader.error(format!("{code} is not a character")))?)
                    }
                    false => None,
                };
                let pattern = self.reader.text("bytes of a pattern", TASK_BYTES_MAX)?.to_owned();
                Term::Like { text: Box::new(self.term(below)?), pattern, escape }
            }
            tag::IS_NULL => Term::IsNull(Box::new(self.term(below)?)),
            tag::CASE | tag::CASE_ELSE => {
                let count = self.reader.length("arms of CASE", TERMS_MAX)?;
                let mut arms = Vec::new();
                for _ in 0..count {
                    arms.push((self.term(below)?, self.term(below)?));
                }
                let otherwise = match code == tag::CASE_ELSE {
                    true => Some(Box::new(self.term(below)?)),
                    false => None,
                };
                Term::Case { arms, otherwise }
            }
            tag::CAST => {
                let column_type = ColumnType::read(&mut self.reader)?;
                Term::Cast(Box::new(self.term(below)?), column_type)
            }
            code => Term::Literal(self.literal(code)?),
        })
    }

    fn literal(&mut self, code: u8) -> Result<Literal, FormatError> {
        fn small<T: TryFrom<i128>>(reader: &mut Reader<'_>) -> Result<T, FormatError> {
            let value = reader.signed()?;
            T::try_from(value).map_err(|_| reader.error(format!("{value} is out of range")))
        }
        let reader = &mut self.reader;
        Ok(match code {
            tag::NULL => Literal::Null,
            tag::FALSE => Literal::Bool(false),
            tag::TRUE => Literal::Bool(true),
            tag::INTEGER => Literal::Integer(reader.signed()?),
            tag::DECIMAL => {
                let (precision, scale, unscaled) = (reader.u8()?, reader.u8()?, reader.signed()?);
                let valid = (1..=crate::schema::PRECISION_MAX).contains(&precision) && scale <= precision;
                if !valid || unscaled.unsigned_abs() >= 10u128.pow(u32::from(precision)) {
                    return Err(
                        reader.error(format!("{unscaled} does not fit into decimal({precision},{scale})"))
                    );
                }
                Literal::Decimal { unscaled, precision, scale }
            }
            tag::DOUBLE => Literal::Double(reader.f64()?),
            tag::TEXT => Literal::Text(reader.text("bytes of text", TASK_BYTES_MAX)?.to_owned()),
            tag::DATE => Literal::Date(small(reader)?),
            tag::TIMESTAMP => Literal::Timestamp(small(reader)?),
            tag::INTERVAL => Literal::Interval(Interval {
                months: small(reader)?,
                days: small(reader)?,
                micros: small(reader)?,
            }),
            other => return Err(reader.error(format!("unknown term tag {other}"))),
        })
    }
}
