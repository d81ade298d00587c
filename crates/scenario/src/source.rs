//! TOML whose keys and values keep their locations through merging and overriding, so that errors name the
//! file, line and column, or the flag, where the user can fix them.
//!
//! All texts of a load (the scenario, the profiles, each `--set`) share one address space of byte offsets. A
//! value keeps its offset when it moves from one tree to another, and an offset leads back to its text.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use crate::profile::{SourcedConstant, source_at};
use byteway_firmware::policy::Policies;
use byteway_text::error::{InputError, SourceLocation, nearest, suggest};
use byteway_text::file::read_small_file;
use byteway_text::units::excerpt;

/// A TOML table with locations.
pub type Tree<'t> = DeTable<'t>;

/// A TOML value with its location.
type Value<'t> = Spanned<DeValue<'t>>;

/// Owns texts at stable addresses while more are added, so that trees can borrow from them.
#[derive(Default)]
pub struct Texts {
    first: OnceCell<Box<Text>>,
}

struct Text {
    text: String,
    next: OnceCell<Box<Text>>,
}

impl Texts {
    fn keep(&self, text: String) -> &str {
        let mut slot = &self.first;
        while let Some(text) = slot.get() {
            slot = &text.next;
        }
        &slot.get_or_init(|| Box::new(Text { text, next: OnceCell::new() })).text
    }
}

/// Each dot of a key is a nested table, which the parser handles by a loop, but later code by recursion:
/// without a limit a line of dots would overflow the stack. Keys of a scenario have at most four.
const DOTS_MAX: usize = 24;

/// The same limit for dots and braces together, summed over all lines that open a brace; nesting cannot be
/// deeper than that.
const NESTING_MAX: usize = 256;

/// Offset at which a text exceeds the nesting limits.
pub(crate) fn too_deep(text: &str) -> Option<usize> {
    let mut line_start = 0;
    let mut nesting = 0;
    for line in text.split_inclusive('\n') {
        if let Some((at, _)) = line.match_indices('.').nth(DOTS_MAX) {
            return Some(line_start + at);
        }
        let braces = line.matches('{').count();
        if braces > 0 {
            nesting += braces + line.matches('.').count();
        }
        if nesting > NESTING_MAX {
            return Some(line_start);
        }
        line_start += line.len();
    }
    None
}

/// All texts of one load, with their names and base offsets.
pub struct Sources<'t> {
    texts: &'t Texts,
    sources: Vec<Source<'t>>,
    constants: Vec<SourcedConstant>,
    /// Policies that are not built in.
    pub policies: Policies,
    /// Drives are served, not simulated.
    pub is_served: bool,
}

struct Source<'t> {
    name: String,
    text: &'t str,
    base: usize,
    kind: SourceKind,
}

enum SourceKind {
    /// A file, with the directory to which relative paths in it refer.
    File(PathBuf),
    /// The same, for a text translated from another language.
    Translated {
        folder: PathBuf,
        originals: Vec<(String, String)>,
        origins: Vec<Origin>,
    },
    BuiltIn,
    /// `--set key=value`: paths are relative to the current directory.
    Flag,
}

/// A location in the text that another was translated from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Index of the text, if there are several.
    pub file: usize,
    /// Line, from 1.
    pub line: usize,
    /// Column, from 1.
    pub column: usize,
    /// Width of the underlined part in characters.
    pub width: usize,
}

/// A scenario translated from another language.
pub struct Translation {
    /// The text of the scenario.
    pub text: String,
    /// Names and texts of its origins.
    pub originals: Vec<(String, String)>,
    /// Origin of each line of `text`.
    pub origins: Vec<Origin>,
    /// Notes for the reader of the result.
    pub notes: Vec<String>,
}

impl<'t> Sources<'t> {
    /// No sources yet.
    pub fn new(texts: &'t Texts) -> Self {
        Sources {
            texts,
            sources: Vec::new(),
            constants: Vec::new(),
            policies: Policies::default(),
            is_served: false,
        }
    }

