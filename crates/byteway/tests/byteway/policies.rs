//! Policies of victims and of streams through the whole simulator: built-in ones against theory, and those of users, which must choose, fail and be named as
//! what they are.

mod theory;

use crate::common::{assert_within, folder, round, scenario};
use byteway::{
    Admission, AdmissionView, Ahead, Filler, Opening, Prefetch, PrefetchView, Priority, Schedule,
    ScheduleView, Stream, StreamCounts, StreamView, Suspend, SuspendView, Victim, VictimView, Wear, WearView,
    WrongArgument,
};
use byteway_explore::compare::fingerprint;
use byteway_firmware::ftl::greedy_write_amplification;
use byteway_firmware::policy::admission::SecondAccess;
use byteway_firmware::policy::prefetch::Sequential;
use byteway_program::assemble::{
    R0, R1, R2, R3, R4, R6, R7, R8, R9, alu64, assemble, exit, jump, load, mov, object, store,
};
use byteway_program::instruction::{alu, jump as when, size};
use byteway_results::summary::Summary;
use byteway_run::error::RunError;
use byteway_run::run::{Session, run};
use byteway_scenario::{Device, Options, Policies, Scenario};
use byteway_text::error::InputError;
use byteway_text::interrupt::Interrupt;
use byteway_text::progress::Progress;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use theory::{Choice, Hot, amplification};

/// Units of 4 KiB of the drive.
const UNITS: u64 = 1 << 18;
/// A fifth of the data takes four fifths of the writes.
const HOT: Hot = Hot { data: 0.2, writes: 0.8 };
/// Superblocks of a window: about a fifth of all.
const WINDOW: u32 = 1000;

/// Random overwrites of a small drive for its capacity, after as much as `before` times that. A warm-up from the steady
/// state of `greedy` would hide a policy that keeps it.
fn text(policy: &str, op: u32, job: &str, before: u64) -> String {
    let drive = format!(
        "precondition = \"filled\"\ncapacity = \"1 GiB\"\noverride.flash.channels = 1\noverride.flash.ways = 1\n\
         override.flash.pages = {}\noverride.firmware.op = \"{op} %\"\noverride.firmware.write_buffer = \"1 MiB\"\n\
         override.firmware.checkpoint = \"0 %\"\noverride.firmware.gc.policy = \"{policy}\"",
        theory::UNITS / 4
    );
    let count = (before + 1) * UNITS;
    let rest = format!(
        "[[job]]\nrw = \"randwrite\"\niodepth = 16\ncount = {count}\n{job}\n[measure]\nwarmup = {}\n",
        before * UNITS
    );
    round(&drive, &rest)
}

fn parse(text: &str, options: &Options) -> Result<Scenario, InputError> {
    Scenario::from_text("test.toml", &folder(), text, options)
}

fn play(scenario: &Scenario) -> Result<Summary, RunError> {
    let (mut progress, interrupt) = (Progress::hidden(), Interrupt::default());
    Ok(run(scenario, Session { progress: &mut progress, interrupt: &interrupt })?.summary)
}

/// What a policy amplifies: simulated, and in theory, if there is one.
fn amplifications(policy: &str, op: u32, hot: bool, before: u64) -> (f64, Option<f64>) {
    let job = if hot { "random_distribution = \"zoned:80/20:20/80\"" } else { "" };
    let summary = play(&scenario(&text(policy, op, job, before))).unwrap();
    let share = f64::from(op) / 100.0;
    let of = |choice| Some(amplification(share, if hot { HOT } else { theory::UNIFORM }, choice));
    let superblocks = UNITS as f64 / theory::UNITS as f64 * (1.0 + share);
    let in_theory = match policy {
        "greedy" => of(Choice::Greedy),
        "d-choices:3" => of(Choice::Random(3.0)),
        "fifo" => of(Choice::Oldest(0.0)),
        "windowed-greedy:1000" => of(Choice::Oldest(f64::from(WINDOW) / superblocks)),
        _ => None,
    };
    (summary.write_amplification.expect("the host wrote"), in_theory)
}

// A policy that does not do what its name says would be compared with, and published, as what it is not.
#[test]
fn policies_amplify_as_theory_says() {
    for (policy, op, hot, before) in [
        ("d-choices:3", 15, false, 2),
        ("fifo", 15, false, 2),
        ("windowed-greedy:1000", 28, true, 4),
        ("fifo", 28, true, 4),
    ] {
        let (found, in_theory) = amplifications(policy, op, hot, before);
        println!("{policy} {op} {hot}: {found:.3} {in_theory:.3?}");
        assert_within(3.0, found, in_theory.unwrap(), &format!("{policy}, {op} %, hot and cold: {hot}"));
    }
}

// The table of the book, by which users choose: each figure as it is simulated and as theory has it, within 5 %.
#[test]
#[ignore = "five minutes: 30 runs, of up to 3.4 million writes"]
fn the_table_of_policies_holds() {
    let book = include_str!("../../../../docs/models/firmware.md");
    let policies = ["greedy", "cost-benefit", "windowed-greedy:1000", "d-choices:3", "fifo"];
    let row = |load: &str, hot: bool, op: u32| {
        let before = if hot { 12 } else { 4 };
        let cells = policies.map(|policy| match amplifications(policy, op, hot, before) {
            (found, Some(in_theory)) => {
                // In theory victims are drawn one independently of the other; those of `fifo` follow each other, and mix less.
                let is_known = (policy, op, hot) == ("fifo", 7, true);
                let bar = if is_known { 6.0 } else { 5.0 };
                assert_within(bar, found, in_theory, &format!("{policy}, {load}, {op} %"));
                format!("{found:.2} ({in_theory:.2})")
            }
            (found, None) => format!("{found:.2}"),
        });
        let row = format!("| {load} | {op} % | {} |", cells.join(" | "));
        println!("{row}");
        assert!(book.contains(&row), "docs/models/firmware.md lacks {row}");
    };
    std::thread::scope(|threads| {
        threads.spawn(|| [28, 15].map(|op| row("hot and cold", true, op)));
        threads.spawn(|| [28, 15, 7].map(|op| row("uniform", false, op)));
        row("hot and cold", true, 7);
    });
}

