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
