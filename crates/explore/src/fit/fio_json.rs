//! Measurements from fio's JSON output (`--output-format=json`, fio 3.x).
//!
//! What fio prints before and after the JSON is skipped: warnings, and the text of `normal,json`. A job is a
//! point: its mean latency and percentiles if one I/O was outstanding or the rate was limited, else its I/Os per
//! second. A job that is no point is left out with a note; a figure that is wrong is an error.

use serde_json::Value;

use super::measurement::{Figure, Load, Measurements, Point, Sample, State, kind_name};
use byteway_text::error::{InputError, SourceLocation};
use byteway_text::units::{excerpt, fio_number};
use byteway_workload::{Kind, Rw};

/// Jobs of a file, at most.
const JOBS_MAX: usize = 1024;

/// Outstanding I/Os of a point, at most: more take minutes to simulate.
const OUTSTANDING_MAX: u64 = 65_536;

/// Jobs whose names begin so set the drive up for others.
pub(super) const PREPARES: &str = "prepare-";

/// Engines that have one I/O outstanding whatever `iodepth` says.
const SYNCHRONOUS: [&str; 6] = ["sync", "psync", "vsync", "pvsync", "pvsync2", "mmap"];

/// Reads measurements from the text of the file `name`.
///
/// # Errors
/// There is no JSON of fio in it, or a figure is missing or impossible; with its place.
pub fn read_fio(name: &str, text: &str) -> Result<Measurements, InputError> {
    let file = File { name };
    let root = file.parse(text)?;
    let jobs = match root.get("jobs") {
        Some(Value::Array(jobs)) if !jobs.is_empty() => jobs,
        Some(Value::Array(_)) => {
            return Err(file.wrong(
                "jobs",
                "there is no job",
                "run fio with a job file of `byteway fit --jobs`",
            ));
        }
        _ => {
            return Err(file.wrong(
                "jobs",
                "the list of jobs is missing",
                "run fio with --output-format=json",
            ));
        }
    };
    if jobs.len() > JOBS_MAX {
        let what = format!("{} jobs are more than {JOBS_MAX}", jobs.len());
        return Err(file.wrong("jobs", &what, "use `group_reporting`, or fewer jobs"));
    }
    let version = root.get("fio version").and_then(Value::as_str).unwrap_or_default();
    let is_simulated = version.starts_with("byteway");
    let mut out = Measurements::default();
    if let Some(rest) = version.strip_prefix("fio-").filter(|rest| !rest.starts_with("3.")) {
        out.notes.push(format!("fio {} wrote it: versions 3 are known here", excerpt(rest)));
    }
    let globals = root.get("global options");
    let mut buffered = Vec::new();
    for (number, job) in jobs.iter().enumerate() {
        let at = format!("jobs[{number}]");
        let reader = Reader { file: &file, at, job, globals };
        let name = reader.name()?;
        if name.starts_with(PREPARES) {
            continue;
        }
        // fio counts groups by `stonewall`: jobs of one group ran at the same time, and neither is a load by itself.
        let group = |job: &Value| job.get("groupid").and_then(Value::as_u64);
        let own = |job: &Value| job.get("jobname").and_then(Value::as_str).unwrap_or_default().to_owned();
        let beside = jobs
            .iter()
            .find(|other| group(job).is_some() && group(other) == group(job) && own(other) != name);
        if let Some(other) = beside {
            let (name, other) = (excerpt(&name), excerpt(&own(other)));
            out.notes.push(format!(
                "job `{name}` is left out: it ran at the same time as `{other}`; write `stonewall` into each job"
            ));
            continue;
        }
        let load = match reader.load(&name)? {
            Ok(load) => load,
            Err(why) => {
                out.notes.push(format!("job `{}` is left out: {why}", excerpt(&name)));
                continue;
            }
        };
        if !is_simulated && reader.option("direct").is_none_or(|direct| direct == "0") {
            buffered.push(name.clone());
        }
        let Some((figures, sample)) = reader.figures(&load)? else {
            out.notes.push(format!(
                "job `{}` is left out: it has no figures: it did no I/O, or fio measured none",
                excerpt(&name)
            ));
            continue;
        };
        // Without `group_reporting` each worker has an entry of its own.
        let is_grouped =
            reader.option("group_reporting").is_some_and(|grouped| grouped != "0") || is_simulated;
        let before =
            out.points.last_mut().filter(|before| !is_grouped && load.numjobs > 1 && before.name == name);
        if let Some(before) = before {
            add(before, &figures, sample);
            continue;
        }
        out.points.push(Point { name, load, figures, source: None, sample, role: None });
    }
    if let [first, ..] = &buffered[..] {
        out.notes.push(format!(
            "{} ran without `direct=1`: the figures may be those of the page cache",
            match buffered.len() {
                1 => format!("job `{}`", excerpt(first)),
                many => format!("{many} jobs, such as `{}`,", excerpt(first)),
            }
        ));
    }
    if out.points.is_empty() {
        let why = out.notes.first().cloned().unwrap_or_else(|| "all of them prepare the drive".to_owned());
        return Err(file.wrong(
            "jobs",
            &format!("no job is a point: {why}"),
            "run the jobs of `byteway fit --jobs`",
        ));
    }
    out.name_apart();
    Ok(out)
}

