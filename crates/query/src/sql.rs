//! Parser of statements from SQL text, in DuckDB's dialect.
//!
//! Text is limited before it is parsed: in tokens, in operators (a chain of them is a deep tree) and in nesting. Parts of SELECT that are
//! not supported are refused by name.

pub(crate) mod scope;
pub(crate) mod term;
mod trials;

use sqlparser::ast;
use sqlparser::dialect::DuckDbDialect;
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer};

use crate::error::{QueryError, at_most, refuse};
use crate::schema::NAME_BYTES_MAX;
use crate::statement::{Literal, Order, Output, Statement, TERMS_MAX, Term};
use term::Names;

/// Upper limit of tokens, without white space.
const TOKENS_MAX: usize = 2 * TERMS_MAX;
/// Upper limit of tokens that can deepen the tree: all except names, numbers, strings and commas.
const OPERATORS_MAX: usize = 2048;
/// Upper limit of nesting in the parser.
const RECURSION_MAX: usize = 40;
/// What parsing and walking a tree within these limits may take of the stack. A thread's own has 2 MiB or less, which is too little
/// where sqlparser is not optimised; that spares a minute of its compilation.
const STACK_BYTES: usize = 16 << 20;

/// Runs what recurses over sqlparser's trees on a stack of its own, whatever the thread has left.
pub(crate) fn on_a_deep_stack<T>(parse: impl FnOnce() -> T) -> T {
    stacker::grow(STACK_BYTES, parse)
}

/// Parses a SELECT over one table.
///
/// # Errors
/// Invalid SQL, too long or too deep, or an unsupported construct.
pub fn parse(text: &str) -> Result<Statement, QueryError> {
    let tokens = tokens(text)?;
    if let Some((construct, why, _)) = sub_query(&tokens) {
        return Err(refuse(construct, why));
    }
    on_a_deep_stack(|| select(query(tokens)?))
}

/// The query of a text that has exactly one.
pub(crate) fn query(tokens: Vec<TokenWithSpan>) -> Result<ast::Query, QueryError> {
    let mut parser = parser(tokens);
    let statement = parser.parse_statement().map_err(syntax)?;
    while parser.consume_token(&Token::SemiColon) {}
    if parser.peek_token().token != Token::EOF {
        return Err(QueryError::Syntax(format!(
            "unexpected {:?} after the statement",
            parser.peek_token().token.to_string()
        )));
    }
    match statement {
        ast::Statement::Query(query) => Ok(*query),
        other => {
            let name = other.to_string().split(' ').next().unwrap_or_default().to_owned();
            Err(refuse(name, "a task must be a SELECT"))
        }
    }
}

fn parser(tokens: Vec<TokenWithSpan>) -> Parser<'static> {
    Parser::new(&DuckDbDialect {}).with_recursion_limit(RECURSION_MAX).with_tokens_with_locations(tokens)
}

/// Parses a predicate, as after WHERE.
///
/// # Errors
/// Same as [`parse`].
pub fn parse_predicate(text: &str) -> Result<Term, QueryError> {
    let tokens = tokens(text)?;
    if let Some((construct, why, _)) = sub_query(&tokens) {
        return Err(refuse(construct, why));
    }
    on_a_deep_stack(|| {
        let mut parser = parser(tokens);
        let expr = parser.parse_expr().map_err(syntax)?;
        if parser.peek_token().token != Token::EOF {
            return Err(QueryError::Syntax(format!(
                "unexpected {:?} after the predicate",
                parser.peek_token().token.to_string()
            )));
        }
        term::convert(&expr, &Names::default())
    })
}

fn syntax(error: ParserError) -> QueryError {
    match error {
        ParserError::RecursionLimitExceeded => {
            let max = RECURSION_MAX as u64;
            QueryError::Limit { what: "levels of nesting", found: max + 1, max }
        }
        ParserError::TokenizerError(text) | ParserError::ParserError(text) => {
            QueryError::Syntax(text.chars().take(200).collect())
        }
    }
}

/// Tokenizes a text and checks the limits.
pub(crate) fn tokens(text: &str) -> Result<Vec<TokenWithSpan>, QueryError> {
    let tokens = Tokenizer::new(&DuckDbDialect {}, text).tokenize_with_location();
    let tokens = tokens.map_err(|error| syntax(error.into()))?;
    let tokens: Vec<TokenWithSpan> =
        tokens.into_iter().filter(|token| !matches!(token.token, Token::Whitespace(_))).collect();
    at_most("tokens of SQL", tokens.len(), TOKENS_MAX)?;
    let flat = |token: &&TokenWithSpan| match &token.token {
        Token::Word(word) => word.keyword == Keyword::NoKeyword,
        Token::Number(..) | Token::SingleQuotedString(_) | Token::Comma => true,
        _ => false,
    };
    let operators = tokens.iter().filter(|token| !flat(token)).count();
    at_most("operators, keywords and parentheses of SQL", operators, OPERATORS_MAX)?;
    trials::check(&tokens)?;
    Ok(tokens)
}

