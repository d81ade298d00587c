//! Collection of the value log: what is live of a segment moves, and the segment is given up.
//!
//! Which segment is worth it tells what is known to be dead; what is really live tells the index, for each record. A
//! moved value keeps its sequence, and its record settles the one before, so for the sums nothing has happened.

use super::config::{KvCanary, KvError};
use super::inner::Inner;
use super::key::Key;
use super::log::Head;
use super::record::{Entry, Place};
use super::segments::ValueSegment;
use super::state::Refusal;
use super::units::bytes_of;
use super::upkeep::Change;
use byteway_clock::{SpanId, Spans};
use byteway_firmware::MediaError;
use byteway_firmware::Work;
use byteway_wire::content::UNIT_BYTES;

/// What a record takes of a segment, about.
const RECORD_BYTES: u32 = 24;

/// Records that are looked up before the first of them moves.
const RECORDS_AT_ONCE: usize = 256;

impl Inner {
    /// The segment whose collection gains most, and how many bytes.
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

    /// The same, but a segment of which flash does not give all that is to be known stays as it is.
    pub(super) async fn collect_if_readable(&self, spans: &Spans, victim: u32) -> Result<(), KvError> {
        match self.collect(spans, victim).await {
            Err(KvError::Media(MediaError::Unreadable)) => {
                self.state.borrow_mut().spoiled.insert(victim);
                Ok(())
            }
            collected => collected,
        }
    }

    /// Moves what is live of a segment, and gives it up.
    async fn collect(&self, spans: &Spans, victim: u32) -> Result<(), KvError> {
        // Its records must be in tables: they are not replayed from where they will be gone.
        let is_covered = !self.state.borrow().segments.uncovered.contains(&victim);
        if !is_covered {
            self.state.borrow_mut().rotate();
            while !self.state.borrow().full.is_empty() {
                self.flush_memtable(spans).await?;
            }
        }
        let Some(info) = self.state.borrow().segments.values.get(&victim).copied() else { return Ok(()) };
        let mut found: Vec<(Key, Entry, Place)> = Vec::new();
        for index in 0..info.table_units {
            self.look_up(spans, victim, &info, index, &mut found).await?;
            if found.len() >= RECORDS_AT_ONCE || index + 1 == info.table_units {
                self.move_values(spans, &mut found).await?;
            }
        }
        // What is still to be written of it would fall on who has the segment next.
        self.drain().await?;
        let change = Change { given_up: vec![victim], with_logs: true, ..Change::default() };
        self.commit(spans, change).await?;
        self.state.borrow_mut().counters.collections += 1;
        self.release(spans).await?;
        Ok(())
    }

    /// Which records of a unit of the record table say what the index says, too.
    async fn look_up(
        &self,
        spans: &Spans,
        victim: u32,
        info: &ValueSegment,
        index: u32,
        found: &mut Vec<(Key, Entry, Place)>,
    ) -> Result<(), KvError> {
        let mut contents = Vec::new();
        let unit = self.layout.segment_units - 1 - index;
        self.log_units(SpanId::NONE, spans, victim, unit, 1, &mut contents).await?;
        let bytes = contents.first().map(bytes_of).ok_or(KvError::Media(MediaError::Unreadable))?;
        let head = Head::open(&bytes, self.config.uid).filter(|(head, _)| head.generation == info.generation);
        // What is not there could be live: to give the segment up would lose it.
        let (_, records) = head.ok_or(KvError::Media(MediaError::Unreadable))?;
        for (key, record) in records {
            let Some(place) = record.places().iter().find(|place| place.segment == victim) else { continue };
            let now = self.find(SpanId::NONE, spans, &key).await?;
            let Some(entry) = now.entry.filter(|entry| entry.sequence == record.sequence) else { continue };
            if entry.places().contains(place) {
                found.push((key, entry, *place));
            }
        }
        Ok(())
    }

    async fn move_values(&self, spans: &Spans, found: &mut Vec<(Key, Entry, Place)>) -> Result<(), KvError> {
        let looks = !self.is_broken(KvCanary::MoveBlindly);
        let mut bytes = Vec::new();
        for (key, entry, place) in found.drain(..) {
            bytes.clear();
            let part = Entry { value: super::record::Value::One(place), ..entry.clone() };
            let read = self.read_value(SpanId::NONE, spans, &part, 0, place.bytes, &mut bytes).await;
            if let Err(KvError::Media(MediaError::Unreadable)) = read {
                // It can't be read; nor can it be from where it goes to: its checksum says so.
                bytes.clear();
                bytes.resize(place.bytes as usize, 0);
            } else {
                read?;
            }
            let units = u64::from(place.bytes).div_ceil(UNIT_BYTES as u64).max(1);
            self.placement.run(Work::Collect, units).await;
            loop {
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
