//! The figures as JSON for the page: the tables that `byteway serve` prints at its end, as they are now, and what
//! happened since the last update.

use crate::drives::{DriveState, Drives, WatchedDrive};
use byteway_clock::Stage;
use byteway_link::{IoFigures, LatencyCounts, Purpose, Verb};
use byteway_serve::report::Report;
use byteway_serve::watch::DriveFigures;
use byteway_serving::serve::served_sections;
use byteway_text::html::Table;
use byteway_wire::nvme::SmartLog;
use serde::Serialize;
use std::rc::Rc;

/// Stages that a served drive sees: the time of the host's own software is not among them, but for the target's.
pub(crate) const STAGES: [Stage; 9] = [
    Stage::Doorbell,
    Stage::Fetch,
    Stage::Link,
    Stage::Firmware,
    Stage::Dram,
    Stage::Flash,
    Stage::Target,
    Stage::Host,
    Stage::Queueing,
];

/// Critical Warnings of a health log, without that of the temperature, which is the scenario's.
pub(crate) fn warnings(smart: &SmartLog) -> Vec<&'static str> {
    let bits = [(SmartLog::WARNING_SPARE, "spare"), (SmartLog::WARNING_READ_ONLY, "read-only")];
    let raised = bits.into_iter().filter(|(bit, _)| smart.critical_warning & bit != 0);
    raised.map(|(_, name)| name).collect()
}

#[derive(Serialize)]
struct State<'a> {
    /// Tells this server from any other, so that a page notices that another one has taken its place.
    server: &'a str,
    drives: Vec<DriveLine<'a>>,
    /// The tables of the summary.
    tables: Vec<TableText>,
}

#[derive(Serialize)]
struct DriveLine<'a> {
    name: &'a str,
    state: &'static str,
    warnings: Vec<&'static str>,
    /// Seconds since hosts can attach.
    at_s: Option<f64>,
    sample: Option<Sample>,
}

#[derive(Serialize)]
struct TableText {
    title: String,
    header: Vec<String>,
    rows: Vec<Vec<String>>,
    numbers_from: usize,
}

/// What a drive did since the update before. Rates are per second; times are in nanoseconds, `None` without I/O.
#[derive(Debug, Serialize, PartialEq)]
struct Sample {
    read_ios: f64,
    write_ios: f64,
    read_bytes: f64,
    write_bytes: f64,
    read_median: Option<u64>,
    read_p99: Option<u64>,
    write_median: Option<u64>,
    write_p99: Option<u64>,
    /// In the order of [`STAGES`], over all verbs.
    stage_median: Vec<Option<u64>>,
    stage_p99: Vec<Option<u64>>,
    /// Bytes on the wire in the order of [`Purpose::ALL`], both directions.
    link_bytes: Vec<f64>,
    /// Mean number of commands in flight: their time, divided by that which passed.
    depth: f64,
    outstanding: u64,
    /// `None` if nothing was written.
    write_amplification: Option<f64>,
    write_amplification_total: f64,
}

/// Remembers the figures of the last update.
#[derive(Default)]
pub(crate) struct Sampler(Vec<Option<Rc<DriveFigures>>>);

impl Sampler {
    /// What drive `index` did since the last call. `None`: nothing new is known.
    fn sample(&mut self, index: usize, now: &Rc<DriveFigures>) -> Option<Sample> {
        if self.0.len() <= index {
            self.0.resize(index + 1, None);
        }
        let then = self.0[index].replace(now.clone())?;
        let seconds = (now.at.saturating_sub(then.at)).as_secs_f64();
        (seconds > 0.0).then(|| sample(&then, now, seconds))
    }
}

