//! Payload in the fields of commands (BandSlim): Sink Store or KV Store Piggyback begins a stream, transfer commands bring the rest, and the
//! one that brings the last of it stores. A stream of which a command fails stores nothing.

use crate::controller::io::Workspace;
use crate::controller::log::add;
use crate::controller::partial::State;
use crate::controller::queue::Fate;
use crate::controller::{Context, Reply, kv, sink};
use byteway_clock::Stage;
use byteway_firmware::{Key, Origin, StoreMode, Work};
use byteway_transfer::partial::Pool;
use byteway_transfer::piggyback::{Complete, Taken};
use byteway_wire::nvme::kv::Store;
use byteway_wire::nvme::vendor::piggyback::{Head, Piece, PipelinedPiece, commands};
use byteway_wire::nvme::{Status, VendorOpcode, vendor};

/// Whether a Sink Store's payload goes on in pieces that name their places.
fn is_pipelined(context: &Context<'_>) -> bool {
    context.sqe.cdw2 & Head::PIPELINED != 0
}

/// Where the payload of a stream goes when it is complete.
#[derive(Clone, Copy, Debug)]
pub enum Destination {
    /// The sink.
    Sink(vendor::Sink),
    /// A namespace of pairs, if it is there still.
    Pair {
        /// Its identifier.
        nsid: u32,
        /// What tells it from another one with that identifier.
        uid: u64,
        /// The key.
        key: Key,
    },
}

/// Sink Store.
pub async fn store(context: &Context<'_>, workspace: &mut Workspace) -> Result<Reply, Status> {
    let pipelined = is_pipelined(context);
    let enabled = context.queue.methods.get();
    let is_enabled = if pipelined { enabled.piggyback_pipelined() } else { enabled.piggyback() };
    if !is_enabled {
        return Err(Status::INVALID_OPCODE.with_dnr());
    }
    let extent = context.sink_extent()?;
    begin(context, workspace, (Destination::Sink(extent), extent.bytes), pipelined).await
}

/// KV Store Piggyback and KV Store Pipelined.
pub async fn store_pair(
    context: &Context<'_>,
    workspace: &mut Workspace,
    pipelined: bool,
) -> Result<Reply, Status> {
    let command = Store::parse(context.sqe);
    let (namespace, _) = context.pairs()?;
    namespace.check_writable()?;
    let key = kv::key(&command.key)?;
    kv::check_value(context.core, command.bytes)?;
    let destination = Destination::Pair { nsid: namespace.nsid, uid: namespace.uid, key };
    drop(namespace);
    begin(context, workspace, (destination, command.bytes), pipelined).await
}

/// A command begins a stream: with what is to be done with the payload, and its length.
async fn begin(
    context: &Context<'_>,
    workspace: &mut Workspace,
    head: (Destination, u32),
    pipelined: bool,
) -> Result<Reply, Status> {
    let core = context.core;
    if head.1 > core.config.transfer.piggyback_bytes_max {
        return Err(Status::INVALID_FIELD.with_dnr());
    }
    let (part, until) = (Head::payload(context.sqe), core.partial_until());
    let queue = context.queue.id;
    let taken = {
        let mut state = core.partials.state();
        let State { pool, streams, serialized, pipelined: streams_named, .. } = &mut *state;
        match pipelined {
            true => streams_named.head(pool, (queue, context.sqe.cid()), head, &part, until),
            false => serialized.head(streams, queue, head, &part, until),
        }
    };
    finish(context, workspace, taken, pipelined).await
}

/// Transfer.
pub async fn transfer(context: &Context<'_>, workspace: &mut Workspace) -> Result<Reply, Status> {
    context.core.namespace(context.sqe.nsid)?;
    let taken = context.core.partials.state().serialized.piece(context.queue.id, Piece::payload(context.sqe));
    finish(context, workspace, taken, false).await
}

