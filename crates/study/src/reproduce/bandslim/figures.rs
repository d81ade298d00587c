//! The figures of BandSlim, drawn anew.

use super::outlook::{self, BREAKDOWN, WAYS};
use super::pages::{read_time, store, workload, workloads};
use super::points::{MIXES, POLICIES, READS, SWEEP, THRESHOLD, Way, board, mixed, outlook};
use super::transfer;
use crate::report::{Axis, Chart, Figure, Ink, Section, Table, Unit};
use crate::reproduce::board::{Board, COSMOS, GEN5};
use crate::reproduce::point::{Ledger, Points, Seen, Spec};
use crate::reproduce::sketch::{line, over_sizes, stages, stated};
use byteway_console::table::bytes;
use byteway_console::table::{grouped, time};
use byteway_measure::summary::KvStoreSummary;

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
    let of = |figure: fn(Seen<'_>) -> f64| {
        line(points, transfer::kibibytes(), |bytes| board(Way::Prp, bytes), figure)
    };
    let size = || Axis::linear("value", Unit::BinaryBytes);
    let total = Chart::new(size(), Axis::linear("bytes on the link of a million", Unit::Bytes))
        .marked("prp", Ink::nth(0), of(|seen| seen.bytes(Ledger::Payload) * 1e6))
        .stated("paper: about 4 GB", Ink::nth(0), vec![(1024.0, 4e9), (4096.0, 4e9)]);
    let response = Chart::new(size(), Axis::linear("mean latency", Unit::Nanoseconds)).marked(
        "prp",
        Ink::nth(0),
        of(|seen| seen.latency()),
    );
    let mut chart = Chart::new(over_sizes(), Axis::log("bytes on the link for each byte", Unit::Count));
    for (index, (ledger, name)) in
        [(Ledger::Payload, "payload ledger"), (Ledger::Wire, "wire ledger")].into_iter().enumerate()
    {
        let bytes = |seen: Seen<'_>| seen.bytes(ledger);
        let each = line(points, SWEEP, |bytes| board(Way::Prp, bytes), bytes);
        chart = chart.marked(name, Ink::nth(index), each.into_iter().map(|(x, y)| (x, y / x)).collect());
    }
    chart = chart.stated("paper: about 130", Ink::nth(0), vec![(32.0, 130.0)]);
    Section::new("Fig. 2: what pages cost")
        .text("By PRP a value takes whole pages of 4 KiB on the link, however short it is. Without NAND, as the paper has it.")
        .figure(Figure::new(
            "Fig. 2(a): bytes of a million values of 1 to 16 KiB",
            "Predicted; payload ledger. Steps of a page.",
            total,
        ))
        .figure(Figure::new("Fig. 2(a): response time", "Calibrated at one page, predicted from there on.", response))
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
        let of = |bytes| board(way, bytes);
        let payload = |seen: Seen<'_>| seen.bytes(Ledger::Payload);
        traffic = traffic.marked(way.name(), ink, line(points, SWEEP, of, payload));
        latency = latency.marked(way.name(), ink, line(points, SWEEP, of, |seen| seen.latency()));
    }
    let ink = Ink::nth(1);
    let against =
        |bytes: u64, value: fn(Seen<'_>) -> f64| stated(points, bytes, &board(Way::Prp, bytes), value);
    let saved =
        [4, 32].into_iter().flat_map(|bytes| against(bytes, |prp| prp.bytes(Ledger::Payload) * 0.021));
    traffic = traffic.stated("paper: piggyback", ink, saved.collect()).stated(
        "paper: meet at 2 KB",
        Ink::nth(0),
        against(2048, |prp| prp.bytes(Ledger::Payload)),
    );
    let halved = [4, 32].into_iter().flat_map(|bytes| against(bytes, |prp| prp.latency() / 2.0));
    latency = latency.stated("paper: piggyback", ink, halved.collect()).stated(
        "paper: meet at 128 B",
        Ink::nth(0),
        against(THRESHOLD, |prp| prp.latency()),
    );
    Section::new("W(A): bytes and latency over value sizes")
        .text("The transfer alone, on the board: an interrupt for each completion, one value at a time.")
        .figure(Figure::new(
            "Bytes on the link, payload ledger",
            "Predicted. The paper's points: piggyback 97.9 % below PRP from 4 to 32 B, and equal at about 2 KB.",
            traffic,
        ))
        .figure(
            Figure::new(
                "Mean latency",
                "Calibrated: the transfer's constants are those of ByteExpress's figures. The paper's points: half of PRP up to 32 B, \
                 and equal at 128 B.",
                latency,
            )
            .wide(),
        )
}

