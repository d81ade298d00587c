//! Waiting for tickets, and dropping them.

use crate::array::fixture::{GEOMETRY, at_ns};
use crate::array::fixture::{at, base, batch, flash, read_one, run, timing};
use byteway_clock::{Delay, Executor};
use byteway_flash::{BlockId, Priority};

// An aborted command drops its ticket; its operations belong to the drive and must neither stop a die nor
// keep the ticket's node forever.
#[test]
fn dropped_tickets_leave_their_operations_and_nothing_else() {
    run(async |flash, clock| {
        let ticket = flash.ticket();
        flash.submit_program(BlockId(2), 0, batch(&flash, 0, 1), Priority::HostProgram, &ticket);
        flash.submit_read(at(&flash, 0, 0, 0), 0xff, Priority::HostRead, &ticket);
        drop(ticket);
        // Takes another node: the first is in use until its operations are done.
        let other = read_one(&flash, 1, 0, Priority::HostRead);
        assert_eq!(flash.tickets_in_use(), 2);
        other.wait().await;
        assert_eq!(other.content(0), base(at(&flash, 1, 0, 0).0));
        drop(other);
        clock.sleep(Delay::from_ms(1)).await;
        assert_eq!((flash.tickets_in_use(), flash.pending(0)), (0, 0));
        assert_eq!(flash.programmed_stripes(BlockId(2)), 1);
        assert_eq!(flash.counters().units_read[0], 9);
    });
}

// Power loss and reset kill tasks at any wait.
#[test]
fn a_task_may_be_killed_at_any_time() {
    for ns in (0..400_000).step_by(7_001) {
        let executor = Executor::new();
        let flash = flash(executor.clock(), GEOMETRY, timing());
        let user = flash.clone();
        let task = executor.clock().spawn("user", async move {
            let mut out = Vec::new();
            loop {
                user.read(&[at(&user, 0, 0, 0), at(&user, 1, 0, 1)], Priority::HostRead, &mut out).await;
                let stripe = user.programmed_stripes(BlockId(2));
                user.program(BlockId(2), stripe, batch(&user, 0, 1), Priority::HostProgram).await;
            }
        });
        let (clock, user) = (executor.clock().clone(), flash.clone());
        let outcome = executor.run(async move {
            clock.sleep(Delay::from_ns(ns)).await;
            clock.kill(task);
            clock.sleep(Delay::from_ms(1)).await;
            assert_eq!(user.tickets_in_use(), 0);
            read_one(&user, 0, 0, Priority::HostRead).wait().await
        });
        assert_eq!(outcome.expect("nothing hangs").queued, Delay::ZERO, "killed at {ns} ns");
    }
}

// A reused ticket must report the outcome of its latest job, not of the earlier one.
#[test]
fn a_ticket_serves_again() {
    run(async |flash, clock| {
        let ticket = flash.ticket();
        assert!(!ticket.wait().await.failed, "nothing to wait for");
        flash.submit_erase(BlockId(99), Priority::Collector, &ticket);
        assert!(ticket.wait().await.failed);
        for page in 0..3 {
            ticket.clear();
            assert_eq!(flash.submit_read(at(&flash, 0, 0, page), 0b10, Priority::HostRead, &ticket), 0);
            assert_eq!(flash.submit_read(at(&flash, 1, 0, page), 0b11, Priority::HostRead, &ticket), 1);
            assert!(!ticket.wait().await.failed);
            let mut out = Vec::new();
            ticket.take_contents(&mut out);
            let (first, second) = (at(&flash, 0, 0, page).0, at(&flash, 1, 0, page).0);
            assert_eq!(out, [base(first + 1), base(second), base(second + 1)]);
            assert_eq!(ticket.units(), 0);
        }
        drop(ticket);
        assert_eq!(flash.tickets_in_use(), 0);
        assert!(clock.now() > at_ns(0));
    });
}

// A drive that is removed from a running simulation must not leave its dies behind.
#[test]
fn the_dies_go_with_the_array() {
    let executor = Executor::new();
    let flash = flash(executor.clock(), GEOMETRY, timing());
    drop(read_one(&flash, 0, 0, Priority::HostRead));
    drop(flash);
    let stalled = executor.run(std::future::pending::<()>()).unwrap_err();
    assert_eq!(stalled.waiting, [("main", 1)]);
}
