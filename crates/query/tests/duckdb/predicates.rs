//! Random predicates over random tables, compared with DuckDB.

use byteway_clock::random::Rng;
use byteway_query::statement::Term;

use crate::generate::{self, Terms};
use crate::oracle::Oracle;
use crate::table::Table;
use crate::{Outcome, compare, queries, seed};

/// Index of the table with dates beyond Python's range: its rows are identified by number alone.
const FAR: usize = 6;

/// Tables of many, few, one and no rows, in row groups of one row and more; one has the first and last dates.
pub fn tables(seed: u64, oracle: &mut Oracle, folder: &std::path::Path) -> Vec<Table> {
    let schema = generate::schema();
    let shapes: [(usize, &[usize]); 7] = [
        (600, &[1, 7, 64, 65, 200]),
        (300, &[300]),
        (40, &[1]),
        (9, &[4]),
        (1, &[1]),
        (0, &[1]),
        (200, &[50, 1]),
    ];
    let table = |(index, (rows, groups)): (usize, (usize, &[usize]))| {
        let mut random = Rng::new(seed).stream(&format!("table {index}"));
        let rows = generate::rows(&schema, rows, index == FAR, &mut random);
        let table = Table::new(&format!("t{index}"), &rows, groups, folder);
        oracle.ask(&table.create(folder));
        table
    };
    shapes.into_iter().enumerate().map(table).collect()
}

/// Simpler terms, for shrinking: parts, and the term with a part replaced by a simpler one.
pub fn smaller(term: &Term) -> Vec<Term> {
    let mut all: Vec<Term> = term.children().into_iter().cloned().collect();
    match term {
        Term::And(terms) | Term::Or(terms) => {
            let make = |terms| if matches!(term, Term::And(_)) { Term::And(terms) } else { Term::Or(terms) };
            for index in 0..terms.len() {
                if terms.len() > 2 {
                    all.push(make([&terms[..index], &terms[index + 1..]].concat()));
                }
                let with = |small| {
                    let mut terms = terms.clone();
                    terms[index] = small;
                    make(terms)
                };
                all.extend(smaller(&terms[index]).into_iter().map(with));
            }
        }
        Term::Not(inner) => all.extend(smaller(inner).into_iter().map(|small| Term::Not(Box::new(small)))),
        Term::InList(value, list) if list.len() > 1 => {
            let without = |index: usize| [&list[..index], &list[index + 1..]].concat();
            all.extend((0..list.len()).map(|index| Term::InList(value.clone(), without(index))));
        }
        Term::Compare(comparison, sides) => {
            let left = smaller(&sides[0]).into_iter().map(|small| [small, sides[1].clone()]);
            let right = smaller(&sides[1]).into_iter().map(|small| [sides[0].clone(), small]);
            all.extend(left.chain(right).map(|sides| Term::Compare(*comparison, Box::new(sides))));
        }
        _ => {}
    }
    all
}

/// The smallest term found that still fails, and its outcome.
pub fn shrunk(
    oracle: &mut Oracle,
    table: &Table,
    mut found: (Term, Outcome),
    sql: &impl Fn(&Term) -> String,
    fails: impl Fn(&Outcome) -> bool,
) -> (Term, Outcome) {
    while let Some(next) = smaller(&found.0).into_iter().find_map(|term| {
        let outcome = compare(oracle, table, &sql(&term));
        fails(&outcome).then_some((term, outcome))
    }) {
        found = next;
    }
    found
}

// A drive that filters differently from the host returns wrong rows without an error: covers comparison, logic, arithmetic, casts, lists,
// patterns, nulls, NaN and limits, over all types, through encoded row groups and zone maps.
#[test]
fn ten_thousand_predicates_give_the_rows_that_duckdb_gives() {
    let Some(mut oracle) = Oracle::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (seed, count) = (seed(), queries(10_000));
    let tables = tables(seed, &mut oracle, folder.path());
    let mut random = Rng::new(seed).stream("predicates");
    let (mut refused, mut one_failed, mut refusals) = (0, 0, std::collections::BTreeMap::new());
    for number in 0..count {
        // Most run on the largest tables.
        let index = [0, 0, 0, 1, 1, 2, 3, 4, 5, FAR, FAR][number % 11];
        let table = &tables[index];
        // The row numbers; for some queries, all values.
        let outputs = if number % 16 == 0 && index != FAR { "*" } else { "id" };
        let nested = number % 3 != 0;
        let depth = if nested { 1 + number % 2 } else { 0 };
        let term = Terms { random: &mut random, nested }.predicate(depth);
        let sql = |term: &Term| format!("SELECT {outputs} FROM {} WHERE {term}", table.name);
        match compare(&mut oracle, table, &sql(&term)) {
            Outcome::Same => {}
            Outcome::Refused(construct) => {
                refused += 1;
                *refusals.entry(construct).or_insert(0) += 1;
            }
            Outcome::OneFailed(_) if nested => one_failed += 1,
            outcome => {
                let fails = |outcome: &Outcome| {
                    matches!(outcome, Outcome::Differs(_))
                        || !nested && matches!(outcome, Outcome::OneFailed(_))
                };
                let (term, outcome) = shrunk(&mut oracle, table, (term, outcome), &sql, fails);
                panic!("BYTEWAY_SEED={seed}, query {number}: {}\n{outcome:?}", sql(&term));
            }
        }
    }
    eprintln!("{count} predicates; {refused} refused: {refusals:?}; in {one_failed} one side failed");
    // Otherwise the other outcomes would prove little.
    assert!(
        refused < count / 5 && one_failed < count / 20,
        "{refused} refused, in {one_failed} one side failed"
    );
}
