//! Measurements of the claims of ByteExpress.

use super::points::{
    CHUNKS, LARGE, LINKS, METHODS, OTHERS, SWEEP, TRAINS, UNITS, beside, board, by_linux, kibibytes, on_link,
    unit,
};
use crate::error::Measured;
use crate::judgement::Measurement;
use crate::paper::Recipe;
use crate::point::{Ledger, PointResult, Points, Spec};
use crate::sketch::change;
use byteway_results::figures::equal;
use byteway_text::table::time;

pub(super) const RECIPES: [Recipe; 15] = [
    Recipe { id: "BX01", points: || vec![board("prp", 32)], measure: amplification },
    Recipe { id: "BX02", points: || kibibytes().map(|bytes| board("prp", bytes)).collect(), measure: steps },
    Recipe { id: "BX03", points: || vec![board("prp", 64), board("inline", 64)], measure: bytes_of_64 },
    Recipe { id: "BX04", points: || both(&FEWER), measure: bytes_against_bandslim },
    Recipe { id: "BX05", points: || sweep(&["prp", "inline"], &SHORT), measure: latency_against_prp },
    Recipe { id: "BX06", points: || sweep(&["piggyback", "inline"], &[128]), measure: latency_of_128 },
    Recipe { id: "BX07", points: || sweep(&["prp", "inline"], &CHUNKS), measure: crossover },
    Recipe { id: "BX08", points: table_1, measure: submission },
    Recipe { id: "BX09", points: table_1, measure: controller },
    Recipe { id: "BX18", points: || sweep(&["piggyback", "inline"], &BELOW_A_PAGE), measure: below_a_page },
    Recipe { id: "BX19", points: || sweep(&METHODS, &SWEEP), measure: order },
    Recipe { id: "BX20", points: || sweep(&["mmio", "inline"], &LARGE), measure: byte_interface },
    Recipe { id: "BX21", points: queues, measure: other_queues },
    Recipe { id: "BX22", points: || LINUX.map(by_linux).to_vec(), measure: linux },
    Recipe { id: "BX24", points: outlook, measure: gains },
];

/// Sizes for the claim that inline moves fewer bytes than BandSlim.
const FEWER: [u64; 7] = [64, 128, 256, 512, 1024, 2048, 4096];

/// Sizes for the claim that inline is faster than PRP.
const SHORT: [u64; 3] = [32, 64, 128];

const BELOW_A_PAGE: [u64; 6] = [64, 128, 256, 512, 1024, 2048];

/// Sizes near the one from which the Linux driver uses SGLs.
pub(super) const LINUX: [u64; 5] = [4 << 10, 16 << 10, (32 << 10) - 1, 32 << 10, 64 << 10];

/// The size in the paper.
const SGL_FROM: u64 = 32 << 10;

/// Payload of one BandSlim command.
const ONE_COMMAND: u64 = 35;

fn sweep(methods: &[&str], sizes: &[u64]) -> Vec<Spec> {
    methods.iter().flat_map(|method| sizes.iter().map(|bytes| board(method, *bytes))).collect()
}

fn both(sizes: &[u64]) -> Vec<Spec> {
    sweep(&["piggyback", "inline"], sizes)
}

/// The smallest figure, and its size.
fn least(all: impl Iterator<Item = Measured<(u64, f64)>>) -> Measured<(u64, f64)> {
    let mut best = (0, f64::INFINITY);
    for one in all {
        let one = one?;
        if one.1 < best.1 {
            best = one;
        }
    }
    Ok(best)
}

fn payload(points: &Points, spec: &Spec) -> Measured<f64> {
    Ok(points.at(spec)?.bytes(Ledger::Payload))
}

fn latency(points: &Points, spec: &Spec) -> Measured<f64> {
    Ok(points.at(spec)?.latency())
}

fn amplification(points: &Points) -> Measured<Measurement> {
    let seen = points.at(&board("prp", 32))?;
    let (payload, wire) = (seen.bytes(Ledger::Payload), seen.bytes(Ledger::Wire));
    let detail =
        format!("{payload:.0} B for 32 B; on the wire {wire:.0} B, {:.1} times the payload.", wire / 32.0);
    Ok(Measurement::of([payload / 32.0]).detail(detail))
}

