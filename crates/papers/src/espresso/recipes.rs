//! Measurements of the claims about throughput, latency and energy.

use super::points::{self, BORROWERS, DEPTH, LENDERS, Pattern, SIZES, large, latency, production};
use super::workloads::{self, Production};
use crate::error::{ClaimError, Measured};
use crate::judgement::Measurement;
use crate::paper::Recipe;
use crate::point::{PointResult, Points, Spec};
use crate::sketch::change;
use crate::tenants::Tenants;
use byteway_results::summary::JbofSummary;
use byteway_scenario::Platform;
use byteway_text::table::{grouped, time};

pub(super) const RECIPES: [Recipe; 29] = [
    Recipe {
        id: "ES01",
        points: || sequential_256([Platform::Shrunk, Platform::Espresso]),
        measure: utilisation,
    },
    Recipe { id: "ES09", points: scaling, measure: saturates },
    Recipe {
        id: "ES12",
        points: || read_dominated([Platform::Shrunk, Platform::VhIdeal]),
        measure: harvest_of_reads,
    },
    Recipe {
        id: "ES13",
        points: || vec![production(Platform::Vh, &workloads::named("Tencent-1"))],
        measure: extra_writes,
    },
    Recipe { id: "ES15", points: managed, measure: management },
    Recipe {
        id: "ES22",
        points: || micro(&[Platform::Conv, Platform::Oc]),
        measure: |points| micro_throughput(points, Platform::Oc, &Pattern::ALL),
    },
    Recipe {
        id: "ES23",
        points: || micro(&[Platform::Conv, Platform::Shrunk]),
        measure: |points| micro_throughput(points, Platform::Shrunk, &Pattern::ALL),
    },
    Recipe {
        id: "ES24",
        points: || micro(&[Platform::Conv, Platform::Oc, Platform::Shrunk]),
        measure: micro_latency,
    },
    Recipe {
        id: "ES25",
        points: || micro_writes(&[Platform::Conv, Platform::VhIdeal]),
        measure: |points| micro_throughput(points, Platform::VhIdeal, &Pattern::WRITES),
    },
    Recipe {
        id: "ES26",
        points: || micro_writes(&[Platform::Conv, Platform::Vh]),
        measure: |points| micro_throughput(points, Platform::Vh, &Pattern::WRITES),
    },
    Recipe {
        id: "ES27",
        points: || micro(&[Platform::Conv, Platform::Espresso]),
        measure: |points| micro_throughput(points, Platform::Espresso, &Pattern::ALL),
    },
    Recipe {
        id: "ES28",
        points: || small(&[Platform::Oc, Platform::Shrunk, Platform::Proch]),
        measure: miss_ratios,
    },
    Recipe {
        id: "ES29",
        points: || small(&[Platform::Conv, Platform::Oc, Platform::Shrunk, Platform::Proch]),
        measure: miss_latency,
    },
    Recipe { id: "ES30", points: espresso_latency_points, measure: espresso_latency },
    Recipe {
        id: "ES31",
        points: || all_workloads(&[Platform::Conv, Platform::Oc, Platform::Shrunk]),
        measure: real_losses,
    },
    Recipe {
        id: "ES32",
        points: || one_workload("src", &[Platform::Shrunk, Platform::VhIdeal]),
        measure: ideal_of_src,
    },
    Recipe {
        id: "ES33",
        points: || all_workloads(&[Platform::Conv, Platform::Vh]),
        measure: |points| real_gain(points, Platform::Vh, Platform::Conv),
    },
    Recipe {
        id: "ES34",
        points: || all_workloads(&[Platform::Shrunk, Platform::Espresso]),
        measure: |points| real_gain(points, Platform::Espresso, Platform::Shrunk),
    },
    Recipe {
        id: "ES35",
        points: || all_workloads(&[Platform::Vh, Platform::Espresso]),
        measure: |points| real_gain(points, Platform::Espresso, Platform::Vh),
    },
    Recipe {
        id: "ES36",
        points: || one_workload("Ali-0", &[Platform::Conv, Platform::Espresso]),
        measure: |points| one_gain(points, "Ali-0", Platform::Espresso, Platform::Conv),
    },
    Recipe {
        id: "ES37",
        points: || one_workload("Ali-0", &[Platform::VhIdeal, Platform::Espresso]),
        measure: beats_ideal,
    },
    Recipe {
        id: "ES38",
        points: || one_workload("Ali-0", &[Platform::Oc, Platform::Espresso]),
        measure: per_dollar,
    },
    Recipe { id: "ES40", points: lenders_points, measure: lenders_lose },
    Recipe { id: "ES41", points: lenders_points, measure: borrowers_gain },
    Recipe { id: "ES42", points: lenders_points, measure: too_busy_to_lend },
    Recipe { id: "ES43", points: breakdown, measure: flash_and_processor },
    Recipe { id: "ES44", points: breakdown, measure: between_drives },
    Recipe {
        id: "ES46",
        points: || one_workload("Fuji-0", &[Platform::Conv, Platform::Espresso]),
        measure: energy,
    },
    Recipe { id: "ES56", points: || peak_points().to_vec(), measure: peak },
];