// The theory above has to be right itself: limits that are known.
#[test]
fn theories_meet_where_they_must() {
    let of = |choice| amplification(0.28, theory::UNIFORM, choice);
    assert_within(0.1, theory::log(0.28), greedy_write_amplification(0.28), "superblocks without end");
    assert_within(0.5, of(Choice::Oldest(0.0)), theory::log(0.28), "hardly one is entirely valid");
    let skewed = amplification(0.28, Hot { data: 0.3, writes: 0.3 }, Choice::Greedy);
    assert_within(0.1, skewed, of(Choice::Greedy), "two equal classes");
    assert!(
        of(Choice::Random(2.0)) < of(Choice::Random(1.0)) && of(Choice::Greedy) < of(Choice::Random(3.0))
    );
    assert!(
        of(Choice::Greedy) < of(Choice::Oldest(0.2)) && of(Choice::Oldest(0.2)) < of(Choice::Oldest(0.0))
    );
    assert_within(0.5, of(Choice::Random(60.0)), of(Choice::Greedy), "so many choices are all there are");
}

/// A short run, for what does not need many.
fn short(policy: &str) -> String {
    text(policy, 7, "", 1)
        .replace(&format!("count = {}", 2 * UNITS), "count = 60000")
        .replace(&format!("warmup = {UNITS}"), "warmup = 30000")
}

/// What a run is apart from the name of its policy.
fn figures(mut summary: Summary) -> Summary {
    summary.policies.clear();
    summary.notes.retain(|note| !note.contains(" are chosen by "));
    summary
}

/// Greedy, of equals the oldest, as an eBPF program.
fn greedy_program() -> Vec<u8> {
    let (place, age, best, valid, least, oldest) = (R4, R3, R6, R7, R8, R9);
    object(
        "victim",
        &[
            mov(least, -1),
            mov(oldest, 0),
            mov(best, 0),
            mov(place, 0),
            // A candidate: index, valid units, age.
            load(size::WORD, valid, R1, 4),
            load(size::WORD, age, R1, 8),
            jump(when::GT, valid, least, 5),
            jump(when::LT, valid, least, 1),
            jump(when::LE, age, oldest, 3),
            mov(least, valid),
            mov(oldest, age),
            mov(best, place),
            alu64(alu::ADD, R1, 12),
            alu64(alu::ADD, place, 1),
            alu64(alu::ADD, R2, -1),
            jump(when::NE, R2, 0, -12),
            mov(R0, best),
            exit(),
        ],
    )
}

// A file is the only way in that needs no compiler for the whole: the same choices must give the same run, to the last figure.
#[test]
fn a_program_that_chooses_as_greedy_gives_its_run() {
    let files = tempfile::tempdir().unwrap();
    std::fs::write(files.path().join("greedy.o"), greedy_program()).unwrap();
    let path = files.path().join("greedy.o").display().to_string();
    let of = |policy: &str| scenario(&short(policy));
    let (own, built_in) = (play(&of(&path)).unwrap(), play(&of("greedy")).unwrap());
    let [row] = &own.policies[..] else { panic!("{:?}", own.policies) };
    assert_eq!((row.key.as_str(), row.name.as_str(), row.hash.len()), ("firmware.gc.policy", "greedy.o", 16));
    assert!(own.notes.iter().any(|note| note.contains("`greedy.o`")) && built_in.policies.is_empty());
    assert!(built_in.flash.as_ref().unwrap().collect_programs > 0, "it collects");
    assert_eq!(figures(own), figures(built_in));
    // Another file of this name is another policy: its results must not be taken from a cache.
    let before = fingerprint(&of(&path)).unwrap();
    assert_eq!(fingerprint(&of(&path)).unwrap(), before);
    std::fs::write(files.path().join("greedy.o"), object("victim", &[mov(R0, 0), exit()])).unwrap();
    assert_ne!(fingerprint(&of(&path)).unwrap(), before);
}

/// The oldest, in a program of one's own; or what is none of the candidates.
struct Own {
    is_wrong: bool,
}

/// One that asks for more than there is.
struct Panics;

impl Victim for Panics {
    fn choose(&mut self, view: &mut VictimView<'_>) -> u32 {
        view.candidates().nth(1_000_000).expect("there are a million").index
    }
}

impl Victim for Own {
    fn choose(&mut self, view: &mut VictimView<'_>) -> u32 {
        let oldest = view.candidates().max_by_key(|candidate| candidate.age).map_or(0, |victim| victim.index);
        if self.is_wrong { oldest + 100_000 } else { oldest }
    }
}

// Added policies are known by name, counted into caches by version, and a run that they break is an error and no result.
#[test]
fn an_added_policy_is_one_among_the_others() {
    let with = |name: &str, version: &str, is_wrong: bool| {
        let name = short(name);
        let make = move |_: Option<&str>| Ok(Box::new(Own { is_wrong }) as Box<dyn Victim>);
        let policies = Policies::default().with::<dyn Victim>("own", "The oldest.", version, make);
        let options = Options { policies, ..Options::default() };
        parse(&name, &options)
    };
    let own = with("own", "1", false).unwrap();
    assert_eq!(figures(play(&own).unwrap()), figures(play(&scenario(&short("fifo"))).unwrap()));
    assert_ne!(fingerprint(&own).unwrap(), fingerprint(&with("own", "2", false).unwrap()).unwrap());
    let failed = play(&with("own", "1", true).unwrap()).unwrap_err();
    assert!(failed.to_string().contains("the victim policy `own` failed: superblock 100"), "{failed}");
    let unknown = with("owm", "1", false).unwrap_err();
    assert!(
        unknown.what.contains("no policy `owm`") && unknown.help.contains("did you mean `own`?"),
        "{unknown}"
    );
    assert!(with("d-choices", "1", false).unwrap_err().what.contains("needs a number"), "no argument");
}

// A defect of a user's policy must not look like one of the drive, and what comes after it is not simulated for an hour.
#[test]
fn a_policy_that_panics_or_cannot_be_made_again_ends_the_run() {
    let times = Arc::new(AtomicU32::new(0));
    let made = move |_: Option<&str>| match times.fetch_add(1, Ordering::Relaxed) {
        0 => Ok(Box::new(Panics) as Box<dyn Victim>),
        _ => Err(WrongArgument { what: "has lost its file".into(), help: String::new() }),
    };
    let panics = |_: Option<&str>| Ok(Box::new(Panics) as Box<dyn Victim>);
    let policies = Policies::default()
        .with::<dyn Victim>("panics", "", "1", panics)
        .with::<dyn Victim>("lost", "", "1", made);
    let options = Options { policies, ..Options::default() };
    for (name, what) in [("panics", "it panicked: there are a million"), ("lost", "it has lost its file")] {
        let endless = short(name).replace("count = 60000", "runtime = \"1 h\"");
        let failed = play(&parse(&endless, &options).unwrap()).unwrap_err();
        assert!(failed.to_string().contains(what), "{failed}");
    }
}