/// Adds another worker's figures to a point: rates add up, times are averaged over I/Os.
fn add(point: &mut Point, other: &[(Figure, f64)], more: Sample) {
    let (ios, others) = (point.sample.ios.unwrap_or(0), more.ios.unwrap_or(0));
    for ((figure, value), (_, other)) in point.figures.iter_mut().zip(other) {
        *value = match figure.is_time() {
            true => (*value * ios as f64 + other * others as f64) / (ios + others).max(1) as f64,
            false => *value + other,
        };
    }
    point.sample =
        Sample { ios: Some(ios + others), mean_error: point.sample.mean_error.max(more.mean_error) };
}

struct File<'a> {
    name: &'a str,
}

impl File<'_> {
    fn wrong(&self, at: &str, what: &str, help: &str) -> InputError {
        let place = SourceLocation { source: self.name.to_owned(), position: None, excerpt: None };
        InputError::new(format!("`{at}`: {what}"), help).at(place)
    }

    /// The first JSON object with jobs.
    fn parse(&self, text: &str) -> Result<Value, InputError> {
        let help = "run fio with --output-format=json, and name its output";
        let mut trouble = None;
        let (mut at, mut line) = (0, 0);
        let mut until = 0;
        for whole in text.split_inclusive('\n') {
            let begins = whole.trim_start().starts_with('{');
            if begins && at >= until {
                let mut values = serde_json::Deserializer::from_str(&text[at..]).into_iter::<Value>();
                match values.next() {
                    Some(Ok(value)) if value.get("jobs").is_some() => return Ok(value),
                    Some(Ok(_)) => until = at + values.byte_offset(),
                    Some(Err(error)) => {
                        trouble.get_or_insert((line + error.line(), error));
                    }
                    None => {}
                }
            }
            at += whole.len();
            line += 1;
        }
        let place = |position| SourceLocation { source: self.name.to_owned(), position, excerpt: None };
        Err(match trouble {
            Some((line, error)) => {
                let what = error.to_string();
                let what = what.split(" at line ").next().unwrap_or_default();
                let what = format!("the JSON is broken: {what}");
                let help = "run fio again: an interrupted run, or a full disk, leaves half a file";
                InputError::new(what, help).at(place(Some((line, error.column().max(1)))))
            }
            None => InputError::new("there is no JSON of fio in this file", help).at(place(None)),
        })
    }
}

/// Figures, and what they were measured from.
type Counted = (Vec<(Figure, f64)>, Sample);

/// Reads one job.
struct Reader<'a> {
    file: &'a File<'a>,
    at: String,
    job: &'a Value,
    globals: Option<&'a Value>,
}

