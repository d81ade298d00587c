//! Reads: directly from the members, and by reconstruction if a member is missing.

use crate::config::Level;
use crate::core::Core;
use crate::counters::Cause;
use crate::group::Verb;
use crate::layout::UnitLocation;
use crate::scratch::Fragment;
use crate::xor::Parity;
use byteway_clock::SpanId;
use byteway_content::Content;
use byteway_firmware::{WorkContext, WorkKind};
use byteway_member::MemberError;

/// Reads units from `first` into `out`. Lost units are returned as unreadable. With `is_locked` the
/// caller has locked them.
///
/// The location of a lost unit holds anything until the unit is written, which may happen during the
/// read. A unit therefore counts as lost if it was lost before the read, too.
pub(crate) async fn read(
    core: &Core,
    context: WorkContext,
    first: u64,
    out: &mut [Content],
    is_locked: bool,
) {
    let (before, losses) = {
        let lost = core.lost.borrow();
        (lost.within(first..first + out.len() as u64), lost.losses())
    };
    read_held(core, context, first, out, is_locked).await;
    if !is_locked && core.lost.borrow().losses() != losses {
        // A unit may have been lost and rewritten meanwhile.
        let _lock = core.lock(first, out.len() as u64).await;
        read_held(core, context, first, out, true).await;
        return blank_lost(core, first, out, &[]);
    }
    blank_lost(core, first, out, &before);
}

/// Reads the units without regard to losses.
async fn read_held(core: &Core, context: WorkContext, first: u64, out: &mut [Content], is_locked: bool) {
    let layout = &core.layout;
    let group = core.group(context.span, false);
    let mut fragments = core.scratch.fragments();
    divide(core, first, out.len() as u64, &mut fragments);
    for fragment in &mut fragments {
        let place = layout.place(fragment.first);
        fragment.read = choose(core, place.stripe, place.column)
            .map(|slot| group.add_read(slot, layout.member_unit(place.stripe, place.offset), fragment.count));
    }
    core.work(context, WorkKind::Stripe, group.len() as u64).await;
    let all = core.exchange(&group, Cause::Data).await;
    let mut missed = Vec::new();
    for (index, fragment) in fragments.iter().enumerate() {
        let at = (fragment.first - first) as usize;
        match fragment.read {
            Some((piece, offset)) if all || group.error(piece).1.is_none() => {
                group.take(piece, offset, fragment.count as usize, |nth, content| out[at + nth] = content);
            }
            _ => missed.push(index),
        }
    }
    drop(group);
    let missed: Vec<(u64, u64)> =
        missed.into_iter().map(|index: usize| (fragments[index].first, fragments[index].count)).collect();
    core.scratch.keep_fragments(fragments);
    for (from, count) in missed {
        let _lock = match is_locked {
            true => None,
            false => Some(core.lock(from, count).await),
        };
        let at = (from - first) as usize;
        recover(core, context, from, &mut out[at..at + count as usize]).await;
    }
}

/// Blanks units that are lost, or were lost `before`, whatever was read.
fn blank_lost(core: &Core, first: u64, out: &mut [Content], before: &[u64]) {
    let lost = core.lost.borrow();
    if !lost.is_empty() || !before.is_empty() {
        let units = (first..).zip(out).filter(|(unit, _)| lost.has(*unit) || before.contains(unit));
        units.for_each(|(_, content)| *content = Content::unreadable());
    }
}

/// Divides a run of units at chunk boundaries.
fn divide(core: &Core, first: u64, count: u64, fragments: &mut Vec<Fragment>) {
    let chunk = core.layout.chunk;
    let (mut at, end) = (first, first + count);
    while at < end {
        let count = (chunk - at % chunk).min(end - at);
        fragments.push(Fragment { first: at, count, read: None });
        at += count;
    }
}

/// The member to read a column from: among several copies the one with the fewest commands; None if no
/// member has it.
fn choose(core: &Core, stripe: u64, column: u64) -> Option<usize> {
    let layout = &core.layout;
    let first = layout.slot(stripe, column);
    let slots = core.slots.borrow();
    if layout.copies == 1 {
        return slots.has(first, stripe).then_some(first);
    }
    let mut copies = (first..first + layout.copies).filter(|slot| slots.has(*slot, stripe));
    if core.intents.is_unsynced(stripe) {
        return copies.next(); // the copies may differ, so always use the same one
    }
    let load = |slot: &usize| slots.port(*slot).map_or(u32::MAX, |port| port.load());
    // Equals take turns by stripe.
    let turn = |slot: &usize| (slot - first + stripe as usize) % layout.copies;
    copies.min_by_key(|slot| (load(slot), turn(slot)))
}