pub(super) const MORE: [Recipe; 9] = [
    Recipe { id: "ES47", points: cores_points, measure: one_core },
    Recipe { id: "ES48", points: cores_points, measure: two_cores },
    Recipe { id: "ES49", points: cores_points, measure: no_further_gain },
    Recipe { id: "ES50", points: dram_points, measure: dram_of_shrunk },
    Recipe { id: "ES51", points: dram_points, measure: dram_of_espresso },
    Recipe { id: "ES52", points: group_points, measure: peaks_of_groups },
    Recipe { id: "ES53", points: group_points, measure: completion_of_groups },
    Recipe { id: "ES54", points: application_points, measure: applications },
    Recipe {
        id: "ES39",
        points: || one_workload("Ali-0", &[Platform::Oc, Platform::Espresso]),
        measure: break_even,
    },
];

pub(super) fn mean(numbers: impl IntoIterator<Item = f64>) -> f64 {
    let (count, sum) = numbers.into_iter().fold((0, 0.0), |(count, sum), number| (count + 1, sum + number));
    sum / f64::from(count)
}

pub(super) fn gigabytes(bytes_per_second: f64) -> String {
    format!("{:.2}", bytes_per_second / 1e9)
}

/// Bytes per second of the tenants with a burst; for VH, over the burst and the copying after it.
pub(super) fn throughput(seen: &PointResult<'_>) -> f64 {
    let copied_by = seen.jbof().into_iter().flat_map(|jbof| &jbof.drives).filter_map(|row| row.copied_by_ns);
    match copied_by.reduce(f64::max) {
        // The burst ends before its last byte is copied back.
        Some(copied_by_ns) => seen.bytes_of("burst") / copied_by_ns * 1e9,
        None => seen.rate("burst"),
    }
}

pub(super) fn jbof<'a>(points: &'a Points, spec: &Spec) -> Measured<&'a JbofSummary> {
    let none = || ClaimError::NoFigure(format!("{}: the drives are not in a JBOF", spec.name()));
    points.at(spec)?.jbof().ok_or_else(none)
}

fn rate(points: &Points, spec: &Spec) -> Measured<f64> {
    Ok(throughput(&points.at(spec)?))
}

// Figure 10.

fn sequential_256<const N: usize>(platforms: [Platform; N]) -> Vec<Spec> {
    platforms.map(|platform| large(platform, Pattern::SequentialRead, 256)).to_vec()
}

/// Mean utilisation of the drives' cores: of drives with a tenant, and without.
pub(super) fn cores_busy(jbof: &JbofSummary) -> [f64; 2] {
    let of = |drives: std::ops::Range<u16>| {
        let rows = &jbof.drives[usize::from(drives.start)..usize::from(drives.end)];
        mean(rows.iter().map(|row| row.cores_busy))
    };
    [of(BORROWERS), of(LENDERS)]
}

fn utilisation(points: &Points) -> Measured<Measurement> {
    let of = |platform| -> Measured<[f64; 2]> {
        Ok(cores_busy(jbof(points, &large(platform, Pattern::SequentialRead, 256))?))
    };
    let (shrunk, espresso) = (of(Platform::Shrunk)?, of(Platform::Espresso)?);
    let detail = format!(
        "Cores busy, borrowers and lenders: Shrunk {:.1} and {:.1} %, Espresso {:.1} and {:.1} %.",
        100.0 * shrunk[0],
        100.0 * shrunk[1],
        100.0 * espresso[0],
        100.0 * espresso[1]
    );
    Ok(Measurement::of([change(mean(espresso), mean(shrunk))]).detail(detail))
}

fn micro_of(platforms: &[Platform], patterns: &[Pattern]) -> Vec<Spec> {
    let each = |platform: Platform| {
        patterns.iter().flat_map(move |pattern| SIZES.map(|kib| large(platform, *pattern, kib)))
    };
    platforms.iter().flat_map(|platform| each(*platform)).collect()
}

fn micro(platforms: &[Platform]) -> Vec<Spec> {
    micro_of(platforms, &Pattern::ALL)
}

