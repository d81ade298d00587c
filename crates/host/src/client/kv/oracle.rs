//! The KV oracle: the host's own record of the expected contents of a KV namespace.
//!
//! Every store gives its key a new version, and the bytes of a value are derived from key and version, so they identify
//! their store. The oracle shares nothing with the drive's index.
//!
//! Each key is a register with concurrent operations. A value is *replaced* for readers once an operation of its key
//! that began after the value's store had ended has succeeded and ended; a retrieve may return whatever had not been
//! replaced when it began. A value is replaced on the media once such an operation is *durable*: it has succeeded, and
//! either the drive has power-loss protection, or a Flush submitted after its completion has completed. After a power
//! cut each key holds one of the things that had not been replaced on the media, and always the same one after it was
//! read. An operation that failed or was lost may have taken effect before it ended, or not at all; one that was
//! refused by its precondition has not.
//!
//! It verifies length and every byte of retrieved values; that a key is found only if it may exist, and missing only if
//! it may be missing; for lists and iterators also order and completeness; and for iterators that no later store
//! appears. It does not verify the order among different keys, so it does not detect a view that mixes several moments.

mod value;
mod verify;

use byteway_wire::nvme::kv::Key;
use rustc_hash::FxHashMap;
use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use value::pattern;

/// A moment that never comes.
const NEVER: u64 = u64::MAX;

/// The contents of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// The key does not exist.
    Nothing,
    /// A value.
    Value {
        /// Version: the store that it comes from.
        version: u32,
        /// Length in bytes.
        bytes: u32,
    },
}

/// A value or a key that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KvMismatch {
    /// The key.
    pub key: Key,
    /// Description of the data found.
    pub found: String,
    /// Allowed contents.
    pub expected: Vec<Held>,
}

impl fmt::Display for KvMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "key {}: {}; there may be {:?}", self.key, self.found, self.expected)
    }
}

impl std::error::Error for KvMismatch {}

/// Outcome of a store or delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KvOutcome {
    /// Success.
    Done,
    /// Failed or lost; may have taken effect.
    Uncertain,
    /// Refused, without effect.
    Refused,
}

/// A store or delete in flight; ends by [`KvOracle::end`].
#[must_use = "an operation that doesn't end leaves its key undecided"]
#[derive(Debug, PartialEq, Eq)]
pub struct KvWrite {
    key: Key,
    held: Held,
    begin: u64,
    history: u32,
}

/// A deletion of all key-value pairs in flight; ends by [`KvOracle::end_clear`].
#[must_use = "one that doesn't end leaves all keys undecided"]
#[derive(Debug, PartialEq, Eq)]
pub struct KvClear(Vec<KvWrite>);

/// A retrieve, exist, list or iterator in flight; ends by [`KvOracle::end_read`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvRead {
    index: u64,
    begin: u64,
}

impl KvRead {
    /// The period in which it may observe the namespace, for [`KvOracle::verify_list`].
    pub const fn window(self) -> (u64, u64) {
        (self.begin, NEVER)
    }

    /// The same for a snapshot that was complete at `until`, from [`KvOracle::now`].
    pub const fn view(self, until: u64) -> (u64, u64) {
        (self.begin, until)
    }
}

/// A flush in flight; ends by [`KvOracle::end_flush`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvFlush(u64);

/// An operation of a key, or the key's contents before the first of them.
#[derive(Clone, Copy, Debug)]
struct Record {
    held: Held,
    /// Instant of submission: earlier readers cannot have seen it.
    submitted: u64,
    /// Like `submitted`, until a reader proves that it has replaced the others: then that instant.
    begin: u64,
    end: u64,
    /// Whether it has certainly taken effect.
    is_certain: bool,
    /// Whether it survives a power cut.
    is_durable: bool,
    /// Whether a power cut left it in doubt: the media hold it, or hold another value and never this one
    /// again.
    is_left: bool,
}

/// State of a key.
#[derive(Clone, Copy, Debug)]
enum Known {
    /// The key holds this value, durably if power cuts are tracked, with no operation in flight.
    Settled { version: u32, bytes: u32 },
    /// The key has a history, with this index.
    Open(u32),
}

/// The possible contents of an unsettled key.
#[derive(Debug)]
struct History {
    key: Key,
    /// Empty: the history is unused.
    records: Vec<Record>,
}

/// The expected contents of a KV namespace.
pub struct KvOracle {
    tag: u16,
    /// Keys of which something is known.
    keys: FxHashMap<Key, Known>,
    histories: Vec<History>,
    /// Unused histories.
    spare: Vec<u32>,
    /// All keys, once a list has needed their order.
    ordered: Option<BTreeSet<Key>>,
    /// Reads that may be in flight, by age: when each began, and whether it is in flight.
    reads: VecDeque<(u64, bool)>,
    /// Index of the first of them.
    reads_first: u64,
    /// Histories that only a read in flight keeps.
    kept: Vec<Key>,
    /// If power cuts are followed: whether acknowledged operations are durable.
    cuts: Option<bool>,
    /// Keys with an operation that has succeeded and is not durable.
    unflushed: BTreeSet<Key>,
    version: u32,
    moment: u64,
    verified: u64,
}

