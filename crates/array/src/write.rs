//! Writes of all levels, from the lock to the acknowledgement, and the levels without parity.

use crate::config::Level;
use crate::core::Core;
use crate::counters::Cause;
use crate::durable::flush_all;
use crate::gate::Stopped;
use crate::group::Verb;
use crate::parity::write_parity;
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

/// Writes units from `first` on, which the caller has locked.
///
/// # Errors
/// [`MediaError`] if too many members have failed, or more of a stripe is unreadable than parity can
/// replace.
pub(crate) async fn write_locked(
    core: &Core,
    context: WorkContext,
    first: u64,
    contents: &[Content],
    durable: bool,
) -> Result<(), MediaError> {
    let count = contents.len() as u64;
    let pieces = (first + count).div_ceil(core.layout.chunk) - first / core.layout.chunk;
    core.work(context, WorkKind::Stripe, pieces).await;
    core.counting.count(|counters| counters.user_units_written += count);
    let marked = core.mark(&core.layout.stripes_of(first, count)).await;
    let written = loop {
        let entered = core.gate.enter().await;
        if core.is_broken() {
            break Err(Stopped::Broken);
        }
        let written = match core.layout.level {
            Level::Raid5 => write_parity(core, context, first, contents, durable).await,
            _ => write_copies(core, context, first, contents, durable).await,
        };
        drop(entered);
        if !matches!(written, Err(Stopped::Again)) {
            break written;
        }
    };
    drop(marked);
    acknowledge(core, written).await?;
    if core.lost.borrow_mut().write(first..first + count) && durable {
        flush_all(core, context.span).await;
    }
    Ok(())
}

/// Completes a write, but not before the members have recorded the failures that it has bypassed.
async fn acknowledge(core: &Core, written: Result<(), Stopped>) -> Result<(), MediaError> {
    core.gate.open().await;
    match written {
        Ok(()) if !core.is_broken() => Ok(()),
        Err(Stopped::Unreadable) => Err(MediaError::Unreadable),
        _ => Err(MediaError::Failed),
    }
}

/// Writes units to every copy.
async fn write_copies(
    core: &Core,
    context: WorkContext,
    first: u64,
    contents: &[Content],
    durable: bool,
) -> Result<(), Stopped> {
    let layout = &core.layout;
    let group = core.group(context.span, false);
    let (mut unit, end) = (first, first + contents.len() as u64);
    while unit < end {
        let place = layout.place(unit);
        let count = (layout.chunk - place.offset).min(end - unit);
        let at = layout.member_unit(place.stripe, place.offset);
        let slot = layout.slot(place.stripe, place.column);
        for slot in (slot..slot + layout.copies).filter(|slot| core.has(*slot, place.stripe)) {
            let run = &contents[(unit - first) as usize..(unit - first + count) as usize];
            group.add_write(slot, at, durable, run.iter().cloned());
        }
        unit += count;
    }
    core.exchange(&group, Cause::Data).await;
    if core.is_broken() { Err(Stopped::Broken) } else { Ok(()) }
}

/// Writes part of a unit, which the caller has locked, to every copy; for levels without parity.
pub(crate) async fn write_part_locked(
    core: &Core,
    context: WorkContext,
    part: Part<'_>,
    durable: bool,
) -> Result<(), MediaError> {
    let Part { unit, offset, bytes, content } = part;
    let layout = &core.layout;
    core.work(context, WorkKind::Stripe, 1).await;
    core.counting.count(|counters| counters.user_units_written += 1);
    let place = layout.place(unit);
    let marked = core.mark(&(place.stripe..place.stripe + 1)).await;
    let entered = core.gate.enter().await;
    let group = core.group(context.span, false);
    let slot = layout.slot(place.stripe, place.column);
    let at = layout.member_unit(place.stripe, place.offset);
    for slot in (slot..slot + layout.copies).filter(|slot| core.has(*slot, place.stripe)) {
        group.add(slot, Verb::WritePart(offset, bytes, durable), at, 1, |into| into.push(content.clone()));
    }
    core.exchange(&group, Cause::Data).await;
    drop(entered);
    drop(marked);
    let written = if core.is_broken() { Err(Stopped::Broken) } else { Ok(()) };
    acknowledge(core, written).await
}

/// Deallocates units, which the caller has locked: they read as zeroes from then on.
pub(crate) async fn trim_locked(
    core: &Core,
    context: WorkContext,
    first: u64,
    count: u64,
) -> Result<(), MediaError> {
    let stripe_units = core.layout.stripe_units();
    let (mut unit, end) = (first, first + count);
    while unit < end {
        let stripe = core.layout.stripe_of(unit);
        let is_whole = unit.is_multiple_of(stripe_units) && end - unit >= stripe_units;
        let may_pass = core.layout.level != Level::Raid5 || is_whole && !core.slots.borrow().is_any_missing();
        if may_pass {
            let count = match core.layout.level {
                Level::Raid5 => (end - unit) / stripe_units * stripe_units,
                _ => end - unit,
            };
            if !deallocate(core, context, unit, count).await? {
                continue; // a member has failed meanwhile
            }
            unit += count;
        } else {
            // Parity must change with the data, so zeroes are written.
            let count = ((stripe + 1) * stripe_units).min(end) - unit;
            let mut zeroes = core.scratch.vector();
            zeroes.resize(count as usize, Content::Zero);
            let written = write_locked(core, context, unit, &zeroes, false).await;
            core.scratch.keep(zeroes);
            written?;
            unit += count;
        }
    }
    Ok(())
}

/// Passes a deallocation on to the members; with parity only whole stripes, whose parity is then zeroes.
/// False, with nothing done, if there is parity and a member is missing.
async fn deallocate(core: &Core, context: WorkContext, first: u64, count: u64) -> Result<bool, MediaError> {
    let layout = &core.layout;
    let stripes = layout.stripes_of(first, count);
    core.work(context, WorkKind::Stripe, layout.members as u64).await;
    let marked = core.mark(&stripes).await;
    let entered = core.gate.enter().await;
    if core.layout.level == Level::Raid5 && core.slots.borrow().is_any_missing() {
        return Ok(false);
    }
    let group = core.group(context.span, false);
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
    core.exchange(&group, Cause::Data).await;
    drop(entered);
    drop(marked);
    let written = if core.is_broken() { Err(Stopped::Broken) } else { Ok(()) };
    acknowledge(core, written).await?;
    core.lost.borrow_mut().write(first..end);
    Ok(true)
}

/// Extends a run by one that touches it, or by the whole stripes in between.
fn extend(run: &mut std::ops::Range<u64>, more: std::ops::Range<u64>) {
    *run = if run.is_empty() { more } else { run.start.min(more.start)..run.end.max(more.end) };
}
