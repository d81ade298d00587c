//! The Key Value command set (NVMe Key Value Command Set 1.0): Store, Retrieve, List, Delete, Exist, and Flush of a namespace
//! of pairs. The pairs themselves are [`byteway_firmware::kv`]'s; Byteway's own commands are in [`iterator`] and
//! [`streams`].

use crate::config::DriveConfig;
use crate::controller::io::{Landing, Workspace, settle};
use crate::controller::log::add;
use crate::controller::namespace::Namespace;
use crate::controller::slot::Payload;
use crate::controller::{Context, Core, Reply, iterator, sink, streams};
use byteway_clock::{SpanId, Stage};
use byteway_firmware::{
    Key, Kv, KvConfig, KvConfigError, KvError, MediaError, Origin, StoreMode, UnitExtent,
};
use byteway_transfer::inline;
use byteway_wire::nvme::kv::{KeyField, List, Retrieve, Store, list};
use byteway_wire::nvme::vendor::kv::{Malformed, StoreMany, pairs as pairs_in};
use byteway_wire::nvme::{KvOpcode, Status, VendorOpcode};
use std::rc::Rc;

/// Executes an I/O command of a namespace of pairs.
pub async fn execute(context: &Context<'_>, workspace: &mut Workspace) -> Result<Reply, Status> {
    match KvOpcode(context.sqe.opcode()) {
        KvOpcode::STORE => store(context, workspace).await,
        KvOpcode::RETRIEVE => retrieve(context, workspace).await,
        KvOpcode::LIST => list(context, workspace).await,
        KvOpcode::DELETE => delete(context).await,
        KvOpcode::EXIST => exist(context).await,
        KvOpcode::FLUSH => flush(context).await,
        _ => vendor(context, workspace).await,
    }
}

async fn vendor(context: &Context<'_>, workspace: &mut Workspace) -> Result<Reply, Status> {
    let enabled = context.queue.methods.get();
    match VendorOpcode(context.sqe.opcode()) {
        VendorOpcode::KV_STORE_PIGGYBACK if enabled.piggyback() => {
            streams::store_pair(context, workspace, false).await
        }
        VendorOpcode::KV_STORE_PIPELINED if enabled.piggyback_pipelined() => {
            streams::store_pair(context, workspace, true).await
        }
        VendorOpcode::TRANSFER if enabled.piggyback() => streams::transfer(context, workspace).await,
        VendorOpcode::TRANSFER_PIPELINED if enabled.piggyback_pipelined() => {
            streams::transfer_pipelined(context, workspace).await
        }
        VendorOpcode::KV_SEEK => iterator::seek(context).await,
        VendorOpcode::KV_NEXT => iterator::next(context, workspace).await,
        VendorOpcode::KV_CLOSE => iterator::close(context),
        VendorOpcode::KV_STORE_MANY => store_many(context, workspace).await,
        VendorOpcode::PAGE_POINTER if enabled.cxl_mem() => context.page_pointer().await,
        // The sink is the drive's, whatever namespace a command names.
        VendorOpcode::SINK_WRITE | VendorOpcode::SINK_READ | VendorOpcode::SINK_STORE => {
            sink::execute(context, workspace).await
        }
        _ => Err(Status::INVALID_OPCODE.with_dnr()),
    }
}

/// The commands of this set that the NVM command set has not: of a namespace of blocks they are no commands.
pub fn is_own(opcode: u8) -> bool {
    let vendor = [
        VendorOpcode::KV_STORE_PIGGYBACK,
        VendorOpcode::KV_STORE_PIPELINED,
        VendorOpcode::KV_SEEK,
        VendorOpcode::KV_NEXT,
        VendorOpcode::KV_CLOSE,
        VendorOpcode::KV_STORE_MANY,
        VendorOpcode::PAGE_POINTER,
    ];
    matches!(KvOpcode(opcode), KvOpcode::LIST | KvOpcode::DELETE | KvOpcode::EXIST)
        || vendor.contains(&VendorOpcode(opcode))
}

impl Core {
    /// A namespace of pairs, and these.
    fn pairs_of(&self, nsid: u32) -> Result<(Rc<Namespace>, Kv), Status> {
        let namespace = self.namespace(nsid)?;
        let pairs = namespace.pairs().ok_or(Status::NAMESPACE_NOT_READY)?;
        Ok((namespace, pairs))
    }

