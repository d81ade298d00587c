//! Splits a query into a scan for each table and a rest, with reasons.

use super::select::{PlacedTerm, Select, TableFacts, WholeQuery, undone};
use super::stages::{Condition, JoinStage, all_of, stages};
use crate::bind::terms::{Binder, has_aggregate};
use crate::bind::{self, AGGREGATES_MAX, OUTPUTS_MAX};
use crate::engine::columns_mut;
use crate::error::{QueryError, refuse};
use crate::expr::{Expr, Grouping, Output, OutputOrder};
use crate::schema::{ColumnType, Schema};
use crate::sql::scope::ScopeTable;
use crate::statement::{self, AggregateFunction, ColumnName, Statement, Term};
use crate::task::{Form, Task};

/// Constructs that may be pushed down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PushPolicy {
    /// Whether a query of one table pushes its groups and aggregates. If not, the drive returns rows and the host groups them, for more
    /// groups than a drive holds.
    pub groups: bool,
}

/// The scan that is pushed to a table.
#[derive(Debug, Clone, PartialEq)]
pub struct Scan {
    /// Index of the table in FROM.
    pub table: usize,
    /// The statement. Its columns are indexes of the table.
    pub statement: Statement,
    /// Human-readable description.
    pub what: String,
    schema: Schema,
}

impl Scan {
    /// The scan as a task. SQL falls back to the compact form if the text would be nested too deep for a
    /// drive's parser.
    ///
    /// # Errors
    /// The task exceeds the maximum length in bytes.
    pub fn task(&self, form: Form) -> Result<Task, QueryError> {
        if form != Form::Compact
            && let Ok(task) = Task::parse(Form::Sql, self.text().as_bytes())
        {
            return Ok(task);
        }
        Task::compact(&self.statement, Some(&self.schema))
    }

    /// The scan as SQL.
    pub fn text(&self) -> String {
        self.statement.text(&self.schema)
    }
}

/// The part that the host executes over the returned rows.
#[derive(Debug, Clone)]
pub struct Rest {
    /// For each scan the index of its first column in a row of all scans, and its column types.
    pub(super) inputs: Vec<(usize, Vec<ColumnType>)>,
    /// The scan that is the probe side of the joins.
    pub(super) probe: usize,
    /// Condition without columns.
    pub(super) filter: Option<Expr>,
    pub(super) stages: Vec<JoinStage>,
    /// Arguments of DISTINCT aggregates. The flag of each is a column after those of the scans.
    pub(super) distinct: Vec<Expr>,
    /// Grouping on the host, if any.
    pub(super) grouping: Option<Grouping>,
    /// Condition on groups.
    pub(super) having: Option<Expr>,
    /// Columns of the result, then those used by ORDER BY only.
    pub(super) outputs: Vec<Output>,
    pub(super) shown: usize,
    pub(super) is_distinct: bool,
    pub(super) order_by: Vec<OutputOrder>,
    pub(super) offset: u64,
    pub(super) limit: Option<u64>,
    /// Constructs left for the host with the reasons, human-readable.
    pub left: Vec<String>,
}

impl Rest {
    /// Indexes of the scans in the order in which their rows must be pushed.
    pub fn order(&self) -> Vec<usize> {
        self.stages.iter().map(|stage| stage.table).chain([self.probe]).collect()
    }

    /// Whether the result is sorted.
    pub fn is_ordered(&self) -> bool {
        !self.order_by.is_empty()
    }

    /// Whether the host groups the rows.
    pub fn makes_groups(&self) -> bool {
        self.grouping.is_some()
    }

    /// Types of the result's columns.
    pub fn types(&self) -> impl Iterator<Item = ColumnType> {
        self.outputs[..self.shown].iter().map(|output| output.expr.column_type)
    }
}

/// A query split between drive and host.
#[derive(Debug, Clone)]
pub struct Split {
    /// The scans, one for each table in FROM.
    pub scans: Vec<Scan>,
    /// The rest, for the host.
    pub rest: Rest,
}

impl WholeQuery {
    /// Splits the query. `facts` describe [`tables`](Self::tables), one for each.
    ///
    /// # Errors
    /// An unknown or ambiguous column, incompatible types, or a construct that neither side supports.
    pub fn split(&self, facts: &[TableFacts], policy: PushPolicy) -> Result<Split, QueryError> {
        Split::new(self.read(facts)?, facts, policy)
    }
}

