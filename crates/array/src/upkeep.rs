//! Background work: marks in the write-intent log, repair after a power cut, rebuilding.

use crate::config::{Defect, Level};
use crate::core::Core;
use crate::counters::Cause;
use crate::durable::{flush_members, write_lost, write_superblocks};
use crate::layout::UnitLocation;
use crate::read::{read_one, reconstruct};
use crate::rebuild::Rebuild;
use crate::xor::Parity;
use byteway_clock::SpanId;
use byteway_content::Content;
use byteway_firmware::WorkKind;
use std::rc::Rc;

/// Units rebuilt between two persistent progress marks: a power cut repeats at most this much.
const MARK_UNITS: u64 = 16_384;

/// The task that makes region marks durable: all waiting ones with one write to each member.
pub(crate) async fn run_log(core: Rc<Core>) {
    loop {
        core.intents.wanted().await;
        let _turn = core.intents.turn().await;
        while let Some((content, marks)) = core.intents.to_write() {
            if !core.config.defect.has(Defect::NoIntentLog) {
                write_log(&core, content).await;
            }
            core.intents.are_written(&marks);
        }
    }
}

/// The task that marks idle regions as clean.
pub(crate) async fn run_cleaner(core: Rc<Core>) {
    loop {
        core.clock.timer(core.config.clean_after).await;
        let idle = core.intents.idle(true);
        if !idle.0.is_empty() && !core.is_broken() {
            flush_members(&core, SpanId::NONE).await;
            clean_log(&core, &idle).await;
        }
    }
}

/// The task that repairs after a power cut, then rebuilds members.
pub(crate) async fn run(core: Rc<Core>) {
    loop {
        while let Some(region) = core.intents.unsynced().first().copied() {
            if core.is_broken() {
                break;
            }
            repair(&core, region).await;
        }
        let rebuilding = core.slots.borrow().rebuilding();
        match rebuilding {
            Some((slot, mark)) if !core.is_broken() => rebuild(&core, slot, mark).await,
            _ => core.upkeep.notified().await,
        }
    }
}

async fn write_log(core: &Core, content: Content) {
    let group = core.group(SpanId::NONE, false);
    for slot in core.present() {
        group.add_write(slot, core.area.intents, true, std::iter::once(content.clone()));
    }
    core.exchange(&group, Cause::Log).await;
}

/// Clears the marks of regions that were idle and still are; their writes have been flushed since. The
/// clearing is durable when this ends, because a member that fails together with the power would lose
/// units of every marked region, however long it was idle.
pub(crate) async fn clean_log(core: &Core, idle: &(Vec<usize>, u32)) {
    let _turn = core.intents.turn().await;
    if !core.is_broken() && core.intents.clean(idle) {
        write_log(core, core.intents.encoded()).await;
        core.intents.are_cleared();
    }
}

/// Yields to hosts, and keeps to the rate limit.
async fn pace_upkeep(core: &Core, units: u64) {
    let rebuild = &core.config.rebuild;
    let rate = if core.attending.get() > 0 { rebuild.busy_rate } else { rebuild.idle_rate };
    core.pace(units, rate).await;
}

/// Makes copies or parity of a region consistent, unless a member fails meanwhile, whose failure then
/// decides about the region.
async fn repair(core: &Core, region: usize) {
    let stripes = core.intents.stripes(region);
    for stripe in stripes.start..stripes.end.min(core.layout.stripes) {
        if !core.intents.is_unsynced(stripe) || core.is_broken() {
            break;
        }
        let lock = core.lock(stripe * core.layout.stripe_units(), core.layout.stripe_units()).await;
        let was_wrong = match core.layout.level {
            Level::Raid5 => repair_parity(core, stripe).await,
            _ => repair_copies(core, stripe).await,
        };
        drop(lock);
        core.counting.count(|counters| counters.stripes_repaired += u64::from(was_wrong));
        pace_upkeep(core, core.layout.chunk).await;
    }
    if core.is_broken() {
        return;
    }
    // An unrecorded failure of a member meanwhile would leave the repair in doubt.
    core.gate.open().await;
    flush_members(core, SpanId::NONE).await;
    core.gate.open().await;
    if !core.is_broken() {
        core.intents.synced(region);
    }
}

