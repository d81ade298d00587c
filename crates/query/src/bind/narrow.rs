//! Rewrites comparisons of a cast column with a constant as comparisons of the column itself. A date compared with a timestamp, or an
//! integer with a decimal, then needs no cast per row, and zone maps apply.

use crate::calendar::MICROS_PER_DAY;
use crate::expr::{Expr, ExprKind};
use crate::schema::ColumnType;
use crate::statement::Comparison;
use crate::value::Value;

pub(super) fn compare(comparison: Comparison, [left, right]: [Expr; 2]) -> ExprKind {
    if matches!(left.kind, ExprKind::Constant(_)) && !matches!(right.kind, ExprKind::Constant(_)) {
        return compare(comparison.flipped(), [right, left]);
    }
    match narrowed(comparison, &left, &right) {
        Some((comparison, left, right)) => ExprKind::Compare(comparison, Box::new([left, right])),
        None => ExprKind::Compare(comparison, Box::new([left, right])),
    }
}

/// `column * factor < constant` becomes `column <= constant / factor`, rounded down, unless the division is exact.
fn narrowed(comparison: Comparison, left: &Expr, right: &Expr) -> Option<(Comparison, Expr, Expr)> {
    let (ExprKind::Cast(column), ExprKind::Constant(Value::Integer(constant))) = (&left.kind, &right.kind)
    else {
        return None;
    };
    let factor = factor(column.column_type, left.column_type)?;
    let floor = constant.div_euclid(factor);
    let even = floor * factor == *constant;
    let comparison = match comparison {
        same if even => same,
        Comparison::Lt | Comparison::Le => Comparison::Le,
        Comparison::Gt | Comparison::Ge => Comparison::Gt,
        // The result is constant but null where the column is null, so the comparison stays.
        Comparison::Eq | Comparison::Ne => return None,
    };
    let (low, high) = range(column.column_type)?;
    (low..=high).contains(&floor).then_some(())?;
    let constant = Expr::constant(Value::Integer(floor), column.column_type);
    Some((comparison, (**column).clone(), constant))
}

/// The factor by which a lossless cast multiplies an integer. `None` for other casts.
fn factor(from: ColumnType, to: ColumnType) -> Option<i128> {
    match (from, to) {
        (ColumnType::Date, ColumnType::Timestamp) => Some(MICROS_PER_DAY.into()),
        (ColumnType::Decimal { scale: from, .. }, ColumnType::Decimal { scale: to, .. }) => {
            Some(10i128.pow(u32::from(to.checked_sub(from)?)))
        }
        (from, ColumnType::Decimal { scale, .. }) => {
            from.integer_bits().map(|_| 10i128.pow(u32::from(scale)))
        }
        (from, to) => {
            let ((low, high), (to_low, to_high)) = (from.integer_range()?, to.integer_range()?);
            (to_low <= low && high <= to_high).then_some(1)
        }
    }
}

fn range(column_type: ColumnType) -> Option<(i128, i128)> {
    match column_type {
        ColumnType::Date => Some((i32::MIN.into(), i32::MAX.into())),
        ColumnType::Decimal { precision, .. } => {
            let most = 10i128.pow(u32::from(precision)) - 1;
            Some((-most, most))
        }
        other => other.integer_range(),
    }
}