/// A query bound over the row of all tables.
struct Bound {
    conditions: Vec<(Condition, Term)>,
    distinct: Vec<Expr>,
    key_terms: Vec<Term>,
    grouping: Option<Grouping>,
    having: Option<Expr>,
    outputs: Vec<Output>,
    shown: usize,
    order_by: Vec<OutputOrder>,
}

impl Split {
    fn new(select: Select, facts: &[TableFacts], policy: PushPolicy) -> Result<Self, QueryError> {
        let mut bound = bind(&select)?;
        let pushes_groups = policy.groups && select.tables.len() == 1 && select.distinct.is_empty();
        let scan = match (&bound.grouping, pushes_groups) {
            (Some(grouping), true) => grouped_scan(&select, &bound, grouping, facts)?,
            _ => None,
        };
        let rows: Vec<u64> = facts.iter().map(|facts| facts.rows).collect();
        let conditions = std::mem::take(&mut bound.conditions);
        let (mut pushed, mut joining) = (vec![Vec::new(); select.tables.len()], Vec::new());
        let mut without = Vec::new();
        for (condition, term) in conditions {
            match condition.tables.count_ones() {
                0 => without.push(condition.expr),
                1 => pushed[condition.tables.trailing_zeros() as usize].push(term),
                _ => joining.push(condition),
            }
        }
        let left = left(&select, &bound, scan.is_some());
        if let Some(scan) = scan {
            let types = bound.grouping.iter().flat_map(|grouping| {
                let keys = grouping.keys.iter().map(|key| key.column_type);
                keys.chain(grouping.aggregates.iter().map(|aggregate| aggregate.column_type))
            });
            let types: Vec<ColumnType> = types.collect();
            let rest = Rest {
                inputs: vec![(0, types)],
                probe: 0,
                filter: None,
                stages: Vec::new(),
                distinct: Vec::new(),
                grouping: None,
                having: bound.having,
                outputs: bound.outputs,
                shown: bound.shown,
                is_distinct: select.is_distinct,
                order_by: bound.order_by,
                offset: select.offset,
                limit: select.limit,
                left,
            };
            return Ok(Self { scans: vec![scan], rest });
        }
        let names: Vec<&str> = select.tables.iter().map(|table| table.name.as_str()).collect();
        let (probe, mut stages) = stages(joining, &rows, &names)?;
        let columns = needed(&select, &bound, &stages, &without);
        let mut compact = vec![0; select.schema.columns().len()];
        let (mut scans, mut inputs, mut first) = (Vec::new(), Vec::new(), 0);
        for (index, table) in select.tables.iter().enumerate() {
            let own = own_columns(table, &columns);
            own.iter().enumerate().for_each(|(place, &column)| compact[table.first + column] = first + place);
            let types = own.iter().map(|&column| table.schema.columns()[column].column_type);
            inputs.push((first, types.collect()));
            first += own.len();
            scans.push(row_scan(&select, index, &own, &pushed[index], facts));
        }
        let flags = select.tables.last().map_or(0, |table| table.first + table.schema.columns().len());
        (flags..compact.len()).for_each(|flag| compact[flag] = first + flag - flags);
        let mut place = |expr: &mut Expr| columns_mut(expr, &mut |index, _| *index = compact[*index]);
        for stage in &mut stages {
            let keys = stage.keys.iter_mut().flat_map(|(probe, build)| [probe, build]);
            keys.chain(&mut stage.filter).for_each(&mut place);
        }
        bound.distinct.iter_mut().for_each(&mut place);
        match &mut bound.grouping {
            Some(grouping) => {
                grouping.keys.iter_mut().for_each(&mut place);
                let arguments = grouping.aggregates.iter_mut().filter_map(|one| one.argument.as_mut());
                arguments.for_each(&mut place);
            }
            None => bound.outputs.iter_mut().for_each(|output| place(&mut output.expr)),
        }
        let rest = Rest {
            inputs,
            probe,
            filter: all_of(without),
            stages,
            distinct: bound.distinct,
            grouping: bound.grouping,
            having: bound.having,
            outputs: bound.outputs,
            shown: bound.shown,
            is_distinct: select.is_distinct,
            order_by: bound.order_by,
            offset: select.offset,
            limit: select.limit,
            left,
        };
        Ok(Self { scans, rest })
    }
}

