//! The readers, which read ahead of the host into the read cache.
//!
//! They look units up and submit their reads in the same instant, as every read does, and what they bring is kept under its address in flash:
//! the cache returns it only while the map says the same.

use crate::ftl::collect::refresh::note_read;
use crate::ftl::core::Core;
use crate::ftl::host::read::group;
use crate::ftl::paging::page::look_up;
use crate::ftl::paging::reach::Access;
use crate::ftl::read_cache::Origin;
use crate::ftl::scratch::{Lent, Scratch, Wanted};
use crate::ftl::state::UnitLocation;
use crate::placement::WorkContext;
use crate::policy::prefetch::Ahead;
use byteway_clock::{SpanId, Spans};
use byteway_content::UNIT_BYTES;
use byteway_flash::Priority;
use std::rc::Rc;

/// Readers of a drive: as many windows can be on their way.
pub(in crate::ftl) const READERS: u32 = 16;

/// The task of a reader.
pub(in crate::ftl) async fn run(core: Rc<Core>) {
    let Some(signals) = &core.ahead else { return };
    core.power.ready().await;
    loop {
        let next = core.state.borrow_mut().ahead.as_mut().and_then(|ahead| ahead.next());
        let Some(due) = next else {
            signals.due.notified().await;
            continue;
        };
        let turn = core.superseded.begin();
        fetch(&core, due).await;
        core.superseded.end(turn);
        if let Some(ahead) = &mut core.state.borrow_mut().ahead {
            ahead.end(due);
        }
        signals.came.notify_all();
    }
}

/// Reads units of which some may be elsewhere than in flash.
async fn fetch(core: &Core, Ahead { first, count }: Ahead) {
    let spans = &Spans::default();
    let context = WorkContext::from(SpanId::NONE);
    core.placement.translate(&core.clock, context, spans, core.look_ups(first, count.into())).await;
    let operations = count.div_ceil(core.geometry.units_per_stripe()).into();
    core.placement.command_data_end(&core.clock, context, spans, operations).await;
    let scratch = core.scratch.borrow_mut().pop().unwrap_or_default();
    let mut lent = Lent { pool: &core.scratch, scratch };
    let Scratch { groups, wanted, contents, .. } = &mut lent.scratch;
    let end = first + u64::from(count);
    let mut next = first;
    let mut ticket = None;
    while next < end {
        // One translation page at a time, as in a read of the host.
        let mut stop = end;
        if core.cache.is_some() {
            let page = core.space.page_of(next);
            stop = end.min(core.space.units_of(page).end);
            look_up(core, context, spans, page, Access::Read).await;
        }
        let submitted = groups.len();
        {
            let state = core.state.borrow();
            let Some(cache) = &state.read_cache else { return };
            for lpa in next..stop {
                let UnitLocation::Flash(ppa) = state.find_beneath(&core.base, lpa) else { continue };
                let origin = Origin::of(ppa, &state.blocks);
                if cache.has(lpa, origin) {
                    continue;
                }
                let group = group(core, groups, submitted, ppa);
                let unit = core.geometry.unit_of_stripe(ppa);
                wanted.push(Wanted { place: (lpa - first) as u32, group, unit, origin: Some(origin) });
            }
        }
        for group in &mut groups[submitted..] {
            let ticket = ticket.get_or_insert_with(|| core.flash.ticket());
            // As urgent as a host's: one that waits for it must not wait behind collection.
            group.at = core.flash.submit_read(group.first, group.mask, Priority::HostRead, ticket) as u32;
        }
        next = stop;
    }
    let Some(ticket) = ticket else { return };
    let outcome = ticket.wait().await;
    groups.iter().for_each(|group| note_read(core, group.first));
    let units = wanted.len() as u64;
    core.command_reads(SpanId::NONE, spans, units).await;
    // The host's own read finds out what is unreadable, and says so.
    if outcome.failed {
        return;
    }
    core.placement.add_to_buffer(&core.clock, context, spans, units * UNIT_BYTES as u64).await;
    ticket.take_contents(contents);
    let mut guard = core.state.borrow_mut();
    let state = &mut *guard;
    state.counters.units_read_ahead += units;
    for Wanted { place, group, unit, origin } in wanted.iter() {
        let group = &groups[*group as usize];
        let before = (group.mask & ((1 << unit) - 1)).count_ones();
        let content = std::mem::take(&mut contents[(group.at + before) as usize]);
        let lpa = first + u64::from(*place);
        // What was written, deallocated or moved meanwhile would only take the place of what can still be read.
        let is_there = |origin: &Origin| match state.find_beneath(&core.base, lpa) {
            UnitLocation::Flash(ppa) => Origin::of(ppa, &state.blocks) == *origin,
            _ => false,
        };
        if let Some(origin) = origin.filter(is_there)
            && let Some(cache) = &mut state.read_cache
        {
            cache.put_ahead(lpa, origin, content);
        }
    }
}
