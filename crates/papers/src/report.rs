//! The report of a reproduction: verdicts, then the paper's figures redrawn.

use crate::judgement::Outcome;
use crate::paper::Paper;
use crate::reproduction::Reproduction;
use crate::table::HEADER;
use crate::verdict::Verdict;
use byteway_report::{Page, Section, Table, Tile, Tone};

/// The report, `report.html`.
pub fn report(paper: &Paper, reproduction: &Reproduction) -> Page {
    let mut sections = vec![claims(reproduction), beside(reproduction)];
    sections.extend((paper.figures)(&reproduction.points));
    sections.push(effort(reproduction));
    let mut warnings = Vec::new();
    if reproduction.is_partial() {
        warnings.push("Interrupted: some points were not run.".to_owned());
    }
    if !reproduction.holds() {
        warnings.push("A claim regressed, or a required claim does not hold.".to_owned());
    }
    for (spec, _) in reproduction.points.iter() {
        if let Err(why) = reproduction.points.at(spec) {
            warnings.push(format!("Failed: {why:#}"));
        }
    }
    let counts = reproduction.counts();
    let tile = |label: &str, count: usize, note: &str| Tile {
        label: label.to_owned(),
        value: count.to_string(),
        note: note.to_owned(),
    };
    Page {
        title: format!("{}, reproduced", reproduction.title),
        subtitle: format!(
            "{} claims from {} points of {}; in virtual time",
            reproduction.rows.len(),
            reproduction.points.iter().count(),
            reproduction.lengths_in_words()
        ),
        facts: [
            Some(("About".to_owned(), paper.about.to_owned())),
            Some(("Byteway".to_owned(), env!("CARGO_PKG_VERSION").to_owned())),
            reproduction.full_run.clone().map(|day| ("Full runs".to_owned(), day)),
        ]
        .into_iter()
        .flatten()
        .collect(),
        warnings,
        tiles: vec![
            tile("Reproduced", counts.reproduced, "within their tolerance"),
            tile("Reported", counts.reported, "shown without a verdict"),
            tile("Direction only", counts.direction_only, "right direction, not within tolerance"),
            tile("Not reproduced", counts.not_reproduced + counts.failed, "neither, or a point failed"),
            tile("Out of reach", counts.out_of_reach, "traces or a board are missing"),
        ],
        sections,
        ..Page::default()
    }
}

fn claims(reproduction: &Reproduction) -> Section {
    // Long text is last, where it may be wider than the page.
    let [id, metric, rest @ .., verdict] = HEADER;
    let header = [id, verdict].into_iter().chain(rest).chain(["where", metric]);
    let mut table = Table::new(header, HEADER.len() + 1);
    table.toned = Some((1, reproduction.rows.iter().map(|(_, outcome)| tone(outcome)).collect()));
    for (claim, outcome) in &reproduction.rows {
        let [id, metric, rest @ .., verdict] = reproduction.cells(claim, outcome);
        let row = [id, verdict].into_iter().chain(rest).chain([claim.place.clone(), metric]);
        table.row(row.map(|cell| cell.replace('\n', "; ")));
    }
    Section::new("The claims")
        .text(reproduction.verdict())
        .text(
            "Calibrated: constants of the profile were fitted to this claim, or to one that depends on the same constants; that it \
             is reproduced shows that the model is consistent, not that it is correct. Predicted: nothing was fitted to it. Analytic: \
             it follows from stated constants by arithmetic, which the run confirms.",
        )
        .table(table)
}

/// The rating of a verdict.
fn tone(outcome: &Outcome) -> Tone {
    match outcome {
        Outcome::Measured(judged) => match judged.verdict {
            Verdict::Reproduced => Tone::Good,
            Verdict::Reported => Tone::Plain,
            Verdict::DirectionOnly => Tone::Fair,
            Verdict::NotReproduced => Tone::Bad,
        },
        Outcome::Failed(_) => Tone::Bad,
        Outcome::Needs(_) | Outcome::NotRun => Tone::Plain,
    }
}

fn beside(reproduction: &Reproduction) -> Section {
    let mut section = Section::new("Claims and results");
    for (claim, outcome) in &reproduction.rows {
        let mut words = reproduction.words(claim, outcome);
        if let Outcome::Measured(judged) = outcome {
            let held = judged.measurement.checks.iter().filter(|check| check.holds);
            let held: Vec<&str> = held.map(|check| check.what.as_str()).collect();
            if !held.is_empty() {
                words.push(format!("Holds: {}.", held.join("; ")));
            }
        }
        section = section.text(match words.is_empty() {
            true => format!("{}: {}", claim.id, claim.says),
            false => format!("{}: {} Here: {}", claim.id, claim.says, words.join(" ")),
        });
    }
    section
}

fn effort(reproduction: &Reproduction) -> Section {
    let mut section = Section::new("Points")
        .text("The same command gives the same figures, to the byte, on any machine and with any number of parallel points.")
        .listing(format!("byteway reproduce {}", reproduction.name));
    for agreement in &reproduction.agreements {
        section = section.text(format!("{}.", agreement.sentence()));
    }
    if let Some((spec, _)) = reproduction.points.iter().next() {
        section = section
            .text("Each point is an ordinary scenario, such as this one; reproduce.json has all of them.")
            .listing(spec.text(reproduction.lengths.of(spec)));
    }
    section
}
