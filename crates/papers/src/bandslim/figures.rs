//! The figures of BandSlim, redrawn.

use super::outlook::{self, BREAKDOWN, METHODS};
use super::pages::{read_time, store, workload, workloads};
use super::points::{MIXES, POLICIES, READS, SWEEP, THRESHOLD, ValueMethod, board, mixed, outlook};
use super::transfer;
use crate::board::{Board, COSMOS, GEN5};
use crate::point::{Ledger, PointResult, Points, Spec};
use crate::sketch::{line, over_sizes, stages, stated};
use byteway_report::{Axis, Chart, Figure, Ink, Section, Table, Unit};
use byteway_results::summary::KvStoreSummary;
use byteway_text::table::bytes;
use byteway_text::table::{grouped, time};

/// Points for the figures, in addition to those of the recipes.
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
    let of = |figure: fn(PointResult<'_>) -> f64| {
        line(points, transfer::kibibytes(), |bytes| board(ValueMethod::Prp, bytes), figure)
    };
    let size = || Axis::linear("value", Unit::BinaryBytes);
    let total = Chart::new(size(), Axis::linear("bytes on the link for a million values", Unit::Bytes))
        .marked("prp", Ink::nth(0), of(|seen| seen.bytes(Ledger::Payload) * 1e6))
        .stated("paper: about 4 GB", Ink::nth(0), vec![(1024.0, 4e9), (4096.0, 4e9)]);
    let response = Chart::new(size(), Axis::linear("mean latency", Unit::Nanoseconds)).marked(
        "prp",
        Ink::nth(0),
        of(|seen| seen.latency()),
    );
    let mut chart = Chart::new(over_sizes(), Axis::log("bytes on the link per byte", Unit::Count));
    for (index, (ledger, name)) in
        [(Ledger::Payload, "payload ledger"), (Ledger::Wire, "wire ledger")].into_iter().enumerate()
    {
        let bytes = |seen: PointResult<'_>| seen.bytes(ledger);
        let each = line(points, SWEEP, |bytes| board(ValueMethod::Prp, bytes), bytes);
        chart = chart.marked(name, Ink::nth(index), each.into_iter().map(|(x, y)| (x, y / x)).collect());
    }
    chart = chart.stated("paper: about 130", Ink::nth(0), vec![(32.0, 130.0)]);
    Section::new("Fig. 2: cost of whole pages")
        .text("With PRPs a value of any length takes whole pages of 4 KiB on the link. Without NAND, as in the paper.")
        .figure(Figure::new(
            "Fig. 2(a): bytes of a million values of 1 to 16 KiB",
            "Predicted; payload ledger. The steps are pages.",
            total,
        ))
        .figure(Figure::new("Fig. 2(a): response time", "Calibrated at one page, predicted above.", response))
        .figure(Figure::new(
            "Bytes on the link per byte of a value, with PRPs",
            "Predicted. Both directions. Both axes are logarithmic.",
            chart,
        ))
}

