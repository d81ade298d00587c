//! The section `[programs]` of a profile, and in a drive's overrides.

use super::*;
use crate::profile::Programs;

const TABLES: &str = "[drive]\nprofile = \"modern-gen5\"\npersonality = \"tables\"\ncapacity = \"2 GiB\"\n\
                      [[drive.table]]\nname = \"t\"\ngenerate = \"vpic\"\nrows = 10\n";
const QUERY: &str = "[[query]]\nsql = \"SELECT id FROM t\"\ncount = 1\n";

fn tables(programs: &str) -> Result<Scenario, InputError> {
    parse(&format!("{TABLES}{programs}{QUERY}"), &[])
}

fn namespace_bytes(scenario: &Scenario) -> u64 {
    let plan = &scenario.drives[0].plan;
    plan.namespace_blocks * u64::from(plan.lba_bytes)
}

// A drive that had programs by default would have less capacity for its host; an empty section has the
// documented defaults, and the reserved capacity.
#[test]
fn a_section_gives_a_drive_programs() {
    let without = tables("").unwrap();
    assert_eq!(without.drives[0].plan.profile.programs, None);
    let with = tables("[drive.override.programs]\n").unwrap();
    let programs = with.drives[0].plan.profile.programs.clone().unwrap();
    assert_eq!(programs, Programs::default());
    assert_eq!((programs.memory, programs.programs, programs.fuel), (Bytes(64 << 20), 16, 100_000_000));
    assert_eq!(namespace_bytes(&without) - namespace_bytes(&with), 65 << 20);
    let set =
        tables("[drive.override.programs]\nmemory = \"1 MiB\"\nrow_fuel = 77\nmemory_weight = 3\n").unwrap();
    let programs = set.drives[0].plan.profile.programs.clone().unwrap();
    assert_eq!((programs.memory, programs.row_fuel, programs.memory_weight), (Bytes(1 << 20), 77, 3));
    assert_eq!((programs.sets, programs.jump_weight), (32, 2), "what is not said is as it was");
    // As in `byteway profile show --format json`.
    let shown = serde_json::json!(set.drives[0].plan.profile);
    assert_eq!((&shown["programs"]["memory"], &shown["programs"]["runs"]), (&"1 MiB".into(), &8.into()));
    // Next to blocks, key-value pairs and tables.
    for personality in ["block", "kv", "sink"] {
        let profile = if personality == "sink" { "cosmos-plus" } else { "modern-gen5" };
        let text = format!(
            "[drive]\nprofile = \"{profile}\"\npersonality = \"{personality}\"\ncapacity = \"2 GiB\"\n\
             [drive.override.programs]\n"
        );
        let device = Device::from_text("d", Path::new(""), &text, &Options::default()).unwrap();
        assert!(device.drive.profile.programs.is_some(), "{personality}");
    }
    // A key that a base sets can be removed.
    let off = parse(&format!("{TABLES}{QUERY}"), &["drive.override.programs=false"]).unwrap();
    assert_eq!(off.drives[0].plan.profile.programs, None);
}

// Each limit is reported with line, bounds and remedy: a value that the drive refuses later would be an error
// without a location.
#[test]
fn values_out_of_bounds_are_named() {
    for (line, what, help) in [
        ("memory = \"1 KiB\"", "`programs.memory` = 1 KiB", "4 KiB"),
        ("memory = \"17 GiB\"", "`programs.memory` = 17 GiB", "16 GiB"),
        ("memory = \"4097 B\"", "`programs.memory`", "multiple of 4 KiB"),
        ("memory = \"3 GiB\"", "`programs.memory` takes", "larger `capacity`"),
        ("programs = 0", "`programs.programs` = 0", "1 to 1024"),
        ("program_max = \"64 KiB\"", "`programs.program_max`", "32 KiB"),
        ("programs_max = \"1 KiB\"", "`programs.programs_max`", "32 KiB to 1 GiB"),
        ("activated = 0", "`programs.activated` = 0", "1 to 1024"),
        ("sets = 2000", "`programs.sets` = 2000", "1 to 1024"),
        ("ranges = 256", "`programs.ranges` = 256", "1 to 255"),
        ("runs = 100000", "`programs.runs` = 100000", "from 1 to"),
        ("fuel = 0", "`programs.fuel` = 0", "from 1"),
        ("row_fuel = 0", "`programs.row_fuel` = 0", "from 1"),
        ("filter_fuel = 9", "`programs.filter_fuel` = 9", "from 10000"),
        ("cycles = 2000000", "`programs.cycles`", "1000000"),
        ("call_weight = 2000000", "`programs.call_weight`", "1000000"),
    ] {
        let result = tables(&format!("[drive.override.programs]\n{line}\n"));
        assert_error(result, "s.toml:10:", what, help);
    }
}

// Composite drives, and drives whose cores are lent, have no programs: the section would be ignored.
#[test]
fn drives_that_run_no_programs_say_so() {
    for (profile, what) in [("fssd", "firmware runs on the host"), ("bssd", "several behind a bridge")] {
        let text = format!("[drive]\nprofile = \"{profile}\"\n[drive.override.programs]\n{JOB}");
        assert_error(parse(&text, &[]), "s.toml:3:", what, "false");
    }
    let array = "[[drive]]\nname = \"d\"\ncopies = 2\nprofile = \"samsung-970-pro\"\ncapacity = \"1 GiB\"\n\
                 [drive.override.programs]\n[array]\nlevel = 0\n";
    let error = parse(&format!("{array}{JOB}"), &[]).unwrap_err();
    assert!(error.what.contains("no programs"), "{error}");
}
