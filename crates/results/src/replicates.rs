//! Replicates: one scenario with several seeds, and what the runs say together.
//!
//! The first replicate has the scenario's own seed. Those of the others are the 64-bit draws of the stream `replicate` of that seed
//! ([`Rng::stream`]), without their lowest 11 bits, so that JSON and TOML hold them exactly. Scenarios with the same seed have the same
//! seeds of replicates: they are compared under the same draws.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::metric::Metric;
use byteway_clock::random::Rng;
use byteway_text::table::{Column, Printout, TextTable, grouped};
use std::fmt::Write as _;

/// Replicates, at most.
pub const REPLICATES_MAX: u16 = 1000;

/// The seeds of replicates of a scenario with this seed, at least that one.
pub fn seeds(seed: u64, replicates: u16) -> Vec<u64> {
    let mut stream = Rng::new(seed).stream("replicate");
    let others = (1..replicates).map(|_| stream.next_u64() >> 11);
    [seed].into_iter().chain(others).collect()
}

/// What became of one replicate, in a sentence about all: "replicate 2 of 5 (seed 7): no I/O was measured".
pub fn of_replicate(index: usize, replicates: usize, seed: u64, what: &str) -> String {
    format!("replicate {} of {replicates} (seed {seed}): {what}", index + 1)
}

/// The replicates of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Replicates {
    /// The runs, of which the first has all other figures of this file.
    pub runs: Vec<ReplicateRow>,
    /// The figures over all runs. Empty if a run failed or is missing: a mean over fewer would pass for one over all.
    pub figures: Vec<MeanRow>,
}

/// A replicate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReplicateRow {
    /// Seed: `--set seed=N` runs this replicate alone.
    pub seed: u64,
    /// Why it has no figures: it failed, or was not run; `None` if it is complete.
    pub failure: Option<String>,
}

/// A figure over all replicates, or over the batches of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MeanRow {
    /// Key of the figure, as in `compare.json`: `iops`, `mean_ns`, `p99_ns`, ...
    pub figure: String,
    /// Mean over the runs, or batches.
    pub mean: f64,
    /// Half width of the mean's 95 % interval, by Student's t distribution.
    pub half_width: f64,
    /// The figure of each run, in the order of `runs`, or of each batch.
    pub values: Vec<f64>,
}

impl Replicates {
    /// The failed and missing ones, each in a sentence.
    pub fn failures(&self) -> Vec<String> {
        let failure = |(index, row): (usize, &ReplicateRow)| {
            Some(of_replicate(index, self.runs.len(), row.seed, row.failure.as_deref()?))
        };
        self.runs.iter().enumerate().filter_map(failure).collect()
    }

    /// The figures as a table.
    pub fn table(&self) -> TextTable {
        let mut table = TextTable::new([
            Column::text("figure"),
            Column::count("mean"),
            Column::count("least"),
            Column::count("most"),
        ]);
        for row in &self.figures {
            let Some(metric) = Metric::named(&row.figure) else { continue };
            let least = row.values.iter().copied().fold(f64::INFINITY, f64::min);
            let most = row.values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            table.row([
                metric.noun().into(),
                metric.show_mean(row.mean, row.half_width).into(),
                metric.show(least).into(),
                metric.show(most).into(),
            ]);
        }
        table
    }

    /// What the table has, or why there is none.
    pub fn sentences(&self) -> Vec<String> {
        let seeds: Vec<String> = self.runs.iter().map(|row| row.seed.to_string()).collect();
        let mut said = self.failures();
        said.push(match self.figures.is_empty() {
            true => format!("There are no means over {} replicates.", self.runs.len()),
            false => format!(
                "Means over {} replicates, with their 95 % intervals; without one, all are equal. All else here is of the first.",
                grouped(self.runs.len() as u64)
            ),
        });
        said.push(format!("Seeds: {}.", seeds.join(", ")));
        said
    }

    /// The table and its sentences.
    pub(crate) fn write_tables(&self, out: &mut Printout) {
        out.section("Replicates", &self.table());
        for sentence in self.sentences() {
            let _ = writeln!(out, "{sentence}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A replicate could not be run again by the seed that is listed for it, and more replicates would be other ones.
    #[test]
    fn the_first_seed_is_the_scenarios_and_more_replicates_keep_those_before() {
        let five = seeds(7, 5);
        assert_eq!((five.len(), five[0]), (5, 7));
        assert_eq!(seeds(7, 3), five[..3]);
        assert_eq!(seeds(7, 1), [7]);
        assert!(five[1..].iter().all(|seed| *seed < 1 << 53), "{five:?}");
        let distinct: std::collections::BTreeSet<u64> = seeds(7, REPLICATES_MAX).into_iter().collect();
        assert_eq!(distinct.len(), usize::from(REPLICATES_MAX));
        // Results that were published with these seeds must stay reproducible.
        assert_eq!(seeds(1, 3), [1, 5_921_889_507_640_919, 1_337_851_167_615_776]);
    }
}
