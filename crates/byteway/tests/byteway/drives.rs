//! Several drives in one run: each has the same results as alone, and the totals are their sums.

use crate::common::{folder, results, run, scenario, with_its_spare};
use byteway_results::results::Results;
use byteway_results::summary::{Summary, WearSummary};
use byteway_run::error::RunError;
use byteway_run::run::{Session, run as run_scenario};
use byteway_scenario::{Options, Scenario};
use byteway_text::interrupt::Interrupt;
use byteway_text::progress::Progress;
use byteway_text::table::Width;

const HOST: &str = "\
name = 'world'
seed = 7
[host]
profile = 'round-host.toml'
override.cores = 16
[measure]
interval = '250 us'
";

/// Four drives that differ in everything, each with its jobs: block reads and writes, garbage collection from a steady state, a cached map,
/// a KV store.
const DRIVES: [(&str, &str, &str); 4] = [
    (
        "plain",
        "profile = 'round.toml'\nnamespaces = 2\n",
        "[[job]]\nname = 'mix'\ndrive = 'plain'\nrw = 'randrw'\niodepth = 8\nnumjobs = 2\ncount = 900\n\
         [[job]]\nname = 'scan'\ndrive = 'plain'\nnamespace = 2\nrw = 'read'\nbs = '64 KiB'\ncount = 40\n",
    ),
    (
        "steady",
        "profile = 'round.toml'\nprecondition = 'steady'\noverride.flash.ways = 1\n\
         override.firmware.write_buffer = '256 KiB'\n",
        "[[job]]\nname = 'overwrite'\ndrive = 'steady'\nrw = 'randwrite'\niodepth = 4\ncount = 500\n",
    ),
    (
        "cached",
        "profile = 'round.toml'\noverride.firmware.map_cache = '64 KiB'\n",
        "[[job]]\nname = 'open'\ndrive = 'cached'\nrw = 'randread'\nissue = 'open'\nrate_iops = 200000\ncount = 600\n",
    ),
    (
        "pairs",
        "profile = 'cosmos-plus'\npersonality = 'kv'\ncapacity = '1 GiB'\n",
        "[[kv]]\nname = 'fill'\ndrive = 'pairs'\nworkload = 'fillrandom'\nvalue = '128 B'\niodepth = 2\ncount = 2000\n",
    ),
];

fn text(drives: &[(&str, &str, &str)]) -> String {
    let sections = drives.iter().map(|(name, lines, _)| format!("[[drive]]\nname = '{name}'\n{lines}"));
    let jobs =
        |kv: bool| drives.iter().map(|(.., jobs)| *jobs).filter(move |jobs| jobs.contains("[[kv]]") == kv);
    [HOST.to_owned()]
        .into_iter()
        .chain(sections)
        .chain(jobs(false).chain(jobs(true)).map(str::to_owned))
        .collect()
}

/// The whole, and each of its drives alone.
fn four() -> (Results, Vec<Results>) {
    let whole = results(&text(&DRIVES));
    let parts = whole.each_drive().collect();
    (whole, parts)
}

/// Removes the effect of the driver's last doorbell write during set-up: alone, it is still crossing at the start of the run; next to
/// drives with a longer set-up it has arrived.
fn without_setting_up(mut results: Results) -> (f64, Results) {
    let link = results.summary.utilisation.iter_mut().find(|row| row.resource == "link to device");
    let link = link.expect("a simulated drive has a link");
    let busy = link.mean;
    (link.mean, link.min, link.max) = (0.0, 0.0, 0.0);
    if let Some(drive) = results.series.points.first_mut().and_then(|point| point.drive.as_mut()) {
        drive.link_down.busy = 0.0;
    }
    (busy, results)
}

