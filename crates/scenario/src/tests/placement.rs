//! Placement of firmware, and arrays: profiles, and error messages for invalid combinations.

use super::*;
use crate::profile::FirmwarePlacement;

const HOST: &str = "[host]\nprofile = \"sandy-bridge\"\n";

/// A drive of this profile with these keys of its profile overridden; the first of them is in line 4.
fn over(profile: &str, keys: &str) -> Result<Scenario, InputError> {
    let text = format!("[drive]\nprofile = \"{profile}\"\n[drive.override]\n{keys}\n{HOST}{JOB}");
    parse(&text, &[])
}

/// Drives like the first one, and an array; its second line is line 7 of the scenario.
fn array(copies: u32, lines: &str) -> Result<Scenario, InputError> {
    let drives = format!(
        "[[drive]]\nname = \"ssd\"\ncopies = {copies}\nprofile = \"samsung-970-pro\"\ncapacity = \"1 GiB\"\n"
    );
    parse(&format!("{drives}[array]\n{lines}\n{JOB}"), &[])
}

// The placement affects every figure: a mistake in a profile would not be visible anywhere.
#[test]
fn profiles_say_where_their_firmware_runs() {
    let plan = |profile: &str| over(profile, "flash.erase = \"3 ms\"").unwrap().drives[0].plan.clone();
    for (profile, placement, members) in [
        ("samsung-970-pro", FirmwarePlacement::Device, 1),
        ("fssd", FirmwarePlacement::Host, 1),
        ("bssd", FirmwarePlacement::Bridge, 4),
    ] {
        let plan = plan(profile);
        assert_eq!(
            (plan.profile.firmware.placement, plan.profile.members()),
            (placement, members),
            "{profile}"
        );
        assert_eq!(plan.precondition == Base::Empty, placement != FirmwarePlacement::Device);
    }
    let bridge = plan("bssd");
    let bytes = bridge.namespace_blocks * u64::from(bridge.lba_bytes);
    assert_eq!(bridge.capacity_bytes(), 372 << 30);
    assert!(bytes < bridge.capacity_bytes() && bytes > bridge.capacity_bytes() / 100 * 99);
    assert_eq!(bridge.geometry.capacity_bytes, 93 << 30, "that of one of its drives");
}

// Each mistake is reported at its location, with a remedy.
#[test]
fn mistakes_of_placement_are_named_where_they_stand() {
    for (profile, keys, what, help) in [
        ("fssd", "endpoints.count = 3", "don't divide among `endpoints.count` = 3", "a divisor"),
        ("fssd", "endpoints.count = 0", "`endpoints.count`", "from 1 to 64"),
        ("fssd", "firmware.plp = true", "no capacitors", "false"),
        (
            "fssd",
            "firmware.placement = \"device\"",
            "`[endpoints]` are commanded by firmware on the host",
            "placement",
        ),
        ("samsung-970-pro", "firmware.placement = \"host\"", "says nothing of the hardware", "[endpoints]"),
        ("samsung-970-pro", "firmware.placement = \"bridge\"", "says nothing of the bridge", "[bridge]"),
        ("bssd", "firmware.placement = \"device\"", "`[bridge]` stands before drives", "placement"),
        ("bssd", "endpoints.count = 1", "firmware on the host", ""),
        ("bssd", "bridge.bridge.members = 2", "unknown key `bridge`", ""),
        ("bssd", "bridge.chunk = \"48 KiB\"", "`bridge.chunk` = 48 KiB", "power of two"),
        ("bssd", "bridge.members = 0", "`bridge.members`", "from 1 to 64"),
        ("fssd", "firmware.cores = 5", "needs 5 processors of the host, which has 4", "cores = 5"),
        ("fssd", "firmware.cores = 0", "`firmware.cores`", "from 1"),
        (
            "samsung-970-pro",
            "firmware.on_host = { clock = \"3 GHz\" }",
            "neither the map nor collection",
            "`map`",
        ),
        (
            "fssd",
            "firmware.on_host = { map = true, clock = \"3 GHz\" }",
            "the whole firmware runs on the host",
            "leave one",
        ),
        ("fssd", "firmware.map_cache = \"1 MiB\"", "is no tree", "leave one of them out"),
        ("fssd", "firmware.extents.node = \"100 B\"", "`firmware.extents.node`", ""),
    ] {
        let error = over(profile, keys).err().unwrap_or_else(|| panic!("{profile} with {keys} is taken"));
        let shown = error.to_string();
        let place = error.place.as_ref().and_then(|place| place.position);
        assert!(place.is_some(), "{profile}, {keys}: no place in {shown}");
        assert!(error.what.contains(what), "{profile}, {keys}: {shown}");
        assert!(error.help.contains(help), "{profile}, {keys}: {shown}");
    }
}

