//! Recipes on a drive with tables: the transfer of queries. The drive receives and checks each query without
//! executing it: the paper's messages are tasks, for which it shows bytes and rate but no results. Tables are
//! small and generated, because a check does not depend on their rows.

use super::points::METHODS;
use super::texts::{ASTEROID, SHORT, WORKLOADS, Workload};
use crate::board::COSMOS;
use crate::error::Measured;
use crate::judgement::Measurement;
use crate::paper::Recipe;
use crate::point::{Ledger, Points, Queries, Spec};
use crate::sketch::change;
use byteway_text::table::grouped;

pub(super) const RECIPES: [Recipe; 3] = [
    Recipe {
        id: "BX15",
        points: || METHODS.map(|method| segment(ASTEROID, method)).to_vec(),
        measure: bytes_of_asteroid,
    },
    Recipe {
        id: "BX16",
        points: || METHODS.iter().flat_map(|method| segments(method)).collect(),
        measure: of_segments,
    },
    Recipe {
        id: "BX17",
        points: || METHODS.iter().flat_map(|method| short_texts(method)).collect(),
        measure: of_texts,
    },
];

/// Name of the job.
const TASKS: &str = "tasks";

/// Ratio to PRP that still counts as "about as much".
const ABOUT: f64 = 1.05;

/// A workload's table and predicate, by a method.
pub(super) fn segment(workload: Workload, method: &str) -> Spec {
    COSMOS.tables().queries(Queries::checked(TASKS, "segment", workload.segment)).by(method)
}

/// A workload's complete text, by a method.
pub(super) fn text(workload: Workload, method: &str) -> Spec {
    COSMOS.tables().queries(Queries::checked(TASKS, "sql", workload.sql)).by(method)
}

/// All segments, by a method.
pub(super) fn segments(method: &str) -> [Spec; WORKLOADS.len()] {
    WORKLOADS.map(|workload| segment(workload, method))
}

/// All complete texts, by a method.
pub(super) fn texts(method: &str) -> [Spec; WORKLOADS.len()] {
    WORKLOADS.map(|workload| text(workload, method))
}

fn short() -> impl Iterator<Item = Workload> {
    WORKLOADS.into_iter().filter(|workload| workload.sql.len() < SHORT)
}

fn short_texts(method: &str) -> Vec<Spec> {
    short().map(|workload| text(workload, method)).collect()
}

fn bytes_of_asteroid(points: &Points) -> Measured<Measurement> {
    let of = |method: &str| Measured::Ok(points.at(&segment(ASTEROID, method))?.bytes(Ledger::Payload));
    let (inline, piggyback, prp) = (of("inline")?, of("piggyback")?, of("prp")?);
    let detail = format!(
        "{inline:.0} B inline and {piggyback:.0} B piggybacked versus {prp:.0} B by PRP for a segment of {} B, with the command, its doorbells, its completion and its interrupt.",
        ASTEROID.segment.len()
    );
    Ok(Measurement::of([change(inline, prp), change(piggyback, prp)]).detail(detail))
}

/// Queries per second of each method, in order.
fn rates(points: &Points, of: impl Fn(&str) -> Spec) -> Measured<[f64; 3]> {
    let mut rates = [0.0; METHODS.len()];
    for (rate, method) in rates.iter_mut().zip(METHODS) {
        *rate = points.at(&of(method))?.throughput();
    }
    Ok(rates)
}

fn in_words(name: &str, bytes: usize, rates: [f64; 3]) -> String {
    let each: Vec<String> = METHODS
        .iter()
        .zip(rates)
        .map(|(method, rate)| format!("{method} {}", grouped(rate as u64)))
        .collect();
    format!("{name} ({bytes} B): {}", each.join(", "))
}

fn of_segments(points: &Points) -> Measured<Measurement> {
    let (mut measurement, mut words) = (Measurement::default(), Vec::new());
    for workload in WORKLOADS {
        let name = workload.name;
        let rates = rates(points, |method| segment(workload, method))?;
        let [prp, piggyback, inline] = rates;
        measurement =
            measurement.check(format!("inline has more throughput than prp, {name}"), inline > prp).check(
                format!("piggyback has no more than about as much as prp, {name}"),
                piggyback <= ABOUT * prp,
            );
        words.push(in_words(name, workload.segment.len(), rates));
    }
    Ok(measurement.detail(format!("Queries per second: {}.", words.join("; "))))
}

fn of_texts(points: &Points) -> Measured<Measurement> {
    let (mut measurement, mut words) = (Measurement::default(), Vec::new());
    for workload in short() {
        let name = workload.name;
        let rates = rates(points, |method| text(workload, method))?;
        let [prp, piggyback, inline] = rates;
        measurement = measurement
            .check(format!("inline has more throughput than prp, {name}"), inline > prp)
            .check(format!("inline has more throughput than piggyback, {name}"), inline > piggyback);
        words.push(in_words(name, workload.sql.len(), rates));
    }
    Ok(measurement.detail(format!("Queries per second: {}.", words.join("; "))))
}
