//! The upkeep task: it flushes memtables, merges tables, collects segments and writes manifests. One task does all of
//! it, so no two changes of the tables interleave.

use super::config::Defect;
use super::config::KvError;
use super::inner::Inner;
use super::key::Key;
use super::manifest::{self, Snapshot};
use super::memtable::Memtable;
use super::segments::{Tally, Use};
use super::state::State;
use super::table::{Builder, Slice};
use super::version::Version;
use byteway_clock::{SpanId, Spans};
use byteway_content::Content;
use byteway_firmware::MediaError;
use byteway_firmware::WorkKind;
use std::cell::RefCell;
use std::rc::Rc;

/// Units of a table that are written in one request.
const WRITE_UNITS: usize = 16;

/// Flushes stop, and only merges proceed, when this many times `l0_runs` runs wait to be merged.
const RUNS_BEHIND: usize = 4;

/// Recovers the store, then does background work until the store is stopped.
pub(super) async fn run(inner: Rc<Inner>) {
    let spans = Spans::default();
    if let Err(error) = inner.recover(&spans).await {
        inner.state.borrow_mut().is_lost = true;
        inner.fail_with(error);
    } else if let Err(error) = inner.commit(&spans, Change::default()).await {
        inner.fail_with(error);
    }
    inner.is_ready.set(true);
    inner.readied.notify_all();
    loop {
        match inner.do_next(&spans).await {
            Ok(true) => {}
            Ok(false) => inner.upkeep.notified().await,
            Err(KvError::CapacityExceeded) => {
                inner.report_no_space();
                inner.upkeep.notified().await;
            }
            Err(error) => inner.fail_with(error),
        }
    }
}

/// A change of the set of tables and segments in the manifest.
#[derive(Default)]
pub(super) struct Change {
    /// The new set of tables.
    pub(super) version: Option<Version>,
    /// Segments that the manifest no longer contains.
    pub(super) given_up: Vec<u32>,
    /// Added to the sums.
    pub(super) tally: Tally,
    /// The oldest full memtable is flushed by this change.
    pub(super) is_flush: bool,
    /// Queued values and records must be durable first.
    pub(super) with_logs: bool,
    /// All contents are deleted, and a new mount begins.
    pub(super) is_format: bool,
}

impl Inner {
    fn fail_with(&self, error: KvError) {
        match error {
            KvError::Media(error) => self.fail(error),
            _ => self.fail(MediaError::Unreadable),
        }
    }

    /// Reports to all waiting operations that no space can be gained, until a reader ends or something changes.
    fn report_no_space(&self) {
        let mut state = self.state.borrow_mut();
        (state.wants.space, state.wants.pool) = (false, false);
        state.exhausted_at = Some(state.next_sequence);
        drop(state);
        self.changed.notify_all();
    }

    /// Does the most urgent work. False if there is none.
    async fn do_next(&self, spans: &Spans) -> Result<bool, KvError> {
        let (wanted, done) = self.formats.get();
        if wanted > done {
            let formatted = self.do_format(spans).await;
            self.state.borrow_mut().is_formatting = false;
            // Further formats may have been requested meanwhile.
            self.formats.set((self.formats.get().0, wanted));
            self.changed.notify_all();
            return formatted.map(|()| true);
        }
        if self.state.borrow().failed.is_some() {
            return Ok(false);
        }
        if self.release(spans).await? {
            return Ok(true);
        }
        // Without this limit a host that is faster than merges would pile up runs: each takes segments, and every
        // look-up searches each.
        let is_exhausted = self.state.borrow().is_exhausted();
        let waiting = self.state.borrow().version.waiting.len();
        if waiting > RUNS_BEHIND * self.config.l0_runs as usize && !is_exhausted {
            return self.compact_if_due(spans).await;
        }
        if !self.state.borrow().full.is_empty() {
            self.flush_memtable(spans).await?;
            return Ok(true);
        }
        if self.refill(spans).await? {
            return Ok(true);
        }
        if !is_exhausted && self.compact_if_due(spans).await? {
            return Ok(true);
        }
        if self.is_space_low() {
            return self.reclaim(spans).await;
        }
        self.answer_space_requests();
        if self.state.borrow().wants.sums {
            return self.merge_all(spans).await;
        }
        Ok(false)
    }

    /// Frees the given-up segments that no reader uses any more.
    pub(super) async fn release(&self, spans: &Spans) -> Result<bool, KvError> {
        let mut any = false;
        loop {
            let Some(segment) = self.state.borrow_mut().segments.unread() else { break };
            self.units.trim(spans, self.layout.first(segment), u64::from(self.layout.segment_units)).await?;
            self.state.borrow_mut().segments.release(segment);
            any = true;
        }
        if any {
            self.state.borrow_mut().exhausted_at = None;
            self.changed.notify_all();
        }
        Ok(any)
    }

