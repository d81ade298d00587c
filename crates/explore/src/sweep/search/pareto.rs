//! The points of which no other is better in both of two figures: a coarse grid first, and then the neighbors of the front, until it has
//! no neighbor that was not run.

use super::contract::{Choice, POINTS_MAX, Search};
use crate::sweep::dimension::Dimension;
use crate::sweep::row::Row;
use byteway_results::figures::Metric;
use byteway_text::error::InputError;
use std::collections::BTreeSet;

/// Values of each key in the first round.
const FIRST: usize = 3;

pub(super) struct Pareto {
    metrics: (Metric, Metric),
    dimensions: Vec<Choice>,
    /// Indices on each key, by row.
    asked: Vec<Vec<usize>>,
}

impl Pareto {
    pub(super) fn new(dimensions: &[Dimension], metrics: (Metric, Metric)) -> Result<Pareto, InputError> {
        if metrics.0 == metrics.1 {
            let what = "`metric` and `against` are the same figure";
            return Err(InputError::new(what, "name two, such as iops and drive_dollars"));
        }
        let dimensions: Vec<Choice> =
            dimensions.iter().map(|one| one.values().unwrap_or_default().to_vec()).collect();
        let first =
            dimensions.iter().try_fold(1usize, |all, values| all.checked_mul(values.len().min(FIRST)));
        if first.is_none_or(|first| first > POINTS_MAX) {
            let what = format!("a Pareto front over {} keys begins with too many points", dimensions.len());
            return Err(InputError::new(what, "vary fewer keys"));
        }
        Ok(Pareto { metrics, dimensions, asked: Vec::new() })
    }

    /// Both figures, so that less is better.
    fn costs(&self, row: &Row) -> Option<(f64, f64)> {
        let cost = |metric: Metric| {
            let figure = row.counting(metric)?;
            Some(if metric.more_is_better() { -figure } else { figure })
        };
        Some((cost(self.metrics.0)?, cost(self.metrics.1)?))
    }

    /// Indices of the rows on the front: those that no other beats beyond chance.
    fn front(&self, rows: &[Row]) -> Vec<usize> {
        let costs: Vec<Option<(f64, f64)>> = rows.iter().map(|row| self.costs(row)).collect();
        let beats = |other: usize, at: usize| {
            let (Some(less), Some(own)) = (costs[other], costs[at]) else { return false };
            let is_certain = |metric: Metric| !rows[at].is_chance(&rows[other], metric);
            let is_first = less.0 < own.0 && is_certain(self.metrics.0);
            let is_second = less.1 < own.1 && is_certain(self.metrics.1);
            less.0 <= own.0 && less.1 <= own.1 && (is_first || is_second)
        };
        let is_beaten = |at: usize| (0..rows.len()).any(|other| beats(other, at));
        (0..rows.len()).filter(|at| costs[*at].is_some() && !is_beaten(*at)).collect()
    }

    fn first(&self) -> Vec<Vec<usize>> {
        self.dimensions.iter().fold(vec![Vec::new()], |points, values| {
            let (last, steps) = (values.len() - 1, (FIRST - 1).min(values.len() - 1).max(1));
            let mut at: Vec<usize> = (0..=steps).map(|step| last * step / steps).collect();
            at.dedup();
            let with = |point: &Vec<usize>| {
                let with = |at: &usize| point.iter().copied().chain([*at]).collect::<Vec<usize>>();
                at.iter().map(with).collect::<Vec<_>>()
            };
            points.iter().flat_map(with).collect()
        })
    }

    /// Neighbors of a point on each key, halfway to the next one that was run on that line, or the next value.
    fn neighbors(&self, point: &[usize]) -> Vec<Vec<usize>> {
        let mut all = Vec::new();
        for (key, values) in self.dimensions.iter().enumerate() {
            let on_line = self.asked.iter().filter(|other| {
                other.iter().enumerate().all(|(other_key, at)| other_key == key || *at == point[other_key])
            });
            let on_line: Vec<usize> = on_line.map(|other| other[key]).collect();
            let own = point[key];
            let below =
                on_line.iter().filter(|at| **at < own).max().map_or(0, |at| usize::midpoint(*at, own));
            let above = on_line.iter().filter(|at| **at > own).min();
            let above = above.map_or(values.len() - 1, |at| usize::midpoint(*at, own));
            for at in [below, above] {
                let mut neighbor = point.to_vec();
                neighbor[key] = at;
                all.push(neighbor);
            }
        }
        all
    }
}

impl Search for Pareto {
    fn next(&mut self, rows: &[Row]) -> Vec<Choice> {
        let wanted: Vec<Vec<usize>> = match self.asked.is_empty() {
            true => self.first(),
            false => self.front(rows).into_iter().flat_map(|at| self.neighbors(&self.asked[at])).collect(),
        };
        let known: BTreeSet<&Vec<usize>> = self.asked.iter().collect();
        let wanted: BTreeSet<Vec<usize>> =
            wanted.into_iter().filter(|point| !known.contains(point)).collect();
        let room = POINTS_MAX.saturating_sub(self.asked.len());
        let wanted: Vec<Vec<usize>> = wanted.into_iter().take(room).collect();
        self.asked.extend(wanted.iter().cloned());
        let choice = |point: &Vec<usize>| {
            point.iter().zip(&self.dimensions).map(|(at, values)| values[*at].clone()).collect()
        };
        wanted.iter().map(choice).collect()
    }

    fn found(&self, rows: &[Row]) -> Option<String> {
        let mut front = self.front(rows);
        if front.is_empty() {
            return None;
        }
        let cost = |at: usize| self.costs(&rows[at]).map_or(0.0, |costs| costs.0);
        front.sort_by(|one, other| cost(*one).total_cmp(&cost(*other)));
        let (metric, against) = self.metrics;
        let shown = front.iter().map(|at| {
            let row = &rows[*at];
            let show = |metric: Metric| row.figures.show(metric).unwrap_or_default();
            format!("{} and {} with {}", show(metric), show(against), row.named())
        });
        let shown: Vec<String> = shown.collect();
        let list = shown.join("; ");
        Some(format!("the front of {} and {}: {list}", metric.noun(), against.noun()))
    }
}
