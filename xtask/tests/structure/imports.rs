//! Import graph of a crate's files, from the names that they use.
//!
//! A path counts wherever it occurs: in a `use`, in code, in macro arguments. It may start with `crate`, `self`, `super`, a child module or
//! an imported name, and leads to the file that defines the item: files that only re-export items (`pub use`) are not imported. Test code
//! is ignored.
//!
//! Methods that are called without a path are seen by `calls.rs`.

use std::collections::{BTreeMap, BTreeSet};

use syn::buffer::Cursor;
use syn::visit::Visit;

use super::graph::Graph;
use super::sources::{Module, Source, Sources, is_of_tests};

/// A path as written.
pub type Names = Vec<String>;

/// An item of the crate: the file that defines it, and its name there.
pub type Item = (Module, String);

/// Upper limit of chained `use`s that a name is followed through.
const STEPS: usize = 16;

/// Content of a file.
#[derive(Default)]
struct File {
    /// Items defined in it.
    defined: BTreeSet<String>,
    /// Imports of `use`, by their local names.
    brought: BTreeMap<String, BTreeSet<Names>>,
    /// Modules and enums imported by glob.
    globs: BTreeSet<Names>,
    /// Paths that the file needs; a `pub use` does not count.
    needed: BTreeSet<Names>,
}

impl File {
    fn of(syntax: &syn::File) -> File {
        let mut file = File::default();
        file.visit_file(syntax);
        file
    }

    fn bring(&mut self, tree: &syn::UseTree, before: &Names, is_needed: bool) {
        let path = |name: &syn::Ident| before.iter().cloned().chain([name.to_string()]).collect::<Names>();
        let (name, mut path) = match tree {
            syn::UseTree::Path(tree) => return self.bring(&tree.tree, &path(&tree.ident), is_needed),
            syn::UseTree::Group(group) => {
                return group.items.iter().for_each(|item| self.bring(item, before, is_needed));
            }
            syn::UseTree::Glob(_) => {
                self.globs.insert(before.clone());
                return;
            }
            syn::UseTree::Name(tree) => (&tree.ident, path(&tree.ident)),
            syn::UseTree::Rename(tree) => (&tree.rename, path(&tree.ident)),
        };
        let mut name = name.to_string();
        if path.last().is_some_and(|last| last == "self") {
            path.pop();
            if name == "self" {
                name = path.last().unwrap().clone();
            }
        }
        if is_needed {
            self.needed.insert(path.clone());
        }
        self.brought.entry(name).or_default().insert(path);
    }

    /// Macro arguments: paths in them, and items that they may define.
    fn tokens(&mut self, mut at: Cursor<'_>) {
        let mut path = Names::new();
        let mut is_item = false;
        while !at.eof() {
            if let Some((name, rest)) = at.ident() {
                let name = name.to_string();
                if is_item {
                    self.defined.insert(name.clone());
                }
                is_item =
                    ["struct", "enum", "union", "trait", "type", "fn", "const", "static"].contains(&&*name);
                path.push(name);
                at = rest;
                if let Some(after) = colons(at) {
                    at = after;
                    continue;
                }
            } else if let Some((inside, _, _, rest)) = at.any_group() {
                self.tokens(inside);
                at = rest;
            } else {
                at = at.token_tree().unwrap().1;
            }
            if !path.is_empty() {
                self.needed.insert(std::mem::take(&mut path));
            }
        }
    }
}

