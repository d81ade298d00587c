//! Findings on synthetic points.

use super::*;

fn axis(flag: &str) -> Axis {
    Axis::parse(flag, 1).unwrap()
}

fn figures(iops: f64, mean_ns: f64, wire: f64, payload: f64) -> Figures {
    Figures::from_fn(|metric| match metric {
        Metric::Iops => Some(iops),
        Metric::BytesPerSecond => Some(iops * 4096.0),
        Metric::WireBytesPerIo => Some(wire),
        Metric::PayloadBytesPerIo => Some(payload),
        Metric::WriteAmplification
        | Metric::LogPages
        | Metric::IndexPages
        | Metric::HostNsPerIo
        | Metric::DeviceNsPerIo
        | Metric::TargetNsPerIo => None,
        _ => Some(mean_ns),
    })
}

/// Depths of 1 to 256 on a drive whose throughput is a function of the depth.
fn depths(iops: impl Fn(f64) -> f64) -> Vec<Finding> {
    let points: Vec<FindingInput> = (0..9)
        .map(|at| {
            let depth = f64::from(1 << at);
            let found = figures(iops(depth), depth * 1e9 / iops(depth), 1.0, 1.0);
            FindingInput { choice: vec![at], figures: Some(found), outstanding: Some(1 << at) }
        })
        .collect();
    findings(&[axis("iodepth=1..256x2")], &points, false)
}

fn knee_of(found: &[Finding]) -> (&Fact, &str) {
    let knee = found.iter().find(|finding| matches!(finding.fact, Fact::Knee { .. })).unwrap();
    (&knee.fact, &knee.text)
}

// 16 balanced servers: mean value analysis of a closed network yields X(N) = N / (N + 15) of the total, whose
// power is largest at N = 15. Another definition of the knee would recommend the wrong depth.
#[test]
fn the_knee_of_sixteen_servers_is_at_sixteen() {
    let found = depths(|n| 400e3 * n / (n + 15.0));
    let (fact, text) = knee_of(&found);
    let Fact::Knee { plateau, knee, little: Some(corner), .. } = fact else { panic!("{text}") };
    assert_eq!((plateau.as_deref(), knee.as_deref()), (None, Some("16")), "{text}");
    assert!((corner.outstanding - 15.1).abs() < 0.1, "{text}");
}

// Without a sharp bound "the knee" would be undefined.
#[test]
fn a_drive_without_chance_turns_at_the_corner() {
    let found = depths(|n| 400e3 * (n / 16.0).min(1.0));
    let (fact, text) = knee_of(&found);
    let Fact::Knee { plateau, knee, .. } = fact else { panic!("{text}") };
    assert_eq!((plateau.as_deref(), knee.as_deref()), (Some("16"), Some("16")));
    assert_eq!(
        text,
        "IOPS are within 5 % of their best (400 K IOPS) from iodepth 16 on; the knee, the highest throughput relative \
         to latency, is at 16; Little's law (400 K IOPS x 40.00 us) puts it at 16 outstanding"
    );
}

// Noise, a rising curve, and a collapse have no knee.
#[test]
fn no_knee_is_claimed_where_there_is_none() {
    for (iops, words) in [
        (Box::new(|n: f64| 1000.0 * n) as Box<dyn Fn(f64) -> f64>, "still rise at the last value of iodepth"),
        (Box::new(|n: f64| 1e5 + n), "do not depend on iodepth"),
        (
            Box::new(|n: f64| 1e5 * (1.0 + n / 6400.0)),
            "are within 5 % of their best (104 K IOPS) at every iodepth",
        ),
        (Box::new(|n: f64| 1e5 / n), "are best at iodepth=1 (100 K IOPS) and fall"),
    ] {
        let found = depths(iops);
        let (fact, text) = knee_of(&found);
        assert!(text.contains(words), "{text}");
        assert!(matches!(fact, Fact::Knee { knee: None, little: None, .. }), "{text}");
    }
    let two = axis("iodepth=1,2");
    let seen = |at: usize| FindingInput {
        choice: vec![at],
        figures: Some(figures(1000.0 * (at + 1) as f64, 1e6, 1.0, 1.0)),
        outstanding: Some(at as u64 + 1),
    };
    let found = findings(&[two], &[seen(0), seen(1)], false);
    assert!(found.iter().all(|finding| matches!(finding.fact, Fact::Best { .. })), "{found:?}");
}