// A drive that cannot begin filled must not be treated as filled.
#[test]
fn what_runs_elsewhere_begins_empty() {
    for profile in ["fssd", "bssd"] {
        let with = |key: &str| parse(&format!("[drive]\nprofile = \"{profile}\"\n{key}\n{HOST}{JOB}"), &[]);
        assert_error(with("precondition = \"filled\""), "s.toml:3:", "begins empty", "leave it out");
        assert_error(with("worn = \"10 %\""), "s.toml:3:", "is new", "leave it out");
        assert_error(with("personality = \"kv\""), "s.toml:3:", "blocks only", "leave it out");
        with("precondition = \"empty\"").unwrap();
    }
    let odd = parse(&format!("[drive]\nprofile = \"bssd\"\ncapacity = \"4097 MiB\"\n{HOST}{JOB}"), &[]);
    assert_error(odd, "s.toml:3:", "doesn't divide among 4 drives", "multiple");
}

// An array with less redundancy than it seems to have loses data: its section must be valid.
#[test]
fn mistakes_of_arrays_are_named_where_they_stand() {
    let plan = array(5, "level = 5\nspares = 1").unwrap().drives.remove(0).plan;
    let whole = plan.array.as_ref().unwrap();
    assert_eq!((whole.active(), whole.members.len(), plan.name.as_ref()), (4, 5, None));
    let bytes = plan.namespace_blocks * u64::from(plan.lba_bytes);
    assert!((2900 << 20..3 << 30).contains(&bytes), "three drives of data: {bytes}");
    assert_error(array(5, "level = 6"), "s.toml:7:", "no level here", "0, 1, 5 or 10");
    assert_error(array(2, "level = 5"), "s.toml:7:", "needs 3 drives", "add drives");
    assert_error(array(3, "level = 5\nspares = 1"), "s.toml:7:", "with 1 spares", "add drives");
    assert_error(array(5, "level = 10"), "s.toml:7:", "odd number", "add a drive");
    assert_error(
        array(3, "level = 0\nspares = 1"),
        "s.toml:8:",
        "has no effect with level 0",
        "leave it out",
    );
    assert_error(array(3, "level = 5\nchunk = \"48 KiB\""), "s.toml:8:", "`array.chunk`", "power of two");
    assert_error(
        array(3, "level = 5\ncollection_window = \"60 %\""),
        "s.toml:8:",
        "`array.collection_window`",
        "from 0 % to 50 %",
    );
    let unplug = "level = 5\nunplug = { member = 3, at = \"1 s\" }";
    assert_error(array(3, unplug), "s.toml:8:", "drives 0 to 2", "name one");
    let drive = |name: &str, key: &str| {
        format!("[[drive]]\nname = \"{name}\"\nprofile = \"samsung-970-pro\"\n{key}\n")
    };
    let two = |key: &str| {
        let first = drive("a", "capacity = \"1 GiB\"");
        parse(&format!("{first}{}[array]\nlevel = 1\n{JOB}", drive("b", key)), &[])
    };
    assert_error(two("capacity = \"2 GiB\""), "s.toml:5:", "another capacity", "the same `capacity`");
    assert_error(
        two("capacity = \"1 GiB\"\nprecondition = \"filled\""),
        "s.toml:9:",
        "start empty",
        "leave it out",
    );
    assert_error(two("capacity = \"1 GiB\"\nlba_size = \"512 B\""), "s.toml:5:", "another", "the same");
}

