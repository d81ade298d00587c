//! The key-value store: an index and a value log on the translation layer's units.
//!
//! Values go to a *value log*: segments of log pages, packed as [`Packing`] says. Each segment ends with a record table
//! that lists what was stored and deleted (`log`). The *index* is a memtable and sorted tables in levels, in segments
//! of their own (`table`, `version`). A *manifest* names the live segments (`manifest`). What it names is durable
//! before the manifest is written; what it no longer names is reused only after the manifest is durable. Recovery loads
//! the newest manifest and replays the records that no table covers (`recover`).
//!
//! | file | what |
//! |---|---|
//! | [`key`], `record` | a key; an index entry and its encodings |
//! | [`config`], [`counters`] | parameters and errors; figures |
//! | `packing`, `log` | the placement of a value in its page; an open segment |
//! | `memtable`, `table`, `filter`, `version` | the index |
//! | `index`, `tally` | memtables, tables and snapshots together; sums over all pairs |
//! | `layout`, `segments` | how the range is divided; what each segment is used for, and when it may be reused |
//! | `values` | the value log: two open segments, and the queue of what they write |
//! | `standing` | whether the store can be read and changed, and what waits for upkeep |
//! | `state`, `store` | the parts together; the steps of stores and deletions, without a wait |
//! | `units`, `core` | the range on the drive; what a store is made of |
//! | `read`, `writer` | what reads; the task that writes the value log |
//! | `manifest`, `commit` | a manifest's encoding; how a change becomes durable |
//! | `flush`, `space`, `merge`, `compact`, `collect`, `upkeep` | background work, in one task: flushes, free segments, merges, garbage collection |
//! | `recover` | how non-volatile state is read back |
//! | [`cursor`] | a stable view, in order |
//! | `check` | invariants, for tests |
//!
//! Each part of the state owns its fields, and changes within a call; what waits is above `core`, in functions that know
//! only lower ones: layout, segments, values, index < state < store < core < read, writer < commit < flush, space < compact,
//! collect, recover < upkeep < `Kv`.
//!
//! A key-value pair is stored, made durable, retrieved and deleted, on a small drive:
//!
//! ```
//! use byteway_clock::{Clock, Executor, SpanId, Spans};
//! use byteway_firmware::{Ftl, Placement};
//! use byteway_kv::{Key, Kv, KvConfig, KvError, Origin, StoreMode, UnitExtent};
//!
//! # fn small_drive(clock: &Clock) -> (Placement, Ftl) {
//! #     use byteway_clock::{Delay, Rate};
//! #     use byteway_firmware::{Cycles, FtlConfig, Site};
//! #     use byteway_flash::{Geometry, Timing};
//! #     let site = Site::new(clock, 1, 1_000_000_000, Delay::from_ns(80), Rate::per_second(10_000_000_000));
//! #     let placement = Placement::all_at(&site, Cycles::FREE);
//! #     let geometry = Geometry { channels: 2, ways: 1, planes: 2, blocks: 60, pages: 8, page_bytes: 8192 };
//! #     let config = FtlConfig { user_units: 1400, write_buffer_units: 32, ..FtlConfig::default() };
//! #     let ftl = Ftl::new(clock, placement.clone(), geometry, Timing::default(), config);
//! #     (placement, ftl.expect("such a drive can exist"))
//! # }
//! let executor = Executor::new();
//! let (placement, ftl) = small_drive(executor.clock());
//! let extents = vec![UnitExtent { first: 0, count: 1400 }];
//! let (memtable_bytes, value_bytes_max) = (16 << 10, 16 << 10);
//! let config = KvConfig { extents, segment_units: 16, memtable_bytes, value_bytes_max, ..KvConfig::default() };
//! let kv = Kv::power_on(executor.clock(), placement, ftl, config)?;
//! executor.run(async move {
//!     let (span, spans, key) = (SpanId::NONE, Spans::default(), Key::new(b"user:17").expect("1 to 16 bytes"));
//!     kv.store(span, &spans, key, b"Ada", Origin::Memory, StoreMode::Any).await?;
//!     kv.flush(span, &spans).await?;
//!     let mut value = Vec::new();
//!     kv.retrieve(span, &spans, key, 0, 100, &mut value).await?;
//!     assert_eq!(value, b"Ada");
//!     kv.delete(span, &spans, key).await?;
//!     assert_eq!(kv.exist(span, &spans, key).await, Ok(false));
//!     Ok::<(), KvError>(())
//! })??;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What it does not do: it does not compress, it parses no command, and it gives no order of durability between
//! unflushed key-value pairs of different keys.

