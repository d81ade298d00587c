//! Commands about tables: Table Create, Drop, List, Groups and Read.

use crate::controller::command::context::{Context, Reply};
use crate::controller::command::send::send;
use crate::controller::command::workspace::{Landing, Workspace};
use crate::controller::command_set::csd::life::{status_of, tables_of};
use byteway_clock::Stage;
use byteway_firmware::WorkKind;
use byteway_query::Schema;
use byteway_tables::{Group, Table, TableId, Tables};
use byteway_wire::nvme::Status;
use byteway_wire::nvme::vendor::csd::{Create, END, GroupRecord, List, Read, TOO_SMALL, TableRecord};
use std::rc::Rc;

/// Checks a length against the maximum data transfer size.
pub(crate) fn check_bytes(context: &Context<'_>, bytes: u32) -> Result<(), Status> {
    let most = context.core.config.controller.transfer_bytes_max;
    if bytes > most { Err(Status::INVALID_FIELD.with_dnr()) } else { Ok(()) }
}

/// The table with this number.
pub(crate) fn table(tables: &Tables, number: u32) -> Result<Table, Status> {
    tables.table(TableId(number)).ok_or(Status::INVALID_FIELD.with_dnr())
}

pub(crate) async fn create(context: &Context<'_>, workspace: &mut Workspace) -> Result<Reply, Status> {
    let core = context.core;
    let (namespace, tables) = tables_of(core, context.sqe.nsid).await?;
    namespace.check_writable()?;
    let bytes = context.sqe.cdw10;
    check_bytes(context, bytes)?;
    context.bring(workspace, bytes.into(), Landing::Dram).await?;
    let invalid = Status::INVALID_FIELD.with_dnr();
    let wanted = Create::parse(&workspace.bytes).ok_or(invalid)?;
    let schema = Schema::from_bytes(wanted.schema).map_err(|_| invalid)?;
    let made = tables.create(context.span, core.port.spans(), wanted.name, &schema.to_bytes()).await;
    let id = made.map_err(|error| status_of(core, error))?;
    Ok(Reply::Done([id.0, 0]))
}

pub(crate) async fn drop_table(context: &Context<'_>) -> Result<Reply, Status> {
    let core = context.core;
    let (namespace, tables) = tables_of(core, context.sqe.nsid).await?;
    namespace.check_writable()?;
    let id = TableId(context.sqe.cdw12);
    let dropped = tables.drop_table(context.span, core.port.spans(), id).await;
    dropped.map_err(|error| status_of(core, error))?;
    Ok(Reply::Done([0; 2]))
}

pub(crate) async fn list(context: &Context<'_>, workspace: &mut Workspace) -> Result<Reply, Status> {
    let command = List::parse(context.sqe);
    let (_namespace, tables) = tables_of(context.core, context.sqe.nsid).await?;
    check_bytes(context, command.buffer_bytes)?;
    context.resolve(workspace, command.buffer_bytes.into(), true).await?;
    let mut all = tables.tables();
    all.retain(|table| table.id.0 >= command.table);
    let mut records = Records::new(command.buffer_bytes);
    workspace.bytes.clear();
    for table in &all {
        let record = TableRecord {
            table: table.id.0,
            groups: table.groups.len() as u32,
            rows: table.rows(),
            bytes: table.bytes(),
            name: table.name.to_string(),
            schema: table.schema.to_vec(),
        };
        if !records.add(&mut workspace.bytes, |into| record.push(into)) {
            break;
        }
    }
    records.answer(context, workspace).await
}

pub(crate) async fn groups(context: &Context<'_>, workspace: &mut Workspace) -> Result<Reply, Status> {
    let core = context.core;
    let command = List::parse(context.sqe);
    let (_namespace, tables) = tables_of(core, context.sqe.nsid).await?;
    check_bytes(context, command.buffer_bytes)?;
    let table = table(&tables, command.table)?;
    context.resolve(workspace, command.buffer_bytes.into(), true).await?;
    let mut records = Records::new(command.buffer_bytes);
    workspace.bytes.clear();
    for group in table.groups.iter().skip(command.group as usize) {
        let meta = tables.meta(context.span, core.port.spans(), group).await;
        let meta = meta.map_err(|error| status_of(core, error))?;
        context.check()?;
        let push = |into: &mut Vec<u8>| GroupRecord::push(group.rows, group.data_bytes, &meta, into);
        if !records.add(&mut workspace.bytes, push) {
            break;
        }
    }
    records.answer(context, workspace).await
}

pub(crate) async fn read(context: &Context<'_>, workspace: &mut Workspace) -> Result<Reply, Status> {
    let core = context.core;
    let command = Read::parse(context.sqe);
    let (_namespace, tables) = tables_of(core, context.sqe.nsid).await?;
    check_bytes(context, command.bytes)?;
    let group = group_of(&table(&tables, command.table)?, command.group)?;
    let end = command.offset.checked_add(command.bytes.into());
    if end.is_none_or(|end| end > group.data_bytes) {
        return Err(Status::INVALID_FIELD.with_dnr());
    }
    context.resolve(workspace, command.bytes.into(), true).await?;
    workspace.bytes.clear();
    let (offset, bytes) = (command.offset, u64::from(command.bytes));
    let read =
        tables.read(context.span, core.port.spans(), &group, offset, bytes, &mut workspace.bytes).await;
    read.map_err(|error| status_of(core, error))?;
    context.check()?;
    send(context, workspace).await?;
    core.count_read(context.span, bytes);
    Ok(Reply::Done([0; 2]))
}

fn group_of(table: &Table, number: u32) -> Result<Rc<Group>, Status> {
    table.groups.get(number as usize).cloned().ok_or(Status::INVALID_FIELD.with_dnr())
}

/// Records of a list, up to the size of the host's buffer.
struct Records {
    room: usize,
    told: u32,
}

impl Records {
    fn new(buffer_bytes: u32) -> Records {
        Records { room: buffer_bytes as usize, told: END }
    }

    /// Appends a record. Returns false, without appending it, if the buffer is too small.
    fn add(&mut self, into: &mut Vec<u8>, push: impl FnOnce(&mut Vec<u8>)) -> bool {
        let before = into.len();
        push(into);
        let fits = into.len() <= self.room;
        if !fits {
            into.truncate(before);
            self.told = if before == 0 { TOO_SMALL } else { 0 };
        }
        fits
    }

    async fn answer(self, context: &Context<'_>, workspace: &Workspace) -> Result<Reply, Status> {
        let bytes = workspace.bytes.len() as u32;
        let passage = context.core.placement.site(WorkKind::Complete).dram("list", bytes.into());
        context.core.clock.sleep_until(passage.arrival).await;
        context.charge(Stage::Dram);
        send(context, workspace).await?;
        Ok(Reply::Done([bytes, self.told]))
    }
}
