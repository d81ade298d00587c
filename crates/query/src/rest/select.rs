//! A SELECT over one or several tables: parsed once, and resolved when the tables' schemas are known.

use sqlparser::ast::{self, Spanned};

use crate::error::{QueryError, SqlPosition, refuse};
use crate::schema::{Column, ColumnType, Schema};
use crate::sql::scope::{AliasUse, Scope, ScopeTable, position};
use crate::sql::{self, term::Names};
use crate::statement::{ColumnName, Comparison, Literal, Order, TASK_BYTES_MAX, TERMS_MAX, Term};

/// Upper limit of a query's tables.
pub const TABLES_MAX: usize = 16;

/// The host's knowledge about a table in FROM.
#[derive(Debug, Clone)]
pub struct TableFacts {
    /// Table name.
    pub name: String,
    /// Schema.
    pub schema: Schema,
    /// Number of rows. The largest table is read last, as the probe side of the joins.
    pub rows: u64,
}

/// A parsed query.
#[derive(Debug, Clone)]
pub struct WholeQuery {
    query: ast::Query,
    /// Tables in FROM: name and alias.
    tables: Vec<(String, Option<String>)>,
}

/// A term and its position in the text.
#[derive(Debug, Clone)]
pub(super) struct PlacedTerm {
    pub term: Term,
    pub position: SqlPosition,
}

/// An output's term and name.
#[derive(Debug, Clone)]
pub(super) struct SelectOutput {
    pub term: PlacedTerm,
    pub name: String,
}

/// A SELECT resolved over the row of all tables.
#[derive(Debug)]
pub(super) struct Select {
    pub tables: Vec<ScopeTable>,
    /// Columns of all tables, then a flag for each argument in `distinct`.
    pub schema: Schema,
    pub outputs: Vec<SelectOutput>,
    /// Conjuncts of WHERE and ON.
    pub conditions: Vec<PlacedTerm>,
    pub group_by: Vec<PlacedTerm>,
    pub having: Option<PlacedTerm>,
    /// Arguments of DISTINCT aggregates.
    pub distinct: Vec<Term>,
    pub is_distinct: bool,
    pub order_by: Vec<(Order, SqlPosition)>,
    pub offset: u64,
    pub limit: Option<u64>,
}

/// Turns a refusal into [`QueryError::Unsupported`] with its position.
pub(super) fn undone(error: QueryError, position: SqlPosition) -> QueryError {
    match error {
        QueryError::Refused(refusal) => {
            QueryError::Unsupported { construct: refusal.construct, place: position, why: refusal.why }
        }
        error => error,
    }
}

impl WholeQuery {
    /// Parses a SELECT.
    ///
    /// # Errors
    /// Invalid SQL, too long or too deep, or a construct that neither a drive nor the host supports.
    pub fn parse(text: &str) -> Result<Self, QueryError> {
        if text.len() > TASK_BYTES_MAX {
            let (found, max) = (text.len() as u64, TASK_BYTES_MAX as u64);
            return Err(QueryError::Limit { what: "bytes of a query", found, max });
        }
        sql::on_a_deep_stack(|| Self::parse_bounded(text))
    }

    fn parse_bounded(text: &str) -> Result<Self, QueryError> {
        let tokens = sql::tokens(text)?;
        if let Some((construct, _, location)) = sql::sub_query(&tokens) {
            let why = "FROM, WHERE and SELECT must not contain a query".to_owned();
            return Err(QueryError::Unsupported {
                construct: construct.to_owned(),
                place: position(location),
                why,
            });
        }
        let first = tokens.first().map(|token| position(token.span.start)).unwrap_or_default();
        let query = sql::query(tokens).map_err(|error| undone(error, first))?;
        let at = position(query.span().start);
        let select = sql::plain_select(&query).map_err(|error| undone(error, at))?;
        let mut tables = Vec::new();
        for from in &select.from {
            let joined = from.joins.iter().map(|join| &join.relation);
            for relation in std::iter::once(&from.relation).chain(joined) {
                let at = position(relation.span().start);
                tables.push(sql::table_factor(relation).map_err(|error| undone(error, at))?);
            }
        }
        if tables.is_empty() {
            return Err(undone(refuse("SELECT without FROM", "a query must read a table"), at));
        }
        if tables.len() > TABLES_MAX {
            let (found, max) = (tables.len() as u64, TABLES_MAX as u64);
            return Err(QueryError::Limit { what: "tables of a query", found, max });
        }
        Ok(Self { query, tables })
    }

    /// Names of the tables in FROM, in order, possibly with duplicates.
    pub fn tables(&self) -> impl Iterator<Item = &str> {
        self.tables.iter().map(|(name, _)| name.as_str())
    }