mod cache;
mod check;
mod collect;
mod commit;
mod compact;
pub mod config;
mod core;
pub mod counters;
pub mod cursor;
mod filter;
mod flush;
mod index;
pub mod key;
mod layout;
mod log;
mod manifest;
mod memtable;
mod merge;
mod packing;
mod read;
mod record;
mod recover;
mod segments;
mod space;
mod standing;
mod state;
mod store;
mod table;
mod tally;
mod units;
mod upkeep;
mod values;
mod varint;
mod version;
mod writer;

pub use config::{Defect, KvConfig, KvConfigError, KvError, Origin, Packing, StoreMode, Stored, UnitExtent};
pub use counters::{KvCounters, KvUsage};
pub use cursor::Cursor;
pub use key::{KEY_BYTES_MAX, Key};

use crate::core::Core;
use byteway_clock::{Clock, SpanId, Spans};
use byteway_content::UNIT_BYTES;
use byteway_firmware::{Ftl, Placement};
use layout::Layout;
use read::{find, read_value};
use standing::Refusal;
use std::rc::Rc;
use store::Source;
use units::Units;
use values::HOST;

/// A key-value store. Cheap to clone.
#[derive(Clone)]
pub struct Kv(Rc<Core>);

impl KvConfig {
    /// Checks that a store can be made with these parameters.
    ///
    /// # Errors
    /// [`KvConfigError`] if a parameter is out of range, or the extents are too small or too large.
    pub fn check(&self) -> Result<(), KvConfigError> {
        Layout::new(self).map(drop)
    }
}

impl Kv {
    /// Opens the store that its units hold. Recovery runs in a task of its own; every operation waits for it.
    /// # Errors
    /// Same as [`KvConfig::check`].
    pub fn power_on(
        clock: &Clock,
        placement: Placement,
        ftl: Ftl,
        config: KvConfig,
    ) -> Result<Kv, KvConfigError> {
        let layout = Rc::new(Layout::new(&config)?);
        let units = Units::new(ftl, &layout);
        let core = Rc::new(Core::new(clock, placement, units, layout, config));
        let tasks = vec![
            clock.spawn("value log", writer::run(core.clone())),
            clock.spawn("kv upkeep", upkeep::run(core.clone())),
        ];
        core.tasks.replace(tasks);
        Ok(Kv(core))
    }

    /// Waits until recovery has ended, successfully or not, or the store is stopped.
    pub async fn ready(&self) {
        self.0.ready().await;
    }

    /// Stores a key-value pair. It is durable on return with power-loss protection, otherwise after the next
    /// [`Kv::flush`].
    ///
    /// Charges [`WorkKind::Index`](byteway_firmware::WorkKind::Index),
    /// [`WorkKind::Pack`](byteway_firmware::WorkKind::Pack), DRAM for the bytes that the processor copies, and the wait
    /// for free space.
    ///
    /// # Errors
    /// [`KvError::ValueTooLong`], [`KvError::CapacityExceeded`], or [`KvError::Exists`] and [`KvError::NotFound`] as
    /// `mode` demands.
    pub async fn store(
        &self,
        span: SpanId,
        spans: &Spans,
        key: Key,
        value: &[u8],
        origin: Origin,
        mode: StoreMode,
    ) -> Result<(), KvError> {
        if value.len() > self.0.config.value_bytes_max as usize {
            return Err(KvError::ValueTooLong);
        }
        self.store_told(span, spans, key, value, origin, mode).await.map(drop)
    }

