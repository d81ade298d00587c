//! The longest chain of crates that are compiled one after another.
//!
//! Time to compile is taken to be proportional to lines: of each crate's `src`, without unit tests, comments and blank lines. Crates from
//! registries are left out.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::manifests::{Dependencies, crates, dependencies, name, read};
use super::rust_files;

/// For tests only: never a part of a build of the program.
const TESTS_ONLY: &str = "byteway-testkit";

fn indentation(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// Lines of code of a file without items for tests, and names of test modules with files of their own.
fn code(text: &str) -> (usize, Vec<String>) {
    let (mut count, mut modules) = (0, Vec::new());
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let code = line.trim();
        if code == "#[cfg(test)]" {
            let mut item = lines.by_ref().skip_while(|line| line.trim_start().starts_with("#["));
            let mut next = item.next();
            let declared = next.and_then(|line| line.trim().strip_prefix("mod ")?.strip_suffix(';'));
            modules.extend(declared.map(str::to_owned));
            // As rustfmt writes it, an item ends with a line that is indented as its first one.
            let is_last =
                |item: &str| indentation(item) == indentation(line) && item.ends_with([';', '}', ',']);
            while next.is_some_and(|line| !is_last(line)) {
                next = item.next();
            }
        } else if !code.is_empty() && !code.starts_with("//") {
            count += 1;
        }
    }
    (count, modules)
}

/// Lines of code of a crate's sources.
fn lines_of(source: &Path) -> usize {
    let mut files = Vec::new();
    rust_files(source, &mut files);
    let mut counts: BTreeMap<PathBuf, usize> = BTreeMap::new();
    let mut tests: Vec<PathBuf> = Vec::new();
    for path in files {
        let (count, modules) = code(&std::fs::read_to_string(&path).unwrap());
        let is_root = ["lib.rs", "main.rs", "mod.rs"].iter().any(|name| path.ends_with(name));
        let folder = if is_root { path.parent().unwrap().to_owned() } else { path.with_extension("") };
        tests.extend(modules.iter().map(|module| folder.join(module)));
        counts.insert(path, count);
    }
    let is_test =
        |path: &Path| tests.iter().any(|test| path.starts_with(test) || path == test.with_extension("rs"));
    counts.iter().filter(|(path, _)| !is_test(path)).map(|(_, count)| count).sum()
}

/// The heaviest chain that ends with a crate: its weight, and its crates from the bottom up.
type Chain = (usize, Vec<String>);

fn chain_to(
    name: &str,
    direct: &Dependencies,
    lines: &BTreeMap<String, usize>,
    known: &mut BTreeMap<String, Chain>,
) -> Chain {
    if let Some(chain) = known.get(name) {
        return chain.clone();
    }
    let below: BTreeSet<&String> = direct[name].iter().filter(|name| lines.contains_key(*name)).collect();
    let below = below.into_iter().map(|name| chain_to(name, direct, lines, known));
    let (weight, mut names) = below.max_by_key(|(weight, _)| *weight).unwrap_or_default();
    names.push(name.to_owned());
    let chain = (weight + lines[name], names);
    known.insert(name.to_owned(), chain.clone());
    chain
}

fn longest(direct: &Dependencies, lines: &BTreeMap<String, usize>) -> Chain {
    let mut known = BTreeMap::new();
    let chains = lines.keys().map(|name| chain_to(name, direct, lines, &mut known));
    chains.max_by_key(|(weight, _)| *weight).unwrap_or_default()
}

// However many processors there are, a build takes as long as its longest chain: crates in a row, each of which waits for the one before.
#[test]
fn the_longest_chain_of_compilation_has_at_most_half_of_the_lines() {
    let weigh = |folder: PathBuf| (name(&read(&folder)), lines_of(&folder.join("src")));
    let mut lines: BTreeMap<String, usize> = crates().into_iter().map(weigh).collect();
    lines.remove(TESTS_ONLY);
    let all: usize = lines.values().sum();
    let (weight, names) = longest(&dependencies(), &lines);
    let chain: Vec<String> = names.iter().map(|name| format!("{name} {}", lines[name])).collect();
    let percent = 100 * weight / all;
    let chain = format!("{weight} of {all} lines ({percent} %): {}", chain.join(", "));
    println!("{chain}");
    assert!(2 * weight <= all, "the longest chain of compilation has more than half of the lines: {chain}");
}

// Unit tests that counted would make a crate look heavy because it is well tested.
#[test]
fn lines_of_tests_and_comments_do_not_count() {
    let text = "//! A file.\n\nmod a;\n#[cfg(test)]\nmod b;\n\nfn f() {\n    // Why.\n    g();\n    #[cfg(test)]\n    \
                h(\n        1,\n    );\n}\n\n#[cfg(test)]\n#[allow(x)]\nmod tests {\n    fn t() {}\n}\nfn last() {}\n";
    assert_eq!(code(text), (5, vec!["b".to_owned()]));
}

// A chain is heavier than another by lines, not by the number of its crates.
#[test]
fn the_heaviest_chain_is_found() {
    let direct = [("top", vec!["a", "heavy", "serde"]), ("a", vec!["b"]), ("b", vec![]), ("heavy", vec![])];
    let named = |name: &str| name.to_owned();
    let direct: Dependencies = direct
        .into_iter()
        .map(|(name, below)| (named(name), below.into_iter().map(named).collect()))
        .collect();
    let lines =
        [("top", 1), ("a", 2), ("b", 2), ("heavy", 10)].map(|(name, lines)| (named(name), lines)).into();
    assert_eq!(longest(&direct, &lines), (11, vec![named("heavy"), named("top")]));
}
