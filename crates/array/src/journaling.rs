//! Journaling: writes of degraded stripes go into the journal before they are carried out, and are replayed at assembly.

use crate::config::{Defect, Level};
use crate::core::Core;
use crate::counters::Cause;
use crate::durable::{flush_members, write_superblocks};
use crate::gate::Stopped;
use crate::group::{Group, Verb};
use crate::journal::{Entry, Form, decode, encode};
use byteway_clock::SpanId;

/// Makes the writes of `group`, all of one stripe, durable in the journal. They must then be carried out
/// before the result is dropped.
pub(crate) async fn journal_entry<'a>(
    core: &'a Core,
    span: SpanId,
    stripe: u64,
    group: &Group,
) -> Result<Option<Entry<'a>>, Stopped> {
    if core.config.defect.has(Defect::NoJournal) || core.layout.level != Level::Raid5 {
        return Ok(None);
    }
    let journal = &core.journal;
    let units = 1 + group.pieces.borrow()[..group.len()].iter().map(|piece| piece.count).sum::<u64>();
    let turn = journal.turn().await;
    if !journal.fits(units, core.area.journal_units) {
        empty_journal(core).await?;
    }
    debug_assert!(journal.fits(units, core.area.journal_units), "an empty journal takes a whole stripe");
    let (entry, number, at) = journal.begin(units);
    drop(turn);
    let slot = core.slots.borrow().journal_slot().ok_or(Stopped::Broken)?;
    debug_assert!(
        group.pieces.borrow()[..group.len()].iter().all(|piece| piece.first / core.layout.chunk == stripe),
        "an entry is of one stripe"
    );
    let log = core.group(span, false);
    let entry_of = |contents: &mut Vec<_>| encode(&core.config.uuid, number, stripe, group, contents);
    log.add(slot, Verb::Write(true), core.area.journal + at, units, entry_of);
    core.exchange(&log, Cause::Log).await;
    core.counting.count(|counters| counters.journal_entries += 1);
    if core.is_broken() { Err(Stopped::Broken) } else { Ok(Some(entry)) }
}

/// Makes all entries obsolete. The caller has the turn.
async fn empty_journal(core: &Core) -> Result<(), Stopped> {
    core.journal.drain().await;
    flush_members(core, SpanId::NONE).await;
    core.journal.forget();
    write_superblocks(core).await;
    core.journal.rewind();
    if core.is_broken() { Err(Stopped::Broken) } else { Ok(()) }
}

/// Replays the journaled writes of stripes that `states` cannot repair, and empties the journal.
pub(crate) async fn replay(core: &Core) {
    let Some(slot) = core.slots.borrow().journal_slot() else { return };
    let group = core.group(SpanId::NONE, false);
    let (index, _) = group.add_read(slot, core.area.journal, core.area.journal_units);
    if !core.exchange(&group, Cause::Log).await {
        return; // only if the array is broken
    }
    let mut contents = Vec::new();
    group.take(index, 0, core.area.journal_units as usize, |_, content| contents.push(content));
    drop(group);
    let form =
        Form { uuid: &core.config.uuid, members: core.layout.members, data_units: core.area.data_units };
    let mut entries = Vec::new();
    let mut at = 0;
    while at < contents.len() {
        let entry = decode(&form, &contents[at..]).filter(|entry| entry.number >= core.journal.from());
        at += entry.as_ref().map_or(1, |entry| entry.units);
        if let Some(entry) = entry {
            entries.push((entry, at));
        }
    }
    entries.sort_by_key(|(entry, _)| entry.number);
    for (entry, end) in &entries {
        core.journal.pass(entry.number);
        if !core.is_degraded(entry.stripe) {
            continue; // rebuilt since: its region's mark decides about repair
        }
        let group = core.group(SpanId::NONE, false);
        let mut from = end - entry.units + 1;
        for (slot, first, count) in &entry.runs {
            let run = &contents[from..from + *count as usize];
            if core.has(*slot, entry.stripe) {
                group.add_write(*slot, *first, false, run.iter().cloned());
            }
            from += *count as usize;
        }
        core.exchange(&group, Cause::Repair).await;
        core.counting.count(|counters| counters.journal_replayed += 1);
    }
    flush_members(core, SpanId::NONE).await;
    core.journal.forget();
}
