//! Firmware placement and composite drives in scenarios: data, resource use, and cost to the host.
//!
//! Checked: a workload on drives with their own firmware, with firmware on the host, and behind a bridge, with every read verified; the use
//! of host processors and memory, consistent between summary and time series; garbage collection on the host for a drive that is
//! overwritten when full; a map whose memory grows with its content; an array that serves through a failure.

use crate::common::results;
use byteway_results::host::{HostComponent, HostMemory};
use byteway_results::results::Results;
use byteway_results::summary::HostSummary;

fn run(drive: &str, rest: &str) -> Results {
    results(&format!(
        "name = 'placed'\n[drive]\n{drive}\nlba_size = '512 B'\n[host]\nprofile = 'sandy-bridge'\n\
         [measure]\nhost = true\ninterval = '5 ms'\n{rest}"
    ))
}

fn host(results: &Results) -> &HostSummary {
    results.summary.host.as_ref().unwrap()
}

fn busy(results: &Results, component: HostComponent) -> f64 {
    let row = host(results).components.iter().find(|row| row.component == component.name());
    row.map_or(0.0, |row| row.busy)
}

fn memory(results: &Results, part: &str) -> u64 {
    host(results).memory.iter().find(|row| row.component == part).map_or(0, |row| row.bytes)
}

/// Writes a range, then mixes reads and writes of all sizes over it.
const MIXED: &str = "[[job]]\nname = 'fill'\nrw = 'write'\nbs = '64 KiB'\nsize = '16 MiB'\nio_size = '16 MiB'\niodepth = 4\n\
    [[job]]\nname = 'mix'\nrw = 'randrw'\nbsrange = '512 B-32 KiB'\nsize = '16 MiB'\niodepth = 8\ncount = 3000\nstonewall = true\n\
    [[job]]\nname = 'check'\nrw = 'read'\nbs = '128 KiB'\nsize = '16 MiB'\ncount = 128\nstonewall = true\n";

// For every placement, reads must return what was written.
#[test]
fn one_workload_reads_what_it_wrote_wherever_firmware_runs() {
    for drive in [
        "profile = 'samsung-970-pro'\ncapacity = '1 GiB'",
        "profile = 'samsung-970-pro'\ncapacity = '1 GiB'\noverride.firmware.on_host = { map = true, clock = '3 GHz' }",
        "profile = 'samsung-970-pro'\ncapacity = '1 GiB'\noverride.firmware.on_host = { collection = true, clock = '3 GHz' }",
        "profile = 'fssd'\ncapacity = '1 GiB'",
        "profile = 'fssd'\ncapacity = '1 GiB'\noverride.firmware.extents = false\noverride.firmware.absorb = false",
        "profile = 'fssd'\ncapacity = '1 GiB'\noverride.firmware.read_cache = '4 MiB'\noverride.endpoints.bounce = '3 GB/s'",
        "profile = 'samsung-970-pro'\ncapacity = '1 GiB'\noverride.firmware.read_cache = '1 MiB'",
        "profile = 'bssd'\ncapacity = '4 GiB'",
    ] {
        let found = run(drive, MIXED);
        let verification = &found.summary.verification;
        assert!(verification.reads > 1000 && verification.mismatches == 0, "{drive}: {verification:?}");
        assert!(found.summary.errors.is_empty(), "{drive}: {:?}", found.summary.errors);
    }
}

// Both cost host memory, one saves flash reads, the other takes processor time per byte: a switch without an effect on figures is broken.
#[test]
fn a_read_cache_and_bounce_buffers_have_their_price() {
    const TWICE: &str = "[[job]]\nname = 'fill'\nrw = 'write'\nbs = '64 KiB'\nsize = '2 MiB'\nio_size = '2 MiB'\n\
        [[job]]\nname = 'read'\nrw = 'randread'\nbs = '4 KiB'\nsize = '2 MiB'\ncount = 4000\nstonewall = true\n";
    let fssd = "profile = 'fssd'\ncapacity = '1 GiB'\noverride.firmware.write_buffer = '1 MiB'";
    let plain = run(fssd, TWICE);
    let cached = run(&format!("{fssd}\noverride.firmware.read_cache = '1 MiB'"), TWICE);
    let cache = cached.summary.upkeep.as_ref().unwrap().read_cache.unwrap();
    assert!((0.4..0.6).contains(&cache.hit_ratio), "it holds a half of what is read: {cache:?}");
    assert_eq!(memory(&cached, "read cache"), 1 << 20);
    assert!(cached.summary.elapsed_ns < 0.9 * plain.summary.elapsed_ns);
    assert!(plain.summary.upkeep.is_none() && memory(&plain, "read cache") == 0);
    let bounced = run(&format!("{fssd}\noverride.endpoints.bounce = '1 GB/s'"), TWICE);
    assert_eq!(busy(&plain, HostComponent::Copies), 0.0);
    let copied = busy(&bounced, HostComponent::Copies) * bounced.summary.elapsed_ns;
    let expected = f64::from((2 << 20) + 4000 * 4096);
    assert!((copied - expected).abs() < 0.001 * expected, "a nanosecond a byte: {copied} of {expected}");
    let held = memory(&bounced, "bounce buffers");
    assert!((4096..=64 << 10).contains(&held), "{held}");
}

