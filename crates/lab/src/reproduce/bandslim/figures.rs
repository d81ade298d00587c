//! The figures of BandSlim, drawn anew.

use super::outlook::{self, BREAKDOWN, WAYS};
use super::pages::{read_time, store, workload, workloads};
use super::points::{BOARD, GEN5, MIXES, POLICIES, READS, SWEEP, Way, board, fixed, mixed, outlook};
use super::transfer;
use crate::report::{Axis, Chart, Figure, Ink, Section, Table, Unit};
use crate::reproduce::point::{Ledger, Points, Seen, Spec};
use crate::reproduce::sketch::{line, over_sizes, stages};
use crate::summary::{KvStoreSummary, grouped, time};

/// What the figures show beside what the recipes need.
pub(super) fn drawn() -> Vec<Spec> {
    transfer::drawn().into_iter().chain(outlook::drawn()).collect()
}

/// All sections.
pub(super) fn figures(points: &Points) -> Vec<Section> {
    vec![
        amplification(points),
        sizes(points),
        workloads_on_board(points),
        packing(points),
        reads(points),
        parts(points),
        gen5(points),
        workloads_on_gen5(points),
    ]
}

/// Fig. 2.
fn amplification(points: &Points) -> Section {
    let mut chart = Chart::new(over_sizes(), Axis::log("bytes on the link for each byte", Unit::Count));
    for (index, (ledger, name)) in
        [(Ledger::Payload, "payload ledger"), (Ledger::Wire, "wire ledger")].into_iter().enumerate()
    {
        let bytes = |seen: Seen<'_>| seen.bytes(ledger);
        let each = line(points, SWEEP, |bytes| fixed(BOARD, Way::Prp, bytes), bytes);
        chart = chart.marked(name, Ink::nth(index), each.into_iter().map(|(x, y)| (x, y / x)).collect());
    }
    Section::new("Fig. 2: what pages cost")
        .text("By PRP a value takes whole pages of 4 KiB on the link, however short it is.")
        .figure(Figure::new(
            "Bytes on the link for each byte of a value, by PRP",
            "Predicted. Both directions. Both axes are logarithmic.",
            chart,
        ))
}

/// W(A) on the board.
fn sizes(points: &Points) -> Section {
    let mut traffic = Chart::new(over_sizes(), Axis::log("bytes a PUT", Unit::Bytes));
    let mut latency = Chart::new(over_sizes(), Axis::log("mean latency", Unit::Nanoseconds));
    for (index, way) in [Way::Prp, Way::Piggyback].into_iter().enumerate() {
        let ink = Ink::nth(index);
        let put = |bytes| fixed(BOARD, way, bytes);
        let payload = |seen: Seen<'_>| seen.bytes(Ledger::Payload);
        traffic = traffic.marked(way.name(), ink, line(points, SWEEP, put, payload));
        let transfer = line(points, SWEEP, |bytes| board(way, bytes), |seen| seen.latency());
        latency = latency.marked(format!("{}, transfer", way.name()), ink, transfer);
        let whole = line(points, SWEEP, put, |seen| seen.latency());
        latency = latency.marked(format!("{}, PUT", way.name()), Ink::nth(index + 2), whole);
    }
    Section::new("W(A): bytes and latency over value sizes")
        .text("The board; keys of 4 B in order, completions polled, one PUT at a time, each value copied to the write pointer.")
        .figure(Figure::new("Bytes on the link, payload ledger", "Predicted.", traffic))
        .figure(
            Figure::new(
                "Mean latency",
                "Calibrated: the transfer's constants are those of ByteExpress's figures; the rest of a PUT was fitted to \
                 throughputs of W(M) and W(C).",
                latency,
            )
            .wide(),
        )
}

