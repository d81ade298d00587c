//! The watchdog of commands that the controller keeps too long: it takes completions whose interrupt was lost, aborts
//! commands that are still overdue, and resets the controller if that does not help. A reset has commands of its own;
//! if one of those is overdue, the controller is given up.

use crate::driver::Driver;
use crate::error::Lost;
use crate::queue::{QueuePair, Request, State};
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
            let driver = driver.clone();
            driver.0.clock.clone().spawn("reset", async move { drop(driver.reset().await) });
        }
    }
}

/// Checks the commands of a reset.
fn look_at_reset(driver: &Driver, timeout: Delay) {
    let admin = &driver.0.admin;
    // Before the controller is enabled again, only commands from before the reset are there.
    let is_overdue = || admin.submission.is(State::Live) && admin.submission.overdue(0, timeout).is_some();
    if is_overdue() {
        admin.completion.drain(); // its interrupt may have been lost
    }
    if is_overdue() {
        driver.0.give_up(Lost::Failed);
    }
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