/// Transfer Pipelined.
pub async fn transfer_pipelined(context: &Context<'_>, workspace: &mut Workspace) -> Result<Reply, Status> {
    let core = context.core;
    core.namespace(context.sqe.nsid)?;
    let (piece, part) = (PipelinedPiece::parse(context.sqe), PipelinedPiece::payload(context.sqe));
    let taken = {
        let mut state = core.partials.state();
        let State { pool, pipelined, .. } = &mut *state;
        pipelined.piece(pool, context.queue.id, &piece, part, core.partial_until())
    };
    finish(context, workspace, taken, true).await
}

/// A command has failed, for whatever reason. If it was one of a stream, that ends with it: the host may have placed the
/// others already, and they are not to be taken for another stream's.
pub fn end_failed(context: &Context<'_>) {
    let (core, sqe, queue) = (context.core, context.sqe, context.queue);
    let enabled = queue.methods.get();
    if queue.fate.get() != Fate::Live || !(enabled.piggyback() || enabled.piggyback_pipelined()) {
        return;
    }
    let mut state = core.partials.state();
    let State { pool, streams, serialized, pipelined, .. } = &mut *state;
    match VendorOpcode(sqe.opcode()) {
        VendorOpcode::SINK_STORE if !is_pipelined(context) => serialized.give_up(streams, queue.id),
        VendorOpcode::SINK_STORE => {
            let has_pieces = commands(vendor::Sink::parse(sqe).bytes, true) > 1;
            if enabled.piggyback_pipelined() && has_pieces {
                pipelined.refuse_head(pool, (queue.id, sqe.cid()), core.partial_until());
            }
        }
        VendorOpcode::KV_STORE_PIGGYBACK => serialized.give_up(streams, queue.id),
        VendorOpcode::KV_STORE_PIPELINED => {
            let has_pieces = commands(Store::parse(sqe).bytes, true) > 1;
            if enabled.piggyback_pipelined() && has_pieces {
                pipelined.refuse_head(pool, (queue.id, sqe.cid()), core.partial_until());
            }
        }
        VendorOpcode::TRANSFER => serialized.give_up(streams, queue.id),
        VendorOpcode::TRANSFER_PIPELINED => {
            pipelined.refuse_piece((queue.id, PipelinedPiece::parse(sqe).stream));
        }
        _ => {}
    }
}

/// Answers a command of a stream; the one that completes it stores the payload.
async fn finish(
    context: &Context<'_>,
    workspace: &mut Workspace,
    taken: Taken<Destination>,
    pipelined: bool,
) -> Result<Reply, Status> {
    let core = context.core;
    let complete = match taken {
        Taken::Kept => return Ok(Reply::Done([0; 2])),
        Taken::Failed(status) => return Err(status),
        Taken::Complete(complete) => complete,
    };
    let Complete { store: destination, bytes, mut partial } = complete;
    partial.swap_into(&mut workspace.bytes, bytes as usize);
    {
        let mut state = core.partials.state();
        let pool: &mut Pool = if pipelined { &mut state.pool } else { &mut state.streams };
        pool.give(partial);
    }
    add(&core.counters.carried_bytes, bytes.into());
    let stored = core.placement.site(Work::Buffer).dram("payload", bytes.into());
    core.clock.sleep_until(stored.arrival).await;
    context.charge(Stage::Dram);
    context.check()?;
    match destination {
        Destination::Sink(extent) => Ok(sink::store(context, extent, &workspace.bytes)),
        Destination::Pair { nsid, uid, key } => {
            let namespace = core.namespace(nsid)?;
            let pairs = namespace.pairs().filter(|_| namespace.uid == uid);
            let pairs = pairs.ok_or(Status::NAMESPACE_NOT_READY.with_dnr())?;
            namespace.check_writable()?;
            kv::put(context, &pairs, key, &workspace.bytes, Origin::Memory, StoreMode::Any).await
        }
    }
}
