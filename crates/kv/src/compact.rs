//! Compaction: level-0 runs merge into level 1, and tables that a level has too many of merge into the next.
//!
//! A merge proceeds in key order. Where space is short it commits piece by piece: of the input tables, only keys after
//! those merged count from then on (`Slice::from`), and tables that are merged completely are given up. Elsewhere it
//! commits once, at its end: each commit writes a whole manifest, and waits for a flush.

use super::commit::{Change, commit};
use super::config::KvError;
use super::core::Core;
use super::flush::{abandon, builder, end_table, flush_memtable, write_units};
use super::key::Key;
use super::merge::{RunReader, smallest};
use super::record::Entry;
use super::space::{refill, release};
use super::table::{Builder, Slice};
use super::tally::Tally;
use super::version::{Run, Version};
use byteway_clock::Spans;
use byteway_firmware::WorkKind;
use std::collections::BTreeSet;

/// Entries after which their work is charged and other tasks run.
const ENTRIES_AT_ONCE: u64 = 1024;

/// The inputs and the target of a merge.
struct Job {
    /// The newest first; the last one is from the target level.
    runs: Vec<Run>,
    /// Numbers of the input tables.
    inputs: BTreeSet<u64>,
    /// Index of the target level; 0 is level 1.
    level: usize,
    /// Whether no level is below the target, so that tombstones can be dropped.
    is_bottom: bool,
}

impl Job {
    fn new(version: &Version, mut above: Vec<Run>, level: usize) -> Job {
        let keys = above.iter().flatten();
        let first = keys.clone().map(|slice| slice.from).min();
        let last = keys.map(|slice| slice.table.last).max();
        let overlaps = |slice: &&Slice| {
            first.is_some_and(|first| first <= slice.table.last)
                && last.is_some_and(|last| slice.from <= last)
        };
        let below = version.levels.get(level).map(|run| run.iter().filter(overlaps).cloned().collect());
        above.push(below.unwrap_or_default());
        let inputs = above.iter().flatten().map(|slice| slice.table.number).collect();
        Job { runs: above, inputs, level, is_bottom: version.levels.len() <= level + 1 }
    }

    /// The tables after a part of the merge: `outputs`, and of the inputs the keys from `next` on.
    fn apply(&self, version: &Version, outputs: &[Slice], next: Option<Key>) -> Version {
        let mut version = version.clone();
        let is_input = |slice: &Slice| self.inputs.contains(&slice.table.number);
        let rest = |run: &Run| -> Run {
            let rest = run.iter().filter_map(|slice| match next {
                _ if !is_input(slice) => Some(slice.clone()),
                Some(next) if next <= slice.table.last => {
                    Some(Slice { table: slice.table.clone(), from: slice.from.max(next) })
                }
                _ => None,
            });
            rest.collect()
        };
        version.waiting = version.waiting.iter().map(rest).collect();
        version.levels = version.levels.iter().map(rest).collect();
        while version.levels.len() <= self.level {
            version.levels.push(Run::new());
        }
        let level = &mut version.levels[self.level];
        level.extend(outputs.iter().cloned());
        level.sort_by_key(|slice| slice.from);
        version.tidy();
        version
    }
}

/// Merges if too many runs wait, or a level is too large. `false` if there was nothing to merge.
pub(super) async fn compact_if_due(core: &Core, spans: &Spans) -> Result<bool, KvError> {
    let job = {
        let state = core.state.borrow();
        let version = state.index.version();
        let ratio = core.config.level_ratio;
        if version.waiting.len() > core.config.l0_runs as usize {
            Some(Job::new(version, version.waiting.clone(), 0))
        } else {
            let is_full = |level: &usize| version.levels[*level].len() > Version::tables_max(*level, ratio);
            (0..version.levels.len())
                .find(is_full)
                .map(|level| next_table_merge(version, level, state.index.turn(level)))
        }
    };
    merge_job(core, spans, job).await
}

