//! Query commands: Task, Result and Cancel.

use crate::config::CommandSet;
use crate::controller::command::context::{Context, Reply};
use crate::controller::command::send::send;
use crate::controller::command::stream::{self, StreamStart};
use crate::controller::command::workspace::{Landing, Workspace};
use crate::controller::command_set::csd::cursor::{Cursors, PendingOutput};
use crate::controller::command_set::csd::failure::problem_of;
use crate::controller::command_set::csd::life::{store_of, tables_of};
use crate::controller::command_set::csd::run::{self, Prepared, RowFilter};
use crate::controller::command_set::csd::tables::check_bytes;
use crate::controller::command_set::programs::filter::ProgramFilter;
use crate::controller::core::Core;
use crate::controller::queue::partial::StreamHead;
use crate::controller::state::counters::add;
use byteway_clock::Stage;
use byteway_firmware::WorkKind;
use byteway_query::row_filter::FilterColumns;
use byteway_query::statement::TASK_BYTES_MAX;
use byteway_query::{Execution, Form, QueryError, Schema, Task};
use byteway_tables::Tables;
use byteway_wire::nvme::vendor::csd::{self, END, FILTERED, Fetch, Filtered, Problem};
use byteway_wire::nvme::vendor::piggyback::Head;
use byteway_wire::nvme::{Sqe, Status};
use std::rc::Rc;

/// Format of a task's payload.
#[derive(Clone, Copy)]
enum TaskForm {
    /// A query.
    Plain(Form),
    /// A query behind a program that filters its rows.
    Filtered,
}

impl TaskForm {
    /// Decodes a form. [`FILTERED`] requires a drive with programs.
    fn of(core: &Core, code: u8) -> Result<TaskForm, Status> {
        match Form::from_code(code) {
            Some(form) => Ok(TaskForm::Plain(form)),
            None if code == FILTERED && core.config.programs.is_some() => Ok(TaskForm::Filtered),
            None => Err(Status::INVALID_FIELD.with_dnr()),
        }
    }
}

/// Parses and checks the command, without its payload.
fn check(context: &Context<'_>) -> Result<(csd::Task, TaskForm), Status> {
    let command = csd::Task::parse(context.sqe);
    let form = TaskForm::of(context.core, command.form)?;
    check_bytes(context, command.bytes)?;
    if command.bytes as usize > TASK_BYTES_MAX {
        return Err(Status::INVALID_FIELD.with_dnr());
    }
    Ok((command, form))
}

/// Executes Task.
pub(crate) async fn task(
    cursors: &Cursors,
    context: &Context<'_>,
    workspace: &mut Workspace,
) -> Result<Reply, Status> {
    let (command, form) = check(context)?;
    let (namespace, tables) = tables_of(context.core, context.sqe.nsid).await?;
    context.bring(workspace, command.bytes.into(), Landing::Dram).await?;
    let asked = ArrivedTask { uid: namespace.uid, tables: &tables, form, is_check: command.is_check };
    begin(cursors, context, asked, &workspace.bytes).await
}

/// Whether the pieces of a task's payload carry their offsets (pipelined piggyback).
pub(crate) fn is_pipelined(sqe: &Sqe) -> bool {
    sqe.cdw2 & Head::PIPELINED != 0
}

/// Executes Task Piggyback.
pub(crate) async fn begin_stream(
    cursors: &Cursors,
    context: &Context<'_>,
    workspace: &mut Workspace,
) -> Result<Reply, Status> {
    let pipelined = is_pipelined(context.sqe);
    if !stream::is_enabled(context, pipelined) {
        return Err(Status::INVALID_OPCODE.with_dnr());
    }
    let (command, _) = check(context)?;
    let (namespace, _) = tables_of(context.core, context.sqe.nsid).await?;
    let head = StreamHead { set: CommandSet::Tables, sqe: *context.sqe, uid: namespace.uid };
    drop(namespace);
    let start = StreamStart { bytes: command.bytes, pipelined };
    match stream::begin(context, workspace, head, start).await? {
        Some(head) => end_stream(cursors, context, &head, &workspace.bytes).await,
        None => Ok(Reply::Done([0; 2])),
    }
}

/// Starts the task of a complete stream, if its namespace still exists.
pub(crate) async fn end_stream(
    cursors: &Cursors,
    context: &Context<'_>,
    head: &StreamHead,
    payload: &[u8],
) -> Result<Reply, Status> {
    let namespace = context.core.namespace(head.sqe.nsid)?;
    let tables = store_of(&namespace).filter(|_| namespace.uid == head.uid);
    let tables = tables.ok_or(Status::NAMESPACE_NOT_READY.with_dnr())?;
    let command = csd::Task::parse(&head.sqe);
    let form = TaskForm::of(context.core, command.form)?;
    let asked = ArrivedTask { uid: namespace.uid, tables: &tables, form, is_check: command.is_check };
    begin(cursors, context, asked, payload).await
}

/// A task whose payload has arrived.
struct ArrivedTask<'a> {
    uid: u64,
    tables: &'a Tables,
    form: TaskForm,
    is_check: bool,
}

