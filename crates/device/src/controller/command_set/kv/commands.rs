//! Commands of the Key Value command set, and Store Many.

use crate::config::CommandSet;
use crate::controller::command::context::{Context, Reply};
use crate::controller::command::media::settle;
use crate::controller::command::send::send;
use crate::controller::command::stream::{self, StreamStart};
use crate::controller::command::workspace::{Landing, Workspace};
use crate::controller::command_set::kv::page_buffer;
use crate::controller::command_set::kv::pairs::{
    check_value, key, key_or_first, make_durable, mode, origin, pairs_of, put, status_of, store_of,
    value_bytes_max, writable_pairs,
};
use crate::controller::queue::partial::StreamHead;
use byteway_kv::{Key, Origin, StoreMode};
use byteway_wire::nvme::Status;
use byteway_wire::nvme::kv::{KeyField, List, Retrieve, Store, list};
use byteway_wire::nvme::vendor::kv::{self, Malformed, StoreMany};

pub(crate) async fn store(context: &Context<'_>, workspace: &mut Workspace) -> Result<Reply, Status> {
    let command = Store::parse(context.sqe);
    let (_namespace, pairs) = writable_pairs(context.core, context.sqe.nsid)?;
    let key = key(&command.key)?;
    check_value(context.core, command.bytes)?;
    let mode = mode(&command)?;
    if let Some(stored) =
        page_buffer::store_placed(context, workspace, &pairs, key, command.bytes, mode).await
    {
        return stored;
    }
    context.bring(workspace, command.bytes.into(), Landing::Dram).await?;
    let origin = origin(context, command.bytes);
    put(context, &pairs, key, &workspace.bytes, origin, mode).await
}

/// KV Store Many. All key-value pairs are checked before the first is stored; the processor copies each value
/// to its location.
pub(crate) async fn store_many(context: &Context<'_>, workspace: &mut Workspace) -> Result<Reply, Status> {
    let (core, spans) = (context.core, context.core.port.spans());
    let command = StoreMany::parse(context.sqe);
    let (_namespace, pairs) = writable_pairs(context.core, context.sqe.nsid)?;
    if command.bytes > core.config.controller.transfer_bytes_max {
        return Err(Status::INVALID_FIELD.with_dnr());
    }
    context.bring(workspace, command.bytes.into(), Landing::Dram).await?;
    let checked = command.check(&workspace.bytes, value_bytes_max(core));
    checked.map_err(|malformed| match malformed {
        Malformed::Layout => Status::INVALID_FIELD.with_dnr(),
        Malformed::Key => Status::INVALID_KEY_SIZE.with_dnr(),
        Malformed::Value => Status::INVALID_VALUE_SIZE.with_dnr(),
    })?;
    let Workspace { bytes, failed_dword: stored, .. } = workspace;
    let mut ended = Ok(());
    for (key, value) in kv::pairs(bytes) {
        let key = Key::new(key).ok_or(Status::INVALID_KEY_SIZE.with_dnr())?;
        let store = pairs.store(context.span, spans, key, value, Origin::Memory, StoreMode::Any);
        ended = store.await.map_err(|error| status_of(core, error));
        if ended.is_err() {
            break;
        }
        *stored += 1;
        core.count_written(context.span, 0, value.len() as u64);
        context.check()?;
    }
    // Pairs before a failed one are acknowledged, so they must be durable, too.
    make_durable(core, context.span, &pairs).await?;
    ended?;
    core.count_written(context.span, 1, 0);
    Ok(Reply::Done([command.pairs, 0]))
}

pub(crate) async fn retrieve(context: &Context<'_>, workspace: &mut Workspace) -> Result<Reply, Status> {
    let core = context.core;
    let command = Retrieve::parse(context.sqe);
    let (_namespace, pairs) = pairs_of(context.core, context.sqe.nsid)?;
    let key = key(&command.key)?;
    let buffer_bytes = command.buffer_bytes;
    if buffer_bytes > core.config.controller.transfer_bytes_max {
        return Err(Status::INVALID_FIELD.with_dnr());
    }
    // A result after the completion needs no data pointer; whether it can go there depends on its length.
    let may_follow = command.inline_result && context.queue.methods.get().inline_result() && buffer_bytes > 0;
    if !may_follow {
        context.resolve(workspace, buffer_bytes.into(), true).await?;
    }
    workspace.bytes.clear();
    let spans = core.port.spans();
    let length =
        pairs.retrieve(context.span, spans, key, command.offset, buffer_bytes, &mut workspace.bytes).await;
    let length = length.map_err(|error| status_of(core, error))?;
    context.check()?;
    if command.offset > length {
        return Err(Status::INVALID_FIELD.with_dnr());
    }
    let bytes = workspace.bytes.len() as u32;
    let is_behind = may_follow && bytes > 0 && context.reserve_result(bytes);
    if !is_behind {
        if may_follow {
            context.resolve(workspace, buffer_bytes.into(), true).await?;
        }
        send(context, workspace).await?;
    }
    core.count_read(context.span, bytes.into());
    Ok(if is_behind { Reply::Result([length, bytes]) } else { Reply::Done([length, 0]) })
}

