//! Recipes for the outlook to PCIe Gen5, with stores of values to the drive's memory over CXL.mem.

use super::points::{MIXES, SHORT, SWEEP, THRESHOLD_GEN5, ValueMethod, mixed, outlook, wire_alone};
use super::transfer::exact_threshold;
use crate::board::GEN5;
use crate::error::{ClaimError, Measured};
use crate::judgement::Measurement;
use crate::paper::Recipe;
use crate::point::{Ledger, Points, Spec};
use crate::sketch::change;
use byteway_text::table::{grouped, time};

pub(super) const RECIPES: [Recipe; 11] = [
    Recipe { id: "BS11", points: || both(&SHORT), measure: short_values },
    Recipe { id: "BS12", points: || both(&FROM_64), measure: longer_values },
    Recipe { id: "BS13", points: || both(&[256]), measure: four_times },
    Recipe { id: "BS14", points: against_pages, measure: never_faster },
    Recipe {
        id: "BS15",
        points: || mixes(&[ValueMethod::Cxl, ValueMethod::Piggyback]),
        measure: bytes_of_lines,
    },
    Recipe {
        id: "BS16",
        points: || sweep(&[ValueMethod::Piggyback, ValueMethod::Prp], &THRESHOLDS),
        measure: threshold,
    },
    Recipe { id: "BS17", points: || mixes(&METHODS), measure: throughput },
    Recipe { id: "BS18", points: || mixes(&METHODS), measure: adaptive_throughput },
    Recipe { id: "BS22", points: || mixes(&METHODS), measure: adaptive_bytes },
    Recipe { id: "BS24", points: || sweep(&BREAKDOWN, &[32]), measure: breakdown },
    Recipe { id: "BS27", points: || sweep(&[ValueMethod::Cxl], &[64]), measure: enumeration },
];

/// Sizes from 64 B on.
pub(super) const FROM_64: [u64; 7] = [64, 128, 256, 512, 1024, 2048, 4096];

/// Sizes near the one where piggyback stops being faster.
const THRESHOLDS: [u64; 4] = [32, 35, 36, 64];

/// Methods compared on workloads of mixed sizes.
pub(super) const METHODS: [ValueMethod; 6] = [
    ValueMethod::Prp,
    ValueMethod::Piggyback,
    ValueMethod::Cxl,
    ValueMethod::AdaptiveP,
    ValueMethod::AdaptiveP64,
    ValueMethod::AdaptiveC,
];

/// Methods whose latency at 32 B is decomposed.
pub(super) const BREAKDOWN: [ValueMethod; 3] = [ValueMethod::Prp, ValueMethod::Piggyback, ValueMethod::Cxl];

fn sweep(methods: &[ValueMethod], sizes: &[u64]) -> Vec<Spec> {
    methods.iter().flat_map(|method| sizes.iter().map(|bytes| outlook(*method, *bytes))).collect()
}

/// Piggyback and CXL.mem into the drive's DRAM, which the paper estimates: "transferred from host to device
/// memory".
fn both(sizes: &[u64]) -> Vec<Spec> {
    sweep(&[ValueMethod::Piggyback, ValueMethod::Cxl], sizes)
}

/// CXL.mem and PRP on Gen5, and on a drive that differs from the board only in its wire.
fn against_pages() -> Vec<Spec> {
    let methods = [ValueMethod::Cxl, ValueMethod::Prp];
    let others = methods.iter().flat_map(|method| SWEEP.map(|bytes| wire_alone(*method, bytes)));
    sweep(&methods, &SWEEP).into_iter().chain(others).collect()
}

fn mixes(methods: &[ValueMethod]) -> Vec<Spec> {
    MIXES
        .iter()
        .flat_map(|(workload, _)| methods.iter().map(|method| mixed(&GEN5, *method, workload)))
        .collect()
}

fn latency(points: &Points, spec: &Spec) -> Measured<f64> {
    Ok(points.at(spec)?.latency())
}

/// CXL.mem relative to piggyback at each size: the values, and whether the condition holds.
fn against_piggyback(
    points: &Points,
    sizes: &[u64],
    what: &str,
    holds: fn(f64, f64) -> bool,
) -> Measured<Measurement> {
    let mut measurement = Measurement::default();
    let mut words = Vec::new();
    for bytes in sizes {
        let of = |method| latency(points, &outlook(method, *bytes));
        let (cxl, piggyback) = (of(ValueMethod::Cxl)?, of(ValueMethod::Piggyback)?);
        measurement = measurement
            .check(format!("CXL.mem is {what} than piggyback at {bytes} B"), holds(cxl, piggyback));
        words.push(format!("{} versus {} at {bytes} B", time(cxl), time(piggyback)));
    }
    Ok(measurement.detail(format!("{}.", words.join(", "))))
}

