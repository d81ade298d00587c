//! Code that the KV commands share: keys, values, store modes, and the mapping of store errors to statuses.

use crate::controller::command::context::{Context, Reply};
use crate::controller::core::Core;
use crate::controller::namespace::Namespace;
use crate::controller::state::counters::add;
use crate::controller::state::slot::Payload;
use byteway_clock::SpanId;
use byteway_firmware::MediaError;
use byteway_kv::{Key, Kv, KvError, Origin, StoreMode};
use byteway_transfer::inline;
use byteway_wire::nvme::Status;
use byteway_wire::nvme::kv::{KeyField, Store};
use std::rc::Rc;

/// The store of a namespace, while it is usable.
#[inline]
pub(crate) fn store_of(namespace: &Namespace) -> Option<Kv> {
    namespace.contents()
}

/// A KV namespace and its store.
pub(crate) fn pairs_of(core: &Core, nsid: u32) -> Result<(Rc<Namespace>, Kv), Status> {
    let namespace = core.namespace(nsid)?;
    let pairs = store_of(&namespace).ok_or(Status::NAMESPACE_NOT_READY)?;
    Ok((namespace, pairs))
}

/// Like [`pairs_of`], if the namespace is writable.
pub(crate) fn writable_pairs(core: &Core, nsid: u32) -> Result<(Rc<Namespace>, Kv), Status> {
    let (namespace, pairs) = pairs_of(core, nsid)?;
    namespace.check_writable()?;
    Ok((namespace, pairs))
}

/// Without a volatile write cache, makes changes durable before they are acknowledged.
pub(crate) async fn make_durable(core: &Core, span: SpanId, pairs: &Kv) -> Result<(), Status> {
    if !core.features.write_cache.get().wce() && !core.config.ftl.plp {
        let flushed = pairs.flush(span, core.port.spans()).await;
        flushed.map_err(|error| status_of(core, error))?;
    }
    Ok(())
}

/// The longest value, in bytes.
pub(crate) fn value_bytes_max(core: &Core) -> u32 {
    core.config.kv.as_ref().map_or(0, |policy| policy.store.value_bytes_max)
}

/// The precondition of a Store. There is no compression, so the flag against it has no effect.
pub(crate) fn mode(store: &Store) -> Result<StoreMode, Status> {
    match (store.must_exist, store.must_not_exist) {
        (false, false) => Ok(StoreMode::Any),
        (true, false) => Ok(StoreMode::MustExist),
        (false, true) => Ok(StoreMode::MustNotExist),
        (true, true) => Err(Status::INVALID_FIELD.with_dnr()),
    }
}

/// The key that a command names.
pub(crate) fn key(field: &KeyField) -> Result<Key, Status> {
    field.key().and_then(Key::new).ok_or(Status::INVALID_KEY_SIZE.with_dnr())
}

/// Like [`key`]; an empty key selects the first one.
pub(crate) fn key_or_first(field: &KeyField) -> Result<Key, Status> {
    if field.length == 0 { Ok(Key::FIRST) } else { key(field) }
}

/// Checks the length of a value.
pub(crate) fn check_value(core: &Core, bytes: u32) -> Result<(), Status> {
    if bytes > value_bytes_max(core) {
        return Err(Status::INVALID_VALUE_SIZE.with_dnr());
    }
    if bytes > core.config.controller.transfer_bytes_max {
        return Err(Status::INVALID_FIELD.with_dnr());
    }
    Ok(())
}

/// Stores a key-value pair and answers the command.
pub(crate) async fn put(
    context: &Context<'_>,
    pairs: &Kv,
    key: Key,
    value: &[u8],
    origin: Origin,
    mode: StoreMode,
) -> Result<Reply, Status> {
    let (core, spans) = (context.core, context.core.port.spans());
    let stored = pairs.store_told(context.span, spans, key, value, origin, mode).await;
    let told = stored.map_err(|error| status_of(core, error))?;
    make_durable(core, context.span, pairs).await?;
    core.count_write(context.span, value.len() as u64);
    // A host that places values itself must learn where other values were placed.
    let is_told = context.queue.methods.get().cxl_mem();
    Ok(Reply::Done(if is_told { [told.pointer, told.place] } else { [0; 2] }))
}

/// Maps a store error to a status; no other code does.
pub(crate) fn status_of(core: &Core, error: KvError) -> Status {
    match error {
        KvError::NotFound => Status::KEY_DOES_NOT_EXIST.with_dnr(),
        KvError::Exists => Status::KEY_EXISTS.with_dnr(),
        KvError::CapacityExceeded => Status::CAPACITY_EXCEEDED.with_dnr(),
        KvError::ValueTooLong => Status::INVALID_VALUE_SIZE.with_dnr(),
        KvError::Misplaced => Status::SGL_OFFSET_INVALID.with_dnr(),
        KvError::Media(MediaError::WriteProtected) => Status::NAMESPACE_WRITE_PROTECTED,
        KvError::Media(_) => {
            add(&core.counters.media_errors, 1);
            Status::UNRECOVERED_ERROR
        }
        KvError::Stopped => Status::NAMESPACE_NOT_READY,
    }
}

/// How the value entered the drive. Without DMA the processor holds it.
pub(crate) fn origin(context: &Context<'_>, bytes: u32) -> Origin {
    match context.payload {
        Payload::Pointer if context.names_buffer() || context.in_memory().is_some() || bytes == 0 => {
            Origin::Memory
        }
        Payload::Pointer => Origin::Dma,
        Payload::Train(slots) => match inline::before(context.sqe, slots, bytes.into()) {
            Ok(before) if before > 0 => Origin::Dma,
            _ => Origin::Memory,
        },
        Payload::Chunked(_) | Payload::Refused(_) => Origin::Memory,
    }
}
