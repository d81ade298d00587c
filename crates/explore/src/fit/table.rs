//! The result of a fit for the terminal.

use std::fmt::Write as _;

use super::outcome::{Fit, FittedPoint, Residual, Spread, Verdict, given_words, shown, shown_figure};
use byteway_text::table::{Column, Printout, TextTable, Width};

/// Text of an empty cell.
const NOTHING: &str = "-";

impl Spread {
    fn words(&self, what: &str) -> String {
        let open = match self.not_simulated {
            0 => String::new(),
            open => format!(" {open} not simulated."),
        };
        match self.count {
            0 if open.is_empty() => format!("No point was {what}."),
            0 => format!("No figure that was {what} was simulated before the interrupt."),
            count => format!(
                "{count} figures {what}: residuals {:.1} % (root mean square), the largest {:+.1} %.{open}",
                self.rms * 100.0,
                self.largest * 100.0
            ),
        }
    }
}

/// Text of a figure that an interrupt came before.
const NOT_SIMULATED: &str = "not simulated";

/// A residual in percent.
pub(super) fn residual(relative: Option<f64>) -> String {
    relative.map_or(NOTHING.to_owned(), |relative| format!("{:+.1} %", relative * 100.0))
}

/// What was simulated of a figure.
pub(super) fn simulated(row: &Residual) -> String {
    row.simulated.map_or(NOT_SIMULATED.to_owned(), |value| shown_figure(row.figure, value))
}

impl Fit {
    /// The constants: base, fitted value, interval, verdict.
    fn constants_table(&self) -> TextTable {
        let columns = [
            Column::text("constant"),
            Column::count("base"),
            Column::count("fitted"),
            Column::count("95 %"),
            Column::text("range").rank(1),
        ];
        let mut table = TextTable::new(columns);
        for outcome in &self.constants {
            let constant = outcome.constant;
            let bounds = constant.bounds();
            let (fitted, half) = match &outcome.verdict {
                Verdict::Fitted { half_width, .. } => (
                    shown(constant, outcome.value),
                    half_width.map_or("partial".to_owned(), |half| format!("+-{:.1} %", half * 100.0)),
                ),
                Verdict::Improved(_) => (shown(constant, outcome.value), "open".to_owned()),
                Verdict::Assumed(_) => ("assumed".to_owned(), NOTHING.to_owned()),
            };
            table.row([
                constant.key().into(),
                shown(constant, outcome.base).into(),
                fitted.into(),
                half.into(),
                format!("{} to {}", shown(constant, bounds.low), shown(constant, bounds.high)).into(),
            ]);
        }
        table
    }

    /// The figures of points.
    fn points_table(&self, held_out: bool) -> TextTable {
        let columns = [
            Column::text("point"),
            Column::text("figure"),
            Column::count("measured"),
            Column::count("simulated"),
            Column::count("residual"),
            Column::count("on base").rank(1),
            Column::text("load").rank(2),
            Column::text("source").rank(3),
        ];
        let mut table = TextTable::new(columns);
        let own = self.points.iter().filter(|point| point.held_out == held_out);
        let rows = own.flat_map(|point| point.residuals.iter().map(move |residual| (point, residual)));
        for (point, row) in rows {
            let cells: [String; 8] = self.cells(point, row);
            table.row(cells.map(Into::into));
        }
        table
    }

    fn cells(&self, point: &FittedPoint, row: &Residual) -> [String; 8] {
        [
            point.name.clone(),
            row.figure.name(),
            shown_figure(row.figure, row.measured),
            simulated(row),
            residual(row.relative()),
            residual(Some(row.base / row.measured - 1.0)),
            point.load.words(),
            point.source.clone().unwrap_or_else(|| NOTHING.to_owned()),
        ]
    }

    /// The printed text.
    pub fn printed(&self, width: Width) -> String {
        let mut out = Printout::new(width);
        let _ = writeln!(
            out,
            "{}: {} points, on {} with host {}",
            self.file,
            self.points.len(),
            self.base,
            self.host
        );
        if self.partial {
            let _ =
                writeln!(out, "PARTIAL: interrupted before the search was done: the best constants so far");
        }
        if let Some(failure) = self.failure() {
            let _ = writeln!(out, "{failure}");
        }
        let _ = writeln!(out);
        out.table(&self.constants_table());
        let improved = "Open: near the base's value, and cuts residuals";
        for (title, open) in [(improved, self.improved()), ("Assumed, at the base's value", self.reasons())] {
            if open.is_empty() {
                continue;
            }
            let _ = writeln!(out, "\n{title}");
            open.iter().for_each(|sentence| {
                let _ = writeln!(out, "- {sentence}");
            });
        }
        for outcome in &self.constants {
            if let Verdict::Fitted { given, .. } = &outcome.verdict
                && !given.is_empty()
            {
                let _ = writeln!(out, "- `{}` is fitted{}", outcome.constant.key(), given_words(given));
            }
        }
        if !self.derived.is_empty() {
            let _ = writeln!(out, "\nStructure");
        }
        for derived in &self.derived {
            let word = if derived.identified { "" } else { "not identified from these points: " };
            let _ = writeln!(out, "- {word}`{}` = {}: {}", derived.key, derived.value, derived.why);
        }
        out.section("Fitted points", &self.points_table(false));
        out.section("Points held out", &self.points_table(true));
        let _ = writeln!(out, "\n{}", self.spread(false).words("fitted"));
        let _ = writeln!(out, "{}", self.spread(true).words("held out"));
        if !self.notes.is_empty() {
            let _ = writeln!(out, "\nNotes");
        }
        for note in &self.notes {
            let _ = writeln!(out, "- {note}");
        }
        out.finish()
    }

    /// Why each assumed constant is.
    pub fn reasons(&self) -> Vec<String> {
        let reason = |outcome: &super::outcome::ConstantOutcome| match &outcome.verdict {
            Verdict::Assumed(reason) => Some(reason.sentence(outcome.constant)),
            Verdict::Fitted { .. } | Verdict::Improved(_) => None,
        };
        self.constants.iter().filter_map(reason).collect()
    }

    /// Why each constant that has a better value than the base's is not identified.
    pub fn improved(&self) -> Vec<String> {
        let reason = |outcome: &super::outcome::ConstantOutcome| match &outcome.verdict {
            Verdict::Improved(reason) => Some(reason.sentence(outcome.constant)),
            Verdict::Fitted { .. } | Verdict::Assumed(_) => None,
        };
        self.constants.iter().filter_map(reason).collect()
    }
}