pub(crate) async fn list_keys(context: &Context<'_>, workspace: &mut Workspace) -> Result<Reply, Status> {
    let core = context.core;
    let command = List::parse(context.sqe);
    let (_namespace, pairs) = pairs_of(context.core, context.sqe.nsid)?;
    let from = key_or_first(&command.key)?;
    let bytes = command.buffer_bytes as usize;
    if bytes < list::HEADER_BYTES || command.buffer_bytes > core.config.controller.transfer_bytes_max {
        return Err(Status::INVALID_FIELD.with_dnr());
    }
    context.resolve(workspace, bytes as u64, true).await?;
    workspace.keys.clear();
    let bytes_left = bytes - list::HEADER_BYTES;
    let listed = pairs.list(context.span, core.port.spans(), from, bytes_left, &mut workspace.keys).await;
    listed.map_err(|error| status_of(core, error))?;
    context.check()?;
    list::begin(&mut workspace.bytes);
    for key in &workspace.keys {
        list::push(&mut workspace.bytes, key.as_bytes());
    }
    send(context, workspace).await?;
    core.count_read(context.span, workspace.bytes.len() as u64);
    Ok(Reply::Done([0; 2]))
}

pub(crate) async fn exist(context: &Context<'_>) -> Result<Reply, Status> {
    let core = context.core;
    let (_namespace, pairs) = pairs_of(context.core, context.sqe.nsid)?;
    let key = key(&KeyField::parse(context.sqe))?;
    let exists = pairs.exist(context.span, core.port.spans(), key).await;
    match exists.map_err(|error| status_of(core, error))? {
        true => Ok(Reply::Done([0; 2])),
        false => Err(Status::KEY_DOES_NOT_EXIST.with_dnr()),
    }
}

pub(crate) async fn delete(context: &Context<'_>) -> Result<Reply, Status> {
    let core = context.core;
    let (_namespace, pairs) = writable_pairs(context.core, context.sqe.nsid)?;
    let key = key(&KeyField::parse(context.sqe))?;
    let deleted = pairs.delete(context.span, core.port.spans(), key).await;
    deleted.map_err(|error| status_of(core, error))?;
    make_durable(core, context.span, &pairs).await?;
    Ok(Reply::Done([0; 2]))
}

/// Flush of one namespace. While the namespace is being sanitized or formatted it has nothing to flush.
pub(crate) async fn flush(context: &Context<'_>) -> Result<Reply, Status> {
    let core = context.core;
    let namespace = core.inventory.active(context.sqe.nsid)?;
    match store_of(&namespace) {
        Some(pairs) => {
            let flushed = pairs.flush(context.span, core.port.spans()).await;
            flushed.map_err(|error| status_of(core, error))?;
        }
        None => settle(context).await?,
    }
    context.check()?;
    Ok(Reply::Done([0; 2]))
}

/// KV Store Piggyback and KV Store Pipelined.
pub(crate) async fn begin_stream(
    context: &Context<'_>,
    workspace: &mut Workspace,
    pipelined: bool,
) -> Result<Reply, Status> {
    let command = Store::parse(context.sqe);
    let (namespace, _) = pairs_of(context.core, context.sqe.nsid)?;
    namespace.check_writable()?;
    key(&command.key)?;
    check_value(context.core, command.bytes)?;
    let head = StreamHead { set: CommandSet::KeyValue, sqe: *context.sqe, uid: namespace.uid };
    drop(namespace);
    let start = StreamStart { bytes: command.bytes, pipelined };
    match stream::begin(context, workspace, head, start).await? {
        Some(head) => end_stream(context, &head, &workspace.bytes).await,
        None => Ok(Reply::Done([0; 2])),
    }
}

/// Completes a stream: stores the key-value pair, if its namespace still exists.
pub(crate) async fn end_stream(
    context: &Context<'_>,
    head: &StreamHead,
    value: &[u8],
) -> Result<Reply, Status> {
    let namespace = context.core.namespace(head.sqe.nsid)?;
    let pairs = store_of(&namespace).filter(|_| namespace.uid == head.uid);
    let pairs = pairs.ok_or(Status::NAMESPACE_NOT_READY.with_dnr())?;
    namespace.check_writable()?;
    let key = key(&Store::parse(&head.sqe).key)?;
    put(context, &pairs, key, value, Origin::Memory, StoreMode::Any).await
}
