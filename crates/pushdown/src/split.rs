//! Splits a query that the drive refuses as a whole: one part per table is pushed down, to the drive or to
//! this host in its place, and this host executes the rest over the returned rows. The result does not depend
//! on who executes the pushed parts.

use crate::error::SessionError;
use crate::plan::{Plan, result_bytes_most};
use crate::query::{Answer, AskFailure, Executor};
use crate::session::{Session, TableInfo};
use byteway_clock::SpanRecord;
use byteway_query::cost::Amount;
use byteway_query::rest::{PushPolicy, RestExecution, RestLimits, Scan, Split, TableFacts, WholeQuery};
use byteway_query::{Form, QueryError, Task};
use byteway_text::error::InputError;

/// A split query.
#[derive(Clone, Debug)]
pub struct SplitQuery {
    whole: WholeQuery,
    /// The tables of FROM.
    pub tables: Vec<TableInfo>,
    /// The pushed scans and the rest.
    pub split: Split,
    /// Reason why the drive does not execute the whole query.
    pub why: String,
    /// Form in which scans are sent.
    form: Form,
}

/// A query resolved against the drive's tables.
#[derive(Clone, Debug)]
pub enum QueryShape {
    /// The drive supports the whole query.
    Whole {
        /// The task.
        task: Box<Task>,
        /// Table of the task.
        table: Box<TableInfo>,
    },
    /// The drive supports a part of the query.
    Split(Box<SplitQuery>),
}

fn wrong(error: &QueryError) -> SessionError {
    let help = match error {
        QueryError::Unsupported { .. } => {
            "rewrite the query: docs/tasks/queries.md lists what drive and host support"
        }
        _ => "rewrite the query: `byteway csd --help` lists what a drive supports",
    };
    InputError::new(error.to_string(), help).into()
}

impl Session {
    /// Resolves a query: a task for the drive, or a split query. `text` has the given form; for
    /// [`Form::Compact`] it is SQL, and tasks are sent in compact form.
    ///
    /// # Errors
    /// [`SessionError`] if the text is invalid, a table or column does not exist, or neither side supports a
    /// construct.
    pub async fn shape(&self, form: Form, text: &[u8]) -> Result<QueryShape, SessionError> {
        let parsed = match form {
            Form::Compact => {
                Task::parse(Form::Sql, text).and_then(|task| Task::compact(task.statement(), None))
            }
            form => Task::parse(form, text),
        };
        let refused = match parsed {
            Ok(task) => {
                let table = Box::new(self.table(task.table()).await?);
                let task = Box::new(task);
                match task.bind(&table.schema) {
                    Ok(_) => return Ok(QueryShape::Whole { task, table }),
                    Err(error) => error,
                }
            }
            Err(error) => error,
        };
        let is_text = form != Form::Segment;
        match refused {
            // A task does not know aliases in WHERE or HAVING: they appear as unknown columns.
            QueryError::Refused(_) | QueryError::UnknownColumn { .. } | QueryError::Misplaced { .. }
                if is_text =>
            {
                let why = refused.to_string();
                let split = self.split(text, form, why, PushPolicy { groups: true }).await?;
                Ok(QueryShape::Split(Box::new(split)))
            }
            error => Err(wrong(&error)),
        }
    }

    /// Splits a query.
    async fn split(
        &self,
        text: &[u8],
        form: Form,
        why: String,
        policy: PushPolicy,
    ) -> Result<SplitQuery, SessionError> {
        let text = String::from_utf8_lossy(text);
        let whole = WholeQuery::parse(&text).map_err(|error| wrong(&error))?;
        let mut tables = Vec::new();
        let names: Vec<String> = whole.tables().map(str::to_owned).collect();
        for name in &names {
            tables.push(self.table(name).await?);
        }
        let split = whole.split(&facts(&tables), policy).map_err(|error| wrong(&error))?;
        Ok(SplitQuery { whole, tables, split, why, form })
    }

    /// Executes a split query. `by` determines for each table of FROM where its scan is executed.
    ///
    /// # Errors
    /// [`SessionError`] if the drive or this host cannot execute it, or a command failed.
    pub async fn perform(&self, query: &SplitQuery, by: &[Executor]) -> Result<Answer, SessionError> {
        match self.perform_split(query, &query.split, by).await {
            Ok(answer) => Ok(answer),
            // The drive may have exceeded its limit of groups: group the returned rows on this host instead.
            Err(AskFailure::Execution(_)) if query.split.scans.iter().any(has_groups) => {
                let split = query.whole.split(&facts(&query.tables), PushPolicy { groups: false });
                let split = split.map_err(|error| wrong(&error))?;
                Ok(self.perform_split(query, &split, by).await?)
            }
            Err(failure) => Err(failure.into()),
        }
    }

    /// Executes a query by one executor, or by whichever is estimated to be faster for each of its tables.
    ///
    /// # Errors
    /// Same as [`shape`](Self::shape), [`plan`](Self::plan) and [`perform`](Self::perform).
    pub async fn query(&self, form: Form, text: &[u8], by: Option<Executor>) -> Result<Answer, SessionError> {
        match (self.shape(form, text).await?, by) {
            (QueryShape::Whole { task, table }, by) => {
                let by = match by {
                    Some(by) => by,
                    None => self.plan(&task, &table).await?.choice,
                };
                self.perform_whole(&task, &table, by, None).await
            }
            (QueryShape::Split(query), Some(by)) => self.perform(&query, &vec![by; query.tables.len()]).await,
            (QueryShape::Split(query), None) => {
                let by: Vec<Executor> = self.plans(&query).await?.iter().map(|plan| plan.choice).collect();
                self.perform(&query, &by).await
            }
        }
    }

