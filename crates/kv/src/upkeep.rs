//! The upkeep task: it flushes memtables, merges tables, collects segments and writes manifests. One task does all of
//! it, so no two changes of the tables interleave.
//!
//! A task for each kind of work would let flushes run while a merge does, but every change of the tables would then
//! have to be made again on the version that another one has published meanwhile. Instead a long merge looks up between
//! two tables and does what is more urgent (`compact`).

use super::collect::collect_if_readable;
use super::commit::{Change, commit};
use super::compact::{compact_if_due, merge_all};
use super::config::KvError;
use super::core::Core;
use super::flush::flush_memtable;
use super::recover::recover;
use super::space::{refill, release};
use super::version::Version;
use byteway_clock::{SpanId, Spans};
use byteway_firmware::MediaError;
use std::rc::Rc;

/// Flushes stop, and only merges proceed, when this many times `l0_runs` runs wait to be merged.
const RUNS_BEHIND: usize = 4;

/// Recovers the store, then does background work until the store is stopped.
pub(super) async fn run(core: Rc<Core>) {
    let spans = Spans::default();
    if let Err(error) = recover(&core, &spans).await {
        core.state.borrow_mut().standing.lose();
        fail_with(&core, error);
    } else if let Err(error) = commit(&core, &spans, Change::default()).await {
        fail_with(&core, error);
    }
    core.is_ready.set(true);
    core.readied.notify_all();
    loop {
        match do_next(&core, &spans).await {
            Ok(true) => {}
            Ok(false) => core.upkeep.notified().await,
            Err(KvError::CapacityExceeded) => {
                report_no_space(&core);
                core.upkeep.notified().await;
            }
            Err(error) => fail_with(&core, error),
        }
    }
}

fn fail_with(core: &Core, error: KvError) {
    match error {
        KvError::Media(error) => core.fail(error),
        _ => core.fail(MediaError::Unreadable),
    }
}

/// Reports to all waiting operations that no space can be gained, until a reader ends or something changes.
fn report_no_space(core: &Core) {
    let mut state = core.state.borrow_mut();
    state.wants.deny();
    state.exhaust();
    drop(state);
    core.changed.notify_all();
}

/// Does the most urgent work. False if there is none.
async fn do_next(core: &Core, spans: &Spans) -> Result<bool, KvError> {
    let (wanted, done) = core.formats.get();
    if wanted > done {
        let formatted = do_format(core, spans).await;
        core.state.borrow_mut().standing.set_formatting(false);
        // Further formats may have been requested meanwhile.
        core.formats.set((core.formats.get().0, wanted));
        core.changed.notify_all();
        return formatted.map(|()| true);
    }
    if core.state.borrow().standing.has_failed() {
        return Ok(false);
    }
    if release(core, spans).await? {
        return Ok(true);
    }
    // Without this limit a host that is faster than merges would pile up runs: each takes segments, and every
    // look-up searches each.
    let is_exhausted = core.state.borrow().is_exhausted();
    let waiting = core.state.borrow().index.version().waiting.len();
    if waiting > RUNS_BEHIND * core.config.l0_runs as usize && !is_exhausted {
        return compact_if_due(core, spans).await;
    }
    if core.state.borrow().index.full() > 0 {
        flush_memtable(core, spans).await?;
        return Ok(true);
    }
    if refill(core, spans).await? {
        return Ok(true);
    }
    if !is_exhausted && compact_if_due(core, spans).await? {
        return Ok(true);
    }
    if is_space_low(core) {
        return reclaim(core, spans).await;
    }
    answer_space_requests(core);
    if core.state.borrow().wants.wants_sums() {
        return merge_all(core, spans).await;
    }
    Ok(false)
}

/// Whether space must be reclaimed before it runs out.
fn is_space_low(core: &Core) -> bool {
    let state = core.state.borrow();
    let segments = &state.segments;
    let low = core.layout.reserve + (core.layout.segments / 64).max(2);
    let blocked = segments.freeing();
    segments.free() <= low
        && !state.is_exhausted()
        && (blocked <= core.layout.reserve / 2 || segments.free() > core.layout.reserve / 2)
}

/// Makes operations that wait for space try again. If none was gained, they fail.
fn answer_space_requests(core: &Core) {
    let mut state = core.state.borrow_mut();
    // If readers hold space back, the end of a reader wakes this task again.
    if state.wants.wants_space() && !state.is_read() {
        state.wants.answer_space();
        if state.segments.free() <= core.layout.reserve {
            state.exhaust();
        }
        drop(state);
        core.changed.notify_all();
    }
}

/// Frees a segment, or merges tables to learn which segments hold dead values.
async fn reclaim(core: &Core, spans: &Spans) -> Result<bool, KvError> {
    let segment_bytes = core.layout.segment_bytes();
    let victim = core.state.borrow().segments.victim(&core.layout);
    if let Some((segment, gain)) = victim
        && gain >= segment_bytes / 4
    {
        collect_if_readable(core, spans, segment).await?;
        return Ok(true);
    }
    if merge_all(core, spans).await? {
        return Ok(true);
    }
    match victim {
        Some((segment, gain)) if gain >= segment_bytes / 24 => {
            collect_if_readable(core, spans, segment).await?
        }
        _ => {
            let mut state = core.state.borrow_mut();
            state.exhaust();
            drop(state);
            core.changed.notify_all();
        }
    }
    Ok(true)
}

/// Erases a store whose contents are unknown, even which manifest is the newest. The manifests go last, so that a
/// power cut never leaves one that names erased tables.
async fn wipe(core: &Core, spans: &Spans) -> Result<(), KvError> {
    let manifests = 2 * u64::from(core.layout.manifest_units);
    for (first, count) in [(manifests, core.layout.units() - manifests), (0, manifests)] {
        core.units.trim(spans, first, count).await?;
        core.units.ftl().flush(SpanId::NONE, spans).await?;
    }
    Ok(())
}

/// Deletes everything: the deletion takes effect when its manifest is durable. On failure the store is unchanged,
/// readable, and saved by capacitors as before. Without capacitors it is then unknown which manifest will be the
/// newest after a power cut.
async fn do_format(core: &Core, spans: &Spans) -> Result<(), KvError> {
    core.state.borrow_mut().standing.set_formatting(true);
    while core.state.borrow().is_writing() {
        core.changed.notified().await;
    }
    if core.units.ftl().health().is_read_only {
        return Err(KvError::Media(MediaError::WriteProtected));
    }
    if core.state.borrow().standing.is_lost() {
        wipe(core, spans).await?;
        core.state.borrow_mut().segments.clear();
    }
    let (given_up, manifest) = {
        let state = core.state.borrow();
        (state.segments.in_use(), state.slots.newest())
    };
    let change = Change { version: Some(Version::default()), given_up, is_format: true, ..Change::default() };
    commit(core, spans, change).await.inspect_err(|_| {
        let mut state = core.state.borrow_mut();
        if state.slots.newest() > manifest && !core.config.plp {
            state.standing.lose();
        }
    })?;
    release(core, spans).await?;
    core.state.borrow_mut().wants.ask_for_pool();
    Ok(())
}
