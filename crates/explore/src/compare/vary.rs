//! The flag `--vary KEY=VALUES`: the keys of the scenario that it selects, and their values.
//!
//! A key has the notation of `--set`, or a shorter one: `iodepth` is `job.*.iodepth` (of every job), because
//! only jobs have this key; `profile` is ambiguous and refused, because drives and hosts have one. With
//! several drives, `drive.a.capacity` applies to one, and `drive.capacity` to all. A key of the drive's
//! profile may be given directly: `flash.suspend.most` is `drive.override.flash.suspend.most`. Values are
//! separated by commas outside of quotes, brackets and braces. `1..256x2` is 1, 2, 4 and so on up to 256;
//! `0..100+25` is 0, 25 and so on; `1..4` has steps of one. Sizes and times have units: `4 KiB..1 MiB x2`,
//! `10 us..50 us + 10 us`.

use byteway_scenario::profile::KvStore;
use byteway_text::error::{InputError, SourceLocation, nearest};
use byteway_text::units::{Bytes, Picos, excerpt};

/// Runs of a comparison, and values of a key, at most: more are a mistake in a range.
pub const POINTS_MAX: usize = 10_000;

/// A varied key, and its values in order.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// The key in the user's notation.
    pub key: String,
    /// The keys of the scenario that it selects.
    pub paths: Vec<String>,
    /// Values of the key: at least one, all distinct.
    pub values: Vec<Value>,
    /// Scale of its values.
    pub scale: Scale,
}

/// A value of a key.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// In the notation of `--set`.
    pub raw: String,
    /// Without quotes, for display.
    pub label: String,
    /// Position on the key's scale; `None` for [`Scale::Names`].
    pub number: Option<f64>,
}

/// Scale of a key's values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Names, without order.
    Names,
    /// Numbers in this unit, possibly empty. Sizes are in B, times in ns.
    Numbers(String),
}

impl Axis {
    /// Parses one `--vary` for a scenario with these jobs.
    pub fn parse(flag: &str, jobs: impl Into<Jobs>) -> Result<Axis, InputError> {
        let example = "write --vary KEY=VALUE,VALUE, such as --vary iodepth=1..256x2 or --vary drive.profile=samsung-970-pro,mqsim-mlc";
        let refuse = |what: String, help: String| InputError::new(what, help).at(place("--vary", flag));
        let Some((key, list)) = flag.split_once('=') else {
            return Err(refuse("no `=` in it".to_owned(), example.to_owned()));
        };
        let key = key.trim();
        let paths = resolve(key, jobs).map_err(|(what, help)| refuse(what, help))?;
        let mut values: Vec<Value> = Vec::new();
        for item in split(list).map_err(|(what, help)| refuse(what, help))? {
            if item.is_empty() {
                let what = format!("`{}` lacks a value", excerpt(key));
                return Err(refuse(what, example.to_owned()));
            }
            for raw in expand(item).map_err(|(what, help)| refuse(what, help))? {
                let label = unquoted(&raw).to_owned();
                if values.iter().any(|value| value.label == label) {
                    let what = format!("`{}` has the value `{}` twice", excerpt(key), excerpt(&label));
                    return Err(refuse(what, "remove one of them".to_owned()));
                }
                values.push(Value { raw, label, number: None });
                if values.len() > POINTS_MAX {
                    let what = format!("`{}` has more than {POINTS_MAX} values", excerpt(key));
                    let help = "give the range a larger step, or double: 1..256x2";
                    return Err(refuse(what, help.to_owned()));
                }
            }
        }
        let scale = scale_of(&mut values);
        Ok(Axis { key: key.to_owned(), paths, values, scale })
    }

    /// Whether its values are numbers.
    pub fn is_numeric(&self) -> bool {
        self.scale != Scale::Names
    }

    /// Title of its axis in a chart.
    pub fn title(&self) -> String {
        match &self.scale {
            Scale::Numbers(unit) if !unit.is_empty() => format!("{} ({unit})", self.key),
            _ => self.key.clone(),
        }
    }