/// Finds a sub-query among the tokens: name, reason and position. It is refused before parsing, because the parser takes long on nested
/// ones.
pub(crate) fn sub_query(tokens: &[TokenWithSpan]) -> Option<(&'static str, &'static str, Location)> {
    let keyword =
        |token: &TokenWithSpan, wanted| matches!(&token.token, Token::Word(word) if word.keyword == wanted);
    tokens.windows(2).find_map(|pair| {
        let place = pair[1].span.start;
        if pair[1].token == Token::LParen
            && (keyword(&pair[0], Keyword::FROM) || keyword(&pair[0], Keyword::JOIN))
        {
            return Some(("sub-query", "FROM must name one table", place));
        }
        let begins = keyword(&pair[1], Keyword::SELECT) || keyword(&pair[1], Keyword::WITH);
        (pair[0].token == Token::LParen && begins).then_some((
            "sub-query",
            "a task reads a single table once",
            place,
        ))
    })
}

/// The SELECT of a query without clauses that neither side supports. It may contain clauses that only the host supports.
pub(crate) fn plain_select(query: &ast::Query) -> Result<&ast::Select, QueryError> {
    refuse_if(&[
        (query.with.is_some(), "WITH"),
        (query.fetch.is_some(), "FETCH"),
        (!query.locks.is_empty(), "FOR UPDATE"),
        (query.for_clause.is_some(), "FOR"),
        (query.settings.is_some(), "SETTINGS"),
        (query.format_clause.is_some(), "FORMAT"),
        (!query.pipe_operators.is_empty(), "pipe operator"),
    ])?;
    let select = match &*query.body {
        ast::SetExpr::Select(select) => &**select,
        ast::SetExpr::SetOperation { op, .. } => {
            return Err(refuse(op.to_string(), "a task must be a single SELECT"));
        }
        ast::SetExpr::Query(_) => return Err(refuse("sub-query", "a task reads a single table once")),
        ast::SetExpr::Values(_) => return Err(refuse("VALUES", "a task must read a table")),
        _ => return Err(refuse("statement", "a task must be a SELECT")),
    };
    refuse_if(&[
        (select.top.is_some(), "TOP"),
        (select.exclude.is_some(), "EXCLUDE"),
        (select.into.is_some(), "INTO"),
        (!select.lateral_views.is_empty(), "LATERAL VIEW"),
        (select.prewhere.is_some(), "PREWHERE"),
        (!select.connect_by.is_empty(), "CONNECT BY"),
        (!select.cluster_by.is_empty(), "CLUSTER BY"),
        (!select.distribute_by.is_empty(), "DISTRIBUTE BY"),
        (!select.sort_by.is_empty(), "SORT BY"),
        (!select.named_window.is_empty(), "WINDOW"),
        (select.qualify.is_some(), "QUALIFY"),
        (select.value_table_mode.is_some(), "SELECT AS"),
        (select.select_modifiers.is_some(), "modifier of SELECT"),
        (select.flavor != ast::SelectFlavor::Standard, "FROM before SELECT"),
    ])?;
    Ok(select)
}

fn select(query: ast::Query) -> Result<Statement, QueryError> {
    let select = plain_select(&query)?;
    refuse_if(&[(select.distinct.is_some(), "DISTINCT")])?;
    let names = table(&select.from)?;
    let mut statement = Statement { outputs: Vec::new(), ..Statement::all(&names.table) };
    for item in &select.projection {
        statement.outputs.push(output(item, &names)?);
    }
    statement.filter = select.selection.as_ref().map(|filter| term::convert(filter, &names)).transpose()?;
    statement.having = select.having.as_ref().map(|having| term::convert(having, &names)).transpose()?;
    match &select.group_by {
        ast::GroupByExpr::All(_) => return Err(refuse("GROUP BY ALL", "GROUP BY must list its keys")),
        ast::GroupByExpr::Expressions(keys, modifiers) => {
            refuse_if(&[(!modifiers.is_empty(), "modifier of GROUP BY")])?;
            statement.group_by =
                keys.iter().map(|key| term::convert(key, &names)).collect::<Result<_, _>>()?;
        }
    }
    if let Some(order_by) = &query.order_by {
        statement.order_by = orders(order_by, &names)?;
    }
    statement.limit = limit(query.limit_clause.as_ref(), &names)?;
    Ok(statement)
}

pub(crate) fn refuse_if(constructs: &[(bool, &str)]) -> Result<(), QueryError> {
    match constructs.iter().find(|(there, _)| *there) {
        Some((_, construct)) => {
            Err(refuse(*construct, "a task consists of SELECT, FROM one table, WHERE, GROUP BY, LIMIT"))
        }
        None => Ok(()),
    }
}

/// The single table in FROM.
fn table(from: &[ast::TableWithJoins]) -> Result<Names<'static>, QueryError> {
    let [ast::TableWithJoins { relation, joins }] = from else {
        return Err(match from.len() {
            0 => refuse("SELECT without FROM", "a task must read a table"),
            _ => refuse("JOIN", "FROM must name one table"),
        });
    };
    refuse_if(&[(!joins.is_empty(), "JOIN")])?;
    let (table, alias) = table_factor(relation)?;
    Ok(Names { table, alias, scope: None })
}