// Interference between drives would distort every comparison of drives in one run, unnoticed.
#[test]
fn four_drives_give_what_each_gives_alone() {
    let (_, parts) = four();
    for (part, drive) in parts.into_iter().zip(&DRIVES) {
        let (busy, part) = without_setting_up(part);
        let (busy_alone, alone) = without_setting_up(results(&text(std::slice::from_ref(drive))));
        // A doorbell takes 7 ns.
        let elapsed_ns = alone.summary.elapsed_ns;
        assert!(((busy - busy_alone) * elapsed_ns).abs() < 7.0 + elapsed_ns * 1e-6, "{busy} {busy_alone}");
        let name = Some(drive.0.to_owned());
        assert_eq!(part.summary.to_json(), Summary { drive: name, ..alone.summary.clone() }.to_json());
        assert_eq!(part.distributions, alone.distributions, "{}", drive.0);
        assert_eq!(part.wear, alone.wear, "{}", drive.0);
        // The run continues after the drive's own jobs, so the last step differs.
        let (own, others) = (&part.series.points, &alone.series.points);
        let whole_steps = others.len() - 1;
        assert!(whole_steps > 4, "{}: {whole_steps}", drive.0);
        assert_eq!(own[..whole_steps], others[..whole_steps], "{}", drive.0);
        assert_eq!(
            (&part.series.jobs, part.series.interval_ns),
            (&alone.series.jobs, alone.series.interval_ns)
        );
    }
}

// Adding or removing a drive must not change the random draws of others: random streams use the drive's name, not its position. Two drives
// that differ only in name draw differently.
#[test]
fn a_drive_draws_by_its_name() {
    let worn = |name: &str| {
        let drive =
            with_its_spare("[drive]\nprofile = 'tlc-generic-aged'\ncapacity = '4 GiB'\nworn = '60 %'\n");
        drive.replacen("[drive]", &format!("[[drive]]\nname = '{name}'"), 1) + "precondition = 'steady'\n"
    };
    let job = |name: &str| {
        format!("[[job]]\nname = 'j-{name}'\ndrive = '{name}'\nrw = 'randwrite'\niodepth = 16\ncount = 300\n")
    };
    let wear = |names: &[&str]| -> Vec<(Option<String>, Results)> {
        let sections: String = names.iter().map(|name| worn(name)).collect();
        let jobs: String = names.iter().map(|name| job(name)).collect();
        let found = results(&format!("{HOST}{sections}{jobs}"));
        found.each_drive().map(|part| (part.summary.drive.clone(), part)).collect()
    };
    let of = |found: &[(Option<String>, Results)], name: &str| {
        found.iter().find(|(drive, _)| drive.as_deref() == Some(name)).expect("it is there").1.clone()
    };
    let (pair, other) = (wear(&["a", "b"]), wear(&["c", "b"]));
    assert_eq!(of(&pair, "b"), of(&other, "b"));
    assert_ne!(of(&pair, "a").wear, of(&pair, "b").wear);
}

// Wrong totals would go unnoticed.
#[test]
fn the_whole_is_the_sum_of_its_drives() {
    let (whole, parts) = four();
    let summary = &whole.summary;
    let sum = |of: fn(&Summary) -> u64| parts.iter().map(|part| of(&part.summary)).sum::<u64>();
    assert_eq!(summary.ios, sum(|part| part.ios));
    assert_eq!(summary.capacity_bytes, sum(|part| part.capacity_bytes));
    assert_eq!(summary.verification.reads, sum(|part| part.verification.reads));
    let wire = |part: &Summary| part.link.iter().map(|row| row.wire_bytes + row.payload_bytes).sum::<u64>();
    assert_eq!(wire(summary), sum(wire));
    let flash = |part: &Summary| {
        part.flash.map_or(0, |flash| flash.host_programs + flash.collect_reads + flash.erases)
    };
    assert_eq!(flash(summary), sum(flash));
    let lookups = |part: &Summary| {
        let cache = part.upkeep.as_ref().and_then(|own| own.map_cache);
        cache.map_or(0, |cache| cache.hits + cache.misses)
    };
    assert!(lookups(summary) > 0);
    assert_eq!(lookups(summary), sum(lookups));
    let store = |part: &Summary| part.kv.as_ref().and_then(|kv| kv.store.clone());
    assert!(store(summary).is_some());
    assert_eq!(store(summary), store(&parts[3].summary));
    let dies = |part: &Summary| part.utilisation[0].count;
    assert_eq!(dies(summary), sum(dies));
    assert_eq!((summary.drive_model.as_str(), &summary.drive_profile), ("4 drives", &None));
    let of_jobs: Vec<_> = summary.jobs.iter().map(|job| (job.name.as_str(), job.drive.as_deref())).collect();
    let expected = ["plain", "plain", "steady", "cached", "pairs"].map(Some);
    assert_eq!(of_jobs.iter().map(|(_, drive)| *drive).collect::<Vec<_>>(), expected);
    assert!(parts.iter().flat_map(|part| &part.summary.jobs).all(|job| job.drive.is_none()));
    let tables = summary.tables(Width::Wide);
    for (name, ..) in DRIVES {
        assert!(tables.lines().any(|line| line.trim_start().starts_with(name)), "{name} is not in\n{tables}");
    }
    // KV operations, and block I/O of the others.
    assert!(tables.contains("\nOperations") && tables.contains("\nThroughput"), "{tables}");
    assert!(
        summary
            .to_tables()
            .lines()
            .filter(|line| line.starts_with(' '))
            .all(|line| line.chars().count() <= 80)
    );
}

