//! Judgements: verdicts are computed from measurements; a claims file cannot set one.

use serde::Serialize;

use crate::claim::{Claim, Needs, Tolerance, Unit, Value};
use crate::verdict::Verdict;

/// Outcome for a claim.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// The claim was measured.
    Measured(Judged),
    /// The claim needs something that is not available.
    Needs(Needs),
    /// A point of the claim failed, with the reason.
    Failed(String),
    /// The run was interrupted earlier.
    NotRun,
}

/// A measured claim.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    /// The measurement.
    pub measurement: Measurement,
    /// Difference from the paper in words; of several numbers the worst. `None` if the paper states no
    /// figure.
    pub difference: Option<String>,
    /// The verdict.
    pub verdict: Verdict,
}

/// The result of a recipe.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measurement {
    /// Numbers to compare with the paper's, in its unit.
    pub values: Vec<f64>,
    /// Checks of the order that the paper shows.
    pub checks: Vec<Check>,
    /// Further findings in words.
    pub detail: String,
}

/// One check of an order.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Check {
    /// The condition.
    pub what: String,
    /// Whether it holds.
    pub holds: bool,
}

impl Measurement {
    /// A measurement with these numbers.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Measurement {
        Measurement { values: values.into_iter().collect(), ..Measurement::default() }
    }

    /// Adds a check.
    pub fn check(mut self, what: impl Into<String>, holds: bool) -> Measurement {
        self.checks.push(Check { what: what.into(), holds });
        self
    }

    /// Sets the findings in words.
    pub fn detail(mut self, detail: impl Into<String>) -> Measurement {
        self.detail = detail.into();
        self
    }
}

/// Judges a measurement of a claim.
pub fn judge(claim: &Claim, measurement: Measurement) -> Judged {
    let comparable = claim.value.as_ref().filter(|value| value.numbers.len() == measurement.values.len());
    let difference = comparable.map(|value| difference(value, claim.tolerance, &measurement.values));
    let ordered = measurement.checks.iter().all(|check| check.holds);
    let verdict = match (claim.tolerance, comparable) {
        (Tolerance::Report, _) => Verdict::Reported,
        (Tolerance::Order, _) if measurement.checks.is_empty() => Verdict::NotReproduced,
        // A stated figure without a measured one.
        (Tolerance::Order, None) if claim.value.is_some() => Verdict::NotReproduced,
        (Tolerance::Order, Some(value)) if ordered && is_far(value, &measurement.values) => {
            Verdict::DirectionOnly
        }
        (Tolerance::Order, _) if ordered => Verdict::Reproduced,
        (Tolerance::Order, _) => Verdict::NotReproduced,
        (tolerance, Some(value)) if ordered && within(value, tolerance, &measurement.values) => {
            Verdict::Reproduced
        }
        (_, Some(value)) if same_direction(value, &measurement.values) => Verdict::DirectionOnly,
        _ => Verdict::NotReproduced,
    };
    Judged { difference, verdict, measurement }
}

/// Factor by which a stated figure may be off where only an order is required.
const FACTOR: f64 = 1.5;

/// Whether a change differs from the paper's by more than the factor; a multiple of 1.3 is a change by 0.3.
fn is_far(value: &Value, measured: &[f64]) -> bool {
    let change = |number: f64| if value.unit == Unit::Times { number - 1.0 } else { number };
    value.numbers.iter().zip(measured).any(|(paper, measured)| {
        let ratio = change(*measured) / change(*paper);
        let is_short = ratio.is_nan() || ratio < 1.0 / FACTOR;
        is_short || (ratio > FACTOR && !value.is_lower_bound)
    })
}

/// Limits the verdict of a shorter run to that of the recorded full run.
pub fn no_better_than_full(claim: &Claim, mut judged: Judged) -> Judged {
    if let Some(full) = claim.full.as_ref().filter(|full| full.verdict.is_worse_than(judged.verdict)) {
        judged.verdict = full.verdict;
    }
    judged
}

/// Whether a shorter run agrees with the full one: the same verdict, and figures within the claim's
/// tolerance, if it has one.
pub fn agrees_with_full(claim: &Claim, judged: &Judged) -> bool {
    let Some(full) = &claim.full else { return false };
    match (claim.tolerance, &full.measured) {
        _ if full.verdict != judged.verdict => false,
        (Tolerance::Order | Tolerance::Report, _) | (_, None) => true,
        (tolerance, Some(measured)) => {
            let values = &judged.measurement.values;
            measured.numbers.len() == values.len() && within(measured, tolerance, values)
        }
    }
}

/// Distance of a number from the paper's, in units of the tolerance.
fn distance(tolerance: Tolerance, paper: f64, measured: f64) -> f64 {
    match tolerance {
        Tolerance::Steps(_) => libm::log2(measured / paper),
        Tolerance::Points(_) => measured - paper,
        Tolerance::Percent(_) | Tolerance::Order | Tolerance::Report => {
            (measured - paper) / paper.abs() * 100.0
        }
    }
}

