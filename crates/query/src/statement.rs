//! Parsed queries, not yet bound to a schema: the result of the SQL parser, and what the compact form encodes.
//!
//! Chains of AND and OR are flat, so that their length does not add depth.

mod text;

use crate::schema::ColumnType;

/// Upper limit of a task in bytes, in any form.
pub const TASK_BYTES_MAX: usize = 64 * 1024;

/// Upper limit of a term's depth, which bounds the recursion of parsing, evaluation and drop.
pub const DEPTH_MAX: usize = 64;
/// Upper limit of a statement's terms, including the constants of lists.
pub const TERMS_MAX: usize = 16_384;

/// A query over one table.
#[derive(Debug, Clone, PartialEq)]
pub struct Statement {
    /// Table name.
    pub table: String,
    /// Outputs of SELECT.
    pub outputs: Vec<Output>,
    /// WHERE.
    pub filter: Option<Term>,
    /// GROUP BY: terms, or output positions as integers from 1.
    pub group_by: Vec<Term>,
    /// HAVING.
    pub having: Option<Term>,
    /// ORDER BY: outputs by name or position, and terms that are also outputs.
    pub order_by: Vec<Order>,
    /// LIMIT: maximum number of result rows.
    pub limit: Option<u64>,
}

impl Statement {
    /// `SELECT * FROM table`.
    pub fn all(table: impl Into<String>) -> Self {
        Self {
            table: table.into(),
            outputs: vec![Output::Star],
            filter: None,
            group_by: Vec::new(),
            having: None,
            order_by: Vec::new(),
            limit: None,
        }
    }
}

/// An item of the SELECT list.
#[derive(Debug, Clone, PartialEq)]
pub enum Output {
    /// `*`: all columns of the table.
    Star,
    /// A value with its name: an alias, or the value's SQL text, which an empty name stands for.
    Term {
        /// Value.
        term: Term,
        /// Name in the result.
        name: String,
    },
}

/// A term of ORDER BY.
#[derive(Debug, Clone, PartialEq)]
pub struct Order {
    /// Sort key.
    pub term: Term,
    /// Whether the order is descending.
    pub descending: bool,
    /// Whether nulls come first. The default is last in both directions, as in DuckDB.
    pub nulls_first: bool,
}

/// Reference to a column: by name in SQL, or by index, which the compact form allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ColumnName {
    /// Column by name, ignoring case.
    Name(String),
    /// Column by index in the schema.
    Index(u16),
}

/// A literal.
#[derive(Debug, Clone, PartialEq)]
pub enum Literal {
    /// NULL.
    Null,
    /// TRUE, FALSE.
    Bool(bool),
    /// Integer, digits without a point.
    Integer(i128),
    /// Decimal with the precision and scale as written.
    Decimal {
        /// Digits of the number, without the decimal point, as an integer.
        unscaled: i128,
        /// Total number of digits.
        precision: u8,
        /// Digits after the point.
        scale: u8,
    },
    /// A number with an exponent, or with too many digits for a decimal.
    Double(f64),
    /// Quoted string. It takes the type of the other operand.
    Text(String),
    /// DATE '...': days since 1970-01-01.
    Date(i32),
    /// TIMESTAMP '...': microseconds since 1970-01-01T00:00.
    Timestamp(i64),
    /// INTERVAL ...: can only be added to dates and timestamps.
    Interval(Interval),
}

/// A calendar interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Interval {
    /// Months, of varying length.
    pub months: i32,
    /// Days.
    pub days: i32,
    /// Microseconds.
    pub micros: i64,
}

/// Comparison operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// =
    Eq,
    /// <>
    Ne,
    /// <
    Lt,
    /// <=
    Le,
    /// >
    Gt,
    /// >=
    Ge,
}

impl Comparison {
    /// All operators, in the order of their codes in the compact form.
    pub const ALL: [Comparison; 6] = [Self::Eq, Self::Ne, Self::Lt, Self::Le, Self::Gt, Self::Ge];

    /// The operator with exchanged operands.
    pub fn flipped(self) -> Self {
        match self {
            Self::Lt => Self::Gt,
            Self::Le => Self::Ge,
            Self::Gt => Self::Lt,
            Self::Ge => Self::Le,
            same => same,
        }
    }

    /// Whether the comparison holds for operands in this order.
    pub fn holds(self, order: std::cmp::Ordering) -> bool {
        match self {
            Self::Eq => order.is_eq(),
            Self::Ne => order.is_ne(),
            Self::Lt => order.is_lt(),
            Self::Le => order.is_le(),
            Self::Gt => order.is_gt(),
            Self::Ge => order.is_ge(),
        }
    }

    /// SQL symbol.
    pub fn symbol(self) -> &'static str {
        match self {
            Self::Eq => "=",
            Self::Ne => "<>",
            Self::Lt => "<",
            Self::Le => "<=",
            Self::Gt => ">",
            Self::Ge => ">=",
        }
    }
}

/// Arithmetic operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arithmetic {
    /// +
    Add,
    /// -
    Subtract,
    /// *
    Multiply,
    /// /: the result is floating-point for all operands.
    Divide,
    /// //: integer division, rounded towards zero.
    DivideWhole,
    /// %: the result has the sign of the left operand.
    Remainder,
}