impl KvOracle {
    /// An oracle for an empty namespace. `tag` is part of the generated values.
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

    /// Follows what power cuts may leave, from now on. `protected`: acknowledged operations are durable. Call it before
    /// the first operation.
    pub fn with_power_cuts(self, protected: bool) -> KvOracle {
        KvOracle { cuts: Some(protected), ..self }
    }

    /// Number of keys that certainly hold a value, with no operation in flight.
    pub fn settled_keys(&self) -> usize {
        self.keys.len() - self.unsettled_keys()
    }

    /// Number of keys whose contents are uncertain, now or after a cut.
    pub fn unsettled_keys(&self) -> usize {
        self.histories.len() - self.spare.len()
    }

    /// Number of verified reads: values, and answers whether a key exists.
    pub fn verified(&self) -> u64 {
        self.verified
    }

    fn next_moment(&mut self) -> u64 {
        self.moment += 1;
        self.moment
    }

    /// Notes that a store of a value of `bytes` is about to be submitted: [`KvOracle::fill`] generates the value.
    ///
    /// # Panics
    /// After 2^32 - 1 stores.
    pub fn begin_store(&mut self, key: Key, bytes: u32) -> KvWrite {
        self.version = self.version.checked_add(1).expect("a run has fewer than 2^32 stores");
        self.begin(key, Held::Value { version: self.version, bytes })
    }

    /// Notes that a delete is about to be submitted.
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

    /// The value or the history of a key; neither if the key is not known to have existed.
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

    /// All records.
    fn records_mut(&mut self) -> impl Iterator<Item = &mut Record> {
        self.histories.iter_mut().flat_map(|history| &mut history.records)
    }

    /// Generates the value of a store in flight, from its beginning, as far as it fits into `into`.
    pub fn fill(&self, write: &KvWrite, into: &mut [u8]) {
        if let Held::Value { version, .. } = write.held {
            pattern(write.key, version, self.tag, 0, into);
        }
    }

    /// Ends a store or delete.
    pub fn end(&mut self, write: KvWrite, outcome: KvOutcome) {
        self.end_as(write, outcome, self.cuts != Some(false));
    }

    /// Like [`KvOracle::end`]; `is_durable`: if it has succeeded, it survives a power cut.
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

    /// Removes records from a history that no reader can see any more.
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

    /// Starts a deletion of all key-value pairs, by a format or the like.
    pub fn begin_clear(&mut self) -> KvClear {
        let keys: BTreeSet<Key> = self.keys.keys().copied().collect();
        KvClear(keys.into_iter().map(|key| self.begin_delete(key)).collect())
    }

    /// Ends a deletion of all key-value pairs. A successful one is durable.
    pub fn end_clear(&mut self, clear: KvClear, outcome: KvOutcome) {
        clear.0.into_iter().for_each(|write| self.end_as(write, outcome, true));
    }

    /// Upper bound of the bytes of all values, each rounded up to a multiple of `round`.
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

    /// Notes that a retrieve, exist or list is about to be submitted, or an iterator created.
    pub fn begin_read(&mut self) -> KvRead {
        let begin = self.next_moment();
        self.reads.push_back((begin, true));
        KvRead { index: self.reads_first + self.reads.len() as u64 - 1, begin }
    }

    /// Ends a read, verified or not.
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

    /// The current moment, for [`KvRead::view`].
    pub fn now(&mut self) -> u64 {
        self.next_moment()
    }

    /// Notes that a Flush is about to be submitted, or an orderly shutdown.
    pub fn begin_flush(&mut self) -> KvFlush {
        KvFlush(self.next_moment())
    }

    /// Notes that a Flush has succeeded: everything that had succeeded before its submission is durable.
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

    /// Notes that every command in flight is lost: operations may have taken effect.
    pub fn abandon(&mut self) {
        let now = self.next_moment();
        self.reads_first += self.reads.len() as u64;
        self.reads.clear();
        self.records_mut().filter(|record| record.end == NEVER).for_each(|record| record.end = now);
        for key in std::mem::take(&mut self.kept) {
            self.prune_key(&key);
        }
    }

    /// Notes a power cut: every command in flight is lost, and each key holds one of the things that may survive.
    ///
    /// # Panics
    /// If power cuts are not followed ([`KvOracle::with_power_cuts`]).
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

    /// Marks state that is not durable as possibly lost without a power cut: the drive has recovered its
    /// contents again, because a deletion of all key-value pairs failed. No operation is in flight.
    pub fn reopen(&mut self) {
        let now = self.next_moment();
        for record in self.records_mut() {
            record.end = now; // none has replaced another yet
            record.is_certain &= record.is_durable;
        }
    }

    /// Notes that the namespace was formatted, or created again: it is empty, with no operation in flight.
    pub fn clear(&mut self) {
        self.abandon();
        self.keys.clear();
        self.histories.clear();
        self.spare.clear();
        self.unflushed.clear();
        self.ordered = None;
    }
}

/// Instant at which a record was replaced for readers: the end of an operation that began after it and has
/// certainly taken effect.
fn replaced_at(history: &[Record], of: &Record) -> u64 {
    let after = history.iter().filter(|other| other.is_certain && other.begin > of.end);
    after.map(|other| other.end).min().unwrap_or(NEVER)
}
