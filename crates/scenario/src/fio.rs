//! fio job files: sections and keys as in fio's HOWTO, translated to the text of a scenario with the same
//! load. Each line of that text refers to the line of its origin, so that errors point to the user's file.
//!
//! Keys that affect only fio's host side are ignored with a note; keys that would change the load and are not
//! modelled are errors.

mod keys;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use crate::source::{Origin, Translation};
use byteway_text::error::{InputError, SourceLocation, suggest};
use byteway_text::file::read_small_file;
use byteway_text::units::{Bytes, Percent, Picos, Portion, Rate, excerpt, fio_number};
pub(crate) use keys::FOREIGN_ENGINES;
use keys::{FLAGS, IGNORED, NOTED, NULL_ENGINES, REFUSED, SYNCHRONOUS, TAKEN};

/// Default drive of a job file, which names none.
pub const PROFILE: &str = "samsung-970-pro";

/// fio's default of `kb_base`.
const KB_BASE: u64 = 1024;

/// Job sections, at most; each has its own queues.
const JOBS_MAX: usize = 1024;

/// A key with its value.
#[derive(Clone)]
struct Entry {
    value: String,
    origin: Origin,
}

type Keys = BTreeMap<&'static str, Entry>;

/// An unprocessed line that sets a key.
#[derive(Clone)]
struct Setting {
    key: String,
    value: Option<String>,
    /// Location of the line, and of its value.
    origin: Origin,
    at: Origin,
}

struct Section {
    name: String,
    origin: Origin,
    settings: Vec<Setting>,
    keys: Keys,
}

/// State of the parser.
#[derive(Default)]
struct Parsed {
    /// Settings inherited by the following jobs.
    global: Vec<Setting>,
    sections: Vec<Section>,
    /// Whether the current section is global; `None` before the first section.
    in_global: Option<bool>,
}

/// Translates a job file to a scenario.
struct Reader<'a> {
    /// Names and texts of the job file and its included files.
    files: Vec<(String, String)>,
    folder: &'a Path,
    defines: BTreeMap<String, String>,
    /// Defines that some value refers to.
    used: BTreeSet<String>,
    /// Ignored keys, sorted by name.
    ignored: BTreeSet<String>,
    notes: Vec<String>,
    /// fio's `kb_base` of the current section: 1024, or 1000.
    kb_base: u64,
    /// Whether a size is a multiple of 512 B but not of 4 KiB.
    in_sectors: bool,
}

/// Nesting depth of included files, at most.
const INCLUDES_DEEP: usize = 8;
/// Included files, at most.
const INCLUDES_MAX: usize = 64;

/// A job file, and options of its translation.
pub struct JobFile<'a> {
    /// Name of the file in messages.
    pub name: &'a str,
    /// Directory to which names of included files are relative.
    pub folder: &'a Path,
    /// Text of the file.
    pub text: &'a str,
    /// `NAME=VALUE`: replacements for `${NAME}`.
    pub defines: &'a [String],
}

/// Translates a job file to a scenario for the drive `profile`.
///
/// # Errors
/// The text is not a job file, or requires something that is not modelled; with the location.
pub fn translate(file: &JobFile<'_>, profile: &str) -> Result<Translation, InputError> {
    let text = file.text.strip_prefix('\u{feff}').unwrap_or(file.text);
    let mut reader = Reader {
        files: vec![(file.name.to_owned(), text.to_owned())],
        folder: file.folder,
        defines: defines(file.defines)?,
        used: BTreeSet::new(),
        ignored: BTreeSet::new(),
        notes: Vec::new(),
        kb_base: KB_BASE,
        in_sectors: false,
    };
    let mut sections = reader.sections()?;
    for section in &mut sections {
        reader.engine(section)?;
        section.keys = reader.keys(&section.settings)?;
    }
    let mut jobs = Lines::default();
    let mut seed = None;
    let mut names = BTreeSet::new();
    let mut phases: Vec<(&str, u32)> = Vec::new();
    for section in &sections {
        reader.kb_base = reader.kb_base_of(section)?;
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
        reader.job(section, &mut phases, &mut jobs)?;
    }
    reader.one_drive(&sections)?;
    reader.say(&sections);
    let start = Origin { file: 0, line: 1, column: 1, width: 1 };
    let mut scenario = Lines::default();
    let mut head = |text: String| scenario.push(text, start);
    let short = file.name.rsplit('/').next().unwrap_or(file.name);
    head(format!("# What the fio job file {} comes to.", quoted(short)));
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
    if reader.in_sectors {
        scenario.push("lba_size = \"512 B\"".to_owned(), start);
    }
    scenario.append(jobs);
    Ok(Translation {
        text: scenario.text,
        originals: reader.files,
        origins: scenario.origins,
        notes: reader.notes,
    })
}

