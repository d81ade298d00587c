//! The manifest: a snapshot of the tables, the segments of the value log and the next numbers to use. Two slots are
//! written alternately; the newer one that is complete is valid.
//!
//! It is written whole, not as a log of changes: a manifest is small (a segment takes at most 100 bytes of it), a change of
//! the tables is rare next to stores, and a whole one needs neither a checkpoint nor a replay of its own. What changes
//! with every store, the records, is the journal that recovery replays (`log`). Two slots suffice, since the next
//! manifest is written only after the previous one is durable.

use super::cache::Unit;
use super::index::Numbers;
use super::key::{KEY_BYTES_MAX, Key};
use super::layout::{Layout, SEQUENCE_MAX};
use super::segments::{Segments, ValueSegment};
use super::table::{Slice, Table};
use super::tally::Tally;
use super::varint::{self, Reader};
use super::version::{Run, Version};
use byteway_content::{Content, UNIT_BYTES};
use std::collections::BTreeMap;
use std::rc::Rc;

/// "BwKm": the first bytes of a manifest.
const MAGIC: u32 = 0x6d4b_7742;
const HEADER_BYTES: usize = 32;
const FORM: u32 = 1;

/// Bound of table numbers: a table's number and a unit's index together are the key in the cache.
const TABLES_MAX: u64 = 1 << 47;

/// A decoded manifest.
#[derive(Default)]
pub(super) struct Manifest {
    /// Sequence number of the manifest.
    pub(super) number: u64,
    pub(super) mount: u32,
    pub(super) numbers: Numbers,
    pub(super) pool: Vec<u32>,
    pub(super) values: BTreeMap<u32, ValueSegment>,
    /// Tables without fences and filters, which only DRAM holds.
    pub(super) version: Version,
}

fn put_signed(out: &mut Vec<u8>, value: i64) {
    varint::put(out, (value << 1 ^ value >> 63) as u64);
}

fn signed(reader: &mut Reader<'_>) -> Option<i64> {
    reader.varint().map(|value| (value >> 1) as i64 ^ -((value & 1) as i64))
}

fn put_key(out: &mut Vec<u8>, key: &Key) {
    out.push(key.len() as u8);
    out.extend_from_slice(key.as_bytes());
}

fn key(reader: &mut Reader<'_>) -> Option<Key> {
    let len = usize::from(reader.byte()?);
    Key::new(reader.bytes(len.min(KEY_BYTES_MAX + 1))?)
}

fn put_slice(out: &mut Vec<u8>, slice: &Slice) {
    let table = &slice.table;
    let numbers = [
        table.number,
        u64::from(table.segment),
        u64::from(table.data_units),
        u64::from(table.filter_words),
        table.entries,
        table.tombstones,
    ];
    numbers.iter().for_each(|number| varint::put(out, *number));
    out.extend_from_slice(&table.meta_crc.to_le_bytes());
    [table.first, table.last, slice.from].iter().for_each(|key| put_key(out, key));
}

fn slice(reader: &mut Reader<'_>) -> Option<Slice> {
    let table = Table {
        number: reader.varint()?,
        segment: reader.varint32()?,
        data_units: reader.varint32()?,
        filter_words: reader.varint32()?,
        entries: reader.varint()?,
        tombstones: reader.varint()?,
        meta_crc: reader.u32()?,
        first: key(reader)?,
        last: key(reader)?,
        fences: Vec::new(),
        filter: None,
    };
    Some(Slice { table: Rc::new(table), from: key(reader)? })
}

/// The two slots, and the number of the newest manifest.
#[derive(Default)]
pub(super) struct Slots {
    newest: u64,
}

impl Slots {
    /// The number of the newest manifest, even if it is not durable yet.
    pub(super) fn newest(&self) -> u64 {
        self.newest
    }

    /// Takes over the number of the manifest that recovery found.
    pub(super) fn restore(&mut self, number: u64) {
        debug_assert_eq!(self.newest, 0, "a manifest was written before recovery");
        self.newest = number;
    }

    /// The number of the next manifest, and its slot.
    pub(super) fn next(&mut self) -> (u64, u32) {
        debug_assert!(self.newest < SEQUENCE_MAX, "numbers of manifests rise by one, from a sound one");
        self.newest += 1;
        (self.newest, (self.newest % 2) as u32)
    }
}

/// Contents of a manifest.
pub(super) struct Snapshot<'a> {
    pub(super) uid: u64,
    pub(super) number: u64,
    pub(super) mount: u32,
    pub(super) numbers: Numbers,
    pub(super) version: &'a Version,
    pub(super) segments: &'a Segments,
    /// Segments that this manifest no longer names.
    pub(super) given_up: &'a [u32],
    pub(super) pool: Vec<u32>,
}