fn short_values(points: &Points) -> Measured<Measurement> {
    against_piggyback(points, &SHORT, "slower", |cxl, piggyback| cxl > piggyback)
}

fn longer_values(points: &Points) -> Measured<Measurement> {
    against_piggyback(points, &FROM_64, "faster", |cxl, piggyback| cxl < piggyback)
}

fn four_times(points: &Points) -> Measured<Measurement> {
    let of = |method| latency(points, &outlook(method, 256));
    let (piggyback, cxl) = (of(ValueMethod::Piggyback)?, of(ValueMethod::Cxl)?);
    let detail = format!("{} versus {}.", time(piggyback), time(cxl));
    Ok(Measurement::of([piggyback / cxl]).detail(detail))
}

fn never_faster(points: &Points) -> Measured<Measurement> {
    let mut measurement = Measurement::default();
    let mut least: (f64, u64) = (f64::INFINITY, 0);
    for bytes in SWEEP {
        let (cxl, prp) = (
            latency(points, &outlook(ValueMethod::Cxl, bytes))?,
            latency(points, &outlook(ValueMethod::Prp, bytes))?,
        );
        measurement = measurement.check(format!("CXL.mem is no faster than PRP at {bytes} B"), cxl >= prp);
        if cxl / prp < least.0 {
            least = (cxl / prp, bytes);
        }
    }
    let (ratio, bytes) = least;
    let mut faster = Vec::new();
    for bytes in SWEEP {
        let of = |method| latency(points, &wire_alone(method, bytes));
        if of(ValueMethod::Cxl)? < of(ValueMethod::Prp)? {
            faster.push(bytes);
        }
    }
    let depends = match faster.last() {
        Some(longest) => format!("CXL.mem is faster than PRP up to {longest} B"),
        None => "CXL.mem is not faster than PRP at any size there either".to_owned(),
    };
    Ok(measurement.detail(format!(
        "It comes closest at {bytes} B, with {:+.1} %; on cosmos-plus-gen5x8 {depends}.",
        change(ratio, 1.0)
    )))
}

fn bytes_of_lines(points: &Points) -> Measured<Measurement> {
    let mut measurement = Measurement::default();
    let mut words = Vec::new();
    for (workload, name) in MIXES {
        let of = |method, ledger| Measured::Ok(points.at(&mixed(&GEN5, method, workload))?.bytes(ledger));
        let (cxl, piggyback) =
            (of(ValueMethod::Cxl, Ledger::Payload)?, of(ValueMethod::Piggyback, Ledger::Payload)?);
        let is_more = workload == "w-m";
        let what = if is_more { "no fewer" } else { "fewer" };
        measurement = measurement.check(
            format!("CXL.mem moves {what} bytes than piggyback on {name}"),
            if is_more { cxl >= piggyback } else { cxl < piggyback },
        );
        let wire = change(of(ValueMethod::Cxl, Ledger::Wire)?, of(ValueMethod::Piggyback, Ledger::Wire)?);
        words.push(format!("{name} {cxl:.0} B versus {piggyback:.0} B per PUT (wire ledger {wire:+.1} %)"));
    }
    Ok(measurement.detail(format!("{}.", words.join(", "))))
}

fn threshold(points: &Points) -> Measured<Measurement> {
    let mut shortest = None;
    let mut measurement = Measurement::default();
    for bytes in THRESHOLDS {
        let (own, prp) = (
            latency(points, &outlook(ValueMethod::Piggyback, bytes))?,
            latency(points, &outlook(ValueMethod::Prp, bytes))?,
        );
        if own >= prp {
            shortest.get_or_insert(bytes as f64);
        }
        measurement = match bytes {
            32 => measurement.check("piggyback is faster at 32 B", own < prp),
            64 => measurement.check("piggyback is not faster at 64 B", own >= prp),
            _ => measurement,
        };
    }
    let detail = "The shortest value, measured to the byte, for which PRP is at least as fast as piggyback.";
    Ok(Measurement { values: shortest.into_iter().collect(), ..measurement }.detail(detail))
}

fn throughputs(points: &Points, workload: &str) -> Measured<impl Fn(ValueMethod) -> f64 + use<>> {
    let of = |method: &ValueMethod| Ok((*method, points.at(&mixed(&GEN5, *method, workload))?.throughput()));
    let all = METHODS.iter().map(of).collect::<Measured<Vec<(ValueMethod, f64)>>>()?;
    Ok(move |method| all.iter().find(|(other, _)| *other == method).map_or(f64::NAN, |(_, found)| *found))
}