    /// Whether its values grow by factors rather than by steps, so that a logarithmic axis spaces them
    /// evenly.
    pub fn is_geometric(&self) -> bool {
        let mut numbers: Vec<f64> = self.values.iter().filter_map(|value| value.number).collect();
        numbers.sort_by(f64::total_cmp);
        if !self.is_numeric() || numbers.len() < 3 || numbers[0] <= 0.0 {
            return false;
        }
        let spread = |of: fn(f64, f64) -> f64| {
            let steps = numbers.windows(2).map(|pair| of(pair[0], pair[1]));
            let (least, most) = steps
                .fold((f64::MAX, 0.0), |(least, most): (f64, f64), step| (least.min(step), most.max(step)));
            most / least
        };
        // 1, 2, 4, 8 have equal factors and unequal steps; 10, 20, 30 the opposite.
        spread(|low, high| high / low) < spread(|low, high| high - low)
    }

    /// Index of the value with this label, as in `--baseline`.
    pub fn position(&self, text: &str) -> Option<usize> {
        let wanted = unquoted(text.trim());
        self.values.iter().position(|value| value.label == wanted)
    }
}

/// The location of an error in a flag.
pub(crate) fn place(flag: &str, text: &str) -> SourceLocation {
    SourceLocation { source: format!("{flag} {}", excerpt(text)), position: None, excerpt: None }
}

/// Number of jobs in a scenario, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Jobs {
    /// `[[job]]`.
    pub blocks: usize,
    /// `[[kv]]`.
    pub pairs: usize,
    /// `[[query]]`.
    pub queries: usize,
}

