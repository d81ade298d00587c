//! Evaluation of expressions over batches of rows.
//!
//! Arrays, bitmaps and selection kernels are Arrow's. Comparison, arithmetic and casts are implemented here to match DuckDB: Arrow orders
//! floating-point numbers by their bits (-0 before 0), and its decimals round and overflow differently.

mod arithmetic;
mod cast;
mod compare;
mod logic;
pub(crate) mod vector;

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, StringArray, UInt64Array};
use arrow_buffer::BooleanBuffer;

use crate::error::QueryError;
use crate::expr::{Expr, ExprKind};
use crate::schema::ColumnType;
use crate::value::Value;
use crate::values;
use crate::work::{Operator, Work};
use vector::{Vector, check_text};

/// Rows that are evaluated together. An expression's column indexes refer to these arrays.
#[derive(Debug, Clone)]
pub(crate) struct Rows {
    pub columns: Vec<ArrayRef>,
    pub count: usize,
}

impl Rows {
    pub fn of(batch: &RecordBatch) -> Self {
        Self { columns: batch.columns().to_vec(), count: batch.num_rows() }
    }

    /// The rows where `chosen` is true, of the columns that the expression uses; other columns are left unselected.
    fn select(&self, chosen: &BooleanBuffer, expr: &Expr) -> Result<Self, QueryError> {
        let chosen = BooleanArray::new(chosen.clone(), None);
        let mut columns = self.columns.clone();
        let mut error = None;
        let mut done = vec![false; columns.len()];
        expr.visit_columns(&mut |index| {
            if !std::mem::replace(&mut done[index], true) {
                match arrow_select::filter::filter(&self.columns[index], &chosen) {
                    Ok(filtered) => columns[index] = filtered,
                    Err(failed) => error = Some(failed),
                }
            }
        });
        match error {
            Some(error) => Err(error.into()),
            None => Ok(Self { columns, count: chosen.true_count() }),
        }
    }
}

/// Evaluates an expression without columns.
pub(crate) fn constant(expr: &Expr) -> Result<Value, QueryError> {
    let rows = Rows { columns: Vec::new(), count: 1 };
    Ok(match evaluate(expr, &rows, &mut Work::default())? {
        Vector::Constant(value) => value,
        Vector::Array(array) => values::at(&array, expr.column_type, 0),
    })
}

/// The rows for which a condition is true, neither false nor null.
pub(crate) fn passing(expr: &Expr, rows: &Rows, work: &mut Work) -> Result<BooleanBuffer, QueryError> {
    Ok(match evaluate(expr, rows, work)? {
        Vector::Constant(value) => match value == Value::Bool(true) {
            true => BooleanBuffer::new_set(rows.count),
            false => BooleanBuffer::new_unset(rows.count),
        },
        Vector::Array(array) => logic::trues(array.as_boolean()),
    })
}

/// Evaluates an expression.
pub(crate) fn evaluate(expr: &Expr, rows: &Rows, work: &mut Work) -> Result<Vector, QueryError> {
    let count = rows.count;
    let boolean = |array: BooleanArray| Ok(Vector::Array(Arc::new(array) as ArrayRef));
    match &expr.kind {
        ExprKind::Column(index) => Ok(Vector::Array(rows.columns[*index].clone())),
        ExprKind::Constant(value) => Ok(Vector::Constant(value.clone())),
        ExprKind::Compare(comparison, sides) => {
            let column_type = sides[0].column_type;
            let left = evaluate(&sides[0], rows, work)?;
            let right = evaluate(&sides[1], rows, work)?;
            boolean(compare::compare(*comparison, column_type, left, right, count, work))
        }
        ExprKind::And(terms) => boolean(chain(terms, true, rows, work)?),
        ExprKind::Or(terms) => boolean(chain(terms, false, rows, work)?),
        ExprKind::Not(inner) => {
            let inner = evaluate(inner, rows, work)?.into_boolean(count);
            work.add_rows(Operator::Logic, count);
            boolean(logic::not(&inner))
        }
        ExprKind::Negate(inner) => {
            let array = evaluate(inner, rows, work)?.into_array(inner.column_type, count)?;
            work.add_rows(arithmetic::operator(expr.column_type), count);
            arithmetic::negate(expr.column_type, &array).map(Vector::Array)
        }
        ExprKind::Arithmetic(operation, sides) => {
            let vectors = [evaluate(&sides[0], rows, work)?, evaluate(&sides[1], rows, work)?];
            let types = [sides[0].column_type, sides[1].column_type];
            work.add_rows(arithmetic::operator(expr.column_type), count);
            arithmetic::arithmetic(*operation, expr.column_type, vectors, types, count).map(Vector::Array)
        }
        ExprKind::InList { value, list, with_null } => {
            let array = evaluate(value, rows, work)?.into_array(value.column_type, count)?;
            work.add_rows(Operator::InList, count);
            boolean(compare::in_list(value.column_type, &array, list, *with_null, work))
        }
        ExprKind::Like(inner, pattern) => {
            let array = evaluate(inner, rows, work)?.into_array(ColumnType::Utf8, count)?;
            work.add_rows(Operator::Like, count);
            let texts = array.as_string::<i32>();
            work.text_bytes += compare::text_bytes(texts);
            let matches = BooleanBuffer::collect_bool(count, |row| pattern.matches(texts.value(row)));
            boolean(BooleanArray::new(matches, texts.nulls().cloned()))
        }
        ExprKind::IsNull(inner) => {
            work.add_rows(Operator::Compare, count);
            Ok(match evaluate(inner, rows, work)? {
                Vector::Constant(value) => Vector::Constant(Value::Bool(value.is_null())),
                Vector::Array(array) => {
                    let nulls = array.nulls().map(|nulls| !nulls.inner());
                    let nulls = nulls.unwrap_or_else(|| BooleanBuffer::new_unset(count));
                    Vector::Array(Arc::new(BooleanArray::new(nulls, None)))
                }
            })
        }
        ExprKind::Case { arms, otherwise } => case(arms, otherwise, expr.column_type, rows, work),
        ExprKind::Cast(inner) => {
            let array = evaluate(inner, rows, work)?.into_array(inner.column_type, count)?;
            work.add_rows(Operator::Cast, count);
            cast::cast(&array, inner.column_type, expr.column_type).map(Vector::Array)
        }
    }
}

