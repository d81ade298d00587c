//! Tau of adaptive transfer: the longest payload that a fine-grained method carries faster than PRPs, on a drive, link and
//! host, to the byte. A profile keeps it (`[transfer.threshold]`).
//!
//! Sizes are doubled until PRPs are as fast; from there the distance to the last size that was faster is halved. Each size
//! is a run of the scenario's job with payloads of that size, a few hundred of them.

use std::fmt::Write as _;

use crate::compare::{probe, with_payload};
use crate::error::InputError;
use crate::interrupt::Interrupt;
use crate::profile::{Completion, Extension, Profile};
use crate::scenario::{Encoding, FineMethod, Scenario, TransferMethod};
use crate::summary::time;
use crate::units::Bytes;

/// What was found for a method.
#[derive(Clone, Debug, PartialEq)]
pub struct Threshold {
    /// The method.
    pub fine: FineMethod,
    /// The longest payload that it carries faster; `None`: not even one byte.
    pub bytes: Option<u32>,
    /// It is faster for every payload that it can carry.
    pub is_longest: bool,
    /// There: mean latency by the method and by PRPs, nanoseconds.
    pub at_ns: (f64, f64),
}

/// The fine-grained methods, with what a drive offers for each and the longest payload that it takes.
fn all(profile: &Profile) -> [(FineMethod, Extension, Bytes); 6] {
    let transfer = &profile.transfer;
    [
        (FineMethod::Inline, Extension::Inline, transfer.inline_max),
        (FineMethod::InlineReassembly, Extension::InlineReassembly, transfer.reassembly_max),
        (FineMethod::Piggyback, Extension::Piggyback, transfer.piggyback_max),
        (FineMethod::PiggybackPipelined, Extension::PiggybackPipelined, transfer.piggyback_max),
        (FineMethod::Mmio, Extension::Mmio, transfer.bar),
        (FineMethod::CxlMem, Extension::CxlMem, profile.cxl.as_ref().map_or(Bytes(0), |cxl| cxl.area)),
    ]
}

/// Measures the thresholds of all fine-grained methods that the scenario's drive offers.
///
/// # Errors
/// The scenario is not one of payloads of one size, or a run failed.
pub fn measure(scenario: &Scenario, interrupt: &Interrupt) -> anyhow::Result<Vec<Threshold>> {
    let profile = &scenario.drive.profile;
    let fits = scenario.drive.is_sink() && with_payload(scenario, 1).is_some();
    if !fits {
        let what = "a threshold is measured with payloads of one size to a payload sink";
        let cure = "set `drive.personality = \"sink\"` and one `bs`, as scenarios/small-payloads.toml has it";
        return Err(InputError::new(what, cure).into());
    }
    let offered = all(profile).into_iter().filter(|(_, extension, _)| profile.offers(*extension));
    offered.map(|(fine, _, most)| search(scenario, fine, most, interrupt)).collect()
}

fn search(
    scenario: &Scenario,
    fine: FineMethod,
    most: Bytes,
    interrupt: &Interrupt,
) -> anyhow::Result<Threshold> {
    let most = most.0.min(scenario.drive.profile.controller.mdts.0) as u32;
    let mean = |method: TransferMethod, bytes: u32| -> anyhow::Result<f64> {
        let mut scenario = scenario.clone();
        scenario.host.transfer.method = method;
        scenario.host.transfer.encoding = Encoding::Sgl;
        let found = with_payload(&scenario, bytes).and_then(|scenario| probe(&scenario, interrupt));
        let ios = found.as_ref().map_or(0, |found| found.summary.ios);
        let spans = found.iter().flat_map(|found| &found.summary.spans).map(|row| row.mean_ns);
        match ios {
            0 => anyhow::bail!("the run with {} of {bytes} B gave no figures", method.name()),
            _ => Ok(spans.sum()),
        }
    };
    let both = |bytes: u32| anyhow::Ok((mean(fine.method(), bytes)?, mean(TransferMethod::Prp, bytes)?));
    let mut low: Option<(u32, (f64, f64))> = None;
    let mut size = 1;
    let mut high = loop {
        let found = both(size)?;
        if found.0 >= found.1 {
            break size;
        }
        low = Some((size, found));
        if size == most {
            return Ok(Threshold { fine, bytes: Some(size), is_longest: true, at_ns: found });
        }
        size = (size * 2).min(most);
    };
    let Some(mut low) = low else {
        return Ok(Threshold { fine, bytes: None, is_longest: false, at_ns: both(1)? });
    };
    while high - low.0 > 1 {
        let middle = low.0 + (high - low.0) / 2;
        let found = both(middle)?;
        if found.0 < found.1 { low = (middle, found) } else { high = middle }
    }
    Ok(Threshold { fine, bytes: Some(low.0), is_longest: false, at_ns: low.1 })
}

/// The section of a profile that keeps them, each with where it comes from.
pub fn to_toml(scenario: &Scenario, thresholds: &[Threshold]) -> String {
    let completion = match scenario.host.profile.completion {
        Completion::Polled => "polled",
        Completion::Interrupt => "by interrupt",
    };
    let depth = scenario.jobs.iter().map(|job| u64::from(job.iodepth) * u64::from(job.workers)).sum::<u64>();
    let mut out = format!(
        "# tau: measured by `byteway threshold` on {} with host {}, completions {completion}, {depth} outstanding.\n\
         [transfer.threshold]\n",
        scenario.drive.profile_name, scenario.host.profile_name
    );
    for found in thresholds {
        let key = found.fine.method().name();
        let (own, prp) = (time(found.at_ns.0), time(found.at_ns.1));
        let (value, said) = match (found.bytes, found.is_longest) {
            (Some(bytes), true) => (bytes, format!("the longest that it takes: {own}, by prp {prp}")),
            (Some(bytes), false) => (bytes, format!("{own}, by prp {prp}")),
            (None, _) => (0, format!("never faster: 1 B takes {own}, by prp {prp}")),
        };
        let line = format!("{key} = \"{value} B\"");
        let _ = writeln!(out, "{line:<30} # measured: {said}");
    }
    out
}