// Another build of a program may have other policies under the same version.
#[test]
fn another_build_is_another_policy() {
    let with = |build: &str, name: &str| {
        let make = |_: Option<&str>| Ok(Box::new(Own { is_wrong: false }) as Box<dyn Victim>);
        let policies = Policies::default().with::<dyn Victim>("own", "", "1", make).with_build(build.into());
        fingerprint(&parse(&short(name), &Options { policies, ..Options::default() }).unwrap()).unwrap()
    };
    assert_eq!(with("a", "own"), with("a", "own"));
    assert_ne!(with("a", "own"), with("b", "own"));
    assert_eq!(with("a", "fifo"), with("b", "fifo"), "what is built in is of every build");
}

/// A short run with this stream policy.
fn streamed(streams: &str) -> String {
    let victims = "override.firmware.gc.policy = \"greedy\"";
    short("greedy").replace(victims, &format!("{victims}\noverride.firmware.streams = \"{streams}\""))
}

/// So many streams of the host, and one of them.
struct Into {
    host: u32,
    stream: u32,
}

impl Stream for Into {
    fn counts(&self) -> StreamCounts {
        StreamCounts { host: self.host, collector: 1 }
    }

    fn place(&mut self, view: &mut StreamView<'_>) -> u32 {
        if view.source().is_some() { 0 } else { self.stream }
    }
}

// Streams are known by name, named in results, and refused, as victims are; one that is told of none makes no other drive.
#[test]
fn an_added_stream_policy_is_one_among_the_others() {
    let with = |version: &str, host: u32, stream: u32| {
        let make = move |_: Option<&str>| Ok(Box::new(Into { host, stream }) as Box<dyn Stream>);
        let policies = Policies::default().with::<dyn Stream>("own", "One of them.", version, make);
        parse(&streamed("own"), &Options { policies, ..Options::default() })
    };
    let own = with("1", 1, 0).unwrap();
    let summary = play(&own).unwrap();
    let [row] = &summary.policies[..] else { panic!("{:?}", summary.policies) };
    assert_eq!((row.key.as_str(), row.name.as_str(), row.hash.as_str()), ("firmware.streams", "own", "1"));
    assert!(summary.notes.iter().any(|note| note.starts_with("streams are chosen by `own`")), "{summary:?}");
    let separate = play(&scenario(&streamed("separate"))).unwrap();
    assert!(separate.flash.as_ref().unwrap().collect_programs > 0, "it collects");
    assert_eq!(figures(summary), figures(separate.clone()));
    assert_eq!(separate, play(&scenario(&short("greedy"))).unwrap(), "the default");
    assert_ne!(fingerprint(&own).unwrap(), fingerprint(&with("2", 1, 0).unwrap()).unwrap());
    let failed = play(&with("1", 2, 2).unwrap()).unwrap_err();
    assert!(
        failed.to_string().contains("the stream policy `own` failed: stream 2 is none of the 2 of the host"),
        "{failed}"
    );
    let many = with("1", 8, 0).unwrap_err();
    assert!(many.what.contains("declares 8 streams of the host and 1 of the collector"), "{many}");
    let unknown = parse(&streamed("sepbitt"), &Options::default()).unwrap_err();
    assert!(
        unknown.what.contains("no policy `sepbitt`") && unknown.help.contains("did you mean `sepbit`?"),
        "{unknown}"
    );
    let policies = Policies::default()
        .with::<dyn Stream>("own", "", "1", |_| Ok(Box::new(Into { host: 1, stream: 0 }) as Box<dyn Stream>));
    let device =
        "[drive]\nprofile = \"samsung-970-pro\"\ncapacity = \"1 GiB\"\noverride.firmware.streams = \"own\"\n";
    let served = Device::from_text("d.toml", &folder(), device, &Options { policies, ..Options::default() });
    assert!(served.unwrap_err().what.contains("`firmware.streams` = `own` is not built in"));
}

/// Looks at all that it is told, and keeps a number.
#[derive(Default)]
struct Looks {
    number: u64,
}

impl Stream for Looks {
    fn counts(&self) -> StreamCounts {
        StreamCounts { host: 2, collector: 2 }
    }

    fn needs_last_write(&self) -> bool {
        true
    }

    fn place(&mut self, view: &mut StreamView<'_>) -> u32 {
        let random = view.random();
        let filled_by = match view.source().and_then(|source| source.filled_by) {
            None => 0,
            Some(Filler::Host(stream)) => 1 + stream,
            Some(Filler::Collector(stream)) => 257 + stream,
        };
        let opened_at = view.source().map_or(0, |source| source.opened_at);
        let last_write = view.last_write().unwrap_or(u64::MAX);
        let told =
            [view.unit(), view.units(), view.now(), last_write, opened_at, u64::from(filled_by), random];
        self.number = told.iter().fold(self.number, |sum, number| sum.wrapping_mul(31).wrapping_add(*number));
        (self.number >> 40 & 1) as u32
    }

    fn collects(&mut self, source: byteway::Source, now: u64) {
        self.number = self.number.wrapping_add(now).wrapping_add(source.opened_at);
    }
}

/// [`Looks`], as an eBPF program.
fn looks_program() -> Vec<u8> {
    let (number, question, told) = (R6, R7, R8);
    let mut code = vec![
        load(size::WORD, question, R1, 40),
        mov(R0, 2 + 2 * 256 + 65_536),
        jump(when::NE, question, 0, 1),
        exit(),
        load(size::DOUBLE, number, R2, 0),
        jump(when::EQ, question, 3, 25),
    ];
    for offset in [0, 8, 16, 24, 32] {
        code.extend([
            load(size::DOUBLE, told, R1, offset),
            alu64(alu::MUL, number, 31),
            alu64(alu::ADD, number, told),
        ]);
    }
    code.extend([load(size::WORD, told, R1, 44), alu64(alu::MUL, number, 31), alu64(alu::ADD, number, told)]);
    code.extend([alu64(alu::MUL, number, 31), alu64(alu::ADD, number, R4)]);
    code.extend([mov(R0, number), alu64(alu::RSH, R0, 40), alu64(alu::AND, R0, 1)]);
    code.extend([store(size::DOUBLE, R2, 0, number), exit()]);
    // What is behind: a superblock was chosen.
    code.extend([mov(R0, 0), load(size::DOUBLE, told, R1, 16), alu64(alu::ADD, number, told)]);
    code.extend([load(size::DOUBLE, told, R1, 32), alu64(alu::ADD, number, told)]);
    code.extend([store(size::DOUBLE, R2, 0, number), exit()]);
    object("stream", &code)
}

