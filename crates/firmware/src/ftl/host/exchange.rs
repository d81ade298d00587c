//! Atomic read-modify-write of several units: no other write comes in between.
//!
//! Waits are ordered as in [`Ftl::edit`](crate::Ftl::edit): map pages, write buffer slots, locks. Locks are
//! taken in ascending order, so two exchanges never wait for each other; the holder of locks waits only for
//! flash.

use crate::ftl::collect::background::{Attending, attend_writing};
use crate::ftl::config::MediaError;
use crate::ftl::core::Core;
use crate::ftl::host::read::read_units;
use crate::ftl::host::write::{admit, settle};
use crate::ftl::paging::page::look_up_all;
use crate::ftl::write::buffering::buffer_units;
use crate::ftl::write::dispatch::dispatch;
use crate::ftl::write::lock::UnitLock;
use crate::placement::Route;
use byteway_clock::{Permit, SpanId, Spans, Stage};
use byteway_content::Content;

/// Exclusive access to units, until they are written or this is dropped.
///
/// Readers do not wait. They see all units as before, or all as [`Exchange::write`] has left them. A power
/// cut may leave some of each, as for any write of several units.
pub struct Exchange<'a> {
    core: &'a Core,
    units: Vec<u64>,
    permit: Permit,
    locks: Vec<UnitLock>,
    attending: Attending<'a>,
}

/// Maximum units of an exchange.
pub(in crate::ftl) fn units_max(core: &Core) -> u32 {
    core.geometry.units_per_stripe()
}

/// [`Ftl::exchange`](crate::Ftl::exchange).
pub(in crate::ftl) async fn exchange<'a>(
    core: &'a Core,
    span: SpanId,
    spans: &Spans,
    units: &[u64],
) -> Result<Exchange<'a>, MediaError> {
    let units: Vec<u64> = units.iter().map(|unit| core.check(*unit, 1)).collect::<Result<_, _>>()?;
    let count = units.len() as u32;
    if count > units_max(core) {
        return Err(MediaError::OutOfRange);
    }
    core.power.ready().await;
    let attending = attend_writing(core)?;
    let look_ups = units.iter().map(|unit| core.look_ups(*unit, 1)).sum();
    core.placement.translate(&core.clock, span.into(), spans, look_ups).await;
    admit(core, span.into(), spans, count.into(), core.changes_at_once(count.into())).await;
    if core.cache.is_some() {
        let mut last = None;
        for unit in &units {
            look_up_all(core, span.into(), spans, *unit, 1, &mut last).await;
        }
    }
    let permit = core.slots_for(span, spans, count).await?;
    let mut sorted = units.clone();
    sorted.sort_unstable();
    debug_assert!(
        sorted.is_sorted_by(|one, next| one < next),
        "a unit that is named twice would wait for itself"
    );
    // In ascending order, whatever the caller's order, so that two exchanges cannot wait for each other.
    let mut locks = Vec::with_capacity(sorted.len());
    for unit in sorted {
        locks.push(core.locks.lock(unit).await);
    }
    spans.charge(span, core.clock.now(), Stage::Queueing);
    Ok(Exchange { core, units, permit, locks, attending })
}

impl Exchange<'_> {
    /// Reads the units in the order given. May be called repeatedly.
    ///
    /// # Errors
    /// [`MediaError`] if one of them is unreadable.
    pub async fn read(
        &self,
        span: SpanId,
        spans: &Spans,
        contents: &mut Vec<Content>,
    ) -> Result<(), MediaError> {
        contents.clear();
        self.core.state.borrow_mut().counters.units_read += self.units.len() as u64;
        let mut run = Vec::new();
        for units in self.units.chunk_by(|one, next| one + 1 == *next) {
            read_units(self.core, span.into(), spans, units[0], units.len() as u32, true, &mut run).await?;
            contents.append(&mut run);
        }
        Ok(())
    }

    /// Writes the units, all at one instant, and releases them. With `durable` it returns when they are
    /// programmed, as [`Ftl::write`](crate::Ftl::write) does. `contents` has one content for each unit, and is drained.
    ///
    /// # Errors
    /// With `durable`, [`MediaError::WriteProtected`] if flash has no more space. The units are buffered
    /// then.
    pub async fn write(
        self,
        span: SpanId,
        spans: &Spans,
        contents: &mut Vec<Content>,
        durable: bool,
    ) -> Result<(), MediaError> {
        let Exchange { core, units, permit, locks, attending } = self;
        assert_eq!(contents.len(), units.len(), "each unit gets its content");
        // No wait until all units are buffered, so that a reader comes before the first or after the last.
        let taken: u32 = units
            .iter()
            .zip(contents.drain(..))
            .map(|(unit, content)| buffer_units(core, Route::OWN, *unit, std::iter::once(content)))
            .sum();
        permit.forget();
        core.room.give_back(units.len() as u32 - taken);
        drop(locks);
        dispatch(core);
        let settled = settle(core, span, spans, durable).await;
        drop(attending);
        settled
    }
}
