//! Graph of the files, or folders, of a crate, and its circles.

use std::collections::{BTreeMap, BTreeSet};

use super::sources::Module;

/// Why one file needs another: names of items and of methods (`.name()`).
pub type Reasons = BTreeSet<String>;

/// What each file needs, and why. A file that is needed is a key, too.
#[derive(Default)]
pub struct Graph(pub BTreeMap<Module, BTreeMap<Module, Reasons>>);

impl Graph {
    /// Adds an edge, unless it leads from a file to itself.
    pub fn add(&mut self, from: &Module, to: &Module, reason: String) {
        if from != to {
            self.0.entry(to.clone()).or_default();
            self.0.entry(from.clone()).or_default().entry(to.clone()).or_default().insert(reason);
        }
    }

    /// The strongly connected components of two files and more, each with its members in order.
    pub fn circles(&self) -> BTreeSet<BTreeSet<Module>> {
        let reach: BTreeMap<&Module, BTreeSet<&Module>> =
            self.0.keys().map(|from| (from, self.reached(from))).collect();
        let circle_of = |(from, after): (&&Module, &BTreeSet<&Module>)| {
            let members = after.iter().filter(|other| reach[**other].contains(*from));
            members.map(|member| (*member).clone()).collect::<BTreeSet<Module>>()
        };
        reach.iter().map(circle_of).filter(|circle| circle.len() > 1).collect()
    }

    /// All modules reachable from `from`.
    fn reached<'a>(&'a self, from: &'a Module) -> BTreeSet<&'a Module> {
        let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
        while let Some(module) = next.pop() {
            next.extend(self.0[module].keys().filter(|module| seen.insert(*module)));
        }
        seen
    }

    /// The edges within a circle.
    pub fn within<'a>(
        &'a self,
        circle: &'a BTreeSet<Module>,
    ) -> impl Iterator<Item = (&'a Module, &'a Module, &'a Reasons)> {
        let from = self.0.iter().filter(|(from, _)| circle.contains(*from));
        let edges = from.flat_map(|(from, to)| to.iter().map(move |(to, why)| (from, to, why)));
        edges.filter(|(_, to, _)| circle.contains(*to))
    }

    /// The graph of sibling folders: a folder that uses its parent, or one below itself, is not in it.
    pub fn folders(&self) -> Graph {
        let mut graph = Graph::default();
        for (from, needed) in &self.0 {
            let source = self.folder(from);
            for (to, why) in needed {
                let target = self.folder(to);
                let same = source.iter().zip(target).take_while(|(a, b)| a == b).count();
                if same < source.len().min(target.len()) {
                    let (source, target) = (source[..=same].to_vec(), target[..=same].to_vec());
                    why.iter().for_each(|why| graph.add(&source, &target, why.clone()));
                }
            }
        }
        graph
    }

    /// The folder of a file; a file with submodules belongs to theirs.
    fn folder<'a>(&self, file: &'a Module) -> &'a [String] {
        let is_below = |other: &Module| other.len() > file.len() && other.starts_with(file);
        match self.0.keys().any(is_below) {
            true => file,
            false => &file[..file.len().saturating_sub(1)],
        }
    }
}