    /// Moves free segments into the pool of the value log, if they are wanted and available.
    pub(super) async fn refill(&self, spans: &Spans) -> Result<bool, KvError> {
        let is_wanted = {
            let mut state = self.state.borrow_mut();
            let is_wanted = std::mem::take(&mut state.wants.pool);
            let has_free = state.segments.free() as usize > state.segments.pool.len();
            if is_wanted && !has_free {
                state.wants.space = true;
            }
            is_wanted && has_free
        };
        if is_wanted {
            self.commit(spans, Change::default()).await?;
        }
        Ok(is_wanted)
    }

    /// Whether space must be reclaimed before it runs out.
    fn is_space_low(&self) -> bool {
        let state = self.state.borrow();
        let segments = &state.segments;
        let low = self.layout.reserve + (self.layout.segments / 64).max(2);
        let blocked = segments.freeing();
        segments.free() <= low
            && !state.is_exhausted()
            && (blocked <= self.layout.reserve / 2 || segments.free() > self.layout.reserve / 2)
    }

    /// Makes operations that wait for space try again. If none was gained, they fail.
    fn answer_space_requests(&self) {
        let mut state = self.state.borrow_mut();
        // If readers hold space back, the end of a reader wakes this task again.
        if state.wants.space && !state.is_read() {
            state.wants.space = false;
            if state.segments.free() <= self.layout.reserve {
                state.exhausted_at = Some(state.next_sequence);
            }
            drop(state);
            self.changed.notify_all();
        }
    }

    /// Frees a segment, or merges tables to learn which segments hold dead values.
    async fn reclaim(&self, spans: &Spans) -> Result<bool, KvError> {
        let segment_bytes = self.layout.segment_bytes();
        let victim = self.victim();
        if let Some((segment, gain)) = victim
            && gain >= segment_bytes / 4
        {
            self.collect_if_readable(spans, segment).await?;
            return Ok(true);
        }
        if self.merge_all(spans).await? {
            return Ok(true);
        }
        match victim {
            Some((segment, gain)) if gain >= segment_bytes / 24 => {
                self.collect_if_readable(spans, segment).await?
            }
            _ => {
                let mut state = self.state.borrow_mut();
                state.exhausted_at = Some(state.next_sequence);
                drop(state);
                self.changed.notify_all();
            }
        }
        Ok(true)
    }

    /// Flushes the oldest full memtable to tables.
    pub(super) async fn flush_memtable(&self, spans: &Spans) -> Result<(), KvError> {
        let Some(memtable) = self.state.borrow().full.front().cloned() else { return Ok(()) };
        let count = memtable.borrow().len() as u64;
        self.placement.run(WorkKind::Compact, count).await;
        let (mut run, mut builder) = (Vec::new(), None);
        if let Err(error) = self.build_run(spans, &memtable, &mut run, &mut builder).await {
            self.abandon(run.iter().map(|slice| slice.table.segment).chain(builder.map(|it| it.segment())));
            return Err(error);
        }
        let (version, tally) = {
            let state = self.state.borrow();
            let mut version = (*state.version).clone();
            if !run.is_empty() {
                version.waiting.insert(0, run);
            }
            (version, memtable.borrow().tally)
        };
        let change =
            Change { version: Some(version), tally, is_flush: true, with_logs: true, ..Change::default() };
        self.commit(spans, change).await?;
        self.state.borrow_mut().counters.memtables_flushed += 1;
        Ok(())
    }

    /// Writes a memtable's entries as tables. If this fails, `open` is the table that is incomplete.
    async fn build_run(
        &self,
        spans: &Spans,
        memtable: &RefCell<Memtable>,
        run: &mut Vec<Slice>,
        open: &mut Option<Builder>,
    ) -> Result<(), KvError> {
        let mut from = Some(Key::FIRST);
        while let Some(begin) = from {
            let builder = open.insert(self.builder()?);
            from = None;
            // One batch at a time: a full memtable does not change, but no borrow may be held while units are written.
            let mut next = Some(begin);
            while let Some(at) = next.take() {
                for (key, entry) in memtable.borrow().from(&at) {
                    if !builder.add(key, entry) {
                        from = Some(*key);
                        break;
                    }
                    if builder.waiting() >= WRITE_UNITS {
                        next = key.next();
                        break;
                    }
                }
                self.write_units(spans, builder, false).await?;
            }
            if let Some(builder) = open.take() {
                run.extend(self.end_table(spans, builder, false).await?);
            }
        }
        Ok(())
    }

