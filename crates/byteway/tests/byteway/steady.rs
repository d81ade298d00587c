//! The constructed steady state of every profile, compared with a drive that was really overwritten, and the note on runs that are not
//! steady.
//!
//! Garbage collection frees a superblock at a time, so throughput comes in steps of superblocks: in a window in which the host fills n of
//! them, two drives that differ only in their seed differ by about 1/n. A window may deviate by 5 % (10 % with fewer than 20 collections)
//! and one superblock. Small drives are slow, so their windows last until the host has filled twenty superblocks at first, and forty later,
//! with minimums of half a second and one second.

use crate::common::{assert_within, results, scenario, with_its_spare};
use byteway_content::UNIT_BYTES;
use byteway_results::results::{Point, Results, steadiness};
use byteway_results::summary::Summary;
use byteway_scenario::profile::{DRIVES, Profile};

/// Smallest capacity that a scenario supports.
const UNITS: u64 = (1 << 30) / UNIT_BYTES as u64;

/// A drive of 1 GiB of a profile's flash with some 32 superblocks per die, and the units that the host gets at a time: those of a
/// superblock, or, with an SLC cache, of two plus what is folded meanwhile.
fn small(name: &str, precondition: &str) -> (String, u64) {
    let profile = Profile::built_in(name).expect("it is of the catalogue");
    let flash = &profile.flash;
    let stripe_units = u64::from(flash.planes) * flash.page.0 / UNIT_BYTES as u64;
    let lines = flash.read.len().max(flash.program.len()) as u64;
    let wanted = UNITS / 32 / u64::from(flash.channels) / stripe_units;
    let pages = (wanted / lines * lines).min(flash.pages.into());
    // Wordlines are a considerable part of a small superblock, which needs additional spare space.
    let op = if flash.slc.is_some() { "override.firmware.op = '12 %'\n" } else { "" };
    let mut buffer = profile.firmware.write_buffer.0.min((1 << 30) / 32);
    // A cached map has misses, as at full size, and the buffer holds several times as many units as the map has pages.
    let mut cache = "";
    if profile.firmware.map_cache.is_some() {
        (buffer, cache) = (buffer.min(4 << 20), "override.firmware.map_cache = '128 KiB'\n");
    }
    let section = format!(
        "[drive]\nprofile = '{name}'\ncapacity = '1 GiB'\n\
         override.flash.ways = 1\noverride.flash.dies = 1\noverride.flash.pages = {pages}\n\
         override.firmware.write_buffer = '{buffer} B'\n{op}{cache}"
    );
    let text = with_its_spare(&section) + &format!("precondition = '{precondition}'\n");
    let at_a_time = if flash.slc.is_some() { 3 } else { 1 };
    (text, at_a_time * pages * stripe_units)
}

fn overwrite(drive: &str, rest: &str) -> Results {
    results(&format!("{drive}[[job]]\nrw = 'randwrite'\niodepth = 32\n{rest}"))
}

/// Figures between two instants, in seconds after the first I/O.
struct Window {
    iops: f64,
    amplification: f64,
    collections: u64,
    written: u64,
}

fn window(results: &Results, from: f64, to: f64) -> Window {
    let is_in = |point: &&Point| point.begin_ns >= from * 1e9 - 1.0 && point.end_ns <= to * 1e9 + 1.0;
    let points: Vec<&Point> = results.series.points.iter().filter(is_in).collect();
    let drive = || points.iter().filter_map(|point| point.drive.as_ref());
    let written: u64 = drive().map(|drive| drive.host_written_bytes).sum();
    let programmed: u64 = drive().map(|drive| drive.programmed_bytes).sum();
    let ios: u64 = points.iter().map(|point| point.jobs[0].write.ios).sum();
    Window {
        iops: ios as f64 / points.iter().map(|point| point.end_ns - point.begin_ns).sum::<f64>() * 1e9,
        amplification: programmed as f64 / written as f64,
        collections: drive().map(|drive| drive.erases).sum(),
        written: written / UNIT_BYTES as u64,
    }
}

/// Permitted deviation of a window in per cent.
fn tolerance(window: &Window, superblock: u64) -> f64 {
    let share = if window.collections < 20 { 10.0 } else { 5.0 };
    share + 100.0 * superblock as f64 / window.written as f64
}