// The file is told what a policy in Rust is told, at the same instants: or it would be another policy than its author took it for.
#[test]
fn a_program_that_places_as_another_policy_gives_its_run() {
    let files = tempfile::tempdir().unwrap();
    let path = files.path().join("looks.o");
    std::fs::write(&path, looks_program()).unwrap();
    let text = |streams: &str| streamed(streams).replace("\"7 %\"", "\"10 %\"");
    let of_file = scenario(&text(&path.display().to_string()));
    let own = play(&of_file).unwrap();
    let [row] = &own.policies[..] else { panic!("{:?}", own.policies) };
    assert_eq!((row.key.as_str(), row.name.as_str(), row.hash.len()), ("firmware.streams", "looks.o", 16));
    let make = |_: Option<&str>| Ok(Box::new(Looks::default()) as Box<dyn Stream>);
    let policies = Policies::default().with::<dyn Stream>("looks", "", "1", make);
    let in_rust = parse(&text("looks"), &Options { policies, ..Options::default() }).unwrap();
    let in_rust = play(&in_rust).unwrap();
    assert!(in_rust.flash.as_ref().unwrap().collect_programs > 0, "it collects");
    let separate = figures(play(&scenario(&text("separate"))).unwrap());
    assert_ne!(figures(in_rust.clone()), separate, "it makes a difference");
    assert_eq!(figures(own), figures(in_rust));
    // Another file of this name is another policy, and one that declares nonsense is refused where its name stands.
    let before = fingerprint(&of_file).unwrap();
    std::fs::write(&path, object("stream", &[mov(R0, 257), exit()])).unwrap();
    let failed = scenario(&text(&path.display().to_string()));
    assert_ne!(fingerprint(&failed).unwrap(), before);
    let failed = play(&failed).unwrap_err().to_string();
    assert!(
        failed.contains("the stream policy `looks.o` failed: asked for the stream of a unit that ")
            && failed.contains("it returned 257, of 1 streams"),
        "{failed}"
    );
    std::fs::write(&path, object("stream", &[mov(R0, 9), exit()])).unwrap();
    let refused = parse(&text(&path.display().to_string()), &Options::default()).unwrap_err();
    assert!(
        refused.what.contains("9 of the host and 0 of the collector") && refused.place.is_some(),
        "{refused}"
    );
}

// A drive without blocks for all streams would wait for garbage collection that can free none.
#[test]
fn a_drive_too_small_for_its_streams_is_refused() {
    // Superblocks of four times the size: in small ones a stripe, which each victim has to free, is much.
    let streamed = |streams: &str| streamed(streams).replace("flash.pages = 16", "flash.pages = 64");
    let of = |streams: &str, op: u32| {
        parse(&streamed(streams).replace("\"7 %\"", &format!("\"{op} %\"")), &Options::default())
    };
    let refused = of("sepbit", 1).unwrap_err();
    assert!(refused.place.is_some(), "{refused}");
    let text = "`firmware.streams` = `sepbit`: 2 streams of the host and 4 of garbage collection take, with its data, ";
    let (needed, has) =
        refused.what.strip_prefix(text).unwrap().split_once(" superblocks a die, and it has ").unwrap();
    let (needed, has): (u32, u32) = (needed.parse().unwrap(), has.parse().unwrap());
    assert!((1..=7).contains(&(needed - has)), "{refused}");
    assert!(of("separate", 1).is_ok() && of("sepbit", 7).is_ok());
    let exactly = |blocks: u32| {
        let line = format!("override.firmware.streams = \"sepbit\"\noverride.flash.blocks = {blocks}");
        parse(
            &streamed("sepbit")
                .replace("override.firmware.streams = \"sepbit\"", &line)
                .replace("\"7 %\"", "\"1 %\""),
            &Options::default(),
        )
    };
    play(&exactly(needed).unwrap()).unwrap();
    let advised = refused.help.split_once("set `override.flash.blocks = ").expect("a number").1;
    let advised: u32 = advised.split('`').next().unwrap().parse().unwrap();
    assert!((needed..=needed + 2).contains(&advised) && exactly(advised).is_ok(), "{refused}");
    assert!(exactly(needed - 1).is_err());
}

// Of an array each member has its own policy.
#[test]
fn members_of_an_array_are_named() {
    let text = |second: &str| {
        let drive = |name: &str, policy: &str| {
            format!(
                "[[drive]]\nname = \"{name}\"\nprofile = \"samsung-970-pro\"\ncapacity = \"1 GiB\"\noverride.firmware.gc.policy = \"{policy}\"\n"
            )
        };
        let job = "[array]\nlevel = 0\n[[job]]\nrw = \"randwrite\"\ncount = 100\n";
        drive("a", "greedy") + &drive("b", second) + job
    };
    let make = |_: Option<&str>| Ok(Box::new(Own { is_wrong: false }) as Box<dyn Victim>);
    let policies = Policies::default().with::<dyn Victim>("own", "", "1", make);
    let options = Options { policies, ..Options::default() };
    let summary = play(&parse(&text("own"), &options).unwrap()).unwrap();
    assert!(
        summary.policies.len() == 1 && summary.notes.iter().any(|note| note.contains("`own`")),
        "{summary:?}"
    );
    assert!(play(&parse(&text("fifo"), &options).unwrap()).unwrap().policies.is_empty());
}

// A served drive can't tell the fault of a policy: what the host measures would be another policy's.
#[test]
fn a_served_drive_has_built_in_policies_only() {
    let device = |policy: &str| {
        let text = format!(
            "[drive]\nprofile = \"samsung-970-pro\"\ncapacity = \"1 GiB\"\noverride.firmware.gc.policy = \"{policy}\"\n"
        );
        Device::from_text("d.toml", &folder(), &text, &Options::default())
    };
    let files = tempfile::tempdir().unwrap();
    let path = files.path().join("greedy.o");
    std::fs::write(&path, greedy_program()).unwrap();
    let refused = device(&path.display().to_string()).unwrap_err();
    let place = refused.place.as_ref().and_then(|place| place.position);
    assert!(
        refused.what.contains("is not built in") && place.is_some_and(|(line, _)| line == 4),
        "{refused}"
    );
    assert!(device("fifo").is_ok());
}

