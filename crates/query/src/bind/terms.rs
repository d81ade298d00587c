//! Binds terms: resolves names and types, and produces typed expressions.

use super::narrow;
use super::rules::{self, Types};
use crate::calendar::{self, MICROS_PER_DAY};
use crate::error::{QueryError, refuse};
use crate::eval;
use crate::expr::{Aggregate, Expr, ExprKind};
use crate::like::Pattern;
use crate::schema::{ColumnType, Schema};
use crate::statement::{
    AggregateFunction, Arithmetic, ColumnName, Comparison, DEPTH_MAX, Interval, Literal, Term,
};
use crate::value::Value;

/// Upper limit of the nodes of a query's expressions. BETWEEN duplicates its value, so nested ones grow exponentially.
const NODES_MAX: usize = 65_536;

/// A bound term before its context is known: a constant takes the type of the other operand.
enum Bound {
    Typed(Expr),
    Null,
    Integer(i128),
    Text(String),
    Interval(Interval),
}

pub(crate) struct Binder<'a> {
    schema: &'a Schema,
    table: &'a str,
    nodes: usize,
    /// The GROUP BY keys, once bound. From then on terms refer to groups.
    pub keys: Option<Vec<Expr>>,
    pub aggregates: Vec<Aggregate>,
}

/// Whether a term contains an aggregate.
pub(crate) fn has_aggregate(term: &Term) -> bool {
    matches!(term, Term::Aggregate(..)) || term.children().into_iter().any(has_aggregate)
}

impl<'a> Binder<'a> {
    pub fn new(schema: &'a Schema, table: &'a str) -> Self {
        Self { schema, table, nodes: 0, keys: None, aggregates: Vec::new() }
    }

