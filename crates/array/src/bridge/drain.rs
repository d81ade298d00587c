//! Draining of a bridge's memory to the members.
//!
//! Draining starts when the memory is half full, or when no write has come for a while, and stops at a
//! quarter, or when it is empty. A batch of runs is written, several in parallel and adjacent whole units in
//! one write; a flush makes it durable, and then the memory releases it.

use crate::bridge::core::Core;
use crate::bridge::nvram::{Run, runs_of};
use byteway_clock::{Delay, SpanId};
use byteway_firmware::MediaError;
use std::rc::Rc;

/// Maximum units of one write: 256 KiB.
const RUN_UNITS: usize = 64;
/// Maximum runs between two flushes.
const BATCH_RUNS: usize = 512;
/// Time without writes after which everything is drained.
const IDLE: Delay = Delay::from_ms(10);

/// The task that decides when and what to drain.
pub(super) async fn run(core: Rc<Core>) {
    let draining = &core.draining;
    loop {
        let (held, capacity) = (core.nvram.borrow().bytes(), core.config.bytes);
        if core.nvram.borrow().drainable() == 0 {
            core.drained.notify_all();
            draining.rest().await;
        } else if held > capacity / 2 || draining.is_emptying() {
            let least = if draining.is_emptying() { 0 } else { capacity / 4 };
            drain_to(&core, least).await;
        } else if draining.is_pause(&core.clock, IDLE).await {
            // A pause in the writes is time to drain everything.
            drain_to(&core, 0).await;
        }
        if draining.is_stuck() {
            // Too many members have failed: the data are kept until they return after a power cycle.
            core.drained.notify_all();
            std::future::pending::<()>().await;
        }
    }
}

/// A task that writes one run after another.
pub(super) async fn work(core: Rc<Core>) {
    let draining = &core.draining;
    loop {
        let mut run = draining.next().await;
        let written = write_run(&core, &mut run).await;
        match written {
            Ok(()) => {}
            // Its stripe, or the rest of its unit, is unreadable.
            Err(MediaError::Unreadable) => core.nvram.borrow_mut().pin(&run),
            Err(_) => draining.be_stuck(),
        }
        draining.end(written.is_ok().then_some(run));
    }
}

/// Drains until the memory holds at most `least` bytes.
async fn drain_to(core: &Core, least: u64) {
    let draining = &core.draining;
    while core.nvram.borrow().bytes() > least && !draining.is_stuck() {
        let runs = choose(core, least);
        if runs.is_empty() {
            break;
        }
        let before = core.nvram.borrow().bytes();
        core.count(|counters| {
            counters.drains += runs.len() as u64;
            counters.units_drained += runs.iter().map(|run| run.contents.len() as u64).sum::<u64>();
        });
        draining.begin(runs, core.config.drain_depth.max(1));
        let done = draining.ended().await;
        if core.array.flush(SpanId::NONE).await.is_err() {
            draining.be_stuck();
        } else {
            let mut nvram = core.nvram.borrow_mut();
            done.iter().for_each(|run| nvram.release(run));
        }
        core.drained.notify_all();
        // Writes that outpace the drain must not keep it here without yielding.
        if core.nvram.borrow().bytes() >= before {
            core.clock.yield_now().await;
        }
    }
}

/// The next runs, from the end of the previous ones.
fn choose(core: &Core, least: u64) -> Vec<Run> {
    let nvram = core.nvram.borrow();
    let (mut runs, mut bytes, mut units) = (Vec::new(), nvram.bytes(), 0);
    while bytes > least && runs.len() < BATCH_RUNS && units < nvram.drainable() {
        let Some(run) = nvram.next_run(core.draining.cursor(), RUN_UNITS) else { break };
        core.draining.pass(&run);
        units += run.contents.len();
        let parts = u64::from(run.parts.count_ones()) * 512;
        bytes = bytes.saturating_sub(parts * run.contents.len() as u64);
        runs.push(run);
    }
    runs
}

async fn write_run(core: &Core, run: &mut Run) -> Result<(), MediaError> {
    let (array, span) = (&core.array, SpanId::NONE);
    if run.parts == u8::MAX {
        let mut contents = run.contents.clone();
        return array.write(span, run.first, &mut contents, false).await;
    }
    let Some(content) = run.contents.first() else { return Ok(()) };
    for (offset, bytes) in runs_of(run.parts) {
        if array.takes_parts(offset, bytes) {
            array.write_part(span, run.first, offset, bytes, content, false).await?;
        } else {
            let parts = run.parts;
            let mut whole = [0; 4096];
            content.write_to(&mut whole);
            let edit = |unit: &mut [u8; 4096], marred: &mut u8| {
                runs_of(parts).for_each(|(offset, bytes)| {
                    let range = offset as usize..(offset + bytes) as usize;
                    unit[range.clone()].copy_from_slice(&whole[range]);
                });
                *marred &= !parts;
            };
            return array.edit(span, run.first, edit, false).await;
        }
    }
    Ok(())
}