fn throughput(points: &Points) -> Measured<Measurement> {
    let mut measurement = Measurement::default();
    let mut words = Vec::new();
    for (workload, name) in MIXES {
        let of = throughputs(points, workload)?;
        let others = [ValueMethod::Prp, ValueMethod::Piggyback, ValueMethod::Cxl, ValueMethod::AdaptiveC];
        let own = of(ValueMethod::AdaptiveP64);
        let what = format!("CXL.mem has more throughput than piggyback on {name}");
        measurement = measurement.check(what, of(ValueMethod::Cxl) > of(ValueMethod::Piggyback)).check(
            format!("Adaptive-P has the most on {name}"),
            others.iter().all(|method| own > of(*method)),
        );
        let each = METHODS.map(|method| format!("{} {}", method.name(), grouped(of(method) as u64)));
        words.push(format!("{name}: {}", each.join(", ")));
    }
    Ok(measurement.detail(format!(
        "PUTs per second; both adaptive ways below the paper's {THRESHOLD_GEN5} B, and piggyback below the exact threshold, {}. {}.",
        exact_threshold(&GEN5)?,
        words.join("; ")
    )))
}

fn adaptive_throughput(points: &Points) -> Measured<Measurement> {
    let mut measurement = Measurement::default();
    let mut words = Vec::new();
    for (workload, name) in [MIXES[0], MIXES[3]] {
        let of = throughputs(points, workload)?;
        let (own, other, prp) =
            (of(ValueMethod::AdaptiveC), of(ValueMethod::AdaptiveP64), of(ValueMethod::Prp));
        measurement = measurement
            .check(format!("Adaptive-C has less throughput than Adaptive-P on {name}"), own < other)
            .check(
                format!("it is nearer to PRP than to Adaptive-P on {name}"),
                (own - prp).abs() < (other - own).abs(),
            );
        words.push(format!(
            "{name} {:+.1} % versus PRP, {:+.1} % versus Adaptive-P, {:+.1} % versus its exact threshold",
            change(own, prp),
            change(own, other),
            change(own, of(ValueMethod::AdaptiveP))
        ));
    }
    Ok(measurement.detail(format!("Both below the paper's {THRESHOLD_GEN5} B: {}.", words.join("; "))))
}

fn adaptive_bytes(points: &Points) -> Measured<Measurement> {
    let mut measurement = Measurement::default();
    let mut words = Vec::new();
    for (workload, name) in MIXES {
        let of = |method| Measured::Ok(points.at(&mixed(&GEN5, method, workload))?.bytes(Ledger::Payload));
        let (by_p, by_c) = (of(ValueMethod::AdaptiveP64)?, of(ValueMethod::AdaptiveC)?);
        measurement = measurement
            .check(
                format!("Adaptive-P moves more bytes than piggyback on {name}"),
                by_p > of(ValueMethod::Piggyback)?,
            )
            .check(
                format!("Adaptive-C moves more bytes than CXL.mem on {name}"),
                by_c > of(ValueMethod::Cxl)?,
            )
            .check(format!("Adaptive-C moves more bytes than Adaptive-P on {name}"), by_c > by_p);
        words.push(format!(
            "{name} Adaptive-C {by_c:.0} B, {:+.1} % versus Adaptive-P, whose exact threshold would give {:.0} B",
            change(by_c, by_p),
            of(ValueMethod::AdaptiveP)?
        ));
    }
    Ok(measurement.detail(format!("Both below the paper's {THRESHOLD_GEN5} B: {}.", words.join("; "))))
}

fn breakdown(points: &Points) -> Measured<Measurement> {
    let mut words = Vec::new();
    for method in BREAKDOWN {
        let seen = points.at(&outlook(method, 32))?;
        let stages: Vec<String> = seen.stages().map(|(stage, ns)| format!("{stage} {}", time(ns))).collect();
        words.push(format!("{} {}: {}", method.name(), time(seen.latency()), stages.join(", ")));
    }
    Ok(Measurement::default().detail(format!("{}.", words.join("; "))))
}

fn enumeration(points: &Points) -> Measured<Measurement> {
    let spec = outlook(ValueMethod::Cxl, 64);
    let seen = points.at(&spec)?;
    let profile = spec.scenario(1)?.drives[0].plan.profile.clone();
    let Some(cxl) = profile.cxl else {
        return Err(ClaimError::NoFigure("the drive has no memory over CXL.mem".to_owned()));
    };
    Ok(Measurement::default().detail(format!(
        "The driver queries base and size of the memory ({} for payloads, and the page buffer of a KV store) and of the \
         buffer behind the registers ({}); it stores to addresses from that base, and commands hold offsets from it. {} of \
         {} payloads of 64 B were stored there.",
        cxl.area,
        profile.transfer.bar,
        grouped(seen.by_way("cxl-mem")),
        grouped(seen.payloads())
    )))
}

/// Further points for the figures.
pub(super) fn drawn() -> Vec<Spec> {
    sweep(&[ValueMethod::Prp, ValueMethod::Piggyback, ValueMethod::Cxl], &SWEEP)
}
