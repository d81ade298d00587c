//! Recipes: the outlook to PCIe Gen5, where the host may store values to the drive's memory over CXL.mem.

use super::points::{MIXES, SHORT, SWEEP, THRESHOLD_GEN5, Way, mixed, outlook, wire_alone};
use super::transfer::exact_threshold;
use crate::reproduce::board::GEN5;
use crate::reproduce::error::{ClaimError, Measured};
use crate::reproduce::paper::Recipe;
use crate::reproduce::point::{Ledger, Points, Spec};
use crate::reproduce::sketch::change;
use crate::reproduce::verdict::Measurement;
use byteway_console::table::{grouped, time};

pub(super) const RECIPES: [Recipe; 11] = [
    Recipe { id: "BS11", points: || both(&SHORT), measure: short_values },
    Recipe { id: "BS12", points: || both(&FROM_64), measure: longer_values },
    Recipe { id: "BS13", points: || both(&[256]), measure: four_times },
    Recipe { id: "BS14", points: against_pages, measure: never_faster },
    Recipe { id: "BS15", points: || mixes(&[Way::Cxl, Way::Piggyback]), measure: bytes_of_lines },
    Recipe { id: "BS16", points: || sweep(&[Way::Piggyback, Way::Prp], &THRESHOLDS), measure: threshold },
    Recipe { id: "BS17", points: || mixes(&WAYS), measure: throughput },
    Recipe { id: "BS18", points: || mixes(&WAYS), measure: adaptive_throughput },
    Recipe { id: "BS22", points: || mixes(&WAYS), measure: adaptive_bytes },
    Recipe { id: "BS24", points: || sweep(&BREAKDOWN, &[32]), measure: breakdown },
    Recipe { id: "BS27", points: || sweep(&[Way::Cxl], &[64]), measure: enumeration },
];

/// Sizes from 64 B on.
pub(super) const FROM_64: [u64; 7] = [64, 128, 256, 512, 1024, 2048, 4096];

/// About where piggyback stops being faster.
const THRESHOLDS: [u64; 4] = [32, 35, 36, 64];

/// All that is compared on workloads of mixed sizes.
pub(super) const WAYS: [Way; 6] =
    [Way::Prp, Way::Piggyback, Way::Cxl, Way::AdaptiveP, Way::AdaptiveP64, Way::AdaptiveC];

/// What is taken apart at 32 B.
pub(super) const BREAKDOWN: [Way; 3] = [Way::Prp, Way::Piggyback, Way::Cxl];

fn sweep(ways: &[Way], sizes: &[u64]) -> Vec<Spec> {
    ways.iter().flat_map(|way| sizes.iter().map(|bytes| outlook(*way, *bytes))).collect()
}

/// Piggyback and CXL.mem, into the drive's DRAM, as the paper estimates them: "transferred from host to device memory".
fn both(sizes: &[u64]) -> Vec<Spec> {
    sweep(&[Way::Piggyback, Way::Cxl], sizes)
}

/// CXL.mem and PRP on Gen5, and on a drive of which only the wire is faster than the board's.
fn against_pages() -> Vec<Spec> {
    let ways = [Way::Cxl, Way::Prp];
    let others = ways.iter().flat_map(|way| SWEEP.map(|bytes| wire_alone(*way, bytes)));
    sweep(&ways, &SWEEP).into_iter().chain(others).collect()
}

fn mixes(ways: &[Way]) -> Vec<Spec> {
    MIXES.iter().flat_map(|(workload, _)| ways.iter().map(|way| mixed(&GEN5, *way, workload))).collect()
}

fn latency(points: &Points, spec: &Spec) -> Measured<f64> {
    Ok(points.at(spec)?.latency())
}

