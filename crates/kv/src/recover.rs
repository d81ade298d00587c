//! Recovery: the newest manifest, and the records that its tables don't cover.
//!
//! The manifest tells which segments of the value log may hold such records: those that it names, and those of its
//! pool, if they were opened in the mount that it began. Each record table is read up to its first missing unit; a
//! record counts if its value matches its checksum. The media alone decide all this, and nothing is written until a new
//! manifest records the result, so another power cut during recovery changes nothing. Segments that were open are
//! closed for good, and units of former mounts are recognized by their generation, so a later recovery finds the same.
//!
//! Record tables are read where they lie, in each segment, rather than from one log of all records: a log of its own
//! would be a second place that every flush programs, and garbage collection would have to read it to learn what a segment
//! holds. The price is that recovery reads a unit of each segment of the pool, opened or not.

use super::config::{Defect, KvError};
use super::core::Core;
use super::index::Numbers;
use super::key::Key;
use super::layout::UNIT;
use super::log::Head;
use super::manifest::{self, Manifest};
use super::read::find;
use super::record::{Entry, ValueExtent};
use super::segments::ValueSegment;
use super::state::State;
use super::table::{Slice, Table};
use super::units::bytes_of;
use super::version::{Run, Version};
use byteway_clock::{SpanId, Spans};
use byteway_content::{Content, UNIT_BYTES};
use byteway_firmware::MediaError;
use std::collections::BTreeSet;
use std::rc::Rc;

/// Units of values that are read in one request to verify checksums.
const WINDOW_UNITS: u32 = 32;

/// A record that no table covers.
struct Replayed {
    key: Key,
    entry: Entry,
    /// Orders two records of the same change: the later one is that of a moved value.
    age: (u64, u32),
}

/// The contents of the record tables that were read.
#[derive(Default)]
struct Journal {
    records: Vec<Replayed>,
    /// Segments whose record table was read.
    scanned: BTreeSet<u32>,
    /// Values, or parts of them, that have a record in their own segment, as segment and offset.
    present: BTreeSet<(u32, u32)>,
    next_sequence: u64,
}

/// The state of a manifest's slot.
enum Slot {
    /// Never written.
    Empty,
    /// Not written completely.
    Torn,
    Whole(Box<Manifest>),
}

impl Slot {
    fn manifest(self) -> Option<Manifest> {
        match self {
            Slot::Whole(manifest) => Some(*manifest),
            Slot::Empty | Slot::Torn => None,
        }
    }
}

/// A cache of the units of a segment that were read last.
#[derive(Default)]
struct Window {
    segment: u32,
    first: u32,
    contents: Vec<Content>,
}

/// Reads the contents from the media. The caller then writes a manifest that records them.
pub(super) async fn recover(core: &Core, spans: &Spans) -> Result<(), KvError> {
    core.units.ftl().ready().await;
    let mut mount = 0;
    match [read_manifest(core, spans, 0).await?, read_manifest(core, spans, 1).await?] {
        // At most one of the two was being written when the power failed.
        [Slot::Torn, Slot::Torn] => return Err(KvError::Media(MediaError::Unreadable)),
        slots => {
            let found = slots.into_iter().filter_map(Slot::manifest);
            if let Some(manifest) = found.max_by_key(|manifest| manifest.number) {
                mount = manifest.mount;
                install(core, spans, manifest).await?;
            }
        }
    }
    let mut state = core.state.borrow_mut();
    state.values.begin_mount(mount + 1);
    state.segments.gather_free();
    Ok(())
}

async fn read_manifest(core: &Core, spans: &Spans, slot: u32) -> Result<Slot, KvError> {
    let first = u64::from(slot * core.layout.manifest_units);
    let mut contents = Vec::new();
    core.units.read(SpanId::NONE, spans, first, 1, &mut contents).await?;
    let Some(length) = manifest::length(&bytes_of(&contents[0]), core.config.uid) else {
        return Ok(Slot::Empty);
    };
    let units = length.div_ceil(UNIT_BYTES) as u32;
    if units > core.layout.manifest_units {
        return Ok(Slot::Torn);
    }
    contents.clear();
    core.units.read(SpanId::NONE, spans, first, units, &mut contents).await?;
    let mut bytes: Vec<u8> = contents.iter().flat_map(|content| *bytes_of(content)).collect();
    bytes.truncate(length);
    if !manifest::is_whole(&bytes) {
        return Ok(Slot::Torn);
    }
    // It was written completely, so the previous one is obsolete: if its contents are inconsistent, the store is
    // damaged.
    let manifest = manifest::decode(&bytes, &core.layout);
    manifest.map(|manifest| Slot::Whole(Box::new(manifest))).ok_or(KvError::Media(MediaError::Unreadable))
}

