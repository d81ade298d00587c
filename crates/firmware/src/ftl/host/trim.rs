//! Deallocations of the host.

use crate::ftl::collect::background::attend_writing;
use crate::ftl::config::MediaError;
use crate::ftl::core::Core;
use crate::ftl::journal::writer::{has_journal_space, journal_filled};
use crate::ftl::map::commits::pay_for_commits;
use crate::ftl::paging::page::look_up_in_part;
use crate::ftl::space::REGION_UNITS;
use crate::ftl::write::deallocate::{deallocate, deallocate_all};
use crate::work::WorkKind;
use byteway_clock::{SpanId, Spans, Stage};

/// [`Ftl::trim`](crate::Ftl::trim).
pub(in crate::ftl) async fn trim(
    core: &Core,
    span: SpanId,
    spans: &Spans,
    first: u64,
    count: u64,
) -> Result<(), MediaError> {
    core.check(first, count)?;
    core.power.ready().await;
    let _attending = attend_writing(core)?;
    let end = first + count;
    let service = core
        .placement
        .reserve(WorkKind::Translate, core.changes_at_once(count.div_ceil(core.space.page_units())));
    core.clock.sleep_until(service.end).await;
    spans.charge_split(span, core.clock.now(), service.queued, Stage::Firmware);
    if count == 0 {
        return Ok(());
    }
    while !has_journal_space(core) {
        core.check_writable()?;
        core.signals.settled.notified().await;
    }
    if first == 0 && end == core.config.user_units && core.locks.len() == 0 {
        deallocate_all(core);
        journal_filled(core);
        core.pay_for_changes().await;
        pay_for_commits(core).await;
        return Ok(());
    }
    if core.cache.is_some() {
        look_up_in_part(core, span, spans, first, end).await;
    }
    let mut next = first;
    while next < end {
        let stop = (next / REGION_UNITS + 1).saturating_mul(REGION_UNITS).min(end);
        core.locks.wait(next, (stop - next) as u32).await;
        while !has_journal_space(core) {
            core.check_writable()?;
            core.signals.settled.notified().await;
            // A unit may have been locked during the wait.
            core.locks.wait(next, (stop - next) as u32).await;
        }
        deallocate(core, next, stop);
        journal_filled(core);
        core.pay_for_changes().await;
        pay_for_commits(core).await;
        next = stop;
        if next < end {
            // A terabyte is a quarter of a million regions: other tasks must run in between.
            core.clock.yield_now().await;
        }
    }
    spans.charge(span, core.clock.now(), Stage::Queueing);
    Ok(())
}
