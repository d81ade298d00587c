//! The value of a numeric key with the most throughput for its latency (Kleinrock's power), by narrowing.
//!
//! A few values over the whole range first; then those halfway to the neighbors of the best, until its neighbors have been run. With one
//! maximum this finds it in some 2 log n runs; with several it finds one of them.

use super::contract::{Choice, Search, within_chance};
use crate::compare::is_power_chance;
use crate::sweep::dimension::Dimension;
use crate::sweep::row::Row;
use byteway_results::figures::Metric;
use byteway_text::error::InputError;

/// Values of the first round.
const FIRST: usize = 5;

pub(super) struct Knee {
    values: Choice,
    /// Index of the value of each row.
    asked: Vec<usize>,
}

/// The dimension, if it is the only one, numeric, and has values.
pub(super) fn only_numeric(dimensions: &[Dimension], search: &str) -> Result<Choice, InputError> {
    match dimensions {
        [one] if one.is_numeric() => Ok(in_order(one)),
        _ => {
            let what = format!("a {search} is searched along one numeric key");
            Err(InputError::new(what, "vary a single key, such as iodepth, over a range of numbers"))
        }
    }
}

/// The values of a numeric dimension in rising order, in which a search narrows, whatever the order in which they were given.
pub(super) fn in_order(dimension: &Dimension) -> Choice {
    let mut values = dimension.values().unwrap_or_default().to_vec();
    values.sort_by(|left, right| left.number.unwrap_or(0.0).total_cmp(&right.number.unwrap_or(0.0)));
    values
}

impl Knee {
    pub(super) fn new(dimensions: &[Dimension]) -> Result<Knee, InputError> {
        Ok(Knee { values: only_numeric(dimensions, "knee")?, asked: Vec::new() })
    }

    fn power(row: &Row) -> Option<f64> {
        let latency = row.counting(Metric::MeanNs).filter(|latency| *latency > 0.0)?;
        Some(row.counting(Metric::Iops)? / latency)
    }

    /// Index of the best value so far, and its row.
    fn best<'a>(&self, rows: &'a [Row]) -> Option<(usize, &'a Row)> {
        let found = self.asked.iter().zip(rows).filter_map(|(at, row)| Some((*at, row, Knee::power(row)?)));
        let best = found.reduce(|best, one| if (one.2, best.0) > (best.2, one.0) { one } else { best });
        best.map(|(at, row, _)| (at, row))
    }
}

impl Search for Knee {
    fn next(&mut self, rows: &[Row]) -> Vec<Choice> {
        let last = self.values.len() - 1;
        let wanted: Vec<usize> = match self.best(rows) {
            None if self.asked.is_empty() => {
                let steps = (FIRST - 1).min(last).max(1);
                (0..=steps).map(|step| last * step / steps).collect()
            }
            None => Vec::new(),
            Some((best, _)) => {
                // Halfway to the nearest values that were run on each side.
                let below =
                    self.asked.iter().filter(|at| **at < best).max().map(|at| usize::midpoint(*at, best));
                let above =
                    self.asked.iter().filter(|at| **at > best).min().map(|at| usize::midpoint(*at, best));
                below.into_iter().chain(above).collect()
            }
        };
        let mut wanted: Vec<usize> = wanted.into_iter().filter(|at| !self.asked.contains(at)).collect();
        wanted.sort_unstable();
        wanted.dedup();
        self.asked.extend(&wanted);
        wanted.into_iter().map(|at| vec![self.values[at].clone()]).collect()
    }

    fn found(&self, rows: &[Row]) -> Option<String> {
        let (at, row) = self.best(rows)?;
        let (iops, mean) = (row.figures.show(Metric::Iops)?, row.figures.show(Metric::MeanNs)?);
        let end = match at {
            0 => "; it is the first value, so the knee may lie before it",
            at if at + 1 == self.values.len() => "; it is the last value, so the knee may lie beyond it",
            _ => "",
        };
        let is_chance = |other: &&Row| {
            let counts = Knee::power(other).is_some() && !std::ptr::eq(*other, row);
            counts && is_power_chance(&row.figures, &other.figures)
        };
        let chance = within_chance(rows.iter().filter(is_chance).count());
        let name = row.named();
        Some(format!("the most throughput for its latency: {iops} IOPS at {mean} with {name}{end}{chance}"))
    }
}
