//! Looks for commands that the controller keeps too long: takes completions of which no interrupt has told, aborts what
//! is overdue still, and if that doesn't help resets the controller.

use crate::driver::Driver;
use crate::queue::{QueuePair, Request};
use byteway_clock::Delay;
use byteway_wire::nvme::Abort;

/// Watches all queues of `driver` until the controller is gone. Each look arms a timer, so a simulation in which this
/// runs never stands still.
pub(crate) async fn watch(driver: Driver, timeout: Delay) {
    let period = driver.0.config.timeout_period.max(Delay::from_us(1));
    loop {
        driver.0.clock.timer(period).await;
        if driver.check_up().is_err() {
            return;
        }
        let mut hopeless = false;
        driver.0.each_queue(|pair| hopeless |= look(&driver, pair, timeout));
        if hopeless && driver.reset().await.is_err() {
            return;
        }
    }
}

/// Aborts what is overdue in one queue. True if only a reset can help.
fn look(driver: &Driver, pair: &QueuePair, timeout: Delay) -> bool {
    if pair.submission.overdue(0, timeout).is_some() {
        pair.completion.drain(); // its interrupt may have been lost
    }
    let mut next = 0;
    while let Some((cid, aborting)) = pair.submission.overdue(next, timeout) {
        let qid = pair.qid();
        if aborting || qid == 0 {
            return true; // its Abort has not helped, or it is an admin command
        }
        // Nobody waits for the Abort's own completion; if it doesn't come, it will be overdue itself.
        let abort = Request::from(Abort { sqid: qid, cid }.sqe(0));
        if driver.0.admin.submission.try_submit(abort).is_none() {
            return false; // no room: the next look tries again
        }
        pair.submission.note_abort(cid);
        next = cid + 1;
    }
    false
}
