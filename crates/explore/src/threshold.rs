//! Measures tau of adaptive transfer: the payload size, to the byte, from which a fine-grained method is no
//! longer faster than PRPs, for a drive, link and host (BandSlim, Adaptive Value Transfer Method). Shorter
//! payloads are faster by the method. A profile records it (`[transfer.threshold]`).
//!
//! Sizes are doubled until PRPs are as fast, and then bisected. Each size is a run of the scenario's job with
//! a few hundred payloads of that size.

use std::fmt::Write as _;

use crate::assumption::{Trial, sizes_agree, tried};
use crate::compare::with_payload;
use byteway_run::probe::probe;
use byteway_scenario::profile::{Completion, SourcedConstant};
use byteway_scenario::{Options, Scenario, ScenarioInput};
use byteway_text::error::InputError;
use byteway_text::interrupt::Interrupt;
use byteway_text::progress::Points;
use byteway_text::table::time;
use byteway_text::units::Bytes;
use byteway_transfer::Method;

/// Why the thresholds cannot be measured.
#[derive(Debug, thiserror::Error)]
pub enum ThresholdError {
    /// The scenario does not have payloads of one size.
    #[error(transparent)]
    Input(#[from] InputError),
    /// A run failed.
    #[error("the run with {method} and {bytes} B gave no figures")]
    NoFigures {
        /// Name of the method.
        method: &'static str,
        /// Size of the payload in bytes.
        bytes: u32,
    },
}

impl ThresholdError {
    /// The invalid input, if that is the reason.
    pub fn wrong_input(&self) -> Option<&InputError> {
        if let ThresholdError::Input(error) = self { Some(error) } else { None }
    }
}

/// The result for a method.
#[derive(Clone, Debug, PartialEq)]
pub struct Threshold {
    /// The method.
    pub fine: Method,
    /// Tau in bytes: shorter payloads are faster by the method; 0: not even one byte is.
    pub bytes: u32,
    /// Whether the method is faster for every payload that it can carry; the longest is one byte less than
    /// tau.
    pub is_longest: bool,
    /// Mean latency by the method and by PRPs in nanoseconds: at one byte less than tau, or at one byte if
    /// tau is 0.
    pub at_ns: (f64, f64),
}

/// The results for all methods.
#[derive(Clone, Debug, PartialEq)]
pub struct Thresholds {
    /// Methods that were measured.
    pub found: Vec<Threshold>,
    /// Methods that were not measured because of an interrupt.
    pub missing: Vec<Method>,
}

/// Measures the thresholds of all fine-grained methods that the scenario's drive offers.
///
/// # Errors
/// The scenario does not have payloads of one size, or a run failed.
pub fn measure(scenario: &Scenario, interrupt: &Interrupt) -> Result<Thresholds, ThresholdError> {
    let drive = match &scenario.drives[..] {
        [only] => &only.plan,
        several => {
            let what =
                format!("a threshold is measured on a single drive, but the scenario has {}", several.len());
            let help = "keep only the drive to measure, as `[drive]`";
            return Err(InputError::new(what, help).into());
        }
    };
    let profile = &drive.profile;
    let fits = drive.personality.has_sink() && with_payload(scenario, 1).is_some();
    if !fits {
        let what = "a threshold is measured with payloads of one size to a payload sink";
        let help = "set `drive.personality = \"sink\"` and one `bs`, as scenarios/small-payloads.toml has it";
        return Err(InputError::new(what, help).into());
    }
    let mut thresholds = Thresholds { found: Vec::new(), missing: Vec::new() };
    for fine in Method::ALL {
        let is_offered = fine.needs(false).iter().all(|extension| profile.offers(*extension));
        let Some(most) = profile.longest(fine).filter(|_| is_offered) else { continue };
        match search(scenario, fine, most, interrupt) {
            Ok(found) => thresholds.found.push(found),
            // An interrupted run has no figures.
            Err(_) if interrupt.is_raised() => thresholds.missing.push(fine),
            Err(error) => return Err(error),
        }
    }
    Ok(thresholds)
}

fn search(
    scenario: &Scenario,
    fine: Method,
    most: Bytes,
    interrupt: &Interrupt,
) -> Result<Threshold, ThresholdError> {
    let most = most.0.min(scenario.drives[0].plan.profile.controller.mdts.0) as u32;
    let mean = |method: Method, bytes: u32| -> Result<f64, ThresholdError> {
        let mut scenario = scenario.clone();
        let rules = &mut scenario.drives[0].transfer.rules;
        rules.method = method;
        rules.paper_encoding = false;
        let found = with_payload(&scenario, bytes).and_then(|scenario| probe(&scenario, interrupt));
        let ios = found.as_ref().map_or(0, |found| found.summary.ios);
        let spans = found.iter().flat_map(|found| &found.summary.spans).map(|row| row.mean_ns);
        match ios {
            0 => Err(ThresholdError::NoFigures { method: method.name(), bytes }),
            _ => Ok(spans.sum()),
        }
    };
    let both = |bytes: u32| Ok::<_, ThresholdError>((mean(fine, bytes)?, mean(Method::Prp, bytes)?));
    let mut low: Option<(u32, (f64, f64))> = None;
    let mut size = 1;
    let mut high = loop {
        let found = both(size)?;
        if found.0 >= found.1 {
            break size;
        }
        low = Some((size, found));
        if size == most {
            return Ok(Threshold { fine, bytes: size + 1, is_longest: true, at_ns: found });
        }
        size = (size * 2).min(most);
    };
    let Some(mut low) = low else {
        return Ok(Threshold { fine, bytes: 0, is_longest: false, at_ns: both(1)? });
    };
    while high - low.0 > 1 {
        let middle = low.0 + (high - low.0) / 2;
        let found = both(middle)?;
        if found.0 < found.1 { low = (middle, found) } else { high = middle }
    }
    Ok(Threshold { fine, bytes: high, is_longest: false, at_ns: low.1 })
}

/// Thresholds with another value of a constant.
#[derive(Clone, Debug, PartialEq)]
pub struct Tried {
    /// The constant.
    pub trial: Trial,
    /// The thresholds, or why they cannot be measured; `None` if an interrupt came first.
    pub found: Option<Result<Thresholds, String>>,
}

/// Measures the thresholds of a scenario once for each trial, several at once. `bar` counts trials.
pub fn sensitivity(
    (input, options): (&ScenarioInput, &Options),
    constants: &[SourcedConstant],
    planned: Vec<Trial>,
    threads: usize,
    interrupt: &Interrupt,
    bar: &dyn Points,
) -> Vec<Tried> {
    let found = tried(&planned, threads, interrupt, bar, |trial| {
        let mut options = options.clone();
        options.sets.extend(trial.sets(constants));
        let measured = match input.load(&options) {
            Ok(scenario) => measure(&scenario, interrupt).map_err(|error| error.to_string()),
            Err(error) => Err(error.what),
        };
        let is_whole = measured.as_ref().is_ok_and(|found| found.missing.is_empty());
        (is_whole || !interrupt.is_raised()).then_some(measured)
    });
    planned.into_iter().zip(found).map(|(trial, found)| Tried { trial, found }).collect()
}

/// Comments on a method's threshold: the trials that move it.
fn moved(found: &Threshold, tried: &[Tried]) -> Vec<String> {
    let mut lines = Vec::new();
    for one in tried {
        let Some(Ok(then)) = &one.found else { continue };
        let Some(then) = then.found.iter().find(|then| then.fine == found.fine) else { continue };
        let (a, b) = (found.bytes, then.bytes);
        if !sizes_agree(a.into(), b.into()) {
            lines.push(format!("# {b} B with {} ({})", one.trial.words(), one.trial.source));
        }
    }
    lines
}

/// The section for a profile, with the source of each value; `tried` are its thresholds with other values of constants.
pub fn to_toml(scenario: &Scenario, thresholds: &Thresholds, tried: &[Tried]) -> String {
    let completion = match scenario.host.profile.completion {
        Completion::Polled => "polled",
        Completion::Interrupt => "by interrupt",
    };
    let depth = scenario.jobs.iter().map(|job| u64::from(job.iodepth) * u64::from(job.workers)).sum::<u64>();
    let mut out = format!(
        "# tau: measured by `byteway threshold` on {} with host {},\n# completions {completion}, {depth} outstanding.\n\
         [transfer.threshold]\n",
        scenario.drives[0].plan.profile_name, scenario.host.profile_name
    );
    for fine in &thresholds.missing {
        let _ = writeln!(out, "# PARTIAL: interrupted before {} was measured", fine.name());
    }
    for found in &thresholds.found {
        let key = found.fine.name();
        let (own, prp) = (time(found.at_ns.0), time(found.at_ns.1));
        let bytes = found.bytes;
        let said = match (bytes, found.is_longest) {
            (0, _) => format!("never faster: 1 B takes {own}, with prp {prp}"),
            (_, true) => format!("always faster: its longest, {} B, takes {own}, with prp {prp}", bytes - 1),
            (_, false) => format!("{} B take {own}, with prp {prp}", bytes - 1),
        };
        let line = format!("{key} = \"{bytes} B\"");
        let _ = writeln!(out, "{line:<30} # measured: {said}");
        moved(found, tried).iter().for_each(|line| {
            let _ = writeln!(out, "{line}");
        });
    }
    if !tried.is_empty() {
        let count = |is: fn(&Tried) -> bool| tried.iter().filter(|one| is(one)).count();
        let done = count(|one| matches!(one.found, Some(Ok(_))));
        if done > 0 {
            let _ = writeln!(
                out,
                "# other values of constants that were tried: {done}; what is not named moves none by more than a tenth"
            );
        }
        for one in tried {
            if let Some(Err(reason)) = &one.found {
                let _ = writeln!(out, "# Not tried: {}: {reason}", one.trial.words());
            }
        }
        match count(|one| one.found.is_none()) {
            0 => {}
            missing => {
                let _ = writeln!(out, "# PARTIAL: interrupted before {missing} more were tried");
            }
        }
    }
    out
}
