//! Row group pruning: decides by zone maps which row groups a filter excludes.

use std::cmp::Ordering;

use crate::calendar::MICROS_PER_DAY;
use crate::expr::{Expr, ExprKind};
use crate::group::GroupMeta;
use crate::schema::ColumnType;
use crate::statement::Comparison;
use crate::value::Value;
use crate::zone::ZoneMap;

/// Whether a row group may have a row for which the filter is true. Only `false` is definite.
pub fn may_match(filter: &Expr, meta: &GroupMeta) -> bool {
    outcomes(filter, meta).is_true
}

/// Possible outcomes of a condition over a row group: a superset of the actual ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Outcomes {
    is_true: bool,
    is_false: bool,
}

const ANY: Outcomes = Outcomes { is_true: true, is_false: true };

fn outcomes(expr: &Expr, meta: &GroupMeta) -> Outcomes {
    match &expr.kind {
        ExprKind::Constant(value) => {
            Outcomes { is_true: *value == Value::Bool(true), is_false: *value == Value::Bool(false) }
        }
        ExprKind::And(terms) => terms.iter().map(|term| outcomes(term, meta)).fold(
            Outcomes { is_true: true, is_false: false },
            |all, next| Outcomes {
                is_true: all.is_true && next.is_true,
                is_false: all.is_false || next.is_false,
            },
        ),
        ExprKind::Or(terms) => terms.iter().map(|term| outcomes(term, meta)).fold(
            Outcomes { is_true: false, is_false: true },
            |all, next| Outcomes {
                is_true: all.is_true || next.is_true,
                is_false: all.is_false && next.is_false,
            },
        ),
        ExprKind::Not(inner) => {
            let inner = outcomes(inner, meta);
            Outcomes { is_true: inner.is_false, is_false: inner.is_true }
        }
        ExprKind::Column(_) => match bounds(expr, meta) {
            Some(bounds) => Outcomes {
                is_true: bounds.max != Some(Value::Bool(false)) && !bounds.only_null,
                is_false: bounds.min != Some(Value::Bool(true)) && !bounds.only_null,
            },
            None => ANY,
        },
        ExprKind::Compare(comparison, sides) => match (bounds(&sides[0], meta), bounds(&sides[1], meta)) {
            (Some(left), Some(right)) => compare(*comparison, &left, &right),
            _ => ANY,
        },
        ExprKind::InList { value, list, with_null: _ } => match bounds(value, meta) {
            None => ANY,
            Some(bounds) if bounds.only_null => Outcomes { is_true: false, is_false: false },
            Some(bounds) => Outcomes { is_true: list.iter().any(|item| bounds.may_be(item)), is_false: true },
        },
        ExprKind::Like(inner, pattern) => match bounds(inner, meta) {
            None => ANY,
            Some(bounds) if bounds.only_null => Outcomes { is_true: false, is_false: false },
            Some(bounds) => Outcomes { is_true: bounds.may_begin_with(&pattern.prefix()), is_false: true },
        },
        ExprKind::IsNull(inner) => match &inner.kind {
            ExprKind::Column(index) => match meta.chunks.get(*index) {
                Some(chunk) => {
                    Outcomes { is_true: chunk.zone.nulls > 0, is_false: chunk.zone.nulls < chunk.zone.rows }
                }
                None => ANY,
            },
            _ => ANY,
        },
        _ => ANY,
    }
}

/// Bounds of an expression's values.
#[derive(Debug)]
struct Bounds {
    /// Lower bound, inclusive; `None` if unknown.
    min: Option<Value>,
    /// Upper bound, inclusive; `None` if unknown.
    max: Option<Value>,
    /// Whether all rows are null.
    only_null: bool,
}

impl Bounds {
    fn of(zone: &ZoneMap) -> Self {
        let nan = || Some(Value::Float(f64::NAN));
        let only_nan = zone.nan && zone.min.is_none();
        Self {
            min: if only_nan { nan() } else { zone.min.clone() },
            // NaN is greater than all numbers.
            max: if zone.nan { nan() } else { zone.max.clone() },
            only_null: zone.nulls == zone.rows,
        }
    }