// The main question to a comparison: from which size on is the other method better?
#[test]
fn a_crossover_is_placed_and_its_absence_is_said() {
    let axes = [axis("method=prp,sgl"), axis("bs=512 B,1 KiB,2 KiB")];
    let wire = [[600.0, 1100.0, 2400.0], [640.0, 1060.0, 2100.0]];
    let points: Vec<FindingInput> = (0..6)
        .map(|at| {
            let (method, size) = (at / 3, at % 3);
            let found = figures(1000.0, 1000.0, wire[method][size], 512.0);
            FindingInput { choice: vec![method, size], figures: Some(found), outstanding: None }
        })
        .collect();
    let found = findings(&axes, &points, false);
    let crossing = found.iter().find(|finding| matches!(finding.fact, Fact::Crossover { .. })).unwrap();
    // Halfway on the logarithmic axis.
    assert_eq!(
        crossing.text,
        "sgl overtakes prp between bs 512 B and 1 KiB (at about 724 B by interpolation), in wire bytes per I/O"
    );
    // A stepwise change may be anywhere between distant values.
    let apart = findings(&[axis("method=prp,sgl"), axis("bs=512 B,4 KiB,8 KiB")], &points, false);
    let crossing = apart.iter().find(|finding| matches!(finding.fact, Fact::Crossover { .. })).unwrap();
    assert_eq!(crossing.text, "sgl overtakes prp between bs 512 B and 4 KiB, in wire bytes per I/O");
    let never = found.iter().find(|finding| matches!(finding.fact, Fact::NoCrossover { .. })).unwrap();
    assert_eq!(
        never.text,
        "prp and sgl do not cross over the range of bs in IOPS (equal), mean latency (equal), p99 latency (equal), \
         payload bytes per I/O (equal)"
    );
    // A lead of half a percent is none.
    let even: Vec<FindingInput> = points
        .iter()
        .map(|point| {
            let tilt = 1.0 + 0.004 * (point.choice[0] as f64 - 0.5) * (point.choice[1] as f64 - 1.0);
            FindingInput { figures: Some(figures(1000.0, 1000.0, 600.0 * tilt, 512.0)), ..point.clone() }
        })
        .collect();
    let found = findings(&axes, &even, false);
    assert!(!found.iter().any(|finding| matches!(finding.fact, Fact::Crossover { .. })), "{found:?}");
    assert!(found[0].text.contains("all 6 points are equal in IOPS"), "{}", found[0].text);
}

// Sixty similar sentences first would hide the important one.
#[test]
fn five_findings_of_several_kinds_come_first() {
    let finding = |fact: Fact, text: &str| Finding { fact, text: text.to_owned() };
    let knee = |knee: Option<&str>| Fact::Knee {
        key: "iodepth".to_owned(),
        others: String::new(),
        plateau: None,
        knee: knee.map(str::to_owned),
        little: None,
    };
    let best = |metric: Metric| Fact::Best { metric, point: 0, equal: Vec::new() };
    let mut all: Vec<Finding> = (0..60).map(|at| finding(knee(Some("8")), &format!("knee {at}"))).collect();
    all.push(finding(knee(None), "still rises"));
    all.push(finding(best(Metric::Iops), "best"));
    all.push(finding(best(Metric::P99Ns), "least"));
    all.push(finding(Fact::Fallback { points: Vec::new() }, "fallback"));
    let count = all.len();
    most_telling_first(&mut all);
    let texts: Vec<&str> = all.iter().map(|finding| finding.text.as_str()).collect();
    assert_eq!(texts[..SHOWN_MAX], ["fallback", "knee 0", "knee 1", "best", "least"]);
    assert_eq!((texts.len(), texts[5]), (count, "knee 2"), "none is lost");
}

