//! The tasks that wait for programs.

use crate::ftl::core::Core;
use crate::ftl::map::commits::pay_for_commits;
use crate::ftl::write::dispatch::dispatch;
use crate::ftl::write::finish::{finish, is_spoilt, send_back};
use crate::ftl::write::standstill::look_for_an_end;
use crate::hardware::FlashCommands;
use byteway_clock::SpanId;
use std::rc::Rc;

/// The task of a writer: completes the programs of one job after another.
pub(in crate::ftl) async fn run(core: Rc<Core>, index: usize) {
    let writer = &core.writers[index];
    loop {
        writer.start.notified().await;
        let outcome = writer.ticket.wait().await;
        if core.placement.has_hardware() {
            let units = core.state.borrow().filling.jobs[index].slots.len() as u64;
            let (clock, commands) = (&core.clock, FlashCommands::programs(units));
            core.placement.command_hardware(clock, SpanId::NONE, clock.spans(), commands).await;
        }
        writer.ticket.clear();
        if outcome.failed {
            core.state.borrow_mut().counters.program_failures += 1;
            send_back(&core, index as u32);
        } else if is_spoilt(&core, index) {
            send_back(&core, index as u32);
        } else {
            finish(&core, index as u32);
        }
        dispatch(&core);
        look_for_an_end(&core);
        core.pay_for_changes().await;
        pay_for_commits(&core).await;
    }
}
