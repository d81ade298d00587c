//! Checkpoints: persist the map, so that recovery needs to scan only what came later.
//!
//! The host and the collectors continue meanwhile. A checkpoint covers what was settled when it began: every
//! translation page that was dirty then is captured afterwards, so the pages together hold everything up to
//! that point, and everything later is in stripes that were unfinished then. The root names the first of
//! these, and recovery takes what it finds in them by sequence number, whether or not a page reflects it
//! already. Pages that change later are left to the next checkpoint: each written page takes space, which
//! moves units, which changes further pages.
//!
//! Collectors leave stripes unfinished while they have nothing to move. The root names those one by one, so
//! that the first stripe does not wait for them.

use crate::ftl::config::Defect;
use crate::ftl::config::MediaError;
use crate::ftl::core::Core;
use crate::ftl::journal::root::{PageRun, Root};
use crate::ftl::journal::writer::journal_moved;
use crate::ftl::map::table::{Entry, EntryKind};
use crate::ftl::paging::clean::read_away;
use crate::ftl::paging::reach::read_back;
use crate::ftl::state::State;
use crate::ftl::write::buffering::buffer_page;
use crate::ftl::write::dispatch::dispatch;
use crate::ftl::write::settle::{settle_parts, settle_units};
use std::rc::Rc;

/// The task that writes checkpoints.
pub(in crate::ftl) async fn run(core: Rc<Core>) {
    loop {
        core.signals.checkpoint.notified().await;
        loop {
            let Some(next) = core.state.borrow_mut().checkpoints.next() else { break };
            let (turn, is_shutdown) = next;
            if is_shutdown && core.config.defect.has(Defect::StallShutdown) {
                std::future::pending::<()>().await;
            }
            let written = write_checkpoint(&core, is_shutdown).await;
            core.state.borrow_mut().checkpoints.end(turn, is_shutdown, written.err());
            core.signals.settled.notify_all();
        }
    }
}

/// Runs of the translation pages in flash.
fn page_runs(state: &State) -> Vec<PageRun> {
    let mut runs: Vec<PageRun> = Vec::new();
    let units = state.map.pages.unit(0)..state.map.pages.unit(state.map.pages.count());
    state.map.table().each_changed(units, |unit, entry| {
        let page = (unit - state.map.pages.unit(0)) as u32;
        let place = state.buffer.in_flash(entry);
        match (place.kind(), runs.last_mut()) {
            (EntryKind::Base | EntryKind::Slot(_) | EntryKind::Lost, _) => {}
            (EntryKind::Unmapped, Some(last)) if last.place == place && last.first + last.count == page => {
                last.count += 1;
            }
            _ => runs.push(PageRun { first: page, count: 1, place }),
        }
    });
    runs
}

/// Whether the last root is still complete and up to date.
fn is_as_written(state: &State) -> bool {
    state.checkpoints.is_as_written()
        && state.buffer.used() == 0
        && state.parts.len() == 0
        && state.journal.is_empty()
        && state.map.pages.dirty().next().is_none()
}

/// Units that hosts have written and deallocated.
fn host_changes(state: &State) -> (u64, u64) {
    (state.counters.user_units_written, state.counters.units_deallocated)
}

/// Writes everything to flash, and a checkpoint unless nothing is new. The checkpoint task does the
/// writing, so it completes even if the caller is dropped by a reset.
///
/// # Errors
/// [`MediaError::WriteProtected`] at the end of life, if flash has no free space; there is no checkpoint
/// then.
pub(in crate::ftl) async fn shut_down(core: &Core) -> Result<(), MediaError> {
    // A checkpoint in progress may not cover what was settled since it began.
    while core.state.borrow().checkpoints.is_pending() {
        core.signals.settled.notified().await;
    }
    let turn = core.state.borrow_mut().checkpoints.ask_for_shutdown();
    core.signals.checkpoint.notify_one();
    while !core.state.borrow().checkpoints.has_ended(turn) {
        core.signals.settled.notified().await;
    }
    core.state.borrow().checkpoints.failure().map_or(Ok(()), Err)
}

/// Writes a checkpoint of everything settled at its start. It first settles a little more, so that
/// present journal records are covered.
///
/// # Errors
/// [`MediaError::WriteProtected`] at the end of life, since the pages need space. The last root then
/// stays in force.
async fn write_checkpoint(core: &Core, is_clean: bool) -> Result<(), MediaError> {
    if is_clean {
        settle_parts(core).await?;
        if is_as_written(&core.state.borrow()) {
            return Ok(());
        }
    }
    check_checkpoints(core)?;
    settle_units(core).await?;
    // All fields of the root, and the set of dirty pages, are taken in one step: the root must cover
    // exactly what these pages reflect.
    let (mut root, dirty, given) = {
        let mut guard = core.state.borrow_mut();
        let state = &mut *guard;
        let root = Root {
            settled: state.buffer.settled(),
            first_stripe: state.filling.first_unfinished(&state.buffer),
            is_clean,
            moving: state.collecting.moving().map(|(block, stripe)| (block.0, stripe)).collect(),
            ..state.checkpoints.begin(&state.counters)
        };
        state.journal.seal(root.settled);
        (root, state.map.pages.dirty(), host_changes(state))
    };
    for page in dirty {
        if !core.state.borrow().map.pages.is_dirty(page) || is_marked(core, page) {
            continue;
        }
        read_away(core, &[page]).await;
        read_back(core, page).await;
        let permit = core.slots(1).await?;
        let taken = buffer_page(&mut core.state.borrow_mut(), page, core.config.keep);
        permit.forget();
        core.room.give_back(u32::from(!taken));
        dispatch(core);
    }
    // The root may name a page only once it is programmed.
    settle_units(core).await?;
    check_checkpoints(core)?; // the end of life may have come meanwhile
    let bytes = {
        let state = core.state.borrow();
        root.pages = page_runs(&state);
        // What came meanwhile is not in the pages.
        root.is_clean &= given == host_changes(&state);
        (root.next_sequence, root.next_number) = (state.buffer.next_sequence(), state.filling.next_number());
        debug_assert!(root.first_stripe <= root.next_number && root.settled <= root.next_sequence);
        root.encode()
    };
    core.flash.write_root((root.generation % 2) as usize, bytes).await;
    // Only now: a cut before this point must find the records in the journal.
    let mut guard = core.state.borrow_mut();
    let state = &mut *guard;
    debug_assert!(root.settled <= state.buffer.settled(), "what was settled stays settled");
    state.checkpoints.written(&root);
    state.counters.checkpoints += 1;
    core.flash.cut_journal(state.journal.pass(root.settled));
    drop(guard);
    journal_moved(core);
    Ok(())
}

/// Fails if no further checkpoint is possible.
fn check_checkpoints(core: &Core) -> Result<(), MediaError> {
    if core.state.borrow().checkpoints.is_over() { Err(MediaError::WriteProtected) } else { Ok(()) }
}

/// Whether a page of unmapped units that is not in flash is recorded as a mark in the root instead.
fn is_marked(core: &Core, page: u32) -> bool {
    let mut guard = core.state.borrow_mut();
    let state = &mut *guard;
    let unit = state.map.pages.unit(page);
    let entry = state.map.get(unit);
    let is_blank = matches!(entry, Entry::BASE | Entry::UNMAPPED)
        && state.map.table().is_blank(state.map.pages.units(page));
    if is_blank {
        let die = state.blocks.lose(&core.base, unit, entry);
        die.inspect(|die| core.collectors.call(*die));
        state.map.unmap(unit);
        state.map.written(page);
    }
    is_blank
}
