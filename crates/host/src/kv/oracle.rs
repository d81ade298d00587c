//! The host's own memory of what a key value namespace must hold.
//!
//! Every store gives its key a new version, and the bytes of a value follow from key and version, so they say which store
//! they are of. The oracle shares nothing with the drive's index.
//!
//! Each key is a register with concurrent operations. A value is *replaced* for readers once an operation of its key that
//! began after its own had ended has succeeded and ended; a retrieve may return whatever had not been replaced when it
//! began. It is replaced on the medium once such an operation is *durable*: it has succeeded, and the drive is protected
//! from power loss, or a Flush that was submitted after its completion has completed. After a power cut each key holds one
//! of the things that had not been replaced on the medium, and always the same once it was read. An operation that failed
//! or was lost may have taken effect before it ended, or not at all; one that was refused for what it found has not.
//!
//! What it verifies: length and every byte of what is retrieved; that a key is found only if it may be there, and missing
//! only if it may be missing; of a List and of an iterator, in addition, order and completeness; and of an iterator that it
//! shows nothing that was stored after it had begun. What it does not: the order among different keys, so it doesn't find
//! a view that is not one moment's.

mod value;
mod verify;

use byteway_wire::nvme::kv::Key;
use rustc_hash::FxHashMap;
use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use value::pattern;
use verify::replaced_at;

/// A moment that has not come.
const NEVER: u64 = u64::MAX;

/// What a key holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// No such key.
    Nothing,
    /// A value.
    Value {
        /// Which store it is of.
        version: u32,
        /// Its length.
        bytes: u32,
    },
}

/// A value, or a key, that must not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KvMismatch {
    /// The key.
    pub key: Key,
    /// What was found, in words.
    pub found: String,
    /// What may be there.
    pub expected: Vec<Held>,
}

impl fmt::Display for KvMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "key {}: {}; there may be {:?}", self.key, self.found, self.expected)
    }
}

impl std::error::Error for KvMismatch {}

/// How a store or delete ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KvOutcome {
    /// It succeeded.
    Done,
    /// It failed or was lost: it may have taken effect or not.
    Uncertain,
    /// It was refused, and has changed nothing.
    Refused,
}

/// A store or delete under way; ends by [`KvOracle::end`].
#[must_use = "an operation that doesn't end leaves its key undecided"]
#[derive(Debug, PartialEq, Eq)]
pub struct KvWrite {
    key: Key,
    held: Held,
    begin: u64,
    history: u32,
}

/// A deletion of all pairs under way; ends by [`KvOracle::end_clear`].
#[must_use = "one that doesn't end leaves all keys undecided"]
#[derive(Debug, PartialEq, Eq)]
pub struct KvClear(Vec<KvWrite>);

/// A retrieve, exist, list or iterator under way; ends by [`KvOracle::end_read`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvRead {
    index: u64,
    begin: u64,
}

impl KvRead {
    /// From when to when it may look: for [`KvOracle::verify_list`].
    pub const fn window(self) -> (u64, u64) {
        (self.begin, NEVER)
    }

    /// The same of a view that was complete at a moment that [`KvOracle::now`] gave.
    pub const fn view(self, until: u64) -> (u64, u64) {
        (self.begin, until)
    }
}

/// A flush under way; ends by [`KvOracle::end_flush`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvFlush(u64);

/// An operation of a key, or what the key held before the first of them.
#[derive(Clone, Copy, Debug)]
struct Record {
    held: Held,
    /// When it was submitted: who looked before cannot have found it.
    submitted: u64,
    /// The same, until it was found to be what has replaced the others: then that moment.
    begin: u64,
    end: u64,
    /// It has taken effect, certainly.
    is_certain: bool,
    /// And that survives a power cut.
    is_durable: bool,
    /// It was left by a cut: the key holds this on the medium, or something else and never this again.
    is_left: bool,
}

/// What is known of a key.
#[derive(Clone, Copy, Debug)]
enum Known {
    /// It holds a value, which is durable if cuts are followed, with nothing under way.
    Settled { version: u32, bytes: u32 },
    /// It has a history: which one.
    Open(u32),
}

/// What a key that is not settled may hold.
#[derive(Debug)]
struct History {
    key: Key,
    /// Empty: it is nobody's.
    records: Vec<Record>,
}

