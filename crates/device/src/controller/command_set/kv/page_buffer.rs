//! The page buffer of the first KV namespace, after area and ring in device memory
//! ([`byteway_wire::nvme::vendor::cxl`]): the host stores values directly where they stay.

use crate::controller::command::context::{Context, Reply};
use crate::controller::command::payload::Followed;
use crate::controller::command::workspace::Workspace;
use crate::controller::command_set::kv::life::first_store;
use crate::controller::command_set::kv::pairs::{make_durable, pairs_of, status_of};
use crate::controller::core::Core;
use crate::controller::state::counters::add;
use byteway_kv::{Key, Kv, StoreMode, Stored};
use byteway_transfer::cxl_mem::{self, PayloadLocation};
use byteway_wire::nvme::Status;
use byteway_wire::nvme::vendor::cxl::{DeviceMemoryLog, InDeviceMemory, PagePointer};

/// How device memory is divided, including the page buffer.
pub(crate) fn log(core: &Core) -> DeviceMemoryLog {
    log_upon(core, core.memory.log(core.config.transfer.memory.as_ref()))
}

/// Adds the page buffer to the division `without` it.
pub(crate) fn log_upon(core: &Core, without: DeviceMemoryLog) -> DeviceMemoryLog {
    let Some(config) = &core.config.transfer.memory else { return without };
    let Some((nsid, pairs)) = first_store(core) else { return without };
    let told = pairs.told();
    let log = DeviceMemoryLog {
        bytes: without.bytes + u64::from(pairs.buffer_bytes()),
        buffer_offset: config.buffer_offset(),
        buffer_bytes: pairs.buffer_bytes(),
        page_bytes: pairs.page_bytes(),
        align: pairs.value_align(),
        nsid,
        pointer: told.pointer,
        limit: told.limit,
        ..without
    };
    // Positions are taken modulo the buffer's size, which must therefore be a power of two; otherwise there is no page
    // buffer.
    if log.placing().is_some() { log } else { without }
}

/// The offset in the page buffer of a device address, and the store that the buffer belongs to.
pub(crate) fn find(core: &Core, address: u64) -> Option<(u32, Kv)> {
    let offset = core.config.transfer.memory.as_ref()?.buffer_offset();
    let at = u32::try_from(address.checked_sub(offset.into())?).ok()?;
    let (_, pairs) = first_store(core)?;
    (at < pairs.buffer_bytes()).then_some((at, pairs))
}

/// Stores a key-value pair whose value lies at `at` in the page buffer, for a command or a record, once its
/// checksum matches. `value` is a reused buffer.
pub(crate) async fn store_at(
    core: &Core,
    followed: Followed<'_>,
    value: &mut Vec<u8>,
    pairs: &Kv,
    key: Key,
    (at, named): (u32, InDeviceMemory),
    mode: StoreMode,
) -> Result<Stored, Status> {
    let (span, spans) = (followed.0, core.port.spans());
    value.clear();
    value.resize(named.bytes as usize, 0);
    core.settled(followed, named.checksum, || {
        pairs.buffer_load(at, value);
        Ok(crc32c::crc32c(value))
    })
    .await?;
    let stored = pairs.store_placed(span, spans, key, at, named.bytes, named.checksum, mode).await;
    let told = stored.map_err(|error| status_of(core, error))?;
    make_durable(core, span, pairs).await?;
    add(&core.counters.buffered_bytes, named.bytes.into());
    core.count_write(span, named.bytes.into());
    Ok(told)
}

/// Stores a key-value pair whose value of `bytes` bytes the host has placed in the page buffer, if the data
/// pointer says so. Returns the write pointer and the limit; `None` if the value is elsewhere.
pub(crate) async fn store_placed(
    context: &Context<'_>,
    workspace: &mut Workspace,
    pairs: &Kv,
    key: Key,
    bytes: u32,
    mode: StoreMode,
) -> Option<Result<Reply, Status>> {
    let core = context.core;
    let named = context.in_memory().filter(|_| bytes > 0)?;
    let log = log(core);
    match cxl_mem::find(&log, named, bytes.into()) {
        Ok(PayloadLocation::Area(_)) => None,
        Ok(PayloadLocation::Buffer(_)) if log.nsid != context.sqe.nsid => {
            Some(Err(Status::SGL_OFFSET_INVALID.with_dnr()))
        }
        Ok(PayloadLocation::Buffer(at)) => {
            let check = || context.check();
            let value = &mut workspace.bytes;
            let stored = store_at(core, (context.span, &check), value, pairs, key, (at, named), mode).await;
            Some(stored.map(|told| Reply::Done([told.pointer, told.limit])))
        }
        Err(status) => Some(Err(status)),
    }
}

/// Page Pointer.
pub(crate) async fn page_pointer(context: &Context<'_>) -> Result<Reply, Status> {
    let core = context.core;
    let (_namespace, pairs) = pairs_of(core, context.sqe.nsid)?;
    if log(core).nsid != context.sqe.nsid {
        return Err(Status::INVALID_FIELD.with_dnr());
    }
    let gives_up = PagePointer::parse(context.sqe).gives_up;
    let made = pairs.make_place(context.span, core.port.spans(), gives_up).await;
    let told = made.map_err(|error| status_of(core, error))?;
    context.check()?;
    Ok(Reply::Done([told.pointer, told.limit]))
}
