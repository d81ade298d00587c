//! Selectivity estimates from zone maps. They assume that values are uniformly distributed between the minimum and maximum of each row
//! group, and that conditions are independent. A condition without bounds counts as 1/3, LIKE as 1/10.

use crate::cost;
use crate::expr::{Aggregate, Expr, ExprKind, Grouping, Output, Query};
use crate::group::GroupMeta;
use crate::schema::ColumnType;
use crate::statement::{AggregateFunction, Comparison};
use crate::value::Value;
use crate::work::Operator;
use crate::zone::ZoneMap;
use std::cmp::Ordering;

/// Selectivity of a condition without bounds.
const UNKNOWN: f64 = 1.0 / 3.0;
/// Selectivity of LIKE, and of string equality.
const TEXT: f64 = 0.1;

/// Fraction of a row group's rows that pass the filter, 0 to 1.
pub fn selectivity(filter: Option<&Expr>, meta: &GroupMeta) -> f64 {
    filter.map_or(1.0, |filter| share(filter, meta)).clamp(0.0, 1.0)
}

/// A query that counts the rows that pass the filter, for sampling row groups.
pub fn counting(query: &Query) -> Query {
    let column_type = ColumnType::Int64;
    let count = Aggregate { function: AggregateFunction::CountRows, argument: None, column_type };
    Query {
        table: query.table.clone(),
        outputs: vec![Output { name: String::new(), expr: Expr::column(0, column_type), nullable: false }],
        filter: query.filter.clone(),
        grouping: Some(Grouping { keys: Vec::new(), aggregates: vec![count], having: None }),
        order_by: Vec::new(),
        limit: None,
    }
}

/// Cost of a query per row, in comparisons as defined in [`cost`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RowCost {
    /// For each row read: the filter.
    pub of_all: f64,
    /// For each row that passes: copying, outputs, grouping.
    pub of_passing: f64,
}

/// Cost per row from the operators of the query's expressions. Short-circuiting of AND is not taken into account.
pub fn row_cost(query: &Query) -> RowCost {
    let operator = |operator| cost::comparisons(operator);
    let of_all = query.filter.as_ref().map_or(0.0, of_expr);
    let mut used = std::collections::BTreeSet::new();
    let mut of_passing = 0.0;
    let mut add = |expr: &Expr| {
        expr.visit_columns(&mut |index| {
            used.insert(index);
        });
        of_passing += of_expr(expr);
    };
    match &query.grouping {
        None => query.outputs.iter().for_each(|output| add(&output.expr)),
        Some(grouping) => {
            grouping.keys.iter().for_each(&mut add);
            let arguments = grouping.aggregates.iter().filter_map(|one| one.argument.as_ref());
            arguments.for_each(&mut add);
            of_passing += grouping.keys.len() as f64 * operator(Operator::GroupProbe);
            of_passing += grouping.aggregates.len() as f64 * operator(Operator::Aggregate);
        }
    }
    if query.filter.is_some() {
        of_passing += used.len() as f64 * operator(Operator::Gather);
    }
    RowCost { of_all, of_passing }
}

fn of_expr(expr: &Expr) -> f64 {
    let operator = |operator| cost::comparisons(operator);
    let is_wide = matches!(expr.column_type, ColumnType::HugeInt | ColumnType::Decimal { .. });
    let arithmetic = operator(if is_wide { Operator::ArithmeticWide } else { Operator::Arithmetic });
    match &expr.kind {
        ExprKind::Column(_) | ExprKind::Constant(_) => 0.0,
        ExprKind::Compare(_, sides) => {
            let own = match sides[0].column_type {
                ColumnType::Utf8 => Operator::CompareText,
                _ => Operator::Compare,
            };
            sides.iter().map(of_expr).sum::<f64>() + operator(own)
        }
        ExprKind::Arithmetic(_, sides) => sides.iter().map(of_expr).sum::<f64>() + arithmetic,
        ExprKind::And(terms) | ExprKind::Or(terms) => {
            terms.iter().map(of_expr).sum::<f64>() + terms.len() as f64 * operator(Operator::Logic)
        }
        ExprKind::Not(inner) => of_expr(inner) + operator(Operator::Logic),
        ExprKind::Negate(inner) => of_expr(inner) + arithmetic,
        ExprKind::Like(inner, _) => of_expr(inner) + operator(Operator::Like),
        ExprKind::IsNull(inner) => of_expr(inner) + operator(Operator::Compare),
        ExprKind::Cast(inner) => of_expr(inner) + operator(Operator::Cast),
        ExprKind::InList { value, .. } => of_expr(value) + operator(Operator::InList),
        ExprKind::Case { arms, otherwise } => {
            let arms = arms.iter().map(|(when, then)| of_expr(when) + of_expr(then)).sum::<f64>();
            arms + of_expr(otherwise) + operator(Operator::Choose)
        }
    }
}

