//! Dependencies between crates, held against the wings and ranks in the workspace's manifest (`workspace.metadata.map`).
//!
//! `cargo xtask map` draws the same table.

use std::collections::{BTreeMap, BTreeSet};

use super::manifests::{Dependencies, all_below, dependencies, read, repository};

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
    fn of(manifest: &toml::Table) -> Table {
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

/// Crates without a rank, and ranks without a crate, a line each with what to do.
fn unplaced(table: &Table, direct: &Dependencies) -> String {
    let there: BTreeSet<&str> = direct.keys().map(|name| short(name)).collect();
    let placed: BTreeSet<&str> = table.places.keys().map(String::as_str).collect();
    let new = there.difference(&placed).map(|name| {
        format!(
            "\nthe crate `{name}` has no rank: add it, above all that it depends on, to `ranks` in \
             [workspace.metadata.map] of Cargo.toml, under its wing; then `cargo xtask map`"
        )
    });
    let gone = placed.difference(&there).map(|name| format!("\nthere is no crate `{name}`: remove its rank"));
    new.chain(gone).collect()
}

/// Dependencies on crates that are not of lower ranks, or of wings that are not to be known, a line each.
fn upward(table: &Table, direct: &Dependencies) -> String {
    let mut wrong = String::new();
    for (name, below) in direct {
        let Some(place) = table.places.get(short(name)) else { continue };
        for other in below.iter().map(|other| short(other)) {
            let Some(beneath) = table.places.get(other) else { continue };
            let (name, rank, wing) = (short(name), place.rank, &place.wing);
            if beneath.rank >= rank {
                wrong += &format!("\n{name} (rank {rank}) depends on {other} (rank {})", beneath.rank);
            }
            if !table.may_know(wing, &beneath.wing) {
                wrong += &format!("\n{name} (of {wing}) depends on {other} (of {})", beneath.wing);
            }
        }
    }
    wrong
}

// A crate without a rank could depend on anything.
#[test]
fn every_crate_has_a_rank() {
    let wrong = unplaced(&Table::of(&read(&repository())), &dependencies());
    assert!(wrong.is_empty(), "{wrong}");
}

// Host and device that knew each other could interact other than through registers, queues and memory; a lower crate that knew a higher one
// could not be used, nor understood, without it.
#[test]
fn a_crate_depends_on_lower_ranks_and_wings_alone() {
    let wrong = upward(&Table::of(&read(&repository())), &dependencies());
    assert!(wrong.is_empty(), "dependencies against `workspace.metadata.map` in Cargo.toml:{wrong}");
}

// Were a wrong rank not seen, nor a wing or a crate that is not in the table, the tests above would pass whatever there is.
#[test]
fn a_wrong_rank_is_seen() {
    let table = "[workspace.metadata.map]
        floors = [[\"ground\"], [\"drive\", \"host\"]]
        ranks = [{ ground = [\"wire\"] }, { drive = [\"flash\"], host = [\"queues\"] }, { drive = [\"device\"] }]";
    let table = Table::of(&table.parse().unwrap());
    let direct = |list: &[(&str, &[&str])]| -> Dependencies {
        let names = |names: &[&str]| names.iter().map(|name| format!("byteway-{name}")).collect();
        list.iter().map(|(name, below)| (format!("byteway-{name}"), names(below))).collect()
    };
    let right =
        direct(&[("wire", &["serde"]), ("flash", &["wire"]), ("device", &["flash"]), ("queues", &[])]);
    assert_eq!((unplaced(&table, &right), upward(&table, &right)), (String::new(), String::new()));
    for (name, below, expected) in [
        ("flash", "device", "\nflash (rank 2) depends on device (rank 3)"),
        (
            "wire",
            "flash",
            "\nwire (rank 1) depends on flash (rank 2)\nwire (of ground) depends on flash (of drive)",
        ),
        ("device", "queues", "\ndevice (of drive) depends on queues (of host)"),
    ] {
        assert_eq!(upward(&table, &direct(&[(name, &[below])])), expected);
    }
    let told = unplaced(&table, &direct(&[("wire", &[]), ("flash", &[]), ("device", &[]), ("new", &[])]));
    assert!(told.contains("the crate `new` has no rank: add it, above all that it depends on"), "{told}");
    assert!(told.contains("there is no crate `queues`: remove its rank"), "{told}");
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
