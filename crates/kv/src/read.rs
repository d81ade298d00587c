//! What reads: look-ups of keys, units of tables through the cache, values. What is not in flash yet is read from the
//! logs and the queue.

use super::config::KvError;
use super::core::Core;
use super::filter;
use super::index::Lookup;
use super::key::Key;
use super::layout::UNIT;
use super::record::{Entry, ValueExtent};
use super::state::State;
use super::table::{Entries, Table};
use super::units::bytes_of;
use super::version;
use byteway_clock::{SpanId, Spans};
use byteway_content::{Content, UnitBytes};
use byteway_firmware::MediaError;

/// Looks up a key. A tombstone is an entry, too.
pub(super) async fn find(core: &Core, span: SpanId, spans: &Spans, key: &Key) -> Result<Lookup, KvError> {
    let (version, mut found) = {
        let State { standing, index, .. } = &*core.state.borrow();
        standing.check_known()?;
        if let Some(entry) = index.find(key) {
            return Ok(index.found(Some(entry), true));
        }
        (index.version().clone(), index.found(None, false))
    };
    let hash = filter::hash(key, core.config.seed);
    let _pin = core.pin();
    for run in version.runs() {
        let Some(slice) = version::find(run, key) else { continue };
        let table = &slice.table;
        if table.filter.as_ref().is_some_and(|filter| !filter.may_hold(hash)) {
            core.state.borrow_mut().counters.filter_hits += 1;
            continue;
        }
        let Some(unit) = table.unit_of(key) else { continue };
        let bytes = index_unit(core, span, spans, table, unit).await?;
        if let Some(entry) = Entries::find(&bytes, key) {
            if !core.layout.holds(&entry) {
                return Err(KvError::Media(MediaError::Unreadable));
            }
            found.entry = Some(entry);
            return Ok(found);
        }
        core.state.borrow_mut().counters.filter_misses += 1;
    }
    Ok(found)
}

/// Reads one unit of a table, through the cache.
pub(super) async fn index_unit(
    core: &Core,
    span: SpanId,
    spans: &Spans,
    table: &Table,
    unit: u32,
) -> Result<UnitBytes, KvError> {
    let name = table.unit_name(unit);
    {
        let mut state = core.state.borrow_mut();
        if let Some(bytes) = state.cache.get(name) {
            state.counters.cache_hits += 1;
            return Ok(bytes);
        }
        state.counters.index_units_read += 1;
    }
    let mut contents = core.take_contents();
    let first = core.layout.first(table.segment) + u64::from(unit);
    let read = core.units.read(span, spans, first, 1, &mut contents).await;
    let bytes = contents.first().map(bytes_of);
    core.give_contents(contents);
    read?;
    let bytes = bytes.filter(|bytes| Entries::new(bytes, table.number).is_some());
    let bytes = bytes.ok_or(KvError::Media(MediaError::Unreadable))?;
    core.state.borrow_mut().cache.put(name, bytes.clone());
    Ok(bytes)
}

/// Reads units of a segment of the value log, in their current state.
pub(super) async fn log_units(
    core: &Core,
    span: SpanId,
    spans: &Spans,
    segment: u32,
    unit: u32,
    count: u32,
    out: &mut Vec<Content>,
) -> Result<(), MediaError> {
    let first = core.layout.first(segment);
    let resident =
        |unit: u32| core.state.borrow().values.resident(segment, unit).cloned().map(Content::Bytes);
    let mut part = Vec::new();
    let mut next = unit;
    let end = unit + count;
    while next < end {
        if let Some(content) = resident(next) {
            out.push(content);
            next += 1;
            continue;
        }
        let mut stop = next + 1;
        let mut after = None;
        while stop < end {
            after = resident(stop);
            if after.is_some() {
                break;
            }
            stop += 1;
        }
        if stop == unit + count && out.is_empty() {
            core.units.read(span, spans, first + u64::from(next), stop - next, out).await?;
        } else {
            core.units.read(span, spans, first + u64::from(next), stop - next, &mut part).await?;
            out.append(&mut part);
        }
        next = stop;
        if let Some(content) = after {
            out.push(content);
            next += 1;
        }
    }
    Ok(())
}

/// Appends the bytes of a value from `offset` on. A part that is read as a whole is verified against its checksum.
pub(super) async fn read_value(
    core: &Core,
    span: SpanId,
    spans: &Spans,
    entry: &Entry,
    offset: u32,
    bytes_max: u32,
    into: &mut Vec<u8>,
) -> Result<(), KvError> {
    let (mut skip, mut left) = (offset, bytes_max);
    for place in entry.extents() {
        if skip >= place.bytes && place.bytes > 0 {
            skip -= place.bytes;
            continue;
        }
        let count = left.min(place.bytes.saturating_sub(skip));
        if count == 0 {
            break;
        }
        read_place(core, span, spans, place, skip, count, into).await?;
        (skip, left) = (0, left - count);
    }
    Ok(())
}

async fn read_place(
    core: &Core,
    span: SpanId,
    spans: &Spans,
    place: &ValueExtent,
    skip: u32,
    bytes: u32,
    into: &mut Vec<u8>,
) -> Result<(), KvError> {
    let (from, to) = (place.offset + skip, place.offset + skip + bytes);
    let (unit, count) = (from / UNIT, to.div_ceil(UNIT) - from / UNIT);
    let mut contents = core.take_contents();
    let read = log_units(core, span, spans, place.segment, unit, count, &mut contents).await;
    let begin = into.len();
    if read.is_ok() {
        let mut at = from;
        for content in &contents {
            let stop = to.min((at / UNIT + 1) * UNIT);
            let old = into.len();
            into.resize(old + (stop - at) as usize, 0);
            content.write_part((at % UNIT) as usize, &mut into[old..]);
            at = stop;
        }
        core.state.borrow_mut().counters.value_units_read += u64::from(count);
    }
    core.give_contents(contents);
    read?;
    if bytes == place.bytes && crc32c::crc32c(&into[begin..]) != place.crc {
        into.truncate(begin);
        return Err(KvError::Media(MediaError::Unreadable));
    }
    Ok(())
}
