//! Runs the command blocks of pages as a reader would.
//!
//! A page is a session: its ```` ```sh ```` blocks run in order, in a new directory that has links to the repository's scenarios, profiles
//! and claims, and stop at the first failure. ```` ```toml file=NAME ```` (or any other language) writes NAME first.
//! ```` ```text output ```` behind a block holds its standard output, which must be the same. ```` ```sh not-run=REASON ```` is not run,
//! and its reason is told at the end. What a block leaves running in the background ends with it.

use crate::page::{self, Block, Error, Page, at};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What a page finds in addition to its own files.
const LINKED: [&str; 5] = ["scenarios", "profiles", "claims", "guest", "crates"];

/// Pages whose commands run in the repository itself: they build it.
const IN_PLACE: [&str; 2] = ["README.md", "CONTRIBUTING.md"];

/// Runs the blocks of these pages (all, if none is named), with the program in `program` first in the path.
///
/// # Errors
/// A block failed, or its output is not what the page shows.
pub fn run(root: &Path, pages: &[PathBuf], program: &Path) -> Result<(), Error> {
    let pages = match pages {
        [] => page::all(root)?,
        named => named.iter().map(|path| Page::read(&root.join(path))).collect::<Result<_, _>>()?,
    };
    let (mut wrong, mut not_run, mut ran) = (Vec::new(), Vec::new(), 0);
    for page in &pages {
        if !page.blocks.iter().any(|block| block.language == "sh") {
            continue;
        }
        let scratch = tempfile::tempdir().map_err(at(Path::new("a temporary directory")))?;
        let is_in_place = IN_PLACE.iter().any(|name| page.path == root.join(name));
        let folder = if is_in_place { root } else { scratch.path() };
        if !is_in_place {
            for name in LINKED {
                let link = scratch.path().join(name);
                std::os::unix::fs::symlink(root.join(name), &link).map_err(at(&link))?;
            }
        }
        match session(page, folder, scratch.path(), program, &mut not_run) {
            Ok(blocks) => ran += blocks,
            Err(Error::Found(found)) => wrong.push(found),
            Err(error) => return Err(error),
        }
    }
    println!("{ran} blocks ran");
    not_run.iter().for_each(|reason| println!("NOT RUN: {reason}"));
    if wrong.is_empty() { Ok(()) } else { Err(Error::Found(wrong.join("\n\n"))) }
}

/// Runs a page, and says how many of its blocks ran.
fn session(
    page: &Page,
    folder: &Path,
    scratch: &Path,
    program: &Path,
    not_run: &mut Vec<String>,
) -> Result<usize, Error> {
    let place = |block: &Block| format!("{}:{}", page.path.display(), block.line);
    let mut ran = 0;
    let mut last: Option<(String, String)> = None;
    for block in &page.blocks {
        if let Some(name) = block.options.get("file") {
            let path = folder.join(name);
            std::fs::write(&path, &block.text).map_err(at(&path))?;
        } else if block.language == "sh" {
            if let Some(reason) = block.options.get("not-run") {
                not_run.push(format!("{}: {reason}", place(block)));
                continue;
            }
            let output = shell(&block.text, folder, scratch, program)?;
            println!("{}", place(block));
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            if !output.status.success() {
                let errors = String::from_utf8_lossy(&output.stderr);
                let what = format!("{}: {}\n{}{said}{errors}", place(block), output.status, block.text);
                return Err(Error::Found(what));
            }
            ran += 1;
            last = Some((place(block), said));
        } else if block.options.contains_key("output") {
            let (of, said) = last.take().unwrap_or_default();
            let lines =
                |text: &str| text.trim().lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>();
            if lines(&said) != lines(&block.text) {
                let what = format!("{}: this is not what {of} prints, which is\n{said}", place(block));
                return Err(Error::Found(what));
            }
        }
    }
    Ok(ran)
}

/// Stands before each block: a server that it has started in the background ends with it, and holds no pipe open.
const PRELUDE: &str =
    "trap 'status=$?; set +e; kill $(jobs -p) 2>/dev/null; wait; exit $status' EXIT; set -euo pipefail\n";

/// Runs a block by bash.
fn shell(text: &str, folder: &Path, scratch: &Path, program: &Path) -> Result<std::process::Output, Error> {
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new("bash");
    command.args(["-c", &format!("{PRELUDE}{text}")]).current_dir(folder);
    command.env("PATH", format!("{}:{}:{path}", scratch.join("bin").display(), program.display()));
    command.env("CARGO_INSTALL_ROOT", scratch).stdin(Stdio::null());
    command.output().map_err(at(Path::new("bash")))
}
