//! Sources of I/Os that are not built in, through the whole simulator: they ask as drawn I/Os would, are named in results, and end a run in which
//! they fail.

use crate::common::{folder, round, scenario};
use byteway::{Kind, Operation, WorkloadSource, WorkloadView, WrongArgument};
use byteway_explore::compare::fingerprint;
use byteway_results::summary::Summary;
use byteway_run::error::RunError;
use byteway_run::run::{Session, run};
use byteway_scenario::{Options, Scenario, WorkloadSources, scenario_schema, scenario_schema_with};
use byteway_text::error::InputError;
use byteway_text::interrupt::Interrupt;
use byteway_text::progress::Progress;

/// What a source asks for that it must not, from the length of its range.
type Wrong = fn(u64) -> Operation;

/// Reads or writes block after block, and begins again, or does something wrong after some operations.
struct InOrder {
    kind: Kind,
    next: u64,
    wrong: Option<Wrong>,
}

impl WorkloadSource for InOrder {
    fn next(&mut self, view: &mut WorkloadView<'_>) -> Option<Operation> {
        let first = self.next % view.blocks();
        self.next += 1;
        match self.wrong {
            Some(wrong) if self.next > 100 => Some(wrong(view.blocks())),
            _ => Some(Operation { kind: self.kind, first, blocks: 1 }),
        }
    }

    fn bytes_max(&self) -> Option<u64> {
        Some(4096)
    }
}

/// Options of a program with `in-order:read`, `in-order:write` and what is wrong.
fn options(version: &str, wrong: Option<Wrong>) -> Options {
    let make = move |argument: Option<&str>| {
        let kind = match argument {
            Some("read") => Kind::Read,
            Some("write") => Kind::Write,
            Some("trim") => Kind::Trim,
            _ => {
                return Err(WrongArgument {
                    what: "needs a direction".into(),
                    help: "write `in-order:read`".into(),
                });
            }
        };
        Ok(Box::new(InOrder { kind, next: 0, wrong }) as Box<dyn WorkloadSource>)
    };
    let sources = WorkloadSources::default().with_source("in-order", "Block after block.", version, make);
    Options { sources, ..Options::default() }
}

fn parse(text: &str, options: &Options) -> Result<Scenario, InputError> {
    Scenario::from_text("test.toml", &folder(), text, options)
}

fn own(job: &str) -> Result<Scenario, InputError> {
    parse(&round("", &format!("[[job]]\n{job}\n")), &options("1", None))
}

fn play(scenario: &Scenario) -> Result<Summary, RunError> {
    let (mut progress, interrupt) = (Progress::hidden(), Interrupt::default());
    Ok(run(scenario, Session { progress: &mut progress, interrupt: &interrupt })?.summary)
}

/// What a run is apart from the name of its source.
fn figures(mut summary: Summary) -> Summary {
    summary.policies.clear();
    summary.notes.retain(|note| !note.contains("its I/Os are those of "));
    summary
}

// The same I/Os must give the same run, to the last figure, whoever asks for them: closed and open, limited by count, time and bytes.
#[test]
fn a_source_that_asks_as_drawn_gives_its_run() {
    for (direction, more) in [
        ("read", "count = 3000\niodepth = 8"),
        ("write", "count = 3000\nsize = \"4 MiB\"\noffset = \"1 MiB\"\nverify = true"),
        ("write", "runtime = \"5 ms\"\nissue = \"open\"\nrate_iops = 100000\nfsync = 50"),
        ("read", "io_size = \"2 MiB\"\nrate = \"100 MB/s\"\niodepth = 2"),
        ("read", "size = \"1 MiB\""),
        ("read", "count = 300\nthinktime = \"10 us\"\nthinktime_blocks = 3\nramp_time = \"20 us\""),
    ] {
        let asked = play(&own(&format!("source = \"in-order:{direction}\"\n{more}")).unwrap()).unwrap();
        let drawn = play(&scenario(&round("", &format!("[[job]]\nrw = \"{direction}\"\n{more}\n")))).unwrap();
        assert!(asked.ios > 200, "{more}");
        let [row] = &asked.policies[..] else { panic!("{:?}", asked.policies) };
        let name = format!("in-order:{direction}");
        assert_eq!((row.key.as_str(), row.name.as_str(), row.hash.as_str()), ("job.source", &*name, "1"));
        let note = format!("job job0: its I/Os are those of `{name}` (version 1), which is not built in");
        assert!(asked.notes.contains(&note), "{:?}", asked.notes);
        assert_eq!(figures(asked), figures(drawn), "{more}");
    }
}

