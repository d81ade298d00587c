//! Recipes: traffic on the link of the board, latency and throughput.

use super::points::{MIXES, SHORT, SWEEP, THRESHOLD, ValueMethod, board, fixed, mixed};
use crate::board::{Board, COSMOS};
use crate::error::{ClaimError, Measured};
use crate::judgement::Measurement;
use crate::paper::Recipe;
use crate::point::{Job, Ledger, Points, Spec};
use crate::sketch::change;
use byteway_text::table::{grouped, time};
use byteway_transfer::Method;

pub(super) const RECIPES: [Recipe; 13] = [
    Recipe {
        id: "BS01",
        points: || PAGES.map(|bytes| board(ValueMethod::Prp, bytes)).to_vec(),
        measure: pages,
    },
    Recipe { id: "BS02", points: || vec![board(ValueMethod::Prp, 32)], measure: amplification },
    Recipe { id: "BS03", points: short, measure: fewer_bytes },
    Recipe { id: "BS04", points: crossing, measure: break_even },
    Recipe { id: "BS05", points: latencies, measure: halved },
    Recipe { id: "BS06", points: thresholds, measure: threshold },
    Recipe { id: "BS07", points: || of_papers("w-m"), measure: bytes_of_mixgraph },
    Recipe { id: "BS08", points: || of_papers("w-m"), measure: throughput_of_mixgraph },
    Recipe { id: "BS09", points: || of_papers("w-c"), measure: throughput_of_long_values },
    Recipe { id: "BS10", points: || of_papers("w-c"), measure: bytes_of_long_values },
    Recipe { id: "BS20", points: || vec![fixed(&COSMOS, ValueMethod::Prp, 32)], measure: parameters },
    Recipe { id: "BS21", points: all_mixes, measure: workloads },
    Recipe { id: "BS23", points: all_mixes, measure: best },
];

/// Sizes: several per page, and one per page.
const PAGES: [u64; 2] = [1 << 10, 4 << 10];

/// Sizes near the one at which a value's commands have the length of a page: one command less or more.
const CROSSING: [u64; 7] = [1024, 2048, 2443, 2499, 2500, 2556, 4096];

/// The paper's threshold, and value sizes next to it.
const THRESHOLDS: [u64; 5] = [32, 35, 36, 64, THRESHOLD];

fn payload(points: &Points, spec: &Spec) -> Measured<f64> {
    Ok(points.at(spec)?.bytes(Ledger::Payload))
}

fn latency(points: &Points, spec: &Spec) -> Measured<f64> {
    Ok(points.at(spec)?.latency())
}

fn pages(points: &Points) -> Measured<Measurement> {
    let each = PAGES.map(|bytes| payload(points, &board(ValueMethod::Prp, bytes)));
    let each = each.into_iter().collect::<Measured<Vec<f64>>>()?;
    let detail = "A command, its completion, two doorbells and a page of 4 KiB for each value.";
    Ok(Measurement::of(each).detail(detail))
}

fn amplification(points: &Points) -> Measured<Measurement> {
    let bytes = payload(points, &board(ValueMethod::Prp, 32))?;
    Ok(Measurement::of([bytes / 32.0]).detail(format!("{bytes:.0} B for 32 B.")))
}

fn short() -> Vec<Spec> {
    [ValueMethod::Prp, ValueMethod::Piggyback]
        .iter()
        .flat_map(|method| SHORT.map(|bytes| fixed(&COSMOS, *method, bytes)))
        .collect()
}

fn fewer_bytes(points: &Points) -> Measured<Measurement> {
    let mut worst = f64::NEG_INFINITY;
    let mut words = Vec::new();
    for bytes in SHORT {
        let (own, prp) =
            (fixed(&COSMOS, ValueMethod::Piggyback, bytes), fixed(&COSMOS, ValueMethod::Prp, bytes));
        let change = change(payload(points, &own)?, payload(points, &prp)?);
        worst = worst.max(change);
        words.push(format!("{change:.1} % at {bytes} B"));
    }
    Ok(Measurement::of([worst]).detail(format!("The minimum saving of: {}.", words.join(", "))))
}

fn crossing() -> Vec<Spec> {
    let prp = [board(ValueMethod::Prp, 1024)];
    prp.into_iter().chain(CROSSING.map(|bytes| board(ValueMethod::Piggyback, bytes))).collect()
}

fn break_even(points: &Points) -> Measured<Measurement> {
    let prp = payload(points, &board(ValueMethod::Prp, 1024))?;
    let mut shortest = None;
    let mut words = Vec::new();
    for bytes in CROSSING {
        let own = payload(points, &board(ValueMethod::Piggyback, bytes))?;
        if own >= prp {
            shortest.get_or_insert(bytes);
        }
        words.push(format!("{own:.0} B at {bytes} B"));
    }
    let detail = format!(
        "The shortest measured value that transfers no fewer bytes with piggyback: {}; with PRP {prp:.0} B.",
        words.join(", ")
    );
    Ok(Measurement::of(shortest.map(|bytes| bytes as f64)).detail(detail))
}