/// Bars over the workloads of mixed sizes.
fn bars(
    points: &Points,
    drive: &Board,
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
    let mut throughput = bars(points, &COSMOS, &ways, "PUTs a second", Unit::Count, |seen| seen.throughput());
    let mut traffic =
        bars(points, &COSMOS, &ways, "bytes a PUT", Unit::Bytes, |seen| seen.bytes(Ledger::Payload));
    let of = |way, workload, figure: fn(Seen<'_>) -> f64| {
        points.at(&mixed(&COSMOS, way, workload)).map_or(f64::NAN, figure)
    };
    let rate = |workload| of(Way::Piggyback, workload, |seen| seen.throughput());
    let bytes = |way, workload| of(way, workload, |seen| seen.bytes(Ledger::Payload));
    let none = f64::NAN;
    throughput = throughput.stated_bars(
        "paper: adaptive, 128 B",
        Ink::nth(2),
        vec![none, rate("w-c") * 13.0, none, rate("w-m") * 1.12],
    );
    traffic = traffic.stated_bars(
        "paper: adaptive, 128 B",
        Ink::nth(2),
        vec![none, bytes(Way::Piggyback, "w-c") * 1.18, none, bytes(Way::Prp, "w-m") * 0.067],
    );
    Section::new("W(B) to W(M) on the board")
        .text(
            "W(B): 8 B and 2 KB at 9 : 1; W(C): at 1 : 9; W(D): nine sizes from 8 B to 2 KB; W(M): MixGraph's values, up to 1 \
             KB; their keys are unique hashes in random order. `adaptive, exact` has the threshold that was measured, \
             `adaptive, 128 B` the paper's. An interrupt for each completion, each value copied to the write pointer.",
        )
        .figure(Figure::new(
            "Throughput",
            "Calibrated for W(M) and W(C), predicted for the others. The paper's points: adaptive with 13 times piggyback's on \
             W(C), and 12 % more on W(M).",
            throughput,
        ))
        .figure(Figure::new(
            "Bytes on the link, payload ledger",
            "Predicted. The paper's points: adaptive with 18 % more than piggyback on W(C), and 93.3 % less than PRP on W(M).",
            traffic,
        ))
}