    pub fn schema(&self) -> &'a Schema {
        self.schema
    }

    /// Binds a term to an expression. A constant without context gets the type that it has in a result.
    pub fn value(&mut self, term: &Term) -> Result<Expr, QueryError> {
        let bound = self.bind(term, 0)?;
        alone(bound)
    }

    /// Binds a term to a boolean expression.
    pub fn condition(&mut self, term: &Term, construct: &str) -> Result<Expr, QueryError> {
        self.boolean(term, 0, construct)
    }

    fn boolean(&mut self, term: &Term, depth: usize, construct: &str) -> Result<Expr, QueryError> {
        let expr = match self.bind(term, depth)? {
            Bound::Null => Expr::constant(Value::Null, ColumnType::Bool),
            bound => alone(bound)?,
        };
        expect_bool(&expr, construct)?;
        Ok(expr)
    }

    fn count(&mut self, nodes: usize) -> Result<(), QueryError> {
        self.nodes += nodes;
        match self.nodes > NODES_MAX {
            true => {
                let (found, max) = (self.nodes as u64, NODES_MAX as u64);
                Err(QueryError::Limit { what: "nodes of a query's expressions", found, max })
            }
            false => Ok(()),
        }
    }

    fn bind(&mut self, term: &Term, depth: usize) -> Result<Bound, QueryError> {
        if depth > DEPTH_MAX {
            let (found, max) = (depth as u64, DEPTH_MAX as u64);
            return Err(QueryError::Limit { what: "levels of an expression", found, max });
        }
        self.count(1)?;
        if let Term::Literal(literal) = term {
            return Ok(bind_literal(literal));
        }
        if let Term::Aggregate(function, argument) = term {
            return self.aggregate(*function, argument.as_deref(), depth);
        }
        // In a query with groups a term must be a key, or consist of keys, aggregates and constants.
        if self.keys.is_some() && !has_aggregate(term) {
            let keys = self.keys.take();
            let bound = self.bind(term, depth);
            self.keys = keys;
            if let Bound::Typed(expr) = bound? {
                let keys = self.keys.as_deref().unwrap_or_default();
                if let Some(index) = keys.iter().position(|key| *key == expr) {
                    return Ok(Bound::Typed(Expr::column(index, expr.column_type)));
                }
                if matches!(expr.kind, ExprKind::Constant(_)) {
                    return Ok(Bound::Typed(expr));
                }
            }
            if let Term::Column(column) = term {
                let name = match column {
                    ColumnName::Name(name) => name.chars().take(40).collect(),
                    ColumnName::Index(index) => self.schema.columns()[usize::from(*index)].name.clone(),
                };
                let problem = "must be a key of GROUP BY or part of an aggregate".to_owned();
                return Err(QueryError::Misplaced { construct: format!("column {name:?}"), problem });
            }
        }
        self.bind_parts(term, depth)
    }

    fn bind_parts(&mut self, term: &Term, depth: usize) -> Result<Bound, QueryError> {
        let below = depth + 1;
        let typed = |kind, column_type| Ok(Bound::Typed(fold(Expr { kind, column_type })));
        match term {
            Term::Literal(_) | Term::Aggregate(..) => unreachable!("bound by the caller"),
            Term::Column(column) => {
                let index = self.find(column)?;
                Ok(Bound::Typed(Expr::column(index, self.schema.columns()[index].column_type)))
            }
            Term::Compare(comparison, sides) => {
                let (left, right) = (self.bind(&sides[0], below)?, self.bind(&sides[1], below)?);
                Ok(Bound::Typed(compare(*comparison, left, right)?))
            }
            Term::And(terms) | Term::Or(terms) => {
                let and = matches!(term, Term::And(_));
                let construct = if and { "AND" } else { "OR" };
                let bound = terms.iter().map(|term| self.boolean(term, below, construct));
                let terms = bound.collect::<Result<Vec<_>, _>>()?;
                typed(if and { ExprKind::And(terms) } else { ExprKind::Or(terms) }, ColumnType::Bool)
            }
            Term::Not(inner) => {
                let inner = self.boolean(inner, below, "NOT")?;
                typed(ExprKind::Not(Box::new(inner)), ColumnType::Bool)
            }
            Term::Negate(inner) => match self.bind(inner, below)? {
                Bound::Null => Ok(Bound::Null),
                bound => {
                    let inner = alone(bound)?;
                    let column_type = inner.column_type;
                    if !rules::is_numeric(column_type) {
                        return Err(type_error("-", &[column_type], "the operand must be a number"));
                    }
                    typed(ExprKind::Negate(Box::new(inner)), column_type)
                }
            },
            Term::Arithmetic(operation, sides) => {
                let (left, right) = (self.bind(&sides[0], below)?, self.bind(&sides[1], below)?);
                arithmetic(*operation, left, right)
            }
            Term::Between(parts) => {
                // The value is bound twice. Nested in itself it would be bound 2^depth times, which the node limit ends.
                let [value, again] = [self.bind(&parts[0], below)?, self.bind(&parts[0], below)?];
                let [low, high] = [self.bind(&parts[1], below)?, self.bind(&parts[2], below)?];
                // DuckDB unifies all three types: a FLOAT between a decimal and a DOUBLE is compared with both as DOUBLE.
                let Some(column_type) = unify("BETWEEN", [&value, &low, &high].into_iter())? else {
                    return Ok(Bound::Typed(Expr::constant(Value::Null, ColumnType::Bool)));
                };
                let at_least = compare_as(Comparison::Ge, column_type, value, low)?;
                let at_most = compare_as(Comparison::Le, column_type, again, high)?;
                typed(ExprKind::And(vec![at_least, at_most]), ColumnType::Bool)
            }
            Term::InList(value, list) => {
                let value = self.bind(value, below)?;
                let list = list.iter().map(|item| self.bind(item, below)).collect::<Result<Vec<_>, _>>()?;
                in_list(value, list).map(Bound::Typed)
            }
            Term::Like { text, pattern, escape } => {
                let pattern = Pattern::new(pattern, *escape)?;
                let text = match self.bind(text, below)? {
                    Bound::Null => Expr::constant(Value::Null, ColumnType::Utf8),
                    bound => alone(bound)?,
                };
                if text.column_type != ColumnType::Utf8 {
                    return Err(type_error("LIKE", &[text.column_type], "the operand must be a string"));
                }
                typed(ExprKind::Like(Box::new(text), pattern), ColumnType::Bool)
            }
            Term::IsNull(inner) => {
                let inner = self.bind(inner, below)?;
                let inner = alone(inner)?;
                typed(ExprKind::IsNull(Box::new(inner)), ColumnType::Bool)
            }
            Term::Case { arms, otherwise } => self.case(arms, otherwise.as_deref(), below),
            Term::Cast(inner, column_type) => {
                let inner = self.bind(inner, below)?;
                explicit_cast(inner, *column_type).map(Bound::Typed)
            }
        }
    }

    fn find(&self, column: &ColumnName) -> Result<usize, QueryError> {
        let (index, name) = match column {
            ColumnName::Name(name) => (self.schema.find(name), name.chars().take(40).collect()),
            ColumnName::Index(index) => {
                let index = usize::from(*index);
                ((index < self.schema.columns().len()).then_some(index), format!("#{index}"))
            }
        };
        index.ok_or_else(|| {
            let mut columns: Vec<&str> =
                self.schema.columns().iter().take(20).map(|column| column.name.as_str()).collect();
            if self.schema.columns().len() > columns.len() {
                columns.push("...");
            }
            QueryError::UnknownColumn { table: self.table.to_owned(), name, columns: columns.join(", ") }
        })
    }

    fn case(
        &mut self,
        arms: &[(Term, Term)],
        otherwise: Option<&Term>,
        depth: usize,
    ) -> Result<Bound, QueryError> {
        let mut conditions = Vec::with_capacity(arms.len());
        let mut values = Vec::with_capacity(arms.len() + 1);
        for (condition, value) in arms {
            conditions.push(self.boolean(condition, depth, "CASE")?);
            values.push(self.bind(value, depth)?);
        }
        values.push(match otherwise {
            Some(value) => self.bind(value, depth)?,
            None => Bound::Null,
        });
        let Some(column_type) = unify("CASE", values.iter())? else { return Ok(Bound::Null) };
        let mut values =
            values.into_iter().map(|value| cast(value, column_type)).collect::<Result<Vec<_>, _>>()?;
        let otherwise = values.pop().unwrap_or_else(|| Expr::constant(Value::Null, column_type));
        let arms = conditions.into_iter().zip(values).collect();
        let kind = ExprKind::Case { arms, otherwise: Box::new(otherwise) };
        Ok(Bound::Typed(fold(Expr { kind, column_type })))
    }

    fn aggregate(
        &mut self,
        function: AggregateFunction,
        argument: Option<&Term>,
        depth: usize,
    ) -> Result<Bound, QueryError> {
        let Some(keys) = self.keys.take() else {
            let problem = "not allowed in WHERE, in a key or in another aggregate".to_owned();
            return Err(QueryError::Misplaced {
                construct: format!("aggregate {}", function.name()),
                problem,
            });
        };
        let argument = argument.map(|term| self.bind(term, depth + 1).and_then(alone)).transpose();
        let first = keys.len();
        self.keys = Some(keys);
        let argument = argument?;
        let column_type = match (function, argument.as_ref().map(|argument| argument.column_type)) {
            (AggregateFunction::CountRows | AggregateFunction::Count, _) => ColumnType::Int64,
            (AggregateFunction::Min | AggregateFunction::Max, Some(column_type)) => column_type,
            (AggregateFunction::Sum, Some(column_type)) => match column_type {
                ColumnType::Float32 | ColumnType::Float64 => ColumnType::Float64,
                ColumnType::Decimal { scale, .. } => {
                    ColumnType::Decimal { precision: crate::schema::PRECISION_MAX, scale }
                }
                other if other.integer_bits().is_some() => ColumnType::HugeInt,
                other => return Err(refuse(format!("sum of {other}"), "the argument must be a number")),
            },
            (AggregateFunction::Avg, Some(column_type)) if rules::is_numeric(column_type) => {
                ColumnType::Float64
            }
            (_, Some(other)) => {
                return Err(refuse(format!("avg of {other}"), "the argument must be a number"));
            }
            (_, None) => {
                let problem = "takes one argument".to_owned();
                return Err(QueryError::Misplaced { construct: function.name().to_owned(), problem });
            }
        };
        let aggregate = Aggregate { function, argument, column_type };
        let index = self.aggregates.iter().position(|known| *known == aggregate).unwrap_or_else(|| {
            self.aggregates.push(aggregate);
            self.aggregates.len() - 1
        });
        Ok(Bound::Typed(Expr::column(first + index, column_type)))
    }
}

