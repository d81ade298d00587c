//! Flushes: a full memtable becomes tables. And tables as they are built, by flushes and by merges.

use super::commit::{Change, commit};
use super::config::KvError;
use super::core::Core;
use super::key::Key;
use super::memtable::Memtable;
use super::table::{Builder, Slice};
use byteway_clock::Spans;
use byteway_content::Content;
use byteway_firmware::WorkKind;
use std::cell::RefCell;
use std::rc::Rc;

/// Units of a table that are written in one request.
const WRITE_UNITS: usize = 16;

/// Flushes the oldest full memtable to tables.
pub(super) async fn flush_memtable(core: &Core, spans: &Spans) -> Result<(), KvError> {
    let Some(memtable) = core.state.borrow().index.oldest().cloned() else { return Ok(()) };
    let count = memtable.borrow().len() as u64;
    core.placement.run(WorkKind::Compact, count).await;
    let (mut run, mut builder) = (Vec::new(), None);
    if let Err(error) = build_run(core, spans, &memtable, &mut run, &mut builder).await {
        abandon(core, run.iter().map(|slice| slice.table.segment).chain(builder.map(|it| it.segment())));
        return Err(error);
    }
    let (version, tally) = {
        let state = core.state.borrow();
        let mut version = (**state.index.version()).clone();
        if !run.is_empty() {
            version.waiting.insert(0, run);
        }
        (version, memtable.borrow().tally())
    };
    let change =
        Change { version: Some(version), tally, is_flush: true, with_logs: true, ..Change::default() };
    commit(core, spans, change).await?;
    core.state.borrow_mut().counters.memtables_flushed += 1;
    Ok(())
}

/// Writes a memtable's entries as tables. If this fails, `open` is the table that is incomplete.
async fn build_run(
    core: &Core,
    spans: &Spans,
    memtable: &RefCell<Memtable>,
    run: &mut Vec<Slice>,
    open: &mut Option<Builder>,
) -> Result<(), KvError> {
    let mut from = Some(Key::FIRST);
    while let Some(begin) = from {
        let builder = open.insert(builder(core)?);
        from = None;
        // One batch at a time: a full memtable does not change, but no borrow may be held while units are written.
        let mut next = Some(begin);
        while let Some(at) = next.take() {
            for (key, entry) in memtable.borrow().from(&at) {
                if !builder.add(key, entry) {
                    from = Some(*key);
                    break;
                }
                if builder.waiting() >= WRITE_UNITS {
                    next = key.next();
                    break;
                }
            }
            write_units(core, spans, builder, false).await?;
        }
        if let Some(builder) = open.take() {
            run.extend(end_table(core, spans, builder, false).await?);
        }
    }
    Ok(())
}

/// Frees the segments of tables that no manifest will name.
pub(super) fn abandon(core: &Core, segments: impl Iterator<Item = u32>) {
    let mut state = core.state.borrow_mut();
    segments.for_each(|segment| state.segments.give_back(segment));
}

/// Starts a table, in a segment of its own.
pub(super) fn builder(core: &Core) -> Result<Builder, KvError> {
    let mut state = core.state.borrow_mut();
    let segment = state.segments.take().ok_or(KvError::CapacityExceeded)?;
    let number = state.index.take_table_number();
    let config = &core.config;
    Ok(Builder::new(number, segment, core.layout.segment_units, config.filter_bits_per_key, config.seed))
}

/// Writes the full units of a table.
pub(super) async fn write_units(
    core: &Core,
    spans: &Spans,
    builder: &mut Builder,
    is_merge: bool,
) -> Result<(), KvError> {
    if builder.waiting() == 0 {
        return Ok(());
    }
    let mut contents: Vec<Content> = core.take_contents();
    let at = builder.take(&mut contents);
    let count = contents.len() as u64;
    let first = core.layout.first(builder.segment()) + u64::from(at);
    let written = core.units.write(spans, first, &mut contents).await;
    core.give_contents(contents);
    written?;
    let counters = &mut core.state.borrow_mut().counters;
    match is_merge {
        true => counters.index_units_compacted += count,
        false => counters.index_units_flushed += count,
    }
    Ok(())
}

/// Ends a table. `None` if it has no entries.
pub(super) async fn end_table(
    core: &Core,
    spans: &Spans,
    mut builder: Builder,
    is_merge: bool,
) -> Result<Option<Slice>, KvError> {
    let left = core.state.borrow().index.filter_bytes_left(core.config.filter_bytes);
    let Some(table) = builder.finish(left) else {
        core.state.borrow_mut().segments.give_back(builder.segment());
        return Ok(None);
    };
    write_units(core, spans, &mut builder, is_merge).await?;
    let mut state = core.state.borrow_mut();
    state.index.add_filter(table.filter.as_ref().map_or(0, |filter| filter.bytes()));
    let from = table.first;
    Ok(Some(Slice { table: Rc::new(table), from }))
}