fn steps(points: &Points) -> Measured<Measurement> {
    let mut measurement = Measurement::default();
    let mut before: Option<(u64, PointResult<'_>)> = None;
    let mut rises = Vec::new();
    for bytes in kibibytes() {
        let seen = points.at(&board("prp", bytes))?;
        if let Some((previous, last)) = before {
            let (old, new) = (last.bytes(Ledger::Payload), seen.bytes(Ledger::Payload));
            let (early, late) = (last.latency(), seen.latency());
            let between = format!("from {} to {} KiB", previous / 1024, bytes / 1024);
            measurement = if previous.is_multiple_of(4096) {
                rises.push(late - early);
                measurement
                    .check(format!("bytes rise by a page {between}"), new >= old + 4096.0)
                    .check(format!("latency rises {between}"), late > early && !equal(late, early))
            } else {
                measurement
                    .check(format!("bytes stay {between}"), old == new)
                    .check(format!("latency stays {between}"), equal(late, early))
            };
        }
        before = Some((bytes, seen));
    }
    let rises: Vec<String> = rises.into_iter().map(time).collect();
    let last = board("prp", 16 << 10);
    let detail = format!(
        "{:.0} B and {} at 4 KiB, {:.0} B and {} at 16 KiB; the steps cost {}.",
        payload(points, &board("prp", 4096))?,
        time(latency(points, &board("prp", 4096))?),
        payload(points, &last)?,
        time(latency(points, &last)?),
        rises.join(", ")
    );
    Ok(measurement.detail(detail))
}

fn bytes_of_64(points: &Points) -> Measured<Measurement> {
    let (prp, inline) = (points.at(&board("prp", 64))?, points.at(&board("inline", 64))?);
    let of = |ledger| change(inline.bytes(ledger), prp.bytes(ledger));
    let detail = format!(
        "{:.0} B versus {:.0} B; on the wire {:.1} %.",
        inline.bytes(Ledger::Payload),
        prp.bytes(Ledger::Payload),
        of(Ledger::Wire)
    );
    Ok(Measurement::of([of(Ledger::Payload)]).detail(detail))
}

fn bytes_against_bandslim(points: &Points) -> Measured<Measurement> {
    let (bytes, change) = least(FEWER.iter().map(|bytes| {
        let inline = payload(points, &board("inline", *bytes))?;
        Ok((*bytes, change(inline, payload(points, &board("piggyback", *bytes))?)))
    }))?;
    Ok(Measurement::of([change]).detail(format!("At {bytes} B.")))
}

fn latency_against_prp(points: &Points) -> Measured<Measurement> {
    let (bytes, change) = least(SHORT.iter().map(|bytes| {
        let inline = latency(points, &board("inline", *bytes))?;
        Ok((*bytes, change(inline, latency(points, &board("prp", *bytes))?)))
    }))?;
    let detail = format!(
        "At {bytes} B: {} versus {}.",
        time(latency(points, &board("inline", bytes))?),
        time(latency(points, &board("prp", bytes))?)
    );
    Ok(Measurement::of([change]).detail(detail))
}

fn latency_of_128(points: &Points) -> Measured<Measurement> {
    let inline = latency(points, &board("inline", 128))?;
    let piggyback = latency(points, &board("piggyback", 128))?;
    let detail = format!("{} versus {}.", time(inline), time(piggyback));
    Ok(Measurement::of([change(inline, piggyback)]).detail(detail))
}

fn crossover(points: &Points) -> Measured<Measurement> {
    let mut shortest = None;
    for bytes in CHUNKS {
        if latency(points, &board("inline", bytes))? >= latency(points, &board("prp", bytes))? {
            shortest = Some(bytes as f64);
            break;
        }
    }
    Ok(Measurement::of(shortest).detail("The shortest measured payload for which PRP is at least as fast."))
}

fn table_1() -> Vec<Spec> {
    let inline = [64, 128, 256].map(|bytes| board("inline", bytes));
    [board("prp", 64)].into_iter().chain(inline).collect()
}

/// The rows of Table 1: a command, and inline payloads.
pub(super) const TABLE_1: [u64; 3] = [64, 128, 256];

/// Processor time of the host per payload: the driver's submission; layers above it take none here.
pub(super) fn host_time(seen: PointResult<'_>) -> f64 {
    seen.processors().map_or(f64::NAN, |(host, _)| host)
}

/// The controller's time for a command with an inline payload: its doorbell, the fetch of its entries, the
/// firmware, and the transfer of completion and interrupt, for which the host waits.
pub(super) fn controller_time(seen: PointResult<'_>) -> f64 {
    ["doorbell", "fetch", "firmware"].map(|name| seen.stage(name)).iter().sum::<f64>() + answer_time(seen)
}

/// Link time of the completion, which is all that the link carries of such a command besides its entries, and
/// of the interrupt.
fn answer_time(seen: PointResult<'_>) -> f64 {
    seen.stage("link") + seen.stage("host") - host_time(seen)
}

/// The same for a command by PRP, without its data transfer: the DMA setup in the profile is subtracted from
/// the firmware time, and of the link only the completion's time counts, as for a command with an inline
/// payload.
///
/// # Errors
/// A point failed.
pub(super) fn controller_time_of_prp(points: &Points) -> Measured<f64> {
    let spec = board("prp", 64);
    let (seen, inline) = (points.at(&spec)?, points.at(&board("inline", 64))?);
    let firmware = spec.scenario(1)?.drives[0].plan.profile.firmware.clone();
    let set_up = firmware.cycles.dma as f64 * 1e9 / firmware.clock.0 as f64;
    let stages = ["doorbell", "fetch", "firmware"].map(|name| seen.stage(name)).iter().sum::<f64>();
    Ok(stages - set_up + answer_time(inline))
}

fn submission(points: &Points) -> Measured<Measurement> {
    let mut values = vec![host_time(points.at(&board("prp", 64))?)];
    for bytes in TABLE_1 {
        values.push(host_time(points.at(&board("inline", bytes))?));
    }
    Ok(Measurement::of(values))
}

fn controller(points: &Points) -> Measured<Measurement> {
    let mut values = vec![controller_time_of_prp(points)?];
    for bytes in TABLE_1 {
        values.push(controller_time(points.at(&board("inline", bytes))?));
    }
    let detail = "Without the host, data movement and DRAM: for the command with PRPs, without the set-up and the link time of its DMA.";
    Ok(Measurement::of(values).detail(detail))
}

fn below_a_page(points: &Points) -> Measured<Measurement> {
    let mut changes = Vec::new();
    for bytes in BELOW_A_PAGE {
        let inline = latency(points, &board("inline", bytes))?;
        changes.push((bytes, change(inline, latency(points, &board("piggyback", bytes))?)));
    }
    let mean = changes.iter().map(|(_, change)| change).sum::<f64>() / changes.len() as f64;
    let each: Vec<String> =
        changes.iter().map(|(bytes, change)| format!("{change:.1} % at {bytes} B")).collect();
    Ok(Measurement::of([mean]).detail(format!("{}.", each.join(", "))))
}

fn order(points: &Points) -> Measured<Measurement> {
    let mut measurement = Measurement::default();
    let mut between = Vec::new();
    for bytes in SWEEP {
        let of = |method: &str| latency(points, &board(method, bytes));
        let (prp, piggyback, inline) = (of("prp")?, of("piggyback")?, of("inline")?);
        match bytes {
            0..=ONE_COMMAND => {
                let first = piggyback < inline && piggyback < prp;
                measurement = measurement.check(format!("piggyback is the fastest at {bytes} B"), first);
            }
            65.. => {
                let what = format!("inline is faster than piggyback at {bytes} B");
                measurement = measurement.check(what, inline < piggyback);
            }
            _ => {
                let faster = if inline < piggyback { "inline" } else { "piggyback" };
                between.push(format!(
                    "at {bytes} B {faster} is faster: inline {}, piggyback {}",
                    time(inline),
                    time(piggyback)
                ));
            }
        }
    }
    Ok(measurement.detail(format!("Between: {}.", between.join("; "))))
}

fn byte_interface(points: &Points) -> Measured<Measurement> {
    let mut measurement = Measurement::default();
    let start = (latency(points, &board("mmio", 1024))?, latency(points, &board("inline", 1024))?);
    let mut words = Vec::new();
    for bytes in LARGE.into_iter().filter(|bytes| *bytes > 1024) {
        let (mmio, inline) =
            (latency(points, &board("mmio", bytes))?, latency(points, &board("inline", bytes))?);
        measurement = measurement
            .check(format!("mmio is faster than inline at {bytes} B"), mmio < inline)
            .check(format!("mmio rises less than inline to {bytes} B"), mmio - start.0 < inline - start.1);
        words.push(format!("{} versus {} at {bytes} B", time(mmio), time(inline)));
    }
    Ok(measurement.detail(format!("mmio {}.", words.join(", "))))
}

fn queues() -> Vec<Spec> {
    let both = ["inline", "inline-reassembly"];
    both.iter().flat_map(|method| [beside(method, false), beside(method, true)]).collect()
}

fn other_queues(points: &Points) -> Measured<Measurement> {
    let mut words = Vec::new();
    let mut rises = Vec::new();
    for (method, name) in [("inline", "in order"), ("inline-reassembly", "by reassembly")] {
        let (alone, beside) = (points.at(&beside(method, false))?, points.at(&beside(method, true))?);
        let (before, after) = (alone.p99(OTHERS), beside.p99(OTHERS));
        rises.push(after - before);
        words.push(format!(
            "{name} {} instead of {} alone ({:+.1} %), while the trains take {} on average",
            time(after),
            time(before),
            change(after, before),
            time(beside.mean(TRAINS))
        ));
    }
    let saved = match rises[..] {
        [in_order, reassembly] if reassembly < in_order => {
            format!("Reassembly saves {} of that.", time(in_order - reassembly))
        }
        _ => "Reassembly saves nothing here, where chunks stay in their own queue: there are more of them, and the \
              board has one core for all. Chunks spread over queues are not measured."
            .to_owned(),
    };
    let detail = format!(
        "p99 of four queues with payloads of 64 B next to a fifth with 4 KiB: {}. {saved}",
        words.join("; ")
    );
    Ok(Measurement::default().detail(detail))
}

fn linux(points: &Points) -> Measured<Measurement> {
    let mut measurement = Measurement::default();
    for bytes in LINUX {
        let seen = points.at(&by_linux(bytes))?;
        let way = if bytes < SGL_FROM { "prp" } else { "sgl" };
        measurement =
            measurement.check(format!("{bytes} B go by {way}"), seen.by_way(way) == seen.payloads());
    }
    Ok(measurement)
}

fn outlook() -> Vec<Spec> {
    let units = UNITS.iter().map(|(size, _)| unit(board("prp", 64), size));
    let links = LINKS.iter().flat_map(|(profile, _)| ["prp", "inline"].map(|m| on_link(profile, m, 64)));
    units.chain(links).collect()
}

fn gains(points: &Points) -> Measured<Measurement> {
    let mut words = Vec::new();
    let against = |inline: PointResult<'_>, prp: PointResult<'_>| {
        let bytes = change(inline.bytes(Ledger::Payload), prp.bytes(Ledger::Payload));
        format!("{bytes:+.1} % bytes and {:+.1} % latency", change(inline.latency(), prp.latency()))
    };
    let inline = points.at(&board("inline", 64))?;
    for (size, name) in UNITS {
        let prp = points.at(&unit(board("prp", 64), size))?;
        words.push(format!("with DMA of {name} {}", against(inline, prp)));
    }
    for (profile, name) in &LINKS[1..] {
        let (inline, prp) =
            (points.at(&on_link(profile, "inline", 64))?, points.at(&on_link(profile, "prp", 64))?);
        words.push(format!("on {name} {}", against(inline, prp)));
    }
    Ok(Measurement::default().detail(format!("At 64 B, inline versus prp: {}.", words.join("; "))))
}
