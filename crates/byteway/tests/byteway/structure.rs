//! Structure of the source: imports between files, and dependencies between crates.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::imports::{Graph, Imports};

/// Largest permitted import cycle in files.
const CIRCLE_MAX: usize = 3;

/// Existing larger cycles by folder: each should become smaller, and none may grow.
const FILE_CIRCLES: [(&str, usize); 0] = [];

/// Cycles of folders, likewise.
const FOLDER_CIRCLES: [(&str, usize); 0] = [];

fn crates() -> Vec<PathBuf> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut found: Vec<PathBuf> = crates.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    found.retain(|path| path.join("src").is_dir());
    found.sort();
    found
}

/// The crates by folder name, with the imports between their files.
fn imports() -> Vec<(String, Imports)> {
    let name = |folder: &Path| folder.file_name().unwrap().to_str().unwrap().to_owned();
    crates().into_iter().map(|folder| (name(&folder), Imports::read(&folder.join("src")))).collect()
}

/// Cycles of each crate above the limit, each with the folder that contains all its members.
fn circles(graph: impl Fn(&Imports) -> Graph, allowed: usize) -> Vec<(String, Vec<String>)> {
    let mut found = Vec::new();
    for (name, imports) in imports() {
        for circle in graph(&imports).circles().into_iter().filter(|circle| circle.len() > allowed) {
            let common = circle.iter().skip(1).fold(circle[0].as_slice(), |common, module| {
                let same = common.iter().zip(module).take_while(|(a, b)| a == b).count();
                &common[..same]
            });
            let place: Vec<&str> = std::iter::once(&name).chain(common).map(String::as_str).collect();
            let circle: Vec<String> = circle.iter().map(|module| module.join("::")).collect();
            found.push((place.join("/"), circle));
        }
    }
    found.sort_by_key(|(place, circle)| (place.clone(), circle.len()));
    found
}

/// Nothing may exceed the table, and the table must not exceed reality.
fn assert_as_listed(found: &[(String, Vec<String>)], listed: &[(&str, usize)]) {
    let sizes: Vec<(&str, usize)> = found.iter().map(|(place, circle)| (&**place, circle.len())).collect();
    let mut told = String::new();
    for (place, circle) in found.iter().filter(|(place, circle)| !listed.contains(&(place, circle.len()))) {
        told += &format!("\n{place}: a circle of {} that is not listed: {circle:?}", circle.len());
    }
    for (place, size) in listed.iter().filter(|entry| !sizes.contains(entry)) {
        told += &format!("\n{place}: no circle of {size} any more; the list is to say so");
    }
    assert_eq!(sizes, listed, "{told}");
}

// Files in an import cycle can only be understood, changed and moved together.
#[test]
fn no_import_circle_is_large() {
    assert_as_listed(&circles(Imports::files, CIRCLE_MAX), &FILE_CIRCLES);
}

// The same holds for folders; a folder that uses its parent, which uses the folder, is not such a cycle.
#[test]
fn no_folders_import_each_other() {
    assert_as_listed(&circles(Imports::folders, 1), &FOLDER_CIRCLES);
}

/// Dependencies of each crate of the workspace without those of tests: inside and outside the workspace.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let of = |folder: PathBuf| {
        let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        let manifest: toml::Table = manifest.parse().unwrap();
        let names = manifest.get("dependencies").and_then(toml::Value::as_table);
        let names = names.map(|table| table.keys().cloned().collect());
        (manifest["package"]["name"].as_str().unwrap().to_owned(), names.unwrap_or_default())
    };
    crates().into_iter().map(of).collect()
}

fn all_below(name: &str, direct: &BTreeMap<String, BTreeSet<String>>) -> BTreeSet<String> {
    let (mut seen, mut next) = (BTreeSet::new(), vec![name.to_owned()]);
    while let Some(name) = next.pop() {
        let below = direct.get(&name).into_iter().flatten().cloned();
        next.extend(below.filter(|name| seen.insert(name.clone())));
    }
    seen
}

