//! Formats terms and statements as SQL text that parses to the same terms.

use std::fmt::{Display, Formatter, Result};

use super::{ColumnName, Interval, Literal, Term};
use crate::calendar::{MICROS_PER_DAY, civil};
use crate::schema::Schema;

impl Display for Term {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        Shown { term: self, schema: None }.fmt(f)
    }
}

impl Term {
    /// SQL text, with column names from the schema.
    pub fn text(&self, schema: &Schema) -> String {
        Shown { term: self, schema: Some(schema) }.to_string()
    }
}

impl super::Statement {
    /// SQL text for a table of this schema; it parses to the same statement.
    pub fn text(&self, schema: &Schema) -> String {
        let listed =
            |terms: &[Term]| terms.iter().map(|term| term.text(schema)).collect::<Vec<_>>().join(", ");
        let output = |output: &super::Output| match output {
            super::Output::Star => "*".to_owned(),
            super::Output::Term { term, name } => {
                let text = term.text(schema);
                // An alias equal to the default name is omitted.
                match name.is_empty() || *name == text || *name == term.to_string() {
                    true => text,
                    false => format!("{text} AS {}", Name(name)),
                }
            }
        };
        let outputs: Vec<String> = self.outputs.iter().map(output).collect();
        let mut text = format!("SELECT {} FROM {}", outputs.join(", "), Name(&self.table));
        if let Some(filter) = &self.filter {
            text += &format!(" WHERE {}", filter.text(schema));
        }
        if !self.group_by.is_empty() {
            text += &format!(" GROUP BY {}", listed(&self.group_by));
        }
        if let Some(having) = &self.having {
            text += &format!(" HAVING {}", having.text(schema));
        }
        for (index, order) in self.order_by.iter().enumerate() {
            text += if index == 0 { " ORDER BY " } else { ", " };
            text += &order.term.text(schema);
            text += if order.descending { " DESC" } else { " ASC" };
            text += if order.nulls_first { " NULLS FIRST" } else { " NULLS LAST" };
        }
        if let Some(limit) = self.limit {
            text += &format!(" LIMIT {limit}");
        }
        text
    }
}

struct Shown<'a> {
    term: &'a Term,
    schema: Option<&'a Schema>,
}

impl Display for Shown<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let schema = self.schema;
        fn shown<'b>(term: &'b Term, schema: Option<&'b Schema>) -> Shown<'b> {
            Shown { term, schema }
        }
        let list = |f: &mut Formatter<'_>, terms: &[Term], between: &str| {
            for (index, term) in terms.iter().enumerate() {
                write!(f, "{}{}", if index == 0 { "" } else { between }, shown(term, schema))?;
            }
            Ok(())
        };
        match self.term {
            Term::Column(ColumnName::Name(name)) => {
                let known = self.schema.and_then(|schema| Some(&schema.columns()[schema.find(name)?].name));
                write!(f, "{}", Name(known.unwrap_or(name)))
            }
            Term::Column(ColumnName::Index(index)) => {
                match self.schema.and_then(|schema| schema.columns().get(usize::from(*index))) {
                    Some(column) => write!(f, "{}", Name(&column.name)),
                    None => write!(f, "#{index}"),
                }
            }
            Term::Literal(literal) => literal.fmt(f),
            Term::Compare(comparison, sides) => {
                write!(
                    f,
                    "({} {} {})",
                    shown(&sides[0], schema),
                    comparison.symbol(),
                    shown(&sides[1], schema)
                )
            }
            Term::Arithmetic(arithmetic, sides) => {
                write!(
                    f,
                    "({} {} {})",
                    shown(&sides[0], schema),
                    arithmetic.symbol(),
                    shown(&sides[1], schema)
                )
            }
            Term::And(terms) | Term::Or(terms) => {
                let between = if matches!(self.term, Term::And(_)) { " AND " } else { " OR " };
                f.write_str("(")?;
                list(f, terms, between)?;
                f.write_str(")")
            }
            Term::Not(term) => write!(f, "(NOT {})", shown(term, schema)),
            Term::Negate(term) => write!(f, "(-{})", shown(term, schema)),
            Term::Between(parts) => {
                write!(
                    f,
                    "({} BETWEEN {} AND {})",
                    shown(&parts[0], schema),
                    shown(&parts[1], schema),
                    shown(&parts[2], schema)
                )
            }
            Term::InList(term, terms) => {
                write!(f, "({} IN (", shown(term, schema))?;
                list(f, terms, ", ")?;
                f.write_str("))")
            }
            Term::Like { text, pattern, escape } => {
                write!(f, "({} LIKE {}", shown(text, schema), Quoted(pattern))?;
                match escape {
                    Some(escape) => write!(f, " ESCAPE {})", Quoted(&escape.to_string())),
                    None => f.write_str(")"),
                }
            }
            Term::IsNull(term) => write!(f, "({} IS NULL)", shown(term, schema)),
            Term::Case { arms, otherwise } => {
                f.write_str("CASE")?;
                for (when, then) in arms {
                    write!(f, " WHEN {} THEN {}", shown(when, schema), shown(then, schema))?;
                }
                if let Some(otherwise) = otherwise {
                    write!(f, " ELSE {}", shown(otherwise, schema))?;
                }
                f.write_str(" END")
            }
            Term::Cast(term, column_type) => write!(f, "CAST({} AS {column_type})", shown(term, schema)),
            Term::Aggregate(function, Some(term)) => {
                write!(f, "{}({})", function.name(), shown(term, schema))
            }
            Term::Aggregate(function, None) => write!(f, "{}(*)", function.name()),
        }
    }
}

