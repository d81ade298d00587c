//! Writes of all levels, from the lock to the acknowledgement, and the levels without parity.

use crate::config::Level;
use crate::counters::Cause;
use crate::group::Verb;
use crate::inner::{Inner, Stopped};
use byteway_content::Content;
use byteway_firmware::{MediaError, WorkContext, WorkKind};

/// Part of a unit: `bytes` of `content` at `offset`.
#[derive(Clone, Copy)]
pub(crate) struct Part<'a> {
    pub(crate) unit: u64,
    pub(crate) offset: u32,
    pub(crate) bytes: u32,
    pub(crate) content: &'a Content,
}

impl Inner {
    /// Writes units from `first` on, which the caller has locked.
    ///
    /// # Errors
    /// [`MediaError`] if too many members have failed, or more of a stripe is unreadable than parity can
    /// replace.
    pub(crate) async fn write_locked(
        &self,
        context: WorkContext,
        first: u64,
        contents: &[Content],
        durable: bool,
    ) -> Result<(), MediaError> {
        let count = contents.len() as u64;
        let pieces = (first + count).div_ceil(self.layout.chunk) - first / self.layout.chunk;
        self.work(context, WorkKind::Stripe, pieces).await;
        self.counting.count(|counters| counters.user_units_written += count);
        let marked = self.mark(&self.layout.stripes_of(first, count)).await;
        let written = loop {
            let entered = self.gate.enter().await;
            if self.is_broken() {
                break Err(Stopped::Broken);
            }
            let written = match self.layout.level {
                Level::Raid5 => self.write_parity(context, first, contents, durable).await,
                _ => self.write_copies(context, first, contents, durable).await,
            };
            drop(entered);
            if !matches!(written, Err(Stopped::Again)) {
                break written;
            }
        };
        drop(marked);
        self.acknowledge(written).await?;
        if self.lost.borrow_mut().write(first..first + count) && durable {
            self.flush_all(context.span).await;
        }
        Ok(())
    }

    /// Completes a write, but not before the members have recorded the failures that it has bypassed.
    async fn acknowledge(&self, written: Result<(), Stopped>) -> Result<(), MediaError> {
        self.gate.open().await;
        match written {
            Ok(()) if !self.is_broken() => Ok(()),
            Err(Stopped::Unreadable) => Err(MediaError::Unreadable),
            _ => Err(MediaError::Failed),
        }
    }

    /// Writes units to every copy.
    async fn write_copies(
        &self,
        context: WorkContext,
        first: u64,
        contents: &[Content],
        durable: bool,
    ) -> Result<(), Stopped> {
        let layout = &self.layout;
        let group = self.group(context.span, false);
        let (mut unit, end) = (first, first + contents.len() as u64);
        while unit < end {
            let place = layout.place(unit);
            let count = (layout.chunk - place.offset).min(end - unit);
            let at = layout.member_unit(place.stripe, place.offset);
            let slot = layout.slot(place.stripe, place.column);
            for slot in (slot..slot + layout.copies).filter(|slot| self.has(*slot, place.stripe)) {
                let run = &contents[(unit - first) as usize..(unit - first + count) as usize];
                group.add_write(slot, at, durable, run.iter().cloned());
            }
            unit += count;
        }
        self.exchange(&group, Cause::Data).await;
        if self.is_broken() { Err(Stopped::Broken) } else { Ok(()) }
    }

    /// Writes part of a unit, which the caller has locked, to every copy; for levels without parity.
    pub(crate) async fn write_part_locked(
        &self,
        context: WorkContext,
        part: Part<'_>,
        durable: bool,
    ) -> Result<(), MediaError> {
        let Part { unit, offset, bytes, content } = part;
        let layout = &self.layout;
        self.work(context, WorkKind::Stripe, 1).await;
        self.counting.count(|counters| counters.user_units_written += 1);
        let place = layout.place(unit);
        let marked = self.mark(&(place.stripe..place.stripe + 1)).await;
        let entered = self.gate.enter().await;
        let group = self.group(context.span, false);
        let slot = layout.slot(place.stripe, place.column);
        let at = layout.member_unit(place.stripe, place.offset);
        for slot in (slot..slot + layout.copies).filter(|slot| self.has(*slot, place.stripe)) {
            group
                .add(slot, Verb::WritePart(offset, bytes, durable), at, 1, |into| into.push(content.clone()));
        }
        self.exchange(&group, Cause::Data).await;
        drop(entered);
        drop(marked);
        let written = if self.is_broken() { Err(Stopped::Broken) } else { Ok(()) };
        self.acknowledge(written).await
    }

