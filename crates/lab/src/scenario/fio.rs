//! fio job files: sections and keys as fio's HOWTO has them, turned into the text of a scenario that asks for the same
//! load. Each line of that text knows the line that it came from, so that what is wrong is shown where the user wrote it.
//!
//! What concerns only fio's host side is left out and said; what would change the load and is not modelled is an error.

mod keys;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::error::{InputError, Place, suggest};
use crate::source::{Origin, Translation};
use crate::units::{Bytes, Picos, Rate, excerpt};
use keys::{IGNORED, REFUSED, SYNCHRONOUS, TAKEN};

/// The drive of a job file, which says nothing of one.
pub const PROFILE: &str = "samsung-970-pro";

/// More job sections than this are a mistake: each has queues of its own.
const JOBS_MAX: usize = 1024;

/// A key as it is written.
#[derive(Clone)]
struct Entry {
    value: String,
    origin: Origin,
}

type Keys = BTreeMap<&'static str, Entry>;

struct Section {
    name: String,
    origin: Origin,
    keys: Keys,
}

/// A job file on its way to a scenario.
struct Reader<'a> {
    name: &'a str,
    lines: Vec<&'a str>,
    /// Of the keys that were left out: in the order of their names.
    ignored: BTreeSet<String>,
    notes: Vec<String>,
}

/// The scenario that a job file comes to, on the drive `profile`.
///
/// # Errors
/// What is no job file, or asks for what is not modelled, with its place.
pub(crate) fn translate(name: &str, text: &str, profile: &str) -> Result<Translation, InputError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let lines = text.lines().collect();
    let mut reader = Reader { name, lines, ignored: BTreeSet::new(), notes: Vec::new() };
    let sections = reader.sections()?;
    let mut jobs = Lines::default();
    let mut seed = None;
    let mut names = BTreeSet::new();
    for (number, section) in sections.iter().enumerate() {
        let mut unique = section.name.clone();
        let mut copy = 2;
        while !names.insert(unique.clone()) {
            unique = format!("{}-{copy}", section.name);
            copy += 1;
        }
        if let Some(entry) = section.keys.get("randseed") {
            seed = Some((reader.whole("randseed", entry)?, entry.origin));
        }
        jobs.push(String::new(), section.origin);
        jobs.push("[[job]]".to_owned(), section.origin);
        jobs.push(format!("name = {}", quoted(&unique)), section.origin);
        reader.job(section, number, &mut jobs)?;
    }
    reader.one_drive(&sections)?;
    reader.say(&sections);
    let start = Origin { line: 1, column: 1, width: 1 };
    let mut scenario = Lines::default();
    let mut head = |text: String| scenario.push(text, start);
    head(format!("# What the fio job file {} comes to.", quoted(name.rsplit('/').next().unwrap_or(name))));
    for note in &reader.notes {
        head(format!("# {note}."));
    }
    head(String::new());
    if let Some((seed, origin)) = seed {
        scenario.push(format!("seed = {seed}"), origin);
        scenario.push(String::new(), start);
    }
    scenario.push("[drive]".to_owned(), start);
    scenario.push(format!("profile = {}", quoted(profile)), start);
    scenario.append(jobs);
    Ok(Translation {
        text: scenario.text,
        original: text.to_owned(),
        origins: scenario.origins,
        notes: reader.notes,
    })
}

/// Lines with where they come from.
#[derive(Default)]
struct Lines {
    text: String,
    origins: Vec<Origin>,
}

impl Lines {
    fn push(&mut self, line: String, origin: Origin) {
        self.text.push_str(&line);
        self.text.push('\n');
        self.origins.push(origin);
    }

    fn append(&mut self, other: Lines) {
        self.text.push_str(&other.text);
        self.origins.extend(other.origins);
    }
}

fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => {
                let _ = write!(quoted, "\\u{:04x}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted + "\""
}

impl Reader<'_> {
    fn error(&self, origin: Origin, what: impl Into<String>, cure: impl Into<String>) -> InputError {
        InputError::new(what, cure)
            .at(origin.place(self.name, self.lines.get(origin.line - 1).unwrap_or(&"")))
    }

    /// The sections of jobs, each with what the global ones before it say.
    fn sections(&mut self) -> Result<Vec<Section>, InputError> {
        let mut global = Keys::new();
        let mut sections: Vec<Section> = Vec::new();
        let mut in_global = None;
        for (number, line) in self.lines.clone().into_iter().enumerate() {
            let bare = without_comment(line);
            let text = bare.trim();
            if text.is_empty() {
                continue;
            }
            let column = line.chars().take_while(|c| c.is_whitespace()).count() + 1;
            let origin = Origin { line: number + 1, column, width: text.chars().count() };
            if text.chars().any(|c| c.is_control() && c != '\t') {
                let cure = "name a fio job file, or a scenario in TOML";
                return Err(self.error(origin, "the line has control characters", cure));
            }
            if let Some(rest) = text.strip_prefix('[') {
                let Some(name) = rest.strip_suffix(']').map(str::trim).filter(|name| !name.is_empty()) else {
                    let cure = "write `[name]`, or `[global]`";
                    return Err(self.error(origin, format!("`{}` is not a section", excerpt(text)), cure));
                };
                in_global = Some(name == "global");
                if name != "global" {
                    if sections.len() == JOBS_MAX {
                        let what = format!("more than {JOBS_MAX} jobs");
                        return Err(self.error(origin, what, "use `numjobs`, or fewer sections"));
                    }
                    sections.push(Section { name: name.to_owned(), origin, keys: global.clone() });
                }
                continue;
            }
            let (key, value) = text
                .split_once('=')
                .map_or((text, None), |(key, value)| (key.trim_end(), Some(value.trim())));
            if key == "include" || key.starts_with("include ") || key.starts_with("include\t") {
                let cure = "put what that file says here";
                return Err(self.error(origin, "`include` of other files is not supported", cure));
            }
            if value.is_some_and(|value| value.contains("${")) {
                let cure = "write the value itself";
                return Err(self.error(origin, "environment variables are not looked up", cure));
            }
            let Some(in_global) = in_global else {
                let cure = "write `[name]` or `[global]` before it";
                return Err(self.error(origin, format!("`{}` stands in no section", excerpt(key)), cure));
            };
            let Some(known) = self.known(key, value, origin)? else { continue };
            let at = value.map_or(origin, |value| {
                let before = line.len() - line.trim_start().len() + text.len() - value.len();
                let column = line[..before.min(line.len())].chars().count() + 1;
                Origin { column, width: value.chars().count(), ..origin }
            });
            let entry = Entry { value: value.unwrap_or("1").to_owned(), origin: at };
            match sections.last_mut() {
                Some(section) if !in_global => section.keys.insert(known, entry),
                _ => global.insert(known, entry),
            };
        }
        if sections.is_empty() {
            let origin = Origin { line: 1, column: 1, width: 1 };
            return Err(self.error(origin, "the job file has no job", "add a section such as `[job]`"));
        }
        Ok(sections)
    }

    /// The key's first name if it has a meaning here; `None` if it has none and needs none.
    fn known(
        &mut self,
        key: &str,
        value: Option<&str>,
        origin: Origin,
    ) -> Result<Option<&'static str>, InputError> {
        if let Some((first, _)) = TAKEN.iter().find(|(first, other)| *first == key || other.contains(&key)) {
            return Ok(Some(first));
        }
        if IGNORED.contains(&key) {
            self.ignored.insert(key.to_owned());
            return Ok(None);
        }
        if let Some((_, what, cure)) = REFUSED.iter().find(|(name, ..)| *name == key) {
            // Some say no more than what holds anyway.
            let harmless = match key {
                "loops" | "iodepth_batch" | "iodepth_batch_submit" => value == Some("1"),
                "kb_base" => value == Some("1024"),
                "rate_process" => value == Some("linear"),
                "io_submit_mode" => value == Some("inline"),
                "thinktime_blocks_type" => value == Some("issue"),
                "zonemode" => value == Some("none"),
                "sync" => matches!(value, Some("0" | "none")),
                "percentage_random" => value == Some("100"),
                "ba" | "blockalign" | "latency_target" | "wait_for" | "read_iolog" => false,
                _ => value == Some("0"),
            };
            if harmless {
                return Ok(None);
            }
            return Err(self.error(origin, format!("`{key}` {what}"), *cure));
        }
        let names: Vec<&str> = TAKEN.iter().map(|(first, _)| *first).collect();
        let what = format!("`{}` is not supported", excerpt(key));
        Err(self.error(origin, what, format!("leave it out if you can; {}", suggest(key, &names))))
    }

    fn job(&mut self, section: &Section, number: usize, out: &mut Lines) -> Result<(), InputError> {
        let keys = &section.keys;
        let numjobs = match keys.get("numjobs") {
            Some(entry) => self.whole("numjobs", entry)?.max(1),
            None => 1,
        };
        let rw = self.rw(section, out)?;
        self.sizes(keys, out)?;
        for key in ["rwmixread", "rwmixwrite", "iodepth", "thinktime_blocks"] {
            if let Some(entry) = keys.get(key) {
                out.push(format!("{key} = {}", self.whole(key, entry)?), entry.origin);
            }
        }
        if let Some(entry) = keys.get("numjobs") {
            out.push(format!("numjobs = {numjobs}"), entry.origin);
        }
        self.order(section, &rw, out)?;
        self.range(section, numjobs, out)?;
        for key in ["ramp_time", "startdelay"] {
            if let Some(entry) = keys.get(key) {
                out.push(format!("{key} = \"{}\"", self.time(key, entry, SECOND)?), entry.origin);
            }
        }
        if let Some(entry) = keys.get("thinktime") {
            out.push(
                format!("thinktime = \"{}\"", self.time("thinktime", entry, MICROSECOND)?),
                entry.origin,
            );
        }
        self.rates(keys, numjobs, out)?;
        if let Some(entry) = keys.get("stonewall").filter(|entry| entry.value != "0" && number > 0) {
            out.push("stonewall = true".to_owned(), entry.origin);
        }
        self.verify(keys, &rw, out)?;
        self.host_side(keys)
    }

    fn rw(&self, section: &Section, out: &mut Lines) -> Result<String, InputError> {
        let Some(entry) = section.keys.get("rw") else {
            // As fio's default is.
            out.push("rw = \"read\"".to_owned(), section.origin);
            return Ok("read".to_owned());
        };
        if entry.value.contains(':') {
            let what = format!("`{}`: steps between addresses are not supported", excerpt(&entry.value));
            return Err(self.error(entry.origin, what, "leave out what follows the colon"));
        }
        let rw = match entry.value.as_str() {
            "readwrite" => "rw",
            "randreadwrite" => "randrw",
            "trimwrite" | "rw" => &entry.value,
            other => other,
        };
        out.push(format!("rw = {}", quoted(rw)), entry.origin);
        Ok(rw.to_owned())
    }

    fn sizes(&self, keys: &Keys, out: &mut Lines) -> Result<(), InputError> {
        let size = |entry: &Entry, text: &str| match text.trim() {
            "" => Ok(String::new()),
            text => self.bytes(entry, text).map(|bytes| bytes.to_string()),
        };
        // fio lets the more particular one win.
        let key = ["bssplit", "bsrange", "bs"].into_iter().find(|key| keys.contains_key(key));
        let Some((key, entry)) = key.and_then(|key| Some((key, keys.get(key)?))) else { return Ok(()) };
        let directions = entry.value.split(',').map(|text| match key {
            "bsrange" => {
                let ends = text.split(['-', ':']).map(|end| size(entry, end));
                Ok(ends.collect::<Result<Vec<_>, InputError>>()?.join("-"))
            }
            "bssplit" => {
                let parts = text.split(':').map(|part| match part.split_once('/') {
                    Some((bytes, share)) => Ok(format!("{}/{}", size(entry, bytes)?, share.trim())),
                    None => size(entry, part),
                });
                Ok(parts.collect::<Result<Vec<_>, InputError>>()?.join(":"))
            }
            _ => size(entry, text),
        });
        let value = directions.collect::<Result<Vec<_>, InputError>>()?.join(",");
        out.push(format!("{key} = {}", quoted(&value)), entry.origin);
        Ok(())
    }

    /// How addresses are drawn.
    fn order(&mut self, section: &Section, rw: &str, out: &mut Lines) -> Result<(), InputError> {
        let keys = &section.keys;
        let is_random = rw.starts_with("rand");
        if let Some(entry) = keys.get("random_distribution").filter(|_| is_random) {
            out.push(format!("random_distribution = {}", quoted(&entry.value)), entry.origin);
        }
        let uniform = keys.get("random_distribution").is_none_or(|entry| entry.value == "random");
        let no_map = keys.get("norandommap").is_some_and(|entry| entry.value != "0");
        if !is_random || !uniform || no_map {
            return Ok(());
        }
        let one_size = !keys.contains_key("bssplit")
            && !keys.contains_key("bsrange")
            && keys.get("bs").is_none_or(|entry| !entry.value.contains(','));
        if one_size {
            // What fio does if it isn't told otherwise: it keeps a map of what it has touched.
            out.push("norandommap = false".to_owned(), section.origin);
        } else {
            self.notes.push(format!(
                "fio: job `{}` would touch each block once; here, with several block sizes, addresses are drawn anew each time",
                section.name
            ));
        }
        Ok(())
    }

    /// Where, and how much.
    fn range(&self, section: &Section, numjobs: u64, out: &mut Lines) -> Result<(), InputError> {
        let keys = &section.keys;
        for key in ["offset", "offset_increment", "size"] {
            match keys.get(key) {
                Some(entry) => {
                    out.push(format!("{key} = \"{}\"", self.bytes(entry, &entry.value)?), entry.origin);
                }
                // Each of fio's workers goes over the whole range.
                None if key == "offset_increment" && numjobs > 1 => {
                    out.push("offset_increment = \"0 B\"".to_owned(), section.origin);
                }
                None => {}
            }
        }
        let time_based = keys.get("time_based").is_some_and(|entry| entry.value != "0");
        if let Some(entry) = keys.get("runtime") {
            out.push(format!("runtime = \"{}\"", self.time("runtime", entry, SECOND)?), entry.origin);
        } else if let (true, Some(entry)) = (time_based, keys.get("time_based")) {
            return Err(self.error(entry.origin, "`time_based` without a `runtime`", "add `runtime=10`"));
        }
        if time_based {
            return Ok(());
        }
        let several = |count: u64| count.saturating_mul(numjobs).min(i64::MAX as u64);
        if let Some(entry) = keys.get("number_ios") {
            let count = several(self.whole("number_ios", entry)?);
            out.push(format!("count = {count}"), entry.origin);
        }
        let bounded = keys.contains_key("runtime") || keys.contains_key("number_ios");
        let io_size = keys.get("io_size").or_else(|| keys.get("size").filter(|_| bounded));
        if let Some(entry) = io_size {
            let bytes = Bytes(several(self.bytes(entry, &entry.value)?.0));
            out.push(format!("io_size = \"{bytes}\""), entry.origin);
        }
        Ok(())
    }

    fn rates(&self, keys: &Keys, numjobs: u64, out: &mut Lines) -> Result<(), InputError> {
        for key in ["rate", "rate_iops"] {
            let Some(entry) = keys.get(key) else { continue };
            let rates = entry.value.split(',').map(|text| match text.trim() {
                "" => Ok(String::new()),
                text => {
                    let rate = self.bytes(entry, text)?.0.saturating_mul(numjobs).min(i64::MAX as u64);
                    Ok(if key == "rate" { Rate(rate).to_string() } else { rate.to_string() })
                }
            });
            let rates = rates.collect::<Result<Vec<_>, InputError>>()?.join(",");
            out.push(format!("{key} = {}", quoted(&rates)), entry.origin);
        }
        Ok(())
    }

    fn verify(&self, keys: &Keys, rw: &str, out: &mut Lines) -> Result<(), InputError> {
        let Some(entry) = keys.get("verify").filter(|entry| entry.value != "0") else { return Ok(()) };
        let reads_back = keys.get("do_verify").is_none_or(|entry| entry.value != "0");
        if reads_back && !matches!(rw, "read" | "randread") {
            let what = "`verify` reads back what was written, after the job";
            let cure = "leave it out, or add `do_verify=0`: every block that a job reads is checked anyway; for the reads, \
                        add a job with `stonewall` and `rw=read`";
            return Err(self.error(entry.origin, what, cure));
        }
        out.push("verify = true".to_owned(), entry.origin);
        Ok(())
    }

    /// What says how fio reaches the drive.
    fn host_side(&mut self, keys: &Keys) -> Result<(), InputError> {
        let cached = [("direct", "0"), ("buffered", "1")];
        for (key, value) in cached {
            if let Some(entry) = keys.get(key).filter(|entry| entry.value == value) {
                let what = format!("`{key}={value}` goes through the page cache, which is not modelled");
                return Err(self.error(entry.origin, what, "write `direct=1`"));
            }
        }
        if let Some(entry) = keys.get("nrfiles").filter(|entry| entry.value != "1") {
            let cure = "leave it out: a job drives one range of a drive";
            return Err(self.error(entry.origin, "a job has no files", cure));
        }
        if keys.contains_key("ioengine") {
            self.ignored.insert("ioengine".to_owned());
        }
        // What fio takes on Linux if nobody chooses.
        let engine = keys.get("ioengine").map_or("psync", |entry| &entry.value);
        let deep = keys.get("iodepth").is_some_and(|entry| entry.value != "1");
        if SYNCHRONOUS.contains(&engine) && deep {
            let note = format!(
                "fio: `ioengine={engine}` has one I/O outstanding whatever `iodepth` says; here `iodepth` holds"
            );
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
        Ok(())
    }

    /// All jobs drive the one drive that there is.
    fn one_drive(&mut self, sections: &[Section]) -> Result<(), InputError> {
        let mut first: Option<&str> = None;
        for entry in sections.iter().filter_map(|section| section.keys.get("filename")) {
            self.ignored.insert("filename".to_owned());
            let name = entry.value.as_str();
            if name.contains(':') || first.is_some_and(|first| first != name) {
                let cure = "name one for all jobs, or leave it out: a scenario has one drive; `offset` and `size` part it";
                return Err(self.error(entry.origin, "several files or drives", cure));
            }
            first = Some(name);
        }
        Ok(())
    }

    /// What a reader of the result should know.
    fn say(&mut self, sections: &[Section]) {
        for section in sections {
            for key in ["direct", "buffered", "nrfiles"] {
                if section.keys.contains_key(key) {
                    self.ignored.insert(key.to_owned());
                }
            }
        }
        let undecided =
            |section: &Section| !["direct", "buffered"].iter().any(|key| section.keys.contains_key(key));
        if sections.iter().any(undecided) {
            self.notes.push(
                "fio: without `direct=1` I/O would go through the page cache; here all of it reaches the drive".to_owned(),
            );
        }
        if sections.len() > 1 && !sections.iter().any(|section| section.keys.contains_key("filename")) {
            self.notes.push(
                "fio: without `filename` each job would have a file of its own; here all jobs share the drive".to_owned(),
            );
        }
        if ["hipri", "sqthread_poll"].iter().any(|key| self.ignored.contains(*key)) {
            self.notes.push(
                "fio: how completions are learned of is the host profile's: linux-polled or linux-interrupt"
                    .to_owned(),
            );
        }
        let ignored = self.ignored.iter();
        let ignored = ignored.map(|key| format!("fio: `{key}` has no meaning here and was ignored"));
        self.notes.extend(ignored.collect::<Vec<_>>());
        let mut said = BTreeSet::new();
        self.notes.retain(|note| said.insert(note.clone()));
    }

    fn whole(&self, key: &str, entry: &Entry) -> Result<u64, InputError> {
        entry.value.parse().ok().filter(|value| i64::try_from(*value).is_ok()).ok_or_else(|| {
            let what = format!("`{key}`: `{}` is not a whole number", excerpt(&entry.value));
            self.error(entry.origin, what, format!("write a number, such as {key}=8"))
        })
    }

    /// A size as fio has it by default: k, kb are 1024, ki, kib 1000.
    fn bytes(&self, entry: &Entry, text: &str) -> Result<Bytes, InputError> {
        let wrong = |what: String| {
            let cure = "write bytes, or a number with k, m, g or t, such as 4k (4096)";
            self.error(entry.origin, what, cure)
        };
        let text = text.trim();
        if text.ends_with('%') {
            return Err(wrong(format!("`{}`: parts of a device are not supported", excerpt(text))));
        }
        let (digits, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
        let (radix_digits, radix) = match unit.strip_prefix(['x', 'X']) {
            Some(hexadecimal) if digits == "0" => (hexadecimal, 16),
            _ => (digits, 10),
        };
        let number = u64::from_str_radix(radix_digits, radix)
            .map_err(|_| wrong(format!("`{}` is not a size", excerpt(text))))?;
        let unit = if radix == 16 { String::new() } else { unit.to_ascii_lowercase() };
        let scale = match unit.as_str() {
            "" | "b" => 1,
            "k" | "kb" => 1 << 10,
            "m" | "mb" => 1 << 20,
            "g" | "gb" => 1 << 30,
            "t" | "tb" => 1 << 40,
            "p" | "pb" => 1 << 50,
            "ki" | "kib" => 1_000,
            "mi" | "mib" => 1_000_000,
            "gi" | "gib" => 1_000_000_000,
            "ti" | "tib" => 1_000_000_000_000,
            _ => return Err(wrong(format!("unknown unit `{}` in `{}`", excerpt(&unit), excerpt(text)))),
        };
        let bytes = number.checked_mul(scale).filter(|bytes| i64::try_from(*bytes).is_ok());
        bytes.map(Bytes).ok_or_else(|| wrong(format!("`{}` is too large", excerpt(text))))
    }

    /// A time, in `unit_ps` if it names no unit.
    fn time(&self, key: &str, entry: &Entry, unit_ps: u64) -> Result<Picos, InputError> {
        let wrong = |what: String| {
            let cure = format!("write a number with us, ms, s, m, h or d, such as {key}=10s");
            self.error(entry.origin, what, cure)
        };
        let text = entry.value.as_str();
        let (digits, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
        let number: u64 =
            digits.parse().map_err(|_| wrong(format!("`{key}`: `{}` is not a time", excerpt(text))))?;
        let scale = match unit.trim().to_ascii_lowercase().as_str() {
            "" => unit_ps,
            "us" | "usec" => MICROSECOND,
            "ms" | "msec" => 1_000_000_000,
            "s" | "sec" => SECOND,
            "m" | "min" => 60 * SECOND,
            "h" => 3_600 * SECOND,
            "d" => 86_400 * SECOND,
            _ => return Err(wrong(format!("`{key}`: unknown unit `{}`", excerpt(unit)))),
        };
        let time = number.checked_mul(scale);
        time.map(Picos).ok_or_else(|| wrong(format!("`{key}`: `{}` is too long", excerpt(text))))
    }
}

const SECOND: u64 = 1_000_000_000_000;
const MICROSECOND: u64 = 1_000_000;

/// A line without the comment that it is, or that follows what it says.
fn without_comment(line: &str) -> &str {
    let mut before = ' ';
    for (at, c) in line.char_indices() {
        if matches!(c, ';' | '#') && before.is_whitespace() {
            return &line[..at];
        }
        before = c;
    }
    line
}

impl Origin {
    /// Where this is in the file `name`, of which `line` is the line.
    pub(crate) fn place(self, name: &str, line: &str) -> Place {
        let shown = line.trim_end().replace('\t', " ");
        let worth_showing = shown.chars().count() <= 120 && !shown.chars().any(char::is_control);
        Place {
            source: name.to_owned(),
            position: Some((self.line, self.column)),
            excerpt: worth_showing.then_some((shown, self.width)),
        }
    }
}