fn micro_writes(platforms: &[Platform]) -> Vec<Spec> {
    micro_of(platforms, &Pattern::WRITES)
}

/// A figure relative to Conv's by pattern and size, in percent: the mean, and all values in words.
fn against_conv(
    points: &Points,
    platform: Platform,
    patterns: &[Pattern],
    figure: fn(&PointResult<'_>) -> f64,
) -> Measured<(f64, String)> {
    let (mut all, mut words) = (Vec::new(), Vec::new());
    for pattern in patterns {
        let mut each = Vec::new();
        for kib in SIZES {
            let of = |platform| -> Measured<f64> { Ok(figure(&points.at(&large(platform, *pattern, kib))?)) };
            let found = change(of(platform)?, of(Platform::Conv)?);
            all.push(found);
            each.push(format!("{found:+.1}"));
        }
        words.push(format!("{} {}", pattern.name(), each.join(", ")));
    }
    Ok((mean(all), words.join("; ")))
}

fn micro_throughput(points: &Points, platform: Platform, patterns: &[Pattern]) -> Measured<Measurement> {
    let (found, words) = against_conv(points, platform, patterns, throughput)?;
    let detail = format!("{} versus Conv, per cent, for 64, 128, 256 KiB: {words}.", platform.name());
    Ok(Measurement::of([found]).detail(detail))
}

fn micro_latency(points: &Points) -> Measured<Measurement> {
    let mut values = Vec::new();
    let mut details = Vec::new();
    for platform in [Platform::Oc, Platform::Shrunk] {
        let (found, words) = against_conv(points, platform, &Pattern::ALL, |seen| seen.mean_of("burst"))?;
        values.push(found);
        details.push(format!("{}: {words}", platform.name()));
    }
    Ok(Measurement::of(values).detail(format!("{}.", details.join(". "))))
}

fn peak_points() -> [Spec; 2] {
    [Pattern::RandomRead, Pattern::RandomWrite].map(|pattern| large(Platform::Conv, pattern, 256))
}

fn peak(points: &Points) -> Measured<Measurement> {
    let of = |spec: &Spec| -> Measured<f64> { Ok(rate(points, spec)? / 6.0 / 1e9) };
    let [reads, writes] = peak_points();
    Ok(Measurement::of([of(&reads)?, of(&writes)?]).detail("A drive of Conv, random I/O of 256 KiB."))
}

// Figure 11.

fn small(platforms: &[Platform]) -> Vec<Spec> {
    platforms.iter().map(|platform| latency(*platform, Pattern::RandomRead, 4)).collect()
}

/// Miss ratio of the map over the drives with a tenant, in percent.
pub(super) fn miss_percent(jbof: &JbofSummary) -> f64 {
    let rows = jbof.drives.iter().filter_map(|row| row.map_miss_ratio);
    let all: Vec<f64> = rows.collect();
    if all.is_empty() { 0.0 } else { 100.0 * mean(all) }
}

fn miss_ratios(points: &Points) -> Measured<Measurement> {
    let of = |platform| -> Measured<f64> {
        Ok(miss_percent(jbof(points, &latency(platform, Pattern::RandomRead, 4))?))
    };
    Ok(Measurement::of([of(Platform::Oc)?, of(Platform::Shrunk)?, of(Platform::Proch)?]))
}

/// Mean latency with one outstanding I/O of 4 KiB, in nanoseconds.
fn one_at_a_time(points: &Points, platform: Platform, pattern: Pattern) -> Measured<f64> {
    Ok(points.at(&latency(platform, pattern, 4))?.mean_of("one"))
}

fn miss_latency(points: &Points) -> Measured<Measurement> {
    let of = |platform| one_at_a_time(points, platform, Pattern::RandomRead);
    let conv = of(Platform::Conv)?;
    let others = [of(Platform::Oc)?, of(Platform::Shrunk)?, of(Platform::Proch)?];
    let words = others.map(time).join(", ");
    Ok(Measurement::of(others.map(|other| change(other, conv)))
        .detail(format!("Mean latency: Conv {}; OC, Shrunk, ProcH {words}.", time(conv))))
}

fn espresso_latency_points() -> Vec<Spec> {
    small(&[Platform::Conv, Platform::Espresso])
}

fn espresso_latency(points: &Points) -> Measured<Measurement> {
    let conv = one_at_a_time(points, Platform::Conv, Pattern::RandomRead)?;
    let espresso = one_at_a_time(points, Platform::Espresso, Pattern::RandomRead)?;
    let misses = miss_percent(jbof(points, &latency(Platform::Espresso, Pattern::RandomRead, 4))?);
    let detail = format!(
        "Conv {}, Espresso {}, with a look-up miss ratio of {misses:.1} %.",
        time(conv),
        time(espresso)
    );
    Ok(Measurement::of([change(espresso, conv)]).detail(detail))
}

// Figure 12.

pub(super) fn all_workloads(platforms: &[Platform]) -> Vec<Spec> {
    let each = |platform: Platform| workloads::ALL.iter().map(move |workload| production(platform, workload));
    platforms.iter().flat_map(|platform| each(*platform)).collect()
}

fn one_workload(name: &str, platforms: &[Platform]) -> Vec<Spec> {
    let workload = workloads::named(name);
    platforms.iter().map(|platform| production(*platform, &workload)).collect()
}

/// Throughput relative to another platform's by workload, in percent.
fn gains(points: &Points, ours: Platform, theirs: Platform) -> Measured<Vec<(&'static str, f64)>> {
    let each = |workload: &Production| {
        let of = |platform| rate(points, &production(platform, workload));
        Ok((workload.name, change(of(ours)?, of(theirs)?)))
    };
    workloads::ALL.iter().map(each).collect()
}

fn in_words(gains: &[(&str, f64)]) -> String {
    gains.iter().map(|(name, gain)| format!("{name} {gain:+.1}")).collect::<Vec<_>>().join(", ")
}

fn real_gain(points: &Points, ours: Platform, theirs: Platform) -> Measured<Measurement> {
    let gains = gains(points, ours, theirs)?;
    let detail = format!("{} versus {}, per cent: {}.", ours.name(), theirs.name(), in_words(&gains));
    Ok(Measurement::of([mean(gains.iter().map(|gain| gain.1))]).detail(detail))
}

fn real_losses(points: &Points) -> Measured<Measurement> {
    let (mut values, mut details) = (Vec::new(), Vec::new());
    for platform in [Platform::Oc, Platform::Shrunk] {
        let gains = gains(points, platform, Platform::Conv)?;
        values.push(mean(gains.iter().map(|gain| gain.1)));
        details.push(format!("{}: {}", platform.name(), in_words(&gains)));
    }
    Ok(Measurement::of(values).detail(format!("{}.", details.join(". "))))
}

fn one_gain(points: &Points, name: &str, ours: Platform, theirs: Platform) -> Measured<Measurement> {
    let workload = workloads::named(name);
    let of = |platform| rate(points, &production(platform, &workload));
    let (own, other) = (of(ours)?, of(theirs)?);
    let detail = format!(
        "{} {} GB/s, {} {} GB/s, six drives together, {DEPTH} outstanding each.",
        theirs.name(),
        gigabytes(other),
        ours.name(),
        gigabytes(own)
    );
    Ok(Measurement::of([change(own, other)]).detail(detail))
}

fn ideal_of_src(points: &Points) -> Measured<Measurement> {
    one_gain(points, "src", Platform::VhIdeal, Platform::Shrunk)
}

fn beats_ideal(points: &Points) -> Measured<Measurement> {
    let found = one_gain(points, "Ali-0", Platform::Espresso, Platform::VhIdeal)?;
    let gain = found.values[0];
    Ok(Measurement { values: Vec::new(), ..found }
        .check("Espresso does more than VH (ideal) in Ali-0", gain > 0.0))
}

const READ_DOMINATED: [[&str; 2]; 2] = [["Tencent-0", "Tencent-2"], ["Ali-0", "Ali-1"]];

fn read_dominated<const N: usize>(platforms: [Platform; N]) -> Vec<Spec> {
    READ_DOMINATED.iter().flatten().flat_map(|name| one_workload(name, &platforms)).collect()
}

fn harvest_of_reads(points: &Points) -> Measured<Measurement> {
    let mut values = Vec::new();
    for names in READ_DOMINATED {
        let gains = names.map(|name| one_gain(points, name, Platform::VhIdeal, Platform::Shrunk));
        let gains = gains.into_iter().map(|gain| Ok(gain?.values[0])).collect::<Measured<Vec<f64>>>()?;
        values.push(mean(gains));
    }
    Ok(Measurement::of(values)
        .detail("VH without its copying, versus Shrunk: Tencent-0 and -2; Ali-0 and -1."))
}

fn extra_writes(points: &Points) -> Measured<Measurement> {
    let spec = production(Platform::Vh, &workloads::named("Tencent-1"));
    let rows = &jbof(points, &spec)?.drives;
    let copied: u64 = rows.iter().map(|row| row.copied_bytes).sum();
    let written = points.at(&spec)?.bytes_of("burst");
    Ok(Measurement::default().detail(format!(
        "In a burst of Tencent-1 {:.2} bytes were copied back per requested byte: a drive that is written once per day, only \
         in such bursts, has this many additional drive writes per day. The share of bursts is only in the traces.",
        copied as f64 / written
    )))
}

fn managed() -> Vec<Spec> {
    let workload = workloads::named("Tencent-0");
    [Platform::Shrunk, Platform::VhIdeal].map(|platform| points::managed(platform, &workload)).to_vec()
}

fn management(points: &Points) -> Measured<Measurement> {
    let workload = workloads::named("Tencent-0");
    let of = |platform| rate(points, &points::managed(platform, &workload));
    let (shrunk, managed) = (of(Platform::Shrunk)?, of(Platform::VhIdeal)?);
    let detail = format!(
        "All twelve drives run Tencent-0, so that none can lend: {} GB/s, under a hypervisor {} GB/s.",
        gigabytes(shrunk),
        gigabytes(managed)
    );
    Ok(Measurement::of([change(managed, shrunk)]).detail(detail))
}

/// Numbers of drives in Figure 4(a).
pub(super) const DRIVES: [u16; 6] = [1, 2, 4, 6, 8, 12];

fn scaling() -> Vec<Spec> {
    DRIVES.map(|drives| points::scaled(Platform::Oc, drives)).to_vec()
}

fn saturates(points: &Points) -> Measured<Measurement> {
    let rates = DRIVES.map(|drives| rate(points, &points::scaled(Platform::Oc, drives)));
    let rates = rates.into_iter().collect::<Measured<Vec<f64>>>()?;
    let words: Vec<String> =
        DRIVES.iter().zip(&rates).map(|(drives, rate)| format!("{drives}: {}", gigabytes(*rate))).collect();
    // "Saturated with only 4 SSDs": three times as many drives then gain at most 10 %, by which other figures
    // vary.
    Ok(Measurement::default()
        .check("with four drives throughput still grows as their number does", rates[2] > 3.2 * rates[0])
        .check("twelve have at most a tenth more than four", rates[5] < 1.1 * rates[2])
        .detail(format!("GB/s by drives, random reads of 64 KiB: {}.", words.join(", "))))
}

fn per_dollar(points: &Points) -> Measured<Measurement> {
    let workload = workloads::named("Ali-0");
    let of =
        |platform| -> Measured<f64> { Ok(jbof(points, &production(platform, &workload))?.iops_per_dollar) };
    let (oc, espresso) = (of(Platform::Oc)?, of(Platform::Espresso)?);
    Ok(Measurement::of([change(espresso, oc)]).detail(format!(
        "IOPS per dollar: OC {oc:.0}, Espresso {espresso:.0}. The paper has no price of an OC drive: here it is that of Shrunk without its DRAM."
    )))
}

fn break_even(points: &Points) -> Measured<Measurement> {
    let workload = workloads::named("Ali-0");
    let seen = |platform| -> Measured<(f64, JbofSummary)> {
        let spec = production(platform, &workload);
        Ok((rate(points, &spec)?, jbof(points, &spec)?.clone()))
    };
    let ((oc_rate, oc), (own_rate, own)) = (seen(Platform::Oc)?, seen(Platform::Espresso)?);
    // The permissible price of Espresso's drive at equal throughput per dollar, and the part of it for CXL.
    let may_cost = oc.dollars * own_rate / oc_rate;
    let without_cxl = own.compute_dollars / 1.1;
    let premium = (may_cost - (own.dollars - own.compute_dollars)) / without_cxl - 1.0;
    Ok(Measurement::of([100.0 * premium]).detail(format!(
        "Espresso's throughput is {:+.1} % versus OC's: equal per dollar as long as CXL raises the cost of controller and DRAM by no more than {:.0} %.",
        change(own_rate, oc_rate),
        100.0 * premium
    )))
}

fn energy(points: &Points) -> Measured<Measurement> {
    let workload = workloads::named("Fuji-0");
    let of = |platform| -> Measured<(f64, f64)> {
        let spec = production(platform, &workload);
        let joules = jbof(points, &spec)?.energy.joules();
        Ok((joules / points.at(&spec)?.bytes_of("burst"), joules))
    };
    let ((conv, _), (espresso, _)) = (of(Platform::Conv)?, of(Platform::Espresso)?);
    Ok(Measurement::of([change(espresso, conv)]).detail(format!(
        "Per gigabyte transferred: Conv {:.3} J, Espresso {:.3} J, without the host.",
        conv * 1e9,
        espresso * 1e9
    )))
}

// Figure 14.

/// Loads of the lenders.
pub(super) const LOADS: [&str; 3] = ["4 KB writes", "src", "Fuji-0"];
pub(super) const DEPTHS: [u32; 3] = [32, 16, 1];

pub(super) fn lender_load(load: &str, depth: u32) -> Tenants {
    match load {
        "4 KB writes" => Tenants::new("own", LENDERS, "write", 4096, depth),
        name => workloads::named(name).tenants("own", LENDERS, depth),
    }
}

pub(super) const LENDING: [Platform; 2] = [Platform::Shrunk, Platform::Espresso];

fn lenders_points() -> Vec<Spec> {
    let each = |load: &'static str| {
        DEPTHS
            .into_iter()
            .flat_map(move |depth| LENDING.map(|platform| points::beside(platform, lender_load(load, depth))))
    };
    LOADS.into_iter().flat_map(each).collect()
}