/// Parses the values of `--define NAME=VALUE`.
fn defines(given: &[String]) -> Result<BTreeMap<String, String>, InputError> {
    let mut defines = BTreeMap::new();
    for text in given {
        match text.split_once('=') {
            Some((name, value)) if !name.is_empty() && !name.contains(['$', '{', '}']) => {
                defines.insert(name.to_owned(), value.to_owned());
            }
            _ => {
                let what = format!("`--define {}` is not NAME=VALUE", excerpt(text));
                return Err(InputError::new(what, "write, for example, --define BS=4k for ${BS}"));
            }
        }
    }
    Ok(defines)
}

/// Lines with their origins.
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
    fn error(&self, origin: Origin, what: impl Into<String>, help: impl Into<String>) -> InputError {
        let (name, text) = &self.files[origin.file];
        let line = text.lines().nth(origin.line - 1).unwrap_or_default();
        InputError::new(what, help).at(origin.place(name, line))
    }

    /// The job sections, each including the global settings before it.
    fn sections(&mut self) -> Result<Vec<Section>, InputError> {
        let mut parsed = Parsed::default();
        self.parse(0, 0, &mut parsed)?;
        if parsed.sections.is_empty() {
            let origin = Origin { file: 0, line: 1, column: 1, width: 1 };
            return Err(self.error(origin, "the job file has no job", "add a section such as `[job]`"));
        }
        Ok(parsed.sections)
    }

    /// Parses the lines of a file, and of included files in place.
    fn parse(&mut self, file: usize, depth: usize, parsed: &mut Parsed) -> Result<(), InputError> {
        let lines = self.files[file].1.clone();
        for (number, line) in lines.lines().enumerate() {
            let text = without_comment(line).trim();
            if text.is_empty() {
                continue;
            }
            let column = line.chars().take_while(|c| c.is_whitespace()).count() + 1;
            let origin = Origin { file, line: number + 1, column, width: text.chars().count() };
            if text.chars().any(|c| c.is_control() && c != '\t') {
                let help = "name a fio job file, or a scenario in TOML";
                return Err(self.error(origin, "the line has control characters", help));
            }
            if let Some(rest) = text.strip_prefix('[') {
                let Some(name) = rest.strip_suffix(']').map(str::trim).filter(|name| !name.is_empty()) else {
                    let help = "write `[name]`, or `[global]`";
                    return Err(self.error(origin, format!("`{}` is not a section", excerpt(text)), help));
                };
                parsed.in_global = Some(name == "global");
                if name != "global" {
                    if parsed.sections.len() == JOBS_MAX {
                        let what = format!("more than {JOBS_MAX} jobs");
                        return Err(self.error(origin, what, "use `numjobs`, or fewer sections"));
                    }
                    parsed.sections.push(Section {
                        name: name.to_owned(),
                        origin,
                        settings: parsed.global.clone(),
                        keys: Keys::new(),
                    });
                }
                continue;
            }
            if let Some(name) = text.strip_prefix("include").filter(|rest| rest.starts_with([' ', '\t'])) {
                let included = self.include(name.trim(), origin, depth)?;
                self.parse(included, depth + 1, parsed)?;
                continue;
            }
            let (key, value) = text
                .split_once('=')
                .map_or((text, None), |(key, value)| (key.trim_end(), Some(value.trim())));
            let Some(in_global) = parsed.in_global else {
                let help = "write `[name]` or `[global]` before it";
                return Err(self.error(origin, format!("`{}` stands in no section", excerpt(key)), help));
            };
            let at = value.map_or(origin, |value| {
                let before = line.len() - line.trim_start().len() + text.len() - value.len();
                let column = line[..before.min(line.len())].chars().count() + 1;
                Origin { column, width: value.chars().count(), ..origin }
            });
            let setting = Setting { key: key.to_owned(), value: value.map(str::to_owned), origin, at };
            match parsed.sections.last_mut() {
                Some(section) if !in_global => section.settings.push(setting),
                _ => parsed.global.push(setting),
            }
        }
        Ok(())
    }

    /// Reads an included file; returns its index.
    fn include(&mut self, name: &str, origin: Origin, depth: usize) -> Result<usize, InputError> {
        if depth == INCLUDES_DEEP || self.files.len() > INCLUDES_MAX {
            let what = format!(
                "more than {INCLUDES_MAX} files are included, or files in files more than {INCLUDES_DEEP} deep"
            );
            return Err(self.error(origin, what, "check that no file includes itself"));
        }
        let path = self.folder.join(name);
        let text = read_small_file(&path, "fio job file")
            .map_err(|error| self.error(origin, error.what, error.help))?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text).to_owned();
        self.files.push((path.display().to_string(), text));
        Ok(self.files.len() - 1)
    }

    /// The value with every `${NAME}` replaced.
    fn expand(&mut self, setting: &Setting) -> Result<Option<String>, InputError> {
        let Some(value) = &setting.value else { return Ok(None) };
        let mut expanded = String::new();
        let mut rest = value.as_str();
        while let Some((before, after)) = rest.split_once("${") {
            expanded.push_str(before);
            let Some((name, after)) = after.split_once('}') else {
                return Err(self.error(setting.at, "`${` without its `}`", "write `${NAME}`"));
            };
            let Some(defined) = self.defines.get(name) else {
                let name = excerpt(name);
                let help = format!(
                    "add --define {name}=VALUE; the environment, where fio looks, is not read, so that the same command \
                     means the same everywhere"
                );
                return Err(self.error(setting.at, format!("`${{{name}}}` is not defined"), help));
            };
            expanded.push_str(defined);
            self.used.insert(name.to_owned());
            rest = after;
        }
        expanded.push_str(rest);
        Ok(Some(expanded))
    }

    /// Refuses I/O engines whose operations are not reads, writes and trims of a drive. Checked first,
    /// because the other keys of such a job have no meaning here.
    fn engine(&mut self, section: &Section) -> Result<(), InputError> {
        let Some(setting) = section.settings.iter().rfind(|setting| setting.key == "ioengine") else {
            return Ok(());
        };
        let engine = self.expand(setting)?.unwrap_or_default();
        if let Some((_, what)) = FOREIGN_ENGINES.iter().find(|(names, _)| names.contains(&engine.as_str())) {
            let what = format!("`ioengine={engine}` {what}");
            let help = "leave the job out: here jobs read, write and trim one NVMe drive";
            return Err(self.error(setting.at, what, help));
        }
        if NULL_ENGINES.contains(&engine.as_str()) {
            self.notes
                .push(format!("fio: `ioengine={engine}` does no I/O; here the job's I/Os reach the drive"));
        }
        Ok(())
    }

    /// The supported keys of a section; the last setting of each key wins.
    fn keys(&mut self, settings: &[Setting]) -> Result<Keys, InputError> {
        let mut keys = Keys::new();
        for setting in settings {
            // A path may refer to a define that matters only to fio's host side.
            if IGNORED.contains(&setting.key.as_str()) {
                self.ignored.insert(setting.key.clone());
                continue;
            }
            let value = self.expand(setting)?;
            if let Some(known) = self.known(&setting.key, value.as_deref(), setting.origin)? {
                let value = value.unwrap_or_else(|| "1".to_owned());
                if FLAGS.contains(&known) && !matches!(value.as_str(), "0" | "1") {
                    let what = format!("`{}` is neither 0 nor 1", excerpt(&value));
                    return Err(self.error(setting.at, what, "write 0 or 1, or the key alone for 1"));
                }
                keys.insert(known, Entry { value, origin: setting.at });
            }
        }
        Ok(keys)
    }

    /// The canonical name of a supported key; `None` if the key is ignored.
    fn known(
        &mut self,
        key: &str,
        value: Option<&str>,
        origin: Origin,
    ) -> Result<Option<&'static str>, InputError> {
        if let Some((first, _)) = TAKEN.iter().find(|(first, other)| *first == key || other.contains(&key)) {
            return Ok(Some(first));
        }
        if let Some((_, note)) = NOTED.iter().find(|(names, _)| names.contains(&key)) {
            self.notes.push(format!("fio: `{key}` {note}"));
            return Ok(None);
        }
        if let Some((_, what, help)) = REFUSED.iter().find(|(names, ..)| names.contains(&key)) {
            // Some values have no effect.
            let harmless = match key {
                "iodepth_batch" | "iodepth_batch_submit" => value == Some("1"),
                "iodepth_batch_complete" | "iodepth_batch_complete_min" => matches!(value, Some("0" | "1")),
                "thinktime_blocks_type" => value == Some("issue"),
                "zonemode" => value == Some("none"),
                "write_mode" => value == Some("write"),
                "sync" => matches!(value, Some("0" | "none")),
                "percentage_random" => value == Some("100"),
                "latency_target" => false,
                _ => value == Some("0"),
            };
            if harmless {
                return Ok(None);
            }
            if key == "zonemode" && value == Some("strided") {
                let what = "`zonemode=strided` skips a part of the range after each zone";
                return Err(self.error(origin, what, "leave it out, or use `random_distribution=zoned:...`"));
            }
            return Err(self.error(origin, format!("`{key}` {what}"), *help));
        }
        let names: Vec<&str> = TAKEN.iter().map(|(first, _)| *first).collect();
        let what = format!("`{}` is not supported", excerpt(key));
        Err(self.error(origin, what, format!("leave it out if you can; {}", suggest(key, &names))))
    }

    fn job<'s>(
        &mut self,
        section: &'s Section,
        phases: &mut Vec<(&'s str, u32)>,
        out: &mut Lines,
    ) -> Result<(), InputError> {
        let keys = &section.keys;
        let numjobs = match keys.get("numjobs") {
            Some(entry) => self.whole("numjobs", entry)?.max(1),
            None => 1,
        };
        if let Some(entry) = keys.get("read_iolog") {
            return self.replay(section, entry, numjobs, phases, out);
        }
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
        self.times(keys, numjobs, out)?;
        self.phase(section, phases, out)?;
        self.verify(keys, out);
        self.host_side(keys)
    }

    /// Translates delays, pauses, flushes and rates.
    fn times(&mut self, keys: &Keys, numjobs: u64, out: &mut Lines) -> Result<(), InputError> {
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
        let is_set = |key: &&str| keys.get(*key).is_some_and(|entry| entry.value != "0");
        let mut flushes = ["fsync", "fdatasync"].into_iter().filter(is_set);
        if let Some((key, entry)) = flushes.next().and_then(|key| Some((key, keys.get(key)?))) {
            if flushes.next().is_some() {
                let what = "`fsync` and `fdatasync` are both a Flush here";
                return Err(self.error(entry.origin, what, "leave one of the two out"));
            }
            out.push(format!("fsync = {}", self.whole(key, entry)?), entry.origin);
        }
        Ok(())
    }

    /// A job that replays a log, which replaces the keys about I/Os.
    fn replay<'s>(
        &mut self,
        section: &'s Section,
        log: &Entry,
        numjobs: u64,
        phases: &mut Vec<(&'s str, u32)>,
        out: &mut Lines,
    ) -> Result<(), InputError> {
        let keys = &section.keys;
        if numjobs > 1 {
            let what = "each worker would replay the whole log, which is not modelled";
            let at = keys.get("numjobs").map_or(section.origin, |entry| entry.origin);
            return Err(self.error(at, what, "leave `numjobs` out, or write a section for each"));
        }
        if log.value.replace("\\:", "").contains(':') {
            return Err(self.error(log.origin, "several logs", "name one log in each section"));
        }
        let unused = |key: &&&str| keys.contains_key(**key);
        for key in
            ["rw", "bs", "bsrange", "bssplit", "size", "filesize", "io_size", "offset"].iter().filter(unused)
        {
            self.notes.push(format!("fio: `{key}` has no meaning with `read_iolog` and was ignored"));
        }
        let depth = keys.get("iodepth").map(|entry| Ok((self.whole("iodepth", entry)?, entry.origin)));
        let (depth, at) = depth.transpose()?.unwrap_or((1, section.origin));
        out.push(format!("iodepth = {depth}"), at);
        if let Some(entry) = keys.get("number_ios") {
            out.push(format!("count = {}", self.whole("number_ios", entry)?), entry.origin);
        }
        if let Some(entry) = keys.get("runtime") {
            out.push(format!("runtime = \"{}\"", self.time("runtime", entry, SECOND)?), entry.origin);
        }
        if let Some(entry) = keys.get("time_based").filter(|entry| entry.value != "0") {
            let what = "`time_based` would replay the log until the time is over";
            return Err(self.error(entry.origin, what, "write `loops`, how often it is replayed"));
        }
        self.times(keys, numjobs, out)?;
        self.phase(section, phases, out)?;
        self.verify(keys, out);
        self.host_side(keys)?;
        out.push("[job.trace]".to_owned(), log.origin);
        out.push(format!("file = {}", quoted(&log.value)), log.origin);
        // Each file of a log has a part of the drive.
        out.push("device = \"spread\"".to_owned(), log.origin);
        let no_stall = keys.get("replay_no_stall").filter(|entry| entry.value != "0");
        let (mode, at) = no_stall.map_or(("open", log.origin), |entry| ("closed", entry.origin));
        out.push(format!("mode = \"{mode}\""), at);
        if let Some(entry) = keys.get("replay_time_scale") {
            let percent = self.whole("replay_time_scale", entry)?.clamp(1, 1 << 32);
            out.push(format!("time_scale = {:?}", 100.0 / percent as f64), entry.origin);
        }
        if let Some(entry) = keys.get("loops") {
            out.push(format!("repeat = {}", self.whole("loops", entry)?.max(1)), entry.origin);
        }
        Ok(())
    }

    /// The phase of the job: that of the job before it, or the next one. `phases` are those of the earlier
    /// jobs.
    fn phase<'s>(
        &mut self,
        section: &'s Section,
        phases: &mut Vec<(&'s str, u32)>,
        out: &mut Lines,
    ) -> Result<(), InputError> {
        let current = phases.last().map_or(0, |(_, phase)| *phase);
        let mut wall = section.keys.get("stonewall").filter(|entry| entry.value != "0" && !phases.is_empty());
        if let Some(entry) = section.keys.get("wait_for") {
            let awaited = phases.iter().find(|(name, _)| *name == entry.value);
            let Some((_, awaited)) = awaited else {
                let what = format!("`{}` is not a job before this one", excerpt(&entry.value));
                return Err(self.error(entry.origin, what, "name a section that stands before it"));
            };
            // A phase ends as a whole; waiting for one job is equivalent only if it is alone in its phase.
            let alone = phases.iter().filter(|(_, phase)| phase == awaited).count() == 1;
            match current - awaited {
                0 if alone => wall = wall.or(Some(entry)),
                1 if alone => {}
                _ => {
                    let what =
                        "the job would wait for one of several jobs that run together, which is not modelled";
                    return Err(self.error(
                        entry.origin,
                        what,
                        "use `stonewall`, which waits for all before",
                    ));
                }
            }
        }
        if let Some(entry) = wall {
            out.push("stonewall = true".to_owned(), entry.origin);
        }
        phases.push((&section.name, current + u32::from(wall.is_some())));
        Ok(())
    }

    fn rw(&self, section: &Section, out: &mut Lines) -> Result<String, InputError> {
        let Some(entry) = section.keys.get("rw") else {
            // fio's default.
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

    fn sizes(&mut self, keys: &Keys, out: &mut Lines) -> Result<(), InputError> {
        let in_sectors = Cell::new(self.in_sectors);
        let size = |entry: &Entry, text: &str| match text.trim() {
            "" => Ok(String::new()),
            text => self.bytes(entry, text).map(|bytes| {
                in_sectors.set(in_sectors.get() || is_in_sectors(bytes));
                bytes.to_string()
            }),
        };
        // As in fio, the most specific key wins.
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
        self.in_sectors = in_sectors.get();
        Ok(())
    }

    /// Translates the order and distribution of addresses.
    fn order(&mut self, section: &Section, rw: &str, out: &mut Lines) -> Result<(), InputError> {
        let keys = &section.keys;
        let is_random = rw.starts_with("rand");
        if let Some(entry) = keys.get("random_distribution").filter(|_| is_random) {
            let value = self.distribution(entry)?;
            out.push(format!("random_distribution = {}", quoted(&value)), entry.origin);
        }
        if let Some(entry) = keys.get("blockalign").filter(|_| is_random) {
            let bytes = self.bytes(entry, &entry.value)?;
            self.in_sectors |= is_in_sectors(bytes);
            out.push(format!("blockalign = \"{bytes}\""), entry.origin);
        }
        let uniform = keys.get("random_distribution").is_none_or(|entry| entry.value == "random");
        let no_map = keys.get("norandommap").is_some_and(|entry| entry.value != "0");
        if !is_random || !uniform || no_map {
            return Ok(());
        }
        let one_size = !keys.contains_key("bssplit")
            && !keys.contains_key("bsrange")
            && !keys.contains_key("blockalign")
            && keys.get("bs").is_none_or(|entry| !entry.value.contains(','));
        if one_size {
            // fio's default: it tracks the blocks accessed.
            out.push("norandommap = false".to_owned(), section.origin);
        } else {
            self.notes.push(format!(
                "fio: job `{}` would touch each block once; here, with several block sizes or `blockalign`, addresses are drawn anew each time",
                section.name
            ));
        }
        Ok(())
    }

    /// A distribution with sizes in Byteway's notation.
    fn distribution(&self, entry: &Entry) -> Result<String, InputError> {
        let Some(zones) = entry.value.strip_prefix("zoned_abs:") else { return Ok(entry.value.clone()) };
        let zones = zones.split(':').map(|zone| match zone.split_once('/') {
            Some((share, size)) if !size.trim().is_empty() => {
                Ok(format!("{share}/{}", self.bytes(entry, size)?))
            }
            _ => Ok(zone.to_owned()),
        });
        Ok(format!("zoned_abs:{}", zones.collect::<Result<Vec<_>, InputError>>()?.join(":")))
    }

    /// Translates the range and the amount of I/O.
    fn range(&mut self, section: &Section, numjobs: u64, out: &mut Lines) -> Result<(), InputError> {
        let keys = &section.keys;
        if let Some(entry) = keys.get("offset") {
            out.push(format!("offset = \"{}\"", self.portion(entry)?), entry.origin);
        }
        match keys.get("offset_increment") {
            Some(entry) => {
                let bytes = self.bytes(entry, &entry.value)?;
                out.push(format!("offset_increment = \"{bytes}\""), entry.origin);
            }
            // In fio, each worker covers the whole range.
            None if numjobs > 1 => out.push("offset_increment = \"0 B\"".to_owned(), section.origin),
            None => {}
        }
        let (size, filesize) = (keys.get("size"), keys.get("filesize"));
        if let Some(entry) = filesize.filter(|entry| entry.value.contains(['-', ':', ','])) {
            let what = "files of random sizes are not modelled";
            return Err(self.error(entry.origin, what, "give one size, such as filesize=1g"));
        }
        let whole = keys.get("fill_device").filter(|entry| entry.value != "0");
        // `filesize` is the range of the job, and `size` its amount of I/O.
        let range = filesize.or(size);
        if let Some(entry) = range {
            out.push(format!("size = \"{}\"", self.portion(entry)?), entry.origin);
        }
        let mut time_based = keys.get("time_based").is_some_and(|entry| entry.value != "0");
        if let Some(entry) = keys.get("runtime") {
            out.push(format!("runtime = \"{}\"", self.time("runtime", entry, SECOND)?), entry.origin);
        } else if time_based {
            self.notes.push("fio: `time_based` without a `runtime` has no effect".to_owned());
            time_based = false;
        }
        let bounded = ["runtime", "number_ios", "io_size"].iter().any(|key| keys.contains_key(*key));
        if range.is_none() && !bounded {
            // fio's behaviour on a device.
            out.push("size = \"100 %\"".to_owned(), whole.map_or(section.origin, |entry| entry.origin));
            if whole.is_none() {
                self.notes.push(format!(
                    "fio: job `{}` has no `size` and goes over the whole drive once",
                    section.name
                ));
            }
        }
        let loops =
            keys.get("loops").map(|entry| self.whole("loops", entry)).transpose()?.unwrap_or(1).max(1);
        if time_based {
            return Ok(());
        }
        let several = |count: u64| count.saturating_mul(numjobs).saturating_mul(loops).min(i64::MAX as u64);
        if let Some(entry) = keys.get("number_ios") {
            let count = several(self.whole("number_ios", entry)?);
            out.push(format!("count = {count}"), entry.origin);
        }
        let ends = keys.contains_key("runtime") || keys.contains_key("number_ios");
        let apart = size.is_some() && filesize.is_some();
        let io_size = keys.get("io_size").or_else(|| size.or(range).filter(|_| ends || apart || loops > 1));
        if let Some(entry) = io_size {
            let bytes = Bytes(several(self.bytes(entry, &entry.value)?.0));
            out.push(format!("io_size = \"{bytes}\""), entry.origin);
        } else if let Some(entry) = keys.get("loops").filter(|_| loops > 1 && !ends) {
            let what = "`loops` needs to know how much is done once";
            return Err(self.error(entry.origin, what, "give a `size` in bytes"));
        }
        Ok(())
    }

    /// A size, or a percentage of the drive.
    fn portion(&mut self, entry: &Entry) -> Result<Portion, InputError> {
        if let Ok(percent) = entry.value.parse::<Percent>() {
            return Ok(Portion::Part(percent));
        }
        let bytes = self.bytes(entry, &entry.value)?;
        self.in_sectors |= is_in_sectors(bytes);
        Ok(Portion::Bytes(bytes))
    }

    fn rates(&mut self, keys: &Keys, numjobs: u64, out: &mut Lines) -> Result<(), InputError> {
        let given = |key: &str, value: &str| keys.get(key).filter(|entry| entry.value == value);
        let poisson = given("rate_process", "poisson");
        if let Some(entry) = given("io_submit_mode", "offload") {
            // With a separate submission thread, I/Os are issued at the given rate regardless of completions:
            // an open loop.
            if keys.contains_key("rate_iops") {
                out.push("issue = \"open\"".to_owned(), entry.origin);
                let (arrival, at) = poisson.map_or(("fixed", entry), |entry| ("poisson", entry));
                out.push(format!("arrival = \"{arrival}\""), at.origin);
            } else {
                self.notes
                    .push("fio: `io_submit_mode=offload` without `rate_iops` has no effect here".to_owned());
            }
        } else if let Some(entry) = poisson {
            let what = "`rate_process=poisson` without `io_submit_mode=offload` is not modelled";
            return Err(self.error(entry.origin, what, "add `io_submit_mode=offload`: an open loop"));
        }
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

    /// Translates verification. Every read is verified here, whatever fio's method; fio's additional
    /// verification reads are not modelled.
    fn verify(&mut self, keys: &Keys, out: &mut Lines) {
        let Some(entry) = keys.get("verify").filter(|entry| entry.value != "0") else { return };
        out.push("verify = true".to_owned(), entry.origin);
        self.notes.push(format!(
            "fio: `verify={}`: contents are always verified, every block that is read; fio's reading back of what was \
             written is not added (a job with `stonewall` and `rw=read` does it)",
            excerpt(&entry.value)
        ));
    }

    /// Translates keys about fio's access to the drive.
    fn host_side(&mut self, keys: &Keys) -> Result<(), InputError> {
        let is = |key: &str, value: &str| keys.get(key).is_some_and(|entry| entry.value == value);
        if let Some(entry) = keys.get("cmd_type").filter(|entry| entry.value != "nvme") {
            let what = format!("`cmd_type={}` sends commands that are not NVMe's", excerpt(&entry.value));
            return Err(self.error(entry.origin, what, "leave the job out, or write `cmd_type=nvme`"));
        }
        if is("direct", "0") || is("buffered", "1") {
            let key = if is("direct", "0") { "direct=0" } else { "buffered=1" };
            self.notes
                .push(format!("fio: `{key}`: there is no page cache here, and every I/O reaches the drive"));
        }
        if let Some(entry) = keys.get("nrfiles").filter(|entry| entry.value != "1") {
            let help = "leave it out: a job drives one range of a drive";
            return Err(self.error(entry.origin, "a job has no files", help));
        }
        if keys.contains_key("ioengine") {
            self.ignored.insert("ioengine".to_owned());
        }
        // fio's default on Linux.
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

    /// Checks that all jobs use the same drive.
    fn one_drive(&mut self, sections: &[Section]) -> Result<(), InputError> {
        let mut names: BTreeSet<&str> = BTreeSet::new();
        for entry in sections.iter().filter_map(|section| section.keys.get("filename")) {
            self.ignored.insert("filename".to_owned());
            let name = entry.value.as_str();
            if name.replace("\\:", "").contains(':') {
                let help =
                    "name one, or leave it out: a scenario has one drive, which `offset` and `size` divide";
                return Err(self.error(entry.origin, "a job over several files or drives", help));
            }
            names.insert(name);
        }
        if names.len() > 1 {
            self.notes.push(format!(
                "fio: the jobs name {} files or drives; here all share one drive, from its beginning: `offset` parts it",
                names.len()
            ));
        }
        Ok(())
    }

    /// Adds notes for the reader of the result.
    fn say(&mut self, sections: &[Section]) {
        for section in sections {
            for (key, said) in [("direct", "0"), ("buffered", "1"), ("nrfiles", "")] {
                // Keys that imply a page cache have their own note.
                if section.keys.get(key).is_some_and(|entry| entry.value != said) {
                    self.ignored.insert(key.to_owned());
                }
            }
        }
        for name in self.defines.keys().filter(|name| !self.used.contains(*name)) {
            self.notes.push(format!("--define {name}: the job file has no `${{{name}}}`"));
        }
        if self.in_sectors {
            self.notes.push(
                "fio: sizes that are multiples of 512 B only need the drive formatted so: drive.lba_size = \"512 B\"".to_owned(),
            );
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

    fn kb_base_of(&self, section: &Section) -> Result<u64, InputError> {
        match section.keys.get("kb_base").map(|entry| (entry, entry.value.as_str())) {
            None | Some((_, "1024")) => Ok(KB_BASE),
            Some((_, "1000")) => Ok(1000),
            Some((entry, other)) => {
                let what = format!("`kb_base`: `{}` is neither 1024 nor 1000", excerpt(other));
                Err(self.error(entry.origin, what, "write 1024, fio's default, or 1000"))
            }
        }
    }

    /// A whole number, possibly with a unit: `1k` is 1024.
    fn whole(&self, key: &str, entry: &Entry) -> Result<u64, InputError> {
        fio_number(&entry.value, self.kb_base).map_err(|_| {
            let what = format!("`{key}`: `{}` is not a whole number", excerpt(&entry.value));
            self.error(entry.origin, what, format!("write a number, such as {key}=8"))
        })
    }

    /// A size in fio's notation.
    fn bytes(&self, entry: &Entry, text: &str) -> Result<Bytes, InputError> {
        let text = text.trim();
        if text.ends_with('%') {
            let what = format!("`{}`: only `size` and `offset` can be parts of the drive", excerpt(text));
            let help = "write bytes, or a number with k, m, g or t, such as 4k (4096)";
            return Err(self.error(entry.origin, what, help));
        }
        let bytes = fio_number(text, self.kb_base);
        bytes.map(Bytes).map_err(|error| self.error(entry.origin, error.what, error.help))
    }

    /// A time; without a unit, in `unit_ps`.
    fn time(&self, key: &str, entry: &Entry, unit_ps: u64) -> Result<Picos, InputError> {
        let wrong = |what: String| {
            let help = format!("write a number with us, ms, s, m, h or d, such as {key}=10s");
            self.error(entry.origin, what, help)
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

/// Whether a size fits blocks of 512 B, but not of 4 KiB.
fn is_in_sectors(bytes: Bytes) -> bool {
    bytes.0.is_multiple_of(512) && !bytes.0.is_multiple_of(4096)
}

/// A line without its comment.
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
    /// The location in the file `name`, where `line` is the text of the line.
    pub(crate) fn place(self, name: &str, line: &str) -> SourceLocation {
        let shown = line.trim_end().replace('\t', " ");
        let worth_showing = shown.chars().count() <= 120 && !shown.chars().any(char::is_control);
        SourceLocation {
            source: name.to_owned(),
            position: Some((self.line, self.column)),
            excerpt: worth_showing.then_some((shown, self.width)),
        }
    }
}