// Where sizes differ, the most bytes per second are always those of the longest I/Os; this trivial finding
// once came first and hid others.
#[test]
fn what_is_trivial_of_sizes_comes_last() {
    let finding = |fact: Fact, text: &str| Finding { fact, text: text.to_owned() };
    let best = |metric: Metric| Fact::Best { metric, point: 0, equal: Vec::new() };
    let crossover = |metric: Metric| Fact::Crossover {
        key: "value".to_owned(),
        others: String::new(),
        metric,
        leader: "prp".to_owned(),
        behind: "inline".to_owned(),
        between: ("128 B".to_owned(), "256 B".to_owned()),
        at: None,
    };
    let mut all = vec![finding(best(Metric::BytesPerSecond), "most"), finding(best(Metric::P99Ns), "least")];
    for rival in ["inline", "piggyback", "sgl"] {
        all.push(finding(crossover(Metric::WireBytesPerIo), &format!("{rival}, bytes")));
        all.push(finding(crossover(Metric::MeanNs), &format!("{rival}, latency")));
    }
    most_telling_first(&mut all);
    let texts: Vec<&str> = all.iter().map(|finding| finding.text.as_str()).collect();
    assert_eq!(texts[..4], ["inline, latency", "piggyback, latency", "sgl, latency", "inline, bytes"]);
    assert_eq!(texts.len(), 8, "none is lost");
}

/// Two drives, each with figures of three replicates around a mean.
fn replicated(slow: f64, fast: f64, spread: f64) -> Vec<FindingInput> {
    let point = |(at, iops): (usize, f64)| {
        let runs = [-spread, 0.0, spread].map(|by| figures(iops + by, 1e9 / (iops + by), 1.0, 1.0));
        FindingInput { choice: vec![at], figures: Some(Figures::mean_of(&runs)), outstanding: None }
    };
    [slow, fast].into_iter().enumerate().map(point).collect()
}

// 4 % between drives whose own runs differ by 10 % are called a finding otherwise, and the next seed says the opposite.
#[test]
fn a_difference_within_chance_is_no_finding() {
    let axes = [axis("drive.profile=a,b")];
    let chance = findings(&axes, &replicated(1000.0, 1040.0, 50.0), false);
    assert_eq!(
        chance[0].text,
        "all 2 points are equal in IOPS (within 1 %, or within chance at 3 replicates)"
    );
    let certain = findings(&axes, &replicated(1000.0, 1040.0, 5.0), false);
    assert!(certain[0].text.starts_with("highest throughput: 1040 IOPS at drive.profile=b"), "{certain:?}");
    let axes = [axis("flash.suspend.most=0,16")];
    let effect = |spread: f64| {
        let found = findings(&axes, &replicated(1000.0, 1040.0, spread), false);
        found.into_iter().find(|finding| matches!(finding.fact, Fact::Effect { .. })).unwrap().text
    };
    assert!(
        effect(50.0).ends_with("no change (within 1 %, or within chance at 3 replicates)"),
        "{}",
        effect(50.0)
    );
    assert!(effect(5.0).contains("IOPS 1,040 instead of 1,000"), "{}", effect(5.0));
}