/// Throughput of the jobs with this name in Espresso relative to Shrunk, in percent.
fn lending_change(points: &Points, load: &str, depth: u32, job: &str) -> Measured<f64> {
    let of = |platform| -> Measured<f64> {
        Ok(points.at(&points::beside(platform, lender_load(load, depth)))?.rate(job))
    };
    Ok(change(of(Platform::Espresso)?, of(Platform::Shrunk)?))
}

/// Share of the borrowers' commands below which lenders are too busy to lend.
const LENDING_MIN: f64 = 0.05;

/// The share of the borrowers' commands that lenders with this load execute.
fn by_lenders(points: &Points, load: &str, depth: u32) -> Measured<f64> {
    let spec = points::beside(Platform::Espresso, lender_load(load, depth));
    let rows = &jbof(points, &spec)?.drives[..6];
    let (by_peers, all) = rows.iter().fold((0, 0), |sum, row| (sum.0 + row.redirected, sum.1 + row.commands));
    Ok(by_peers as f64 / all as f64)
}

/// As in the paper, without the cases in which lenders are too busy to lend, because they lose nothing then.
fn lenders_lose(points: &Points) -> Measured<Measurement> {
    let (mut all, mut words, mut omitted) = (Vec::new(), Vec::new(), Vec::new());
    for load in LOADS {
        for depth in DEPTHS {
            if by_lenders(points, load, depth)? < LENDING_MIN {
                omitted.push(format!("{load} at {depth}"));
                continue;
            }
            let found = lending_change(points, load, depth, "own")?;
            all.push(found);
            words.push(format!("{load} at {depth} {found:+.1}"));
        }
    }
    if all.is_empty() {
        return Err(ClaimError::NoFigure("lenders lend in none of the cases".to_owned()));
    }
    let worst = all.iter().copied().fold(0.0, f64::min);
    let omitted = match omitted.len() {
        0 => String::new(),
        _ => format!(" Too busy to lend, and omitted: {}.", omitted.join(", ")),
    };
    Ok(Measurement::of([mean(all)]).detail(format!(
        "Lenders' throughput versus Shrunk, per cent: {}; at worst {worst:+.1}.{omitted}",
        words.join(", ")
    )))
}