// Averaging wear over drives would hide a worn-out drive, and weight small drives like large ones.
#[test]
fn the_wear_of_the_whole_is_over_all_superblocks() {
    let drive = |name: &str, capacity: &str, worn: &str| {
        let section =
            format!("[drive]\nprofile = 'tlc-generic-aged'\ncapacity = '{capacity}'\nworn = '{worn}'\n");
        let drive = with_its_spare(&section).replacen("[drive]", &format!("[[drive]]\nname = '{name}'"), 1);
        drive + "precondition = 'steady'\n"
    };
    let job = "[[job]]\ndrive = 'all'\nrw = 'randwrite'\niodepth = 16\ncount = 300\n";
    let drives = drive("young", "4 GiB", "10 %") + &drive("old", "8 GiB", "60 %");
    let whole = results(&format!("{HOST}{drives}{job}"));
    let upkeep = |summary: &Summary| summary.upkeep.clone().expect("these drives level wear");
    let wear = |summary: &Summary| upkeep(summary).wear.expect("these drives level wear");
    let [young, old] = &whole.summary.drives[..] else { panic!("two drives") };
    let (all, young_wear, old_wear) = (wear(&whole.summary), wear(young), wear(old));
    assert!(young_wear.max < old_wear.min && young_wear.blocks != old_wear.blocks);
    assert_eq!(all.blocks, young_wear.blocks + old_wear.blocks);
    assert_eq!((all.min, all.max), (young_wear.min, old_wear.max));
    let erases = |wear: &WearSummary| wear.mean * wear.blocks as f64;
    assert!((erases(&all) - erases(&young_wear) - erases(&old_wear)).abs() < 0.01);
    let spare = |summary: &Summary| upkeep(summary).bad_blocks.expect("spare blocks").spare_left;
    assert_eq!(spare(&whole.summary), spare(young) + spare(old));
}

// Results must be reproducible.
#[test]
fn the_same_seed_gives_the_same_bytes() {
    let (first, again) = (four().0, four().0);
    assert_eq!(first.summary.to_json(), again.summary.to_json());
    assert_eq!(first.to_parquet().unwrap(), again.to_parquet().unwrap());
    assert_eq!(first, again);
    let other = results(&text(&DRIVES).replace("seed = 7", "seed = 8"));
    assert_ne!(first.summary.to_json(), other.summary.to_json());
}

// Drives share the host's processors: with a single one, each drive waits for the others.
#[test]
fn the_hosts_processors_are_shared() {
    let drives = "[[drive]]\nname = 'd'\ncopies = 4\nprofile = 'round.toml'\n";
    let job = "[[job]]\ndrive = 'all'\nrw = 'randread'\niodepth = 16\ncount = 2000\n";
    let iops = |cores: u32| {
        let host = format!(
            "[host]\nprofile = 'round-host.toml'\noverride.cores = {cores}\noverride.submit = '2 us'\n"
        );
        run(&format!("{drives}{host}{job}")).iops
    };
    // An I/O takes 2 us to submit and 300 ns to complete.
    let (one, four) = (iops(1), iops(4));
    assert!((one * 2.3e-6 - 1.0).abs() < 0.01, "{one:.0} with one processor");
    assert!(four > 1.5 * one, "{four:.0} with four processors, {one:.0} with one");
}