    /// The same, if they can be written.
    pub(super) fn writable_pairs(&self, nsid: u32) -> Result<(Rc<Namespace>, Kv), Status> {
        let (namespace, pairs) = self.pairs_of(nsid)?;
        namespace.check_writable()?;
        Ok((namespace, pairs))
    }
}

impl Context<'_> {
    /// The namespace that the command names, and its pairs.
    pub(super) fn pairs(&self) -> Result<(Rc<Namespace>, Kv), Status> {
        self.core.pairs_of(self.sqe.nsid)
    }

    /// The same, if they can be written.
    fn writable_pairs(&self) -> Result<(Rc<Namespace>, Kv), Status> {
        self.core.writable_pairs(self.sqe.nsid)
    }
}

/// When a pair is to be stored. Compression there is none, so that a value is not to be compressed changes nothing.
pub fn mode(store: &Store) -> Result<StoreMode, Status> {
    match (store.must_exist, store.must_not_exist) {
        (false, false) => Ok(StoreMode::Any),
        (true, false) => Ok(StoreMode::MustExist),
        (false, true) => Ok(StoreMode::MustNotExist),
        (true, true) => Err(Status::INVALID_FIELD.with_dnr()),
    }
}

/// The key that a command names.
pub fn key(field: &KeyField) -> Result<Key, Status> {
    field.key().and_then(Key::new).ok_or(Status::INVALID_KEY_SIZE.with_dnr())
}

/// The same where an empty one stands for the first.
pub fn key_or_first(field: &KeyField) -> Result<Key, Status> {
    if field.length == 0 { Ok(Key::FIRST) } else { key(field) }
}

/// Whether a value may have so many bytes.
pub fn check_value(core: &Core, bytes: u32) -> Result<(), Status> {
    if bytes > core.value_bytes_max() {
        return Err(Status::INVALID_VALUE_SIZE.with_dnr());
    }
    if bytes > core.config.controller.transfer_bytes_max {
        return Err(Status::INVALID_FIELD.with_dnr());
    }
    Ok(())
}

async fn store(context: &Context<'_>, workspace: &mut Workspace) -> Result<Reply, Status> {
    let command = Store::parse(context.sqe);
    let (_namespace, pairs) = context.writable_pairs()?;
    let key = key(&command.key)?;
    check_value(context.core, command.bytes)?;
    let mode = mode(&command)?;
    if let Some(stored) = context.store_placed(workspace, &pairs, key, command.bytes, mode).await {
        return stored;
    }
    context.bring(workspace, command.bytes.into(), Landing::Sink).await?;
    let origin = origin(context, command.bytes);
    put(context, &pairs, key, &workspace.bytes, origin, mode).await
}

/// KV Store Many. The pairs are looked at before the first is stored; the processor copies each value to its place.
async fn store_many(context: &Context<'_>, workspace: &mut Workspace) -> Result<Reply, Status> {
    let (core, spans) = (context.core, context.core.port.spans());
    let command = StoreMany::parse(context.sqe);
    let (_namespace, pairs) = context.writable_pairs()?;
    if command.bytes > core.config.controller.transfer_bytes_max {
        return Err(Status::INVALID_FIELD.with_dnr());
    }
    context.bring(workspace, command.bytes.into(), Landing::Sink).await?;
    let checked = command.check(&workspace.bytes, core.value_bytes_max());
    checked.map_err(|malformed| match malformed {
        Malformed::Layout => Status::INVALID_FIELD.with_dnr(),
        Malformed::Key => Status::INVALID_KEY_SIZE.with_dnr(),
        Malformed::Value => Status::INVALID_VALUE_SIZE.with_dnr(),
    })?;
    let Workspace { bytes, failed_dword: stored, .. } = workspace;
    let mut ended = Ok(());
    for (key, value) in pairs_in(bytes) {
        let key = Key::new(key).ok_or(Status::INVALID_KEY_SIZE.with_dnr())?;
        let store = pairs.store(context.span, spans, key, value, Origin::Memory, StoreMode::Any);
        ended = store.await.map_err(|error| status_of(core, error));
        if ended.is_err() {
            break;
        }
        *stored += 1;
        add(&core.counters.written_bytes, value.len() as u64);
        context.check()?;
    }
    // Those before one that failed are acknowledged, too.
    context.make_durable(&pairs).await?;
    ended?;
    add(&core.counters.writes, 1);
    Ok(Reply::Done([command.pairs, 0]))
}