/// One drive of each set with equal flash and firmware, which write alike.
fn distinct() -> Vec<&'static str> {
    let mut seen: Vec<(String, &str)> = Vec::new();
    for (name, _) in DRIVES {
        let profile = Profile::built_in(name).expect("it is of the catalogue");
        if profile.is_hosted() || profile.bridge.is_some() {
            continue; // it starts empty: there is no steady state to construct
        }
        let key = format!("{:?} {:?}", profile.flash, profile.firmware);
        if seen.iter().all(|(other, _)| *other != key) {
            seen.push((key, name));
        }
    }
    seen.into_iter().map(|(_, name)| name).collect()
}

fn check(name: &str) {
    let (drive, superblock) = small(name, "filled");
    let reference = overwrite(
        &drive,
        &format!(
            "count = {}\n[measure]\nwarmup = {}\ninterval = '50 ms'\n",
            3 * UNITS + UNITS / 2,
            3 * UNITS
        ),
    );
    let (iops, amplification) =
        (reference.summary.iops, reference.summary.write_amplification.expect("the host wrote"));
    let (drive, _) = small(name, "steady");
    let long = f64::max(1.0, (40 * superblock) as f64 / iops);
    let rest =
        format!("runtime = '{:.0} ms'\n[measure]\ninterval = '{:.0} ms'\n", 2500.0 * long, 50.0 * long);
    let constructed = overwrite(&drive, &rest);
    println!("{name}: overwritten three times {iops:.0} IOPS, write amplification {amplification:.3}");
    for (from, to) in [(0.0, 0.5), (0.5, 1.5), (1.5, 2.5)] {
        // In whole intervals.
        let unit = (50.0 * long).round() / 50.0;
        let (from, to) = (from * unit, to * unit);
        let window = window(&constructed, from, to);
        let tolerance = tolerance(&window, superblock);
        println!(
            "  {from:.2} to {to:.2} s: {:.0} IOPS ({:+.1} %), {:.3} ({:+.1} %), {} erases, {} superblocks, within {tolerance:.1} %",
            window.iops,
            (window.iops / iops - 1.0) * 100.0,
            window.amplification,
            (window.amplification / amplification - 1.0) * 100.0,
            window.collections,
            window.written / superblock,
        );
        assert_within(tolerance, window.iops, iops, &format!("{name}, {from} to {to} s: IOPS"));
        let what = format!("{name}, {from} to {to} s: write amplification");
        assert_within(tolerance, window.amplification, amplification, &what);
    }
}

// A constructed drive with wrong free blocks, buffer content or open blocks would be compared with others before it is in the steady state.
#[test]
fn every_profile_begins_as_it_goes_on() {
    distinct().into_iter().step_by(2).for_each(check);
}

#[test]
fn every_profile_begins_as_it_goes_on_too() {
    distinct().into_iter().skip(1).step_by(2).for_each(check);
}

// At full size superblocks have their real size, and errors of a phase take seconds to show.
#[test]
fn a_drive_of_full_size_begins_as_it_goes_on() {
    let drive = "[drive]\nprofile = 'samsung-970-pro'\nprecondition = 'steady'\n";
    let results = overwrite(drive, "runtime = '3500 ms'\n[measure]\ninterval = '50 ms'\n");
    let all = window(&results, 0.5, 3.5);
    for (from, to) in [(0.0, 0.5), (0.5, 1.5), (1.5, 2.5), (2.5, 3.5)] {
        let window = window(&results, from, to);
        println!(
            "{from} to {to} s: {:.0} IOPS, {:.3}, {} erases",
            window.iops, window.amplification, window.collections
        );
        let tolerance = tolerance(&window, 2048);
        assert_within(tolerance, window.iops, all.iops, &format!("{from} to {to} s: IOPS"));
        assert_within(tolerance, window.amplification, all.amplification, &format!("{from} to {to} s: WA"));
    }
}

