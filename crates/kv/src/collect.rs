//! Garbage collection of the value log: the live values of a segment move, and the segment is given up.
//!
//! Counts of dead bytes choose the segment; the index decides for each record whether its value is live. A moved value
//! keeps its sequence, and its record settles the previous one, so the sums do not change. A list of the live values of
//! each segment would spare the look-ups, but would have to be kept in DRAM, and right, with every store.

use super::commit::{Change, commit};
use super::config::{Defect, KvError};
use super::core::Core;
use super::flush::flush_memtable;
use super::key::Key;
use super::log::Head;
use super::read::{find, log_units, read_value};
use super::record::{Entry, Value, ValueExtent};
use super::segments::ValueSegment;
use super::space::{refill, release};
use super::standing::Refusal;
use super::units::bytes_of;
use super::writer::drain;
use byteway_clock::{SpanId, Spans};
use byteway_content::UNIT_BYTES;
use byteway_firmware::{MediaError, WorkKind};

/// Records that are looked up before the first of them moves.
const RECORDS_AT_ONCE: usize = 256;

/// Like [`collect`], but a segment with an unreadable record table is set aside and stays as it is.
pub(super) async fn collect_if_readable(core: &Core, spans: &Spans, victim: u32) -> Result<(), KvError> {
    match collect(core, spans, victim).await {
        Err(KvError::Media(MediaError::Unreadable)) => {
            core.state.borrow_mut().segments.spoil(victim);
            Ok(())
        }
        collected => collected,
    }
}

/// Moves the live values of a segment, and gives it up.
async fn collect(core: &Core, spans: &Spans, victim: u32) -> Result<(), KvError> {
    // Its records must be covered by tables first: recovery can't replay them once the segment is gone.
    let is_covered = core.state.borrow().segments.is_covered(victim);
    if !is_covered {
        core.state.borrow_mut().rotate();
        while core.state.borrow().index.full() > 0 {
            flush_memtable(core, spans).await?;
        }
    }
    debug_assert!(core.state.borrow().segments.is_covered(victim));
    let Some(info) = core.state.borrow().segments.value(victim) else { return Ok(()) };
    debug_assert!(!info.is_open, "an open segment takes values while it is collected");
    let mut found: Vec<(Key, Entry, ValueExtent)> = Vec::new();
    for index in 0..info.table_units {
        look_up(core, spans, victim, &info, index, &mut found).await?;
        if found.len() >= RECORDS_AT_ONCE || index + 1 == info.table_units {
            move_values(core, spans, &mut found).await?;
        }
    }
    debug_assert!(found.is_empty(), "a live value stays in a segment that is given up");
    // Drain pending writes before the segment is reused: a write of it that is still queued would overwrite the
    // next contents.
    drain(core).await?;
    let change = Change { given_up: vec![victim], with_logs: true, ..Change::default() };
    commit(core, spans, change).await?;
    core.state.borrow_mut().counters.collections += 1;
    release(core, spans).await?;
    Ok(())
}

/// Collects the records of one unit of the record table that are still current in the index.
async fn look_up(
    core: &Core,
    spans: &Spans,
    victim: u32,
    info: &ValueSegment,
    index: u32,
    found: &mut Vec<(Key, Entry, ValueExtent)>,
) -> Result<(), KvError> {
    let mut contents = Vec::new();
    let unit = core.layout.segment_units - 1 - index;
    log_units(core, SpanId::NONE, spans, victim, unit, 1, &mut contents).await?;
    let bytes = contents.first().map(bytes_of).ok_or(KvError::Media(MediaError::Unreadable))?;
    let head = Head::open(&bytes, core.config.uid).filter(|(head, _)| head.generation == info.generation);
    // A record that can't be read may be of a live value. Giving up the segment would lose it.
    let (_, records) = head.ok_or(KvError::Media(MediaError::Unreadable))?;
    for (key, record) in records {
        let Some(place) = record.extents().iter().find(|place| place.segment == victim) else { continue };
        let now = find(core, SpanId::NONE, spans, &key).await?;
        let Some(entry) = now.entry.filter(|entry| entry.sequence == record.sequence) else { continue };
        if entry.extents().contains(place) {
            found.push((key, entry, *place));
        }
    }
    Ok(())
}

/// Moves values to the log for moved values, and empties `found`.
async fn move_values(
    core: &Core,
    spans: &Spans,
    found: &mut Vec<(Key, Entry, ValueExtent)>,
) -> Result<(), KvError> {
    let looks = !core.config.defect.has(Defect::MoveBlindly);
    let mut bytes = Vec::new();
    for (key, entry, place) in found.drain(..) {
        bytes.clear();
        let part = Entry { value: Value::One(place), ..entry.clone() };
        let read = read_value(core, SpanId::NONE, spans, &part, 0, place.bytes, &mut bytes).await;
        if let Err(KvError::Media(MediaError::Unreadable)) = read {
            // The value is lost. Zeroes move with the old checksum, so reads at the new position fail in the same
            // way.
            bytes.clear();
            bytes.resize(place.bytes as usize, 0);
        } else {
            read?;
        }
        let units = u64::from(place.bytes).div_ceil(UNIT_BYTES as u64).max(1);
        core.placement.run(WorkKind::Collect, units).await;
        loop {
            // The look-up and the read above have waited: `move_value` checks again that the entry is current.
            let moved = core.step(|state| {
                if state.values.queue().len() > core.config.queue_max() {
                    return Err(Refusal::Wait);
                }
                state.move_value(&key, &entry, &place, &bytes, looks)
            });
            match moved {
                Ok(_) => break,
                Err(Refusal::Error(error)) => return Err(error),
                Err(_) if core.state.borrow().segments.pool().len() == 0 => {
                    core.state.borrow_mut().wants.ask_for_pool();
                    if !refill(core, spans).await? {
                        return Err(KvError::CapacityExceeded);
                    }
                }
                Err(_) => {
                    core.state.borrow().standing.check()?;
                    core.changed.notified().await;
                }
            }
        }
    }
    Ok(())
}