    fn add(&mut self, name: String, text: String, kind: SourceKind) -> (usize, &'t str) {
        // One byte between texts, so that the end of one is not the start of the next.
        let base = self.end();
        let text = self.texts.keep(text);
        self.sources.push(Source { name, text, base, kind });
        (base, text)
    }

    /// The offset at which the next text begins.
    pub(crate) fn end(&self) -> usize {
        self.sources.last().map_or(0, |last| last.base + last.text.len() + 1)
    }

    /// Notes the constants of a profile for `section` whose texts begin at `begin`: what stands before is the scenario's own.
    pub(crate) fn note_constants(&mut self, section: &str, index: &Index, begin: usize) {
        for (key, span) in index.values().filter(|(_, span)| span.start >= begin) {
            let Source { text, base, .. } = self.of(span.start);
            let value = span.start - base..span.end - base;
            let constant = SourcedConstant {
                section: section.to_owned(),
                key: key.to_owned(),
                value: text[value.clone()].to_owned(),
                source: source_at(text, value),
            };
            self.constants.push(constant);
        }
    }

    /// The constants noted so far.
    pub(crate) fn take_constants(&mut self) -> Vec<SourcedConstant> {
        std::mem::take(&mut self.constants)
    }

    fn of(&self, offset: usize) -> &Source<'t> {
        let index = self.sources.partition_point(|source| source.base <= offset);
        &self.sources[index.saturating_sub(1)]
    }

    /// The text that contains this offset.
    pub fn text(&self, offset: usize) -> &'t str {
        self.of(offset).text
    }

    /// The location of a range of offsets.
    pub fn place(&self, range: &Range<usize>) -> SourceLocation {
        let source = self.of(range.start);
        if matches!(source.kind, SourceKind::Flag) {
            return SourceLocation {
                source: format!("--set {}", excerpt(source.text)),
                position: None,
                excerpt: None,
            };
        }
        let text = source.text;
        let start = floor_char_boundary(text, range.start - source.base);
        let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
        let line_end = text[start..].find('\n').map_or(text.len(), |at| start + at);
        let end =
            floor_char_boundary(text, (range.end.max(range.start) - source.base).clamp(start, line_end));
        let line = text[..line_start].bytes().filter(|b| *b == b'\n').count() + 1;
        if let SourceKind::Translated { originals, origins, .. } = &source.kind
            && let Some(origin) = origins.get(line - 1)
        {
            let (name, original) = &originals[origin.file];
            return origin.place(name, original.lines().nth(origin.line - 1).unwrap_or_default());
        }
        let column = text[line_start..start].chars().count() + 1;
        let shown = text[line_start..line_end].trim_end().replace('\t', " ");
        let worth_showing = shown.chars().count() <= 120 && !shown.chars().any(char::is_control);
        SourceLocation {
            source: source.name.clone(),
            position: Some((line, column)),
            excerpt: worth_showing.then(|| (shown, text[start..end].chars().count())),
        }
    }

    /// The directory to which a relative path at `offset` refers.
    pub fn folder(&self, offset: usize) -> &Path {
        match &self.of(offset).kind {
            SourceKind::File(folder) | SourceKind::Translated { folder, .. } => folder,
            SourceKind::BuiltIn | SourceKind::Flag => Path::new(""),
        }
    }

    /// Parses a text that is built into the program.
    pub fn parse_built_in(&mut self, name: &str, text: &str) -> Result<Spanned<Tree<'t>>, InputError> {
        self.parse(name.to_owned(), text.to_owned(), SourceKind::BuiltIn)
    }

    /// Parses a text in place of the file `folder`/`name`.
    pub fn parse_text(
        &mut self,
        name: &str,
        folder: &Path,
        text: &str,
    ) -> Result<Spanned<Tree<'t>>, InputError> {
        self.parse(name.to_owned(), text.to_owned(), SourceKind::File(folder.to_owned()))
    }

    /// Parses the translation of the file `folder`/`name`.
    pub fn parse_translated(
        &mut self,
        name: &str,
        folder: &Path,
        made: Translation,
    ) -> Result<Spanned<Tree<'t>>, InputError> {
        let Translation { text, originals, origins, .. } = made;
        self.parse(
            name.to_owned(),
            text,
            SourceKind::Translated { folder: folder.to_owned(), originals, origins },
        )
    }

    /// Reads and parses a file.
    pub fn parse_file(&mut self, path: &Path, what: &str) -> Result<Spanned<Tree<'t>>, InputError> {
        let text = read_small_file(path, what)?;
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        self.parse(path.display().to_string(), text, SourceKind::File(folder))
    }

    fn parse(
        &mut self,
        name: String,
        text: String,
        kind: SourceKind,
    ) -> Result<Spanned<Tree<'t>>, InputError> {
        let (base, text) = self.add(name, text, kind);
        if let Some(at) = too_deep(text) {
            let what =
                format!("more than {DOTS_MAX} dots in a line, or {NESTING_MAX} braces and dots in all");
            let help = "write `[section]` headers instead of nested keys and braces";
            return Err(InputError::new(what, help).at(self.place(&(base + at..base + at + 1))));
        }
        match DeTable::parse(text) {
            Ok(tree) => {
                let span = shifted(tree.span(), base);
                Ok(Spanned::new(span, shift_table(tree.into_inner(), base)))
            }
            Err(error) => {
                let span = shifted(error.span().unwrap_or(0..0), base);
                let help = "write `key = value` lines below `[section]` headers; texts and numbers with units go in quotes";
                Err(InputError::new(format!("not TOML: {}", error.message()), help).at(self.place(&span)))
            }
        }
    }

    /// Applies `--set key=value` to a tree. The key is dotted; entries of an array are selected by index from
    /// 0, or by `name`. `drive.capacity` applies to every drive if there are several.
    pub fn set(&mut self, tree: &mut Spanned<Tree<'t>>, flag: &str) -> Result<(), InputError> {
        let (base, flag) = self.add("--set".to_owned(), flag.to_owned(), SourceKind::Flag);
        let place = |sources: &Self| sources.place(&(base..base + flag.len()));
        let example =
            "write --set key=value, such as --set drive.capacity=\"64 GiB\" or --set job.0.iodepth=16";
        let Some((key, raw)) = flag.split_once('=') else {
            return Err(InputError::new("no `=` in it", example).at(place(self)));
        };
        if key.split('.').any(|part| part.trim().is_empty()) || too_deep(flag).is_some() {
            return Err(InputError::new(format!("`{}` is not a key", excerpt(key)), example).at(place(self)));
        }
        let span = base + key.len() + 1..base + flag.len();
        let value = match DeValue::parse(raw) {
            Ok(value) if !matches!(value.get_ref(), DeValue::Datetime(_)) => {
                shift_value(value.into_inner(), base + key.len() + 1)
            }
            // If it is not a TOML value it is a string: --set job.0.bs=8 KiB needs no second pair of quotes.
            _ => DeValue::String(Cow::Owned(raw.trim().to_owned())),
        };
        let parts: Vec<&str> = key.split('.').map(str::trim).collect();
        put(tree.get_mut(), &parts, Spanned::new(span, value), base..base + key.len())
            .map_err(|(what, help)| InputError::new(what, help).at(place(self)))
    }

    /// Deserializes a tree.
    pub fn decode<T: DeserializeOwned>(
        &self,
        tree: Spanned<Tree<'t>>,
        noun: &str,
    ) -> Result<(T, Index), InputError> {
        let index = Index::of(&tree);
        let span = tree.span();
        let value = Spanned::new(span.clone(), DeValue::Table(tree.into_inner()));
        match T::deserialize(ValueDeserializer::from(value)) {
            Ok(value) => Ok((value, index)),
            Err(error) => {
                let span = error.span().unwrap_or(span);
                let path = index.path_at(&span);
                let (what, help) = explain(error.message(), path.as_deref(), noun);
                Err(InputError::new(what, help).at(self.place(&span)))
            }
        }
    }
}