fn bind_literal(literal: &Literal) -> Bound {
    let typed = |value, column_type| Bound::Typed(Expr::constant(value, column_type));
    match literal {
        Literal::Null => Bound::Null,
        Literal::Bool(value) => typed(Value::Bool(*value), ColumnType::Bool),
        Literal::Integer(value) => Bound::Integer(*value),
        Literal::Decimal { unscaled, precision, scale } => typed(
            Value::Integer(*unscaled),
            ColumnType::Decimal { precision: (*precision).max(1), scale: *scale },
        ),
        Literal::Double(value) => typed(Value::Float(*value), ColumnType::Float64),
        Literal::Text(text) => Bound::Text(text.clone()),
        Literal::Date(days) => typed(Value::Integer((*days).into()), ColumnType::Date),
        Literal::Timestamp(micros) => typed(Value::Integer((*micros).into()), ColumnType::Timestamp),
        Literal::Interval(interval) => Bound::Interval(*interval),
    }
}

fn alone(bound: Bound) -> Result<Expr, QueryError> {
    Ok(match bound {
        Bound::Typed(expr) => expr,
        // DuckDB gives NULL in a result the type INTEGER as well.
        Bound::Null => Expr::constant(Value::Null, ColumnType::Int32),
        Bound::Integer(value) => Expr::constant(Value::Integer(value), rules::integer_literal(value)),
        Bound::Text(text) => Expr::constant(Value::Text(text), ColumnType::Utf8),
        Bound::Interval(_) => {
            return Err(refuse("INTERVAL as a value", "an interval can only be added to a constant date"));
        }
    })
}