// Host and device that knew each other could interact other than through registers, queues and memory; and users of `trace` or `scenario`
// should not have to build charts and an LSM tree.
#[test]
fn crates_depend_on_no_more_than_the_map_says() {
    let direct = dependencies();
    for (name, never) in [
        ("byteway-host", &["byteway-device", "byteway-firmware", "byteway-array"][..]),
        ("byteway-device", &["byteway-host"]),
        ("byteway-firmware", &["byteway-kv"]),
        ("byteway-array", &["byteway-device", "byteway-host", "byteway-link", "byteway-kv"]),
        ("byteway-member", &["byteway-firmware", "byteway-flash", "byteway-link"]),
        ("byteway-query", &["byteway-clock", "byteway-wire", "byteway-flash"]),
        ("byteway-clock", &["byteway-wire"]),
        ("byteway-wire", &["byteway-clock"]),
        ("byteway-trace", &["byteway-flash", "byteway-host", "byteway-lab", "rusty-leveldb", "indicatif"]),
        ("byteway-scenario", &["byteway-lab", "byteway-device", "rusty-leveldb", "indicatif"]),
        (
            "byteway-world",
            &["byteway-host", "byteway-serve", "byteway-scenario", "byteway-results", "byteway-lab"],
        ),
        (
            "byteway-lab",
            &["byteway-report", "byteway-explore", "byteway-papers", "byteway-watch", "indicatif"],
        ),
        // A report shows results, whoever has run them.
        ("byteway-report", &["byteway-lab"]),
        // They are compiled side by side.
        ("byteway-explore", &["byteway-papers"]),
        ("byteway-papers", &["byteway-explore"]),
        ("byteway-watch", &["byteway-report", "byteway-explore", "byteway-papers"]),
        // What answers watchers has a thread of its own, and no drive waits for its runtime.
        ("byteway-serve", &["tokio", "hyper", "byteway-lab"]),
    ] {
        let below = all_below(name, &direct);
        assert!(direct.contains_key(name), "{name}");
        for other in never {
            assert!(!below.contains(*other), "{name} depends on {other}");
        }
    }
    for (name, below) in &direct {
        for other in ["byteway-testkit", "byteway-needs"] {
            assert!(!below.contains(other), "{name}: {other} is for tests only");
        }
    }
}

/// Libraries whose enums are also values of flags.
const FLAGS: [&str; 4] = ["byteway-lab", "byteway-scenario", "byteway-trace", "byteway-workload"];

// A binding has its own terminal, signals and log, or none, and distinguishes errors by type.
#[test]
fn libraries_have_errors_with_types_and_no_terminal() {
    let direct = dependencies();
    assert!(direct["byteway"].contains("anyhow") && direct["byteway"].contains("indicatif"));
    for (name, below) in direct.iter().filter(|(name, _)| *name != "byteway") {
        for other in ["anyhow", "indicatif", "ctrlc", "tracing-subscriber"] {
            assert!(!below.contains(other), "{name} depends on {other}");
        }
        assert!(FLAGS.contains(&&**name) || !below.contains("clap"), "{name} depends on clap");
    }
}

/// The source files below a folder.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in folder.read_dir().unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

// A drive connected outside the world, in the program or in a test, would lack its services: separation of drive and link, balance checks.
// Tests of `link` and `host` connect the link to something that is not a drive.
#[test]
fn drives_are_built_in_the_world_alone() {
    // In two parts, because this file is searched as well.
    const CONNECTS: &str = concat!("Link::", "connect(");
    const POWERS_ON: &str = concat!("Drive::", "power_on(");
    for folder in crates().into_iter().filter(|folder| !folder.ends_with("world")) {
        let mut found = Vec::new();
        files(&folder, &mut found);
        for path in found {
            // Examples of documentation build what they show.
            let text = std::fs::read_to_string(&path).unwrap();
            let text: String = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
            let connects =
                text.contains(CONNECTS) && !["link", "host"].iter().any(|name| folder.ends_with(name));
            let is_relay = path.ends_with("device/tests/two_links.rs");
            assert!(!connects || is_relay, "{} connects a link", path.display());
            assert!(!text.contains(POWERS_ON), "{} powers a drive on", path.display());
        }
    }
}

// A crate's tests are one binary whose `main.rs` names the files: a file that it omits would never run.
#[test]
fn every_file_of_tests_is_run() {
    let mut looked = 0;
    for main in crates().into_iter().map(|folder| folder.join("tests/main.rs")).filter(|main| main.exists()) {
        let source = syn::parse_file(&std::fs::read_to_string(&main).unwrap()).unwrap();
        let named = source.items.iter().filter_map(|item| match item {
            syn::Item::Mod(module) => Some(module.ident.to_string()),
            _ => None,
        });
        let named: BTreeSet<String> = named.collect();
        let there = main.parent().unwrap().read_dir().unwrap();
        let there =
            there.map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned());
        assert_eq!(there.filter(|name| name != "main").collect::<BTreeSet<_>>(), named, "{}", main.display());
        looked += 1;
    }
    assert!(looked >= 4, "{looked} crates have tests in one binary");
}