// Whoever names a file that is no program has to read why, where the name stands.
#[test]
fn a_file_that_is_no_policy_is_refused() {
    let files = tempfile::tempdir().unwrap();
    std::fs::write(files.path().join("text.o"), "greedy").unwrap();
    for (name, why) in
        [("text.o", "is no policy"), ("none.o", "cannot read the policy"), (".bpf", "cannot read the policy")]
    {
        let text = short(&files.path().join(name).display().to_string());
        let refused = parse(&text, &Options::default()).unwrap_err();
        assert!(refused.what.contains(why) && refused.place.is_some(), "{name}: {refused}");
    }
    let trap = object("victim", &[mov(R0, R2), exit()]);
    std::fs::write(files.path().join("trap.o"), trap).unwrap();
    let failed =
        play(&scenario(&short(&files.path().join("trap.o").display().to_string()))).unwrap_err().to_string();
    assert!(
        failed.contains("`trap.o` failed: asked for a victim, it returned")
            && failed.contains("candidates\n  help: "),
        "{failed}"
    );
}

// A file for another decision was run all the same: what it returned was taken for a choice, and figures came out of it.
#[test]
fn a_file_for_another_decision_is_refused() {
    let files = tempfile::tempdir().unwrap();
    let write = |name: &str, file: Vec<u8>| std::fs::write(files.path().join(name), file).unwrap();
    // Of streams, one of each.
    let code = [mov(R0, 257), exit()];
    for kind in ["victim", "stream", "schedule", "suspend"] {
        write(&format!("{kind}.o"), object(kind, &code));
        write(&format!("all.{kind}.bpf"), assemble(&code));
    }
    let path = |name: &str| files.path().join(name).display().to_string();
    let suspend =
        "override.flash.suspend = { latency = '20 us', resume = '5 us', most = 4, policy = \"FILE\" }";
    let scenario = |kind: &str, name: &str| match kind {
        "victim" => short(name),
        "stream" => streamed(name),
        "schedule" => mixed(&format!("override.flash.schedule = \"{name}\"")),
        _ => mixed(&suspend.replace("FILE", name)),
    };
    for kind in ["victim", "stream", "schedule", "suspend"] {
        let of = |name: &str| parse(&scenario(kind, &path(name)), &Options::default());
        for other in ["victim", "stream", "schedule", "suspend"] {
            let (in_object, bare) = (of(&format!("{other}.o")), of(&format!("all.{other}.bpf")));
            if other == kind {
                assert!(in_object.is_ok() && bare.is_ok(), "{kind}: {:?}, {:?}", in_object.err(), bare.err());
                continue;
            }
            let refused = in_object.unwrap_err();
            let says = format!("its function is `{other}`, expected `{kind}`");
            assert!(refused.what.contains(&says) && refused.place.is_some(), "{refused}");
            assert!(refused.help.contains(&format!("a single function `{kind}`")), "{refused}");
            let refused = bare.unwrap_err();
            assert!(refused.what.contains(&format!("named NAME.{kind}.bpf")), "{refused}");
        }
    }
    write("bare.o", assemble(&code));
    write("stripped.o", object("", &code));
    for (name, says) in [("bare.o", "it is no object file"), ("stripped.o", "it names no function")] {
        let refused = parse(&short(&path(name)), &Options::default()).unwrap_err();
        assert!(refused.what.contains(says) && refused.place.is_some(), "{refused}");
    }
}

// The steady state is constructed for greedy collection; whoever measures another policy from there measures a mixture.
#[test]
fn a_steady_state_of_another_policy_is_said() {
    let steady = |policy: &str| {
        let text = short(policy).replace("\"filled\"", "\"steady\"");
        play(&scenario(&text))
            .unwrap()
            .notes
            .iter()
            .any(|note| note.starts_with("the steady state is that of `greedy`"))
    };
    assert!(steady("fifo") && !steady("greedy"));
}

// A drive constructed for one stream of each kind wrote 9 times a second under `sepbit`, and amplified 45,000 times: each die collected what
// the other streams keep free first.
#[test]
fn a_steady_state_with_other_streams_is_refused() {
    let steady =
        |streams: &str| parse(&streamed(streams).replace("\"filled\"", "\"steady\""), &Options::default());
    for streams in ["hot-cold", "sepbit"] {
        let refused = steady(streams).unwrap_err();
        assert!(
            refused.what.contains("constructed for `separate` only") && refused.place.is_some(),
            "{refused}"
        );
    }
    assert!(steady("separate").is_ok());
}

/// Takes what waits longest; or, if it is wrong, what does not wait.
struct Oldest {
    is_wrong: bool,
}

impl Schedule for Oldest {
    fn choose(&mut self, view: &mut ScheduleView<'_>) -> Priority {
        let waits = |priority: &Priority| view.waiting().iter().any(|waiting| waiting.priority == *priority);
        let absent = || Priority::ALL.into_iter().find(|priority| !waits(priority));
        let wrong = self.is_wrong.then(absent).flatten();
        let oldest = || {
            view.waiting().iter().rev().max_by_key(|waiting| waiting.waited).map(|waiting| waiting.priority)
        };
        wrong.or_else(oldest).unwrap_or(Priority::HostRead)
    }
}

impl Suspend for Oldest {
    fn suspends(&mut self, view: &mut SuspendView<'_>) -> bool {
        assert!(!self.is_wrong, "on purpose");
        view.is_erase()
    }
}

/// Opens the superblock that was freed first; or one that is not free.
struct FreedFirst {
    is_wrong: bool,
}

impl Wear for FreedFirst {
    fn open(&mut self, view: &mut WearView<'_>, _opening: Opening) -> u32 {
        view.free().next().filter(|_| !self.is_wrong).map_or(u32::MAX, |block| block.index)
    }
}

