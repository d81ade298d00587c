//! Survivors: which values of each block may survive a power cut.
//!
//! A block that was written since it was last durable has a history: its contents then, and every write since, with the
//! moments at which each began and ended. *Superseded* values can't come back: those of writes that had ended before
//! another one began that is certainly on the media. A cut may leave any of the others; the first read afterwards
//! decides, and from then on the block has that value.

use super::value::Value;
use std::collections::BTreeMap;

/// A moment that never comes.
const NEVER: u64 = u64::MAX;

/// A write of a block, or its contents before the first of them.
#[derive(Clone, Copy, Debug)]
struct Record {
    value: Value,
    /// Instant of its begin.
    begin: u64,
    end: u64,
    /// Instant of its acknowledgment: a later flush makes it durable.
    acknowledged: u64,
    durable: bool,
    /// Whether a power cut left it in doubt: the media hold it, or hold another value and never this one
    /// again.
    left: bool,
}

/// The histories of blocks that have one.
#[derive(Debug, Default)]
pub(super) struct Survivors {
    /// Acknowledged writes are durable.
    protected: bool,
    /// Records by block. The contents of other blocks are durable, without writes in flight.
    blocks: BTreeMap<u64, Vec<Record>>,
    /// Emptied histories, reused.
    spare: Vec<Vec<Record>>,
    /// Blocks that a flush or cut has settled, temporarily.
    ended: Vec<u64>,
}

/// Certainty of a write that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Certainty {
    /// On the media.
    Durable,
    /// Taken effect.
    Acknowledged,
    /// Unknown.
    None,
}

impl Survivors {
    pub(super) fn new(protected: bool) -> Self {
        Survivors { protected, ..Survivors::default() }
    }

    /// Number of blocks of which a cut may leave one of several values.
    pub(super) fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Notes that a write of a block begins. `held`: the block's value, if it is settled.
    pub(super) fn begin(&mut self, lba: u64, held: Value, value: Value, begin: u64) {
        let spare = &mut self.spare;
        let history = self.blocks.entry(lba).or_insert_with(|| {
            let mut history = spare.pop().unwrap_or_default();
            history.push(Record {
                value: held,
                begin: 0,
                end: 0,
                acknowledged: 0,
                durable: true,
                left: false,
            });
            history
        });
        history.push(Record { value, begin, end: NEVER, acknowledged: NEVER, durable: false, left: false });
    }

    /// Notes that a write has ended.
    pub(super) fn end(&mut self, lba: u64, value: Value, begin: u64, end: u64, certainty: Certainty) {
        let Some(history) = self.blocks.get_mut(&lba) else { return };
        let own =
            |record: &&mut Record| record.value == value && record.begin == begin && record.end == NEVER;
        let Some(record) = history.iter_mut().find(own) else { return };
        record.end = end;
        if certainty != Certainty::None {
            record.acknowledged = end;
            record.durable = self.protected || certainty == Certainty::Durable;
        }
        if record.durable && prune(history) {
            self.forget(lba);
        }
    }

    /// Notes that a write has ended without effect.
    pub(super) fn undo(&mut self, lba: u64, value: Value, begin: u64) {
        let Some(history) = self.blocks.get_mut(&lba) else { return };
        let own = |record: &Record| record.value == value && record.begin == begin && record.end == NEVER;
        if let Some(index) = history.iter().position(own) {
            history.remove(index);
        }
        if prune(history) {
            self.forget(lba);
        }
    }

    /// Makes everything durable that was acknowledged before the moment `begin`.
    pub(super) fn flushed(&mut self, begin: u64) {
        for (lba, history) in &mut self.blocks {
            let mut changed = false;
            for record in history.iter_mut().filter(|record| record.acknowledged < begin) {
                changed |= !record.durable;
                record.durable = true;
            }
            if changed && prune(history) {
                self.ended.push(*lba);
            }
        }
        self.forget_ended();
    }

    /// Notes that at the instant `now` a block had the contents that `is_held` matches, with no write in
    /// flight: every other write to it was earlier.
    pub(super) fn seen(&mut self, lba: u64, now: u64, is_held: impl Fn(Value) -> bool) {
        let Some(history) = self.blocks.get_mut(&lba) else { return };
        // Among writes of the same contents take the latest: earlier ones may have been replaced long ago.
        let held = history.iter_mut().filter(|record| is_held(record.value)).max_by_key(|record| record.end);
        let Some(held) = held else { return };
        (held.begin, held.end) = (now, now);
        held.acknowledged = held.acknowledged.min(now);
        held.durable |= held.left || self.protected;
        if prune(history) {
            self.forget(lba);
        }
    }

    /// Handles a power cut: calls `leave` with each block and its possible values from now on. Every write has ended.
    pub(super) fn cut(&mut self, now: u64, mut leave: impl FnMut(u64, &[Value])) {
        let mut values = Vec::new();
        for (lba, history) in &mut self.blocks {
            values.clear();
            for record in history.iter() {
                if !values.contains(&record.value) {
                    values.push(record.value);
                }
            }
            leave(*lba, &values);
            history.clear();
            if values.len() < 2 {
                self.ended.push(*lba);
                continue;
            }
            history.extend(values.iter().map(|value| Record {
                value: *value,
                begin: 0,
                end: now,
                acknowledged: NEVER,
                durable: false,
                left: true,
            }));
        }
        self.forget_ended();
    }

    fn forget_ended(&mut self) {
        while let Some(lba) = self.ended.pop() {
            self.forget(lba);
        }
    }

    fn forget(&mut self, lba: u64) {
        if let Some(mut history) = self.blocks.remove(&lba) {
            history.clear();
            self.spare.push(history);
        }
    }
}

/// Removes superseded values. `true` if a single durable one is left.
fn prune(history: &mut Vec<Record>) -> bool {
    let last = history.iter().filter(|record| record.durable).map(|record| record.begin).max();
    if let Some(last) = last {
        history.retain(|record| record.end >= last);
    }
    matches!(history.as_slice(), [only] if only.durable)
}
