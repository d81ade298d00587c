//! A sweep under way: points that are asked for, and their rows.

use super::cache::PointCache;
use super::row::{Row, RowStatus};
use super::search::{Choice, POINTS_MAX, Search};
use super::space::Space;
use super::task::{Origin, Ran, Task};
use crate::compare::fingerprint;
use crate::replicate::{Repeat, with_seed};
use byteway_run::probe::PointOutcome;
use byteway_scenario::Options;
use byteway_text::error::InputError;

/// A sweep. Ask for [`next`](Sweep::next) points, run them anywhere and in any order, [`tell`](Sweep::tell) their rows, and ask again.
pub struct Sweep {
    space: Space,
    repeat: Repeat,
    search: Box<dyn Search>,
    points: Vec<Point>,
    /// Runs that came from the cache, and others.
    kept: usize,
    ran: usize,
    /// Of those that were run, results that the cache could not take.
    unkept: usize,
}

/// A point that the search chose.
struct Point {
    choice: Choice,
    replicates: Vec<Replicate>,
}

/// A run of a point.
struct Replicate {
    seed: u64,
    row: Option<Row>,
    /// How often it may be run again.
    retries: u32,
}

impl Point {
    /// Its row; a replicate without one yet counts as not run.
    fn row(&self) -> Row {
        let row = |one: &Replicate| (one.seed, one.row.clone().unwrap_or_else(Row::not_run));
        Row::joined(self.replicates.iter().map(row).collect())
    }

    fn is_partial(&self) -> bool {
        self.replicates.iter().any(|one| one.row.as_ref().is_none_or(|row| row.status == RowStatus::NotRun))
    }
}

/// What became of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is the point's row.
    Taken,
    /// The point failed, and is to be run again.
    Again,
}

impl Sweep {
    /// A sweep of a space, with as many runs of each point.
    ///
    /// # Errors
    /// The search does not fit the varied keys.
    pub fn new(space: Space, repeat: Repeat) -> Result<Sweep, InputError> {
        let search = space.start()?;
        Ok(Sweep { space, repeat, search, points: Vec::new(), kept: 0, ran: 0, unkept: 0 })
    }

    /// A run by its number: those of the first point come first.
    fn replicate(&self, number: usize) -> Option<&Replicate> {
        let count = self.repeat.count();
        self.points.get(number / count)?.replicates.get(number % count)
    }

    fn is_missing(&self, number: usize) -> bool {
        self.replicate(number).is_some_and(|one| one.row.is_none())
    }

    /// The next runs; none at the end, and while rows are missing. Those in the cache need not be run, and are not returned.
    ///
    /// # Errors
    /// A point's scenario is invalid, or there are too many runs.
    pub fn next(&mut self, cache: Option<&PointCache>) -> Result<Vec<Task>, InputError> {
        loop {
            if !self.missing().is_empty() {
                return Ok(Vec::new());
            }
            let choices = self.search.next(&self.rows());
            if choices.is_empty() {
                return Ok(Vec::new());
            }
            let first = self.points.len();
            assert!(first + choices.len() <= POINTS_MAX, "a search has a limit of points");
            let runs = (first + choices.len()) * self.repeat.count();
            if runs > POINTS_MAX {
                let what = format!(
                    "{} points of {} replicates are more than {POINTS_MAX} runs",
                    first + choices.len(),
                    self.repeat.count()
                );
                return Err(InputError::new(what, "ask for fewer points or replicates"));
            }
            let retries = self.space.search.retries;
            let mut tasks = Vec::new();
            for choice in choices {
                let scenario = self.space.scenario(&choice)?;
                let seeds = self.repeat.seeds(scenario.seed);
                let one = |seed: &u64| Replicate { seed: *seed, row: None, retries };
                self.points.push(Point { choice, replicates: seeds.iter().map(one).collect() });
                let number = (self.points.len() - 1) * self.repeat.count();
                for (index, seed) in (number..).zip(seeds) {
                    let found = match cache {
                        Some(cache) => cache.get(&fingerprint(&with_seed(&scenario, seed))?),
                        None => None,
                    };
                    match found {
                        Some(found) => {
                            let row = Row::of(&PointOutcome::Done(Box::new(found)));
                            self.tell(Ran { index, row, origin: Origin::Cache });
                        }
                        None => tasks.push(self.task(index)?),
                    }
                }
            }
            if !tasks.is_empty() {
                return Ok(tasks);
            }
        }
    }

