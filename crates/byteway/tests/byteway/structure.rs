//! The structure of the source: which files import each other, and which crates depend on which.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use syn::visit::Visit;

/// The largest import circle that is allowed, in files.
const CIRCLE_MAX: usize = 3;

fn crates() -> Vec<PathBuf> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut found: Vec<PathBuf> = crates.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    found.retain(|path| path.join("src").is_dir());
    found.sort();
    found
}

/// A module's path, from the crate's root on.
type Module = Vec<String>;

/// The modules of a crate by their files; those that only tests have are left out.
fn modules(folder: &Path, at: &Module, found: &mut BTreeMap<Module, PathBuf>) {
    for entry in folder.read_dir().unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        if name == "tests" {
            continue;
        }
        let below = |name: String| at.iter().cloned().chain([name]).collect::<Module>();
        if path.is_dir() {
            modules(&path, &below(name), found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let module = if ["lib", "main", "mod"].contains(&&*name) { at.clone() } else { below(name) };
            found.insert(module, path);
        }
    }
}

/// What a file names of its own crate.
struct Names<'a> {
    module: &'a Module,
    found: BTreeSet<Module>,
}

impl Names<'_> {
    /// A path that begins with `crate`, `self` or `super`.
    fn note(&mut self, path: &[String]) {
        let mut base = self.module.clone();
        let mut rest = path;
        match path.first().map(String::as_str) {
            Some("crate") => (base, rest) = (Module::new(), &path[1..]),
            Some("self" | "super") => {
                while let Some(step @ ("self" | "super")) = rest.first().map(String::as_str) {
                    if step == "super" {
                        base.pop();
                    }
                    rest = &rest[1..];
                }
            }
            _ => return,
        }
        base.extend_from_slice(rest);
        self.found.insert(base);
    }

    fn tree(&mut self, tree: &syn::UseTree, before: &mut Vec<String>) {
        match tree {
            syn::UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.tree(&path.tree, before);
                before.pop();
            }
            syn::UseTree::Group(group) => group.items.iter().for_each(|item| self.tree(item, before)),
            syn::UseTree::Name(name) => {
                before.push(name.ident.to_string());
                self.note(before);
                before.pop();
            }
            syn::UseTree::Rename(name) => {
                before.push(name.ident.to_string());
                self.note(before);
                before.pop();
            }
            syn::UseTree::Glob(_) => self.note(before),
        }
    }
}

fn is_of_tests(attributes: &[syn::Attribute]) -> bool {
    let says_test = |attribute: &syn::Attribute| {
        attribute.path().is_ident("cfg")
            && attribute.parse_args::<syn::Path>().is_ok_and(|what| what.is_ident("test"))
    };
    attributes.iter().any(says_test)
}

impl<'ast> Visit<'ast> for Names<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_of_tests(&item.attrs) {
            syn::visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        // What a module shows of those below it is no need of its own.
        if !is_of_tests(&item.attrs) && matches!(item.vis, syn::Visibility::Inherited) {
            self.tree(&item.tree, &mut Vec::new());
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.note(&names);
        syn::visit::visit_path(self, path);
    }
}

/// Which files each file of a crate imports.
fn imports(folder: &Path) -> BTreeMap<Module, BTreeSet<Module>> {
    let mut files = BTreeMap::new();
    modules(&folder.join("src"), &Module::new(), &mut files);
    let imports = |(module, path): (&Module, &PathBuf)| {
        let text = std::fs::read_to_string(path).unwrap();
        let mut names = Names { module, found: BTreeSet::new() };
        names.visit_file(
            &syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display())),
        );
        let file_of = |name: &Module| {
            let known = (0..=name.len()).rev().map(|length| name[..length].to_vec());
            known.into_iter().find(|prefix| files.contains_key(prefix)).filter(|file| file != module)
        };
        (module.clone(), names.found.iter().filter_map(file_of).collect())
    };
    files.iter().map(imports).collect()
}

