//! What a controller calls: the operations of the host, as calls of what `host` and `collect` do.
//!
//! They return the futures of those, rather than wait for them in futures of their own: each layer of futures is polled
//! with every I/O.

use crate::ftl::Ftl;
use crate::ftl::collect::window::CollectionState;
use crate::ftl::collect::{purge, window};
use crate::ftl::config::MediaError;
use crate::ftl::host::exchange::Exchange;
use crate::ftl::host::plain::{Progress, UnitRead, UnitWrite};
use crate::ftl::host::{exchange, part, plain, read, trim, write};
use crate::placement::{Route, WorkContext};
#[cfg(doc)]
use crate::work::WorkKind;
use byteway_clock::{SpanId, Spans, Time};
use byteway_content::{Content, UNIT_BYTES};

impl Ftl {
    /// Reads `count` units from `first` into `out`, which is cleared first.
    ///
    /// Charges [`Translate`](crate::work::WorkKind::Translate) for each unit, or for each node of a tree of
    /// extents that the look-up visits, and one DRAM access at the translating site (the upper nodes are in
    /// its cores' caches). Units of one stripe are one flash operation. Units in the write buffer or the read
    /// cache pay for their transfer out of DRAM.
    ///
    /// # Errors
    /// [`MediaError`] if a unit is out of range or unreadable; `out` is then unspecified.
    pub fn read(
        &self,
        context: impl Into<WorkContext>,
        spans: &Spans,
        first: u64,
        count: u32,
        out: &mut Vec<Content>,
    ) -> impl Future<Output = Result<(), MediaError>> {
        read::read(&self.0, context.into(), spans, first, count, out)
    }

    /// Reads a unit within the call, if modelled waits take no time and there is nothing to wait for:
    /// recovery is complete, the whole map is in DRAM, and flash is idle. Otherwise returns None, with
    /// nothing changed, and the caller uses [`Ftl::read`].
    pub fn read_at_once(&self, unit: u64) -> Option<Content> {
        read::read_at_once(&self.0, unit)
    }

    /// Whether the fast path applies: recovery is complete, DRAM holds the whole map, and the work is done
    /// next to it.
    #[inline]
    pub fn is_plain(&self, route: Route) -> bool {
        plain::is_plain(&self.0, route)
    }

    /// Begins [`Ftl::read`] of one unit as a record, if [`is_plain`](Ftl::is_plain). Returns the instant of its first step.
    ///
    /// # Errors
    /// Same as [`Ftl::read`].
    #[inline]
    pub fn begin_read(&self, unit: u64) -> Result<(UnitRead, Time), MediaError> {
        plain::begin_read(&self.0, unit)
    }

    /// Takes the next step of a read, which is due. It ends with the unit, or as [`Ftl::read`] fails.
    #[inline]
    pub fn read_on(
        &self,
        read: &mut UnitRead,
        span: SpanId,
        spans: &Spans,
    ) -> Progress<Result<Content, MediaError>> {
        plain::read_on(&self.0, read, span, spans)
    }

    /// Begins [`Ftl::write`] of one unit without FUA as a record, if [`is_plain`](Ftl::is_plain). Returns the instant of its first step.
    ///
    /// # Errors
    /// Same as [`Ftl::write`].
    #[inline]
    pub fn begin_write(&self, unit: u64, content: Content) -> Result<(UnitWrite, Time), MediaError> {
        plain::begin_write(&self.0, unit, content)
    }

    /// Takes the next step of a write, which is due. It ends when the unit is buffered, or as [`Ftl::write`] fails.
    #[inline]
    pub fn write_on(
        &self,
        write: &mut UnitWrite,
        span: SpanId,
        spans: &Spans,
    ) -> Progress<Result<(), MediaError>> {
        plain::write_on(&self.0, write, span, spans)
    }

    /// Moves `contents` into the write buffer as the units from `first` on, waiting for free slots. Returns
    /// when they are buffered: with a write cache, a write may be acknowledged then. With `durable` it
    /// returns when they are programmed, which a drive with power-loss protection need not wait for.
    ///
    /// Charges [`WorkKind::Buffer`] and [`WorkKind::Translate`] for each unit, and the transfer into the
    /// buffer's DRAM. A tree of extents changes when the units are programmed, and [`WorkKind::Translate`]
    /// for each visited node is paid then, in the background. Units become visible one stripe's worth at a
    /// time, so a concurrent reader may see some new and some old.
    ///
    /// # Errors
    /// [`MediaError`] if a unit is out of range, the drive is read-only, or, with `durable`, flash has no
    /// more space.
    pub fn write(
        &self,
        context: impl Into<WorkContext>,
        spans: &Spans,
        first: u64,
        contents: &mut Vec<Content>,
        durable: bool,
    ) -> impl Future<Output = Result<(), MediaError>> {
        write::write(&self.0, context.into(), spans, first, contents, durable)
    }

    /// Whether a unit can be buffered within the call, if modelled waits take no time: under the conditions
    /// of [`Ftl::read_at_once`], with a free slot, and with `durable` only if the buffer is as durable as
    /// flash. Otherwise use [`Ftl::write`].
    pub fn can_write_at_once(&self, unit: u64, durable: bool) -> bool {
        write::can_write_at_once(&self.0, unit, durable)
    }

    /// Buffers a unit within the call. Call only directly after [`Ftl::can_write_at_once`] returned true.
    pub fn write_at_once(&self, unit: u64, content: Content) {
        write::write_at_once(&self.0, unit, content);
    }

