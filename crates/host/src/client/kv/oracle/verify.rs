//! Verification of reads: a value, the existence of a key, a list.

use super::value::is_pattern;
use super::{Held, KvMismatch, KvOracle, KvRead, KvWrite, NEVER, Record, replaced_at};
use byteway_wire::nvme::kv::Key;
use std::collections::BTreeSet;
use std::ops::Bound;

impl KvOracle {
    /// Verifies a retrieve: a value of `length` bytes in all, of which `bytes` start at `offset`. Call it before the
    /// read ends.
    ///
    /// # Errors
    /// [`KvMismatch`] if the value is not allowed.
    pub fn verify_value(
        &mut self,
        read: KvRead,
        key: Key,
        length: u32,
        offset: u32,
        bytes: &[u8],
    ) -> Result<(), Box<KvMismatch>> {
        self.verify_pair(read.window(), key, length, offset, bytes)
    }

    /// Like [`KvOracle::verify_value`], in a period: [`KvRead::window`] or [`KvRead::view`].
    ///
    /// # Errors
    /// [`KvMismatch`] if the value is not allowed.
    pub fn verify_pair(
        &mut self,
        (from, until): (u64, u64),
        key: Key,
        length: u32,
        offset: u32,
        bytes: &[u8],
    ) -> Result<(), Box<KvMismatch>> {
        let tag = self.tag;
        let is_found = |held: Held| match held {
            Held::Value { version, bytes: all } => {
                all == length && is_pattern(key, version, tag, offset, bytes)
            }
            Held::Nothing => false,
        };
        match self.known(&key).0 {
            Some(held) if is_found(held) => {}
            _ => match self.find(key, from, until, |record| is_found(record.held)) {
                Some(held) => self.pin(key, from, held),
                None => {
                    let begin = bytes.escape_ascii().to_string();
                    let begin = begin.get(..64).unwrap_or(&begin);
                    let mut found =
                        format!("{length} bytes, of which those from {offset} on begin with {begin}");
                    let mut versions = (1..=self.version).rev();
                    if let Some(version) =
                        versions.find(|version| is_pattern(key, *version, tag, offset, bytes))
                    {
                        found += &format!(", as version {version} does");
                    }
                    return Err(self.mismatch(key, found));
                }
            },
        }
        self.verified += 1;
        Ok(())
    }

    /// Verifies that a key was found or not. `own` is the operation in flight that observed it; its own effect is ignored.
    /// Call it before the read ends.
    ///
    /// # Errors
    /// [`KvMismatch`] if the answer is not allowed.
    pub fn verify_key(
        &mut self,
        read: KvRead,
        key: Key,
        is_there: bool,
        own: Option<&KvWrite>,
    ) -> Result<(), Box<KvMismatch>> {
        let from = read.begin;
        let own = own.map_or(NEVER, |own| own.begin);
        let is_found = |record: &Record| record.begin != own && (record.held != Held::Nothing) == is_there;
        match self.known(&key).0 {
            Some(_) if is_there => {}
            Some(_) => return Err(self.mismatch(key, "it was not found".into())),
            None => match self.find(key, from, NEVER, is_found) {
                // Of several values it is unknown which one exists.
                Some(Held::Nothing) => self.pin(key, from, Held::Nothing),
                Some(_) => {}
                None if !is_there && self.known(&key).1.is_empty() => {}
                None => {
                    let found = if is_there { "it was found" } else { "it was not found" };
                    return Err(self.mismatch(key, found.into()));
                }
            },
        }
        self.verified += 1;
        Ok(())
    }

