//! An open segment of the value log: its log pages in DRAM, and its record table.
//!
//! Values fill a segment from its front. Records fill it from its end, backwards by units: one for each value and each
//! deletion, in order. The record table is the journal that recovery replays, and it tells garbage collection what the
//! segment holds. Where the two would meet the segment ends. A page, or a unit of records, is written when it is full;
//! a flush writes it as far as it is filled, and it is later written again in place.

use super::cache::Unit;
use super::config::Stored;
use super::config::{KvConfig, Origin, Packing};
use super::key::Key;
use super::layout::{Layout, UNIT};
use super::packing::{Packer, Placement};
use super::record::Entry;
use super::varint::Reader;
use byteway_content::UNIT_BYTES;
use byteway_content::UnitBytes;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::rc::Rc;

/// Units reserved for the records of values that the host has placed and whose commands are in flight.
const RECORD_UNITS: u32 = 2;

/// "BwKr": the first bytes of a unit of records.
const MAGIC: u32 = 0x724b_7742;
const HEADER_BYTES: usize = 40;

/// Contents of a queued write, for the counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    Page {
        is_partial: bool,
        is_moved: bool,
    },
    /// A further range of a page that is already counted.
    Rest,
    Records,
}

/// Units to be written by the translation layer.
pub(super) struct Write {
    pub(super) first: u64,
    pub(super) units: Vec<UnitBytes>,
    kind: Written,
}

/// Queued writes, in order. Reads find queued units here.
#[derive(Default)]
pub(super) struct Queue {
    writes: VecDeque<Write>,
    /// Writes queued and completed, since power-on.
    queued: u64,
    done: u64,
    /// Whether the oldest write was submitted to the translation layer.
    is_writing: bool,
    newest: FxHashMap<u64, UnitBytes>,
    /// Emptied vectors, for reuse.
    spare: Vec<Vec<UnitBytes>>,
}

impl Queue {
    fn push(&mut self, first: u64, units: impl Iterator<Item = UnitBytes>, kind: Written) {
        let mut list = self.spare.pop().unwrap_or_default();
        list.extend(units);
        for (unit, bytes) in (first..).zip(&list) {
            self.newest.insert(unit, bytes.clone());
        }
        self.writes.push_back(Write { first, units: list, kind });
        self.queued += 1;
    }

    /// Number of writes that wait, in order; the oldest may be under way.
    pub(super) fn len(&self) -> usize {
        self.writes.len()
    }

    /// The writes that wait, in order.
    pub(super) fn writes(&self) -> impl Iterator<Item = &Write> {
        self.writes.iter()
    }

    /// Writes queued since power-on: the mark that [`Queue::is_done_to`] takes.
    pub(super) fn mark(&self) -> u64 {
        self.queued
    }

    /// Whether everything that was queued at a mark is written.
    pub(super) fn is_done_to(&self, mark: u64) -> bool {
        debug_assert!(mark <= self.queued, "a mark of writes that were never queued");
        self.done >= mark
    }

    /// Whether the oldest write was submitted to the translation layer.
    pub(super) fn is_writing(&self) -> bool {
        self.is_writing
    }

    /// Submits the oldest write. It stays in the queue until [`Queue::pop`], where reads find it.
    pub(super) fn begin(&mut self) -> Option<&Write> {
        debug_assert!(!self.is_writing, "one task writes, one write at a time");
        let oldest = self.writes.front();
        self.is_writing = oldest.is_some();
        oldest
    }

    /// The write submitted has ended, well or not.
    pub(super) fn end(&mut self) {
        debug_assert!(self.is_writing, "a write ends that was not submitted");
        self.is_writing = false;
    }

