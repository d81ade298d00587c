//! Commits: a change of the tables or of the segments' uses becomes durable with a manifest, and visible then.
//!
//! The order is what recovery rests on. What a manifest names is durable before it; what it no longer names is given up
//! after it; and between the two nothing is visible that a power cut would take back.

use super::config::{Defect, KvError};
use super::core::Core;
use super::manifest::{self, Snapshot};
use super::tally::Tally;
use super::version::Version;
use super::writer::flush_logs;
use byteway_clock::{SpanId, Spans};
use byteway_content::UNIT_BYTES;

/// Units of a manifest that are written in one request.
const WRITE_UNITS: usize = 16;

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

/// Writes a manifest with a change. Returns when it is durable; the change becomes visible then.
pub(super) async fn commit(core: &Core, spans: &Spans, change: Change) -> Result<(), KvError> {
    let Change { version, given_up, tally, is_flush, with_logs, is_format } = change;
    // The records that a flush covers are never replayed, so their values must be durable with it.
    debug_assert!(!is_flush || with_logs);
    if core.config.defect.has(Defect::ReuseEarly) {
        let mut state = core.state.borrow_mut();
        given_up.iter().for_each(|segment| state.segments.give_back(*segment));
    }
    // With power-loss protection, capacitors write what the logs hold in DRAM.
    if with_logs && !core.config.plp {
        flush_logs(core, SpanId::NONE, spans).await?;
    } else if version.is_some() {
        core.units.ftl().flush(SpanId::NONE, spans).await?;
    }
    let (bytes, slot, added) = {
        let mut guard = core.state.borrow_mut();
        let state = &mut *guard;
        if is_flush && let Some(memtable) = state.index.oldest() {
            state.segments.cover(memtable.borrow().covers());
        }
        let pool: Vec<u32> = if is_format { Vec::new() } else { state.segments.pool().collect() };
        let wanted = core.layout.pool.min(state.segments.free().saturating_sub(2)).max(2);
        let added = state.segments.for_pool(wanted.saturating_sub(pool.len() as u32));
        let (number, slot) = state.slots.next();
        let mut numbers = state.index.numbers();
        if is_format {
            (numbers.tally, numbers.is_exact) = (Tally::default(), true);
        }
        numbers.tally += tally;
        let snapshot = Snapshot {
            uid: core.config.uid,
            number,
            mount: state.values.mount() + u32::from(is_format),
            numbers,
            version: version.as_ref().unwrap_or(state.index.version()),
            segments: &state.segments,
            given_up: &given_up,
            pool: [pool, added.clone()].concat(),
        };
        (manifest::encode(snapshot), slot, added)
    };
    write_manifest(core, spans, slot, &bytes).await?;
    // Nothing below waits: readers see the old tables with the old segments, or the new with the new.
    let mut guard = core.state.borrow_mut();
    let state = &mut *guard;
    if is_format {
        state.begin_anew();
    }
    state.segments.extend_pool(added);
    if let Some(version) = version {
        state.index.publish(version);
    }
    state.index.add_to_tables(tally);
    if is_flush {
        state.index.end_flush();
    }
    if !core.config.defect.has(Defect::ReuseEarly) {
        given_up.iter().for_each(|segment| state.segments.give_up(*segment));
    }
    state.segments.next_epoch();
    drop(guard);
    core.changed.notify_all();
    Ok(())
}

async fn write_manifest(core: &Core, spans: &Spans, slot: u32, bytes: &[u8]) -> Result<(), KvError> {
    // A longer manifest would overwrite the other slot, which is the valid one until this one is durable.
    assert!(bytes.len() <= core.layout.manifest_units as usize * UNIT_BYTES);
    let mut next = u64::from(slot * core.layout.manifest_units);
    let mut contents = core.take_contents();
    for part in bytes.chunks(WRITE_UNITS * UNIT_BYTES) {
        contents.extend(manifest::units(part));
        let count = contents.len() as u64;
        core.units.write(spans, next, &mut contents).await?;
        next += count;
        core.state.borrow_mut().counters.manifest_units += count;
    }
    core.give_contents(contents);
    core.state.borrow_mut().counters.manifests += 1;
    Ok(core.units.ftl().flush(SpanId::NONE, spans).await?)
}
