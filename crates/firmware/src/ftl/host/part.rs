//! Partial writes that are acknowledged once they are in DRAM, and the mergers that combine them with the
//! rest of their units in the background.
//!
//! A merger locks the unit, reads it, overlays the parts present by then, and buffers the result, which
//! becomes visible at one instant. Parts that arrive meanwhile are merged with it. Waits are ordered as in
//! [`Ftl::edit`](crate::Ftl::edit): map pages, a write buffer slot, the lock; the holder of a lock waits only
//! for flash. A partial write waits for free space, which a merge provides, and for locks other than the
//! mergers'.
//!
//! Mergers start when more than half of the space is in use, when all of a unit is present, and when a flush
//! waits. With power-loss protection parts are saved as they are. After two failed reads of a unit, its
//! blocks that the host has not rewritten become unreadable.
//!
//! At the end of life no slots are available: parts stay where they are. Reads find them, capacitors save
//! them, and a flush fails.

use crate::ftl::buffer::UNTRACED;
use crate::ftl::collect::background::attend_writing;
use crate::ftl::collect::refresh::note_read;
use crate::ftl::config::MediaError;
use crate::ftl::core::Core;
use crate::ftl::host::write::{admit, admit_bytes, edit_bytes, settle};
use crate::ftl::paging::page::look_up_all;
use crate::ftl::state::UnitLocation;
use crate::ftl::steady::dram::begin_writing;
use crate::ftl::write::buffering::buffer_unit;
use crate::ftl::write::dispatch::dispatch;
use crate::placement::{Route, WorkContext};
use byteway_clock::{SpanId, Spans, Stage};
use byteway_content::{Content, MARRED_BYTES, UNIT_BYTES, marred_parts};
use byteway_flash::Priority;
use std::rc::Rc;

/// Maximum mergers: each merges one unit at a time, with one read.
pub(in crate::ftl) const MERGERS_MAX: u32 = 64;

/// The task of a merger.
pub(in crate::ftl) async fn run(core: Rc<Core>) {
    core.power.ready().await;
    loop {
        let claim = if core.check_writable().is_ok() { claim_parts(&core) } else { None };
        let Some((lpa, sequence)) = claim else {
            core.signals.mergers.notified().await;
            continue;
        };
        if merge(&core, lpa, sequence).await.is_err() {
            core.state.borrow_mut().parts.disclaim(lpa, sequence);
        }
        core.signals.settled.notify_all();
    }
}

/// [`Ftl::write_part`](crate::Ftl::write_part).
pub(in crate::ftl) async fn write_part(
    core: &Core,
    context: WorkContext,
    spans: &Spans,
    unit: u64,
    offset: usize,
    bytes: &[u8],
    durable: bool,
) -> Result<(), MediaError> {
    let span = context.span;
    if offset.checked_add(bytes.len()).is_none_or(|end| end > UNIT_BYTES) {
        return Err(MediaError::OutOfRange);
    }
    let is_blocks = offset.is_multiple_of(MARRED_BYTES) && bytes.len().is_multiple_of(MARRED_BYTES);
    if core.config.absorbs_parts.is_none() || !is_blocks || bytes.is_empty() {
        let parts = marred_parts(offset, bytes.len());
        let edit = |held: &mut [u8; UNIT_BYTES], marred: &mut u8| {
            held[offset..offset + bytes.len()].copy_from_slice(bytes);
            *marred &= !parts;
        };
        return edit_bytes(core, context, spans, unit, bytes.len(), edit, durable).await;
    }
    let lpa = core.check(unit, 1)?;
    core.power.ready().await;
    let _attending = attend_writing(core)?;
    begin_writing(core);
    admit_bytes(core, context, spans, 1, 0, bytes.len() as u64).await;
    // Each wait may invalidate the other condition, so both are checked again after it.
    loop {
        core.check_writable()?;
        if !core.state.borrow().parts.has_space(lpa) {
            let wait = core.wait_for_buffer();
            core.signals.settled.notified().await;
            core.charge_wait(span, spans, &wait);
        } else if core.locks.has(lpa) && !core.state.borrow().parts.is_held(lpa) {
            core.locks.wait(lpa, 1).await;
        } else {
            break;
        }
    }
    let is_urgent = {
        let mut guard = core.state.borrow_mut();
        let state = &mut *guard;
        let was_there = state.parts.absorb(lpa, offset, bytes);
        state.counters.user_units_written += 1;
        state.counters.user_bytes_written += bytes.len() as u64;
        state.counters.parts_absorbed += 1;
        state.counters.units_overwritten_in_buffer += u64::from(was_there);
        state.parts.is_urgent()
    };
    if is_urgent {
        core.signals.mergers.notify_one();
    }
    spans.charge(span, core.clock.now(), Stage::Queueing);
    settle(core, span, spans, durable).await
}

