//! The report of a run: facts, main figures, and a section for each aspect.
//!
//! | file | what |
//! |---|---|
//! | `mod.rs` | the head; tables of jobs, errors and notes; how to repeat the run |
//! | `steps.rs` | the time series, reduced to as many steps as a chart can show |
//! | `flow.rs` | throughput, latency, and time of an I/O by resource |
//! | `queries.rs` | queries: executors, and data moved |
//! | `kinds.rs` | reads, writes and trims, and their means |
//! | `link.rs` | traffic on the link |
//! | `host.rs` | cost of I/O on the host, by component and over time |
//! | `drive.rs` | utilisation of dies, channels and cores; write amplification; wear |
//! | `pairs.rs` | a key-value drive: operations by kind, and its store |
//! | `upkeep.rs` | background work of the drive, if any |
//!
//! A section without data says so, or is omitted if it does not apply.

mod drive;
mod flow;
mod host;
mod kinds;
mod link;
mod pairs;
mod queries;
mod steps;
mod upkeep;

use crate::shell::quoted;
use crate::{Page, Section, Table, Tile};
use byteway_results::replicates::Replicates;
use byteway_results::results::Results;
use byteway_results::results::steadiness::NOT_STEADY;
use byteway_results::summary::{ClockKind, DRIVES_TITLE, Summary};
use byteway_scenario::profile::Completion;
use byteway_scenario::{Scenario, Warmup};
use byteway_text::table::{bytes, rate};
use byteway_text::table::{grouped, percent, time};
use byteway_text::units::Bytes;
use byteway_workload::{JobPlan, Source};
use kinds::{kinds, per_io};
use steps::Steps;

/// The report of a run, `report.html`.
pub fn run_report(scenario: &Scenario, results: &Results) -> Page {
    let summary = &results.summary;
    let steps = Steps::of(&results.series);
    // The cost of I/O on the host covers all drives together, and is the same in each series.
    let whole = Steps::of(results.drives.first().map_or(&results.series, |drive| &drive.series));
    let first = [
        replicates(summary),
        Some(flow::throughput(&steps, summary)),
        Some(flow::latency(&steps, results)),
        each_drive(summary),
        flow::spans(summary),
        link::link(&steps, summary),
        host::array(summary),
        host::jbof(summary),
        host::host(&whole, summary),
        pairs::pairs(summary),
        queries::queries(summary),
        drive::usage(&steps, summary),
        drive::writing(&steps, results),
        upkeep::upkeep(&steps, summary),
    ];
    let last = [Some(jobs(summary)), Some(repeat(scenario, summary))];
    let sections =
        first.into_iter().chain(results.each_drive().take(DETAILED_MAX).flat_map(own_sections)).chain(last);
    Page {
        title: summary.scenario.clone(),
        subtitle: headline(summary),
        facts: facts(scenario, summary),
        warnings: warnings(summary),
        tiles: tiles(summary),
        sections: sections.flatten().collect(),
        ..Page::default()
    }
}

/// The means over replicates, if there are any.
fn replicates(summary: &Summary) -> Option<Section> {
    let replicates = summary.replicates.as_ref()?;
    let section = Section::new("Replicates").list(replicates.sentences());
    Some(match replicates.figures.is_empty() {
        true => section,
        false => section.table(Table::from(replicates.table()).caption("Means and their 95 % intervals")),
    })
}

/// Drives shown in detail, at most: each takes some 100 kB of the page.
const DETAILED_MAX: usize = 4;

/// A comparison of several drives.
fn each_drive(summary: &Summary) -> Option<Section> {
    if summary.drives.is_empty() {
        return None;
    }
    let mut section = Section::new("Drives").text(
        "Each drive has its own link, and shares only the host's processors with the others. Its figures cover \
         the time of its own jobs. The figures of all drives together follow, then those of each drive.",
    );
    let count = summary.drives.len();
    if count > DETAILED_MAX {
        section = section.text(format!(
            "The first {DETAILED_MAX} of {count} drives are shown in detail; summary.json and results.parquet have all."
        ));
    }
    Some(section.table(Table::from(summary.each_drive()).caption(DRIVES_TITLE)))
}

/// Sections on one of several drives.
fn own_sections(results: Results) -> [Option<Section>; 5] {
    let summary = &results.summary;
    let steps = Steps::of(&results.series);
    let name = summary.drive.clone().unwrap_or_default();
    // Operations and bulk PUT are by job, in the sections on the whole run.
    let store = summary.kv.as_ref().is_some_and(|kv| kv.store.is_some());
    let sections = [
        link::link(&steps, summary),
        pairs::pairs(summary).filter(|_| store),
        drive::usage(&steps, summary),
        drive::writing(&steps, &results),
        upkeep::upkeep(&steps, summary),
    ];
    sections.map(|section| {
        section.map(|section| Section { title: format!("{name}: {}", section.title), ..section })
    })
}

