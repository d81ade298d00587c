//! Conversion of SQL expressions to terms.

use sqlparser::ast::{self, BinaryOperator, DataType, DateTimeField, ExactNumberInfo, UnaryOperator};

use crate::calendar;
use crate::error::{QueryError, refuse};
use crate::schema::{ColumnType, PRECISION_MAX};
use crate::sql::scope::Scope;
use crate::statement::{
    AggregateFunction, Arithmetic, ColumnName, Comparison, DEPTH_MAX, Interval, Literal, Term,
};

/// Names that can qualify a column.
#[derive(Debug, Default)]
pub(crate) struct Names<'a> {
    pub table: String,
    pub alias: Option<String>,
    /// Name resolution for a query that may have several tables.
    pub scope: Option<&'a Scope>,
}

pub(crate) fn convert(expr: &ast::Expr, names: &Names<'_>) -> Result<Term, QueryError> {
    Converter { names }.term(expr, 0)
}

struct Converter<'a> {
    names: &'a Names<'a>,
}

impl Converter<'_> {
    fn term(&self, expr: &ast::Expr, depth: usize) -> Result<Term, QueryError> {
        self.plain_term(expr, depth).inspect_err(|_| {
            if let Some(scope) = self.names.scope {
                scope.note(expr);
            }
        })
    }

    fn plain_term(&self, expr: &ast::Expr, depth: usize) -> Result<Term, QueryError> {
        if depth > DEPTH_MAX {
            let (found, max) = (depth as u64, DEPTH_MAX as u64);
            return Err(QueryError::Limit { what: "levels of an expression", found, max });
        }
        let boxed = |expr| self.term(expr, depth + 1).map(Box::new);
        let not = |negated: bool, term: Term| if negated { Term::Not(Box::new(term)) } else { term };
        // Converts IS TRUE and IS FALSE, whose result is never null.
        let truth = |condition: Term, if_true: bool| {
            let literal = |value| Term::Literal(Literal::Bool(value));
            Ok(Term::Case {
                arms: vec![(condition, literal(if_true))],
                otherwise: Some(Box::new(literal(!if_true))),
            })
        };
        match expr {
            // Parentheses do not add a level to the term.
            ast::Expr::Nested(inner) => self.term(inner, depth + 1),
            ast::Expr::Identifier(ident) => match self.names.scope {
                Some(scope) => scope.column(None, &ident.value),
                None => Ok(Term::Column(ColumnName::Name(ident.value.clone()))),
            },
            ast::Expr::CompoundIdentifier(parts) => self.qualified(parts),
            ast::Expr::Value(value) => literal(&value.value).map(Term::Literal),
            ast::Expr::TypedString(typed) => typed_literal(typed).map(Term::Literal),
            ast::Expr::Interval(interval) => self.interval(interval).map(Term::Literal),
            ast::Expr::BinaryOp { left, op, right } => self.binary(left, op, right, depth),
            ast::Expr::UnaryOp { op, expr } => match op {
                UnaryOperator::Not => Ok(Term::Not(boxed(expr)?)),
                UnaryOperator::Plus => self.term(expr, depth + 1),
                UnaryOperator::Minus => Ok(negate(self.term(expr, depth + 1)?)),
                other => Err(refuse(format!("operator {other}"), "unary operators are NOT, - and +")),
            },
            ast::Expr::IsNull(inner) => Ok(Term::IsNull(boxed(inner)?)),
            ast::Expr::IsNotNull(inner) => Ok(not(true, Term::IsNull(boxed(inner)?))),
            ast::Expr::IsTrue(inner) => truth(self.term(inner, depth + 1)?, true),
            ast::Expr::IsNotTrue(inner) => truth(self.term(inner, depth + 1)?, false),
            ast::Expr::IsFalse(inner) => truth(Term::Not(boxed(inner)?), true),
            ast::Expr::IsNotFalse(inner) => truth(Term::Not(boxed(inner)?), false),
            ast::Expr::Between { expr, negated, low, high } => {
                let terms = [expr, low, high].map(|part| self.term(part, depth + 1));
                let [value, low, high] = terms;
                Ok(not(*negated, Term::Between(Box::new([value?, low?, high?]))))
            }
            ast::Expr::InList { expr, list, negated } => {
                let list =
                    list.iter().map(|item| self.term(item, depth + 1)).collect::<Result<Vec<_>, _>>()?;
                Ok(not(*negated, Term::InList(boxed(expr)?, list)))
            }
            ast::Expr::Like { negated, any: false, expr, pattern, escape_char } => {
                let text = self.term(expr, depth + 1)?;
                let escape = match escape_char.as_ref().map(|escape| &escape.value) {
                    None => None,
                    Some(ast::Value::SingleQuotedString(text)) if text.chars().count() <= 1 => {
                        text.chars().next()
                    }
                    Some(_) => {
                        let problem = "takes a single quoted character".to_owned();
                        return Err(QueryError::Misplaced { construct: "ESCAPE".to_owned(), problem });
                    }
                };
                match self.term(pattern, depth + 1)? {
                    Term::Literal(Literal::Text(pattern)) => {
                        Ok(not(*negated, crate::like::term(text, pattern, escape)))
                    }
                    Term::Literal(Literal::Null) => Ok(Term::Literal(Literal::Null)),
                    _ => Err(refuse(
                        "LIKE with an expression as its pattern",
                        "a pattern must be a quoted string",
                    )),
                }
            }
            ast::Expr::Case { operand, conditions, else_result, .. } => {
                let operand = match operand.as_deref() {
                    None => None,
                    // Another operand would be copied into every arm, and nested CASEs would multiply it.
                    Some(column @ (ast::Expr::Identifier(_) | ast::Expr::CompoundIdentifier(_))) => {
                        Some(self.term(column, depth + 1)?)
                    }
                    Some(_) => {
                        return Err(refuse(
                            "CASE of an expression",
                            "the operand of CASE must be a column, or omitted",
                        ));
                    }
                };
                let arm = |arm: &ast::CaseWhen| {
                    let condition = self.term(&arm.condition, depth + 1)?;
                    let condition = match &operand {
                        Some(value) => Term::Compare(Comparison::Eq, Box::new([value.clone(), condition])),
                        None => condition,
                    };
                    Ok((condition, self.term(&arm.result, depth + 1)?))
                };
                let arms = conditions.iter().map(arm).collect::<Result<_, QueryError>>()?;
                Ok(Term::Case { arms, otherwise: else_result.as_deref().map(boxed).transpose()? })
            }
            ast::Expr::Cast {
                kind: ast::CastKind::Cast | ast::CastKind::DoubleColon,
                expr,
                data_type,
                array: false,
                format: None,
            } => Ok(Term::Cast(boxed(expr)?, column_type(data_type)?)),
            ast::Expr::Function(function) => self.function(function, depth),
            other => Err(refuse(construct(other), "tasks do not support it")),
        }
    }

    fn qualified(&self, parts: &[ast::Ident]) -> Result<Term, QueryError> {
        let [table, column] = parts else {
            return Err(refuse("qualified column", "a column can only be qualified by its table"));
        };
        if let Some(scope) = self.names.scope {
            return scope.column(Some(&table.value), &column.value);
        }
        let known = self.names.alias.as_deref().unwrap_or(&self.names.table);
        // A predicate on its own does not know its table.
        if !known.is_empty() && !table.value.eq_ignore_ascii_case(known) {
            let problem = format!("is {:?}, but the table is {known:?}", table.value);
            return Err(QueryError::Misplaced { construct: "qualifier of a column".to_owned(), problem });
        }
        Ok(Term::Column(ColumnName::Name(column.value.clone())))
    }

    fn binary(
        &self,
        left: &ast::Expr,
        op: &BinaryOperator,
        right: &ast::Expr,
        depth: usize,
    ) -> Result<Term, QueryError> {
        let sides =
            || Ok::<_, QueryError>(Box::new([self.term(left, depth + 1)?, self.term(right, depth + 1)?]));
        let compare = |comparison| Ok(Term::Compare(comparison, sides()?));
        let arithmetic = |arithmetic| Ok(Term::Arithmetic(arithmetic, sides()?));
        match op {
            BinaryOperator::And | BinaryOperator::Or => {
                // A chain is a left-leaning tree; iterating avoids deep recursion.
                let (mut terms, mut rest) = (vec![self.term(right, depth + 1)?], left);
                while let ast::Expr::BinaryOp { left, op: next, right } = rest
                    && next == op
                {
                    terms.push(self.term(right, depth + 1)?);
                    rest = left;
                }
                terms.push(self.term(rest, depth + 1)?);
                terms.reverse();
                Ok(if *op == BinaryOperator::And { Term::And(terms) } else { Term::Or(terms) })
            }
            BinaryOperator::Eq => compare(Comparison::Eq),
            BinaryOperator::NotEq => compare(Comparison::Ne),
            BinaryOperator::Lt => compare(Comparison::Lt),
            BinaryOperator::LtEq => compare(Comparison::Le),
            BinaryOperator::Gt => compare(Comparison::Gt),
            BinaryOperator::GtEq => compare(Comparison::Ge),
            BinaryOperator::Plus => arithmetic(Arithmetic::Add),
            BinaryOperator::Minus => arithmetic(Arithmetic::Subtract),
            BinaryOperator::Multiply => arithmetic(Arithmetic::Multiply),
            BinaryOperator::Divide => arithmetic(Arithmetic::Divide),
            BinaryOperator::DuckIntegerDivide => arithmetic(Arithmetic::DivideWhole),
            BinaryOperator::Modulo => arithmetic(Arithmetic::Remainder),
            other => Err(refuse(
                format!("operator {other}"),
                "supported are comparisons, AND, OR and + - * / // %",
            )),
        }
    }

    fn function(&self, function: &ast::Function, depth: usize) -> Result<Term, QueryError> {
        let name = function.name.to_string().to_lowercase();
        let name: String = name.chars().take(40).collect();
        if function.over.is_some() {
            return Err(refuse("window function", format!("{name} has OVER")));
        }
        let aggregate = match name.as_str() {
            "count" => AggregateFunction::Count,
            "sum" => AggregateFunction::Sum,
            "min" => AggregateFunction::Min,
            "max" => AggregateFunction::Max,
            "avg" => AggregateFunction::Avg,
            _ => {
                return Err(refuse(format!("function {name}"), "supported are count, sum, min, max and avg"));
            }
        };
        if function.filter.is_some() {
            return Err(refuse("FILTER of an aggregate", "use WHERE or CASE instead"));
        }
        let extra = function.null_treatment.is_some() || !function.within_group.is_empty();
        let ast::FunctionArguments::List(list) = &function.args else {
            return Err(refuse(format!("function {name}"), "an aggregate takes an argument in parentheses"));
        };
        let is_distinct = list.duplicate_treatment == Some(ast::DuplicateTreatment::Distinct);
        if is_distinct && self.names.scope.is_none() {
            return Err(refuse("DISTINCT", format!("{name} applies to all values")));
        }
        if extra || !list.clauses.is_empty() || function.parameters != ast::FunctionArguments::None {
            return Err(refuse(format!("option of {name}"), "an aggregate takes an argument only"));
        }
        match (&list.args[..], aggregate) {
            ([] | [ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Wildcard)], AggregateFunction::Count)
                if !is_distinct =>
            {
                Ok(Term::Aggregate(AggregateFunction::CountRows, None))
            }
            ([ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(argument))], _) => {
                let argument = self.term(argument, depth + 1)?;
                match self.names.scope.filter(|_| is_distinct) {
                    Some(scope) => scope.distinct(aggregate, argument),
                    None => Ok(Term::Aggregate(aggregate, Some(Box::new(argument)))),
                }
            }
            _ => Err(QueryError::Misplaced { construct: name, problem: "takes one argument".to_owned() }),
        }
    }

    /// Converts `INTERVAL '90' DAY`, `INTERVAL 90 DAY` and `INTERVAL '90 days'`.
    fn interval(&self, interval: &ast::Interval) -> Result<Literal, QueryError> {
        let wrong = || refuse(format!("interval {interval}"), "an interval must be an integer and one unit");
        if interval.last_field.is_some() || interval.fractional_seconds_precision.is_some() {
            return Err(wrong());
        }
        let text = match &*interval.value {
            ast::Expr::Value(value) => match &value.value {
                ast::Value::SingleQuotedString(text) | ast::Value::Number(text, _) => text.trim(),
                _ => return Err(wrong()),
            },
            _ => return Err(refuse("interval", "an interval must be an integer and one unit")),
        };
        let (number, unit) = match &interval.leading_field {
            Some(field) => (text, unit(field).ok_or_else(wrong)?),
            None => {
                let (number, name) = text.split_once(' ').ok_or_else(wrong)?;
                (number, unit_by_name(name.trim()).ok_or_else(wrong)?)
            }
        };
        let number: i64 = number.parse().map_err(|_| wrong())?;
        let small = |times: i64| number.checked_mul(times).and_then(|value| i32::try_from(value).ok());
        let mut value = Interval::default();
        match unit {
            Unit::Months(times) => value.months = small(times).ok_or_else(wrong)?,
            Unit::Days(times) => value.days = small(times).ok_or_else(wrong)?,
            Unit::Micros(times) => value.micros = number.checked_mul(times).ok_or_else(wrong)?,
        }
        Ok(Literal::Interval(value))
    }
}