// Wear policies are known by name, named in results, and refused, as the others are; the keys that were there before them name them as well.
#[test]
fn an_added_wear_policy_is_one_among_the_others() {
    let worn = |wear: &str| {
        let victims = "override.firmware.gc.policy = \"greedy\"";
        short("greedy").replace(victims, &format!("{victims}\noverride.firmware.wear = {wear}"))
    };
    let with = |name: &str, version: &str, is_wrong: bool| {
        let make = move |_: Option<&str>| Ok(Box::new(FreedFirst { is_wrong }) as Box<dyn Wear>);
        let policies = Policies::default().with("own", "One of them.", version, make);
        parse(&worn(&format!("{{ policy = \"{name}\" }}")), &Options { policies, ..Options::default() })
    };
    let own = with("own", "1", false).unwrap();
    let summary = play(&own).unwrap();
    let [row] = &summary.policies[..] else { panic!("{:?}", summary.policies) };
    assert_eq!(
        (row.key.as_str(), row.name.as_str(), row.hash.as_str()),
        ("firmware.wear.policy", "own", "1")
    );
    assert!(summary.notes.iter().any(|note| note.contains("are chosen by `own`")), "{summary:?}");
    let fifo = play(&scenario(&worn("{ policy = \"fifo\" }"))).unwrap();
    assert!(fifo.flash.as_ref().unwrap().collect_programs > 0, "it collects");
    assert_eq!(figures(summary), figures(fifo.clone()));
    for other in ["static:1", "random:10"] {
        let moved = play(&scenario(&worn(&format!("{{ policy = \"{other}\" }}")))).unwrap();
        assert_ne!(figures(moved), figures(fifo.clone()), "{other}: it matters");
    }
    assert_ne!(fingerprint(&own).unwrap(), fingerprint(&with("own", "2", false).unwrap()).unwrap());
    let failed = play(&with("own", "1", true).unwrap()).unwrap_err().to_string();
    assert!(failed.contains("the wear policy `own` failed: superblock 4294967295 of die 0"), "{failed}");
    let unknown = with("owm", "1", false).unwrap_err();
    assert!(unknown.what.contains("no policy `owm`") && unknown.help.contains("`own`"), "{unknown}");
    for (before, name) in
        [("{ dynamic = true }", "dynamic"), ("{ dynamic = true, static_spread = 3 }", "static:3")]
    {
        let named = play(&scenario(&worn(&format!("{{ policy = \"{name}\" }}")))).unwrap();
        assert_eq!(play(&scenario(&worn(before))).unwrap(), named, "{name}");
    }
}

/// As a built-in policy; or it panics.
struct Like<P> {
    policy: P,
    is_wrong: bool,
}

impl<P: Admission> Admission for Like<P> {
    fn admits(&mut self, view: &mut AdmissionView<'_>) -> bool {
        assert!(!self.is_wrong, "on purpose");
        self.policy.admits(view)
    }
}

impl<P: Prefetch> Prefetch for Like<P> {
    fn ahead(&mut self, view: &mut PrefetchView<'_>) -> Option<Ahead> {
        assert!(!self.is_wrong, "on purpose");
        self.policy.ahead(view)
    }
}

// Policies of the read cache are known by name, named in results, and refused, as the others are; and both need a read cache.
#[test]
fn an_added_policy_of_the_read_cache_is_one_among_the_others() {
    let text = |cache: &str, key: &str, name: &str| {
        let drive = format!(
            "precondition = \"filled\"\noverride.firmware.read_cache = {cache}\noverride.{key} = \"{name}\""
        );
        let job = match key {
            "firmware.prefetch" => "rw = \"read\"\niodepth = 1\ncount = 3000\n",
            _ => "rw = \"randread\"\nrandom_distribution = \"zipf:1.1\"\niodepth = 4\ncount = 20000\n",
        };
        round(&drive, &format!("[[job]]\n{job}"))
    };
    let with = |text: &str, version: &str, is_wrong: bool| {
        let admission = move |_: Option<&str>| {
            Ok(Box::new(Like { policy: SecondAccess::default(), is_wrong }) as Box<dyn Admission>)
        };
        let prefetch = move |_: Option<&str>| {
            Ok(Box::new(Like { policy: Sequential::new(64), is_wrong }) as Box<dyn Prefetch>)
        };
        let policies = Policies::default().with("own", "What missed before.", version, admission).with(
            "own",
            "What follows.",
            version,
            prefetch,
        );
        parse(text, &Options { policies, ..Options::default() })
    };
    for (key, like, other) in
        [("firmware.admission", "second-access", "always"), ("firmware.prefetch", "sequential:64", "none")]
    {
        let of = |name: &str| text("\"1 MiB\"", key, name);
        let own = with(&of("own"), "1", false).unwrap();
        let summary = play(&own).unwrap();
        let [row] = &summary.policies[..] else { panic!("{:?}", summary.policies) };
        assert_eq!((row.key.as_str(), row.name.as_str(), row.hash.as_str()), (key, "own", "1"));
        assert!(summary.notes.iter().any(|note| note.contains("are chosen by `own`")), "{summary:?}");
        assert_eq!(figures(summary.clone()), figures(play(&scenario(&of(like))).unwrap()), "{key}");
        assert_ne!(figures(summary), figures(play(&scenario(&of(other))).unwrap()), "{key}: it matters");
        assert_ne!(fingerprint(&own).unwrap(), fingerprint(&with(&of("own"), "2", false).unwrap()).unwrap());
        let failed = play(&with(&of("own"), "1", true).unwrap()).unwrap_err().to_string();
        assert!(failed.contains("policy `own` failed: it panicked: on purpose"), "{failed}");
        let unknown = with(&of("owm"), "1", false).unwrap_err();
        assert!(unknown.what.contains("no policy `owm`") && unknown.help.contains("`own`"), "{unknown}");
        let without = parse(&text("false", key, like), &Options::default()).unwrap_err();
        assert!(
            without.what.contains(key)
                && without.what.contains("the drive has none")
                && without.place.is_some(),
            "{without}"
        );
        let default = round("precondition = \"filled\"\noverride.firmware.read_cache = \"1 MiB\"", "");
        let named = of(other).replace(&format!("override.{key} = \"{other}\"\n"), "");
        assert!(named.starts_with(default.trim_end()), "the default is left out");
        assert_eq!(play(&scenario(&of(other))).unwrap(), play(&scenario(&named)).unwrap(), "the default");
    }
}

/// Time from one read of 4 KiB to the next, one after the other, in microseconds; and units that were read ahead and never read by the host.
fn read_latency(rw: &str, prefetch: &str) -> (f64, u64) {
    let drive = format!(
        "precondition = \"filled\"\noverride.firmware.read_cache = \"4 MiB\"\noverride.firmware.prefetch = \"{prefetch}\""
    );
    let job = format!("[[job]]\nrw = \"{rw}\"\niodepth = 1\ncount = 6000\n[measure]\nwarmup = 1000\n");
    let summary = play(&scenario(&round(&drive, &job))).unwrap();
    let cache = summary.upkeep.as_ref().unwrap().read_cache.unwrap();
    // What the warm-up read ahead may be used later.
    let wasted = cache.read_ahead.unwrap_or(0).saturating_sub(cache.read_ahead_used.unwrap_or(0));
    (1e6 / summary.iops, wasted)
}