    /// Changes a unit: reads it, applies `change` to its bytes, and buffers the result. Concurrent writes to
    /// the unit wait, so none is undone. Otherwise as [`Ftl::write`].
    ///
    /// # Errors
    /// [`MediaError`] if the unit is out of range or unreadable; nothing is written then.
    pub fn modify(
        &self,
        context: impl Into<WorkContext>,
        spans: &Spans,
        unit: u64,
        change: impl FnOnce(&mut [u8; UNIT_BYTES]),
        durable: bool,
    ) -> impl Future<Output = Result<(), MediaError>> {
        self.edit(context, spans, unit, |bytes, _| change(bytes), durable)
    }

    /// Like [`Ftl::modify`], but `edit` may also change which parts of the unit are unreadable
    /// ([`Content::edited`]). The unit's absorbed parts ([`Ftl::write_part`]) are included in what is read,
    /// and so in what is written.
    ///
    /// # Errors
    /// Same as [`Ftl::modify`].
    pub fn edit(
        &self,
        context: impl Into<WorkContext>,
        spans: &Spans,
        unit: u64,
        edit: impl FnOnce(&mut [u8; UNIT_BYTES], &mut u8),
        durable: bool,
    ) -> impl Future<Output = Result<(), MediaError>> {
        write::edit_bytes(&self.0, context.into(), spans, unit, UNIT_BYTES, edit, durable)
    }

    /// Writes `bytes` at `offset` of a unit. If the drive absorbs parts and the range is whole blocks of 512
    /// bytes, returns once they are in DRAM, after waiting for free space there; otherwise works as
    /// [`Ftl::edit`]. With `durable` it returns when the unit is programmed, which a drive with power-loss
    /// protection need not wait for.
    ///
    /// Charges [`WorkKind::Buffer`], and the transfer of the bytes into the
    /// buffer's DRAM. The cost of merging is paid in the background.
    ///
    /// # Errors
    /// [`MediaError`] if the unit or the range is out of range, or the drive is read-only; and as
    /// [`Ftl::edit`] in that case.
    pub fn write_part(
        &self,
        context: impl Into<WorkContext>,
        spans: &Spans,
        unit: u64,
        offset: usize,
        bytes: &[u8],
        durable: bool,
    ) -> impl Future<Output = Result<(), MediaError>> {
        part::write_part(&self.0, context.into(), spans, unit, offset, bytes, durable)
    }

    /// Maximum units of an exchange: those of a stripe, for which the write buffer always has slots.
    pub fn exchange_units_max(&self) -> u32 {
        exchange::units_max(&self.0)
    }

    /// Waits for exclusive access to `units`, which must be distinct, and for slots to write them.
    ///
    /// Charges a read's translation and a write's admission to the buffer.
    ///
    /// # Errors
    /// [`MediaError`] if a unit is out of range, there are more than [`Ftl::exchange_units_max`], or the
    /// drive is read-only.
    pub fn exchange(
        &self,
        span: SpanId,
        spans: &Spans,
        units: &[u64],
    ) -> impl Future<Output = Result<Exchange<'_>, MediaError>> {
        exchange::exchange(&self.0, span, spans, units)
    }

    /// Waits until everything buffered before the call is programmed; a partial stripe is padded. With
    /// power-loss protection there is nothing to wait for.
    ///
    /// # Errors
    /// [`MediaError::WriteProtected`] at the end of life, if flash has no space for the buffer.
    pub fn flush(&self, span: SpanId, spans: &Spans) -> impl Future<Output = Result<(), MediaError>> {
        write::flush(&self.0, span, spans)
    }

    /// Deallocates `count` units from `first`, which then read as zeroes. Their waiting units in the buffer
    /// are dropped.
    ///
    /// Charges [`WorkKind::Translate`] for each translation page of units, or for each visited node of a tree
    /// of extents.
    ///
    /// # Errors
    /// [`MediaError`] if a unit is out of range, or the drive is read-only.
    pub fn trim(
        &self,
        span: SpanId,
        spans: &Spans,
        first: u64,
        count: u64,
    ) -> impl Future<Output = Result<(), MediaError>> {
        trim::trim(&self.0, span, spans, first, count)
    }

    /// Waits until all data that were not valid at the call are erased. `progress` receives the completed
    /// part in percent. One purge at a time: another one would wait for this one's superblocks as well.
    ///
    /// # Errors
    /// [`MediaError::NotErased`] if a superblock cannot be emptied or erased, so that deallocated data may
    /// remain.
    pub fn purge(&self, progress: impl Fn(u32)) -> impl Future<Output = Result<(), MediaError>> {
        purge::purge(&self.0, progress)
    }

    /// Opens a window: every die collects until `blocks` superblocks more are free than its start threshold,
    /// or until there is nothing more to gain. Dies that are in a window already take the greater target. A
    /// drive that was never written to, or is read-only, is left as it is.
    pub fn open_collection_window(&self, blocks: u32) {
        window::open(&self.0, blocks);
    }

    /// Waits until a die starts garbage collection outside a window because few superblocks are free. For one
    /// task; events between calls are not lost.
    pub async fn collection_begun(&self) {
        self.0.signals.collection_begun.notified().await;
    }

    /// State of garbage collection.
    pub fn collection(&self) -> CollectionState {
        window::state(&self.0)
    }
}