/// Negates constants directly, so that -1 has the type of 1.
fn negate(term: Term) -> Term {
    match term {
        Term::Literal(Literal::Integer(value)) if value != i128::MIN => {
            Term::Literal(Literal::Integer(-value))
        }
        Term::Literal(Literal::Decimal { unscaled, precision, scale }) => {
            Term::Literal(Literal::Decimal { unscaled: -unscaled, precision, scale })
        }
        Term::Literal(Literal::Double(value)) => Term::Literal(Literal::Double(-value)),
        other => Term::Negate(Box::new(other)),
    }
}

enum Unit {
    Months(i64),
    Days(i64),
    Micros(i64),
}

fn unit(field: &DateTimeField) -> Option<Unit> {
    Some(match field {
        DateTimeField::Year | DateTimeField::Years => Unit::Months(12),
        DateTimeField::Month | DateTimeField::Months => Unit::Months(1),
        DateTimeField::Week(None) | DateTimeField::Weeks => Unit::Days(7),
        DateTimeField::Day | DateTimeField::Days => Unit::Days(1),
        DateTimeField::Hour | DateTimeField::Hours => Unit::Micros(3_600_000_000),
        DateTimeField::Minute | DateTimeField::Minutes => Unit::Micros(60_000_000),
        DateTimeField::Second | DateTimeField::Seconds => Unit::Micros(1_000_000),
        DateTimeField::Millisecond | DateTimeField::Milliseconds => Unit::Micros(1_000),
        DateTimeField::Microsecond | DateTimeField::Microseconds => Unit::Micros(1),
        _ => return None,
    })
}

