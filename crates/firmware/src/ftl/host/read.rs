//! Reads of the host.

use crate::ftl::collect::background::attend;
use crate::ftl::collect::refresh::note_read;
use crate::ftl::config::MediaError;
use crate::ftl::core::Core;
use crate::ftl::host::ahead::attend_read;
use crate::ftl::paging::page::look_up;
use crate::ftl::paging::reach::Access;
use crate::ftl::read_cache::Origin;
use crate::ftl::scratch::{Group, Lent, Scratch, Wanted};
use crate::ftl::state::UnitLocation;
use crate::placement::WorkContext;
use byteway_clock::{Spans, Stage};
use byteway_content::Content;
use byteway_flash::{Ppa, Priority};

/// Number of recent stripe groups among which a read searches for the stripe of its next unit.
const GROUPS_BACK: usize = 16;

/// [`Ftl::read`](crate::Ftl::read).
pub(in crate::ftl) async fn read(
    core: &Core,
    context: WorkContext,
    spans: &Spans,
    first: u64,
    count: u32,
    out: &mut Vec<Content>,
) -> Result<(), MediaError> {
    out.clear();
    let first = core.check(first, u64::from(count))?;
    core.power.ready().await;
    let _attending = attend(core);
    core.placement.translate(&core.clock, context, spans, core.look_ups(first, count.into())).await;
    // Before the look-up, because a read must be submitted in the same instant as its look-up: otherwise
    // the superblock could be erased in between.
    let operations = count.div_ceil(core.geometry.units_per_stripe()).into();
    core.placement.command_data_end(&core.clock, context, spans, operations).await;
    core.state.borrow_mut().counters.units_read += u64::from(count);
    if core.ahead.is_some() {
        attend_read(core, context.span, spans, first, count).await;
    }
    if count == 1 {
        if core.cache.is_some() {
            look_up(core, context, spans, core.space.page_of(first), Access::Read).await;
        }
        let content = read_unit(core, context, spans, first, true).await?;
        out.push(content);
        return Ok(());
    }
    read_units(core, context, spans, first, count, false, out).await
}

/// [`Ftl::read_at_once`](crate::Ftl::read_at_once).
pub(in crate::ftl) fn read_at_once(core: &Core, unit: u64) -> Option<Content> {
    let lpa = core.check(unit, 1).ok()?;
    if !core.is_at_once() {
        return None;
    }
    let found = core.state.borrow().find(&core.base, lpa);
    let content = match found {
        UnitLocation::Flash(ppa) => {
            let content = core.flash.own()?.read_at_once(ppa, Priority::HostRead)?;
            note_read(core, ppa);
            core.state.borrow_mut().counters.units_read += 1;
            content
        }
        UnitLocation::Nowhere | UnitLocation::Buffered(_) => {
            let mut state = core.state.borrow_mut();
            state.counters.units_read += 1;
            match state.find_counted(&core.base, lpa) {
                UnitLocation::Buffered(content) => content,
                UnitLocation::Nowhere | UnitLocation::Flash(_) | UnitLocation::Under(..) => Content::Zero,
            }
        }
        UnitLocation::Under(..) => return None,
    };
    drop(attend(core)); // marks the host as not idle
    Some(content)
}

/// Reads a unit whose translation has been charged. With `salvages`, a unit that flash cannot deliver is
/// returned as its absorbed parts, if there are any, and unreadable blocks.
pub(in crate::ftl) async fn read_unit(
    core: &Core,
    context: WorkContext,
    spans: &Spans,
    lpa: u64,
    salvages: bool,
) -> Result<Content, MediaError> {
    let found = core.state.borrow_mut().find_counted(&core.base, lpa);
    read_found(core, context, spans, lpa, salvages, found).await
}

/// [`read_unit`], from where it was found in the same instant.
pub(super) async fn read_found(
    core: &Core,
    context: WorkContext,
    spans: &Spans,
    lpa: u64,
    salvages: bool,
    found: UnitLocation,
) -> Result<Content, MediaError> {
    match found {
        UnitLocation::Nowhere => Ok(Content::Zero),
        UnitLocation::Buffered(content) => {
            core.leave_buffer(context, spans, 1).await;
            Ok(content)
        }
        UnitLocation::Flash(ppa) => {
            let (ticket, origin) = (core.flash.ticket(), origin(core, ppa));
            let mask = 1 << core.geometry.unit_of_stripe(ppa);
            core.flash.submit_read(ppa, mask, Priority::HostRead, &ticket);
            let outcome = ticket.wait().await;
            spans.charge_waits(context.span, core.clock.now(), outcome.waits(), Stage::Flash);
            note_read(core, ppa);
            core.command_reads(context.span, spans, 1).await;
            if outcome.failed {
                return Err(core.unreadable(outcome.unreadable));
            }
            let content = ticket.content(0);
            keep_read(core, lpa, origin, &content);
            Ok(content)
        }
        UnitLocation::Under(ppa, patch) => {
            let (ticket, origin) = (core.flash.ticket(), origin(core, ppa));
            let mask = 1 << core.geometry.unit_of_stripe(ppa);
            core.flash.submit_read(ppa, mask, Priority::HostRead, &ticket);
            let outcome = ticket.wait().await;
            spans.charge_waits(context.span, core.clock.now(), outcome.waits(), Stage::Flash);
            note_read(core, ppa);
            core.command_reads(context.span, spans, 1).await;
            core.leave_buffer(context, spans, 1).await;
            match (outcome.failed, salvages) {
                (false, _) => {
                    keep_read(core, lpa, origin, &ticket.content(0));
                    Ok(patch.over(&ticket.content(0), core.config.keep))
                }
                (true, true) => {
                    core.unreadable(outcome.unreadable);
                    Ok(patch.over(&Content::unreadable(), core.config.keep))
                }
                (true, false) => Err(core.unreadable(outcome.unreadable)),
            }
        }
    }
}