    /// Like [`Kv::store`]. Returns the position of the value, for a host that places values itself.
    ///
    /// # Errors
    /// Same as [`Kv::store`].
    pub async fn store_told(
        &self,
        span: SpanId,
        spans: &Spans,
        key: Key,
        value: &[u8],
        origin: Origin,
        mode: StoreMode,
    ) -> Result<Stored, KvError> {
        if value.len() > self.0.config.value_bytes_max as usize {
            return Err(KvError::ValueTooLong);
        }
        self.store_from(span, spans, key, Source::Bytes(value), origin, mode).await
    }

    async fn store_from(
        &self,
        span: SpanId,
        spans: &Spans,
        key: Key,
        source: Source<'_>,
        origin: Origin,
        mode: StoreMode,
    ) -> Result<Stored, KvError> {
        self.ready().await;
        let core = &*self.0;
        let mut looks = mode != StoreMode::Any;
        let (copied, told) = loop {
            let found = if looks { Some(find(core, span, spans, &key).await?) } else { None };
            match (mode, &found) {
                (StoreMode::MustExist, Some(found)) if !found.exists() => return Err(KvError::NotFound),
                (StoreMode::MustNotExist, Some(found)) if found.exists() => return Err(KvError::Exists),
                _ => {}
            }
            let stored = core.step(|state| {
                let copied = state.store(&core.config, &key, source, origin, found.as_ref())?;
                Ok((copied, state.values.host().stored(source.bytes())))
            });
            match stored {
                Ok(stored) => break stored,
                Err(Refusal::Look) => looks = true,
                Err(refusal) => core.wait_for(span, spans, refusal).await?,
            }
        };
        core.charge_index(span, spans).await;
        if copied > 0 {
            core.charge_copy(span, spans, copied).await;
        }
        Ok(told)
    }

    /// Appends to `into` at most `bytes_max` bytes of the value, starting at `offset`. Returns the length of the whole
    /// value in bytes.
    ///
    /// # Errors
    /// [`KvError::NotFound`] if the key does not exist, [`KvError::Media`] if flash can't be read.
    pub async fn retrieve(
        &self,
        span: SpanId,
        spans: &Spans,
        key: Key,
        offset: u32,
        bytes_max: u32,
        into: &mut Vec<u8>,
    ) -> Result<u32, KvError> {
        self.ready().await;
        let core = &*self.0;
        core.charge_index(span, spans).await;
        // Pin before the look-up: a pin protects only segments that were taken before it, so a later pin would not
        // protect the segment that the look-up finds.
        let _pin = core.pin();
        let found = find(core, span, spans, &key).await?;
        let entry = found.entry.filter(|entry| !entry.is_tombstone()).ok_or(KvError::NotFound)?;
        read_value(core, span, spans, &entry, offset, bytes_max, into).await?;
        Ok(entry.bytes())
    }

    /// Whether the key exists.
    ///
    /// # Errors
    /// [`KvError::Media`] if flash can't be read.
    pub async fn exist(&self, span: SpanId, spans: &Spans, key: Key) -> Result<bool, KvError> {
        self.ready().await;
        self.0.charge_index(span, spans).await;
        Ok(find(&self.0, span, spans, &key).await?.exists())
    }

    /// Deletes a key. The deletion becomes durable like a [`Kv::store`].
    ///
    /// # Errors
    /// [`KvError::NotFound`] if the key does not exist.
    pub async fn delete(&self, span: SpanId, spans: &Spans, key: Key) -> Result<(), KvError> {
        self.ready().await;
        let core = &*self.0;
        core.charge_index(span, spans).await;
        loop {
            let found = find(core, span, spans, &key).await?;
            if !found.exists() {
                return Err(KvError::NotFound);
            }
            match core.step(|state| state.delete(&core.config, &key, &found)) {
                Ok(()) => return Ok(()),
                Err(refusal) => core.wait_for(span, spans, refusal).await?,
            }
        }
    }

