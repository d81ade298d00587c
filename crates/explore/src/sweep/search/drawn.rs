//! Points that are chosen before any is run: all combinations, random points, a Latin hypercube.

use super::contract::{Choice, POINTS_MAX, Search, best};
use crate::sweep::dimension::Dimension;
use crate::sweep::row::Row;
use byteway_clock::random::Rng;
use byteway_results::figures::Metric;
use byteway_text::error::InputError;

/// Points that are known from the start.
pub(super) struct Drawn {
    points: Vec<Choice>,
    metric: Metric,
}

impl Search for Drawn {
    fn next(&mut self, _: &[Row]) -> Vec<Choice> {
        std::mem::take(&mut self.points)
    }

    fn found(&self, rows: &[Row]) -> Option<String> {
        best(rows, self.metric)
    }
}

/// All combinations; the first key varies slowest.
pub(super) fn grid(dimensions: &[Dimension], metric: Metric) -> Result<Drawn, InputError> {
    let sizes = dimensions.iter().map(|one| one.values().map_or(1, <[_]>::len));
    let count = sizes.clone().try_fold(1usize, usize::checked_mul).filter(|count| *count <= POINTS_MAX);
    let Some(count) = count else {
        let sizes: Vec<String> = sizes.map(|size| size.to_string()).collect();
        let what =
            format!("all combinations of {} values are more than {POINTS_MAX} points", sizes.join(" and "));
        return Err(InputError::new(
            what,
            "vary fewer keys or values, or draw points: `method = \"latin-hypercube\"`",
        ));
    };
    let point = |index: usize| {
        let mut rest = index;
        let mut choice: Choice = dimensions
            .iter()
            .rev()
            .filter_map(|one| {
                let values = one.values()?;
                let value = values[rest % values.len()].clone();
                rest /= values.len();
                Some(value)
            })
            .collect();
        choice.reverse();
        choice
    };
    Ok(Drawn { points: (0..count).map(point).collect(), metric })
}

/// `count` points by this seed: independent, or `is_even` in each dimension.
pub(super) fn drawn(
    dimensions: &[Dimension],
    count: usize,
    seed: u64,
    is_even: bool,
    metric: Metric,
) -> Drawn {
    let rng = Rng::new(seed);
    // By dimension: the position of each point. A key's stream is its own, so that a further key changes no other's values.
    let positions: Vec<Vec<f64>> = dimensions
        .iter()
        .map(|one| {
            let mut stream = rng.stream(one.key());
            if !is_even {
                return (0..count).map(|_| stream.unit()).collect();
            }
            let mut strata: Vec<usize> = (0..count).collect();
            stream.shuffle(&mut strata);
            strata.into_iter().map(|stratum| (stratum as f64 + stream.unit()) / count as f64).collect()
        })
        .collect();
    let point = |index: usize| {
        dimensions.iter().zip(&positions).map(|(one, positions)| one.at(positions[index])).collect()
    };
    let mut points: Vec<Choice> = Vec::with_capacity(count);
    let mut seen = std::collections::BTreeSet::new();
    for choice in (0..count).map(point) {
        let choice: Choice = choice;
        // Of a few values some points are drawn twice; each is run once.
        if seen.insert(choice.iter().map(|value| value.raw.clone()).collect::<Vec<_>>()) {
            points.push(choice);
        }
    }
    Drawn { points, metric }
}
