//! Join order: each table is joined with the tables before it by equal columns.

use crate::error::{QueryError, SqlPosition};
use crate::expr::{Expr, ExprKind};
use crate::schema::ColumnType;
use crate::sql::scope::ScopeTable;
use crate::statement::Comparison;

/// A condition with the set of its tables, a bit for each.
#[derive(Debug, Clone)]
pub(super) struct Condition {
    pub expr: Expr,
    pub tables: u32,
    /// For a comparison, the tables of each side.
    pub sides: (u32, u32),
}

impl Condition {
    pub fn new(expr: Expr, tables: &[ScopeTable]) -> Self {
        let sides = match &expr.kind {
            ExprKind::Compare(_, sides) => (table_set(tables, &sides[0]), table_set(tables, &sides[1])),
            _ => (0, 0),
        };
        Self { tables: table_set(tables, &expr), expr, sides }
    }
}

/// A joined table: the build side of a hash join.
#[derive(Debug, Clone)]
pub(super) struct JoinStage {
    pub table: usize,
    /// Pairs of key expressions that must be equal. The first is over the rows joined so far, the second over
    /// this table; both have the same type.
    pub keys: Vec<(Expr, Expr)>,
    /// Further conditions whose tables are complete after this join.
    pub filter: Option<Expr>,
}

/// The set of tables whose columns an expression uses.
fn table_set(tables: &[ScopeTable], expr: &Expr) -> u32 {
    let mut set = 0;
    expr.visit_columns(&mut |index| {
        let table = tables.iter().rposition(|table| table.first <= index);
        set |= table.map_or(0, |table| 1 << table);
    });
    set
}

/// Conjunction of conditions.
pub(super) fn all_of(mut conditions: Vec<Expr>) -> Option<Expr> {
    match conditions.len() {
        0 | 1 => conditions.pop(),
        _ => Some(Expr { kind: ExprKind::And(conditions), column_type: ColumnType::Bool }),
    }
}

/// Chooses the probe table and the order of the joins. `rows` and `names` are indexed by table.
///
/// The largest table is the probe side. Next comes the smallest table that can be joined, the first in FROM of equals.
///
/// # Errors
/// A table has no equality with the others.
pub(super) fn stages(
    mut conditions: Vec<Condition>,
    rows: &[u64],
    names: &[&str],
) -> Result<(usize, Vec<JoinStage>), QueryError> {
    let most = rows.iter().max().copied().unwrap_or(0);
    let probe = rows.iter().position(|&rows| rows == most).unwrap_or(0);
    let mut joined = 1u32 << probe;
    let mut stages = Vec::new();
    while stages.len() + 1 < rows.len() {
        let next = (0..rows.len())
            .filter(|table| joined & 1 << table == 0)
            .filter(|&table| conditions.iter().any(|condition| key(condition, joined, table).is_some()))
            .min_by_key(|&table| (rows[table], table));
        let Some(table) = next else {
            let alone = (0..rows.len()).find(|table| joined & 1 << table == 0).unwrap_or(0);
            return Err(QueryError::Unsupported {
                construct: format!("JOIN of {:?} without an equality", names[alone]),
                place: SqlPosition::default(),
                why: "one of its columns must equal one of the other tables, as in ON a.k = b.k".to_owned(),
            });
        };
        let mut keys = Vec::new();
        conditions.retain(|condition| match key(condition, joined, table) {
            Some(key) => {
                keys.push(key);
                false
            }
            None => true,
        });
        joined |= 1 << table;
        let mut filter = Vec::new();
        conditions.retain(|condition| match condition.tables & !joined {
            0 => {
                filter.push(condition.expr.clone());
                false
            }
            _ => true,
        });
        stages.push(JoinStage { table, keys, filter: all_of(filter) });
    }
    Ok((probe, stages))
}

/// The key of an equality between a table and the tables joined so far.
fn key(condition: &Condition, joined: u32, table: usize) -> Option<(Expr, Expr)> {
    let ExprKind::Compare(Comparison::Eq, sides) = &condition.expr.kind else { return None };
    let own = 1u32 << table;
    (condition.tables & !(joined | own) == 0 && condition.tables & own != 0).then_some(())?;
    let (left, right) = (condition.sides.0, condition.sides.1);
    let within = |set: u32, of: u32| set != 0 && set & !of == 0;
    if within(left, joined) && right == own {
        Some((sides[0].clone(), sides[1].clone()))
    } else if within(right, joined) && left == own {
        Some((sides[1].clone(), sides[0].clone()))
    } else {
        None
    }
}