    /// Removes the oldest write, which the translation layer has taken over. Returns what it was, and its units.
    pub(super) fn pop(&mut self) -> Option<(Written, u64)> {
        debug_assert!(!self.is_writing, "a write leaves the queue before it ends");
        let mut write = self.writes.pop_front()?;
        let popped = (write.kind, write.units.len() as u64);
        for (unit, bytes) in (write.first..).zip(&write.units) {
            // A newer write of the same unit may be queued behind this one: reads must keep finding that.
            if self.newest.get(&unit).is_some_and(|newest| newest.is(bytes)) {
                self.newest.remove(&unit);
            }
        }
        write.units.clear();
        self.spare.push(write.units);
        self.done += 1;
        debug_assert_eq!(self.done + self.writes.len() as u64, self.queued, "a queued write is lost");
        Some(popped)
    }

    pub(super) fn get(&self, unit: u64) -> Option<&UnitBytes> {
        self.newest.get(&unit)
    }

    /// Drops all writes, as a format does.
    pub(super) fn clear(&mut self) {
        debug_assert!(!self.is_writing, "a write under way would land in a segment of the next contents");
        self.done += self.writes.len() as u64;
        self.writes.clear();
        self.newest.clear();
    }
}

struct Page {
    units: Vec<UnitBytes>,
    /// Bit mask of units that changed since they were written.
    dirty: u32,
    was_written: bool,
}

/// State of a segment when it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Closed {
    pub(super) segment: u32,
    pub(super) table_units: u32,
    /// Empty bytes between its values.
    pub(super) padding: u32,
    /// Bytes of its values.
    pub(super) placed: u32,
}

/// A segment that takes values.
pub(super) struct Log {
    is_moved: bool,
    layout: Rc<Layout>,
    uid: u64,
    buffer_pages: u32,
    packer: Packer,
    /// The open segment and its generation.
    open: Option<(u32, u64)>,
    /// Pages from the first that may still change.
    pages: VecDeque<Page>,
    first_page: u32,
    /// The segment's first page, counted over all segments: it determines the page's position in the ring.
    base: u64,
    /// Bytes of values.
    placed: u32,
    /// Offset of the last value placed.
    last: u32,
    table: UnitBytes,
    table_used: usize,
    table_count: u16,
    /// Full units of the table.
    table_full: u32,
    table_dirty: bool,
    records: u32,
    zero: UnitBytes,
    spare: Vec<Page>,
}

impl Log {
    pub(super) fn new(config: &KvConfig, layout: &Rc<Layout>, is_moved: bool) -> Log {
        // Moved values are in memory already, so packing them needs no alignment, unless the policy aligns all values.
        let packing = match config.packing {
            packing if !is_moved => packing,
            Packing::None => Packing::None,
            _ => Packing::All,
        };
        let packer = Packer::new(packing, layout.page_bytes(), config.buffer_pages, config.log_table_entries);
        let zero = UnitBytes::from([0; UNIT_BYTES]);
        Log {
            is_moved,
            layout: layout.clone(),
            uid: config.uid,
            buffer_pages: config.buffer_pages,
            packer,
            open: None,
            pages: VecDeque::new(),
            first_page: 0,
            base: 0,
            placed: 0,
            last: 0,
            table: zero.clone(),
            table_used: HEADER_BYTES,
            table_count: 0,
            table_full: 0,
            table_dirty: false,
            records: 0,
            zero,
            spare: Vec::new(),
        }
    }

    /// The open segment.
    pub(super) fn segment(&self) -> Option<u32> {
        self.open.map(|(segment, _)| segment)
    }

    /// Opens a segment. The previous one must be closed.
    pub(super) fn open(&mut self, segment: u32, generation: u64) {
        debug_assert!(self.open.is_none() && self.pages.is_empty());
        self.open = Some((segment, generation));
        self.packer.restart();
        self.base += u64::from(self.first_page);
        self.first_page = 0;
        self.placed = 0;
        self.table = self.zero.clone();
        (self.table_used, self.table_count, self.table_full) = (HEADER_BYTES, 0, 0);
        (self.table_dirty, self.records) = (false, 0);
    }