    fn may_be(&self, value: &Value) -> bool {
        self.min.as_ref().is_none_or(|min| min.order(value).is_le())
            && self.max.as_ref().is_none_or(|max| max.order(value).is_ge())
    }

    /// Whether a string within the bounds may start with `prefix`.
    fn may_begin_with(&self, prefix: &str) -> bool {
        let begins = |bound: &Value| match bound {
            Value::Text(text) => {
                let length = text.len().min(prefix.len());
                text.as_bytes()[..length].cmp(&prefix.as_bytes()[..length])
            }
            _ => Ordering::Equal,
        };
        self.min.as_ref().is_none_or(|min| begins(min).is_le())
            && self.max.as_ref().is_none_or(|max| begins(max).is_ge())
    }
}

fn bounds(expr: &Expr, meta: &GroupMeta) -> Option<Bounds> {
    match &expr.kind {
        ExprKind::Column(index) => Some(Bounds::of(&meta.chunks.get(*index)?.zone)),
        ExprKind::Constant(Value::Null) => Some(Bounds { min: None, max: None, only_null: true }),
        ExprKind::Constant(value) => {
            Some(Bounds { min: Some(value.clone()), max: Some(value.clone()), only_null: false })
        }
        ExprKind::Cast(inner) => {
            let bounds = bounds(inner, meta)?;
            let cast = |value: Option<Value>| match value {
                Some(value) => monotone(value, inner.column_type, expr.column_type).map(Some),
                None => Some(None),
            };
            Some(Bounds { min: cast(bounds.min)?, max: cast(bounds.max)?, only_null: bounds.only_null })
        }
        _ => None,
    }
}

/// A bound after an order-preserving cast; `None` if the cast does not preserve order or can fail.
fn monotone(value: Value, from: ColumnType, to: ColumnType) -> Option<Value> {
    let scale = |column_type| match column_type {
        ColumnType::Decimal { scale, .. } => scale,
        _ => 0,
    };
    match (value, to) {
        (Value::Float(value), ColumnType::Float64) => Some(Value::Float(value)),
        (Value::Integer(value), ColumnType::Timestamp) if from == ColumnType::Date => {
            Some(Value::Integer(value * i128::from(MICROS_PER_DAY)))
        }
        (Value::Integer(value), ColumnType::Decimal { scale: to_scale, .. }) if to_scale >= scale(from) => {
            let power = 10i128.pow(u32::from(to_scale - scale(from)));
            value.checked_mul(power).map(Value::Integer)
        }
        (Value::Integer(value), to) if scale(from) == 0 => {
            let (low, high) = to.integer_range()?;
            (low..=high).contains(&value).then_some(Value::Integer(value))
        }
        _ => None,
    }
}

fn compare(comparison: Comparison, left: &Bounds, right: &Bounds) -> Outcomes {
    if left.only_null || right.only_null {
        return Outcomes { is_true: false, is_false: false };
    }
    // Compares the minimum of each side with the maximum of the other; unknown bounds allow any order.
    let order = |a: &Option<Value>, b: &Option<Value>| Some(a.as_ref()?.order(b.as_ref()?));
    let least = order(&left.min, &right.max);
    let greatest = order(&left.max, &right.min);
    let may_be_less = least.is_none_or(Ordering::is_lt);
    let may_be_greater = greatest.is_none_or(Ordering::is_gt);
    let may_be_equal = least.is_none_or(Ordering::is_le) && greatest.is_none_or(Ordering::is_ge);
    let any = |less: bool, equal: bool, greater: bool| {
        less && may_be_less || equal && may_be_equal || greater && may_be_greater
    };
    let (less, equal, greater) = (
        comparison.holds(Ordering::Less),
        comparison.holds(Ordering::Equal),
        comparison.holds(Ordering::Greater),
    );
    Outcomes { is_true: any(less, equal, greater), is_false: any(!less, !equal, !greater) }
}
