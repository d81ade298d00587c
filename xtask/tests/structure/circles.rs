//! Circles of files within each crate, by imports and method calls together.
//!
//! Files of a circle can only be understood, changed and moved together. A circle is a strongly connected component of two files or more;
//! a file and those of its folder are no exception. Circles of sibling folders count likewise; a folder and its parent do not. Those that
//! there are stand in `circles.toml`, each with its reason: the list is held against the sources, so that none grows, and none is on it
//! that is gone.
//!
//! What is not seen: see `calls.rs`. What was seen, and each circle with what it is made of, is printed by
//! `cargo test -p byteway-xtask --test structure report -- --ignored --nocapture`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use super::calls::{self, Tally};
use super::declared::Declared;
use super::graph::{Graph, Reasons};
use super::imports::Imports;
use super::manifests::{all_below, dependencies, members, name, read};
use super::sources::{self, Module, Sources};

/// Names of methods of std 1.95, from its documentation: a call of one may be of a type of std.
const STD_METHODS: &str = include_str!("std_methods.txt");

/// The exceptions.
const LISTED: &str = include_str!("circles.toml");

/// A circle by its crate and its files below `src`, or its folders, which end in `/`.
type Circle = (String, BTreeSet<String>);

/// An edge within a circle: from a file to one that it needs, and why.
struct Edge {
    from: String,
    to: String,
    why: String,
}

/// The dependencies between the files of a crate.
struct Crate {
    name: String,
    paths: BTreeMap<Module, String>,
    graph: Graph,
    tally: Tally,
}

impl Crate {
    fn of(name: &str, sources: &Sources, elsewhere: &BTreeSet<String>) -> Crate {
        let mut graph = Graph::default();
        let imports = Imports::of(sources);
        imports.add_to(&mut graph);
        let declared = Declared::of(sources, &imports);
        let tally = calls::add_to(&mut graph, sources, &imports, &declared, elsewhere);
        let paths = sources.iter().map(|(module, source)| (module.clone(), source.path.clone())).collect();
        Crate { name: name.to_owned(), paths, graph, tally }
    }

    /// The circles of files, and of folders, each with its edges.
    fn circles(&self) -> BTreeMap<Circle, Vec<Edge>> {
        let mut circles = self.circles_of(&self.graph, |file| self.paths[file].clone());
        circles.extend(self.circles_of(&self.graph.folders(), |folder| folder.join("/") + "/"));
        circles
    }

    fn circles_of(&self, graph: &Graph, path: impl Fn(&Module) -> String) -> BTreeMap<Circle, Vec<Edge>> {
        let edge = |(from, to, why): (&Module, &Module, &Reasons)| {
            let why: Vec<&str> = why.iter().map(String::as_str).collect();
            Edge { from: path(from), to: path(to), why: why.join(", ") }
        };
        let of = |circle: BTreeSet<Module>| {
            let files = circle.iter().map(&path).collect();
            ((self.name.clone(), files), graph.within(&circle).map(edge).collect())
        };
        graph.circles().into_iter().map(of).collect()
    }
}

/// The crates of the workspace.
fn workspace() -> Vec<Crate> {
    let direct = dependencies();
    let read = |folder: &Path| (name(&read(folder)), sources::read(&folder.join("src")));
    let crates: BTreeMap<String, Sources> = members().iter().map(|folder| read(folder)).collect();
    let methods = |sources: &Sources| -> Vec<String> {
        let imports = Imports::of(sources);
        let declared = Declared::of(sources, &imports);
        declared.by_name.into_keys().chain(declared.generated).collect()
    };
    let methods: BTreeMap<&String, Vec<String>> =
        crates.iter().map(|(name, sources)| (name, methods(sources))).collect();
    let of = |(name, sources): (&String, &Sources)| {
        let below = all_below(name, &direct);
        let mut elsewhere: BTreeSet<String> = STD_METHODS.split_whitespace().map(str::to_owned).collect();
        elsewhere.extend(below.iter().filter_map(|name| methods.get(name)).flatten().cloned());
        Crate::of(name.strip_prefix("byteway-").unwrap_or(name), sources, &elsewhere)
    };
    crates.iter().map(of).collect()
}