    /// End of the area for values once a record of `record_bytes` is added; `None` if the table fills the segment.
    fn limit(&self, record_bytes: usize) -> Option<u32> {
        let more = u32::from(self.table_used + record_bytes > UNIT_BYTES);
        Some(self.layout.segment_units.checked_sub(self.table_full + 1 + more)? * UNIT)
    }

    /// Plans the position of a value with a record of `record_bytes`. `None` if the segment lacks space for both.
    pub(super) fn plan(&self, bytes: u32, origin: Origin, record_bytes: usize) -> Option<Placement> {
        self.open?;
        let limit = self.limit(record_bytes)?;
        let plan = self.packer.plan(bytes, origin);
        let has_room = plan.offset.checked_add(bytes)? <= limit && self.packer.end() <= limit;
        has_room.then_some(plan)
    }

    /// Whether a record without a value fits.
    pub(super) fn takes_record(&self, record_bytes: usize) -> bool {
        self.open.is_some() && self.limit(record_bytes).is_some_and(|limit| self.packer.end() <= limit)
    }

    /// Places a value as [`Log::plan`] has planned. Without bytes, they are in the page already.
    pub(super) fn put(&mut self, plan: &Placement, value: Option<&[u8]>, bytes: u32, queue: &mut Queue) {
        debug_assert!(plan.offset + bytes <= self.layout.segment_bytes());
        debug_assert!(value.is_none_or(|value| value.len() == bytes as usize));
        let mut at = plan.offset;
        let end = plan.offset + bytes;
        while at < end {
            let stop = end.min((at / UNIT + 1) * UNIT);
            let source =
                value.map(|value| &value[(at - plan.offset) as usize..(stop - plan.offset) as usize]);
            self.change(at, source);
            at = stop;
        }
        self.packer.take(plan, bytes);
        self.placed += bytes;
        self.last = plan.offset;
        self.write_left(queue);
    }

    /// Takes over a value that the host has placed, as [`Log::plan_placed`] has planned.
    pub(super) fn put_placed(&mut self, plan: &Placement, bytes: u32, queue: &mut Queue) {
        debug_assert!(plan.offset + bytes <= self.layout.segment_bytes());
        let (mut at, end) = (plan.offset, plan.offset + bytes);
        while at < end {
            self.change(at, None);
            at = (at / UNIT + 1) * UNIT;
        }
        self.packer.take_at(plan, bytes);
        self.placed += bytes;
        self.last = plan.offset;
        self.write_left(queue);
    }

    /// Marks the unit at `at` dirty, and copies `bytes` there if given.
    fn change(&mut self, at: u32, bytes: Option<&[u8]>) {
        let page_bytes = self.layout.page_bytes();
        let Some(page) = self.page_mut(at / page_bytes) else { return };
        let unit = (at % page_bytes / UNIT) as usize;
        if let Some(bytes) = bytes {
            let from = (at % UNIT) as usize;
            page.units[unit].make_mut()[from..from + bytes.len()].copy_from_slice(bytes);
        }
        page.dirty |= 1 << unit;
    }

    /// A page of the segment in DRAM, created if it is new; `None` if it was written for good.
    fn page_mut(&mut self, page: u32) -> Option<&mut Page> {
        let index = page.checked_sub(self.first_page)? as usize;
        while self.pages.len() <= index {
            let mut page =
                self.spare.pop().unwrap_or_else(|| Page { units: Vec::new(), dirty: 0, was_written: false });
            page.units.clear();
            page.units.extend((0..self.layout.page_units).map(|_| self.zero.clone()));
            (page.dirty, page.was_written) = (0, false);
            self.pages.push_back(page);
        }
        self.pages.get_mut(index)
    }

    /// Writes the pages that the write pointer has passed.
    fn write_left(&mut self, queue: &mut Queue) {
        let page = self.packer.open_page() / self.layout.page_bytes();
        while self.first_page < page {
            self.write_page(0, false, queue);
            if let Some(page) = self.pages.pop_front() {
                self.spare.push(page);
            }
            self.first_page += 1;
        }
    }