fn within(value: &Value, tolerance: Tolerance, measured: &[f64]) -> bool {
    let limit = match tolerance {
        Tolerance::Percent(limit) | Tolerance::Points(limit) | Tolerance::Steps(limit) => limit,
        Tolerance::Order | Tolerance::Report => return true,
    };
    // A figure exactly at the limit is within; rounding of a division must not decide.
    let limit = limit + 1e-9;
    value.numbers.iter().zip(measured).all(|(paper, measured)| {
        let distance = distance(tolerance, *paper, *measured);
        if value.is_lower_bound { distance >= -limit } else { distance.abs() <= limit }
    })
}

/// Whether the directions are equal: of a change, of a multiple relative to one, of rises and falls in
/// several numbers.
fn same_direction(value: &Value, measured: &[f64]) -> bool {
    let way = |number: f64| match value.unit {
        Unit::Percent => Some(number > 0.0),
        Unit::Times => Some(number > 1.0),
        Unit::PerSecond => Some(number > 0.0),
        Unit::Nanoseconds | Unit::Bytes | Unit::Gigabytes => None,
    };
    let (paper, measured) = (&value.numbers, measured);
    if paper.len() > 1 {
        let rises = |numbers: &[f64]| -> Vec<bool> { numbers.windows(2).map(|w| w[1] > w[0]).collect() };
        return rises(paper) == rises(measured);
    }
    paper.iter().zip(measured).all(|(paper, measured)| way(*paper).is_some() && way(*paper) == way(*measured))
}