    /// Executes a task that is a whole query. If the drive fails to group, this host groups the returned rows
    /// instead. `result_bytes` is the size of the result, if known; otherwise it is derived from the task.
    ///
    /// # Errors
    /// Same as [`perform`](Self::perform).
    pub async fn perform_whole(
        &self,
        task: &Task,
        table: &TableInfo,
        by: Executor,
        result_bytes: Option<u64>,
    ) -> Result<Answer, SessionError> {
        let answer = match by {
            Executor::Host => self.ask_host(task, table).await,
            _ => {
                let most = || task.bind(&table.schema).ok().and_then(|query| result_bytes_most(&query));
                self.ask_drive(task.form().code(), task.to_bytes(), result_bytes.or_else(most)).await
            }
        };
        let Err(AskFailure::Execution(error)) = answer else { return Ok(answer?) };
        match self.without_groups(task, table, &error).await {
            Some(query) => Ok(self.perform_split(&query, &query.split, &[by]).await?),
            // Report the error of the first execution.
            None => Err(error),
        }
    }

    /// Splits a whole query whose execution failed with `error` so that this host groups; `None` if it has no
    /// groups or cannot be split.
    pub async fn without_groups(
        &self,
        task: &Task,
        table: &TableInfo,
        error: &SessionError,
    ) -> Option<SplitQuery> {
        if task.statement().group_by.is_empty() || task.form() == Form::Segment {
            return None;
        }
        let text = task.statement().text(&table.schema);
        self.split(text.as_bytes(), task.form(), error.to_string(), PushPolicy { groups: false }).await.ok()
    }

    async fn perform_split(
        &self,
        query: &SplitQuery,
        split: &Split,
        by: &[Executor],
    ) -> Result<Answer, AskFailure> {
        let (begin, before, busy) = (self.clock.now(), self.crossed(), self.drive_cycles());
        let failed = |error: QueryError| match error {
            QueryError::Unsupported { .. } => AskFailure::Other(wrong(&error)),
            error => AskFailure::Execution(wrong(&error)),
        };
        let mut rest = RestExecution::new(&split.rest, RestLimits::default());
        let mut whole = Answer {
            executor: by.first().copied().unwrap_or(Executor::Drive),
            schema: rest.result_schema(),
            batches: Vec::new(),
            nanoseconds: 0,
            task_bytes: 0,
            bytes_read: 0,
            commands: 0,
            link_bytes: None,
            host_cycles: 0,
            drive_cycles: None,
            record: SpanRecord { begin, last: begin, ..SpanRecord::default() },
        };
        let mut done = Amount::default();
        for scan in split.rest.order() {
            let table = &query.tables[scan];
            let task = split.scans[scan].task(query.form).map_err(|error| wrong(&error))?;
            let by = by.get(scan).copied().unwrap_or(Executor::Drive);
            if by != whole.executor {
                whole.executor = Executor::Mixed;
            }
            let answer = match by {
                Executor::Host => self.ask_host(&task, table).await?,
                _ => {
                    let known = task.bind(&table.schema).ok().and_then(|query| result_bytes_most(&query));
                    self.ask_drive(task.form().code(), task.to_bytes(), known).await?
                }
            };
            whole.task_bytes += answer.task_bytes;
            whole.bytes_read += answer.bytes_read;
            whole.commands += answer.commands;
            whole.host_cycles += answer.host_cycles;
            for batch in answer.batches {
                whole.batches.extend(rest.push(scan, &batch).map_err(failed)?);
                whole.host_cycles += self.do_rest(&rest, &mut done).await;
            }
            rest.end(scan).map_err(failed)?;
            whole.host_cycles += self.do_rest(&rest, &mut done).await;
            if rest.is_done() {
                break;
            }
        }
        whole.batches.extend(rest.finish().map_err(failed)?);
        whole.host_cycles += self.do_rest(&rest, &mut done).await;
        let last = self.clock.now();
        whole.record = SpanRecord { begin, last, ..SpanRecord::default() };
        whole.nanoseconds = last.since(begin).0 / 1000;
        whole.link_bytes = self.crossed_since(before);
        whole.drive_cycles = self.cycles_since(busy);
        Ok(whole)
    }

    /// Charges the work of the rest since the last call to this host's processor. Returns the cycles.
    async fn do_rest(&self, rest: &RestExecution, done: &mut Amount) -> u64 {
        let amount = Amount::of(rest.work());
        let new = amount.since(*done);
        *done = amount;
        self.work_here(new).await
    }

    /// Plans each scan.
    ///
    /// # Errors
    /// [`SessionError`] if a command failed.
    pub async fn plans(&self, query: &SplitQuery) -> Result<Vec<Plan>, SessionError> {
        let mut plans = Vec::new();
        for (scan, table) in query.split.scans.iter().zip(&query.tables) {
            let task = scan.task(query.form).map_err(|error| wrong(&error))?;
            plans.push(self.plan(&task, table).await?);
        }
        Ok(plans)
    }
}

fn has_groups(scan: &Scan) -> bool {
    !scan.statement.group_by.is_empty()
}

fn facts(tables: &[TableInfo]) -> Vec<TableFacts> {
    let facts = |table: &TableInfo| TableFacts {
        name: table.record.name.clone(),
        schema: table.schema.clone(),
        rows: table.record.rows,
    };
    tables.iter().map(facts).collect()
}
