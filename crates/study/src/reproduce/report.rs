//! `report.html` of a reproduction: the verdicts, then the paper's figures drawn anew.

use super::paper::Paper;
use super::reproduction::Reproduction;
use super::table::HEADER;
use super::verdict::{Outcome, Verdict};
use crate::report::{Page, Section, Table, Tile, Tone};

/// What `report.html` shows.
pub fn report(paper: &Paper, reproduction: &Reproduction) -> Page {
    let mut sections = vec![claims(reproduction), beside(reproduction)];
    sections.extend((paper.figures)(&reproduction.points));
    sections.push(effort(reproduction));
    let mut warnings = Vec::new();
    if reproduction.is_partial() {
        warnings.push("It was interrupted: some points were not run.".to_owned());
    }
    if !reproduction.holds() {
        warnings.push("Something regressed, or a required claim does not hold.".to_owned());
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
            tile("Reported", counts.reported, "shown, not judged"),
            tile("Direction only", counts.direction_only, "the right way, not within tolerance"),
            tile("Not reproduced", counts.not_reproduced + counts.failed, "neither, or a point failed"),
            tile("Wait", counts.needs_csd, "for what is not there yet"),
            tile("Out of reach", counts.out_of_reach, "for want of traces or a board"),
        ],
        sections,
        ..Page::default()
    }
}

fn claims(reproduction: &Reproduction) -> Section {
    // What is long stands last, where it may be wider than the page.
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
            "Calibrated: constants of the profile were fitted to this claim, or to one that stands and falls with it; that it \
             comes out shows that the model is consistent, not that it is right. Predicted: nothing was fitted to it. Analytic: \
             arithmetic on stated constants gives it, which the run confirms.",
        )
        .table(table)
}

/// A verdict's colour.
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
    let mut section = Section::new("What the claims say, and what came out");
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
    let mut section = Section::new("What was run")
        .text("The same command gives the same figures, to the byte, on any machine and however many points run at once.")
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