// A sink's payloads are what this program is mostly asked about: a source may draw their sizes, too.
#[test]
fn a_sink_takes_a_source_that_does_not_trim() {
    let sink = |direction: &str, more: &str| {
        let text = format!(
            "[drive]\nprofile = 'cosmos-plus'\npersonality = 'sink'\ncapacity = '1 GiB'\n[host]\nprofile = 'cosmos'\n[[job]]\nsource = \
             \"in-order:{direction}\"\ncount = 1000\n{more}\n"
        );
        play(&parse(&text, &options("1", None)).unwrap())
    };
    let summary = sink("write", "").unwrap();
    assert_eq!((summary.ios, summary.policies.len()), (1000, 1));
    let refused = sink("trim", "").unwrap_err().to_string();
    assert!(refused.contains("a sink has nothing to be trimmed"), "{refused}");
}

// Whoever gives both `source` and `bs` believes that one of them is heeded; a name that is not there must not become drawn I/Os.
#[test]
fn a_wrong_section_is_refused_where_it_is_wrong() {
    for (job, place, says, help) in [
        (
            "source = \"in-order:read\"\nbs = \"8 KiB\"\ncount = 9",
            "8:6",
            "`job.0.bs`: the job's I/Os are those of",
            "leave",
        ),
        ("source = \"in-order:read\"\nrw = \"read\"\ncount = 9", "8:6", "`job.0.rw`", "leave it out"),
        (
            "source = \"in-order:read\"\nrandom_distribution = \"zipf:1\"\ncount = 9",
            "8:23",
            "random_distribution",
            "leave",
        ),
        (
            "source = \"in-ordre:read\"\ncount = 9",
            "7:10",
            "there is no source `in-ordre`",
            "did you mean `in-order`?",
        ),
        (
            "source = \"in-order\"\ncount = 9",
            "7:10",
            "`job.0.source` = `in-order` needs a direction",
            "`in-order:read`",
        ),
        ("source = \"in-order:read\"", "6:1", "`job.0` never ends", "add `count"),
        (
            "source = \"in-order:read\"\ncount = 9\n[job.trace]\nfile = \"t\"",
            "9:1",
            "`job.0.trace`",
            "leave it out",
        ),
    ] {
        let refused = own(job).unwrap_err();
        let shown = refused.to_string();
        assert!(shown.starts_with(&format!("test.toml:{place}: ")), "{shown}");
        assert!(refused.what.contains(says) && refused.help.contains(help), "{shown}");
    }
    let text = round("", "[[job]]\nsource = \"in-order:read\"\ncount = 9\n");
    let none = parse(&text, &Options::default()).unwrap_err();
    assert!(
        none.what.contains("no source `in-order`") && none.help.contains("this program adds none"),
        "{none}"
    );
}

// A defect of a user's source must not be a figure of the drive, and what comes after it is not simulated for an hour.
#[test]
fn a_source_that_fails_ends_the_run() {
    let cases: [(Wrong, &str); 4] = [
        (|blocks| Operation { kind: Kind::Read, first: blocks, blocks: 1 }, "a read of 1 blocks from block"),
        (|_| Operation { kind: Kind::Write, first: 0, blocks: 0 }, "a write of 0 blocks"),
        (|_| Operation { kind: Kind::Read, first: 0, blocks: 2 }, "a read of 2 blocks, and 1 are the most"),
        (|_| panic!("the source is broken"), "it panicked: the source is broken"),
    ];
    for (wrong, says) in cases {
        let jobs = "[[job]]\nsource = \"in-order:read\"\ncount = 1000\niodepth = 4\nthinktime = \"1 us\"\nthinktime_blocks = 8\n\
                    [[job]]\nrw = \"randread\"\nruntime = \"24 h\"\n";
        let failed =
            play(&parse(&round("", jobs), &options("1", Some(wrong))).unwrap()).unwrap_err().to_string();
        let begins = "job `job0`: the source `in-order:read` failed at operation 101 of worker 0: ";
        assert!(failed.contains(begins) && failed.contains(says), "{failed}");
    }
}

// Results that are kept must not be taken for those of another version of a source, or of another build of its program.
#[test]
fn another_version_is_another_source() {
    let text = round("", "[[job]]\nsource = \"in-order:read\"\ncount = 9\n");
    let of = |options: &Options| fingerprint(&parse(&text, options).unwrap()).unwrap();
    let one = options("1", None);
    assert_eq!(of(&one), of(&options("1", None)));
    assert_ne!(of(&one), of(&options("2", None)));
    let rebuilt = Options { sources: one.sources.clone().with_build("b".to_owned()), ..one.clone() };
    assert_ne!(of(&one), of(&rebuilt));
}

// An editor knows of a source what the schema says; without sources the schema is every program's.
#[test]
fn the_schema_names_sources() {
    let schema = scenario_schema_with(&options("1", None)).to_string();
    assert!(schema.contains("`in-order`: Block after block."));
    assert_eq!(scenario_schema_with(&Options::default()), scenario_schema());
    assert!(!scenario_schema().to_string().contains("in-order"));
}
