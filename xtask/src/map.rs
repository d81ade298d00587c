//! The map of the crates, drawn from what Cargo says of them: in which wing and rank each stands, and on which others.
//!
//! Ranks and wings are those of `[workspace.metadata.map]` in the workspace's manifest, dependencies those of the crates' manifests
//! without the ones of tests. Whether the two agree is a test of structure (`tests/structure/ranks.rs`).

use crate::page::{Error, at};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

/// The page that has the map.
const PAGE: &str = "ARCHITECTURE.md";

/// The lines between which it stands there.
const BEGIN: &str = "<!-- The map: written by `cargo xtask map`. -->";
const END: &str = "<!-- End of the map. -->";

/// Longest line of the map, in columns.
const WIDTH: usize = 80;

/// Longest line of a cell. The cells of all five wings then fit into [`WIDTH`].
const CELL: usize = 15;

/// Writes the map into its page.
///
/// # Errors
/// Cargo fails, a crate has no rank, or the page cannot be read or written.
pub fn write(root: &Path) -> Result<(), Error> {
    let (_, drawn) = pages(root)?;
    let path = root.join(PAGE);
    std::fs::write(&path, drawn).map_err(at(&path))
}

/// Checks that the page has the map as it would be written.
///
/// # Errors
/// It differs, or what [`write()`] says.
pub fn check(root: &Path) -> Result<(), Error> {
    let (page, drawn) = pages(root)?;
    if page == drawn {
        return Ok(());
    }
    Err(Error::Found(format!("the map in {PAGE} is out of date: run `cargo xtask map`")))
}

/// The page as it is, and as it should be.
fn pages(root: &Path) -> Result<(String, String), Error> {
    let path = root.join(PAGE);
    let page = std::fs::read_to_string(&path).map_err(at(&path))?;
    let drawn = replaced(&page, &Map::read(&metadata(root)?)?.draw())?;
    Ok((page, drawn))
}

/// The page with another map.
fn replaced(page: &str, map: &str) -> Result<String, Error> {
    let parts = page.split_once(BEGIN).and_then(|(before, rest)| Some((before, rest.split_once(END)?.1)));
    let Some((before, after)) = parts else {
        return Err(Error::Found(format!(
            "{PAGE} has no place for the map: the lines `{BEGIN}` and `{END}`"
        )));
    };
    Ok(format!("{before}{BEGIN}\n```text\n{map}```\n{END}{after}"))
}