fn headline(summary: &Summary) -> String {
    let host = match &summary.host_profile {
        Some(name) => format!("driven by {name}"),
        None => "driven by this machine".to_owned(),
    };
    format!("{}, {}, {host}", summary.drive_model, Bytes(summary.capacity_bytes))
}

fn facts(scenario: &Scenario, summary: &Summary) -> Vec<(String, String)> {
    let completion = match summary.completion {
        Completion::Polled => "polled",
        Completion::Interrupt => "by interrupt",
    };
    let clock = match summary.clock {
        ClockKind::Virtual => "virtual: the same on every machine",
        ClockKind::Wall => "wall-clock time of the machine on which it ran",
    };
    let warmup = match scenario.warmup {
        Some(Warmup::Time(span)) => format!(" after {span} of warm-up"),
        Some(Warmup::Ios(ios)) => format!(" after {} I/Os of warm-up", grouped(ios)),
        None => String::new(),
    };
    let measured = format!("{} I/Os in {}{warmup}", grouped(summary.ios), time(summary.elapsed_ns));
    let mut facts = vec![("Measured", measured)];
    if let Some(profile) = &summary.drive_profile {
        facts.push(("Drive profile", profile.clone()));
    }
    facts.push(("Completions", completion.to_owned()));
    facts.push(("Clock", clock.to_owned()));
    facts.push(("Seed", summary.seed.to_string()));
    facts.push(("Byteway", summary.byteway.clone()));
    facts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn warnings(summary: &Summary) -> Vec<String> {
    let mut warnings = Vec::new();
    if summary.verification.mismatches > 0 {
        let (wrong, reads) = (summary.verification.mismatches, summary.verification.reads);
        warnings.push(format!(
            "Data mismatch: {} of {} reads did not return what was written.",
            grouped(wrong),
            grouped(reads)
        ));
    }
    let failed: u64 = summary.errors.iter().map(|row| row.count).sum();
    if failed > 0 {
        warnings.push(format!(
            "{} commands failed: see \u{201c}Jobs, errors and notes\u{201d}.",
            grouped(failed)
        ));
    }
    let missing = summary.replicates.iter().flat_map(Replicates::failures);
    warnings.extend(missing.map(|failure| capitalized(&failure)));
    if summary.partial {
        let what = "Partial: the run was interrupted. The figures cover the completed I/Os.";
        warnings.push(what.to_owned());
    }
    // Every figure above is a mean over a changing rate.
    warnings.extend(
        summary.notes.iter().filter(|note| note.starts_with(NOT_STEADY)).map(|note| capitalized(note)),
    );
    warnings
}

fn capitalized(note: &str) -> String {
    let mut rest = note.chars();
    rest.next().map_or_else(String::new, |first| format!("{}{}.", first.to_uppercase(), rest.as_str()))
}

/// A time to three digits, short enough for a tile.
fn short_time(ns: f64) -> String {
    let (value, unit) = match ns {
        ns if ns < 1e3 => (ns, "ns"),
        ns if ns < 1e6 => (ns / 1e3, "us"),
        ns if ns < 1e9 => (ns / 1e6, "ms"),
        ns => (ns / 1e9, "s"),
    };
    let decimals = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    format!("{value:.decimals$} {unit}")
}

/// A range from minimum to maximum, or one value if they look the same.
fn spread(values: impl Iterator<Item = u64>) -> String {
    let values: Vec<u64> = values.collect();
    let text = |value: Option<&u64>| value.map_or("-".to_owned(), |value| short_time(*value as f64));
    let (low, high) = (text(values.iter().min()), text(values.iter().max()));
    if low == high { low } else { format!("{low} - {high}") }
}

fn tiles(summary: &Summary) -> Vec<Tile> {
    let tile = |label: &str, value: String, note: String| Tile { label: label.to_owned(), value, note };
    let several = kinds(summary).count() > 1;
    let of = if several { "range over jobs and kinds" } else { "" };
    let mut tiles = vec![
        tile("IOPS", grouped(libm::round(summary.iops) as u64), "all jobs".to_owned()),
        tile("Throughput", rate(summary.bytes_per_second), "payload, all jobs".to_owned()),
        tile("Median latency", spread(kinds(summary).map(|(.., found)| found.latency.p50_ns)), of.to_owned()),
        tile(
            "99th percentile",
            spread(kinds(summary).map(|(.., found)| found.latency.p99_ns)),
            of.to_owned(),
        ),
    ];
    if !summary.link.is_empty() {
        let wire: u64 = summary.link.iter().map(|row| row.wire_bytes).sum();
        let payload: u64 = summary.link.iter().map(|row| row.payload_bytes).sum();
        let note = format!("of which {} payload", bytes(per_io(payload, summary.ios)));
        let value = bytes(per_io(wire, summary.ios));
        tiles.push(tile("On the link, per I/O", value, note));
    }
    if let Some((resource, mean)) = summary.busiest() {
        // The means include drives that may be idle.
        let whose = if summary.drives.is_empty() { ", mean" } else { ", of the most utilized drive" };
        tiles.push(tile("Busiest", percent(mean), format!("{resource}{whose}")));
    }
    if let Some(flash) = summary.flash {
        let (value, note) = match summary.write_amplification {
            Some(amplification) => {
                (format!("{amplification:.2}"), format!("{} blocks erased", grouped(flash.erases)))
            }
            None if summary.has_writes() => ("none yet".to_owned(), "no data has reached flash".to_owned()),
            None => ("-".to_owned(), "no writes".to_owned()),
        };
        tiles.push(tile("Write amplification", value, note));
    }
    let verification = &summary.verification;
    let (value, note) = match (verification.on, verification.mismatches, verification.reads) {
        (false, ..) => ("off".to_owned(), "reads were not verified".to_owned()),
        (true, 0, 0) => ("-".to_owned(), "no reads".to_owned()),
        (true, 0, reads) => ("all correct".to_owned(), format!("{} reads verified", grouped(reads))),
        (true, wrong, reads) => (format!("{} wrong", grouped(wrong)), format!("of {} reads", grouped(reads))),
    };
    tiles.push(tile("Verification", value, note));
    tiles
}

fn jobs(summary: &Summary) -> Section {
    let table = Table::from(summary.throughput());
    let mut errors = Table::new(["status", "commands"], 1).caption("Commands that failed");
    for row in &summary.errors {
        errors.row([row.status.clone(), grouped(row.count)]);
    }
    let verification = &summary.verification;
    let checked = match (verification.on, verification.mismatches) {
        (false, _) => {
            "Reads were not verified: a defect of the drive that returns wrong data would go unnoticed."
                .to_owned()
        }
        (true, 0) if summary.transfer.as_ref().is_some_and(|transfer| transfer.is_sink) => {
            "For every payload the host's checksum was compared with the drive's, and every read with the data \
             written, byte by byte."
                .to_owned()
        }
        (true, 0) if verification.reads == 0 => "No reads, so nothing was verified.".to_owned(),
        (true, 0) => format!(
            "{} reads were verified: every block had the data that the host wrote. The expected content of a block follows from \
             the order of reads and writes as the host saw it, without any information from the drive.",
            grouped(verification.reads)
        ),
        (true, wrong) => format!(
            "{} of {} reads did not return what was written.",
            grouped(wrong),
            grouped(verification.reads)
        ),
    };
    let mut section = Section::new("Jobs, errors and notes").table(table);
    section = match summary.errors.is_empty() {
        true => section.text("No command failed."),
        false => section.table(errors),
    };
    section = section.text(checked);
    for note in &summary.notes {
        section = section.text(format!("Note: {note}"));
    }
    section
}

fn repeat(scenario: &Scenario, summary: &Summary) -> Section {
    let file = format!("{}.toml", scenario.name.replace('/', "-"));
    let mut command = format!("byteway run {}", quoted(&file));
    for set in &scenario.sets {
        command.push_str(" --set ");
        command.push_str(&quoted(set));
    }
    let skips = |job: &JobPlan| matches!(&job.source, Source::Trace(replay) if replay.read.skip_bad_lines);
    if scenario.jobs.iter().any(skips) {
        command.push_str(" --skip-bad-lines");
    }
    let mut section = Section::new("Scenario and reproduction")
        .text(match summary.clock {
            ClockKind::Virtual => format!(
                "With the text below in {file}, and the profiles and traces that it names, version {} of Byteway reproduces \
                 the same figures to the last digit on any machine: seed {} determines everything random.",
                summary.byteway, summary.seed
            ),
            ClockKind::Wall => format!(
                "Seed {} determines the I/Os; the times are those of the machine on which it ran.",
                summary.seed
            ),
        })
        .listing(command);
    if !scenario.sets.is_empty() {
        let mut sets = Table::new(["key", "value"], 2).caption("Overrides by --set, in this order");
        for set in &scenario.sets {
            let (key, value) = set.split_once('=').unwrap_or((set, ""));
            sets.row([key, value]);
        }
        section = section.table(sets);
    }
    section.listing(scenario.text.trim_end())
}
