//! What a job asks of a drive's tables.

use super::place::QueryPlace;
use crate::settings::JobSettings;
use crate::source_kind::SourceKind;
use byteway_query::Task;

/// A query as it is sent.
#[derive(Clone, Debug, PartialEq)]
pub struct QueryTask {
    /// What is asked, and the bytes that say so. `Err` has the bytes of a text that is no task of a drive's: its form, and the text.
    pub task: Result<Task, (byteway_query::Form, Vec<u8>)>,
}

impl QueryTask {
    /// The form of its bytes.
    pub fn form(&self) -> byteway_query::Form {
        match &self.task {
            Ok(task) => task.form(),
            Err((form, _)) => *form,
        }
    }

    /// What is sent.
    pub fn payload(&self) -> &[u8] {
        match &self.task {
            Ok(task) => task.to_bytes(),
            Err((_, bytes)) => bytes,
        }
    }
}

/// What a job asks of a drive's tables: resolved and checked.
#[derive(Clone, Debug, PartialEq)]
pub struct QueryPlan {
    /// Its queries, at least one, which are asked in turn.
    pub tasks: Vec<QueryTask>,
    /// Who executes them.
    pub place: QueryPlace,
    /// Cycles a second of the host's processors, where the host executes queries.
    pub host_hertz: u64,
}

impl QueryPlan {
    /// Settings of its job: one worker, one query at a time.
    pub fn settings(&self, name: &str) -> JobSettings {
        JobSettings { transfer_blocks_max: self.task_bytes_max(), ..JobSettings::plain(name) }
    }

    /// The longest of its queries, bytes.
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

/// Which query a worker asks next: workers divide the job's count among themselves, so that one worker or several ask the same queries.
#[derive(Clone, Debug)]
pub struct QueryTurns {
    next: u64,
    step: u64,
    end: u64,
    tasks: u64,
}

impl QueryTurns {
    /// Those of one worker, from 0.
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
    /// The query's number among all of the job's, and which of its texts it is.
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