fn borrowers_gain(points: &Points) -> Measured<Measurement> {
    let each = DEPTHS.map(|depth| lending_change(points, "4 KB writes", depth, "burst"));
    let each = each.into_iter().collect::<Measured<Vec<f64>>>()?;
    Ok(Measurement::of(each)
        .detail("Borrowers: random reads of 64 KiB, 64 outstanding; the paper names no workload."))
}

fn too_busy_to_lend(points: &Points) -> Measured<Measurement> {
    let (busy, idle) = (by_lenders(points, "src", 32)?, by_lenders(points, "src", 1)?);
    Ok(Measurement::default()
        .check("lenders with src at depth 32 execute next to nothing for others", busy < LENDING_MIN)
        .check("at depth 1 they do", idle > 0.2)
        .detail(format!(
            "Of the borrowers' commands {:.1} % at depth 32, {:.1} % at depth 1.",
            100.0 * busy,
            100.0 * idle
        )))
}

// Figure 15(a).

const BREAKDOWN_KIB: [u64; 2] = [4, 64];

fn breakdown() -> Vec<Spec> {
    let each = |platform| BREAKDOWN_KIB.map(|kib| latency(platform, Pattern::RandomRead, kib));
    [Platform::Conv, Platform::Espresso].into_iter().flat_map(each).collect()
}