/// Whether evaluation can fail, depending on the values.
fn can_fail(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Column(_) | ExprKind::Constant(_) => false,
        ExprKind::Compare(_, sides) => sides.iter().any(can_fail),
        ExprKind::And(terms) | ExprKind::Or(terms) => terms.iter().any(can_fail),
        ExprKind::Not(inner)
        | ExprKind::Like(inner, _)
        | ExprKind::IsNull(inner)
        | ExprKind::InList { value: inner, .. } => can_fail(inner),
        ExprKind::Negate(_) | ExprKind::Arithmetic(..) | ExprKind::Cast(_) | ExprKind::Case { .. } => true,
    }
}

/// AND (or OR), left to right. Terms that can fail are evaluated only for rows that earlier terms left undecided, so that `b <> 0 AND a //
/// b > 1` never divides by zero.
fn chain(terms: &[Expr], and: bool, rows: &Rows, work: &mut Work) -> Result<BooleanArray, QueryError> {
    let mut result: Option<BooleanArray> = None;
    for term in terms {
        let Some(before) = &result else {
            result = Some(evaluate(term, rows, work)?.into_boolean(rows.count));
            continue;
        };
        // False decides an AND, true an OR.
        let open = !&if and { logic::falses(before) } else { logic::trues(before) };
        let open_count = open.count_set_bits();
        if open_count == 0 {
            break;
        }
        let next = if open_count < rows.count && can_fail(term) {
            let few = rows.select(&open, term)?;
            work.add_rows(Operator::Gather, few.count);
            let values = evaluate(term, &few, work)?.into_boolean(few.count);
            logic::scatter(&values, &open)
        } else {
            evaluate(term, rows, work)?.into_boolean(rows.count)
        };
        work.add_rows(Operator::Logic, rows.count);
        result = Some(if and { logic::and(before, &next) } else { logic::or(before, &next) });
    }
    Ok(result.unwrap_or_else(|| BooleanArray::new(BooleanBuffer::new_set(rows.count), None)))
}

/// CASE: a condition is evaluated for the rows that no earlier one took, a value for the rows of its arm.
fn case(
    arms: &[(Expr, Expr)],
    otherwise: &Expr,
    column_type: ColumnType,
    rows: &Rows,
    work: &mut Work,
) -> Result<Vector, QueryError> {
    let mut open = BooleanBuffer::new_set(rows.count);
    // For each row the index of the array with its value, and the position in that array.
    let mut places = vec![(0usize, 0usize); rows.count];
    let mut arrays: Vec<ArrayRef> = Vec::with_capacity(arms.len() + 1);
    let mut take = |chosen: &BooleanBuffer, value: &Expr, work: &mut Work| -> Result<(), QueryError> {
        let count = chosen.count_set_bits();
        if count == 0 {
            return Ok(());
        }
        let values = match count == rows.count {
            true => evaluate(value, rows, work)?,
            false => evaluate(value, &rows.select(chosen, value)?, work)?,
        };
        match values {
            Vector::Constant(value) => {
                arrays.push(values::repeat(&value, column_type, 1));
                chosen.set_indices().for_each(|row| places[row] = (arrays.len() - 1, 0));
            }
            Vector::Array(array) => {
                arrays.push(array);
                let positions = chosen.set_indices().enumerate();
                positions.for_each(|(position, row)| places[row] = (arrays.len() - 1, position));
            }
        }
        Ok(())
    };
    for (condition, value) in arms {
        let open_count = open.count_set_bits();
        if open_count == 0 {
            break;
        }
        let chosen = match open_count == rows.count {
            true => passing(condition, rows, work)?,
            false => {
                let few = rows.select(&open, condition)?;
                let values = BooleanArray::new(passing(condition, &few, work)?, None);
                logic::trues(&logic::scatter(&values, &open))
            }
        };
        take(&chosen, value, work)?;
        open = &open & &!&chosen;
    }
    take(&open, otherwise, work)?;
    work.add_rows(Operator::Choose, rows.count);
    if arrays.is_empty() {
        return Ok(Vector::Array(values::repeat(&Value::Null, column_type, 0)));
    }
    if column_type == ColumnType::Utf8 {
        let texts: Vec<&StringArray> = arrays.iter().map(|array| array.as_string::<i32>()).collect();
        let bytes = places.iter().map(|&(array, row)| texts[array].value_length(row) as usize);
        check_text(bytes.fold(0, usize::saturating_add))?;
    }
    let arrays: Vec<&dyn Array> = arrays.iter().map(|array| &**array).collect();
    Ok(Vector::Array(arrow_select::interleave::interleave(&arrays, &places)?))
}

/// The values at these positions of an array.
pub(crate) fn gather(array: &ArrayRef, places: &[usize]) -> Result<ArrayRef, QueryError> {
    let places = UInt64Array::from_iter_values(places.iter().map(|&place| place as u64));
    Ok(arrow_select::take::take(array, &places, None)?)
}