/// Reads units whose translation has been charged; with `has_pages` their map pages have been looked up,
/// too.
pub(in crate::ftl) async fn read_units(
    core: &Core,
    context: WorkContext,
    spans: &Spans,
    first: u64,
    count: u32,
    has_pages: bool,
    out: &mut Vec<Content>,
) -> Result<(), MediaError> {
    let span = context.span;
    let scratch = core.scratch.borrow_mut().pop().unwrap_or_default();
    let mut lent = Lent { pool: &core.scratch, scratch };
    let Scratch { groups, wanted, contents, patches } = &mut lent.scratch;
    let mut buffered = 0;
    out.resize(count as usize, Content::Zero);
    let end = first + u64::from(count);
    let mut next = first;
    let mut ticket = None;
    while next < end {
        // One translation page at a time: a unit must be submitted in the instant of its look-up, not
        // after the wait for another page.
        let mut stop = end;
        if core.cache.is_some() && !has_pages {
            let page = core.space.page_of(next);
            stop = end.min(core.space.units_of(page).end);
            look_up(core, context, spans, page, Access::Read).await;
        }
        let submitted = groups.len();
        let mut state = core.state.borrow_mut();
        for lpa in next..stop {
            let place = (lpa - first) as u32;
            let ppa = match state.find_counted(&core.base, lpa) {
                UnitLocation::Nowhere => continue,
                UnitLocation::Buffered(content) => {
                    out[place as usize] = content;
                    buffered += 1;
                    continue;
                }
                UnitLocation::Flash(ppa) => ppa,
                UnitLocation::Under(ppa, patch) => {
                    patches.push((place, patch));
                    buffered += 1;
                    ppa
                }
            };
            let group = group(core, groups, submitted, ppa);
            let unit = core.geometry.unit_of_stripe(ppa);
            let origin = state.read_cache.is_some().then(|| Origin::of(ppa, &state.blocks));
            wanted.push(Wanted { place, group, unit, origin });
        }
        drop(state);
        for group in &mut groups[submitted..] {
            let ticket = ticket.get_or_insert_with(|| core.flash.ticket());
            let (first, mask) = (group.first, group.mask);
            group.at = core.flash.submit_read(first, mask, Priority::HostRead, ticket) as u32;
        }
        next = stop;
    }
    if let Some(ticket) = ticket {
        let outcome = ticket.wait().await;
        spans.charge_waits(span, core.clock.now(), outcome.waits(), Stage::Flash);
        // Also if units turn out to be unreadable: the sensing has disturbed the cells.
        groups.iter().for_each(|group| note_read(core, group.first));
        core.command_reads(span, spans, wanted.len() as u64).await;
        if outcome.failed {
            return Err(core.unreadable(outcome.unreadable));
        }
        ticket.take_contents(contents);
        for Wanted { place, group, unit, origin } in wanted.iter() {
            let group = &groups[*group as usize];
            let before = (group.mask & ((1 << unit) - 1)).count_ones();
            let content = &mut contents[(group.at + before) as usize];
            keep_read(core, first + u64::from(*place), *origin, content);
            std::mem::swap(&mut out[*place as usize], content); // what was there is zero
        }
        for (place, patch) in patches.iter() {
            let unit = &mut out[*place as usize];
            *unit = patch.over(unit, core.config.keep);
        }
    }
    if buffered > 0 {
        core.leave_buffer(context, spans, buffered).await;
    }
    Ok(())
}

/// Origin of a unit that is about to be read, if reads are cached.
#[inline]
pub(super) fn origin(core: &Core, ppa: Ppa) -> Option<Origin> {
    let state = core.state.borrow();
    state.read_cache.is_some().then(|| Origin::of(ppa, &state.blocks))
}

/// Adds a unit to the read cache.
#[inline]
pub(super) fn keep_read(core: &Core, lpa: u64, origin: Option<Origin>, content: &Content) {
    if let Some(origin) = origin
        && let Some(cache) = &mut core.state.borrow_mut().read_cache
    {
        cache.put(lpa, origin, content);
    }
}

/// The group of the stripe that contains `ppa`: one of the last few that are not yet submitted, or a new
/// one.
pub(super) fn group(core: &Core, groups: &mut Vec<Group>, submitted: usize, ppa: Ppa) -> u32 {
    let unit = core.geometry.unit_of_stripe(ppa);
    let (first, bit) = (Ppa(ppa.0 - u64::from(unit)), 1 << unit);
    // Usually the unit before was of the same stripe.
    if let [.., last] = &mut groups[submitted..]
        && last.first == first
    {
        last.mask |= bit;
        return (groups.len() - 1) as u32;
    }
    let from = groups.len().saturating_sub(GROUPS_BACK).max(submitted);
    match groups[from..].iter_mut().rposition(|group| group.first == first) {
        Some(index) => {
            groups[from + index].mask |= bit;
            (from + index) as u32
        }
        None => {
            groups.push(Group { first, mask: bit, at: 0 });
            (groups.len() - 1) as u32
        }
    }
}
