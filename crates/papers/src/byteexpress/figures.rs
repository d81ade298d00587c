//! The figures of ByteExpress, redrawn.

use super::points::{
    LARGE, LINKS, METHODS, OTHERS, SWEEP, TABLE, UNITS, beside, board, by_linux, kibibytes, on_link, polled,
    unit,
};
use super::recipes::{LINUX, TABLE_1, controller_time, controller_time_of_prp, host_time};
use super::texts::{SHORT, WORKLOADS};
use super::{gain, pairs, pushdown};
use crate::point::{Ledger, PointResult, Points, Spec};
use crate::sketch::{change, line, over_sizes, stages, stated};
use byteway_clock::random::Rng;
use byteway_report::{Axis, Chart, Figure, Ink, Section, Table, Unit};
use byteway_text::table::{grouped, time};
use byteway_workload::kv::{Engine, Inserted, KvGenerator, KvPlan, KvSource, Preset, ValueSizes};
use byteway_workload::{Distribution, JobSettings};

/// Points for the figures, in addition to those of the recipes.
pub(super) fn drawn() -> Vec<Spec> {
    let mut specs = gain::points();
    specs.extend(METHODS.iter().flat_map(|method| pairs::both(method)));
    specs.extend(METHODS.iter().flat_map(|method| pushdown::segments(method)));
    specs.extend(METHODS.iter().flat_map(|method| pushdown::texts(method)));
    for method in METHODS {
        specs.extend(SWEEP.map(|bytes| board(method, bytes)));
        specs.extend(TABLE.map(|bytes| board(method, bytes)));
        specs.extend(TABLE.map(|bytes| polled(board(method, bytes))));
    }
    specs.extend(LARGE.map(|bytes| board("mmio", bytes)));
    for (profile, _) in LINKS {
        specs.extend(
            OUTLOOK.iter().flat_map(|bytes| METHODS_OF_LINKS.map(|method| on_link(profile, method, *bytes))),
        );
    }
    specs
}

/// Sizes for the comparison of links.
const OUTLOOK: [u64; 4] = [64, 256, 1024, 4096];

const METHODS_OF_LINKS: [&str; 2] = ["prp", "inline"];

/// The first row of Table 1.
const COMMAND: &str = "a command with PRPs";

/// The paper's Table 1, for comparison.
const TABLE_1_PAPER: [(&str, f64, f64); 4] =
    [(COMMAND, 60.0, 2400.0), ("64 B", 100.0, 2800.0), ("128 B", 130.0, 3200.0), ("256 B", 180.0, 4000.0)];

/// All sections.
pub(super) fn figures(points: &Points) -> Vec<Section> {
    vec![
        value_sizes(points),
        pages(points),
        sweep(points),
        table_1(points),
        where_from(points),
        key_value(points),
        queries(),
        push_down(points),
        byte_interface(points),
        queues(points),
        linux(points),
        links(points),
        traffic(points),
    ]
}

/// Fig. 1(a): values drawn by a run's MixGraph generator; nothing is simulated.
fn value_sizes(points: &Points) -> Section {
    const DRAWS: usize = 100_000;
    const COLUMNS: usize = 20;
    // Up to 1, 2, 4 ... 1024 B.
    const ROWS: usize = 11;
    let Some(sizes) = mixgraph_sizes(DRAWS) else { return Section::new("Fig. 1(a)") };
    let each = DRAWS / COLUMNS;
    let mut rows = vec![vec![0.0; COLUMNS]; ROWS];
    for (index, bytes) in sizes.iter().enumerate() {
        let row = (bytes.max(&1).next_power_of_two().ilog2() as usize).min(ROWS - 1);
        rows[row][(index / each).min(COLUMNS - 1)] += 1.0 / each as f64;
    }
    let x = (0..COLUMNS).map(|column| ((column as f64) + 0.5) * each as f64).collect();
    let y = (0..ROWS).map(|row| f64::from(1 << row)).collect();
    let chart = Chart::new(
        Axis::linear("PUT", Unit::Count),
        Axis::log_at_points("value size up to", Unit::BinaryBytes),
    )
    .heat_of_parts(x, y, rows, "of the values");
    let section = Section::new("Fig. 1(a): value sizes of MixGraph");
    let section = match pairs::percent_short(points) {
        Ok(percent) => section.text(format!(
            "{percent:.1} % of the values put are shorter than 32 B (BX14); the paper has more than 60 %."
        )),
        Err(_) => section,
    };
    section.figure(
            Figure::new(
                "Sizes of values over the run",
                "Analytic: the paper states the distribution. Each row has the values above half of its size up to its size.",
                chart,
            )
            .wide(),
        )
}