/// CXL.mem against piggyback at each size: what it takes, and whether that is as it is to be.
fn against_piggyback(
    points: &Points,
    sizes: &[u64],
    what: &str,
    holds: fn(f64, f64) -> bool,
) -> Measured<Measurement> {
    let mut measurement = Measurement::default();
    let mut words = Vec::new();
    for bytes in sizes {
        let of = |way| latency(points, &outlook(way, *bytes));
        let (cxl, piggyback) = (of(Way::Cxl)?, of(Way::Piggyback)?);
        measurement = measurement
            .check(format!("CXL.mem is {what} than piggyback at {bytes} B"), holds(cxl, piggyback));
        words.push(format!("{} against {} at {bytes} B", time(cxl), time(piggyback)));
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
    let of = |way| latency(points, &outlook(way, 256));
    let (piggyback, cxl) = (of(Way::Piggyback)?, of(Way::Cxl)?);
    let detail = format!("{} against {}.", time(piggyback), time(cxl));
    Ok(Measurement::of([piggyback / cxl]).detail(detail))
}

fn never_faster(points: &Points) -> Measured<Measurement> {
    let mut measurement = Measurement::default();
    let mut least: (f64, u64) = (f64::INFINITY, 0);
    for bytes in SWEEP {
        let (cxl, prp) =
            (latency(points, &outlook(Way::Cxl, bytes))?, latency(points, &outlook(Way::Prp, bytes))?);
        measurement = measurement.check(format!("CXL.mem is no faster than PRP at {bytes} B"), cxl >= prp);
        if cxl / prp < least.0 {
            least = (cxl / prp, bytes);
        }
    }
    let (ratio, bytes) = least;
    let mut faster = Vec::new();
    for bytes in SWEEP {
        let of = |way| latency(points, &wire_alone(way, bytes));
        if of(Way::Cxl)? < of(Way::Prp)? {
            faster.push(bytes);
        }
    }
    let depends = match faster.last() {
        Some(longest) => format!("CXL.mem is faster than PRP up to {longest} B"),
        None => "CXL.mem is not faster than PRP at any size either".to_owned(),
    };
    Ok(measurement.detail(format!(
        "It comes nearest at {bytes} B, with {:+.1} %; on cosmos-plus-gen5x8 {depends}.",
        change(ratio, 1.0)
    )))
}

fn bytes_of_lines(points: &Points) -> Measured<Measurement> {
    let mut measurement = Measurement::default();
    let mut words = Vec::new();
    for (workload, name) in MIXES {
        let of = |way, ledger| Measured::Ok(points.at(&mixed(&GEN5, way, workload))?.bytes(ledger));
        let (cxl, piggyback) = (of(Way::Cxl, Ledger::Payload)?, of(Way::Piggyback, Ledger::Payload)?);
        let is_more = workload == "w-m";
        let what = if is_more { "no fewer" } else { "fewer" };
        measurement = measurement.check(
            format!("CXL.mem moves {what} bytes than piggyback on {name}"),
            if is_more { cxl >= piggyback } else { cxl < piggyback },
        );
        let wire = change(of(Way::Cxl, Ledger::Wire)?, of(Way::Piggyback, Ledger::Wire)?);
        words.push(format!("{name} {cxl:.0} B against {piggyback:.0} B a PUT (wire ledger {wire:+.1} %)"));
    }
    Ok(measurement.detail(format!("{}.", words.join(", "))))
}

fn threshold(points: &Points) -> Measured<Measurement> {
    let mut shortest = None;
    let mut measurement = Measurement::default();
    for bytes in THRESHOLDS {
        let (own, prp) =
            (latency(points, &outlook(Way::Piggyback, bytes))?, latency(points, &outlook(Way::Prp, bytes))?);
        if own >= prp {
            shortest.get_or_insert(bytes as f64);
        }
        measurement = match bytes {
            32 => measurement.check("piggyback is faster at 32 B", own < prp),
            64 => measurement.check("piggyback is not faster at 64 B", own >= prp),
            _ => measurement,
        };
    }
    let detail =
        "The shortest value, of those measured to the byte, that PRP carries at least as fast as piggyback.";
    Ok(Measurement { values: shortest.into_iter().collect(), ..measurement }.detail(detail))
}

fn throughputs(points: &Points, workload: &str) -> Measured<impl Fn(Way) -> f64 + use<>> {
    let of = |way: &Way| Ok((*way, points.at(&mixed(&GEN5, *way, workload))?.throughput()));
    let all = WAYS.iter().map(of).collect::<Measured<Vec<(Way, f64)>>>()?;
    Ok(move |way| all.iter().find(|(other, _)| *other == way).map_or(f64::NAN, |(_, found)| *found))
}

fn throughput(points: &Points) -> Measured<Measurement> {
    let mut measurement = Measurement::default();
    let mut words = Vec::new();
    for (workload, name) in MIXES {
        let of = throughputs(points, workload)?;
        let others = [Way::Prp, Way::Piggyback, Way::Cxl, Way::AdaptiveC];
        let own = of(Way::AdaptiveP64);
        let what = format!("CXL.mem has more throughput than piggyback on {name}");
        measurement = measurement
            .check(what, of(Way::Cxl) > of(Way::Piggyback))
            .check(format!("Adaptive-P has the most on {name}"), others.iter().all(|way| own > of(*way)));
        let each = WAYS.map(|way| format!("{} {}", way.name(), grouped(of(way) as u64)));
        words.push(format!("{name}: {}", each.join(", ")));
    }
    Ok(measurement.detail(format!(
        "PUTs a second; both adaptive ways below the paper's {THRESHOLD_GEN5} B, and piggyback below the exact threshold, {}. {}.",
        exact_threshold(&GEN5)?,
        words.join("; ")
    )))
}

fn adaptive_throughput(points: &Points) -> Measured<Measurement> {
    let mut measurement = Measurement::default();
    let mut words = Vec::new();
    for (workload, name) in [MIXES[0], MIXES[3]] {
        let of = throughputs(points, workload)?;
        let (own, other, prp) = (of(Way::AdaptiveC), of(Way::AdaptiveP64), of(Way::Prp));
        measurement = measurement
            .check(format!("Adaptive-C has less throughput than Adaptive-P on {name}"), own < other)
            .check(
                format!("it is nearer to PRP than to Adaptive-P on {name}"),
                (own - prp).abs() < (other - own).abs(),
            );
        words.push(format!(
            "{name} {:+.1} % against PRP, {:+.1} % against Adaptive-P, {:+.1} % against its exact threshold",
            change(own, prp),
            change(own, other),
            change(own, of(Way::AdaptiveP))
        ));
    }
    Ok(measurement.detail(format!("Both below the paper's {THRESHOLD_GEN5} B: {}.", words.join("; "))))
}

fn adaptive_bytes(points: &Points) -> Measured<Measurement> {
    let mut measurement = Measurement::default();
    let mut words = Vec::new();
    for (workload, name) in MIXES {
        let of = |way| Measured::Ok(points.at(&mixed(&GEN5, way, workload))?.bytes(Ledger::Payload));
        let (by_p, by_c) = (of(Way::AdaptiveP64)?, of(Way::AdaptiveC)?);
        measurement = measurement
            .check(
                format!("Adaptive-P moves more bytes than piggyback on {name}"),
                by_p > of(Way::Piggyback)?,
            )
            .check(format!("Adaptive-C moves more bytes than CXL.mem on {name}"), by_c > of(Way::Cxl)?)
            .check(format!("Adaptive-C moves more bytes than Adaptive-P on {name}"), by_c > by_p);
        words.push(format!(
            "{name} Adaptive-C {by_c:.0} B, {:+.1} % against Adaptive-P, whose exact threshold would give {:.0} B",
            change(by_c, by_p),
            of(Way::AdaptiveP)?
        ));
    }
    Ok(measurement.detail(format!("Both below the paper's {THRESHOLD_GEN5} B: {}.", words.join("; "))))
}

fn breakdown(points: &Points) -> Measured<Measurement> {
    let mut words = Vec::new();
    for way in BREAKDOWN {
        let seen = points.at(&outlook(way, 32))?;
        let stages: Vec<String> = seen.stages().map(|(stage, ns)| format!("{stage} {}", time(ns))).collect();
        words.push(format!("{} {}: {}", way.name(), time(seen.latency()), stages.join(", ")));
    }
    Ok(Measurement::default().detail(format!("{}.", words.join("; "))))
}

fn enumeration(points: &Points) -> Measured<Measurement> {
    let spec = outlook(Way::Cxl, 64);
    let seen = points.at(&spec)?;
    let profile = spec.scenario(1)?.drives[0].plan.profile.clone();
    let Some(cxl) = profile.cxl else {
        return Err(ClaimError::NoFigure("the drive has no memory over CXL.mem".to_owned()));
    };
    Ok(Measurement::default().detail(format!(
        "The driver asks for base and size of the memory ({} for payloads, and the page buffer of a store of pairs) and of the \
         buffer behind the registers ({}); it stores to addresses from that base on, and commands name what is beyond it. {} of \
         {} payloads of 64 B went there.",
        cxl.area,
        profile.transfer.bar,
        grouped(seen.by_way("cxl-mem")),
        grouped(seen.payloads())
    )))
}

/// What the figures show beside it.
pub(super) fn drawn() -> Vec<Spec> {
    sweep(&[Way::Prp, Way::Piggyback, Way::Cxl], &SWEEP)
}