fn type_error(construct: &str, found: &[ColumnType], why: &str) -> QueryError {
    let found: Vec<String> = found.iter().map(ColumnType::to_string).collect();
    QueryError::Type { construct: construct.to_owned(), found: found.join(" and "), why: why.to_owned() }
}

/// The common type of several values; `None` if all are NULL.
fn unify<'b>(
    construct: &str,
    bounds: impl Iterator<Item = &'b Bound> + Clone,
) -> Result<Option<ColumnType>, QueryError> {
    let mut all: Option<ColumnType> = None;
    let mut join = |next: ColumnType| {
        let joined = match all {
            None => Some(next),
            Some(before) => rules::common(before, next)?,
        };
        let Some(joined) = joined else {
            let found = [all.unwrap_or(next), next];
            let both = format!("{construct} of {} and {}", found[0], found[1]);
            return Err(refuse(both, "operands must be numbers or of one type"));
        };
        all = Some(joined);
        Ok(())
    };
    for bound in bounds.clone() {
        match bound {
            Bound::Typed(expr) => join(expr.column_type)?,
            Bound::Interval(_) => {
                return Err(refuse(
                    "INTERVAL as a value",
                    "an interval can only be added to a constant date",
                ));
            }
            _ => {}
        }
    }
    // Integer constants take the common type if it holds them, else their own.
    for bound in bounds.clone() {
        if let Bound::Integer(value) = bound {
            let held = all_range(all).is_some_and(|(low, high)| (low..=high).contains(value));
            if !held {
                let own = rules::integer_literal(*value);
                all = match all {
                    None => Some(own),
                    Some(before) => Some(rules::common(before, own)?.ok_or_else(|| {
                        let both = format!("{construct} of {before} and {own}");
                        refuse(both, "operands must be numbers or of one type")
                    })?),
                };
            }
        }
    }
    // String constants take the type of the other operands.
    if all.is_none() && bounds.clone().any(|bound| matches!(bound, Bound::Text(_))) {
        all = Some(ColumnType::Utf8);
    }
    Ok(all)
}

fn all_range(column_type: Option<ColumnType>) -> Option<(i128, i128)> {
    column_type.and_then(ColumnType::integer_range)
}

/// Casts a value to the type that the rules determine.
fn cast(bound: Bound, column_type: ColumnType) -> Result<Expr, QueryError> {
    match bound {
        Bound::Null => Ok(Expr::constant(Value::Null, column_type)),
        Bound::Text(text) => text_as(&text, column_type),
        Bound::Integer(value)
            if all_range(Some(column_type)).is_some_and(|(l, h)| (l..=h).contains(&value)) =>
        {
            Ok(Expr::constant(Value::Integer(value), column_type))
        }
        bound => Ok(cast_expr(alone(bound)?, column_type)),
    }
}

fn cast_expr(expr: Expr, column_type: ColumnType) -> Expr {
    if expr.column_type == column_type {
        return expr;
    }
    fold(Expr { kind: ExprKind::Cast(Box::new(expr)), column_type })
}

