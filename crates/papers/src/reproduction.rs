//! The reproduction of a paper, and the file `reproduce.json`:
//!
//! ```text
//! byteway, paper       version, and the paper's name
//! payloads, puts       of each point of a payload sink or of a drive with tables, of a key-value drive
//! partial              it was interrupted: some points were not run
//! holds                nothing regressed, and every required claim holds (null: interrupted before all were judged)
//! counts               reproduced, reported, direction_only, not_reproduced, failed, not_run, out_of_reach:
//!                      claims; shortened: those of them whose run is too short to stand for one as long as the paper's
//! agreements[]         points that were run twice: name; payloads, mean_ns, payload_bytes, wire_bytes of each; agrees
//! claims[]             in the order of the claims file:
//!   id, where, says, metric, paper (null: an order), tolerance, basis, needs, required
//!   measured           values in the paper's unit; checks[]: what, holds; detail in words (null: not measured)
//!   difference         in words (null: no figure to compare with)
//!   verdict            "reproduced", "reported", "direction-only", "not-reproduced"; "failed"; "needs-traces",
//!                      "needs-board" (out of reach), "not-run"
//!   why                of one that failed
//!   departures[]       key, value, sentence: what differs from the configuration of its board, and why
//!   shortened          why the run is too short to stand for one as long as the paper's (null: it isn't)
//!   full               verdict and measured of the last full run, its date (null: none)
//!   recorded           the verdict so far (null: none); regressed: the new one is worse
//!   reason             from the claims file
//! points[]             name; scenario; status, why; payloads, payload_bytes, wire_bytes (for each payload), mean_ns,
//!                      iops, host_ns, device_ns (processor time for each payload); stages: nanoseconds by stage;
//!                      target_ns, target_busy (of a drive behind a target: its processor time for each payload, and how
//!                      many of its processors are busy); host_busy, host_memory (where what I/O costs the host is followed:
//!                      its processors that are busy, and its memory in the end, in bytes)
//! ```

use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

use crate::board::Departure;
use crate::claim::{Basis, Claim, ClaimsFile, Needs};
use crate::judgement::{Check, Outcome, agrees_with_full, judge, no_better_than_full};
use crate::paper::Paper;
use crate::papers::PAPERS;
use crate::point::{Ledger, Lengths, PointResult, Points, Spec};
use crate::verdict::Verdict;
use byteway_results::figures::Metric;
use byteway_results::summary::{HostSummary, NetworkSummary};
use byteway_run::probe::PointOutcome;
use byteway_text::error::with_causes;

/// The reproduction of a paper.
#[derive(Debug)]
pub struct Reproduction {
    /// Title of the paper.
    pub title: String,
    /// Name in the user interface.
    pub name: &'static str,
    /// Lengths of points.
    pub lengths: Lengths,
    /// Date of the last full run.
    pub full_run: Option<String>,
    /// The claims with their outcomes.
    pub rows: Vec<(Claim, Outcome)>,
    /// The points that were run.
    pub points: Points,
    /// The points that were run twice.
    pub agreements: Vec<Agreement>,
    /// Whether an interrupt left out points that run twice, which belong to no claim.
    pub is_unpaired: bool,
}

/// A point with two numbers of payloads.
#[derive(Clone, Debug, Serialize)]
pub struct Agreement {
    /// Name of the point.
    pub name: String,
    /// Whether it is on a key-value drive.
    pub is_kv: bool,
    /// The smaller and the larger number.
    pub payloads: [u64; 2],
    /// Mean latency of each, in nanoseconds.
    pub mean_ns: [f64; 2],
    /// Payload bytes per payload, without headers.
    pub payload_bytes: [f64; 2],
    /// Wire bytes per payload.
    pub wire_bytes: [f64; 2],
}

/// Number of claims by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Within tolerance.
    pub reproduced: usize,
    /// Reported without judgement.
    pub reported: usize,
    /// Direction only.
    pub direction_only: usize,
    /// Not reproduced.
    pub not_reproduced: usize,
    /// Failed because of a point.
    pub failed: usize,
    /// Not run because of an interrupt.
    pub not_run: usize,
    /// Out of reach: they need traces or a board that are not available.
    pub out_of_reach: usize,
    /// Measured by a run that is too short.
    pub shortened: usize,
}

/// Difference in percent up to which a shorter run represents a longer one.
const AGREEMENT_PERCENT: f64 = 1.0;

fn change([few, many]: [f64; 2]) -> f64 {
    (few / many - 1.0) * 100.0
}