/// A drive with the dies and superblocks of the 970 Pro, compared with itself after three overwrites.
fn check_with_all_dies(capacity: &str, units: u64) {
    let drive = |precondition: &str| {
        format!(
            "[drive]\nprofile = 'samsung-970-pro'\ncapacity = '{capacity}'\nprecondition = '{precondition}'\n"
        )
    };
    let rest = format!("count = {}\n[measure]\nwarmup = {}\n", 3 * units + 300_000, 3 * units);
    let reference = overwrite(&drive("filled"), &rest).summary;
    let (iops, amplification) = (reference.iops, reference.write_amplification.expect("the host wrote"));
    println!("{capacity}, overwritten three times: {iops:.0} IOPS, {amplification:.3}");
    // With few dies their positions in the cycle are random: a tenth in the first half second.
    let seeded = |seed| {
        let text = format!("seed = {seed}\n{}", drive("steady"));
        overwrite(&text, "runtime = '3500 ms'\n[measure]\ninterval = '50 ms'\n")
    };
    let all: Vec<Results> = (1..=5).map(seeded).collect();
    for (from, to) in [(0.0, 0.5), (0.5, 1.5), (1.5, 2.5), (2.5, 3.5)] {
        let mean = |of: fn(&Window) -> f64| {
            all.iter().map(|results| of(&window(results, from, to))).sum::<f64>() / all.len() as f64
        };
        let (found, found_amplification) = (mean(|window| window.iops), mean(|window| window.amplification));
        println!("{from} to {to} s: {found:.0} IOPS, {found_amplification:.3}");
        // 5 %, and one superblock of those that all of them fill.
        let written: u64 = all.iter().map(|results| window(results, from, to).written).sum();
        let tolerance = 5.0 + 100.0 * 2048.0 / written as f64;
        assert_within(tolerance, found, iops, &format!("{capacity}, {from} to {to} s: IOPS"));
        let what = format!("{capacity}, {from} to {to} s: write amplification");
        assert_within(tolerance, found_amplification, amplification, &what);
    }
}

#[test]
#[ignore = "a minute: 3.4 million writes"]
fn a_drive_with_all_dies_begins_as_one_that_was_overwritten() {
    check_with_all_dies("4 GiB", 1 << 20);
}

#[test]
#[ignore = "400 million writes: half an hour of a release build, and a map of 512 MiB"]
fn a_drive_of_full_size_begins_as_one_that_was_overwritten() {
    check_with_all_dies("512 GiB", 128 << 20);
}

// Translation pages that nearly every write changes are overwritten hundreds of times as often as other units. What they leave is emptier
// than what is older, and a collector that was thought to take the oldest gained three times as much as it does.
#[test]
fn a_drive_whose_map_hardly_fits_its_cache_begins_as_it_goes_on() {
    let drive = |precondition: &str| {
        format!(
            "[drive]\nprofile = 'mqsim-mlc-cached'\ncapacity = '1 GiB'\nprecondition = '{precondition}'\noverride.flash.ways = 1\n\
             override.flash.dies = 1\noverride.flash.pages = 128\noverride.firmware.write_buffer = '512 KiB'\n\
             override.firmware.map_cache = '32 KiB'\noverride.firmware.op = '9 %'\n"
        )
    };
    let rest = format!("count = {}\n[measure]\nwarmup = {}\n", 3 * UNITS + UNITS / 2, 3 * UNITS);
    let reference = overwrite(&drive("filled"), &rest).summary;
    let constructed = overwrite(&drive("steady"), "runtime = '8 s'\n");
    let amplification = |summary: &Summary| summary.write_amplification.expect("the host wrote");
    let (expected, found) = (amplification(&reference), amplification(&constructed.summary));
    println!("overwritten three times {:.0} IOPS, {expected:.3}", reference.iops);
    assert_within(3.0, constructed.summary.iops, reference.iops, "IOPS");
    assert_within(3.0, found, expected, "write amplification");
    assert_eq!(note(&constructed), None);
}

// A twentieth of what the drive can take left it catching up from a saturated state, for minutes and with twice the latency.
#[test]
fn a_light_load_over_a_cached_map_begins_as_it_goes_on() {
    let of = |runtime: &str| {
        let load = "rw = 'randwrite'\nissue = 'open'\narrival = 'poisson'\nrate_iops = 2000\n";
        results(&format!(
            "[drive]\nprofile = 'mqsim-mlc-cached'\nprecondition = 'steady'\n[[job]]\n{load}runtime = '{runtime}'\n"
        ))
    };
    let (short, long) = (of("1 s"), of("10 s"));
    let figures = |results: &Results| {
        let write = results.summary.jobs[0].write.as_ref().expect("it writes");
        (results.summary.write_amplification.expect("it writes"), write.latency.mean_ns)
    };
    let ((short_wa, short_mean), (long_wa, long_mean)) = (figures(&short), figures(&long));
    assert_within(5.0, short_wa, long_wa, "write amplification");
    assert_within(5.0, short_mean, long_mean, "mean latency");
    assert_eq!((note(&short), note(&long)), (None, None));
}