/// Merges the parts of a unit, unless the claim is outdated.
///
/// # Errors
/// [`MediaError::WriteProtected`] at the end of life, with nothing changed.
async fn merge(core: &Core, lpa: u64, sequence: u64) -> Result<(), MediaError> {
    let spans = Spans::default();
    let context = WorkContext::from(SpanId::NONE);
    admit(core, context, &spans, 1, core.look_ups(lpa, 1)).await;
    if core.cache.is_some() {
        look_up_all(core, context, &spans, lpa, 1, &mut None).await;
    }
    let permit = core.slots(1).await?;
    let lock = core.locks.lock(lpa).await;
    let is_whole = core.state.borrow_mut().parts.hold(lpa, sequence).map(|patch| patch.is_whole());
    let Some(is_whole) = is_whole else {
        return Ok(()); // the whole unit was written or deallocated meanwhile
    };
    // Contents must not be discarded while this read is in flight.
    let turn = core.superseded.begin();
    let old = if is_whole { Content::Zero } else { read_beneath(core, lpa).await };
    core.superseded.end(turn);
    // The parts leave and the unit is buffered in one step, so that no reader finds neither.
    let taken = {
        let mut guard = core.state.borrow_mut();
        let state = &mut *guard;
        let patch = state.parts.remove(lpa).expect("only the holder of the lock removes the parts");
        let new = state.parts.over(&patch, &old);
        state.parts.give_back(patch);
        state.counters.parts_merged += 1;
        buffer_unit(state, lpa, new, UNTRACED, Route::OWN).is_some()
    };
    permit.forget();
    core.room.give_back(u32::from(!taken));
    drop(lock);
    dispatch(core);
    Ok(())
}

fn claim_parts(core: &Core) -> Option<(u64, u64)> {
    let mut state = core.state.borrow_mut();
    let claim = state.parts.claim();
    if claim.is_some() && state.parts.is_urgent() {
        core.signals.mergers.notify_one(); // there is more
    }
    claim
}

/// Content of a unit in buffer or flash, without its parts. Retries once if unreadable.
async fn read_beneath(core: &Core, lpa: u64) -> Content {
    for _ in 0..2 {
        let found = core.state.borrow().find_beneath(&core.base, lpa);
        match found {
            UnitLocation::Nowhere => return Content::Zero,
            UnitLocation::Buffered(content) => return content,
            UnitLocation::Flash(ppa) | UnitLocation::Under(ppa, _) => {
                let ticket = core.flash.ticket();
                let mask = 1 << core.geometry.unit_of_stripe(ppa);
                core.flash.submit_read(ppa, mask, Priority::HostRead, &ticket);
                let outcome = ticket.wait().await;
                note_read(core, ppa);
                core.command_reads(SpanId::NONE, core.clock.spans(), 1).await;
                if !outcome.failed {
                    return ticket.content(0);
                }
            }
        }
    }
    core.state.borrow_mut().counters.units_lost += 1;
    Content::unreadable()
}