/// The tokens after two colons.
fn colons(at: Cursor<'_>) -> Option<Cursor<'_>> {
    let (first, at) = at.punct()?;
    let (second, at) = at.punct()?;
    (first.as_char() == ':' && second.as_char() == ':').then_some(at)
}

impl<'ast> Visit<'ast> for File {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        let (attributes, name) = match item {
            syn::Item::Const(item) => (&item.attrs, Some(&item.ident)),
            syn::Item::Enum(item) => (&item.attrs, Some(&item.ident)),
            syn::Item::Fn(item) => (&item.attrs, Some(&item.sig.ident)),
            syn::Item::Impl(item) => (&item.attrs, None),
            syn::Item::Macro(item) => (&item.attrs, item.ident.as_ref()),
            syn::Item::Mod(item) => (&item.attrs, None),
            syn::Item::Static(item) => (&item.attrs, Some(&item.ident)),
            syn::Item::Struct(item) => (&item.attrs, Some(&item.ident)),
            syn::Item::Trait(item) => (&item.attrs, Some(&item.ident)),
            syn::Item::Type(item) => (&item.attrs, Some(&item.ident)),
            syn::Item::Union(item) => (&item.attrs, Some(&item.ident)),
            syn::Item::Use(item) => (&item.attrs, None),
            _ => return syn::visit::visit_item(self, item),
        };
        if !is_of_tests(attributes) {
            self.defined.extend(name.map(ToString::to_string));
            syn::visit::visit_item(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !is_of_tests(&item.attrs) {
            syn::visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.bring(&item.tree, &Names::new(), matches!(item.vis, syn::Visibility::Inherited));
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.needed.insert(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        syn::visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, given: &'ast syn::Macro) {
        let parsed = given.parse_body_with(|input: syn::parse::ParseStream<'_>| {
            input.step(|at| {
                self.tokens(*at);
                let mut end = *at;
                while let Some((_, rest)) = end.token_tree() {
                    end = rest;
                }
                Ok(((), end))
            })
        });
        parsed.unwrap();
        self.visit_path(&given.path);
    }
}

/// The files of a crate with their imports.
pub struct Imports {
    files: BTreeMap<Module, File>,
}

impl Imports {
    pub fn of(sources: &Sources) -> Imports {
        let file = |(module, source): (&Module, &Source)| (module.clone(), File::of(&source.syntax));
        Imports { files: sources.iter().map(file).collect() }
    }

    /// Adds the imports between files.
    pub fn add_to(&self, graph: &mut Graph) {
        for (module, file) in &self.files {
            graph.0.entry(module.clone()).or_default();
            for path in &file.needed {
                for (defines, name) in self.find(module, path) {
                    graph.add(module, &defines, name);
                }
            }
        }
    }

    /// The items of this crate that `path` in `module` may refer to.
    pub fn find(&self, module: &Module, path: &[String]) -> BTreeSet<Item> {
        let mut found = BTreeSet::new();
        self.follow(module, path, STEPS, &mut found);
        found
    }

    /// Whether `path` in `module` is imported from another crate.
    pub fn is_foreign(&self, module: &Module, path: &[String]) -> bool {
        let mut found = BTreeSet::new();
        self.follow(module, path, STEPS, &mut found) && found.is_empty()
    }

    /// Finds the items that `path` in `module` may refer to. Returns whether it is in this crate.
    fn follow(&self, module: &Module, path: &[String], steps: usize, found: &mut BTreeSet<Item>) -> bool {
        let mut base = module.clone();
        let mut rest = path;
        let mut is_here = false;
        while let Some(step @ ("crate" | "self" | "super")) = rest.first().map(String::as_str) {
            match step {
                "crate" => base.clear(),
                "super" => drop(base.pop()),
                _ => {}
            }
            is_here = true;
            rest = &rest[1..];
        }
        self.look(&base, rest, is_here, steps, found)
    }

    /// The same for a path below `module`; `is_here`: it is certainly in this crate.
    fn look(
        &self,
        module: &Module,
        path: &[String],
        is_here: bool,
        steps: usize,
        found: &mut BTreeSet<Item>,
    ) -> bool {
        // Uses of a module's items are found by the paths that start with it.
        let Some((name, rest)) = path.split_first() else { return true };
        let Some(steps) = steps.checked_sub(1) else { return false };
        let file = &self.files[module];
        let below: Module = module.iter().chain([name]).cloned().collect();
        let is_module = self.files.contains_key(&below);
        if is_module && !rest.is_empty() {
            return self.look(&below, rest, true, steps, found);
        }
        if file.defined.contains(name) {
            found.insert((module.clone(), name.clone()));
            return true;
        }
        if let Some(paths) = file.brought.get(name) {
            for path in paths {
                self.follow(module, &[path, rest].concat(), steps, found);
            }
            return true;
        }
        if is_module {
            return true;
        }
        let through =
            |glob: &Names| self.follow(module, &[glob.as_slice(), path].concat(), steps, &mut *found);
        if file.globs.iter().filter(|glob| self.is_of_crate(module, glob)).any(through) {
            return true;
        }
        if is_here {
            // A macro's item, for example.
            found.insert((module.clone(), name.clone()));
        }
        is_here
    }

    fn is_of_crate(&self, module: &Module, path: &[String]) -> bool {
        let first = path[0].as_str();
        let below = module.iter().map(String::as_str).chain([first]);
        ["crate", "self", "super"].contains(&first)
            || self.files[module].defined.contains(first)
            || self.files.keys().any(|file| file.iter().map(String::as_str).eq(below.clone()))
    }
}

// A structure test that misses a way of naming items would miss cycles.
#[test]
fn imports_are_seen_however_they_are_written() {
    let sources = super::sources::parse([
        ("lib.rs", "mod a; mod b; mod c; pub use a::part::Part; pub use b::*;"),
        ("a/mod.rs", "pub mod part; mod other; use part::Part; fn f() -> Part { other::g() }"),
        ("a/part.rs", "pub(in crate::a) struct Part; #[cfg(test)] mod tests { use crate::b::B; }"),
        ("a/other.rs", "pub fn g() { debug_assert!(crate::B::new().is_empty(), \"{}\", crate::c::C) }"),
        ("b.rs", "use super::c; pub struct B; fn f() { c::C; }"),
        ("c.rs", "macro_rules! c { ($name:ident) => { pub struct $name; } } c!(C); use crate::Part as P;"),
    ]);
    let mut graph = Graph::default();
    Imports::of(&sources).add_to(&mut graph);
    let told: BTreeMap<String, Vec<String>> = graph
        .0
        .iter()
        .map(|(file, needs)| (file.join("::"), needs.keys().map(|file| file.join("::")).collect()))
        .collect();
    let expected = [
        ("", &[][..]),
        ("a", &["a::other", "a::part"]),
        ("a::other", &["b", "c"]),
        ("a::part", &[]),
        ("b", &["c"]),
        ("c", &["a::part"]),
    ];
    for (file, needs) in expected {
        assert_eq!(told[file], needs, "{file}");
    }
    assert_eq!(graph.circles(), BTreeSet::new());
}