    /// Writes the dirty units of a page, one write for each contiguous range.
    fn write_page(&mut self, index: usize, is_partial: bool, queue: &mut Queue) {
        let Some((segment, _)) = self.open else { return };
        let Some(page) = self.pages.get_mut(index) else { return };
        let units = (self.first_page + index as u32) * self.layout.page_units;
        let first = self.layout.first(segment) + u64::from(units);
        let mut kind = Written::Page { is_partial, is_moved: self.is_moved };
        let mut dirty = std::mem::take(&mut page.dirty);
        while dirty != 0 {
            let from = dirty.trailing_zeros();
            // One write takes one contiguous range: units that did not change are not written again.
            let count = (dirty >> from).trailing_ones();
            let units = page.units[from as usize..(from + count) as usize].iter().cloned();
            queue.push(first + u64::from(from), units, std::mem::replace(&mut kind, Written::Rest));
            dirty &= !((((1u64 << count) - 1) as u32) << from);
        }
    }

    /// Appends a record. The caller has checked that it fits. Returns the number of records of the segment.
    pub(super) fn append(&mut self, record: &[u8], queue: &mut Queue) -> u32 {
        debug_assert!(HEADER_BYTES + record.len() <= UNIT_BYTES, "a record fits into one unit");
        if self.table_used + record.len() > UNIT_BYTES {
            // The unit is full and will not change, so it is queued now rather than at the next flush.
            self.write_table(queue);
            self.table_full += 1;
            self.table = self.zero.clone();
            (self.table_used, self.table_count) = (HEADER_BYTES, 0);
        }
        let unit = self.table.make_mut();
        unit[self.table_used..self.table_used + record.len()].copy_from_slice(record);
        self.table_used += record.len();
        self.table_count += 1;
        self.records += 1;
        debug_assert!(
            self.packer.end() <= (self.layout.segment_units - self.table_full - 1) * UNIT,
            "records grow into values"
        );
        self.table_dirty = true;
        self.records
    }

    fn write_table(&mut self, queue: &mut Queue) {
        let Some((segment, generation)) = self.open else { return };
        if !std::mem::take(&mut self.table_dirty) {
            return;
        }
        let first_record = self.records - u32::from(self.table_count);
        let head =
            Head { generation, segment, index: self.table_full, first_record, count: self.table_count };
        head.seal(self.uid, self.table_used as u16, self.table.make_mut());
        let unit = self.layout.table_unit(segment, self.table_full);
        queue.push(unit, std::iter::once(self.table.clone()), Written::Records);
    }

    /// Writes all dirty pages and records, even if they are not full.
    pub(super) fn flush(&mut self, queue: &mut Queue) {
        (0..self.pages.len()).for_each(|index| self.write_page(index, true, queue));
        self.write_table(queue);
    }

    /// Writes the remaining data, and ends the segment.
    pub(super) fn close(&mut self, queue: &mut Queue) -> Option<Closed> {
        let (segment, _) = self.open?;
        for index in 0..self.pages.len() {
            self.write_page(index, false, queue);
        }
        self.write_table(queue);
        self.first_page += self.pages.len() as u32;
        self.spare.extend(self.pages.drain(..));
        self.open = None;
        let table_units = self.table_full + u32::from(self.table_count > 0);
        let padding = self.packer.end().saturating_sub(self.placed);
        Some(Closed { segment, table_units, padding, placed: self.placed })
    }

    /// A unit of the open segment by its index, if its page may still change.
    pub(super) fn get(&self, segment: u32, unit: u32) -> Option<&UnitBytes> {
        if self.segment() != Some(segment) {
            return None;
        }
        let page = (unit / self.layout.page_units).checked_sub(self.first_page)?;
        self.pages.get(page as usize)?.units.get((unit % self.layout.page_units) as usize)
    }

    /// Discards the open segment.
    pub(super) fn abandon(&mut self) {
        self.first_page += self.pages.len() as u32;
        self.pages.clear();
        self.open = None;
    }
}

