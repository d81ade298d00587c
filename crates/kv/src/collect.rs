//! Garbage collection of the value log: the live values of a segment move, and the segment is given up.
//!
//! Counts of dead bytes choose the segment; the index decides for each record whether its value is live. A moved value
//! keeps its sequence, and its record settles the previous one, so the sums do not change.

use super::config::{Defect, KvError};
use super::inner::Inner;
use super::key::Key;
use super::log::Head;
use super::record::{Entry, ValueExtent};
use super::segments::ValueSegment;
use super::state::Refusal;
use super::units::bytes_of;
use super::upkeep::Change;
use byteway_clock::{SpanId, Spans};
use byteway_content::UNIT_BYTES;
use byteway_firmware::MediaError;
use byteway_firmware::WorkKind;

/// Approximate bytes of a record in a segment.
const RECORD_BYTES: u32 = 24;

/// Records that are looked up before the first of them moves.
const RECORDS_AT_ONCE: usize = 256;

impl Inner {
    /// The segment with the greatest gain, and the gain in bytes.
    pub(super) fn victim(&self) -> Option<(u32, u32)> {
        let state = self.state.borrow();
        let gain = |info: &ValueSegment| {
            let dead = info.dead_bytes + u64::from(info.dead_records) * u64::from(RECORD_BYTES);
            (dead + u64::from(info.slack)).min(u64::from(self.layout.segment_bytes())) as u32
        };
        let closed = state.segments.values.iter().filter(|(_, info)| !info.is_open);
        let closed = closed.filter(|(segment, _)| !state.spoiled.contains(segment));
        closed.map(|(segment, info)| (*segment, gain(info))).max_by_key(|(segment, gain)| (*gain, !*segment))
    }

    /// Like [`Inner::collect`], but a segment with an unreadable record table is set aside and stays as it is.
    pub(super) async fn collect_if_readable(&self, spans: &Spans, victim: u32) -> Result<(), KvError> {
        match self.collect(spans, victim).await {
            Err(KvError::Media(MediaError::Unreadable)) => {
                self.state.borrow_mut().spoiled.insert(victim);
                Ok(())
            }
            collected => collected,
        }
    }

    /// Moves the live values of a segment, and gives it up.
    async fn collect(&self, spans: &Spans, victim: u32) -> Result<(), KvError> {
        // Its records must be covered by tables first: recovery can't replay them once the segment is gone.
        let is_covered = !self.state.borrow().segments.uncovered.contains(&victim);
        if !is_covered {
            self.state.borrow_mut().rotate();
            while !self.state.borrow().full.is_empty() {
                self.flush_memtable(spans).await?;
            }
        }
        debug_assert!(!self.state.borrow().segments.uncovered.contains(&victim));
        let Some(info) = self.state.borrow().segments.values.get(&victim).copied() else { return Ok(()) };
        debug_assert!(!info.is_open, "an open segment takes values while it is collected");
        let mut found: Vec<(Key, Entry, ValueExtent)> = Vec::new();
        for index in 0..info.table_units {
            self.look_up(spans, victim, &info, index, &mut found).await?;
            if found.len() >= RECORDS_AT_ONCE || index + 1 == info.table_units {
                self.move_values(spans, &mut found).await?;
            }
        }
        debug_assert!(found.is_empty(), "a live value stays in a segment that is given up");
        // Drain pending writes before the segment is reused: a write of it that is still queued would overwrite the
        // next contents.
        self.drain().await?;
        let change = Change { given_up: vec![victim], with_logs: true, ..Change::default() };
        self.commit(spans, change).await?;
        self.state.borrow_mut().counters.collections += 1;
        self.release(spans).await?;
        Ok(())
    }

    /// Collects the records of one unit of the record table that are still current in the index.
    async fn look_up(
        &self,
        spans: &Spans,
        victim: u32,
        info: &ValueSegment,
        index: u32,
        found: &mut Vec<(Key, Entry, ValueExtent)>,
    ) -> Result<(), KvError> {
        let mut contents = Vec::new();
        let unit = self.layout.segment_units - 1 - index;
        self.log_units(SpanId::NONE, spans, victim, unit, 1, &mut contents).await?;
        let bytes = contents.first().map(bytes_of).ok_or(KvError::Media(MediaError::Unreadable))?;
        let head = Head::open(&bytes, self.config.uid).filter(|(head, _)| head.generation == info.generation);
        // A record that can't be read may be of a live value. Giving up the segment would lose it.
        let (_, records) = head.ok_or(KvError::Media(MediaError::Unreadable))?;
        for (key, record) in records {
            let Some(place) = record.extents().iter().find(|place| place.segment == victim) else { continue };
            let now = self.find(SpanId::NONE, spans, &key).await?;
            let Some(entry) = now.entry.filter(|entry| entry.sequence == record.sequence) else { continue };
            if entry.extents().contains(place) {
                found.push((key, entry, *place));
            }
        }
        Ok(())
    }

    /// Moves values to the log for moved values, and empties `found`.
    async fn move_values(
        &self,
        spans: &Spans,
        found: &mut Vec<(Key, Entry, ValueExtent)>,
    ) -> Result<(), KvError> {
        let looks = !self.config.defect.has(Defect::MoveBlindly);
        let mut bytes = Vec::new();
        for (key, entry, place) in found.drain(..) {
            bytes.clear();
            let part = Entry { value: super::record::Value::One(place), ..entry.clone() };
            let read = self.read_value(SpanId::NONE, spans, &part, 0, place.bytes, &mut bytes).await;
            if let Err(KvError::Media(MediaError::Unreadable)) = read {
                // The value is lost. Zeroes move with the old checksum, so reads at the new position fail in the same
                // way.
                bytes.clear();
                bytes.resize(place.bytes as usize, 0);
            } else {
                read?;
            }
            let units = u64::from(place.bytes).div_ceil(UNIT_BYTES as u64).max(1);
            self.placement.run(WorkKind::Collect, units).await;
            loop {
                // The look-up and the read above have waited: `move_value` checks again that the entry is current.
                let moved = self.step(|state| {
                    if state.queue.writes.len() > self.config.buffer_pages as usize + 2 {
                        return Err(Refusal::Wait);
                    }
                    state.move_value(&key, &entry, &place, &bytes, looks)
                });
                match moved {
                    Ok(_) => break,
                    Err(Refusal::Error(error)) => return Err(error),
                    Err(_) if self.state.borrow().segments.pool.is_empty() => {
                        self.state.borrow_mut().wants.pool = true;
                        if !self.refill(spans).await? {
                            return Err(KvError::CapacityExceeded);
                        }
                    }
                    Err(_) => {
                        self.state.borrow().check()?;
                        self.changed.notified().await;
                    }
                }
            }
        }
        Ok(())
    }
}