impl Jobs {
    /// The kinds of job sections with their numbers.
    fn sections(self) -> [(&'static str, usize); 3] {
        [("job", self.blocks), ("kv", self.pairs), ("query", self.queries)]
    }
}

impl From<usize> for Jobs {
    fn from(blocks: usize) -> Self {
        Jobs { blocks, ..Jobs::default() }
    }
}

/// A mistake, and its remedy.
type Mistake = (String, String);

/// The keys of the scenario that a key selects.
pub(crate) fn resolve(key: &str, jobs: impl Into<Jobs>) -> Result<Vec<String>, Mistake> {
    let jobs = jobs.into();
    if key.is_empty() || key.split('.').any(|part| part.trim().is_empty()) {
        let help = "write the key before the `=`, such as iodepth, job.0.bs or drive.profile";
        return Err((format!("`{}` is not a key", excerpt(key)), help.to_owned()));
    }
    let schema = byteway_scenario::scenario_schema();
    let keys_of = |definition: &serde_json::Value| -> Vec<String> {
        let properties = definition["properties"].as_object();
        properties.map(|keys| keys.keys().cloned().collect()).unwrap_or_default()
    };
    let first = key.split('.').next().unwrap_or(key);
    // A key-value drive has a store as well as jobs: `kv.packing` is the store's, `kv.0.value` a job's.
    let of_store = || {
        let store = schemars::schema_for!(KvStore).to_value();
        let second = key.split('.').nth(1).unwrap_or_default();
        first == "kv" && keys_of(&store).iter().any(|name| name == second)
    };
    let key = if of_store() {
        format!("drive.override.{key}")
    } else if keys_of(&schema).iter().any(|top| top == first) {
        key.to_owned()
    } else if first != key && PROFILE_SECTIONS.contains(&first) {
        format!("drive.override.{key}")
    } else {
        let mut homes = Vec::new();
        let mut names = Vec::new();
        for (section, definition) in SECTIONS {
            for name in keys_of(&schema["$defs"][definition]) {
                if name == first {
                    homes.push(format!("{section}.{key}"));
                }
                names.push(name);
            }
        }
        // A scenario has jobs of one kind, which resolves the ambiguity.
        if homes.len() > 1 {
            let found = jobs.sections().into_iter().rev().find(|(_, count)| *count > 0);
            let present = found.map_or("job", |(section, _)| section);
            let is_absent = |home: &String| {
                let mut all = jobs.sections().into_iter().filter(|(section, _)| *section != present);
                all.any(|(section, _)| home.starts_with(&format!("{section}.*.")))
            };
            homes.retain(|home| !is_absent(home));
        }
        match homes.len() {
            1 => homes.swap_remove(0),
            0 => {
                let what = format!("no section of the scenario has the key `{}`", excerpt(first));
                let help = match nearest(first, names.iter().map(String::as_str)) {
                    Some(name) => format!("did you mean `{name}`? `byteway schema` lists the keys"),
                    None => {
                        "`byteway schema` lists the keys; those of a drive's profile begin with their section, such as \
                         flash.channels, and those of a host's with host.override."
                            .to_owned()
                    }
                };
                return Err((what, help));
            }
            _ => {
                let list = homes.iter().map(|home| format!("`{home}`")).collect::<Vec<_>>().join(", ");
                return Err((
                    format!("`{}` could be any of {list}", excerpt(key)),
                    "write it out".to_owned(),
                ));
            }
        }
    };
    let of_key = |(section, _): &(&str, usize)| key.starts_with(&format!("{section}."));
    let (section, count) = jobs.sections().into_iter().find(of_key).unwrap_or(("job", jobs.blocks));
    match key.strip_prefix(&format!("{section}.*.")) {
        None if key.contains('*') => {
            let help = "`*` can only stand for a job's number: job.*.iodepth";
            Err((format!("`{}` is not a key", excerpt(&key)), help.to_owned()))
        }
        None => Ok(vec![key]),
        Some(_) if count == 0 => {
            let what = format!("`{}`: the scenario has no job", excerpt(&key));
            Err((what, format!("add `[[{section}]]` to the scenario")))
        }
        Some(rest) => Ok((0..count).map(|job| format!("{section}.{job}.{rest}")).collect()),
    }
}

/// Sections whose keys may omit the section, and their names in the schema.
const SECTIONS: [(&str, &str); 8] = [
    ("drive", "DriveSection"),
    ("host", "HostSection"),
    ("jbof", "JbofSection"),
    ("transfer", "TransferSection"),
    ("job.*", "JobSection"),
    ("kv.*", "KvSection"),
    ("query.*", "QuerySection"),
    ("measure", "MeasureSection"),
];

/// Sections that exist only in a drive's profile: their keys are unambiguous.
const PROFILE_SECTIONS: [&str; 8] = ["link", "cxl", "controller", "firmware", "dram", "flash", "kv", "csd"];

/// Splits at commas outside of quotes, brackets and braces.
pub(super) fn split(list: &str) -> Result<Vec<&str>, Mistake> {
    let mut items = Vec::new();
    let mut closers: Vec<char> = Vec::new();
    let mut start = 0;
    let mut escaped = false;
    for (at, c) in list.char_indices() {
        match closers.last() {
            Some('"') if escaped => escaped = false,
            Some('"') if c == '\\' => escaped = true,
            Some(&quote @ ('"' | '\'')) => {
                if c == quote {
                    closers.pop();
                }
            }
            Some(&closer) if c == closer => {
                closers.pop();
            }
            _ => match c {
                '"' | '\'' => closers.push(c),
                '[' => closers.push(']'),
                '{' => closers.push('}'),
                ',' if closers.is_empty() => {
                    items.push(list[start..at].trim());
                    start = at + 1;
                }
                _ => {}
            },
        }
    }
    if let Some(closer) = closers.last() {
        let what = format!("`{}` lacks a closing `{closer}`", excerpt(list));
        return Err((
            what,
            "close it, and quote the whole for the shell: --vary 'key=[1, 2],[3, 4]'".to_owned(),
        ));
    }
    items.push(list[start..].trim());
    Ok(items)
}

/// Removes enclosing quotes.
fn unquoted(raw: &str) -> &str {
    for quote in ['"', '\''] {
        if let Some(inner) = raw.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote)) {
            return inner;
        }
    }
    raw
}

