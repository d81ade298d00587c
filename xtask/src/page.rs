//! A Markdown page: its code blocks, links and headings.

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Why a check failed.
#[derive(Debug, Error)]
pub enum Error {
    /// A file cannot be read or written.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// What was found to be wrong, with its places.
    #[error("{0}")]
    Found(String),
}

/// Attaches the path to an error of a file.
pub fn at(path: &Path) -> impl FnOnce(std::io::Error) -> Error + '_ {
    move |source| Error::File { path: path.to_owned(), source }
}

/// A fenced code block.
pub struct Block {
    /// The first word behind the fence, such as `sh`.
    pub language: String,
    /// The words behind that, `key=value` or `key`.
    pub options: BTreeMap<String, String>,
    /// Its text.
    pub text: String,
    /// The line of its fence, from 1.
    pub line: usize,
}

/// A page of Markdown.
pub struct Page {
    /// Its file.
    pub path: PathBuf,
    /// Its code blocks, in order.
    pub blocks: Vec<Block>,
    /// Where its links lead, with their lines.
    pub links: Vec<(String, usize)>,
    /// The anchors of its headings, as renderers of GitHub's Markdown make them.
    pub anchors: BTreeSet<String>,
}

impl Page {
    /// Reads a page.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(path: &Path) -> Result<Page, Error> {
        let text = std::fs::read_to_string(path).map_err(at(path))?;
        Ok(Page::parse(path.to_owned(), &text))
    }

    fn parse(path: PathBuf, text: &str) -> Page {
        let mut page = Page { path, blocks: Vec::new(), links: Vec::new(), anchors: BTreeSet::new() };
        let line_of = |offset: usize| 1 + text[..offset].matches('\n').count();
        let mut heading: Option<String> = None;
        let mut is_in_block = false;
        for (event, range) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
            match event {
                Event::Start(Tag::CodeBlock(kind)) => {
                    let info = if let CodeBlockKind::Fenced(info) = &kind { info.as_ref() } else { "" };
                    let (language, options) = split_info(info);
                    page.blocks.push(Block {
                        language,
                        options,
                        text: String::new(),
                        line: line_of(range.start),
                    });
                    is_in_block = true;
                }
                Event::End(TagEnd::CodeBlock) => is_in_block = false,
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => {
                    let slug = slug(&heading.take().unwrap_or_default());
                    page.anchors.insert(slug);
                }
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    page.links.push((dest_url.to_string(), line_of(range.start)));
                }
                Event::Text(words) if is_in_block => {
                    if let Some(block) = page.blocks.last_mut() {
                        block.text.push_str(&words);
                    }
                }
                Event::Text(words) | Event::Code(words) => {
                    if let Some(heading) = &mut heading {
                        heading.push_str(&words);
                    }
                }
                _ => {}
            }
        }
        page
    }
}

/// The language and the options behind a fence. The value of `not-run` is the rest of the line.
fn split_info(info: &str) -> (String, BTreeMap<String, String>) {
    let (info, reason) = match info.split_once("not-run=") {
        Some((before, reason)) => (before, Some(reason)),
        None => (info, None),
    };
    let mut words = info.split_whitespace();
    let language = words.next().unwrap_or_default().to_owned();
    let option = |word: &str| match word.split_once('=') {
        Some((key, value)) => (key.to_owned(), value.to_owned()),
        None => (word.to_owned(), String::new()),
    };
    let mut options: BTreeMap<String, String> = words.map(option).collect();
    if let Some(reason) = reason {
        options.insert("not-run".to_owned(), reason.trim().to_owned());
    }
    (language, options)
}

/// The anchor of a heading: lower case, spaces as hyphens, punctuation dropped.
fn slug(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    let kept = kept.chars().filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter));
    kept.map(|letter| if letter == ' ' { '-' } else { letter }).collect()
}

/// README.md, CONTRIBUTING.md, ARCHITECTURE.md and all pages of docs, in the order of their paths.
///
/// # Errors
/// A directory or file cannot be read.
pub fn all(root: &Path) -> Result<Vec<Page>, Error> {
    let mut paths: Vec<PathBuf> =
        ["ARCHITECTURE.md", "CONTRIBUTING.md", "README.md"].map(|name| root.join(name)).into();
    let mut folders = vec![root.join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).map_err(at(&folder))? {
            let path = entry.map_err(at(&folder))?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                paths.push(path);
            }
        }
    }
    paths.sort();
    paths.iter().map(|path| Page::read(path)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# A title, with `code`\n\nSee [there](b.md#x).\n\n```sh\nbyteway run s.toml\n```\n\n\
                        ```toml file=s.toml\nseed = 1\n```\n\n```sh not-run=boots a guest\nguest/run\n```\n";

    // A block that is taken for text is never run, and a page whose commands fail passes.
    #[test]
    fn blocks_links_and_headings_are_found() {
        let page = Page::parse(PathBuf::from("a.md"), TEXT);
        let found: Vec<_> = page.blocks.iter().map(|block| (block.language.as_str(), block.line)).collect();
        assert_eq!(found, [("sh", 5), ("toml", 9), ("sh", 13)]);
        assert_eq!(page.blocks[0].text, "byteway run s.toml\n");
        assert_eq!(page.blocks[1].options["file"], "s.toml");
        assert_eq!(page.blocks[2].options["not-run"], "boots a guest");
        assert_eq!(page.links, [("b.md#x".to_owned(), 3)]);
        assert!(page.anchors.contains("a-title-with-code"));
    }
}
