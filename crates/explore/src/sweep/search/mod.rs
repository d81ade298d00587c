//! Which points come next.
//!
//! | file | what |
//! |---|---|
//! | `mod.rs` | the search of a space, as a user writes it |
//! | `contract.rs` | what every search does |
//! | `drawn.rs` | all combinations, random points, a Latin hypercube |
//! | `knee.rs` | the value with the most throughput for its latency |
//! | `crossover.rs` | the value from which another method leads |
//! | `pareto.rs` | points of which no other is better in both of two figures |

mod contract;
mod crossover;
mod drawn;
mod knee;
mod pareto;

use super::dimension::Dimension;
use byteway_results::figures::Metric;
use byteway_text::error::InputError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(super) use contract::{Choice, POINTS_MAX, Search, metric};

/// How points are chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SearchMethod {
    /// All combinations of the values.
    #[default]
    Grid,
    /// `points` points at random.
    Random,
    /// `points` points, each value of each key in equal shares (McKay, Beckman, Conover 1979).
    LatinHypercube,
    /// One numeric key: the value with the most throughput for its latency.
    Knee,
    /// One numeric key and one of two values: from where the second leads in `metric`.
    Crossover,
    /// The points of which no other is better in both `metric` and `against`.
    Pareto,
}

/// The search of a space.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SearchSection {
    /// How points are chosen.
    pub method: SearchMethod,
    /// Number of points of a search that draws them; at most 100,000.
    pub points: Option<u32>,
    /// Seed of drawn points; not the scenario's.
    pub seed: u64,
    /// The figure that counts, by its key in `byteway compare`, such as `p99_ns`.
    pub metric: String,
    /// The second figure of a Pareto front.
    pub against: String,
    /// How often a failed point is run again.
    pub retries: u32,
}

impl Default for SearchSection {
    fn default() -> Self {
        SearchSection {
            method: SearchMethod::Grid,
            points: None,
            seed: 1,
            metric: Metric::Iops.key().to_owned(),
            against: Metric::MeanNs.key().to_owned(),
            retries: 1,
        }
    }
}

impl SearchSection {
    /// The search over these dimensions.
    ///
    /// # Errors
    /// The method does not fit the dimensions, or there are too many points.
    pub(super) fn start(&self, dimensions: &[Dimension]) -> Result<Box<dyn Search>, InputError> {
        let metric_ = metric("metric", &self.metric)?;
        let against = metric("against", &self.against)?;
        let is_drawn = matches!(self.method, SearchMethod::Random | SearchMethod::LatinHypercube);
        if let Some(range) = dimensions.iter().find(|one| one.values().is_none()).filter(|_| !is_drawn) {
            let what = format!("`{}` is a range, of which only drawn points are taken", range.key());
            let help =
                "write `values = \"1..256x2\"`, or choose `method = \"random\"` or \"latin-hypercube\"";
            return Err(InputError::new(what, help));
        }
        if self.points.is_some() && !is_drawn {
            let what = "`points` is for searches that draw points";
            return Err(InputError::new(
                what,
                "leave it out, or choose `method = \"random\"` or \"latin-hypercube\"",
            ));
        }
        Ok(match self.method {
            SearchMethod::Grid => Box::new(drawn::grid(dimensions, metric_)?),
            SearchMethod::Random | SearchMethod::LatinHypercube => {
                let Some(points) = self.points.filter(|points| (1..=POINTS_MAX as u32).contains(points))
                else {
                    let what = "the number of points to draw is missing, or out of range";
                    return Err(InputError::new(what, format!("write `points = 100`; 1 to {POINTS_MAX}")));
                };
                let is_even = self.method == SearchMethod::LatinHypercube;
                Box::new(drawn::drawn(dimensions, points as usize, self.seed, is_even, metric_))
            }
            SearchMethod::Knee => Box::new(knee::Knee::new(dimensions)?),
            SearchMethod::Crossover => Box::new(crossover::Crossover::new(dimensions, metric_)?),
            SearchMethod::Pareto => Box::new(pareto::Pareto::new(dimensions, (metric_, against))?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::row::{Row, RowStatus};
    use byteway_results::figures::Figures;

    fn dimension(key: &str, values: &str) -> Dimension {
        let section: crate::sweep::DimensionSection =
            serde_json::from_value(serde_json::json!({ "key": key, "values": values })).unwrap();
        section.check(crate::compare::Jobs { blocks: 1, ..Default::default() }).unwrap()
    }

    /// Three replicates with this throughput in the mean, one outstanding I/O each.
    fn row(name: &str, iops: f64, spread: f64) -> Row {
        let of = |by: f64| {
            Figures::from_fn(|metric| match metric {
                Metric::Iops => Some(iops + by),
                Metric::MeanNs => Some(1e9 / (iops + by)),
                _ => None,
            })
        };
        let figures = Figures::mean_of(&[-spread, 0.0, spread].map(of));
        let mut row = Row::not_run().with_name(name.to_owned());
        (row.status, row.figures) = (RowStatus::Done, figures);
        row
    }

    // Another seed would name another point, or another leader: what is found must say where chance decides.
    #[test]
    fn what_is_found_says_where_it_is_chance() {
        let section = |method| SearchSection { method, ..SearchSection::default() };
        let depths = [dimension("iodepth", "1,2,4")];
        let find = |method, dimensions: &[Dimension], rows: &dyn Fn(f64) -> Vec<Row>, spread: f64| {
            let mut search = section(method).start(dimensions).unwrap();
            let asked = search.next(&[]);
            assert!(!asked.is_empty());
            search.found(&rows(spread)).unwrap()
        };
        let three = |spread: f64| {
            let values = [("iodepth=1", 1000.0), ("iodepth=2", 1040.0), ("iodepth=4", 600.0)];
            values.map(|(name, iops)| row(name, iops, spread)).to_vec()
        };
        let best = |spread| find(SearchMethod::Grid, &depths, &three, spread);
        assert!(best(50.0).ends_with("with iodepth=2; within chance of another point"), "{}", best(50.0));
        assert!(best(5.0).ends_with("with iodepth=2"), "{}", best(5.0));
        let knee = |spread| find(SearchMethod::Knee, &depths, &three, spread);
        assert!(knee(50.0).ends_with("within chance of another point"), "{}", knee(50.0));
        assert!(!knee(5.0).contains("chance"), "{}", knee(5.0));
        // At 1 the first leads by little, at 2 the second by little, at 4 by much.
        let both = [dimension("iodepth", "1,2,4"), dimension("method", "prp,inline")];
        let six = |spread: f64| {
            let pairs = [(1000.0, 980.0), (1000.0, 1040.0), (1000.0, 2000.0)];
            pairs
                .iter()
                .flat_map(|(prp, inline)| [row("prp", *prp, spread), row("inline", *inline, spread)])
                .collect()
        };
        let crossover = |spread| find(SearchMethod::Crossover, &both, &six, spread);
        assert_eq!(crossover(1.0), "prp has the better IOPS up to 1, inline from 2 on");
        assert_eq!(
            crossover(50.0),
            "inline has the better IOPS at every value that was run, unless it is within chance"
        );
        assert_eq!(crossover(1000.0), "the difference in IOPS is within chance at every value that was run");
    }
}
