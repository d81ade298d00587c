//! A validation for the terminal, and as JSON.

use super::validation::{HeldFigure, HeldPoint, Measure, Spread, Validation, WORST_MAX};
use crate::fit::{Role, shown_figure};
use byteway_text::table::{Column, Printout, TextTable, Width};
use byteway_workload::Rw;
use serde_json::json;
use std::fmt::Write as _;

/// Points that are listed unless all are.
const LISTED: usize = 10;

/// Text of an empty cell.
const NOTHING: &str = "-";

/// The name of a kind of load.
pub(super) fn name_of(rw: Rw) -> String {
    serde_json::to_value(rw).ok().and_then(|rw| rw.as_str().map(str::to_owned)).unwrap_or_default()
}

fn signed(error: Option<f64>) -> String {
    error.map_or(NOTHING.to_owned(), |error| format!("{:+.1} %", error * 100.0))
}

/// Mean and worst error, as cells.
pub(super) fn spread_cells(spread: Option<Spread>) -> [String; 2] {
    let mean = spread.map_or(NOTHING.to_owned(), |spread| format!("{:.1} %", spread.mean * 100.0));
    [mean, signed(spread.map(|spread| spread.worst))]
}

/// What the points of a role are.
pub(super) fn title_of(role: Role) -> &'static str {
    match role {
        Role::Judge => "Points that judge: nothing was fitted to them",
        Role::Fit => "Points that constants may be fitted to",
        Role::Aside => "Points at the limit of the host that measured",
    }
}

impl Validation {
    /// Errors by kind of load.
    fn errors(&self, role: Role) -> TextTable {
        let mut columns = vec![Column::text("load"), Column::count("points")];
        for measure in Measure::ALL {
            columns.extend([Column::count(measure.name()), Column::count("worst")]);
        }
        let mut table = TextTable::new(columns);
        for rw in self.kinds().into_iter().map(Some).chain([None]) {
            let points = self.points.iter().filter(|point| point.role == role);
            let count = points.filter(|point| rw.is_none_or(|rw| point.load.rw == rw)).count();
            if count == 0 {
                continue;
            }
            let mut cells = vec![rw.map_or("all".to_owned(), name_of), count.to_string()];
            cells.extend(
                Measure::ALL.iter().flat_map(|measure| spread_cells(self.spread(role, rw, *measure))),
            );
            table.row(cells.into_iter().map(Into::into));
        }
        table
    }

    /// Points, the worst first unless all are listed.
    fn listed(&self, all: bool) -> TextTable {
        let mut table = TextTable::new([
            Column::text("point"),
            Column::text("measured by").rank(1),
            Column::text("use"),
            Column::count("IOPS"),
            Column::count("error"),
            Column::count("mean"),
            Column::count("error"),
            Column::count("p99").rank(2),
            Column::count("error").rank(2),
        ]);
        let size = |point: &&HeldPoint| {
            let errors = [Measure::Throughput, Measure::Mean].map(|measure| point.error(measure));
            errors.iter().flatten().fold(0.0f64, |most, error| most.max(error.abs()))
        };
        let mut points: Vec<&HeldPoint> = self.points.iter().collect();
        if !all {
            points.retain(|point| point.role != Role::Aside);
            points.sort_by(|left, right| size(right).total_cmp(&size(left)));
            points.truncate(LISTED);
        }
        for point in points {
            let mut cells =
                vec![point.name.clone(), point.dataset.name.to_owned(), point.role.name().to_owned()];
            for measure in Measure::ALL {
                let figure = point.figures.iter().find(|held| measure.is(held.figure));
                let measured = figure.map(|held| shown_figure(held.figure, held.measured));
                cells.extend([measured.unwrap_or(NOTHING.to_owned()), signed(point.error(measure))]);
            }
            table.row(cells.into_iter().map(Into::into));
        }
        table
    }

