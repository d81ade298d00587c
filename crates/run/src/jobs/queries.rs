//! Workers of query jobs on a computational drive. Tables are loaded before the measurement, and results are compared with those of this
//! host's engine on the same rows.

use super::worker_options::WorkerOptions;
use super::{Play, Worker, later, within_reach};
use crate::error::{NamespaceKind, RunError};
use byteway_clock::random::Rng;
use byteway_host::{
    ClientErrorKind, Counts, Driver, IoError, Method, QueuePair, Rules, TablesClient, TablesConfig,
};
use byteway_pushdown::error::SessionError;
use byteway_pushdown::load::{Keeps, LoadOptions};
use byteway_pushdown::plan::result_bytes_most;
use byteway_pushdown::query::{Answer, AskFailure, Executor};
use byteway_pushdown::session::{Session, TableInfo};
use byteway_pushdown::split::{QueryShape, SplitQuery};
use byteway_query::rest::{RestExecution, RestLimits};
use byteway_query::{Execution, Form, RecordBatch, Task, difference};
use byteway_results::{Completed, Queried};
use byteway_text::error::InputError;
use byteway_text::interrupt::Interrupt;
use byteway_text::progress::Progress;
use byteway_wire::nvme::vendor::csd;
use byteway_workload::query::{QueryPlace, QueryPlan, QueryTask, QueryTurns, TableRows};
use byteway_workload::{Io, JobPlan, Kind, Source};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

/// Transfer size of commands that fetch results or read columns: a larger data pointer would cost small results its list.
const FETCH_BYTES: u32 = 128 << 10;

/// Transfer size of commands that load tables.
const LOAD_BYTES: u32 = 1 << 20;

/// State shared by the workers of all jobs on a drive, created once per run.
#[derive(Default)]
pub(super) struct Common {
    /// The tables of each namespace, once loaded.
    tables: RefCell<BTreeMap<u32, Rc<Vec<TableInfo>>>>,
    /// Prepared queries by job.
    prepared: RefCell<BTreeMap<usize, Rc<Vec<Prepared>>>>,
}

/// The query plan of a job, if it has one.
pub(super) fn plan_of(job: &JobPlan) -> Option<&QueryPlan> {
    match &job.source {
        Source::Queries(plan) => Some(plan),
        _ => None,
    }
}

/// A query, prepared before the measurement.
struct Prepared {
    task: QueryTask,
    /// Table of the query; `None` if the drive does not execute it.
    table: Option<TableInfo>,
    place: QueryPlace,
    /// The parts pushed down and the rest for the host, if the drive does not execute all of it; and the executor of each part.
    split: Option<(SplitQuery, Vec<Executor>)>,
    /// Size of its result in bytes, if known.
    result_bytes: Option<u64>,
    /// Expected rows; `None`: not verified.
    expected: Option<Vec<RecordBatch>>,
    /// Why it is executed there, if the choice was made here.
    why: Option<String>,
    /// Difference of its first result from the expected rows.
    mismatch: Option<String>,
}

/// A worker's access to the drive.
pub(super) struct Queries {
    client: TablesClient,
    queries: Rc<Vec<Prepared>>,
    turns: RefCell<QueryTurns>,
    /// Creates a session over the worker's queue pair.
    session: Rc<dyn Fn() -> Result<Session, SessionError>>,
}

fn of_job(job: &str) -> impl Fn(SessionError) -> RunError + '_ {
    move |source| match source {
        SessionError::Input(error) => {
            RunError::Input(InputError::new(format!("job `{job}`: {}", error.what), error.help))
        }
        SessionError::Io(IoError::Method(fault)) => RunError::TransferMethod(fault.to_owned()),
        source => RunError::Query { job: job.to_owned(), source: Box::new(source) },
    }
}

fn wrong(error: impl fmt::Display) -> SessionError {
    InputError::new(error.to_string(), "rewrite the query: `byteway csd --help` lists what a drive supports")
        .into()
}

