//! Payload in command fields (BandSlim): a command of its set begins a stream, transfer commands bring the rest, and
//! the last of them stores it. If a command of a stream fails, nothing of the stream is stored.

use crate::controller::command::context::Context;
use crate::controller::command::workspace::Workspace;
use crate::controller::queue::partial::{State, StreamHead};
use crate::controller::queue::ring::QueueFate;
use crate::controller::state::counters::add;
use byteway_clock::Stage;
use byteway_firmware::WorkKind;
use byteway_transfer::partial::Pool;
use byteway_transfer::piggyback::{Complete, PieceResult};
use byteway_wire::nvme::vendor::piggyback::{Head, Piece, PipelinedPiece, commands};
use byteway_wire::nvme::{Sqe, Status, VendorOpcode};

/// Parameters of a stream, from the command that begins it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamStart {
    /// Length of the payload, in bytes.
    pub bytes: u32,
    /// Pipelined: pieces name their positions.
    pub pipelined: bool,
}

/// Whether a command is a piece of a stream, and whether that stream is pipelined.
pub(crate) fn is_piece(sqe: &Sqe) -> Option<bool> {
    match VendorOpcode(sqe.opcode()) {
        VendorOpcode::TRANSFER => Some(false),
        VendorOpcode::TRANSFER_PIPELINED => Some(true),
        _ => None,
    }
}

/// Whether the host has enabled this kind of stream for the command's queue.
pub(crate) fn is_enabled(context: &Context<'_>, pipelined: bool) -> bool {
    let enabled = context.queue.methods.get();
    if pipelined { enabled.piggyback_pipelined() } else { enabled.piggyback() }
}

/// Begins a stream. If the command already holds the whole payload, returns it, with the payload in `workspace.bytes`.
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

/// Adds the piece that the command brings. If it was the last, returns the command that began the stream, with the
/// payload in `workspace.bytes`.
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

/// Moves a complete payload to `workspace.bytes`; returns its length, too.
fn complete(
    context: &Context<'_>,
    workspace: &mut Workspace,
    taken: PieceResult<StreamHead>,
    pipelined: bool,
) -> Result<Option<(StreamHead, u32)>, Status> {
    let Complete { store: head, bytes, mut partial } = match taken {
        PieceResult::Kept => return Ok(None),
        PieceResult::Failed(status) => return Err(status),
        PieceResult::Complete(complete) => complete,
    };
    partial.swap_into(&mut workspace.bytes, bytes as usize);
    let mut state = context.core.parked.partials.state();
    let pool: &mut Pool = if pipelined { &mut state.pool } else { &mut state.streams };
    pool.give(partial);
    drop(state);
    add(&context.core.counters.carried_bytes, bytes.into());
    Ok(Some((head, bytes)))
}

/// Charges storing a payload of `bytes` in DRAM.
async fn store(context: &Context<'_>, bytes: u32) -> Result<(), Status> {
    let core = context.core;
    let stored = core.placement.site(WorkKind::Buffer).dram("payload", bytes.into());
    core.clock.sleep_until(stored.arrival).await;
    context.charge(Stage::Dram);
    context.check()
}

/// Ends the stream of a failed command; `start` are its parameters if it begins one. The host may have submitted the
/// remaining pieces already, and they must not count as another stream's.
pub(crate) fn end_failed(context: &Context<'_>, start: Option<StreamStart>) {
    let (core, sqe, queue) = (context.core, context.sqe, context.queue);
    let enabled = queue.methods.get();
    if queue.fate.get() != QueueFate::Live || !(enabled.piggyback() || enabled.piggyback_pipelined()) {
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