    /// Resolves the query with the tables' schemas.
    pub(super) fn read(&self, facts: &[TableFacts]) -> Result<Select, QueryError> {
        if facts.len() != self.tables.len() {
            let (have, need) = (facts.len(), self.tables.len());
            return Err(QueryError::Batch(format!("facts of {have} tables, expected {need}")));
        }
        let mut tables: Vec<ScopeTable> = Vec::new();
        let mut first = 0;
        for ((name, alias), facts) in self.tables.iter().zip(facts) {
            let name = alias.as_ref().unwrap_or(name).clone();
            if tables.iter().any(|known| known.name.eq_ignore_ascii_case(&name)) {
                let problem = format!("{name:?} occurs twice; give one an alias");
                return Err(QueryError::Misplaced { construct: "FROM".to_owned(), problem });
            }
            tables.push(ScopeTable { name, schema: facts.schema.clone(), first });
            first += facts.schema.columns().len();
        }
        let mut scope = Scope::new(tables);
        match sql::on_a_deep_stack(|| read(&self.query, &mut scope)) {
            Ok(mut select) => {
                select.tables = scope.tables().to_vec();
                select.distinct = scope.into_distinct();
                select.schema = joint_schema(&select.tables, select.distinct.len());
                Ok(select)
            }
            Err(error) => Err(undone(error, scope.position())),
        }
    }
}

fn joint_schema(tables: &[ScopeTable], flags: usize) -> Schema {
    let flag = |number: usize| Column {
        name: format!("different {number}"),
        column_type: ColumnType::Bool,
        nullable: false,
    };
    let columns = tables.iter().flat_map(|table| table.schema.columns().iter().cloned());
    Schema::joint(columns.chain((0..flags).map(flag)).collect())
}

/// Resolves the clauses in the order in which aliases become visible.
fn read(query: &ast::Query, scope: &mut Scope) -> Result<Select, QueryError> {
    let select = sql::plain_select(query)?;
    let is_distinct = match &select.distinct {
        None | Some(ast::Distinct::All) => false,
        Some(ast::Distinct::Distinct) => true,
        Some(ast::Distinct::On(_)) => return Err(refuse("DISTINCT ON", "DISTINCT applies to whole rows")),
    };
    let mut conditions = Vec::new();
    let mut joined = 0;
    for from in &select.from {
        let first = joined;
        joined += 1;
        for join in &from.joins {
            joined += 1;
            on(join, (first, joined), scope, &mut conditions)?;
        }
    }
    let mut outputs = Vec::new();
    for item in &select.projection {
        read_output(item, scope, &mut outputs)?;
        if outputs.len() > crate::bind::OUTPUTS_MAX {
            let (found, max) = (outputs.len() as u64, crate::bind::OUTPUTS_MAX as u64);
            return Err(QueryError::Limit { what: "columns of a result", found, max });
        }
    }
    scope.set_aliases(outputs.iter().map(|output| (output.name.clone(), output.term.term.clone())).collect());
    scope.use_aliases(AliasUse::Last);
    if let Some(condition) = &select.selection {
        conjuncts(placed(condition, scope)?, &mut conditions);
    }
    let group_by = match &select.group_by {
        ast::GroupByExpr::All(_) => return Err(refuse("GROUP BY ALL", "GROUP BY must list its keys")),
        ast::GroupByExpr::Expressions(keys, modifiers) => {
            sql::refuse_if(&[(!modifiers.is_empty(), "modifier of GROUP BY")])?;
            keys.iter().map(|key| group_key(key, scope, &outputs)).collect::<Result<Vec<_>, _>>()?
        }
    };
    scope.use_aliases(AliasUse::First);
    let having = select.having.as_ref().map(|having| placed(having, scope)).transpose()?;
    let order_by = match &query.order_by {
        Some(order_by) => orders(order_by, scope, &outputs)?,
        None => Vec::new(),
    };
    let (offset, limit) = limits(query.limit_clause.as_ref(), scope)?;
    Ok(Select {
        tables: Vec::new(),
        schema: Schema::joint(Vec::new()),
        outputs,
        conditions,
        group_by,
        having,
        distinct: Vec::new(),
        is_distinct,
        order_by,
        offset,
        limit,
    })
}

fn placed(expr: &ast::Expr, scope: &Scope) -> Result<PlacedTerm, QueryError> {
    let names = Names { table: String::new(), alias: None, scope: Some(scope) };
    let term = sql::term::convert(expr, &names)?;
    Ok(PlacedTerm { term, position: position(expr.span().start) })
}