fn note(results: &Results) -> Option<&str> {
    results.summary.notes.iter().map(String::as_str).find(|note| note.starts_with("not steady:"))
}

/// A drive that fills up within half a second, and then collects garbage.
fn cliff(job: &str) -> Results {
    results(&format!(
        "[drive]\nprofile = 'samsung-970-pro'\ncapacity = '1 GiB'\nprecondition = 'filled'\n\
         override.flash.pages = 64\n[[job]]\nname = 'writer'\nrw = 'randwrite'\n{job}"
    ))
}

// The mean over such a drop depends on the run's length; without a note a reader would take it for the drive's.
#[test]
fn a_run_over_a_change_says_so() {
    let changing = cliff("iodepth = 32\nruntime = '1500 ms'\n");
    let text = note(&changing).expect("it is fast until it collects");
    assert!(text.starts_with("not steady: first half ") && text.contains("ramp_time"), "{text}");
    assert!(changing.summary.to_tables().contains(text), "the terminal shows it");
    assert!(changing.summary.to_json().contains("not steady:"), "so does the JSON");
    let settled = cliff("iodepth = 32\nramp_time = '3 s'\nruntime = '2 s'\n");
    assert_eq!(note(&settled), None, "that is the remedy");
    // The drive, too: its superblocks run out, and it begins to collect.
    let beneath = changing.summary.notes.iter().find(|note| note.contains("in the first half of the run"));
    assert!(
        beneath.is_some_and(|note| note.contains("write amplification ")),
        "{:?}",
        changing.summary.notes
    );
    let of_two = cliff(
        "iodepth = 32\nruntime = '1500 ms'\n[[job]]\nname = 'other'\nrw = 'randwrite'\nruntime = '1500 ms'\n",
    );
    assert!(note(&of_two).is_some_and(|note| note.contains("job writer: ")), "{:?}", of_two.summary.notes);
}

// A note that is always present is useless.
#[test]
fn what_is_steady_short_or_asked_for_gets_no_note() {
    let reads = "[drive]\nprofile = 'samsung-970-pro'\ncapacity = '1 GiB'\nprecondition = 'filled'\n\
                 [[job]]\nrw = 'randread'\niodepth = 8\nruntime = '300 ms'\n";
    assert_eq!(note(&results(reads)), None, "reads are as fast at the end");
    assert_eq!(note(&cliff("iodepth = 32\nruntime = '40 ms'\n")), None, "too short");
    assert_eq!(
        note(&cliff("iodepth = 4\nrate_iops = '20000'\nruntime = '400 ms'\n")),
        None,
        "its rate is the user's, and it does not collect yet"
    );
    let phases = "iodepth = 32\nruntime = '700 ms'\n[[job]]\nname = 'then'\nrw = 'randread'\nstonewall = true\nruntime = '300 ms'\n";
    assert_eq!(note(&cliff(phases)), None, "phases differ");
}

