//! Trace formats that are not built in: they are read as the built-in ones, named in results, and refused where they are wrong.

use crate::common::{folder, round};
use byteway::{FieldError, Kind, TraceFormat, TraceLine};
use byteway_explore::compare::fingerprint;
use byteway_results::summary::Summary;
use byteway_run::run::{Session, run};
use byteway_scenario::{Options, Scenario, TraceFormats, scenario_schema, scenario_schema_with};
use byteway_text::error::InputError;
use byteway_text::interrupt::Interrupt;
use byteway_text::progress::Progress;
use byteway_trace::archive::Packing;
use byteway_trace::{Format, ReadOptions, Reader, Unit, Writer};
use std::path::Path;

/// `device|R|offset|length|time_us`: Alibaba's lines with bars, in which a line of column names is passed over, and `!` panics.
#[derive(Default)]
struct Bars {
    lines: u64,
}

impl TraceFormat for Bars {
    fn parse(&mut self, line: &str) -> Result<Option<TraceLine>, FieldError> {
        self.lines += 1;
        assert_ne!(line, "!", "line {} is not to be read", self.lines);
        if line.starts_with("device") {
            return Ok(None);
        }
        let mut fields = line.split('|');
        let mut field = |name: &str| fields.next().ok_or_else(|| FieldError::missing(name));
        let number = |name: &str, field: &str| {
            field.parse::<u64>().map_err(|_| FieldError::of(name, field, "is not a whole number"))
        };
        let device = number("device", field("device")?)? as u32;
        let kind = match field("operation")? {
            "R" => Kind::Read,
            "W" => Kind::Write,
            other => return Err(FieldError::of("operation", other, "is neither R nor W")),
        };
        let offset_bytes = number("offset", field("offset")?)?;
        let bytes = number("length", field("length")?)?;
        let time_ns = number("time", field("time")?)? * 1000;
        Ok(Some(TraceLine { time_ns, device, offset_bytes, bytes, kind }))
    }
}

fn formats(version: &str) -> TraceFormats {
    TraceFormats::default().with_format("bars", "Fields between bars.", version, || Box::new(Bars::default()))
}

const LINES: &str =
    "419,W,8192,16384,1577808144360767\n419,R,8192,4096,1577808144360967\n7,R,4096,512,1577808144361767\n";

/// The scenario that replays `lines` from a file in `files`.
fn replay(files: &Path, lines: &[u8], keys: &str, formats: TraceFormats) -> Result<Scenario, InputError> {
    let path = files.join("t.trace");
    std::fs::write(&path, lines).unwrap();
    let trace = format!("[[job]]\n[job.trace]\nfile = '{}'\n{keys}\n", path.display());
    let options = Options { formats, ..Options::default() };
    Scenario::from_text("test.toml", &folder(), &round("", &trace), &options)
}

fn play(scenario: &Scenario) -> Summary {
    let (mut progress, interrupt) = (Progress::hidden(), Interrupt::default());
    run(scenario, Session { progress: &mut progress, interrupt: &interrupt }).unwrap().summary
}

/// What a run is apart from the name of its format.
fn figures(mut summary: Summary) -> Summary {
    summary.policies.clear();
    summary.notes.retain(|note| !note.contains(" taken as "));
    summary
}

// The same records must give the same run, to the last figure, whoever parsed them; and the result says who did.
#[test]
fn an_added_format_is_replayed_as_a_built_in_one() {
    let files = tempfile::tempdir().unwrap();
    let bars = format!(
        "\u{feff}device|op|offset|length|time_us\r\n# from {}",
        LINES.replace(',', "|").replacen("419|", "\n419|", 1)
    );
    let of = |lines: &str, keys: &str| {
        play(&replay(files.path(), lines.as_bytes(), keys, formats("1.2")).unwrap())
    };
    for more in ["", "mode = 'closed'\nrepeat = 3", "device = 419\ntime_scale = 2.0"] {
        let own = of(&bars, &format!("format = 'bars'\n{more}"));
        let built_in = of(LINES, &format!("format = 'alibaba'\n{more}"));
        let [row] = &own.policies[..] else { panic!("{:?}", own.policies) };
        assert_eq!(
            (row.key.as_str(), row.name.as_str(), row.hash.as_str()),
            ("job.trace.format", "bars", "1.2")
        );
        let note = "t.trace taken as `bars` (version 1.2), which is not built in: Fields between bars; ";
        assert!(own.notes.iter().any(|found| found.contains(note)), "{:?}", own.notes);
        assert!(built_in.policies.is_empty());
        assert_eq!(figures(own), figures(built_in), "{more}");
    }
}