/// Expands an item of a list: a single value, or a range.
fn expand(item: &str) -> Result<Vec<String>, Mistake> {
    let Some((from, rest)) = item.split_once("..") else { return Ok(vec![item.to_owned()]) };
    // A path such as ../drive.toml, and quoted text, is no range.
    let Some(low) = Amount::parse(from) else { return Ok(vec![item.to_owned()]) };
    let wrong = |what: &str| {
        let help = "write 1..256x2 (doubling), 0..100+25 (in steps), 1..4 (by ones), or 4 KiB..1 MiB x2; text goes in quotes";
        (format!("the range `{}` {what}", excerpt(item)), help.to_owned())
    };
    let (to, step) = match rest.find(['x', '+']) {
        Some(at) => (&rest[..at], Some((rest.as_bytes()[at], &rest[at + 1..]))),
        None => (rest, None),
    };
    let high = Amount::parse(to).ok_or_else(|| wrong("has an end that is not a number"))?;
    if high.kind != low.kind {
        return Err(wrong("starts and ends in different units"));
    }
    if high.value < low.value {
        return Err(wrong("ends before its start"));
    }
    let next: Box<dyn Fn(u64) -> Option<u64>> = match step {
        Some((b'x', factor)) => {
            let factor: u64 = factor
                .trim()
                .parse()
                .ok()
                .filter(|factor| *factor >= 2)
                .ok_or_else(|| wrong("has a factor that is not an integer of at least 2"))?;
            if low.value == 0 {
                return Err(wrong("starts at 0, which no factor changes"));
            }
            Box::new(move |value| value.checked_mul(factor))
        }
        Some((_, step)) => {
            let step = Amount::parse(step).filter(|step| step.kind == low.kind && step.value > 0);
            let step = step.ok_or_else(|| wrong("has a step that is not a positive number in its units"))?;
            Box::new(move |value| value.checked_add(step.value))
        }
        None if low.kind == Kind::Count => Box::new(|value| value.checked_add(MILLIONTHS)),
        None => return Err(wrong("of sizes or times has no step")),
    };
    let mut values = Vec::new();
    let mut at = Some(low.value);
    while let Some(value) = at.filter(|value| *value <= high.value) {
        values.push(low.kind.show(value));
        if values.len() > POINTS_MAX {
            return Err(wrong(&format!("has more than {POINTS_MAX} values")));
        }
        at = next(value);
    }
    Ok(values)
}

/// Unit of numbers without a unit, so that 0.25 is exact.
const MILLIONTHS: u64 = 1_000_000;

/// The end or the step of a range: millionths of a number, bytes, or picoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Amount {
    kind: Kind,
    value: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Count,
    Bytes,
    Time,
}

impl Amount {
    /// Parses a number, a size or a time; `None` for anything else.
    pub fn parse(text: &str) -> Option<Amount> {
        let text = text.trim();
        if let Ok(bytes) = text.parse::<Bytes>() {
            return Some(Amount { kind: Kind::Bytes, value: bytes.0 });
        }
        if let Ok(time) = text.parse::<Picos>() {
            return Some(Amount { kind: Kind::Time, value: time.0 });
        }
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty()
            || !digits(whole)
            || !digits(fraction)
            || fraction.len() > 6
            || text.ends_with('.')
        {
            return None;
        }
        let millionths: u64 = format!("{fraction:0<6}").parse().ok()?;
        let value = whole.parse::<u64>().ok()?.checked_mul(MILLIONTHS)?.checked_add(millionths)?;
        Some(Amount { kind: Kind::Count, value })
    }

    /// Its value in units of its kind.
    pub fn value(self) -> u64 {
        self.value
    }

    /// Least difference between values between this one and `other`: of numbers that are both whole, one.
    pub fn grain(self, other: Amount) -> u64 {
        let is_whole = |one: Amount| one.kind == Kind::Count && one.value.is_multiple_of(MILLIONTHS);
        if is_whole(self) && is_whole(other) { MILLIONTHS } else { 1 }
    }

    /// Another value of the same kind.
    pub fn with(self, value: u64) -> Amount {
        Amount { value, ..self }
    }

    /// Whether both are of one kind.
    pub fn is_like(self, other: Amount) -> bool {
        self.kind == other.kind
    }

    /// As a value of a key.
    pub fn into_value(self) -> Value {
        let raw = self.kind.show(self.value);
        let number = number(&raw).map(|(number, _)| number);
        Value { label: raw.clone(), raw, number }
    }
}

impl Kind {
    fn show(self, value: u64) -> String {
        match self {
            Kind::Count if value.is_multiple_of(MILLIONTHS) => (value / MILLIONTHS).to_string(),
            Kind::Count => {
                let fraction = format!("{:06}", value % MILLIONTHS);
                format!("{}.{}", value / MILLIONTHS, fraction.trim_end_matches('0'))
            }
            Kind::Bytes => Bytes(value).to_string(),
            Kind::Time => Picos(value).to_string(),
        }
    }
}