impl Display for Literal {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::Null => f.write_str("NULL"),
            Self::Bool(value) => f.write_str(if *value { "TRUE" } else { "FALSE" }),
            Self::Integer(value) => write!(f, "{value}"),
            Self::Decimal { unscaled, precision, scale } => {
                let digits = format!("{:0>1$}", unscaled.unsigned_abs(), usize::from(*precision));
                let (whole, fraction) = digits.split_at(digits.len() - usize::from(*scale));
                write!(f, "{}{whole}.{fraction}", if *unscaled < 0 { "-" } else { "" })
            }
            Self::Double(value) if value.is_finite() => write!(f, "{value:e}"),
            Self::Double(value) => write!(f, "{}1e999", if *value < 0.0 { "-" } else { "" }),
            Self::Text(text) => write!(f, "{}", Quoted(text)),
            Self::Date(days) => write!(f, "DATE '{}'", Day(*days)),
            Self::Timestamp(micros) => {
                let (day, time) = (micros.div_euclid(MICROS_PER_DAY), micros.rem_euclid(MICROS_PER_DAY));
                let (seconds, micros) = (time / 1_000_000, time % 1_000_000);
                let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
                // The days of any timestamp fit into 32 bits.
                write!(f, "TIMESTAMP '{} {hour:02}:{minute:02}:{second:02}.{micros:06}'", Day(day as i32))
            }
            Self::Interval(Interval { months, days: 0, micros: 0 }) => write!(f, "INTERVAL '{months}' MONTH"),
            Self::Interval(Interval { months: 0, days, micros: 0 }) => write!(f, "INTERVAL '{days}' DAY"),
            Self::Interval(Interval { micros, .. }) => write!(f, "INTERVAL '{micros}' MICROSECOND"),
        }
    }
}

struct Day(i32);

impl Display for Day {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let (year, month, day) = civil(self.0);
        write!(f, "{year:04}-{month:02}-{day:02}")
    }
}

/// An identifier, quoted if SQL would otherwise read it as something else.
struct Name<'a>(&'a str);

impl Display for Name<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let plain = self.0.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            && self.0.bytes().next().is_some_and(|first| !first.is_ascii_digit());
        let keyword =
            sqlparser::keywords::ALL_KEYWORDS.binary_search(&self.0.to_uppercase().as_str()).is_ok();
        match plain && !keyword {
            true => f.write_str(self.0),
            false => write!(f, "\"{}\"", self.0.replace('"', "\"\"")),
        }
    }
}

struct Quoted<'a>(&'a str);

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "'{}'", self.0.replace('\'', "''"))
    }
}