/// Opens a cursor and starts the task. A task that is only checked opens no cursor.
async fn begin(
    cursors: &Cursors,
    context: &Context<'_>,
    asked: ArrivedTask<'_>,
    payload: &[u8],
) -> Result<Reply, Status> {
    let core = context.core;
    let ArrivedTask { uid, tables, form, is_check } = asked;
    if is_check {
        let parsed = core.placement.run(WorkKind::Task, (payload.len() as u64).div_ceil(64)).await;
        context.charge_firmware(parsed.queued);
        context.check()?;
        add(&core.counters.tasks, 1);
        let problem = prepare(core, tables, form, payload).err().map_or(0, |(problem, _)| problem.dw1());
        return Ok(Reply::Done([0, problem]));
    }
    cursors.check_room()?;
    let parsed = core.placement.run(WorkKind::Task, (payload.len() as u64).div_ceil(64)).await;
    context.charge_firmware(parsed.queued);
    context.check()?;
    cursors.check_room()?; // others may have been opened during the wait
    add(&core.counters.tasks, 1);
    let found = Rc::new(PendingOutput::new(&core.clock));
    let tasks = match prepare(core, tables, form, payload) {
        Ok(prepared) => run::begin(core, tables.clone(), prepared, found.clone()),
        Err((problem, words)) => {
            found.fail(problem, &words);
            Vec::new()
        }
    };
    Ok(Reply::Done([cursors.open(uid, found, tasks), 0]))
}

/// Parses a payload and binds it to its table.
fn prepare(
    core: &Core,
    tables: &Tables,
    form: TaskForm,
    payload: &[u8],
) -> Result<Prepared, (Problem, String)> {
    match form {
        TaskForm::Plain(form) => prepare_plain(tables, form, payload),
        TaskForm::Filtered => prepare_filtered(core, tables, payload),
    }
}

/// Like [`prepare_plain`], with a program that filters rows. The program counts as in use from now on.
fn prepare_filtered(core: &Core, tables: &Tables, payload: &[u8]) -> Result<Prepared, (Problem, String)> {
    let malformed = |words: &str| (Problem::Malformed, words.to_owned());
    let filtered = Filtered::parse(payload).ok_or_else(|| {
        malformed("a filtered task: it is truncated before its task, or a column name is not UTF-8")
    })?;
    let form = Form::from_code(filtered.form)
        .ok_or_else(|| malformed("a filtered task: the contained task has an unknown form"))?;
    let mut prepared = prepare_plain(tables, form, filtered.task)?;
    let columns =
        FilterColumns::bind(filtered.columns.iter().copied(), &prepared.table.name, &prepared.schema)
            .map_err(|error| (problem_of(&error), error.to_string()))?;
    let program = ProgramFilter::begin(core, (filtered.nsid, filtered.program), filtered.parameters)
        .map_err(|error| (Problem::Program, error.to_string()))?;
    prepared.filter = Some(RowFilter { program, columns });
    Ok(prepared)
}

fn prepare_plain(tables: &Tables, form: Form, payload: &[u8]) -> Result<Prepared, (Problem, String)> {
    let wrong = |error: QueryError| (problem_of(&error), error.to_string());
    let task = Task::parse(form, payload).map_err(wrong)?;
    let table = tables.find(task.table()).ok_or_else(|| {
        let names: Vec<String> = tables.tables().iter().take(8).map(|table| table.name.to_string()).collect();
        let there = if names.is_empty() {
            "there is none".to_owned()
        } else {
            format!("there are {}", names.join(", "))
        };
        (Problem::NoTable, format!("no table {:?}: {there}", task.table()))
    })?;
    let schema = Schema::from_bytes(&table.schema).map_err(|error| (Problem::Media, error.to_string()))?;
    let query = task.bind(&schema).map_err(wrong)?;
    let execution = Execution::new(query, &schema).map_err(wrong)?;
    Ok(Prepared { table, schema, execution, filter: None })
}

/// Executes Result.
pub(crate) async fn result(
    cursors: &Cursors,
    context: &Context<'_>,
    workspace: &mut Workspace,
) -> Result<Reply, Status> {
    let core = context.core;
    let Fetch { cursor, buffer_bytes } = Fetch::parse(context.sqe);
    check_bytes(context, buffer_bytes)?;
    if buffer_bytes == 0 {
        return Err(Status::INVALID_FIELD.with_dnr());
    }
    let (namespace, _) = tables_of(core, context.sqe.nsid).await?;
    let uid = namespace.uid;
    drop(namespace); // so that it can be deleted while this command waits
    context.resolve(workspace, buffer_bytes.into(), true).await?;
    let found = cursors.take(cursor, uid)?;
    let fetched = fetch(context, workspace, &found, buffer_bytes as usize).await;
    match fetched {
        Ok(dw1) if dw1 & END == 0 => cursors.give_back(cursor),
        // The result is complete, or the fetched bytes are lost.
        Ok(_) | Err(_) => cursors.close(cursor),
    }
    let dw1 = fetched?;
    core.count_read(context.span, workspace.bytes.len() as u64);
    Ok(Reply::Done([workspace.bytes.len() as u32, dw1]))
}

async fn fetch(
    context: &Context<'_>,
    workspace: &mut Workspace,
    found: &PendingOutput,
    bytes: usize,
) -> Result<u32, Status> {
    while !found.has(bytes) {
        let doing = found.doing();
        found.changed.notified().await;
        context.charge(doing);
        context.check()?;
    }
    if found.is_gone() {
        return Err(Status::NAMESPACE_NOT_READY);
    }
    let dw1 = found.take(bytes, &mut workspace.bytes);
    let passage = context.core.placement.site(WorkKind::Output).dram("result", workspace.bytes.len() as u64);
    context.core.clock.sleep_until(passage.arrival).await;
    context.charge(Stage::Dram);
    send(context, workspace).await?;
    Ok(dw1)
}

/// Executes Cancel.
pub(crate) fn cancel(cursors: &Cursors, context: &Context<'_>) -> Result<Reply, Status> {
    let cursor = Fetch::parse(context.sqe).cursor;
    let namespace = context.core.namespace(context.sqe.nsid)?;
    cursors.take(cursor, namespace.uid)?;
    cursors.close(cursor);
    Ok(Reply::Done([0; 2]))
}