// Without line and field the user of a large trace searches for days; a panic is no line to be skipped.
#[test]
fn what_is_no_record_is_said_by_line_and_field() {
    let files = tempfile::tempdir().unwrap();
    let of = |lines: &[u8]| replay(files.path(), lines, "format = 'bars'", formats("1"));
    for (lines, place, says, help) in [
        (
            &b"1|R|0|512|0\n1|R|x|512|5\n"[..],
            ":2:1",
            "the offset `x` is not a whole number",
            "as the format bars has it (Fields between bars)",
        ),
        (b"1|R|0\n", ":1:1", "the length is missing", "--skip-bad-lines"),
        (b"1|R|0|0|0\n", ":1:1", "its length is zero", "--skip-bad-lines"),
        (b"1|R|9223372036854775807|512|0\n", ":1:1", "where addresses end", "--skip-bad-lines"),
        (b"1|R|0|512|0\n1|\xff|0|512|0\n", ":2:1", "it is not UTF-8", "--skip-bad-lines"),
        (b"1|R|0|512|0\n\n!\n", ":3:1", "the format panicked", "correct the format"),
    ] {
        let refused = of(lines).unwrap_err();
        let shown = refused.to_string();
        assert!(shown.contains(&format!("t.trace{place}: ")), "{shown}");
        assert!(refused.what.contains(says) && refused.help.contains(help), "{shown}");
    }
    let read = |lines: &str| {
        let path = files.path().join("t.trace");
        std::fs::write(&path, lines).unwrap();
        let format = formats("1").find("bars").unwrap();
        let options = ReadOptions { skip_bad_lines: true, ..ReadOptions::of(format) };
        let mut reader = Reader::open(&path, &options).unwrap();
        while reader.next_record()?.is_some() {}
        Ok::<_, InputError>(reader.tally().clone())
    };
    let tally = read("1|R|0|512|0\n1|R|x|512|5\n1|R|0|512|9\n").unwrap();
    assert_eq!((tally.records, tally.bad_lines), (2, 1));
    let panicked = read("1|R|0|512|0\n!\n1|R|0|512|9\n").unwrap_err();
    assert!(
        panicked.what.contains("the format panicked: ") && panicked.what.contains("line 2 is not to be read"),
        "{panicked}"
    );
}

// A format that were detected could take another's lines; one whose name is mistyped must not be guessed.
#[test]
fn a_format_is_named_and_not_detected() {
    let files = tempfile::tempdir().unwrap();
    let bars = LINES.replace(',', "|");
    let of = |keys: &str, formats: TraceFormats| replay(files.path(), bars.as_bytes(), keys, formats);
    assert!(of("", formats("1")).unwrap_err().what.contains("cannot tell the format"));
    for added in [formats("1"), TraceFormats::default()] {
        let unknown = of("format = 'barz'", added.clone()).unwrap_err();
        assert!(unknown.what.contains("`job.0.trace.format`: `barz` is not one of the choices"), "{unknown}");
        assert_eq!(unknown.help.contains("did you mean `bars`?"), !added.is_empty(), "{unknown}");
        assert!(
            unknown.help.contains("`auto`") && unknown.help.contains("`msr`") && unknown.place.is_some(),
            "{unknown}"
        );
    }
    let refused = of("format = 'bars'\ncolumns = 'time_us,op,offset,bytes'", formats("1")).unwrap_err();
    assert!(refused.what.contains("`columns` contradicts the format bars"), "{refused}");
    let refused = of("format = 'bars'\nreads_are = 1", formats("1")).unwrap_err();
    assert!(refused.what.contains("the format bars names its operations"), "{refused}");
    let number = of("format = 3", formats("1")).unwrap_err();
    assert!(number.what.contains("integer `3` does not fit here"), "{number}");
    assert_eq!(formats("1").find("MSR"), Some(Format::Msr));
    let own = formats("1").find("BARS").unwrap();
    let refused = Writer::new(Vec::new(), own, Packing::Plain, false).map(drop).unwrap_err();
    assert_eq!(refused.to_string(), "the format bars is only read");
    let in_sectors = ReadOptions { unit: Some(Unit::Sectors), ..ReadOptions::of(own) };
    let mut reader = Reader::open(&files.path().join("t.trace"), &in_sectors).unwrap();
    assert_eq!(reader.next_record().unwrap().unwrap().offset_bytes, 8192 * 512);
}

#[test]
#[should_panic(expected = "`msr` is the name of another format")]
fn a_built_in_format_is_not_replaced() {
    let _ = TraceFormats::default().with_format("msr", "", "1", || Box::new(Bars::default()));
}

// Results that are kept must not be taken for those of another version of a format, or of another build of its program.
#[test]
fn another_version_is_another_format() {
    let files = tempfile::tempdir().unwrap();
    let bars = LINES.replace(',', "|");
    let of = |formats: TraceFormats| {
        fingerprint(&replay(files.path(), bars.as_bytes(), "format = 'bars'", formats).unwrap()).unwrap()
    };
    assert_eq!(of(formats("1")), of(formats("1")));
    assert_ne!(of(formats("1")), of(formats("2")));
    assert_ne!(of(formats("1")), of(formats("1").with_build("b")));
    assert_eq!(of(formats("1").with_build("b")), of(formats("1").with_build("b")));
}

// An editor knows of a format what the schema says; without formats the schema is every program's.
#[test]
fn the_schema_names_formats() {
    let schema = scenario_schema_with(&Options { formats: formats("1"), ..Options::default() });
    let of_bars = |format: &serde_json::Value| {
        format["const"] == "bars" && format["description"] == "Fields between bars."
    };
    assert!(schema["$defs"]["Format"]["oneOf"].as_array().unwrap().iter().any(of_bars));
    assert!(!scenario_schema().to_string().contains("\"bars\""));
}