    /// Frees the segments of tables that no manifest will name.
    pub(super) fn abandon(&self, segments: impl Iterator<Item = u32>) {
        let mut state = self.state.borrow_mut();
        segments.for_each(|segment| state.segments.give_back(segment));
    }

    /// Starts a table, in a segment of its own.
    pub(super) fn builder(&self) -> Result<Builder, KvError> {
        let mut state = self.state.borrow_mut();
        let segment = state.segments.take().ok_or(KvError::CapacityExceeded)?;
        let number = state.next_table;
        state.next_table += 1;
        let config = &self.config;
        Ok(Builder::new(number, segment, self.layout.segment_units, config.filter_bits_per_key, config.seed))
    }

    /// Writes the full units of a table.
    pub(super) async fn write_units(
        &self,
        spans: &Spans,
        builder: &mut Builder,
        is_merge: bool,
    ) -> Result<(), KvError> {
        if builder.waiting() == 0 {
            return Ok(());
        }
        let mut contents: Vec<Content> = self.take_contents();
        let at = builder.take(&mut contents);
        let count = contents.len() as u64;
        let first = self.layout.first(builder.segment()) + u64::from(at);
        let written = self.units.write(spans, first, &mut contents).await;
        self.give_contents(contents);
        written?;
        let counters = &mut self.state.borrow_mut().counters;
        match is_merge {
            true => counters.index_units_compacted += count,
            false => counters.index_units_flushed += count,
        }
        Ok(())
    }

    /// Ends a table. `None` if it has no entries.
    pub(super) async fn end_table(
        &self,
        spans: &Spans,
        mut builder: Builder,
        is_merge: bool,
    ) -> Result<Option<Slice>, KvError> {
        let left = self.config.filter_bytes.saturating_sub(self.state.borrow().filter_bytes);
        let Some(table) = builder.finish(left) else {
            self.state.borrow_mut().segments.give_back(builder.segment());
            return Ok(None);
        };
        self.write_units(spans, &mut builder, is_merge).await?;
        let mut state = self.state.borrow_mut();
        state.filter_bytes += table.filter.as_ref().map_or(0, |filter| filter.bytes());
        let from = table.first;
        Ok(Some(Slice { table: Rc::new(table), from }))
    }

    /// Writes a manifest with a change. Returns when it is durable; the change becomes visible then.
    pub(super) async fn commit(&self, spans: &Spans, change: Change) -> Result<(), KvError> {
        let Change { version, given_up, tally, is_flush, with_logs, is_format } = change;
        // The records that a flush covers are never replayed, so their values must be durable with it.
        debug_assert!(!is_flush || with_logs);
        if self.config.defect.has(Defect::ReuseEarly) {
            let mut state = self.state.borrow_mut();
            given_up.iter().for_each(|segment| {
                state.segments.values.remove(segment);
                state.segments.uncovered.remove(segment);
                state.segments.give_back(*segment);
            });
        }
        // With power-loss protection, capacitors write what the logs hold in DRAM.
        if with_logs && !self.config.plp {
            self.flush_logs(SpanId::NONE, spans).await?;
        } else if version.is_some() {
            self.units.ftl().flush(SpanId::NONE, spans).await?;
        }
        let (bytes, slot, added) = {
            let mut guard = self.state.borrow_mut();
            let state = &mut *guard;
            if is_flush {
                debug_assert!(!state.full.is_empty(), "a flush has a memtable");
                state.cover();
            }
            let pool: Vec<u32> =
                if is_format { Vec::new() } else { state.segments.pool.iter().copied().collect() };
            let wanted = self.layout.pool.min(state.segments.free().saturating_sub(2)).max(2);
            let added = state.segments.for_pool(wanted.saturating_sub(pool.len() as u32));
            state.manifest += 1;
            let mut sums = if is_format { Tally::default() } else { state.tally };
            sums.add(tally);
            let snapshot = Snapshot {
                uid: self.config.uid,
                mount: state.mount + u32::from(is_format),
                version: version.as_ref().unwrap_or(&state.version),
                tally: sums,
                is_exact: state.is_exact || is_format,
                given_up: &given_up,
                pool: [pool, added.clone()].concat(),
            };
            (manifest::encode(state, snapshot), (state.manifest % 2) as u32, added)
        };
        self.write_manifest(spans, slot, &bytes).await?;
        // Nothing below waits: readers see the old tables with the old segments, or the new with the new.
        let mut guard = self.state.borrow_mut();
        let state = &mut *guard;
        if is_format {
            state.reset();
        }
        state.segments.pool.extend(added);
        if let Some(version) = version {
            state.publish(version);
        }
        state.tally.add(tally);
        if is_flush {
            state.full.pop_front();
            state.flushes += 1;
        }
        if !self.config.defect.has(Defect::ReuseEarly) {
            given_up.iter().for_each(|segment| state.segments.give_up(*segment));
        }
        state.segments.next_epoch();
        drop(guard);
        self.changed.notify_all();
        Ok(())
    }