/// Repairs the parity of a stripe, except for unreadable units. Returns whether it was wrong.
async fn repair_parity(core: &Core, stripe: u64) -> bool {
    let layout = &core.layout;
    let at = layout.member_unit(stripe, 0);
    let parity_slot = layout.parity_slot(stripe);
    let group = core.group(SpanId::NONE, true);
    (0..layout.members).for_each(|slot| {
        group.add_read(slot, at, layout.chunk);
    });
    let all = core.exchange(&group, Cause::Repair).await;
    if core.is_broken() || core.gate.is_closed() || !core.intents.is_unsynced(stripe) {
        return false;
    }
    let mut bad = vec![0_u64; layout.chunk as usize];
    if !all {
        // Offset by offset: an unreadable unit has no parity to be computed from, and is lost.
        drop(group);
        return repair_offsets(core, stripe, &mut bad).await;
    }
    let mut parity = Parity::new();
    let mut wrong = Vec::new();
    {
        let pieces = group.pieces.borrow();
        let pieces = &pieces[..group.len()];
        for offset in 0..layout.chunk as usize {
            let data = pieces.iter().filter(|piece| piece.slot != parity_slot);
            data.for_each(|piece| parity.add(&piece.contents[offset]));
            let right = parity.take(core.config.keep);
            let found = pieces.iter().find(|piece| piece.slot == parity_slot);
            if found.is_some_and(|piece| !is_same(&piece.contents[offset], &right)) {
                wrong.push((offset as u64, right));
            }
        }
    }
    drop(group);
    let xored = layout.chunk * layout.columns;
    core.counting.count(|counters| counters.units_xored += xored);
    core.work(SpanId::NONE.into(), WorkKind::Parity, xored).await;
    write_repaired(core, parity_slot, at, &wrong).await;
    !wrong.is_empty()
}

/// Like `repair_parity`, with unreadable units.
#[cold]
async fn repair_offsets(core: &Core, stripe: u64, bad: &mut [u64]) -> bool {
    let layout = &core.layout;
    let parity_slot = layout.parity_slot(stripe);
    for offset in 0..bad.len() as u64 {
        let at = layout.member_unit(stripe, offset);
        let mut parity = Parity::new();
        for slot in (0..layout.members).filter(|slot| *slot != parity_slot) {
            match read_one(core, SpanId::NONE, slot, at, Cause::Repair).await {
                Ok(content) => parity.add(&content),
                Err(_) if core.has(slot, stripe) => lose(core, stripe, slot, offset).await,
                Err(_) => return false,
            }
        }
        write_repaired(core, parity_slot, at, &[(0, parity.take(core.config.keep))]).await;
    }
    write_lost(core).await;
    true
}

/// Marks a unit of a present member as lost, and writes zeroes in its place, so that parity holds.
async fn lose(core: &Core, stripe: u64, slot: usize, offset: u64) {
    lose_slot(core, stripe, slot, offset);
    write_lost(core).await; // before the zeroes can be read
    let at = core.layout.member_unit(stripe, offset);
    write_repaired(core, slot, at, &[(0, Content::Zero)]).await;
}

async fn write_repaired(core: &Core, slot: usize, at: u64, units: &[(u64, Content)]) {
    if units.is_empty() {
        return;
    }
    let group = core.group(SpanId::NONE, true);
    for (offset, content) in units {
        group.add_write(slot, at + offset, false, std::iter::once(content.clone()));
    }
    core.exchange(&group, Cause::Repair).await;
}

/// Repairs the copies of a stripe: all become the first readable one. Returns whether they differed.
async fn repair_copies(core: &Core, stripe: u64) -> bool {
    let layout = &core.layout;
    let at = layout.member_unit(stripe, 0);
    let mut was_wrong = false;
    for column in 0..layout.columns {
        let first = layout.slot(stripe, column);
        let slots: Vec<usize> =
            (first..first + layout.copies).filter(|slot| core.has(*slot, stripe)).collect();
        let group = core.group(SpanId::NONE, true);
        slots.iter().for_each(|slot| {
            group.add_read(*slot, at, layout.chunk);
        });
        core.exchange(&group, Cause::Repair).await;
        let mut wrong: Vec<(usize, u64, Content)> = Vec::new();
        {
            let pieces = group.pieces.borrow();
            let readable = pieces[..group.len()].iter().filter(|piece| piece.error.is_none());
            let mut readable = readable.clone();
            let Some(source) = readable.next() else { continue };
            for piece in readable {
                for (offset, (right, found)) in (0..).zip(source.contents.iter().zip(&piece.contents)) {
                    if !is_same(right, found) {
                        wrong.push((piece.slot, offset, right.clone()));
                    }
                }
            }
        }
        drop(group);
        for (slot, offset, content) in wrong {
            was_wrong = true;
            write_repaired(core, slot, at + offset, &[(0, content)]).await;
        }
    }
    was_wrong
}

