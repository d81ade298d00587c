//! Payment for changes of pages that lie in peers' DRAM.

use crate::ftl::core::Core;
use crate::ftl::map::segments::Unpaid;
use crate::placement::{LinkDirection, Route, SiteLink};
use crate::work::WorkKind;

/// Charges the commits up to now, after the work that changed the entries.
pub(in crate::ftl) async fn pay_for_commits(core: &Core) {
    loop {
        let unpaid = match &mut core.state.borrow_mut().map.segments {
            Some(segments) => segments.unpaid.pop(),
            None => return,
        };
        let Some(Unpaid { route, lender, count }) = unpaid else { return };
        let site = core.placement.site_by(WorkKind::Translate, route);
        let time = lender.commit() * count;
        if route != Route::OWN {
            site.note_lent_time(time);
        }
        let service = site.spend(WorkKind::Translate, time);
        core.clock.sleep_until(service.end).await;
        let bytes = count * SiteLink::LINE_BYTES;
        // The record first, then the entry: a lost lender must find the change in the log.
        if let Some(distance) = core.placement.distance(WorkKind::Translate, route) {
            post(core, distance.there(), bytes).await;
        }
        if let Some(distance) = lender.distance(route) {
            post(core, distance.there(), bytes).await;
        }
    }
}

/// Sends lines if the link is open. If it is closed, the segment is about to be lost anyway.
async fn post(core: &Core, way: &dyn LinkDirection, bytes: u64) {
    if way.closed().is_none() {
        core.clock.sleep_until(way.send(bytes).arrival).await;
    }
}