/// What Cargo says of the workspace.
fn metadata(root: &Path) -> Result<Value, Error> {
    // Without dependencies of others nothing is resolved or downloaded.
    let arguments = ["metadata", "--format-version", "1", "--no-deps", "--offline"];
    let output = Command::new("cargo").args(arguments).current_dir(root).output().map_err(at(root))?;
    if !output.status.success() {
        return Err(Error::Found(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
    }
    serde_json::from_slice(&output.stdout)
        .map_err(|error| Error::Found(format!("the output of `cargo metadata` is no JSON: {error}")))
}

/// The name of a crate on the map.
fn short(package: &str) -> &str {
    package.strip_prefix("byteway-").unwrap_or(package)
}

/// The strings of a list.
fn names(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str)
}

/// The crates of the workspace.
#[derive(Debug)]
struct Map {
    /// Names of the wings, the lowest first.
    wings: Vec<String>,
    /// The lowest first; the crates of each rank by wing, in the order of `wings`.
    ranks: Vec<Vec<Vec<String>>>,
    /// Crates that each depends on, without those that it reaches by another.
    below: BTreeMap<String, BTreeSet<String>>,
}

impl Map {
    fn read(metadata: &Value) -> Result<Map, Error> {
        let table = &metadata["metadata"]["map"];
        let wings: Vec<String> =
            table["floors"].as_array().into_iter().flatten().flat_map(names).map(str::to_owned).collect();
        let rank = |rank: &Value| wings.iter().map(|wing| sorted(names(&rank[wing.as_str()]))).collect();
        let ranks: Vec<Vec<Vec<String>>> =
            table["ranks"].as_array().into_iter().flatten().map(rank).collect();
        let direct = dependencies(metadata);

        let placed: BTreeSet<&String> = ranks.iter().flatten().flatten().collect();
        let there: BTreeSet<&String> = direct.keys().collect();
        let mut wrong = String::new();
        for name in there.difference(&placed) {
            let _ = writeln!(
                wrong,
                "the crate `{name}` has no rank: add it to `ranks` in [workspace.metadata.map] of Cargo.toml"
            );
        }
        for name in placed.difference(&there) {
            let _ = writeln!(
                wrong,
                "there is no crate `{name}`: remove it from `ranks` in [workspace.metadata.map] of Cargo.toml"
            );
        }
        if !wrong.is_empty() {
            return Err(Error::Found(wrong.trim_end().to_owned()));
        }
        Ok(Map { wings, ranks, below: reduced(&direct) })
    }

    fn draw(&self) -> String {
        format!("{}\n{}", self.grid(), self.list())
    }

    /// A line for each rank, the highest first, and a column for each wing.
    fn grid(&self) -> String {
        let cells = |rank: &Vec<Vec<String>>| rank.iter().map(|crates| wrapped(crates, CELL)).collect();
        let rows: Vec<Vec<Vec<String>>> = self.ranks.iter().map(cells).collect();
        let width = |wing: usize| {
            let longest = rows.iter().flat_map(|row| &row[wing]).map(String::len).max();
            longest.unwrap_or(0).max(self.wings[wing].len())
        };
        let widths: Vec<usize> = (0..self.wings.len()).map(width).collect();
        let line = |first: &str, cells: &mut dyn Iterator<Item = &str>| {
            let mut line = format!("{first:>4}");
            for (cell, width) in cells.zip(&widths) {
                let _ = write!(line, "  {cell:width$}");
            }
            format!("{}\n", line.trim_end())
        };
        let mut grid = line("rank", &mut self.wings.iter().map(String::as_str));
        for (rank, row) in rows.iter().enumerate().rev() {
            for at in 0..row.iter().map(Vec::len).max().unwrap_or(0) {
                let first = if at == 0 { (rank + 1).to_string() } else { String::new() };
                grid += &line(&first, &mut row.iter().map(|cell| cell.get(at).map_or("", String::as_str)));
            }
        }
        grid
    }

    /// Each crate with those that it depends on, the highest first.
    fn list(&self) -> String {
        let width = self.below.keys().map(String::len).max().unwrap_or(0).max("crate".len());
        let mut list = format!("rank  {:width$}  depends on, and so on what these depend on\n", "crate");
        let indent = 4 + 2 + width + 2;
        for (rank, crates) in self.ranks.iter().enumerate().rev() {
            for name in crates.iter().flatten() {
                let below: Vec<String> = self.below[name].iter().cloned().collect();
                let lines = wrapped(&below, WIDTH - indent).join(&format!("\n{:indent$}", ""));
                let line = format!("{:>4}  {name:width$}  {lines}", rank + 1);
                list += line.trim_end();
                list.push('\n');
            }
        }
        list
    }
}

fn sorted<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let names: BTreeSet<&str> = names.collect();
    names.into_iter().map(str::to_owned).collect()
}

/// The crates that each crate of the workspace depends on directly, tests left out.
fn dependencies(metadata: &Value) -> BTreeMap<String, BTreeSet<String>> {
    let mut direct = BTreeMap::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let of = package["dependencies"].as_array().into_iter().flatten();
        // A dependency of the workspace has a path; one of tests has the kind "dev".
        let of = of.filter(|dependency| dependency["path"].is_string() && dependency["kind"] != "dev");
        let of = of.filter_map(|dependency| dependency["name"].as_str());
        let name = short(package["name"].as_str().unwrap_or_default()).to_owned();
        direct.insert(name, of.map(|name| short(name).to_owned()).collect());
    }
    direct
}

/// The graph without edges that a longer way replaces. The graph has no circle: Cargo refuses one.
fn reduced(direct: &BTreeMap<String, BTreeSet<String>>) -> BTreeMap<String, BTreeSet<String>> {
    let mut kept = direct.clone();
    for (name, below) in direct {
        for other in below {
            let further = reached(other, direct);
            kept.entry(name.clone()).and_modify(|kept| kept.retain(|name| !further.contains(name)));
        }
    }
    kept
}

