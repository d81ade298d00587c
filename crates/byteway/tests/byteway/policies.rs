//! Victim policies through the whole simulator: built-in ones against theory, and those of users, which must choose, fail and be named as
//! what they are.

use crate::common::{assert_within, folder, round, scenario};
use byteway::{Victim, VictimView, WrongArgument};
use byteway_explore::compare::fingerprint;
use byteway_firmware::ftl::greedy_write_amplification;
use byteway_program::assemble::{R0, R1, R2, R3, R4, R6, R7, R8, R9, alu64, assemble, exit, jump, load, mov};
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

/// Units of 4 KiB of a superblock, and of the drive.
const SUPERBLOCK: usize = 256;
const UNITS: u64 = 1 << 18;

/// Random overwrites of a small drive for its capacity, after as much as twice that. A warm-up from the steady
/// state of `greedy` would hide a policy that keeps it.
fn text(policy: &str, op: u32, job: &str) -> String {
    let drive = format!(
        "precondition = \"filled\"\ncapacity = \"1 GiB\"\noverride.flash.channels = 1\noverride.flash.ways = 1\n\
         override.firmware.op = \"{op} %\"\noverride.firmware.write_buffer = \"1 MiB\"\noverride.firmware.checkpoint = \"0 %\"\n\
         override.firmware.gc.policy = \"{policy}\""
    );
    let count = 3 * UNITS;
    let rest = format!(
        "[[job]]\nrw = \"randwrite\"\niodepth = 16\ncount = {count}\n{job}\n[measure]\nwarmup = {}\n",
        2 * UNITS
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

fn amplification(policy: &str, op: u32, job: &str) -> f64 {
    let summary = play(&scenario(&text(policy, op, job))).unwrap();
    summary.write_amplification.expect("the host wrote")
}

/// First in, first out, in the limit of large superblocks. Of each class of data: its share of all data, and of the writes. A unit is
/// moved once for each cycle of the log in which it was not overwritten (Desnoyers, "Analytic Models of SSD Write Performance", for
/// one class; by renewal for several).
fn fifo(op: f64, classes: &[(f64, f64)]) -> f64 {
    let (mut low, mut high) = (1.0f64, 1000.0f64);
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        // Writes of the host in a cycle, as a multiple of the capacity.
        let cycle = (1.0 + op) / middle;
        let moved = classes.iter().map(|(data, writes)| writes / (libm::exp(writes / data * cycle) - 1.0));
        if 1.0 + moved.sum::<f64>() > middle { low = middle } else { high = middle }
    }
    low
}

/// The emptiest of `choices` superblocks of `SUPERBLOCK` units drawn at random, under uniform writes: the fixed point of the mean field
/// (Van Houdt, "A mean field model for a class of garbage collection algorithms in flash-based solid state drives").
fn d_choices(op: f64, choices: f64) -> f64 {
    const STEP: f64 = 1.0 / 4096.0;
    let valid = 1.0 / (1.0 + op);
    // Shares of superblocks by valid units; at the start those that random overwriting of all would leave.
    let mut shares = vec![0.0; SUPERBLOCK + 1];
    let low = (valid * SUPERBLOCK as f64) as usize;
    shares[low] = 1.0 - (valid * SUPERBLOCK as f64 - low as f64);
    shares[low + 1] = valid * SUPERBLOCK as f64 - low as f64;
    let mut of_victims = 0.0;
    for _ in 0..60 * 4096 {
        // Of a full superblock nothing is gained.
        let all = 1.0 - shares[SUPERBLOCK];
        let mut at_least = all;
        of_victims = 0.0;
        let mut next = shares.clone();
        for units in 0..SUPERBLOCK {
            let above = at_least - shares[units];
            let victims =
                libm::pow((at_least / all).max(0.0), choices) - libm::pow((above / all).max(0.0), choices);
            of_victims += victims * units as f64;
            next[units] -= STEP * victims;
            at_least = above;
        }
        next[SUPERBLOCK] += STEP;
        // Units of the host in this step, for each valid unit.
        let written = STEP * (SUPERBLOCK as f64 - of_victims) / (valid * SUPERBLOCK as f64);
        for units in 0..=SUPERBLOCK {
            let from_above = if units < SUPERBLOCK { (units + 1) as f64 * shares[units + 1] } else { 0.0 };
            next[units] += written * (from_above - units as f64 * shares[units]);
        }
        shares = next;
    }
    SUPERBLOCK as f64 / (SUPERBLOCK as f64 - of_victims)
}

// A policy that does not do what its name says would be compared with, and published, as what it is not.
#[test]
fn policies_amplify_as_theory_says() {
    let uniform = [(1.0, 1.0)];
    for (op, choices) in [(28, 1.0), (28, 3.0), (15, 3.0)] {
        let share = f64::from(op) / 100.0;
        let found = amplification(&format!("d-choices:{choices}"), op, "");
        assert_within(5.0, found, d_choices(share, choices), &format!("{choices} choices, {op} %"));
        if choices > 2.0 {
            assert_within(5.0, amplification("fifo", op, ""), fifo(share, &uniform), "fifo");
        }
    }
    // A fifth of the data takes four fifths of the writes.
    let hot = "random_distribution = \"zoned:80/20:20/80\"";
    assert_within(5.0, amplification("fifo", 28, hot), fifo(0.28, &[(0.2, 0.8), (0.8, 0.2)]), "hot and cold");
}

// The theory above has to be right itself: limits that are known.
#[test]
fn theories_meet_where_they_must() {
    assert_within(
        0.1,
        fifo(0.28, &[(1.0, 1.0)]),
        greedy_write_amplification(0.28),
        "superblocks without end",
    );
    assert_within(0.1, fifo(0.28, &[(0.3, 0.3), (0.7, 0.7)]), fifo(0.28, &[(1.0, 1.0)]), "two equal classes");
    // One that is chosen at random has on average as much valid as any: 1 / (1 - valid share), but for those that were just written.
    assert_within(2.0, d_choices(0.28, 1.0), 1.28 / 0.28, "random");
    assert!(d_choices(0.28, 2.0) < d_choices(0.28, 1.0) && d_choices(0.28, 50.0) < d_choices(0.28, 3.0));
    assert_within(3.0, d_choices(0.28, 50.0), greedy_write_amplification(0.28), "greedy");
}

/// A short run, for what does not need many.
fn short(policy: &str) -> String {
    text(policy, 7, "")
        .replace(&format!("count = {}", 3 * UNITS), "count = 60000")
        .replace(&format!("warmup = {}", 2 * UNITS), "warmup = 30000")
}

/// What a run is apart from the name of its policy.
fn figures(mut summary: Summary) -> Summary {
    summary.policies.clear();
    summary.notes.retain(|note| !note.starts_with("victims are chosen by"));
    summary
}

/// Greedy, of equals the oldest, as an eBPF program.
fn greedy_program() -> Vec<u8> {
    let (place, age, best, valid, least, oldest) = (R4, R3, R6, R7, R8, R9);
    assemble(&[
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
    ])
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
    std::fs::write(files.path().join("greedy.o"), assemble(&[mov(R0, 0), exit()])).unwrap();
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
        let policies = Policies::default().with_victim("own", "The oldest.", version, make);
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
    let policies =
        Policies::default().with_victim("panics", "", "1", panics).with_victim("lost", "", "1", made);
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
        let policies = Policies::default().with_victim("own", "", "1", make).with_build(build.into());
        fingerprint(&parse(&short(name), &Options { policies, ..Options::default() }).unwrap()).unwrap()
    };
    assert_eq!(with("a", "own"), with("a", "own"));
    assert_ne!(with("a", "own"), with("b", "own"));
    assert_eq!(with("a", "fifo"), with("b", "fifo"), "what is built in is of every build");
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
    let policies = Policies::default().with_victim("own", "", "1", make);
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
    assert!(refused.what.contains("is not built in") && refused.place.is_some(), "{refused}");
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
    let trap = assemble(&[mov(R0, R2), exit()]);
    std::fs::write(files.path().join("trap.o"), trap).unwrap();
    let failed =
        play(&scenario(&short(&files.path().join("trap.o").display().to_string()))).unwrap_err().to_string();
    assert!(failed.contains("`trap.o` failed: it returned") && failed.contains("candidates"), "{failed}");
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
