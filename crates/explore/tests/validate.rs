//! `byteway validate`: the profiles that stand for real drives, against what others measured of these.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use byteway_explore::fit::{Figure, Role};
use byteway_explore::validate::{DATASETS, Errors, Measure, Request, Validation, recorded, report, validate};
use byteway_text::interrupt::Interrupt;
use byteway_text::progress::Hidden;
use byteway_text::table::Width;

fn validated(profile: &str, sets: &[String], every: usize, interrupt: &Interrupt) -> Validation {
    let request = Request { profile, sets, every, threads: 2, interrupt, bar: &Hidden };
    validate(&request).unwrap_or_else(|error| panic!("{error}"))
}

/// The mean error of points that judge.
fn error(found: &Validation, measure: Measure) -> f64 {
    found.spread(Role::Judge, None, measure).unwrap().mean
}

// A profile with a real drive's name once wrote twelve times too fast, and no test knew. These points judge: nothing was fitted to them.
#[test]
fn profiles_with_a_name_are_as_fast_as_the_drive() {
    for (profile, every, bounds) in [
        ("wd-zn540", 3, [0.08, 0.1]),
        ("wd-zn540-512", 5, [0.13, 0.16]),
        ("samsung-evo-2tb", 2, [0.08, 0.1]),
        ("optane-118gb", 1, [0.08, 0.1]),
        ("nvme-a", 10, [0.08, 0.1]),
        ("samsung-980-pro", 2, [0.08, 0.1]),
    ] {
        let found = validated(profile, &[], every, &Interrupt::default());
        for (measure, bound) in [Measure::Throughput, Measure::Mean].into_iter().zip(bounds) {
            let off = error(&found, measure);
            assert!(
                off <= bound,
                "{profile}: {} is off by {off:.3}, at most {bound} is right",
                measure.name()
            );
        }
    }
}

// Runs that were too short once showed up to 15 % more throughput than any long run: with a fixed number of I/Os in flight, throughput times
// mean latency is that number, on the real drive as in the model.
#[test]
fn throughput_times_latency_is_the_depth() {
    for (profile, every) in [("wd-zn540", 3), ("nvme-a", 11), ("samsung-evo-2tb", 3), ("wd-zn540-512", 5)] {
        for point in validated(profile, &[], every, &Interrupt::default()).points {
            let of = |is: fn(&Figure) -> bool| {
                point.figures.iter().find(|held| is(&held.figure)).and_then(|held| held.simulated)
            };
            let (iops, mean) = (
                of(|figure| matches!(figure, Figure::Iops(_))),
                of(|figure| matches!(figure, Figure::Mean(_))),
            );
            if let (Some(iops), Some(mean)) = (iops, mean) {
                let depth = iops * mean / 1e9 / f64::from(point.load.iodepth * point.load.numjobs);
                assert!((0.97..1.03).contains(&depth), "{profile}, {}: {depth:.3} of its depth", point.name);
            }
        }
    }
}

// What was found before must fail it: flash as fast as NVMeVirt's constants have it.
#[test]
fn a_profile_that_writes_too_fast_shows() {
    let fast = ["drive.override.flash.program=[\"1 ns\",\"1 ns\",\"561 us\"]".to_owned()];
    let found = validated("wd-zn540", &fast, 4, &Interrupt::default());
    assert!(error(&found, Measure::Throughput) > 0.4, "{:?}", found.verdict());
    assert!(found.verdict().iter().any(|said| said.contains("missed")));
    assert!(found.far_off() > 0);
    let printed = found.printed(Width::Wide, false);
    assert!(
        printed.contains("with drive.override.flash.program") && printed.contains("one in 4"),
        "{printed}"
    );
}