// What reading ahead is for: a host that reads in order waits for firmware and link, not for flash; one that reads at random finds the same
// drive as without.
#[test]
fn sequential_reads_are_read_ahead_and_random_ones_are_not() {
    let [without, with] = ["none", "sequential:64"].map(|prefetch| read_latency("read", prefetch));
    println!("sequential: {without:?} us without, {with:?} us with");
    assert!(with.0 < without.0 / 3.0, "{with:?} of {without:?}");
    assert!(with.1 <= 128, "two windows at most are not used: {}", with.1);
    let [without, with] = ["none", "sequential:64"].map(|prefetch| read_latency("randread", prefetch));
    assert_eq!(with, without);
    assert_eq!(with.1, 0);
}

// Reads that wait for what is on its way lie on both sides of the end of the warm-up: hits without a look-up made more hits than look-ups.
#[test]
fn what_is_looked_up_is_found_or_not_at_any_depth_and_warm_up() {
    for (depth, bs, warmup) in
        [(64, "4 KiB", 1000), (64, "4 KiB", 1500), (64, "4 KiB", 2900), (16, "16 KiB", 2000)]
    {
        let drive = "precondition = \"filled\"\noverride.firmware.read_cache = \"4 MiB\"\noverride.firmware.prefetch = \"sequential:64\"";
        let job = format!(
            "[[job]]\nrw = \"read\"\nbs = \"{bs}\"\niodepth = {depth}\nruntime = \"3 ms\"\n[measure]\nwarmup = \"{warmup} us\"\n"
        );
        let summary = play(&scenario(&round(drive, &job))).unwrap();
        let cache = summary.upkeep.as_ref().unwrap().read_cache.unwrap();
        assert!(cache.hits > 0 && cache.misses < 10_000, "{cache:?}");
        assert!(cache.hit_ratio > 0.5 && cache.hit_ratio <= 1.0, "{cache:?}");
    }
}

// A write of a part reads the rest of its unit, which no host has asked for: it made more look-ups than reads.
#[test]
fn a_part_of_a_unit_is_written_beside_a_read_cache() {
    for (filled, job) in [
        ("empty", "rw = \"write\"\ncount = 1"),
        ("filled", "rw = \"randrw\"\nsize = \"64 KiB\"\ncount = 2000"),
    ] {
        let drive = format!(
            "lba_size = \"512 B\"\nprecondition = \"{filled}\"\noverride.firmware.read_cache = \"1 MiB\""
        );
        let summary = play(&scenario(&round(&drive, &format!("[[job]]\nbs = \"512 B\"\n{job}\n")))).unwrap();
        let cache = summary.upkeep.as_ref().unwrap().read_cache.unwrap();
        assert!(cache.misses < 10_000 && cache.hit_ratio <= 1.0, "{cache:?}");
    }
}

// Streams of others set out windows over a read's range again and again: whoever waited for each of them would not come to its end.
#[test]
fn a_long_read_waits_for_no_window_that_set_out_after_it() {
    let mean = |prefetch: &str| {
        let drive = format!(
            "precondition = \"filled\"\noverride.firmware.read_cache = \"1 MiB\"\noverride.firmware.prefetch = \"{prefetch}\""
        );
        let streams: String = (0..8).map(|number| {
            format!("[[job]]\nname = \"stream-{number}\"\nrw = \"read\"\nsize = \"2 MiB\"\niodepth = 1\nruntime = \"20 ms\"\n")
        }).collect();
        let long = "[[job]]\nname = \"long\"\nrw = \"randread\"\nbs = \"128 KiB\"\nsize = \"2 MiB\"\niodepth = 1\nruntime = \"20 ms\"\n";
        let summary = play(&scenario(&round(&drive, &format!("{long}{streams}")))).unwrap();
        let job = summary.jobs.iter().find(|job| job.name == "long").unwrap();
        job.read.as_ref().unwrap().latency.mean_ns
    };
    let [without, with] = ["none", "sequential:64"].map(mean);
    println!("{without} ns without, {with} ns with");
    assert!(with < 1.5 * without, "{with} ns, and {without} without reading ahead");
}

/// Reads beside writes, on a drive with `more`.
fn mixed(more: &str) -> String {
    let drive =
        format!("precondition = \"filled\"\noverride.flash.channels = 1\noverride.flash.ways = 1\n{more}");
    round(&drive, "[[job]]\nrw = \"randrw\"\nrwmixread = 70\niodepth = 16\ncount = 6000\n")
}

// Policies of dies are known by name, named in results, and refused, as those of the translation layer are.
#[test]
fn an_added_schedule_or_suspension_is_one_among_the_others() {
    let with = |text: &str, version: &str, is_wrong: bool| {
        let schedule = move |_: Option<&str>| Ok(Box::new(Oldest { is_wrong }) as Box<dyn Schedule>);
        let suspend = move |_: Option<&str>| Ok(Box::new(Oldest { is_wrong }) as Box<dyn Suspend>);
        let policies = Policies::default()
            .with::<dyn Schedule>("own", "The oldest.", version, schedule)
            .with::<dyn Suspend>("own", "Erases.", version, suspend);
        parse(&mixed(text), &Options { policies, ..Options::default() })
    };
    let suspend = |policy: &str| {
        format!(
            "override.flash.suspend = {{ latency = \"20 us\", resume = \"5 us\", most = 4, policy = \"{policy}\" }}"
        )
    };
    for (key, line, like, other) in [
        ("flash.schedule", "override.flash.schedule = \"own\"".to_owned(), "fifo", "priority"),
        ("flash.suspend.policy", suspend("own"), "erases", "always"),
    ] {
        let named = |name: &str| line.replace("own", name);
        let own = with(&line, "1", false).unwrap();
        let summary = play(&own).unwrap();
        let [row] = &summary.policies[..] else { panic!("{:?}", summary.policies) };
        assert_eq!((row.key.as_str(), row.name.as_str(), row.hash.as_str()), (key, "own", "1"));
        assert!(summary.notes.iter().any(|note| note.contains("are chosen by `own`")), "{summary:?}");
        assert_eq!(
            figures(summary.clone()),
            figures(play(&scenario(&mixed(&named(like)))).unwrap()),
            "{key}"
        );
        assert_ne!(
            figures(summary),
            figures(play(&scenario(&mixed(&named(other)))).unwrap()),
            "{key}: it matters"
        );
        assert_ne!(fingerprint(&own).unwrap(), fingerprint(&with(&line, "2", false).unwrap()).unwrap());
        let failed = play(&with(&line, "1", true).unwrap()).unwrap_err().to_string();
        assert!(failed.contains("policy `own` failed: "), "{failed}");
        let unknown = with(&named("owm"), "1", false).unwrap_err();
        assert!(unknown.what.contains("no policy `owm`") && unknown.help.contains("`own`"), "{unknown}");
        let device = format!("[drive]\nprofile = \"samsung-970-pro\"\ncapacity = \"1 GiB\"\n{line}\n");
        let policies = Policies::default()
            .with::<dyn Schedule>("own", "", "1", |_| {
                Ok(Box::new(Oldest { is_wrong: false }) as Box<dyn Schedule>)
            })
            .with::<dyn Suspend>("own", "", "1", |_| {
                Ok(Box::new(Oldest { is_wrong: false }) as Box<dyn Suspend>)
            });
        let served =
            Device::from_text("d.toml", &folder(), &device, &Options { policies, ..Options::default() });
        let refused = served.unwrap_err();
        assert!(refused.what.contains("is not built in") && refused.what.contains(key), "{refused}");
    }
    let default = play(&scenario(&mixed(""))).unwrap();
    assert_eq!(play(&scenario(&mixed("override.flash.schedule = \"priority\""))).unwrap(), default);
    assert_eq!(
        play(&scenario(&mixed("override.flash.schedule = \"priority:8\""))).unwrap(),
        default,
        "asked or not, the order is the same"
    );
}