// With a handful of superblocks per die, the constructed state is only close to that after overwriting, and figures of the first seconds
// are not the drive's. Any warm-up silenced the note, however short.
#[test]
fn a_rough_start_is_said() {
    let of = |profile: &str, capacity: &str, job: &str| {
        let drive = with_its_spare(&format!("[drive]\nprofile = '{profile}'\ncapacity = '{capacity}'\n"));
        let results = results(&format!("{drive}precondition = 'steady'\n[[job]]\n{job}\n"));
        results.summary.notes.iter().any(|note| note.starts_with("rough start:"))
    };
    let writes = "rw = 'randwrite'\niodepth = 8\nruntime = '20 ms'";
    let soon = "rw = 'randwrite'\niodepth = 8\nruntime = '20 ms'\nramp_time = '10 ms'";
    let warm = "rw = 'randwrite'\niodepth = 8\nruntime = '20 ms'\n[measure]\nwarmup = '10 ms'";
    // Until all that it writes, 20 MiB, was overwritten.
    let later = "rw = 'randwrite'\niodepth = 8\nsize = '1%'\nruntime = '20 ms'\nramp_time = '300 ms'";
    for (profile, capacity, job, is_said) in [
        ("tlc-generic-aged", "4 GiB", writes, true),
        ("tlc-generic-aged", "16 GiB", writes, false),
        ("wd-zn540", "2 GiB", writes, true),
        ("wd-zn540", "2 GiB", soon, true),
        ("wd-zn540", "2 GiB", warm, true),
        ("wd-zn540", "2 GiB", later, false),
        ("wd-zn540", "2 GiB", "rw = 'randread'\niodepth = 8\nruntime = '20 ms'", false),
        ("mqsim-mlc-cached", "4 GiB", writes, false),
        ("samsung-970-pro", "4 GiB", writes, false),
    ] {
        assert_eq!(of(profile, capacity, job), is_said, "{profile}, {capacity}: {job}");
    }
}

// What is constructed is left by uniform random overwrites of the whole drive: other writes move the drive away from it, for as long as it
// takes to overwrite most of it, and the first seconds are a mixture.
#[test]
fn other_writes_than_random_ones_are_said() {
    let drive =
        with_its_spare("[drive]\nprofile = 'samsung-970-pro'\ncapacity = '4 GiB'\nprecondition = 'steady'\n");
    let of = |jobs: &str| {
        let results = results(&format!("{drive}{}", jobs.replace("RUN", "runtime = '5 ms'\niodepth = 4")));
        let rough = |note: &String| note.strip_prefix("rough start: the constructed").map(str::to_owned);
        results.summary.notes.iter().find_map(rough)
    };
    let both =
        "[[job]]\nrw = 'randwrite'\nsize = '50%'\nRUN\n[[job]]\nrw = 'randwrite'\noffset = '50%'\nRUN\n";
    for (jobs, says) in [
        ("[[job]]\nrw = 'randwrite'\nRUN\n", None),
        ("[[job]]\nrw = 'randrw'\nbs = '16 KiB'\nRUN\n", None),
        (both, None),
        ("[[job]]\nrw = 'read'\nRUN\n[[job]]\nrw = 'randwrite'\nRUN\n", None),
        ("[[job]]\nrw = 'rw'\nbs = '64 KiB'\nRUN\n", Some("are sequential")),
        ("[[job]]\nrw = 'write'\nRUN\n", Some("are sequential")),
        ("[[job]]\nrw = 'randwrite'\nrandom_distribution = 'zipf:1.1'\nRUN\n", Some("are skewed")),
        ("[[job]]\nrw = 'randtrimwrite'\nRUN\n", Some("each behind a trim")),
        ("[[job]]\nrw = 'randwrite'\nsize = '25%'\nRUN\n", Some("write to 25.000 % of it")),
        ("[[job]]\nrw = 'write'\nRUN\nramp_time = '1 ms'\n", Some("are sequential")),
        ("[[job]]\nrw = 'write'\nbs = '128 KiB'\nsize = '1%'\nRUN\nramp_time = '500 ms'\n", None),
        ("[[job]]\nrw = 'randwrite'\nbs = '1 MiB'\nRUN\n", Some("are long")),
        ("[[job]]\nrw = 'randwrite'\nRUN\n[[job]]\nrw = 'randtrim'\nRUN\n", Some("trims blocks")),
        ("[[job]]\nrw = 'read'\nRUN\n", None),
    ] {
        let found = of(jobs);
        assert_eq!(found.is_some(), says.is_some(), "{jobs}: {found:?}");
        assert!(says.is_none_or(|says| found.as_ref().unwrap().contains(says)), "{jobs}: {found:?}");
    }
}

// A loop whose runtime ended just as its write buffer filled was taken for one that saturates the drive: five times the write
// amplification, at 150 ms and not at 160.
#[test]
fn a_short_run_begins_as_a_longer_one() {
    let drive = "[drive]\nprofile = 'samsung-970-pro'\ncapacity = '1 GiB'\nprecondition = 'steady'\noverride.firmware.op = '31 %'\n";
    let of = |ms: u32| {
        let job = format!("[[job]]\nrw = 'randrw'\nrwmixread = 90\niodepth = 16\nruntime = '{ms} ms'\n");
        results(&format!("{drive}{job}")).summary.write_amplification.expect("it collects")
    };
    let found = [90, 120, 150, 160].map(of);
    println!("{found:.2?}");
    for of_one in found {
        assert_within(25.0, of_one, found[1], "write amplification, whatever the runtime");
    }
}