impl Reader<'_> {
    fn wrong(&self, below: &str, what: &str, help: &str) -> InputError {
        self.file.wrong(&format!("{}.{below}", self.at), what, help)
    }

    fn name(&self) -> Result<String, InputError> {
        let name = self.job.get("jobname").and_then(Value::as_str);
        let help = "run fio with --output-format=json, and name its output unchanged";
        let name = name.ok_or_else(|| self.wrong("jobname", "the name of the job is missing", help))?;
        match name.chars().count() <= 100 && !name.chars().any(char::is_control) && !name.is_empty() {
            true => Ok(name.to_owned()),
            false => Err(self.wrong("jobname", "this is no name", "use 1 to 100 printable characters")),
        }
    }

    /// An option of the job, or of all jobs, as text.
    fn option(&self, key: &str) -> Option<String> {
        let of = |options: &Value| match options.get(key)? {
            Value::String(text) => Some(text.trim().to_owned()),
            Value::Number(number) => Some(number.to_string()),
            Value::Bool(flag) => Some(u8::from(*flag).to_string()),
            _ => None,
        };
        self.job.get("job options").and_then(of).or_else(|| self.globals.and_then(of))
    }

    /// A number as fio reads it, in the base that the job has.
    fn number_of(&self, text: &str) -> Option<u64> {
        let kb_base = if self.option("kb_base").as_deref() == Some("1000") { 1000 } else { 1024 };
        fio_number(text, kb_base).ok()
    }

    fn count(&self, key: &str, default: u32) -> Result<u32, InputError> {
        let Some(text) = self.option(key) else { return Ok(default) };
        match self.number_of(&text).and_then(|count| u32::try_from(count).ok()) {
            Some(count) if count > 0 => Ok(count),
            _ => {
                let what = format!("`{}` is not a number from 1", excerpt(&text));
                Err(self.wrong(&format!("job options.{key}"), &what, "name fio's output unchanged"))
            }
        }
    }

    /// The load, or why the job is no point.
    fn load(&self, name: &str) -> Result<Result<Load, String>, InputError> {
        let help = "name fio's output unchanged";
        let Some(rw) = self.option("rw").or_else(|| self.option("readwrite")) else {
            return Ok(Err("its `rw` is not among the options".to_owned()));
        };
        let known = serde_json::from_value::<Rw>(Value::String(match rw.as_str() {
            "randreadwrite" => "randrw".to_owned(),
            other => other.to_owned(),
        }));
        let Ok(rw) = known else { return Ok(Err(format!("`rw={}` is not modelled", excerpt(&rw)))) };
        if rw.kinds().contains(&Kind::Trim) {
            return Ok(Err("the time of a trim is not fitted".to_owned()));
        }
        if let Some(key) =
            ["bsrange", "bssplit", "rate_process", "thinktime"].iter().find(|key| self.option(key).is_some())
        {
            return Ok(Err(format!("`{key}` makes it more than one load")));
        }
        let is_set =
            |key: &&str| self.option(key).is_some_and(|value| !matches!(value.as_str(), "0" | "none"));
        if let Some(key) = ["fsync", "fdatasync", "sync", "sync_file_range"].iter().find(|key| is_set(key)) {
            return Ok(Err(format!("`{key}` flushes between its writes, which is not fitted")));
        }
        let bs = self.option("bs").or_else(|| self.option("blocksize")).unwrap_or_else(|| "4k".to_owned());
        let mut sizes = bs.split(',').filter(|text| !text.trim().is_empty()).map(|text| self.number_of(text));
        let first = sizes.next().flatten();
        let Some(bytes) = first.filter(|bytes| *bytes > 0) else {
            let what = format!("`{}` is not a size", excerpt(&bs));
            return Err(self.wrong("job options.bs", &what, help));
        };
        if !sizes.all(|size| size == Some(bytes)) {
            return Ok(Err("its I/Os have several sizes".to_owned()));
        }
        if !bytes.is_multiple_of(512) || bytes > 16 << 20 {
            return Ok(Err(format!("I/Os of {bytes} B are not multiples of 512 B up to 16 MiB")));
        }
        let mut iodepth = self.count("iodepth", 1)?;
        let numjobs = self.count("numjobs", 1)?;
        if self.option("ioengine").is_some_and(|engine| SYNCHRONOUS.contains(&engine.as_str())) {
            iodepth = 1;
        }
        if u64::from(iodepth) * u64::from(numjobs) > OUTSTANDING_MAX {
            let most = format!("more than {OUTSTANDING_MAX} outstanding I/Os");
            return Ok(Err(most));
        }
        let mix = match (self.option("rwmixread"), self.option("rwmixwrite")) {
            (Some(text), _) => text.parse::<u8>().ok(),
            (None, Some(text)) => text.parse::<u8>().ok().and_then(|share| 100u8.checked_sub(share)),
            (None, None) => Some(50),
        };
        let Some(rwmixread) = mix.filter(|share| *share <= 100) else {
            return Err(self.wrong("job options.rwmixread", "this is no share from 0 to 100", help));
        };
        let rate = match (self.option("rate"), self.option("rate_iops")) {
            (None, None) => None,
            (rate, ios) => {
                let per_io = if rate.is_some() { 1 } else { bytes };
                let text = rate.or(ios).unwrap_or_default();
                let own = Reader::for_kinds(&text, rw);
                let each = own.and_then(|own| self.number_of(own));
                let all = each.and_then(|each| each.checked_mul(per_io)?.checked_mul(u64::from(numjobs)));
                match all.filter(|rate| *rate > 0) {
                    Some(rate) => Some(rate),
                    // fio takes 0, and an empty place in a list, for no limit.
                    None if each == Some(0) || own == Some("") && text.contains(',') => None,
                    None => return Ok(Err(format!("its rate `{}` is not a single one", excerpt(&text)))),
                }
            }
        };
        let state = State::of_name(name);
        Ok(Ok(Load { rw, bs: bytes, iodepth, numjobs, rwmixread, rate, arrivals: None, state }))
    }

    /// The figures of a load, and its number of I/Os; `None` without I/O.
    fn figures(&self, load: &Load) -> Result<Option<Counted>, InputError> {
        if let Some(code) = self.job.get("error").and_then(Value::as_i64).filter(|code| *code != 0) {
            let what = format!("fio ended this job with error {code}");
            return Err(self.wrong("error", &what, "run it again, or remove it from the jobs"));
        }
        let mut figures = Vec::new();
        let (mut all, mut mean_error) = (0, 0.0f64);
        for kind in load.rw.kinds() {
            let at = kind_name(*kind);
            let Some(side) = self.job.get(at) else {
                let what = format!("a job with `{}` has no such figures", load.words());
                return Err(self.wrong(at, &what, "run fio 3.x with --output-format=json"));
            };
            let ios = side.get("total_ios").and_then(Value::as_u64).unwrap_or(0);
            if ios == 0 {
                continue;
            }
            all += ios;
            if load.outstanding() > 1 && load.rate.is_none() {
                figures.push((Figure::Iops(*kind), self.number(side, at, &["iops"])?));
                continue;
            }
            // `disable_lat` and `gtod_reduce` leave zeros: what was not measured is not there.
            let is_off = |key: &str| {
                let mean = side.get(key).and_then(|lat| lat.get("mean"));
                mean.and_then(Value::as_f64).is_some_and(|mean| mean == 0.0)
            };
            let mean = match (is_off("lat_ns"), is_off("clat_ns") || side.get("clat_ns").is_none()) {
                (false, _) => self.number(side, at, &["lat_ns", "mean"])?,
                (true, false) => {
                    let before = self.number(side, at, &["slat_ns", "mean"]).unwrap_or(0.0);
                    self.number(side, at, &["clat_ns", "mean"])? + before
                }
                (true, true) if load.rate.is_none() => {
                    figures.push((Figure::Iops(*kind), self.number(side, at, &["iops"])?));
                    continue;
                }
                (true, true) => continue,
            };
            figures.push((Figure::Mean(*kind), mean));
            let deviation = side.get("lat_ns").and_then(|lat| lat.get("stddev")).and_then(Value::as_f64);
            let deviation =
                deviation.filter(|deviation| deviation.is_finite() && *deviation >= 0.0).unwrap_or(0.0);
            mean_error = mean_error.max(deviation / mean / (ios as f64).sqrt());
            // Of whole latencies if `lat_percentiles=1`; else of what follows the submission.
            let whole = side.get("lat_ns").and_then(|lat| lat.get("percentile"));
            let later = side.get("clat_ns").and_then(|lat| lat.get("percentile"));
            let (list, more, key) = match (whole, later) {
                (Some(list), _) => (list, 0.0, "lat_ns"),
                (None, Some(list)) => {
                    (list, self.number(side, at, &["slat_ns", "mean"]).unwrap_or(0.0), "clat_ns")
                }
                (None, None) => continue,
            };
            let Some(list) = list.as_object().filter(|_| load.outstanding() == 1) else { continue };
            for share in list.keys() {
                let number: Option<f64> = share.parse().ok().filter(|share| (0.0..=100.0).contains(share));
                let Some(number) = number else {
                    let what = format!("`{}` is not a percentile", excerpt(share));
                    return Err(self.wrong(
                        &format!("{at}.{key}.percentile"),
                        &what,
                        "name fio's output unchanged",
                    ));
                };
                if list[share].as_f64() == Some(0.0) {
                    continue;
                }
                let value = self.number(side, at, &[key, "percentile", share])?;
                figures.push((Figure::Percentile(*kind, number), value + more));
            }
        }
        Ok((!figures.is_empty()).then_some((figures, Sample { ios: Some(all), mean_error })))
    }

    /// The part of `text`, one of fio's lists for reads, writes and trims, that holds for these I/Os: a single value
    /// holds for all, and what is left out for none. `None`: they have different ones.
    fn for_kinds(text: &str, rw: Rw) -> Option<&str> {
        let parts: Vec<&str> = text.split(',').map(str::trim).collect();
        let of = |kind: &Kind| match (&parts[..], kind) {
            ([only], _) => only,
            (parts, Kind::Read) => parts[0],
            (parts, Kind::Write) => parts[1],
            (parts, Kind::Trim) => parts.get(2).copied().unwrap_or_default(),
        };
        let mut each = rw.kinds().iter().map(of);
        let first = each.next()?;
        each.all(|other| other == first).then_some(first)
    }

    /// A figure that must be above 0.
    fn number(&self, side: &Value, at: &str, path: &[&str]) -> Result<f64, InputError> {
        let found = path.iter().try_fold(side, |value, key| value.get(key));
        let below = || format!("{at}.{}", path.join("."));
        let Some(found) = found else {
            let help = "run fio 3.x with --output-format=json, without disabling its latencies";
            return Err(self.wrong(&below(), "the figure is missing", help));
        };
        match found.as_f64() {
            Some(number) if number.is_finite() && number > 0.0 && number < 1e15 => Ok(number),
            _ => {
                let what = format!("`{}` is no figure above 0", excerpt(&found.to_string()));
                Err(self.wrong(&below(), &what, "run the job again, longer, or remove it from the file"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What fio 3.33 wrote about four jobs on a file; statistics of the process and of bandwidth samples are left out.
    const REAL: &str = include_str!("fio-3.33.json");

    // fio prints warnings before the JSON, and what a terminal adds after it: a reader that wants JSON alone refuses real files.
    #[test]
    fn what_fio_writes_is_read() {
        let found = read_fio("results.json", REAL).unwrap();
        let names: Vec<&str> = found.points.iter().map(|point| point.name.as_str()).collect();
        assert_eq!(names, ["unwritten-randread-4k-qd1", "randread-4k-qd8", "write-paced", "mix"]);
        let [alone, deep, paced, mix] = &found.points[..] else { panic!("four points") };
        assert_eq!(alone.load.state, State::Unwritten);
        assert_eq!(alone.figures[0], (Figure::Mean(Kind::Read), 69_093.093_575));
        // 24,192 ns after a submission of 12,948 ns.
        let median = (Figure::Percentile(Kind::Read, 50.0), 24_192.0 + 12_948.338_671);
        assert!(alone.figures.contains(&median), "{:?}", alone.figures);
        assert_eq!((deep.load.outstanding(), deep.figures.len()), (16, 1));
        assert_eq!(deep.figures[0], (Figure::Iops(Kind::Read), 38_319.721_116));
        assert_eq!((paced.load.rate, paced.figures[0].0), (Some(2 << 20), Figure::Mean(Kind::Write)));
        assert_eq!((mix.load.rwmixread, mix.figures.len()), (70, 2));
        let around = format!("fio: a warning\n{{ not this\n{REAL}\nand more\n");
        assert_eq!(read_fio("results.json", &around).unwrap(), found);
    }

    // Whatever is wrong has to be said with its place and what helps, not by a panic or a fit to nonsense.
    #[test]
    fn hostile_files_are_refused_with_place_and_cure() {
        let job = |options: &str, read: &str| {
            format!(
                "{{\"fio version\":\"fio-3.33\",\"jobs\":[{{\"jobname\":\"a\",\"job options\":{{\"direct\":\"1\",{options}}},\"read\":{{{read}}}}}]}}"
            )
        };
        let rand = "\"rw\":\"randread\"";
        let good = "\"total_ios\":5,\"iops\":7.5,\"lat_ns\":{\"mean\":9.5}";
        assert_eq!(read_fio("f", &job(rand, good)).unwrap().points.len(), 1);
        let deep = "{\"a\":".repeat(100_000);
        let long = format!("{{\"jobs\":[{}]}}", vec!["{}"; JOBS_MAX + 1].join(","));
        for (text, said) in [
            (String::new(), "no JSON of fio"),
            ("\u{0}\u{1}garbage".to_owned(), "no JSON of fio"),
            ("[1, 2]".to_owned(), "no JSON of fio"),
            ("{\"a\": 1}".to_owned(), "no JSON of fio"),
            (REAL[..REAL.len() / 2].to_owned(), "the JSON is broken"),
            (deep, "the JSON is broken"),
            ("{\"jobs\": 3}".to_owned(), "`jobs`: the list of jobs is missing"),
            ("{\"jobs\": []}".to_owned(), "`jobs`: there is no job"),
            (long, "more than 1024"),
            ("{\"jobs\": [3]}".to_owned(), "`jobs[0].jobname`"),
            ("{\"jobs\": [{\"jobname\":\"\\u0007\"}]}".to_owned(), "this is no name"),
            ("{\"jobs\": [{\"jobname\":\"a\"}]}".to_owned(), "its `rw` is not among"),
            (job("\"rw\":\"wiggle\"", good), "`rw=wiggle` is not modelled"),
            (
                job("\"rw\":\"randread\",\"bs\":\"-4k\"", good),
                "`jobs[0].job options.bs`: `-4k` is not a size",
            ),
            (job("\"rw\":\"randread\",\"bs\":\"99999999999t\"", good), "is not a size"),
            (job("\"rw\":\"randread\",\"bs\":\"513\"", good), "not multiples of 512 B"),
            (job("\"rw\":\"randread\",\"iodepth\":\"0\"", good), "not a number from 1"),
            (job("\"rw\":\"randread\",\"iodepth\":\"4294967295\"", good), "more than 65536 outstanding"),
            (job("\"rw\":\"randrw\",\"rwmixread\":\"101\"", good), "no share from 0 to 100"),
            (job("\"rw\":\"randwrite\"", good), "`jobs[0].write`"),
            (job(rand, ""), "it did no I/O"),
            (job(rand, "\"total_ios\":5,\"lat_ns\":{}"), "`jobs[0].read.lat_ns.mean`: the figure is missing"),
            (job(rand, "\"total_ios\":5,\"lat_ns\":{\"mean\":-1}"), "no figure above 0"),
            (job(rand, "\"total_ios\":5,\"lat_ns\":{\"mean\":1e300}"), "no figure above 0"),
            (job(rand, "\"total_ios\":5,\"lat_ns\":{\"mean\":\"x\"}"), "no figure above 0"),
            (
                job(rand, "\"total_ios\":5,\"lat_ns\":{\"mean\":5,\"percentile\":{\"nan\":5}}"),
                "not a percentile",
            ),
            (
                "{\"jobs\":[{\"jobname\":\"a\",\"error\":5,\"job options\":{\"rw\":\"read\"}}]}".to_owned(),
                "with error 5",
            ),
        ] {
            let shown = &text[..text.len().min(120)];
            let error = read_fio("f.json", &text).map(|found| format!("{found:?}")).unwrap_err();
            let message = error.to_string();
            assert!(message.contains(said), "{shown}: {message}");
            assert!(message.starts_with("f.json") && message.contains("help: "), "{shown}: {message}");
        }
    }

    // Results of real studies say `4Ki`; and a job that flushes is another load than one that does not.
    #[test]
    fn options_are_read_as_fio_reads_them() {
        let load = |options: &str| {
            let text = format!(
                "{{\"jobs\":[{{\"jobname\":\"a\",\"job options\":{{\"rw\":\"randread\",\"direct\":\"1\",{options}}},\
                 \"read\":{{\"total_ios\":5,\"iops\":7.5,\"lat_ns\":{{\"mean\":9.5}}}}}}]}}"
            );
            read_fio("f", &text).map(|found| found.points[0].load.clone()).map_err(|error| error.to_string())
        };
        for (options, bytes) in [
            ("\"bs\":\"4Ki\"", 4096),
            ("\"bs\":\"4kb\"", 4096),
            ("\"bs\":\"0x1000\"", 4096),
            ("\"bs\":\"1Mi\"", 1 << 20),
            ("\"bs\":\"64KiB\"", 64_000),
            ("\"bs\":\"64KiB\",\"kb_base\":\"1000\"", 65_536),
        ] {
            assert_eq!(load(options).unwrap().bs, bytes, "{options}");
        }
        assert_eq!(load("\"iodepth\":\"1k\"").unwrap().iodepth, 1024);
        assert_eq!(load("\"rate\":\"2Mi\"").unwrap().rate, Some(2 << 20));
        for flush in ["fsync", "fdatasync", "sync", "sync_file_range"] {
            let error = load(&format!("\"{flush}\":\"1\"")).unwrap_err();
            assert!(error.contains(&format!("`{flush}` flushes")), "{error}");
            assert!(load(&format!("\"{flush}\":\"0\"")).is_ok());
        }
    }

    // A job file's jobs run at the same time unless `stonewall` parts them: each would be taken for what the drive does alone.
    #[test]
    fn jobs_that_ran_at_the_same_time_are_no_points() {
        let job = |name: &str, group: u32| {
            format!(
                "{{\"jobname\":\"{name}\",\"groupid\":{group},\"job options\":{{\"rw\":\"randread\",\"direct\":\"1\"}},\
                 \"read\":{{\"total_ios\":5,\"iops\":7.5,\"lat_ns\":{{\"mean\":9.5}}}}}}"
            )
        };
        let read = |jobs: &[String]| read_fio("f", &format!("{{\"jobs\":[{}]}}", jobs.join(",")));
        let found = read(&[job("a", 0), job("b", 1), job("c", 2)]).unwrap();
        assert_eq!((found.points.len(), found.notes.len()), (3, 0));
        let found = read(&[job("a", 0), job("b", 1), job("c", 1)]).unwrap();
        assert_eq!(found.points.len(), 1);
        let said = "job `b` is left out: it ran at the same time as `c`; write `stonewall` into each job";
        assert!(found.notes.iter().any(|note| note == said), "{:?}", found.notes);
        assert!(read(&[job("a", 0), job("b", 0)]).unwrap_err().to_string().contains("stonewall"));
    }

    // What fio was told not to measure is 0 in its results: a latency of 0, or a refusal of all the other jobs.
    #[test]
    fn latencies_that_fio_did_not_measure_are_left_out() {
        let figures = |options: &str, read: &str| {
            let text = format!(
                "{{\"jobs\":[{{\"jobname\":\"a\",\"job options\":{{\"rw\":\"randread\",\"direct\":\"1\"{options}}},\
                 \"read\":{{\"total_ios\":5,\"iops\":7.5,{read}}}}}]}}"
            );
            read_fio("f", &text)
                .map(|found| found.points[0].figures.clone())
                .map_err(|error| error.to_string())
        };
        let off = "{\"min\":0,\"max\":0,\"mean\":0.000000,\"stddev\":0.000000,\"N\":0}";
        let mean = |ns| vec![(Figure::Mean(Kind::Read), ns)];
        let (lat, clat) =
            (format!("\"lat_ns\":{off}"), "\"clat_ns\":{\"mean\":8.0},\"slat_ns\":{\"mean\":1.5}");
        assert_eq!(figures("", &format!("{lat},{clat}")).unwrap(), mean(9.5));
        let all_off = format!("{lat},\"clat_ns\":{off},\"slat_ns\":{off}");
        assert_eq!(figures("", &all_off).unwrap(), [(Figure::Iops(Kind::Read), 7.5)]);
        // At a limited rate the rate says nothing of the drive.
        assert!(figures(",\"rate\":\"20m\"", &all_off).unwrap_err().contains("it did no I/O"));
        // Without percentiles, or with empty ones.
        assert_eq!(figures("", "\"lat_ns\":{\"mean\":9.5},\"clat_ns\":{\"mean\":8.0}").unwrap(), mean(9.5));
        let empty = "\"lat_ns\":{\"mean\":9.5},\"clat_ns\":{\"mean\":8.0,\"percentile\":{\"50.000000\":0}}";
        assert_eq!(figures("", empty).unwrap(), mean(9.5));
    }

    // fio's lists have a value for reads, one for writes and one for trims.
    #[test]
    fn rates_are_those_of_the_jobs_direction() {
        let rate = |rw: &str, rate: &str| {
            let side = "{\"total_ios\":5,\"iops\":7.5,\"lat_ns\":{\"mean\":9.5}}";
            let text = format!(
                "{{\"jobs\":[{{\"jobname\":\"a\",\"job options\":{{\"rw\":\"{rw}\",\"direct\":\"1\",\"rate\":\"{rate}\"}},\
                 \"read\":{side},\"write\":{side}}}]}}"
            );
            read_fio("f", &text).map(|found| found.points[0].load.rate).map_err(|error| error.to_string())
        };
        let mib = 1 << 20;
        for (rw, text, bytes) in [
            ("randread", "20m", Some(20 * mib)),
            ("randread", "20m,", Some(20 * mib)),
            ("randread", "20m,,", Some(20 * mib)),
            ("randwrite", "20m,10Mi", Some(10 * mib)),
            ("randwrite", ",10m", Some(10 * mib)),
            ("randread", ",10m", None),
            ("randwrite", "0", None),
            ("randrw", "5m,5m", Some(5 * mib)),
        ] {
            assert_eq!(rate(rw, text), Ok(bytes), "{rw} {text}");
        }
        assert!(rate("randrw", "5m,6m").unwrap_err().contains("is not a single one"));
        assert!(rate("randread", "x").unwrap_err().contains("is not a single one"));
    }

    // Without `group_reporting` a worker's rate would be taken for that of all.
    #[test]
    fn workers_of_a_job_are_added_up() {
        let worker = |iops: f64| {
            format!(
                "{{\"jobname\":\"a\",\"job options\":{{\"rw\":\"randread\",\"numjobs\":\"2\",\"iodepth\":\"4\",\"direct\":\"1\"}},\
                 \"read\":{{\"total_ios\":10,\"iops\":{iops}}}}}"
            )
        };
        let text = format!("{{\"jobs\":[{},{}]}}", worker(100.0), worker(200.0));
        let found = read_fio("f", &text).unwrap();
        assert_eq!(found.points.len(), 1);
        assert_eq!(found.points[0].figures, [(Figure::Iops(Kind::Read), 300.0)]);
        assert_eq!(found.points[0].sample.ios, Some(20));
        assert_eq!(found.notes, Vec::<String>::new());
    }
}
