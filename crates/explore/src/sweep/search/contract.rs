//! What every search does, and what searches share.

use crate::compare::Value;
use crate::sweep::row::Row;
use byteway_results::figures::Metric;
use byteway_text::error::{InputError, suggest};

/// Points of a sweep, at most.
pub(in crate::sweep) const POINTS_MAX: usize = 100_000;

/// A point that a search asks for: a value of each dimension.
pub(in crate::sweep) type Choice = Vec<Value>;

/// A search: chooses points, and says what they show.
pub(in crate::sweep) trait Search: Send {
    /// The next points, when the rows of all points before are there; none at the end.
    fn next(&mut self, rows: &[Row]) -> Vec<Choice>;

    /// What was found, in a sentence, when all rows are there.
    fn found(&self, rows: &[Row]) -> Option<String>;
}

/// The figure with this key.
pub(in crate::sweep) fn metric(name: &str, key: &str) -> Result<Metric, InputError> {
    Metric::named(key).ok_or_else(|| {
        let what = format!("`{name}`: there is no figure `{key}`");
        InputError::new(what, suggest(key, &Metric::ALL.map(Metric::key)))
    })
}

/// The point with the best figure, in words.
pub(in crate::sweep) fn best(rows: &[Row], metric: Metric) -> Option<String> {
    let figures = rows.iter().filter_map(|row| Some((row, row.counting(metric)?)));
    let better = |one: f64, other: f64| if metric.more_is_better() { one > other } else { one < other };
    let (best, _) = figures.reduce(|best, row| if better(row.1, best.1) { row } else { best })?;
    let counts = |row: &&Row| row.counting(metric).is_some() && !std::ptr::eq(*row, best);
    let others = rows.iter().filter(counts).filter(|row| row.is_chance(best, metric)).count();
    let shown = best.figures.show(metric)?;
    Some(format!("the best {}: {shown} with {}{}", metric.noun(), best.named(), within_chance(others)))
}

/// A note on points that are as good as the best for all that the replicates tell.
pub(in crate::sweep) fn within_chance(others: usize) -> String {
    match others {
        0 => String::new(),
        1 => "; within chance of another point".to_owned(),
        others => format!("; within chance of {others} other points"),
    }
}
