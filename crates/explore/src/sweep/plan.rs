//! A sweep under way: points that are asked for, and their rows.

use super::cache::PointCache;
use super::row::{Row, RowStatus};
use super::search::{Choice, POINTS_MAX, Search};
use super::space::Space;
use super::task::{Origin, Ran, Task};
use crate::compare::fingerprint;
use byteway_run::probe::PointOutcome;
use byteway_scenario::Options;
use byteway_text::error::InputError;

/// A sweep. Ask for [`next`](Sweep::next) points, run them anywhere and in any order, [`tell`](Sweep::tell) their rows, and ask again.
pub struct Sweep {
    space: Space,
    search: Box<dyn Search>,
    points: Vec<Point>,
    /// Points that came from the cache, and that were run.
    kept: usize,
    ran: usize,
    /// Of those that were run, results that the cache could not take.
    unkept: usize,
}

/// A point that the search chose.
struct Point {
    choice: Choice,
    row: Option<Row>,
    /// How often it may be run again.
    retries: u32,
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
    /// A sweep of a space.
    ///
    /// # Errors
    /// The search does not fit the varied keys.
    pub fn new(space: Space) -> Result<Sweep, InputError> {
        let search = space.start()?;
        Ok(Sweep { space, search, points: Vec::new(), kept: 0, ran: 0, unkept: 0 })
    }

    /// The next points to run; empty at the end, and while rows are missing. Those in the cache need not be run, and are not returned.
    ///
    /// # Errors
    /// A point's scenario is invalid.
    pub fn next(&mut self, cache: Option<&PointCache>) -> Result<Vec<Task>, InputError> {
        loop {
            if self.points.iter().any(|point| point.row.is_none()) {
                return Ok(Vec::new());
            }
            let choices = self.search.next(&self.rows());
            if choices.is_empty() {
                return Ok(Vec::new());
            }
            let first = self.points.len();
            assert!(first + choices.len() <= POINTS_MAX, "a search has a limit of points");
            let retries = self.space.search.retries;
            self.points.extend(choices.into_iter().map(|choice| Point { choice, row: None, retries }));
            let mut tasks = Vec::new();
            for index in first..self.points.len() {
                let scenario = self.space.scenario(&self.points[index].choice)?;
                let found = match cache {
                    Some(cache) => cache.get(&fingerprint(&scenario)?),
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
            if !tasks.is_empty() {
                return Ok(tasks);
            }
        }
    }

    /// The task of a point.
    ///
    /// # Errors
    /// The scenario's file can no longer be read.
    ///
    /// # Panics
    /// There is no such point.
    pub fn task(&self, index: usize) -> Result<Task, InputError> {
        let sets = self.space.sets(&self.points[index].choice);
        Task::new(index, &self.space.input, &Options { sets, ..self.space.options.clone() })
    }

    /// Points without a row, by their numbers.
    pub fn missing(&self) -> Vec<usize> {
        (0..self.points.len()).filter(|at| self.points[*at].row.is_none()).collect()
    }

    /// Takes the row of a point. A second row of the same point is dropped: where workers die, a point may be run twice.
    pub fn tell(&mut self, ran: Ran) -> Answer {
        let Some(point) = self.points.get_mut(ran.index).filter(|point| point.row.is_none()) else {
            return Answer::Taken;
        };
        if ran.row.status == RowStatus::Failed && point.retries > 0 {
            point.retries -= 1;
            return Answer::Again;
        }
        // An interrupt ended it: it is as if it had not been begun.
        let was_run = ran.row.status != RowStatus::NotRun;
        point.row = Some(ran.row.with_name(self.space.named(&point.choice)));
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
        self.points.iter().any(|point| point.row.as_ref().is_none_or(|row| row.status == RowStatus::NotRun))
    }

    /// Points chosen so far, those that came from the cache, and those that were run.
    pub fn counts(&self) -> (usize, usize, usize) {
        (self.points.len(), self.kept, self.ran)
    }

    /// Number of results that the cache could not take: a later sweep runs their points again.
    pub fn unkept(&self) -> usize {
        self.unkept
    }

    /// Number of failed points.
    pub fn failed(&self) -> usize {
        let is_failed =
            |point: &&Point| point.row.as_ref().is_some_and(|row| row.status == RowStatus::Failed);
        self.points.iter().filter(is_failed).count()
    }

    /// The space.
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// The values of each point.
    pub(super) fn choices(&self) -> Vec<&Choice> {
        self.points.iter().map(|point| &point.choice).collect()
    }

    /// The rows of all points chosen so far; those without one yet count as not run.
    pub fn rows(&self) -> Vec<Row> {
        let row = |point: &Point| {
            let name = || self.space.named(&point.choice);
            point.row.clone().unwrap_or_else(|| Row::not_run().with_name(name()))
        };
        self.points.iter().map(row).collect()
    }

    /// What was found, in a sentence; `None` while rows are missing, or if no point has figures.
    pub fn found(&self) -> Option<String> {
        if self.is_partial() { None } else { self.search.found(&self.rows()) }
    }
}