/// Encodes a manifest.
pub(super) fn encode(snapshot: Snapshot<'_>) -> Vec<u8> {
    let Snapshot { uid, number, mount, numbers, version, segments, given_up, pool } = snapshot;
    let mut out = vec![0; HEADER_BYTES];
    for number in [u64::from(mount), numbers.next_sequence, numbers.next_table] {
        varint::put(&mut out, number);
    }
    put_signed(&mut out, numbers.tally.bytes);
    put_signed(&mut out, numbers.tally.keys);
    out.push(u8::from(numbers.is_exact));
    varint::put(&mut out, pool.len() as u64);
    for segment in pool {
        varint::put(&mut out, u64::from(segment));
    }
    let mut gone: Vec<u32> = given_up.to_vec();
    gone.sort_unstable();
    let named = segments.values().filter(|(segment, _)| gone.binary_search(segment).is_err());
    varint::put(&mut out, named.clone().count() as u64);
    for (segment, info) in named {
        let numbers = [
            u64::from(segment),
            info.generation,
            u64::from(info.table_units) << 1 | u64::from(info.is_open),
            u64::from(info.records),
            u64::from(info.covered),
            info.dead_bytes,
            u64::from(info.dead_records),
            u64::from(info.slack),
        ];
        numbers.iter().for_each(|number| varint::put(&mut out, *number));
    }
    varint::put(&mut out, version.waiting.len() as u64);
    varint::put(&mut out, version.levels.len() as u64);
    for run in version.runs() {
        varint::put(&mut out, run.len() as u64);
        run.iter().for_each(|slice| put_slice(&mut out, slice));
    }
    let length = out.len() as u32;
    out[0..4].copy_from_slice(&MAGIC.to_le_bytes());
    out[8..12].copy_from_slice(&FORM.to_le_bytes());
    out[12..16].copy_from_slice(&length.to_le_bytes());
    out[16..24].copy_from_slice(&uid.to_le_bytes());
    out[24..32].copy_from_slice(&number.to_le_bytes());
    let crc = crc32c::crc32c(&out[8..]);
    out[4..8].copy_from_slice(&crc.to_le_bytes());
    out
}

/// Length in bytes of the manifest that begins with this unit; `None` if it is not one of that namespace.
pub(super) fn length(first: &Unit, uid: u64) -> Option<usize> {
    let mut reader = Reader(first);
    let magic = reader.u32()?;
    reader.u32()?;
    let (form, length) = (reader.u32()?, reader.u32()?);
    (magic == MAGIC && form == FORM && reader.u64()? == uid).then_some(length as usize)
}

/// Whether the manifest was written completely: its checksum matches.
pub(super) fn is_whole(bytes: &[u8]) -> bool {
    let (Some(head), Some(rest)) = (bytes.get(4..8), bytes.get(8..)) else { return false };
    *head == crc32c::crc32c(rest).to_le_bytes()
}

/// Decodes a manifest; `None` if its contents are inconsistent.
pub(super) fn decode(bytes: &[u8], layout: &Layout) -> Option<Manifest> {
    parse(bytes).filter(|manifest| manifest.is_sound(layout))
}

impl Manifest {
    /// Whether no number can overflow, and no segment has two uses. The media may hold anything.
    fn is_sound(&self, layout: &Layout) -> bool {
        let Numbers { next_sequence, next_table, tally, .. } = self.numbers;
        let counters = [self.number, next_sequence];
        let sums = [tally.bytes, tally.keys];
        let tables = || self.version.slices().map(|slice| &*slice.table);
        let mut segments: Vec<u32> = self.pool.clone();
        segments.extend(self.values.keys());
        segments.extend(tables().map(|table| table.segment));
        let mut numbers: Vec<u64> = tables().map(|table| table.number).collect();
        let (of_segments, of_numbers) = (segments.len(), numbers.len());
        segments.sort_unstable();
        segments.dedup();
        numbers.sort_unstable();
        numbers.dedup();
        counters.iter().all(|number| (1..SEQUENCE_MAX).contains(number))
            && (1..=TABLES_MAX).contains(&next_table)
            && self.mount < u32::MAX / 2
            && sums.iter().all(|sum| sum.unsigned_abs() <= SEQUENCE_MAX)
            && of_segments == segments.len()
            && of_numbers == numbers.len()
            && segments.last().is_none_or(|last| *last < layout.segments)
            && numbers.last().is_none_or(|last| *last < next_table)
            && self.values.values().all(|info| info.is_sound(layout))
            && self
                .version
                .slices()
                .all(|slice| slice.table.is_sound(layout) && slice.from <= slice.table.last)
            && self.version.runs().all(|run| run.is_sorted_by(|one, other| one.table.last < other.from))
    }
}

fn parse(bytes: &[u8]) -> Option<Manifest> {
    let mut reader = Reader(bytes.get(8..)?);
    reader.bytes(16)?;
    let mut manifest = Manifest {
        number: reader.u64()?,
        mount: reader.varint32()?,
        numbers: Numbers {
            next_sequence: reader.varint()?,
            next_table: reader.varint()?,
            tally: Tally { bytes: signed(&mut reader)?, keys: signed(&mut reader)? },
            is_exact: reader.byte()? != 0,
        },
        ..Manifest::default()
    };
    for _ in 0..reader.varint()? {
        manifest.pool.push(reader.varint32()?);
    }
    for _ in 0..reader.varint()? {
        let segment = reader.varint32()?;
        let generation = reader.varint()?;
        let table = reader.varint32()?;
        let info = ValueSegment {
            generation,
            is_open: table & 1 != 0,
            table_units: table >> 1,
            records: reader.varint32()?,
            covered: reader.varint32()?,
            dead_bytes: reader.varint()?,
            dead_records: reader.varint32()?,
            slack: reader.varint32()?,
        };
        if manifest.values.insert(segment, info).is_some() {
            return None;
        }
    }
    let (waiting, levels) = (reader.varint()?, reader.varint()?);
    let mut run = || -> Option<Run> {
        let count = reader.varint()?;
        (0..count).map(|_| slice(&mut reader)).collect()
    };
    manifest.version.waiting = (0..waiting).map(|_| run()).collect::<Option<_>>()?;
    manifest.version.levels = (0..levels).map(|_| run()).collect::<Option<_>>()?;
    Some(manifest)
}

/// Bytes as units, the last one padded with zeroes.
pub(super) fn units(bytes: &[u8]) -> impl Iterator<Item = Content> + '_ {
    bytes.chunks(UNIT_BYTES).map(|part| {
        let mut unit = [0; UNIT_BYTES];
        unit[..part.len()].copy_from_slice(part);
        Content::Bytes(unit.into())
    })
}
