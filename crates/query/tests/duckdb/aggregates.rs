//! Random aggregates over random tables, compared with DuckDB.

use byteway_clock::random::Rng;
use byteway_query::statement::Term;

use crate::generate::{TYPES, Terms};
use crate::oracle::Oracle;
use crate::predicates::{smaller, tables};
use crate::{Outcome, compare, queries, seed};

/// A query with groups.
#[derive(Clone)]
struct Grouped {
    keys: Vec<String>,
    aggregates: Vec<String>,
    filter: Option<Term>,
}

impl Grouped {
    fn draw(terms: &mut Terms<'_>) -> Self {
        let mut aggregates = vec!["count(*)".to_owned()];
        for _ in 0..2 {
            let function = ["count", "sum", "min", "max", "avg"][terms.random.below(5) as usize];
            aggregates.push(format!("{function}({})", terms.value()));
        }
        let keys = (0..terms.random.below(4))
            .map(|_| {
                let index = terms.random.below(TYPES.len() as u64) as usize;
                terms.column(index).to_string()
            })
            .collect();
        let filter = terms.random.chance(0.5).then(|| terms.predicate(0));
        Self { keys, aggregates, filter }
    }

    fn sql(&self, table: &str) -> String {
        let filter = self.filter.as_ref().map(|filter| format!(" WHERE {filter}")).unwrap_or_default();
        let outputs = [&self.aggregates[..], &self.keys[..]].concat().join(", ");
        let group_by = match self.keys.is_empty() {
            true => String::new(),
            false => format!(" GROUP BY {}", self.keys.join(", ")),
        };
        format!("SELECT {outputs} FROM {table}{filter}{group_by}")
    }

    /// Simpler variants of the query, for shrinking.
    fn smaller(&self) -> Vec<Self> {
        let without = |list: &[String], index: usize| [&list[..index], &list[index + 1..]].concat();
        let keys =
            (0..self.keys.len()).map(|index| Self { keys: without(&self.keys, index), ..self.clone() });
        let aggregates = (0..self.aggregates.len())
            .filter(|_| self.aggregates.len() > 1)
            .map(|index| Self { aggregates: without(&self.aggregates, index), ..self.clone() });
        let filter = self.filter.iter().flat_map(|filter| {
            let smaller = smaller(filter).into_iter().map(Some);
            std::iter::once(None).chain(smaller).map(|filter| Self { filter, ..self.clone() })
        });
        keys.chain(aggregates).chain(filter).collect()
    }
}

// A wrong sum, average or group is a wrong answer in a single row: covers every function over every type, with and without groups and
// filters, with keys that contain nulls and NaN.
#[test]
fn aggregates_are_those_of_duckdb() {
    let Some(mut oracle) = Oracle::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (seed, count) = (seed(), queries(10_000) / 4);
    let tables = tables(seed, &mut oracle, folder.path());
    let mut random = Rng::new(seed).stream("aggregates");
    let (mut refused, mut one_failed, mut refusals) = (0, 0, std::collections::BTreeMap::new());
    for number in 0..count {
        let table = &tables[[0, 0, 1, 2, 3, 4, 5][number % 7]];
        let mut query = Grouped::draw(&mut Terms { random: &mut random, nested: false });
        match compare(&mut oracle, table, &query.sql(&table.name)) {
            Outcome::Same => {}
            Outcome::Refused(construct) => {
                refused += 1;
                *refusals.entry(construct).or_insert(0) += 1;
            }
            // Two aggregates of which one fails, and an empty table.
            Outcome::OneFailed(_) => one_failed += 1,
            mut outcome => {
                while let Some(next) = query.smaller().into_iter().find_map(|query| {
                    let outcome = compare(&mut oracle, table, &query.sql(&table.name));
                    matches!(outcome, Outcome::Differs(_)).then_some((query, outcome))
                }) {
                    (query, outcome) = next;
                }
                panic!("BYTEWAY_SEED={seed}, query {number}: {}\n{outcome:?}", query.sql(&table.name));
            }
        }
    }
    eprintln!("{count} aggregates; {refused} refused: {refusals:?}; in {one_failed} one side failed");
    assert!(
        refused < count / 2 && one_failed < count / 50,
        "{refused} refused, in {one_failed} one side failed"
    );
}