/// How the value came: what has no DMA at all is in the processor's hands.
fn origin(context: &Context<'_>, bytes: u32) -> Origin {
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

/// Stores a pair, and answers.
pub async fn put(
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
    context.make_durable(pairs).await?;
    add(&core.counters.writes, 1);
    add(&core.counters.written_bytes, value.len() as u64);
    // A host that places values itself must know where others are.
    let is_told = context.queue.methods.get().cxl_mem();
    Ok(Reply::Done(if is_told { [told.pointer, told.place] } else { [0; 2] }))
}

impl Context<'_> {
    /// Without a volatile write cache, what was done is durable before it is acknowledged.
    pub(super) async fn make_durable(&self, pairs: &Kv) -> Result<(), Status> {
        self.core.make_durable(self.span, pairs).await
    }
}

impl Core {
    /// Without a volatile write cache, what was done is durable before it is acknowledged.
    pub(super) async fn make_durable(&self, span: SpanId, pairs: &Kv) -> Result<(), Status> {
        if !self.features.write_cache.get().wce() && !self.config.ftl.power_loss_protection {
            let flushed = pairs.flush(span, self.port.spans()).await;
            flushed.map_err(|error| status_of(self, error))?;
        }
        Ok(())
    }
}

async fn retrieve(context: &Context<'_>, workspace: &mut Workspace) -> Result<Reply, Status> {
    let core = context.core;
    let command = Retrieve::parse(context.sqe);
    let (_namespace, pairs) = context.pairs()?;
    let key = key(&command.key)?;
    let buffer_bytes = command.buffer_bytes;
    if buffer_bytes > core.config.controller.transfer_bytes_max {
        return Err(Status::INVALID_FIELD.with_dnr());
    }
    // A result behind the completion needs no data pointer, but whether it can go there its length says.
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
    add(&core.counters.reads, 1);
    add(&core.counters.read_bytes, bytes.into());
    Ok(if is_behind { Reply::Result([length, bytes]) } else { Reply::Done([length, 0]) })
}

/// Sends `workspace.bytes` to where the data pointer says, which has been resolved; there may be room for more.
pub async fn send(context: &Context<'_>, workspace: &Workspace) -> Result<(), Status> {
    context.set_up_dma(workspace.bytes.len() as u64).await?;
    let sent = sink::send(context, workspace)?;
    context.core.clock.sleep_until(sent).await;
    context.charge(Stage::Link);
    context.check()
}

async fn list(context: &Context<'_>, workspace: &mut Workspace) -> Result<Reply, Status> {
    let core = context.core;
    let command = List::parse(context.sqe);
    let (_namespace, pairs) = context.pairs()?;
    let from = key_or_first(&command.key)?;
    let bytes = command.buffer_bytes as usize;
    if bytes < list::HEADER_BYTES || command.buffer_bytes > core.config.controller.transfer_bytes_max {
        return Err(Status::INVALID_FIELD.with_dnr());
    }
    context.resolve(workspace, bytes as u64, true).await?;
    workspace.keys.clear();
    let room = bytes - list::HEADER_BYTES;
    let listed = pairs.list(context.span, core.port.spans(), from, room, &mut workspace.keys).await;
    listed.map_err(|error| status_of(core, error))?;
    context.check()?;
    list::begin(&mut workspace.bytes);
    for key in &workspace.keys {
        list::push(&mut workspace.bytes, key.as_bytes());
    }
    send(context, workspace).await?;
    add(&core.counters.reads, 1);
    add(&core.counters.read_bytes, workspace.bytes.len() as u64);
    Ok(Reply::Done([0; 2]))
}

async fn exist(context: &Context<'_>) -> Result<Reply, Status> {
    let core = context.core;
    let (_namespace, pairs) = context.pairs()?;
    let key = key(&KeyField::parse(context.sqe))?;
    let exists = pairs.exist(context.span, core.port.spans(), key).await;
    match exists.map_err(|error| status_of(core, error))? {
        true => Ok(Reply::Done([0; 2])),
        false => Err(Status::KEY_DOES_NOT_EXIST.with_dnr()),
    }
}

