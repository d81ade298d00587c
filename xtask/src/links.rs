//! Checks that links between pages and to files lead somewhere. Links to other sites are not followed.

use crate::page::{self, Error, Page};
use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

/// Checks all pages of the repository.
///
/// # Errors
/// A link leads nowhere, or a file cannot be read.
pub fn check(root: &Path) -> Result<(), Error> {
    let pages = page::all(root)?;
    let by_path: BTreeMap<&Path, &Page> = pages.iter().map(|page| (page.path.as_path(), page)).collect();
    let mut wrong = Vec::new();
    for page in &pages {
        for (link, line) in &page.links {
            if let Some(problem) = problem(page, link, &by_path) {
                wrong.push(format!("{}:{line}: {link}: {problem}", page.path.display()));
            }
        }
    }
    if wrong.is_empty() {
        println!("{} pages, {} links", pages.len(), pages.iter().map(|page| page.links.len()).sum::<usize>());
        return Ok(());
    }
    Err(Error::Found(wrong.join("\n")))
}

fn problem(page: &Page, link: &str, pages: &BTreeMap<&Path, &Page>) -> Option<&'static str> {
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
    let path = match file {
        "" => page.path.clone(),
        file => normal(&page.path.parent().unwrap_or(Path::new("")).join(file)),
    };
    if !path.exists() {
        return Some("there is no such file");
    }
    let is_missing = !anchor.is_empty()
        && pages.get(path.as_path()).is_some_and(|target| !target.anchors.contains(anchor));
    is_missing.then_some("the page has no such heading")
}

/// A path without `.` and `..`.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(normal.pop()),
            Component::CurDir => {}
            part => normal.push(part),
        }
    }
    normal
}