impl Queries {
    /// Worker `worker` (from 0) of the job with this index and plan.
    pub(super) async fn new(
        driver: &Driver,
        queue: QueuePair,
        (jobs, job, worker): (&[JobPlan], usize, u32),
        plan: &QueryPlan,
        worker_options: &WorkerOptions,
        common: &Common,
    ) -> Result<Queries, RunError> {
        let settings = &jobs[job];
        let nsid = settings.nsid;
        if !driver.namespaces_of(csd::CSI).await?.contains(&nsid) {
            return Err(RunError::no_namespace(NamespaceKind::Tables, settings));
        }
        let most =
            driver.transfer_bytes_max().and_then(|bytes| u32::try_from(bytes).ok()).unwrap_or(u32::MAX);
        let bytes = FETCH_BYTES.max(plan.task_bytes_max()).min(most);
        let config = TablesConfig::new(worker_options.rules, bytes);
        driver.enable_methods(&queue, config.methods()).await?;
        let client = TablesClient::new(queue.clone(), nsid, &config);
        let (clock, cpu, port) = (driver.clock().clone(), queue.cpu().clone(), queue.port().clone());
        let (own, hertz, model) = (client.clone(), plan.host_hertz, worker_options.model.clone());
        let session: Rc<dyn Fn() -> Result<Session, SessionError>> = Rc::new(move || {
            Session::new(&clock, own.clone(), cpu.clone(), hertz, port.clone(), model.clone())
        });
        let rng = Rng::new(worker_options.seed);
        let is_loaded = common.tables.borrow().contains_key(&nsid);
        if !is_loaded {
            // PRP regardless of the job's method, which applies to tasks: rows are long.
            let config = TablesConfig::new(Rules::only(Method::Prp), LOAD_BYTES.min(most));
            let client = TablesClient::new(queue.clone(), nsid, &config);
            let (cpu, port, model) =
                (queue.cpu().clone(), queue.port().clone(), worker_options.model.clone());
            let loader = Session::new(driver.clock(), client, cpu, hertz, port, model);
            let loaded =
                load(&loader.map_err(of_job(&settings.name))?, nsid, &worker_options.tables, &rng).await;
            common.tables.borrow_mut().insert(nsid, Rc::new(loaded.map_err(of_job(&settings.name))?));
        }
        let tables = common.tables.borrow().get(&nsid).cloned().unwrap_or_default();
        let made = common.prepared.borrow().get(&job).cloned();
        let queries = match made {
            Some(made) => made,
            None => {
                let session = session().map_err(of_job(&settings.name))?;
                let sources = (&tables[..], &worker_options.tables[..], &rng);
                let made = prepare(&session, plan, settings, sources).await;
                let made = Rc::new(made.map_err(of_job(&settings.name))?);
                common.prepared.borrow_mut().insert(job, made.clone());
                made
            }
        };
        let turns = RefCell::new(QueryTurns::new(settings, plan, worker));
        Ok(Queries { client, queries, turns, session })
    }

    pub(super) fn queue(&self) -> &QueuePair {
        self.client.queue()
    }

    /// Tasks by transfer method.
    pub(super) fn counts(&self) -> Counts {
        self.client.counts()
    }

    /// Descriptions of where its queries are executed.
    pub(super) fn decisions(&self) -> impl Iterator<Item = String> + '_ {
        self.queries.iter().filter_map(|query| query.why.clone())
    }
}

/// Loads the rows of a namespace's tables.
async fn load(
    session: &Session,
    nsid: u32,
    tables: &[TableRows],
    rng: &Rng,
) -> Result<Vec<TableInfo>, SessionError> {
    for table in tables.iter().filter(|table| table.nsid == nsid) {
        let sources = std::slice::from_ref(&table.source);
        let options = LoadOptions { rng, keeps: Keeps::Appends, interrupt: &Interrupt::default() };
        session.load(&table.name, sources, &options, &mut Progress::hidden()).await?;
    }
    session.tables().await
}