// What is listed beside a profile, and in the README, must be what validating it gives.
#[test]
fn recorded_errors_are_those_of_a_run() {
    for profile in ["optane-118gb", "samsung-970-pro"] {
        let found = validated(profile, &[], 1, &Interrupt::default());
        assert_eq!(recorded(profile), Some(Errors::of(&found)), "run `byteway validate all --format csv`");
    }
    let zn540 = recorded("wd-zn540").unwrap();
    assert!(zn540.percent[0].unwrap() <= 8.0 && zn540.far_off == 0, "{zn540:?}");
}

// An open loop that waited for completions would never show how long reads wait beside writes.
#[test]
fn reads_beside_writes_wait_for_steps_of_programs() {
    let found = validated("solidigm-p5520", &[], 14, &Interrupt::default());
    let read = found.points.iter().find(|point| point.load.arrivals.is_some()).unwrap();
    let p99 = read.figures.iter().find(|held| Measure::P99.is(held.figure)).unwrap();
    // Reads of an idle drive take 75 us, and a step of a program 360 us.
    assert!((300e3..600e3).contains(&p99.simulated.unwrap()), "{p99:?}");
}

// An error is simulated / measured - 1, and points at the limit of the host count nowhere else.
#[test]
fn errors_are_means_over_the_points_of_a_role() {
    let found = validated("optane-118gb", &[], 1, &Interrupt::default());
    let judge: Vec<_> = found.points.iter().filter(|point| point.role == Role::Judge).collect();
    let by_hand = judge.iter().map(|point| {
        let iops = point.figures.iter().find(|held| matches!(held.figure, Figure::Iops(_))).unwrap();
        (iops.simulated.unwrap() / iops.measured - 1.0).abs()
    });
    let by_hand = by_hand.sum::<f64>() / judge.len() as f64;
    assert!((by_hand - error(&found, Measure::Throughput)).abs() < 1e-12);
    assert!(found.spread(Role::Judge, None, Measure::P99).is_none(), "its authors publish no p99");
    let (json, page) = (found.to_json(), report(&found).render());
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["points"].as_array().unwrap().len(), found.points.len());
    assert!(page.contains("measured") && page.contains("modelled"));
    // The same again, by another number of threads.
    let interrupt = Interrupt::default();
    let request = Request {
        profile: "optane-118gb",
        sets: &[],
        every: 1,
        threads: 1,
        interrupt: &interrupt,
        bar: &Hidden,
    };
    assert_eq!(validate(&request).unwrap().to_json(), found.to_json());
}

// Half a table that looks like a whole one would be believed.
#[test]
fn an_interrupt_is_told() {
    let interrupt = Interrupt::default();
    interrupt.raise();
    let found = validated("optane-118gb", &[], 1, &interrupt);
    assert!(found.partial && found.printed(Width::Narrow, false).contains("PARTIAL"));
    assert!(found.spread(Role::Judge, None, Measure::Mean).is_none());
}

#[test]
fn every_dataset_has_a_profile_and_a_host() {
    for dataset in DATASETS {
        assert!(
            byteway_scenario::profile::Profile::built_in(dataset.profile).is_some(),
            "{}",
            dataset.profile
        );
        assert!(byteway_scenario::profile::HostProfile::built_in(dataset.host).is_some(), "{}", dataset.host);
    }
    let interrupt = Interrupt::default();
    let request =
        Request { profile: "espresso", sets: &[], every: 1, threads: 1, interrupt: &interrupt, bar: &Hidden };
    let said = validate(&request).unwrap_err().to_string();
    assert!(said.contains("no measurements of `espresso` are built in"), "{said}");
    assert_eq!(said.matches("`wd-zn540`").count(), 1, "{said}");
    // Another drive, or another load, would be held against what was measured of this one.
    for set in ["drive.profile=p4500", "job.0.iodepth=8", "drive.capacity=\"8 GiB\"", "measure.warmup=1"] {
        let sets = [set.to_owned()];
        let said =
            validate(&Request { profile: "optane-118gb", sets: &sets, ..request }).unwrap_err().to_string();
        assert!(said.contains("as it was measured"), "{set}: {said}");
    }
}