/// Takes over the contents of a manifest, and replays the records after it.
async fn install(core: &Core, spans: &Spans, manifest: Manifest) -> Result<(), KvError> {
    let damaged = KvError::Media(MediaError::Unreadable);
    let mut version = Version::default();
    let mut filter_bytes = core.config.filter_bytes;
    // Filters of the tables that are searched most often get DRAM first.
    for (runs, into) in
        [(&manifest.version.waiting, &mut version.waiting), (&manifest.version.levels, &mut version.levels)]
    {
        for run in runs {
            let mut loaded = Run::new();
            for slice in run {
                let table = load_table(core, spans, &slice.table, &mut filter_bytes).await?;
                loaded.push(Slice { table: Rc::new(table), from: slice.from });
            }
            into.push(loaded);
        }
    }
    let mut values = manifest.values;
    let known = values.keys().copied().chain(manifest.pool.iter().copied());
    let tables = version.slices().map(|slice| slice.table.segment);
    if known.chain(tables).any(|segment| segment >= core.layout.segments) {
        return Err(damaged);
    }
    let mut journal = Journal { next_sequence: manifest.numbers.next_sequence, ..Journal::default() };
    let scanned: Vec<(u32, Option<ValueSegment>)> = {
        let uncovered = values.iter().filter(|(_, info)| info.is_open || info.covered < info.records);
        let known = uncovered.map(|(segment, info)| (*segment, Some(*info)));
        known.chain(manifest.pool.iter().map(|segment| (*segment, None))).collect()
    };
    for (segment, info) in scanned {
        let found = scan(core, spans, segment, info, manifest.mount, &mut journal).await?;
        match found {
            Some(found) => _ = values.insert(segment, found),
            None => _ = values.remove(&segment),
        }
    }
    let Journal { records: mut replayed, scanned, present, next_sequence } = journal;
    let before = replayed.len();
    // A part without a record of its own would be lost when its segment is reused, so the record is dropped as
    // torn.
    replayed.retain(|record| {
        record.entry.extents().iter().all(|place| {
            let is_covered = !scanned.contains(&place.segment) && values.contains_key(&place.segment);
            is_covered || present.contains(&(place.segment, place.offset))
        })
    });
    let torn = (before - replayed.len()) as u64;
    // By sequence. Among records of the same change, the one that was moved last is the newest.
    replayed.sort_by_key(|record| (record.entry.sequence, record.age));
    // A value of many parts has a record in each of its segments, and a moved value has one at its old position,
    // too: they count once.
    let mut left: Vec<ValueExtent> = Vec::new();
    replayed.dedup_by(|later, before| {
        let is_same = later.key == before.key && later.entry.sequence == before.entry.sequence;
        if is_same {
            let places = before.entry.extents().iter();
            left.extend(places.filter(|place| !later.entry.extents().contains(place)));
            std::mem::swap(later, before);
        }
        is_same
    });
    if core.config.defect.has(Defect::OlderRecord) {
        replayed.reverse();
    }
    {
        let state = &mut *core.state.borrow_mut();
        state.slots.restore(manifest.number);
        let is_exact = manifest.numbers.is_exact && replayed.is_empty();
        debug_assert!(next_sequence >= manifest.numbers.next_sequence, "records after a manifest are newer");
        state.segments.restore(values, version.slices().map(|slice| slice.table.segment));
        left.iter().for_each(|place| state.segments.mark_dead(&state.layout, place));
        state.index.restore(version, Numbers { next_sequence, is_exact, ..manifest.numbers });
        state.counters.records_torn += torn;
        state.counters.records_replayed += replayed.len() as u64;
    }
    for Replayed { key, entry, .. } in replayed {
        // The store knew what this entry replaced, and had counted that as dead.
        let old = match entry.settles {
            0 => None,
            _ => find(core, SpanId::NONE, spans, &key).await?.entry,
        };
        let state = &mut *core.state.borrow_mut();
        let State { segments, layout, .. } = state;
        let dead = old.iter().flat_map(Entry::extents).filter(|place| !entry.extents().contains(place));
        dead.for_each(|place| segments.mark_dead(layout, place));
        state.insert(key, entry);
    }
    Ok(())
}

/// Reads a table's fences and filter. The filter is dropped if it exceeds `filter_bytes`, the DRAM left for
/// filters.
async fn load_table(
    core: &Core,
    spans: &Spans,
    table: &Table,
    filter_bytes: &mut u64,
) -> Result<Table, KvError> {
    let mut table = table.clone();
    let units = table.data_units.saturating_add(table.meta_units());
    if table.segment >= core.layout.segments || units > core.layout.segment_units {
        return Err(KvError::Media(MediaError::Unreadable));
    }
    let first = core.layout.first(table.segment) + u64::from(table.data_units);
    let mut contents = Vec::new();
    core.units.read(SpanId::NONE, spans, first, table.meta_units(), &mut contents).await?;
    let meta: Vec<u8> = contents.iter().flat_map(|content| *bytes_of(content)).collect();
    if !table.load(&meta, core.config.filter_bits_per_key) {
        return Err(KvError::Media(MediaError::Unreadable));
    }
    let bytes = table.filter.as_ref().map_or(0, |filter| filter.bytes());
    match filter_bytes.checked_sub(bytes) {
        Some(left) => *filter_bytes = left,
        None => table.filter = None,
    }
    Ok(table)
}