// Scripts for single drives read a summary without `drives`.
#[test]
fn one_drive_with_a_name_has_todays_keys() {
    let summary = run(&text(&DRIVES[..1]));
    let json: serde_json::Value = serde_json::from_str(&summary.to_json()).unwrap();
    assert!(
        json.get("drives").is_none() && json.get("drive").is_none() && json["jobs"][0].get("drive").is_none()
    );
    assert_eq!(json["drive_profile"], "round");
}

// An interrupted run has the figures of completed I/Os, for each drive.
#[test]
fn an_interrupted_run_is_partial_for_every_drive() {
    let scenario = scenario(&text(&DRIVES));
    let run = |looks: u64| {
        let (mut progress, interrupt) = (Progress::hidden(), Interrupt::after_looks(looks));
        run_scenario(&scenario, Session { progress: &mut progress, interrupt: &interrupt })
    };
    // Between two drives there is nothing to report: some have not been made.
    let mut looks = 0;
    let summary = loop {
        match run(looks) {
            Err(RunError::Interrupted) => looks += 1,
            Err(error) => panic!("after {looks} looks: {error}"),
            Ok(results) => break results.summary,
        }
    };
    assert!(looks >= 3, "{looks} looks before the jobs begin, and four drives are made");
    assert!(summary.partial && summary.drives.len() == 4 && summary.drives.iter().all(|part| part.partial));
}

// A `--set` for a drive must reach that drive.
#[test]
fn a_set_reaches_its_drive() {
    let options =
        Options { sets: vec!["drive.plain.override.link.lanes=2".to_owned()], ..Options::default() };
    let scenario = Scenario::from_text("test.toml", &folder(), &text(&DRIVES), &options).unwrap();
    let lanes: Vec<u8> = scenario.drives.iter().map(|drive| drive.plan.profile.link.lanes).collect();
    assert_eq!(lanes[0], 2);
    assert!(lanes[1..3].iter().all(|lanes| *lanes == 8));
}

// For a tenant whose jobs start later than others, the time before would make it seem slower, and its drive less busy: a drive's figures
// cover the time of its jobs, as when it is alone.
#[test]
fn a_drive_is_measured_from_when_its_jobs_begin() {
    let drive = |name: &str| format!("[[drive]]\nname = '{name}'\nprofile = 'round.toml'\n");
    let job = |name: &str, lines: &str| {
        format!(
            "[[job]]\nname = '{name}'\ndrive = '{name}'\nrw = 'randread'\niodepth = 8\nruntime = '4 ms'\n{lines}"
        )
    };
    let alone = results(&format!("{HOST}{}{}", drive("late"), job("late", ""))).summary;
    let both = format!("{HOST}{}{}", drive("early"), drive("late"));
    for lead in ["startdelay = '9 ms'\n", "ramp_time = '9 ms'\n", "stonewall = true\nstartdelay = '5 ms'\n"] {
        let whole = results(&format!("{both}{}{}", job("early", ""), job("late", lead)));
        let late = &whole.summary.drives[1];
        // The last I/Os end after the runtime, and the draws after a ramp differ from those at the start.
        let near = |found: f64, expected: f64| (found / expected - 1.0).abs() < 0.05;
        assert!(near(late.elapsed_ns, 4e6), "{lead}: {} ns", late.elapsed_ns);
        assert!(near(late.iops, late.jobs[0].iops) && near(late.iops, alone.iops), "{lead}: {}", late.iops);
        let dies = |summary: &Summary| summary.utilisation[0].mean;
        assert!(near(dies(late), dies(&alone)), "{lead}: dies {} of {}", dies(late), dies(&alone));
        let wire = |summary: &Summary| {
            let bytes: u64 = summary.link.iter().map(|row| row.wire_bytes).sum();
            bytes as f64 / summary.ios as f64
        };
        assert!(near(wire(late), wire(&alone)), "{lead}: {} B on the wire of {}", wire(late), wire(&alone));
        assert!(near(whole.summary.elapsed_ns, 13e6), "{lead}: the whole is from first to last");
    }
}