/// What a key value namespace must hold.
pub struct KvOracle {
    tag: u16,
    /// Those of which anything is to be known.
    keys: FxHashMap<Key, Known>,
    histories: Vec<History>,
    /// Histories that are nobody's.
    spare: Vec<u32>,
    /// All keys of either, once a list has asked for their order.
    ordered: Option<BTreeSet<Key>>,
    /// Reads that may be under way, by age: when each began, and whether it still is.
    reads: VecDeque<(u64, bool)>,
    /// Index of the first of them.
    reads_first: u64,
    /// Histories that only a read keeps.
    kept: Vec<Key>,
    /// If power cuts are followed: whether whatever is acknowledged is durable.
    cuts: Option<bool>,
    /// Keys with an operation that has succeeded and is not durable.
    unflushed: BTreeSet<Key>,
    version: u32,
    moment: u64,
    verified: u64,
}

impl KvOracle {
    /// For a namespace that is empty. Values are made with `tag`.
    pub fn new(tag: u16) -> KvOracle {
        KvOracle {
            tag,
            keys: FxHashMap::default(),
            histories: Vec::new(),
            spare: Vec::new(),
            ordered: None,
            reads: VecDeque::new(),
            reads_first: 0,
            kept: Vec::new(),
            cuts: None,
            unflushed: BTreeSet::new(),
            version: 0,
            moment: 0,
            verified: 0,
        }
    }

    /// Follows from now on what a power cut may leave. `protected`: whatever the drive has acknowledged is durable.
    /// To be called before the first operation.
    pub fn with_power_cuts(self, protected: bool) -> KvOracle {
        KvOracle { cuts: Some(protected), ..self }
    }

    /// Keys that hold a value, as far as that is certain, with nothing under way.
    pub fn settled_keys(&self) -> usize {
        self.keys.len() - self.unsettled_keys()
    }

    /// Keys of which it isn't certain what they hold, now or after a cut.
    pub fn unsettled_keys(&self) -> usize {
        self.histories.len() - self.spare.len()
    }

    /// What was read and found right: values, and answers to whether there is a key.
    pub fn verified(&self) -> u64 {
        self.verified
    }

    fn next_moment(&mut self) -> u64 {
        self.moment += 1;
        self.moment
    }

    /// A store of a value of `bytes` is about to be submitted: [`KvOracle::fill`] gives the value.
    ///
    /// # Panics
    /// After 2^32 - 1 stores.
    pub fn begin_store(&mut self, key: Key, bytes: u32) -> KvWrite {
        self.version = self.version.checked_add(1).expect("a run has fewer than 2^32 stores");
        self.begin(key, Held::Value { version: self.version, bytes })
    }

    /// A delete is about to be submitted.
    pub fn begin_delete(&mut self, key: Key) -> KvWrite {
        self.begin(key, Held::Nothing)
    }

    fn begin(&mut self, key: Key, held: Held) -> KvWrite {
        let begin = self.next_moment();
        let KvOracle { keys, histories, spare, .. } = self;
        let mut open = |before: Held| {
            let index = spare.pop().unwrap_or(histories.len() as u32);
            if index as usize == histories.len() {
                histories.push(History { key, records: Vec::new() });
            }
            let history = &mut histories[index as usize];
            history.key = key;
            history.records.push(Record {
                held: before,
                submitted: 0,
                begin: 0,
                end: 0,
                is_certain: true,
                is_durable: true,
                is_left: false,
            });
            index
        };
        let history = match keys.entry(key) {
            Entry::Occupied(mut known) => match *known.get() {
                Known::Open(history) => history,
                Known::Settled { version, bytes } => {
                    let history = open(Held::Value { version, bytes });
                    known.insert(Known::Open(history));
                    history
                }
            },
            Entry::Vacant(new) => {
                let history = open(Held::Nothing);
                new.insert(Known::Open(history));
                history
            }
        };
        self.histories[history as usize].records.push(Record {
            held,
            submitted: begin,
            begin,
            end: NEVER,
            is_certain: false,
            is_durable: false,
            is_left: false,
        });
        if let Some(ordered) = &mut self.ordered {
            ordered.insert(key);
        }
        KvWrite { key, held, begin, history }
    }