/// The sum of the stages that correspond to one of the paper's six parts. Transfers between drives are part
/// of DRAM.
fn part(seen: &PointResult<'_>, stages: &[&str]) -> f64 {
    stages.iter().map(|stage| seen.stage(stage)).sum()
}

fn flash_and_processor(points: &Points) -> Measured<Measurement> {
    let (mut flash, mut processor, mut words) = (Vec::new(), Vec::new(), Vec::new());
    for kib in BREAKDOWN_KIB {
        let conv = points.at(&latency(Platform::Conv, Pattern::RandomRead, kib))?;
        let espresso = points.at(&latency(Platform::Espresso, Pattern::RandomRead, kib))?;
        let of = |stages: &[&str]| change(part(&espresso, stages), part(&conv, stages));
        let (of_flash, of_processor) = (of(&["flash"]), of(&["firmware"]));
        flash.push(of_flash);
        processor.push(of_processor);
        words.push(format!("{kib} KiB: flash {of_flash:+.1}, processor {of_processor:+.1}"));
    }
    Ok(Measurement::of([mean(flash), mean(processor)])
        .detail(format!("Versus Conv, per cent. {}.", words.join("; "))))
}

fn between_drives(points: &Points) -> Measured<Measurement> {
    let mut shares = Vec::new();
    for kib in BREAKDOWN_KIB {
        let conv = points.at(&latency(Platform::Conv, Pattern::RandomRead, kib))?;
        let espresso = points.at(&latency(Platform::Espresso, Pattern::RandomRead, kib))?;
        let more = part(&espresso, &["dram", "link"]) - part(&conv, &["dram", "link"]);
        shares.push(100.0 * more / espresso.mean_of("one"));
    }
    let most = shares.iter().copied().fold(0.0, f64::max);
    Ok(Measurement::default()
        .check("what crosses between drives takes at most 2.9 % of the time", most <= 2.9)
        .detail(format!("For 4 and 64 KiB {:.2} and {:.2} %.", shares[0], shares[1])))
}