/// W(A) on the board.
fn sizes(points: &Points) -> Section {
    let mut traffic = Chart::new(over_sizes(), Axis::log("bytes per PUT", Unit::Bytes));
    let mut latency = Chart::new(over_sizes(), Axis::log("mean latency", Unit::Nanoseconds));
    for (index, method) in [ValueMethod::Prp, ValueMethod::Piggyback].into_iter().enumerate() {
        let ink = Ink::nth(index);
        let of = |bytes| board(method, bytes);
        let payload = |seen: PointResult<'_>| seen.bytes(Ledger::Payload);
        traffic = traffic.marked(method.name(), ink, line(points, SWEEP, of, payload));
        latency = latency.marked(method.name(), ink, line(points, SWEEP, of, |seen| seen.latency()));
    }
    let ink = Ink::nth(1);
    let against = |bytes: u64, value: fn(PointResult<'_>) -> f64| {
        stated(points, bytes, &board(ValueMethod::Prp, bytes), value)
    };
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
        .text("Transfer only, on the board: an interrupt for each completion, one value at a time.")
        .figure(Figure::new(
            "Bytes on the link, payload ledger",
            "Predicted. The paper's points: piggyback 97.9 % below PRP from 4 to 32 B, and equal at about 2 KB.",
            traffic,
        ))
        .figure(
            Figure::new(
                "Mean latency",
                "Calibrated: the transfer's constants are those of ByteExpress's figures. The paper's points: half of PRP's up to 32 B, \
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
    methods: &[ValueMethod],
    title: &str,
    unit: Unit,
    of: impl Fn(PointResult<'_>) -> f64,
) -> Chart {
    let mut chart = Chart::new(Axis::names("", MIXES.map(|(_, name)| name)), Axis::linear(title, unit));
    for (index, method) in methods.iter().enumerate() {
        let value =
            |(workload, _): (&str, &str)| points.at(&mixed(drive, *method, workload)).map_or(f64::NAN, &of);
        chart = chart.bars(method.name(), Ink::nth(index), MIXES.map(value).to_vec());
    }
    chart
}

/// Workloads of mixed sizes on the board.
fn workloads_on_board(points: &Points) -> Section {
    let methods = [ValueMethod::Prp, ValueMethod::Piggyback, ValueMethod::Papers, ValueMethod::AdaptiveP];
    let mut throughput =
        bars(points, &COSMOS, &methods, "PUTs per second", Unit::Count, |seen| seen.throughput());
    let mut traffic =
        bars(points, &COSMOS, &methods, "bytes per PUT", Unit::Bytes, |seen| seen.bytes(Ledger::Payload));
    let of = |method, workload, figure: fn(PointResult<'_>) -> f64| {
        points.at(&mixed(&COSMOS, method, workload)).map_or(f64::NAN, figure)
    };
    let rate = |workload| of(ValueMethod::Piggyback, workload, |seen| seen.throughput());
    let bytes = |method, workload| of(method, workload, |seen| seen.bytes(Ledger::Payload));
    let none = f64::NAN;
    throughput = throughput.stated_bars(
        "paper: adaptive, 128 B",
        Ink::nth(2),
        vec![none, rate("w-c") * 13.0, none, rate("w-m") * 1.12],
    );
    traffic = traffic.stated_bars(
        "paper: adaptive, 128 B",
        Ink::nth(2),
        vec![none, bytes(ValueMethod::Piggyback, "w-c") * 1.18, none, bytes(ValueMethod::Prp, "w-m") * 0.067],
    );
    Section::new("W(B) to W(M) on the board")
        .text(
            "W(B): 8 B and 2 KB at 9 : 1; W(C): at 1 : 9; W(D): nine sizes from 8 B to 2 KB; W(M): MixGraph's values, up to 1 \
             KB; their keys are unique hashes in random order. `adaptive, exact` has the measured threshold, \
             `adaptive, 128 B` the paper's. An interrupt for each completion; each value is copied to the write pointer.",
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

/// Flash pages by packing policy.
fn packing(points: &Points) -> Section {
    let titles: Vec<&str> = workloads().map(|(_, title)| title).collect();
    let mut chart =
        Chart::new(Axis::names("", titles), Axis::linear("pages of value log and index", Unit::Count));
    let mut table = Table::new(
        ["workload", "packing", "value log, pages", "index, pages", "padding", "copied by the processor"],
        2,
    )
    .caption(
        "Predicted. Pages of 16 KiB programmed: the value log with its records, the index with its manifest.",
    );
    for (index, packing) in POLICIES.into_iter().enumerate() {
        let pages = |store: &KvStoreSummary| (store.log_pages_all() + store.index_pages()) as f64;
        let of = |(name, _)| store(points, &workload(name, packing)).map_or(f64::NAN, pages);
        chart = chart.bars(packing, Ink::nth(index), workloads().map(of).collect());
    }
    // The paper does not name the workload; the shortest values save the most.
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
        .text("Adaptive transfer with the paper's 128 B: longer values are transferred by DMA, and stay in place or are copied.")
        .figure(Figure::new(
            "Pages of value log and index by packing policy",
            "Predicted. The paper's point: up to 98.1 % fewer with backfilling than without packing, for the workload with the \
             shortest values.",
            chart,
        ).wide())
        .table(table)
}

/// Reads after each packing policy.
fn reads(points: &Points) -> Section {
    let mut chart = Chart::new(Axis::names("", POLICIES), Axis::linear("mean time", Unit::Nanoseconds));
    for (index, (job, what)) in READS.into_iter().zip(["a read", "a pair of a scan"]).enumerate() {
        let of = |packing: &'static str| read_time(points, packing, job).unwrap_or(f64::NAN);
        chart = chart.bars(what, Ink::nth(index), POLICIES.map(of).to_vec());
    }
    Section::new("Packing: reads").figure(Figure::new(
        "Random reads, and scans, after each packing policy",
        "Predicted. MixGraph's values, stored in random order.",
        chart,
    ))
}

/// Fig. 5(a).
fn parts(points: &Points) -> Section {
    let mut table = Table::new(["way", "latency", "parts"], 1).caption("32 B on Gen5 x8.");
    for method in BREAKDOWN {
        let Ok(seen) = points.at(&outlook(method, 32)) else { continue };
        let stages: Vec<String> = seen.stages().map(|(stage, ns)| format!("{stage} {}", time(ns))).collect();
        table.row([method.name().to_owned(), time(seen.latency()), stages.join(", ")]);
    }
    Section::new("Fig. 5(a): latency breakdown of 32 B on Gen5")
        .text(
            "`host` is the driver: building the command, and storing the value over CXL.mem; `doorbell` and `fetch` submit it; \
             `firmware` processes it; `link` is the link time of the page's DMA and of the completion, `dram` the drive's \
             memory.",
        )
        .figure(
            Figure::new(
                "Parts of the mean latency",
                "Calibrated. They add up to the total.",
                stages(points, BREAKDOWN.map(|method| (method.name(), outlook(method, 32)))),
            )
            .wide(),
        )
        .table(table)
}

/// Fig. 5(b) and 5(c).
fn gen5(points: &Points) -> Section {
    let mut latency = Chart::new(over_sizes(), Axis::log("mean latency", Unit::Nanoseconds));
    for (index, method) in
        [ValueMethod::Prp, ValueMethod::Piggyback, ValueMethod::Cxl].into_iter().enumerate()
    {
        let of = line(points, SWEEP, |bytes| outlook(method, bytes), |seen| seen.latency());
        latency = latency.marked(method.name(), Ink::nth(index), of);
    }
    let quarter = stated(points, 256, &outlook(ValueMethod::Piggyback, 256), |seen| seen.latency() / 4.0);
    latency = latency.stated("paper: cxl-mem", Ink::nth(2), quarter);
    let mut traffic = Chart::new(over_sizes(), Axis::log("bytes of a million PUTs", Unit::Bytes));
    for (index, method) in [ValueMethod::Piggyback, ValueMethod::Cxl].into_iter().enumerate() {
        let total = |seen: PointResult<'_>| seen.bytes(Ledger::Payload) * 1e6;
        let of = line(points, SWEEP, |bytes| outlook(method, bytes), total);
        traffic = traffic.marked(method.name(), Ink::nth(index + 1), of);
    }
    Section::new("Fig. 5(b), 5(c): latency and bytes over value sizes on Gen5").figure(
        Figure::new(
            "Mean latency of the transfer",
            "Calibrated: the cost of storing and flushing a line was fitted to the ratio at 256 B; the time of a page is the board's, scaled by the \
             ratio of transfer rates, as in the paper. The paper's point: a quarter of piggyback, read as at 256 B.",
            latency,
        )
        .wide(),
    )
    .figure(
        Figure::new(
            "Fig. 5(c): bytes of a million values, W(A)",
            "Predicted; payload ledger, 68 B per line. The paper's text states no figure here.",
            traffic,
        )
        .wide(),
    )
}

/// Fig. 5(d) and 5(e).
fn workloads_on_gen5(points: &Points) -> Section {
    let fine = [ValueMethod::Piggyback, ValueMethod::Cxl];
    let lines = bars(points, &GEN5, &fine, "bytes per PUT", Unit::Bytes, |seen| seen.bytes(Ledger::Payload));
    let all = bars(points, &GEN5, &METHODS, "bytes per PUT", Unit::Bytes, |seen| seen.bytes(Ledger::Payload));
    let throughput = bars(points, &GEN5, &METHODS, "PUTs per second", Unit::Count, |seen| seen.throughput());
    Section::new("Fig. 5(d), 5(e): workloads on Gen5")
        .text("Values transferred in commands or by DMA are copied to the write pointer; those transferred over CXL.mem are in place already.")
        .figure(Figure::new("Bytes on the link: lines compared with commands", "Predicted; 68 B per line.", lines))
        .figure(Figure::new("Bytes on the link: all methods", "Predicted.", all))
        .figure(Figure::new("Throughput", "The order is predicted.", throughput).wide())
}
