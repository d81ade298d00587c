//! The report of a fit, `report.html`: measured against simulated, point by point.

use super::outcome::{Fit, Residual, Verdict, given_words, shown, shown_figure};
use super::table::{residual, simulated};
use byteway_report::shell::quoted;
use byteway_report::{Axis, Chart, Figure, Ink, Page, Section, Table, Tile, Unit};

/// Points in one chart, at most: their names stand on the axis.
const POINTS_MAX: usize = 60;

/// The report.
pub fn report(fit: &Fit) -> Page {
    let (fitted, held) = (fit.spread(false), fit.spread(true));
    let tile = |label: &str, value: String, note: &str| Tile {
        label: label.to_owned(),
        value,
        note: note.to_owned(),
    };
    let counted =
        fit.constants.iter().filter(|outcome| matches!(outcome.verdict, Verdict::Fitted { .. })).count();
    Page {
        title: format!("Constants fitted to {}", fit.file),
        subtitle: format!(
            "{} points, on {} with host {}; in virtual time",
            fit.points.len(),
            fit.base,
            fit.host
        ),
        facts: vec![("Byteway".to_owned(), env!("CARGO_PKG_VERSION").to_owned())],
        warnings: fit
            .partial
            .then(|| "Interrupted: these are the best constants so far.".to_owned())
            .into_iter()
            .chain(fit.failure())
            .collect(),
        tiles: vec![
            tile("Fitted", counted.to_string(), &format!("of {} constants", fit.constants.len())),
            tile(
                "Residuals",
                format!("{:.1} %", fitted.rms * 100.0),
                "root mean square of the fitted figures",
            ),
            tile(
                "Held out",
                format!("{:.1} %", held.rms * 100.0),
                "root mean square of the figures held out",
            ),
        ],
        answer: Some(residuals(fit)),
        sections: vec![constants(fit), points(fit), profile(fit)],
    }
}

/// The residuals as bars, fitted and held out apart. A bar of zero for what an interrupt came before would look like a perfect one.
fn residuals(fit: &Fit) -> Section {
    let all: Vec<(String, bool, f64)> = fit
        .points
        .iter()
        .flat_map(|point| {
            let of = |row: &Residual| {
                let name = format!("{}, {}", point.name, row.figure.name());
                row.relative().map(|relative| (name, point.held_out, relative))
            };
            point.residuals.iter().filter_map(of)
        })
        .take(POINTS_MAX)
        .collect();
    let names = all.iter().map(|(name, ..)| name.clone());
    let values = |held: bool| {
        all.iter().map(|(_, own, relative)| if *own == held { *relative } else { 0.0 }).collect()
    };
    let chart =
        Chart::new(Axis::names("point", names), Axis::linear("simulated / measured - 1", Unit::Share))
            .bars("fitted", Ink::nth(0), values(false))
            .bars("held out", Ink::nth(1), values(true))
            .height(480);
    Section::new("Residuals").figure(
        Figure::new(
            "Residuals, point by point",
            "Nearer to 0 is better. Points held out had no part in the fit.",
            chart,
        )
        .wide(),
    )
}

fn constants(fit: &Fit) -> Section {
    let mut table = Table::new(["constant", "base", "value", "95 %", "source"], 5);
    for outcome in &fit.constants {
        let (half, source) = match &outcome.verdict {
            Verdict::Fitted { half_width, given } => (
                half_width.map_or("partial".to_owned(), |half| format!("+-{:.1} %", half * 100.0)),
                format!("fitted{}", given_words(given)),
            ),
            Verdict::Improved(reason) => ("open".to_owned(), reason.sentence(outcome.constant)),
            Verdict::Assumed(reason) => ("-".to_owned(), reason.sentence(outcome.constant)),
        };
        let constant = outcome.constant;
        table.row([
            constant.key(),
            shown(constant, outcome.base),
            shown(constant, outcome.value),
            half,
            source,
        ]);
    }
    let mut section = Section::new("Constants").text(
        "Fitted: the points determine it, within the interval. Open: they don't, but this value near the base's cuts residuals. All others keep \
         the value of the base, and the profile says that it is assumed.",
    );
    section = section.table(table);
    section.list(
        fit.derived.iter().map(|derived| format!("{} = {}: {}", derived.key, derived.value, derived.why)),
    )
}

fn points(fit: &Fit) -> Section {
    let mut table =
        Table::new(["point", "figure", "held out", "measured", "simulated", "residual", "on base"], 3);
    for point in &fit.points {
        for row in &point.residuals {
            table.row([
                point.name.clone(),
                row.figure.name(),
                if point.held_out { "yes" } else { "" }.to_owned(),
                shown_figure(row.figure, row.measured),
                simulated(row),
                residual(row.relative()),
                residual(Some(row.base / row.measured - 1.0)),
            ]);
        }
    }
    Section::new("All points").table(table).list(fit.notes.clone())
}

fn profile(fit: &Fit) -> Section {
    let sets: String = fit.sets.iter().map(|set| format!(" --set {}", quoted(set))).collect();
    let command = format!(
        "byteway fit {} --base {} --host {}{sets}",
        quoted(&fit.file),
        quoted(&fit.base),
        quoted(&fit.host)
    );
    Section::new("The profile")
        .text("The same command gives the same constants, to the byte, on any machine and with any number of threads.")
        .listing(command)
        .listing(fit.to_profile(None))
}