/// Locations of the keys and values of a tree.
#[derive(Clone, Debug, Default)]
pub struct Index {
    entries: BTreeMap<String, Entry>,
}

#[derive(Clone, Debug)]
struct Entry {
    key: Range<usize>,
    value: Range<usize>,
}

impl Index {
    fn of(tree: &Spanned<Tree<'_>>) -> Self {
        let mut index = Index::default();
        index.entries.insert(String::new(), Entry { key: tree.span(), value: tree.span() });
        index.add_table("", tree.get_ref());
        index
    }

    fn add_table(&mut self, path: &str, table: &Tree<'_>) {
        for (key, value) in table.iter() {
            self.add(join(path, key.get_ref()), key.span(), value);
        }
    }

    fn add(&mut self, path: String, key: Range<usize>, value: &Value<'_>) {
        match value.get_ref() {
            DeValue::Table(table) => self.add_table(&path, table),
            DeValue::Array(items) => {
                for (number, item) in items.iter().enumerate() {
                    self.add(join(&path, &number.to_string()), item.span(), item);
                }
            }
            _ => {}
        }
        self.entries.insert(path, Entry { key, value: value.span() });
    }

    /// The range of the value at `path`; if the key is missing, that of the nearest enclosing table.
    pub fn span(&self, path: &str) -> Range<usize> {
        let mut path = path;
        loop {
            if let Some(entry) = self.entries.get(path) {
                return entry.value.clone();
            }
            path = path.rfind('.').map_or("", |dot| &path[..dot]);
            if path.is_empty() && !self.entries.contains_key("") {
                return 0..0;
            }
        }
    }