/// The page buffer as device memory: a ring of pages that starts at the write pointer's page.
impl Log {
    /// Offset in the ring of a position in the segment.
    pub(super) fn ring_offset(&self, at: u32) -> u32 {
        let page_bytes = self.layout.page_bytes();
        let page = (self.base + u64::from(at / page_bytes)) % u64::from(self.buffer_pages);
        page as u32 * page_bytes + at % page_bytes
    }

    /// The write pointer.
    pub(super) fn pointer(&self) -> u32 {
        self.packer.pointer()
    }

    /// A position in the segment, counted over all segments, modulo 2^32.
    fn absolute_position(&self, at: u32) -> u32 {
        (self.base * u64::from(self.layout.page_bytes())).wrapping_add(at.into()) as u32
    }

    /// Position, write pointer and limit after a value of `bytes` was placed.
    pub(super) fn stored(&self, bytes: u32) -> Stored {
        let pointer = self.absolute_position(self.packer.pointer());
        // Of a value in several parts, only the last part lies in this segment; it ends at the write pointer.
        let is_whole = self.last + bytes <= self.packer.end();
        let place = if is_whole { self.absolute_position(self.last) } else { pointer.wrapping_sub(bytes) };
        Stored { pointer, place, limit: self.absolute_position(self.limit_placed()) }
    }

    /// End of the area in which the host may place values: before the records of all values that may be in flight, and
    /// no more than the ring ahead.
    fn limit_placed(&self) -> u32 {
        let free = self.limit(UNIT_BYTES - HEADER_BYTES).unwrap_or(0);
        let records = free.saturating_sub(RECORD_UNITS * UNIT);
        let ring = (self.first_page + self.buffer_pages) * self.layout.page_bytes();
        records.min(ring)
    }

    /// Whether the host may place a value of a page's length.
    pub(super) fn takes_page(&self) -> bool {
        let bytes = self.layout.page_bytes();
        let plan = self.packer.plan(bytes, Origin::Cxl);
        self.open.is_some() && plan.offset + bytes <= self.limit_placed()
    }

    /// Gives up the gaps before values transferred by DMA.
    pub(super) fn give_up(&mut self, queue: &mut Queue) {
        self.packer.give_up();
        self.write_left(queue);
    }

    /// Plans the value that the host has placed at `offset` in the ring, with a record of `record_bytes`. `None` if the
    /// position is not allowed.
    pub(super) fn plan_placed(&self, offset: u32, bytes: u32, record_bytes: usize) -> Option<Placement> {
        let plan = self.packer.plan_at(self.position(offset)?, bytes)?;
        // A page that was never stored to since the segment was opened holds no value of it: what the host sees there
        // belongs to the previous segment.
        let page = (plan.offset + bytes.max(1) - 1) / self.layout.page_bytes();
        if page.checked_sub(self.first_page)? as usize >= self.pages.len() {
            return None;
        }
        let limit = self.limit(record_bytes)?;
        (plan.offset + bytes <= limit && self.packer.end() <= limit).then_some(plan)
    }

    /// The position in the segment that an offset in the ring denotes now.
    fn position(&self, offset: u32) -> Option<u32> {
        let page_bytes = self.layout.page_bytes();
        let first_page = self.base + u64::from(self.first_page);
        let pages = u64::from(self.buffer_pages);
        let ahead = (u64::from(offset / page_bytes) + pages - first_page % pages) % pages;
        let page = first_page + ahead - self.base;
        let at = page * u64::from(page_bytes) + u64::from(offset % page_bytes);
        self.open?;
        u32::try_from(at).ok().filter(|at| *at < self.layout.segment_bytes())
    }