// Figure 16.

pub(super) const CORES: [u16; 3] = [1, 2, 3];
/// Numbers of borrowers among twelve drives.
pub(super) const RATIOS: [u16; 5] = [11, 6, 4, 2, 1];

pub(super) fn ali() -> Production {
    workloads::named("Ali-0")
}

pub(super) fn conv_of(borrowers: u16) -> Spec {
    points::with_cores(Platform::Conv, 6, borrowers, &ali())
}

pub(super) fn with(platform: Platform, cores: u16, borrowers: u16) -> Spec {
    points::with_cores(platform, cores, borrowers, &ali())
}

fn cores_points() -> Vec<Spec> {
    let shrunk = CORES.map(|cores| with(Platform::Shrunk, cores, 6));
    let espresso = CORES
        .into_iter()
        .flat_map(|cores| RATIOS.map(|borrowers| with(Platform::Espresso, cores, borrowers)));
    RATIOS.map(conv_of).into_iter().chain(shrunk).chain(espresso).collect()
}

fn one_core(points: &Points) -> Measured<Measurement> {
    let (shrunk, conv) = (rate(points, &with(Platform::Shrunk, 1, 6))?, rate(points, &conv_of(6))?);
    Ok(Measurement::of([change(shrunk, conv)]))
}

/// Throughput of Espresso per borrower relative to Conv's.
pub(super) fn of_conv(points: &Points, cores: u16, borrowers: u16) -> Measured<f64> {
    Ok(rate(points, &with(Platform::Espresso, cores, borrowers))? / rate(points, &conv_of(borrowers))?)
}

fn two_cores(points: &Points) -> Measured<Measurement> {
    let each = RATIOS.map(|borrowers| Ok((borrowers, of_conv(points, 2, borrowers)?)));
    let each = each.into_iter().collect::<Measured<Vec<(u16, f64)>>>()?;
    let words: Vec<String> = each
        .iter()
        .map(|(borrowers, of)| format!("{borrowers}:{} {:.1}", 12 - borrowers, 100.0 * of))
        .collect();
    Ok(Measurement::of([100.0 * of_conv(points, 2, 4)?])
        .detail(format!("Two cores, borrowers to lenders, per cent of Conv: {}.", words.join(", "))))
}

fn no_further_gain(points: &Points) -> Measured<Measurement> {
    let mut words = Vec::new();
    let mut most: f64 = 0.0;
    for cores in CORES {
        let (few, many) = (of_conv(points, cores, 2)?, of_conv(points, cores, 1)?);
        most = most.max(many / few - 1.0);
        words.push(format!("{cores} cores {:.1} and {:.1}", 100.0 * few, 100.0 * many));
    }
    Ok(Measurement::default()
        .check("eleven lenders bring no more than five", most < 0.03)
        .detail(format!("Per cent of Conv, 2:10 and 1:11: {}.", words.join(", "))))
}