/// Splits a condition at its ANDs.
fn conjuncts(condition: PlacedTerm, into: &mut Vec<PlacedTerm>) {
    let position = condition.position;
    match condition.term {
        Term::And(terms) => terms.into_iter().for_each(|term| conjuncts(PlacedTerm { term, position }, into)),
        term => into.push(PlacedTerm { term, position }),
    }
}

/// Resolves a join condition. `joined` has the first table of this FROM item, and the number of tables including the joined one.
fn on(
    join: &ast::Join,
    (first, joined): (usize, usize),
    scope: &mut Scope,
    conditions: &mut Vec<PlacedTerm>,
) -> Result<(), QueryError> {
    use ast::JoinOperator::{CrossJoin, Inner, Join};
    let constraint = match &join.join_operator {
        Join(constraint) | Inner(constraint) if !join.global => constraint,
        CrossJoin(_) => return Err(refuse("CROSS JOIN", "tables must be joined by equal columns")),
        _ => {
            return Err(refuse(
                "OUTER, SEMI, ANTI or ASOF JOIN",
                "only inner joins by equality are supported",
            ));
        }
    };
    match constraint {
        ast::JoinConstraint::On(condition) => {
            conjuncts(placed(condition, scope)?, conditions);
            Ok(())
        }
        ast::JoinConstraint::Using(columns) => {
            for column in columns {
                let [ast::ObjectNamePart::Identifier(column)] = &column.0[..] else {
                    return Err(refuse("qualified column in USING", "USING takes unqualified column names"));
                };
                let position = position(column.span.start);
                let right = scope.tables()[joined - 1].name.clone();
                let right = scope.column(Some(&right), &column.value)?;
                // Finds the table of this FROM item, before the joined one, that has the column.
                let mut left = Vec::new();
                for table in &scope.tables()[first..joined - 1] {
                    let found = table.schema.find(&column.value).map(|index| table.first + index);
                    left.extend(found.filter(|index| !scope.is_hidden(*index)));
                }
                let [left] = left[..] else {
                    let problem = format!("{} tables before it have column {:?}", left.len(), column.value);
                    return Err(QueryError::Misplaced { construct: "USING".to_owned(), problem });
                };
                if let Term::Column(ColumnName::Index(index)) = &right {
                    scope.hide(usize::from(*index));
                }
                let left = Term::Column(ColumnName::Index(left as u16));
                let term = Term::Compare(Comparison::Eq, Box::new([left, right]));
                conditions.push(PlacedTerm { term, position });
            }
            Ok(())
        }
        ast::JoinConstraint::Natural => {
            Err(refuse("NATURAL JOIN", "ON or USING must name the equal columns"))
        }
        // The equality may be in WHERE.
        ast::JoinConstraint::None => Ok(()),
    }
}

fn read_output(
    item: &ast::SelectItem,
    scope: &Scope,
    outputs: &mut Vec<SelectOutput>,
) -> Result<(), QueryError> {
    let all = |qualifier: Option<&str>, position: SqlPosition, outputs: &mut Vec<SelectOutput>| {
        let before = outputs.len();
        for table in scope.tables() {
            if qualifier.is_some_and(|qualifier| !qualifier.eq_ignore_ascii_case(&table.name)) {
                continue;
            }
            for (index, column) in table.schema.columns().iter().enumerate() {
                if qualifier.is_none() && scope.is_hidden(table.first + index) {
                    continue;
                }
                let term = Term::Column(ColumnName::Index((table.first + index) as u16));
                let (term, name) = (PlacedTerm { term, position }, column.name.clone());
                outputs.push(SelectOutput { term, name });
            }
        }
        match outputs.len() > before {
            true => Ok(()),
            false => Err(QueryError::Misplaced {
                construct: "SELECT".to_owned(),
                problem: format!("no table is named {:?}", qualifier.unwrap_or_default()),
            }),
        }
    };
    let plain = |options: &ast::WildcardAdditionalOptions| {
        let plain = ast::WildcardAdditionalOptions {
            wildcard_token: options.wildcard_token.clone(),
            ..ast::WildcardAdditionalOptions::default()
        };
        sql::refuse_if(&[(*options != plain, "option of *")])
    };
    let at = position(item.span().start);
    match item {
        ast::SelectItem::UnnamedExpr(expr) => {
            let term = placed(expr, scope)?;
            let name = match expr {
                ast::Expr::Identifier(ident) => ident.value.clone(),
                ast::Expr::CompoundIdentifier(parts) => {
                    parts.last().map(|part| part.value.clone()).unwrap_or_default()
                }
                // As written: the term has column indexes instead of names.
                other => other.to_string(),
            };
            let name = match &term.term {
                // As spelled in the schema.
                Term::Column(ColumnName::Index(index)) => {
                    let index = usize::from(*index);
                    let table = scope.tables().iter().rev().find(|table| table.first <= index);
                    table.map_or(name, |table| table.schema.columns()[index - table.first].name.clone())
                }
                _ => name,
            };
            outputs.push(SelectOutput { term, name: sql::bounded(name) });
            Ok(())
        }
        ast::SelectItem::ExprWithAlias { expr, alias } => {
            let term = placed(expr, scope)?;
            outputs.push(SelectOutput { term, name: sql::bounded(alias.value.clone()) });
            Ok(())
        }
        ast::SelectItem::Wildcard(options) => {
            plain(options)?;
            all(None, at, outputs)
        }
        ast::SelectItem::QualifiedWildcard(
            ast::SelectItemQualifiedWildcardKind::ObjectName(name),
            options,
        ) => {
            plain(options)?;
            match &name.0[..] {
                [ast::ObjectNamePart::Identifier(table)] => all(Some(&table.value), at, outputs),
                _ => Err(refuse("qualified *", "only a table's name may precede it")),
            }
        }
        ast::SelectItem::QualifiedWildcard(..) => {
            Err(refuse("qualified *", "only a table's name may precede it"))
        }
        ast::SelectItem::ExprWithAliases { .. } => {
            Err(refuse("several aliases", "an output can have only one name"))
        }
    }
}

