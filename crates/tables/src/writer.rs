//! The writer task: recovers the catalog from flash, then makes changes one at a time.

use crate::catalog::{Catalog, Group, HEADER_BYTES, NewGroup, Table, TableId};
use crate::config::{Defect, TablesError, UnitExtent, units_of};
use crate::core::{Change, Core, Request};
use byteway_clock::{SpanId, Spans};
use byteway_content::UNIT_BYTES;
use byteway_firmware::MediaError;
use std::rc::Rc;

const NAME_BYTES_MAX: usize = 255;

pub(crate) async fn run(core: Rc<Core>) {
    let spans = Spans::default();
    if let Err(error) = recover(&core, &spans).await {
        // The catalog could not be read, so its tables are unknown: no change may overwrite them.
        let mut state = core.state.borrow_mut();
        (state.unknown, state.failed) = (Some(error), Some(error));
    }
    core.is_ready.set(true);
    core.changed.notify_all();
    loop {
        let request = core.state.borrow_mut().requests.pop_front();
        let Some(Request { change, answer }) = request else {
            core.asked.notified().await;
            continue;
        };
        let failed = core.state.borrow().failed;
        let made = match failed {
            Some(error) => Err(error.into()),
            None => make(&core, &spans, change).await,
        };
        answer.set(Some(made));
        core.changed.notify_all();
        core.give_back(&spans).await;
    }
}

/// Chooses the newest copy of the catalog that is readable and valid. If neither slot holds one, the store is empty.
///
/// A change is acknowledged once both copies have it. If flash cannot return one copy, the other holds the last acknowledged change, or one
/// change more. The lost copy is rewritten at once, so that a later recovery finds the same state even if the copy used now is lost.
async fn recover(core: &Core, spans: &Spans) -> Result<(), MediaError> {
    let mut newest: Option<(u64, Catalog)> = None;
    let (mut unreadable, mut bytes, mut numbers) = (None, Vec::new(), [None; 2]);
    for slot in 0..2 {
        bytes.clear();
        match read_slot(core, spans, slot, &mut bytes).await {
            Err(error) => unreadable = Some(error),
            Ok(()) => {
                let found = Catalog::from_bytes(&bytes, core.config.uid, core.config.units());
                numbers[slot as usize] = found.as_ref().map(|found| found.number);
                if let Some(found) = found
                    && newest.as_ref().is_none_or(|(_, newest)| newest.number < found.number)
                {
                    newest = Some((slot, found));
                }
            }
        }
    }
    let Some((slot, catalog)) = newest else { return unreadable.map_or(Ok(()), Err) };
    let claimed = {
        let mut state = core.state.borrow_mut();
        let groups = catalog.tables.values().flat_map(|table| table.groups.iter());
        groups.flat_map(|group| &group.extents).all(|extent| state.space.claim(*extent))
    };
    if !claimed {
        return Err(MediaError::Unreadable); // two row groups cannot share a unit
    }
    let repaired = match numbers[0] == numbers[1] {
        true => Ok(()),
        false => write_slot(core, spans, 1 - slot, &catalog.to_bytes(core.config.uid)).await,
    };
    let mut state = core.state.borrow_mut();
    state.catalog = catalog;
    // Tables stay readable with one copy, but no change may be made.
    state.failed = repaired.err();
    Ok(())
}

async fn read_slot(core: &Core, spans: &Spans, slot: u64, bytes: &mut Vec<u8>) -> Result<(), MediaError> {
    let first = slot * core.slot_units;
    core.range.read(SpanId::NONE, spans, first, 1, bytes).await?;
    let Some((all, _)) = Catalog::header(bytes, core.config.uid) else { return Ok(()) };
    let units = units_of(all);
    if units > 1 && units <= core.slot_units {
        core.range.read(SpanId::NONE, spans, first + 1, units - 1, bytes).await?;
    }
    Ok(())
}

async fn make(core: &Core, spans: &Spans, change: Change) -> Result<u64, TablesError> {
    let mut next = core.state.borrow().catalog.clone();
    next.number += 1;
    let mut retired = Vec::new();
    let answer = match change {
        Change::Create { name, schema } => {
            if name.is_empty() || name.len() > NAME_BYTES_MAX {
                return Err(TablesError::Name);
            }
            if next.find(&name).is_some() {
                return Err(TablesError::Exists);
            }
            if next.tables.len() >= core.config.tables_max as usize {
                return Err(TablesError::TooMany);
            }
            let id = TableId(next.next_id);
            next.next_id += 1;
            next.tables.insert(id, Table { id, name, schema, groups: Rc::default() });
            u64::from(id.0)
        }
        Change::Drop { id } => {
            let table = next.tables.remove(&id).ok_or(TablesError::NotFound)?;
            retired.extend(table.groups.iter().cloned());
            0
        }
        Change::Append { id, groups } => return append(core, spans, next, id, &groups).await,
        Change::Format => {
            let tables = std::mem::take(&mut next.tables);
            retired.extend(tables.values().flat_map(|table| table.groups.iter().cloned()));
            0
        }
    };
    commit(core, spans, next).await?;
    core.state.borrow_mut().retired.extend(retired);
    Ok(answer)
}