    /// The value or the history of a key; neither: nothing was ever there, or is known to be.
    fn known(&self, key: &Key) -> (Option<Held>, &[Record]) {
        match self.keys.get(key) {
            None => (None, &[]),
            Some(Known::Settled { version, bytes }) => {
                (Some(Held::Value { version: *version, bytes: *bytes }), &[])
            }
            Some(Known::Open(history)) => (None, &self.histories[*history as usize].records),
        }
    }

    fn history_of(&self, key: &Key) -> Option<u32> {
        match self.keys.get(key)? {
            Known::Open(history) => Some(*history),
            Known::Settled { .. } => None,
        }
    }

    /// All records that there are.
    fn records_mut(&mut self) -> impl Iterator<Item = &mut Record> {
        self.histories.iter_mut().flat_map(|history| &mut history.records)
    }

    /// The value that a store under way is to store, from its beginning, as far as `into` has room.
    pub fn fill(&self, write: &KvWrite, into: &mut [u8]) {
        if let Held::Value { version, .. } = write.held {
            pattern(write.key, version, self.tag, 0, into);
        }
    }

    /// A store or delete has ended.
    pub fn end(&mut self, write: KvWrite, outcome: KvOutcome) {
        self.end_as(write, outcome, self.cuts != Some(false));
    }

    /// The same; `is_durable`: if it has succeeded, a power cut changes nothing of it.
    fn end_as(&mut self, write: KvWrite, outcome: KvOutcome, is_durable: bool) {
        let end = self.next_moment();
        let Some(History { key, records: history }) = self.histories.get_mut(write.history as usize) else {
            return;
        };
        let own = history.iter().position(|record| record.begin == write.begin && record.end == NEVER);
        let Some(own) = own.filter(|_| *key == write.key) else { return };
        match outcome {
            KvOutcome::Refused => drop(history.remove(own)),
            KvOutcome::Uncertain => history[own].end = end,
            KvOutcome::Done => {
                let record = &mut history[own];
                (record.end, record.is_certain) = (end, true);
                record.is_durable = is_durable;
                if !record.is_durable {
                    self.unflushed.insert(write.key);
                }
            }
        }
        self.prune(write.history);
    }

    fn prune_key(&mut self, key: &Key) {
        if let Some(history) = self.history_of(key) {
            self.prune(history);
        }
    }

    /// Forgets what nobody can find any more in a history.
    fn prune(&mut self, index: u32) {
        let oldest = self.reads.front().map_or(NEVER, |(begin, _)| *begin);
        let History { key, records: history } = &mut self.histories[index as usize];
        let key = *key;
        let durable = history.iter().filter(|record| record.is_durable).map(|record| record.begin).max();
        let durable = durable.unwrap_or(0);
        let mut is_kept = false;
        for index in (0..history.len()).rev() {
            if history[index].end >= durable {
                continue;
            }
            match replaced_at(history, &history[index]) > oldest {
                true => is_kept = true,
                false => drop(history.remove(index)),
            }
        }
        if let [only] = history[..]
            && only.is_durable
        {
            history.clear();
            self.spare.push(index);
            match only.held {
                Held::Value { version, bytes } => {
                    self.keys.insert(key, Known::Settled { version, bytes });
                }
                Held::Nothing => {
                    self.keys.remove(&key);
                    if let Some(ordered) = &mut self.ordered {
                        ordered.remove(&key);
                    }
                }
            }
        } else if is_kept {
            self.kept.push(key);
        }
    }

    /// All pairs are about to be deleted at once, by a format or the like.
    pub fn begin_clear(&mut self) -> KvClear {
        let keys: BTreeSet<Key> = self.keys.keys().copied().collect();
        KvClear(keys.into_iter().map(|key| self.begin_delete(key)).collect())
    }

    /// That has ended. If it has succeeded it is durable.
    pub fn end_clear(&mut self, clear: KvClear, outcome: KvOutcome) {
        clear.0.into_iter().for_each(|write| self.end_as(write, outcome, true));
    }