impl Agreement {
    pub(crate) fn between(spec: &Spec, one: PointResult<'_>, other: PointResult<'_>) -> Agreement {
        let mut both = [one, other];
        both.sort_by_key(PointResult::payloads);
        let of = |figure: &dyn Fn(&PointResult<'_>) -> f64| both.each_ref().map(figure);
        Agreement {
            name: spec.name(),
            is_kv: spec.is_kv(),
            payloads: both.each_ref().map(PointResult::payloads),
            mean_ns: of(&|seen| seen.latency()),
            payload_bytes: of(&|seen| seen.bytes(Ledger::Payload)),
            wire_bytes: of(&|seen| seen.bytes(Ledger::Wire)),
        }
    }

    /// Whether the shorter run represents the longer one.
    pub fn agrees(&self) -> bool {
        [self.mean_ns, self.payload_bytes, self.wire_bytes]
            .into_iter()
            .all(|both| change(both).abs() <= AGREEMENT_PERCENT)
    }

    /// The agreement in a sentence.
    pub fn sentence(&self) -> String {
        let [few, many] = self.payloads.map(byteway_text::table::grouped);
        let verdict = match self.agrees() {
            true => {
                format!("within {AGREEMENT_PERCENT} %: the shorter run is representative of the longer one")
            }
            false => format!(
                "more than {AGREEMENT_PERCENT} %: claims for which the run is too short are marked `shortened`"
            ),
        };
        format!(
            "{few} payloads versus {many} at {}: mean latency {:+.2} %, payload bytes {:+.2} %, wire bytes {:+.2} %; {verdict}",
            self.name,
            change(self.mean_ns),
            change(self.payload_bytes),
            change(self.wire_bytes)
        )
    }
}

impl Reproduction {
    /// Judges the points.
    pub fn new(
        paper: &'static Paper,
        file: ClaimsFile,
        lengths: Lengths,
        points: Points,
        agreements: Vec<Agreement>,
    ) -> Self {
        let partial = is_partial(&points);
        let outcome = |claim: &Claim| {
            if !claim.needs.is_there() {
                return Outcome::Needs(claim.needs);
            }
            let Some(recipe) = paper.recipe(&claim.id) else {
                return Outcome::Failed("no recipe exists".to_owned());
            };
            match (recipe.measure)(&points) {
                Ok(measurement) => Outcome::Measured(match lengths.is_full() {
                    true => judge(claim, measurement),
                    false => no_better_than_full(claim, judge(claim, measurement)),
                }),
                Err(_) if partial => Outcome::NotRun,
                Err(error) => Outcome::Failed(with_causes(&error)),
            }
        };
        let rows = file.claims.into_iter().map(|claim| {
            let outcome = outcome(&claim);
            (claim, outcome)
        });
        Reproduction {
            title: file.paper,
            name: paper.name,
            lengths,
            full_run: file.full_run,
            rows: rows.collect(),
            points,
            agreements,
            is_unpaired: false,
        }
    }

    /// Departures of a claim's points from their board.
    pub fn departures(&self, claim: &Claim) -> Vec<Departure> {
        let specs = self.specs(claim).into_iter();
        let all: BTreeSet<Departure> = specs.flat_map(|spec| spec.departures().to_vec()).collect();
        all.into_iter().collect()
    }

    fn specs(&self, claim: &Claim) -> Vec<Spec> {
        let paper = PAPERS.into_iter().find(|paper| paper.name == self.name);
        let recipe = paper.and_then(|paper| paper.recipe(&claim.id));
        recipe.map(|recipe| (recipe.points)()).unwrap_or_default()
    }

    /// Why a claim's run is too short to represent one of the paper's length; `None` if it is long enough.
    pub fn shortened(&self, claim: &Claim, outcome: &Outcome) -> Option<String> {
        let Outcome::Measured(judged) = outcome else { return None };
        let specs = self.specs(claim);
        let stored: Vec<&Spec> = specs.iter().filter(|spec| spec.is_kv()).collect();
        // A judgement of the transfer alone does not depend on the state of a store; further findings may.
        if self.lengths.is_full() || stored.is_empty() || claim.needs == Needs::Sink || claim.any_length {
            return None;
        }
        let agrees = agrees_with_full(claim, &judge(claim, judged.measurement.clone()));
        if let Some(full) = claim.full.as_ref().filter(|_| !agrees) {
            let was = full.measured.as_ref().map_or(full.verdict.name().to_owned(), ToString::to_string);
            let when = self.full_run.as_ref().map_or(String::new(), |day| format!(" of {day}"));
            return Some(format!("the full run{when} gave {was}"));
        }
        let is_flushed = |spec: &&Spec| {
            let store = self.points.at(spec).ok().and_then(|seen| seen.store());
            store.is_some_and(|store| store.index_units_flushed > 0)
        };
        if !stored.iter().all(is_flushed) {
            return Some("the index never reached flash".to_owned());
        }
        if claim.full.is_none() {
            return Some("no full run is recorded".to_owned());
        }
        // A reported figure has no tolerance.
        let reported = judged.verdict == Verdict::Reported;
        let disagrees = self.agreements.iter().any(|agreement| agreement.is_kv && !agreement.agrees());
        (reported && disagrees).then(|| "mean latencies differ from a full run's".to_owned())
    }

