//! Partial writes that are acknowledged once they are in DRAM, and the mergers that combine them with the
//! rest of their units in the background.
//!
//! A merger locks the unit, reads it, overlays the parts present by then, and buffers the result, which
//! becomes visible at one instant. Parts that arrive meanwhile are merged with it. Waits are ordered as in
//! [`Ftl::edit`]: map pages, a write buffer slot, the lock; the holder of a lock waits only for flash. A
//! partial write waits for free space, which a merge provides, and for locks other than the mergers'.
//!
//! Mergers start when more than half of the space is in use, when all of a unit is present, and when a flush
//! waits. With power-loss protection parts are saved as they are. After two failed reads of a unit, its
//! blocks that the host has not rewritten become unreadable.
//!
//! At the end of life no slots are available: parts stay where they are. Reads find them, capacitors save
//! them, and a flush fails.

use crate::ftl::buffer::UNTRACED;
use crate::ftl::config::MediaError;
use crate::ftl::inner::{Ftl, Inner, UnitLocation};
use crate::placement::{Route, WorkContext};
use byteway_clock::{SpanId, Spans, Stage};
use byteway_content::{Content, MARRED_BYTES, UNIT_BYTES, marred_parts};
use byteway_flash::Priority;
use std::rc::Rc;

/// Maximum mergers: each merges one unit at a time, with one read.
pub(in crate::ftl) const MERGERS_MAX: u32 = 64;

/// The task of a merger.
pub(in crate::ftl) async fn run(inner: Rc<Inner>) {
    let ftl = Ftl(inner.clone());
    ftl.ready().await;
    loop {
        let claim = if inner.check_writable().is_ok() { inner.claim_parts() } else { None };
        let Some((lpa, sequence)) = claim else {
            inner.signals.mergers.notified().await;
            continue;
        };
        if ftl.merge(lpa, sequence).await.is_err() {
            inner.state.borrow_mut().parts.disclaim(lpa, sequence);
        }
        inner.signals.settled.notify_all();
    }
}

impl Ftl {
    /// Writes `bytes` at `offset` of a unit. If the drive absorbs parts and the range is whole blocks of 512
    /// bytes, returns once they are in DRAM, after waiting for free space there; otherwise works as
    /// [`Ftl::edit`]. With `durable` it returns when the unit is programmed, which a drive with power-loss
    /// protection need not wait for.
    ///
    /// Charges [`WorkKind::Buffer`](crate::work::WorkKind::Buffer), and the transfer of the bytes into the
    /// buffer's DRAM. The cost of merging is paid in the background.
    ///
    /// # Errors
    /// [`MediaError`] if the unit or the range is out of range, or the drive is read-only; and as
    /// [`Ftl::edit`] in that case.
    pub async fn write_part(
        &self,
        context: impl Into<WorkContext>,
        spans: &Spans,
        unit: u64,
        offset: usize,
        bytes: &[u8],
        durable: bool,
    ) -> Result<(), MediaError> {
        let (inner, context) = (&*self.0, context.into());
        let span = context.span;
        if offset.checked_add(bytes.len()).is_none_or(|end| end > UNIT_BYTES) {
            return Err(MediaError::OutOfRange);
        }
        let is_blocks = offset.is_multiple_of(MARRED_BYTES) && bytes.len().is_multiple_of(MARRED_BYTES);
        if inner.config.absorbs_parts.is_none() || !is_blocks || bytes.is_empty() {
            let parts = marred_parts(offset, bytes.len());
            let edit = |held: &mut [u8; UNIT_BYTES], marred: &mut u8| {
                held[offset..offset + bytes.len()].copy_from_slice(bytes);
                *marred &= !parts;
            };
            return self.edit_bytes(context, spans, unit, bytes.len(), edit, durable).await;
        }
        let lpa = self.check(unit, 1)?;
        self.ready().await;
        let _attending = inner.attend_writing()?;
        if inner.power.is_untouched.take() {
            inner.go_on_overwriting();
        }
        self.admit_bytes(context, spans, 1, 0, bytes.len() as u64).await;
        // Each wait may invalidate the other condition, so both are checked again after it.
        loop {
            inner.check_writable()?;
            if !inner.state.borrow().parts.has_space(lpa) {
                let wait = inner.wait_for_buffer();
                inner.signals.settled.notified().await;
                inner.charge_wait(span, spans, &wait);
            } else if inner.locks.has(lpa) && !inner.state.borrow().parts.is_held(lpa) {
                inner.locks.wait(lpa, 1).await;
            } else {
                break;
            }
        }
        let is_urgent = {
            let mut guard = inner.state.borrow_mut();
            let state = &mut *guard;
            let was_there = state.parts.absorb(lpa, offset, bytes);
            state.counters.user_units_written += 1;
            state.counters.user_bytes_written += bytes.len() as u64;
            state.counters.parts_absorbed += 1;
            state.counters.units_overwritten_in_buffer += u64::from(was_there);
            state.parts.is_urgent()
        };
        if is_urgent {
            inner.signals.mergers.notify_one();
        }
        spans.charge(span, inner.clock.now(), Stage::Queueing);
        self.settle(span, spans, durable).await
    }

