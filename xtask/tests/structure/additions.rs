//! What CONTRIBUTING says of additions: each of its tables against the tree, by a real addition.

use super::{repository, rust_files};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A recent addition of a kind.
struct Addition {
    /// Heading of the section whose table it is held against.
    section: &'static str,
    /// What stands for the table's placeholders.
    named: &'static [(&'static str, &'static str)],
    /// Identifiers that begin so, and words in texts, name it.
    words: &'static [&'static str],
    /// Other files that name it, or folders, and why they are no part of the addition.
    beside: &'static [(&'static str, &'static str)],
    /// Most places that its table may have: what issues promise. A folder of its own is one.
    most: usize,
}

const ADDITIONS: [Addition; 8] = [
    Addition {
        section: "Add a transfer method",
        named: &[("NAME", "mmio")],
        words: &["mmio", "Mmio", "with_mmio"],
        beside: &[
            ("crates/papers/", "papers measure methods by their names"),
            ("crates/link/src/port.rs", "PCIe's term: every register is reached so"),
            ("crates/link/src/lib.rs", "the same term, of a write to a register"),
            ("crates/device/src/controller/core/doorbell.rs", "takes writes to registers"),
        ],
        most: 8,
    },
    Addition {
        section: "Add a trace format",
        named: &[("NAME", "biosnoop")],
        words: &["biosnoop", "Biosnoop"],
        beside: &[],
        most: 4,
    },
    Addition {
        section: "Add a defect on purpose",
        named: &[("CRATE", "kv"), ("FILE", "collect")],
        words: &["MoveBlindly"],
        beside: &[],
        most: 3,
    },
    Addition {
        section: "Add a command set",
        named: &[("NAME", "slm"), ("CLIENT", "programs")],
        words: &["slm", "LocalMemory", "local_memory", "LOCAL_MEMORY"],
        beside: &[
            (
                "crates/device/src/controller/command_set/programs/",
                "another set, whose programs run over its memory",
            ),
            ("crates/swarm/", "random runs with it"),
        ],
        most: 8,
    },
    Addition {
        section: "Add a policy",
        named: &[("NAME", "windowed_greedy")],
        words: &["windowed_greedy", "WindowedGreedy"],
        beside: &[],
        most: 4,
    },
    Addition {
        section: "Add a policy",
        named: &[("NAME", "d_choices")],
        words: &["d_choices", "DChoices"],
        beside: &[],
        most: 4,
    },
    Addition {
        section: "Add a workload",
        named: &[("NAME", "own")],
        words: &["OwnPlan", "OwnIos"],
        beside: &[],
        most: 7,
    },
    Addition {
        section: "Add a claim",
        named: &[("PAPER", "nvmeof")],
        words: &["NF06"],
        beside: &[],
        most: 2,
    },
];

/// The places in the first column of a section's table: files, and folders, which end in a slash.
fn places(text: &str, addition: &Addition) -> Vec<String> {
    let heading = format!("\n## {}\n", addition.section);
    let (_, section) =
        text.split_once(&heading).unwrap_or_else(|| panic!("no section `{}`", addition.section));
    let section = section.split("\n## ").next().unwrap();
    let mut places = Vec::new();
    for row in section.lines().filter(|line| line.starts_with("| `")) {
        let cell = row.split('|').nth(1).unwrap();
        let mut folder = String::new();
        for place in cell.split('`').skip(1).step_by(2) {
            let place =
                addition.named.iter().fold(place.to_owned(), |place, (name, own)| place.replace(name, own));
            // The first of a row is named in full, and others of its folder without it.
            let place = if place.contains('/') { place } else { format!("{folder}{place}") };
            let above = place.trim_end_matches('/').rsplit_once('/').map_or("", |(above, _)| above);
            folder = format!("{above}/");
            places.push(place);
        }
    }
    assert!(!places.is_empty(), "`{}` has no table of files", addition.section);
    places
}

/// Code and texts of a file, without comments and tests.
fn without_tests(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod ").next().unwrap();
    text.lines()
        .map(|line| if line.trim_start().starts_with("//") { "" } else { line })
        .collect::<Vec<_>>()
        .join("\n")
}

/// Whether a text names something by words that begin so.
fn names(text: &str, words: &[&str]) -> bool {
    let of_word = |symbol: char| symbol.is_alphanumeric() || symbol == '_';
    text.split(|symbol| !of_word(symbol)).any(|word| words.iter().any(|begin| word.starts_with(begin)))
}

/// The source files outside tests, from the repository's root.
fn sources() -> Vec<(String, String)> {
    let root = repository();
    let mut files = Vec::new();
    for folder in super::crates() {
        rust_files(&folder.join("src"), &mut files);
    }
    let of_tests = |path: &Path| {
        path.components().any(|part| part.as_os_str() == "tests")
            || path.file_name().is_some_and(|name| name == "tests.rs")
    };
    files.retain(|path: &PathBuf| !of_tests(path.strip_prefix(&root).unwrap()));
    let text = |path: PathBuf| {
        let below = path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
        (below, without_tests(&std::fs::read_to_string(path).unwrap()))
    };
    files.into_iter().map(text).collect()
}

// A table that promises less work than there is costs whoever trusts it a day; one that names what was moved is not read again.
#[test]
fn tables_of_additions_name_what_an_addition_takes() {
    let (root, sources) = (repository(), sources());
    let contributing = std::fs::read_to_string(root.join("CONTRIBUTING.md")).unwrap();
    for addition in &ADDITIONS {
        let places = places(&contributing, addition);
        let distinct: BTreeSet<&String> = places.iter().collect();
        assert_eq!(distinct.len(), places.len(), "`{}` names a file twice: {places:?}", addition.section);
        assert!(places.len() <= addition.most, "`{}`: {} places", addition.section, places.len());
        for place in &places {
            assert!(root.join(place).exists(), "`{}` names {place}, which is not there", addition.section);
        }
        let beside = addition.beside.iter().map(|(place, _)| *place);
        let known: Vec<&str> = places.iter().map(String::as_str).chain(beside).collect();
        let is_known = |file: &str| {
            known.iter().any(|place| file == *place || place.ends_with('/') && file.starts_with(place))
        };
        let naming: Vec<&str> =
            sources.iter().filter(|(_, text)| names(text, addition.words)).map(|(file, _)| &**file).collect();
        assert!(
            naming.len() > 1 || addition.section == "Add a claim",
            "{:?} are in {naming:?}",
            addition.words
        );
        let more: Vec<&&str> = naming.iter().filter(|file| !is_known(file)).collect();
        assert!(
            more.is_empty(),
            "`{}`: the table lacks {more:?}, which name {:?}",
            addition.section,
            addition.words
        );
    }
}

// What finds nothing would hold any table.
#[test]
fn names_are_found_in_code_and_not_in_comments_and_tests() {
    let text = "/// Of slm.\nuse a::slm::CSI; // of LocalMemory\n#[cfg(test)]\nmod tests { own }";
    let code = without_tests(text);
    assert!(names(&code, &["slm"]) && !names(&code, &["own"]) && !names(&code, &["lm"]));
    assert!(names("LocalMemoryOpcode", &["LocalMemory"]) && !names("xLocalMemory", &["LocalMemory"]));
    let table = "\n## Add\n| `a/b/NAME/`, `mod.rs` | |\n| `c.rs` | |\n\n## Next\n| `d.rs` | |\n";
    let addition = Addition { section: "Add", named: &[("NAME", "x")], words: &[], beside: &[], most: 3 };
    assert_eq!(places(table, &addition), ["a/b/x/", "a/b/mod.rs", "c.rs"]);
}