async fn delete(context: &Context<'_>) -> Result<Reply, Status> {
    let core = context.core;
    let (_namespace, pairs) = context.writable_pairs()?;
    let key = key(&KeyField::parse(context.sqe))?;
    let deleted = pairs.delete(context.span, core.port.spans(), key).await;
    deleted.map_err(|error| status_of(core, error))?;
    context.make_durable(&pairs).await?;
    Ok(Reply::Done([0; 2]))
}

/// Flush of one namespace. While that is sanitized or formatted it has no pairs, and nothing to flush.
async fn flush(context: &Context<'_>) -> Result<Reply, Status> {
    let core = context.core;
    let namespace = core.inventory.active(context.sqe.nsid)?;
    match namespace.pairs() {
        Some(pairs) => {
            let flushed = pairs.flush(context.span, core.port.spans()).await;
            flushed.map_err(|error| status_of(core, error))?;
        }
        None => settle(context).await?,
    }
    context.check()?;
    Ok(Reply::Done([0; 2]))
}

/// The one place where a failure of a store becomes a status.
pub fn status_of(core: &Core, error: KvError) -> Status {
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

/// The parameters of a namespace's store; of blocks there is none.
pub fn store_config(config: &DriveConfig, namespace: &Namespace) -> Option<KvConfig> {
    let policy = config.kv.as_ref().filter(|_| namespace.is_kv())?;
    let extents = namespace.extents();
    let extents = extents.iter().map(|extent| UnitExtent { first: extent.first, count: extent.units });
    Some(KvConfig {
        extents: extents.collect(),
        uid: namespace.uid,
        plp: config.ftl.power_loss_protection,
        seed: config.seed,
        ..policy.store.clone()
    })
}

impl Core {
    /// The longest value, bytes.
    pub(super) fn value_bytes_max(&self) -> u32 {
        self.config.kv.as_ref().map_or(0, |policy| policy.store.value_bytes_max)
    }

    /// Gives a namespace of pairs its store, over what its units hold, if it has none; one of blocks is left as it is.
    ///
    /// # Errors
    /// There can be no store of its size.
    pub(super) fn open_pairs(&self, namespace: &Namespace) -> Result<(), KvConfigError> {
        let Some(config) = store_config(&self.config, namespace) else { return Ok(()) };
        if namespace.pairs().is_some() {
            return Ok(());
        }
        let pairs = Kv::power_on(&self.clock, self.placement.clone(), self.ftl.clone(), config)?;
        namespace.set_pairs(Some(pairs));
        Ok(())
    }

    /// Takes a namespace its store, which nobody uses any more: its units are to be deallocated.
    ///
    /// # Errors
    /// At the end of the drive's life. The namespace has its store then, with what was in it, or none if that is to be found
    /// out anew.
    pub(super) async fn close_pairs(&self, namespace: &Namespace) -> Result<(), MediaError> {
        self.iterators.end_of(namespace.uid);
        let Some(pairs) = namespace.pairs() else { return Ok(()) };
        // Empty, it has nothing left to do to its units. If it can't be for another reason, the units go all the same.
        let is_left = pairs.format().await.is_err() && self.ftl.health().is_read_only;
        if is_left && pairs.is_known() {
            return Err(MediaError::WriteProtected);
        }
        pairs.stop();
        namespace.set_pairs(None);
        if is_left { Err(MediaError::WriteProtected) } else { Ok(()) }
    }

    /// Everything that namespaces of pairs have acknowledged is on flash when this ends.
    pub(super) async fn flush_pairs(&self, span: SpanId) -> Result<(), Status> {
        for pairs in self.all_pairs() {
            let flushed = pairs.flush(span, self.port.spans()).await;
            flushed.map_err(|error| status_of(self, error))?;
        }
        Ok(())
    }

    /// All stores. Who waits for one of them holds no namespace.
    fn all_pairs(&self) -> Vec<Kv> {
        self.inventory.all().iter().filter_map(|namespace| namespace.pairs()).collect()
    }

    /// Waits until all stores know what they hold.
    pub(super) async fn pairs_ready(&self) {
        for pairs in self.all_pairs() {
            pairs.ready().await;
        }
    }
}
