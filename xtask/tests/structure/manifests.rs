//! What the manifests say of the crates of the workspace.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Dependencies by crate.
pub type Dependencies = BTreeMap<String, BTreeSet<String>>;

pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The folders of the crates below `crates`, sorted.
pub fn crates() -> Vec<PathBuf> {
    let crates = repository().join("crates");
    let mut found: Vec<PathBuf> = crates.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    found.retain(|path| path.join("src").is_dir());
    found.sort();
    found
}

/// The folders of all members of the workspace.
pub fn members() -> Vec<PathBuf> {
    let mut members = crates();
    members.extend(["python", "xtask"].map(|name| repository().join(name)));
    members
}

pub fn read(folder: &Path) -> toml::Table {
    let path = folder.join("Cargo.toml");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.parse().unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

pub fn name(manifest: &toml::Table) -> String {
    manifest["package"]["name"].as_str().unwrap().to_owned()
}

/// Dependencies of each member, inside and outside the workspace, without those of tests.
pub fn dependencies() -> Dependencies {
    let of = |folder: PathBuf| {
        let manifest = read(&folder);
        let tables = ["dependencies", "build-dependencies"].into_iter().filter_map(|key| manifest.get(key));
        let names = tables.filter_map(toml::Value::as_table).flat_map(toml::Table::keys).cloned().collect();
        (name(&manifest), names)
    };
    members().into_iter().map(of).collect()
}

/// What a crate depends on, directly or not.
pub fn all_below(name: &str, direct: &Dependencies) -> BTreeSet<String> {
    let (mut seen, mut next) = (BTreeSet::new(), vec![name.to_owned()]);
    while let Some(name) = next.pop() {
        let below = direct.get(&name).into_iter().flatten().cloned();
        next.extend(below.filter(|name| seen.insert(name.clone())));
    }
    seen
}