/// Rebuilds a member from stripe `mark` on, until it is complete, or it or the array fails.
async fn rebuild(core: &Core, slot: usize, mark: u64) {
    let (layout, mut since) = (&core.layout, 0);
    let (stripes, began) = (layout.stripes, core.clock.now());
    // Another member may take its place wherever this waits.
    let member = (slot, core.slots.borrow().joined()[slot]);
    let earlier = core.rebuild.get().filter(|it| it.slot == slot && it.ended.is_none() && it.done == mark);
    let begun = Rebuild { slot, stripes, before: mark, done: mark, began, ended: None };
    core.rebuild.set(Some(earlier.unwrap_or(begun)));
    let told = |done: u64, ended| {
        core.rebuild.set(core.rebuild.get().map(|rebuild| Rebuild { done, ended, ..rebuild }));
    };
    for stripe in mark..layout.stripes {
        let lock = core.lock(stripe * layout.stripe_units(), layout.stripe_units()).await;
        let is_done = rebuild_stripe(core, slot, stripe).await;
        if !is_done || !core.slots.borrow_mut().advance(member, stripe) {
            return; // the caller evaluates the state again
        }
        told(stripe + 1, None);
        drop(lock);
        since += layout.chunk;
        if since >= MARK_UNITS {
            since = 0;
            flush_members(core, SpanId::NONE).await;
            core.slots.borrow_mut().flush_to(member, stripe + 1);
            write_superblocks(core).await;
        }
        pace_upkeep(core, layout.chunk).await;
    }
    flush_members(core, SpanId::NONE).await;
    write_lost(core).await;
    if !core.slots.borrow_mut().complete(member, layout.stripes) {
        return;
    }
    told(layout.stripes, Some(core.clock.now()));
    // No stripe is degraded any more: remaining entries must not be found when one is again.
    core.journal.forget();
    // Until this is durable, stripes count as degraded and are journaled.
    write_superblocks(core).await;
    core.journal.forget(); // these as well: the superblocks of a further failure will record it
    core.health_changed.notify_one();
}

/// Rebuilds a stripe of the member. Returns whether it was written.
async fn rebuild_stripe(core: &Core, slot: usize, stripe: u64) -> bool {
    let layout = &core.layout;
    let at = layout.member_unit(stripe, 0);
    let mut contents = core.scratch.vector();
    contents.resize(layout.chunk as usize, Content::Zero);
    let is_known = match layout.level {
        Level::Raid5 => rebuild_from_parity(core, slot, stripe, &mut contents).await,
        _ => rebuild_from_copy(core, slot, stripe, &mut contents).await,
    };
    if !is_known {
        core.scratch.keep(contents);
        return false;
    }
    let group = core.group(SpanId::NONE, true);
    group.add_write(slot, at, false, contents.drain(..));
    core.scratch.keep(contents);
    core.exchange(&group, Cause::Rebuild).await
}

async fn rebuild_from_parity(core: &Core, slot: usize, stripe: u64, contents: &mut [Content]) -> bool {
    let layout = &core.layout;
    let place = UnitLocation { stripe, column: 0, offset: 0 };
    let context = SpanId::NONE.into();
    let has_lost = {
        let lost = core.lost.borrow();
        let first = stripe * layout.stripe_units();
        !lost.is_empty() && (first..first + layout.stripe_units()).any(|unit| lost.has(unit))
    };
    if !has_lost && reconstruct(core, context, slot, place, contents, true).await.is_ok() {
        return true;
    }
    // Unit by unit: a unit that another member cannot read costs two, and no more.
    for (offset, content) in (0..).zip(contents) {
        let Some(rebuilt) = rebuild_unit(core, slot, stripe, offset).await else { return false };
        *content = rebuilt;
    }
    write_lost(core).await;
    true
}