    /// Appends to `into` the keys from `from` on, in order, as many as fit into `bytes_max`: each takes 2 bytes for its
    /// length plus its bytes, rounded up to a multiple of 4.
    ///
    /// # Errors
    /// [`KvError::Media`] if flash can't be read.
    pub async fn list(
        &self,
        span: SpanId,
        spans: &Spans,
        from: Key,
        bytes_max: usize,
        into: &mut Vec<Key>,
    ) -> Result<(), KvError> {
        self.ready().await;
        self.0.charge_index(span, spans).await;
        let mut cursor = Cursor::new(self.0.clone(), from, false);
        let mut left = bytes_max;
        while left >= 4 {
            let Some((key, _)) = cursor.next_entry(span, spans).await? else { break };
            let Some(rest) = left.checked_sub((2 + key.len()).next_multiple_of(4)) else { break };
            left = rest;
            into.push(key);
        }
        Ok(())
    }

    /// A snapshot of the key-value pairs, from `from` on or from the first key. It is taken now, or at its first use if
    /// recovery has not ended. While the cursor exists, no segment that was in use when it was made becomes free, so a
    /// store may run out of space.
    pub fn seek(&self, from: Option<Key>) -> Cursor {
        Cursor::new(self.0.clone(), from.unwrap_or(Key::FIRST), true)
    }

    /// Waits until everything acknowledged is durable. With power-loss protection it already is.
    ///
    /// # Errors
    /// [`KvError::Media`] if flash can't be written.
    pub async fn flush(&self, span: SpanId, spans: &Spans) -> Result<(), KvError> {
        self.ready().await;
        let core = &*self.0;
        if core.config.plp {
            return core.state.borrow().standing.check();
        }
        writer::flush_logs(core, span, spans).await
    }

    /// Deletes all key-value pairs, durably. A concurrent operation takes effect either before or after.
    ///
    /// # Errors
    /// [`KvError::Media`] if flash cannot be written. All pairs then remain, unless the store [is no longer
    /// known](Kv::is_known).
    pub async fn format(&self) -> Result<(), KvError> {
        self.ready().await;
        let core = &*self.0;
        let (wanted, done) = core.formats.get();
        core.formats.set((wanted + 1, done));
        core.upkeep.notify_one();
        while core.formats.get().1 <= wanted {
            if core.state.borrow().standing.is_stopped() {
                return Err(KvError::Stopped);
            }
            core.changed.notified().await;
        }
        core.state.borrow().standing.check()
    }

    /// Whether the contents are known. They are not if recovery failed, or if flash failed while a manifest that
    /// decides them was being written.
    pub fn is_known(&self) -> bool {
        self.0.state.borrow().standing.check_known().is_ok()
    }

    /// Writes what capacitors save. Call it when the power fails, before the translation layer saves its own state.
    pub fn save(&self) {
        let core = &*self.0;
        if !core.config.plp || !core.is_ready.get() || core.config.defect.has(Defect::ForgetSave) {
            return;
        }
        let mut state = core.state.borrow_mut();
        state.values.flush();
        state.values.queue().writes().for_each(|write| core.units.save(write));
    }

    /// Ends the store's tasks. Operations then fail with [`KvError::Stopped`].
    pub fn stop(&self) {
        for task in self.0.tasks.take() {
            self.0.clock.kill(task);
        }
        self.0.state.borrow_mut().standing.stop();
        self.0.readied.notify_all();
        self.0.changed.notify_all();
    }

    /// The clock that the store runs by.
    pub fn clock(&self) -> &Clock {
        &self.0.clock
    }

    /// Capacity and space in use.
    pub fn usage(&self) -> KvUsage {
        self.0.state.borrow().usage()
    }

    /// Counters since power-on.
    pub fn counters(&self) -> KvCounters {
        self.0.state.borrow().counters
    }
}

