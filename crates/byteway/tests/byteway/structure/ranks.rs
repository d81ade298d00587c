//! Dependencies between crates, held against the wings and ranks in the workspace's manifest (`workspace.metadata.map`).
//!
//! `cargo xtask map` draws the same table.

use std::collections::BTreeMap;

use super::manifests::{all_below, dependencies, read, repository};

/// Denials that do not follow from ranks and wings: a crate, and what it must not depend on, directly or not.
const DENIED: [(&str, &[&str]); 7] = [
    // An array knows its members by their trait, whatever connects them.
    ("byteway-array", &["byteway-link"]),
    // Traces, and scenarios, are of use without the rest: their users build no charts, no LSM tree and no flash.
    ("byteway-trace", &["rusty-leveldb", "byteway-wire", "byteway-flash"]),
    ("byteway-scenario", &["rusty-leveldb"]),
    // A world has power and no driver, so that any host can be attached to it.
    ("byteway-world", &["byteway-host"]),
    // A simulation waits neither for TLS nor for charts when it is built.
    ("byteway-run", &["s2n-tls"]),
    ("byteway-papers", &["s2n-tls"]),
    // What answers watchers has a thread of its own, and no drive waits for its runtime.
    ("byteway-serve", &["tokio", "hyper"]),
];

/// Position of a crate.
struct Place {
    /// From 1, the lowest.
    rank: usize,
    wing: String,
}

struct Table {
    /// Wings that stand side by side, the lowest first.
    floors: Vec<Vec<String>>,
    places: BTreeMap<String, Place>,
}

impl Table {
    fn read() -> Table {
        let manifest = read(&repository());
        let map = &manifest["workspace"]["metadata"]["map"];
        let names = |list: &toml::Value| -> Vec<String> {
            list.as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned()).collect()
        };
        let floors: Vec<Vec<String>> = map["floors"].as_array().unwrap().iter().map(names).collect();
        let mut places = BTreeMap::new();
        for (index, rank) in map["ranks"].as_array().unwrap().iter().enumerate() {
            for (wing, crates) in rank.as_table().unwrap() {
                assert!(
                    floors.iter().flatten().any(|name| name == wing),
                    "rank {}: no wing `{wing}`",
                    index + 1
                );
                for name in names(crates) {
                    let place = Place { rank: index + 1, wing: wing.clone() };
                    assert!(places.insert(name.clone(), place).is_none(), "`{name}` has two ranks");
                }
            }
        }
        Table { floors, places }
    }

    /// Whether a wing may know another: its own, and those of lower floors.
    fn may_know(&self, wing: &str, other: &str) -> bool {
        let floor = |wing: &str| self.floors.iter().position(|floor| floor.iter().any(|name| name == wing));
        wing == other || floor(other) < floor(wing)
    }
}

/// The name of a crate in the table.
fn short(package: &str) -> &str {
    package.strip_prefix("byteway-").unwrap_or(package)
}

// A crate without a rank could depend on anything.
#[test]
fn every_crate_has_a_rank() {
    let table = Table::read();
    let placed: Vec<&str> = table.places.keys().map(String::as_str).collect();
    let direct = dependencies();
    let mut there: Vec<&str> = direct.keys().map(|name| short(name)).collect();
    there.sort_unstable();
    assert_eq!(
        placed, there,
        "the crates of `workspace.metadata.map` in Cargo.toml, and those that there are"
    );
}

// Host and device that knew each other could interact other than through registers, queues and memory; a lower crate that knew a higher one
// could not be used, nor understood, without it.
#[test]
fn a_crate_depends_on_lower_ranks_and_wings_alone() {
    let table = Table::read();
    let mut wrong = String::new();
    for (name, below) in dependencies() {
        let Some(place) = table.places.get(short(&name)) else { continue };
        for other in below.iter().map(|other| short(other)) {
            let Some(beneath) = table.places.get(other) else { continue };
            let (name, rank, wing) = (short(&name), place.rank, &place.wing);
            if beneath.rank >= rank {
                wrong += &format!("\n{name} (rank {rank}) depends on {other} (rank {})", beneath.rank);
            }
            if !table.may_know(wing, &beneath.wing) {
                wrong += &format!("\n{name} (of {wing}) depends on {other} (of {})", beneath.wing);
            }
        }
    }
    assert!(wrong.is_empty(), "dependencies against `workspace.metadata.map` in Cargo.toml:{wrong}");
}

// Each denial has its reason next to it.
#[test]
fn denied_dependencies_are_not_there() {
    let direct = dependencies();
    for (name, denied) in DENIED {
        assert!(direct.contains_key(name), "there is no crate {name}");
        let below = all_below(name, &direct);
        for other in denied {
            assert!(!below.contains(*other), "{name} depends on {other}");
        }
    }
}
