//! Writes of parts of units that are acknowledged as soon as the parts are in DRAM, and what merges them with the rest of their
//! units behind.
//!
//! A merger locks the unit, reads it, lays over it what has come by then, and buffers the result, all of which others see at one
//! instant. Parts that come meanwhile are merged with it. The order of what is waited for is that of [`Ftl::edit`]: pages of the
//! map, a slot of the write buffer, the lock; the holder of a lock waits for flash alone. A part waits for room, which comes when
//! another one is merged, and for locks of others than mergers.
//!
//! Mergers begin when more than half of the room is taken, when all of a unit is there, and when something must not wait. With
//! power-loss protection parts are saved as they are. When two reads of a unit have failed, its blocks that the
//! host has not written anew can't be read from then on.
//!
//! At the end of life there are no slots for them: parts stay where they are. Reads find them, capacitors save them, and a flush
//! says that it can't be done.

use crate::ftl::buffer::NOBODY;
use crate::ftl::config::MediaError;
use crate::ftl::inner::{Found, Ftl, Inner};
use crate::placement::{Errand, Route};
use byteway_clock::{SpanId, Spans, Stage};
use byteway_flash::Priority;
use byteway_wire::content::{Content, MARRED_BYTES, UNIT_BYTES, marred_parts};
use std::rc::Rc;

/// Mergers at most: each has one unit at a time, and so one read.
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
    /// Writes `bytes` over a part of a unit from `offset` on. Where the drive absorbs parts and they are whole blocks of 512 bytes,
    /// it returns as soon as they are in DRAM, waiting for room there; else it is as [`Ftl::edit`]. With `durable` it returns when
    /// the unit is programmed, which a drive with power-loss protection need not wait for.
    ///
    /// Charges [`Work::Buffer`](crate::work::Work::Buffer), and the passage of the bytes into the buffer's DRAM. What merging costs
    /// is paid behind.
    ///
    /// # Errors
    /// If it is no unit of the drive, or no part of one, or the drive takes nothing new; and as [`Ftl::edit`], where it is that.
    pub async fn write_part(
        &self,
        errand: impl Into<Errand>,
        spans: &Spans,
        unit: u64,
        offset: usize,
        bytes: &[u8],
        durable: bool,
    ) -> Result<(), MediaError> {
        let (inner, errand) = (&*self.0, errand.into());
        let span = errand.span;
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
            return self.edit_bytes(errand, spans, unit, bytes.len(), edit, durable).await;
        }
        let lpa = self.check(unit, 1)?;
        self.ready().await;
        let _attending = inner.attend_writing()?;
        if inner.power.is_untouched.take() {
            inner.go_on_overwriting();
        }
        self.admit_bytes(errand, spans, 1, 0, bytes.len() as u64).await;
        loop {
            inner.check_writable()?;
            if !inner.state.borrow().parts.has_room(lpa) {
                inner.signals.settled.notified().await;
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

    /// Merges what there is of a unit, if it is still what was claimed.
    ///
    /// # Errors
    /// At the end of life: then nothing has happened.
    async fn merge(&self, lpa: u64, sequence: u64) -> Result<(), MediaError> {
        let (inner, spans) = (&*self.0, Spans::default());
        let errand = Errand::from(SpanId::NONE);
        self.admit(errand, &spans, 1, inner.look_ups(lpa, 1)).await;
        if inner.cache.is_some() {
            self.pages(errand, &spans, lpa, 1, &mut None).await;
        }
        let permit = inner.slots(1).await?;
        let lock = inner.locks.lock(lpa).await;
        let is_whole = inner.state.borrow_mut().parts.hold(lpa, sequence).map(|patch| patch.is_whole());
        let Some(is_whole) = is_whole else {
            return Ok(()); // somebody has written all of the unit, or deallocated it
        };
        // Flash lets go of nothing that is being read.
        let turn = inner.superseded.begin();
        let old = if is_whole { Content::Zero } else { inner.read_beneath(lpa).await };
        inner.superseded.end(turn);
        let taken = {
            let mut guard = inner.state.borrow_mut();
            let state = &mut *guard;
            let patch = state.parts.remove(lpa).expect("who holds the lock alone takes them out");
            let new = state.parts.over(&patch, &old);
            state.parts.give_back(patch);
            state.counters.parts_merged += 1;
            state.buffer_unit(lpa, new, NOBODY, Route::OWN).is_some()
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

    /// What the buffer or flash has of a unit, beneath its parts. What can't be read is tried once more.
    async fn read_beneath(&self, lpa: u64) -> Content {
        for _ in 0..2 {
            let found = self.state.borrow().find_beneath(&self.base, lpa);
            match found {
                Found::Nowhere => return Content::Zero,
                Found::Buffered(content) => return content,
                Found::Flash(ppa) | Found::Under(ppa, _) => {
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

    /// Waits until all parts that are there now have been merged or dropped.
    ///
    /// # Errors
    /// At the end of life.
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