fn sample(then: &DriveFigures, now: &DriveFigures, seconds: f64) -> Sample {
    let rate = |now: u64, then: u64| now.saturating_sub(then) as f64 / seconds;
    let (new, old) = (&now.report, &then.report);
    let of = |verb: Verb| all_hosts(&now.ios, verb).since(&all_hosts(&then.ios, verb));
    let (reads, writes) = (of(Verb::Read), of(Verb::Write));
    let in_flight: u128 = Verb::ALL.into_iter().map(|verb| of(verb).sum_ps).sum();
    let stages: Vec<_> = STAGES
        .into_iter()
        .map(|stage| all_verbs(&now.ios, stage).since(&all_verbs(&then.ios, stage)))
        .collect();
    let each = |share: f64| stages.iter().map(|times| times.quantile_ns(share)).collect();
    Sample {
        read_ios: rate(new.reads.0, old.reads.0),
        write_ios: rate(new.writes.0, old.writes.0),
        read_bytes: rate(new.reads.1, old.reads.1),
        write_bytes: rate(new.writes.1, old.writes.1),
        read_median: reads.quantile_ns(0.5),
        read_p99: reads.quantile_ns(0.99),
        write_median: writes.quantile_ns(0.5),
        write_p99: writes.quantile_ns(0.99),
        stage_median: each(0.5),
        stage_p99: each(0.99),
        link_bytes: Purpose::ALL
            .into_iter()
            .map(|purpose| rate(new.ledger.of(purpose).wire, old.ledger.of(purpose).wire))
            .collect(),
        depth: in_flight as f64 / 1e12 / seconds,
        outstanding: now.outstanding,
        write_amplification: (now.ftl.user_units_written > then.ftl.user_units_written)
            .then(|| now.ftl.write_amplification_since(&then.ftl)),
        write_amplification_total: now.ftl.write_amplification(),
    }
}

fn all_hosts(ios: &IoFigures, verb: Verb) -> LatencyCounts {
    let mut all = LatencyCounts::default();
    ios.rows.iter().for_each(|row| all.merge(&row.latencies[verb as usize]));
    all
}

fn all_verbs(ios: &IoFigures, stage: Stage) -> LatencyCounts {
    let mut all = LatencyCounts::default();
    ios.stages.iter().for_each(|stages| all.merge(&stages[stage as usize]));
    all
}

/// The state of all drives, without what happened lately.
pub(crate) fn state_json(drives: &Drives) -> String {
    state_and_line(drives, None).0
}

/// The state of all drives with what happened since the last use of `sampler`; and of that what is kept for pages that are opened later.
pub(crate) fn update_json(drives: &Drives, sampler: &mut Sampler) -> (String, String) {
    state_and_line(drives, Some(sampler))
}

fn state_and_line(drives: &Drives, mut sampler: Option<&mut Sampler>) -> (String, String) {
    let figures: Vec<_> = drives.list().iter().map(WatchedDrive::figures).collect();
    let line = |(index, drive): (usize, &'_ WatchedDrive)| -> (Option<f64>, DriveState, Option<Sample>) {
        let own = figures[index].as_ref();
        let sample = own.and_then(|own| sampler.as_mut()?.sample(index, own));
        (own.map(|own| own.at.as_secs_f64()), drive.state(), sample)
    };
    let lines: Vec<_> = drives.list().iter().enumerate().map(line).collect();
    let lines = drives.list().iter().zip(&figures).zip(lines).map(|((drive, own), (at_s, state, sample))| {
        let warnings = own.as_ref().map(|own| warnings(&own.smart)).unwrap_or_default();
        DriveLine { name: &drive.name, state: state.name(), warnings, at_s, sample }
    });
    let reports: Vec<&Report> = figures.iter().flatten().map(|figures| &figures.report).collect();
    let tables = served_sections(&reports).into_iter().filter(|(_, table)| !table.is_empty());
    let tables = tables.map(|(title, table)| {
        let Table { header, rows, numbers_from, .. } = Table::from(table);
        TableText { title, header, rows, numbers_from }
    });
    let state = State { server: drives.server(), drives: lines.collect(), tables: tables.collect() };
    let line = serde_json::to_string(&state.drives).expect("drives have only string keys");
    (serde_json::to_string(&state).expect("a state has only string keys"), line)
}
