//! Queries of a job.

use super::place::QueryPlace;
use crate::settings::JobSettings;
use crate::source_kind::SourceKind;
use byteway_query::Task;

/// A query as it is sent to the drive.
#[derive(Clone, Debug, PartialEq)]
pub struct QueryTask {
    /// The parsed task. `Err` holds form and text of a query that is not a task for the drive as a whole.
    pub task: Result<Task, (byteway_query::Form, Vec<u8>)>,
}

impl QueryTask {
    /// Form of the payload.
    pub fn form(&self) -> byteway_query::Form {
        match &self.task {
            Ok(task) => task.form(),
            Err((form, _)) => *form,
        }
    }

    /// Payload of the task.
    pub fn payload(&self) -> &[u8] {
        match &self.task {
            Ok(task) => task.to_bytes(),
            Err((_, bytes)) => bytes,
        }
    }
}

/// Queries of a job, resolved and checked.
#[derive(Clone, Debug, PartialEq)]
pub struct QueryPlan {
    /// The queries, at least one; the job cycles through them.
    pub tasks: Vec<QueryTask>,
    /// Where they are executed.
    pub place: QueryPlace,
    /// Frequency of the host's processors in Hz, for queries that the host executes.
    pub host_hertz: u64,
}

impl QueryPlan {
    /// Default settings: one worker, one outstanding query.
    pub fn settings(&self, name: &str) -> JobSettings {
        JobSettings { transfer_blocks_max: self.task_bytes_max(), ..JobSettings::plain(name) }
    }

    /// Length of the longest query, in bytes.
    pub fn task_bytes_max(&self) -> u32 {
        self.tasks.iter().map(|task| task.payload().len() as u32).max().unwrap_or(0)
    }
}

impl SourceKind for Box<QueryPlan> {
    fn command_count(&self, job: &JobSettings) -> Option<u64> {
        job.count
    }

    fn lengths(&self, _: &JobSettings) -> String {
        match self.tasks.len() {
            1 => format!("a query of {} B", self.task_bytes_max()),
            count => format!("{count} queries of up to {} B", self.task_bytes_max()),
        }
    }

    fn has_verbs(&self) -> bool {
        false
    }
}

/// Query sequence of a worker. Workers divide the job's count, so the number of workers does not change which
/// queries are executed.
#[derive(Clone, Debug)]
pub struct QueryTurns {
    next: u64,
    step: u64,
    end: u64,
    tasks: u64,
}

impl QueryTurns {
    /// Sequence of `worker`, counted from 0.
    pub fn new(job: &JobSettings, plan: &QueryPlan, worker: u32) -> QueryTurns {
        QueryTurns {
            next: worker.into(),
            step: job.workers.max(1).into(),
            end: job.count.unwrap_or(u64::MAX),
            tasks: plan.tasks.len().max(1) as u64,
        }
    }
}

impl Iterator for QueryTurns {
    /// Number of the query in the job, and index of its task.
    type Item = (u64, usize);

    fn next(&mut self) -> Option<(u64, usize)> {
        let number = self.next;
        if number >= self.end {
            return None;
        }
        self.next = number.saturating_add(self.step);
        Some((number, (number % self.tasks) as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use byteway_query::Form;

    // A query that one of two workers leaves out, or that both ask, changes the mix of a job by its `numjobs`.
    #[test]
    fn workers_share_the_turns() {
        let task = |text: &str| QueryTask {
            task: Task::parse(Form::Segment, text.as_bytes()).map_err(|_| unreachable!()),
        };
        let tasks = vec![task("t a > 1"), task("t a > 12"), task("t")];
        let plan = Box::new(QueryPlan { tasks, place: QueryPlace::Drive, host_hertz: 1 });
        let job = JobSettings { count: Some(7), workers: 2, ..plan.settings("q") };
        let of = |worker| QueryTurns::new(&job, &plan, worker).collect::<Vec<_>>();
        assert_eq!(of(0), [(0, 0), (2, 2), (4, 1), (6, 0)]);
        assert_eq!(of(1), [(1, 1), (3, 0), (5, 2)]);
        assert_eq!(plan.lengths(&job), "3 queries of up to 8 B");
    }
}