fn unit_by_name(name: &str) -> Option<Unit> {
    Some(match name.to_lowercase().trim_end_matches('s') {
        "year" => Unit::Months(12),
        "month" => Unit::Months(1),
        "week" => Unit::Days(7),
        "day" => Unit::Days(1),
        "hour" => Unit::Micros(3_600_000_000),
        "minute" => Unit::Micros(60_000_000),
        "second" => Unit::Micros(1_000_000),
        _ => return None,
    })
}

fn literal(value: &ast::Value) -> Result<Literal, QueryError> {
    match value {
        ast::Value::Null => Ok(Literal::Null),
        ast::Value::Boolean(value) => Ok(Literal::Bool(*value)),
        ast::Value::SingleQuotedString(text) => Ok(Literal::Text(text.clone())),
        ast::Value::Number(text, false) => number(text),
        ast::Value::Placeholder(_) => Err(refuse("parameter", "a task must contain all its values")),
        _ => Err(refuse("literal", "supported are numbers, single-quoted strings, TRUE, FALSE and NULL")),
    }
}

/// A number with DuckDB's type: with a point and without an exponent it is a decimal of up to 38 digits, as written.
fn number(text: &str) -> Result<Literal, QueryError> {
    let wrong =
        || QueryError::Syntax(format!("{:?} is not a number", text.chars().take(40).collect::<String>()));
    let double = || text.parse().map(Literal::Double).map_err(|_| wrong());
    if text.contains(['e', 'E']) {
        return double();
    }
    let Some((whole, fraction)) = text.split_once('.') else {
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        return match text.parse() {
            Ok(value) if digits => Ok(Literal::Integer(value)),
            _ if digits => Err(refuse("integer of more than 127 bits", "HUGEINT is the largest integer")),
            _ => Err(wrong()),
        };
    };
    let digits = format!("{whole}{fraction}");
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(wrong());
    }
    if digits.len() > usize::from(PRECISION_MAX) {
        return double();
    }
    let unscaled = digits.parse().map_err(|_| wrong())?;
    Ok(Literal::Decimal { unscaled, precision: digits.len() as u8, scale: fraction.len() as u8 })
}