// In the constructed state dies have left garbage collection what `priority` leaves it.
#[test]
fn a_steady_state_under_another_schedule_is_said() {
    let drive =
        with_its_spare("[drive]\nprofile = 'samsung-970-pro'\ncapacity = '4 GiB'\nprecondition = 'steady'\n");
    let job = "[[job]]\nrw = 'randrw'\niodepth = 4\nruntime = '5 ms'\n";
    let suspend = "override.flash.suspend = { latency = '20 us', resume = '5 us', most = 4 }\n";
    for (more, is_said) in [("", false), ("override.flash.schedule = 'fifo'\n", true), (suspend, true)] {
        let notes = results(&format!("{drive}{more}{job}")).summary.notes;
        let found =
            notes.iter().any(|note| note.starts_with("rough start: the steady state is constructed as if"));
        assert_eq!(found, is_said, "{more}: {notes:?}");
    }
}

// A run that measured nothing has figures like any other, of zero.
#[test]
fn a_run_that_is_all_warm_up_says_so() {
    let of = |rest: &str| {
        let text = format!(
            "[drive]\nprofile = 'samsung-970-pro'\ncapacity = '1 GiB'\n[[job]]\nrw = 'randread'\n{rest}"
        );
        let notes = results(&text).summary.notes;
        notes.iter().any(|note| note.contains("nothing was measured"))
    };
    for (rest, is_said) in [
        ("count = 100\n[measure]\nwarmup = 100\n", true),
        ("count = 100\n[measure]\nwarmup = 200\n", true),
        ("count = 100\n[measure]\nwarmup = 99\n", false),
        ("count = 100\nramp_time = '1 s'\n", true),
        ("count = 100\n", false),
    ] {
        assert_eq!(of(rest), is_said, "{rest}");
    }
}

// The spare of an array's member is that of its own blocks and capacity.
#[test]
fn an_array_is_told_the_spare_of_its_members() {
    let drive =
        |name: &str| format!("[[drive]]\nname = '{name}'\nprofile = 'samsung-970-pro'\ncapacity = '1 GiB'\n");
    let job = "[[job]]\nrw = 'randwrite'\ncount = 1\n";
    let note =
        |text: String| steadiness::other_spare(&scenario(&text), 0, 1).expect("it has whole superblocks");
    let array = drive("a") + &drive("b") + &drive("c") + "[array]\nlevel = 0\n" + job;
    assert_eq!(note(array), note(drive("a") + job));
}

// Drives of a JBOF began as saturated ones: under a light load they caught up for seconds, at ten times the write amplification.
#[test]
fn drives_of_a_box_begin_as_they_go_on() {
    let of = |ramp: u32| {
        let drive = "[[drive]]\nname = 'ssd'\ncopies = 2\nprofile = 'espresso'\ncapacity = '2 GiB'\nprecondition = 'steady'\n\
                     override.flash.channels = 2\noverride.flash.ways = 1\noverride.flash.dies = 1\noverride.flash.pages = 96\n\
                     override.firmware.op = '15 %'\n[host]\nprofile = 'dpu'\n[jbof]\nplatform = 'espresso'\nsegment = '256 KiB'\n";
        let job = format!(
            "[[job]]\ndrive = ['ssd0', 'ssd1']\nrw = 'randwrite'\nissue = 'open'\nrate_iops = 2000\nruntime = '15 s'\n\
             ramp_time = '{ramp} s'\n"
        );
        results(&format!("{drive}{job}")).summary.write_amplification.expect("it collects")
    };
    let (from_the_start, later) = (of(0), of(30));
    println!("{from_the_start:.2}, then {later:.2}");
    assert_within(8.0, from_the_start, later, "write amplification");
}