    /// Values that are no tables, with their keys; an array is one value.
    fn values(&self) -> impl Iterator<Item = (&str, Range<usize>)> {
        let keys = self.entries.iter().zip(self.entries.keys().skip(1).map(Some).chain([None]));
        let is_value = |key: &str, next: Option<&String>| {
            let below = next.and_then(|next| next.strip_prefix(key)?.strip_prefix('.'));
            let is_number = |part: &str| part.starts_with(|first: char| first.is_ascii_digit());
            !key.is_empty() && !key.split('.').any(is_number) && below.is_none_or(is_number)
        };
        let values = keys.filter(move |((key, _), next)| is_value(key, *next));
        values.map(|((key, entry), _)| (key.as_str(), entry.value.clone()))
    }

    /// Whether the user set something at `path`.
    pub fn has(&self, path: &str) -> bool {
        self.entries.contains_key(path)
    }

    fn path_at(&self, span: &Range<usize>) -> Option<String> {
        let hit = |entry: &&Entry| entry.key == *span || entry.value == *span;
        let paths = self.entries.iter().filter(|(_, entry)| hit(entry)).map(|(path, _)| path);
        paths.max_by_key(|path| path.len()).filter(|path| !path.is_empty()).cloned()
    }
}

/// Merges `over` into `tree`: tables are merged, everything else is replaced.
pub fn merge<'t>(tree: &mut Tree<'t>, over: Tree<'t>) {
    for (key, value) in over {
        if let (DeValue::Table(table), Some(below)) = (value.get_ref(), tree.get_mut(key.get_ref().as_ref()))
            && let DeValue::Table(below) = below.get_mut()
        {
            merge(below, table.clone());
            continue;
        }
        // Remove first: a map keeps its existing key, and with it the location of the replaced value.
        tree.remove(key.get_ref().as_ref());
        tree.insert(key, value);
    }
}

fn put<'t>(
    table: &mut Tree<'t>,
    parts: &[&str],
    value: Value<'t>,
    key_span: Range<usize>,
) -> Result<(), (String, String)> {
    let key = parts[0];
    if parts.len() == 1 {
        table.remove(key);
        table.insert(Spanned::new(key_span, Cow::Owned(key.to_owned())), value);
        return Ok(());
    }
    if table.get(key).is_none() {
        let empty = Spanned::new(key_span.clone(), DeValue::Table(Tree::new()));
        table.insert(Spanned::new(key_span.clone(), Cow::Owned(key.to_owned())), empty);
    }
    let below = table.get_mut(key).expect("just inserted");
    match below.get_mut() {
        DeValue::Table(below) => put(below, &parts[1..], value, key_span),
        DeValue::Array(items) => {
            let (entries, below) = entries(key, items, parts)?;
            for item in items.iter_mut().take(entries.end).skip(entries.start) {
                if below.is_empty() {
                    *item = value.clone();
                    continue;
                }
                match item.get_mut() {
                    DeValue::Table(table) => put(table, below, value.clone(), key_span.clone())?,
                    _ => {
                        let what = format!("`{key}.{}` has no keys below it", parts[1]);
                        return Err((what, "shorten the key".to_owned()));
                    }
                }
            }
            Ok(())
        }
        _ => Err((format!("`{}` has no keys below it", excerpt(key)), "shorten the key".to_owned())),
    }
}