/// Pages of flash by policy.
fn packing(points: &Points) -> Section {
    let titles: Vec<&str> = workloads().map(|(_, title)| title).collect();
    let mut chart =
        Chart::new(Axis::names("", titles), Axis::linear("pages of value log and index", Unit::Count));
    let mut table = Table::new(
        ["workload", "packing", "value log, pages", "index, pages", "padding", "copied by the processor"],
        2,
    )
    .caption("Predicted. Pages of 16 KiB that were programmed; the value log with its records, the index with its manifest.");
    for (index, packing) in POLICIES.into_iter().enumerate() {
        let pages = |store: &KvStoreSummary| (store.log_pages_all() + store.index_pages()) as f64;
        let of = |(name, _)| store(points, &workload(name, packing)).map_or(f64::NAN, pages);
        chart = chart.bars(packing, Ink::nth(index), workloads().map(of).collect());
    }
    // The paper does not say of which workload; the most is saved of the shortest values.
    let fewest = |(name, _)| match name {
        "w-a" => store(points, &workload(name, "none"))
            .map_or(f64::NAN, |store| (store.log_pages_all() + store.index_pages()) as f64 * (1.0 - 0.981)),
        _ => f64::NAN,
    };
    let backfill = Ink::nth(POLICIES.len() - 1);
    chart = chart.stated_bars("paper: up to 98.1 % fewer", backfill, workloads().map(fewest).collect());
    for (name, title) in workloads() {
        for packing in POLICIES {
            let Ok(store) = store(points, &workload(name, packing)) else { continue };
            table.row([
                title.to_owned(),
                packing.to_owned(),
                grouped(store.log_pages_all()),
                grouped(store.index_pages()),
                bytes(store.padding_bytes as f64),
                bytes(store.copied_bytes as f64),
            ]);
        }
    }
    Section::new("Packing: pages of flash")
        .text("Adaptive transfer with the paper's 128 B: what is longer comes by DMA, and is left where it was put or copied.")
        .figure(Figure::new(
            "Pages of value log and index by packing policy",
            "Predicted. The paper's point: up to 98.1 % fewer with backfilling than without packing, of the workload with the \
             shortest values.",
            chart,
        ).wide())
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

/// Fig. 5(b) and 5(c).
fn gen5(points: &Points) -> Section {
    let mut latency = Chart::new(over_sizes(), Axis::log("mean latency", Unit::Nanoseconds));
    for (index, way) in [Way::Prp, Way::Piggyback, Way::Cxl].into_iter().enumerate() {
        let of = line(points, SWEEP, |bytes| outlook(way, bytes), |seen| seen.latency());
        latency = latency.marked(way.name(), Ink::nth(index), of);
    }
    let quarter = stated(points, 256, &outlook(Way::Piggyback, 256), |seen| seen.latency() / 4.0);
    latency = latency.stated("paper: cxl-mem", Ink::nth(2), quarter);
    let mut traffic = Chart::new(over_sizes(), Axis::log("bytes of a million PUTs", Unit::Bytes));
    for (index, way) in [Way::Piggyback, Way::Cxl].into_iter().enumerate() {
        let total = |seen: Seen<'_>| seen.bytes(Ledger::Payload) * 1e6;
        let of = line(points, SWEEP, |bytes| outlook(way, bytes), total);
        traffic = traffic.marked(way.name(), Ink::nth(index + 1), of);
    }
    Section::new("Fig. 5(b), 5(c): latency and bytes over value sizes on Gen5").figure(
        Figure::new(
            "Mean latency of the transfer",
            "Calibrated: a line stored and flushed was fitted to the ratio at 256 B; the time of a page is the board's over the \
             ratio of transfer rates, as the paper has it. The paper's point: a quarter of piggyback, read as at 256 B.",
            latency,
        )
        .wide(),
    )
    .figure(
        Figure::new(
            "Fig. 5(c): bytes of a million values, W(A)",
            "Predicted; payload ledger, 68 B a line. The paper's text states no figure here.",
            traffic,
        )
        .wide(),
    )
}

/// Fig. 5(d) and 5(e).
fn workloads_on_gen5(points: &Points) -> Section {
    let fine = [Way::Piggyback, Way::Cxl];
    let lines = bars(points, &GEN5, &fine, "bytes a PUT", Unit::Bytes, |seen| seen.bytes(Ledger::Payload));
    let all = bars(points, &GEN5, &WAYS, "bytes a PUT", Unit::Bytes, |seen| seen.bytes(Ledger::Payload));
    let throughput = bars(points, &GEN5, &WAYS, "PUTs a second", Unit::Count, |seen| seen.throughput());
    Section::new("Fig. 5(d), 5(e): workloads on Gen5")
        .text("Each value that came in commands or by DMA is copied to the write pointer; what came over CXL.mem is there already.")
        .figure(Figure::new("Bytes on the link: lines against commands", "Predicted; 68 B a line.", lines))
        .figure(Figure::new("Bytes on the link: all ways", "Predicted.", all))
        .figure(Figure::new("Throughput", "The order is predicted.", throughput).wide())
}