fn latencies() -> Vec<Spec> {
    let each = [ValueMethod::Prp, ValueMethod::Piggyback].into_iter();
    each.flat_map(|method| SHORT.map(|bytes| [board(method, bytes), fixed(&COSMOS, method, bytes)]).concat())
        .collect()
}

fn halved(points: &Points) -> Measured<Measurement> {
    let of = |spec: fn(ValueMethod, u64) -> Spec, bytes: u64| -> Measured<f64> {
        let (own, prp) = (spec(ValueMethod::Piggyback, bytes), spec(ValueMethod::Prp, bytes));
        Ok(change(latency(points, &own)?, latency(points, &prp)?))
    };
    let mut least = f64::NEG_INFINITY;
    let mut whole = f64::NEG_INFINITY;
    for bytes in SHORT {
        least = least.max(of(board, bytes)?);
        whole = whole.max(of(|method, bytes| fixed(&COSMOS, method, bytes), bytes)?);
    }
    let detail = format!(
        "The transfer alone, into the drive's DRAM: {} versus {} at 32 B. Of a whole PUT, with index and copy, {whole:.1} %.",
        time(latency(points, &board(ValueMethod::Piggyback, 32))?),
        time(latency(points, &board(ValueMethod::Prp, 32))?),
    );
    Ok(Measurement::of([least]).detail(detail))
}

fn thresholds() -> Vec<Spec> {
    let each = [ValueMethod::Prp, ValueMethod::Piggyback].into_iter();
    // 127 B need as many commands as 128.
    let inline = crate::byteexpress::board("inline", THRESHOLD);
    each.flat_map(|method| THRESHOLDS.map(|bytes| board(method, bytes))).chain([inline]).collect()
}

fn threshold(points: &Points) -> Measured<Measurement> {
    let mut shortest = None;
    for bytes in THRESHOLDS {
        if latency(points, &board(ValueMethod::Piggyback, bytes))?
            >= latency(points, &board(ValueMethod::Prp, bytes))?
        {
            shortest.get_or_insert(bytes);
        }
    }
    let (own, prp) = (
        latency(points, &board(ValueMethod::Piggyback, THRESHOLD))?,
        latency(points, &board(ValueMethod::Prp, THRESHOLD))?,
    );
    let inline = latency(points, &crate::byteexpress::board("inline", THRESHOLD))?;
    let detail = format!(
        "The shortest value for which PRP is at least as fast. At {THRESHOLD} B it takes {} versus {} with PRP, and inline takes {:.1} % \
         less than it (BX06: 72 % less).",
        time(own),
        time(prp),
        -change(inline, own)
    );
    Ok(Measurement::of(shortest.map(|bytes| bytes as f64))
        .check(format!("piggyback is faster than PRP just below {THRESHOLD} B"), own < prp)
        .detail(detail))
}

/// PRP, piggyback, and adaptive with the paper's threshold.
fn of_papers(workload: &str) -> Vec<Spec> {
    [ValueMethod::Prp, ValueMethod::Piggyback, ValueMethod::Papers]
        .map(|method| mixed(&COSMOS, method, workload))
        .to_vec()
}

fn bytes_of_mixgraph(points: &Points) -> Measured<Measurement> {
    let (own, prp) = (mixed(&COSMOS, ValueMethod::Papers, "w-m"), mixed(&COSMOS, ValueMethod::Prp, "w-m"));
    let (own, prp) = (payload(points, &own)?, payload(points, &prp)?);
    Ok(Measurement::of([change(own, prp)]).detail(format!("{own:.0} B versus {prp:.0} B per PUT.")))
}

/// Throughput of the paper's adaptive method relative to piggyback, and a description of both.
fn gain(points: &Points, workload: &str) -> Measured<(f64, String)> {
    let of = |method| Measured::Ok(points.at(&mixed(&COSMOS, method, workload))?.throughput());
    let (own, piggyback) = (of(ValueMethod::Papers)?, of(ValueMethod::Piggyback)?);
    let words = format!("{} versus {} PUTs per second.", grouped(own as u64), grouped(piggyback as u64));
    Ok((own / piggyback, words))
}

fn throughput_of_mixgraph(points: &Points) -> Measured<Measurement> {
    let (gain, words) = gain(points, "w-m")?;
    Ok(Measurement::of([change(gain, 1.0)]).detail(words))
}

fn throughput_of_long_values(points: &Points) -> Measured<Measurement> {
    let (gain, words) = gain(points, "w-c")?;
    Ok(Measurement::of([gain]).detail(words))
}

