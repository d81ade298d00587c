//! The key-value store: an index and a value log on the translation layer's units.
//!
//! Values go to a *value log*: segments of log pages, packed as [`Packing`] says, each with a table of records at its end
//! that tells what was stored and deleted (`log`). The *index* is a memtable, and sorted tables in levels, in segments of
//! their own (`table`, `version`). A *manifest* names what counts (`manifest`); what it names is durable before it is written,
//! and what it has stopped to name is used again only after it is durable. Recovery is the newest manifest, and a replay of
//! the records that no table reflects (`recover`).
//!
//! | file | what |
//! |---|---|
//! | [`key`], `record` | a key; what is known of a pair, and how it is written |
//! | [`config`], [`counters`] | parameters and errors; figures |
//! | `packing`, `log` | where a value goes in its page; an open segment |
//! | `memtable`, `table`, `filter`, `version` | the index |
//! | `segments` | what each segment is used for, and when one may be used again |
//! | `inner` | its parts, and the steps that all verbs share |
//! | `state` | what is so at a moment, and the steps that change it |
//! | `units` | reading and writing units of the range |
//! | `upkeep`, `merge`, `compact`, `collect` | what goes on behind: one task |
//! | `manifest`, `recover` | what survives |
//! | [`cursor`] | a stable view, in order |
//! | `check` | what must be so, for tests |
//!
//! What it does not do: it compresses nothing, knows no command, and keeps no order between pairs of different keys that
//! were not flushed when the power went.

mod cache;
mod check;
mod collect;
mod compact;
pub mod config;
pub mod counters;
pub mod cursor;
mod filter;
mod inner;
pub mod key;
mod log;
mod manifest;
mod memtable;
mod merge;
mod packing;
mod record;
mod recover;
mod segments;
mod state;
mod table;
mod units;
mod upkeep;
mod varint;
mod version;

pub use config::{
    KvCanary, KvConfig, KvConfigError, KvError, Origin, Packing, StoreMode, Stored, UnitExtent,
};
pub use counters::{KvCounters, KvUsage};
pub use cursor::Cursor;
pub use inner::Kv;
pub use key::{KEY_BYTES_MAX, Key};

use byteway_clock::{Clock, Notify, SpanId, Spans};
use byteway_firmware::{Ftl, Placement};
use byteway_wire::content::UNIT_BYTES;
use inner::Inner;
use segments::Layout;
use state::{HOST, Refusal, Source, State};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use units::Units;

impl KvConfig {
    /// Whether there can be such a store.
    ///
    /// # Errors
    /// If the parameters don't go together.
    pub fn check(&self) -> Result<(), KvConfigError> {
        Layout::new(self).map(drop)
    }
}

impl Kv {
    /// A store over what its units hold. It looks at them in a task of its own: verbs wait until it has.
    ///
    /// # Errors
    /// If the parameters don't go together.
    pub fn power_on(
        clock: &Clock,
        placement: Placement,
        ftl: Ftl,
        config: KvConfig,
    ) -> Result<Kv, KvConfigError> {
        let layout = Rc::new(Layout::new(&config)?);
        let state = RefCell::new(State::new(&config, &layout));
        let inner = Rc::new(Inner {
            clock: clock.clone(),
            placement,
            units: Units::new(ftl, &layout),
            layout,
            config,
            state,
            is_ready: Cell::new(false),
            readied: Notify::new(clock),
            queued: Notify::new(clock),
            upkeep: Notify::new(clock),
            changed: Notify::new(clock),
            formats: Cell::default(),
            tasks: RefCell::default(),
        });
        let tasks = vec![
            clock.spawn("value log", units::run(inner.clone())),
            clock.spawn("kv upkeep", upkeep::run(inner.clone())),
        ];
        inner.tasks.replace(tasks);
        Ok(Kv(inner))
    }

    /// Waits until what flash holds is known, or nobody asks it any more.
    pub async fn ready(&self) {
        while !self.0.is_ready.get() && !self.0.state.borrow().is_stopped {
            self.0.readied.notified().await;
        }
    }

    /// Stores a pair. With power-loss protection it is durable when this returns, else after the next [`Kv::flush`].
    ///
    /// Charges [`Work::Index`](byteway_firmware::Work::Index), [`Work::Pack`](byteway_firmware::Work::Pack) and DRAM for what the processor copies, and waiting for room.
    ///
    /// # Errors
    /// If the value is too long, there is no room, or `mode` forbids it.
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