fn text_as(text: &str, column_type: ColumnType) -> Result<Expr, QueryError> {
    let value = match column_type {
        ColumnType::Utf8 => Value::Text(text.to_owned()),
        ColumnType::Date => Value::Integer(calendar::parse_date(text)?.into()),
        ColumnType::Timestamp => Value::Integer(calendar::parse_timestamp(text)?.into()),
        other => {
            return Err(refuse(
                format!("text as {other}"),
                "strings compare with strings, dates and timestamps",
            ));
        }
    };
    Ok(Expr::constant(value, column_type))
}

fn explicit_cast(bound: Bound, column_type: ColumnType) -> Result<Expr, QueryError> {
    match bound {
        Bound::Null => Ok(Expr::constant(Value::Null, column_type)),
        Bound::Text(text) => text_as(&text, column_type),
        bound => {
            let expr = alone(bound)?;
            match rules::can_cast(expr.column_type, column_type) {
                true => Ok(cast_expr(expr, column_type)),
                false => {
                    let both = format!("CAST of {} to {column_type}", expr.column_type);
                    Err(refuse(
                        both,
                        "supported casts are between integers, decimals and dates, and to floating-point types",
                    ))
                }
            }
        }
    }
}

fn compare(comparison: Comparison, left: Bound, right: Bound) -> Result<Expr, QueryError> {
    let Some(column_type) = unify(comparison.symbol(), [&left, &right].into_iter())? else {
        return Ok(Expr::constant(Value::Null, ColumnType::Bool));
    };
    compare_as(comparison, column_type, left, right)
}

fn compare_as(
    comparison: Comparison,
    column_type: ColumnType,
    left: Bound,
    right: Bound,
) -> Result<Expr, QueryError> {
    let sides = [cast(left, column_type)?, cast(right, column_type)?];
    let kind = narrow::compare(comparison, sides);
    Ok(fold(Expr { kind, column_type: ColumnType::Bool }))
}

/// Checks that a condition is boolean.
fn expect_bool(expr: &Expr, construct: &str) -> Result<(), QueryError> {
    match expr.column_type {
        ColumnType::Bool => Ok(()),
        other => Err(refuse(format!("{construct} of a {other}"), "a condition must be boolean")),
    }
}

fn in_list(value: Bound, list: Vec<Bound>) -> Result<Expr, QueryError> {
    let column_type = unify("IN", std::iter::once(&value).chain(&list))?;
    let Some(column_type) = column_type else {
        return Ok(Expr::constant(Value::Null, ColumnType::Bool));
    };
    let value = cast(value, column_type)?;
    let (mut values, mut with_null) = (Vec::with_capacity(list.len()), false);
    for item in list {
        match cast(item, column_type)?.kind {
            ExprKind::Constant(Value::Null) => with_null = true,
            ExprKind::Constant(value) => values.push(value),
            _ => return Err(refuse("IN with an expression", "list elements must be constants")),
        }
    }
    values.sort_by(Value::order);
    values.dedup_by(|a, b| a.order(b).is_eq());
    let kind = ExprKind::InList { value: Box::new(value), list: values, with_null };
    Ok(fold(Expr { kind, column_type: ColumnType::Bool }))
}