/// The merge of a level's next table, in turn, into the level below.
fn next_table_merge(version: &Version, level: usize, turn: Option<Key>) -> Job {
    let run = &version.levels[level];
    let next = turn.and_then(|turn| run.iter().find(|slice| slice.from > turn)).or(run.first());
    Job::new(version, vec![next.into_iter().cloned().collect()], level + 1)
}

/// Takes one step towards a single entry per key. `false` if that is reached.
pub(super) async fn merge_all(core: &Core, spans: &Spans) -> Result<bool, KvError> {
    let (has_memory, job) = {
        let mut state = core.state.borrow_mut();
        let has_memory = !state.index.is_memtable_empty();
        if has_memory {
            state.rotate();
        }
        let version = state.index.version();
        let job = match version.levels.iter().position(|run| !run.is_empty()) {
            _ if version.is_merged() && !has_memory => {
                // Stores since then have either looked up the old entry, or cleared this flag again.
                state.index.set_exact(true);
                state.wants.answer_sums();
                None
            }
            _ if !version.waiting.is_empty() => Some(Job::new(version, version.waiting.clone(), 0)),
            Some(level) => Some(Job::new(version, vec![version.levels[level].clone()], level + 1)),
            None => None,
        };
        (has_memory, job)
    };
    if has_memory {
        flush_memtable(core, spans).await?;
        return Ok(true);
    }
    let merged = merge_job(core, spans, job).await?;
    if !merged {
        core.changed.notify_all();
    }
    Ok(merged)
}

async fn merge_job(core: &Core, spans: &Spans, job: Option<Job>) -> Result<bool, KvError> {
    let Some(job) = job else { return Ok(false) };
    let mut merge =
        Merge { core, spans, job, outputs: Vec::new(), builder: None, tally: Tally::default(), charged: 0 };
    if let Err(error) = merge.run().await {
        merge.abandon();
        return Err(error);
    }
    Ok(true)
}

/// A merge in progress.
struct Merge<'a> {
    core: &'a Core,
    spans: &'a Spans,
    job: Job,
    outputs: Vec<Slice>,
    builder: Option<Builder>,
    /// Cost of dropped entries, to be subtracted from the sums.
    tally: Tally,
    /// Entries whose work is not charged yet.
    charged: u64,
}