/// Value sizes of MixGraph's All_random with its default settings; `None` if the generator cannot be created.
fn mixgraph_sizes(count: usize) -> Option<Vec<u32>> {
    let draws = Preset::WM.draws(ValueSizes::Fixed(0), Distribution::Uniform, 1);
    let source = KvSource::Draws(draws);
    let keys = count as u64;
    let plan = KvPlan { keys, key_bytes: 4, source, engine: Engine::Drive, bulk: None };
    let settings = JobSettings { count: Some(keys), ..plan.settings("values") };
    let inserted = Inserted::new(plan.records());
    let generator = KvGenerator::new(&settings, &plan, 0, &Rng::new(1), &inserted).ok()?;
    Some(generator.map(|op| op.bytes).collect())
}

/// Fig. 1(b) and 1(c).
fn pages(points: &Points) -> Section {
    let ledgers = [(Ledger::Payload, "payload ledger"), (Ledger::Wire, "wire ledger")];
    let mut amplified = Chart::new(over_sizes(), Axis::log("bytes on the link per byte", Unit::Count));
    let mut stepped =
        Chart::new(Axis::linear("payload", Unit::BinaryBytes), Axis::linear("bytes", Unit::Bytes));
    for (index, (ledger, name)) in ledgers.into_iter().enumerate() {
        let of = |bytes: u64| board("prp", bytes);
        let bytes = |seen: PointResult<'_>| seen.bytes(ledger);
        let each = line(points, SWEEP, of, bytes).into_iter().map(|(x, y)| (x, y / x)).collect();
        amplified = amplified.marked(name, Ink::nth(index), each);
        stepped = stepped.marked(name, Ink::nth(index), line(points, kibibytes(), of, bytes));
    }
    amplified = amplified.stated("paper: more than 130", Ink::nth(0), vec![(32.0, 130.0)]);
    let steps = line(points, kibibytes(), |bytes| board("prp", bytes), |seen| seen.latency());
    let latency = Chart::new(
        Axis::linear("payload", Unit::BinaryBytes),
        Axis::linear("mean latency", Unit::Nanoseconds),
    )
    .marked("prp", Ink::nth(0), steps);
    Section::new("Fig. 1(b), 1(c): cost of whole pages")
        .text("A payload with PRPs is fetched in whole pages of 4 KiB. Predicted: no byte count was fitted.")
        .figure(Figure::new(
            "Bytes on the link per byte of payload, with PRPs",
            "Predicted. Both directions, with the command, its doorbells and its completion. Both axes are logarithmic.",
            amplified,
        ))
        .figure(Figure::new("Bytes on the link with PRPs, 1 to 16 KiB", "Predicted. The steps are pages.", stepped))
        .figure(
            Figure::new(
                "Latency with PRPs, 1 to 16 KiB",
                "Calibrated at one page, predicted above. From submission to completion.",
                latency,
            )
            .wide(),
        )
}