    /// Verifies keys that were listed from `first` on, in order, in a period; `is_whole`: there are no more. Call it
    /// before the read ends.
    ///
    /// # Errors
    /// [`KvMismatch`] if they are out of order, one of them is not allowed, or one is missing.
    pub fn verify_list(
        &mut self,
        (from, until): (u64, u64),
        first: Option<Key>,
        keys: &[Key],
        is_whole: bool,
    ) -> Result<(), Box<KvMismatch>> {
        let mut after = match first {
            Some(first) => Bound::Included(first),
            None => Bound::Unbounded,
        };
        for key in keys {
            let is_behind = match after {
                Bound::Included(first) => *key >= first,
                Bound::Excluded(last) => *key > last,
                Bound::Unbounded => true,
            };
            if !is_behind {
                return Err(self.mismatch(*key, "it is listed where it has no place".into()));
            }
            self.verify_gap((from, until), after, Bound::Excluded(*key))?;
            let is_value = |record: &Record| record.held != Held::Nothing;
            if self.known(key).0.is_none() && self.find(*key, from, until, is_value).is_none() {
                return Err(self.mismatch(*key, "it is listed".into()));
            }
            self.verified += 1;
            after = Bound::Excluded(*key);
        }
        match is_whole {
            true => self.verify_gap((from, until), after, Bound::Unbounded),
            false => Ok(()),
        }
    }

    /// Verifies that no key between two others had to be listed.
    fn verify_gap(
        &mut self,
        (from, until): (u64, u64),
        after: Bound<Key>,
        before: Bound<Key>,
    ) -> Result<(), Box<KvMismatch>> {
        if self.ordered.is_none() {
            self.ordered = Some(self.keys.keys().copied().collect::<BTreeSet<_>>());
        }
        if let (Bound::Excluded(after), Bound::Excluded(before)) = (after, before)
            && after >= before
        {
            return Ok(());
        }
        let mut missing = None;
        for key in self.ordered.iter().flat_map(|ordered| ordered.range((after, before))) {
            let history = self.known(key).1;
            let may = |record: &Record| {
                record.held == Held::Nothing
                    && record.submitted < until
                    && replaced_at(history, record) >= from
            };
            if !history.iter().any(may) {
                missing = Some(*key);
                break;
            }
        }
        match missing {
            Some(key) => Err(self.mismatch(key, "it is missing from the list".into())),
            None => Ok(()),
        }
    }

    /// The record that matches `is_found` and that a reader in a period may find in a key's history.
    fn find(&self, key: Key, from: u64, until: u64, is_found: impl Fn(&Record) -> bool) -> Option<Held> {
        let history = self.known(&key).1;
        let may = |record: &&Record| {
            is_found(record) && record.submitted < until && replaced_at(history, record) >= from
        };
        history.iter().rev().find(may).map(|record| record.held)
    }

    /// Notes that a reader that began at `from` has found this. If all operations of the key had ended before, it is
    /// the key's contents.
    fn pin(&mut self, key: Key, from: u64, held: Held) {
        let now = self.next_moment();
        let protected = self.cuts != Some(false);
        let Some(index) = self.history_of(&key) else { return };
        let history = &mut self.histories[index as usize].records;
        let is_decided = history.iter().filter(|record| replaced_at_is_never(history, record)).count() < 2;
        if is_decided || history.iter().any(|record| record.end >= from) {
            return;
        }
        // What was replaced before is not what was found, though it may hold the same: a key can be deleted twice, with a store in
        // between. Of several deletes it is unknown which one was found, and one of them may not be on the media.
        let may = |record: &Record| record.held == held && replaced_at(history, record) >= from;
        // Those that are stay as they are: what they replaced on the media is gone.
        let is_kept = |record: &Record| record.is_durable || record.is_left;
        let in_doubt = history.iter().rposition(|record| may(record) && !is_kept(record));
        let Some(found) = in_doubt.or_else(|| history.iter().rposition(may)) else { return };
        let found = &mut history[found];
        (found.begin, found.end, found.is_certain) = (now, now, true);
        found.is_durable |= found.is_left || protected;
        if !found.is_durable {
            self.unflushed.insert(key);
        }
        self.prune(index);
    }

    fn mismatch(&self, key: Key, found: String) -> Box<KvMismatch> {
        let expected = match self.known(&key) {
            (Some(held), _) => vec![held],
            (None, []) => vec![Held::Nothing],
            (None, history) => history.iter().map(|record| record.held).collect(),
        };
        Box::new(KvMismatch { key, found, expected })
    }
}

fn replaced_at_is_never(history: &[Record], of: &Record) -> bool {
    replaced_at(history, of) == NEVER
}