/// The exceptions, with their reasons.
fn listed(text: &str) -> BTreeMap<Circle, String> {
    let table: toml::Table = text.parse().unwrap_or_else(|error| panic!("circles.toml: {error}"));
    let mut listed = BTreeMap::new();
    for entry in table.get("circle").and_then(toml::Value::as_array).into_iter().flatten() {
        let text = |value: &toml::Value| value.as_str().unwrap_or_default().to_owned();
        let files = entry["files"].as_array().into_iter().flatten().map(text).collect();
        let (name, reason) = (text(&entry["crate"]), text(&entry["reason"]));
        assert!(!reason.is_empty(), "circles.toml: a circle of {name} has no reason: {files:?}");
        let before = listed.insert((name.clone(), files), reason);
        assert!(before.is_none(), "circles.toml: a circle of {name} is listed twice");
    }
    listed
}

/// An entry of the list.
fn entry((name, files): &Circle, reason: &str) -> String {
    let files: Vec<String> = files.iter().map(|file| format!("    \"{file}\",\n")).collect();
    format!("[[circle]]\ncrate = \"{name}\"\nfiles = [\n{}]\nreason = \"{reason}\"\n", files.concat())
}

/// Whether two circles have a file in common.
fn overlap(a: &Circle, b: &Circle) -> bool {
    a.0 == b.0 && !a.1.is_disjoint(&b.1)
}

/// What is wrong with a list of exceptions. Empty if nothing is.
fn against(found: &BTreeMap<Circle, Vec<Edge>>, listed: &BTreeMap<Circle, String>) -> String {
    let unlisted = found.iter().filter(|(circle, _)| !listed.contains_key(*circle));
    let mut told: String = unlisted.map(|(circle, edges)| differs(circle, edges, listed)).collect();
    for circle in listed.keys().filter(|listed| !found.keys().any(|found| overlap(listed, found))) {
        let (name, files) = circle;
        let _ = writeln!(
            told,
            "{name}: there is no such circle any more, remove it from circles.toml: {files:?}"
        );
    }
    told
}

/// How a circle differs from those that are listed, with the edges that make it differ.
fn differs(circle: &Circle, edges: &[Edge], listed: &BTreeMap<Circle, String>) -> String {
    let (name, files) = circle;
    let before: Vec<&Circle> = listed.keys().filter(|listed| overlap(circle, listed)).collect();
    let part = |file: &String| before.iter().position(|(_, files)| files.contains(file));
    let joined: Vec<&String> = files.iter().filter(|file| part(file).is_none()).collect();
    let mut told = match before[..] {
        [] => format!("{name}: a new circle of {}: {joined:?}\n", files.len()),
        [before] if joined.is_empty() => {
            let entry = entry(circle, &listed[before]);
            return format!("{name}: a circle has become smaller; circles.toml is to say so:\n{entry}");
        }
        [_] => format!("{name}: a circle has grown to {} by {joined:?}\n", files.len()),
        [..] => format!("{name}: {} circles have become one of {}: {files:?}\n", before.len(), files.len()),
    };
    // What leads back into an old circle, or from one to another, is what closed this one.
    let closes = |edge: &&Edge| part(&edge.to).is_some() && part(&edge.from) != part(&edge.to);
    for Edge { from, to, why } in edges.iter().filter(|edge| before.is_empty() || closes(edge)) {
        let _ = writeln!(told, "    {from} -> {to}: {why}");
    }
    told
}

// Without this, files and folders that call each other come to look like layers that they are not.
#[test]
fn circles_are_those_that_are_listed() {
    let found: BTreeMap<Circle, Vec<Edge>> = workspace().iter().flat_map(Crate::circles).collect();
    let told = against(&found, &listed(LISTED));
    assert!(told.is_empty(), "circles of files (see xtask/tests/structure/circles.rs):\n{told}");
}

// What the other tests see of the sources, and so what they may overlook.
#[test]
#[ignore = "prints, and checks nothing"]
fn report() {
    println!(
        "{:<12} {:>5} {:>8} {:>9} {:>9} {:>7} {:>8}",
        "crate", "files", "resolved", "ambiguous", "elsewhere", "circles", "in them"
    );
    let crates = workspace();
    let mut all = Tally::default();
    for each in &crates {
        let Tally { resolved, ambiguous, elsewhere } = each.tally;
        let (files, circles) = (each.paths.len(), each.circles());
        let inside: usize = circles.keys().map(|(_, files)| files.len()).sum();
        println!(
            "{:<12} {files:>5} {resolved:>8} {ambiguous:>9} {elsewhere:>9} {:>7} {inside:>8}",
            each.name,
            circles.len()
        );
        all.resolved += resolved;
        all.ambiguous += ambiguous;
        all.elsewhere += elsewhere;
    }
    println!("\ncalls: {all:?}");
    println!(
        "not seen: ambiguous calls, what a trait object or a type parameter calls, macros' contents, calls of other crates, fields\n"
    );
    for each in &crates {
        for ((name, files), edges) in each.circles() {
            println!("{name}: {}: {}", files.len(), files.into_iter().collect::<Vec<_>>().join(" "));
            edges.iter().for_each(|Edge { from, to, why }| println!("    {from} -> {to}: {why}"));
            println!();
        }
    }
}

