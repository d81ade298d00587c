//! Transfer methods that are not built in, through the whole simulator: payloads cross as they say, results name them, and a wrong choice ends the
//! run.

use crate::common::{folder, round};
use byteway::{
    DriveExtension, Method, PayloadView, PointerKind, Rules, TransferKind, TransferMethod, WrongArgument,
};
use byteway_explore::compare::fingerprint;
use byteway_results::summary::Summary;
use byteway_run::error::RunError;
use byteway_run::run::{Session, run};
use byteway_scenario::{Options, Scenario, TransferMethods, scenario_schema, scenario_schema_with};
use byteway_text::error::InputError;
use byteway_text::interrupt::Interrupt;
use byteway_text::progress::Progress;

type Choose = fn(u32, &mut PayloadView<'_>) -> TransferKind;

/// Asks a function, with a number from behind the colon.
struct Asks {
    number: u32,
    needs: &'static [DriveExtension],
    choose: Choose,
}

impl TransferMethod for Asks {
    fn needs(&self) -> &'static [DriveExtension] {
        self.needs
    }

    fn entries_bytes_max(&self) -> u32 {
        self.number.saturating_sub(1)
    }

    fn choose(&mut self, view: &mut PayloadView<'_>) -> TransferKind {
        (self.choose)(self.number, view)
    }
}

const INLINE: TransferKind = TransferKind::Inline { paper: false };

/// A program with `own:NUMBER`.
fn program(version: &str, needs: &'static [DriveExtension], choose: Choose) -> Options {
    let make = move |argument: Option<&str>| {
        let number = argument.and_then(|number| number.parse().ok());
        let number = number
            .ok_or_else(|| WrongArgument { what: "needs a number".into(), help: "write `own:128`".into() })?;
        Ok(Box::new(Asks { number, needs, choose }) as Box<dyn TransferMethod>)
    };
    let methods = TransferMethods::default().with_method("own", "By a function.", version, make);
    Options { methods, ..Options::default() }
}

fn parse(text: &str, options: &Options) -> Result<Scenario, InputError> {
    Scenario::from_text("test.toml", &folder(), text, options)
}

/// Payloads to the sink of the board.
fn sink(transfer: &str, job: &str, options: &Options) -> Result<Scenario, InputError> {
    let drive = "[drive]\nprofile = 'cosmos-plus'\npersonality = 'sink'\ncapacity = '1 GiB'\n";
    parse(&format!("{drive}[host]\nprofile = 'cosmos'\n[transfer]\n{transfer}\n[[job]]\n{job}\n"), options)
}

fn play(scenario: &Scenario) -> Result<Summary, RunError> {
    let (mut progress, interrupt) = (Progress::hidden(), Interrupt::default());
    Ok(run(scenario, Session { progress: &mut progress, interrupt: &interrupt })?.summary)
}

/// What a run is apart from the name of its method.
fn figures(mut summary: Summary) -> Summary {
    summary.policies.clear();
    summary.notes.retain(|note| !note.contains("payloads cross by "));
    if let Some(transfer) = &mut summary.transfer {
        transfer.method.clear();
    }
    summary
}

fn ways(summary: &Summary) -> Vec<(&str, u64)> {
    let transfer = summary.transfer.as_ref().expect("a sink says how payloads crossed");
    transfer.ways.iter().map(|row| (row.way.as_str(), row.payloads)).collect()
}

const MIXED: &str = "rw = 'randrw'\nbsrange = '1-4k'\ncount = 3000\niodepth = 8\nnumjobs = 2\nverify = true";

// `adaptive` by other code must be `adaptive` to the last figure: if not, a method of one's own is measured with what the seam costs.
#[test]
fn a_method_that_chooses_as_adaptive_gives_its_run() {
    let by_size: Choose = |below, view| if view.bytes() < below { INLINE } else { view.pointer() };
    let options = program("1.2", &[DriveExtension::Inline], by_size);
    let of_block = |transfer: &str| {
        let job = "[[job]]\nrw = 'randwrite'\nbssplit = '512 B/50:4 KiB/50'\ncount = 500\niodepth = 4\n";
        let drive = "[drive]\nprofile = 'cosmos-plus'\ncapacity = '1 GiB'\nlba_size = '512 B'\n";
        parse(&format!("{drive}[host]\nprofile = 'cosmos'\n[transfer]\n{transfer}\n{job}"), &options)
    };
    for below in [64, 1025] {
        let adaptive = format!("method = 'adaptive'\nthreshold = '{below} B'");
        let own = format!("method = 'own:{below}'");
        let of_sink = |transfer: &str| sink(transfer, MIXED, &options);
        for (adaptive, own) in [(of_sink(&adaptive), of_sink(&own)), (of_block(&adaptive), of_block(&own))] {
            let (adaptive, own) = (play(&adaptive.unwrap()).unwrap(), play(&own.unwrap()).unwrap());
            let [row] = &own.policies[..] else { panic!("{:?}", own.policies) };
            assert_eq!(
                (row.key.as_str(), row.name.as_str(), row.hash.as_str()),
                ("transfer.method", format!("own:{below}").as_str(), "1.2")
            );
            let note = format!("payloads cross by `own:{below}` (version 1.2), which is not built in");
            assert!(own.notes.contains(&note), "{:?}", own.notes);
            assert_eq!(own.transfer.as_ref().map(|transfer| transfer.method.clone()), Some(row.name.clone()));
            assert!(adaptive.policies.is_empty());
            assert_eq!(figures(own), figures(adaptive), "{below}");
        }
    }
}