fn arithmetic(operation: Arithmetic, left: Bound, right: Bound) -> Result<Bound, QueryError> {
    let (left, right) = match (left, right) {
        (left, Bound::Interval(interval)) => return shifted(operation, left, interval),
        (Bound::Interval(interval), right) if operation == Arithmetic::Add => {
            return shifted(operation, right, interval);
        }
        (Bound::Interval(_), _) => {
            return Err(refuse("arithmetic of INTERVAL", "an interval can only be added to a constant date"));
        }
        sides => sides,
    };
    // NULL has no type of its own: it takes that of the other operand.
    let (left, right) = match (left, right) {
        (Bound::Null, Bound::Null) => return Ok(Bound::Null),
        (Bound::Null, Bound::Typed(other)) | (Bound::Typed(other), Bound::Null) => {
            let types = rules::arithmetic(operation, other.column_type, other.column_type)?;
            return Ok(Bound::Typed(Expr::constant(Value::Null, types.result)));
        }
        (Bound::Null, _) | (_, Bound::Null) => return Ok(Bound::Null),
        sides => sides,
    };
    let own = |bound: &Bound, other: &Bound| match (bound, other) {
        (Bound::Typed(expr), _) => Ok(expr.column_type),
        (Bound::Integer(value), Bound::Typed(other)) => {
            let held = all_range(Some(other.column_type)).is_some_and(|(l, h)| (l..=h).contains(value));
            Ok(if held { other.column_type } else { rules::integer_literal(*value) })
        }
        (Bound::Integer(value), _) => Ok(rules::integer_literal(*value)),
        _ => Err(refuse("arithmetic of text", "operands must be numbers")),
    };
    let (a, b) = (own(&left, &right)?, own(&right, &left)?);
    let dates = |column_type| matches!(column_type, ColumnType::Date | ColumnType::Timestamp);
    if dates(a) || dates(b) {
        return Err(refuse(
            format!("{a} {} {b}", operation.symbol()),
            "an interval can only be added to a constant date",
        ));
    }
    let Types { left: left_type, right: right_type, result } = rules::arithmetic(operation, a, b)?;
    let sides = Box::new([cast(left, left_type)?, cast(right, right_type)?]);
    Ok(Bound::Typed(fold(Expr { kind: ExprKind::Arithmetic(operation, sides), column_type: result })))
}

/// Adds an interval to a constant date or timestamp. The result is a timestamp, as in DuckDB.
fn shifted(operation: Arithmetic, bound: Bound, interval: Interval) -> Result<Bound, QueryError> {
    let Bound::Typed(Expr { kind: ExprKind::Constant(value), column_type }) = bound else {
        return Err(refuse(
            "INTERVAL added to an expression",
            "an interval can only be added to a constant date",
        ));
    };
    let interval = match operation {
        Arithmetic::Add => Some(interval),
        Arithmetic::Subtract => negative(interval),
        _ => {
            return Err(refuse("arithmetic of INTERVAL", "an interval can only be added to a constant date"));
        }
    };
    let micros = match (value, column_type) {
        (Value::Null, _) => return Ok(Bound::Typed(Expr::constant(Value::Null, ColumnType::Timestamp))),
        (Value::Integer(days), ColumnType::Date) => i64::try_from(days * i128::from(MICROS_PER_DAY)).ok(),
        (Value::Integer(micros), ColumnType::Timestamp) => i64::try_from(micros).ok(),
        (_, other) => {
            return Err(type_error("INTERVAL", &[other], "an interval can only be added to a constant date"));
        }
    };
    let shifted = micros.zip(interval).and_then(|(micros, interval)| calendar::add(micros, interval));
    let shifted = shifted.ok_or(QueryError::Overflow {
        operation: "addition of an interval",
        column_type: ColumnType::Timestamp,
    })?;
    Ok(Bound::Typed(Expr::constant(Value::Integer(shifted.into()), ColumnType::Timestamp)))
}

fn negative(interval: Interval) -> Option<Interval> {
    Some(Interval {
        months: interval.months.checked_neg()?,
        days: interval.days.checked_neg()?,
        micros: interval.micros.checked_neg()?,
    })
}

/// Folds an expression of constants. One whose evaluation fails stays, and fails at run time if it is reached.
fn fold(expr: Expr) -> Expr {
    let constant = |expr: &Expr| matches!(expr.kind, ExprKind::Constant(_));
    let foldable = match &expr.kind {
        ExprKind::Column(_) | ExprKind::Constant(_) => false,
        ExprKind::Compare(_, sides) | ExprKind::Arithmetic(_, sides) => sides.iter().all(constant),
        ExprKind::And(terms) | ExprKind::Or(terms) => terms.iter().all(constant),
        ExprKind::Not(inner)
        | ExprKind::Negate(inner)
        | ExprKind::Like(inner, _)
        | ExprKind::IsNull(inner)
        | ExprKind::Cast(inner)
        | ExprKind::InList { value: inner, .. } => constant(inner),
        ExprKind::Case { arms, otherwise } => {
            arms.iter().all(|(when, then)| constant(when) && constant(then)) && constant(otherwise)
        }
    };
    if !foldable {
        return expr;
    }
    match eval::constant(&expr) {
        Ok(value) => Expr::constant(value, expr.column_type),
        Err(_) => expr,
    }
}
