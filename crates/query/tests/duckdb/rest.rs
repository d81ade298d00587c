//! Split queries: executes the pushed part as a drive does and the rest as a host does, and compares with DuckDB.

use std::collections::BTreeMap;

use byteway_clock::random::{Rng, Stream};
use byteway_query::rest::{PushPolicy, RestExecution, RestLimits, Split, TableFacts, WholeQuery};
use byteway_query::{ColumnType, Form, QueryError, RecordBatch, Value};
use serde_json::Value as Json;

use crate::generate::{TYPES, Terms};
use crate::oracle::{Answer, Oracle, plain, sorted};
use crate::predicates::tables;
use crate::table::Table;
use crate::{Outcome, queries, seed};

/// Result of a split query.
pub struct SplitResult {
    pub split: Split,
    pub types: Vec<ColumnType>,
    pub batches: Vec<RecordBatch>,
}

fn split(whole: &WholeQuery, tables: &[&Table], policy: PushPolicy) -> Result<Split, QueryError> {
    let facts: Vec<TableFacts> = whole
        .tables()
        .map(|name| {
            let table = tables.iter().find(|table| table.name == name).expect("a table of the test");
            TableFacts { name: name.to_owned(), schema: table.schema.clone(), rows: table.rows }
        })
        .collect();
    whole.split(&facts, policy)
}

fn execute(
    split: &Split,
    tables: &[&Table],
    form: Form,
    limits: RestLimits,
) -> Result<Vec<RecordBatch>, QueryError> {
    let mut rest = RestExecution::new(&split.rest, limits);
    let mut found = Vec::new();
    for scan in split.rest.order() {
        let pushed = &split.scans[scan];
        let table = tables.iter().find(|table| table.name == pushed.statement.table).unwrap();
        let task = pushed.task(form)?;
        let (batches, _) = table.execute(task.bind(&table.schema)?)?;
        for batch in &batches {
            found.extend(rest.push(scan, batch)?);
        }
        rest.end(scan)?;
    }
    found.extend(rest.finish()?);
    Ok(found)
}

/// Splits and executes a query. The host groups the rows if there are too many groups for a drive.
pub fn ask(tables: &[&Table], sql: &str, form: Form, groups: bool) -> Result<SplitResult, QueryError> {
    let whole = WholeQuery::parse(sql)?;
    let mut split = split(&whole, tables, PushPolicy { groups })?;
    let mut batches = execute(&split, tables, form, RestLimits::default());
    if let Err(QueryError::Limit { what: "groups", .. }) = batches
        && groups
    {
        split = self::split(&whole, tables, PushPolicy { groups: false })?;
        batches = execute(&split, tables, form, RestLimits::default());
    }
    let types = split.rest.types().collect();
    Ok(SplitResult { split, types, batches: batches? })
}

/// The columns that determine the result's order, by index.
fn keys(rows: &[Vec<Json>], keys: &[usize]) -> Vec<Vec<Json>> {
    rows.iter().map(|row| keys.iter().map(|&key| row[key].clone()).collect()).collect()
}

/// Compares a split query with DuckDB. `order` has the columns that determine the result's order; rows that are equal in them may come in
/// any order.
pub fn compare(oracle: &mut Oracle, tables: &[&Table], sql: &str, order: &[usize], groups: bool) -> Outcome {
    let answer = oracle.ask(sql);
    let form = if groups { Form::Sql } else { Form::Compact };
    let by_values =
        |error: &QueryError| matches!(error, QueryError::Overflow { .. } | QueryError::DivisionByZero(_));
    let found = match (ask(tables, sql, form, groups), &answer) {
        (Ok(found), _) => found,
        (Err(QueryError::Unsupported { construct, .. }), _) => return Outcome::Refused(construct),
        (Err(error), Answer::Error(_)) if !matches!(error, QueryError::Batch(_)) => return Outcome::Same,
        (Err(error), Answer::Rows(..)) if by_values(&error) => return Outcome::OneFailed(error.to_string()),
        (Err(error), answer) => return Outcome::Differs(format!("here: {error}; there: {answer:?}")),
    };
    let (their_types, theirs) = match answer {
        Answer::Rows(types, rows) => (types, rows),
        Answer::Error(error) => return Outcome::OneFailed(error),
    };
    let names: Vec<String> = found.types.iter().map(ColumnType::to_string).collect();
    let same_type = |(ours, theirs): (&String, &String)| ours == theirs || theirs == "\"NULL\"";
    if names.len() != their_types.len() || !names.iter().zip(&their_types).all(same_type) {
        return Outcome::Differs(format!("types here: {names:?}; there: {their_types:?}"));
    }
    let ours = plain(&found.batches, &found.types);
    if keys(&ours, order) != keys(&theirs, order) {
        let differ = ours.iter().zip(&theirs).find(|(a, b)| a != b);
        return Outcome::Differs(format!(
            "other rows or another order, {} and {}: {differ:?}",
            ours.len(),
            theirs.len()
        ));
    }
    let (ours, theirs) = (sorted(ours), sorted(theirs));
    match ours == theirs {
        true => Outcome::Same,
        false => {
            let differ = ours.iter().zip(&theirs).find(|(a, b)| a != b);
            Outcome::Differs(format!("{} rows here, {} there; {differ:?}", ours.len(), theirs.len()))
        }
    }
}