// A built-in method behind the seam must be that method, so that a user can begin with one and change it.
#[test]
fn a_built_in_method_behind_the_seam_is_itself() {
    let of = |method: Method| {
        let make =
            move |_: Option<&str>| Ok(Box::new(Wrapped(Rules::only(method))) as Box<dyn TransferMethod>);
        let methods = TransferMethods::default().with_method("own", "As built in.", "1", make);
        Options { methods, ..Options::default() }
    };
    struct Wrapped(Rules);
    impl TransferMethod for Wrapped {
        fn needs(&self) -> &'static [DriveExtension] {
            self.0.method.entry().needs
        }
        fn choose(&mut self, view: &mut PayloadView<'_>) -> TransferKind {
            self.0.choose(view)
        }
    }
    for method in
        [Method::Inline, Method::InlineReassembly, Method::Hybrid, Method::Mmio, Method::PiggybackPipelined]
    {
        let options = of(method);
        let job = MIXED.replace("4k", "5k");
        let own = play(&sink("method = 'own'", &job, &options).unwrap()).unwrap();
        let built_in =
            play(&sink(&format!("method = '{}'", method.name()), &job, &options).unwrap()).unwrap();
        // What it can't carry, such as without a free area of the buffer, is its choice here, and no fallback.
        let uncounted = |mut summary: Summary| {
            if let Some(transfer) = &mut summary.transfer {
                transfer.fallbacks = 0;
            }
            figures(summary)
        };
        assert_eq!(uncounted(own), uncounted(built_in), "{}", method.name());
    }
}

// What a method sees of the queue has to be the queue's, or a switch by depth is none.
#[test]
fn a_method_switches_by_what_is_in_flight() {
    let by_depth: Choose =
        |most, view| if view.in_flight() < most && view.entries_free() > 8 { INLINE } else { view.pointer() };
    let options = program("1", &[DriveExtension::Inline], by_depth);
    let job = |iodepth: u32| format!("rw = 'randwrite'\nbs = '200 B'\ncount = 1000\niodepth = {iodepth}");
    let alone = play(&sink("method = 'own:2'", &job(1), &options).unwrap()).unwrap();
    assert_eq!(ways(&alone), [("inline", 1000)]);
    let many = play(&sink("method = 'own:2'", &job(16), &options).unwrap()).unwrap();
    let [("prp", by_prp), ("inline", inline)] = ways(&many)[..] else { panic!("{:?}", ways(&many)) };
    assert!(by_prp > 0 && inline > 0 && by_prp + inline == 1000, "{by_prp} {inline}");
}

// A payload in two parts must arrive in one piece, wherever it is cut.
#[test]
fn a_payload_may_be_split_anywhere() {
    let split: Choose = |_, view| {
        let before = 1 + view.random_below(u64::from(view.bytes()) - 1) as u32;
        TransferKind::Hybrid { before }
    };
    let options = program("1", &[DriveExtension::InlineTail], split);
    let job = "rw = 'randrw'\nbsrange = '2-8k'\ncount = 3000\niodepth = 8\nverify = true";
    let scenario = sink("method = 'own:9000'", job, &options).unwrap();
    let found = play(&scenario).unwrap();
    assert_eq!((found.errors.len(), found.verification.mismatches), (0, 0));
    assert!(found.verification.reads > 0, "nothing was verified");
    let ways = ways(&found);
    assert_eq!(ways[0].0, "hybrid");
    // Its random numbers are the scenario's.
    assert_eq!(figures(play(&scenario).unwrap()), figures(found.clone()));
}