/// Fig. 5.
fn sweep(points: &Points) -> Section {
    let mut traffic = Chart::new(over_sizes(), Axis::log("bytes per payload", Unit::Bytes));
    let mut wire = traffic.clone();
    let mut latency = Chart::new(over_sizes(), Axis::log("mean latency", Unit::Nanoseconds));
    for (index, method) in METHODS.into_iter().enumerate() {
        let of = |bytes: u64| board(method, bytes);
        let add = |chart: Chart, figure: &dyn Fn(PointResult<'_>) -> f64| {
            chart.marked(method, Ink::nth(index), line(points, SWEEP, of, figure))
        };
        traffic = add(traffic, &|seen| seen.bytes(Ledger::Payload));
        wire = add(wire, &|seen| seen.bytes(Ledger::Wire));
        latency = add(latency, &|seen| seen.latency());
    }
    let ink = Ink::nth(METHODS.len() - 1);
    let bytes = |seen: PointResult<'_>| seen.bytes(Ledger::Payload);
    let mut fewer = stated(points, 64, &board("prp", 64), |prp| bytes(prp) * (1.0 - 0.963));
    fewer.extend(stated(points, 4096, &board("piggyback", 4096), |other| bytes(other) * (1.0 - 0.398)));
    traffic = traffic.stated("paper: inline", ink, fewer);
    let mut slow = stated(points, 32, &board("prp", 32), |prp| prp.latency() * (1.0 - 0.404));
    slow.extend(stated(points, 128, &board("piggyback", 128), |other| other.latency() * (1.0 - 0.72)));
    let meets = stated(points, 256, &board("prp", 256), |prp| prp.latency());
    latency = latency.stated("paper: inline", ink, slow).stated("paper: meet at 256 B", Ink::nth(0), meets);
    Section::new("Fig. 5: bytes and latency over payload sizes")
        .text("One payload at a time into the drive's DRAM, without NAND; an interrupt for each completion.")
        .figure(Figure::new(
            "Bytes on the link, payload ledger",
            "Predicted. As a performance counter sees it: payload of the link's packets, both directions. The paper's points: inline \
             96.3 % below PRP at 64 B, and up to 39.8 % below piggyback, the maximum here, at 4 KiB.",
            traffic,
        ))
        .figure(Figure::new(
            "Bytes on the link, wire ledger",
            "Predicted. With headers, CRC and framing, which the paper does not show.",
            wire,
        ))
        .figure(
            Figure::new(
                "Mean latency",
                "Calibrated: the constants of the board and of its host were fitted to the paper's Table 1 and to its savings \
                 at 128 B and below. Both axes are logarithmic. The paper's points: inline up to 40.4 % below PRP from 32 to \
                 128 B, the maximum here at 32 B; 72 % below piggyback at 128 B; and equal to PRP at about 256 B.",
                latency,
            )
            .wide(),
        )
        .figure(Figure::new(
            "Host processor time per payload",
            "Calibrated: work without polling for completions. The paper's points: the driver's column of Table 1.",
            submissions(points),
        ))
        .figure(Figure::new(
            "Drive processor time per payload",
            "Calibrated: cycles of its firmware.",
            processors(points, |(_, drive)| drive),
        ))
}

/// The host's processor time, with the paper's values.
fn submissions(points: &Points) -> Chart {
    let [(_, prp, _), inline @ ..] = TABLE_1_PAPER;
    let inline = TABLE_1.into_iter().zip(inline).map(|(bytes, (_, driver, _))| (bytes as f64, driver));
    processors(points, |(host, _)| host).stated("paper: prp", Ink::nth(0), vec![(64.0, prp)]).stated(
        "paper: inline",
        Ink::nth(METHODS.len() - 1),
        inline.collect(),
    )
}

/// Processor time of host or drive, over sizes.
fn processors(points: &Points, of: fn((f64, f64)) -> f64) -> Chart {
    let mut chart = Chart::new(over_sizes(), Axis::log("processor time", Unit::Nanoseconds));
    for (index, method) in METHODS.into_iter().enumerate() {
        let time = |seen: PointResult<'_>| seen.processors().map_or(f64::NAN, of);
        chart =
            chart.marked(method, Ink::nth(index), line(points, SWEEP, |bytes| board(method, bytes), time));
    }
    chart
}

/// Table 1.
fn table_1(points: &Points) -> Section {
    let header =
        ["payload", "driver, paper", "driver, measured", "controller, paper", "controller, measured"];
    let mut table = Table::new(header, 1).caption(
        "Calibrated. The driver's time is that of a submission; the controller's is doorbell, fetch, firmware and completion.",
    );
    let specs = [board("prp", 64)].into_iter().chain(TABLE_1.map(|bytes| board("inline", bytes)));
    for ((name, driver, controller), spec) in TABLE_1_PAPER.into_iter().zip(specs) {
        let Ok(seen) = points.at(&spec) else { continue };
        let fetched =
            if name == COMMAND { controller_time_of_prp(points) } else { Ok(controller_time(seen)) };
        let Ok(fetched) = fetched else { continue };
        table.row([name.to_owned(), time(driver), time(host_time(seen)), time(controller), time(fetched)]);
    }
    Section::new("Table 1: driver and controller").table(table)
}