/// Generator of random queries that drives refuse.
struct Draw<'a> {
    random: &'a mut Stream,
}

impl Draw<'_> {
    fn below(&mut self, n: usize) -> usize {
        self.random.below(n as u64) as usize
    }

    fn column(&mut self, table: &str, few: bool) -> String {
        let index = self.below(TYPES.len());
        format!("{table}.{}{index}", if few || self.random.chance(0.5) { "b" } else { "a" })
    }

    fn direction(&mut self) -> &'static str {
        ["", " ASC", " DESC", " NULLS FIRST", " DESC NULLS FIRST", " ASC NULLS LAST", " DESC NULLS LAST"]
            [self.below(7)]
    }

    /// ORDER BY of outputs. All of them if there is a LIMIT, which would otherwise leave open which rows are returned.
    fn order(&mut self, outputs: usize) -> (String, Vec<usize>) {
        if self.random.chance(0.2) {
            return (String::new(), Vec::new());
        }
        let ends = self.random.chance(0.5);
        let mut keys: Vec<usize> = (0..outputs).collect();
        for index in (1..outputs).rev() {
            let other = self.below(index + 1);
            keys.swap(index, other);
        }
        if !ends {
            keys.truncate(1 + self.below(outputs));
        }
        let terms: Vec<String> = keys.iter().map(|key| format!("{}{}", key + 1, self.direction())).collect();
        let mut text = format!(" ORDER BY {}", terms.join(", "));
        if ends {
            text += &format!(" LIMIT {}", self.below(40));
            if self.random.chance(0.5) {
                text += &format!(" OFFSET {}", self.below(30));
            }
        }
        (text, keys)
    }

    fn aggregate(&mut self, table: &str) -> String {
        let index = self.below(TYPES.len());
        let number = [1, 2, 3, 4, 5, 6, 7, 8, 11, 12][self.below(10)];
        let any = format!("{table}.{}{index}", if self.random.chance(0.5) { "a" } else { "b" });
        match self.below(7) {
            0 => "count(*)".to_owned(),
            1 => format!("count({any})"),
            2 => format!("min({any})"),
            3 => format!("max({any})"),
            4 => format!("sum({table}.b{number})"),
            5 => format!("avg({table}.b{number})"),
            _ => format!("sum({table}.b{number}) / count(*)"),
        }
    }

    fn different(&mut self, table: &str) -> String {
        let number = [1, 2, 3, 4, 5, 6, 7, 8, 11, 12][self.below(10)];
        match self.below(4) {
            0 => format!("sum(DISTINCT {table}.b{number})"),
            1 => format!("avg(DISTINCT {table}.b{number})"),
            _ => {
                let column = self.column(table, false);
                format!("count(DISTINCT {column})")
            }
        }
    }

    fn condition(&mut self) -> String {
        let mut terms = Terms { random: self.random, nested: false };
        terms.predicate(1).to_string()
    }

    fn rows(&mut self, table: &str) -> (String, Vec<usize>) {
        let outputs: Vec<String> = (0..1 + self.below(4)).map(|_| self.column("t", false)).collect();
        let distinct = if self.random.chance(0.4) { "DISTINCT " } else { "" };
        let filter = match self.random.chance(0.5) {
            true => format!(" WHERE {}", self.condition()),
            false => String::new(),
        };
        let (order, keys) = self.order(outputs.len());
        (format!("SELECT {distinct}{} FROM {table} AS t{filter}{order}", outputs.join(", ")), keys)
    }

    fn groups(&mut self, table: &str) -> (String, Vec<usize>) {
        let mut outputs: Vec<String> = (0..self.below(3)).map(|_| self.column("t", true)).collect();
        let keys = outputs.clone();
        outputs.push(self.aggregate("t"));
        if self.random.chance(0.5) {
            outputs.push(self.different("t"));
        }
        let group_by = if keys.is_empty() { String::new() } else { format!(" GROUP BY {}", keys.join(", ")) };
        let having = match self.random.chance(0.4) {
            true => format!(" HAVING count(*) > {}", self.below(60)),
            false => String::new(),
        };
        let filter = match self.random.chance(0.5) {
            true => format!(" WHERE {}", self.condition()),
            false => String::new(),
        };
        let distinct = if self.random.chance(0.2) { "DISTINCT " } else { "" };
        let (order, keys) = self.order(outputs.len());
        let list = outputs.join(", ");
        (format!("SELECT {distinct}{list} FROM {table} t{filter}{group_by}{having}{order}"), keys)
    }

    /// A join of tables of a few hundred rows, by a column of few distinct values and one of many.
    fn join(&mut self, tables: &[&Table]) -> (String, Vec<usize>) {
        let of = [&tables[self.below(tables.len())].name, &tables[self.below(tables.len())].name];
        let (left, right) = (self.below(TYPES.len()), self.below(TYPES.len()));
        // Any two numbers, or two values of one type.
        let is_number = |index: usize| (1..13).contains(&index);
        let right = if is_number(left) && is_number(right) && self.random.chance(0.3) { right } else { left };
        let a = if self.random.chance(0.6) { "a" } else { "b" };
        let mut on = format!("x.{a}{left} = y.a{right}");
        if self.random.chance(0.3) {
            let other = self.below(TYPES.len());
            on += &format!(" AND x.b{other} = y.b{other}");
        }
        if self.random.chance(0.3) {
            let other = self.below(TYPES.len());
            on += &format!(" AND x.b{other} <= y.b{other}");
        }
        if self.random.chance(0.3) {
            let index = self.below(TYPES.len());
            let value = Terms { random: self.random, nested: false }.literal(index);
            on += &format!(" AND y.a{index} <> {value}");
        }
        let outputs: Vec<String> = match self.random.chance(0.5) {
            true => {
                vec![self.column("x", true), "count(*)".to_owned(), self.aggregate("y"), self.different("x")]
            }
            false => vec![self.column("x", false), self.column("y", false), self.column("y", true)],
        };
        let group_by = if outputs[1] == "count(*)" { " GROUP BY 1" } else { "" };
        let (order, keys) = self.order(outputs.len());
        let join = match self.random.chance(0.5) {
            true => format!("{} x JOIN {} AS y ON {on}", of[0], of[1]),
            false => format!("{} x, {} y WHERE {on}", of[0], of[1]),
        };
        (format!("SELECT {} FROM {join}{group_by}{order}", outputs.join(", ")), keys)
    }
}