/// Chooses the executor of each query, runs it there once, and compares the result with that of this host's engine.
async fn prepare(
    session: &Session,
    plan: &QueryPlan,
    settings: &JobPlan,
    (tables, sources, rng): (&[TableInfo], &[TableRows], &Rng),
) -> Result<Vec<Prepared>, SessionError> {
    let mut prepared = Vec::with_capacity(plan.tasks.len());
    for task in &plan.tasks {
        let parsed = task.task.as_ref().ok();
        let table = parsed.and_then(|parsed| tables.iter().find(|table| table.record.name == parsed.table()));
        let mut query = Prepared {
            task: task.clone(),
            table: table.cloned(),
            place: plan.place,
            split: None,
            result_bytes: None,
            expected: None,
            why: None,
            mismatch: None,
        };
        let (Some(parsed), Some(table)) = (parsed, table) else {
            if plan.place != QueryPlace::Check {
                prepare_split(session, settings, &mut query, (sources, rng)).await?;
            }
            prepared.push(query);
            continue;
        };
        query.result_bytes = parsed.bind(&table.schema).ok().and_then(|query| result_bytes_most(&query));
        if plan.place == QueryPlace::Adaptive {
            let decided = session.plan(parsed, table).await?;
            let who;
            (query.place, who) = match decided.choice {
                Executor::Host => (QueryPlace::Host, "the host executes"),
                _ => (QueryPlace::Drive, "the drive executes"),
            };
            let text = String::from_utf8_lossy(task.payload()).into_owned();
            query.why = Some(format!("{who} `{text}`: {}", decided.why));
        }
        let source = sources.iter().find(|source| {
            source.nsid == settings.nsid && source.name == table.record.name && settings.verify.is_on()
        });
        if let (Some(source), false) = (source, query.place == QueryPlace::Check) {
            match find(session, parsed, table, source, rng).await {
                Ok(expected) => {
                    let answer = ask(session, &query).await?;
                    query.mismatch = difference::difference(&answer.batches, &expected);
                    (query.expected, query.result_bytes) = (Some(expected), Some(answer.bytes_read));
                }
                // There are more groups than are held there: then this host makes them of the rows that pass.
                Err(AskFailure::Execution(error)) => {
                    let split = session.without_groups(parsed, table, &error).await.ok_or(error)?;
                    let by = if query.place == QueryPlace::Host { Executor::Host } else { Executor::Drive };
                    verify_split(session, settings, &mut query, (split, vec![by]), (sources, rng)).await?;
                }
                Err(failure) => return Err(failure.into()),
            }
        }
        prepared.push(query);
    }
    Ok(prepared)
}

/// Splits a query that the drive does not execute as a whole, chooses the executor of each pushed part, runs it once, and compares the
/// result with that of this host's engine.
async fn prepare_split(
    session: &Session,
    settings: &JobPlan,
    query: &mut Prepared,
    (sources, rng): (&[TableRows], &Rng),
) -> Result<(), SessionError> {
    let shape = session.shape(query.task.form(), query.task.payload()).await?;
    let QueryShape::Split(split) = shape else { return Ok(()) };
    let by = match query.place {
        QueryPlace::Adaptive => {
            let plans = session.plans(&split).await?;
            let text = String::from_utf8_lossy(query.task.payload()).into_owned();
            let parts = plans.iter().map(|plan| {
                let who = if plan.choice == Executor::Host {
                    "the host reads"
                } else {
                    "the drive executes a part for"
                };
                format!("{who} {}: {}", plan.table, plan.why)
            });
            query.why = Some(format!("`{text}` is split: {}", parts.collect::<Vec<_>>().join("; ")));
            plans.iter().map(|plan| plan.choice).collect()
        }
        QueryPlace::Host => vec![Executor::Host; split.tables.len()],
        _ => vec![Executor::Drive; split.tables.len()],
    };
    // It counts as executed by the drive if the drive executes any part of it.
    let is_of_host = by.iter().all(|by| *by == Executor::Host);
    query.place = if is_of_host { QueryPlace::Host } else { QueryPlace::Drive };
    verify_split(session, settings, query, (*split, by), (sources, rng)).await
}

