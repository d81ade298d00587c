//! Binds a statement to a schema: resolves columns, assigns DuckDB's types, folds constants, plans groups.

mod narrow;
mod rules;
pub(crate) mod terms;

use crate::error::{QueryError, refuse};
use crate::expr::{Aggregate, Expr, Grouping, Output, OutputOrder, Query};
use crate::schema::Schema;
use crate::statement::{self, ColumnName, Literal, Statement, Term};
use terms::Binder;

/// Upper limit of a result's columns.
pub const OUTPUTS_MAX: usize = 1024;
/// Upper limit of a query's aggregates, and of its GROUP BY keys.
pub const AGGREGATES_MAX: usize = 256;

/// Binds a statement to a table of this schema.
///
/// # Errors
/// An unknown column, incompatible types, or a construct that is not supported.
pub fn bind(statement: &Statement, schema: &Schema) -> Result<Query, QueryError> {
    let mut binder = Binder::new(schema, &statement.table);
    let filter = match &statement.filter {
        Some(term) => Some(binder.condition(term, "WHERE")?),
        None => None,
    };
    let outputs = expand(statement, schema)?;
    let has_aggregate = outputs.iter().any(|(term, _)| terms::has_aggregate(term));
    let grouped = has_aggregate || !statement.group_by.is_empty() || statement.having.is_some();
    let limit = |what, found: usize, max: usize| match found > max {
        true => Err(QueryError::Limit { what, found: found as u64, max: max as u64 }),
        false => Ok(()),
    };
    limit("columns of a result", outputs.len(), OUTPUTS_MAX)?;
    limit("keys of GROUP BY", statement.group_by.len(), AGGREGATES_MAX)?;
    let mut query = Query {
        table: statement.table.clone(),
        outputs: Vec::new(),
        filter,
        grouping: None,
        order_by: Vec::new(),
        limit: statement.limit,
    };
    if grouped {
        binder.keys = Some(keys(&mut binder, statement, &outputs)?);
    } else if !statement.order_by.is_empty() {
        return Err(refuse("ORDER BY of rows", "only the groups of GROUP BY can be ordered"));
    }
    for (term, name) in &outputs {
        let expr = binder.value(term)?;
        let nullable = match (&expr.kind, grouped) {
            (crate::expr::ExprKind::Column(index), false) => schema.columns()[*index].nullable,
            _ => true,
        };
        query.outputs.push(Output { name: name.clone(), expr, nullable });
    }
    let having = match &statement.having {
        Some(term) => Some(binder.condition(term, "HAVING")?),
        None => None,
    };
    for order in &statement.order_by {
        let output = ordered_by(&mut binder, &order.term, &outputs, &query.outputs)?;
        query.order_by.push(OutputOrder {
            output,
            descending: order.descending,
            nulls_first: order.nulls_first,
        });
    }
    if let Some(keys) = binder.keys.take() {
        limit("aggregates", binder.aggregates.len(), AGGREGATES_MAX)?;
        let aggregates: Vec<Aggregate> = std::mem::take(&mut binder.aggregates);
        query.grouping = Some(Grouping { keys, aggregates, having });
    }
    Ok(query)
}

/// The outputs, with `*` replaced by the table's columns.
fn expand(statement: &Statement, schema: &Schema) -> Result<Vec<(Term, String)>, QueryError> {
    let mut outputs = Vec::new();
    for output in &statement.outputs {
        match output {
            statement::Output::Term { term, name } => {
                let column = match term {
                    Term::Column(ColumnName::Index(index)) => Some(usize::from(*index)),
                    Term::Column(ColumnName::Name(name)) => schema.find(name),
                    _ => None,
                };
                let name = match (name.is_empty(), column.and_then(|index| schema.columns().get(index))) {
                    (true, Some(column)) => column.name.clone(),
                    (true, None) => term.text(schema),
                    (false, _) => name.clone(),
                };
                outputs.push((term.clone(), name));
            }
            statement::Output::Star => {
                outputs.extend(schema.columns().iter().enumerate().map(|(index, column)| {
                    (Term::Column(ColumnName::Index(index as u16)), column.name.clone())
                }))
            }
        }
        if outputs.len() > OUTPUTS_MAX {
            let (found, max) = (outputs.len() as u64, OUTPUTS_MAX as u64);
            return Err(QueryError::Limit { what: "columns of a result", found, max });
        }
    }
    match outputs.is_empty() {
        true => Err(QueryError::Misplaced {
            construct: "SELECT".to_owned(),
            problem: "lists no columns".to_owned(),
        }),
        false => Ok(outputs),
    }
}

/// The keys of GROUP BY: terms, positions of outputs, or aliases that are not columns.
fn keys(
    binder: &mut Binder<'_>,
    statement: &Statement,
    outputs: &[(Term, String)],
) -> Result<Vec<Expr>, QueryError> {
    let mut keys: Vec<Expr> = Vec::new();
    for term in &statement.group_by {
        let term = match term {
            Term::Literal(Literal::Integer(position)) => {
                &outputs[at(*position, outputs.len(), "GROUP BY")?].0
            }
            Term::Column(ColumnName::Name(name)) if binder.schema().find(name).is_none() => {
                named(name, outputs).map_or(term, |index| &outputs[index].0)
            }
            term => term,
        };
        if terms::has_aggregate(term) {
            let problem = "a key must not contain an aggregate".to_owned();
            return Err(QueryError::Misplaced { construct: "GROUP BY".to_owned(), problem });
        }
        let key = binder.value(term)?;
        // A duplicate key does not change the groups.
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    Ok(keys)
}

fn at(position: i128, outputs: usize, construct: &str) -> Result<usize, QueryError> {
    match usize::try_from(position) {
        Ok(position) if (1..=outputs).contains(&position) => Ok(position - 1),
        _ => Err(QueryError::Misplaced {
            construct: construct.to_owned(),
            problem: format!("output {position} is out of range; outputs are 1 to {outputs}"),
        }),
    }
}

fn named(name: &str, outputs: &[(Term, String)]) -> Option<usize> {
    outputs.iter().position(|(_, output)| output.eq_ignore_ascii_case(name))
}

/// Resolves a term of ORDER BY to an output.
fn ordered_by(
    binder: &mut Binder<'_>,
    term: &Term,
    outputs: &[(Term, String)],
    bound: &[Output],
) -> Result<usize, QueryError> {
    match term {
        Term::Literal(Literal::Integer(position)) => return at(*position, outputs.len(), "ORDER BY"),
        Term::Column(ColumnName::Name(name)) => {
            if let Some(index) = named(name, outputs) {
                return Ok(index);
            }
        }
        _ => {}
    }
    let expr = binder.value(term)?;
    let same = bound.iter().position(|output| output.expr == expr);
    same.ok_or_else(|| {
        refuse(
            "ORDER BY of an expression that is not selected",
            "terms are outputs, by name, position or value",
        )
    })
}