    /// The host stores bytes into the ring. Bytes that would overwrite a value are dropped.
    pub(super) fn store(&mut self, offset: u32, bytes: &[u8]) {
        let ring = self.buffer_pages * self.layout.page_bytes();
        for (at, byte) in (offset..ring).zip(bytes) {
            let Some(position) = self.position(at).filter(|position| !self.packer.is_taken(*position)) else {
                continue;
            };
            let page_bytes = self.layout.page_bytes();
            if let Some(page) = self.page_mut(position / page_bytes) {
                let unit = (position % page_bytes / UNIT) as usize;
                page.units[unit].make_mut()[(position % UNIT) as usize] = *byte;
            }
        }
    }

    /// The host loads bytes from the ring: zeroes where nothing was stored.
    pub(super) fn load(&self, offset: u32, bytes: &mut [u8]) {
        let ring = self.buffer_pages * self.layout.page_bytes();
        bytes.fill(0);
        for (at, byte) in (offset..ring).zip(bytes) {
            let Some((position, (segment, _))) = self.position(at).zip(self.open) else { continue };
            if let Some(unit) = self.get(segment, position / UNIT) {
                *byte = unit[(position % UNIT) as usize];
            }
        }
    }

    /// CRC-32C of `bytes` bytes at `at`.
    pub(super) fn checksum(&self, at: u32, bytes: u32) -> u32 {
        let (mut crc, mut next, end) = (0, at, at + bytes);
        let segment = self.segment().unwrap_or(u32::MAX);
        while next < end {
            let stop = end.min((next / UNIT + 1) * UNIT);
            let unit = self.get(segment, next / UNIT).unwrap_or(&self.zero);
            let from = (next % UNIT) as usize;
            crc = crc32c::crc32c_append(crc, &unit[from..from + (stop - next) as usize]);
            next = stop;
        }
        crc
    }
}

/// Header of a unit of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) generation: u64,
    pub(super) segment: u32,
    pub(super) index: u32,
    /// Number of its first record in the segment.
    pub(super) first_record: u32,
    pub(super) count: u16,
}

impl Head {
    fn seal(&self, uid: u64, used: u16, unit: &mut Unit) {
        debug_assert!((HEADER_BYTES..=UNIT_BYTES).contains(&usize::from(used)));
        unit[0..4].copy_from_slice(&MAGIC.to_le_bytes());
        unit[8..16].copy_from_slice(&uid.to_le_bytes());
        unit[16..24].copy_from_slice(&self.generation.to_le_bytes());
        unit[24..28].copy_from_slice(&self.segment.to_le_bytes());
        unit[28..32].copy_from_slice(&self.index.to_le_bytes());
        unit[32..36].copy_from_slice(&self.first_record.to_le_bytes());
        unit[36..38].copy_from_slice(&self.count.to_le_bytes());
        unit[38..40].copy_from_slice(&used.to_le_bytes());
        let crc = crc32c::crc32c(&unit[8..]);
        unit[4..8].copy_from_slice(&crc.to_le_bytes());
    }

    /// Decodes the header and records of a unit; `None` if it is damaged or belongs to another namespace.
    pub(super) fn open(unit: &Unit, uid: u64) -> Option<(Head, Records<'_>)> {
        let mut reader = Reader(unit);
        let (magic, crc) = (reader.u32()?, reader.u32()?);
        if magic != MAGIC || crc32c::crc32c(&unit[8..]) != crc || reader.u64()? != uid {
            return None;
        }
        let (generation, segment, index) = (reader.u64()?, reader.u32()?, reader.u32()?);
        let (first_record, counts) = (reader.u32()?, reader.u32()?);
        let count = counts as u16;
        let body = unit.get(HEADER_BYTES..(counts >> 16) as usize)?;
        let head = Head { generation, segment, index, first_record, count };
        Some((head, Records { reader: Reader(body), left: count }))
    }
}

/// The records of a unit, in order.
pub(super) struct Records<'a> {
    reader: Reader<'a>,
    left: u16,
}

impl Iterator for Records<'_> {
    type Item = (Key, Entry);

    fn next(&mut self) -> Option<(Key, Entry)> {
        self.left = self.left.checked_sub(1)?;
        Entry::decode_record(&mut self.reader)
    }
}
