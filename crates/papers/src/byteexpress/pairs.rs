//! Recipes on a key-value drive with flash: MixGraph and FillRandom, one PUT at a time.

use super::points::METHODS;
use crate::board::COSMOS;
use crate::error::Measured;
use crate::judgement::Measurement;
use crate::paper::Recipe;
use crate::point::{Ledger, Pairs, PointResult, Points, Spec};
use crate::sketch::change;
use byteway_text::table::grouped;

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

/// Size of FillRandom's values.
const FILL: u64 = 128;

/// Values of MixGraph below this size are short.
const SHORT: u64 = 32;

fn pairs(job: Pairs) -> Spec {
    COSMOS.kv().pairs(job)
}

/// Number of draws: a hundred would show chance more than the distribution.
const DRAWS: u64 = 10_000;

fn mixgraph_puts() -> Spec {
    pairs(Pairs::new(PUTS, "w-m").at_least(DRAWS))
}

/// MixGraph's PUTs, by a method.
pub(super) fn mixgraph(method: &str) -> Spec {
    mixgraph_puts().by(method)
}

/// Values of one size in random order.
pub(super) fn fill(method: &str) -> Spec {
    let job = Pairs::new(PUTS, "fillrandom").raw("key_bytes", 4).key("value", format!("{FILL} B"));
    pairs(job).by(method)
}

pub(super) fn both(method: &str) -> [Spec; 2] {
    [mixgraph(method), fill(method)]
}

fn against_bandslim(of: fn(&str) -> Spec) -> Vec<Spec> {
    vec![of("piggyback"), of("inline")]
}

/// MixGraph's PUTs, where only values below 32 B are piggybacked, to count these.
fn shorter() -> Spec {
    mixgraph_puts().adaptive("piggyback", Some(SHORT))
}

/// A figure of inline relative to another method's, in percent.
fn against(
    points: &Points,
    of: fn(&str) -> Spec,
    method: &str,
    figure: fn(PointResult<'_>) -> f64,
) -> Measured<(f64, f64)> {
    Ok((figure(points.at(&of("inline"))?), figure(points.at(&of(method))?)))
}

fn payload(seen: PointResult<'_>) -> f64 {
    seen.bytes(Ledger::Payload)
}

/// Bytes of a page by PRP, and of a queue entry with payload.
const PAGE: f64 = 4096.0;
const CHUNK: f64 = 64.0;

/// Mean chunks of a MixGraph value: a value needs one more for each multiple of a chunk that it exceeds. The
/// tail probability is that of the generalized Pareto distribution (shape 0.2615, scale 25.45).
fn chunks_of_mixgraph() -> f64 {
    const SHAPE: f64 = 0.2615;
    const SCALE: f64 = 25.45;
    (0..16).map(|chunks| libm::pow(1.0 + SHAPE * CHUNK * f64::from(chunks) / SCALE, -1.0 / SHAPE)).sum()
}

fn bytes_against_prp(points: &Points) -> Measured<Measurement> {
    let (inline, prp) = against(points, mixgraph, "prp", payload)?;
    let (inline_wire, prp_wire) = against(points, mixgraph, "prp", |seen| seen.bytes(Ledger::Wire))?;
    // By PRP each value takes a page and a command; inline it takes the same command and its chunks.
    let expected = change(prp - PAGE + CHUNK * chunks_of_mixgraph(), prp);
    let detail = format!(
        "{inline:.0} B versus {prp:.0} B per PUT; on the wire {:.1} %. By arithmetic {expected:.1} %.",
        change(inline_wire, prp_wire)
    );
    let measured = change(inline, prp);
    let what = "the run gives what arithmetic on the stated distribution gives, within 0.1 pt";
    Ok(Measurement::of([measured]).check(what, (measured - expected).abs() <= 0.1).detail(detail))
}

fn bytes_against_bandslim(points: &Points) -> Measured<Measurement> {
    let (inline, piggyback) = against(points, mixgraph, "piggyback", payload)?;
    Ok(Measurement::of([inline / piggyback])
        .check("inline moves more bytes than piggyback", inline > piggyback)
        .detail(format!("{inline:.0} B versus {piggyback:.0} B per PUT.")))
}

fn throughput(points: &Points) -> Measured<Measurement> {
    let (inline, piggyback) = against(points, mixgraph, "piggyback", |seen| seen.throughput())?;
    Ok(Measurement::of([change(inline, piggyback)])
        .check("inline has more throughput than piggyback", inline > piggyback)
        .detail(format!("{} versus {} PUTs per second.", grouped(inline as u64), grouped(piggyback as u64))))
}

fn fill_at_random(points: &Points) -> Measured<Measurement> {
    let (bytes, bytes_of_bandslim) = against(points, fill, "piggyback", payload)?;
    let (puts, puts_of_bandslim) = against(points, fill, "piggyback", |seen| seen.throughput())?;
    let detail = format!(
        "{bytes:.0} B versus {bytes_of_bandslim:.0} B per PUT; {} versus {} PUTs per second.",
        grouped(puts as u64),
        grouped(puts_of_bandslim as u64)
    );
    Ok(Measurement::of([puts - puts_of_bandslim])
        .check("inline moves fewer bytes than piggyback", bytes < bytes_of_bandslim)
        .check("inline has more throughput than piggyback", puts > puts_of_bandslim)
        .detail(detail))
}

/// Percentage of MixGraph's values below 32 B.
pub(super) fn percent_short(points: &Points) -> Measured<f64> {
    let seen = points.at(&shorter())?;
    Ok(seen.by_way("piggyback") as f64 / seen.payloads() as f64 * 100.0)
}

fn share_of_short(points: &Points) -> Measured<Measurement> {
    let share = percent_short(points)?;
    Ok(Measurement::of([share])
        .check("it is more than the paper says", share > 60.0)
        .detail("Counted as values transferred by another method than longer ones."))
}

fn ranges(points: &Points) -> Measured<Measurement> {
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
        "PUTs per second, and the throughput of serial PUTs whose latency is the 99th and the 1st percentile \
         of the distribution: {}.",
        words.join("; ")
    )))
}

/// Throughput of one PUT at a time, from its 1st to its 99th percentile.
pub(super) fn range(seen: PointResult<'_>) -> (f64, f64) {
    seen.throughput_range(PUTS).unwrap_or((f64::NAN, f64::NAN))
}