    /// Merges the parts of a unit, unless the claim is outdated.
    ///
    /// # Errors
    /// [`MediaError::WriteProtected`] at the end of life, with nothing changed.
    async fn merge(&self, lpa: u64, sequence: u64) -> Result<(), MediaError> {
        let (inner, spans) = (&*self.0, Spans::default());
        let context = WorkContext::from(SpanId::NONE);
        self.admit(context, &spans, 1, inner.look_ups(lpa, 1)).await;
        if inner.cache.is_some() {
            self.pages(context, &spans, lpa, 1, &mut None).await;
        }
        let permit = inner.slots(1).await?;
        let lock = inner.locks.lock(lpa).await;
        let is_whole = inner.state.borrow_mut().parts.hold(lpa, sequence).map(|patch| patch.is_whole());
        let Some(is_whole) = is_whole else {
            return Ok(()); // the whole unit was written or deallocated meanwhile
        };
        // Contents must not be discarded while this read is in flight.
        let turn = inner.superseded.begin();
        let old = if is_whole { Content::Zero } else { inner.read_beneath(lpa).await };
        inner.superseded.end(turn);
        // The parts leave and the unit is buffered in one step, so that no reader finds neither.
        let taken = {
            let mut guard = inner.state.borrow_mut();
            let state = &mut *guard;
            let patch = state.parts.remove(lpa).expect("only the holder of the lock removes the parts");
            let new = state.parts.over(&patch, &old);
            state.parts.give_back(patch);
            state.counters.parts_merged += 1;
            state.buffer_unit(lpa, new, UNTRACED, Route::OWN).is_some()
        };
        permit.forget();
        inner.give_back(u32::from(!taken));
        drop(lock);
        inner.dispatch();
        Ok(())
    }
}

impl Inner {
    fn claim_parts(&self) -> Option<(u64, u64)> {
        let mut state = self.state.borrow_mut();
        let claim = state.parts.claim();
        if claim.is_some() && state.parts.is_urgent() {
            self.signals.mergers.notify_one(); // there is more
        }
        claim
    }

    /// Content of a unit in buffer or flash, without its parts. Retries once if unreadable.
    async fn read_beneath(&self, lpa: u64) -> Content {
        for _ in 0..2 {
            let found = self.state.borrow().find_beneath(&self.base, lpa);
            match found {
                UnitLocation::Nowhere => return Content::Zero,
                UnitLocation::Buffered(content) => return content,
                UnitLocation::Flash(ppa) | UnitLocation::Under(ppa, _) => {
                    let ticket = self.flash.ticket();
                    let mask = 1 << self.geometry.unit_of_stripe(ppa);
                    self.flash.submit_read(ppa, mask, Priority::HostRead, &ticket);
                    let outcome = ticket.wait().await;
                    self.note_read(ppa);
                    self.command_reads(SpanId::NONE, self.clock.spans(), 1).await;
                    if !outcome.failed {
                        return ticket.content(0);
                    }
                }
            }
        }
        self.state.borrow_mut().counters.units_lost += 1;
        Content::unreadable()
    }

    /// Waits until all present parts have been merged or dropped.
    ///
    /// # Errors
    /// [`MediaError::WriteProtected`] at the end of life.
    pub(in crate::ftl) async fn settle_parts(&self) -> Result<(), MediaError> {
        let target = {
            let mut state = self.state.borrow_mut();
            if state.parts.len() == 0 {
                return Ok(());
            }
            state.parts.hurry();
            state.parts.next_sequence()
        };
        self.signals.mergers.notify_one();
        while self.state.borrow().parts.settled() < target {
            self.check_writable()?;
            self.signals.settled.notified().await;
        }
        Ok(())
    }
}