/// Sources of the gain.
fn where_from(points: &Points) -> Section {
    let mut section = Section::new("Sources of the gain");
    match gain::sentences(points) {
        Ok(sentences) => {
            for sentence in sentences {
                section = section.text(sentence);
            }
        }
        Err(why) => section = section.text(format!("Not measured: {why:#}.")),
    }
    let mut chart = Chart::new(over_sizes(), Axis::log("mean latency", Unit::Nanoseconds));
    let mut bytes = Chart::new(over_sizes(), Axis::log("bytes per payload", Unit::Bytes));
    for (index, (name, way)) in gain::METHODS.into_iter().enumerate() {
        chart = chart.marked(name, Ink::nth(index), line(points, gain::SIZES, way, |seen| seen.latency()));
        let of = line(points, gain::SIZES, way, |seen| seen.bytes(Ledger::Payload));
        bytes = bytes.marked(name, Ink::nth(index), of);
    }
    section
        .figure(Figure::new(
            "Latency by DMA granularity",
            "Whole pages and inline calibrated, the others predicted.",
            chart,
        ))
        .figure(Figure::new("Bytes on the link by DMA granularity", "Predicted; payload ledger.", bytes))
        .figure(
            Figure::new(
                "Latency breakdown of 64 B",
                "Mean; the parts add up to the mean latency.",
                stages(points, gain::METHODS.map(|(name, way)| (name, way(64)))),
            )
            .wide(),
        )
}

