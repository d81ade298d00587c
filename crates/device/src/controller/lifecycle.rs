//! The lifecycle of a controller: enable, disable, shutdown, function-level reset (NVMe Base 2.1, 3.5 to 3.7).

use crate::config::CommandSet;
use crate::controller::command_set::CommandSets;
use crate::controller::core::Core;
use crate::controller::queue::arbiter::Mechanism;
use crate::controller::queue::ring::{CompletionQueue, QueueFate, SubmissionQueue};
use crate::controller::state::counters::add;
use byteway_clock::SpanId;
use byteway_wire::nvme::feature::{InterruptCoalescing, fid};
use byteway_wire::nvme::register::{Cc, Csts};
use byteway_wire::nvme::{Doorbell, QueuePriority};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

/// Performs a function-level reset, and waits until it is done and nothing is in flight to the host.
pub async fn reset_function(core: &Core) {
    let resets = &core.lifecycle.resets;
    let number = resets.ask();
    // Clear CC at once, so that an enabling in progress sees it and ends.
    core.registers.cc.set(Cc::new());
    core.lifecycle.changed.notify_one();
    resets.done(number).await;
    core.settle().await;
}

/// A transition that the host has requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    PutBack,
    Disable,
    Enable,
    ShutDown,
}

/// Follows CC. Requests that arrive during a transition are examined after it, except that they end a shutdown early.
pub async fn run(sets: Rc<CommandSets>) {
    let core = &sets.core;
    loop {
        core.lifecycle.changed.notified().await;
        while let Some(step) = next_step(core) {
            let running = is_running(core);
            core.registers.disabled.set(false);
            core.lifecycle.is_changing.set(true);
            match step {
                Step::PutBack => put_back(&sets, running).await,
                Step::Disable => disable(&sets).await,
                Step::Enable => enable(&sets).await,
                Step::ShutDown => unless_preempted(core, shut_down(&sets)).await,
            }
            core.lifecycle.is_changing.set(false);
        }
    }
}

fn is_running(core: &Core) -> bool {
    let csts = core.registers.csts.get();
    csts.rdy() || csts.cfs()
}

/// The next transition. Resets come first.
fn next_step(core: &Core) -> Option<Step> {
    let (cc, csts) = (core.registers.cc.get(), core.registers.csts.get());
    let running = is_running(core);
    if core.lifecycle.resets.is_pending() {
        return Some(Step::PutBack);
    }
    match (core.registers.disabled.get() || !cc.en(), running) {
        (true, true) => Some(Step::Disable),
        _ if cc.en() && !running => Some(Step::Enable),
        _ if cc.shn() != Cc::SHN_NONE && csts.shst() == Csts::SHST_NORMAL => Some(Step::ShutDown),
        _ => None,
    }
}

/// Runs `shutdown` until a reset or an enabling arrives: a Controller Level Reset aborts a shutdown in progress (NVMe
/// Base 2.1, 3.6.1 and 3.7.2), and is the only remedy of a host whose shutdown takes too long. The next transition
/// resets CSTS.SHST. Writes that the firmware has started complete by themselves.
async fn unless_preempted(core: &Core, shutdown: impl Future<Output = ()>) {
    let mut shutdown = pin!(shutdown);
    let mut preempted = pin!(async {
        while next_step(core).is_none() {
            core.lifecycle.changed.notified().await;
        }
    });
    poll_fn(|context| match shutdown.as_mut().poll(context) {
        Poll::Ready(()) => Poll::Ready(()),
        Poll::Pending => preempted.as_mut().poll(context),
    })
    .await;
}

async fn enable(sets: &CommandSets) {
    let core = &sets.core;
    core.clock.timer(core.config.controller.ready_delay).await;
    core.background.persistence.restored().await;
    core.background.persistence.begin_use(core.number);
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
        cc.mps() <= registers.cap.mpsmax() && is_offered(core, cc) && sq_entries >= 2 && cq_entries >= 2;
    let (Some(mechanism), true) = (mechanism, possible) else {
        // The host selected what CAP does not offer. The specification leaves this undefined; report a fatal status.
        core.fail();
        return;
    };
    core.inventory.all_sets.set(cc.css() == Cc::CSS_ALL);
    registers.page_bytes.set(cc.page_bytes());
    core.features.reset();
    core.interrupts.reset();
    core.set_saved_coalescing();
    core.queues.arbiter.reset(mechanism, core.features.weights());
    core.queues.clear();
    for doorbell in [Doorbell::SubmissionTail(0), Doorbell::CompletionHead(0)] {
        core.queues.announce(doorbell);
    }
    let acq = CompletionQueue::new(0, registers.acq.get(), cq_entries, Some(0));
    let asq = SubmissionQueue::new(
        &core.clock,
        0,
        registers.asq.get(),
        sq_entries,
        acq.clone(),
        QueuePriority::Urgent,
    );
    core.queues.add_completion(acq);
    core.queues.add_submission(asq.clone());
    core.queues.arbiter.add(asq);
    core.backing.ready().await;
    sets.ready().await;
    registers.csts.set(Csts::new().with_rdy(true));
}

