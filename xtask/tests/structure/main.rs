//! Structure of the source: circles of files, dependencies between crates, and what additions take.
//!
//! | file | what |
//! |---|---|
//! | `circles.rs` | circles of files in a crate, and those that are listed in `circles.toml` |
//! | `graph.rs` | strongly connected components |
//! | `sources.rs` | the files of a crate, parsed |
//! | `imports.rs` | which file defines an item that another names |
//! | `declared.rs`, `calls.rs` | which file defines a method that another calls |
//! | `ranks.rs` | which crate may depend on which |
//! | `chain.rs` | the longest chain of compilation |
//! | `manifests.rs` | what the manifests say of the crates |
//! | `additions.rs` | which files an addition takes, by CONTRIBUTING |
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod additions;
mod calls;
mod chain;
mod circles;
mod declared;
mod graph;
mod imports;
mod manifests;
mod ranks;
mod sources;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use manifests::{crates, dependencies, members, read, repository};

/// Libraries whose enums are also values of flags.
const FLAGS: [&str; 4] = ["byteway-scenario", "byteway-serving", "byteway-trace", "byteway-workload"];

/// Members of the workspace that are no libraries.
const PROGRAMS: [&str; 3] = ["byteway", "byteway-python", "byteway-xtask"];

// A binding has its own terminal, signals and log, or none, and distinguishes errors by type.
#[test]
fn libraries_have_errors_with_types_and_no_terminal() {
    let direct = dependencies();
    assert!(direct["byteway"].contains("anyhow") && direct["byteway"].contains("indicatif"));
    for (name, below) in direct.iter().filter(|(name, _)| !PROGRAMS.contains(&name.as_str())) {
        for other in ["anyhow", "indicatif", "ctrlc", "tracing-subscriber"] {
            assert!(!below.contains(other), "{name} depends on {other}");
        }
        assert!(FLAGS.contains(&&**name) || !below.contains("clap"), "{name} depends on clap");
    }
}

// One plain dependency on this feature would put defects on purpose into every program.
#[test]
fn defects_on_purpose_are_in_tests_alone() {
    let asks = |text: &str| text.contains("\"defects\"") || text.contains("/defects\"");
    let mut asked_by_tests = 0;
    for folder in members().into_iter().chain([repository()]) {
        let mut manifest = read(&folder);
        let tests = manifest.remove("dev-dependencies");
        asked_by_tests += usize::from(tests.is_some_and(|tests| asks(&tests.to_string())));
        assert!(!asks(&manifest.to_string()), "{}: more than tests have the feature", folder.display());
    }
    assert!(asked_by_tests > 5);
}

/// The source files below a folder.
fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in folder.read_dir().unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

// A drive connected outside the world, in the program or in a test, would lack its services: separation of drive and link, balance checks.
// Tests of `link` and `host` connect the link to something that is not a drive.
#[test]
fn drives_are_built_in_the_world_alone() {
    const CONNECTS: &str = "Link::connect(";
    const POWERS_ON: &str = "Drive::power_on(";
    for folder in crates().into_iter().filter(|folder| !folder.ends_with("world")) {
        let mut found = Vec::new();
        rust_files(&folder, &mut found);
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

/// The files of modules in a folder: their names, and those of folders with a `mod.rs`.
fn modules_in(folder: &Path) -> BTreeSet<String> {
    let paths = folder.read_dir().unwrap().map(|entry| entry.unwrap().path());
    let is_module = |path: &PathBuf| match path.is_dir() {
        true => path.join("mod.rs").exists(),
        false => path.extension().is_some_and(|extension| extension == "rs"),
    };
    let name = |path: PathBuf| path.file_stem().unwrap().to_str().unwrap().to_owned();
    paths.filter(is_module).map(name).collect()
}

// A binary of tests has a `main.rs` that names its files: one that it omits would never run.
#[test]
fn every_file_of_tests_is_run() {
    let mut looked = 0;
    for tests in members().into_iter().map(|folder| folder.join("tests")).filter(|tests| tests.exists()) {
        let folders = tests.read_dir().unwrap().map(|entry| entry.unwrap().path()).chain([tests]);
        for main in folders.map(|folder| folder.join("main.rs")).filter(|main| main.exists()) {
            let source = syn::parse_file(&std::fs::read_to_string(&main).unwrap()).unwrap();
            let named = source.items.iter().filter_map(|item| match item {
                syn::Item::Mod(module) => Some(module.ident.to_string()),
                _ => None,
            });
            // It may name more, by their paths.
            let named: BTreeSet<String> = named.chain(["main".to_owned()]).collect();
            let there = modules_in(main.parent().unwrap());
            let omitted: Vec<&String> = there.difference(&named).collect();
            assert!(omitted.is_empty(), "{} does not name {omitted:?}", main.display());
            looked += 1;
        }
    }
    assert!(looked >= 25, "{looked} binaries of tests have a main.rs");
}