    /// As [`Kv::store`]; gives what a host is told that places values itself.
    ///
    /// # Errors
    /// As [`Kv::store`].
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
        let inner = &*self.0;
        let mut looks = mode != StoreMode::Any;
        let (copied, told) = loop {
            let found = if looks { Some(inner.find(span, spans, &key).await?) } else { None };
            match (mode, &found) {
                (StoreMode::MustExist, Some(found)) if !found.exists() => return Err(KvError::NotFound),
                (StoreMode::MustNotExist, Some(found)) if found.exists() => return Err(KvError::Exists),
                _ => {}
            }
            let stored = inner.step(|state| {
                let copied = state.store(&inner.config, &key, source, origin, found.as_ref())?;
                Ok((copied, state.logs[HOST].stored(source.bytes())))
            });
            match stored {
                Ok(stored) => break stored,
                Err(Refusal::Look) => looks = true,
                Err(refusal) => inner.wait_for(span, spans, refusal).await?,
            }
        };
        inner.charge_index(span, spans).await;
        if copied > 0 {
            inner.charge_copy(span, spans, copied).await;
        }
        Ok(told)
    }

    /// Appends to `into` at most `bytes_max` bytes of the value from `offset` on; gives the whole value's length.
    ///
    /// # Errors
    /// If there is no such pair, or flash can't give it.
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
        let inner = &*self.0;
        inner.charge_index(span, spans).await;
        // From the instant at which the key is looked for: of segments that were taken later, an older pin keeps none.
        let _pin = inner.pin();
        let found = inner.find(span, spans, &key).await?;
        let entry = found.entry.filter(|entry| !entry.is_tombstone()).ok_or(KvError::NotFound)?;
        inner.read_value(span, spans, &entry, offset, bytes_max, into).await?;
        Ok(entry.bytes())
    }

    /// Whether there is a pair of that key.
    ///
    /// # Errors
    /// If flash can't tell.
    pub async fn exist(&self, span: SpanId, spans: &Spans, key: Key) -> Result<bool, KvError> {
        self.ready().await;
        self.0.charge_index(span, spans).await;
        Ok(self.0.find(span, spans, &key).await?.exists())
    }

    /// Deletes a pair. It is durable as a [`Kv::store`] is.
    ///
    /// # Errors
    /// If there is none.
    pub async fn delete(&self, span: SpanId, spans: &Spans, key: Key) -> Result<(), KvError> {
        self.ready().await;
        let inner = &*self.0;
        inner.charge_index(span, spans).await;
        loop {
            let found = inner.find(span, spans, &key).await?;
            if !found.exists() {
                return Err(KvError::NotFound);
            }
            match inner.step(|state| state.delete(&inner.config, &key, &found)) {
                Ok(()) => return Ok(()),
                Err(refusal) => inner.wait_for(span, spans, refusal).await?,
            }
        }
    }

    /// Appends to `into` the keys from `from` on, in order, as many as `bytes_max` hold: each takes 2 bytes for its length
    /// and its bytes, together a multiple of 4.
    ///
    /// # Errors
    /// If flash can't tell.
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
        let mut cursor = Cursor::new(self.clone(), from, false);
        let mut left = bytes_max;
        while left >= 4 {
            let Some((key, _)) = cursor.next_entry(span, spans).await? else { break };
            let Some(rest) = left.checked_sub((2 + key.len()).next_multiple_of(4)) else { break };
            left = rest;
            into.push(key);
        }
        Ok(())
    }

    /// A view of the pairs as they are now, from `from` on or from the first; as they are when it is first used, if that is
    /// before the store is ready. While it is there, no segment that was in use when it was made is free again: a store may
    /// find no room for that reason.
    pub fn seek(&self, from: Option<Key>) -> Cursor {
        Cursor::new(self.clone(), from.unwrap_or(Key::FIRST), true)
    }

    /// Waits until everything that was acknowledged is durable. With power-loss protection it is.
    ///
    /// # Errors
    /// If flash can't take it.
    pub async fn flush(&self, span: SpanId, spans: &Spans) -> Result<(), KvError> {
        self.ready().await;
        let inner = &*self.0;
        if inner.config.plp {
            return inner.state.borrow().check();
        }
        inner.flush_logs(span, spans).await
    }

    /// Deletes all pairs, durably. Whatever waits meanwhile comes before or after.
    ///
    /// # Errors
    /// If flash can't take it; then all pairs are there as before, unless it [isn't known](Kv::is_known) any more.
    pub async fn format(&self) -> Result<(), KvError> {
        self.ready().await;
        let inner = &*self.0;
        let (wanted, done) = inner.formats.get();
        inner.formats.set((wanted + 1, done));
        inner.upkeep.notify_one();
        while inner.formats.get().1 <= wanted {
            if inner.state.borrow().is_stopped {
                return Err(KvError::Stopped);
            }
            inner.changed.notified().await;
        }
        inner.state.borrow().check()
    }

    /// Whether it is known what there is. Flash may have failed while it took what decides that.
    pub fn is_known(&self) -> bool {
        self.0.state.borrow().check_known().is_ok()
    }

    /// What capacitors save: to be called when the power goes, before the translation layer's.
    pub fn save(&self) {
        let inner = &*self.0;
        if !inner.config.plp || !inner.is_ready.get() || inner.config.canary == Some(KvCanary::ForgetSave) {
            return;
        }
        let mut state = inner.state.borrow_mut();
        let State { logs, queue, .. } = &mut *state;
        logs.iter_mut().for_each(|log| log.flush(queue));
        for write in &queue.writes {
            inner.units.save(write);
        }
    }

    /// Ends its tasks: the drive, or the namespace, is gone.
    pub fn stop(&self) {
        for task in self.0.tasks.take() {
            self.0.clock.kill(task);
        }
        self.0.state.borrow_mut().is_stopped = true;
        self.0.readied.notify_all();
        self.0.changed.notify_all();
    }

    /// The clock that it runs by.
    pub fn clock(&self) -> &Clock {
        &self.0.clock
    }

    /// How much is used.
    pub fn usage(&self) -> KvUsage {
        self.0.state.borrow().usage()
    }

    /// What it has done so far.
    pub fn counters(&self) -> KvCounters {
        self.0.state.borrow().counters
    }
}