fn bind(select: &Select) -> Result<Bound, QueryError> {
    let limit = |what, found: usize, max: usize| match found > max {
        true => Err(QueryError::Limit { what, found: found as u64, max: max as u64 }),
        false => Ok(()),
    };
    let mut binder = Binder::new(&select.schema, "of FROM");
    let placed = |term: &PlacedTerm, bound: Result<Expr, QueryError>| {
        bound.map_err(|error| undone(error, term.position))
    };
    let mut conditions = Vec::new();
    for condition in &select.conditions {
        let expr = binder.condition(&condition.term, "WHERE or ON");
        let expr = placed(condition, expr)?;
        conditions.push((Condition::new(expr, &select.tables), condition.term.clone()));
    }
    let distinct = select.distinct.iter().map(|term| binder.value(term)).collect::<Result<Vec<_>, _>>()?;
    if let Some(argument) =
        distinct.iter().find(|one| matches!(one.column_type, ColumnType::Float32 | ColumnType::Float64))
        && sums_different(select)
    {
        let error = refuse(
            format!("SUM or AVG of DISTINCT {}", argument.column_type),
            "a floating-point sum depends on the order of its terms",
        );
        return Err(undone(error, Default::default()));
    }
    let having_aggregate = select.having.is_some();
    let in_order = || select.order_by.iter().any(|(order, _)| has_aggregate(&order.term));
    let is_grouped = !select.group_by.is_empty()
        || having_aggregate
        || select.outputs.iter().any(|output| has_aggregate(&output.term.term))
        || in_order();
    let mut key_terms = Vec::new();
    if is_grouped {
        let mut keys: Vec<Expr> = Vec::new();
        limit("keys of GROUP BY", select.group_by.len(), AGGREGATES_MAX)?;
        for key in &select.group_by {
            if has_aggregate(&key.term) {
                let problem = "a key must not contain an aggregate".to_owned();
                return Err(QueryError::Misplaced { construct: "GROUP BY".to_owned(), problem });
            }
            let expr = placed(key, binder.value(&key.term))?;
            if !keys.contains(&expr) {
                keys.push(expr);
                key_terms.push(key.term.clone());
            }
        }
        binder.keys = Some(keys);
    }
    let mut outputs: Vec<Output> = Vec::new();
    for output in &select.outputs {
        let expr = placed(&output.term, binder.value(&output.term.term))?;
        outputs.push(Output { name: output.name.clone(), expr, nullable: true });
    }
    let shown = outputs.len();
    let having = select.having.as_ref().map(|term| placed(term, binder.condition(&term.term, "HAVING")));
    let having = having.transpose()?;
    let mut order_by = Vec::new();
    for (order, position) in &select.order_by {
        let expr = binder.value(&order.term).map_err(|error| undone(error, *position))?;
        let output = match outputs.iter().position(|output| output.expr == expr) {
            Some(output) => output,
            None if select.is_distinct => {
                let problem =
                    "orders by an expression that is not selected, although rows are DISTINCT".to_owned();
                return Err(QueryError::Misplaced { construct: "ORDER BY".to_owned(), problem });
            }
            None => {
                outputs.push(Output { name: String::new(), expr, nullable: true });
                limit("columns of a result", outputs.len(), 2 * OUTPUTS_MAX)?;
                outputs.len() - 1
            }
        };
        let (descending, nulls_first) = (order.descending, order.nulls_first);
        order_by.push(OutputOrder { output, descending, nulls_first });
    }
    let aggregates = std::mem::take(&mut binder.aggregates);
    limit("aggregates", aggregates.len(), AGGREGATES_MAX)?;
    let grouping = binder.keys.take().map(|keys| Grouping { keys, aggregates, having: None });
    Ok(Bound { conditions, distinct, key_terms, grouping, having, outputs, shown, order_by })
}

