//! Payload in the fields of commands (BandSlim): a command of its set begins a stream, transfer commands bring the rest, and
//! the one that brings the last of it stores. A stream of which a command fails stores nothing.

use crate::controller::command::context::Context;
use crate::controller::command::workspace::Workspace;
use crate::controller::queue::partial::{State, StreamHead};
use crate::controller::queue::ring::Fate;
use crate::controller::state::counters::add;
use byteway_clock::Stage;
use byteway_firmware::Work;
use byteway_transfer::partial::Pool;
use byteway_transfer::piggyback::{Complete, Taken};
use byteway_wire::nvme::vendor::piggyback::{Head, Piece, PipelinedPiece, commands};
use byteway_wire::nvme::{Sqe, Status, VendorOpcode};

/// What a command that begins a stream says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamStart {
    /// The length of the payload.
    pub bytes: u32,
    /// It goes on in pieces that name their places.
    pub pipelined: bool,
}

/// Whether a command is a piece of a stream, and the stream is pipelined.
pub(crate) fn is_piece(sqe: &Sqe) -> Option<bool> {
    match VendorOpcode(sqe.opcode()) {
        VendorOpcode::TRANSFER => Some(false),
        VendorOpcode::TRANSFER_PIPELINED => Some(true),
        _ => None,
    }
}

/// Whether the host has enabled such streams for the command's queue.
pub(crate) fn is_enabled(context: &Context<'_>, pipelined: bool) -> bool {
    let enabled = context.queue.methods.get();
    if pipelined { enabled.piggyback_pipelined() } else { enabled.piggyback() }
}

/// The command begins a stream. If that is all of it, gives the command back, with the payload in `workspace.bytes`.
pub(crate) async fn begin(
    context: &Context<'_>,
    workspace: &mut Workspace,
    head: StreamHead,
    start: StreamStart,
) -> Result<Option<StreamHead>, Status> {
    let core = context.core;
    let StreamStart { bytes, pipelined } = start;
    if bytes > core.config.transfer.piggyback_bytes_max {
        return Err(Status::INVALID_FIELD.with_dnr());
    }
    let (part, until) = (Head::payload(context.sqe), core.partial_until());
    let queue = context.queue.id;
    let taken = {
        let mut state = core.parked.partials.state();
        let State { pool, streams, serialized, pipelined: streams_named, .. } = &mut *state;
        match pipelined {
            true => streams_named.head(pool, (queue, context.sqe.cid()), (head, bytes), &part, until),
            false => serialized.head(streams, queue, (head, bytes), &part, until),
        }
    };
    match complete(context, workspace, taken, pipelined)? {
        Some((head, bytes)) => store(context, bytes).await.map(|()| Some(head)),
        None => Ok(None),
    }
}

/// The command brings a piece. If that was the last, gives the command that began the stream, with the payload in
/// `workspace.bytes`.
pub(crate) async fn transfer(
    context: &Context<'_>,
    workspace: &mut Workspace,
    pipelined: bool,
) -> Result<Option<StreamHead>, Status> {
    let core = context.core;
    core.namespace(context.sqe.nsid)?;
    let taken = {
        let mut state = core.parked.partials.state();
        let State { pool, serialized, pipelined: streams_named, .. } = &mut *state;
        if pipelined {
            let (piece, part) = (PipelinedPiece::parse(context.sqe), PipelinedPiece::payload(context.sqe));
            streams_named.piece(pool, context.queue.id, &piece, part, core.partial_until())
        } else {
            serialized.piece(context.queue.id, Piece::payload(context.sqe))
        }
    };
    match complete(context, workspace, taken, pipelined)? {
        Some((head, bytes)) => store(context, bytes).await.map(|()| Some(head)),
        None => Ok(None),
    }
}

/// Takes a payload that is complete into `workspace.bytes`; gives its length, too.
fn complete(
    context: &Context<'_>,
    workspace: &mut Workspace,
    taken: Taken<StreamHead>,
    pipelined: bool,
) -> Result<Option<(StreamHead, u32)>, Status> {
    let Complete { store: head, bytes, mut partial } = match taken {
        Taken::Kept => return Ok(None),
        Taken::Failed(status) => return Err(status),
        Taken::Complete(complete) => complete,
    };
    partial.swap_into(&mut workspace.bytes, bytes as usize);
    let mut state = context.core.parked.partials.state();
    let pool: &mut Pool = if pipelined { &mut state.pool } else { &mut state.streams };
    pool.give(partial);
    drop(state);
    add(&context.core.counters.carried_bytes, bytes.into());
    Ok(Some((head, bytes)))
}

/// A payload of `bytes` goes to DRAM.
async fn store(context: &Context<'_>, bytes: u32) -> Result<(), Status> {
    let core = context.core;
    let stored = core.placement.site(Work::Buffer).dram("payload", bytes.into());
    core.clock.sleep_until(stored.arrival).await;
    context.charge(Stage::Dram);
    context.check()
}

/// A command has failed, for whatever reason; `start` is what it says if it is one that begins a stream. If it was one of
/// a stream, that ends with it: the host may have placed the others already, and they are not to be taken for another
/// stream's.
pub(crate) fn end_failed(context: &Context<'_>, start: Option<StreamStart>) {
    let (core, sqe, queue) = (context.core, context.sqe, context.queue);
    let enabled = queue.methods.get();
    if queue.fate.get() != Fate::Live || !(enabled.piggyback() || enabled.piggyback_pipelined()) {
        return;
    }
    let mut state = core.parked.partials.state();
    let State { pool, streams, serialized, pipelined, .. } = &mut *state;
    match (start, is_piece(sqe)) {
        (Some(StreamStart { pipelined: false, .. }), _) | (None, Some(false)) => {
            serialized.give_up(streams, queue.id);
        }
        (Some(StreamStart { pipelined: true, bytes }), _) => {
            if enabled.piggyback_pipelined() && commands(bytes, true) > 1 {
                pipelined.refuse_head(pool, (queue.id, sqe.cid()), core.partial_until());
            }
        }
        (None, Some(true)) => pipelined.refuse_piece((queue.id, PipelinedPiece::parse(sqe).stream)),
        (None, None) => {}
    }
}