    /// Whether some points were not run.
    pub fn is_partial(&self) -> bool {
        is_partial(&self.points)
    }

    /// Whether, of the judged claims, none regressed and every required one holds.
    pub fn holds(&self) -> bool {
        self.rows.iter().all(|(claim, outcome)| !regressed(claim, outcome) && !falls_short(claim, outcome))
    }

    /// Counts the claims by outcome.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for (_, outcome) in &self.rows {
            let count = match outcome {
                Outcome::Measured(judged) => match judged.verdict {
                    Verdict::Reproduced => &mut counts.reproduced,
                    Verdict::Reported => &mut counts.reported,
                    Verdict::DirectionOnly => &mut counts.direction_only,
                    Verdict::NotReproduced => &mut counts.not_reproduced,
                },
                Outcome::Needs(_) => &mut counts.out_of_reach,
                Outcome::Failed(_) => &mut counts.failed,
                Outcome::NotRun => &mut counts.not_run,
            };
            *count += 1;
        }
        let is_shortened = |(claim, outcome): &&(Claim, Outcome)| self.shortened(claim, outcome).is_some();
        counts.shortened = self.rows.iter().filter(is_shortened).count();
        counts
    }

    /// The contents of `reproduce.json`.
    pub fn to_json(&self) -> String {
        let json = Json {
            byteway: env!("CARGO_PKG_VERSION"),
            paper: self.name,
            payloads: self.lengths.payloads,
            puts: self.lengths.puts,
            partial: self.is_partial(),
            holds: (!self.is_partial() || !self.holds()).then(|| self.holds()),
            counts: self.counts(),
            agreements: self
                .agreements
                .iter()
                .map(|agreement| AgreementJson { agreement, agrees: agreement.agrees() })
                .collect(),
            claims: self.rows.iter().map(|(claim, outcome)| self.claim_json(claim, outcome)).collect(),
            points: self.points.iter().map(|(spec, outcome)| self.point_json(spec, outcome)).collect(),
        };
        let mut json = serde_json::to_string_pretty(&json).expect("a reproduction has only string keys");
        json.push('\n');
        json
    }

    fn claim_json<'a>(&'a self, claim: &'a Claim, outcome: &'a Outcome) -> ClaimJson<'a> {
        let judged = match outcome {
            Outcome::Measured(judged) => Some(judged),
            _ => None,
        };
        let (verdict, why) = match outcome {
            Outcome::Measured(judged) => match judged.verdict {
                Verdict::Reproduced => ("reproduced", None),
                Verdict::Reported => ("reported", None),
                Verdict::DirectionOnly => ("direction-only", None),
                Verdict::NotReproduced => ("not-reproduced", None),
            },
            Outcome::Needs(Needs::Board) => ("needs-board", None),
            Outcome::Needs(_) => ("needs-traces", None),
            Outcome::Failed(why) => ("failed", Some(why.as_str())),
            Outcome::NotRun => ("not-run", None),
        };
        ClaimJson {
            id: &claim.id,
            r#where: &claim.place,
            says: &claim.says,
            metric: &claim.metric,
            paper: claim.value.as_ref().map(ToString::to_string),
            tolerance: claim.tolerance.to_string(),
            basis: claim.basis,
            needs: claim.needs,
            required: claim.required,
            measured: judged.map(|judged| MeasuredJson {
                values: &judged.measurement.values,
                checks: &judged.measurement.checks,
                detail: &judged.measurement.detail,
            }),
            difference: judged.and_then(|judged| judged.difference.as_deref()),
            verdict,
            why,
            departures: self.departures(claim).iter().map(departure_json).collect(),
            shortened: self.shortened(claim, outcome),
            full: claim.full.as_ref().map(|full| FullJson {
                verdict: full.verdict,
                measured: full.measured.as_ref().map(ToString::to_string),
                date: self.full_run.as_deref(),
            }),
            recorded: claim.recorded,
            regressed: regressed(claim, outcome),
            reason: claim.reason.as_deref(),
        }
    }

    fn point_json(&self, spec: &Spec, outcome: &PointOutcome) -> PointJson<'_> {
        let seen = self.points.at(spec).ok();
        let (status, why) = match outcome {
            PointOutcome::Done(_) => ("done", None),
            PointOutcome::Failed(why, _) => ("failed", Some(why.clone())),
            PointOutcome::NotRun => ("not-run", None),
        };
        let processors = seen.and_then(|seen| seen.processors());
        let network = seen.and_then(|seen| seen.network());
        PointJson {
            name: spec.name(),
            scenario: spec.text(self.lengths.of(spec)),
            status,
            why,
            payloads: seen.map(|seen| seen.payloads()),
            payload_bytes: seen.map(|seen| seen.bytes(Ledger::Payload)),
            wire_bytes: seen.map(|seen| seen.bytes(Ledger::Wire)),
            mean_ns: seen.map(|seen| seen.latency()),
            iops: seen.map(|seen| seen.figure(Metric::Iops)),
            host_ns: processors.map(|(host, _)| host),
            device_ns: processors.map(|(_, drive)| drive),
            stages: seen.map(|seen| seen.stages().collect()),
            target_ns: network.map(|network| network.target_ns_per_io),
            target_busy: network.map(NetworkSummary::processors_busy),
            host_busy: seen.and_then(|seen| seen.host()).map(|host| host.busy),
            host_memory: seen.and_then(|seen| seen.host()).map(HostSummary::memory_bytes),
        }
    }
}