/// A crate of these files; a lower one has a method `push`.
fn made_up(files: &[(&str, &str)]) -> Crate {
    Crate::of("made-up", &sources::parse(files.iter().copied()), &["push".to_owned()].into())
}

/// Its circles, a line of files each.
fn lines(made: &Crate) -> Vec<String> {
    let circles = made.circles().into_keys();
    circles.map(|(_, files)| files.into_iter().collect::<Vec<_>>().join(" ")).collect()
}

const A: (&str, &str) =
    ("a.rs", "use crate::b::B; pub struct A; impl A { pub fn sink(&self) { B::new(); } }");

/// What `A` names, with a function of this body. It names nothing of `A`.
fn b(body: &str) -> String {
    format!("pub struct B; impl B {{ pub fn new() -> B {{ {body} }} }}")
}

// The circle that a reader of imports alone does not see.
#[test]
fn two_files_make_a_circle_by_a_method_call() {
    let of_tests = b("B") + "#[cfg(test)] mod tests { fn t() { super::super::make().sink() } }";
    assert_eq!(lines(&made_up(&[("lib.rs", ""), A, ("b.rs", &of_tests)])), [""; 0]);
    for body in ["make().sink(); B", "assert!(true, \"{}\", make().sink()); B", "x.map(|y| y.sink())"] {
        assert_eq!(lines(&made_up(&[("lib.rs", ""), A, ("b.rs", &b(body))])), ["a.rs b.rs"], "{body}");
    }
}

// An edge that may not be there would make circles that no change of the sources could break.
#[test]
fn an_ambiguous_call_is_counted_and_makes_no_circle() {
    let sinks = b("make().sink(); B");
    let made = made_up(&[("lib.rs", ""), A, ("b.rs", &sinks)]);
    assert_eq!(made.tally, Tally { resolved: 2, ambiguous: 0, elsewhere: 0 });
    let c = ("c.rs", "pub struct C; impl C { pub fn sink(&self) {} }");
    let made = made_up(&[("lib.rs", ""), A, ("b.rs", &sinks), c]);
    assert_eq!(made.tally, Tally { resolved: 1, ambiguous: 1, elsewhere: 0 });
    assert_eq!(lines(&made), [""; 0]);
    // The same of a name that a lower crate has, and of one of another crate's trait.
    let a = ("a.rs", "use crate::b::B; pub struct A; impl A { pub fn push(&self) { B::new(); } }");
    let made = made_up(&[("lib.rs", ""), a, ("b.rs", &b("make().push(); B"))]);
    assert_eq!((made.tally.ambiguous, lines(&made)), (1, vec![]));
    let a = ("a.rs", "use crate::b::B; pub struct A; impl Drain for A { fn sink(&self) { B::new(); } }");
    let made = made_up(&[("lib.rs", ""), a, ("b.rs", &sinks)]);
    assert_eq!((made.tally.ambiguous, lines(&made)), (1, vec![]));
}

// Many names have several methods: declarations tell which one is called.
#[test]
fn the_declared_type_of_a_receiver_decides() {
    let files = [
        ("lib.rs", "pub use a::A;"),
        ("a.rs", "pub struct A; impl A { pub fn sink(&self) {} }"),
        ("c.rs", "pub struct C; impl C { pub fn sink(&self) {} }"),
        (
            "holder.rs",
            "use crate::{A, c::C}; type Kept = C;
             pub struct Holder { a: Rc<RefCell<A>>, k: Option<Kept>, list: Vec<A> }
             impl Holder { pub fn take(self) -> Option<A> { None } }",
        ),
    ];
    for (body, target) in [
        ("holder.a.borrow().sink()", "a"),
        ("let a = holder.take()?; a.sink()", "a"),
        ("let a: &crate::a::A = x; (*a).sink()", "a"),
        ("let a = crate::A::default(); let a = holder.k.as_ref().unwrap(); a.sink()", "c"),
        ("crate::A::sink(x)", "a"),
        // Unknown, or of others.
        ("let a = &holder.a; for a in x { a.sink() }", ""),
        ("holder.list.sink()", ""),
        ("x.sink()", ""),
    ] {
        let text = format!("use crate::holder::Holder; fn f(holder: &Holder) {{ {body} }}");
        let made = made_up(&[&files[..], &[("b.rs", &text)]].concat());
        let edges = made.graph.0[&vec!["b".to_owned()]].iter();
        let found: Vec<&str> =
            edges.filter(|(_, why)| why.contains(".sink()")).map(|(to, _)| to[0].as_str()).collect();
        assert_eq!(found.concat(), target, "{body}");
    }
}

