//! The paper's figures 3, 4 and 10 to 19, redrawn.

use super::points::{self, Pattern, SIZES, large, latency, production};
use super::recipes::{
    CORES, DEPTHS, DRAM, DRIVES, LENDING, LOADS, RATIOS, bursts, conv_of, cores_busy, dram_rise, jbof,
    lender_load, mean, miss_percent, of_conv, throughput, with,
};
use super::workloads;
use crate::point::{PointResult, Points, Spec};
use crate::sketch::stages;
use byteway_report::{Axis, Chart, Figure, Ink, Section, Unit};
use byteway_results::cost::{Bill, Parts, Prices};
use byteway_results::summary::{EnergySummary, JbofSummary};
use byteway_scenario::Platform;

/// A name, and a component of a value.
type Part<T> = (&'static str, fn(&T) -> f64);

/// Points for the figures, in addition to those of the recipes: the other platforms.
pub(super) fn drawn() -> Vec<Spec> {
    let micro = Platform::ALL.into_iter().flat_map(|platform| {
        let writes = matches!(platform, Platform::Vh | Platform::VhIdeal);
        let patterns = if writes { &Pattern::WRITES[..] } else { &Pattern::ALL[..] };
        patterns.iter().flat_map(move |pattern| SIZES.map(|kib| large(platform, *pattern, kib)))
    });
    let small = [Pattern::RandomRead, Pattern::RandomWrite]
        .into_iter()
        .flat_map(|pattern| SMALL.map(|platform| latency(platform, pattern, 4)));
    let real = REAL
        .into_iter()
        .flat_map(|platform| workloads::ALL.iter().map(move |workload| production(platform, workload)));
    let proch = [Pattern::SequentialRead].map(|pattern| large(Platform::Proch, pattern, 256));
    let larger = [Platform::Conv, Platform::Shrunk].map(points::latency_of_large);
    micro.chain(small).chain(real).chain(proch).chain(larger).collect()
}

const SMALL: [Platform; 5] =
    [Platform::Conv, Platform::Oc, Platform::Shrunk, Platform::Proch, Platform::Espresso];
const REAL: [Platform; 6] =
    [Platform::Conv, Platform::Oc, Platform::Shrunk, Platform::Vh, Platform::VhIdeal, Platform::Espresso];

/// All sections.
pub(super) fn figures(points: &Points) -> Vec<Section> {
    vec![
        motivation(points),
        processors(points),
        dram(points),
        production_workloads(points),
        cost(points),
        lenders(points),
        overheads(points),
        cores(points),
        more_dram(points),
        groups(points),
        applications(points),
    ]
}

fn bytes_axis() -> Axis {
    Axis::linear("throughput, six drives", Unit::BytesPerSecond)
}

fn latency_axis() -> Axis {
    Axis::linear("mean latency", Unit::Nanoseconds)
}

/// Bars of platforms over names; failed points are omitted.
fn bars(
    names: Vec<String>,
    y: Axis,
    platforms: &[Platform],
    figure: impl Fn(Platform, usize) -> Option<f64>,
) -> Chart {
    let count = names.len();
    let mut chart = Chart::new(Axis::names("", names), y);
    for (index, platform) in platforms.iter().enumerate() {
        let values = (0..count).map(|at| figure(*platform, at).unwrap_or(f64::NAN)).collect();
        chart = chart.bars(platform.name(), Ink::nth(index), values);
    }
    chart
}

fn seen(points: &Points, spec: &Spec, figure: impl Fn(&PointResult<'_>) -> f64) -> Option<f64> {
    points.at(spec).ok().map(|seen| figure(&seen))
}

/// Figures 3 and 4.
fn motivation(points: &Points) -> Section {
    let prices = Prices::default();
    let bills: Vec<(&str, Bill)> = [("1 TB", 1.0), ("2 TB", 2.0), ("4 TB", 4.0), ("8 TB", 8.0)]
        .map(|(name, terabytes)| (name, Bill::of(&Parts::whole(terabytes), &prices)))
        .to_vec();
    let parts: [Part<Bill>; 3] = [
        ("controller and DRAM", |bill| bill.compute),
        ("flash", |bill| bill.flash),
        ("other", |bill| bill.other),
    ];
    let mut bill = Chart::new(
        Axis::names("", bills.iter().map(|(name, _)| *name)),
        Axis::linear("share of the bill", Unit::Share),
    )
    .stacked();
    for (index, (name, part)) in parts.into_iter().enumerate() {
        let values = bills.iter().map(|(_, bill)| part(bill) / bill.total()).collect();
        bill = bill.bars(name, Ink::nth(index), values);
    }
    let line: Vec<(f64, f64)> = DRIVES
        .into_iter()
        .filter_map(|drives| {
            let rate = seen(points, &points::scaled(Platform::Oc, drives), throughput)?;
            Some((f64::from(drives), rate))
        })
        .collect();
    let scaling = Chart::new(
        Axis::linear("drives", Unit::Count),
        Axis::linear("throughput, all drives", Unit::BytesPerSecond),
    )
    .marked("OC", Ink::nth(0), line);
    Section::new("Fig. 3 and 4: motivation")
        .text(
            "Figures 3(a), 3(c), 3(d) and 4(c) show processors on the market, and traces of which only statistics are public; 4(b) shows a \
             board. They are not drawn.",
        )
        .figure(Figure::new("Fig. 3(b): a drive's bill", "Analytic. The paper: 31.8 % of a drive of 4 TB.", bill))
        .figure(Figure::new(
            "Fig. 4(a): firmware of all drives on the host",
            "Predicted. The paper: no gain beyond four drives.",
            scaling,
        ))
}

/// Figure 10.
fn processors(points: &Points) -> Section {
    let mut section = Section::new("Fig. 10: borrowed processors").text(
        "Six of twelve drives have a tenant with 64 I/Os outstanding. VH includes the burst and the subsequent copy back.",
    );
    for pattern in Pattern::ALL {
        let names = || SIZES.map(|kib| format!("{kib} KiB")).to_vec();
        let chart = bars(names(), bytes_axis(), &Platform::ALL, |platform, at| {
            seen(points, &large(platform, pattern, SIZES[at]), throughput)
        });
        let says = "Shrunk's throughput of reads is calibrated (8.1 GB/s a drive); the rest is predicted.";
        section = section.figure(Figure::new(format!("Fig. 10(a): {}", pattern.name()), says, chart));
    }
    let chart = bars(
        Pattern::ALL.map(|pattern| pattern.name().to_owned()).to_vec(),
        latency_axis(),
        &Platform::ALL,
        |platform, at| seen(points, &large(platform, Pattern::ALL[at], 256), |seen| seen.mean_of("burst")),
    );
    section = section.figure(Figure::new("Fig. 10(b): mean latency of 256 KiB", "Predicted.", chart));
    let lending = [Platform::Conv, Platform::Shrunk, Platform::Proch, Platform::Espresso];
    let chart = bars(
        vec!["borrowers".to_owned(), "lenders".to_owned()],
        Axis::linear("cores busy", Unit::Share),
        &lending,
        |platform, at| {
            let spec = large(platform, Pattern::SequentialRead, 256);
            jbof(points, &spec).ok().map(|jbof| cores_busy(jbof)[at])
        },
    );
    section.figure(Figure::new(
        "Fig. 10(c): processor utilization, sequential reads of 256 KiB",
        "Predicted. The paper: Espresso's utilization is 50.4 % above Shrunk's.",
        chart,
    ))
}

/// Figure 11.
fn dram(points: &Points) -> Section {
    let names = || vec!["random reads".to_owned(), "random writes".to_owned()];
    let pattern = |at: usize| [Pattern::RandomRead, Pattern::RandomWrite][at];
    let times = bars(names(), latency_axis(), &SMALL, |platform, at| {
        seen(points, &latency(platform, pattern(at), 4), |seen| seen.mean_of("one"))
    });
    let misses = bars(names(), Axis::linear("look-up miss ratio", Unit::Share), &SMALL, |platform, at| {
        let spec = latency(platform, pattern(at), 4);
        jbof(points, &spec).ok().map(|jbof| miss_percent(jbof) / 100.0)
    });
    let rise = |spec: fn(Platform) -> Spec| {
        let of = |platform| seen(points, &spec(platform), |seen| seen.mean_of("one"));
        of(Platform::Shrunk)
            .zip(of(Platform::Conv))
            .map_or(f64::NAN, |(own, conv)| 100.0 * (own / conv - 1.0))
    };
    let scaled = rise(|platform| latency(platform, Pattern::RandomRead, 4));
    Section::new("Fig. 11: DRAM lent")
        .text(format!(
            "I/O of 4 KiB, one at a time. Drives are a 512th of the paper's. On drives eight times as large Shrunk's latency of reads \
             is {:.1} % above Conv's, here {scaled:.1} %: scaling does not change the ratio.",
            rise(points::latency_of_large)
        ))
        .figure(Figure::new("Mean latency", "Conv's latency, and the cost of a miss, are calibrated.", times))
        .figure(Figure::new("Miss ratio of the map", "Analytic for all but Espresso.", misses))
}

/// Figure 12.
fn production_workloads(points: &Points) -> Section {
    let chart = bars(
        workloads::ALL.map(|workload| workload.name.to_owned()).to_vec(),
        Axis::linear("of Conv", Unit::Share),
        &REAL[1..],
        |platform, at| {
            let of = |platform| seen(points, &production(platform, &workloads::ALL[at]), throughput);
            Some(of(platform)? / of(Platform::Conv)?)
        },
    );
    Section::new("Fig. 12: production workloads, synthesized")
        .text(
            "From Table 3: shares of reads and mean sizes. Addresses and the number of outstanding I/Os (16) are ours: see the claims. VH includes the \
             burst and the subsequent copy back.",
        )
        .figure(Figure::new("Throughput", "Predicted.", chart).wide())
}

/// Figure 13.
fn cost(points: &Points) -> Section {
    let ali = workloads::named("Ali-0");
    let of = |platform: Platform| jbof(points, &production(platform, &ali)).ok();
    let names = || REAL.map(|platform| platform.name().to_owned()).to_vec();
    let conv = of(Platform::Conv);
    let mut chart = Chart::new(Axis::names("", names()), Axis::linear("of Conv", Unit::Share));
    let values: [Part<JbofSummary>; 2] = [
        ("bill of a drive of 4 TB", |jbof| jbof.dollars),
        ("IOPS per dollar in Ali-0", |jbof| jbof.iops_per_dollar),
    ];
    for (index, (name, value)) in values.into_iter().enumerate() {
        let each = REAL.map(|platform| match (of(platform), conv) {
            (Some(own), Some(conv)) => value(own) / value(conv),
            _ => f64::NAN,
        });
        chart = chart.bars(name, Ink::nth(index), each.to_vec());
    }
    let mut premium = Chart::new(
        Axis::linear("added cost of controller and DRAM by CXL", Unit::Share),
        Axis::linear("IOPS per dollar", Unit::Count),
    );
    if let (Some(own), Some(oc)) = (of(Platform::Espresso), of(Platform::Oc)) {
        let iops = own.iops_per_dollar * own.dollars;
        let compute = own.compute_dollars / 1.1;
        let rest = own.dollars - own.compute_dollars;
        let line = (0..=10).map(|tenth| {
            let share = f64::from(tenth) / 10.0;
            (share, iops / (rest + compute * (1.0 + share)))
        });
        premium = premium.line("Espresso", Ink::nth(0), line.collect::<Vec<_>>());
        premium = premium.line("OC", Ink::nth(1), vec![(0.0, oc.iops_per_dollar), (1.0, oc.iops_per_dollar)]);
    }
    let mut balance = Chart::new(
        Axis::linear("cost of a drive, dollars", Unit::Count),
        Axis::linear("throughput of Ali-0, six drives", Unit::BytesPerSecond),
    );
    for (index, platform) in LENDING.into_iter().enumerate() {
        let line: Vec<(f64, f64)> = CORES
            .into_iter()
            .filter_map(|cores| {
                let spec = with(platform, cores, 6);
                Some((jbof(points, &spec).ok()?.dollars, seen(points, &spec, throughput)?))
            })
            .collect();
        balance = balance.marked(platform.name(), Ink::nth(index), line);
    }
    if let Some(dollars) = jbof(points, &conv_of(6)).ok().map(|jbof| jbof.dollars)
        && let Some(rate) = seen(points, &conv_of(6), throughput)
    {
        balance = balance.marked("Conv", Ink::nth(2), vec![(dollars, rate)]);
    }
    Section::new("Fig. 13: cost")
        .text("With the paper's prices. The paper has no price of an OC drive: here it is that of Shrunk without its DRAM.")
        .figure(Figure::new("Fig. 13(a): bill, and IOPS per dollar", "The bill is analytic, IOPS are predicted.", chart))
        .figure(Figure::new("Fig. 13(b): break-even cost of CXL", "Predicted.", premium))
        .figure(Figure::new("Fig. 13(c): throughput by cost, with one to three cores", "Predicted.", balance))
}

/// Figure 14.
fn lenders(points: &Points) -> Section {
    let cases: Vec<(&str, u32)> =
        LOADS.into_iter().flat_map(|load| DEPTHS.map(|depth| (load, depth))).collect();
    let chart = |job: &'static str| {
        let names: Vec<String> = cases.iter().map(|(load, depth)| format!("{load}, {depth}")).collect();
        let values = cases.iter().map(|(load, depth)| {
            let of = |platform| {
                seen(points, &points::beside(platform, lender_load(load, *depth)), |seen| seen.rate(job))
            };
            of(Platform::Espresso).zip(of(Platform::Shrunk)).map_or(f64::NAN, |(own, other)| own / other)
        });
        let values = values.collect();
        Chart::new(Axis::names("", names), Axis::linear("Espresso relative to Shrunk", Unit::Share)).bars(
            "throughput",
            Ink::nth(0),
            values,
        )
    };
    Section::new("Fig. 14: lenders with their own load")
        .text("Lenders' loads with their numbers of outstanding I/Os. Borrowers read 64 KiB at random, 64 outstanding.")
        .figure(Figure::new("Fig. 14(a): lenders", "Predicted. The paper: 1.3 % less.", chart("own")))
        .figure(Figure::new("Fig. 14(b): borrowers", "Predicted. The paper: 15.5 to 30 % more.", chart("burst")))
}

/// Figure 15.
fn overheads(points: &Points) -> Section {
    let specs = [
        ("Conv, 4 KiB", Platform::Conv, 4),
        ("Espresso, 4 KiB", Platform::Espresso, 4),
        ("Conv, 64 KiB", Platform::Conv, 64),
        ("Espresso, 64 KiB", Platform::Espresso, 64),
    ];
    let breakdown = stages(
        points,
        specs.map(|(name, platform, kib)| (name, latency(platform, Pattern::RandomRead, kib))),
    );
    let fuji = workloads::named("Fuji-0");
    let names = REAL.map(|platform| platform.name().to_owned()).to_vec();
    let mut energy = Chart::new(Axis::names("", names), Axis::linear("nJ per byte", Unit::Count)).stacked();
    let parts: [Part<EnergySummary>; 4] = [
        ("flash", |energy| energy.flash),
        ("processors", |energy| energy.processor),
        ("links", |energy| energy.links),
        ("DRAM", |energy| energy.dram),
    ];
    for (index, (name, part)) in parts.into_iter().enumerate() {
        let values = REAL.map(|platform| {
            let spec = production(platform, &fuji);
            let bytes = seen(points, &spec, |seen| seen.bytes_of("burst"));
            let joules = jbof(points, &spec).ok().map(|jbof| part(&jbof.energy));
            joules.zip(bytes).map_or(f64::NAN, |(joules, bytes)| joules / bytes * 1e9)
        });
        energy = energy.bars(name, Ink::nth(index), values.to_vec());
    }
    Section::new("Fig. 15: overheads")
        .text("Transfers between drives are part of DRAM's share.")
        .figure(Figure::new("Fig. 15(a): latency breakdown of a random read", "Predicted.", breakdown))
        .figure(Figure::new("Fig. 15(b): energy of Fuji-0", "Predicted, without the host's.", energy))
}

/// Figure 16.
fn cores(points: &Points) -> Section {
    let names: Vec<String> = RATIOS.map(|borrowers| format!("{borrowers}:{}", 12 - borrowers)).to_vec();
    let mut chart =
        Chart::new(Axis::names("borrowers to lenders", names), Axis::linear("relative to Conv", Unit::Share));
    for (index, cores) in CORES.into_iter().enumerate() {
        let values = RATIOS.map(|borrowers| of_conv(points, cores, borrowers).unwrap_or(f64::NAN));
        chart = chart.bars(format!("Espresso, {cores} cores"), Ink::nth(index), values.to_vec());
    }
    let rates = CORES.map(|cores| {
        let own = seen(points, &with(Platform::Shrunk, cores, 6), throughput);
        own.zip(seen(points, &conv_of(6), throughput)).map_or(f64::NAN, |(own, conv)| own / conv)
    });
    let shrunk = Chart::new(
        Axis::names("cores", CORES.map(|cores| cores.to_string())),
        Axis::linear("of Conv", Unit::Share),
    )
    .bars("Shrunk", Ink::nth(0), rates.to_vec());
    Section::new("Fig. 16: fewer cores")
        .text("Ali-0, with DRAM for the whole map.")
        .figure(Figure::new(
            "Fig. 16(a): without lending",
            "Predicted. The paper: 54.6 % less with one core.",
            shrunk,
        ))
        .figure(Figure::new(
            "Fig. 16: by number of lenders",
            "Predicted. The paper: 97.7 % with two cores, 1:2.",
            chart,
        ))
}

/// Figure 17.
fn more_dram(points: &Points) -> Section {
    let chart = bars(
        DRAM.map(|dram| format!("{dram} GB a TB")).to_vec(),
        Axis::linear("latency above Conv's", Unit::Share),
        &LENDING,
        |platform, at| dram_rise(points, platform).ok().map(|rise| rise[at] / 100.0),
    );
    Section::new("Fig. 17: less DRAM").text("Random reads of 4 KiB, one at a time, with six cores.").figure(
        Figure::new(
            "Latency",
            "Predicted. The paper: Shrunk 44.0, 22.3, 10.0 %; Espresso 3.4 % on average.",
            chart,
        ),
    )
}

/// The cumulative distribution of values.
fn distribution(mut values: Vec<f64>) -> Vec<(f64, f64)> {
    values.sort_by(f64::total_cmp);
    let count = values.len() as f64;
    values.into_iter().enumerate().map(|(index, value)| (value, (index + 1) as f64 / count)).collect()
}

/// Figure 18.
fn groups(points: &Points) -> Section {
    let mut rates = Chart::new(
        Axis::linear("throughput of a tenant", Unit::BytesPerSecond),
        Axis::linear("share of the tenants", Unit::Share),
    );
    let mut times = Chart::new(
        Axis::linear("time of a burst", Unit::Nanoseconds),
        Axis::linear("share of the tenants", Unit::Share),
    );
    for (index, platform) in LENDING.into_iter().enumerate() {
        let Ok(bursts) = bursts(points, platform) else { continue };
        let (of_rates, of_times) = bursts.into_iter().unzip();
        rates = rates.line(platform.name(), Ink::nth(index), distribution(of_rates));
        times = times.line(platform.name(), Ink::nth(index), distribution(of_times));
    }
    Section::new("Fig. 18: twelve tenants, ten times")
        .text(
            "Every drive has a tenant with one of Tencent's workloads, synthesized, and a burst at a different time: drives use about 27.8 % \
             of their bandwidth, as Tencent's do in Fig. 3(d).",
        )
        .figure(Figure::new("Fig. 18(a): throughput", "Predicted. The paper: up to 12.3 GB/s, Shrunk 8.1.", rates))
        .figure(Figure::new("Fig. 18(b): completion time", "Predicted. The paper: up to 34.3 % less.", times))
}

/// Figure 19.
fn applications(points: &Points) -> Section {
    let chart = bars(
        vec!["filebench".to_owned(), "db_bench".to_owned()],
        Axis::linear("throughput", Unit::BytesPerSecond),
        &LENDING,
        |platform, at| {
            let name = ["filebench", "db_bench"][at];
            seen(points, &points::two_drives(platform, name), throughput)
        },
    );
    let gain = mean(["filebench", "db_bench"].map(|name| {
        let of = |platform| seen(points, &points::two_drives(platform, name), throughput);
        of(Platform::Espresso).zip(of(Platform::Shrunk)).map_or(f64::NAN, |(own, other)| own / other - 1.0)
    }));
    Section::new("Fig. 19: applications")
        .text(format!(
            "The paper's figure is from an emulator on two sockets, which is out of scope here. Instead, one busy drive with an idle one \
             next to it runs the I/O of such applications: {:.1} % more.",
            100.0 * gain
        ))
        .figure(Figure::new("Throughput", "Predicted. The paper: 24.8 % more.", chart))
}