impl Arithmetic {
    /// All operators, in the order of their codes in the compact form.
    pub const ALL: [Arithmetic; 6] =
        [Self::Add, Self::Subtract, Self::Multiply, Self::Divide, Self::DivideWhole, Self::Remainder];

    /// SQL symbol.
    pub fn symbol(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::DivideWhole => "//",
            Self::Remainder => "%",
        }
    }
}

/// Aggregate function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AggregateFunction {
    /// COUNT(*): number of rows.
    CountRows,
    /// COUNT(x): number of non-null values.
    Count,
    /// SUM; null without values.
    Sum,
    /// MIN; null without values.
    Min,
    /// MAX; null without values.
    Max,
    /// AVG; null without values.
    Avg,
}

impl AggregateFunction {
    /// All functions, in the order of their codes in the compact form.
    pub const ALL: [AggregateFunction; 6] =
        [Self::CountRows, Self::Count, Self::Sum, Self::Min, Self::Max, Self::Avg];

    /// SQL name.
    pub fn name(self) -> &'static str {
        match self {
            Self::CountRows | Self::Count => "count",
            Self::Sum => "sum",
            Self::Min => "min",
            Self::Max => "max",
            Self::Avg => "avg",
        }
    }
}

/// An untyped expression of a query.
#[derive(Debug, Clone, PartialEq)]
pub enum Term {
    /// Column.
    Column(ColumnName),
    /// Literal.
    Literal(Literal),
    /// Comparison; null if an operand is null.
    Compare(Comparison, Box<[Term; 2]>),
    /// True if all are true, false if one is false, else null. At least two terms.
    And(Vec<Term>),
    /// False if all are false, true if one is true, else null. At least two terms.
    Or(Vec<Term>),
    /// NOT.
    Not(Box<Term>),
    /// -x.
    Negate(Box<Term>),
    /// Arithmetic; null if an operand is null.
    Arithmetic(Arithmetic, Box<[Term; 2]>),
    /// x BETWEEN low AND high, in this order.
    Between(Box<[Term; 3]>),
    /// x IN (...).
    InList(Box<Term>, Vec<Term>),
    /// x LIKE pattern, with a constant pattern: % matches any string, _ any character.
    Like {
        /// String.
        text: Box<Term>,
        /// Pattern.
        pattern: String,
        /// Escape character: the next character is literal. `None` without ESCAPE.
        escape: Option<char>,
    },
    /// IS NULL; never null itself.
    IsNull(Box<Term>),
    /// CASE WHEN condition THEN value ... ELSE otherwise END; the first true condition decides.
    Case {
        /// Conditions and values.
        arms: Vec<(Term, Term)>,
        /// Value if no condition is true; `None` is null.
        otherwise: Option<Box<Term>>,
    },
    /// CAST(x AS type); only casts that DuckDB also does implicitly, and those between integers and decimals.
    Cast(Box<Term>, ColumnType),
    /// Aggregate with its argument; COUNT(*) has none.
    Aggregate(AggregateFunction, Option<Box<Term>>),
}

impl Term {
    /// The direct operands.
    pub fn children(&self) -> Vec<&Term> {
        match self {
            Self::Column(_) | Self::Literal(_) | Self::Aggregate(_, None) => Vec::new(),
            Self::Compare(_, sides) | Self::Arithmetic(_, sides) => sides.iter().collect(),
            Self::And(terms) | Self::Or(terms) => terms.iter().collect(),
            Self::Not(term) | Self::Negate(term) | Self::IsNull(term) | Self::Cast(term, _) => vec![term],
            Self::Like { text, .. } => vec![text],
            Self::Aggregate(_, Some(term)) => vec![term],
            Self::Between(terms) => terms.iter().collect(),
            Self::InList(term, list) => std::iter::once(&**term).chain(list).collect(),
            Self::Case { arms, otherwise } => {
                arms.iter().flat_map(|(when, then)| [when, then]).chain(otherwise.as_deref()).collect()
            }
        }
    }

    /// Calls `change` for each column reference.
    pub(crate) fn columns_mut(&mut self, change: &mut impl FnMut(&mut ColumnName)) {
        match self {
            Self::Column(name) => change(name),
            Self::Literal(_) | Self::Aggregate(_, None) => {}
            Self::Compare(_, sides) | Self::Arithmetic(_, sides) => {
                sides.iter_mut().for_each(|side| side.columns_mut(change));
            }
            Self::And(terms) | Self::Or(terms) => terms.iter_mut().for_each(|term| term.columns_mut(change)),
            Self::Not(term)
            | Self::Negate(term)
            | Self::IsNull(term)
            | Self::Cast(term, _)
            | Self::Like { text: term, .. }
            | Self::Aggregate(_, Some(term)) => term.columns_mut(change),
            Self::Between(terms) => terms.iter_mut().for_each(|term| term.columns_mut(change)),
            Self::InList(term, list) => {
                term.columns_mut(change);
                list.iter_mut().for_each(|term| term.columns_mut(change));
            }
            Self::Case { arms, otherwise } => {
                for (when, then) in arms {
                    when.columns_mut(change);
                    then.columns_mut(change);
                }
                if let Some(otherwise) = otherwise {
                    otherwise.columns_mut(change);
                }
            }
        }
    }
}