// The throughput of an open loop is the same while the drive begins to collect, or catches up: only what is beneath tells.
#[test]
fn a_drive_that_drifts_beneath_an_open_loop_says_so() {
    let of = |more: &str| {
        results(&format!(
            "[drive]\nprofile = 'samsung-970-pro'\ncapacity = '4 GiB'\nprecondition = 'filled'\n\
             [[job]]\nrw = 'randwrite'\nissue = 'open'\nrate_iops = '30000'\n{more}"
        ))
    };
    let drifting = of("runtime = '6 s'\n");
    let text = note(&drifting).expect("it begins to collect");
    assert!(text.contains("free superblocks ") && text.contains("write amplification "), "{text}");
    let point = drifting.series.points.last().and_then(|point| point.drive.as_ref()).expect("one drive");
    assert!(point.free_superblocks > 0 && point.buffered_bytes > 0, "{point:?}");
    assert_eq!(note(&of("runtime = '1 s'\n")), None, "it does not collect yet");
}

/// IOPS and write amplification of `seconds` after `ramp` ms.
fn after(drive: &str, job: &str, seconds: u32, ramp: u32) -> (f64, f64) {
    let text = format!(
        "{drive}precondition = 'steady'\n[[job]]\n{job}\nramp_time = '{ramp} ms'\nruntime = '{seconds} s'\n"
    );
    let summary = results(&text).summary;
    (summary.iops, summary.write_amplification.expect("it collects"))
}

// Began a drive as one that is saturated whatever the load, a slower host would measure how it catches up: write amplification of 45
// or 194, and reads behind collection, for minutes. Full size, since superblocks of small drives are few.
#[test]
fn a_slower_host_begins_as_it_goes_on() {
    let closed = |depth| format!("rw = 'randrw'\nrwmixread = 50\niodepth = {depth}");
    let open = |iops| format!("rw = 'randwrite'\nissue = 'open'\nrate_iops = '{iops}'");
    for (profile, job) in [
        ("samsung-970-pro", open(5000)),
        ("samsung-970-pro", open(35_000)),
        ("samsung-970-pro", closed(4)),
        ("samsung-970-pro", closed(32)),
        ("p4500", open(5000)),
        ("p4500", open(20_000)),
        ("wd-zn540", open(20_000)),
    ] {
        let drive = format!("[drive]\nprofile = '{profile}'\n");
        // Some superblocks of each die are written, or chance decides.
        let seconds = if job.contains("'5000'") { 8 } else { 2 };
        let (first, later) = (after(&drive, &job, seconds, 0), after(&drive, &job, seconds, 8000));
        println!("{profile}, {job:?}: {first:?}, later {later:?}");
        let what = format!("{profile}: {job}");
        // A closed loop waits for what it is measured beside, and both are estimates.
        let (of_iops, of_amplification) = if job.contains("iodepth") { (10.0, 20.0) } else { (5.0, 15.0) };
        assert_within(of_iops, first.0, later.0, &format!("{what}: IOPS"));
        assert_within(of_amplification, first.1, later.1, &format!("{what}: write amplification"));
    }
}

// A closed loop writes as fast as collection lets it, and collection does as much as it has to: a drive that began with what the loop does
// beside none was 90 % too fast, and amplified a fifth of what it does in the long run, without a word.
#[test]
fn a_loop_of_reads_and_writes_begins_as_it_goes_on() {
    for (profile, capacity, depth, seconds, later) in [
        ("p4500", "12541 MiB", 4, 4, 16),
        ("p4500", "12541 MiB", 32, 4, 16),
        ("samsung-970-pro", "4 GiB", 4, 1, 9),
        ("samsung-970-pro", "4 GiB", 32, 1, 9),
    ] {
        // So small a P4500 has this much flash to spare, whatever the profile says.
        let spare = if profile == "p4500" { "override.firmware.op = '24 %'\n" } else { "" };
        let drive = format!("[drive]\nprofile = '{profile}'\ncapacity = '{capacity}'\n{spare}");
        let job = format!("rw = 'randrw'\nrwmixread = 90\niodepth = {depth}");
        let (first, later) = (after(&drive, &job, seconds, 0), after(&drive, &job, later, 1000 * later));
        let what = format!("{profile}, {job:?}: {first:?}, later {later:?}");
        println!("{what}");
        // As the book says: what is amplified depends on the rate five times as much as the other way round.
        assert_within(10.0, first.0, later.0, &format!("{what}: IOPS"));
        assert_within(25.0, first.1, later.1, &format!("{what}: write amplification"));
    }
}