/// What waits longest, of equals the most urgent, as an eBPF program.
fn oldest_program() -> Vec<u8> {
    let (place, best, most, waited) = (R4, R6, R7, R8);
    object(
        "schedule",
        &[
            mov(best, 0),
            mov(place, 0),
            load(size::DOUBLE, most, R1, 0),
            load(size::DOUBLE, waited, R1, 0),
            jump(when::LE, waited, most, 2),
            mov(most, waited),
            mov(best, place),
            alu64(alu::ADD, R1, 24),
            alu64(alu::ADD, place, 1),
            alu64(alu::ADD, R2, -1),
            jump(when::NE, R2, 0, -8),
            mov(R0, best),
            exit(),
        ],
    )
}

// A file is told what a policy in Rust is told, of dies as of the translation layer; and what it answers wrongly must be told.
#[test]
fn programs_of_dies_give_the_runs_of_their_like() {
    let files = tempfile::tempdir().unwrap();
    let path = files.path().join("own.o");
    let schedule = |name: &str| mixed(&format!("override.flash.schedule = \"{name}\""));
    let suspend = |name: &str| {
        mixed(&format!(
            "override.flash.suspend = {{ latency = \"20 us\", resume = \"5 us\", most = 4, policy = \"{name}\" }}"
        ))
    };
    let of_file = path.display().to_string();
    let is_erase = object("suspend", &[load(size::WORD, R0, R1, 32), exit()]);
    for (key, text, program, like, other, function) in [
        (
            "flash.schedule",
            &schedule as &dyn Fn(&str) -> String,
            oldest_program(),
            "fifo",
            "priority",
            "schedule",
        ),
        ("flash.suspend.policy", &suspend, is_erase, "erases", "always", "suspend"),
    ] {
        std::fs::write(&path, program).unwrap();
        let own = play(&scenario(&text(&of_file))).unwrap();
        let [row] = &own.policies[..] else { panic!("{:?}", own.policies) };
        assert_eq!((row.key.as_str(), row.name.as_str(), row.hash.len()), (key, "own.o", 16));
        assert_eq!(figures(own.clone()), figures(play(&scenario(&text(like))).unwrap()), "{key}");
        assert_ne!(figures(own), figures(play(&scenario(&text(other))).unwrap()), "{key}: it matters");
        for (wrong, says) in [
            (object(function, &[mov(R0, 9), exit()]), ", it returned 9, "),
            (
                object(function, &[load(size::DOUBLE, R0, R1, 4000), exit()]),
                ", the program was stopped at instruction 0: ",
            ),
        ] {
            std::fs::write(&path, wrong).unwrap();
            let failed = play(&scenario(&text(&of_file))).unwrap_err().to_string();
            assert!(failed.contains("`own.o` failed: asked ") && failed.contains(says), "{failed}");
        }
    }
    // Times and numbers: what the built-in `remaining:100` decides by.
    let remaining = object(
        "suspend",
        &[
            load(size::DOUBLE, R6, R1, 0),
            load(size::DOUBLE, R7, R1, 8),
            alu64(alu::ADD, R7, 100_000_000),
            mov(R0, 0),
            jump(when::LT, R6, R7, 1),
            mov(R0, 1),
            exit(),
        ],
    );
    std::fs::write(&path, remaining).unwrap();
    let [own, built_in] =
        [&*of_file, "remaining:100"].map(|name| figures(play(&scenario(&suspend(name))).unwrap()));
    assert_eq!(own, built_in);
    let text = mixed("override.flash.suspend.policy = \"erases\"");
    let refused = parse(&text, &Options::default()).unwrap_err();
    assert!(refused.help.contains("write `flash.suspend = { latency = "), "{refused}");
}

// A key-value store reads its flash through the same translation layer: what its scans gain must not be refused, nor be left out of the summary.
#[test]
fn scans_of_pairs_are_read_ahead() {
    let of = |prefetch: &str| {
        let drive = format!(
            "[drive]\nprofile = \"cosmos-plus\"\npersonality = \"kv\"\ncapacity = \"1 GiB\"\noverride.firmware.read_cache = \"8 MiB\"\n\
             override.firmware.prefetch = \"{prefetch}\"\n"
        );
        let jobs = "[[kv]]\nworkload = \"fillseq\"\ncount = 1000\nvalue = \"4 KiB\"\n\
                    [[kv]]\nworkload = \"scanrandom\"\ncount = 100\nstonewall = true\n";
        let summary = play(&scenario(&format!("{drive}{jobs}"))).unwrap();
        let cache = summary.upkeep.and_then(|upkeep| upkeep.read_cache).expect("it has a read cache");
        (summary.elapsed_ns, cache.read_ahead_used)
    };
    let ((without, none), (with, used)) = (of("none"), of("sequential:64"));
    assert!(
        with < without && none.is_none() && used.is_some_and(|units| units > 0),
        "{without} {with} {used:?}"
    );
}
