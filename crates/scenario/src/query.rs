//! Plans of `[[query]]` sections.

use byteway_query::rest::{PushPolicy, TableFacts, WholeQuery};
use byteway_query::{Execution, Form, QueryError, Statement, Task};
use byteway_text::units::{Frequency, Picos, excerpt};
use byteway_workload::query::{QueryPlace, QueryPlan, QueryTask, TableRows};
use byteway_workload::{JobPlan, JobSettings, Source};

use super::drive::DrivePlan;
use super::plan::{COUNT_MAX, HostPlan, RUNTIME_MAX, check_name};
use super::query_section::{QueryForm, QuerySection};
use crate::profile::{KeyError, fault, within};

/// Default frequency of the host's processors.
const HOST_CLOCK: Frequency = Frequency(3_000_000_000);

/// A section being turned into a plan.
pub(super) struct QueryDraft<'a> {
    pub section: &'a QuerySection,
    /// Path of the section, such as `query.0`.
    pub path: &'a str,
    pub drive: &'a DrivePlan,
    pub host: &'a HostPlan,
}

impl QueryDraft<'_> {
    fn key(&self, key: &str) -> String {
        format!("{}.{key}", self.path)
    }

    fn fault(&self, key: &str, what: impl std::fmt::Display, help: impl Into<String>) -> KeyError {
        fault(self.key(key), format!("`{}`: {what}", self.key(key)), help)
    }

    /// Plan of the job, in phase 0.
    pub(super) fn plan(&self, name: &str) -> Result<JobPlan, KeyError> {
        let section = self.section;
        let name = section.name.clone().unwrap_or_else(|| name.to_owned());
        check_name(&self.key("name"), &name)?;
        let nsids = self.drive.tables_nsids();
        if nsids.is_empty() {
            let what = "`query`: the drive has no tables";
            let help = "set `personality = \"tables\"` in [drive], and give it a `[[drive.table]]`; or write `[[job]]`";
            return Err(fault(self.path, what, help));
        }
        let nsid = section.namespace.unwrap_or(*nsids.start());
        within(&self.key("namespace"), nsid, *nsids.start(), *nsids.end())?;
        within(&self.key("numjobs"), section.numjobs, 1, 1024)?;
        let controller = &self.drive.profile.controller;
        let iodepth = section.iodepth.unwrap_or(1);
        within(&self.key("iodepth"), iodepth, 1, (controller.max_queue_entries - 1).min(65535))?;
        within(&self.key("count"), section.count.unwrap_or(1), 1, COUNT_MAX)?;
        let times = [
            ("runtime", section.runtime, Picos(1)),
            ("ramp_time", section.ramp_time, Picos(0)),
            ("startdelay", section.startdelay, Picos(0)),
        ];
        for (key, time, least) in times {
            within(&self.key(key), time.unwrap_or(least), least, RUNTIME_MAX)?;
        }
        let host_clock = section.host_clock.unwrap_or(HOST_CLOCK);
        within(&self.key("host_clock"), host_clock, Frequency(100_000_000), Frequency(100_000_000_000))?;
        let plan = QueryPlan { tasks: self.tasks(nsid)?, place: section.execute, host_hertz: host_clock.0 };
        self.check_length(&plan)?;
        self.check_cursors(u64::from(iodepth) * u64::from(section.numjobs))?;
        let settings = JobSettings {
            nsid,
            iodepth,
            workers: section.numjobs,
            start_delay: section.startdelay.unwrap_or_default(),
            ramp: section.ramp_time.unwrap_or_default(),
            verify: self.host.verify,
            count: section.count,
            runtime: section.runtime,
            ..plan.settings(&name)
        };
        if settings.count.is_none() && settings.runtime.is_none() {
            let what = format!("`{}` never ends", self.path);
            return Err(fault(self.path, what, "add `count = 100`, or `runtime = \"1 s\"`"));
        }
        Ok(JobPlan { settings, source: Source::Queries(Box::new(plan)) })
    }

    /// Checks that every query fits into one command.
    fn check_length(&self, plan: &QueryPlan) -> Result<(), KeyError> {
        let (bytes, most) = (u64::from(plan.task_bytes_max()), self.drive.profile.controller.mdts.0);
        if bytes <= most {
            return Ok(());
        }
        let key = if self.section.sql.is_some() { "sql" } else { "segment" };
        let what = format!("a query of {bytes} B exceeds the drive's maximum data transfer size");
        Err(self.fault(key, what, format!("at most {most} B: `controller.mdts` in [drive.override]")))
    }

    /// Checks the number of cursors: a query that the drive executes occupies one until its result is
    /// fetched.
    fn check_cursors(&self, outstanding: u64) -> Result<(), KeyError> {
        let cursors = u64::from(self.drive.profile.csd.cursors);
        let is_of_drive = matches!(self.section.execute, QueryPlace::Drive | QueryPlace::Adaptive);
        if !is_of_drive || outstanding <= cursors {
            return Ok(());
        }
        let what = format!("{outstanding} queries at once need one cursor each, and the drive has {cursors}");
        let help =
            format!("lower `iodepth` or `numjobs`, or set `csd.cursors = {outstanding}` in [drive.override]");
        Err(self.fault("iodepth", what, help))
    }

    /// Tasks of the section, in the order in which the job cycles through them.
    fn tasks(&self, nsid: u32) -> Result<Vec<QueryTask>, KeyError> {
        let (key, texts, written) = match (&self.section.sql, &self.section.segment) {
            (Some(texts), None) => ("sql", texts, Form::Sql),
            (None, Some(texts)) => ("segment", texts, Form::Segment),
            _ => {
                let what = format!("`{}`: one of `sql` and `segment` is required", self.path);
                let help = "give `sql = \"SELECT COUNT(*) FROM particles WHERE energy > 1.3\"`, or `segment`";
                return Err(fault(self.path, what, help));
            }
        };
        if texts.texts.is_empty() {
            return Err(self.fault(key, "the list has no query", "write one"));
        }
        let one = |(index, text): (usize, &String)| {
            let key = if texts.is_list { format!("{key}.{index}") } else { key.to_owned() };
            self.task(&key, text, written, nsid)
        };
        texts.texts.iter().enumerate().map(one).collect()
    }

    fn task(&self, key: &str, text: &str, written: Form, nsid: u32) -> Result<QueryTask, KeyError> {
        let is_check = self.section.execute == QueryPlace::Check;
        let task = match Task::parse(written, text.as_bytes()) {
            Ok(task) => task,
            // A check asks the drive whether it supports the query, so it is sent as written.
            Err(QueryError::Refused(_)) if is_check && self.is_as_written(written) => {
                return Ok(QueryTask { task: Err((written, text.as_bytes().to_vec())) });
            }
            // A query that the drive supports only in part is split between drive and host.
            Err(QueryError::Refused(_)) if !is_check => return self.split(key, text, written, nsid),
            Err(error) => return Err(self.wrong(key, &error)),
        };
        let table = self.table(key, task.table(), nsid)?;
        let bound = task.bind(&table.schema).and_then(|query| Execution::new(query, &table.schema));
        match bound {
            Err(QueryError::Refused(_)) if is_check => {}
            Err(QueryError::Refused(_)) => return self.split(key, text, written, nsid),
            // A task does not know aliases in WHERE or HAVING: they appear as unknown columns.
            Err(error @ (QueryError::UnknownColumn { .. } | QueryError::Misplaced { .. }))
                if !is_check && written == Form::Sql =>
            {
                return self.split(key, text, written, nsid).map_err(|_| self.wrong(key, &error));
            }
            bound => drop(bound.map_err(|error| self.wrong(key, &error))?),
        }
        let form = self.section.form;
        let task = match form {
            None => task,
            Some(QueryForm::Sql) if written == Form::Sql => task,
            Some(QueryForm::Segment) if written == Form::Segment => task,
            Some(QueryForm::Compact) => Task::compact(task.statement(), Some(&table.schema))
                .map_err(|error| self.wrong(key, &error))?,
            Some(QueryForm::Sql) => {
                let (table, predicate) = text.split_once(' ').unwrap_or((text, ""));
                let condition = match predicate.trim() {
                    "" => String::new(),
                    predicate => format!(" WHERE {predicate}"),
                };
                let sql = format!("SELECT * FROM {table}{condition}");
                Task::parse(Form::Sql, sql.as_bytes()).map_err(|error| self.wrong(key, &error))?
            }
            Some(QueryForm::Segment) => self.segment(key, &task)?,
        };
        Ok(QueryTask { task: Ok(task) })
    }

    fn table(&self, key: &str, name: &str, nsid: u32) -> Result<&TableRows, KeyError> {
        let of_namespace = || self.drive.tables.iter().filter(|table| table.nsid == nsid);
        if let Some(table) = of_namespace().find(|table| table.name == name) {
            return Ok(table);
        }
        let names: Vec<String> = of_namespace().map(|table| format!("`{}`", table.name)).collect();
        let what = format!("the drive has no table `{}`", excerpt(name));
        let help = match names.is_empty() {
            true => "add `[[drive.table]]` with its `name`, and `file` or `generate`".to_owned(),
            false => format!("name one of {}, or add `[[drive.table]]`", names.join(", ")),
        };
        Err(self.fault(key, what, help))
    }

    /// Checks before the run that the host supports the rest of a query that the drive executes in part.
    fn split(&self, key: &str, text: &str, written: Form, nsid: u32) -> Result<QueryTask, KeyError> {
        let form = match (written, self.section.form) {
            (Form::Sql, None | Some(QueryForm::Sql)) => Form::Sql,
            (Form::Sql, Some(QueryForm::Compact)) => Form::Compact,
            _ => return Err(self.fault(key, "a segment only selects rows", "give `sql` instead")),
        };
        let whole = WholeQuery::parse(text).map_err(|error| self.wrong(key, &error))?;
        let mut facts = Vec::new();
        for name in whole.tables() {
            let schema = self.table(key, name, nsid)?.schema.clone();
            facts.push(TableFacts { name: name.to_owned(), schema, rows: 0 });
        }
        whole.split(&facts, PushPolicy { groups: true }).map_err(|error| self.wrong(key, &error))?;
        Ok(QueryTask { task: Err((form, text.as_bytes().to_vec())) })
    }

    fn is_as_written(&self, written: Form) -> bool {
        match self.section.form {
            None => true,
            Some(QueryForm::Sql) => written == Form::Sql,
            Some(QueryForm::Segment) => written == Form::Segment,
            Some(QueryForm::Compact) => false,
        }
    }

    /// A query as table and predicate, if it consists of nothing else.
    fn segment(&self, key: &str, task: &Task) -> Result<Task, KeyError> {
        let statement = task.statement();
        let plain = Statement { filter: statement.filter.clone(), ..Statement::all(task.table()) };
        if *statement != plain {
            let what = "a segment selects rows, and returns all of their columns";
            let help = "leave `form` out, or give a `segment` instead of `sql`";
            return Err(self.fault(key, what, help));
        }
        let predicate = statement.filter.as_ref().map(ToString::to_string).unwrap_or_default();
        Task::segment(task.table(), &predicate).map_err(|error| self.wrong(key, &error))
    }

    fn wrong(&self, key: &str, error: &QueryError) -> KeyError {
        let help = match error {
            QueryError::UnknownColumn { .. } => "name one of these",
            QueryError::Refused(_) => {
                "rewrite the query (`byteway csd --help` lists what a drive supports); `execute = \"check\"` sends it as it is"
            }
            QueryError::Unsupported { .. } => {
                "rewrite the query: docs/tasks/queries.md lists what drive and host support; `execute = \"check\"` sends it as it is"
            }
            QueryError::Syntax(_) => {
                "write one SELECT, or with `segment` a table's name and a predicate: docs/tasks/queries.md has examples"
            }
            _ => "rewrite the query: `byteway csd --help` lists what a drive supports",
        };
        self.fault(key, error, help)
    }
}