fn share(expr: &Expr, meta: &GroupMeta) -> f64 {
    match &expr.kind {
        ExprKind::And(terms) => terms.iter().map(|term| share(term, meta)).product(),
        ExprKind::Or(terms) => 1.0 - terms.iter().map(|term| 1.0 - share(term, meta)).product::<f64>(),
        ExprKind::Not(inner) => 1.0 - share(inner, meta),
        ExprKind::Constant(Value::Bool(is_true)) => f64::from(u8::from(*is_true)),
        ExprKind::Constant(_) => 0.0,
        ExprKind::Compare(comparison, sides) => match (&sides[0].kind, &sides[1].kind) {
            (ExprKind::Constant(value), _) => compared(&sides[1], mirrored(*comparison), value, meta),
            (_, ExprKind::Constant(value)) => compared(&sides[0], *comparison, value, meta),
            _ => UNKNOWN,
        },
        ExprKind::InList { value, list, .. } => {
            list.iter().map(|one| compared(value, Comparison::Eq, one, meta)).sum::<f64>().min(1.0)
        }
        ExprKind::IsNull(inner) => match zone(inner, meta) {
            Some(zone) if zone.rows > 0 => f64::from(zone.nulls) / f64::from(zone.rows),
            _ => UNKNOWN,
        },
        ExprKind::Like(..) => TEXT,
        _ => UNKNOWN,
    }
}

/// The comparison with its operands exchanged.
fn mirrored(comparison: Comparison) -> Comparison {
    match comparison {
        Comparison::Lt => Comparison::Gt,
        Comparison::Le => Comparison::Ge,
        Comparison::Gt => Comparison::Lt,
        Comparison::Ge => Comparison::Le,
        other => other,
    }
}

/// The zone map of a column expression, seen through lossless casts.
fn zone<'a>(expr: &Expr, meta: &'a GroupMeta) -> Option<&'a ZoneMap> {
    match &expr.kind {
        ExprKind::Column(index) => meta.chunks.get(*index).map(|chunk| &chunk.zone),
        _ => None,
    }
}

fn compared(expr: &Expr, comparison: Comparison, value: &Value, meta: &GroupMeta) -> f64 {
    let Some(zone) = zone(expr, meta) else { return UNKNOWN };
    let there = 1.0 - f64::from(zone.nulls) / f64::from(zone.rows.max(1));
    let (Some(least), Some(greatest)) = (&zone.min, &zone.max) else { return UNKNOWN * there };
    let is_like = std::mem::discriminant(least) == std::mem::discriminant(value);
    if !is_like {
        return UNKNOWN * there;
    }
    let (below, above) = (value.order(least), value.order(greatest));
    let is_within = below != Ordering::Less && above != Ordering::Greater;
    let equal = match (is_within, least, greatest) {
        (false, ..) => 0.0,
        (true, Value::Integer(least), Value::Integer(greatest)) => {
            1.0 / (greatest.saturating_sub(*least).saturating_add(1) as f64)
        }
        (true, Value::Text(_), _) => TEXT,
        (true, Value::Bool(least), Value::Bool(greatest)) => {
            if least == greatest {
                1.0
            } else {
                0.5
            }
        }
        (true, ..) => 1.0 / f64::from(zone.rows.max(1)),
    };
    let less = match (below, above) {
        (Ordering::Less | Ordering::Equal, _) => 0.0,
        (_, Ordering::Greater) => 1.0,
        _ => match (number(least), number(value), number(greatest)) {
            (Some(least), Some(value), Some(greatest)) if greatest > least => {
                (value - least) / (greatest - least)
            }
            _ => 0.5,
        },
    };
    there
        * match comparison {
            Comparison::Eq => equal,
            Comparison::Ne => 1.0 - equal,
            Comparison::Lt => less,
            Comparison::Le => (less + equal).min(1.0),
            Comparison::Gt => (1.0 - less - equal).max(0.0),
            Comparison::Ge => 1.0 - less,
        }
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(value) => Some(*value as f64),
        Value::Float(value) => Some(*value),
        _ => None,
    }
}