impl Merge<'_> {
    /// Frees the outputs that are not committed. The inputs stay valid.
    fn abandon(mut self) {
        let is_new = |slice: &Slice| !self.job.inputs.contains(&slice.table.number);
        let made = self.outputs.iter().filter(|slice| is_new(slice)).map(|slice| slice.table.segment);
        abandon(self.core, made.chain(self.builder.take().map(|builder| builder.segment())));
    }

    async fn run(&mut self) -> Result<(), KvError> {
        let mut readers: Vec<RunReader> = self.job.runs.iter().map(RunReader::new).collect();
        loop {
            for reader in &mut readers {
                if reader.is_empty() {
                    reader.fill(self.core, self.spans).await?;
                }
            }
            let Some(at) = smallest(&readers) else { break };
            if let Some(slice) = self.untouched(&readers, at) {
                self.end_table().await?;
                self.outputs.push(slice);
                readers[at].skip();
                continue;
            }
            let Some((key, mut entry)) = readers[at].pop() else { break };
            self.charged += 1;
            for reader in &mut readers[at + 1..] {
                // The runs are ordered by age, so the entry taken first is the newest of its key.
                if reader.head().is_some_and(|(other, _)| *other == key)
                    && let Some((_, old)) = reader.pop()
                {
                    self.charged += 1;
                    self.drop_entry(&key, &mut entry, &old);
                }
            }
            if self.charged >= ENTRIES_AT_ONCE {
                self.charge().await;
            }
            if self.job.is_bottom && entry.is_tombstone() {
                self.core.state.borrow_mut().counters.entries_dropped += 1;
                continue;
            }
            self.add(&key, &entry).await?;
        }
        self.end_table().await?;
        self.charge().await;
        self.commit(None).await?;
        let mut state = self.core.state.borrow_mut();
        state.counters.compactions += 1;
        if let Some(level) = self.job.level.checked_sub(1) {
            let above = self.job.runs.first().and_then(|run| run.last()).map(|slice| slice.from);
            state.index.set_turn(level, above);
        }
        Ok(())
    }

    /// The slice at a reader's head, if it can be kept as it is: no other run has keys in its range, and it is large
    /// enough.
    fn untouched(&self, readers: &[RunReader], at: usize) -> Option<Slice> {
        let slice = readers[at].whole()?;
        let table = &slice.table;
        let is_large = table.data_units + table.meta_units() >= self.core.layout.segment_units / 2;
        let has_own = self.job.is_bottom && table.tombstones > 0;
        let is_alone = readers
            .iter()
            .enumerate()
            .all(|(other, reader)| other == at || reader.head().is_none_or(|(key, _)| *key > table.last));
        (is_large && !has_own && is_alone && slice.from == table.first).then(|| slice.clone())
    }

    /// Drops an entry that a newer one replaces.
    fn drop_entry(&mut self, key: &Key, newer: &mut Entry, old: &Entry) {
        let layout = &self.core.layout;
        let state = &mut *self.core.state.borrow_mut();
        state.counters.entries_dropped += 1;
        if newer.settles == 0 {
            old.extents().iter().for_each(|place| state.segments.mark_dead(layout, place));
            self.tally.lose(layout.cost(key.len(), old));
        }
        newer.settles = old.settles;
    }

    async fn charge(&mut self) {
        let count = std::mem::take(&mut self.charged);
        self.core.state.borrow_mut().counters.entries_compacted += count;
        self.core.placement.run(WorkKind::Compact, count).await;
        self.core.clock.yield_now().await;
    }

    async fn add(&mut self, key: &Key, entry: &Entry) -> Result<(), KvError> {
        if let Some(builder) = &mut self.builder
            && builder.add(key, entry)
        {
            if builder.waiting() >= 16 {
                write_units(self.core, self.spans, builder, true).await?;
            }
            return Ok(());
        }
        if self.builder.is_some() {
            self.end_table().await?;
            self.between(*key).await?;
        }
        let mut builder = builder(self.core)?;
        builder.add(key, entry);
        self.builder = Some(builder);
        Ok(())
    }

    async fn end_table(&mut self) -> Result<(), KvError> {
        if let Some(builder) = self.builder.take() {
            self.outputs.extend(end_table(self.core, self.spans, builder, true).await?);
        }
        Ok(())
    }

    /// Does work more urgent than the merge, between two tables.
    async fn between(&mut self, next: Key) -> Result<(), KvError> {
        let is_short = self.core.state.borrow().segments.free() <= self.core.layout.reserve;
        if is_short {
            self.commit(Some(next)).await?;
            release(self.core, self.spans).await?;
        }
        if self.core.state.borrow().index.full() > 0 {
            flush_memtable(self.core, self.spans).await?;
        }
        refill(self.core, self.spans).await?;
        Ok(())
    }

    /// Makes the merged tables valid; of the inputs the keys from `next` on remain valid.
    async fn commit(&mut self, next: Option<Key>) -> Result<(), KvError> {
        let (version, given_up) = {
            let state = self.core.state.borrow();
            let before = state.index.version();
            let version = self.job.apply(before, &self.outputs, next);
            let left: BTreeSet<u64> = version.slices().map(|slice| slice.table.number).collect();
            let gone = before.slices().filter(|slice| !left.contains(&slice.table.number));
            (version, gone.map(|slice| slice.table.segment).collect())
        };
        // The version owns these tables now, including inputs that are kept unchanged: a later failure must not free
        // them.
        for slice in self.outputs.drain(..) {
            self.job.inputs.remove(&slice.table.number);
        }
        let tally = std::mem::take(&mut self.tally);
        let change = Change { version: Some(version), given_up, tally, ..Change::default() };
        commit(self.core, self.spans, change).await
    }
}
