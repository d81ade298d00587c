//! Atomic read-modify-write of several units: no other write comes in between.
//!
//! Waits are ordered as in [`Ftl::edit`]: map pages, write buffer slots, locks. Locks are taken in ascending
//! order, so two exchanges never wait for each other; the holder of locks waits only for flash.

use crate::ftl::collect::background::Attending;
use crate::ftl::config::MediaError;
use crate::ftl::inner::Ftl;
use crate::ftl::write::lock::UnitLock;
use crate::placement::Route;
use byteway_clock::{Permit, SpanId, Spans, Stage};
use byteway_content::Content;

/// Exclusive access to units, until they are written or this is dropped.
///
/// Readers do not wait. They see all units as before, or all as [`Exchange::write`] has left them. A power
/// cut may leave some of each, as for any write of several units.
pub struct Exchange<'a> {
    ftl: &'a Ftl,
    units: Vec<u64>,
    permit: Permit,
    locks: Vec<UnitLock>,
    attending: Attending<'a>,
}

impl Ftl {
    /// Maximum units of an exchange: those of a stripe, for which the write buffer always has slots.
    pub fn exchange_units_max(&self) -> u32 {
        self.0.geometry.units_per_stripe()
    }

    /// Waits for exclusive access to `units`, which must be distinct, and for slots to write them.
    ///
    /// Charges a read's translation and a write's admission to the buffer.
    ///
    /// # Errors
    /// [`MediaError`] if a unit is out of range, there are more than [`Ftl::exchange_units_max`], or the
    /// drive is read-only.
    pub async fn exchange(
        &self,
        span: SpanId,
        spans: &Spans,
        units: &[u64],
    ) -> Result<Exchange<'_>, MediaError> {
        let inner = &*self.0;
        let units: Vec<u64> = units.iter().map(|unit| self.check(*unit, 1)).collect::<Result<_, _>>()?;
        let count = units.len() as u32;
        if count > self.exchange_units_max() {
            return Err(MediaError::OutOfRange);
        }
        self.ready().await;
        let attending = inner.attend_writing()?;
        let look_ups = units.iter().map(|unit| inner.look_ups(*unit, 1)).sum();
        self.translate(span.into(), spans, look_ups).await;
        self.admit(span.into(), spans, count.into(), inner.changes_at_once(count.into())).await;
        if inner.cache.is_some() {
            let mut last = None;
            for unit in &units {
                self.pages(span.into(), spans, *unit, 1, &mut last).await;
            }
        }
        let permit = inner.slots_for(span, spans, count).await?;
        let mut sorted = units.clone();
        sorted.sort_unstable();
        debug_assert!(
            sorted.is_sorted_by(|one, next| one < next),
            "a unit that is named twice would wait for itself"
        );
        // In ascending order, whatever the caller's order, so that two exchanges cannot wait for each other.
        let mut locks = Vec::with_capacity(sorted.len());
        for unit in sorted {
            locks.push(inner.locks.lock(unit).await);
        }
        spans.charge(span, inner.clock.now(), Stage::Queueing);
        Ok(Exchange { ftl: self, units, permit, locks, attending })
    }
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
        self.ftl.0.state.borrow_mut().counters.units_read += self.units.len() as u64;
        let mut run = Vec::new();
        for units in self.units.chunk_by(|one, next| one + 1 == *next) {
            self.ftl.read_units(span.into(), spans, units[0], units.len() as u32, true, &mut run).await?;
            contents.append(&mut run);
        }
        Ok(())
    }

    /// Writes the units, all at one instant, and releases them. With `durable` it returns when they are
    /// programmed, as [`Ftl::write`] does. `contents` has one content for each unit, and is drained.
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
        let Exchange { ftl, units, permit, locks, attending } = self;
        let inner = &*ftl.0;
        assert_eq!(contents.len(), units.len(), "each unit gets its content");
        // No wait until all units are buffered, so that a reader comes before the first or after the last.
        let taken: u32 = units
            .iter()
            .zip(contents.drain(..))
            .map(|(unit, content)| inner.take(Route::OWN, *unit, std::iter::once(content)))
            .sum();
        permit.forget();
        inner.give_back(units.len() as u32 - taken);
        drop(locks);
        inner.dispatch();
        let settled = ftl.settle(span, spans, durable).await;
        drop(attending);
        settled
    }
}