fn difference(value: &Value, tolerance: Tolerance, measured: &[f64]) -> String {
    // A change in percent differs by percentage points, for any tolerance.
    let tolerance = match (tolerance, value.unit) {
        (Tolerance::Order | Tolerance::Report, Unit::Percent) => Tolerance::Points(0.0),
        (tolerance, _) => tolerance,
    };
    let all =
        value.numbers.iter().zip(measured).map(|(paper, measured)| distance(tolerance, *paper, *measured));
    let worst = all.reduce(|worst, next| if next.abs() > worst.abs() { next } else { worst }).unwrap_or(0.0);
    match tolerance {
        Tolerance::Points(_) => format!("{worst:+.2} pt"),
        Tolerance::Steps(_) => format!("{worst:+.2} steps"),
        Tolerance::Percent(_) | Tolerance::Order | Tolerance::Report => format!("{worst:+.1} %"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::{Basis, ClaimsFile};

    fn claim(value: Option<&str>, tolerance: &str) -> Claim {
        Claim {
            id: "A1".to_owned(),
            place: String::new(),
            says: String::new(),
            metric: String::new(),
            value: value.map(|value| value.parse().unwrap()),
            tolerance: tolerance.parse().unwrap(),
            basis: Basis::Predicted,
            needs: Needs::Sink,
            required: false,
            recorded: None,
            full: None,
            any_length: false,
            reason: None,
        }
    }

    // All reports depend on these verdicts: one that is too favourable is worse than none.
    #[test]
    fn verdicts_follow_from_the_figures() {
        use Verdict::{DirectionOnly, NotReproduced, Reproduced};
        for (value, tolerance, measured, expected, difference) in [
            ("-96.3 %", "0.3 pt", vec![-96.4], Reproduced, "-0.10 pt"),
            ("-96.3 %", "0.3 pt", vec![-96.0], Reproduced, "+0.30 pt"),
            ("-96.3 %", "0.3 pt", vec![-95.9], DirectionOnly, "+0.40 pt"),
            ("-96.3 %", "0.3 pt", vec![3.0], NotReproduced, "+99.30 pt"),
            ("> 130 x", "1 %", vec![500.0], Reproduced, "+284.6 %"),
            ("> 130 x", "1 %", vec![128.8], Reproduced, "-0.9 %"),
            ("> 130 x", "1 %", vec![128.0], DirectionOnly, "-1.5 %"),
            ("> 130 x", "1 %", vec![0.5], NotReproduced, "-99.6 %"),
            ("256 B", "one step", vec![512.0], Reproduced, "+1.00 steps"),
            ("256 B", "one step", vec![127.0], NotReproduced, "-1.01 steps"),
            ("60 / 100 ns", "15 %", vec![60.0, 90.0], Reproduced, "-10.0 %"),
            ("60 / 100 ns", "15 %", vec![60.0, 80.0], DirectionOnly, "-20.0 %"),
            ("60 / 100 ns", "15 %", vec![60.0, 50.0], NotReproduced, "-50.0 %"),
            // Fewer numbers than the paper's: not comparable.
            ("60 / 100 ns", "15 %", vec![60.0], NotReproduced, ""),
        ] {
            let judged = judge(&claim(Some(value), tolerance), Measurement::of(measured.clone()));
            assert_eq!(judged.verdict, expected, "{value} {tolerance} {measured:?}");
            assert_eq!(judged.difference.unwrap_or_default(), difference, "{value} {measured:?}");
        }
    }

    // An order without checks would always hold.
    #[test]
    fn an_order_holds_in_every_part() {
        let good = || Measurement::default().check("a < b", true);
        let verdict = |measurement| judge(&claim(None, "order"), measurement).verdict;
        assert_eq!(verdict(good()), Verdict::Reproduced);
        assert_eq!(verdict(good().check("b < c", false)), Verdict::NotReproduced);
        assert_eq!(verdict(Measurement::default()), Verdict::NotReproduced);
        let reported = judge(&claim(Some("-39 %"), "report"), Measurement::of([5.0]));
        assert_eq!(
            (reported.verdict, reported.difference.as_deref()),
            (Verdict::Reported, Some("+44.00 pt"))
        );
        // A stated figure that is far off is not reproduced, even if the order holds: 1.75 x is 2.5 times the
        // change of 1.3 x.
        for (value, measured, expected) in [
            ("1.75 x", 1.30, Verdict::DirectionOnly),
            ("1.75 x", 1.55, Verdict::Reproduced),
            ("1.75 x", 2.2, Verdict::DirectionOnly),
            ("8 %", 40.0, Verdict::DirectionOnly),
            ("8 %", -8.0, Verdict::DirectionOnly),
            ("8 %", 11.0, Verdict::Reproduced),
            ("1000 op/s", 120_000.0, Verdict::DirectionOnly),
            ("> 60 %", 99.0, Verdict::Reproduced),
            ("> 60 %", 30.0, Verdict::DirectionOnly),
        ] {
            let measured = Measurement::of([measured]).check("a < b", true);
            assert_eq!(judge(&claim(Some(value), "order"), measured).verdict, expected, "{value}");
        }
        let unmeasured = Measurement::default().check("a < b", true);
        assert_eq!(judge(&claim(Some("8 %"), "order"), unmeasured).verdict, Verdict::NotReproduced);
        // A figure within its tolerance does not outweigh a failed check.
        let measured = Measurement::of([-96.3]).check("none fell back", false);
        assert_eq!(judge(&claim(Some("-96.3 %"), "1 pt"), measured).verdict, Verdict::DirectionOnly);
    }

    // A shorter run must be marked only if its figure differs from the full run's.
    #[test]
    fn shorter_runs_are_judged_by_the_claims_own_tolerance() {
        let with = |value: Option<&str>, tolerance: &str, measured: Option<&str>| Claim {
            full: Some(crate::claim::Full {
                verdict: Verdict::Reproduced,
                measured: measured.map(|measured| measured.parse().unwrap()),
            }),
            ..claim(value, tolerance)
        };
        let agrees = |claim: &Claim, measured: Measurement| agrees_with_full(claim, &judge(claim, measured));
        let ratio = with(Some("13 x"), "5 %", Some("12.3 x"));
        assert!(agrees(&ratio, Measurement::of([12.7])) && !agrees(&ratio, Measurement::of([13.0])));
        // Close to the full run's figure, but with a worse verdict.
        assert!(!agrees(&ratio, Measurement::of([12.2])));
        let order = with(None, "order", None);
        assert!(agrees(&order, Measurement::default().check("a < b", true)));
        assert!(!agrees(&order, Measurement::default().check("a < b", false)));
        let never_run = claim(Some("13 x"), "5 %");
        assert!(!agrees(&never_run, Measurement::of([13.0])));
    }

    // The summary counts the verdicts of this run, but no claim that the full run does not support.
    #[test]
    fn a_shorter_run_says_nothing_better_than_the_full_one() {
        use Verdict::{DirectionOnly, NotReproduced, Reproduced};
        for (full, measured, expected) in [
            (Some(DirectionOnly), 13.0, DirectionOnly),
            (Some(NotReproduced), 13.0, NotReproduced),
            (Some(Reproduced), 13.0, Reproduced),
            (Some(Reproduced), 10.0, DirectionOnly),
            (None, 13.0, Reproduced),
        ] {
            let full = full.map(|verdict| crate::claim::Full { verdict, measured: None });
            let claim = Claim { full, ..claim(Some("13 x"), "5 %") };
            let judged = no_better_than_full(&claim, judge(&claim, Measurement::of([measured])));
            assert_eq!(judged.verdict, expected, "{measured}");
        }
    }

    // The regression check: a reproduced claim must not become worse unnoticed.
    #[test]
    fn worse_is_worse() {
        use Verdict::{DirectionOnly, NotReproduced, Reported, Reproduced};
        assert!(DirectionOnly.is_worse_than(Reproduced) && NotReproduced.is_worse_than(DirectionOnly));
        assert!(!Reported.is_worse_than(Reproduced) && !Reproduced.is_worse_than(NotReproduced));
        let text = "paper = \"P\"\nclaim = []\n";
        assert!(ClaimsFile::built_in("x", text, &[]).unwrap().claims.is_empty());
    }
}
