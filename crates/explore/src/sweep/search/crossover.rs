//! Where one of two values overtakes the other along a numeric key, by bisection.

use super::contract::{Choice, Search};
use super::knee::in_order;
use crate::compare::Value;
use crate::sweep::dimension::Dimension;
use crate::sweep::row::Row;
use byteway_results::figures::Metric;
use byteway_text::error::InputError;

pub(super) struct Crossover {
    metric: Metric,
    /// Position of the numeric key among the dimensions: 0 or 1.
    numeric: usize,
    along: Vec<Value>,
    pair: [Value; 2],
    /// Index on the numeric key of each two rows.
    asked: Vec<usize>,
}

impl Crossover {
    pub(super) fn new(dimensions: &[Dimension], metric: Metric) -> Result<Crossover, InputError> {
        let wrong = || {
            let what = "a crossover is searched along one numeric key, between two values of another";
            InputError::new(what, "vary for example bs = \"32 B..4 KiB x2\" and method = \"prp,inline\"")
        };
        let [one, other] = dimensions else { return Err(wrong()) };
        let values = |dimension: &Dimension| dimension.values().unwrap_or_default().to_vec();
        let is_pair = |dimension: &Dimension| values(dimension).len() == 2;
        let numeric = match (one.is_numeric(), other.is_numeric()) {
            (true, _) if is_pair(other) => 0,
            (_, true) if is_pair(one) => 1,
            _ => return Err(wrong()),
        };
        let (along, pair) = if numeric == 0 { (one, other) } else { (other, one) };
        let pair = <[Value; 2]>::try_from(values(pair)).map_err(|_| wrong())?;
        Ok(Crossover { metric, numeric, along: in_order(along), pair, asked: Vec::new() })
    }

    /// Whether the second value leads at each index that was run; points without figures are omitted, and with `beyond_chance` those whose
    /// intervals do not part.
    fn leads(&self, rows: &[Row], beyond_chance: bool) -> Vec<(usize, bool)> {
        let pairs = self.asked.iter().zip(rows.chunks(2));
        let is_chance = |pair: &[Row]| matches!(pair, [one, other] if one.is_chance(other, self.metric));
        let mut leads: Vec<(usize, bool)> = pairs
            .filter(|(_, pair)| !beyond_chance || !is_chance(pair))
            .filter_map(|(at, pair)| {
                let first = pair.first()?.counting(self.metric)?;
                let second = pair.get(1)?.counting(self.metric)?;
                let is_better = if self.metric.more_is_better() { second > first } else { second < first };
                Some((*at, is_better))
            })
            .collect();
        leads.sort_unstable();
        leads
    }

    /// The two neighboring indices between which the lead changes first.
    fn change(leads: &[(usize, bool)]) -> Option<((usize, bool), (usize, bool))> {
        leads.windows(2).find(|two| two[0].1 != two[1].1).map(|two| (two[0], two[1]))
    }

    fn both(&self, at: usize) -> [Choice; 2] {
        self.pair.clone().map(|value| match self.numeric {
            0 => vec![self.along[at].clone(), value],
            _ => vec![value, self.along[at].clone()],
        })
    }
}

impl Search for Crossover {
    fn next(&mut self, rows: &[Row]) -> Vec<Choice> {
        let mut wanted = match Crossover::change(&self.leads(rows, false)) {
            None if self.asked.is_empty() => vec![0, (self.along.len() - 1) / 2, self.along.len() - 1],
            None => Vec::new(),
            Some(((low, _), (high, _))) if high - low > 1 => vec![usize::midpoint(low, high)],
            Some(_) => Vec::new(),
        };
        wanted.dedup();
        wanted.retain(|at| !self.asked.contains(at));
        self.asked.extend(&wanted);
        wanted.into_iter().flat_map(|at| self.both(at)).collect()
    }

    fn found(&self, rows: &[Row]) -> Option<String> {
        let name = |is_second: bool| &self.pair[usize::from(is_second)].label;
        let noun = self.metric.noun();
        let (all, leads) = (self.leads(rows, false), self.leads(rows, true));
        match Crossover::change(&leads) {
            Some(((low, before), (high, after))) => Some(format!(
                "{} has the better {noun} up to {}, {} from {} on",
                name(before),
                self.along[low].label,
                name(after),
                self.along[high].label
            )),
            None if leads.is_empty() && !all.is_empty() => {
                Some(format!("the difference in {noun} is within chance at every value that was run"))
            }
            None => {
                let is_second = leads.first()?.1;
                let chance = if leads.len() < all.len() { ", unless it is within chance" } else { "" };
                Some(format!("{} has the better {noun} at every value that was run{chance}", name(is_second)))
            }
        }
    }
}
