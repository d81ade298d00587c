//! Enable, disable, shutdown (NVMe Base 2.1, 3.5 to 3.7).

use crate::controller::arbiter::Mechanism;
use crate::controller::log::add;
use crate::controller::queue::{CompletionQueue, Fate};
use crate::controller::{Core, queue::SubmissionQueue};
use byteway_clock::SpanId;
use byteway_wire::nvme::QueuePriority;
use byteway_wire::nvme::register::{Cc, Csts};
use std::rc::Rc;

/// Follows CC: whatever the host asks for while a change is under way is looked at when that is done.
pub async fn run(core: Rc<Core>) {
    loop {
        core.lifecycle.notified().await;
        loop {
            let (cc, csts) = (core.registers.cc.get(), core.registers.csts.get());
            let running = csts.rdy() || csts.cfs();
            let disabled = core.registers.disabled.take() || !cc.en();
            if disabled && running {
                disable(&core).await;
            } else if cc.en() && !running {
                enable(&core).await;
            } else if cc.shn() != Cc::SHN_NONE && csts.shst() == Csts::SHST_NORMAL {
                shut_down(&core).await;
            } else {
                break;
            }
        }
    }
}

async fn enable(core: &Rc<Core>) {
    core.clock.timer(core.config.controller.ready_delay).await;
    let registers = &core.registers;
    let cc = registers.cc.get();
    if !cc.en() {
        return;
    }
    let aqa = registers.aqa.get();
    let (sq_entries, cq_entries) = (u32::from(aqa.asqs_z()) + 1, u32::from(aqa.acqs_z()) + 1);
    let mechanism = match cc.ams() {
        Cc::AMS_ROUND_ROBIN => Some(Mechanism::RoundRobin),
        Cc::AMS_WEIGHTED_ROUND_ROBIN => Some(Mechanism::WeightedRoundRobin),
        _ => None,
    };
    let possible =
        cc.mps() <= registers.cap.mpsmax() && cc.css() == Cc::CSS_NVM && sq_entries >= 2 && cq_entries >= 2;
    let (Some(mechanism), true) = (mechanism, possible) else {
        // The host asked for what CAP doesn't offer: undefined by the specification; the host sees a fatal status.
        core.fail();
        return;
    };
    registers.page_bytes.set(cc.page_bytes());
    core.features.reset();
    core.interrupts.reset();
    core.arbiter.reset(mechanism, core.features.weights());
    core.reset_queues();
    let acq = CompletionQueue::new(0, registers.acq.get(), cq_entries, Some(0));
    let asq = SubmissionQueue::new(
        &core.clock,
        0,
        registers.asq.get(),
        sq_entries,
        acq.clone(),
        QueuePriority::Urgent,
    );
    {
        let mut queues = core.queues.borrow_mut();
        queues.completion[0] = Some(acq);
        queues.submission[0] = Some(asq.clone());
    }
    core.arbiter.add(asq);
    registers.csts.set(Csts::new().with_rdy(true));
}

/// Controller reset: no command runs on, none completes; when all have ended, RDY is cleared.
async fn disable(core: &Rc<Core>) {
    for queue in core.queues.borrow().submission.iter().flatten() {
        queue.fate.set(Fate::Reset);
    }
    core.events.clear();
    while core.in_flight.get() > 0 {
        core.quiet.notified().await;
    }
    core.events.clear(); // doorbells may have rung meanwhile
    debug_assert!(core.permits_are_free(), "a command that has ended has given back its place");
    core.interrupts.reset(); // nothing is announced after a reset that was completed before
    core.arbiter.reset(Mechanism::RoundRobin, core.features.weights());
    core.reset_queues();
    core.queues_granted.set(None);
    core.registers.reset();
    add(&core.counters.resets, 1);
}

/// Shutdown: what is in the write buffer goes to flash.
async fn shut_down(core: &Rc<Core>) {
    let registers = &core.registers;
    registers.csts.set(registers.csts.get().with_shst(Csts::SHST_OCCURRING));
    core.ftl.flush(SpanId::NONE, core.port.spans()).await;
    registers.csts.set(registers.csts.get().with_shst(Csts::SHST_COMPLETE));
}
