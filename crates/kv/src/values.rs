//! The value log: the two logs that take values, and the queue in which what they write waits.
//!
//! Values that garbage collection moves have a log of their own. They may take the last segment of the pool, are packed
//! without gaps, and are older than their segment, which cursors therefore hold back longer: next to the host's values,
//! all of these would hold for those, too. The price is a second open segment.

use super::config::{KvConfig, Origin};
use super::key::Key;
use super::layout::{Layout, UNIT};
use super::log::{Closed, Log, Queue, Write, Written};
use super::packing::Placement;
use super::record::Entry;
use super::segments::Segments;
use byteway_content::{Content, UnitBytes};
use std::rc::Rc;

/// Index of the log for the host's values; [`MOVED`] is that for values that garbage collection moves.
pub(super) const HOST: usize = 0;
pub(super) const MOVED: usize = 1;

/// The value log.
pub(super) struct ValueLog {
    layout: Rc<Layout>,
    logs: [Log; 2],
    queue: Queue,
    /// Number of power-ons and formats.
    mount: u32,
    /// Segments opened in this mount. With it, it names each opening of a segment.
    opened: u32,
    /// The record last encoded.
    record: Vec<u8>,
}

impl ValueLog {
    pub(super) fn new(config: &KvConfig, layout: &Rc<Layout>) -> ValueLog {
        ValueLog {
            layout: layout.clone(),
            logs: [Log::new(config, layout, false), Log::new(config, layout, true)],
            queue: Queue::default(),
            mount: 0,
            opened: 0,
            record: Vec::new(),
        }
    }

    /// The log for the host's values.
    pub(super) fn host(&self) -> &Log {
        &self.logs[HOST]
    }

    /// The page buffer of the host's log as device memory: the host stores bytes at an offset.
    pub(super) fn store(&mut self, offset: u32, bytes: &[u8]) {
        self.logs[HOST].store(offset, bytes);
    }

    /// Gives up the gaps before the host's values that came by DMA.
    pub(super) fn give_up(&mut self) {
        self.logs[HOST].give_up(&mut self.queue);
    }

    pub(super) fn mount(&self) -> u32 {
        self.mount
    }

    /// Starts a mount, whose generations are greater than those of all before.
    pub(super) fn begin_mount(&mut self, mount: u32) {
        debug_assert!(mount > self.mount, "a mount that was before would give generations twice");
        debug_assert!(
            self.logs.iter().all(|log| log.segment().is_none()),
            "a segment is open over two mounts"
        );
        (self.mount, self.opened) = (mount, 0);
    }

    /// Discards everything that is not written, and starts the next mount.
    pub(super) fn begin_anew(&mut self) {
        self.queue.clear();
        self.logs.iter_mut().for_each(Log::abandon);
        self.begin_mount(self.mount + 1);
    }

    /// Length of a record, in bytes.
    pub(super) fn record_bytes(&mut self, key: &Key, entry: &Entry) -> usize {
        self.record.clear();
        entry.encode_record(key, &mut self.record);
        self.record.len()
    }

    /// Plans the position of a value with a record of `record_bytes` in the open segment of a log, and says which that
    /// is. `None` if it lacks space for both, or none is open.
    pub(super) fn plan(
        &self,
        log: usize,
        bytes: u32,
        origin: Origin,
        record_bytes: usize,
    ) -> Option<(Placement, u32)> {
        let log = &self.logs[log];
        log.plan(bytes, origin, record_bytes).zip(log.segment())
    }

    /// Places a value as planned. Without bytes, they are in the page already.
    pub(super) fn put(&mut self, log: usize, plan: &Placement, value: Option<&[u8]>, bytes: u32) {
        self.logs[log].put(plan, value, bytes, &mut self.queue);
    }

    /// Takes over a value that the host has placed, as planned.
    pub(super) fn put_placed(&mut self, plan: &Placement, bytes: u32) {
        self.logs[HOST].put_placed(plan, bytes, &mut self.queue);
    }

    /// Appends a record to the open segment of a log.
    pub(super) fn append(&mut self, log: usize, key: &Key, entry: &Entry, segments: &mut Segments) {
        self.record.clear();
        entry.encode_record(key, &mut self.record);
        let records = self.logs[log].append(&self.record, &mut self.queue);
        if let Some(segment) = self.logs[log].segment() {
            segments.count_record(segment, records);
        }
    }

    /// Closes the open segment of a log, if there is one. Returns the bytes left empty between its values, if they are
    /// the host's.
    pub(super) fn close(&mut self, log: usize, segments: &mut Segments) -> u32 {
        let Some(closed) = self.logs[log].close(&mut self.queue) else { return 0 };
        debug_assert!(closed.placed + closed.table_units * UNIT <= self.layout.segment_bytes());
        let (padding, slack) = if log == HOST { (closed.padding, self.slack(closed)) } else { (0, 0) };
        segments.close(closed.segment, closed.table_units, slack);
        padding
    }

    /// Bytes that no value of a closed segment uses, and that moving its live values would regain.
    fn slack(&self, closed: Closed) -> u32 {
        // In a sparse segment the space after the last value counts, too: several such segments fit into one.
        let is_sparse = closed.placed <= self.layout.part_bytes() / 2;
        let all = self.layout.segment_bytes().saturating_sub(closed.placed + closed.table_units * UNIT);
        match self.layout.is_packed() {
            true if is_sparse => all,
            true => closed.padding,
            false => 0,
        }
    }

    /// Opens the next segment of the pool for a log that has none open. `false` if the pool is empty.
    pub(super) fn open(&mut self, log: usize, segments: &mut Segments) -> bool {
        let generation = u64::from(self.mount) << 32 | u64::from(self.opened);
        let Some(segment) = segments.open(generation, log == MOVED) else { return false };
        self.opened += 1;
        self.logs[log].open(segment, generation);
        true
    }

    /// A unit of a segment that is not in flash yet, or not in its newest version.
    pub(super) fn resident(&self, segment: u32, unit: u32) -> Option<&UnitBytes> {
        let in_log = self.logs.iter().find_map(|log| log.get(segment, unit));
        in_log.or_else(|| self.queue.get(self.layout.first(segment) + u64::from(unit)))
    }

    /// Queues everything that the logs hold. Returns the mark of the queue.
    pub(super) fn flush(&mut self) -> u64 {
        self.logs.iter_mut().for_each(|log| log.flush(&mut self.queue));
        self.queue.mark()
    }

    /// The writes that wait.
    pub(super) fn queue(&self) -> &Queue {
        &self.queue
    }

    /// Submits the oldest write, whose units `contents` gets. Returns the first of them.
    pub(super) fn begin_write(&mut self, contents: &mut Vec<Content>) -> Option<u64> {
        let Write { first, units, .. } = self.queue.begin()?;
        contents.extend(units.iter().map(Content::of_bytes));
        Some(*first)
    }

    /// The submitted write has ended. If it failed, it stays in the queue: reads find it there, and capacitors save it.
    pub(super) fn end_write(&mut self, is_written: bool) -> Option<(Written, u64)> {
        self.queue.end();
        if is_written { self.queue.pop() } else { None }
    }
}