/// Bars over the workloads of mixed sizes.
fn bars(
    points: &Points,
    drive: &str,
    ways: &[Way],
    title: &str,
    unit: Unit,
    of: impl Fn(Seen<'_>) -> f64,
) -> Chart {
    let mut chart = Chart::new(Axis::names("", MIXES.map(|(_, name)| name)), Axis::linear(title, unit));
    for (index, way) in ways.iter().enumerate() {
        let value =
            |(workload, _): (&str, &str)| points.at(&mixed(drive, *way, workload)).map_or(f64::NAN, &of);
        chart = chart.bars(way.name(), Ink::nth(index), MIXES.map(value).to_vec());
    }
    chart
}

/// Workloads of mixed sizes on the board.
fn workloads_on_board(points: &Points) -> Section {
    let ways = [Way::Prp, Way::Piggyback, Way::Papers, Way::AdaptiveP];
    let throughput = bars(points, BOARD, &ways, "PUTs a second", Unit::Count, |seen| seen.throughput());
    let traffic = bars(points, BOARD, &ways, "bytes a PUT", Unit::Bytes, |seen| seen.bytes(Ledger::Payload));
    Section::new("W(B) to W(M) on the board")
        .text(
            "W(B): 8 B and 2 KB at 9 : 1; W(C): at 1 : 9; W(D): nine sizes from 8 B to 2 KB; W(M): MixGraph's values, up to 1 \
             KB. `adaptive-p` has the threshold that was measured, 35 B; `adaptive, 128 B` the paper's. Completions polled.",
        )
        .figure(Figure::new(
            "Throughput",
            "Calibrated for W(M) and W(C), predicted for the others.",
            throughput,
        ))
        .figure(Figure::new("Bytes on the link, payload ledger", "Predicted.", traffic))
}

/// Pages of flash by policy.
fn packing(points: &Points) -> Section {
    let titles: Vec<&str> = workloads().map(|(_, title)| title).collect();
    let mut chart = Chart::new(Axis::names("", titles), Axis::linear("pages of the value log", Unit::Count));
    let mut table = Table::new(
        ["workload", "packing", "value log, pages", "index, pages", "padding", "copied by the processor"],
        2,
    )
    .caption("Predicted. Pages of 16 KiB that were programmed; the value log with its records, the index with its manifest.");
    for (index, packing) in POLICIES.into_iter().enumerate() {
        let pages = |store: &KvStoreSummary| store.log_pages_all() as f64;
        let of = |(name, _)| store(points, &workload(name, packing)).map_or(f64::NAN, pages);
        chart = chart.bars(packing, Ink::nth(index), workloads().map(of).collect());
    }
    for (name, title) in workloads() {
        for packing in POLICIES {
            let Ok(store) = store(points, &workload(name, packing)) else { continue };
            table.row([
                title.to_owned(),
                packing.to_owned(),
                grouped(store.log_pages_all()),
                grouped(store.index_pages()),
                format!("{} B", grouped(store.padding_bytes)),
                format!("{} B", grouped(store.copied_bytes)),
            ]);
        }
    }
    Section::new("Packing: pages of flash")
        .text("Adaptive transfer with the paper's 128 B: what is longer comes by DMA, and is left where it was put or copied.")
        .figure(Figure::new("Pages of the value log by packing policy", "Predicted.", chart).wide())
        .table(table)
}

/// Reads after each policy.
fn reads(points: &Points) -> Section {
    let mut chart = Chart::new(Axis::names("", POLICIES), Axis::linear("mean time", Unit::Nanoseconds));
    for (index, (job, what)) in READS.into_iter().zip(["a read", "a pair of a scan"]).enumerate() {
        let of = |packing: &'static str| read_time(points, packing, job).unwrap_or(f64::NAN);
        chart = chart.bars(what, Ink::nth(index), POLICIES.map(of).to_vec());
    }
    Section::new("Packing: reads").figure(Figure::new(
        "Reads at random, and scans, after each packing policy",
        "Predicted. MixGraph's values, stored in random order.",
        chart,
    ))
}

/// Fig. 5(a).
fn parts(points: &Points) -> Section {
    let mut table = Table::new(["way", "latency", "parts"], 1).caption("32 B on Gen5 x8.");
    for way in BREAKDOWN {
        let Ok(seen) = points.at(&outlook(way, 32)) else { continue };
        let stages: Vec<String> = seen.stages().map(|(stage, ns)| format!("{stage} {}", time(ns))).collect();
        table.row([way.name().to_owned(), time(seen.latency()), stages.join(", ")]);
    }
    Section::new("Fig. 5(a): where the time of 32 B goes on Gen5")
        .text(
            "`host` is the driver: making the command, and storing the value over CXL.mem; `doorbell` and `fetch` submit it; \
             `firmware` processes it; `link` is what the DMA of a page and the completion take of the link, `dram` the drive's \
             memory.",
        )
        .figure(
            Figure::new(
                "Parts of the mean latency",
                "Calibrated. They add up to the whole.",
                stages(points, BREAKDOWN.map(|way| (way.name(), outlook(way, 32)))),
            )
            .wide(),
        )
        .table(table)
}

/// Fig. 5(b).
fn gen5(points: &Points) -> Section {
    let mut latency = Chart::new(over_sizes(), Axis::log("mean latency", Unit::Nanoseconds));
    for (index, way) in [Way::Prp, Way::Piggyback, Way::Cxl].into_iter().enumerate() {
        let of = line(points, SWEEP, |bytes| outlook(way, bytes), |seen| seen.latency());
        latency = latency.marked(way.name(), Ink::nth(index), of);
    }
    Section::new("Fig. 5(b): latency over value sizes on Gen5").figure(
        Figure::new(
            "Mean latency of the transfer",
            "Calibrated: a line stored and flushed was fitted to the ratio at 256 B; the time of a page is the board's over the \
             ratio of transfer rates, as the paper has it.",
            latency,
        )
        .wide(),
    )
}

/// Fig. 5(c) to 5(e).
fn workloads_on_gen5(points: &Points) -> Section {
    let fine = [Way::Piggyback, Way::Cxl];
    let lines = bars(points, GEN5, &fine, "bytes a PUT", Unit::Bytes, |seen| seen.bytes(Ledger::Payload));
    let all = bars(points, GEN5, &WAYS, "bytes a PUT", Unit::Bytes, |seen| seen.bytes(Ledger::Payload));
    let throughput = bars(points, GEN5, &WAYS, "PUTs a second", Unit::Count, |seen| seen.throughput());
    Section::new("Fig. 5(c) to 5(e): workloads on Gen5")
        .text("Each value that came in commands or by DMA is copied to the write pointer; what came over CXL.mem is there already.")
        .figure(Figure::new("Bytes on the link: lines against commands", "Predicted; 68 B a line.", lines))
        .figure(Figure::new("Bytes on the link: all ways", "Predicted.", all))
        .figure(Figure::new("Throughput", "The order is predicted.", throughput).wide())
}