    /// The task of a run.
    ///
    /// # Errors
    /// The scenario's file can no longer be read.
    ///
    /// # Panics
    /// There is no such run.
    pub fn task(&self, index: usize) -> Result<Task, InputError> {
        let (point, replicate) = (index / self.repeat.count(), index % self.repeat.count());
        let Point { choice, replicates } = &self.points[point];
        let mut sets = self.space.sets(choice);
        // The first has the scenario's own.
        if replicate > 0 {
            sets.push(format!("seed={}", replicates[replicate].seed));
        }
        Task::new(index, &self.space.input, &Options { sets, ..self.space.options.clone() })
    }

    /// Runs without a row, by their numbers.
    pub fn missing(&self) -> Vec<usize> {
        let runs = self.points.len() * self.repeat.count();
        (0..runs).filter(|number| self.is_missing(*number)).collect()
    }

    /// Takes the row of a run. A second row of the same run is dropped: where workers die, it may have been run twice.
    pub fn tell(&mut self, ran: Ran) -> Answer {
        let count = self.repeat.count();
        let point = self.points.get_mut(ran.index / count);
        let replicate = point.and_then(|point| point.replicates.get_mut(ran.index % count));
        let Some(replicate) = replicate.filter(|one| one.row.is_none()) else {
            return Answer::Taken;
        };
        if ran.row.status == RowStatus::Failed && replicate.retries > 0 {
            replicate.retries -= 1;
            return Answer::Again;
        }
        // An interrupt ended it: it is as if it had not been begun.
        let was_run = ran.row.status != RowStatus::NotRun;
        replicate.row = Some(ran.row);
        match ran.origin {
            _ if !was_run => {}
            Origin::Cache => self.kept += 1,
            Origin::Run => self.ran += 1,
            Origin::Unkept => {
                self.ran += 1;
                self.unkept += 1;
            }
        }
        Answer::Taken
    }

    /// Whether rows are missing.
    pub fn is_partial(&self) -> bool {
        self.points.iter().any(Point::is_partial)
    }

    /// Runs of each point.
    pub fn repeat(&self) -> Repeat {
        self.repeat
    }

    /// Points chosen so far, runs of them that came from the cache, and others.
    pub fn counts(&self) -> (usize, usize, usize) {
        (self.points.len(), self.kept, self.ran)
    }

    /// Number of results that the cache could not take: a later sweep runs their points again.
    pub fn unkept(&self) -> usize {
        self.unkept
    }

    /// Number of failed points.
    pub fn failed(&self) -> usize {
        let is_failed = |point: &&Point| point.row().status == RowStatus::Failed;
        self.points.iter().filter(is_failed).count()
    }

    /// The space.
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// The seeds of each point's replicates.
    pub(super) fn seeds(&self) -> impl Iterator<Item = Vec<u64>> {
        self.points.iter().map(|point| point.replicates.iter().map(|one| one.seed).collect())
    }

    /// The values of each point.
    pub(super) fn choices(&self) -> Vec<&Choice> {
        self.points.iter().map(|point| &point.choice).collect()
    }

    /// The rows of all points chosen so far; those without one yet count as not run.
    pub fn rows(&self) -> Vec<Row> {
        self.points.iter().map(|point| point.row().with_name(self.space.named(&point.choice))).collect()
    }

    /// What was found, in a sentence; `None` while rows are missing, or if no point has figures.
    pub fn found(&self) -> Option<String> {
        if self.is_partial() { None } else { self.search.found(&self.rows()) }
    }
}