/// Executes a split query once, if answers are verified, and compares the result with that of this host's
/// engine.
async fn verify_split(
    session: &Session,
    settings: &JobPlan,
    query: &mut Prepared,
    (split, by): (SplitQuery, Vec<Executor>),
    (sources, rng): (&[TableRows], &Rng),
) -> Result<(), SessionError> {
    let of = |table: &TableInfo| {
        sources.iter().find(|source| source.nsid == settings.nsid && source.name == table.record.name)
    };
    let all: Option<Vec<&TableRows>> = split.tables.iter().map(of).collect();
    let expected = match all.filter(|_| settings.verify.is_on()) {
        Some(sources) => {
            let mut rest = RestExecution::new(&split.split.rest, RestLimits::default());
            let mut found = Vec::new();
            for scan in split.split.rest.order() {
                let task = split.split.scans[scan].task(Form::Sql).map_err(wrong)?;
                for batch in find(session, &task, &split.tables[scan], sources[scan], rng).await? {
                    found.extend(rest.push(scan, &batch).map_err(wrong)?);
                }
                rest.end(scan).map_err(wrong)?;
            }
            found.extend(rest.finish().map_err(wrong)?);
            Some(found)
        }
        None => None,
    };
    query.split = Some((split, by));
    if let Some(expected) = expected {
        let answer = ask(session, query).await?;
        query.mismatch = difference::difference(&answer.batches, &expected);
        query.expected = Some(expected);
    }
    Ok(())
}

/// This host's result on the table's original rows. They are divided like the drive's row groups, on which floating-point sums depend.
async fn find(
    session: &Session,
    task: &Task,
    table: &TableInfo,
    source: &TableRows,
    rng: &Rng,
) -> Result<Vec<RecordBatch>, AskFailure> {
    let query = task.bind(&table.schema).map_err(wrong)?;
    let mut execution = Execution::new(query, &table.schema).map_err(wrong)?;
    let columns = execution.columns().to_vec();
    let groups = session.groups(table.record.table).await?;
    let mut batches = source.batches(rng).map_err(SessionError::from)?;
    let mut found = Vec::new();
    let mut rest: Option<RecordBatch> = None;
    for wanted in groups {
        let mut parts: Vec<RecordBatch> = Vec::new();
        let mut missing = wanted.rows as usize;
        while missing > 0 {
            let batch = match rest.take() {
                Some(batch) => batch,
                None => match batches.next() {
                    Some(batch) => batch.map_err(SessionError::from)?,
                    None => break, // the drive says that it has more than it was given: that shows in the rows
                },
            };
            let count = batch.num_rows().min(missing);
            missing -= count;
            parts.push(batch.slice(0, count));
            if count < batch.num_rows() {
                rest = Some(batch.slice(count, batch.num_rows() - count));
            }
        }
        let group = difference::concat(&table.schema.to_arrow(), &parts).map_err(wrong)?;
        let part = group.project(&columns).map_err(wrong)?;
        found.extend(execution.push(&part).map_err(AskFailure::of)?);
    }
    found.extend(execution.finish().map_err(AskFailure::of)?);
    Ok(found)
}

async fn ask(session: &Session, query: &Prepared) -> Result<Answer, SessionError> {
    if let Some((split, by)) = &query.split {
        return session.perform(split, by).await;
    }
    match (query.place, &query.task.task, &query.table) {
        (QueryPlace::Host, Ok(task), Some(table)) => {
            session.perform_whole(task, table, Executor::Host, None).await
        }
        (_, Ok(task), Some(table)) => {
            session.perform_whole(task, table, Executor::Drive, query.result_bytes).await
        }
        _ => session.push(query.task.form(), query.task.payload(), query.result_bytes).await,
    }
}

