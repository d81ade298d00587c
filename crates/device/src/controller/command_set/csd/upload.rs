//! Table Append: collects the parts of an Arrow IPC stream, and appends its rows when the last part has
//! arrived.

use crate::config::CsdPolicy;
use crate::controller::command::context::{Context, Reply};
use crate::controller::command::workspace::{Landing, Workspace};
use crate::controller::command_set::csd::cost;
use crate::controller::command_set::csd::life::{status_of, tables_of};
use crate::controller::command_set::csd::tables::{check_bytes, table};
use byteway_clock::{Clock, Delay, Notify, Stage, Time};
use byteway_firmware::WorkKind;
use byteway_query::{QueryError, Schema, group, ipc};
use byteway_tables::{NewGroup, TableId};
use byteway_wire::nvme::Status;
use byteway_wire::nvme::vendor::csd::Append;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

struct Upload {
    uid: u64,
    table: u32,
    until: Time,
    /// Bytes received so far; `None` while a command uses them.
    bytes: Option<Vec<u8>>,
}

/// All uploads of a controller.
pub struct Uploads {
    clock: Clock,
    table: RefCell<BTreeMap<u32, Upload>>,
    most: usize,
    bytes_max: u64,
    group_rows: usize,
    timeout: Delay,
    next: Cell<u32>,
    begun: Notify,
}

impl Uploads {
    pub(crate) fn new(clock: &Clock, policy: Option<&CsdPolicy>) -> Uploads {
        Uploads {
            clock: clock.clone(),
            table: RefCell::default(),
            most: policy.map_or(0, |policy| policy.uploads_max as usize),
            bytes_max: policy.map_or(0, |policy| policy.upload_bytes_max),
            group_rows: policy.map_or(1, |policy| policy.group_rows as usize),
            timeout: policy.map_or(Delay::ZERO, |policy| policy.timeout),
            next: Cell::new(1),
            begun: Notify::new(clock),
        }
    }

    /// Drops all uploads.
    pub(crate) fn clear(&self) {
        self.table.borrow_mut().clear();
    }

    /// Drops the uploads of a namespace.
    pub(crate) fn end_of(&self, uid: u64) {
        self.table.borrow_mut().retain(|_, upload| upload.uid != uid);
    }

    /// Drops uploads whose timeout has expired.
    pub(crate) async fn run(&self, clock: &Clock) {
        loop {
            self.end_late();
            let until = self.table.borrow().values().map(|upload| upload.until).min();
            match until {
                Some(until) if until < Time(u64::MAX) => clock.timer(until.since(clock.now())).await,
                _ => self.begun.notified().await,
            }
        }
    }

    fn end_late(&self) {
        let now = self.clock.now();
        self.table.borrow_mut().retain(|_, upload| upload.until > now);
    }

    /// Takes the bytes of an existing upload, or starts a new one.
    fn take(&self, command: Append, uid: u64) -> Result<(u32, Vec<u8>), Status> {
        let mut table = self.table.borrow_mut();
        if command.upload == 0 {
            if table.len() >= self.most {
                return Err(Status::COMMAND_SEQUENCE_ERROR);
            }
            let mut id = self.next.get().max(1);
            while table.contains_key(&id) {
                id = id.wrapping_add(1).max(1);
            }
            self.next.set(id.wrapping_add(1));
            table.insert(id, Upload { uid, table: command.table, until: Time(u64::MAX), bytes: None });
            return Ok((id, Vec::new()));
        }
        let upload = table.get_mut(&command.upload);
        let upload = upload.filter(|upload| (upload.uid, upload.table) == (uid, command.table));
        let upload = upload.ok_or(Status::INVALID_FIELD.with_dnr())?;
        let bytes = upload.bytes.take().ok_or(Status::COMMAND_SEQUENCE_ERROR.with_dnr())?;
        upload.until = Time(u64::MAX);
        Ok((command.upload, bytes))
    }

    fn give_back(&self, id: u32, bytes: Vec<u8>) {
        if let Some(upload) = self.table.borrow_mut().get_mut(&id) {
            upload.bytes = Some(bytes);
            upload.until = self.clock.now() + self.timeout;
            self.begun.notify_one();
        }
    }
}

/// An upload in use by a command. It is dropped with this unless its bytes were given back.
struct Held<'a> {
    uploads: &'a Uploads,
    id: u32,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let mut table = self.uploads.table.borrow_mut();
        if table.get(&self.id).is_some_and(|upload| upload.bytes.is_none()) {
            table.remove(&self.id);
        }
    }
}

/// Executes Table Append. If a part fails, its upload ends.
pub(crate) async fn append(
    uploads: &Uploads,
    context: &Context<'_>,
    workspace: &mut Workspace,
) -> Result<Reply, Status> {
    let core = context.core;
    let command = Append::parse(context.sqe);
    check_bytes(context, command.bytes)?;
    let (namespace, tables) = tables_of(core, context.sqe.nsid).await?;
    namespace.check_writable()?;
    let there = table(&tables, command.table)?;
    uploads.end_late();
    let (id, mut bytes) = uploads.take(command, namespace.uid)?;
    let held = Held { uploads, id };
    if bytes.len() as u64 + u64::from(command.bytes) > uploads.bytes_max {
        return Err(Status::INVALID_FIELD.with_dnr());
    }
    context.bring(workspace, command.bytes.into(), Landing::Dram).await?;
    bytes.extend_from_slice(&workspace.bytes);
    if !command.ends {
        uploads.give_back(id, bytes);
        drop(held);
        return Ok(Reply::Done([id, 0]));
    }
    let groups =
        encode(&there.schema, &bytes, uploads.group_rows).map_err(|_| Status::INVALID_FIELD.with_dnr())?;
    let encoded: u64 = groups.iter().map(|group| group.data.len() as u64).sum();
    let end = cost::spread(core, WorkKind::Encode, (bytes.len() as u64).div_ceil(64));
    core.clock.sleep_until(end).await;
    context.charge(Stage::Firmware);
    let passage = core.placement.site(WorkKind::Encode).dram("row groups", bytes.len() as u64 + encoded);
    core.clock.sleep_until(passage.arrival).await;
    context.charge(Stage::Dram);
    context.check()?;
    let appended = tables.append(context.span, core.port.spans(), TableId(command.table), groups).await;
    let rows = appended.map_err(|error| status_of(core, error))?;
    drop(held);
    core.count_write(context.span, bytes.len() as u64);
    Ok(Reply::Done([rows as u32, (rows >> 32) as u32]))
}

/// Encodes the rows of a stream as row groups.
fn encode(schema: &[u8], bytes: &[u8], group_rows: usize) -> Result<Vec<NewGroup>, QueryError> {
    let schema = Schema::from_bytes(schema)?;
    let mut groups = Vec::new();
    for batch in ipc::decode(bytes)? {
        let mut from = 0;
        while from < batch.num_rows() {
            let rows = group_rows.min(batch.num_rows() - from);
            let (meta, data) = group::encode(&schema, &batch.slice(from, rows))?;
            groups.push(NewGroup { rows: rows as u64, meta: meta.to_bytes(), data });
            from += rows;
        }
    }
    Ok(groups)
}