/// Whether a SUM or AVG is DISTINCT.
fn sums_different(select: &Select) -> bool {
    let first = select.tables.last().map_or(0, |table| table.first + table.schema.columns().len());
    let is_sum = |term: &Term| {
        let Term::Aggregate(AggregateFunction::Sum | AggregateFunction::Avg, Some(argument)) = term else {
            return false;
        };
        let Term::Case { arms, .. } = &**argument else { return false };
        matches!(&arms[..], [(Term::Column(ColumnName::Index(flag)), _)] if usize::from(*flag) >= first)
    };
    fn any(term: &Term, test: &impl Fn(&Term) -> bool) -> bool {
        test(term) || term.children().into_iter().any(|child| any(child, test))
    }
    all_terms(select).any(|term| any(term, &is_sum))
}

/// All terms that may contain aggregates.
fn all_terms(select: &Select) -> impl Iterator<Item = &Term> {
    let outputs = select.outputs.iter().map(|output| &output.term.term);
    let orders = select.order_by.iter().map(|(order, _)| &order.term);
    outputs.chain(select.having.iter().map(|having| &having.term)).chain(orders)
}

/// Which columns of the row of all tables the host needs after the scans.
fn needed(select: &Select, bound: &Bound, stages: &[JoinStage], filter: &[Expr]) -> Vec<bool> {
    let mut needed = vec![false; select.schema.columns().len()];
    let mut visit = |expr: &Expr| expr.visit_columns(&mut |index| needed[index] = true);
    filter.iter().for_each(&mut visit);
    for stage in stages {
        stage.keys.iter().flat_map(|(probe, build)| [probe, build]).for_each(&mut visit);
        stage.filter.iter().for_each(&mut visit);
    }
    bound.distinct.iter().for_each(&mut visit);
    match &bound.grouping {
        Some(grouping) => {
            grouping.keys.iter().for_each(&mut visit);
            grouping.aggregates.iter().filter_map(|one| one.argument.as_ref()).for_each(&mut visit);
        }
        None => bound.outputs.iter().for_each(|output| visit(&output.expr)),
    }
    needed
}

/// Indexes of a table's columns that are needed. If none is, the narrowest one, so that its rows can be counted.
fn own_columns(table: &ScopeTable, needed: &[bool]) -> Vec<usize> {
    let count = table.schema.columns().len();
    let own: Vec<usize> = (0..count).filter(|column| needed[table.first + column]).collect();
    if !own.is_empty() {
        return own;
    }
    let bytes = |column: &usize| table.schema.columns()[*column].column_type.stored_bytes().unwrap_or(16);
    (0..count).min_by_key(bytes).into_iter().collect()
}

/// Rewrites a term over the row of all tables as one over the table whose first column is `first`.
fn of_table(term: &Term, first: usize) -> Term {
    let mut term = term.clone();
    term.columns_mut(&mut |name| {
        if let ColumnName::Index(index) = name {
            *index -= first as u16;
        }
    });
    term
}

fn condition(terms: &[Term], first: usize) -> Option<Term> {
    let mut terms: Vec<Term> = terms.iter().map(|term| of_table(term, first)).collect();
    if terms.len() > 1 { Some(Term::And(terms)) } else { terms.pop() }
}

fn named(term: Term) -> statement::Output {
    statement::Output::Term { term, name: String::new() }
}

/// A scan that returns rows: the needed columns, filtered by the table's conditions.
fn row_scan(select: &Select, index: usize, own: &[usize], conditions: &[Term], facts: &[TableFacts]) -> Scan {
    let table = &select.tables[index];
    let column = |&column: &usize| named(Term::Column(ColumnName::Index(column as u16)));
    let ends = select.tables.len() == 1
        && select.order_by.is_empty()
        && !select.is_distinct
        && select.group_by.is_empty()
        && select.having.is_none()
        && !all_terms(select).any(has_aggregate);
    let limit = select.limit.filter(|_| ends).map(|limit| limit.saturating_add(select.offset));
    let statement = Statement {
        outputs: own.iter().map(column).collect(),
        filter: condition(conditions, table.first),
        limit,
        ..Statement::all(&facts[index].name)
    };
    let mut what = match own.len() {
        1 => "1 column".to_owned(),
        count => format!("{count} columns"),
    };
    match conditions.len() {
        0 => what += " of all rows",
        1 => what += " of the rows for which a condition holds",
        count => what += &format!(" of the rows for which {count} conditions hold"),
    }
    if let Some(limit) = limit {
        what += &format!(", at most {limit}");
    }
    Scan { table: index, statement, what, schema: table.schema.clone() }
}