/// A table's name and alias.
pub(crate) fn table_factor(relation: &ast::TableFactor) -> Result<(String, Option<String>), QueryError> {
    match relation {
        ast::TableFactor::Table {
            name,
            alias,
            args: None,
            with_hints,
            version: None,
            with_ordinality: false,
            partitions,
            json_path: None,
            sample,
            index_hints,
        } => {
            refuse_if(&[
                (sample.is_some(), "TABLESAMPLE"),
                (!with_hints.is_empty() || !index_hints.is_empty() || !partitions.is_empty(), "hint"),
            ])?;
            let [ast::ObjectNamePart::Identifier(name)] = &name.0[..] else {
                return Err(refuse("qualified table", format!("{name} has more than one part")));
            };
            let alias = match alias {
                Some(alias) if !alias.columns.is_empty() => {
                    return Err(refuse(
                        "column aliases of a table",
                        "columns have their names in the schema",
                    ));
                }
                Some(alias) => Some(alias.name.value.clone()),
                None => None,
            };
            if name.value.is_empty() || name.value.len() > NAME_BYTES_MAX {
                let (found, max) = (name.value.len() as u64, NAME_BYTES_MAX as u64);
                return Err(QueryError::Limit { what: "bytes of a table's name", found, max });
            }
            Ok((name.value.clone(), alias))
        }
        ast::TableFactor::Derived { .. } => Err(refuse("sub-query", "FROM must name one table")),
        ast::TableFactor::NestedJoin { .. } => Err(refuse("JOIN", "FROM must name one table")),
        _ => Err(refuse("table function", "FROM must name one table")),
    }
}

fn output(item: &ast::SelectItem, names: &Names<'_>) -> Result<Output, QueryError> {
    let named = |expr: &ast::Expr, name: String| {
        Ok(Output::Term { term: term::convert(expr, names)?, name: bounded(name) })
    };
    match item {
        ast::SelectItem::UnnamedExpr(ast::Expr::Identifier(ident)) => {
            named(&ast::Expr::Identifier(ident.clone()), ident.value.clone())
        }
        ast::SelectItem::UnnamedExpr(expr @ ast::Expr::CompoundIdentifier(parts)) => {
            named(expr, parts.last().map(|part| part.value.clone()).unwrap_or_default())
        }
        ast::SelectItem::UnnamedExpr(expr) => {
            let term = term::convert(expr, names)?;
            let name = bounded(term.to_string());
            Ok(Output::Term { term, name })
        }
        ast::SelectItem::ExprWithAlias { expr, alias } => named(expr, alias.value.clone()),
        ast::SelectItem::Wildcard(options) => {
            let plain = ast::WildcardAdditionalOptions {
                wildcard_token: options.wildcard_token.clone(),
                ..ast::WildcardAdditionalOptions::default()
            };
            refuse_if(&[(*options != plain, "option of *")])?;
            Ok(Output::Star)
        }
        ast::SelectItem::QualifiedWildcard(..) => Err(refuse("qualified *", "only a plain * is supported")),
        ast::SelectItem::ExprWithAliases { .. } => {
            Err(refuse("several aliases", "an output can have only one name"))
        }
    }
}

pub(crate) fn bounded(mut name: String) -> String {
    name.truncate(name.floor_char_boundary(NAME_BYTES_MAX));
    name
}

fn orders(order_by: &ast::OrderBy, names: &Names<'_>) -> Result<Vec<Order>, QueryError> {
    refuse_if(&[(order_by.interpolate.is_some(), "INTERPOLATE")])?;
    let ast::OrderByKind::Expressions(exprs) = &order_by.kind else {
        return Err(refuse("ORDER BY ALL", "ORDER BY must list its terms"));
    };
    let order = |order: &ast::OrderByExpr| {
        refuse_if(&[(order.with_fill.is_some(), "WITH FILL")])?;
        Ok(Order {
            term: term::convert(&order.expr, names)?,
            descending: order.options.asc == Some(false),
            nulls_first: order.options.nulls_first == Some(true),
        })
    };
    exprs.iter().map(order).collect()
}

fn limit(clause: Option<&ast::LimitClause>, names: &Names<'_>) -> Result<Option<u64>, QueryError> {
    let limit = match clause {
        None => return Ok(None),
        Some(ast::LimitClause::LimitOffset { limit, offset: None, limit_by }) if limit_by.is_empty() => limit,
        Some(_) => return Err(refuse("OFFSET", "rows of a table are unordered")),
    };
    let Some(limit) = limit else { return Ok(None) };
    match term::convert(limit, names)? {
        Term::Literal(Literal::Integer(rows)) if rows >= 0 => {
            Ok(Some(u64::try_from(rows).unwrap_or(u64::MAX)))
        }
        _ => Err(QueryError::Misplaced {
            construct: "LIMIT".to_owned(),
            problem: "must be a number of rows, 0 or more".to_owned(),
        }),
    }
}