// A caller of a trait is not bound to those that implement it: a trait is what breaks a circle.
#[test]
fn a_call_of_a_trait_leads_to_the_trait() {
    let a = (
        "a.rs",
        "use crate::b::B; pub struct A; impl crate::drain::Drain for A { fn sink(&self) { B::new(); } }",
    );
    let drain = ("drain.rs", "pub trait Drain { fn sink(&self); }");
    let of_b = b("make().sink(); B") + "fn f(drain: &dyn crate::drain::Drain) { drain.sink() }";
    let made = made_up(&[("lib.rs", ""), a, ("b.rs", &of_b), drain]);
    assert_eq!((lines(&made), made.tally.resolved), (vec![], 3));
}

#[test]
fn a_file_and_its_folder_make_a_circle_and_so_do_folders() {
    let files = [
        ("lib.rs", "mod a; mod b;"),
        ("a/mod.rs", "mod part; use part::Part; pub const LIMIT: u8 = 1;"),
        ("a/part.rs", "pub struct Part { x: [u8; super::LIMIT] }"),
        ("b.rs", "mod part;"),
        ("b/part.rs", "pub fn f(part: crate::a::part::Part) {}"),
    ];
    assert_eq!(lines(&made_up(&files)), ["a/mod.rs a/part.rs"]);
    let files = [&files[..], &[("a/other.rs", "fn f() { crate::b::part::f() }")]].concat();
    assert_eq!(lines(&made_up(&files)), ["a/ b/", "a/mod.rs a/part.rs"]);
}

// A list that is longer than what there is would let what was broken grow again.
#[test]
fn the_list_is_held_against_the_circles_in_both_directions() {
    let circle =
        |files: &str| -> Circle { ("made-up".to_owned(), files.split(' ').map(str::to_owned).collect()) };
    let list = |circles: &[&str]| -> BTreeMap<Circle, String> {
        circles.iter().map(|files| (circle(files), "a reason".to_owned())).collect()
    };
    let edges = |files: &str| -> Vec<Edge> {
        let files: Vec<&str> = files.split(' ').collect();
        let to = files.iter().cycle().skip(1);
        let edge = |(from, to): (&&str, &&str)| Edge {
            from: (*from).to_owned(),
            to: (*to).to_owned(),
            why: "X".to_owned(),
        };
        files.iter().zip(to).map(edge).collect()
    };
    for (found, known, expected) in [
        (&["a b", "c d e"][..], &["a b", "c d e"][..], ""),
        (&["a b"], &[], "made-up: a new circle of 2: [\"a\", \"b\"]\n    a -> b: X\n    b -> a: X\n"),
        (&["a b c"], &["a b"], "made-up: a circle has grown to 3 by [\"c\"]\n    c -> a: X\n"),
        (
            &["a b c d"],
            &["a b", "c d"],
            "made-up: 2 circles have become one of 4: {\"a\", \"b\", \"c\", \"d\"}\n    b -> c: X\n    d -> a: X\n",
        ),
        (
            &[],
            &["a b"],
            "made-up: there is no such circle any more, remove it from circles.toml: {\"a\", \"b\"}\n",
        ),
    ] {
        let found = found.iter().map(|files| (circle(files), edges(files))).collect();
        assert_eq!(against(&found, &list(known)), expected);
    }
    // A circle that has become smaller is told as the entry that is right.
    let found = [(circle("a b"), Vec::new())].into();
    let told = against(&found, &list(&["a b c"]));
    let (_, entry) = told.split_once(":\n").unwrap();
    assert_eq!(listed(entry), list(&["a b"]));
}