/// Everything that can be reached from a file.
fn reached<'a>(from: &'a Module, imports: &'a BTreeMap<Module, BTreeSet<Module>>) -> BTreeSet<&'a Module> {
    let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
    while let Some(file) = next.pop() {
        next.extend(imports[file].iter().filter(|file| seen.insert(*file)));
    }
    seen
}

// Files that import each other in a circle can only be understood, changed and moved together.
#[test]
fn no_import_circle_is_large() {
    for folder in crates() {
        let imports = imports(&folder);
        let reach: BTreeMap<&Module, BTreeSet<&Module>> =
            imports.keys().map(|file| (file, reached(file, &imports))).collect();
        for (file, after) in &reach {
            let circle: Vec<String> = after
                .iter()
                .filter(|other| reach[**other].contains(file))
                .map(|other| other.join("::"))
                .collect();
            assert!(circle.len() <= CIRCLE_MAX, "{}: an import circle of {circle:?}", folder.display());
        }
    }
}

/// What each crate of the workspace depends on, but for tests: of the workspace and of others.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let of = |folder: PathBuf| {
        let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        let manifest: toml::Table = manifest.parse().unwrap();
        let names = manifest["dependencies"].as_table().map(|table| table.keys().cloned().collect());
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

// Host and device that knew each other could meet elsewhere than in registers, queues and memory; and who takes `trace` or
// `scenario` would have to build charts and a tree.
#[test]
fn crates_depend_on_no_more_than_the_map_says() {
    let direct = dependencies();
    for (name, never) in [
        ("byteway-host", &["byteway-device", "byteway-firmware"][..]),
        ("byteway-device", &["byteway-host"]),
        ("byteway-firmware", &["byteway-kv"]),
        ("byteway-clock", &["byteway-wire"]),
        ("byteway-wire", &["byteway-clock"]),
        (
            "byteway-trace",
            &["byteway-flash", "byteway-host", "byteway-lab", "plotly", "rusty-leveldb", "indicatif"],
        ),
        ("byteway-scenario", &["byteway-lab", "byteway-device", "plotly", "rusty-leveldb", "indicatif"]),
        (
            "byteway-world",
            &["byteway-host", "byteway-serve", "byteway-scenario", "byteway-measure", "byteway-lab"],
        ),
        ("byteway-lab", &["byteway-study", "plotly", "indicatif"]),
    ] {
        let below = all_below(name, &direct);
        assert!(direct.contains_key(name), "{name}");
        for other in never {
            assert!(!below.contains(*other), "{name} depends on {other}");
        }
    }
    for (name, below) in &direct {
        assert!(!below.contains("byteway-testkit"), "{name}: testkit is for tests only");
    }
}

/// Libraries whose choices are values of flags, too.
const FLAGS: [&str; 4] = ["byteway-lab", "byteway-scenario", "byteway-trace", "byteway-workload"];

// A binding to another language has a terminal, signals and a log of its own, or none, and tells errors apart by their type.
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

// A drive that is wired elsewhere, in the program or in a test, would go without what the world sees to: parting drive and link,
// balancing the books. Tests of `link` and `host` connect one to something that is no drive.
#[test]
fn drives_are_built_in_the_world_alone() {
    // In two pieces, for this file is looked through as well.
    const CONNECTS: &str = concat!("Link::", "connect(");
    const POWERS_ON: &str = concat!("Drive::", "power_on(");
    for folder in crates().into_iter().filter(|folder| !folder.ends_with("world")) {
        let mut found = Vec::new();
        files(&folder, &mut found);
        for path in found {
            let text = std::fs::read_to_string(&path).unwrap();
            let connects =
                text.contains(CONNECTS) && !["link", "host"].iter().any(|name| folder.ends_with(name));
            let is_relay = path.ends_with("device/tests/two_links.rs");
            assert!(!connects || is_relay, "{} connects a link", path.display());
            assert!(!text.contains(POWERS_ON), "{} powers a drive on", path.display());
        }
    }
}

// A crate's tests are one binary, whose `main.rs` names the files: one that it forgets would never run.
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