fn is_partial(points: &Points) -> bool {
    points.iter().any(|(_, outcome)| *outcome == PointOutcome::NotRun)
}

/// Whether a claim's outcome is worse than the recorded one.
pub(crate) fn regressed(claim: &Claim, outcome: &Outcome) -> bool {
    match (claim.recorded, outcome) {
        (Some(recorded), Outcome::Measured(judged)) => judged.verdict.is_worse_than(recorded),
        (Some(_), Outcome::Failed(_) | Outcome::Needs(_)) => true,
        // No outcome to compare.
        (Some(_), Outcome::NotRun) | (None, _) => false,
    }
}

/// Whether a required claim does not hold.
pub(crate) fn falls_short(claim: &Claim, outcome: &Outcome) -> bool {
    let holds = matches!(outcome, Outcome::Measured(judged) if judged.verdict.holds());
    claim.required && !holds && *outcome != Outcome::NotRun
}

#[derive(Serialize)]
struct Json<'a> {
    byteway: &'static str,
    paper: &'static str,
    payloads: u64,
    puts: u64,
    partial: bool,
    holds: Option<bool>,
    counts: Counts,
    agreements: Vec<AgreementJson<'a>>,
    claims: Vec<ClaimJson<'a>>,
    points: Vec<PointJson<'a>>,
}

#[derive(Serialize)]
struct AgreementJson<'a> {
    #[serde(flatten)]
    agreement: &'a Agreement,
    agrees: bool,
}

#[derive(Serialize)]
struct DepartureJson {
    key: &'static str,
    value: &'static str,
    sentence: String,
}

#[derive(Serialize)]
struct FullJson<'a> {
    verdict: Verdict,
    measured: Option<String>,
    date: Option<&'a str>,
}

#[derive(Serialize)]
struct ClaimJson<'a> {
    id: &'a str,
    r#where: &'a str,
    says: &'a str,
    metric: &'a str,
    paper: Option<String>,
    tolerance: String,
    basis: Basis,
    needs: Needs,
    required: bool,
    measured: Option<MeasuredJson<'a>>,
    difference: Option<&'a str>,
    verdict: &'static str,
    why: Option<&'a str>,
    departures: Vec<DepartureJson>,
    shortened: Option<String>,
    full: Option<FullJson<'a>>,
    recorded: Option<Verdict>,
    regressed: bool,
    reason: Option<&'a str>,
}

#[derive(Serialize)]
struct MeasuredJson<'a> {
    values: &'a [f64],
    checks: &'a [Check],
    detail: &'a str,
}

#[derive(Serialize)]
struct PointJson<'a> {
    name: String,
    scenario: String,
    status: &'static str,
    why: Option<String>,
    payloads: Option<u64>,
    payload_bytes: Option<f64>,
    wire_bytes: Option<f64>,
    mean_ns: Option<f64>,
    iops: Option<f64>,
    host_ns: Option<f64>,
    device_ns: Option<f64>,
    stages: Option<BTreeMap<&'a str, f64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target_ns: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target_busy: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    host_busy: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    host_memory: Option<u64>,
}

fn departure_json(departure: &Departure) -> DepartureJson {
    let (key, value) = departure.setting();
    DepartureJson { key, value, sentence: departure.sentence() }
}