/// Determines the common scale of all values, and sets their positions.
fn scale_of(values: &mut [Value]) -> Scale {
    let Some(numbers) = values.iter().map(|value| number(&value.label)).collect::<Option<Vec<_>>>() else {
        return Scale::Names;
    };
    let unit = numbers[0].1.clone();
    if numbers.iter().any(|(_, other)| *other != unit) {
        return Scale::Names;
    }
    for (value, (number, _)) in values.iter_mut().zip(numbers) {
        value.number = Some(number);
    }
    Scale::Numbers(unit)
}

/// A number with its unit: sizes in bytes, times in nanoseconds, others unchanged.
fn number(label: &str) -> Option<(f64, String)> {
    if let Ok(bytes) = label.parse::<Bytes>() {
        return Some((bytes.0 as f64, "B".to_owned()));
    }
    if let Ok(time) = label.parse::<Picos>() {
        return Some((time.0 as f64 / 1000.0, "ns".to_owned()));
    }
    let end = label.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '-')).unwrap_or(label.len());
    let number: f64 = label[..end].parse().ok()?;
    let unit = label[end..].trim();
    // fio's notation of sizes.
    let shift = match unit {
        "k" | "K" => 10,
        "m" | "M" => 20,
        "g" | "G" => 30,
        _ => {
            let plain = unit.chars().all(|c| c.is_alphabetic() || c == '/' || c == '%') && unit.len() <= 8;
            return (number.is_finite() && plain).then(|| (number, unit.to_owned()));
        }
    };
    Some((number * (1u64 << shift) as f64, "B".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(flag: &str) -> Vec<String> {
        let axis = Axis::parse(flag, 2).unwrap_or_else(|error| panic!("{error}"));
        axis.values.into_iter().map(|value| value.label).collect()
    }

    // With one value more or less, all following points would be for another load.
    #[test]
    fn lists_and_ranges_give_their_values() {
        assert_eq!(labels("iodepth=1..256x2"), ["1", "2", "4", "8", "16", "32", "64", "128", "256"]);
        assert_eq!(labels("iodepth=1..200x2").last().unwrap(), "128");
        assert_eq!(labels("iodepth=1..10+3"), ["1", "4", "7", "10"]);
        assert_eq!(labels("iodepth=1..3, 8"), ["1", "2", "3", "8"]);
        assert_eq!(labels("bs=512 B..2 KiB x2"), ["512 B", "1 KiB", "2 KiB"]);
        assert_eq!(labels("runtime=1 ms..2 ms+500 us"), ["1 ms", "1.5 ms", "2 ms"]);
        assert_eq!(labels("trace.time_scale=0.5..1+0.25"), ["0.5", "0.75", "1"]);
        assert_eq!(labels("drive.profile=../a.toml,'b,c.toml'"), ["../a.toml", "b,c.toml"]);
        assert_eq!(labels("drive.override.flash.read=[\"1 us\", \"2 us\"],[\"3 us\"]").len(), 2);
        assert_eq!(labels(r#"job.0.name="a\",b","c""#), [r#"a\",b"#, "c"]);
    }

    // Users omit sections; a key taken for another section's would vary something else.
    #[test]
    fn a_short_key_is_found_where_it_is_unambiguous() {
        assert_eq!(resolve("iodepth", 2).unwrap(), ["job.0.iodepth", "job.1.iodepth"]);
        assert_eq!(resolve("job.*.bs", 1).unwrap(), ["job.0.bs"]);
        assert_eq!(resolve("trace.mode", 1).unwrap(), ["job.0.trace.mode"]);
        assert_eq!(resolve("method", 1).unwrap(), ["transfer.method"]);
        assert_eq!(resolve("capacity", 1).unwrap(), ["drive.capacity"]);
        for key in ["seed", "job.greedy.iodepth", "drive.override.link.lanes"] {
            assert_eq!(resolve(key, 2).unwrap(), [key]);
        }
        let of_profile = resolve("flash.suspend.most", 2).unwrap();
        assert_eq!(of_profile, ["drive.override.flash.suspend.most"]);
        assert!(resolve("flash", 2).is_err(), "a section is no key");
        // A drive has a store and jobs under the same name; keys that both kinds of jobs have belong to the
        // kind that exists.
        let pairs = Jobs { pairs: 2, ..Jobs::default() };
        assert_eq!(resolve("kv.packing", pairs).unwrap(), ["drive.override.kv.packing"]);
        assert_eq!(resolve("iodepth", pairs).unwrap(), ["kv.0.iodepth", "kv.1.iodepth"]);
        assert_eq!(resolve("value", pairs).unwrap(), ["kv.0.value", "kv.1.value"]);
        assert_eq!(resolve("kv.1.value", pairs).unwrap(), ["kv.1.value"]);
        let queries = Jobs { queries: 2, ..Jobs::default() };
        assert_eq!(resolve("iodepth", queries).unwrap(), ["query.0.iodepth", "query.1.iodepth"]);
        assert_eq!(resolve("execute", queries).unwrap(), ["query.0.execute", "query.1.execute"]);
        assert_eq!(resolve("csd.task_cycles", queries).unwrap(), ["drive.override.csd.task_cycles"]);
        assert!(resolve("value", 1).unwrap_err().1.contains("[[kv]]"));
        let (what, _) = resolve("profile", 1).unwrap_err();
        assert!(what.contains("`drive.profile`, `host.profile`"), "{what}");
        let (_, help) = resolve("iodept", 1).unwrap_err();
        assert!(help.contains("did you mean `iodepth`?"), "{help}");
        assert!(resolve("iodepth", 0).unwrap_err().0.contains("no job"));
        assert!(resolve("drive.*.x", 1).unwrap_err().1.contains("job.*.iodepth"));
    }

    // The message is all that a user has to find the mistake.
    #[test]
    fn a_wrong_flag_is_refused_with_its_place_and_a_cure() {
        for (flag, words) in [
            ("iodepth", &["--vary iodepth: no `=`", "--vary iodepth=1..256x2"][..]),
            ("=1", &["`` is not a key", "before the `=`"]),
            ("iodepth=", &["lacks a value"]),
            ("iodepth=1,,2", &["`iodepth` lacks a value"]),
            ("iodepth=1,2,1", &["the value `1` twice", "remove one"]),
            ("iodepth=1..x2", &["an end that is not a number", "1..256x2"]),
            ("iodepth=1..8x1", &["factor", "at least 2"]),
            ("iodepth=0..8x2", &["starts at 0"]),
            ("iodepth=8..1", &["ends before its start"]),
            ("iodepth=1..8+0", &["a step"]),
            ("iodepth=1..100000", &["more than 10000 values"]),
            ("bs=4 KiB..8", &["different units"]),
            ("bs=4 KiB..8 KiB", &["no step", "4 KiB..1 MiB x2"]),
            ("job.0.name=\"a", &["lacks a closing `\"`", "quote the whole"]),
        ] {
            let message = Axis::parse(flag, 1).unwrap_err().to_string();
            for word in words {
                assert!(message.contains(word), "{word:?} is missing in: {message}");
            }
        }
    }

    // Treated as names, depths would be in the order of the flag, and have no knee.
    #[test]
    fn numbers_are_told_from_names() {
        let scale = |flag: &str| Axis::parse(flag, 1).unwrap().scale;
        assert_eq!(scale("iodepth=1,2"), Scale::Numbers(String::new()));
        assert_eq!(scale("bs=512 B,4 KiB"), Scale::Numbers("B".to_owned()));
        assert_eq!(scale("bs=4k,64k"), Scale::Numbers("B".to_owned()));
        assert_eq!(scale("host.override.submit=500 ns,1 us"), Scale::Numbers("ns".to_owned()));
        assert_eq!(scale("drive.override.firmware.op=7 %,28 %"), Scale::Numbers("%".to_owned()));
        assert_eq!(scale("transfer.method=prp,sgl"), Scale::Names);
        assert_eq!(scale("measure.warmup=1000,1 ms"), Scale::Names);
        let geometric = |flag: &str| Axis::parse(flag, 1).unwrap().is_geometric();
        assert!(geometric("iodepth=1..256x2") && geometric("bs=512 B,4 KiB,64 KiB"));
        assert!(
            !geometric("iodepth=10..50+10") && !geometric("iodepth=1,2") && !geometric("rwmixread=0,50,100")
        );
    }
}