/// Reads the record table of a segment that the manifest names, or of one of its pool that was opened since.
/// Returns the segment's new state; `None` if it holds no records.
async fn scan(
    core: &Core,
    spans: &Spans,
    segment: u32,
    info: Option<ValueSegment>,
    mount: u32,
    journal: &mut Journal,
) -> Result<Option<ValueSegment>, KvError> {
    let mut found = info.unwrap_or_default();
    let most = match info {
        Some(info) if !info.is_open => info.table_units,
        _ => core.layout.segment_units,
    };
    (found.is_open, found.table_units, found.records) = (false, 0, 0);
    let mut window = Window::default();
    journal.scanned.insert(segment);
    let mut contents = Vec::new();
    for index in 0..most {
        contents.clear();
        let unit = core.layout.table_unit(segment, index);
        core.units.read(SpanId::NONE, spans, unit, 1, &mut contents).await?;
        let bytes = bytes_of(&contents[0]);
        let Some((head, records)) = Head::open(&bytes, core.config.uid) else { break };
        let is_of_life = match info.is_some() || index > 0 {
            true => head.generation == found.generation,
            false => (head.generation >> 32) as u32 == mount,
        };
        let follows = head.segment == segment && head.index == index && head.first_record == found.records;
        if !is_of_life || !follows {
            break;
        }
        // Only the first unit of a newly opened segment decides its generation; the others must share it.
        found.generation = head.generation;
        for (number, (key, entry)) in (head.first_record..).zip(records) {
            if !core.layout.holds(&entry) {
                core.state.borrow_mut().counters.records_torn += 1;
                continue;
            }
            journal.next_sequence = journal.next_sequence.max(entry.sequence + 1);
            let own = entry.extents().iter().filter(|place| place.segment == segment);
            journal.present.extend(own.map(|place| (segment, place.offset)));
            // Covered records are already in tables; they only prove that their value has a record here.
            if number < found.covered {
                continue;
            }
            if !is_whole(core, spans, &entry, &mut window).await? {
                core.state.borrow_mut().counters.records_torn += 1;
                continue;
            }
            let age = (head.generation, number);
            journal.records.push(Replayed { key, entry, age });
        }
        found.records = head.first_record + u32::from(head.count);
        found.table_units = index + 1;
    }
    if info.is_none_or(|info| info.is_open) {
        // It is closed here, so the space that was not filled counts as slack.
        let pairs = u64::from(found.records) * u64::from(core.layout.footprint(64));
        found.slack = u64::from(core.layout.segment_bytes()).saturating_sub(pairs) as u32 / 2;
    }
    Ok((found.table_units > 0).then_some(found))
}

/// Whether a record's value matches its checksum. A value that flash can't read counts as whole: it was written,
/// and is lost.
async fn is_whole(core: &Core, spans: &Spans, entry: &Entry, window: &mut Window) -> Result<bool, KvError> {
    if core.config.defect.has(Defect::TrustTorn) {
        return Ok(true);
    }
    for place in entry.extents() {
        match checksum(core, spans, place, window).await {
            Ok(crc) if crc == place.crc => {}
            Ok(_) => return Ok(false),
            Err(KvError::Media(MediaError::Unreadable)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

/// CRC-32C of an extent, read through `window`.
async fn checksum(
    core: &Core,
    spans: &Spans,
    place: &ValueExtent,
    window: &mut Window,
) -> Result<u32, KvError> {
    let mut crc = 0;
    let mut at = place.offset;
    let mut part = [0; UNIT_BYTES];
    while at < place.end() {
        let unit = at / UNIT;
        let is_there = window.segment == place.segment
            && unit.checked_sub(window.first).is_some_and(|index| (index as usize) < window.contents.len());
        if !is_there {
            let count = WINDOW_UNITS.min(core.layout.segment_units - unit);
            window.contents.clear();
            (window.segment, window.first) = (place.segment, unit);
            let first = core.layout.first(place.segment) + u64::from(unit);
            let read = core.units.read(SpanId::NONE, spans, first, count, &mut window.contents).await;
            if read.is_err() {
                window.contents.clear();
            }
            read?;
        }
        let stop = place.end().min((unit + 1) * UNIT);
        let bytes = &mut part[..(stop - at) as usize];
        window.contents[(unit - window.first) as usize].write_part((at % UNIT) as usize, bytes);
        crc = crc32c::crc32c_append(crc, bytes);
        at = stop;
    }
    Ok(crc)
}
