//! Latencies of queries by executor, and the data that they moved.

use super::recorder::Recorder;
use crate::summary::QueryRow;
use byteway_workload::query::QueryPlace;

/// Outcome of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queried {
    /// The executor: not [`QueryPlace::Adaptive`].
    pub place: QueryPlace,
    /// Rows of its result.
    pub rows: u64,
    /// Bytes of the task sent to the drive; 0: none was sent.
    pub task_bytes: u64,
    /// Bytes read from the drive: a result, or columns.
    pub read_bytes: u64,
    /// Number of commands.
    pub commands: u64,
    /// Modelled cycles of the host's processor.
    pub host_cycles: u64,
    /// For a check: whether the drive declined to execute the query.
    pub refused: bool,
}

/// Collects the outcomes of a job's queries.
#[derive(Default)]
pub struct QueryRecorder {
    each: [Each; PLACES.len()],
}

/// The executors, in the order of the report.
const PLACES: [QueryPlace; 3] = [QueryPlace::Drive, QueryPlace::Host, QueryPlace::Check];

#[derive(Default)]
struct Each {
    recorder: Recorder,
    rows: u64,
    task_bytes: u64,
    read_bytes: u64,
    commands: u64,
    host_cycles: u64,
    refused: u64,
}

impl QueryRecorder {
    /// Counts a completed query.
    pub fn record(&mut self, queried: Queried, latency_ps: u64) {
        let place = PLACES.iter().position(|place| *place == queried.place).unwrap_or(0);
        let each = &mut self.each[place];
        each.recorder.record(queried.task_bytes + queried.read_bytes, latency_ps);
        each.rows += queried.rows;
        each.task_bytes += queried.task_bytes;
        each.read_bytes += queried.read_bytes;
        each.commands += queried.commands;
        each.host_cycles += queried.host_cycles;
        each.refused += u64::from(queried.refused);
    }

    /// The job's figures over `elapsed_ps`: a row for each executor with queries.
    pub fn finish<'a>(&'a self, job: &'a str, elapsed_ps: u64) -> impl Iterator<Item = QueryRow> + 'a {
        PLACES.into_iter().zip(&self.each).filter_map(move |(place, each)| {
            Some(QueryRow {
                job: job.to_owned(),
                executed_by: place.name().to_owned(),
                rows: each.rows,
                task_bytes: each.task_bytes,
                read_bytes: each.read_bytes,
                commands: each.commands,
                host_cycles: each.host_cycles,
                refused: each.refused,
                figures: each.recorder.finish(elapsed_ps)?,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // If queries that the host executed counted as the drive's, push-down would be compared with itself.
    #[test]
    fn each_place_has_its_own_figures() {
        let mut recorder = QueryRecorder::default();
        let drive = Queried {
            place: QueryPlace::Drive,
            rows: 3,
            task_bytes: 40,
            read_bytes: 60,
            commands: 2,
            host_cycles: 0,
            refused: false,
        };
        recorder.record(drive, 1_000_000);
        recorder.record(drive, 3_000_000);
        recorder.record(Queried { place: QueryPlace::Check, refused: true, rows: 0, ..drive }, 500_000);
        let rows: Vec<_> = recorder.finish("q", 1_000_000_000).collect();
        let names: Vec<_> = rows.iter().map(|row| row.executed_by.as_str()).collect();
        assert_eq!(names, ["drive", "check"]);
        assert_eq!((rows[0].rows, rows[0].task_bytes, rows[0].read_bytes, rows[0].commands), (6, 80, 120, 4));
        assert_eq!((rows[0].figures.ios, rows[0].figures.bytes, rows[0].refused), (2, 200, 0));
        assert_eq!((rows[0].figures.latency.mean_ns, rows[1].refused), (2000.0, 1));
    }
}