/// Whether the command sets that CC selects are supported.
fn is_offered(core: &Core, cc: Cc) -> bool {
    match cc.css() {
        Cc::CSS_NVM => true,
        Cc::CSS_ALL => CommandSet::are_several(&core.config),
        _ => false,
    }
}

impl Core {
    /// Applies the saved interrupt coalescing.
    fn set_saved_coalescing(&self) {
        if let Some(value) = self.features.saved_value(fid::INTERRUPT_COALESCING, 0) {
            let mask = self.registers.interrupt_mask.get();
            self.interrupts.set_coalescing(InterruptCoalescing::from_bits(value), mask);
        }
    }
}

/// Controller reset: aborts all commands without completions, and clears RDY when all have ended.
async fn disable(sets: &CommandSets) {
    let core = &sets.core;
    core.queues.shadow.clear();
    // From here on commands end at their next check, and nothing further is fetched.
    core.queues.set_fates(QueueFate::Reset);
    core.parked.clear(core.config.controller.io_queues_max);
    sets.lending.clear();
    core.borrowed.end();
    if let Some(act) = core.on_reset.get() {
        act();
    }
    core.memory.commits.switch_off();
    sets.reset();
    core.events.clear();
    core.background.operations.wake_commands(); // commands that wait for a change see their queue's fate
    core.end_short_self_test();
    // Every command must have ended before the memory and queues that it may use are cleared.
    core.slots.drain().await;
    core.return_host_buffer().await; // once RDY is clear, the host may reuse its memory
    core.memory.clear();
    core.events.clear(); // doorbell errors may have been raised during the drain
    debug_assert!(core.slots.all_free(), "a command that has ended still holds a command slot");
    debug_assert!(core.queues.permits_are_free(), "a command that has ended still holds a completion slot");
    core.interrupts.reset(); // no completion from before the reset may be announced after it
    core.queues.arbiter.reset(Mechanism::RoundRobin, core.features.weights());
    core.queues.clear();
    core.queues.granted.set(None);
    core.registers.reset();
    core.unbar(None); // the next host identifies every namespace before it uses one
    core.features.timestamp.reset(core.clock.now());
    add(&core.counters.resets, 1);
}

/// Performs all requested function-level resets: they count as one.
async fn put_back(sets: &CommandSets, running: bool) {
    let core = &sets.core;
    if running {
        disable(sets).await;
    }
    core.memory.clear(); // also what the host stored while the controller was disabled
    core.registers.power_on();
    core.port.lose_writes(); // an earlier write of CC.EN that is still in flight would undo the reset
    // Only now do waiting callers of `reset_function` continue: all registers are reset.
    core.lifecycle.resets.end();
}

/// Shutdown: flushes the write buffer. When the last controller in use shuts down, the drive also writes the state that
/// recovery would have to rebuild.
async fn shut_down(sets: &CommandSets) {
    let core = &sets.core;
    let registers = &core.registers;
    registers.csts.set(registers.csts.get().with_shst(Csts::SHST_OCCURRING));
    core.return_host_buffer().await; // after the shutdown the host may reuse it
    // At the end of the drive's life there may be no space for all of it. A shutdown has no status to report that.
    let _ = sets.flush(SpanId::NONE).await;
    if core.background.persistence.end_use(core.number) {
        let _ = core.backing.shutdown(SpanId::NONE, core.port.spans()).await;
        core.background.persistence.shut_down();
    } else {
        let _ = core.flush().await;
    }
    core.store().await;
    registers.csts.set(registers.csts.get().with_shst(Csts::SHST_COMPLETE));
}