/// Fig. 6.
fn key_value(points: &Points) -> Section {
    let workloads = ["MixGraph", "FillRandom, 128 B"];
    let axis = || Axis::names("", workloads);
    let mut throughput = Chart::new(axis(), Axis::linear("PUTs per second", Unit::Count));
    let mut traffic = Chart::new(axis(), Axis::linear("bytes per PUT", Unit::Bytes));
    let header =
        ["workload", "method", "PUTs per second", "99th percentile", "1st percentile", "bytes per PUT"];
    let mut table = Table::new(header, 2).caption(
        "Predicted. In addition to the throughput, that of serial PUTs whose latency is the 99th and the 1st \
         percentile of the distribution.",
    );
    for (index, method) in METHODS.into_iter().enumerate() {
        let of = |figure: &dyn Fn(PointResult<'_>) -> f64| {
            pairs::both(method).iter().map(|spec| points.at(spec).map_or(f64::NAN, figure)).collect()
        };
        throughput = throughput.bars(method, Ink::nth(index), of(&|seen| seen.throughput()));
        traffic = traffic.bars(method, Ink::nth(index), of(&|seen| seen.bytes(Ledger::Payload)));
        for (workload, spec) in workloads.into_iter().zip(pairs::both(method)) {
            let Ok(seen) = points.at(&spec) else { continue };
            let (least, most) = pairs::range(seen);
            table.row([
                workload.to_owned(),
                method.to_owned(),
                grouped(seen.throughput() as u64),
                grouped(least as u64),
                grouped(most as u64),
                format!("{:.1} B", seen.bytes(Ledger::Payload)),
            ]);
        }
    }
    let of = |spec: &Spec, figure: fn(PointResult<'_>) -> f64| points.at(spec).map_or(f64::NAN, figure);
    let [mixgraph, fill] = pairs::both("piggyback");
    let [mixgraph_prp, _] = pairs::both("prp");
    let rate = |seen: PointResult<'_>| seen.throughput();
    let bytes = |seen: PointResult<'_>| seen.bytes(Ledger::Payload);
    let ink = Ink::nth(METHODS.len() - 1);
    throughput = throughput.stated_bars(
        "paper: inline",
        ink,
        vec![of(&mixgraph, rate) * 1.08, of(&fill, rate) + 1000.0],
    );
    traffic = traffic
        .stated_bars("paper: 1.75 x piggyback", ink, vec![of(&mixgraph, bytes) * 1.75, f64::NAN])
        .stated_bars("paper: 95 % below prp", ink, vec![of(&mixgraph_prp, bytes) * 0.05, f64::NAN]);
    Section::new("Fig. 6: a key-value drive")
        .text("The board with its flash, as a key-value drive: keys of 4 B, one PUT at a time, an interrupt for each completion.")
        .figure(Figure::new(
            "Throughput",
            "Piggyback's depends on a fitted constant (BX06). The paper's points: inline 8 % above piggyback under MixGraph, and \
             1,000 per second above it under FillRandom.",
            throughput,
        ))
        .figure(Figure::new(
            "Bytes on the link, payload ledger",
            "Predicted. With the paper's two statements on inline under MixGraph.",
            traffic,
        ))
        .table(table)
}

/// The byte interface next to inline.
fn byte_interface(points: &Points) -> Section {
    let mut chart = Chart::new(over_sizes(), Axis::linear("mean latency", Unit::Nanoseconds));
    for (index, method) in ["mmio", "inline", "prp"].into_iter().enumerate() {
        let of = |bytes: u64| board(method, bytes);
        chart = chart.marked(method, Ink::nth(index), line(points, LARGE, of, |seen| seen.latency()));
    }
    Section::new("Byte interface of the device").figure(Figure::new(
        "Latency of stores to the device's buffer, inline and PRP",
        "The order is predicted; the host's cost of a store is a constant of its profile.",
        chart,
    ))
}

/// In-order transfer and reassembly.
fn queues(points: &Points) -> Section {
    let methods = ["inline", "inline-reassembly"];
    let mut chart =
        Chart::new(Axis::names("", methods), Axis::linear("p99 latency of 64 B", Unit::Nanoseconds));
    for (index, (trains, name)) in
        [(false, "alone"), (true, "next to trains of 4 KiB")].into_iter().enumerate()
    {
        let p99 = |method| points.at(&beside(method, trains)).map_or(f64::NAN, |seen| seen.p99(OTHERS));
        chart = chart.bars(name, Ink::nth(index), methods.map(p99).to_vec());
    }
    Section::new("Several queues: in order and with reassembly").figure(Figure::new(
        "p99 latency of four queues with payloads of 64 B",
        "Predicted. In order, a queue is read by one fetcher at a time; chunks for reassembly are fetched like any entries, but \
         carry 56 B each.",
        chart,
    ))
}

/// The size from which the Linux driver uses SGLs.
fn linux(points: &Points) -> Section {
    let header = ["payload", "data pointer", "bytes per payload, payload ledger", "mean latency"];
    let mut table = Table::new(header, 2).caption(
        "Predicted from a constant of the host's profile, on the board with a controller that has SGLs.",
    );
    for bytes in LINUX {
        let Ok(seen) = points.at(&by_linux(bytes)) else { continue };
        let pointer = if seen.by_way("sgl") > 0 { "SGL" } else { "PRP" };
        table.row([
            format!("{} B", grouped(bytes)),
            pointer.to_owned(),
            format!("{:.0} B", seen.bytes(Ledger::Payload)),
            time(seen.latency()),
        ]);
    }
    Section::new("Section 5: when the Linux driver uses SGLs").table(table)
}

/// The outlook: granularity and links.
fn links(points: &Points) -> Section {
    let names = LINKS.map(|(_, name)| name);
    let mut chart =
        Chart::new(Axis::names("", names), Axis::linear("latency, inline versus prp, %", Unit::Count));
    for (index, bytes) in OUTLOOK.into_iter().enumerate() {
        let gain = |(profile, _): (&'static str, &'static str)| -> f64 {
            let of =
                |method| points.at(&on_link(profile, method, bytes)).map_or(f64::NAN, |seen| seen.latency());
            change(of("inline"), of("prp"))
        };
        chart = chart.bars(format!("{bytes} B"), Ink::nth(index), LINKS.map(gain).to_vec());
    }
    let header = ["DMA granularity", "bytes, payload ledger", "bytes, wire ledger", "latency"];
    let mut table = Table::new(header, 1).caption("Predicted. Inline versus PRP at 64 B on Gen2 x8.");
    for (size, name) in UNITS {
        let (Ok(inline), Ok(prp)) =
            (points.at(&board("inline", 64)), points.at(&unit(board("prp", 64), size)))
        else {
            continue;
        };
        let of = |figure: &dyn Fn(PointResult<'_>) -> f64| {
            format!("{:+.1} %", change(figure(inline), figure(prp)))
        };
        table.row([
            name.to_owned(),
            of(&|seen| seen.bytes(Ledger::Payload)),
            of(&|seen| seen.bytes(Ledger::Wire)),
            of(&|seen| seen.latency()),
        ]);
    }
    Section::new("Section 5: finer DMA, faster links")
        .text(
            "Only the link is replaced; the firmware's cycles and the host's times stay. A faster link therefore saves only the wire \
             time of pages, and inline's gain shrinks accordingly.",
        )
        .figure(
            Figure::new(
                "Latency of inline versus PRP, by link",
                "Predicted. Below zero inline is faster. The bytes in the payload ledger are the same on every link.",
                chart,
            )
            .wide(),
        )
        .table(table)
}

/// All bytes in both ledgers, for both completion modes.
fn traffic(points: &Points) -> Section {
    let ledgers = [(Ledger::Payload, "payload"), (Ledger::Wire, "wire")];
    let columns = ledgers.iter().flat_map(|(_, ledger)| METHODS.map(|method| format!("{method}, {ledger}")));
    let header = ["payload".to_owned()].into_iter().chain(columns);
    let mut table = Table::new(header, 1)
        .caption("Predicted. Bytes per payload: polled / with an interrupt for each completion.");
    for bytes in TABLE {
        let mut row = vec![format!("{bytes} B")];
        for (ledger, _) in ledgers {
            for method in METHODS {
                let of = |spec: Spec| {
                    points.at(&spec).map_or("-".to_owned(), |seen| grouped(seen.bytes(ledger).round() as u64))
                };
                let spec = board(method, bytes);
                row.push(format!("{} / {}", of(polled(spec.clone())), of(spec)));
            }
        }
        table.row(row);
    }
    Section::new("Bytes on the link, to the byte")
        .text(
            "The payload ledger counts what packets carry, as a performance counter does; the paper's figures match it. The \
             wire ledger adds headers, CRC and framing; acknowledgements and flow control are in neither.",
        )
        .table(table)
}

/// Fig. 4.
fn queries() -> Section {
    let header = ["workload", "whole, B", "segment, B", "whole query", "table and predicate"];
    let mut table = Table::new(header, 1).caption(
        "Our queries: the paper prints none. It states that the full texts of the first three, and all segments, are below 100 B.",
    );
    for workload in WORKLOADS {
        table.row([
            workload.name.to_owned(),
            workload.sql.len().to_string(),
            workload.segment.len().to_string(),
            workload.sql.to_owned(),
            workload.segment.to_owned(),
        ]);
    }
    Section::new("Fig. 4: queries").table(table)
}

/// The points of one method, for each workload.
type OfMethod = fn(&str) -> [Spec; WORKLOADS.len()];

/// Fig. 7.
fn push_down(points: &Points) -> Section {
    let names = WORKLOADS.map(|workload| workload.name);
    let mut section = Section::new("Fig. 7: how a query reaches the drive").text(
        "The drive receives and parses each query and checks it against its table, without executing it, one at a time. Parsing takes the board's \
         core the same time for all transfer methods. The drive supports no joins, and refuses the full text of Q2.",
    );
    let kinds: [(&str, OfMethod); 2] = [("whole texts", pushdown::texts), ("segments", pushdown::segments)];
    for (kind, of) in kinds {
        let axis = || Axis::names("", names);
        let mut bytes = Chart::new(axis(), Axis::linear("bytes per query", Unit::Bytes));
        let mut rate = Chart::new(axis(), Axis::linear("queries per second", Unit::Count));
        for (index, method) in METHODS.into_iter().enumerate() {
            let each = |figure: &dyn Fn(PointResult<'_>) -> f64| {
                of(method).iter().map(|spec| points.at(spec).map_or(f64::NAN, figure)).collect()
            };
            bytes = bytes.bars(method, Ink::nth(index), each(&|seen| seen.bytes(Ledger::Payload)));
            rate = rate.bars(method, Ink::nth(index), each(&|seen| seen.throughput()));
        }
        section = section
            .figure(Figure::new(
                format!("Bytes on the link per query: {kind}"),
                "Predicted. Payload ledger, both directions.",
                bytes,
            ))
            .figure(Figure::new(format!("Throughput: {kind}"), "Predicted, on the calibrated board.", rate));
    }
    let longer: Vec<&str> = WORKLOADS
        .iter()
        .filter(|workload| workload.sql.len() >= SHORT)
        .map(|workload| workload.name)
        .collect();
    section.text(format!("Longer than {SHORT} B in full: {}.", longer.join(", ")))
}
