//! From what was measured to a verdict. A verdict is computed; nothing in a claims file can make one.

use serde::{Deserialize, Serialize};

use super::claim::{Claim, Needs, Tolerance, Unit, Value};

/// How well a claim came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Within the tolerance; of an order, every part of it.
    Reproduced,
    /// Shown, and not to be judged.
    Reported,
    /// The order holds, or the change goes the right way, but the paper's figure is not reached: it is outside the tolerance,
    /// or, where only an order is asked, off by more than a factor of 1.5.
    DirectionOnly,
    /// Neither.
    NotReproduced,
}

impl Verdict {
    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Verdict::Reproduced => "reproduced",
            Verdict::Reported => "reported",
            Verdict::DirectionOnly => "direction only",
            Verdict::NotReproduced => "not reproduced",
        }
    }

    /// Whether it holds.
    pub const fn holds(self) -> bool {
        matches!(self, Verdict::Reproduced | Verdict::Reported)
    }

    const fn rank(self) -> u8 {
        match self {
            Verdict::Reproduced | Verdict::Reported => 2,
            Verdict::DirectionOnly => 1,
            Verdict::NotReproduced => 0,
        }
    }

    /// Whether it is worse than another.
    pub const fn is_worse_than(self, other: Verdict) -> bool {
        self.rank() < other.rank()
    }
}

/// What came out for a claim.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It was measured.
    Measured(Judged),
    /// Drives don't have yet what it needs.
    Needs(Needs),
    /// A point that it rests on failed: why.
    Failed(String),
    /// It was interrupted before.
    NotRun,
}

/// A measured claim.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    /// What was measured.
    pub measurement: Measurement,
    /// Measured less the paper's, in words; of several numbers the worst. `None` without a figure of the paper's.
    pub difference: Option<String>,
    /// How well it came out.
    pub verdict: Verdict,
}

/// What a recipe finds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measurement {
    /// The numbers that stand against the paper's, in its unit.
    pub values: Vec<f64>,
    /// What must hold for the order that the paper shows.
    pub checks: Vec<Check>,
    /// What was found in words: figures beside the numbers.
    pub detail: String,
}

/// A part of an order.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Check {
    /// What is to hold.
    pub what: String,
    /// Whether it does.
    pub holds: bool,
}

impl Measurement {
    /// Numbers.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Measurement {
        Measurement { values: values.into_iter().collect(), ..Measurement::default() }
    }

    /// Adds what must hold.
    pub fn check(mut self, what: impl Into<String>, holds: bool) -> Measurement {
        self.checks.push(Check { what: what.into(), holds });
        self
    }

    /// Adds words.
    pub fn detail(mut self, detail: impl Into<String>) -> Measurement {
        self.detail = detail.into();
        self
    }
}