/// `next` is the catalog without the new row groups.
async fn append(
    core: &Core,
    spans: &Spans,
    mut next: Catalog,
    id: TableId,
    groups: &[NewGroup],
) -> Result<u64, TablesError> {
    let table = next.tables.get(&id).ok_or(TablesError::NotFound)?.clone();
    let added = Added::take(core, groups)?;
    let with_first = |next: &Catalog, count: usize| {
        let all = table.groups.iter().chain(&added.groups[..count]).cloned().collect();
        let mut next = next.clone();
        next.tables.insert(id, Table { groups: Rc::new(all), ..table.clone() });
        next
    };
    match core.config.defect.get() {
        None => {}
        Some(Defect::CatalogFirst) => {
            commit(core, spans, with_first(&next, groups.len())).await?;
            next.number += 1;
        }
        Some(Defect::OneByOne) => {
            for (index, (group, new)) in added.groups.iter().zip(groups).enumerate() {
                write_group(core, spans, group, new).await?;
                commit(core, spans, with_first(&next, index + 1)).await?;
                next.number += 1;
            }
        }
    }
    for (group, new) in added.groups.iter().zip(groups) {
        write_group(core, spans, group, new).await?;
    }
    core.range.flush(spans).await?;
    let next = with_first(&next, groups.len());
    let rows = next.tables.get(&id).map_or(0, Table::rows);
    commit(core, spans, next).await?;
    added.keep();
    Ok(rows)
}

/// New row groups and their allocated units. Dropping this frees the units unless the groups are kept.
struct Added<'a> {
    core: &'a Core,
    groups: Vec<Rc<Group>>,
    is_kept: bool,
}

impl<'a> Added<'a> {
    fn take(core: &'a Core, groups: &[NewGroup]) -> Result<Added<'a>, TablesError> {
        let mut added = Added { core, groups: Vec::with_capacity(groups.len()), is_kept: false };
        for new in groups {
            let (meta_bytes, data_bytes) = (new.meta.len() as u32, new.data.len() as u64);
            let units = units_of(meta_bytes.into()) + units_of(data_bytes);
            let extents = core.state.borrow_mut().space.take(units).ok_or(TablesError::NoSpace)?;
            let meta_crc = crc32c::crc32c(&new.meta);
            added.groups.push(Rc::new(Group {
                rows: new.rows,
                meta_bytes,
                data_bytes,
                meta_crc,
                extents,
                meta: Some(new.meta.as_slice().into()).into(),
            }));
        }
        Ok(added)
    }

    fn keep(mut self) {
        self.is_kept = true;
    }
}

impl Drop for Added<'_> {
    fn drop(&mut self) {
        let mut state = self.core.state.borrow_mut();
        // After a failed commit the catalog on flash may name these units: they must not be reused.
        if !self.is_kept && state.failed.is_none() {
            let extents = self.groups.iter().flat_map(|group| &group.extents);
            extents.for_each(|extent| state.space.release(*extent));
        }
    }
}

async fn write_group(core: &Core, spans: &Spans, group: &Group, new: &NewGroup) -> Result<(), MediaError> {
    let mut bytes = new.meta.clone();
    bytes.resize(units_of(bytes.len() as u64) as usize * UNIT_BYTES, 0);
    bytes.extend_from_slice(&new.data);
    let mut left = bytes.as_slice();
    for UnitExtent { first, count } in &group.extents {
        let (now, rest) = left.split_at(left.len().min(*count as usize * UNIT_BYTES));
        core.range.write(spans, *first, now, false).await?;
        left = rest;
    }
    Ok(())
}

/// Commits a catalog: writes both slots, so that the loss of one cannot lose the change. Both are valid before: one is while the other is
/// being written. If only the first can be written, the change is made, but is not acknowledged, and is the last one.
async fn commit(core: &Core, spans: &Spans, next: Catalog) -> Result<(), TablesError> {
    let bytes = next.to_bytes(core.config.uid);
    if units_of(bytes.len() as u64) > core.slot_units {
        return Err(TablesError::CatalogFull);
    }
    let mut written = write_slot(core, spans, 0, &bytes).await;
    if written.is_ok() {
        // The next power-on finds the change, whatever becomes of the second copy.
        core.state.borrow_mut().catalog = next;
        written = write_slot(core, spans, 1, &bytes).await;
    }
    core.state.borrow_mut().failed = written.err();
    Ok(written?)
}

/// Writes a slot, its header last: a valid header implies a complete slot.
async fn write_slot(core: &Core, spans: &Spans, slot: u64, bytes: &[u8]) -> Result<(), MediaError> {
    let first = slot * core.slot_units;
    let (header, rest) = bytes.split_at(bytes.len().min(UNIT_BYTES));
    debug_assert!(header.len() >= HEADER_BYTES);
    if !rest.is_empty() {
        core.range.write(spans, first + 1, rest, true).await?;
    }
    core.range.write(spans, first, header, true).await
}