// The cost to the host is the point of this kind of drive: an item omitted or counted twice is a wrong result.
#[test]
fn the_hosts_bill_adds_up() {
    let own = run("profile = 'samsung-970-pro'\ncapacity = '1 GiB'", MIXED);
    let hosted = run("profile = 'fssd'\ncapacity = '1 GiB'", MIXED);
    for component in [HostComponent::Map, HostComponent::Buffer, HostComponent::Entry] {
        assert!(busy(&hosted, component) > 0.0, "{component:?}");
        assert_eq!(busy(&own, component), 0.0, "{component:?}");
    }
    assert!(busy(&own, HostComponent::Driver) > 0.0 && busy(&own, HostComponent::Interrupts) > 0.0);
    assert_eq!((memory(&own, "map"), memory(&own, "write buffer")), (0, 0));
    assert!(memory(&hosted, "map") > 0 && memory(&hosted, "superblocks") > 0);
    assert_eq!(
        memory(&hosted, "system and drivers"),
        1_500_000_000,
        "the system's 600 MB and the driver's 900 MB"
    );
    for found in [&own, &hosted] {
        let (whole, summary) = (host(found), &found.summary);
        let parts: f64 = whole.components.iter().map(|row| row.busy).sum();
        assert!((parts - whole.busy).abs() < 1e-6, "{parts} of {}", whole.busy);
        // The time series gives the same.
        let width = |point: &byteway_results::results::Point| point.end_ns - point.begin_ns;
        let of =
            |point: &byteway_results::results::Point| point.drive.as_ref().unwrap().host.clone().unwrap();
        let points = &found.series.points;
        let stepped: f64 = points.iter().map(|point| of(point).processors_busy() * width(point)).sum();
        let whole_ns = whole.busy * summary.elapsed_ns;
        assert!(
            (stepped - whole_ns).abs() < whole_ns / 1000.0,
            "{stepped} ns in steps, {whole_ns} ns in all"
        );
        let last = of(points.last().unwrap());
        assert_eq!(last.memory_bytes(), whole.memory_bytes());
        assert_eq!(last.memory.len(), HostMemory::default().parts().len());
    }
}

// With a full drive the host's processors spend their time on garbage collection.
#[test]
fn a_full_drive_is_collected_on_the_host() {
    let job = "[[job]]\nname = 'over'\nrw = 'randwrite'\nbs = '64 KiB'\niodepth = 16\nio_size = '2500 MiB'\n";
    let found = run(
        "profile = 'fssd'\ncapacity = '1 GiB'\noverride.firmware.op = '10 %'\noverride.firmware.write_buffer = '16 MiB'",
        job,
    );
    assert!(busy(&found, HostComponent::Collection) > 0.0, "{:?}", host(&found).components);
    assert!(found.summary.write_amplification.unwrap() > 1.05, "{:?}", found.summary.write_amplification);
    assert!(found.summary.errors.is_empty(), "{:?}", found.summary.errors);
}

// The memory of an extent map depends on the amount and fragmentation of the data; otherwise the host's cost would be too low.
#[test]
fn the_map_on_the_host_grows_with_what_is_scattered() {
    let of = |rw: &str| {
        let job = format!(
            "[[job]]\nname = 'w'\nrw = '{rw}'\nbs = '4 KiB'\niodepth = 32\nsize = '512 MiB'\ncount = 40000\n"
        );
        let found = run("profile = 'fssd'\ncapacity = '1 GiB'", &job);
        let map = HostMemory::default().parts().iter().position(|(name, _)| *name == "map").unwrap();
        let sizes = found
            .series
            .points
            .iter()
            .map(|point| point.drive.as_ref().unwrap().host.as_ref().unwrap().memory[map]);
        sizes.collect::<Vec<u64>>()
    };
    let (scattered, in_order) = (of("randwrite"), of("write"));
    assert!(scattered.is_sorted(), "it grows as long as something new is written");
    let (last, least) = (scattered.last().unwrap(), in_order.last().unwrap());
    assert!(*last > 10 * least, "{last} bytes scattered, {least} in order");
}