// A host that sorts, skips, counts or joins differently from DuckDB gives wrong results from correct rows: covers every clause over every
// type, with nulls, NaN and limits, in both forms of tasks, with groups on the drive and on the host.
#[test]
fn split_queries_give_the_rows_of_duckdb() {
    let Some(mut oracle) = Oracle::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (seed, count) = (seed(), queries(10_000) / 10);
    let tables = tables(seed, &mut oracle, folder.path());
    let all: Vec<&Table> = tables.iter().collect();
    let mut random = Rng::new(seed).stream("rest");
    let (mut refusals, mut one_failed, mut rows) = (BTreeMap::new(), 0, 0);
    for number in 0..count {
        let mut draw = Draw { random: &mut random };
        let table = &tables[[0, 0, 1, 2, 3, 4, 5][number % 7]].name;
        let (sql, order) = match number % 3 {
            0 => draw.rows(table),
            1 => draw.groups(table),
            _ => draw.join(&all[1..6]),
        };
        match compare(&mut oracle, &all, &sql, &order, number % 2 == 0) {
            Outcome::Same => rows += 1,
            Outcome::Refused(construct) => *refusals.entry(construct).or_insert(0) += 1,
            Outcome::OneFailed(_) => one_failed += 1,
            outcome => panic!("BYTEWAY_SEED={seed}, query {number}: {sql}\n{outcome:?}"),
        }
    }
    eprintln!(
        "{count} split queries: {rows} the same; refused: {refusals:?}; in {one_failed} one side failed"
    );
    assert!(rows * 5 > count * 4, "{rows} of {count}: {refusals:?}, {one_failed}");
}