fn typed_literal(typed: &ast::TypedString) -> Result<Literal, QueryError> {
    let text = match &typed.value.value {
        ast::Value::SingleQuotedString(text) => text,
        _ => return Err(refuse("literal", "strings must be single-quoted")),
    };
    match column_type(&typed.data_type)? {
        ColumnType::Date => calendar::parse_date(text).map(Literal::Date),
        ColumnType::Timestamp => calendar::parse_timestamp(text).map(Literal::Timestamp),
        other => Err(refuse(
            format!("literal of {other}"),
            "only DATE and TIMESTAMP may precede a string; use CAST for others",
        )),
    }
}

fn column_type(data_type: &DataType) -> Result<ColumnType, QueryError> {
    Ok(match data_type {
        DataType::Boolean | DataType::Bool => ColumnType::Bool,
        DataType::TinyInt(None) => ColumnType::Int8,
        DataType::SmallInt(None) => ColumnType::Int16,
        DataType::Int(None) | DataType::Integer(None) => ColumnType::Int32,
        DataType::BigInt(None) => ColumnType::Int64,
        DataType::UTinyInt => ColumnType::UInt8,
        DataType::USmallInt => ColumnType::UInt16,
        DataType::UBigInt => ColumnType::UInt64,
        DataType::HugeInt => ColumnType::HugeInt,
        DataType::Real | DataType::Float(ExactNumberInfo::None) => ColumnType::Float32,
        DataType::Double(ExactNumberInfo::None) | DataType::DoublePrecision => ColumnType::Float64,
        DataType::Date => ColumnType::Date,
        DataType::Timestamp(None, ast::TimezoneInfo::None | ast::TimezoneInfo::WithoutTimeZone) => {
            ColumnType::Timestamp
        }
        DataType::Varchar(_) | DataType::Text | DataType::String(_) => ColumnType::Utf8,
        DataType::Decimal(info) | DataType::Numeric(info) => {
            let (precision, scale) = match info {
                ExactNumberInfo::None => (18, 3),
                ExactNumberInfo::Precision(precision) => (*precision, 0),
                ExactNumberInfo::PrecisionAndScale(precision, scale) => (*precision, *scale),
            };
            if !(1..=u64::from(PRECISION_MAX)).contains(&precision) || scale < 0 || scale as u64 > precision {
                let problem = format!("must have 1 to {PRECISION_MAX} digits, and a scale of at most that");
                return Err(QueryError::Misplaced { construct: data_type.to_string(), problem });
            }
            ColumnType::Decimal { precision: precision as u8, scale: scale as u8 }
        }
        DataType::Custom(name, arguments) if arguments.is_empty() => {
            match name.to_string().to_uppercase().as_str() {
                "UINTEGER" => ColumnType::UInt32,
                other => {
                    return Err(refuse(
                        format!("type {}", other.chars().take(40).collect::<String>()),
                        "tables do not support this type",
                    ));
                }
            }
        }
        other => {
            let name: String = other.to_string().chars().take(40).collect();
            return Err(refuse(format!("type {name}"), "tables do not support this type"));
        }
    })
}