/// The page buffer as device memory (BandSlim, 4).
impl Kv {
    /// Size of the page buffer, which is a ring, in bytes.
    pub fn buffer_bytes(&self) -> u32 {
        self.0.config.buffer_pages * self.0.layout.page_bytes()
    }

    /// The host stores bytes into the page buffer at `offset`. Bytes beyond its end, or over a value that is already
    /// there, are dropped.
    pub fn buffer_store(&self, offset: u32, bytes: &[u8]) {
        self.0.open_log();
        self.0.state.borrow_mut().values.store(offset, bytes);
    }

    /// The host loads bytes from the page buffer at `offset`: zeroes beyond its end and where nothing was stored.
    pub fn buffer_load(&self, offset: u32, bytes: &mut [u8]) {
        self.0.state.borrow().values.host().load(offset, bytes);
    }

    /// The write pointer, as an offset in the page buffer.
    pub fn write_pointer(&self) -> u32 {
        self.0.open_log();
        let state = self.0.state.borrow();
        state.values.host().ring_offset(state.values.host().pointer())
    }

    /// Size of a log page, in bytes.
    pub fn page_bytes(&self) -> u32 {
        self.0.layout.page_bytes()
    }

    /// Alignment of values in the page buffer, in bytes.
    pub fn value_align(&self) -> u32 {
        if self.0.config.packing == Packing::None { UNIT_BYTES as u32 } else { 1 }
    }

    /// The write pointer and limit that a host which places values needs now.
    pub fn told(&self) -> Stored {
        self.0.open_log();
        self.0.state.borrow().values.host().stored(0)
    }

    /// Waits until the host may place a value of a page's length; returns the pointer and limit then. `gives_up`: first
    /// give up the gaps before values that came by DMA, so that no value lies after the write pointer.
    ///
    /// # Errors
    /// [`KvError::CapacityExceeded`] if there is no free segment, [`KvError::Media`] if flash can't be written.
    pub async fn make_place(&self, span: SpanId, spans: &Spans, gives_up: bool) -> Result<Stored, KvError> {
        self.ready().await;
        let core = &*self.0;
        if gives_up {
            core.step(|state| {
                if !state.standing.is_formatting() {
                    state.values.give_up();
                }
            });
        }
        // A new segment accepts a page; if it doesn't, no segment ever will.
        let mut is_new = false;
        loop {
            let made = core.step(|state| {
                state.standing.accepts()?;
                if state.values.queue().len() >= core.config.queue_max() {
                    return Err(Refusal::Wait);
                }
                if !is_new && !state.values.host().takes_page() {
                    state.next_segment(HOST)?;
                }
                Ok(())
            });
            match made {
                Ok(()) if is_new || core.state.borrow().values.host().takes_page() => return Ok(self.told()),
                Ok(()) => is_new = true,
                Err(refusal) => core.wait_for(span, spans, refusal).await?,
            }
        }
    }

    /// Stores a key-value pair whose value is already in the page buffer, at `offset`. `crc` is its CRC-32C, if the
    /// host sent it. Values in one page may be stored in any order; the first value in a later page gives up the gaps
    /// left in this one.
    ///
    /// # Errors
    /// Same as [`Kv::store`]; and [`KvError::Misplaced`] if the value overlaps another, crosses a page's end, lies past the
    /// limit that the host was given, or has another checksum.
    #[allow(clippy::too_many_arguments, reason = "a command")]
    pub async fn store_placed(
        &self,
        span: SpanId,
        spans: &Spans,
        key: Key,
        offset: u32,
        bytes: u32,
        crc: Option<u32>,
        mode: StoreMode,
    ) -> Result<Stored, KvError> {
        if bytes > self.0.config.value_bytes_max {
            return Err(KvError::ValueTooLong);
        }
        if bytes > self.buffer_bytes().min(self.0.layout.part_bytes()) {
            return Err(KvError::Misplaced);
        }
        let source = Source::Placed { ring: offset, bytes, crc };
        self.store_from(span, spans, key, source, Origin::Cxl, mode).await
    }
}