// Constructs that the random queries lack: aliases in every clause, ORDER BY of expressions that are not selected, USING, three tables,
// `t.*`, LIMIT without ORDER BY, an empty side, more groups than a drive holds.
#[test]
fn every_clause_means_what_it_means_in_duckdb() {
    let Some(mut oracle) = Oracle::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let tables = tables(seed(), &mut oracle, folder.path());
    let all: Vec<&Table> = tables.iter().collect();
    for (sql, order) in [
        ("SELECT a4 AS k, b4 FROM t0 ORDER BY k DESC, b4, a2 LIMIT 50", &[0, 1][..]),
        ("SELECT a4 FROM t0 ORDER BY a4 + b4, a4", &[]),
        ("SELECT b2 AS b4, sum(b3) AS s FROM t0 GROUP BY b2 HAVING s > 10 ORDER BY s, 1", &[1, 0]),
        ("SELECT b2, count(*) FROM t0 GROUP BY b2 ORDER BY sum(b3) DESC, b2 LIMIT 3", &[0, 1]),
        ("SELECT b2 + 1 AS n FROM t0 WHERE n > 3 ORDER BY n", &[0]),
        ("SELECT b2 + 1 AS n, count(*) FROM t0 GROUP BY n ORDER BY n NULLS FIRST", &[0, 1]),
        ("SELECT t1.*, t0.a2 FROM t0 JOIN t1 USING (a3) ORDER BY t1.a3, t0.a2", &[6, 32]),
        ("SELECT a3, t0.b3, t1.b3 FROM t0 INNER JOIN t1 USING (a3, b2) WHERE t0.b3 < t1.b3", &[]),
        (
            "SELECT x.b2, count(DISTINCT y.a4), count(DISTINCT z.a3) FROM t2 x JOIN t3 y ON x.b4 = y.b4 JOIN t1 z ON z.b3 = y.b3 GROUP BY x.b2 ORDER BY 1",
            &[0, 1, 2],
        ),
        ("SELECT count(*) FROM t0 x, t0 y WHERE x.a4 = y.a4 AND x.a3 > y.a3", &[0]),
        ("SELECT count(*), sum(x.b4) FROM t0 x JOIN t5 y ON x.a4 = y.a4", &[0, 1]),
        ("SELECT x.b4 FROM t0 x JOIN t5 y ON x.a4 = y.a4 ORDER BY 1", &[0]),
        ("SELECT count(*) FROM t0 x JOIN t1 y ON x.b10 = y.b10 WHERE 1 = 1 AND (x.a2 > 0 OR y.a2 > 0)", &[0]),
        ("SELECT DISTINCT b2 + b3 FROM t0 ORDER BY 1 LIMIT 5 OFFSET 2", &[0]),
        ("SELECT a2, a3 FROM t0 LIMIT 7 OFFSET 590", &[0, 1]),
        ("SELECT a2 FROM t0 LIMIT 0", &[0]),
        ("SELECT a2 FROM t0 OFFSET 598", &[0]),
        ("SELECT DISTINCT count(*) FROM t0 GROUP BY b3", &[]),
        (
            "SELECT count(DISTINCT b15), count(b15), min(DISTINCT b3) FROM t0 WHERE a3 > 0 HAVING count(*) > 1",
            &[0, 1, 2],
        ),
        ("SELECT 1 FROM t0 HAVING count(*) > 1 ORDER BY 1", &[0]),
        ("SELECT count(*) AS n FROM t5 HAVING n = 0 ORDER BY n", &[0]),
        ("SELECT sum(b4) / count(*), max(a13) FROM t0 GROUP BY b15 ORDER BY max(a14) NULLS FIRST, 1, 2", &[]),
    ] {
        for groups in [true, false] {
            assert_eq!(compare(&mut oracle, &all, sql, order, groups), Outcome::Same, "{sql}");
        }
    }
}

