//! The Keep Alive Timer (NVMe Base 2.1, 3.9 and 5.1.25.1.8): detects an unreachable host.
//!
//! Over PCIe no host needs it, so it is off until a host sets a timeout. Keep Alive restarts it, and so does
//! any other command (CTRATT.TBKAS): at expiry the timer checks whether a submission queue entry was fetched,
//! so a silence of between one and two timeouts expires it. The controller then adds an entry to the error
//! log, processes no further command and sets CSTS.CFS until it is reset.

use crate::controller::core::Core;
use crate::controller::queue::ring::QueueFate;
use byteway_clock::Delay;
use byteway_wire::nvme::register::{Cc, Csts};
use byteway_wire::nvme::{Sqe, Status};
use std::rc::Rc;

/// Granularity of the timeout, in units of 100 ms (KAS).
pub const GRANULARITY: u16 = 1;
const GRANULARITY_MS: u32 = GRANULARITY as u32 * 100;

/// Sets the timeout in milliseconds, rounded up to the granularity, and restarts the timer; 0 turns it off.
///
/// # Errors
/// Keep Alive Timeout Invalid: the rounded value exceeds what Get Features can report.
pub fn set(core: &Rc<Core>, timeout_ms: u32) -> Result<(), Status> {
    let rounded = timeout_ms.checked_next_multiple_of(GRANULARITY_MS);
    let rounded = rounded.ok_or(Status::KEEP_ALIVE_INVALID.with_dnr())?;
    let timer = &core.features.keep_alive;
    if let Some(task) = timer.task.take() {
        core.clock.kill(task); // it may sleep longer than the new timeout
    }
    core.features.keep_alive_ms.set(rounded);
    if rounded > 0 {
        restart(core);
        timer.task.set(Some(core.clock.spawn("keep alive", run(core.clone()))));
    }
    Ok(())
}

/// Restarts the timer: the host is alive.
pub fn restart(core: &Core) {
    let timeout = Delay::from_ms(core.features.keep_alive_ms.get().into());
    core.features.keep_alive.until.set(core.clock.now() + timeout);
    core.features.keep_alive.fetched.set(core.counters.fetched.get());
}

async fn run(core: Rc<Core>) {
    while is_active(&core) {
        let (now, until) = (core.clock.now(), core.features.keep_alive.until.get());
        if now < until {
            core.clock.timer(until.since(now)).await;
        } else if core.counters.fetched.get() > core.features.keep_alive.fetched.get() {
            restart(&core);
        } else {
            return expire(&core);
        }
    }
}

/// Whether the timer runs: a reset turns it off, and a shutdown stops it (NVMe Base 2.1, 3.9).
fn is_active(core: &Core) -> bool {
    let (cc, csts) = (core.registers.cc.get(), core.registers.csts.get());
    core.features.keep_alive_ms.get() > 0
        && cc.en()
        && cc.shn() == Cc::SHN_NONE
        && csts.rdy()
        && csts.shst() == Csts::SHST_NORMAL
}

fn expire(core: &Core) {
    // The error belongs to no queue and no command.
    core.errors.record(u16::MAX, &Sqe::new(0, u16::MAX, 0), Status::KEEP_ALIVE_EXPIRED, 0, 0);
    // Commands in flight end without completions, as in a reset.
    core.queues.set_fates(QueueFate::Reset);
    core.fail();
}
