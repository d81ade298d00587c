//! The watchdog of commands that the controller keeps too long: it takes completions whose interrupt was lost, aborts
//! commands that are still overdue, and resets the controller if that does not help. A reset has commands of its own;
//! if one of those is overdue, the controller is given up. A controller beyond a network that does not react is not asked to
//! reset itself: its connections are closed, and another one is connected, as Linux does.

use crate::driver::controller::Driver;
use crate::driver::port::Port;
use crate::driver::queue::{QueuePair, Request, State};
use crate::error::Lost;
use byteway_clock::Delay;
use byteway_wire::nvme::Abort;

/// Watches all queues of `driver`, and its commit records, until the controller is gone. Each check arms a timer, so a
/// simulation with a watchdog never stalls.
pub(crate) async fn watch(driver: Driver, timeout: Delay) {
    let period = driver.0.config.timeout_period.max(Delay::from_us(1));
    loop {
        driver.0.clock.timer(period).await;
        if driver.check_up().is_err() {
            return;
        }
        if driver.is_resetting() {
            look_at_reset(&driver, timeout);
            continue;
        }
        let mut hopeless = driver.0.extensions.commits_are_overdue(timeout);
        driver.0.each_queue(|pair| hopeless |= look(&driver, pair, timeout));
        if hopeless {
            reset(&driver);
        }
    }
}

/// Watches the commands by which `driver` takes the controller over: if one is overdue, or the connection is lost, the
/// controller is given up. For real time, where a peer may do anything.
pub(crate) async fn watch_attachment(driver: Driver, timeout: Delay) {
    let period = driver.0.config.timeout_period.max(Delay::from_us(1));
    loop {
        match &driver.0.port {
            Port::Fabric(initiator) => _ = driver.0.clock.within(period, initiator.lost()).await,
            Port::Link(_) | Port::Shared(_) => driver.0.clock.timer(period).await,
        }
        let is_lost = matches!(&driver.0.port, Port::Fabric(initiator) if initiator.is_lost());
        if is_lost || is_overdue(&driver, timeout) {
            return driver.0.give_up(if is_lost { Lost::Disconnected } else { Lost::TimedOut });
        }
    }
}

/// Resets a controller that has not completed a command, in a task of its own.
fn reset(driver: &Driver) {
    tracing::warn!("{}: a command is overdue: resetting the controller", driver.name());
    match &driver.0.port {
        Port::Fabric(initiator) => initiator.lose(), // the driver resets whenever a controller is lost
        Port::Link(_) | Port::Shared(_) => {
            let driver = driver.clone();
            driver.0.clock.clone().spawn("reset", async move { drop(driver.reset().await) });
        }
    }
}

/// Checks the commands of a reset.
fn look_at_reset(driver: &Driver, timeout: Delay) {
    if is_overdue(driver, timeout) {
        match &driver.0.port {
            Port::Fabric(initiator) => initiator.lose(),
            Port::Link(_) | Port::Shared(_) => driver.0.give_up(Lost::Failed),
        }
    }
}

/// Whether an admin command of a reset, or of the initialization, is overdue.
fn is_overdue(driver: &Driver, timeout: Delay) -> bool {
    let admin = &driver.0.admin;
    // Before the controller is enabled again, only commands from before the reset are there.
    let is_overdue = || admin.submission.is(State::Live) && admin.submission.overdue(0, timeout).is_some();
    if is_overdue() {
        admin.completion.drain(); // its interrupt may have been lost
    }
    is_overdue()
}

/// Aborts overdue commands of a queue. `true` if only a reset can help.
fn look(driver: &Driver, pair: &QueuePair, timeout: Delay) -> bool {
    if pair.submission.overdue(0, timeout).is_some() {
        pair.completion.drain(); // its interrupt may have been lost
    }
    let mut next = 0;
    while let Some((cid, aborting)) = pair.submission.overdue(next, timeout) {
        let qid = pair.qid();
        if aborting || qid == 0 {
            return true; // its Abort did not help, or it is an admin command
        }
        tracing::warn!(
            "{}: no completion of a command on queue {qid} within {timeout}: aborting it",
            driver.name()
        );
        // No task waits for the Abort's own completion; if that does not arrive, the Abort becomes overdue itself.
        let abort = Request::from(Abort { sqid: qid, cid }.sqe(0));
        if driver.0.admin.submission.try_submit(abort).is_none() {
            return false; // no credit: the next check tries again
        }
        pair.submission.note_abort(cid);
        next = cid + 1;
    }
    false
}