fn bytes_of_long_values(points: &Points) -> Measured<Measurement> {
    let (own, piggyback) =
        (mixed(&COSMOS, ValueMethod::Papers, "w-c"), mixed(&COSMOS, ValueMethod::Piggyback, "w-c"));
    let (own, piggyback) = (payload(points, &own)?, payload(points, &piggyback)?);
    let detail = format!("{own:.0} B versus {piggyback:.0} B per PUT.");
    Ok(Measurement::of([change(own, piggyback)]).detail(detail))
}

fn parameters(points: &Points) -> Measured<Measurement> {
    let spec = fixed(&COSMOS, ValueMethod::Prp, 32);
    points.at(&spec)?;
    let profile = spec.scenario(1)?.drives[0].plan.profile.clone();
    let (flash, link) = (&profile.flash, &profile.link);
    let capacity = profile.drive.capacity;
    Ok(Measurement::default().detail(format!(
        "{} channels of {} ways, {capacity}; PCIe Gen{} x{}; keys of 4 B. Measured with a part of that capacity, enough for all \
         pairs.",
        flash.channels, flash.ways, link.generation, link.lanes
    )))
}

fn all_mixes() -> Vec<Spec> {
    let methods = [ValueMethod::Prp, ValueMethod::Piggyback, ValueMethod::Papers, ValueMethod::AdaptiveP];
    MIXES.iter().flat_map(|(workload, _)| methods.map(|method| mixed(&COSMOS, method, workload))).collect()
}

fn workloads(points: &Points) -> Measured<Measurement> {
    let mut words = Vec::new();
    for (workload, name) in MIXES {
        let seen = points.at(&mixed(&COSMOS, ValueMethod::Prp, workload))?;
        let Some(store) = seen.store() else {
            return Err(ClaimError::NoFigure(format!("{name} has no figures of its store")));
        };
        let mean = store.value_bytes_stored as f64 / store.values_stored.max(1) as f64;
        words.push(format!("{name} {mean:.1} B"));
    }
    // Values below the exact threshold are piggybacked, which counts them.
    let short = points.at(&mixed(&COSMOS, ValueMethod::AdaptiveP, "w-m"))?;
    let share = short.by_way("piggyback") as f64 / short.payloads() as f64 * 100.0;
    let puts = points.at(&mixed(&COSMOS, ValueMethod::Prp, MIXES[0].0))?.payloads();
    Ok(Measurement::default().detail(format!(
        "Mean values of {} PUTs each: {}; the shares give 212 B for W(B), 1844 B for W(C) and 454.2 B for W(D). Of W(M), {share:.1} % \
         are shorter than {}.",
        grouped(puts),
        words.join(", "),
        exact_threshold(&COSMOS)?
    )))
}

fn best(points: &Points) -> Measured<Measurement> {
    let mut measurement = Measurement::default();
    let mut words = Vec::new();
    for (workload, name) in MIXES {
        let of = |method| Measured::Ok(points.at(&mixed(&COSMOS, method, workload))?.throughput());
        let (prp, piggyback, own, exact) = (
            of(ValueMethod::Prp)?,
            of(ValueMethod::Piggyback)?,
            of(ValueMethod::Papers)?,
            of(ValueMethod::AdaptiveP)?,
        );
        measurement = measurement
            .check(format!("adaptive has more throughput than PRP on {name}"), own > prp)
            .check(format!("adaptive has more throughput than piggyback on {name}"), own > piggyback);
        words.push(format!(
            "{name} {} per second, PRP {}, piggyback {}, adaptive with the exact threshold {}",
            grouped(own as u64),
            grouped(prp as u64),
            grouped(piggyback as u64),
            grouped(exact as u64)
        ));
    }
    let exact = exact_threshold(&COSMOS)?;
    Ok(measurement.detail(format!(
        "Below the paper's threshold, {THRESHOLD} B; the exact one is {exact}: {}.",
        words.join("; ")
    )))
}

/// Tau of piggybacking in the board's profile.
pub(super) fn exact_threshold(board: &Board) -> Measured<String> {
    let profile =
        board.sink().by("prp").job(Job::new("payloads", 64)).scenario(1)?.drives[0].plan.profile.clone();
    let tau = profile.transfer.threshold.of(Method::Piggyback).unwrap_or_default();
    Ok(tau.to_string())
}

/// Further points for the figures.
pub(super) fn drawn() -> Vec<Spec> {
    let methods = [ValueMethod::Prp, ValueMethod::Piggyback];
    methods
        .iter()
        .flat_map(|method| SWEEP.map(|bytes| board(*method, bytes)))
        .chain(pages_and_more())
        .collect()
}

/// Fig. 2(a): 1 to 16 KiB by PRP.
pub(super) fn kibibytes() -> impl Iterator<Item = u64> {
    (1..=16).map(|kib| kib * 1024)
}

fn pages_and_more() -> impl Iterator<Item = Spec> {
    kibibytes().map(|bytes| board(ValueMethod::Prp, bytes))
}
