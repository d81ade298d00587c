//! The task that writes the queue to flash, and waits for it.
//!
//! One write at a time, in order: a page that was flushed before it was full is written again in place, and two writes of
//! the same unit under way would race. Parallelism is the translation layer's: a write ends when its buffer has
//! the units.

use super::config::KvError;
use super::core::Core;
use super::log::Written;
use super::state::State;
use byteway_clock::{SpanId, Spans};
use std::rc::Rc;

/// The task that writes the queue to flash, in order.
pub(super) async fn run(core: Rc<Core>) {
    let spans = Spans::default();
    let mut contents = Vec::new();
    loop {
        let first = {
            let State { values, standing, .. } = &mut *core.state.borrow_mut();
            if standing.has_failed() { None } else { values.begin_write(&mut contents) }
        };
        let Some(first) = first else {
            core.queued.notified().await;
            continue;
        };
        let written = core.units.write(&spans, first, &mut contents).await;
        contents.clear();
        // Only now does the write leave the queue: until the write buffer has the units, reads find them there.
        let ended = core.state.borrow_mut().values.end_write(written.is_ok());
        if let Err(error) = written {
            core.fail(error);
            continue;
        }
        let counters = &mut core.state.borrow_mut().counters;
        match ended {
            Some((Written::Page { is_moved: true, .. }, _)) => counters.log_pages_moved += 1,
            Some((Written::Page { is_partial, .. }, _)) => {
                counters.log_pages += 1;
                counters.log_pages_partial += u64::from(is_partial);
            }
            Some((Written::Records, units)) => counters.record_units += units,
            Some((Written::Rest, _)) | None => {}
        }
        core.changed.notify_all();
    }
}

/// Writes everything that the logs hold, and waits until it is durable.
pub(super) async fn flush_logs(core: &Core, span: SpanId, spans: &Spans) -> Result<(), KvError> {
    let is_formatting = || {
        let standing = &core.state.borrow().standing;
        standing.is_formatting() && !standing.is_stopped()
    };
    // A format discards what the logs hold, so nothing is left to write after it.
    while is_formatting() {
        core.changed.notified().await;
    }
    let mark = core.step(|state| state.values.flush());
    written_to(core, mark).await?;
    Ok(core.units.ftl().flush(span, spans).await?)
}

/// Waits until everything queued at the time of the call has been written.
pub(super) async fn drain(core: &Core) -> Result<(), KvError> {
    let mark = core.state.borrow().values.queue().mark();
    written_to(core, mark).await
}

async fn written_to(core: &Core, mark: u64) -> Result<(), KvError> {
    loop {
        {
            let State { standing, values, .. } = &*core.state.borrow();
            standing.check()?;
            if values.queue().is_done_to(mark) {
                return Ok(());
            }
        }
        core.changed.notified().await;
    }
}
