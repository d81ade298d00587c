//! Name resolution: a name refers to a column of a table in FROM, or to an output by its alias.
//!
//! The columns of all tables form one row, table after table in the order of FROM; terms refer to them by index.

use std::cell::{Cell, RefCell};

use sqlparser::ast::{self, Spanned};
use sqlparser::tokenizer::Location;

use crate::error::{QueryError, SqlPosition};
use crate::schema::Schema;
use crate::statement::{AggregateFunction, ColumnName, Term};

/// A table in FROM.
#[derive(Debug, Clone)]
pub(crate) struct ScopeTable {
    /// Alias, or name.
    pub name: String,
    /// Schema.
    pub schema: Schema,
    /// Index of its first column in the row of all tables.
    pub first: usize,
}

/// Which of the two a name refers to, if both a column and an output have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AliasUse {
    /// Only columns: aliases are not visible yet.
    None,
    /// The column: in WHERE, GROUP BY, ON, and expressions in ORDER BY.
    Last,
    /// The output: in HAVING, and bare names in ORDER BY.
    First,
}

/// Names visible in a query.
#[derive(Debug)]
pub(crate) struct Scope {
    tables: Vec<ScopeTable>,
    /// The right-hand columns of USING: only a qualified name refers to them, and `*` omits them.
    hidden: Vec<usize>,
    aliases: RefCell<Vec<(String, Term)>>,
    alias_use: Cell<AliasUse>,
    /// Arguments of DISTINCT aggregates, in the order of their flags, which follow the tables' columns.
    distinct: RefCell<Vec<Term>>,
    /// Position of the first error.
    position: Cell<Option<SqlPosition>>,
}

impl Scope {
    pub fn new(tables: Vec<ScopeTable>) -> Self {
        Self {
            tables,
            hidden: Vec::new(),
            aliases: RefCell::default(),
            alias_use: Cell::new(AliasUse::None),
            distinct: RefCell::default(),
            position: Cell::default(),
        }
    }

    pub fn tables(&self) -> &[ScopeTable] {
        &self.tables
    }

    /// Number of columns of all tables.
    pub fn columns(&self) -> usize {
        self.tables.last().map_or(0, |table| table.first + table.schema.columns().len())
    }

    pub fn is_hidden(&self, index: usize) -> bool {
        self.hidden.contains(&index)
    }

    pub fn hide(&mut self, index: usize) {
        self.hidden.push(index);
    }

    /// Makes aliases visible from now on.
    pub fn set_aliases(&self, aliases: Vec<(String, Term)>) {
        self.aliases.replace(aliases);
    }

    pub fn use_aliases(&self, alias_use: AliasUse) {
        self.alias_use.set(alias_use);
    }

    pub fn into_distinct(self) -> Vec<Term> {
        self.distinct.into_inner()
    }

    /// Records the position of an error if it is the first. The innermost expression reports first.
    pub fn note(&self, expr: &ast::Expr) {
        if self.position.get().is_none() {
            self.position.set(Some(position(expr.span().start)));
        }
    }

    /// Position of the first error, if known.
    pub fn position(&self) -> SqlPosition {
        self.position.get().unwrap_or_default()
    }

    /// Resolves a name.
    pub fn column(&self, qualifier: Option<&str>, name: &str) -> Result<Term, QueryError> {
        let alias = || {
            let aliases = self.aliases.borrow();
            let found = aliases.iter().find(|(alias, _)| alias.eq_ignore_ascii_case(name));
            found.filter(|_| qualifier.is_none()).map(|(_, term)| term.clone())
        };
        let aliases = self.alias_use.get();
        if aliases == AliasUse::First
            && let Some(term) = alias()
        {
            return Ok(term);
        }
        let mut found = Vec::new();
        let mut is_table = qualifier.is_none();
        for table in &self.tables {
            if qualifier.is_some_and(|qualifier| !qualifier.eq_ignore_ascii_case(&table.name)) {
                continue;
            }
            is_table = true;
            if let Some(index) = table.schema.find(name).map(|index| table.first + index)
                && (qualifier.is_some() || !self.is_hidden(index))
            {
                found.push((index, &table.name));
            }
        }
        let short: String = name.chars().take(40).collect();
        let names = || self.tables.iter().map(|table| table.name.as_str()).collect::<Vec<_>>().join(", ");
        match &found[..] {
            [(index, _)] => Ok(Term::Column(ColumnName::Index(*index as u16))),
            [] if !is_table => {
                let problem =
                    format!("names {:?}; the tables are {}", qualifier.unwrap_or_default(), names());
                Err(QueryError::Misplaced { construct: "qualifier of a column".to_owned(), problem })
            }
            [] => match alias().filter(|_| aliases == AliasUse::Last) {
                Some(term) => Ok(term),
                None => Err(self.unknown(qualifier, short)),
            },
            [(_, first), (_, second), ..] => {
                let problem =
                    format!("is in both {first:?} and {second:?}; qualify it, as in {first}.{short}");
                Err(QueryError::Misplaced { construct: format!("column {short:?}"), problem })
            }
        }
    }

    fn unknown(&self, qualifier: Option<&str>, name: String) -> QueryError {
        let own = |table: &&ScopeTable| {
            qualifier.is_none_or(|qualifier| qualifier.eq_ignore_ascii_case(&table.name))
        };
        let tables: Vec<&ScopeTable> = self.tables.iter().filter(own).collect();
        let mut columns: Vec<&str> = tables
            .iter()
            .flat_map(|table| table.schema.columns().iter().map(|column| column.name.as_str()))
            .take(21)
            .collect();
        if columns.len() == 21 {
            columns[20] = "...";
        }
        let names: Vec<&str> = tables.iter().map(|table| table.name.as_str()).collect();
        QueryError::UnknownColumn { table: names.join(", "), name, columns: columns.join(", ") }
    }

    /// Rewrites a DISTINCT aggregate as one over the values whose flag is set. The rest of the query sets the flag at the first occurrence
    /// of a value.
    pub fn distinct(&self, function: AggregateFunction, argument: Term) -> Result<Term, QueryError> {
        if matches!(function, AggregateFunction::Min | AggregateFunction::Max) {
            return Ok(Term::Aggregate(function, Some(Box::new(argument))));
        }
        let mut all = self.distinct.borrow_mut();
        let number = all.iter().position(|known| *known == argument).unwrap_or_else(|| {
            all.push(argument.clone());
            all.len() - 1
        });
        let flag = u16::try_from(self.columns() + number).map_err(|_| QueryError::Limit {
            what: "columns of all tables",
            found: (self.columns() + number) as u64,
            max: u16::MAX.into(),
        })?;
        let flag = Term::Column(ColumnName::Index(flag));
        let first = Term::Case { arms: vec![(flag, argument)], otherwise: None };
        Ok(Term::Aggregate(function, Some(Box::new(first))))
    }
}

/// Converts the parser's location.
pub(crate) fn position(location: Location) -> SqlPosition {
    SqlPosition { line: location.line, column: location.column }
}
