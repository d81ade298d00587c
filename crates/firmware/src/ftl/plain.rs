//! Fast path for reads and writes of one unit with the whole map in DRAM, as nearly all host I/Os are. Each
//! wait is a leaf, so that a poll runs through one state machine instead of one for each layer. Results,
//! times and order of events equal those of [`Ftl::read`] and [`Ftl::write`], which handle all other cases.

use crate::ftl::config::MediaError;
use crate::ftl::inner::{Ftl, UnitLocation};
use crate::placement::Route;
use crate::work::WorkKind;
use byteway_clock::{Delay, SpanId, Spans, Stage};
use byteway_content::{Content, UNIT_BYTES};
use byteway_flash::Priority;

impl Ftl {
    /// Whether the fast path applies: recovery is complete, DRAM holds the whole map, and the work is done
    /// next to it.
    #[inline]
    pub fn is_plain(&self, route: Route) -> bool {
        route == Route::OWN
            && !self.0.placement.is_apart()
            && self.0.cache.is_none()
            && self.0.power.is_ready.get()
    }

    /// [`Ftl::read`] of one unit, if [`is_plain`](Ftl::is_plain).
    ///
    /// # Errors
    /// Same as [`Ftl::read`].
    pub async fn read_one(&self, span: SpanId, spans: &Spans, unit: u64) -> Result<Content, MediaError> {
        let inner = &*self.0;
        let (clock, placement) = (&inner.clock, &inner.placement);
        let lpa = self.check(unit, 1)?;
        let _attending = inner.attend();
        let service = placement.reserve(WorkKind::Translate, inner.look_ups(lpa, 1));
        let access = placement.site(WorkKind::Translate).dram_latency();
        clock.sleep_until(service.end + access).await;
        let now = clock.now();
        spans.charge_split(span, service.end.min(now), service.queued, Stage::Firmware);
        if access > Delay::ZERO {
            spans.charge(span, now, Stage::Dram);
        }
        let found = {
            let mut state = inner.state.borrow_mut();
            state.counters.units_read += 1;
            state.find_counted(&inner.base, lpa)
        };
        match found {
            UnitLocation::Flash(ppa) => {
                let (ticket, origin) = (inner.flash.ticket(), inner.origin(ppa));
                let mask = 1 << inner.geometry.unit_of_stripe(ppa);
                inner.flash.submit_read(ppa, mask, Priority::HostRead, &ticket);
                let outcome = ticket.wait().await;
                spans.charge_waits(span, clock.now(), outcome.waits(), Stage::Flash);
                inner.note_read(ppa);
                if outcome.failed {
                    return Err(self.unreadable(outcome.unreadable));
                }
                let content = ticket.take(0);
                inner.keep_read(lpa, origin, &content);
                Ok(content)
            }
            UnitLocation::Buffered(content) => {
                let passage = placement.site(WorkKind::Buffer).dram("out of the buffer", UNIT_BYTES as u64);
                clock.sleep_until(passage.arrival).await;
                spans.charge_split(span, clock.now(), passage.queued, Stage::Dram);
                Ok(content)
            }
            UnitLocation::Nowhere => Ok(Content::Zero),
            UnitLocation::Under(..) => self.read_unit(span.into(), spans, lpa, true).await,
        }
    }

    /// [`Ftl::write`] of one unit without FUA, if [`is_plain`](Ftl::is_plain).
    ///
    /// # Errors
    /// Same as [`Ftl::write`].
    pub async fn write_one(
        &self,
        span: SpanId,
        spans: &Spans,
        unit: u64,
        content: Content,
    ) -> Result<(), MediaError> {
        let inner = &*self.0;
        let (clock, placement) = (&inner.clock, &inner.placement);
        let lpa = self.check(unit, 1)?;
        let _attending = inner.attend_writing()?;
        if inner.power.is_untouched.take() {
            inner.go_on_overwriting();
        }
        let changes = inner.changes_at_once(1);
        let service = inner.reserve_buffering(Route::OWN, 1, changes);
        clock.sleep_until(service.end).await;
        let mut queued = service.queued;
        if changes > 0 && !placement.site(WorkKind::Buffer).is(placement.site(WorkKind::Translate)) {
            let service = placement.reserve(WorkKind::Translate, changes);
            clock.sleep_until(service.end).await;
            queued += service.queued;
        }
        spans.charge_split(span, clock.now(), queued, Stage::Firmware);
        let passage = placement.site(WorkKind::Buffer).dram("into the buffer", UNIT_BYTES as u64);
        clock.sleep_until(passage.arrival).await;
        spans.charge_split(span, clock.now(), passage.queued, Stage::Dram);
        let permit = inner.slots_for(span, spans, 1).await?;
        inner.locks.wait(lpa, 1).await;
        let taken = inner.take(Route::OWN, lpa, std::iter::once(content));
        permit.forget();
        inner.give_back(1 - taken);
        inner.dispatch();
        spans.charge(span, clock.now(), Stage::Queueing);
        Ok(())
    }
}