/// Holds what was measured against the claim.
pub fn judge(claim: &Claim, measurement: Measurement) -> Judged {
    let comparable = claim.value.as_ref().filter(|value| value.numbers.len() == measurement.values.len());
    let difference = comparable.map(|value| difference(value, claim.tolerance, &measurement.values));
    let ordered = measurement.checks.iter().all(|check| check.holds);
    let verdict = match (claim.tolerance, comparable) {
        (Tolerance::Report, _) => Verdict::Reported,
        (Tolerance::Order, _) if measurement.checks.is_empty() => Verdict::NotReproduced,
        // A stated figure against which nothing was measured.
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

/// Where only an order is asked, a stated figure may be off by this factor.
const FACTOR: f64 = 1.5;

/// Whether a change is another than the paper's by more than the factor: a multiple of 1.3 is a change by 0.3.
fn is_far(value: &Value, measured: &[f64]) -> bool {
    let change = |number: f64| if value.unit == Unit::Times { number - 1.0 } else { number };
    value.numbers.iter().zip(measured).any(|(paper, measured)| {
        let ratio = change(*measured) / change(*paper);
        let is_short = ratio.is_nan() || ratio < 1.0 / FACTOR;
        is_short || (ratio > FACTOR && !value.is_lower_bound)
    })
}

/// What a shorter run says of a claim: nothing better than the full one that is recorded did.
pub fn no_better_than_full(claim: &Claim, mut judged: Judged) -> Judged {
    if let Some(full) = claim.full.as_ref().filter(|full| full.verdict.is_worse_than(judged.verdict)) {
        judged.verdict = full.verdict;
    }
    judged
}

/// Whether a shorter run gives what the full one gave: the same verdict, and figures within the claim's own tolerance where it
/// has one.
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

/// How far one number is from the paper's, in the tolerance's measure.
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
    // A figure exactly at the limit is within: what is off by the last bits of a division must not decide.
    let limit = limit + 1e-9;
    value.numbers.iter().zip(measured).all(|(paper, measured)| {
        let distance = distance(tolerance, *paper, *measured);
        if value.is_lower_bound { distance >= -limit } else { distance.abs() <= limit }
    })
}

/// A change goes the same way, a multiple lies on the same side of one; several rise and fall where the paper's do.
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
    // A change in per cent differs by points, whatever the tolerance.
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
    use crate::reproduce::claim::{Basis, ClaimsFile};

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

    // Everything that is reported rests on these lines: a verdict that is too kind is worse than none.
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
            // Fewer numbers than the paper has rows: nothing to compare.
            ("60 / 100 ns", "15 %", vec![60.0], NotReproduced, ""),
        ] {
            let judged = judge(&claim(Some(value), tolerance), Measurement::of(measured.clone()));
            assert_eq!(judged.verdict, expected, "{value} {tolerance} {measured:?}");
            assert_eq!(judged.difference.unwrap_or_default(), difference, "{value} {measured:?}");
        }
    }

    // An order of which nothing was checked would hold whatever comes out.
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
        // A stated figure that is far off is no reproduction, though the order holds: 1.75 x is 2.5 times the change of 1.3 x.
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
        // A figure within its tolerance does not help where a condition next to it fails.
        let measured = Measurement::of([-96.3]).check("none fell back", false);
        assert_eq!(judge(&claim(Some("-96.3 %"), "1 pt"), measured).verdict, Verdict::DirectionOnly);
    }

    // A shortened run whose figure is not that of the full one must say so; one whose figure is needs not.
    #[test]
    fn shorter_runs_are_judged_by_the_claims_own_tolerance() {
        let with = |value: Option<&str>, tolerance: &str, measured: Option<&str>| Claim {
            full: Some(crate::reproduce::claim::Full {
                verdict: Verdict::Reproduced,
                measured: measured.map(|measured| measured.parse().unwrap()),
            }),
            ..claim(value, tolerance)
        };
        let agrees = |claim: &Claim, measured: Measurement| agrees_with_full(claim, &judge(claim, measured));
        let ratio = with(Some("13 x"), "5 %", Some("12.3 x"));
        assert!(agrees(&ratio, Measurement::of([12.7])) && !agrees(&ratio, Measurement::of([13.0])));
        // As near to the full run's figure, but a verdict less good than it.
        assert!(!agrees(&ratio, Measurement::of([12.2])));
        let order = with(None, "order", None);
        assert!(agrees(&order, Measurement::default().check("a < b", true)));
        assert!(!agrees(&order, Measurement::default().check("a < b", false)));
        let never_run = claim(Some("13 x"), "5 %");
        assert!(!agrees(&never_run, Measurement::of([13.0])));
    }

    // The headline counts what the short run says: a claim that as many PUTs as the paper's do not bear out is not counted.
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
            let full = full.map(|verdict| crate::reproduce::claim::Full { verdict, measured: None });
            let claim = Claim { full, ..claim(Some("13 x"), "5 %") };
            let judged = no_better_than_full(&claim, judge(&claim, Measurement::of([measured])));
            assert_eq!(judged.verdict, expected, "{measured}");
        }
    }

    // The guard against regressions: what was reproduced once must not become less unseen.
    #[test]
    fn worse_is_worse() {
        use Verdict::{DirectionOnly, NotReproduced, Reported, Reproduced};
        assert!(DirectionOnly.is_worse_than(Reproduced) && NotReproduced.is_worse_than(DirectionOnly));
        assert!(!Reported.is_worse_than(Reproduced) && !Reproduced.is_worse_than(NotReproduced));
        let text = "paper = \"P\"\nclaim = []\n";
        assert!(ClaimsFile::built_in("x", text, &[]).unwrap().claims.is_empty());
    }
}