/// Rebuilds one unit; None if a member is lost.
async fn rebuild_unit(core: &Core, slot: usize, stripe: u64, offset: u64) -> Option<Content> {
    let layout = &core.layout;
    let at = layout.member_unit(stripe, offset);
    let mut units = Vec::with_capacity(layout.members);
    for other in (0..layout.members).filter(|other| *other != slot) {
        match read_one(core, SpanId::NONE, other, at, Cause::Rebuild).await {
            Ok(content) => units.push((other, Some(content))),
            Err(_) if core.has(other, stripe) => units.push((other, None)),
            Err(_) => return None,
        }
    }
    let is_lost = |slot: usize| {
        let column = layout.column_of(stripe, slot);
        column.is_some_and(|column| {
            core.lost.borrow().has(layout.unit(UnitLocation { stripe, column, offset }))
        })
    };
    let all = units.iter().all(|(_, unit)| unit.is_some());
    let mut parity = Parity::new();
    if all && !is_lost(slot) {
        units.iter().flat_map(|(_, unit)| unit).for_each(|unit| parity.add(unit));
        core.work(SpanId::NONE.into(), WorkKind::Parity, layout.columns).await;
        core.counting.count(|counters| counters.units_reconstructed += 1);
        return Some(parity.take(core.config.keep));
    }
    // Unreadable units of the others are lost, and with them what depends on them. This is durable before
    // zeroes take their place, over which the parity then holds, so that nothing can be computed from
    // them.
    let parity_slot = layout.parity_slot(stripe);
    let bad: Vec<usize> = units.iter().filter(|(_, unit)| unit.is_none()).map(|(other, _)| *other).collect();
    bad.iter().chain([&slot]).for_each(|slot| lose_slot(core, stripe, *slot, offset));
    write_lost(core).await;
    for other in bad.into_iter().filter(|other| *other != parity_slot) {
        write_repaired(core, other, at, &[(0, Content::Zero)]).await;
    }
    let data = units.iter().filter(|(other, _)| *other != parity_slot);
    data.filter_map(|(_, unit)| unit.as_ref()).for_each(|unit| parity.add(unit));
    let right = parity.take(core.config.keep);
    if slot == parity_slot {
        return Some(right);
    }
    write_repaired(core, parity_slot, at, &[(0, right)]).await;
    Some(Content::Zero)
}

/// Marks the unit of a slot as lost, unless it is parity.
fn lose_slot(core: &Core, stripe: u64, slot: usize, offset: u64) {
    if let Some(column) = core.layout.column_of(stripe, slot) {
        let unit = core.layout.unit(UnitLocation { stripe, column, offset });
        core.lost.borrow_mut().lose(unit);
    }
}

async fn rebuild_from_copy(core: &Core, slot: usize, stripe: u64, contents: &mut [Content]) -> bool {
    let layout = &core.layout;
    let at = layout.member_unit(stripe, 0);
    let first = slot / layout.copies * layout.copies;
    let source = (first..first + layout.copies).find(|other| *other != slot && core.has(*other, stripe));
    let Some(source) = source else { return false };
    let group = core.group(SpanId::NONE, true);
    group.add_read(source, at, layout.chunk);
    if core.exchange(&group, Cause::Rebuild).await {
        group.take(0, 0, contents.len(), |nth, content| contents[nth] = content);
        return true;
    }
    drop(group);
    for (offset, content) in (0..).zip(contents) {
        let mut found = None;
        for other in (first..first + layout.copies).filter(|other| *other != slot) {
            if found.is_none() && core.has(other, stripe) {
                found = read_one(core, SpanId::NONE, other, at + offset, Cause::Rebuild).await.ok();
            }
        }
        if !(first..first + layout.copies).any(|other| other != slot && core.has(other, stripe)) {
            return false;
        }
        if found.is_none() {
            lose_slot(core, stripe, slot, offset);
            write_lost(core).await;
        }
        *content = found.unwrap_or_default();
    }
    true
}

/// Whether two units have the same bytes, however they are stored.
fn is_same(one: &Content, other: &Content) -> bool {
    if one == other {
        return true;
    }
    let (mut left, mut right) = ([0; 4096], [0; 4096]);
    one.write_to(&mut left);
    other.write_to(&mut right);
    left == right
}
