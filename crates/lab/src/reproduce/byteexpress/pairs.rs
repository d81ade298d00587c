//! Recipes on a drive of keys and values, with its flash: MixGraph and FillRandom, one PUT at a time.

use super::points::METHODS;
use crate::reproduce::paper::Recipe;
use crate::reproduce::point::{Ledger, Pairs, Points, Seen, Spec};
use crate::reproduce::sketch::change;
use crate::reproduce::verdict::Measurement;
use crate::summary::grouped;

pub(super) const RECIPES: [Recipe; 6] = [
    Recipe { id: "BX10", points: || vec![mixgraph("prp"), mixgraph("inline")], measure: bytes_against_prp },
    Recipe { id: "BX11", points: || against_bandslim(mixgraph), measure: bytes_against_bandslim },
    Recipe { id: "BX12", points: || against_bandslim(mixgraph), measure: throughput },
    Recipe { id: "BX13", points: || against_bandslim(fill), measure: fill_at_random },
    Recipe { id: "BX14", points: || vec![shorter()], measure: share_of_short },
    Recipe {
        id: "BX23",
        points: || METHODS.iter().flat_map(|method| both(method)).collect(),
        measure: ranges,
    },
];

/// Name of the job.
const PUTS: &str = "puts";

/// FillRandom's values.
const FILL: u64 = 128;

/// MixGraph's short values are shorter.
const SHORT: u64 = 32;

fn pairs(job: Pairs) -> Spec {
    Spec::new("cosmos-plus", "cosmos")
        .key("drive.personality", "kv")
        .key("drive.capacity", "16 GiB")
        .pairs(job)
}

/// A hundred draws of MixGraph's lengths tell more of chance than of the mix.
const DRAWS: u64 = 10_000;

/// MixGraph's PUTs by a method.
pub(super) fn mixgraph(method: &str) -> Spec {
    pairs(Pairs::new(PUTS, "w-m").at_least(DRAWS)).key("transfer.method", method)
}

/// Values of one size, at random.
pub(super) fn fill(method: &str) -> Spec {
    let job = Pairs::new(PUTS, "fillrandom").raw("key_bytes", 4).key("value", format!("{FILL} B"));
    pairs(job).key("transfer.method", method)
}

pub(super) fn both(method: &str) -> [Spec; 2] {
    [mixgraph(method), fill(method)]
}

fn against_bandslim(of: fn(&str) -> Spec) -> Vec<Spec> {
    vec![of("piggyback"), of("inline")]
}

/// MixGraph's PUTs, of which only what is shorter than 32 B goes by piggyback: so many are counted.
fn shorter() -> Spec {
    mixgraph("adaptive")
        .key("transfer.fine", "piggyback")
        .key("transfer.threshold", format!("{} B", SHORT - 1))
}

/// A figure of inline against another method's, per cent.
fn against(
    points: &Points,
    of: fn(&str) -> Spec,
    method: &str,
    figure: fn(Seen<'_>) -> f64,
) -> anyhow::Result<(f64, f64)> {
    Ok((figure(points.at(&of("inline"))?), figure(points.at(&of(method))?)))
}

fn payload(seen: Seen<'_>) -> f64 {
    seen.bytes(Ledger::Payload)
}

fn bytes_against_prp(points: &Points) -> anyhow::Result<Measurement> {
    let (inline, prp) = against(points, mixgraph, "prp", payload)?;
    let (inline_wire, prp_wire) = against(points, mixgraph, "prp", |seen| seen.bytes(Ledger::Wire))?;
    let detail = format!(
        "{inline:.0} B against {prp:.0} B a PUT; on the wire {:.1} %.",
        change(inline_wire, prp_wire)
    );
    Ok(Measurement::of([change(inline, prp)]).detail(detail))
}

fn bytes_against_bandslim(points: &Points) -> anyhow::Result<Measurement> {
    let (inline, piggyback) = against(points, mixgraph, "piggyback", payload)?;
    Ok(Measurement::of([inline / piggyback])
        .check("inline moves more bytes than piggyback", inline > piggyback)
        .detail(format!("{inline:.0} B against {piggyback:.0} B a PUT.")))
}

fn throughput(points: &Points) -> anyhow::Result<Measurement> {
    let (inline, piggyback) = against(points, mixgraph, "piggyback", |seen| seen.throughput())?;
    Ok(Measurement::of([change(inline, piggyback)])
        .check("inline has more throughput than piggyback", inline > piggyback)
        .detail(format!("{} against {} PUTs a second.", grouped(inline as u64), grouped(piggyback as u64))))
}

fn fill_at_random(points: &Points) -> anyhow::Result<Measurement> {
    let (bytes, bytes_of_bandslim) = against(points, fill, "piggyback", payload)?;
    let (puts, puts_of_bandslim) = against(points, fill, "piggyback", |seen| seen.throughput())?;
    let detail = format!(
        "{bytes:.0} B against {bytes_of_bandslim:.0} B a PUT; {} against {} PUTs a second.",
        grouped(puts as u64),
        grouped(puts_of_bandslim as u64)
    );
    Ok(Measurement::default()
        .check("inline moves fewer bytes than piggyback", bytes < bytes_of_bandslim)
        .check("inline has more throughput than piggyback", puts > puts_of_bandslim)
        .detail(detail))
}

fn share_of_short(points: &Points) -> anyhow::Result<Measurement> {
    let seen = points.at(&shorter())?;
    let share = seen.by_way("piggyback") as f64 / seen.payloads() as f64 * 100.0;
    Ok(Measurement::of([share])
        .check("it is more than the paper says", share > 60.0)
        .detail("Counted as values that went another way than longer ones."))
}

fn ranges(points: &Points) -> anyhow::Result<Measurement> {
    let mut words = Vec::new();
    for (name, of) in [("MixGraph", mixgraph as fn(&str) -> Spec), ("FillRandom", fill)] {
        for method in METHODS {
            let seen = points.at(&of(method))?;
            let (least, most) = range(seen);
            let mean = grouped(seen.throughput() as u64);
            words.push(format!(
                "{name} {method} {mean} ({} to {})",
                grouped(least as u64),
                grouped(most as u64)
            ));
        }
    }
    Ok(Measurement::default().detail(format!(
        "PUTs a second, and what one PUT after another comes to where each takes as long as the 99th and as the 1st percentile \
         of their latencies: {}.",
        words.join("; ")
    )))
}

/// From the 1st to the 99th percentile of the throughput of one PUT at a time.
pub(super) fn range(seen: Seen<'_>) -> (f64, f64) {
    seen.throughput_range(PUTS).unwrap_or((f64::NAN, f64::NAN))
}