/// All crates that a crate depends on, directly or not.
fn reached(name: &str, direct: &BTreeMap<String, BTreeSet<String>>) -> BTreeSet<String> {
    let (mut seen, mut next) = (BTreeSet::new(), vec![name.to_owned()]);
    while let Some(name) = next.pop() {
        let below = direct.get(&name).into_iter().flatten();
        next.extend(below.filter(|name| seen.insert((*name).clone())).cloned());
    }
    seen
}

/// Words in lines of at most `width` columns, or of one word.
fn wrapped(words: &[String], width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in words {
        match lines.last_mut().filter(|line| line.len() + 1 + word.len() <= width) {
            Some(line) => *line += &format!(" {word}"),
            None => lines.push(word.clone()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn package(name: &str, below: &[(&str, Option<&str>)]) -> Value {
        let below =
            below.iter().map(|(name, kind)| json!({"name": name, "kind": kind, "path": "/somewhere"}));
        let mut below: Vec<Value> = below.collect();
        below.push(json!({"name": "serde", "kind": null}));
        json!({"name": name, "dependencies": below})
    }

    fn workspace() -> Value {
        let lower = [("byteway-clock", None), ("byteway-wire", None)];
        json!({
            "packages": [
                package("byteway", &[("byteway-drive", None), ("byteway-host", None), ("byteway-clock", None)]),
                package("byteway-drive", &[lower[0], lower[1], ("byteway-host", Some("dev"))]),
                package("byteway-host", &lower[1..]),
                package("byteway-clock", &[]),
                package("byteway-wire", &[]),
            ],
            "metadata": { "map": {
                "floors": [["ground"], ["drive", "host"], ["desk"]],
                "ranks": [
                    { "ground": ["wire", "clock"] },
                    { "drive": ["drive"], "host": ["host"] },
                    { "desk": ["byteway"] },
                ],
            } },
        })
    }

    // A map with dependencies of tests, or with those that follow from others, cannot be read.
    #[test]
    fn ranks_stand_on_each_other_and_edges_are_reduced() {
        let expected = "\
rank  ground      drive  host  desk
   3                           byteway
   2              drive  host
   1  clock wire

rank  crate    depends on, and so on what these depend on
   3  byteway  drive host
   2  drive    clock wire
   2  host     wire
   1  clock
   1  wire
";
        assert_eq!(Map::read(&workspace()).unwrap().draw(), expected);
    }

    // A crate that was added without a rank, and a rank that names a crate that is gone, would be missing or wrong on the map.
    #[test]
    fn every_crate_has_a_rank_and_every_rank_a_crate() {
        let mut workspace = workspace();
        workspace["metadata"]["map"]["ranks"][2] = json!({ "desk": ["program"] });
        let error = Map::read(&workspace).unwrap_err().to_string();
        assert!(error.contains("the crate `byteway` has no rank: add it to `ranks`"), "{error}");
        assert!(error.contains("there is no crate `program`: remove it"), "{error}");
    }

    #[test]
    fn lines_are_as_long_as_they_may_be() {
        let words = ["auth", "link", "member", "reuse", "a-very-long-name"].map(str::to_owned);
        assert_eq!(wrapped(&words, 12), ["auth link", "member reuse", "a-very-long-name"]);
        assert!(wrapped(&[], 12).is_empty());
    }

    // What stands around the map is written by hand, and stays; writing twice changes nothing.
    #[test]
    fn only_the_map_is_replaced() {
        let page = format!("before\n{BEGIN}\nold\n{END}\nafter\n");
        let once = replaced(&page, "new\n").unwrap();
        assert_eq!(once, format!("before\n{BEGIN}\n```text\nnew\n```\n{END}\nafter\n"));
        assert_eq!(replaced(&once, "new\n").unwrap(), once);
        assert!(replaced("no place\n", "new\n").is_err());
    }

    // The map is read in terminals and in code reviews.
    #[test]
    fn the_map_of_this_workspace_fits_into_80_columns() {
        let map = Map::read(&metadata(crate::root()).unwrap()).unwrap().draw();
        for line in map.lines() {
            assert!(line.len() <= WIDTH, "{} columns: {line}", line.len());
        }
    }
}
