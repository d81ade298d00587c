//! The libraries as a binding for another language uses them: a scenario is a string, progress goes to a callback, and the result is data
//! or an error that is matched, not parsed. No terminal, no signals, no files.

use byteway_results::results::Results;
use byteway_run::error::RunError;
use byteway_run::run::{Session, run};
use byteway_scenario::{Options, Scenario};
use byteway_text::error::InputError;
use byteway_text::interrupt::Interrupt;
use byteway_text::progress::{Bar, Bars, Goal, Hidden, Progress};
use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;

const SMALL: &str = "[drive]\nprofile = 'samsung-970-pro'\n[[job]]\nrw = 'randread'\ncount = 3000\n";

fn read(text: &str) -> Result<Scenario, InputError> {
    Scenario::from_text("binding.toml", Path::new(""), text, &Options::default())
}

fn play(scenario: &Scenario, bars: &dyn Bars, interrupt: &Interrupt) -> Result<Results, RunError> {
    let mut progress = Progress::new(bars, "", scenario.command_count(), scenario.runtime());
    run(scenario, Session { progress: &mut progress, interrupt })
}

/// A caller that counts progress.
#[derive(Clone, Debug, Default)]
struct Calls(Rc<Cell<u64>>);

impl Bars for Calls {
    fn bar(&self, _what: &'static str, goal: Goal, length: Option<u64>) -> Option<Box<dyn Bar>> {
        assert_eq!((goal, length), (Goal::Commands, Some(3000)));
        Some(Box::new(self.clone()))
    }
}

impl Bar for Calls {
    fn show(&self, position: u64, _counted: u64) {
        assert!((1..=3000).contains(&position));
        self.0.set(self.0.get() + 1);
    }

    fn finish(&self) {}
}

// Results must not depend on whether and how progress is observed.
#[test]
fn a_string_becomes_results_whoever_looks_on() {
    let scenario = read(SMALL).unwrap();
    let calls = Calls::default();
    let seen = play(&scenario, &calls, &Interrupt::default()).unwrap();
    let unseen = play(&scenario, &Hidden, &Interrupt::default()).unwrap();
    assert!(calls.0.get() >= 2, "{}", calls.0.get());
    assert_eq!((seen.summary.ios, seen.summary.partial), (3000, false));
    assert_eq!(seen.summary.verification.mismatches, 0);
    assert_eq!(seen.summary.to_json(), unseen.summary.to_json());
}

// An error that is only text would force a binding to parse it.
#[test]
fn wrong_input_an_impossible_drive_and_an_interruption_are_told_apart() {
    let wrong = read(&SMALL.replace("randread", "randreed")).unwrap_err();
    let place = wrong.place.expect("it stands somewhere");
    assert_eq!(place.position.map(|(line, _)| line), Some(4));

    let mut impossible = read(SMALL).unwrap();
    impossible.drives[0].plan.profile.drive.model = "longer than the field of Identify Controller".to_owned();
    let refused = play(&impossible, &Hidden, &Interrupt::default()).map(|_| ()).unwrap_err();
    assert!(matches!(refused, RunError::NotBuilt(_)), "{refused:?}");
    assert!(refused.wrong_input().is_none());

    let interrupt = Interrupt::default();
    interrupt.raise();
    let partial = play(&read(SMALL).unwrap(), &Hidden, &interrupt).unwrap();
    assert!(partial.summary.partial);
}