    /// Bytes of the values that may be there at most, each rounded up to a multiple of `round`.
    pub fn bytes_max(&self, round: u32) -> u64 {
        let rounded = |bytes: u32| u64::from(bytes).next_multiple_of(round.max(1).into());
        let of = |held: Held| match held {
            Held::Value { bytes, .. } => rounded(bytes),
            Held::Nothing => 0,
        };
        let longest = |known: &Known| match known {
            Known::Settled { bytes, .. } => rounded(*bytes),
            Known::Open(history) => {
                let records = &self.histories[*history as usize].records;
                records.iter().map(|record| of(record.held)).max().unwrap_or(0)
            }
        };
        self.keys.values().map(longest).sum()
    }

    /// A retrieve, exist or list is about to be submitted, or an iterator begun.
    pub fn begin_read(&mut self) -> KvRead {
        let begin = self.next_moment();
        self.reads.push_back((begin, true));
        KvRead { index: self.reads_first + self.reads.len() as u64 - 1, begin }
    }

    /// It has ended, verified or not.
    pub fn end_read(&mut self, read: KvRead) {
        let index = read.index.wrapping_sub(self.reads_first);
        if let Some((_, under_way)) = self.reads.get_mut(index as usize) {
            *under_way = false;
        }
        let mut has_ended = false;
        while self.reads.front().is_some_and(|(_, under_way)| !under_way) {
            self.reads.pop_front();
            self.reads_first += 1;
            has_ended = true;
        }
        if has_ended && !self.kept.is_empty() {
            for key in std::mem::take(&mut self.kept) {
                self.prune_key(&key);
            }
        }
    }

    /// A moment that is now, for [`KvRead::view`].
    pub fn now(&mut self) -> u64 {
        self.next_moment()
    }

    /// A Flush is about to be submitted, or an orderly shutdown.
    pub fn begin_flush(&mut self) -> KvFlush {
        KvFlush(self.next_moment())
    }

    /// A Flush has succeeded: everything is durable that had succeeded before it was submitted.
    pub fn end_flush(&mut self, flush: KvFlush) {
        let mut later = BTreeSet::new();
        for key in std::mem::take(&mut self.unflushed) {
            let Some(history) = self.history_of(&key) else { continue };
            let records = self.histories[history as usize].records.iter_mut();
            for record in records.filter(|record| record.is_certain && !record.is_durable) {
                record.is_durable = record.end < flush.0;
                if !record.is_durable {
                    later.insert(key);
                }
            }
            self.prune(history);
        }
        self.unflushed = later;
    }

    /// The host has lost every command under way: operations may have taken effect or not.
    pub fn abandon(&mut self) {
        let now = self.next_moment();
        self.reads_first += self.reads.len() as u64;
        self.reads.clear();
        self.records_mut().filter(|record| record.end == NEVER).for_each(|record| record.end = now);
        for key in std::mem::take(&mut self.kept) {
            self.prune_key(&key);
        }
    }

    /// The power is cut: every command under way is lost, and each key holds one of the things that may survive.
    ///
    /// # Panics
    /// If cuts are not followed ([`KvOracle::with_power_cuts`]).
    pub fn cut_power(&mut self) {
        assert!(self.cuts.is_some(), "an oracle that follows power cuts");
        self.abandon();
        let now = self.next_moment();
        self.unflushed.clear();
        for index in 0..self.histories.len() {
            let history = &mut self.histories[index].records;
            let mut left: Vec<Record> = Vec::new();
            for record in history.drain(..) {
                if !left.iter().any(|other| other.held == record.held) {
                    left.push(Record {
                        submitted: 0,
                        begin: 0,
                        end: now,
                        is_certain: false,
                        is_durable: false,
                        is_left: true,
                        ..record
                    });
                }
            }
            if let [only] = &mut left[..] {
                (only.is_certain, only.is_durable) = (true, true);
            }
            history.append(&mut left);
            if !history.is_empty() {
                self.prune(index as u32);
            }
        }
    }

    /// What is not durable may be gone although the power was not cut: the drive has looked anew what its flash holds, as
    /// that took no deletion of all pairs. Nothing is under way.
    pub fn reopen(&mut self) {
        let now = self.next_moment();
        for record in self.records_mut() {
            record.end = now; // none has replaced another
            record.is_certain &= record.is_durable;
        }
    }

    /// The namespace was formatted, or made anew: it is empty, and nothing is under way.
    pub fn clear(&mut self) {
        self.abandon();
        self.keys.clear();
        self.histories.clear();
        self.spare.clear();
        self.unflushed.clear();
        self.ordered = None;
    }
}