// A drive holds 65,536 groups: a query with more would fail although a host can execute it. The host's memory is limited, and the error
// names the limit.
#[test]
fn more_groups_than_a_drive_holds_are_made_by_the_host() {
    let Some(mut oracle) = Oracle::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let rows = byteway_query::rows::numbered(0, 80_000);
    let table = Table::new("many", &rows, &[16_384], folder.path());
    oracle.ask(&table.create(folder.path()));
    let sql = "SELECT n // 1, count(*), max(t) FROM many GROUP BY 1 ORDER BY 1 DESC LIMIT 10";
    assert_eq!(compare(&mut oracle, &[&table], sql, &[0, 1, 2], true), Outcome::Same);
    assert!(ask(&[&table], sql, Form::Sql, true).unwrap().split.rest.makes_groups());
    let few = RestLimits { memory_bytes: 1 << 20, joined_rows: 1000 };
    for (sql, what) in [
        (sql, "bytes of"),
        ("SELECT n, t FROM many ORDER BY t", "bytes of"),
        ("SELECT DISTINCT t FROM many", "bytes of"),
        ("SELECT a.t FROM many a JOIN many b ON a.n = b.n", "bytes of"),
        ("SELECT count(*) FROM many a, many b WHERE a.n = b.n AND b.n < 2000", "rows of joins"),
    ] {
        let whole = WholeQuery::parse(sql).unwrap();
        let split = split(&whole, &[&table], PushPolicy { groups: false }).unwrap();
        let error = execute(&split, &[&table], Form::Sql, few).unwrap_err().to_string();
        assert!(error.contains(what), "{sql}: {error}");
    }
    // A top-N query needs memory for its N rows only.
    let whole = WholeQuery::parse("SELECT n FROM many ORDER BY n DESC LIMIT 3").unwrap();
    let split = split(&whole, &[&table], PushPolicy { groups: true }).unwrap();
    let limits = RestLimits { memory_bytes: 8 << 20, joined_rows: 0 };
    let first = execute(&split, &[&table], Form::Sql, limits).unwrap();
    assert_eq!(byteway_query::values::at(first[0].column(0), ColumnType::Int64, 0), Value::Integer(79_999));
}

// An error must name the construct and its position.
#[test]
fn what_no_one_does_is_named_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let table = Table::new("t", &byteway_query::rows::numbered(0, 10), &[4], folder.path());
    let error = |sql: &str| {
        ask(&[&table], sql, Form::Sql, true).err().map(|error| error.to_string()).unwrap_or_default()
    };
    for (sql, words) in [
        (
            "SELECT n FROM t WHERE n IN (SELECT n FROM t)",
            "sub-query at line 1, column 29 is supported neither by a drive nor",
        ),
        ("SELECT n,\n rank() OVER (ORDER BY n) FROM t", "window function at line 2, column"),
        ("SELECT a.n FROM t a LEFT JOIN t b ON a.n = b.n", "OUTER, SEMI, ANTI or ASOF JOIN"),
        ("SELECT a.n FROM t a CROSS JOIN t b", "CROSS JOIN"),
        ("SELECT a.n FROM t a, t b WHERE a.n < b.n", "JOIN of \"b\" without an equality"),
        ("SELECT n FROM t UNION SELECT n FROM t", "UNION"),
        ("WITH x AS (SELECT 1) SELECT n FROM t", "sub-query"),
        ("SELECT DISTINCT ON (n) n FROM t", "DISTINCT ON"),
        ("SELECT n FROM t ORDER BY substring(t, 1, 2)", "SUBSTRING at line 1, column"),
        ("SELECT m FROM t ORDER BY n", "has no column \"m\"; its columns are n, t"),
        ("SELECT n FROM t a JOIN t b ON a.n = b.n", "is in both \"a\" and \"b\""),
        ("SELECT DISTINCT n FROM t ORDER BY t", "orders by an expression that is not selected"),
        ("SELECT sum(t) FROM t ORDER BY 1", "sum of VARCHAR at line 1, column"),
        ("SELECT n, count(DISTINCT t) FROM t ORDER BY 1", "must be a key of GROUP BY or"),
    ] {
        assert!(error(sql).contains(words), "{sql}\n{}", error(sql));
    }
    let many: Vec<String> = (0..17).map(|number| format!("t t{number}")).collect();
    assert!(
        error(&format!("SELECT 1 FROM {}", many.join(", ")))
            .contains("tables of a query: 17 given, limit 16")
    );
}
