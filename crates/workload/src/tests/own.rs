//! Sources that are not built in: what they see, and that nothing they do reaches a drive unchecked.

use super::*;
use crate::own::{
    MadeSource, Operation, OwnPlan, UnknownSource, WorkloadSource, WorkloadSources, WorkloadView,
};
use byteway_policy::WrongArgument;

/// Asks for what a function says.
struct Asks<F>(F);

impl<F: FnMut(&mut WorkloadView<'_>) -> Option<Operation>> WorkloadSource for Asks<F> {
    fn next(&mut self, view: &mut WorkloadView<'_>) -> Option<Operation> {
        (self.0)(view)
    }
}

fn boxed(next: impl FnMut(&mut WorkloadView<'_>) -> Option<Operation> + 'static) -> MadeSource {
    Ok(Box::new(Asks(next)))
}

fn plan(settings: JobSettings, make: impl Fn(Option<&str>) -> MadeSource + Send + Sync + 'static) -> JobPlan {
    let sources = WorkloadSources::default().with_source("own", "", "1", make);
    let source = sources.find("own").unwrap();
    JobPlan { settings, source: Source::Own(OwnPlan { source, ends: false, blocks_max: 64, trims: true }) }
}

fn read(first: u64, blocks: u32) -> Operation {
    Operation { kind: Kind::Read, first, blocks }
}

// A source that sees another range than its worker's, or another worker's random numbers, asks for something else than its author thinks.
#[test]
fn each_worker_sees_its_own_range_and_numbers() {
    let random = |_: Option<&str>| {
        boxed(|view| {
            assert_eq!((view.blocks(), view.block_bytes(), view.blocks_max()), (32, 4096, 64));
            let first = view.random_below(32) / 2 * 2;
            Some(read(first + u64::from(view.worker()) % 2, 1))
        })
    };
    let shared = JobSettings { workers: 3, range_blocks: 32, ..settings() };
    let apart = JobSettings { stride_blocks: Some(100), ..shared.clone() };
    let of = |settings: &JobSettings, worker| ios(&plan(settings.clone(), random), worker);
    for worker in 0..3 {
        let ios = of(&apart, worker);
        assert_eq!(ios.len(), if worker == 0 { 334 } else { 333 }, "its share of the count");
        let begin = 1000 + 100 * u64::from(worker);
        assert!(ios.iter().all(|io| (begin..begin + 32).contains(&io.lba)));
        let same = of(&shared, worker);
        assert!(ios.iter().zip(&same).all(|(io, other)| io.lba - begin == other.lba - 1000));
        assert!(ios.iter().all(|io| io.lba % 2 == u64::from(worker % 2)), "it knows its number");
        assert_eq!(ios, of(&apart, worker), "the same each time");
    }
    let lbas = |worker: u32| of(&shared, worker).iter().map(|io| io.lba).collect::<Vec<_>>();
    assert_ne!(lbas(0), lbas(2));
    let another: Vec<_> = Generator::new(&plan(shared.clone(), random), 0, &Rng::new(2)).unwrap().collect();
    assert_ne!(another.iter().map(|io| io.lba).collect::<Vec<_>>(), lbas(0), "another seed");
}

// The job's limits and times are as for drawn I/Os: a source can't forget them.
#[test]
fn count_bytes_and_rate_are_the_jobs() {
    let two = |_: Option<&str>| boxed(|_| Some(read(0, 2)));
    let bytes = JobSettings { count: None, io_bytes: Some(10 * 4096), workers: 2, ..settings() };
    assert_eq!(ios(&plan(bytes.clone(), two), 0).len(), 3, "5 blocks: the last I/O may exceed them");
    assert_eq!(plan(bytes, two).command_count(), None);
    let open = Issue::Open { rate_iops: 1000, arrival: Arrival::Fixed };
    let rated = JobSettings { issue: open, count: Some(3), ..settings() };
    let at: Vec<_> = ios(&plan(rated.clone(), two), 0).iter().map(|io| io.at).collect();
    assert_eq!(at, [Some(0), Some(1_000_000_000), Some(2_000_000_000)]);
    assert_eq!(plan(rated, two).command_count(), Some(3));
}

// Asked again after its end, a source that counts down would wrap.
#[test]
fn a_source_that_ends_is_not_asked_again() {
    let five = |_: Option<&str>| {
        let mut left = 5u64;
        boxed(move |_| {
            left = left.checked_sub(1).or_else(|| panic!("asked again")).filter(|left| *left > 0)?;
            Some(read(left, 1))
        })
    };
    let plan = plan(settings(), five);
    let mut generator = Generator::new(&plan, 0, &Rng::new(1)).unwrap();
    assert_eq!(generator.by_ref().count(), 4);
    assert!(generator.next().is_none() && generator.next().is_none() && generator.error().is_none());
}

// A drive would fail such an I/O, another job's data would be overwritten, or a number would wrap: with figures as if nothing were wrong.
#[test]
fn an_operation_that_must_not_be_ends_the_job_with_its_reason() {
    let of = |kind, first, blocks| Operation { kind, first, blocks };
    let edge = [of(Kind::Read, 0, 64), of(Kind::Write, 63, 1), of(Kind::Trim, 0, 64)];
    for (wrong, says) in [
        (of(Kind::Read, 0, 0), "a read of 0 blocks"),
        (of(Kind::Write, 60, 5), "a write of 5 blocks from block 60 on, and its range has 64"),
        (of(Kind::Trim, u64::MAX, 1), "from block 18446744073709551615 on, and its range has 64"),
        (of(Kind::Read, u64::MAX - 1, 2), "and its range has 64"),
        (of(Kind::Read, 0, 65), "a read of 65 blocks, and 64 are the most"),
    ] {
        let plan = plan(settings(), move |_| {
            let mut all = edge.into_iter().chain([wrong, edge[0]]);
            boxed(move |_| all.next())
        });
        let mut generator = Generator::new(&plan, 0, &Rng::new(1)).unwrap();
        assert_eq!(generator.by_ref().count(), 3, "what may be, and nothing after what may not");
        let error = generator.error().unwrap().to_string();
        assert!(
            error.contains("the source `own` failed at operation 4 of worker 0") && error.contains(says),
            "{error}"
        );
        assert!(generator.next().is_none());
    }
    let panics = plan(settings(), |_| boxed(|view| Some(read(view.random_below(0), 1))));
    let mut generator = Generator::new(&panics, 0, &Rng::new(1)).unwrap();
    assert!(generator.next().is_none() && generator.next().is_none());
    assert!(
        generator.error().unwrap().what.contains("it panicked: a draw below 0"),
        "{:?}",
        generator.error()
    );
}

// A wrong argument has to show when the scenario is read, not when a worker begins.
#[test]
fn names_and_arguments_are_told_apart() {
    let make = |argument: Option<&str>| match argument {
        Some("a:b") | None => boxed(|_| None),
        Some("panic") => panic!("on purpose"),
        _ => Err(WrongArgument { what: "needs a:b".into(), help: "write it".into() }),
    };
    let sources = WorkloadSources::default().with_source("own", "What it does.", "1.2", make);
    let found = sources.find("own:a:b").unwrap();
    assert_eq!((found.name(), found.hash()), ("own:a:b", Some("1.2")));
    assert!(found.made().is_ok());
    assert_eq!(sources.find("owm").unwrap_err(), UnknownSource::Name);
    assert!(
        matches!(sources.find("own:c"), Err(UnknownSource::Argument(wrong)) if wrong.what == "needs a:b")
    );
    assert!(
        matches!(sources.find("own:panic"), Err(UnknownSource::Argument(wrong)) if wrong.what == "panicked: on purpose")
    );
    assert_eq!(sources.each().collect::<Vec<_>>(), [("own", "What it does.")]);
    let built = sources.clone().with_build("b".to_owned());
    assert!(built.find("own").unwrap() != sources.find("own").unwrap(), "another build is another source");
    assert_eq!(sources.find("own").unwrap(), sources.find("own").unwrap());
}