/// A range of array entries, and the rest of the key.
type Entries<'p> = (Range<usize>, &'p [&'p str]);

/// The entries of the array at `parts[0]` that a key selects, and the rest of the key.
fn entries<'p>(
    key: &str,
    items: &[Value<'_>],
    parts: &'p [&'p str],
) -> Result<Entries<'p>, (String, String)> {
    let named = |item: &Value<'_>| {
        let DeValue::Table(table) = item.get_ref() else { return false };
        matches!(table.get("name").map(Spanned::get_ref), Some(DeValue::String(name)) if name == parts[1])
    };
    let number = parts[1].parse::<usize>().ok().or_else(|| items.iter().position(named));
    if let Some(number) = number.filter(|number| *number < items.len()) {
        return Ok((number..number + 1, &parts[2..]));
    }
    // With one drive or several, a key without a name applies to every drive. Only `override` has keys below
    // it, so before any other one the first part must be a name.
    if key == "drive" && number.is_none() && (parts.len() == 2 || parts[1] == "override") {
        return Ok((0..items.len(), &parts[1..]));
    }
    let count = items.len();
    let what = format!("there is no `{key}.{}`: `{key}` has {count} entries", excerpt(parts[1]));
    let help = format!("write a number from 0 to {}, or the entry's name", count.saturating_sub(1));
    Err((what, help))
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

fn shifted(range: Range<usize>, by: usize) -> Range<usize> {
    range.start + by..range.end + by
}