    /// The smallest write that every member supports, in bytes.
    pub(crate) fn block_bytes(&self) -> u32 {
        let slots = self.slots.borrow();
        let ports = slots.ports.iter().flatten();
        ports.map(|port| port.shape.block_bytes).max().unwrap_or(4096)
    }

    /// Deallocates units, which the caller has locked: they read as zeroes from then on.
    pub(crate) async fn trim_locked(
        &self,
        context: WorkContext,
        first: u64,
        count: u64,
    ) -> Result<(), MediaError> {
        let stripe_units = self.layout.stripe_units();
        let (mut unit, end) = (first, first + count);
        while unit < end {
            let stripe = self.layout.stripe_of(unit);
            let is_whole = unit.is_multiple_of(stripe_units) && end - unit >= stripe_units;
            let may_pass = self.layout.level != Level::Raid5 || is_whole && !self.is_any_missing();
            if may_pass {
                let count = match self.layout.level {
                    Level::Raid5 => (end - unit) / stripe_units * stripe_units,
                    _ => end - unit,
                };
                if !self.deallocate(context, unit, count).await? {
                    continue; // a member has failed meanwhile
                }
                unit += count;
            } else {
                // Parity must change with the data, so zeroes are written.
                let count = ((stripe + 1) * stripe_units).min(end) - unit;
                let mut zeroes = self.vector();
                zeroes.resize(count as usize, Content::Zero);
                let written = self.write_locked(context, unit, &zeroes, false).await;
                self.keep(zeroes);
                written?;
                unit += count;
            }
        }
        Ok(())
    }

    /// Whether a member is missing or not rebuilt, or not recorded as present by all others.
    fn is_any_missing(&self) -> bool {
        let slots = self.slots.borrow();
        let is_active = |state: &crate::superblock::SlotState| *state == crate::superblock::SlotState::Active;
        !slots.states.iter().all(is_active) || !slots.durable.iter().all(is_active)
    }

    /// Passes a deallocation on to the members; with parity only whole stripes, whose parity is then zeroes.
    /// False, with nothing done, if there is parity and a member is missing.
    async fn deallocate(&self, context: WorkContext, first: u64, count: u64) -> Result<bool, MediaError> {
        let layout = &self.layout;
        let stripes = layout.stripes_of(first, count);
        self.work(context, WorkKind::Stripe, layout.members as u64).await;
        let marked = self.mark(&stripes).await;
        let entered = self.gate.enter().await;
        if self.layout.level == Level::Raid5 && self.is_any_missing() {
            return Ok(false);
        }
        let group = self.group(context.span, false);
        let end = first + count;
        let mut runs = vec![0..0; layout.members];
        for stripe in stripes.clone() {
            // Only the first and the last stripe can be partial; in between, all is one run of each member.
            if stripe > stripes.start + 1 && stripe + 2 < stripes.end {
                continue;
            }
            for (slot, run) in runs.iter_mut().enumerate() {
                let Some(column) = layout.column_of(stripe, slot) else {
                    extend(run, stripe * layout.chunk..(stripe + 1) * layout.chunk);
                    continue;
                };
                let start = stripe * layout.stripe_units() + column * layout.chunk;
                let (from, to) = (first.max(start), end.min(start + layout.chunk));
                if from < to {
                    let at = layout.member_unit(stripe, from - start);
                    extend(run, at..at + (to - from));
                }
            }
        }
        for (slot, run) in runs.iter().enumerate().filter(|(_, run)| !run.is_empty()) {
            group.add(slot, Verb::Deallocate, run.start, run.end - run.start, |_| ());
        }
        self.exchange(&group, Cause::Data).await;
        drop(entered);
        drop(marked);
        let written = if self.is_broken() { Err(Stopped::Broken) } else { Ok(()) };
        self.acknowledge(written).await?;
        self.lost.borrow_mut().write(first..end);
        Ok(true)
    }
}

/// Extends a run by one that touches it, or by the whole stripes in between.
fn extend(run: &mut std::ops::Range<u64>, more: std::ops::Range<u64>) {
    *run = if run.is_empty() { more } else { run.start.min(more.start)..run.end.max(more.end) };
}
