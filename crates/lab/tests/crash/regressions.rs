//! What a swarm has found once: each a plan, made smaller, with what was wrong.

use byteway_lab::fuzz::plan::Plan;
use byteway_lab::fuzz::swarm::run_caught;

macro_rules! plans {
    ($($(#[doc = $wrong:literal])+ $name:ident = $file:literal;)+) => {$(
        $(#[doc = $wrong])+
        #[test]
        fn $name() {
            check(include_str!(concat!("plans/", $file, ".toml")));
        }
    )+};
}

fn check(plan: &str) {
    let plan = Plan::from_toml(plan).expect("a plan in the repository is a plan");
    if let Some(failure) = run_caught(&plan).failure {
        panic!("{failure}");
    }
}

plans! {
    /// A trim dropped from the buffer what a flush beside it waited for; the flush ended, the trim was not durable yet, and
    /// after the cut there was neither.
    a_trim_beside_a_flush = "trim-beside-flush";
    /// The same, with several of each.
    trims_beside_flushes = "trims-beside-flushes";
    /// A purge waited for ever for superblocks that nobody closed.
    a_sanitize_that_never_ended = "sanitize-never-ends";
    /// An abort that was still on its way met the flush at the run's end, which was taken for a failure of the drive.
    an_abort_that_met_the_last_flush = "an-abort-that-meets-the-last-flush";
}
