//! What of each block may survive a power cut.
//!
//! A block that was written since it was last durable has a history: what it held then, and every write since, with the
//! moments between which each was under way. What of it is *superseded* can't come back: a write that had ended before
//! another began, of which it is certain that it is on the medium. All else may be what a cut leaves, so a cut's
//! outcome is one of a set; the first read afterwards says which, and from then on it is that one.

use super::Value;
use std::collections::BTreeMap;

/// A moment that has not come.
const NEVER: u64 = u64::MAX;

/// A write of a block, or what it held before the first of them.
#[derive(Clone, Copy, Debug)]
struct Record {
    value: Value,
    /// When it began, and when it ended.
    begin: u64,
    end: u64,
    /// When it was acknowledged: a flush that begins later makes it durable.
    acknowledged: u64,
    durable: bool,
    /// It was left by a cut: the block holds this on the medium, or something else and never this again.
    left: bool,
}

/// The histories of the blocks that have one.
#[derive(Debug, Default)]
pub(super) struct Survivors {
    /// Whatever is acknowledged is durable.
    protected: bool,
    /// By block; of one that isn't here, what it holds is durable, and nothing is under way.
    blocks: BTreeMap<u64, Vec<Record>>,
    /// Histories that have ended, to be used again.
    spare: Vec<Vec<Record>>,
    /// For a moment: blocks that a flush or cut is done with.
    ended: Vec<u64>,
}

/// How certain a write's end makes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Certainty {
    /// It is on the medium.
    Durable,
    /// It has taken effect.
    Acknowledged,
    /// Nobody knows.
    None,
}

impl Survivors {
    pub(super) fn new(protected: bool) -> Self {
        Survivors { protected, ..Survivors::default() }
    }

    /// Blocks of which a cut may leave one of several things.
    pub(super) fn len(&self) -> usize {
        self.blocks.len()
    }

    /// A write of a block begins. `held`: what it holds if it is at rest.
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

    /// It has ended.
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

    /// It has ended, and has had no effect.
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

    /// Everything that was acknowledged before the moment `begin` is durable.
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

    /// At the moment `now` a block was seen to hold what `is_held` recognises, with nothing under way: whatever else
    /// happened to it came before.
    pub(super) fn seen(&mut self, lba: u64, now: u64, is_held: impl Fn(Value) -> bool) {
        let Some(history) = self.blocks.get_mut(&lba) else { return };
        // Of writes of the same thing it is the latest: the earlier ones may be long gone.
        let held = history.iter_mut().filter(|record| is_held(record.value)).max_by_key(|record| record.end);
        let Some(held) = held else { return };
        (held.begin, held.end) = (now, now);
        held.acknowledged = held.acknowledged.min(now);
        held.durable |= held.left || self.protected;
        if prune(history) {
            self.forget(lba);
        }
    }

    /// The power is cut: calls `leave` with each block and what it may hold from now on. Every write has ended.
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

/// Drops what is superseded. True if only one thing is left, and it is durable.
fn prune(history: &mut Vec<Record>) -> bool {
    let last = history.iter().filter(|record| record.durable).map(|record| record.begin).max();
    if let Some(last) = last {
        history.retain(|record| record.end >= last);
    }
    matches!(history.as_slice(), [only] if only.durable)
}