// An array must continue to serve after the removal of a drive, and report what it did.
#[test]
fn an_array_is_served_through_a_failure() {
    let text = "name = 'array'\n[[drive]]\nname = 'ssd'\ncopies = 4\nprofile = 'samsung-970-pro'\ncapacity = '1 GiB'\n\
        [array]\nlevel = 5\nspares = 1\nrebuild = 0\nunplug = { member = 0, at = '20 ms' }\n\
        [[job]]\nname = 'fill'\nrw = 'write'\nbs = '128 KiB'\nsize = '64 MiB'\nio_size = '64 MiB'\niodepth = 4\n\
        [[job]]\nname = 'mix'\nrw = 'randrw'\nbs = '4 KiB'\nsize = '64 MiB'\niodepth = 8\nruntime = '4 s'\nstonewall = true\n";
    let found = results(text);
    let array = found.summary.array.as_ref().unwrap();
    assert_eq!((array.level, array.is_broken, array.lost_units), (5, false, 0));
    assert!(array.members.iter().all(|member| member == "active"), "{:?}", array.members);
    let rebuild = array.rebuild.unwrap();
    assert_eq!((rebuild.member, rebuild.done, rebuild.expected_end_ns), (0, 1.0, None));
    assert!(rebuild.began_ns > 20e6 && rebuild.ended_ns.unwrap() > rebuild.began_ns, "{rebuild:?}");
    assert!(found.summary.to_tables().contains("drive 0 rebuilt, from"), "{}", found.summary.to_tables());
    assert!(array.units_reconstructed > 0 && array.traffic.iter().any(|row| row.cause == "rebuild"));
    let verification = &found.summary.verification;
    assert!(verification.reads > 1000 && verification.mismatches == 0, "{verification:?}");
    assert!(found.summary.errors.is_empty(), "{:?}", found.summary.errors);
    assert!(busy(&found, HostComponent::Array) > 0.0);
}

// If the host's processors, or its single lock, are the bottleneck, the report must say so: they are not part of the drive, but the busiest
// resources.
#[test]
fn what_is_busiest_may_be_the_host() {
    let job =
        "[[job]]\nname = 'w'\nrw = 'randwrite'\nbs = '4 KiB'\niodepth = 32\nnumjobs = 4\ncount = 8000\n";
    let found = run("profile = 'fssd'\ncapacity = '1 GiB'", job).summary;
    let row = |name: &str| found.utilisation.iter().find(|row| row.resource == name);
    let (lock, processors) = (row("firmware lock").unwrap(), row("host processors").unwrap());
    assert_eq!(lock.count, 1);
    assert!(lock.mean > 0.3 && lock.max <= 1.0, "{lock:?}");
    // Including the processors that take interrupts.
    assert!(processors.count >= 4 && processors.max <= 1.0, "{processors:?}");
    let told = found.host.as_ref().unwrap().busy;
    let summed = processors.mean * processors.count as f64;
    assert!((summed - told).abs() < 0.05 * told, "{summed} processors in use, {told} by component");
    let (busiest, mean) = found.busiest().unwrap();
    assert!(found.utilisation.iter().all(|row| row.mean <= mean), "{busiest} of {:?}", found.utilisation);
    assert!(["firmware lock", "host processors"].contains(&busiest), "{busiest} of {:?}", found.utilisation);
    let own = run("profile = 'samsung-970-pro'\ncapacity = '1 GiB'", job).summary;
    assert!(own.utilisation.iter().all(|row| row.resource != "firmware lock"));
    let plain = "name = 'x'\n[drive]\nprofile = 'samsung-970-pro'\ncapacity = '1 GiB'\n[[job]]\nrw = 'randread'\ncount = 100\n";
    assert!(
        results(plain).summary.utilisation.iter().all(|row| !row.resource.starts_with("host")),
        "not followed"
    );
}

// Joint garbage collection of drives behind a bridge must also apply to complete runs, and both kinds must verify.
#[test]
fn drives_of_a_bridge_collect_as_they_are_told() {
    for (collection, is_together) in [("each", false), ("together", true)] {
        let drive = format!(
            "profile = 'bssd'\ncapacity = '4 GiB'\noverride.bridge.collection = '{collection}'\noverride.firmware.write_buffer = '1 MiB'\noverride.firmware.op = '7 %'"
        );
        let jobs = "[[job]]\nname = 'fill'\nrw = 'write'\nbs = '256 KiB'\niodepth = 8\nsize = '100 %'\n\
            [[job]]\nname = 'over'\nrw = 'randwrite'\nbs = '64 KiB'\niodepth = 16\nio_size = '512 MiB'\nstonewall = true\n\
            [[job]]\nname = 'read'\nrw = 'randread'\nbs = '256 KiB'\niodepth = 4\ncount = 500\nstonewall = true\n";
        let found = run(&drive, jobs).summary;
        let is_told = found.notes.iter().any(|note| note.starts_with("joint garbage collection"));
        assert_eq!(is_told, is_together, "{:?}", found.notes);
        assert!(found.verification.reads >= 500 && found.verification.mismatches == 0);
        assert!(found.errors.is_empty(), "{:?}", found.errors);
    }
}