fn at(number: i128, outputs: &[SelectOutput], construct: &str) -> Result<usize, QueryError> {
    match usize::try_from(number) {
        Ok(number) if (1..=outputs.len()).contains(&number) => Ok(number - 1),
        _ => Err(QueryError::Misplaced {
            construct: construct.to_owned(),
            problem: format!("output {number} is out of range; outputs are 1 to {}", outputs.len()),
        }),
    }
}

fn group_key(key: &ast::Expr, scope: &Scope, outputs: &[SelectOutput]) -> Result<PlacedTerm, QueryError> {
    let key = placed(key, scope)?;
    let Term::Literal(Literal::Integer(number)) = key.term else { return Ok(key) };
    Ok(outputs[at(number, outputs, "GROUP BY")?].term.clone())
}

fn orders(
    order_by: &ast::OrderBy,
    scope: &Scope,
    outputs: &[SelectOutput],
) -> Result<Vec<(Order, SqlPosition)>, QueryError> {
    sql::refuse_if(&[(order_by.interpolate.is_some(), "INTERPOLATE")])?;
    let ast::OrderByKind::Expressions(exprs) = &order_by.kind else {
        return Err(refuse("ORDER BY ALL", "ORDER BY must list its terms"));
    };
    if exprs.len() > TERMS_MAX {
        let (found, max) = (exprs.len() as u64, TERMS_MAX as u64);
        return Err(QueryError::Limit { what: "terms of ORDER BY", found, max });
    }
    let order = |order: &ast::OrderByExpr| {
        sql::refuse_if(&[(order.with_fill.is_some(), "WITH FILL")])?;
        // A bare name refers to an output first; inside an expression it refers to a column.
        let is_name = matches!(order.expr, ast::Expr::Identifier(_));
        scope.use_aliases(if is_name { AliasUse::First } else { AliasUse::Last });
        let mut key = placed(&order.expr, scope)?;
        if let Term::Literal(Literal::Integer(number)) = key.term {
            key.term = outputs[at(number, outputs, "ORDER BY")?].term.term.clone();
        }
        let descending = order.options.asc == Some(false);
        let nulls_first = order.options.nulls_first == Some(true);
        Ok((Order { term: key.term, descending, nulls_first }, key.position))
    };
    exprs.iter().map(order).collect()
}

fn limits(clause: Option<&ast::LimitClause>, scope: &Scope) -> Result<(u64, Option<u64>), QueryError> {
    let rows = |construct: &str, expr: &ast::Expr| match placed(expr, scope)?.term {
        Term::Literal(Literal::Integer(rows)) if rows >= 0 => Ok(u64::try_from(rows).unwrap_or(u64::MAX)),
        _ => Err(QueryError::Misplaced {
            construct: construct.to_owned(),
            problem: "must be a number of rows, 0 or more".to_owned(),
        }),
    };
    match clause {
        None => Ok((0, None)),
        Some(ast::LimitClause::LimitOffset { limit, offset, limit_by }) if limit_by.is_empty() => {
            let limit = limit.as_ref().map(|limit| rows("LIMIT", limit)).transpose()?;
            let offset = offset.as_ref().map(|offset| rows("OFFSET", &offset.value)).transpose()?;
            Ok((offset.unwrap_or(0), limit))
        }
        Some(_) => Err(refuse("LIMIT BY", "LIMIT and OFFSET must be numbers of rows")),
    }
}