/// Reads units of one chunk by redundancy, and writes back what a member cannot read. The caller has
/// locked them.
async fn recover(core: &Core, context: WorkContext, first: u64, out: &mut [Content]) {
    let place = core.layout.place(first);
    if out.len() > 1 && core.layout.level == Level::Raid5 {
        let slot = core.layout.slot(place.stripe, place.column);
        if !core.has(slot, place.stripe) && reconstruct(core, context, slot, place, out, false).await.is_ok()
        {
            return;
        }
    }
    for (unit, content) in (first..).zip(out) {
        *content = recover_unit(core, context, unit).await;
    }
}

async fn recover_unit(core: &Core, context: WorkContext, unit: u64) -> Content {
    let layout = &core.layout;
    let place = layout.place(unit);
    let at = layout.member_unit(place.stripe, place.offset);
    let first = layout.slot(place.stripe, place.column);
    let mut found = None;
    let mut bad = Vec::new();
    for slot in (first..first + layout.copies).filter(|slot| core.has(*slot, place.stripe)) {
        match read_one(core, context.span, slot, at, Cause::Data).await {
            Ok(content) => {
                found = Some(content);
                break;
            }
            Err(MemberError::Lost(_)) => {}
            Err(_) => bad.push(slot),
        }
    }
    if found.is_none() && layout.level == Level::Raid5 && !core.lost.borrow().has(unit) {
        let mut content = [Content::Zero];
        if reconstruct(core, context, first, place, &mut content, false).await.is_ok() {
            let [content] = content;
            found = Some(content);
        }
    }
    let Some(content) = found else {
        core.counting.count(|counters| counters.units_unreadable += 1);
        return Content::unreadable();
    };
    bad.retain(|slot| core.has(*slot, place.stripe));
    if !bad.is_empty() && !core.is_broken() {
        let group = core.group(context.span, false);
        bad.iter().for_each(|slot| group.add_write(*slot, at, false, std::iter::once(content.clone())));
        core.exchange(&group, Cause::Repair).await;
        core.counting.count(|counters| counters.units_written_back += bad.len() as u64);
    }
    content
}

/// Reads a unit of a member.
pub(crate) async fn read_one(
    core: &Core,
    span: SpanId,
    slot: usize,
    at: u64,
    cause: Cause,
) -> Result<Content, MemberError> {
    let group = core.group(span, false);
    group.add(slot, Verb::Read, at, 1, |_| ());
    core.exchange(&group, cause).await;
    if let Some(error) = group.error(0).1 {
        return Err(error);
    }
    let mut read = Content::Zero;
    group.take(0, 0, 1, |_, content| read = content);
    Ok(read)
}

/// Computes units of a slot of level 5, from `place` on in its chunk, from all other slots of the stripe,
/// which is locked.
///
/// # Errors
/// The slots that cannot read all of their units, also if parity cannot be trusted.
pub(crate) async fn reconstruct(
    core: &Core,
    context: WorkContext,
    slot: usize,
    place: UnitLocation,
    out: &mut [Content],
    is_background: bool,
) -> Result<(), Vec<usize>> {
    let UnitLocation { stripe, offset, .. } = place;
    let others = (0..core.layout.members).filter(|other| *other != slot);
    if core.intents.is_unsynced(stripe) || !others.clone().all(|other| core.has(other, stripe)) {
        return Err(Vec::new());
    }
    let group = core.group(context.span, is_background);
    let at = core.layout.member_unit(stripe, offset);
    others.for_each(|other| {
        group.add_read(other, at, out.len() as u64);
    });
    let cause = if is_background { Cause::Rebuild } else { Cause::Parity };
    if !core.exchange(&group, cause).await {
        let bad = (0..group.len()).map(|index| group.error(index));
        return Err(bad.filter(|(_, error)| error.is_some()).map(|(slot, _)| slot).collect());
    }
    let mut parity = Parity::new();
    {
        let pieces = group.pieces.borrow();
        for (nth, out) in out.iter_mut().enumerate() {
            pieces[..group.len()].iter().for_each(|piece| parity.add(&piece.contents[nth]));
            *out = parity.take(core.config.keep);
        }
    }
    let units = out.len() as u64;
    let xored = units * (group.len() as u64 - 1);
    core.counting.count(|counters| {
        counters.units_reconstructed += units;
        counters.units_xored += xored;
    });
    core.work(context, WorkKind::Parity, xored).await;
    Ok(())
}