/// The page buffer as device memory (BandSlim, 4).
impl Kv {
    /// Bytes of the page buffer: a ring.
    pub fn buffer_bytes(&self) -> u32 {
        self.0.config.buffer_pages * self.0.layout.page_bytes()
    }

    /// The host stores bytes into the page buffer. What lies beyond it, or would fall on a value that is there, is not stored.
    pub fn buffer_store(&self, offset: u32, bytes: &[u8]) {
        self.0.open_log();
        self.0.state.borrow_mut().logs[HOST].store(offset, bytes);
    }

    /// The host loads bytes from the page buffer: zeroes where nothing is, and beyond it.
    pub fn buffer_load(&self, offset: u32, bytes: &mut [u8]) {
        self.0.state.borrow().logs[HOST].load(offset, bytes);
    }

    /// Where in the page buffer the write pointer is.
    pub fn write_pointer(&self) -> u32 {
        self.0.open_log();
        let state = self.0.state.borrow();
        state.logs[HOST].ring_offset(state.logs[HOST].pointer())
    }

    /// Bytes of one of its pages.
    pub fn page_bytes(&self) -> u32 {
        self.0.layout.page_bytes()
    }

    /// What values in it begin at multiples of.
    pub fn value_align(&self) -> u32 {
        if self.0.config.packing == Packing::None { UNIT_BYTES as u32 } else { 1 }
    }

    /// What the host is to be told of the page buffer now.
    pub fn told(&self) -> Stored {
        self.0.open_log();
        self.0.state.borrow().logs[HOST].stored(0)
    }

    /// Waits until a value of a page's length has a place where the host may put it; gives what the host is told then.
    /// `gives_up`: the gaps before values that came by DMA are given up first, so that nothing lies behind the pointer.
    ///
    /// # Errors
    /// If there is no room, or flash can't take what is there.
    pub async fn make_place(&self, span: SpanId, spans: &Spans, gives_up: bool) -> Result<Stored, KvError> {
        self.ready().await;
        let inner = &*self.0;
        if gives_up {
            inner.step(|state| {
                let State { logs, queue, is_formatting, .. } = state;
                if !*is_formatting {
                    logs[HOST].give_up(queue);
                }
            });
        }
        // A new segment has a place, or none ever will.
        let mut is_new = false;
        loop {
            let made = inner.step(|state| {
                state.check().map_err(Refusal::Error)?;
                if state.is_formatting || state.queue.writes.len() >= inner.config.buffer_pages as usize + 2 {
                    return Err(Refusal::Wait);
                }
                if !is_new && !state.logs[HOST].takes_page() {
                    state.next_segment(HOST)?;
                }
                Ok(())
            });
            match made {
                Ok(()) if is_new || inner.state.borrow().logs[HOST].takes_page() => return Ok(self.told()),
                Ok(()) => is_new = true,
                Err(refusal) => inner.wait_for(span, spans, refusal).await?,
            }
        }
    }

    /// Stores a pair whose value is in the page buffer already, at `offset`. `crc` is its CRC-32C, if the host gives it.
    /// Values of one page may come in any order; what they leave out is given up when one comes of a later page.
    ///
    /// # Errors
    /// As [`Kv::store`]; and if the value lies over another, over a page's end or behind what the host was told, or has
    /// another checksum.
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