    /// In a sentence for each measure: what the error is, and what it should be.
    pub fn verdict(&self) -> Vec<String> {
        let of = |measure: Measure| {
            let spread = self.spread(Role::Judge, None, measure)?;
            let holds = if spread.mean <= measure.aim() { "holds" } else { "missed" };
            Some(format!(
                "{} is off by {:.1} % on average over {} points that judge; the aim is {:.0} %: {holds}",
                measure.name(),
                spread.mean * 100.0,
                spread.count,
                measure.aim() * 100.0
            ))
        };
        let far = match self.far_off() {
            0 => None,
            far => {
                let which = if far == 1 { "point that judges is" } else { "points that judge are" };
                Some(format!(
                    "{far} {which} off by more than {:.0} % in throughput or mean latency",
                    WORST_MAX * 100.0
                ))
            }
        };
        Measure::ALL.into_iter().filter_map(of).chain(far).collect()
    }

    /// The printed text, with each point if `all`.
    pub fn printed(&self, width: Width, all: bool) -> String {
        let mut out = Printout::new(width);
        let _ = writeln!(
            out,
            "{}: {} points that others measured of the real drive",
            self.profile,
            self.points.len()
        );
        for said in self.notes() {
            let _ = writeln!(out, "{said}");
        }
        for role in [Role::Judge, Role::Fit, Role::Aside] {
            if self.points.iter().any(|point| point.role == role) {
                out.section(title_of(role), &self.errors(role));
            }
        }
        out.section(if all { "All points" } else { "The worst" }, &self.listed(all));
        let _ = writeln!(out);
        for sentence in self.verdict() {
            let _ = writeln!(out, "- {sentence}");
        }
        let mut names: Vec<(&str, &str, &str)> = Vec::new();
        for point in &self.points {
            let dataset = point.dataset;
            if names.last().is_none_or(|(last, ..)| *last != dataset.name) {
                names.push((dataset.name, dataset.about, dataset.source));
            }
        }
        let _ = writeln!(out, "\nMeasured by");
        for (name, about, source) in names {
            let _ = writeln!(out, "- {name}: {about}; {source}");
        }
        out.finish()
    }

    /// What is to be known before the figures.
    pub(super) fn notes(&self) -> Vec<String> {
        let partial = self.partial.then(|| {
            let open = self.points.iter().filter(|point| point.error(Measure::Throughput).is_none()).count();
            format!("PARTIAL: interrupted, {open} points were not simulated")
        });
        let some = (self.every > 1).then(|| format!("one in {} points was simulated", self.every));
        let sets = (!self.sets.is_empty()).then(|| format!("with {}", self.sets.join(", ")));
        [partial, some, sets].into_iter().flatten().collect()
    }

    /// `validation.json`: profile, errors by role and kind of load, and all points.
    pub fn to_json(&self) -> String {
        let errors = |role: Role| {
            let of = |rw: Option<Rw>| {
                let each = Measure::ALL.map(|measure| (measure, self.spread(role, rw, measure)));
                let [throughput, mean, p99] = each.map(|(_, spread)| spread);
                json!({ "load": rw.map_or("all".to_owned(), name_of), "throughput": throughput, "mean": mean, "p99": p99 })
            };
            self.kinds().into_iter().map(Some).chain([None]).map(of).collect::<Vec<_>>()
        };
        let point = |point: &HeldPoint| {
            let figure = |held: &HeldFigure| {
                json!({
                    "figure": held.figure.name(),
                    "unit": if held.figure.is_time() { "ns" } else { "1/s" },
                    "measured": held.measured,
                    "simulated": held.simulated,
                })
            };
            json!({
                "name": point.name,
                "dataset": point.dataset.name,
                "use": point.role.name(),
                "load": point.load,
                "figures": point.figures.iter().map(figure).collect::<Vec<_>>(),
            })
        };
        let whole = json!({
            "byteway": env!("CARGO_PKG_VERSION"),
            "profile": self.profile,
            "sets": self.sets,
            "every": self.every,
            "partial": self.partial,
            "judge": errors(Role::Judge),
            "fit": errors(Role::Fit),
            "aside": errors(Role::Aside),
            "points": self.points.iter().map(point).collect::<Vec<_>>(),
        });
        format!("{whole:#}\n")
    }
}