// A remedy with a nonexistent key would cause a second error. Each key that a remedy for an array, a bridge
// or endpoints names is applied here, and the scenario must then be accepted.
#[test]
fn every_cure_is_a_key_that_parses() {
    let one = |profile: &str, keys: &str| {
        format!("[drive]\nprofile = \"{profile}\"\n[drive.override]\n{keys}\n{HOST}{JOB}")
    };
    let several = |copies: u32, lines: &str, job: &str| {
        format!(
            "[[drive]]\nname = \"ssd\"\ncopies = {copies}\nprofile = \"samsung-970-pro\"\ncapacity = \"1 GiB\"\n[array]\n{lines}\n{job}"
        )
    };
    let bridges = format!(
        "[[drive]]\nname = \"ssd\"\ncopies = 3\nprofile = \"bssd\"\ncapacity = \"4 GiB\"\n[array]\nlevel = 5\n\
         collection = \"together\"\n{HOST}{JOB}"
    );
    // The remedy names the last part of the key, and the section in words; the user knows the rest.
    let cases: [(String, &[&str]); 22] = [
        (one("fssd", "endpoints.count = 3"), &["drive.override.endpoints.count=2"]),
        (one("fssd", "endpoints.count = 0"), &["drive.override.endpoints.count=1"]),
        (one("fssd", "endpoints.lanes = 3"), &["drive.override.endpoints.lanes=4"]),
        (one("fssd", "endpoints.buffer = \"1 B\""), &["drive.override.endpoints.buffer=4 KiB"]),
        (one("fssd", "firmware.plp = true"), &["drive.override.firmware.plp=false"]),
        (one("fssd", "firmware.cores = 5"), &["host.override.cores=5"]),
        (
            one("samsung-970-pro", "firmware.placement = \"host\"\nfirmware.cores = 2"),
            &["drive.override.endpoints.count=1"],
        ),
        (
            one("samsung-970-pro", "firmware.placement = \"bridge\""),
            &[
                "drive.override.bridge.members=4",
                "drive.override.bridge.chunk=64 KiB",
                "drive.override.bridge.generation=3",
                "drive.override.bridge.lanes=4",
                "drive.override.bridge.cores=1",
                "drive.override.bridge.clock=1 GHz",
                "drive.override.bridge.command=1000",
                "drive.override.bridge.convert=1000",
            ],
        ),
        (one("bssd", "firmware.placement = \"device\""), &["drive.override.firmware.placement=bridge"]),
        (one("bssd", "bridge.chunk = \"48 KiB\""), &["drive.override.bridge.chunk=64 KiB"]),
        (one("bssd", "bridge.members = 0"), &["drive.override.bridge.members=4"]),
        (one("bssd", "bridge.lanes = 3"), &["drive.override.bridge.lanes=4"]),
        (
            one("bssd", "bridge.small_writes.row = \"5000 B\""),
            &["drive.override.bridge.small_writes.row=8 KiB"],
        ),
        (
            one("bssd", "bridge.collection_window = \"60 %\""),
            &["drive.override.bridge.collection_window=10 %"],
        ),
        (several(3, "level = 6", JOB), &["array.level=5"]),
        (several(2, "level = 5", JOB), &["drive.0.copies=3"]),
        (several(3, "level = 10", JOB), &["array.level=1"]),
        (several(3, "level = 0\nspares = 1", JOB), &["array.level=1"]),
        (several(3, "level = 5\nchunk = \"48 KiB\"", JOB), &["array.chunk=64 KiB"]),
        (several(3, "level = 5\nunplug = { member = 3, at = \"1 s\" }", JOB), &["array.unplug.member=2"]),
        (several(3, "level = 5\ncollection_window = \"60 %\"", JOB), &["array.collection_window=10 %"]),
        (bridges, &["array.collection=each", "drive.0.override.bridge.collection=together"]),
    ];
    for (text, sets) in cases {
        let error = parse(&text, &[]).err().unwrap_or_else(|| panic!("it is taken:\n{text}"));
        let shown = error.to_string();
        for set in sets {
            let (key, _) = set.split_once('=').unwrap();
            let last = key.rsplit('.').next().unwrap();
            let said = format!("{} {}", error.what, error.help);
            assert!(said.contains(last), "`{key}` is not in: {shown}");
        }
        if let Err(error) = parse(&text, sets) {
            panic!("{sets:?} does not help against: {shown}\nfor: {error}");
        }
    }
}