// Figure 17.

pub(super) const DRAM: [&str; 3] = ["0.25", "0.5", "0.75"];

fn dram_points() -> Vec<Spec> {
    let each = |platform| DRAM.map(|dram| points::with_dram(platform, dram));
    let conv = latency(Platform::Conv, Pattern::RandomRead, 4);
    [Platform::Shrunk, Platform::Espresso].into_iter().flat_map(each).chain([conv]).collect()
}

pub(super) fn dram_rise(points: &Points, platform: Platform) -> Measured<[f64; 3]> {
    let conv = one_at_a_time(points, Platform::Conv, Pattern::RandomRead)?;
    let mut found = [0.0; 3];
    for (slot, dram) in found.iter_mut().zip(DRAM) {
        *slot = change(points.at(&points::with_dram(platform, dram))?.mean_of("one"), conv);
    }
    Ok(found)
}

fn dram_of_shrunk(points: &Points) -> Measured<Measurement> {
    Ok(Measurement::of(dram_rise(points, Platform::Shrunk)?))
}

fn dram_of_espresso(points: &Points) -> Measured<Measurement> {
    let each = dram_rise(points, Platform::Espresso)?;
    let words = each.map(|rise| format!("{rise:+.1}")).join(", ");
    Ok(Measurement::of([mean(each)]).detail(format!("With 0.25, 0.5, 0.75 GB per TB, per cent: {words}.")))
}

// Figure 18.

const TENCENT: [&str; 3] = ["Tencent-0", "Tencent-1", "Tencent-2"];

pub(super) fn group(platform: Platform, number: u64) -> Spec {
    points::tenants(platform, number, &TENCENT.map(workloads::named))
}

fn group_points() -> Vec<Spec> {
    let each = |platform| (0..points::GROUPS).map(move |number| group(platform, number));
    [Platform::Shrunk, Platform::Espresso].into_iter().flat_map(each).collect()
}

/// Results of every tenant of every group: bytes per second of its burst, and its duration in nanoseconds.
pub(super) fn bursts(points: &Points, platform: Platform) -> Measured<Vec<(f64, f64)>> {
    let mut found = Vec::new();
    for number in 0..points::GROUPS {
        let seen = points.at(&group(platform, number))?;
        found.extend(seen.each_drive().map(|(took_ns, bytes)| (bytes / took_ns * 1e9, took_ns)));
    }
    Ok(found)
}

fn peaks_of_groups(points: &Points) -> Measured<Measurement> {
    let most = |platform| -> Measured<f64> {
        Ok(bursts(points, platform)?.iter().map(|burst| burst.0).fold(0.0, f64::max) / 1e9)
    };
    Ok(Measurement::of([most(Platform::Espresso)?, most(Platform::Shrunk)?]).detail(format!(
        "The fastest of {} tenants in {} groups; each has a burst at a random time within {} ms: drives use about 27.8 % of their \
         bandwidth, as Tencent's do.",
        grouped(12 * points::GROUPS),
        points::GROUPS,
        points::GROUP_MS
    )))
}

fn completion_of_groups(points: &Points) -> Measured<Measurement> {
    let (shrunk, espresso) = (bursts(points, Platform::Shrunk)?, bursts(points, Platform::Espresso)?);
    let changes: Vec<f64> =
        shrunk.iter().zip(&espresso).map(|(theirs, ours)| change(ours.1, theirs.1)).collect();
    let best = changes.iter().copied().fold(0.0, f64::min);
    Ok(Measurement::of([best]).detail(format!("Mean {:+.1} %.", mean(changes))))
}

// Figure 19.

const APPLICATIONS: [&str; 2] = ["filebench", "db_bench"];

fn application_points() -> Vec<Spec> {
    let each = |platform| APPLICATIONS.map(|name| points::two_drives(platform, name));
    [Platform::Shrunk, Platform::Espresso].into_iter().flat_map(each).collect()
}

fn applications(points: &Points) -> Measured<Measurement> {
    let mut all = Vec::new();
    for name in APPLICATIONS {
        let of = |platform| rate(points, &points::two_drives(platform, name));
        all.push(change(of(Platform::Espresso)?, of(Platform::Shrunk)?));
    }
    let words = format!("{:+.1} % for 128 KiB reads and writes, {:+.1} % for 16 KiB reads", all[0], all[1]);
    Ok(Measurement::of([mean(all)]).detail(format!(
        "{words}: instead of filebench on a file system and db_bench on RocksDB, one busy drive with an idle one next to it."
    )))
}
