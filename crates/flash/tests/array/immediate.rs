//! Under `timing = "none"` modelled times are zero.

use crate::array::fixture::{GEOMETRY, at, batch, flash, stamp, timing};
use byteway_clock::{Executor, Timing};
use byteway_flash::{BlockId, Priority};

// A served drive without modelled latencies must not wait, or stop, for timers that are never armed.
#[test]
fn operations_are_done_when_they_are_submitted() {
    let executor = Executor::new();
    let flash = flash(executor.clock(), GEOMETRY, timing());
    let clock = executor.clock().clone();
    let main = async move {
        clock.yield_now().await;
        let before = clock.counters();
        let block = BlockId(2);
        for stripe in 0..6 {
            let ticket = flash.ticket();
            flash.submit_program(block, stripe, batch(&flash, 8 * stripe, 1), Priority::HostProgram, &ticket);
            assert_eq!(ticket.remaining(), 0);
            flash.submit_read(at(&flash, 0, 2, stripe), 0b10, Priority::HostRead, &ticket);
            assert!(!ticket.wait().await.failed);
            assert_eq!(ticket.content(0), stamp(u64::from(8 * stripe) + 1, 1));
        }
        assert!(!flash.erase(block).await.failed);
        assert_eq!((flash.erases(block), clock.counters()), (1, before));
        // Yet a task that does nothing else lets others run.
        let mut out = Vec::new();
        for _ in 0..1000 {
            out.clear();
            flash.read(&[at(&flash, 0, 0, 0)], Priority::HostRead, &mut out).await;
        }
        assert!(clock.counters().polls - before.polls >= 1000 / 64);
    };
    executor.run_real(Timing::None, None, main).expect("nothing hangs");
}