fn construct(expr: &ast::Expr) -> &'static str {
    match expr {
        ast::Expr::Subquery(_) | ast::Expr::Exists { .. } | ast::Expr::InSubquery { .. } => "sub-query",
        ast::Expr::ILike { .. } => "ILIKE",
        ast::Expr::SimilarTo { .. } | ast::Expr::RLike { .. } => "regular expression",
        ast::Expr::Extract { .. } => "EXTRACT",
        ast::Expr::Substring { .. } => "SUBSTRING",
        ast::Expr::Trim { .. } => "TRIM",
        ast::Expr::Ceil { .. } => "CEIL",
        ast::Expr::Floor { .. } => "FLOOR",
        ast::Expr::Position { .. } => "POSITION",
        ast::Expr::Collate { .. } => "COLLATE",
        ast::Expr::AtTimeZone { .. } => "AT TIME ZONE",
        ast::Expr::IsDistinctFrom(..) | ast::Expr::IsNotDistinctFrom(..) => "IS DISTINCT FROM",
        ast::Expr::AnyOp { .. } | ast::Expr::AllOp { .. } => "ANY or ALL",
        ast::Expr::GroupingSets(_) | ast::Expr::Cube(_) | ast::Expr::Rollup(_) => "GROUPING SETS",
        ast::Expr::Cast { .. } | ast::Expr::Convert { .. } => "TRY_CAST",
        ast::Expr::Tuple(_) => "row value",
        ast::Expr::Array(_) => "array",
        ast::Expr::Struct { .. } | ast::Expr::Dictionary(_) | ast::Expr::Map(_) => "struct",
        ast::Expr::Lambda(_) => "lambda",
        ast::Expr::IsUnknown(_) | ast::Expr::IsNotUnknown(_) => "IS UNKNOWN",
        _ => "expression",
    }
}