impl Play {
    /// Loop of one of the concurrent queries of a worker.
    pub(super) async fn work_queries(&self, worker: &Worker, queries: &Queries) -> Result<(), RunError> {
        let meter = &self.meter;
        let failed = of_job(&worker.plan.name);
        let session = (queries.session)().map_err(&failed)?;
        let start = worker.start.get();
        let end = worker.plan.runtime.map(|_| later(start, worker.plan.end_ps()));
        self.wait_until(&worker.plan, start).await?;
        if worker.of_job == 0 && worker.claims_first_answers() {
            let wrong = queries.queries.iter().filter_map(|query| query.mismatch.as_ref());
            wrong.for_each(|text| meter.mismatched(worker.job, self.clock.now(), text.clone()));
        }
        while meter.goes_on() && end.is_none_or(|end| self.clock.now() < end) {
            let turn = queries.turns.borrow_mut().next();
            let Some((turn, which)) = turn else { break };
            let query = &queries.queries[which];
            let due = self.clock.now();
            within_reach(&worker.plan, due)?;
            let number = meter.number();
            let performed = self.query(&session, query).await;
            let bytes = performed.as_ref().map_or(0, |(queried, _)| queried.task_bytes + queried.read_bytes);
            let io = Io { kind: Kind::Read, lba: turn, blocks: bytes.min(u32::MAX.into()) as u32, at: None };
            let shown = performed.as_ref().map(|(_, record)| record);
            self.show(worker, io, due, shown.map_err(|error| error as &dyn fmt::Display), None);
            match performed {
                Ok((queried, record)) => {
                    let (job, worker, queried) = (worker.job, worker.of_job, Some(queried));
                    let operated = None;
                    meter.completed(&Completed {
                        number,
                        job,
                        worker,
                        io,
                        operated,
                        queried,
                        bytes,
                        due,
                        record: &record,
                    });
                }
                Err(SessionError::Io(IoError::Client(error))) if error.kind == ClientErrorKind::WrongData => {
                    meter.mismatched(worker.job, self.clock.now(), error.text);
                }
                Err(SessionError::Io(IoError::Status(status))) => {
                    meter.failed(worker.job, self.clock.now(), status.to_string());
                }
                // A reported failure of the query, by drive or host: an overflow or a limit.
                Err(SessionError::Input(error)) => {
                    meter.failed(worker.job, self.clock.now(), error.what);
                }
                Err(error) => {
                    meter.stop();
                    return Err(failed(error));
                }
            }
            self.begin_if_due(worker.plan.drive);
        }
        Ok(())
    }

    async fn query(
        &self,
        session: &Session,
        query: &Prepared,
    ) -> Result<(Queried, byteway_clock::SpanRecord), SessionError> {
        if query.place == QueryPlace::Check {
            let (form, payload) = (query.task.form(), query.task.payload());
            let (problem, record) = session.check(form, payload).await?;
            let queried = Queried {
                place: QueryPlace::Check,
                rows: 0,
                task_bytes: payload.len() as u64,
                read_bytes: 0,
                commands: 1,
                host_cycles: 0,
                refused: problem.is_some(),
            };
            return Ok((queried, record));
        }
        let answer = ask(session, query).await?;
        let differs = query.expected.as_ref().and_then(|rows| difference::difference(&answer.batches, rows));
        if let Some(text) = differs {
            let kind = ClientErrorKind::WrongData;
            return Err(SessionError::Io(IoError::Client(byteway_host::AnyClientError { kind, text })));
        }
        let queried = Queried {
            place: query.place,
            rows: answer.rows(),
            task_bytes: answer.task_bytes,
            read_bytes: answer.bytes_read,
            commands: answer.commands,
            host_cycles: answer.host_cycles,
            refused: false,
        };
        Ok((queried, answer.record))
    }
}
