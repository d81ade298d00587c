//! Bound queries, ready for execution: columns resolved, types assigned, constants folded.

use crate::schema::ColumnType;
use crate::statement::{AggregateFunction, Arithmetic, Comparison};
use crate::value::Value;

/// A typed expression. Column indexes refer to the table, or, in a query with groups, to keys followed by aggregates.
#[derive(Debug, Clone, PartialEq)]
pub struct Expr {
    /// Operation and operands.
    pub kind: ExprKind,
    /// Type of the values.
    pub column_type: ColumnType,
}

/// An expression's operation. Operands of comparisons and arithmetic have the same type; all casts are explicit.
#[derive(Debug, Clone, PartialEq)]
pub enum ExprKind {
    /// Column by index.
    Column(usize),
    /// Constant.
    Constant(Value),
    /// Comparison of two operands.
    Compare(Comparison, Box<[Expr; 2]>),
    /// Conjunction.
    And(Vec<Expr>),
    /// Disjunction.
    Or(Vec<Expr>),
    /// Logical negation.
    Not(Box<Expr>),
    /// Arithmetic negation.
    Negate(Box<Expr>),
    /// Arithmetic on two operands.
    Arithmetic(Arithmetic, Box<[Expr; 2]>),
    /// Whether a value is in a list of constants, which is sorted and without duplicates.
    InList {
        /// The value to find.
        value: Box<Expr>,
        /// The list, without nulls.
        list: Vec<Value>,
        /// Whether the list also contains NULL: a value that is not found then gives null.
        with_null: bool,
    },
    /// Whether a string matches a pattern.
    Like(Box<Expr>, crate::like::Pattern),
    /// Whether the value is null.
    IsNull(Box<Expr>),
    /// Value of the first arm whose condition is true.
    Case {
        /// Conditions and values.
        arms: Vec<(Expr, Expr)>,
        /// Value if no condition is true.
        otherwise: Box<Expr>,
    },
    /// The value, converted to `column_type`.
    Cast(Box<Expr>),
}

impl Expr {
    /// A constant of this type.
    pub fn constant(value: Value, column_type: ColumnType) -> Self {
        Self { kind: ExprKind::Constant(value), column_type }
    }

    /// The column with this index.
    pub fn column(index: usize, column_type: ColumnType) -> Self {
        Self { kind: ExprKind::Column(index), column_type }
    }

    /// Calls `visit` with the index of each column in the expression.
    pub fn visit_columns(&self, visit: &mut impl FnMut(usize)) {
        match &self.kind {
            ExprKind::Column(index) => visit(*index),
            ExprKind::Constant(_) => {}
            ExprKind::Compare(_, sides) | ExprKind::Arithmetic(_, sides) => {
                sides.iter().for_each(|side| side.visit_columns(visit));
            }
            ExprKind::And(terms) | ExprKind::Or(terms) => {
                terms.iter().for_each(|term| term.visit_columns(visit));
            }
            ExprKind::Not(inner)
            | ExprKind::Negate(inner)
            | ExprKind::Like(inner, _)
            | ExprKind::IsNull(inner)
            | ExprKind::Cast(inner)
            | ExprKind::InList { value: inner, .. } => inner.visit_columns(visit),
            ExprKind::Case { arms, otherwise } => {
                for (when, then) in arms {
                    when.visit_columns(visit);
                    then.visit_columns(visit);
                }
                otherwise.visit_columns(visit);
            }
        }
    }
}

/// An aggregate function over a group's rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Aggregate {
    /// The function.
    pub function: AggregateFunction,
    /// Argument; `None` for COUNT(*).
    pub argument: Option<Expr>,
    /// Type of the result.
    pub column_type: ColumnType,
}

/// A column of the result.
#[derive(Debug, Clone, PartialEq)]
pub struct Output {
    /// Name.
    pub name: String,
    /// Value, over the table's columns, or over keys and aggregates in a query with groups.
    pub expr: Expr,
    /// Whether it can be null.
    pub nullable: bool,
}

/// GROUP BY with its aggregates.
#[derive(Debug, Clone, PartialEq)]
pub struct Grouping {
    /// Keys, over the table's columns. Without any, all rows form one group.
    pub keys: Vec<Expr>,
    /// Aggregates of each group.
    pub aggregates: Vec<Aggregate>,
    /// Condition on groups, over keys and aggregates.
    pub having: Option<Expr>,
}

/// A sort key of the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputOrder {
    /// Index of the output.
    pub output: usize,
    /// Whether the order is descending.
    pub descending: bool,
    /// Whether nulls come first.
    pub nulls_first: bool,
}

/// A query that can be executed.
#[derive(Debug, Clone, PartialEq)]
pub struct Query {
    /// Table name.
    pub table: String,
    /// Columns of the result.
    pub outputs: Vec<Output>,
    /// Condition on rows.
    pub filter: Option<Expr>,
    /// Grouping, if there is GROUP BY or an aggregate.
    pub grouping: Option<Grouping>,
    /// Sort keys; only for queries with groups.
    pub order_by: Vec<OutputOrder>,
    /// Maximum number of result rows.
    pub limit: Option<u64>,
}