fn shift_table(table: Tree<'_>, by: usize) -> Tree<'_> {
    table
        .into_iter()
        .map(|(key, value)| {
            let key_span = shifted(key.span(), by);
            let value_span = shifted(value.span(), by);
            (
                Spanned::new(key_span, key.into_inner()),
                Spanned::new(value_span, shift_value(value.into_inner(), by)),
            )
        })
        .collect()
}

fn shift_value(value: DeValue<'_>, by: usize) -> DeValue<'_> {
    match value {
        DeValue::Table(table) => DeValue::Table(shift_table(table, by)),
        DeValue::Array(items) => DeValue::Array(
            items
                .into_iter()
                .map(|item| {
                    let span = shifted(item.span(), by);
                    Spanned::new(span, shift_value(item.into_inner(), by))
                })
                .collect(),
        ),
        other => other,
    }
}

fn floor_char_boundary(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// Sections that most profiles lack, of which users set one key; with all keys that there must be then.
const WHOLE: [(&str, &str); 1] =
    [("flash.suspend", "latency = \"20 us\", resume = \"20 us\", most = 16, policy = \"erases\"")];

/// Turns serde's message into a mistake and its remedy.
fn explain(message: &str, path: Option<&str>, noun: &str) -> (String, String) {
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    let key = path.map(|path| format!("`{path}`: ")).unwrap_or_default();
    if message.starts_with("unknown field") && !quoted.is_empty() {
        // The place may be that of a value further down, as of --set drive.flash.read.
        let parts: Vec<&str> = path.unwrap_or_default().split('.').collect();
        let at = parts.iter().position(|part| *part == quoted[0]).unwrap_or(parts.len().saturating_sub(1));
        let section = match &parts[..at] {
            [] => format!("the {noun}"),
            before => format!("`{}`", before.join(".")),
        };
        let what = format!("unknown key `{}` in {section}", excerpt(quoted[0]));
        // What people write first: drives differ in a profile's keys.
        if quoted[1..].contains(&"override") && PROFILE_SECTIONS.contains(&quoted[0]) {
            let own = [&parts[..at], &["override"], &parts[at..]].concat().join(".");
            return (what, format!("keys of its profile are below `override`: write `{own}`"));
        }
        return (what, suggest_key(quoted[0], &quoted[1..]));
    }
    if message.starts_with("unknown variant") && !quoted.is_empty() {
        let what = format!("{key}`{}` is not one of the choices", excerpt(quoted[0]));
        return (what, suggest(quoted[0], &quoted[1..]));
    }
    if message.starts_with("missing field") && !quoted.is_empty() {
        // The place may be that of one of its keys, as of --set drive.override.flash.suspend.policy.
        let whole = WHOLE.iter().find(|(section, _)| path.is_some_and(|path| path.contains(section)));
        if let Some((section, keys)) = whole {
            let what = format!("`{section}` lacks the key `{}`", quoted[0]);
            return (
                what,
                format!("a profile that has none needs all of it: write `{section} = {{ {keys} }}`"),
            );
        }
        let inside = path.map_or_else(|| format!("the {noun}"), |path| format!("`{path}`"));
        if SECTIONS.contains(&quoted[0]) {
            let section = path.map_or_else(|| quoted[0].to_owned(), |path| join(path, quoted[0]));
            return (format!("{inside} lacks the section `[{section}]`"), format!("add it: `[{section}]`"));
        }
        return (
            format!("{inside} lacks the key `{}`", quoted[0]),
            format!("add a line `{} = ...`", quoted[0]),
        );
    }
    let expected = ["invalid type: ", "invalid value: ", "invalid length "]
        .iter()
        .find_map(|start| message.strip_prefix(start))
        .and_then(|rest| rest.split_once(", expected "));
    if let Some((found, expected)) = expected {
        let expected = expected.lines().next().unwrap_or(expected);
        // serde names the type of an integer that is too large for 64 bits.
        let found = found.trim_end_matches(" as i128").trim_end_matches(" as u128");
        return (format!("{key}{found} does not fit here"), format!("write {}", in_toml(expected)));
    }
    let see = |schema: String| match noun {
        "claims file" => {
            "the comment above the claims in claims/byteexpress.toml says what may stand here".to_owned()
        }
        _ => schema,
    };
    let of = match noun {
        "profile" => " profile",
        "host profile" => " host",
        "device file" => " device",
        _ => "",
    };
    if message == "wanted string or table" {
        let help = see(format!("write one of its choices in quotes; `byteway schema{of}` lists them"));
        return (format!("{key}only a text fits here"), help);
    }
    match message.split_once('\n') {
        Some((what, help)) => (format!("{key}{what}"), help.to_owned()),
        None => (format!("{key}{message}"), see(format!("see `byteway schema{of}` for what may stand here"))),
    }
}

/// serde's expectation in terms of TOML.
fn in_toml(expected: &str) -> &str {
    match expected {
        "u8" => "a whole number from 0 to 255",
        "u16" => "a whole number from 0 to 65535",
        "u32" => "a whole number from 0 to 4294967295",
        "u64" => "a whole number, zero or more",
        "f64" => "a number",
        "a boolean" => "true or false",
        "a string" => "a text in quotes",
        "a sequence" => "a list in brackets, such as [\"50 us\"]",
        _ if expected == "a map" || expected.starts_with("struct ") => "a section: keys below a `[header]`",
        other => other,
    }
}

/// Sections of a profile, which a drive may override.
const PROFILE_SECTIONS: [&str; 11] =
    ["link", "controller", "firmware", "dram", "flash", "bridge", "transfer", "cxl", "kv", "csd", "programs"];

/// Keys that have their own section.
const SECTIONS: [&str; 8] = ["drive", "link", "controller", "firmware", "cycles", "gc", "dram", "flash"];

fn suggest_key(wrong: &str, keys: &[&str]) -> String {
    let list = keys.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    match nearest(wrong, keys.iter().copied()) {
        Some(name) => format!("did you mean `{name}`? the keys here are {list}"),
        None => format!("the keys here are {list}"),
    }
}