    async fn write_manifest(&self, spans: &Spans, slot: u32, bytes: &[u8]) -> Result<(), KvError> {
        // A longer manifest would overwrite the other slot, which is the valid one until this one is durable.
        assert!(bytes.len() <= self.layout.manifest_units as usize * byteway_content::UNIT_BYTES);
        let mut next = u64::from(slot * self.layout.manifest_units);
        let mut contents = self.take_contents();
        for part in bytes.chunks(WRITE_UNITS * byteway_content::UNIT_BYTES) {
            contents.extend(manifest::units(part));
            let count = contents.len() as u64;
            self.units.write(spans, next, &mut contents).await?;
            next += count;
            self.state.borrow_mut().counters.manifest_units += count;
        }
        self.give_contents(contents);
        self.state.borrow_mut().counters.manifests += 1;
        Ok(self.units.ftl().flush(SpanId::NONE, spans).await?)
    }

    /// Erases a store whose contents are unknown, even which manifest is the newest. The manifests go last, so that a
    /// power cut never leaves one that names erased tables.
    async fn wipe(&self, spans: &Spans) -> Result<(), KvError> {
        let manifests = 2 * u64::from(self.layout.manifest_units);
        for (first, count) in [(manifests, self.layout.units() - manifests), (0, manifests)] {
            self.units.trim(spans, first, count).await?;
            self.units.ftl().flush(SpanId::NONE, spans).await?;
        }
        Ok(())
    }

    /// Deletes everything: the deletion takes effect when its manifest is durable. On failure the store is unchanged,
    /// readable, and saved by capacitors as before. Without capacitors it is then unknown which manifest will be the
    /// newest after a power cut.
    async fn do_format(&self, spans: &Spans) -> Result<(), KvError> {
        self.state.borrow_mut().is_formatting = true;
        while self.state.borrow().is_writing() {
            self.changed.notified().await;
        }
        if self.units.ftl().health().is_read_only {
            return Err(KvError::Media(MediaError::WriteProtected));
        }
        if self.state.borrow().is_lost {
            self.wipe(spans).await?;
            self.state.borrow_mut().segments.clear();
        }
        let (given_up, manifest) = {
            let state = self.state.borrow();
            let is_used =
                |at: &u32| matches!(state.segments.usage(*at), Some(Use::Pool | Use::Value | Use::Index));
            ((0..self.layout.segments).filter(is_used).collect(), state.manifest)
        };
        let change =
            Change { version: Some(Version::default()), given_up, is_format: true, ..Change::default() };
        self.commit(spans, change).await.inspect_err(|_| {
            let mut state = self.state.borrow_mut();
            state.is_lost |= state.manifest > manifest && !self.config.plp;
        })?;
        self.release(spans).await?;
        self.state.borrow_mut().wants.pool = true;
        Ok(())
    }
}

impl State {
    /// Marks the records of the oldest full memtable as covered: recovery need not replay them.
    fn cover(&mut self) {
        let Some(memtable) = self.full.front().cloned() else { return };
        for (segment, records) in &memtable.borrow().covers {
            let Some(info) = self.segments.values.get_mut(segment) else { continue };
            info.covered = info.covered.max(*records);
            if info.covered == info.records && !info.is_open {
                self.segments.uncovered.remove(segment);
            }
        }
    }

    /// Resets the state to that of an empty store.
    fn reset(&mut self) {
        (self.failed, self.is_lost) = (None, false);
        self.queue.clear();
        self.spoiled.clear();
        self.logs.iter_mut().for_each(super::log::Log::abandon);
        self.memtable = Rc::default();
        self.full.clear();
        (self.tally, self.is_exact, self.exhausted_at) = (Tally::default(), true, None);
        self.mount += 1;
        self.next_generation = 0;
        self.flushes += 1;
        self.segments.pool.clear();
    }

    fn publish(&mut self, mut version: Version) {
        version.tidy();
        self.version = Rc::new(version);
        let filters = self.version.slices().filter_map(|slice| slice.table.filter.as_ref());
        self.filter_bytes = filters.map(|filter| filter.bytes()).sum();
    }

    /// Whether nothing could be reclaimed, and nothing has changed since.
    pub(super) fn is_exhausted(&self) -> bool {
        self.exhausted_at == Some(self.next_sequence)
    }
}
