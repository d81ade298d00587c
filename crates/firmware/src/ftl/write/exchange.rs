//! Units that are read and then written, or left as they are, with nothing of anybody else's in between.
//!
//! The order of what is waited for is that of [`Ftl::edit`]: pages of the map, slots of the write buffer, locks. Locks are
//! taken in ascending order, so two exchanges never wait for each other; the holder of locks waits for flash alone.

use crate::ftl::collect::background::Attending;
use crate::ftl::config::MediaError;
use crate::ftl::inner::Ftl;
use crate::ftl::write::lock::UnitLock;
use crate::placement::Route;
use byteway_clock::{Permit, SpanId, Spans, Stage};
use byteway_wire::content::Content;

/// Units that no other command changes until this is dropped or has written them.
///
/// Readers are not held up. They see all units as they were, or all as [`Exchange::write`] has left them. A power cut
/// may leave some of each, as of any write of several units.
pub struct Exchange<'a> {
    ftl: &'a Ftl,
    units: Vec<u64>,
    permit: Permit,
    locks: Vec<UnitLock>,
    attending: Attending<'a>,
}

impl Ftl {
    /// Units of one exchange, at most: as many as a stripe has, for which the write buffer always has slots.
    pub fn exchange_units_max(&self) -> u32 {
        self.0.geometry.units_per_stripe()
    }

    /// Waits until the caller alone may change `units`, which are different ones, and has slots to write them.
    ///
    /// Charges what a read's translation and a write's admission to the buffer take.
    ///
    /// # Errors
    /// If not all are units of the drive, they are more than [`Ftl::exchange_units_max`], or the drive takes nothing new.
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
        let permit = inner.slots(count).await?;
        let mut sorted = units.clone();
        sorted.sort_unstable();
        debug_assert!(
            sorted.is_sorted_by(|one, next| one < next),
            "a unit that is there twice waits for itself"
        );
        let mut locks = Vec::with_capacity(sorted.len());
        for unit in sorted {
            locks.push(inner.locks.lock(unit).await);
        }
        spans.charge(span, inner.clock.now(), Stage::Queueing);
        Ok(Exchange { ftl: self, units, permit, locks, attending })
    }
}

impl Exchange<'_> {
    /// Reads the units, in the order in which they were named. May be called again.
    ///
    /// # Errors
    /// If one of them can't be read.
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

    /// Writes the units, all at one instant, and lets others have them; with `durable` it returns when they are programmed,
    /// as [`Ftl::write`] does. `contents` has one for each unit, and is emptied.
    ///
    /// # Errors
    /// With `durable`, if flash has no room for them any more. They are buffered then.
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
        // No wait from here until all are buffered: a reader comes before the first or after the last.
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
