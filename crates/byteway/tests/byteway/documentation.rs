//! Checks that generated pages are up to date. `cargo xtask` checks links and commands.

use byteway_scenario::profile::profile_schema;
use byteway_scenario::{Policies, device_schema, host_schema, network_schema, reference, scenario_schema};
use std::path::{Path, PathBuf};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

// A hand-generated reference would be outdated with the next key.
#[test]
fn the_reference_is_that_of_the_schemas() {
    for (file, title, schema) in [
        ("scenario", "Scenario file", scenario_schema()),
        ("device", "Device file", device_schema()),
        ("profile", "Profile of a drive", profile_schema(&Policies::default())),
        ("host", "Profile of a host", host_schema()),
        ("network", "Profile of a network", network_schema()),
    ] {
        let path = repository().join("docs/reference").join(file).with_extension("md");
        let kept = std::fs::read_to_string(&path).unwrap();
        let is_same = kept == reference(title, &schema);
        assert!(is_same, "{} is not what the schema says: run `cargo xtask reference`", path.display());
    }
}

// Readers only read as much as fits on a few screens.
#[test]
fn the_readme_is_short() {
    let lines = std::fs::read_to_string(repository().join("README.md")).unwrap().lines().count();
    assert!(lines <= 120, "{lines} lines");
}