// One point with a wide interval is close to each of two others, which are not close to each other.
#[test]
fn a_noisy_point_does_not_make_all_equal() {
    let point = |(at, (mean, spread)): (usize, (f64, f64))| {
        let runs = [-spread, 0.0, spread].map(|by| figures(mean + by, 1e6, 1.0, 1.0));
        FindingInput { choice: vec![at], figures: Some(Figures::mean_of(&runs)), outstanding: None }
    };
    let points: Vec<_> =
        [(1200.0, 400.0), (1000.0, 5.0), (700.0, 5.0)].into_iter().enumerate().map(point).collect();
    for key in ["drive.profile=a,b,c", "iodepth=1,2,3"] {
        let found = findings(&[axis(key)], &points, false);
        assert!(found[0].text.starts_with("highest throughput: "), "{found:?}");
        let wrong = found.iter().find(|finding| finding.text.contains("do not depend"));
        assert_eq!(wrong.map(|finding| &finding.text), None);
    }
}

// At its knee a drive has little more power than next to it: with wide intervals another seed would put the knee elsewhere.
#[test]
fn a_knee_within_chance_is_not_claimed() {
    let of = |spread: f64| {
        let point = |at: usize| {
            let depth = f64::from(1 << at);
            let runs = [-spread, 0.0, spread].map(|by| {
                let iops = 400e3 * (depth / 16.0).min(1.0) * (1.0 + by);
                figures(iops, depth * 1e9 / iops, 1.0, 1.0)
            });
            FindingInput {
                choice: vec![at],
                figures: Some(Figures::mean_of(&runs)),
                outstanding: Some(1 << at),
            }
        };
        let points: Vec<FindingInput> = (0..9).map(point).collect();
        let found = findings(&[axis("iodepth=1..256x2")], &points, false);
        let (Fact::Knee { knee, .. }, text) = knee_of(&found) else { panic!("{found:?}") };
        (knee.clone(), text.to_owned())
    };
    assert_eq!(of(0.001).0.as_deref(), Some("16"));
    let (knee, text) = of(0.2);
    assert_eq!(knee, None);
    assert!(
        text.contains("no certain knee") && text.ends_with("(within 1 %, or within chance at 3 replicates)"),
        "{text}"
    );
}

// The throughput of an open loop is what the scenario asks for: that no drive is faster says nothing of them.
#[test]
fn open_loops_are_told_by_their_latency() {
    let points = replicated(1000.0, 1040.0, 0.0);
    let metrics = |by_latency: bool| {
        let found = findings(&[axis("drive.profile=a,b")], &points, by_latency);
        let metric = |finding: Finding| match finding.fact {
            Fact::Best { metric, .. } => Some(metric),
            _ => None,
        };
        found.into_iter().filter_map(metric).collect::<Vec<_>>()
    };
    assert_eq!(metrics(true), [Metric::MeanNs, Metric::P99Ns]);
    assert_eq!(metrics(false), [Metric::Iops, Metric::P99Ns]);
}

// Which of two values leads at each size would be another thing by another seed.
#[test]
fn a_lead_within_chance_does_not_change_hands() {
    let axes = [axis("method=prp,sgl"), axis("bs=512 B,1 KiB,2 KiB")];
    let found = |spread: f64| {
        let wire = [[600.0, 1100.0, 2400.0], [640.0, 1060.0, 2300.0]];
        let point = |at: usize| {
            let (method, size) = (at / 3, at % 3);
            let runs =
                [-spread, 0.0, spread].map(|by| figures(1000.0, 1000.0, wire[method][size] + by, 512.0));
            let figures = Some(Figures::mean_of(&runs));
            FindingInput { choice: vec![method, size], figures, outstanding: None }
        };
        findings(&axes, &(0..6).map(point).collect::<Vec<_>>(), false)
    };
    let crosses =
        |found: &[Finding]| found.iter().any(|finding| matches!(finding.fact, Fact::Crossover { .. }));
    assert!(crosses(&found(1.0)));
    let chance = found(200.0);
    assert!(!crosses(&chance), "{chance:?}");
    let none = chance.iter().find(|finding| matches!(finding.fact, Fact::NoCrossover { .. })).unwrap();
    assert!(none.text.ends_with("; equal: within 1 %, or within chance at 3 replicates"), "{}", none.text);
}