/// A scan that returns groups of the only table: keys and aggregates of each. `None` if the drive does not support all of them.
fn grouped_scan(
    select: &Select,
    bound: &Bound,
    grouping: &Grouping,
    facts: &[TableFacts],
) -> Result<Option<Scan>, QueryError> {
    let table = &select.tables[0];
    let terms = aggregate_terms(select, grouping)?;
    if bound.key_terms.is_empty() && terms.is_empty() {
        return Ok(None);
    }
    let filter: Vec<Term> = select.conditions.iter().map(|condition| condition.term.clone()).collect();
    let statement = Statement {
        outputs: bound.key_terms.iter().cloned().chain(terms).map(named).collect(),
        filter: condition(&filter, 0),
        group_by: bound.key_terms.clone(),
        ..Statement::all(&facts[0].name)
    };
    // The statement must bind on the drive to the same columns as here.
    let query = match bind::bind(&statement, &table.schema) {
        Ok(query) => query,
        Err(QueryError::Refused(_) | QueryError::Limit { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    let same = query
        .grouping
        .as_ref()
        .is_some_and(|there| there.keys == grouping.keys && there.aggregates == grouping.aggregates);
    let what = format!(
        "groups by {} with {}",
        counted(grouping.keys.len(), "key"),
        counted(grouping.aggregates.len(), "aggregate")
    );
    Ok(same.then(|| Scan { table: 0, statement, what, schema: table.schema.clone() }))
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// A term for each aggregate of a grouping, in order.
fn aggregate_terms(select: &Select, grouping: &Grouping) -> Result<Vec<Term>, QueryError> {
    let mut binder = Binder::new(&select.schema, "of FROM");
    binder.keys = Some(grouping.keys.clone());
    let mut found = Vec::new();
    fn visit(term: &Term, into: &mut Vec<Term>) {
        match term {
            Term::Aggregate(..) => into.push(term.clone()),
            other => other.children().into_iter().for_each(|child| visit(child, into)),
        }
    }
    all_terms(select).for_each(|term| visit(term, &mut found));
    let mut terms = Vec::new();
    for term in found {
        let known = binder.aggregates.len();
        binder.value(&term)?;
        if binder.aggregates.len() > known {
            terms.push(term);
        }
    }
    Ok(terms)
}

/// Lists the constructs left for the host, with the reasons.
fn left(select: &Select, bound: &Bound, groups_are_pushed: bool) -> Vec<String> {
    let mut left = Vec::new();
    if select.tables.len() > 1 {
        left.push(format!("joins of {} tables, by hash: a task reads one table", select.tables.len()));
    }
    if bound.grouping.is_some() && !groups_are_pushed {
        left.push(match (select.tables.len() > 1, select.distinct.is_empty()) {
            (true, _) => "groups and aggregates: over joined rows".to_owned(),
            (_, false) => "groups and aggregates: some are DISTINCT".to_owned(),
            _ => "groups and aggregates: possibly more groups than a drive holds".to_owned(),
        });
    }
    if select.having.is_some() {
        left.push("HAVING: applies to complete groups".to_owned());
    }
    if select.is_distinct {
        left.push("DISTINCT: a drive does not hold its results".to_owned());
    }
    if !select.order_by.is_empty() {
        left.push(match bound.grouping.is_some() {
            true => {
                "ORDER BY: of groups formed on the host, or by an expression that is not selected".to_owned()
            }
            false => "ORDER BY of rows: a drive does not hold its results".to_owned(),
        });
    }
    if select.offset > 0 {
        left.push("OFFSET: rows of a table are unordered".to_owned());
    }
    if select.limit.is_some() && !left.is_empty() {
        left.push("LIMIT: applies after ORDER BY, DISTINCT or GROUP BY".to_owned());
    }
    if left.is_empty() {
        left.push("the outputs of SELECT".to_owned());
    }
    left
}
