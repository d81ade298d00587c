//! The source files of a crate, parsed, as a tree of modules. Test code is left out.

use std::collections::BTreeMap;
use std::path::Path;

use super::rust_files;

/// A module's path from the crate's root. Each module is a file.
pub type Module = Vec<String>;

/// A parsed file.
pub struct Source {
    /// Below `src`.
    pub path: String,
    pub syntax: syn::File,
}

pub type Sources = BTreeMap<Module, Source>;

/// Parses files: their paths below `src`, and their texts.
pub fn parse<P: Into<String>, T: AsRef<str>>(files: impl IntoIterator<Item = (P, T)>) -> Sources {
    let mut files: BTreeMap<String, T> = files.into_iter().map(|(path, text)| (path.into(), text)).collect();
    let is_library = files.contains_key("lib.rs");
    let mut sources = Sources::new();
    for (path, text) in std::mem::take(&mut files) {
        let syntax = syn::parse_file(text.as_ref()).unwrap_or_else(|error| panic!("{path}: {error}"));
        sources.insert(module(&path, is_library), Source { path, syntax });
    }
    let tests: Vec<Module> =
        sources.iter().flat_map(|(module, source)| test_modules(module, source)).collect();
    sources.retain(|module, _| !tests.iter().any(|test| module.starts_with(test)));
    sources
}

/// Reads and parses the crate whose root is in `folder`.
pub fn read(folder: &Path) -> Sources {
    let mut paths = Vec::new();
    rust_files(folder, &mut paths);
    let below = |path: &Path| path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
    parse(paths.iter().map(|path| (below(path), std::fs::read_to_string(path).unwrap())))
}

fn module(path: &str, is_library: bool) -> Module {
    let mut module: Module = path.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
    let is_root = module.last().is_some_and(|name| match name.as_str() {
        "lib" | "mod" => true,
        "main" => !is_library,
        _ => false,
    });
    if is_root {
        module.pop();
    }
    module
}

/// The modules of a file that are for tests only, and have files of their own.
fn test_modules(module: &Module, source: &Source) -> Vec<Module> {
    let named = source.syntax.items.iter().filter_map(|item| match item {
        syn::Item::Mod(item) if item.content.is_none() && is_of_tests(&item.attrs) => Some(&item.ident),
        _ => None,
    });
    named.map(|name| module.iter().cloned().chain([name.to_string()]).collect()).collect()
}

/// Whether an item is `#[cfg(test)]`.
pub fn is_of_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute.parse_args::<syn::Path>().is_ok_and(|what| what.is_ident("test"))
    })
}

// A file that only tests use would tie what it tests into circles.
#[test]
fn files_become_modules_and_those_of_tests_are_left_out() {
    let sources = parse([
        ("lib.rs", "mod a; #[cfg(test)] mod fixture; #[cfg(test)] mod tests { }"),
        ("a/mod.rs", "mod b; #[cfg(test)] mod tests;"),
        ("a/b.rs", ""),
        ("a/tests.rs", ""),
        ("fixture/mod.rs", ""),
        ("fixture/more.rs", ""),
        ("main.rs", ""),
    ]);
    let modules: Vec<String> = sources.keys().map(|module| module.join("::")).collect();
    assert_eq!(modules, ["", "a", "a::b", "main"]);
}