// A choice that isn't possible must not become another one: the figures would be of neither.
#[test]
fn a_wrong_choice_ends_the_run_and_names_the_method() {
    let wrong: [(Choose, &str); 5] = [
        (|_, _| TransferKind::Mmio, "it chose mmio for a payload of 200 B: the queue is not enabled for it"),
        (|_, _| TransferKind::Pointer(PointerKind::Sgl), "it chose sgl for a payload of 200 B: SGLs"),
        (|_, _| TransferKind::Hybrid { before: 200 }, "it chose hybrid for a payload of 200 B: 200 B before"),
        (|_, _| TransferKind::Refused, "it refused a payload of 200 B"),
        (|_, view| panic!("no way for {} B", view.bytes()), "it panicked: no way for 200 B"),
    ];
    let job = "rw = 'randwrite'\nbs = '200 B'\ncount = 1000\niodepth = 4\nnumjobs = 2";
    let says = |found: Result<Summary, RunError>| match found {
        Err(RunError::TransferMethod(fault)) => fault,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it ran"),
    };
    for (choose, reason) in wrong {
        let options = program("1", &[DriveExtension::Inline], choose);
        let fault = says(play(&sink("method = 'own:1'", job, &options).unwrap()));
        let expected = format!("the transfer method `own:1` failed: {reason}");
        assert!(fault.starts_with(&expected), "{fault}");
        // The same for blocks, and for key-value pairs.
        let pairs = "[drive]\nprofile = 'cosmos-plus'\ncapacity = '1 GiB'\npersonality = 'kv'\n[[kv]]\nworkload = 'fillrandom'\nvalue = '200 B'\ncount = 100\n";
        let fault = says(play(&parse(&format!("{pairs}[transfer]\nmethod = 'own:1'\n"), &options).unwrap()));
        assert!(fault.starts_with(&expected), "{fault}");
    }
    let late: Choose = |_, view| if view.now_ns() > 100_000 { TransferKind::CxlMem } else { INLINE };
    let fault =
        says(play(&sink("method = 'own:1'", job, &program("1", &[DriveExtension::Inline], late)).unwrap()));
    assert!(fault.contains("it chose cxl-mem"), "{fault}");
}

// What can be known before the run must be said before it, with its place.
#[test]
fn what_cannot_be_is_refused_with_its_place() {
    let pointer: Choose = |_, view| view.pointer();
    let job = "rw = 'randwrite'\nbs = '200 B'\ncount = 10";
    let refused = |transfer: &str, needs, says: &str, help: &str| {
        let error = sink(transfer, job, &program("1", needs, pointer)).unwrap_err();
        let shown = error.to_string();
        assert!(error.what.contains(says) && error.help.contains(help), "{shown}");
        assert!(shown.contains("test.toml:"), "{shown}");
    };
    refused(
        "method = 'owm:1'",
        &[],
        "`transfer.method`: `owm:1` is not one of the choices",
        "did you mean `own`?",
    );
    refused("method = 'own'", &[], "`transfer.method` = `own` needs a number", "own:128");
    refused("method = 'inline:1'", &[], "`inline:1` is not one of the choices", "`inline`");
    refused("method = 'own:1'\nfine = 'inline'", &[], "has no effect with `method = \"own:1\"`", "adaptive");
    refused("method = 'own:1'\nalpha = 2.0", &[], "has no effect", "adaptive");
    refused("method = 'own:1'\nordering = 'flush'", &[], "has no effect with `own:1`", "cxl-mem");
    let cxl: &[DriveExtension] = &[DriveExtension::CxlMem];
    refused(
        "method = 'own:1'",
        cxl,
        "`transfer.method` = own:1 needs `cxl-mem`, which the drive",
        "such memory",
    );
    let none = sink("method = 'own:1'", job, &Options::default()).unwrap_err();
    assert!(none.what.contains("`own:1` is not one of the choices") && none.help.contains("`prp`"), "{none}");
    let blocks = round("", "[transfer]\nmethod = 'own:1'\n[[job]]\nrw = 'randwrite'\ncount = 10\n");
    let error = parse(&blocks, &program("1", &[DriveExtension::Piggyback], pointer)).unwrap_err();
    assert!(error.what.contains("blocks have no field in which their payload could be"), "{error}");
}

// Results that are kept must not be taken for those of another version of a method, or of another build of its program.
#[test]
fn another_version_is_another_method() {
    let pointer: Choose = |_, view| view.pointer();
    let of = |method: &str, options: &Options| {
        let job = "rw = 'randwrite'\nbs = '200 B'\ncount = 10";
        fingerprint(&sink(&format!("method = '{method}'"), job, options).unwrap()).unwrap()
    };
    let program = |version: &str| program(version, &[], pointer);
    let built = |build: &str| {
        let options = program("1");
        Options { methods: options.methods.clone().with_build(build.into()), ..options }
    };
    assert_eq!(of("own:1", &program("1")), of("own:1", &program("1")));
    assert_ne!(of("own:1", &program("1")), of("own:1", &program("2")));
    assert_ne!(of("own:1", &program("1")), of("own:2", &program("1")));
    assert_ne!(of("own:1", &program("1")), of("own:1", &built("b")));
    assert_eq!(of("own:1", &built("b")), of("own:1", &built("b")));
    assert_ne!(of("own:1", &program("1")), of("prp", &program("1")));
}

// An editor knows of a method what the schema says; without methods the schema is every program's.
#[test]
fn the_schema_names_methods() {
    let schema = scenario_schema_with(&program("1", &[], |_, view| view.pointer()));
    let of_own =
        |method: &serde_json::Value| method["const"] == "own" && method["description"] == "By a function.";
    assert!(schema["$defs"]["TransferMethod"]["oneOf"].as_array().unwrap().iter().any(of_own));
    assert!(!scenario_schema().to_string().contains("\"own\""));
}
